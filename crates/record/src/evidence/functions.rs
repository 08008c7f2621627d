//! Which functions of an ELF file lie around some of its offsets, as its symbol tables tell it.

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use super::rules::Table;
use super::symbol_table::SymbolTable;
use super::{go, stubs};

/// A function, by offsets in its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Function {
    pub(crate) start: u64,
    /// Behind its last byte; if nothing tells its size, behind the last offset that was asked for.
    pub(crate) end: u64,
    /// As the table has it, mangled; of a stub with `@plt` behind it.
    pub(crate) name: Vec<u8>,
}

/// An offset that is asked for, and the address that the file gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) off: u64,
    pub(super) address: u64,
}

/// What covers an address: a function, by addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Around {
    pub(super) start: u64,
    /// 0: nothing tells it.
    pub(super) len: u64,
    pub(super) name: Vec<u8>,
}

impl Asked {
    /// By offsets; `None` if they make no sense.
    fn function(&self, Around { start, len, name }: Around) -> Option<Function> {
        let start = self.off.checked_sub(self.address.checked_sub(start)?)?;
        let end = if len > 0 { start.checked_add(len)? } else { self.off + 1 };
        Some(Function { start, end, name })
    }
}

/// Finds the functions around offsets of a file; each once, in their order. `debug` is a file of debug information that
/// belongs to it. What they do not tell, or tell in a way that makes no sense, is left out: they may be anybody's.
pub(crate) fn functions<'d, 'e, R: ReadRef<'d>, D: ReadRef<'e>>(
    file: R,
    debug: Option<D>,
    offsets: impl Iterator<Item = u64>,
) -> Vec<Function> {
    let Some(mut asked) = addresses(file, offsets) else { return Vec::new() };
    asked.sort_unstable_by_key(|asked| asked.address);
    asked.dedup_by_key(|asked| asked.address);
    let mut found = Vec::new();
    // What knows most comes first, as in a report: the table of a stripped file has fewer names for a function.
    take(&mut asked, &mut found, |asked| around(file, SymbolTable::read(file, elf::SHT_SYMTAB)?, asked));
    if let Some(debug) = debug {
        take(&mut asked, &mut found, |asked| around(file, SymbolTable::read(debug, elf::SHT_SYMTAB)?, asked));
    }
    take(&mut asked, &mut found, |asked| around(file, SymbolTable::read(file, elf::SHT_DYNSYM)?, asked));
    take(&mut asked, &mut found, |asked| go::around(file, asked));
    take(&mut asked, &mut found, |asked| stubs::around(file, asked));
    found.sort_unstable();
    // A function is found once for each of its offsets. Of those without a size the longest stretch comes last.
    let mut functions: Vec<Function> = Vec::new();
    for function in found {
        match functions.last_mut() {
            Some(last) if last.start == function.start => *last = function,
            _ => functions.push(function),
        }
    }
    functions
}

/// Asks a symbol table. A symbol without a size does not reach beyond the beginning of a function that the unwind tables of
/// the file know.
fn around<'d, 't>(
    file: impl ReadRef<'d>,
    table: SymbolTable<'t, impl ReadRef<'t>>,
    asked: &[Asked],
) -> Option<Vec<Option<Around>>> {
    let mut around = table.around(asked);
    let mut rules = None;
    for (asked, around) in asked.iter().zip(&mut around) {
        if let Some(Around { start, len: 0, .. }) = around {
            let rules = rules.get_or_insert_with(|| Table::read(file));
            let begins = rules.as_ref().and_then(|rules| rules.start(file, asked.address));
            if begins.is_some_and(|begins| begins > *start) {
                *around = None;
            }
        }
    }
    Some(around)
}

/// The addresses at which a file wants offsets of its code to be.
pub(super) fn addresses<'d>(
    file: impl ReadRef<'d>,
    offsets: impl Iterator<Item = u64>,
) -> Option<Vec<Asked>> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?.iter().filter(|segment| {
        segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian).0 & elf::PF_X.0 != 0
    });
    let asked = |off: u64| {
        segments.clone().find_map(|segment| {
            let into = off.checked_sub(segment.p_offset(endian))?;
            let address = segment.p_vaddr(endian).checked_add(into)?;
            (into < segment.p_filesz(endian)).then_some(Asked { off, address })
        })
    };
    Some(offsets.filter_map(asked).collect())
}

/// Asks one source of names for what no other has told, and leaves what it does not tell either.
fn take(
    asked: &mut Vec<Asked>,
    found: &mut Vec<Function>,
    source: impl FnOnce(&[Asked]) -> Option<Vec<Option<Around>>>,
) {
    if asked.is_empty() {
        return;
    }
    let Some(around) = source(asked) else { return };
    let mut around = around.into_iter();
    asked.retain(|asked| match around.next().flatten().and_then(|around| asked.function(around)) {
        Some(function) => {
            found.push(function);
            false
        }
        None => true,
    });
}

#[cfg(test)]
pub(super) mod fixture {
    use std::process::Command;

    use super::Asked;

    /// A program that was assembled; its code begins at 0x10000.
    pub(in crate::evidence) fn assembled(source: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("x.s"), source).expect("written");
        let args = ["-nostdlib", "-static", "-Wl,-Ttext=0x10000", "-Wl,--build-id=none", "x.s", "-o", "x"];
        let status = Command::new("cc").args(args).current_dir(dir.path()).status().expect("a compiler");
        assert!(status.success());
        std::fs::read(dir.path().join("x")).expect("just made")
    }

    /// Addresses, as if offsets were the same.
    pub(in crate::evidence) fn asked(at: &[u64]) -> Vec<Asked> {
        at.iter().map(|at| Asked { off: *at, address: *at }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets and names of some functions of this very program.
    #[inline(never)]
    fn here() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn the_own_program_knows_the_function_at_an_offset() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        let maps = std::fs::read("/proc/self/maps").expect("we are running");
        let address = here as fn() -> u64 as usize as u64;
        assert_eq!(here(), 7);
        let line =
            crate::proc::maps::executable(&maps).find(|line| (line.start..line.end).contains(&address));
        let line = line.expect("our code is mapped");
        let off = address - line.start + line.file_off;
        let found = functions(&elf[..], None::<&[u8]>, [off, off + 1, 0].into_iter());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].start, off);
        assert!(String::from_utf8_lossy(&found[0].name).contains("here"), "{found:?}");
    }

    #[test]
    fn what_is_no_program_has_no_functions() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        for bytes in [&[][..], &elf[..64], &elf[..elf.len() / 2], &[0; 4096]] {
            assert_eq!(functions(bytes, Some(bytes), [0, 64, u64::MAX].into_iter()), []);
        }
    }
}
