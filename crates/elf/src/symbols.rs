//! Finds functions in symbol tables.
//!
//! Of the functions around an address the innermost is taken; of several names for one function one that other files know,
//! since a stripped file has no others, and of these the one that people know: `free`, not `__libc_free`. A recording so has the
//! same names wherever it is read.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::ops::Range;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{self as read, FileHeader, SectionHeader as _, SectionTable, Sym as _, VersionTable};
use object::{Endianness, FileKind, SymbolIndex};

use crate::{Beginnings, Svma, go};

/// The longest name that is kept, bytes: as long as a recording stores texts. A longer one loses its end.
const MAX_NAME_BYTES: usize = 64 << 10;

/// The most other names of a function that are kept.
pub const MAX_ALIASES: usize = 16;

/// The most symbols without a size before an address that are looked at.
const MAX_LABELS: usize = 1024;

/// Which symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolTable {
    /// `.symtab`: all functions.
    Static,
    /// `.dynsym`: what a stripped file still exports and imports.
    Dynamic,
}

/// A function around an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol<'d> {
    /// Its first address.
    pub start: Svma,
    /// Bytes; 0 if nothing tells its size. Then no other function can begin between it and the address, as [`Beginnings`] tell.
    pub len: u64,
    /// As the file has it: mangled, with its version.
    pub name: Cow<'d, [u8]>,
    /// Other names of the same bytes, best first, without those that differ only in the version, and without local ones if the name is
    /// global; at most [`MAX_ALIASES`].
    pub aliases: Vec<&'d [u8]>,
    /// The source file of a local function, as the linker noted it: mostly without its folder.
    pub file: Option<&'d [u8]>,
    /// The first address of the function of which this is a part: of `f` for `f.cold`. Its own if it is whole.
    pub whole: Svma,
}

impl<'d> Symbol<'d> {
    /// Makes a function that has one name.
    pub fn new(start: Svma, len: u64, name: Cow<'d, [u8]>) -> Self {
        Self { start, len, name, aliases: Vec::new(), file: None, whole: start }
    }
}

impl<'d> From<go::Function<'d>> for Symbol<'d> {
    fn from(function: go::Function<'d>) -> Self {
        Self::new(Svma(function.start), function.end - function.start, function.name.into())
    }
}

impl SymbolTable {
    /// Both, the one that knows more first.
    pub const ALL: [Self; 2] = [Self::Static, Self::Dynamic];

    /// The name of its section.
    pub fn section(self) -> &'static str {
        match self {
            Self::Static => ".symtab",
            Self::Dynamic => ".dynsym",
        }
    }

    /// Finds the innermost function around each address, which ascend: one that covers it, else one without a size that reaches it.
    /// `None` if the file has no such table, or a broken one.
    ///
    /// A symbol without a size is a function if its kind says so, if other files could see it, or if something refers to it;
    /// else it can be a label within one. It reaches an address if no function can begin between.
    ///
    /// # Cost    one pass over the table; names are read only where several share a requested address. Where a symbol without a size
    /// is before an address, and unwind tables do not tell the function: one pass over the image
    pub fn around<'d>(
        self,
        file: impl ReadRef<'d>,
        at: &[Svma],
        beginnings: Beginnings<'_>,
    ) -> Option<Vec<Option<Symbol<'d>>>> {
        match FileKind::parse(file).ok()? {
            FileKind::Elf32 => {
                Symbols::<FileHeader32<Endianness>, _>::read(self, file).map(|it| it.around(at, beginnings))
            }
            FileKind::Elf64 => {
                Symbols::<FileHeader64<Endianness>, _>::read(self, file).map(|it| it.around(at, beginnings))
            }
            _ => None,
        }
    }

    /// Lists all functions that have a size, in the order of the table; none if the file has no such table, or a broken one.
    pub fn functions<'d>(self, file: impl ReadRef<'d>) -> Vec<Symbol<'d>> {
        self.listed(file, |kind, len| kind == elf::STT_FUNC && len > 0)
    }

    /// Lists the functions and labels without a size, as [`Self::functions`] lists the others: assembly has such.
    pub fn labels<'d>(self, file: impl ReadRef<'d>) -> Vec<Symbol<'d>> {
        self.listed(file, |kind, len| matches!(kind, elf::STT_FUNC | elf::STT_NOTYPE) && len == 0)
    }

    /// Lists the functions that return which function stands for them (IFUNC), as [`Self::functions`] lists the others.
    pub fn resolvers<'d>(self, file: impl ReadRef<'d>) -> Vec<Symbol<'d>> {
        self.listed(file, |kind, len| kind == elf::STT_GNU_IFUNC && len > 0)
    }

    fn listed<'d>(
        self,
        file: impl ReadRef<'d>,
        is_listed: impl Fn(elf::SymbolType, u64) -> bool,
    ) -> Vec<Symbol<'d>> {
        let functions = match FileKind::parse(file) {
            Ok(FileKind::Elf32) => {
                Symbols::<FileHeader32<Endianness>, _>::read(self, file).map(|it| it.listed(is_listed))
            }
            Ok(FileKind::Elf64) => {
                Symbols::<FileHeader64<Endianness>, _>::read(self, file).map(|it| it.listed(is_listed))
            }
            _ => None,
        };
        functions.unwrap_or_default()
    }

    fn kind(self) -> elf::SectionType {
        match self {
            Self::Static => elf::SHT_SYMTAB,
            Self::Dynamic => elf::SHT_DYNSYM,
        }
    }
}

