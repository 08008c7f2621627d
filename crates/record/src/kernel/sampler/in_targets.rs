//! Makes probes in the processes of targets alone, so that they cost other processes nothing.
//!
//! The kernel makes a probe of tracefs only in the processes of threads for which an event of it is open, and runs our program at every hit
//! in these processes. New threads and processes inherit the events before they run, so no hit of theirs is lost.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};

use anyhow::{Context as _, bail, ensure};
use libbpf_rs::ProgramMut;
use rustc_hash::FxHashSet;

use super::attach_perf_event;
use super::uprobes::{Attached, is_refusal_of};
use crate::settings::{Event, InFile, Options, Place, Source, Target};
use crate::sys::memory::Mapped;
use crate::sys::perf;
use crate::sys::probes::Definitions;

/// How often the threads of targets are listed until no new one is found.
const MAX_LISTINGS: usize = 64;

/// Makes probes in the processes of targets alone.
pub(super) struct InTargets {
    definitions: Definitions,
    /// The children of targets are targets.
    inherits: bool,
}

impl InTargets {
    /// Returns `None` if there are no probes in programs, or every process is a target.
    ///
    /// # Errors
    /// Why the probes must be made in every process.
    pub(super) fn new(options: &Options, events: &[Event]) -> anyhow::Result<Option<Self>> {
        let is_in_programs =
            |event: &Event| matches!(event.source, Source::Probe { place: Place::User { .. }, .. });
        let inherits = match options.target {
            _ if !events.iter().any(is_in_programs) => return Ok(None),
            Target::System => return Ok(None),
            Target::Cgroups(_) => bail!("any process may be moved into a cgroup"),
            Target::Threads(_) => false,
            Target::Processes(_) | Target::Command => true,
        };
        ensure!(
            !inherits || perf::has_inherited_in_place(),
            "this kernel loses probes of processes whose parents end (needs Linux 6.13)"
        );
        Ok(Some(Self { definitions: Definitions::open()?, inherits }))
    }

    /// Attaches a program to instructions of a file, or to the returns of the functions that begin there, in the processes of the threads
    /// that `threads` lists. What the kernel refuses is left out.
    ///
    /// # Errors
    /// If the kernel refuses all, or for another reason.
    pub(super) fn attach(
        &self,
        program: &ProgramMut<'_>,
        at: &InFile,
        (is_return, cookie): (bool, u64),
        threads: &dyn Fn() -> Vec<u32>,
    ) -> anyhow::Result<Attached> {
        let file = File::open(&at.file)?;
        let all: Vec<(u64, u64)> = (0..)
            .zip(&at.offsets)
            .map(|(n, offset): (usize, _)| (*offset, at.counters.get(n).copied().unwrap_or(0)))
            .collect();
        let mut attached = Attached::default();
        // The kernel looks at instructions when it makes a probe: it makes them in this process first, which maps the file for that.
        let _mapped = Mapped::new(&file).ok();
        let (id, own) = match self.probe_here(&file, &all, is_return)? {
            Some(probed) => probed,
            None => {
                let mut taken = Vec::new();
                self.sift(&file, &all, is_return, &mut taken)?;
                attached.refused = all.iter().filter(|one| !taken.contains(one)).map(|one| one.0).collect();
                if taken.is_empty() {
                    return Ok(attached);
                }
                self.probe_here(&file, &taken, is_return)?
                    .context("the kernel refuses what it took before")?
            }
        };
        // The program belongs to the probe, whichever event brings it, and stays as long as that event is open. Nobody inherits that event:
        // since 6.12 the kernel gives an heir the program, too, and takes it from the probe when the heir ends.
        let bring = || threads().into_iter().find_map(|tid| perf::open_probe_of(id, tid, false).ok());
        if let Some(event) = bring() {
            attached.links.push(attach_perf_event(program, event.as_raw_fd(), cookie)?);
            // libbpf's link owns the descriptor now, and has started the event.
            perf::disable(event.into_raw_fd());
            attached.opened = self.open_for_all(id, threads)?;
        }
        drop(own);
        Ok(attached)
    }

    /// Defines probes and makes them in this process; `None` if the kernel refuses one of them.
    fn probe_here(
        &self,
        file: &File,
        some: &[(u64, u64)],
        is_return: bool,
    ) -> anyhow::Result<Option<(u64, OwnedFd)>> {
        let id = self.definitions.define(file, some, is_return)?;
        match perf::open_probe_of(id, 0, false) {
            Ok(own) => Ok(Some((id, own))),
            Err(error) if is_refusal_of(&error) => Ok(None),
            Err(error) => Err(error).context("cannot open the event of a probe"),
        }
    }

    /// Finds the instructions that the kernel does not refuse: it halves them as long as the kernel refuses one.
    fn sift(
        &self,
        file: &File,
        some: &[(u64, u64)],
        is_return: bool,
        taken: &mut Vec<(u64, u64)>,
    ) -> anyhow::Result<()> {
        let (before, after) = some.split_at(some.len() / 2);
        for half in [before, after].into_iter().filter(|half| !half.is_empty()) {
            if self.probe_here(file, half, is_return)?.is_some() {
                taken.extend(half);
            } else if half.len() > 1 {
                self.sift(file, half, is_return, taken)?;
            }
        }
        Ok(())
    }

    /// Opens an event for each thread of the targets, also for those that come while it does so.
    fn open_for_all(&self, id: u64, threads: &dyn Fn() -> Vec<u32>) -> anyhow::Result<Vec<OwnedFd>> {
        let (mut opened, mut seen) = (Vec::new(), FxHashSet::default());
        for _ in 0..MAX_LISTINGS {
            let new: Vec<u32> = threads().into_iter().filter(|tid| seen.insert(*tid)).collect();
            if new.is_empty() {
                return Ok(opened);
            }
            for tid in new {
                match perf::open_probe_of(id, tid, self.inherits) {
                    Ok(event) => opened.push(event),
                    // It has ended.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => {
                        return Err(explained(error, tid));
                    }
                }
            }
        }
        bail!("the targets make threads faster than events can be opened for them; record all processes (-a)")
    }

    /// Removes the probes, whose events must be closed.
    pub(super) fn remove(&self) {
        self.definitions.remove_all();
    }
}

fn explained(error: io::Error, tid: u32) -> anyhow::Error {
    let remedy = match error.raw_os_error() {
        Some(libc::EMFILE) => "; each thread needs one: raise the limit with `ulimit -n`",
        _ => "",
    };
    anyhow::Error::new(error).context(format!("cannot open an event of thread {tid}{remedy}"))
}
