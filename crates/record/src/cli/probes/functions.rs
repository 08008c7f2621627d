//! Finds functions in executable files by name, as offsets where a probe can lie.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use icecore_elf::{
    Capped, FileOff, Layout, Machine, Symbol, SymbolTable, go, part_of, readable, unversioned,
    without_parameters,
};
use icecore_text::glob::{is_like, is_pattern};
use icecore_text::quantity::count;
use object::read::{ReadCache, ReadRef};

use super::super::event::near;
use super::refused::{MAX_BYTES, is_refused};
use crate::collect::debug_path;
use crate::machine::build_id;
use crate::settings::{Edge, InFile, Place};

/// The most functions of one event.
const MAX_FUNCTIONS: usize = 1 << 16;
/// The largest symbol table or table of names that is read, bytes.
const MAX_TABLE_BYTES: u64 = 1 << 30;
/// What to do if there can be no probe.
const REMEDY: &str =
    "probe a caller, or another instruction: uprobe:PATH:FUNCTION+OFF (objdump -d shows them)";
/// The most functions that a note names.
const NAMED: usize = 10;

/// A file whose tables of names were read at once. Without that each name would be a system call.
#[derive(Clone, Copy)]
struct Read<'d> {
    file: Capped<&'d ReadCache<File>>,
    /// Where a table of names begins in the file, and the table.
    names: [Option<(u64, &'d [u8])>; 2],
}

impl<'d> Read<'d> {
    fn new(file: &'d ReadCache<File>, layout: &Layout) -> Self {
        let file = Capped { file, most_bytes: MAX_TABLE_BYTES };
        let names = [".strtab", ".dynstr"].map(|name| {
            let section = layout.section(name)?;
            Some((section.off.0, layout.bytes_of(section, file)?))
        });
        Self { file, names }
    }
}

impl<'d> ReadRef<'d> for Read<'d> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        let rest = |(begin, table): (u64, &'d [u8])| table.get(range.start.checked_sub(begin)? as usize..);
        let Some(rest) = self.names.into_iter().flatten().find_map(rest) else {
            return self.file.read_bytes_at_until(range, delimiter);
        };
        rest.iter().position(|byte| *byte == delimiter).map(|len| &rest[..len]).ok_or(())
    }
}

/// The functions of a file.
struct Functions<'d> {
    file: Read<'d>,
    layout: &'d Layout,
    all: Vec<Symbol<'d>>,
    /// Functions and labels without a size.
    labels: Vec<Symbol<'d>>,
    /// Functions that choose at run time which function stands for them.
    resolvers: Vec<Symbol<'d>>,
    is_stripped: bool,
    is_go: bool,
}

/// Opens the debug file of a program that the user has named, if it is installed.
fn debug_file(program: &ReadCache<File>) -> Option<File> {
    let id = build_id::of_elf(program)?;
    let debug = File::open(debug_path(&id)?).ok()?;
    (build_id::of_elf(&ReadCache::new(&debug)) == Some(id)).then_some(debug)
}

