//! Decides which processes keep frame pointers: the sampler believes walks through their code, and copies only the top of their
//! stacks.
//!
//! ```text
//! new image ─► Judge (a thread of its own) ─► Images ─┐
//! changed address space ─► /proc/PID/maps ────────────┴─► verdict ─► trusted_tgids (bpf/maps.h)
//! ```
//!
//! A process is trusted if all of its code lies in images that keep frame pointers, at least `ENOUGH` of each. Code that calls
//! nobody back (the vDSO, instructions that uprobes have moved) breaks no chain. Code in no file, writable code, and code without
//! unwind tables is not trusted, except for Go's own code, which keeps frame pointers.
//!
//! A verdict contains the number of pages of code that were examined. The sampler compares it with the process's own number, so
//! code that is mapped later ends the verdict at once, before the recorder learns of it.

mod filled;
mod go;
mod images;
mod judge;
pub(crate) mod kept;
mod packed;
mod room;
mod source;
mod tables;

use icecore_elf::Avma;
use icecore_format::records::Omission;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::foreign::memory::Memory;
use crate::foreign::{Door, ForeignFile};
use crate::interpreters::Interpreter;
use crate::kernel::sampler::{MAX_TRUSTED, OfGo, OfInterpreters, Sampler, Trusted};
use crate::kernel::wire::NoTable;
use crate::machine::identity::{Identity, MapFile};
use crate::proc::maps;
use crate::sys::usage;
use crate::track::spaces::Space;
use crate::track::tracker::Tracker;
use images::Images;
use kept::Kept;
pub use packed::check_tables;
use tables::Tables;

/// The share of the code of an image that must keep frame pointers. Of 820 programs and libraries of a Debian 12, the 8 that were
/// compiled to keep them have 0.99 and more, all others 0.82 at most. The rest is assembly, which calls nobody.
const ENOUGH: f64 = 0.95;

/// Gives verdicts on processes.
pub struct FramePointers {
    trusted: Trusted,
    of_go: OfGo,
    /// `None` if the sampler does not look for frames of interpreters.
    of_interpreters: Option<OfInterpreters>,
    /// The interpreters of the processes on that list.
    interpreters: FxHashMap<u32, Interpreter>,
    images: Images,
    /// `None` if stacks are not walked by unwind tables.
    tables: Option<Tables>,
    /// Processes with code that is still being judged.
    waiting: FxHashSet<u32>,
    /// The number of pages of code, by version of the address space: a forked process has the version of its parent.
    known: FxHashMap<u32, u64>,
    page_bytes: u64,
    /// The way to what processes have mapped.
    door: Door,
}

/// A verdict on a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// All of its code, this many pages, keeps frame pointers.
    Keeps(u64),
    /// Some of its code has not been judged.
    Open,
    Lacks,
}

impl FramePointers {
    /// Starts the threads that read unwind tables. `keeps` lets what they compile stay on disk for later recordings.
    ///
    /// # Errors
    /// If the lists of the sampler cannot be opened, or the kernel makes no thread.
    pub fn new(sampler: &Sampler<'_>, keeps: bool, door: &Door) -> anyhow::Result<Self> {
        let kept = if keeps { Kept::of_user() } else { None };
        let (waiting, known, interpreters) = Default::default();
        Ok(Self {
            trusted: sampler.trusted()?,
            of_go: sampler.of_go()?,
            of_interpreters: sampler.interpreters()?,
            interpreters,
            images: Images::new(door.clone())?,
            tables: sampler.tables()?.map(|tables| Tables::start(tables, kept, door.clone())).transpose()?,
            waiting,
            known,
            page_bytes: usage::page_bytes().into(),
            door: door.clone(),
        })
    }

    /// Notes that a walk lacked the unwind tables of a file. `held` opens the file of an image if it has been held open since it was
    /// mapped: the process may have ended.
    pub(crate) fn miss(
        &mut self,
        missed: &NoTable,
        tracker: &Tracker,
        held: impl FnOnce(u32) -> Option<ForeignFile>,
    ) {
        if let Some(tables) = &mut self.tables {
            let image = image_of(missed, tracker);
            tables.miss(missed, image, || held(image?));
        }
    }

    /// Lists the images that had no tables in the sampler for a while, and why.
    pub(crate) fn untabled(&mut self, tracker: &Tracker) -> Vec<(u32, Omission)> {
        let tables = self.tables.as_mut();
        tables.map(|tables| tables.untabled(|missed| image_of(missed, tracker))).unwrap_or_default()
    }

