//! Notes mappings from both sources: the reports of the kernel, and `/proc`.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use icecore_elf::{Avma, FileOff};
use icecore_format::records::{Cause, Loss, Mapping, Origin};

use super::Digest;
use crate::foreign::Process;
use crate::foreign::memory::Memory;
use crate::kernel::wire::NewMapping;
use crate::machine::identity::{Identity, MapFile};
use crate::proc::maps::{self, MapsLine};
use crate::proc::scan;
use crate::sys::{clock, memory, rest};
use crate::track::spaces::{MAX_MAPPED, Shown, Space};

/// The interval in which address spaces are read again while mapping reports are missing.
const READ_AGAIN_EVERY: Duration = Duration::from_millis(100);
/// The share of the time that reading may take, unless a budget allows less. Unused time is saved, as much as there is in half a second:
pub const READ_AGAIN_SHARE: f64 = 0.1;
const SAVED: Duration = Duration::from_millis(500);

/// The time budget for reading address spaces again.
#[derive(Debug)]
pub(super) struct ReadBudget {
    /// The share of the time that reading may take.
    share: f64,
    /// The last time at which address spaces were read, or could have been.
    at: Instant,
    /// The time that reading may take now.
    left: Duration,
    /// The time that the last reading took beyond that.
    owed: Duration,
}

impl ReadBudget {
    pub(super) fn new(share: f64) -> Self {
        Self { share, at: Instant::now(), left: SAVED.mul_f64(share), owed: Duration::ZERO }
    }

    /// Returns true if it is too early to read again.
    pub(super) fn is_early(&self) -> bool {
        self.at.elapsed() < READ_AGAIN_EVERY
    }
}

impl Digest {
    pub(super) fn mapping(&mut self, mapping: &NewMapping<'_>) {
        if !self.followed.has(mapping.tgid) {
            return;
        }
        if !self.floods.takes(mapping.tgid, mapping.time_ns) {
            self.tracker.lack_reports_of(mapping.tgid, mapping.time_ns);
            return;
        }
        let identity = self.identities.of_report(mapping);
        let NewMapping { time_ns, tgid, start: Avma(start), len, file_off: FileOff(file_off), .. } = *mapping;
        let origin = Origin::EVENT;
        let row = Mapping { time_ns, tgid, start, len, file_off, image: 0, origin, mount_ns: 0 };
        self.mapped(row, &identity, place(&row));
    }

    pub(super) fn found(&mut self, found: &[Process]) {
        for process in found {
            let time_ns = process.time_ns;
            self.tracker.found(time_ns, process.tgid, process.parent_tgid, &process.comm);
            if !process.maps.is_empty() && memory::is_shared(process.tgid, process.parent_tgid) {
                self.tracker.found_sharing(time_ns, process.tgid, process.parent_tgid, &process.comm);
            }
            let moved = self.cgroups.found(process.tgid, &process.cgroup);
            self.moved(time_ns, moved);
            self.has_mapped(process);
        }
    }

    /// Notes all that a process has mapped.
    pub(super) fn has_mapped(&mut self, process: &Process) {
        let Process { time_ns, tgid, .. } = *process;
        if process.is_silent || maps::executable(&process.maps).nth(MAX_MAPPED).is_some() {
            return self.give_up(tgid);
        }
        for line in maps::executable(&process.maps) {
            let identity = self.identities.of_maps_line(tgid, &line);
            let row = row(time_ns, tgid, &line, Origin::SCAN);
            self.mapped(row, &identity, place(&row));
        }
    }

    /// Notes a mapping, sets its image and mount namespace, and shows its file to those who collect from it and judge it. `place` leads to
    /// the file.
    pub(super) fn mapped(&mut self, row: Mapping, identity: &Identity, place: MapFile) {
        let Mapping { time_ns, tgid, .. } = row;
        let row = Mapping { mount_ns: self.mounts.of(tgid), ..row };
        let image = self.tracker.mapping(row, identity.image(), &identity.path);
        if let Some(collector) = &mut self.collector {
            collector.see(time_ns, image, identity, place);
        }
        if let Some(frame_pointers) = &mut self.frame_pointers {
            frame_pointers.see(image, identity, place);
        }
    }