/// Takes the version from a name: `memcpy` of `memcpy@@GLIBC_2.14`.
pub fn unversioned(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|byte| *byte == b'@').filter(|end| *end > 0);
    &name[..end.unwrap_or(name.len())]
}

/// Takes the mark of a part or a variant from the name of a symbol: `f` of `f.cold`, `f.part.0`, `f.isra.0.cold`. `None` if the
/// name has none. Compilers split functions so; each part has a symbol of its own.
pub fn part_of(name: &[u8]) -> Option<&[u8]> {
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let mut whole = name;
    while let Some(at) = whole.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0) {
        let (before, mark) = (&whole[..at], &whole[at + 1..]);
        let numbered = before.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0 && is_number(mark));
        whole = match (mark, numbered) {
            (b"cold" | b"localalias", _) => before,
            (_, Some(at)) if is_part_mark(&before[at + 1..]) => &before[..at],
            _ => break,
        };
    }
    (whole.len() < name.len()).then_some(whole)
}

/// Reports whether a mark that a number follows names a part or a variant of a function.
fn is_part_mark(mark: &[u8]) -> bool {
    matches!(mark, b"cold" | b"localalias" | b"part" | b"isra" | b"constprop" | b"lto_priv")
}

/// A symbol that covers an address, or may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    start: u64,
    /// 0: it has no size.
    size: u64,
    symbol: SymbolIndex,
    /// The symbol with the name of its source file, if it is local.
    file: Option<SymbolIndex>,
}

/// The symbols of code that may be around an address.
struct Candidates {
    /// Those that cover one.
    sized: Vec<Candidate>,
    /// Those without a size, in order.
    sizeless: Vec<Candidate>,
    /// For each address, the end of the last symbol with a size that begins before it: one without a size does not reach beyond.
    sized_before: Vec<u64>,
}

/// A symbol table with its names.
struct Symbols<'d, E: FileHeader, R: ReadRef<'d>> {
    table: SymbolTable,
    endian: Endianness,
    sections: SectionTable<'d, E, R>,
    symbols: read::SymbolTable<'d, E, R>,
    /// The versions of dynamic symbols; the names of others contain them.
    versions: Option<VersionTable<'d, E>>,
    /// Compilers for this processor mark where code and data begin.
    has_marks: bool,
}

