//! Names all offsets in one image.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use icecore_elf::{Beginnings, SymbolTable};
use memmap2::Mmap;

use super::dwarf::{self, Sources, SplitName};
use super::go;
use super::gsym;
use super::guard::Broken;
use super::starts::Starts;
use super::strings::Strings;
use super::stubs;
use super::symbol::Joiner;
use super::tables;
use super::{Answer, Function, Reason, Wanted};
use crate::image::{
    self, ElfFile, FileOff, Files, Finder, FoundFile, Gsym, Layout, Search, Sections, Svma, budget,
};
use crate::source::Checksums;

/// What became of an image.
#[derive(Debug)]
pub(super) struct Done {
    /// One for each offset.
    pub(super) answers: Vec<Answer>,
    /// There was no memory left for what its files have compressed, or for those of another image at the same time.
    pub(super) lacked_memory: bool,
}

/// Answers all offsets of one image, and ticks each of them exactly once: from what earlier reports have found out in the
/// same files, and by asking these.
pub(super) fn run(wanted: &Wanted<'_>, finder: &Finder<'_>, tick: &(dyn Fn(u64) + Sync)) -> Done {
    let refusals = budget::refusals();
    let (files, known) = (finder.look(wanted.image).files, finder.search.known.as_deref());
    let build_id = files.as_ref().map_or(&wanted.image.build_id, |files| &files.image.layout.build_id);
    // Anybody can write a recording: what its own files say holds for no other one.
    let stamps = files.as_ref().map_or_else(|_| Some(Vec::new()), Files::stamps);
    let path = wanted.image.path.strip_suffix(image::DELETED).unwrap_or(&wanted.image.path);
    let known = known.zip(stamps.as_deref()).map(|(known, files)| known.of_image(build_id, path, files));
    let find = |off: &FileOff| known.as_ref().and_then(|known| known.find(*off));
    let mut answers: Vec<Option<Answer>> = wanted.offsets.iter().map(find).collect();
    let open: Vec<usize> = (0..answers.len()).filter(|position| answers[*position].is_none()).collect();
    tick((answers.len() - open.len()) as u64);
    let offsets: Vec<FileOff> = open.iter().map(|position| wanted.offsets[*position]).collect();
    let new = match &files {
        Ok(files) if !offsets.is_empty() => {
            let new = ask(files, &offsets, finder.search, tick);
            if let Some(known) = known.filter(|_| new.is_final) {
                let rows: Vec<(FileOff, &Answer)> = offsets.into_iter().zip(&new.answers).collect();
                known.keep(&rows);
            }
            new.answers
        }
        Ok(_) => Vec::new(),
        Err(reason) => {
            tick(offsets.len() as u64);
            vec![Answer::Unnamed { reason: *reason, start: None, at: None }; offsets.len()]
        }
    };
    for (position, answer) in open.into_iter().zip(new) {
        answers[position] = Some(answer);
    }
    let answers =
        answers.into_iter().map(|answer| answer.expect("bug: an offset was not asked for")).collect();
    Done { answers, lacked_memory: budget::refusals() != refusals }
}

/// What the files of an image say.
struct ImageAnswers {
    /// One for each offset.
    answers: Vec<Answer>,
    /// The same files will say the same, and none that they name is missing.
    is_final: bool,
}

/// Asks the files of an image.
fn ask(files: &Files, offsets: &[FileOff], search: &Search, tick: &(dyn Fn(u64) + Sync)) -> ImageAnswers {
    let (file, layout) = (&files.image.file, &files.image.layout);
    // Segments may lie in another order in memory than in the file.
    let svmas: Vec<Option<Svma>> = offsets.iter().map(|&off| layout.svma(off)).collect();
    let mut at: Vec<Svma> = svmas.iter().flatten().copied().collect();
    at.sort_unstable();
    at.dedup();

    let (starts, strings) = (Starts::new(file, layout), Strings::default());
    let lacks_files = AtomicBool::new(false);
    let joiner = Joiner::default();
    let mut job = Job { layout, starts, at: &at, strings, joiner, is_broken: false, lacks_files };
    let refusals = budget::refusals();
    let named = job.names(files, search, tick);
    job.is_broken |= budget::refusals() != refusals;
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
    tick((offsets.len() - at.len()) as u64);
    ImageAnswers { answers, is_final: !job.is_broken && !job.lacks_files.into_inner() }
}