    /// Reads the address spaces of processes again, within the time budget, because mapping reports are missing. The reports may be of any
    /// process: one that maps all the time fills the queues of all.
    pub(super) fn read_again(&mut self, tgids: &[u32]) {
        let passed = self.reading.at.elapsed();
        self.reading.at += passed;
        let earned = passed.mul_f64(self.reading.share);
        let paid = earned.min(self.reading.owed);
        self.reading.owed -= paid;
        self.reading.left = (self.reading.left + (earned - paid)).min(SAVED.mul_f64(self.reading.share));
        for tgid in tgids {
            if self.reading.left.is_zero() || rest::is_needed() {
                return;
            }
            let begun = Instant::now();
            if !self.see_again(*tgid) {
                self.compare(*tgid);
            }
            let took = begun.elapsed();
            self.reading.owed += took.saturating_sub(self.reading.left);
            self.reading.left = self.reading.left.saturating_sub(took);
        }
    }

    /// Compares the address space of a process in `/proc` with the known one. If both are equal, no report that matters was lost. A missing
    /// mapping was made at an unknown time since all was known, and counts from the beginning of that time. Where another mapping
    /// lies than the known one, it is unknown which of both earlier samples hit.
    fn compare(&mut self, tgid: u32) {
        let before_ns = clock::monotonic_ns();
        let text = Memory::of(tgid, &self.door).maps();
        let after_ns = clock::monotonic_ns();
        let is_silent = text.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        let text = text.unwrap_or_default();
        if is_silent || maps::executable(&text).nth(MAX_MAPPED).is_some() {
            return self.give_up(tgid);
        }
        let (space, since_ns) = self.tracker.latest(tgid);
        let Some(lines) = self.shown(tgid, &space, &text) else { return };
        // The process has ended.
        if lines.is_empty() {
            return;
        }
        let was_right = !space.may_be_full() && lines.iter().all(|(.., shown)| *shown != Shown::Other);
        self.tracker.has_only(tgid, before_ns, lines.iter().map(|(line, ..)| range(line)).collect());
        for (line, identity, shown) in &lines {
            let (time_ns, origin) = match shown {
                Shown::Whole => continue,
                Shown::Part if was_right => (since_ns, Origin::SCAN),
                // The new mapping replaces the known one.
                _ => (after_ns, Origin::EVENT),
            };
            let row = row(time_ns, tgid, line, origin);
            self.mapped(row, identity, place(&row));
        }
        self.tracker.prove(tgid, if was_right { before_ns } else { after_ns }, was_right);
    }

    /// Compares what a process has mapped with its known address space; `None` if that must wait, because the recorder has used most of its budget.
    pub(super) fn shown<'a>(
        &mut self,
        tgid: u32,
        space: &Space,
        maps: &'a [u8],
    ) -> Option<Vec<(MapsLine<'a>, Identity, Shown)>> {
        let lines = maps::executable(maps).map(|line| {
            if rest::is_needed() {
                return None;
            }
            let identity = self.identities.of_maps_line(tgid, &line);
            let images = self.tracker.images_of(&identity.path, identity.image());
            let shown = space.shows(range(&line), &images, FileOff(line.file_off));
            Some((line, identity, shown))
        });
        lines.collect()
    }

    /// Gives up a process that has too many mappings of code, or whose mappings were not read.
    fn give_up(&mut self, tgid: u32) {
        let time_ns = clock::monotonic_ns();
        self.tracker.give_up(tgid, time_ns);
        self.floods.name(tgid, time_ns);
    }

    /// Counts the refused reports as a loss, and names their processes.
    pub(super) fn name_floods(&mut self) {
        let (refused, processes) = self.floods.take();
        if refused > 0 {
            self.lost(Loss::of(Cause::MAPPINGS_REFUSED, refused));
        }
        for (tgid, time_ns) in processes {
            self.tracker.refuse_mappings(time_ns, tgid, &scan::comm_of(tgid));
        }
    }
}

/// Returns the addresses of a line of `/proc/PID/maps`.
pub(super) fn range(line: &MapsLine<'_>) -> Range<Avma> {
    Avma(line.start)..Avma(line.end)
}

/// Returns where a mapping is.
pub(super) fn place(row: &Mapping) -> MapFile {
    let end = Avma(row.start.saturating_add(row.len));
    MapFile { tgid: row.tgid, start: Avma(row.start), end }
}

/// Returns the row of a line of `/proc/PID/maps`.
pub(super) fn row(time_ns: u64, tgid: u32, line: &MapsLine<'_>, origin: Origin) -> Mapping {
    let MapsLine { start, end, file_off, .. } = *line;
    Mapping { time_ns, tgid, start, len: end - start, file_off, image: 0, origin, mount_ns: 0 }
}
