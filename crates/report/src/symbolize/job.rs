//! Names all offsets in one image.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::names::{Found, Names};
use super::starts::Starts;
use super::{Answer, Function, Reason, Wanted, depth};
use crate::image::{self, ElfFile, Layout, Search, Svma};

/// Addresses that are looked up between two ticks.
const BATCH: usize = 256;

/// Answers all offsets of one image, and ticks each of them exactly once.
pub(super) fn run(wanted: &Wanted<'_>, search: &Search, tick: &(dyn Fn(u64) + Sync)) -> Vec<Answer> {
    let (file, layout) = match find(wanted, search) {
        Ok(found) => found,
        Err(reason) => {
            tick(wanted.offsets.len() as u64);
            return vec![Answer::Unnamed { reason, start: None, at: None }; wanted.offsets.len()];
        }
    };
    let at: Vec<Option<Svma>> = wanted.offsets.iter().map(|&off| layout.svma(off)).collect();
    let mut job =
        Job { starts: Starts::new(&file, &layout), layout: &layout, at: &at, tick, is_broken: false };
    let named = job.names(&file, search);
    tick(named.iter().filter(|functions| functions.is_none()).count() as u64);

    let reason = if job.is_broken { Reason::ImageUnreadable } else { Reason::NoSymbol };
    let unnamed =
        |at: Option<Svma>| Answer::Unnamed { reason, start: at.and_then(|at| job.starts.around(at)), at };
    let answers = named.into_iter().zip(&at);
    answers.map(|(functions, &at)| functions.map_or_else(|| unnamed(at), Answer::Named)).collect()
}

/// Opens the image, or what has its build-id and tells the same. A whole file of the recording is the very one that ran;
/// of one that has only some sections the rest may be here.
fn find(wanted: &Wanted<'_>, search: &Search) -> Result<(ElfFile, Layout), Reason> {
    let image = wanted.image;
    let embedded = wanted.embedded.and_then(|embedded| embedded.open(image));
    match embedded {
        Some((file, layout)) if file.is_whole() => return Ok((file, layout)),
        embedded => image::find(image).or_else(|reason| embedded.ok_or(reason)),
    }
    .or_else(|reason| match reason {
        Reason::Jit | Reason::Vdso | Reason::Special => Err(reason),
        _ => image::stand_in(&image.build_id, search).ok_or(reason),
    })
}

/// An image that has been found, and what is asked of it.
struct Job<'a> {
    layout: &'a Layout,
    starts: Starts<'a>,
    at: &'a [Option<Svma>],
    tick: &'a (dyn Fn(u64) + Sync),
    /// A source of names could not be read.
    is_broken: bool,
}

type Named = Vec<Option<Vec<Function>>>;

impl Job<'_> {
    /// Asks the sources of names in turn, each for what those before it left open. A source is opened only if
    /// its tables have bytes: opening costs far more than knowing from the headers that there is nothing.
    fn names(&mut self, file: &ElfFile, search: &Search) -> Named {
        let mut named = vec![None; self.at.len()];
        if has_dwarf(file, self.layout) {
            self.ask(&mut named, || Names::with_dwarf(file));
            if self.layout.has(".symtab") {
                self.rename(&mut named, || Names::of_tables(file));
            }
        } else if let Some((debug, layout)) = image::debug_file(&self.layout.build_id, search) {
            if has_dwarf(&debug, &layout) {
                self.ask(&mut named, || Names::with_dwarf(&debug));
                if layout.has(".symtab") {
                    self.rename(&mut named, || Names::of_tables(&debug));
                }
            } else if layout.has(".symtab") {
                self.ask(&mut named, || Names::of_tables(&debug));
            }
        }
        if self.layout.has(".symtab") || self.layout.has(".dynsym") {
            self.ask(&mut named, || Names::of_tables(file));
        }
        named
    }

    /// Fills in what one source knows.
    fn ask<'f>(&mut self, named: &mut Named, open: impl FnOnce() -> Names<'f>) {
        let todo = self.those(named, Option::is_none);
        self.is_broken |= guarded(&todo, open, |batch, found| {
            let mut new = 0;
            for (&(i, at), found) in batch.iter().zip(found) {
                named[i] = found.filter(|found| self.covers(found, at)).map(|found| found.functions);
                new += u64::from(named[i].is_some());
            }
            (self.tick)(new);
        })
        .is_none();
    }

    /// Gives physical functions the name that the symbol table has for them. DWARF may know less: with line tables
    /// alone it has names without their path (`push` for `Vec<T>::push`), and none of `.cold` or `.part.0`.
    fn rename<'f>(&mut self, named: &mut Named, open: impl FnOnce() -> Names<'f>) {
        let todo = self.those(named, Option::is_some);
        self.is_broken |= guarded(&todo, open, |batch, found| {
            for (&(i, at), found) in batch.iter().zip(found) {
                let symbol =
                    found.filter(|found| self.covers(found, at)).and_then(|mut found| found.functions.pop());
                if let (Some(function), Some(symbol)) =
                    (named[i].as_mut().and_then(|list| list.last_mut()), symbol)
                {
                    function.name = symbol.name;
                }
            }
        })
        .is_none();
    }

    /// The addresses whose names are (not) there yet, with their positions.
    fn those(&self, named: &Named, which: fn(&Option<Vec<Function>>) -> bool) -> Vec<(usize, Svma)> {
        let all = named.iter().zip(self.at).enumerate();
        all.filter_map(|(i, (functions, &at))| which(functions).then_some((i, at?))).collect()
    }

    /// Reports whether a symbol without a size, as assembly has them, can be the function around an address: in
    /// the same section (else `_init` would name the whole of `.plt`), and no other function begins between.
    fn covers(&self, found: &Found, at: Svma) -> bool {
        found.is_sized
            || (found.may_have_ranges && self.layout.code_around(Svma(0)).is_none())
            || (self.layout.code_around(at).is_some_and(|code| code.contains(&found.start))
                && self.starts.around(at).is_none_or(|start| start <= found.start))
    }
}

/// Looks up addresses batch by batch and hands over what was found; `None` if the source is broken.
///
/// The input is a file that anyone may have written. gimli and object return errors; blazesym means to, but indexes
/// and adds unchecked in places (a line row may name a file that is not in the table). Its state is thrown away after
/// a panic, and `take` only ever sees whole batches, so nothing torn is seen. A panic costs this source, not the
/// report.
fn guarded<'f>(
    todo: &[(usize, Svma)],
    open: impl FnOnce() -> Names<'f>,
    mut take: impl FnMut(&[(usize, Svma)], Vec<Option<Found>>),
) -> Option<()> {
    if todo.is_empty() {
        return Some(());
    }
    let looked_up = catch_unwind(AssertUnwindSafe(|| {
        let names = open();
        for batch in todo.chunks(BATCH) {
            let addresses: Vec<u64> = batch.iter().map(|&(_, at)| at.0).collect();
            take(batch, names.look_up(&addresses)?);
        }
        Some(())
    }));
    looked_up.unwrap_or(None)
}

/// Reports whether a file has DWARF that may be handed to blazesym.
fn has_dwarf(file: &ElfFile, layout: &Layout) -> bool {
    image::dwarf_is_readable(file, layout) && depth::is_bounded(file, layout)
}