/// The open files that contain the DWARF of one image.
struct OpenDwarf {
    main: Sections,
    supplement: Option<Sections>,
    package: Option<Sections>,
}

fn open(file: &ElfFile, layout: &Layout) -> Option<Sections> {
    Sections::open(file, layout, dwarf::is_read)
}

impl OpenDwarf {
    fn open(found: &FoundFile, files: &Files) -> Option<Self> {
        let main = open(&found.file, &found.layout)?;
        let supplement = files.alt.as_ref().and_then(|alt| open(&alt.file, &alt.layout));
        let package = files.dwp.as_ref().and_then(|(file, layout)| open(file, layout));
        Some(Self { main, supplement, package })
    }

    fn sources<'a>(&'a self, open_split: &'a dwarf::OpenSplit<'a>) -> Sources<'a> {
        let Self { main, supplement, package } = self;
        Sources { main, supplement: supplement.as_ref(), package: package.as_ref(), open_split }
    }
}

/// Finds what the line tables around offsets, which ascend, say of source files: one answer for each path.
///
/// # Cost    opens the DWARF of the image, and reads the first entries of all its units
pub fn source_checksums(wanted: &Wanted<'_>, paths: &[&str], finder: &Finder<'_>) -> Vec<Checksums> {
    let read = || {
        let files = finder.look(wanted.image).files.ok()?;
        let found = files.dwarf()?;
        let layout = &files.image.layout;
        let mut at: Vec<Svma> = wanted.offsets.iter().filter_map(|off| layout.svma(*off)).collect();
        at.sort_unstable();
        at.dedup();
        let opened = OpenDwarf::open(found, &files)?;
        // Line tables are in the main file.
        let no_split = |_: SplitName<'_>, _: &dyn Fn(&Sections) -> bool| None;
        dwarf::checksums(&opened.sources(&no_split), layout.code_begin(), &at, paths).ok()
    };
    read().unwrap_or_else(|| vec![Checksums::default(); paths.len()])
}

/// An image that has been found, and the addresses that are requested of it.
struct Job<'a> {
    layout: &'a Layout,
    starts: Starts<'a>,
    /// Ascending, distinct.
    at: &'a [Svma],
    strings: Strings,
    joiner: Joiner,
    /// A source of names could not be read.
    is_broken: bool,
    /// One that was named is not here.
    lacks_files: AtomicBool,
}

type Named = Vec<Option<Vec<Function>>>;
type LookUp = fn(&ElfFile, &Layout, &[Svma], &Strings) -> Vec<Option<Arc<str>>>;