/// Calls a closure with the functions of a file.
fn with<T>(path: &Path, look: impl FnOnce(&Functions<'_>) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let file = File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?;
    let file = ReadCache::new(file);
    let debug = debug_file(&file).map(ReadCache::new);
    let layout = Layout::read(&file).with_context(|| format!("`{}` is no ELF file", path.display()))?;
    let debug_layout = debug.as_ref().and_then(Layout::read);
    let debug = debug.as_ref().zip(debug_layout.as_ref()).map(|(debug, layout)| Read::new(debug, layout));
    let read = Read::new(&file, &layout);
    let mut all = SymbolTable::Static.functions(read);
    all.extend(debug.into_iter().flat_map(|debug| SymbolTable::Static.functions(debug)));
    let go = go::open(read, &layout);
    all.extend(go.iter().flat_map(|table| table.functions()).map(Symbol::from));
    let is_stripped = all.is_empty();
    all.extend(SymbolTable::Dynamic.functions(read));
    all.retain(|function| layout.is_code(function.start));
    let mut labels: Vec<Symbol<'_>> =
        SymbolTable::ALL.into_iter().flat_map(|table| table.labels(read)).collect();
    labels.retain(|label| layout.is_code(label.start));
    let resolvers = SymbolTable::ALL.into_iter().flat_map(|table| table.resolvers(read)).collect();
    look(&Functions { file: read, layout: &layout, all, labels, resolvers, is_stripped, is_go: go.is_some() })
}

/// Finds the functions of some files that have a name, or one that matches a pattern, and the instructions `off` bytes after their
/// first ones.
///
/// # Errors
/// If there is none, or too many; with the cause, which is that of the first file if no file has one. If there can be no probe in any of
/// them; otherwise a note names those.
pub(super) fn named(
    paths: &[PathBuf],
    name: &str,
    off: u64,
    notes: &mut Vec<String>,
) -> anyhow::Result<Place> {
    let (mut at, mut failure, mut edge, mut refused) = (Vec::new(), None, Edge::Entry, Vec::new());
    for path in paths {
        match named_in(path, name, off) {
            Ok((found, are_entries, note)) => {
                at.extend(Some(found).filter(|found| !found.offsets.is_empty()));
                refused.extend(note);
                edge = if are_entries { edge } else { Edge::Inside };
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if at.is_empty() {
        ensure!(refused.is_empty(), "{}; {REMEDY}", refused.join("; "));
        return Err(failure.context("bug: no file is searched")?);
    }
    notes.append(&mut refused);
    let len: usize = at.iter().map(|found| found.offsets.len()).sum();
    ensure!(
        len <= MAX_FUNCTIONS,
        "`{name}` matches {} functions, and {} are the limit: narrow the pattern",
        count(len as u64),
        count(MAX_FUNCTIONS as u64)
    );
    Ok(Place::User { at, edge })
}

/// Finds the functions of some files whose returns are sampled.
///
/// # Errors
/// As [`named`]; if one of them does not return to a caller, or their returns cannot be probed.
pub(super) fn returning(paths: &[PathBuf], name: &str, notes: &mut Vec<String>) -> anyhow::Result<Place> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "returns can be probed on x86-64 only: the kernel of this machine does not note where a replaced return address lies"
    );
    let Place::User { at, edge } = named(paths, name, 0, notes)? else {
        bail!("bug: functions of files are in programs")
    };
    for InFile { file, .. } in &at {
        // The runtime of Go moves stacks, and ends the program at a return address that it does not know.
        let is_go = with(file, |functions| Ok(functions.is_go))?;
        ensure!(!is_go, "`{}` is written in Go: a probe at a return would end it", file.display());
    }
    ensure!(
        edge == Edge::Entry,
        "`{name}` is the first function of a program or a part of a function, and returns to no caller; name one that is called"
    );
    Ok(Place::User { at, edge: Edge::Return })
}

/// Finds functions of one file; says whether the places are their first instructions, and in which there can be no probe.
fn named_in(path: &Path, name: &str, off: u64) -> anyhow::Result<(InFile, bool, Option<String>)> {
    with(path, |functions| {
        // A function of this name besides it is an old version, which new programs do not call.
        ensure!(
            !functions.resolvers.iter().any(|function| unversioned(&function.name) == name.as_bytes()),
            "`{name}` of `{}` chooses one of several functions when a program starts (IFUNC); give the name of that one, or its 0xOFFSET",
            path.display()
        );
        let taken = functions.named(name);
        if taken.is_empty() {
            bail!("{}", functions.missing(path, name));
        }
        if let Some(short) = taken.iter().find(|function| (1..=off).contains(&function.len)) {
            bail!("`+{off}` lies after the function, which has {} bytes: give less", short.len);
        }
        let are_entries = off == 0 && taken.iter().all(|function| functions.is_called(function));
        let place =
            |function: &Symbol<'_>| functions.layout.rest_of_segment(function.start)?.0.0.checked_add(off);
        let mut places: Vec<(u64, &Symbol<'_>)> =
            taken.into_iter().filter_map(|function| Some((place(function)?, function))).collect();
        // Of several names, people rarely mean one that begins with an underscore.
        places.sort_by_key(|(at, function)| (*at, function.name.starts_with(b"_")));
        places.dedup_by_key(|(at, _)| *at);
        let (refused, taken): (Vec<_>, Vec<_>) =
            places.into_iter().partition(|(at, _)| functions.is_refused(*at));
        let offsets: Vec<u64> = taken.iter().map(|(at, _)| *at).collect();
        let all_len = refused.len() + offsets.len();
        let which = if off == 0 { "the first instruction" } else { "this instruction" };
        let note = functions.note_on_refused((path, which), &refused, all_len);
        Ok((InFile::new(path.to_owned(), offsets), are_entries, note))
    })
}

/// Checks an offset of an instruction.
///
/// # Errors
/// If there is no code.
pub(super) fn at(path: &Path, off: u64) -> anyhow::Result<Place> {
    with(path, |functions| {
        let Some(at) = functions.layout.code(FileOff(off)) else {
            bail!(
                "`{off:#x}` is no offset of code in `{}`; objdump -hF shows where code lies",
                path.display()
            );
        };
        let mut begin = functions.all.iter().filter(|function| function.start == at);
        let is_entry = begin.any(|function| functions.is_called(function));
        ensure!(
            !functions.is_refused(off),
            "there is no probe at {off:#x} of `{}`, because the kernel cannot execute the instruction there away from its place; probe \
             another one (objdump -dF shows their offsets)",
            path.display()
        );
        let edge = if is_entry { Edge::Entry } else { Edge::Inside };
        Ok(Place::User { at: vec![InFile::new(path.to_owned(), vec![off])], edge })
    })
}

impl<'d> Functions<'d> {
    /// Finds functions by name; if none has just this name, labels without a size; if there are none either, functions by the name as a
    /// pattern. Names have `*` in C++ and Go.
    fn named(&self, name: &str) -> Vec<&Symbol<'d>> {
        let (mut exact, mut like) = (Vec::new(), Vec::new());
        for function in &self.all {
            let names = names(function);
            if names.iter().flatten().any(|known| known == name) {
                exact.push(function);
            } else if is_pattern(name)
                && self.is_called(function)
                && names.iter().flatten().any(|known| is_like(name, known))
            {
                like.push(function);
            }
        }
        if exact.is_empty() {
            exact.extend(
                self.labels.iter().filter(|label| names(label).iter().flatten().any(|known| known == name)),
            );
        }
        if exact.is_empty() { like } else { exact }
    }

    /// Returns true if a function is called: then its caller's address lies where the stack pointer leads. Parts of functions are
    /// jumped to, and the kernel starts the first function of a program.
    fn is_called(&self, function: &Symbol<'_>) -> bool {
        let is_part = function.name.windows(5).any(|part| part == b".cold");
        !is_part && function.start != self.layout.entry
    }

    /// Returns true if there must be no probe on the instruction at an offset of the file.
    fn is_refused(&self, at: u64) -> bool {
        let is_known = self.layout.machine.0 == Machine::X86_64.elf() && self.layout.is_little_64();
        let len = self.file.len().unwrap_or(0).saturating_sub(at).min(MAX_BYTES);
        is_known && self.file.read_bytes_at(at, len).is_ok_and(is_refused)
    }

    /// Says in which functions there is no probe, if there are any.
    fn note_on_refused(
        &self,
        (path, which): (&Path, &str),
        refused: &[(u64, &Symbol<'_>)],
        all_len: usize,
    ) -> Option<String> {
        let name = |(_, function): &(u64, &Symbol<'_>)| {
            format!(
                "`{}`",
                without_parameters(&function.name).unwrap_or_else(|| readable(unversioned(&function.name)))
            )
        };
        let named: Vec<String> = refused.iter().take(NAMED).map(name).collect();
        let more = refused.len() - named.len();
        let whose = match (refused.len(), all_len) {
            (0, _) => return None,
            (1, 1) => String::new(),
            (len, _) => format!("{} of {} functions, ", count(len as u64), count(all_len as u64)),
        };
        Some(format!(
            "there is no probe in {whose}{}{} of `{}`, because the kernel cannot execute {which} away from its place",
            named.join(", "),
            if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() },
            path.display()
        ))
    }

    /// Says why there is no such function.
    fn missing(&self, path: &Path, name: &str) -> String {
        let path = path.display();
        if self.all.is_empty() {
            return format!(
                "`{path}` has no symbols; install its debug symbols, or use uprobe:PATH:0xOFFSET"
            );
        }
        let names = self.all.iter().flat_map(names).flatten();
        let near = if is_pattern(name) { String::new() } else { near(name, names) };
        let stripped = if self.is_stripped {
            "; it is stripped and only names functions for other files: install its debug symbols, or use uprobe:PATH:0xOFFSET"
        } else {
            ""
        };
        format!("`{path}` has no function `{name}`{stripped}{near}")
    }
}

/// Returns the names of a function: of the symbol, with its version, readable, and that without parameters. The part of a function that
/// the compiler split off only has the name of its own symbol.
fn names(function: &Symbol<'_>) -> [Option<String>; 4] {
    let name = unversioned(&function.name);
    let versioned =
        (name.len() < function.name.len()).then(|| String::from_utf8_lossy(&function.name).into_owned());
    let is_split = part_of(name).is_some_and(|whole| {
        let marks = &name[whole.len()..];
        marks.windows(5).any(|mark| mark == b".cold" || mark == b".part")
    });
    let without = without_parameters(&function.name).filter(|_| !is_split);
    let readable = without.is_some().then(|| readable(&function.name));
    [Some(String::from_utf8_lossy(name).into_owned()), versioned, readable, without]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::collect::functions::fixture::assembled;

    /// The code begins at 0x10000: a program's first function, `f` with an alias, a part of it, one of C++, one of Go, data.
    const SOURCE: &str = "
        .globl _start; .type _start,@function; _start: .fill 16; .size _start, .-_start
        .type f,@function; .type alias,@function; alias: f: .fill 16; .size f, .-f; .size alias, .-alias
        .type f.cold,@function; f.cold: .fill 16; .size f.cold, .-f.cold
        .type _ZN2ns1gEPc,@function; _ZN2ns1gEPc: .fill 16; .size _ZN2ns1gEPc, .-_ZN2ns1gEPc
        .type \"main.(*T).M\",@function; \"main.(*T).M\": .fill 16; .size \"main.(*T).M\", .-\"main.(*T).M\"
        .type data,@object; data: .fill 16; .size data, .-data
        .type chosen,@gnu_indirect_function; chosen: .fill 16; .size chosen, .-chosen
        .type _ZN2ns1gEPc.cold,@function; _ZN2ns1gEPc.cold: .fill 16; .size _ZN2ns1gEPc.cold, .-_ZN2ns1gEPc.cold
        .type typed,@function; typed: .fill 16
        bare: .fill 16";

    const SOURCE_OF_G: &str = ".globl _start; _start: .fill 16; .type g,@function; g: .fill 16; .size g, .-g";

    fn program() -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        std::fs::write(file.path(), assembled(SOURCE)).expect("room");
        file
    }

    /// Returns where functions lie after 0x10000, and whether these are entries.
    fn places(path: &Path, name: &str, off: u64) -> (Vec<u64>, bool) {
        let file = std::fs::read(path).expect("just made");
        let layout = Layout::read(&file[..]).expect("ELF");
        let found = named_in(path, name, off);
        let (InFile { offsets, .. }, are_entries, _) =
            found.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let at = |off: &u64| layout.code(FileOff(*off)).expect("code").0 - 0x10000;
        (offsets.iter().map(at).collect(), are_entries)
    }

    #[test]
    fn functions_of_a_program_may_be_in_its_library() {
        let (file, other) = (program(), program());
        std::fs::write(other.path(), assembled(SOURCE_OF_G)).expect("room");
        let paths = [file.path().to_owned(), other.path().to_owned()];
        for (name, expected) in [("f", vec![0]), ("g", vec![1]), ("*", vec![0, 1])] {
            match named(&paths, name, 0, &mut Vec::new()).unwrap_or_else(|error| panic!("{name}: {error:#}"))
            {
                Place::User { at, edge: Edge::Entry } => {
                    let files: Vec<&PathBuf> = at.iter().map(|found| &found.file).collect();
                    let expected: Vec<&PathBuf> = expected.iter().map(|file| &paths[*file]).collect();
                    assert_eq!(files, expected, "{name}");
                }
                other => panic!("{other:?}"),
            }
        }
        let message = named(&paths, "x*", 0, &mut Vec::new()).expect_err("neither has it").to_string();
        assert!(message.starts_with(&format!("`{}`", paths[0].display())), "{message}");
    }

    #[test]
    fn functions_are_found_by_each_of_their_names() {
        let file = program();
        for (name, expected) in [
            ("f", (vec![0x10], true)),
            ("alias", (vec![0x10], true)),
            ("_start", (vec![0], false)),
            ("f.cold", (vec![0x20], false)),
            ("_ZN2ns1gEPc.cold", (vec![0x70], false)),
            ("typed", (vec![0x80], true)),
            ("bare", (vec![0x90], true)),
            ("_ZN2ns1gEPc", (vec![0x30], true)),
            ("ns::g", (vec![0x30], true)),
            ("ns::g(char*)", (vec![0x30], true)),
            ("ns::*", (vec![0x30], true)),
            ("main.(*T).M", (vec![0x40], true)),
            ("?", (vec![0x10], true)),
            ("*", (vec![0x10, 0x30, 0x40], true)),
        ] {
            assert_eq!(places(file.path(), name, 0), expected, "{name}");
        }
        assert_eq!(places(file.path(), "f", 15), (vec![0x1f], false));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn functions_in_which_the_kernel_makes_no_probe_are_named() {
        let (file, other) = (program(), program());
        let function = |name: usize, code: &str| {
            format!(".type l{name},@function; l{name}: {code}; .size l{name}, .-l{name}\n")
        };
        let code: String =
            (0..13).map(|name| function(name, if name == 3 { "nop; hlt" } else { "hlt; nop" })).collect();
        std::fs::write(file.path(), assembled(&(".globl _start; _start: nop\n".to_owned() + &code)))
            .expect("room");
        let path = file.path().display();
        let mut notes = Vec::new();
        let found = named(&[file.path().to_owned()], "l*", 0, &mut notes);
        assert!(matches!(found, Ok(Place::User { at, .. }) if at.len() == 1 && at[0].offsets.len() == 1));
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("12 of 13 functions, `l0`, `l1`, `l2`, `l4`, "), "{}", notes[0]);
        assert!(notes[0].contains(&format!("`l10` and 2 more of `{path}`")), "{}", notes[0]);
        let paths = [other.path().to_owned(), file.path().to_owned()];
        for (name, off, expected) in [
            (
                "l0",
                0,
                format!(
                    "no probe in `l0` of `{path}`, because the kernel cannot execute the first instruction"
                ),
            ),
            ("l3", 1, "because the kernel cannot execute this instruction".to_owned()),
            ("l1?", 0, "3 of 3 functions, `l10`, `l11`, `l12` of".to_owned()),
        ] {
            let message = named(&paths, name, off, &mut notes).expect_err(name).to_string();
            assert!(message.contains(&expected) && message.ends_with(REMEDY), "{message}");
        }
        assert_eq!(notes.len(), 1, "an error needs no note");
        assert!(named(&paths, "l0", 1, &mut notes).is_ok() && named(&paths, "l3", 0, &mut notes).is_ok());
        let Ok((InFile { offsets, .. }, ..)) = named_in(file.path(), "l3", 0) else { panic!("it is there") };
        assert!(at(file.path(), offsets[0]).is_ok());
        assert!(
            at(file.path(), offsets[0] + 1).is_err_and(|error| error.to_string().contains("no probe at"))
        );
    }

    #[test]
    fn what_is_not_found_is_explained() {
        let file = program();
        let message = |path: &Path, name: &str, off| match named_in(path, name, off) {
            Err(error) => format!("{error:#}"),
            Ok(place) => panic!("{name}: {place:?}"),
        };
        for (name, off, expected) in [
            ("alais", 0, "has no function `alais`; did you mean `alias`"),
            ("data", 0, "has no function `data`"),
            ("x*", 0, "has no function `x*`"),
            ("chosen", 0, "(IFUNC)"),
            ("f", 16, "`+16` lies after the function, which has 16 bytes"),
        ] {
            let message = message(file.path(), name, off);
            assert!(message.contains(expected) && !message.contains("stripped"), "{message}");
        }
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let source =
            "int exported(void) { return 1; } static int __attribute__((used)) hidden(void) { return 2; }";
        std::fs::write(dir.path().join("x.c"), source).expect("room");
        let args = ["-shared", "-fPIC", "-nostdlib", "-s", "x.c", "-o", "libx.so"];
        let status = Command::new("cc").args(args).current_dir(dir.path()).status().expect("a compiler");
        assert!(status.success());
        let library = dir.path().join("libx.so");
        assert!(named_in(&library, "exported", 0).is_ok());
        assert!(message(&library, "hidden", 0).contains("it is stripped"));
        std::fs::write(file.path(), "text").expect("room");
        assert!(message(file.path(), "f", 0).contains("no ELF file"));
    }

    #[test]
    fn an_offset_must_lie_in_code() {
        let file = program();
        let Ok((InFile { offsets, .. }, _, _)) = named_in(file.path(), "f", 0) else { panic!("it is there") };
        for (off, expected) in [(offsets[0], true), (offsets[0] + 1, false), (offsets[0] - 16, false)] {
            let is_entry = match at(file.path(), off) {
                Ok(Place::User { at, edge }) if at[0].offsets == [off] => edge == Edge::Entry,
                other => panic!("{other:?}"),
            };
            assert_eq!(is_entry, expected, "{off:#x}");
        }
        assert!(at(file.path(), 1 << 40).is_err_and(|error| error.to_string().contains("no offset of code")));
    }
}