impl<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>> Symbols<'d, E, R> {
    fn read(table: SymbolTable, file: R) -> Option<Self> {
        let header = E::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, file).ok()?;
        let symbols = sections.symbols(endian, file, table.kind()).ok()?;
        let has_marks = matches!(header.e_machine(endian), elf::EM_ARM | elf::EM_AARCH64 | elf::EM_RISCV);
        let versions =
            (table == SymbolTable::Dynamic).then(|| sections.versions(endian, file).ok().flatten());
        Some(Self { table, endian, sections, symbols, versions: versions.flatten(), has_marks })
    }

    fn around(&self, at: &[Svma], beginnings: Beginnings<'_>) -> Vec<Option<Symbol<'d>>> {
        let Candidates { mut sized, sizeless, sized_before } = self.candidates(at);
        sized.sort_unstable_by(|a, b| self.order(a, b));
        let mut sized = sized.into_iter().peekable();
        let mut open: Vec<Candidate> = Vec::new();
        let mut before = 0;
        let mut uncovered = Vec::new();
        let around = at.iter().zip(sized_before).enumerate().map(|(position, (&Svma(at), sized_before))| {
            before = sized_before.max(before);
            while let Some(candidate) = sized.next_if(|candidate| candidate.start <= at) {
                open.push(candidate);
            }
            // What ends before this address ends before all that follow.
            while open.pop_if(|candidate| at - candidate.start >= candidate.size).is_some() {}
            let Some(found) = open.last() else {
                let of = |bound: u64| sizeless.partition_point(|candidate| candidate.start < bound);
                let before = &sizeless[of(before)..of(at.saturating_add(1))];
                uncovered.push((position, &before[before.len().saturating_sub(MAX_LABELS)..]));
                return None;
            };
            let others = open.iter().rev().skip(1);
            let others = others.take_while(|it| (it.start, it.size) == (found.start, found.size));
            self.symbol(found, others)
        });
        let mut around: Vec<Option<Symbol<'d>>> = around.collect();
        uncovered.retain(|(_, before)| !before.is_empty());
        self.reaching(at, &uncovered, beginnings, &mut around);
        self.join_parts(&mut around);
        around
    }

    /// Finds the functions without a size that reach addresses: for each its position in `at`, and the symbols before it.
    fn reaching(
        &self,
        at: &[Svma],
        uncovered: &[(usize, &[Candidate])],
        beginnings: Beginnings<'_>,
        around: &mut [Option<Symbol<'d>>],
    ) {
        // Unwind tables tell the most, and cost the least.
        let unwound: Vec<Option<Svma>> =
            uncovered.iter().map(|(position, _)| (beginnings.unwound)(at[*position])).collect();
        let mut wanted: Vec<Range<Svma>> = Vec::new();
        for ((position, before), unwound) in uncovered.iter().zip(&unwound) {
            let (start, at) = (Svma(before[0].start), at[*position]);
            let is_told = unwound.is_some() || before.last().is_some_and(|last| last.start == at.0);
            match wanted.last_mut() {
                _ if is_told => {}
                Some(last) if start <= last.end => last.end = Svma(at.0.saturating_add(1)),
                _ => wanted.push(start..Svma(at.0.saturating_add(1))),
            }
        }
        let referred = if wanted.is_empty() { Some(Vec::new()) } else { (beginnings.referred)(&wanted) };
        for ((position, before), unwound) in uncovered.iter().zip(unwound) {
            let Svma(at) = at[*position];
            let last_begin = match (&referred, unwound) {
                (_, Some(begin)) => begin.0,
                (Some(all), None) => {
                    all[..all.partition_point(|begin| begin.0 <= at)].last().map_or(0, |begin| begin.0)
                }
                (None, None) => at,
            };
            let is_function = |candidate: &&Candidate| {
                // A linker makes a hidden symbol local.
                let says_so = self.symbols.symbol(candidate.symbol).is_ok_and(|row| {
                    row.st_type() != elf::STT_NOTYPE
                        || row.st_bind() != elf::STB_LOCAL
                        || row.st_visibility() != elf::STV_DEFAULT
                });
                says_so || candidate.start == last_begin || candidate.start == at
            };
            let candidates = before.iter().rev().take_while(|candidate| candidate.start >= last_begin);
            let found = candidates.filter(is_function).find(|candidate| self.may_reach(candidate, at));
            around[*position] = found.and_then(|found| self.symbol(found, std::iter::empty()));
        }
    }

    fn symbol<'c>(
        &self,
        found: &Candidate,
        others: impl Iterator<Item = &'c Candidate>,
    ) -> Option<Symbol<'d>> {
        let name = self.versioned(found.symbol)?;
        let mut aliases: Vec<&[u8]> = Vec::new();
        let is_local =
            |it: &Candidate| self.symbols.symbol(it.symbol).is_ok_and(|row| row.st_bind() == elf::STB_LOCAL);
        let others = others.filter(|other| is_local(other) == is_local(found));
        for other in others.filter_map(|other| self.name(other)).map(unversioned) {
            if aliases.len() < MAX_ALIASES && other != unversioned(&name) && !aliases.contains(&other) {
                aliases.push(other);
            }
        }
        let file = found.file.and_then(|file| self.text(file)).filter(|file| !file.is_empty());
        Some(Symbol { aliases, file, ..Symbol::new(Svma(found.start), found.size, name) })
    }

    /// Finds the functions of which the found ones are parts: those of their names, in the same source file if they are local. If
    /// there is none, the first of several parts stands for it.
    fn join_parts(&self, around: &mut [Option<Symbol<'d>>]) {
        // Where the functions of each name begin, and the source files of local ones.
        type Places<'d> = Vec<(u64, Option<&'d [u8]>)>;
        let mut wholes: HashMap<&[u8], Places<'_>> = HashMap::new();
        let names = around.iter().flatten().filter_map(|symbol| match symbol.name {
            Cow::Borrowed(name) => part_of(name),
            Cow::Owned(_) => None,
        });
        wholes.extend(names.map(|name| (name, Vec::new())));
        if wholes.is_empty() {
            return;
        }
        let mut parts = wholes.clone();
        for (candidate, _) in self.functions() {
            let Some(name) = self.name(&candidate) else { continue };
            let file = candidate.file.and_then(|file| self.text(file));
            match (wholes.get_mut(name), part_of(name).and_then(|whole| parts.get_mut(whole))) {
                (Some(wholes), _) => wholes.push((candidate.start, file)),
                (_, Some(parts)) => parts.push((candidate.start, file)),
                _ => {}
            }
        }
        for symbol in around.iter_mut().flatten() {
            let Some(name) = part_of(&symbol.name) else { continue };
            let of = |file: Option<&[u8]>, all: &[(u64, Option<&[u8]>)]| {
                all.iter().filter(|(_, other)| *other == file).map(|(start, _)| *start).min()
            };
            // A part is local even if its function is not.
            let whole = wholes.get(name).and_then(|all| of(symbol.file, all).or_else(|| of(None, all)));
            let whole = whole.or_else(|| of(symbol.file, parts.get(name)?));
            symbol.whole = whole.map_or(symbol.whole, Svma);
        }
    }

    /// Lists the symbols of code, in the order of the table, each with its row.
    fn functions(&self) -> impl Iterator<Item = (Candidate, &'d E::Sym)> + '_ {
        let mut file = None;
        self.symbols.enumerate().filter_map(move |(symbol, row)| {
            if row.st_type() == elf::STT_FILE {
                file = Some(symbol);
                return None;
            }
            let is_code = matches!(row.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE)
                && row.st_shndx(self.endian) != elf::SHN_UNDEF
                && row.st_name(self.endian) != 0;
            let (start, size) = (row.st_value(self.endian).into(), row.st_size(self.endian).into());
            let file = file.filter(|_| row.st_bind() == elf::STB_LOCAL);
            is_code.then_some((Candidate { start, size, symbol, file }, row))
        })
    }

    fn listed(&self, is_listed: impl Fn(elf::SymbolType, u64) -> bool) -> Vec<Symbol<'d>> {
        let function = |(symbol, row): (SymbolIndex, &E::Sym)| {
            let (start, len) = (Svma(row.st_value(self.endian).into()), row.st_size(self.endian).into());
            let section = row.st_shndx(self.endian);
            let is_defined = !section.is_special() || section == elf::SHN_XINDEX;
            let is_taken = is_defined && is_listed(row.st_type(), len);
            let name = self.versioned(symbol).filter(|_| is_taken)?;
            Some(Symbol::new(start, len, name))
        };
        self.symbols.enumerate().filter_map(function).collect()
    }

    fn candidates(&self, at: &[Svma]) -> Candidates {
        let (mut sized, mut sizeless, mut sized_before) = (Vec::new(), Vec::new(), vec![0; at.len()]);
        for (candidate, _) in self.functions() {
            let Candidate { start, size, .. } = candidate;
            let next = at.partition_point(|at| at.0 < start);
            let Some(next_at) = at.get(next) else { continue };
            if size == 0 {
                if !(self.has_marks && self.name(&candidate).is_some_and(is_mark)) {
                    sizeless.push(candidate);
                }
                continue;
            }
            sized_before[next] = start.saturating_add(size).max(sized_before[next]);
            if next_at.0 - start < size {
                sized.push(candidate);
            }
        }
        sizeless.sort_unstable_by(|a, b| self.order(a, b));
        Candidates { sized, sizeless, sized_before }
    }

    fn name(&self, candidate: &Candidate) -> Option<&'d [u8]> {
        self.text(candidate.symbol).filter(|name| !name.is_empty())
    }

    fn text(&self, symbol: SymbolIndex) -> Option<&'d [u8]> {
        let name = self.symbols.symbol_name(self.endian, self.symbols.symbol(symbol).ok()?).ok()?;
        Some(&name[..name.len().min(MAX_NAME_BYTES)])
    }

    /// Returns a name with its version, as tables of all symbols have it.
    fn versioned(&self, symbol: SymbolIndex) -> Option<Cow<'d, [u8]>> {
        let name = self.text(symbol).filter(|name| !name.is_empty())?;
        let version = || {
            let versions = self.versions.as_ref()?;
            let index = versions.version_index(self.endian, symbol);
            let version = versions.version(index.index()).ok().flatten()?;
            let mark: &[u8] = if index.is_hidden() { b"@" } else { b"@@" };
            Some([name, mark, version.name()].concat().into())
        };
        Some(version().unwrap_or(name.into()))
    }

    /// A symbol without size ends with its section at the latest, and in the sparse table of dynamic symbols at once.
    fn may_reach(&self, candidate: &Candidate, at: u64) -> bool {
        let section = || {
            let symbol = self.symbols.symbol(candidate.symbol).ok()?;
            let index = self.symbols.symbol_section(self.endian, symbol, candidate.symbol).ok()??;
            self.sections.section(index).ok()
        };
        let is_in = |section: &E::SectionHeader| {
            at.wrapping_sub(section.sh_addr(self.endian).into()) < section.sh_size(self.endian).into()
        };
        (self.table == SymbolTable::Static || candidate.start == at) && section().is_some_and(is_in)
    }

    /// Orders functions. Of several at one place the last is taken: the largest, under its best name.
    fn order(&self, a: &Candidate, b: &Candidate) -> Ordering {
        let rank = |candidate: &Candidate| {
            let symbol = self.symbols.symbol(candidate.symbol);
            let binding = symbol.map_or(elf::STB_LOCAL, |symbol| symbol.st_bind());
            let name = self.name(candidate).map(|name| rank(binding, name));
            // What has no name comes last.
            (name.is_none(), name, Reverse(candidate.symbol.0))
        };
        (a.start, a.size).cmp(&(b.start, b.size)).then_with(|| rank(b).cmp(&rank(a)))
    }
}

