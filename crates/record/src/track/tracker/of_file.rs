//! What the file that is written now has already, and the rows that wait for it. A recorder that rotates makes several files, one after
//! the other, and each has ids of its own.

use std::sync::Arc;

use icecore_elf::{Avma, FileOff};
use icecore_format::block::Processes;
use icecore_format::records::{
    Cgroup, JitV1, KernelSymbol, Lifecycle, Location, Loss, Mapping, RateChange, Sample, StringsV1, Task,
    Wait,
};
use rustc_hash::FxHashSet;

use super::Totals;
use crate::track::batch::Batch;
use crate::track::intern::Interner;
use crate::track::jit::Made;
use crate::track::snapshots::Snapshots;
use crate::track::stacks::Stacks;

/// The number of keys of one kind that are remembered before all are forgotten.
pub(super) const REMEMBERED: usize = 64 << 10;
/// The bytes of names and paths that are remembered; each counts as its length and a fixed overhead.
const REMEMBERED_BYTES: usize = 8 << 20;
const OF_EACH: usize = 64;

/// The ids of one file, and its rows since the last batch.
#[derive(Debug)]
pub(crate) struct OfFile {
    strings: Interner<Vec<u8>>,
    pub(super) tasks: Interner<Task>,
    /// The ids of images in this file, by the tracker's own ids.
    pub(super) images: Interner<u32>,
    pub(super) stacks: Stacks,
    pub(super) snapshots: Snapshots,
    pub(super) lifecycle: Vec<Lifecycle>,
    pub(super) cgroups: Vec<Cgroup>,
    pub(super) mappings: Vec<Mapping>,
    pub(super) samples: Vec<Sample>,
    pub(super) waits: Vec<Wait>,
    pub(super) losses: Vec<Loss>,
    pub(super) rates: Vec<RateChange>,
    pub(super) processes: Processes,
    /// Kernel addresses that were first sampled since the last batch.
    pub(super) kernel_addresses: Vec<Avma>,
    /// Code in images that was first hit since the last call: image and offset in its file.
    pub(super) code: Vec<(u32, FileOff)>,
    pub(super) kernel_symbols: Vec<KernelSymbol>,
    /// Starts of kernel functions that are in the file.
    pub(super) kernel_written: FxHashSet<Avma>,
    /// The earliest time in the batch.
    pub(super) first_ns: Option<u64>,
    pub(super) totals: Totals,
}

impl Default for OfFile {
    fn default() -> Self {
        let (lifecycle, cgroups, mappings, samples, waits, losses, rates) = Default::default();
        let (kernel_addresses, code, kernel_symbols, kernel_written) = Default::default();
        Self {
            strings: Interner::weighing(1, REMEMBERED_BYTES, |text| text.len() + OF_EACH),
            tasks: Interner::new(0, REMEMBERED),
            images: Interner::new(0, REMEMBERED),
            stacks: Stacks::default(),
            snapshots: Snapshots::default(),
            lifecycle,
            cgroups,
            mappings,
            samples,
            waits,
            losses,
            rates,
            processes: Processes::NONE,
            kernel_addresses,
            code,
            kernel_symbols,
            kernel_written,
            first_ns: None,
            totals: Totals::default(),
        }
    }
}

impl OfFile {
    /// Returns the counts over the file so far.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Forgets which names, tasks and stacks it has, to give back their memory: they become rows again.
    pub(crate) fn forget(&mut self) {
        self.strings.forget();
        self.tasks.forget();
        self.stacks.forget();
        self.snapshots.forget_all();
    }

    pub(super) fn string(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() { 0 } else { self.strings.id(text) }
    }

    pub(super) fn path(&mut self, path: Option<&Arc<[u8]>>) -> u32 {
        path.map_or(0, |path| self.string(path))
    }

    pub(super) fn task(&mut self, (tgid, tid, comm): (u32, u32, &[u8])) -> u32 {
        let comm = self.string(comm);
        self.tasks.id(&Task { tgid, tid, comm })
    }

    /// Returns the id of an image in this file.
    pub(super) fn image(&mut self, image: u32) -> u32 {
        self.images.id(&image)
    }

    /// Finds the id of an image in this file; `None` if the file does not refer to it.
    pub(crate) fn known_image(&self, image: u32) -> Option<u32> {
        self.images.find(&image)
    }

    /// Returns a location of code with the id that its image has in this file.
    pub(super) fn location(&mut self, location: Location) -> Location {
        match location {
            Location::Image { image, file_off } => Location::Image { image: self.image(image), file_off },
            Location::Address(_) => location,
        }
    }

    pub(super) fn begin(&mut self, time_ns: u64) {
        self.first_ns = Some(self.first_ns.map_or(time_ns, |first| first.min(time_ns)));
    }

    /// Returns the size of the rows that wait, bytes.
    pub(super) fn waiting_bytes(&self) -> usize {
        size_of_val(&self.samples[..])
            + size_of_val(self.stacks.waiting())
            + self.snapshots.waiting_bytes()
            + size_of_val(&self.mappings[..])
            + size_of_val(&self.lifecycle[..])
            + size_of_val(&self.cgroups[..])
            + self.strings.waiting()
    }

    pub(super) fn take_strings(&mut self) -> StringsV1 {
        let (first, strings) = self.strings.take_new();
        StringsV1::from_rows(first, &strings)
    }

    /// Makes a batch of JIT code and of the names of its source files.
    pub(crate) fn jit(&mut self, made: &[Made]) -> Batch {
        let rows: Vec<_> = made.iter().map(|it| it.piece.row(it.tgid, |text| self.string(text))).collect();
        Batch { strings: self.take_strings(), jit: JitV1::from_rows(&rows), ..Batch::default() }
    }
}
