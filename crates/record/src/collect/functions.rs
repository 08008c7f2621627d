//! Finds the functions around offsets of an ELF file, by symbol tables, Go's table and PLT stubs.

use std::cell::OnceCell;
use std::ops::Range;

use icecore_elf::{Beginnings, Capped, EhFrameHdr, FileOff, Layout, Svma, Symbol, SymbolTable, go, plt};
use object::read::ReadRef;

/// The largest table that is read, bytes: more than two million symbols.
const MAX_TABLE_BYTES: u64 = 64 << 20;

/// A function, by offsets in its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    pub start: u64,
    /// The offset after its last byte; if no table has its size, the offset after the last requested one.
    pub end: u64,
    /// Address of its first byte by the headers of the file.
    pub address: Svma,
    /// Address of the function of which this is a part.
    pub whole: Svma,
    /// As the tables have them, mangled, the best one first; for a PLT stub the name of its target and `@plt`. Empty if only unwind
    /// tables tell of the function.
    pub names: Vec<Vec<u8>>,
    /// The source file of a local function; empty if it is unknown.
    pub file: Vec<u8>,
}

/// A requested offset, and its address by the headers of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Requested {
    pub(super) off: FileOff,
    pub(super) at: Svma,
}

/// What a source of names has around each address.
pub(super) type Symbols<'d> = Option<Vec<Option<Symbol<'d>>>>;

impl Requested {
    /// Converts the addresses of a function to offsets; `None` if they are invalid.
    fn function(&self, symbol: Symbol<'_>) -> Option<Function> {
        let Symbol { start: address, len, name, aliases, file, whole } = symbol;
        let start = self.off.0.checked_sub(self.at.0.checked_sub(address.0)?)?;
        let end = if len > 0 { start.checked_add(len)? } else { self.off.0 + 1 };
        let names = [name.into_owned()].into_iter().chain(aliases.into_iter().map(<[u8]>::to_vec));
        let (names, file) = (names.collect(), file.unwrap_or_default().to_vec());
        Some(Function { start, end, address, whole, names, file })
    }

    /// Converts the extent of a function without a name.
    fn nameless(&self, extent: Range<Svma>) -> Option<Function> {
        let address = extent.start;
        let start = self.off.0.checked_sub(self.at.0.checked_sub(address.0)?)?;
        let end = start.checked_add(extent.end.0.checked_sub(address.0)?)?;
        Some(Function { start, end, address, whole: address, names: Vec::new(), file: Vec::new() })
    }
}

/// Finds the functions around offsets of a file, each once, in order. `debug` is the file with its debug information. Skips
/// offsets for which the files have no function, or an invalid one: anyone may have written these files.
pub fn functions<'d, 'e, R: ReadRef<'d>, D: ReadRef<'e>>(
    file: R,
    debug: Option<D>,
    offsets: impl Iterator<Item = u64>,
) -> Vec<Function> {
    let Some(layout) = layout(file) else { return Vec::new() };
    let mut requested = addresses(&layout, offsets);
    requested.sort_unstable_by_key(|requested| requested.at);
    requested.dedup_by_key(|requested| requested.at);
    let mut found = Vec::new();
    let hdr = OnceCell::new();
    let start = |at| {
        let hdr = hdr.get_or_init(|| EhFrameHdr::of_file(capped(file), &layout)).as_ref()?;
        hdr.start(capped(file), &layout, at)
    };
    let referred = |wanted: &[Range<Svma>]| icecore_elf::referred(capped(file), &layout, wanted);
    let beginnings = Beginnings { unwound: &start, referred: &referred };
    let around = |table: SymbolTable, at: &[Svma]| table.around(capped(file), at, beginnings);
    // The source with the most names comes first, as in a report: the table of a stripped file has fewer names for one function.
    take(&mut requested, &mut found, |at| around(SymbolTable::Static, at));
    if let Some(debug) = debug {
        take(&mut requested, &mut found, |at| SymbolTable::Static.around(capped(debug), at, beginnings));
    }
    take(&mut requested, &mut found, |at| around(SymbolTable::Dynamic, at));
    take(&mut requested, &mut found, |at| of_go(file, &layout, at));
    take(&mut requested, &mut found, |at| Some(stubs(file, &layout, at)));
    // Code without a name is at least one function everywhere.
    let extent = |requested: &Requested| {
        let hdr = hdr.get_or_init(|| EhFrameHdr::of_file(capped(file), &layout)).as_ref()?;
        let extent = hdr.extent(capped(file), &layout, requested.at)?;
        requested.nameless(extent).filter(|_| layout.is_code(requested.at))
    };
    found.extend(requested.iter().filter_map(extent));
    found.sort_unstable();
    // Each offset of a function finds it again. Of those without a size, the longest comes last.
    let mut functions: Vec<Function> = Vec::new();
    for function in found {
        match functions.last_mut() {
            Some(last) if last.start == function.start => *last = function,
            _ => functions.push(function),
        }
    }
    functions
}