/// Orders the names of a function: global names before local ones, then by the number of leading underscores, weak ones last, then
/// by the length, and the name, so that `free` precedes `__libc_free`. A stripped file has only global names. Versions do not
/// count, because only some tables have them in the names.
fn rank(binding: elf::SymbolBind, name: &[u8]) -> (bool, usize, bool, usize, &[u8]) {
    let name = unversioned(name);
    let underscores = name.iter().take_while(|byte| **byte == b'_').count();
    (binding == elf::STB_LOCAL, underscores, binding == elf::STB_WEAK, name.len(), name)
}

/// Reports whether a name says what kind of bytes begin here: `$x`, `$d.12`, `$xrv64i2p1`.
fn is_mark(name: &[u8]) -> bool {
    matches!(
        name,
        [b'$', b'a' | b'd' | b't' | b'x']
            | [b'$', b'a' | b'd' | b't' | b'x', b'.', ..]
            | [b'$', b'x', b'r', b'v', ..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::assembled;
    use crate::{EhFrameHdr, Layout, referred};

    /// Names of the addresses in a file that was assembled.
    fn names(source: &str, at: &[u64]) -> Vec<String> {
        let file = assembled(source);
        let layout = Layout::read(&file[..]).expect("a program");
        let hdr = EhFrameHdr::of_file(&file[..], &layout);
        let beginnings = Beginnings {
            unwound: &|at| hdr.as_ref()?.start(&file[..], &layout, at),
            referred: &|wanted| referred(&file[..], &layout, wanted),
        };
        let at: Vec<Svma> = at.iter().copied().map(Svma).collect();
        let found = SymbolTable::Static.around(&file[..], &at, beginnings).expect("a table").into_iter();
        found.map(|it| it.map_or_else(String::new, |it| String::from_utf8_lossy(&it.name).into())).collect()
    }

    #[test]
    fn the_innermost_function_under_its_best_name_is_found() {
        let source = "
            .globl _start; .type _start,@function
            _start: .fill 16; .size _start, .-_start
            .type outer,@function; .type __inner,@function; .type inner,@function; .type in,@object
            outer: .fill 16
            __inner: inner: in: .fill 16; .size inner, .-inner; .size __inner, .-__inner; .size in, .-in
            .fill 16; .size outer, .-outer
            .globl bare; bare: .fill 16
            .section .other,\"ax\"; .fill 16
        ";
        let at = [0x10000, 0x1000f, 0x10010, 0x10020, 0x1002f, 0x10030, 0x1003f, 0x10040, 0x1004f, 0x10050];
        let found = ["_start", "_start", "outer", "inner", "inner", "outer", "outer", "bare", "bare", ""];
        assert_eq!(names(source, &at), found);
    }

    #[test]
    fn a_symbol_without_a_size_names_only_what_proves_to_be_its_function() {
        // 16 bytes each; of the functions whose names begin with `.L` no symbol tells.
        let source = "
            .globl _start
            _start: call called; call .Lnameless; lea .Lheld(%rip), %rax; .fill 15, 1, 0x90
            called: .fill 16, 1, 0x90
            label: .fill 16, 1, 0x90
            .Lnameless: .fill 16, 1, 0x90
            .type typed,@function
            typed: .fill 16, 1, 0x90
            .Lheld: .fill 16, 1, 0x90
            .cfi_startproc
            unwound: .fill 16, 1, 0x90
            inner: .fill 16, 1, 0x90
            .cfi_endproc
            .cfi_startproc
            .fill 16, 1, 0x90
            within: .fill 16, 1, 0x90
            .cfi_endproc
        ";
        let at: Vec<u64> = (0..11).map(|n| 0x10008 + 16 * n).collect();
        let found = ["_start", "_start", "called", "called", "", "typed", "", "unwound", "unwound", "", ""];
        assert_eq!(names(source, &at), found);
        assert_eq!(names(source, &[0x10030]), ["label"], "its own address");
    }

    #[test]
    fn other_names_and_source_files_and_whole_functions_are_told() {
        let source = "
            .file \"a.c\"
            .type helper,@function; helper: .fill 16; .size helper, .-helper
            .globl run; .type run,@function; run: .fill 16; .size run, .-run
            .type run.cold,@function; run.cold: .fill 16; .size run.cold, .-run.cold
            .type lone.part.0,@function; lone.part.0: .fill 16; .size lone.part.0, .-lone.part.0
            .type lone.isra.1.cold,@function; lone.isra.1.cold: .fill 16; .size lone.isra.1.cold, .-lone.isra.1.cold
            .globl shown; .type shown,@function; .globl __shown; .type __shown,@function; .type of_us,@function; .weak shwn; .type shwn,@function
            shown: __shown: shwn: of_us: .fill 16; .size of_us, .-of_us
            .size shown, .-shown; .size __shown, .-__shown; .size shwn, .-shwn
        ";
        let file = assembled(source);
        let at: Vec<Svma> = (0..6).map(|n| Svma(0x10000 + 16 * n)).collect();
        let found = SymbolTable::Static.around(&file[..], &at, Beginnings::UNKNOWN).expect("a table");
        let told: Vec<_> =
            found.iter().flatten().map(|it| (it.file, it.whole.0, it.aliases.clone())).collect();
        let (local, global) = (Some(&b"a.c"[..]), None);
        assert_eq!(
            told[..3],
            [(local, 0x10000, vec![]), (global, 0x10010, vec![]), (local, 0x10010, vec![])]
        );
        assert_eq!(told[3..5], [(local, 0x10030, vec![]), (local, 0x10030, vec![])]);
        assert_eq!(told[5], (global, 0x10050, vec![&b"shwn"[..], b"__shown"]));
        assert_eq!(&*found[5].as_ref().expect("it has a name").name, b"shown");
    }

    #[test]
    fn parts_and_variants_name_their_function() {
        for (name, whole) in [
            ("f.cold", "f"),
            ("f.cold.12", "f"),
            ("f.part.0", "f"),
            ("f.isra.0.constprop.1.cold", "f"),
            ("_Z3foov.localalias", "_Z3foov"),
            ("f.lto_priv.3", "f"),
        ] {
            assert_eq!(part_of(name.as_bytes()), Some(whole.as_bytes()), "{name}");
        }
        for name in
            ["f", ".cold", "f.part", "f.7", "main.part", "f.resume", "f._omp_fn.0", "f.llvm.1", "a.b.c"]
        {
            assert_eq!(part_of(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn marks_of_code_and_data_are_no_names() {
        for name in ["$x", "$d", "$x.0", "$d.12", "$a.0", "$t.12", "$xrv64i2p1"] {
            assert!(is_mark(name.as_bytes()), "{name}");
        }
        for name in ["", "$", "x", "$foo", "$xy", "$data", "$draw"] {
            assert!(!is_mark(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_that_people_know_come_first() {
        let first = |names: &[(elf::SymbolBind, &'static str)]| {
            let rank = |(binding, name): &(_, &'static str)| rank(*binding, name.as_bytes());
            names.iter().min_by_key(|name| rank(name)).expect("some").1
        };
        let (global, local) = (elf::STB_GLOBAL, elf::STB_LOCAL);
        let mut names =
            vec![(global, "__libc_free"), (global, "cfree"), (global, "free"), (local, "__GI___libc_free")];
        assert_eq!(first(&names), "free");
        names.push((local, "f"));
        assert_eq!(first(&names), "free", "a stripped file has no other");
        names.push((elf::STB_WEAK, "fre"));
        assert_eq!(first(&names), "free", "a weak name is another one's");
        let start = [(local, "__libc_start_main_impl"), (global, "__libc_start_main@@GLIBC_2.34")];
        assert_eq!(first(&start), "__libc_start_main@@GLIBC_2.34");
        assert_eq!(rank(global, b"x@@V2"), rank(global, b"x"));
    }

    #[test]
    fn what_is_no_program_has_no_table() {
        for bytes in [&b""[..], b"text", b"\x7fELF", &[0x7f; 4096]] {
            assert_eq!(SymbolTable::Static.around(bytes, &[Svma(0)], Beginnings::UNKNOWN), None);
        }
    }
}
