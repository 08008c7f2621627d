//! Names all offsets in one image.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::dwarf::{self, Broken, Sources, SplitName};
use super::starts::Starts;
use super::strings::Strings;
use super::tables::{self, Table};
use super::{Answer, Function, Reason, Wanted};
use crate::image::{self, ElfFile, Files, Finder, Found, Layout, Search, Sections, Svma};

/// Answers all offsets of one image, and ticks each of them exactly once.
pub(super) fn run(wanted: &Wanted<'_>, finder: &Finder<'_>, tick: &(dyn Fn(u64) + Sync)) -> Vec<Answer> {
    let files = match finder.look(wanted.image).files {
        Ok(found) => found,
        Err(reason) => {
            tick(wanted.offsets.len() as u64);
            return vec![Answer::Unnamed { reason, start: None, at: None }; wanted.offsets.len()];
        }
    };
    let (file, layout) = (&files.image.file, &files.image.layout);
    // Segments may lie in another order in memory than in the file.
    let svmas: Vec<Option<Svma>> = wanted.offsets.iter().map(|&off| layout.svma(off)).collect();
    let mut at: Vec<Svma> = svmas.iter().flatten().copied().collect();
    at.sort_unstable();
    at.dedup();

    let starts = Starts::new(file, layout);
    let mut job = Job { layout, starts, at: &at, strings: Strings::default(), is_broken: false };
    let named = job.names(&files, finder.search, tick);
    let reason = if job.is_broken { Reason::ImageUnreadable } else { Reason::NoSymbol };
    let answer = |svma: Option<Svma>| {
        let position = svma.and_then(|svma| at.binary_search(&svma).ok());
        match position.and_then(|position| named[position].clone()) {
            Some(functions) => Answer::Named(functions),
            None => {
                let start = svma.and_then(|svma| job.starts.around(svma));
                Answer::Unnamed { reason, start, at: svma }
            }
        }
    };
    let answers = svmas.into_iter().map(answer).collect();
    tick((wanted.offsets.len() - at.len()) as u64);
    answers
}

/// An image that has been found, and what is asked of it.
struct Job<'a> {
    layout: &'a Layout,
    starts: Starts<'a>,
    /// Ascending, distinct.
    at: &'a [Svma],
    strings: Strings,
    /// A source of names could not be read.
    is_broken: bool,
}

type Named = Vec<Option<Vec<Function>>>;

impl Job<'_> {
    /// Asks the sources of names: DWARF of the image, or of its debug file; then the symbol tables of all files.
    fn names(&mut self, files: &Files, search: &Search, tick: &(dyn Fn(u64) + Sync)) -> Named {
        let ticked = AtomicU64::new(0);
        let count = |done| {
            ticked.fetch_add(done, Ordering::Relaxed);
            tick(done);
        };
        let mut named = match files.dwarf() {
            Some(found) => self.dwarf(found, files, search, &count),
            None => vec![None; self.at.len()],
        };
        tick(self.at.len() as u64 - ticked.into_inner());

        let debug = files.debug.as_ref().map(|debug| (&debug.file, &debug.layout));
        let mini = files.mini.as_ref().map(|(file, layout)| (file, layout));
        let image = (&files.image.file, &files.image.layout);
        for (file, layout) in debug.into_iter().chain([image]).chain(mini) {
            for table in Table::ALL.into_iter().filter(|table| layout.has(table.section())) {
                self.table(file, table, &mut named);
            }
        }
        named.into_iter().map(|functions| without_nameless(functions?)).collect()
    }

    /// Reads the DWARF of a file, and of those that it continues in.
    fn dwarf(&mut self, found: &Found, files: &Files, search: &Search, tick: &(dyn Fn(u64) + Sync)) -> Named {
        let open = |file: &ElfFile, layout: &Layout| Sections::open(file, layout, dwarf::is_read);
        let Some(main) = open(&found.file, &found.layout) else {
            self.is_broken = true;
            return vec![None; self.at.len()];
        };
        let supplement = files.alt.as_ref().and_then(|alt| open(&alt.file, &alt.layout));
        let package = files.dwp.as_ref().and_then(|(file, layout)| open(file, layout));
        let open_split = |split: SplitName<'_>| {
            let path = |bytes| Path::new(OsStr::from_bytes(bytes));
            let mut units = image::units(&found.file, path(split.directory), path(split.name), search);
            units.find_map(|(file, layout)| open(&file, &layout))
        };
        let sources = Sources {
            main: &main,
            supplement: supplement.as_ref(),
            package: package.as_ref(),
            open_split: &open_split,
        };
        match dwarf::look_up(&sources, self.layout.code_begin(), self.at, &self.strings, tick) {
            Ok(answers) => {
                self.is_broken |= answers.is_broken;
                answers.functions
            }
            Err(Broken) => {
                self.is_broken = true;
                vec![None; self.at.len()]
            }
        }
    }

    /// Asks a symbol table. What has no name gets one; a physical function gets the name that the table of all symbols has
    /// for it, because DWARF may know less: with line tables alone it has names without their path (`push` for
    /// `Vec<T>::push`), and none of `.cold` or `.part.0`.
    fn table(&mut self, file: &ElfFile, table: Table, named: &mut Named) {
        let is_asked = |functions: &Option<Vec<Function>>| {
            table == Table::Static || functions.as_deref().is_none_or(is_nameless)
        };
        let asked: Vec<usize> = (0..named.len()).filter(|position| is_asked(&named[*position])).collect();
        if asked.is_empty() {
            return;
        }
        let at: Vec<Svma> = asked.iter().map(|position| self.at[*position]).collect();
        let found = file.map().and_then(|map| tables::look_up(&map, table, &at, &self.strings));
        let Some(found) = found else {
            self.is_broken = true;
            return;
        };
        for ((position, at), found) in asked.into_iter().zip(at).zip(found) {
            let Some(found) = found.filter(|found| self.covers(found, at)) else { continue };
            let functions = named[position].get_or_insert_default();
            match functions.last_mut() {
                Some(physical) => physical.name = found.name,
                None => functions.push(Function { name: found.name, file: None, line: None }),
            }
        }
    }

    /// Reports whether a symbol without a size, as assembly has them, can be the function around an address: no other
    /// function begins between.
    fn covers(&self, found: &tables::Found, at: Svma) -> bool {
        found.is_sized || self.starts.around(at).is_none_or(|start| start <= found.start)
    }
}

fn is_nameless(functions: &[Function]) -> bool {
    functions.last().is_none_or(|physical| physical.name.is_empty())
}

/// Leaves out a physical function that nobody has a name for; what was inlined into it has.
fn without_nameless(mut functions: Vec<Function>) -> Option<Vec<Function>> {
    if is_nameless(&functions) {
        functions.pop();
    }
    (!functions.is_empty()).then_some(functions)
}
