//! Begins another file in the midst of a run. The new file stands alone: it begins with the processes, cgroups and mappings of the moment.

use std::sync::Arc;

use icecore_elf::Avma;
use icecore_format::records::{Cgroup, Change, Lifecycle, Mapping, Origin, RateChange};
use rustc_hash::FxHashSet;

use super::{OfFile, Tracker};
use crate::track::spaces::Region;

impl Tracker {
    /// Ends the file of all that is settled, whose last batch was taken, and begins the next one. Returns what the old file has, and the
    /// images that may still be hit. `mount_of` returns the mount namespace of a process.
    ///
    /// # Cost
    /// One row for each process and for each of its mappings.
    pub(crate) fn turn(&mut self, mount_of: impl FnMut(u32) -> u64) -> (OfFile, FxHashSet<u32>) {
        let old = std::mem::take(&mut self.file);
        self.file.first_ns = self.waiting.first_ns();
        self.notes.end_file();
        self.fields.end_file();
        let live = self.live_images();
        self.restate(mount_of);
        (old, live)
    }

    /// Ends the last file.
    pub(crate) fn end(&mut self) -> OfFile {
        std::mem::take(&mut self.file)
    }

    /// Forgets the images that no process has mapped, if there are many.
    pub(super) fn forget_images(&mut self) {
        if self.images.is_full() {
            let live = self.live_images();
            self.images.keep_only(&live);
        }
    }

    /// Returns the images that processes have mapped.
    fn live_images(&self) -> FxHashSet<u32> {
        let spaces = self.spaces.all();
        let mapped = spaces.iter().flat_map(|(_, space)| space.regions()).map(|(_, region)| region.shown);
        mapped.chain(self.waiting.images()).collect()
    }

    /// Makes rows of what is known at the moment that was settled last.
    fn restate(&mut self, mut mount_of: impl FnMut(u32) -> u64) {
        let (time_ns, file) = (self.settled_ns, &mut self.file);
        let rate = self.rate.filter(|rate| rate.share != RateChange::WHOLE);
        file.rates.extend(rate.map(|rate| RateChange { time_ns, ..rate }));
        let mut processes: Vec<_> = self.live.processes.iter().collect();
        processes.sort_unstable_by_key(|(tgid, _)| **tgid);
        for (tgid, process) in processes {
            let comm = file.string(&process.comm);
            let mut tell = |change, parent_tgid| {
                file.lifecycle.push(Lifecycle {
                    time_ns,
                    change,
                    tgid: *tgid,
                    tid: *tgid,
                    parent_tgid,
                    comm,
                });
            };
            tell(Change::FOUND, process.parent_tgid);
            if let Some(of) = self.spaces.shared_with(*tgid) {
                tell(Change::SHARES, of);
            }
            if self.spaces.is_given_up(*tgid) {
                tell(Change::MAPPINGS_REFUSED, 0);
            }
            if let Some(path) = &process.cgroup {
                let path = file.path(path.as_ref());
                file.cgroups.push(Cgroup { time_ns, tgid: *tgid, tid: *tgid, path });
            }
        }
        let mut threads: Vec<_> = self.live.threads.iter().collect();
        threads.sort_unstable_by_key(|(tid, _)| **tid);
        for (tid, (tgid, path)) in threads {
            let path = file.path(path.as_ref());
            file.cgroups.push(Cgroup { time_ns, tgid: *tgid, tid: *tid, path });
        }
        for (tgid, space) in self.spaces.all() {
            let mount_ns = mount_of(tgid);
            // It says that all of the process is known.
            let known = if space.is_complete() { Origin::SCAN } else { Origin::EVENT };
            for (Avma(start), Region { end, file_off, shown, is_moved, .. }) in space.regions() {
                let origin = if *is_moved { Origin::MOVED } else { known };
                let (len, file_off, image) = (end.0 - start, file_off.0, file.image(*shown));
                file.mappings.push(Mapping { time_ns, tgid, start, len, file_off, image, origin, mount_ns });
            }
        }
    }

    /// Makes the row of a mapping.
    pub(super) fn mapping_row(&mut self, row: Mapping) {
        let image = self.file.image(row.image);
        self.file.mappings.push(Mapping { image, ..row });
    }

    /// Makes the row of a task that is in another cgroup.
    pub(super) fn cgroup_row(&mut self, time_ns: u64, (tgid, tid): (u32, u32), path: Option<&Arc<[u8]>>) {
        let path = self.file.path(path);
        self.file.cgroups.push(Cgroup { time_ns, tgid, tid, path });
    }
}
