//! Finds the source lines of addresses: runs a line program once.

use std::sync::Arc;

use gimli::{IncompleteLineProgram, Unit};

use super::info::Root;
use super::requested::Requested;
use super::{Broken, Dwarf, Guard, Slice, Strings};
use crate::map::Map;

/// A file of the program, and a line in it; 0 if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourceLine {
    pub(super) file: u64,
    pub(super) line: u32,
}

/// The line program of a unit.
pub(super) struct Lines<'d> {
    program: IncompleteLineProgram<Slice<'d>>,
}

impl<'d> Lines<'d> {
    /// Reads the header; `None` if the unit has no program.
    pub(super) fn open(dwarf: &Dwarf<'d>, root: &Root<'d>, guard: &Guard) -> Result<Option<Self>, Broken> {
        let Some(off) = root.line_program else { return Ok(None) };
        let unit = &root.unit;
        let program = dwarf.debug_line.program(off, unit.address_size(), unit.comp_dir, unit.name)?;
        let header = program.header();
        // Any number of units may share a program.
        guard.spend(header.header_length().saturating_add(header.raw_program_buf().len()))?;
        Ok(Some(Self { program }))
    }

    /// Runs the program, and hands over the row of each requested address; if several sequences cover an address, the row of the
    /// first one comes first.
    ///
    /// ```text
    /// rows      0x10 ──────── 0x18 ─ 0x1a ────────── 0x20 end
    /// line      7             8      7
    /// asked          0x14            0x1a   0x1f          0x21
    ///                7               7      7             (none)
    /// ```
    ///
    /// # Errors
    /// [`Broken`] where the program breaks; the rows before have been handed over.
    pub(super) fn run(
        &self,
        asked: Requested<'_>,
        guard: &Guard,
        mut take: impl FnMut(usize, SourceLine),
    ) -> Result<(), Broken> {
        let mut rows = self.program.clone().rows();
        let mut last: Option<(u64, SourceLine)> = None;
        // Linkers put sequences of dropped functions at 0: none of their rows counts, whatever its address.
        let mut is_dropped = false;
        while let Some((_, row)) = rows.next_row()? {
            let at = row.address();
            if let Some((begin, before)) = last {
                let span = if is_dropped { 0..0 } else { asked.within(begin, at) };
                if !span.is_empty() {
                    guard.spend(span.len())?;
                    span.for_each(|position| take(position, before));
                }
            } else {
                is_dropped = at == 0 || at < asked.code.0;
            }
            let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
            last = (!row.end_sequence()).then_some((at, SourceLine { file: row.file_index(), line }));
        }
        Ok(())
    }
}

impl Lines<'_> {
    /// Lists the numbers of all files, each with its MD5 if the program has checksums.
    pub(super) fn files(&self) -> impl Iterator<Item = (u64, Option<[u8; 16]>)> + '_ {
        let header = self.program.header();
        let first = u64::from(header.version() <= 4);
        let md5 = |file: &gimli::FileEntry<_>| header.file_has_md5().then(|| *file.md5());
        header.file_names().iter().zip(first..).map(move |(file, number)| (number, md5(file)))
    }
}

/// The names of source files, by their numbers in a line program.
pub(super) struct SourceFiles<'j, 'd> {
    dwarf: &'j Dwarf<'d>,
    unit: &'j Unit<Slice<'d>>,
    lines: Option<&'j Lines<'d>>,
    paths: Map<u64, Option<Arc<str>>>,
}

impl<'j, 'd> SourceFiles<'j, 'd> {
    pub(super) fn new(dwarf: &'j Dwarf<'d>, unit: &'j Unit<Slice<'d>>, lines: Option<&'j Lines<'d>>) -> Self {
        Self { dwarf, unit, lines, paths: Map::default() }
    }

    /// Returns the path of a file as the compiler wrote it; a relative one follows the directory of compilation.
    pub(super) fn path(
        &mut self,
        file: u64,
        strings: &Strings,
        guard: &Guard,
    ) -> Result<Option<Arc<str>>, Broken> {
        if let Some(path) = self.paths.get(&file) {
            return Ok(path.clone());
        }
        let path = source_path(self.dwarf, self.unit, self.lines, file).filter(|path| !path.is_empty());
        guard.spend(path.as_deref().map_or(0, <[u8]>::len))?;
        let path = path.map(|path| strings.path(&path));
        self.paths.insert(file, path.clone());
        Ok(path)
    }
}

/// Returns the path of a file of a line program, as the compiler wrote it; a relative one follows the directory of compilation.
pub(super) fn source_path<'d>(
    dwarf: &Dwarf<'d>,
    unit: &Unit<Slice<'d>>,
    lines: Option<&Lines<'d>>,
    file: u64,
) -> Option<Vec<u8>> {
    let header = lines?.program.header();
    let file = header.file(file)?;
    let mut path = unit.comp_dir.map(|dir| dir.slice().to_vec()).unwrap_or_default();
    // Directory 0 is the directory of compilation, which is an attribute of the unit.
    if file.directory_index() != 0
        && let Some(directory) = file.directory(header)
    {
        push(&mut path, dwarf.attr_string(unit, directory).ok()?.slice());
    }
    push(&mut path, dwarf.attr_string(unit, file.path_name()).ok()?.slice());
    Some(path)
}

/// Appends a path; an absolute one replaces what was there.
fn push(path: &mut Vec<u8>, part: &[u8]) {
    if part.starts_with(b"/") {
        path.clear();
    } else if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(part);
}