impl Job<'_> {
    /// Asks the sources of names: DWARF of the image, or of its debug file, else GSYM; then the symbol tables of all files.
    fn names(&mut self, files: &Files, search: &Search, tick: &(dyn Fn(u64) + Sync)) -> Named {
        let ticked = AtomicU64::new(0);
        let count = |done| {
            ticked.fetch_add(done, Ordering::Relaxed);
            tick(done);
        };
        let mut named = match (files.dwarf(), &files.gsym) {
            (Some(found), _) => self.dwarf(found, files, search, &count),
            (None, Some(gsym)) => self.gsym(gsym, &files.image.file),
            (None, None) => vec![None; self.at.len()],
        };
        tick(self.at.len() as u64 - ticked.into_inner());

        let debug = files.debug.as_ref().map(|debug| (&debug.file, &debug.layout));
        let mini = files.mini.as_ref().map(|(file, layout)| (file, layout));
        let image = (&files.image.file, &files.image.layout);
        for (file, layout) in debug.into_iter().chain([image]).chain(mini) {
            for table in SymbolTable::ALL.into_iter().filter(|table| layout.has(table.section())) {
                self.table(file, table, &mut named);
            }
        }
        let mut named: Named = named.into_iter().map(|functions| without_nameless(functions?)).collect();
        for look_up in [go::look_up, stubs::look_up] {
            self.last_resort(&files.image.file, look_up, &mut named);
        }
        named
    }

    /// Asks for names that nothing else has.
    fn last_resort(&self, file: &ElfFile, look_up: LookUp, named: &mut Named) {
        let unnamed: Vec<usize> = (0..named.len()).filter(|position| named[*position].is_none()).collect();
        let at: Vec<Svma> = unnamed.iter().map(|position| self.at[*position]).collect();
        for (position, name) in unnamed.into_iter().zip(look_up(file, self.layout, &at, &self.strings)) {
            named[position] = name.map(|name| vec![Function::new(name)]);
        }
    }

    /// Reads the DWARF of a file, and of those that it continues in.
    fn dwarf(
        &mut self,
        found: &FoundFile,
        files: &Files,
        search: &Search,
        tick: &(dyn Fn(u64) + Sync),
    ) -> Named {
        let Some(opened) = OpenDwarf::open(found, files) else {
            self.is_broken = true;
            return vec![None; self.at.len()];
        };
        let lacks_files = &self.lacks_files;
        let open_split = |split: SplitName<'_>, is_right: &dyn Fn(&Sections) -> bool| {
            let path = |bytes| Path::new(OsStr::from_bytes(bytes));
            let units = image::units(&found.file, path(split.directory), path(split.name), search);
            let unit = units.filter_map(|(file, layout)| open(&file, &layout)).find(is_right);
            lacks_files.fetch_or(unit.is_none(), Ordering::Relaxed);
            unit
        };
        let sources = opened.sources(&open_split);
        let answers = dwarf::look_up(&sources, self.layout.code_begin(), self.at, &self.strings, tick);
        self.believed(answers)
    }

    /// Reads GSYM.
    fn gsym(&mut self, gsym: &Gsym, image: &ElfFile) -> Named {
        let (file, off, len) = match gsym {
            Gsym::Section(off, len) => (image, off.0, *len),
            Gsym::Alone(file) => (file, 0, file.len),
        };
        let map = file.map();
        let range = usize::try_from(off).ok().zip(usize::try_from(len).ok());
        let range = range.and_then(|(begin, len)| Some(begin..begin.checked_add(len)?));
        let bytes = map.as_ref().zip(range).and_then(|(map, range)| map.get(range));
        let reaches = |start, at| self.layout.are_in_one_section(start, at) && self.begins_nothing(start, at);
        let answers = bytes.ok_or(Broken);
        let answers = answers.and_then(|bytes| gsym::look_up(bytes, self.at, &reaches, &self.strings));
        self.believed(answers)
    }

    /// Takes answers, and remembers if something was wrong.
    fn believed(&mut self, answers: Result<dwarf::FoundFunctions, Broken>) -> Named {
        self.is_broken |= answers.as_ref().map_or(true, |answers| answers.is_broken);
        answers.map_or_else(|Broken| vec![None; self.at.len()], |answers| answers.functions)
    }

    /// Asks a symbol table. What has no name gets one; a physical function gets the name that the table of all symbols has
    /// for it, because DWARF may know less: with line tables alone it has names without their path (`push` for
    /// `Vec<T>::push`), and none of `.cold` or `.part.0`.
    fn table(&mut self, file: &ElfFile, table: SymbolTable, named: &mut Named) {
        let is_asked = |functions: &Option<Vec<Function>>| {
            table == SymbolTable::Static || functions.as_deref().is_none_or(is_nameless)
        };
        let asked: Vec<usize> = (0..named.len()).filter(|position| is_asked(&named[*position])).collect();
        if asked.is_empty() {
            return;
        }
        let at: Vec<Svma> = asked.iter().map(|position| self.at[*position]).collect();
        let unwound = |at| self.starts.around(at);
        let referred = |wanted: &[Range<Svma>]| self.starts.referred(wanted);
        let beginnings = Beginnings { unwound: &unwound, referred: &referred };
        let look_up = |map: Mmap| tables::look_up(file.readable(&map), table, &at, beginnings);
        let found = file.map().and_then(look_up);
        let Some(found) = found else {
            self.is_broken = true;
            return;
        };
        for (position, found) in asked.into_iter().zip(found) {
            let Some(found) = found else { continue };
            let functions = named[position].get_or_insert_default();
            if functions.is_empty() {
                functions.push(Function::new("".into()));
            }
            if let Some(physical) = functions.last_mut() {
                self.joiner.join(physical, &found);
            }
        }
    }

    /// Reports whether the unwind tables know no other function that begins between.
    fn begins_nothing(&self, start: Svma, at: Svma) -> bool {
        self.starts.around(at).is_none_or(|other| other <= start)
    }
}

fn is_nameless(functions: &[Function]) -> bool {
    functions.last().is_none_or(|physical| physical.name.is_empty())
}

/// Removes a physical function that no source has a name for; functions that were inlined into it stay.
fn without_nameless(mut functions: Vec<Function>) -> Option<Vec<Function>> {
    if is_nameless(&functions) {
        functions.pop();
    }
    (!functions.is_empty()).then_some(functions)
}
