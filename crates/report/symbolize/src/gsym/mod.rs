//! Reads GSYM: functions, what was inlined into them, and source lines of the addresses of one file.
//!
//! The format is LLVM's: `llvm-gsymutil --convert` makes it of DWARF and symbol tables. A table of addresses leads to
//! one record per function, which has its size, its name, its lines, and the tree of what was inlined into it. Each record that
//! covers an asked address is read once. Nothing here recurses: calls may be nested as deep as a file is long.
//!
//! blazesym has a reader, too. It is not used because it follows that nesting by recursion and adds numbers of the file
//! without a check, so that a hostile file can end the process; and it starts over for each address.

mod file;
mod inlined;
mod lines;

use std::sync::Arc;

use gimli::{EndianSlice, RunTimeEndian};

use super::Function;
use super::dwarf::Answers;
use super::guard::{Broken, Guard};
use super::strings::Strings;
use crate::map::Map;
use file::{File, Record};
use icecore_elf::Svma;
use inlined::Inlined;
use lines::Row;

/// Bytes of a file.
type Slice<'d> = EndianSlice<'d, RunTimeEndian>;

/// Finds the functions at addresses, which ascend and differ. `reaches(start, at)` decides whether a function without a
/// size, as assembly has them, reaches so far.
///
/// # Shape   one answer per address, in the same order
/// # Errors  [`Broken`] if its tables do not fit into it, or it asks for more work than its size and the addresses justify
pub(super) fn look_up(
    bytes: &[u8],
    at: &[Svma],
    reaches: &dyn Fn(Svma, Svma) -> bool,
    strings: &Strings,
) -> Result<Answers, Broken> {
    let guard = Guard::new(bytes.len(), at.len());
    let file = File::open(bytes).ok_or(Broken)?;
    let mut writer =
        Writer { file: &file, strings, guard: &guard, names: Map::default(), paths: Map::default() };
    let mut functions = Vec::with_capacity(at.len());
    while let [first, ..] = at[functions.len()..] {
        let rest = &at[functions.len()..];
        let record = file.find(first, &guard).unwrap_or_else(|Broken| {
            guard.note();
            None
        });
        let Some(record) = record else {
            functions.push(None);
            continue;
        };
        let asked = &rest[..rest.partition_point(|at| *at < record.until).max(1)];
        // What is wrong with a record costs what it would have told.
        let named = writer.answers(&record, asked).unwrap_or_else(|Broken| {
            guard.note();
            vec![None; asked.len()]
        });
        let covers = |at: &Svma| record.is_sized || reaches(record.start, *at);
        functions.extend(named.into_iter().zip(asked).map(|(named, at)| named.filter(|_| covers(at))));
    }
    if guard.is_exhausted() {
        return Err(Broken);
    }
    Ok(Answers { functions, is_broken: guard.is_broken() })
}

/// Puts answers together.
struct Writer<'w, 'd> {
    file: &'w File<'d>,
    strings: &'w Strings,
    guard: &'w Guard,
    /// Names and paths that were read, by their numbers.
    names: Map<u32, Arc<str>>,
    paths: Map<u64, Option<Arc<str>>>,
}

impl Writer<'_, '_> {
    /// Reads one record. What it knows of lines and inlined calls may be broken; its name remains.
    fn answers(&mut self, record: &Record<'_>, asked: &[Svma]) -> Result<Vec<Option<Vec<Function>>>, Broken> {
        let parts = record.parts(self.guard)?;
        let mut rows = vec![None; asked.len()];
        if let Some(lines) = parts.lines {
            let take = |position: usize, row| rows[position] = Some(row);
            lines::run(lines, record.start, asked, self.guard, take)
                .unwrap_or_else(|Broken| self.guard.note());
        }
        let inlined = match parts.inlined {
            Some(tree) => Inlined::read(tree, record.start, asked, self.guard),
            None => Inlined::none(asked.len()),
        };
        let mut answers = Vec::with_capacity(asked.len());
        for (row, innermost) in rows.into_iter().zip(&inlined.innermost) {
            let functions = self.functions(record, &inlined, *innermost, row)?;
            answers.push((!functions.is_empty()).then_some(functions));
        }
        Ok(answers)
    }

    /// Goes from the innermost call outwards: the sampled line belongs to the first, the line of each call to the one
    /// around it.
    fn functions(
        &mut self,
        record: &Record<'_>,
        inlined: &Inlined,
        innermost: Option<u32>,
        row: Option<Row>,
    ) -> Result<Vec<Function>, Broken> {
        let mut functions = Vec::new();
        let (mut place, mut next) = (row, innermost);
        while let Some(call) = next {
            let call = &inlined.calls[call as usize];
            // Answers must not become more than the file and the addresses justify.
            self.guard.spend(8)?;
            // A call without a name is left out; of a function the symbol table may know more.
            let name = self.name(call.name)?;
            if !name.is_empty() {
                functions.push(self.function(name, place)?);
            }
            place = Some(call.place);
            next = call.caller;
        }
        let name = self.name(record.name)?;
        functions.push(self.function(name, place)?);
        Ok(functions)
    }

    fn function(&mut self, name: Arc<str>, place: Option<Row>) -> Result<Function, Broken> {
        let file = match place {
            Some(row) => self.path(row.file)?,
            None => None,
        };
        Ok(Function { name, file, line: place.map(|row| row.line).filter(|line| *line > 0) })
    }

    /// A name; empty if there is none.
    fn name(&mut self, off: u32) -> Result<Arc<str>, Broken> {
        if let Some(name) = self.names.get(&off) {
            return Ok(name.clone());
        }
        let raw = self.file.string(off).ok_or(Broken)?;
        self.guard.spend(raw.len())?;
        let name = self.strings.name(raw);
        self.names.insert(off, name.clone());
        Ok(name)
    }

    /// The path of a file by its number; number 0 is none.
    fn path(&mut self, number: u64) -> Result<Option<Arc<str>>, Broken> {
        if let Some(path) = self.paths.get(&number) {
            return Ok(path.clone());
        }
        let path = self.file.path(number).ok_or(Broken)?;
        self.guard.spend(path.len())?;
        let path = (!path.is_empty()).then(|| self.strings.path(&path));
        self.paths.insert(number, path.clone());
        Ok(path)
    }
}

#[cfg(test)]
mod tests;