    /// Lists the images with an interpreter whose functions are in no stack, and why.
    pub(crate) fn refused_interpreters(&self) -> impl Iterator<Item = (u32, Omission)> + '_ {
        self.images.refused()
    }

    /// Has an image judged when it is mapped, unless it was judged already.
    pub(crate) fn see(&mut self, image: u32, identity: &Identity, place: MapFile) {
        self.images.see(image, identity, place);
    }

    /// Gives the verdicts that are possible now: on processes that have changed, and on those whose code has been judged
    /// meanwhile.
    ///
    /// # Cost
    /// Reads `/proc` for each change of a process whose images all keep frame pointers; costs next to nothing for others.
    pub(crate) fn settle(&mut self, mut changed: FxHashSet<u32>, tracker: &Tracker) {
        if let Some(tables) = &mut self.tables {
            tables.settle(|missed| image_of(missed, tracker));
        }
        if self.images.take_answers() {
            changed.extend(self.waiting.drain());
        }
        for tgid in changed {
            let Some(space) = tracker.space(tgid) else { continue };
            let of_go = space.images().flatten().find_map(|image| {
                let places = self.images.places(image)?;
                Some((space.address(image, places.code_off)?, places))
            });
            if let Some((code, places)) = of_go {
                self.of_go.put(tgid, &places.bytes(code));
            }
            self.look_for_interpreter(tgid, space);
            match self.verdict(tgid, space) {
                Verdict::Keeps(pages) => self.trusted.put(tgid, pages),
                Verdict::Lacks => self.trusted.withdraw(tgid),
                Verdict::Open => {}
            }
            // Whatever the verdict, an image that has not been judged may be a program of Go.
            if space.images().flatten().any(|image| self.images.keeps(image).is_none()) {
                if self.waiting.len() >= MAX_TRUSTED {
                    self.waiting.clear();
                }
                self.waiting.insert(tgid);
            }
        }
    }

    /// Returns the interpreter of a process whose frames the sampler looks for.
    pub(crate) fn interpreter(&self, tgid: u32) -> Option<&Interpreter> {
        self.interpreters.get(&tgid)
    }

    /// Notes that a process was forked: the sampler looks for frames of the interpreter of its parent in it.
    pub(crate) fn fork(&mut self, parent_tgid: u32, tgid: u32) {
        if let Some(interpreter) = self.interpreters.get(&parent_tgid).cloned() {
            self.interpreters.insert(tgid, interpreter);
        }
    }

    /// Shows the sampler where a process has the frames of its interpreter, if it has one.
    fn look_for_interpreter(&mut self, tgid: u32, space: &Space) {
        let Some(list) = &self.of_interpreters else { return };
        let found = space.images().flatten().find_map(|image| {
            let interpreter = self.images.interpreter(image)?;
            Some(interpreter.at(space.address(image, interpreter.code_off())?))
        });
        let all = &mut self.interpreters;
        match found {
            Some(interpreter) if all.len() < MAX_TRUSTED || all.contains_key(&tgid) => {
                list.put(tgid, &interpreter.bytes());
                all.insert(tgid, interpreter);
            }
            _ if all.remove(&tgid).is_some() => list.withdraw(tgid),
            _ => {}
        }
    }

    fn verdict(&mut self, tgid: u32, space: &Space) -> Verdict {
        if let Some(pages) = self.known.get(&space.version()) {
            return Verdict::Keeps(*pages);
        }
        let kept = space.images().flatten().map(|image| self.images.keeps(image));
        match kept.min_by_key(|keeps| keeps.map_or(1, |keeps| u8::from(keeps) * 2)) {
            Some(Some(true)) if space.is_complete() => {}
            Some(None) => return Verdict::Open,
            _ => return Verdict::Lacks,
        }
        let maps = Memory::of(tgid, &self.door).maps().unwrap_or_default();
        let verdict = look(space, &maps, self.page_bytes, |image| self.images.keeps(image));
        if let Verdict::Keeps(pages) = verdict {
            if self.known.len() >= MAX_TRUSTED {
                self.known.clear();
            }
            self.known.insert(space.version(), pages);
        }
        verdict
    }
}

/// Returns which image is mapped where a walk lacked tables, if the recorder knows.
fn image_of(missed: &NoTable, tracker: &Tracker) -> Option<u32> {
    Some(tracker.space(missed.tgid)?.code(missed.start)?.0)
}

/// Judges all code that a process has mapped. A mapping that its address space lacks is not trusted.
fn look(space: &Space, maps: &[u8], page_bytes: u64, keeps: impl Fn(u32) -> Option<bool>) -> Verdict {
    let mut bytes = 0;
    // Mappings in the kernel's half are no pages of the process.
    for line in maps::executable(maps).filter(|line| line.start <= i64::MAX as u64) {
        let calls_nobody = line.inode == 0 && matches!(&*line.path, b"[vdso]" | b"[uprobes]");
        let image = space.code(Avma(line.start)).filter(|(_, file_off)| file_off.0 == line.file_off);
        let keeps = image.and_then(|(image, _)| keeps(image));
        if line.is_writable || !(calls_nobody || keeps == Some(true)) {
            return Verdict::Lacks;
        }
        bytes += line.end - line.start;
    }
    if bytes == 0 { Verdict::Lacks } else { Verdict::Keeps(bytes / page_bytes) }
}

#[cfg(test)]
mod tests;