/// Finds the functions around addresses in the table of Go, which stripping leaves.
fn of_go<'d>(file: impl ReadRef<'d>, layout: &Layout, at: &[Svma]) -> Symbols<'d> {
    let table = go::open(capped(file), layout)?;
    Some(at.iter().map(|at| table.function(at.0).map(Symbol::from)).collect())
}

/// Finds the PLT stubs around addresses, and names them as objdump does.
fn stubs<'d>(file: impl ReadRef<'d>, layout: &Layout, at: &[Svma]) -> Vec<Option<Symbol<'d>>> {
    let named = |symbol: Symbol<'d>| {
        let name = [&symbol.name, plt::SUFFIX.as_bytes()].concat();
        Symbol::new(symbol.start, symbol.len, name.into())
    };
    plt::around(capped(file), layout, at).into_iter().map(|symbol| symbol.map(named)).collect()
}

/// Reads the headers of a 64-bit little-endian file; `None` for others.
pub(super) fn layout<'d>(file: impl ReadRef<'d>) -> Option<Layout> {
    Layout::read(file).filter(Layout::is_little_64)
}

/// Bounds every read, because the reader keeps what it has read; no table may be larger.
pub(super) fn capped<R>(file: R) -> Capped<R> {
    Capped { file, most_bytes: MAX_TABLE_BYTES }
}

/// Finds the addresses of offsets; skips offsets outside of the code.
pub(super) fn addresses(layout: &Layout, offsets: impl Iterator<Item = u64>) -> Vec<Requested> {
    let requested = |off| Some(Requested { off: FileOff(off), at: layout.code(FileOff(off))? });
    offsets.filter_map(requested).collect()
}

/// Asks one source for the offsets that still have no function, and removes those that it answers.
fn take<'d>(
    requested: &mut Vec<Requested>,
    found: &mut Vec<Function>,
    source: impl FnOnce(&[Svma]) -> Symbols<'d>,
) {
    let at: Vec<Svma> = requested.iter().map(|requested| requested.at).collect();
    if at.is_empty() {
        return;
    }
    let Some(around) = source(&at) else { return };
    let mut around = around.into_iter();
    requested.retain(|requested| {
        match around.next().flatten().and_then(|around| requested.function(around)) {
            Some(function) => {
                found.push(function);
                false
            }
            None => true,
        }
    });
}

#[cfg(test)]
pub(crate) mod fixture {
    use std::process::Command;

    use icecore_elf::{FileOff, Svma};

    use super::Requested;

    /// Assembles a program, whose code begins at 0x10000.
    pub(crate) fn assembled(source: &str) -> Vec<u8> {
        linked(source, "--no-eh-frame-hdr")
    }

    /// Assembles a program with one more option of the linker.
    pub(crate) fn linked(source: &str, option: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("x.s"), source).expect("written");
        let option = format!("-Wl,{option}");
        let args =
            ["-nostdlib", "-static", "-Wl,-Ttext=0x10000", "-Wl,--build-id=none", &option, "x.s", "-o", "x"];
        let status = Command::new("cc").args(args).current_dir(dir.path()).status().expect("a compiler");
        assert!(status.success());
        std::fs::read(dir.path().join("x")).expect("just made")
    }

    /// Requests addresses, as if their offsets were the same.
    pub(in crate::collect) fn requested(at: &[u64]) -> Vec<Requested> {
        at.iter().map(|at| Requested { off: FileOff(*at), at: Svma(*at) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function of this very program.
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
        assert!(String::from_utf8_lossy(&found[0].names[0]).contains("here"), "{found:?}");
    }

    #[test]
    fn a_function_without_a_name_has_its_extent() {
        let source = "
            .cfi_startproc; .fill 16; .cfi_endproc
            .fill 16
            .type part.cold,@function; part.cold: .cfi_startproc; .fill 16; .cfi_endproc; .size part.cold, .-part.cold
            .globl part; .type part,@function; part: .fill 16; .size part, .-part
        ";
        let elf = fixture::linked(source, "--eh-frame-hdr");
        let layout = Layout::read(&elf[..]).expect("headers");
        let off = layout.rest_of_segment(Svma(0x10000)).expect("code").0.0;
        let found = functions(&elf[..], None::<&[u8]>, [0x0f, 0x10, 0x20].map(|at| off + at).into_iter());
        let told: Vec<_> =
            found.iter().map(|it| (it.start - off, it.end - off, it.whole.0, it.names.len())).collect();
        assert_eq!(told, [(0, 16, 0x10000, 0), (0x20, 0x30, 0x10030, 1)]);
    }

    #[test]
    fn what_is_no_program_has_no_functions() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        for bytes in [&[][..], &elf[..64], &elf[..elf.len() / 2], &[0; 4096]] {
            assert_eq!(functions(bytes, Some(bytes), [0, 64, u64::MAX].into_iter()), []);
        }
    }
}
