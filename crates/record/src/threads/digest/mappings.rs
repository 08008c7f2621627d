//! Mappings, whoever tells of them: the kernel when they are made, `/proc` when a process is looked at.

use std::time::{Duration, Instant};

use icecore_format::records::{Cause, Mapping, Origin};

use super::Digest;
use crate::kernel::wire::NewMapping;
use crate::machine::identity::{Identity, Place};
use crate::proc::maps::{self, MapsLine};
use crate::proc::scan::{self, Process};
use crate::sys::clock;
use crate::track::spaces::{MAX_MAPPED, Shown};

/// How often address spaces are read again because reports of mappings are missing.
const READ_AGAIN_EVERY: Duration = Duration::from_millis(100);
/// The share of the time that this may take, and the longest time that is saved for it.
const READ_AGAIN_SHARE: f64 = 0.1;
const READ_AGAIN_AT_ONCE: Duration = Duration::from_millis(50);

/// Address spaces that are read again.
#[derive(Debug)]
pub(super) struct Reading {
    /// When that was done last, or might have been.
    at: Instant,
    /// How long it may take.
    left: Duration,
    /// How long it took that was not there.
    owed: Duration,
}

impl Reading {
    pub(super) fn new() -> Self {
        Self { at: Instant::now(), left: READ_AGAIN_AT_ONCE, owed: Duration::ZERO }
    }

    /// Returns true if it is too early to read again.
    pub(super) fn is_early(&self) -> bool {
        self.at.elapsed() < READ_AGAIN_EVERY
    }
}

impl Digest {
    pub(super) fn mapping(&mut self, mapping: &NewMapping<'_>) {
        if !self.is_followed(mapping.tgid) {
            return;
        }
        if !self.floods.takes(mapping.tgid, mapping.time_ns) {
            self.tracker.lack_reports_of(mapping.tgid, mapping.time_ns);
            return;
        }
        let identity = self.identities.of_report(mapping);
        let NewMapping { time_ns, tgid, start, len, file_off, .. } = *mapping;
        let origin = Origin::EVENT;
        let row = Mapping { time_ns, tgid, start, len, file_off, image: 0, origin, mount_ns: 0 };
        self.mapped(row, &identity);
    }

    pub(super) fn found(&mut self, found: &[Process]) {
        for process in found {
            let time_ns = process.time_ns;
            self.tracker.found(time_ns, process.tgid, process.parent_tgid, &process.comm);
            let moved = self.cgroups.found(process.tgid, &process.cgroup);
            self.moved(time_ns, moved);
            if maps::executable(&process.maps).nth(MAX_MAPPED).is_some() {
                self.give_up(process.tgid);
                continue;
            }
            for line in maps::executable(&process.maps) {
                let identity = self.identities.of_maps_line(process.tgid, &line);
                self.mapped(row(time_ns, process.tgid, &line, Origin::SCAN), &identity);
            }
        }
    }

    /// Notes a mapping, of which image and mount namespace are not told yet, and has its file looked at.
    fn mapped(&mut self, row: Mapping, identity: &Identity) {
        let Mapping { time_ns, tgid, start, len, .. } = row;
        let row = Mapping { mount_ns: self.mounts.of(tgid), ..row };
        let image = self.tracker.mapping(row, identity.image(), &identity.path);
        let place = Place { tgid, start, end: start.saturating_add(len) };
        if let Some(evidence) = &mut self.evidence {
            evidence.see(time_ns, image, identity, place);
        }
        if let Some(trust) = &mut self.trust {
            trust.see(image, identity, place);
        }
    }

    /// Reads the address spaces of processes again, as long as there is time for it, since reports of mappings may be missing.
    /// They may be those of any process: a neighbour that maps all the time fills the queues of all.
    pub(super) fn read_again(&mut self, tgids: &[u32]) {
        let passed = self.reading.at.elapsed();
        self.reading.at += passed;
        let earned = passed.mul_f64(READ_AGAIN_SHARE);
        let paid = earned.min(self.reading.owed);
        self.reading.owed -= paid;
        self.reading.left = (self.reading.left + (earned - paid)).min(READ_AGAIN_AT_ONCE);
        for tgid in tgids {
            if self.reading.left.is_zero() {
                return;
            }
            let begun = Instant::now();
            self.compare(*tgid);
            let took = begun.elapsed();
            self.reading.owed += took.saturating_sub(self.reading.left);
            self.reading.left = self.reading.left.saturating_sub(took);
        }
    }

    /// Compares the address space of a process with what is known of it. If nothing is missing, no report was lost that
    /// matters. What is missing was mapped since all was known; nobody can tell when, so that it is taken to have been there
    /// all the time. Where something else lies than was known, samples from before cannot be told which of both they met.
    fn compare(&mut self, tgid: u32) {
        let before_ns = clock::monotonic_ns();
        let text = scan::maps_of(tgid);
        let after_ns = clock::monotonic_ns();
        if maps::executable(&text).nth(MAX_MAPPED).is_some() {
            return self.give_up(tgid);
        }
        let (space, since_ns) = self.tracker.latest(tgid);
        let lines = maps::executable(&text).map(|line| {
            let identity = self.identities.of_maps_line(tgid, &line);
            let images = self.tracker.images_of(&identity.path, identity.image());
            let shown = space.shows(line.start..line.end, &images, line.file_off);
            (line, identity, shown)
        });
        let lines: Vec<_> = lines.collect();
        // Of a process that has ended nothing can be told.
        if lines.is_empty() {
            return;
        }
        let was_right = !space.may_be_full() && lines.iter().all(|(.., shown)| *shown != Shown::Other);
        self.tracker.has_only(tgid, before_ns, lines.iter().map(|(line, ..)| line.start..line.end).collect());
        for (line, identity, shown) in &lines {
            let (time_ns, origin) = match shown {
                Shown::Whole => continue,
                Shown::Part if was_right => (since_ns, Origin::SCAN),
                // It covers what was reported there.
                _ => (after_ns, Origin::EVENT),
            };
            self.mapped(row(time_ns, tgid, line, origin), identity);
        }
        self.tracker.prove(tgid, if was_right { before_ns } else { after_ns }, was_right);
    }

    /// Does not follow a process that has too much code mapped.
    fn give_up(&mut self, tgid: u32) {
        let time_ns = clock::monotonic_ns();
        self.tracker.give_up(tgid, time_ns);
        self.floods.name(tgid, time_ns);
    }

    /// Names the processes of which reports were refused.
    pub(super) fn name_floods(&mut self) {
        let (refused, processes) = self.floods.take();
        if refused > 0 {
            self.lost(Cause::MAPPINGS_REFUSED, u32::MAX, refused);
        }
        for (tgid, time_ns) in processes {
            self.tracker.refuse_mappings(time_ns, tgid, &scan::comm_of(tgid));
        }
    }
}

/// The row of a line of `/proc/PID/maps`.
fn row(time_ns: u64, tgid: u32, line: &MapsLine<'_>, origin: Origin) -> Mapping {
    let MapsLine { start, end, file_off, .. } = *line;
    Mapping { time_ns, tgid, start, len: end - start, file_off, image: 0, origin, mount_ns: 0 }
}
