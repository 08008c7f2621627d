//! The tracker thread's part: from chunks to batches. It asks the outside world (files, kernel symbols)
//! what the pure [`Tracker`] is told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use icecore_format::records::{
    CallSite, CallSitesV1, Cause, Loss, Omission, Origin, SymbolsV1, UnwindRulesV1,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::evidence::files::{Carried, Extent};
use crate::evidence::jit::{Made, Told};
use crate::evidence::{Evidence, Found};
use crate::face::summary::tell;
use crate::kernel::sampler::SentPages;
use crate::kernel::wire::{self, Event, NewMapping, Report};
use crate::machine::cgroups::Cgroups;
use crate::machine::identity::{Identities, Identity, Place};
use crate::machine::mounts::Mounts;
use crate::proc::kallsyms::Kallsyms;
use crate::proc::maps::{self, MapsLine};
use crate::proc::scan::{self, Process};
use crate::settings::{Embed, Pace};
use crate::sys::{clock, usage};
use crate::threads::pump::Chunk;
use crate::track::batch::Batch;
use crate::track::floods::Floods;
use crate::track::spaces::{MAX_MAPPED, Shown};
use crate::track::tracker::{MappingRow, Totals, Tracker, kept_ns};
use crate::trust::Trust;

/// Rows of one block of symbols: a few MiB of names.
const SYMBOLS_PER_BLOCK: usize = 32 << 10;
/// How often address spaces are read again because reports of mappings are missing.
const READ_AGAIN_EVERY: Duration = Duration::from_millis(100);
/// The share of the time that this may take, and the longest time that is saved for it.
const READ_AGAIN_SHARE: f64 = 0.1;
const READ_AGAIN_AT_ONCE: Duration = Duration::from_millis(50);
/// Taking files is told to whoever waits for so long.
const TOLD_AFTER: Duration = Duration::from_millis(1500);

/// What the tracker knows at the end.
#[derive(Debug)]
pub(crate) struct Digested {
    pub(crate) totals: Totals,
    /// Items lost, by cause.
    pub(crate) losses: FxHashMap<Cause, u64>,
    pub(crate) embedded: Embedded,
}

/// What of the images is in the file.
#[derive(Debug, Default)]
pub(crate) struct Embedded {
    pub(crate) functions: u64,
    pub(crate) images: u64,
    /// Pieces of code that were too many.
    pub(crate) left_out: u64,
    /// Code made at run time.
    pub(crate) jit: Told,
    /// Their files.
    pub(crate) files: Carried,
}

/// What is taken of the images, and what ends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes<'a> {
    pub(crate) embed: Embed,
    pub(crate) max_bytes: u64,
    /// Stacks are copied.
    pub(crate) has_stacks: bool,
    /// It is told if it takes long.
    pub(crate) is_told: bool,
    /// Somebody asked for an end.
    pub(crate) stop: &'a AtomicBool,
    /// The disk refused a block.
    pub(crate) refused: &'a AtomicBool,
}

/// What is known of processes when recording begins.
pub(crate) struct Processes {
    /// Those that are recorded; `None` means all.
    pub(crate) followed: Option<FxHashSet<u32>>,
    /// Finds those of which the stacks need not be copied; `None` if all are, or none.
    pub(crate) trust: Option<Trust>,
    /// What the sampler has sent of stacks; `None` if none are copied.
    pub(crate) sent_pages: Option<SentPages>,
}

/// Works through chunks until the last has come.
pub(crate) fn digest(
    chunks: &Receiver<Chunk>,
    batches: SyncSender<Batch>,
    processes: Processes,
    pace: Pace,
    wishes: Wishes<'_>,
) -> Digested {
    // Behind it, stacks are copied into a ring that fills in a tenth of a second.
    if !wishes.has_stacks {
        usage::lower_priority();
    }
    let Processes { followed, trust, sent_pages } = processes;
    let mut digest = Digest {
        tracker: Tracker::new(pace),
        has_begun: false,
        identities: Identities::default(),
        cgroups: Cgroups::new(),
        mounts: Mounts::default(),
        evidence: (wishes.embed != Embed::None).then(Evidence::new),
        trust,
        sent_pages,
        kallsyms: None,
        reading: Reading { at: Instant::now(), left: READ_AGAIN_AT_ONCE, owed: Duration::ZERO },
        complete_until_ns: 0,
        followed,
        ended: Vec::new(),
        losses: FxHashMap::default(),
        floods: Floods::default(),
        batches,
    };
    for chunk in chunks {
        digest.chunk(&chunk);
        digest.settle(chunk.complete_until_ns);
        // In front of the first block nothing is written.
        if digest.has_begun && digest.tracker.is_due(clock::monotonic_ns()) {
            digest.flush(false);
        }
    }
    digest.settle(u64::MAX);
    digest.flush(true);
    let embedded = digest.embed(&wishes);
    Digested { totals: digest.tracker.totals(), losses: digest.losses, embedded }
}

struct Digest {
    tracker: Tracker,
    has_begun: bool,
    identities: Identities,
    cgroups: Cgroups,
    mounts: Mounts,
    /// None if none is wanted.
    evidence: Option<Evidence>,
    trust: Option<Trust>,
    sent_pages: Option<SentPages>,
    /// Read when the first kernel function needs a name.
    kallsyms: Option<Kallsyms>,
    reading: Reading,
    /// All that happened before this moment has been told.
    complete_until_ns: u64,
    followed: Option<FxHashSet<u32>>,
    /// Followed processes that ended in this chunk.
    ended: Vec<u32>,
    losses: FxHashMap<Cause, u64>,
    floods: Floods,
    batches: SyncSender<Batch>,
}

/// Address spaces that are read again.
#[derive(Debug)]
struct Reading {
    /// When that was done last, or might have been.
    at: Instant,
    /// How long it may take.
    left: Duration,
    /// How long it took that was not there.
    owed: Duration,
}

impl Digest {
    fn chunk(&mut self, chunk: &Chunk) {
        if let Some(began_ns) = chunk.began_ns {
            self.has_begun = true;
            self.tracker.begin_account(began_ns);
        }
        self.found(&chunk.found);
        for record in chunk.records() {
            match wire::decode(record) {
                Ok(event) => self.event(&event),
                Err(_) => self.lost(Cause::UNDECODABLE, u32::MAX, 1),
            }
        }
        // Behind the events of the ring: they tell which processes are followed.
        for report in wire::reports(&chunk.reports) {
            match report {
                Report::Mapping(mapping) => self.mapping(&mapping),
                Report::Lost(count) => self.lost(Cause::MAPPING_QUEUE_FULL, u32::MAX, count),
            }
        }
        // Behind the reports, which may be older than the end of their process. The id may come again.
        if let Some(followed) = &mut self.followed {
            self.ended.drain(..).for_each(|tgid| {
                followed.remove(&tgid);
            });
        }
        if chunk.lacks_reports {
            self.tracker.lack_reports(clock::monotonic_ns());
        }
        if let Some(sent) = &self.sent_pages {
            self.tracker.take_missing_pages().into_iter().for_each(|page| sent.forget(page));
        }
        chunk.losses.iter().for_each(|loss| self.lost(loss.cause, loss.cpu, loss.count));
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Fork { head, .. } => {
                self.followed.as_mut().map(|followed| followed.insert(head.tgid));
            }
            Event::Exit { head, whole_group: true } if self.followed.is_some() => self.ended.push(head.tgid),
            _ => {}
        }
        self.mounts.event(event);
        self.tracker.event(event);
        self.cgroup(event);
    }

    fn cgroup(&mut self, event: &Event<'_>) {
        let (time_ns, moved) = match event {
            Event::Sample(sample) => (kept_ns(sample.head.time_ns), self.cgroups.seen(&sample.head)),
            Event::Fork { head, parent_tgid } if *parent_tgid != head.tgid => {
                (head.time_ns, self.cgroups.forked(*parent_tgid, head))
            }
            Event::Exec { head } => (head.time_ns, self.cgroups.executed(head)),
            Event::Cgroup { head, path } => return self.cgroups.made(head.cgroup_id, path),
            Event::Fork { .. } | Event::Comm { .. } | Event::Exit { .. } => return,
            Event::Registers(_) | Event::StackPage(_) | Event::Stack(_) | Event::CpuTime(_) => return,
        };
        if let Some(moved) = moved {
            self.tracker.cgroup(time_ns, &moved);
        }
    }

    fn mapping(&mut self, mapping: &NewMapping<'_>) {
        if !self.is_followed(mapping.tgid) {
            return;
        }
        if !self.floods.takes(mapping.tgid, mapping.time_ns) {
            self.tracker.lack_reports_of(mapping.tgid, mapping.time_ns);
            return;
        }
        let identity = self.identities.of_report(mapping);
        let image = self.tracker.mapping(&MappingRow {
            time_ns: mapping.time_ns,
            tgid: mapping.tgid,
            start: mapping.start,
            len: mapping.len,
            file_off: mapping.file_off,
            identity: &identity,
            origin: Origin::EVENT,
            mount_ns: self.mounts.of(mapping.tgid),
        });
        let place = Place::of_report(mapping);
        if let Some(evidence) = &mut self.evidence {
            evidence.see(mapping.time_ns, image, &identity, &place);
        }
        if let Some(trust) = &mut self.trust {
            trust.see(image, &identity, &place);
        }
    }

    fn found(&mut self, found: &[Process]) {
        for process in found {
            let time_ns = process.time_ns;
            self.tracker.found(time_ns, process.tgid, process.parent_tgid, &process.comm);
            if let Some(moved) = self.cgroups.found(process.tgid, &process.cgroup) {
                self.tracker.cgroup(time_ns, &moved);
            }
            if maps::executable(&process.maps).nth(MAX_MAPPED).is_some() {
                self.give_up(process.tgid);
                continue;
            }
            for line in maps::executable(&process.maps) {
                let identity = self.identities.of_maps_line(process.tgid, &line);
                self.found_line(time_ns, process.tgid, &line, &identity, Origin::SCAN);
            }
        }
    }

    fn found_line(
        &mut self,
        time_ns: u64,
        tgid: u32,
        line: &MapsLine<'_>,
        identity: &Identity,
        origin: Origin,
    ) {
        let image = self.tracker.mapping(&MappingRow {
            time_ns,
            tgid,
            start: line.start,
            len: line.end - line.start,
            file_off: line.file_off,
            identity,
            origin,
            mount_ns: self.mounts.of(tgid),
        });
        let place = Place::of_maps_line(tgid, line);
        if let Some(evidence) = &mut self.evidence {
            evidence.see(time_ns, image, identity, &place);
        }
        if let Some(trust) = &mut self.trust {
            trust.see(image, identity, &place);
        }
    }

    /// Reads the address spaces of processes again, as long as there is time for it, since reports of mappings may be missing.
    /// They may be those of any process: a neighbour that maps all the time fills the queues of all.
    fn read_again(&mut self, tgids: &[u32]) {
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
            let images = self.tracker.images_of(&identity);
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
            match shown {
                Shown::Whole => {}
                Shown::Part if was_right => self.found_line(since_ns, tgid, line, identity, Origin::SCAN),
                // It covers what was reported there.
                _ => self.found_line(after_ns, tgid, line, identity, Origin::EVENT),
            }
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
    fn name_floods(&mut self) {
        let (refused, processes) = self.floods.take();
        if refused > 0 {
            self.lost(Cause::MAPPINGS_REFUSED, u32::MAX, refused);
        }
        for (tgid, time_ns) in processes {
            self.tracker.refuse_mappings(time_ns, tgid, &scan::comm_of(tgid));
        }
    }

    fn lost(&mut self, cause: Cause, cpu: u32, count: u64) {
        *self.losses.entry(cause).or_default() += count;
        self.tracker.loss(Loss { time_ns: clock::monotonic_ns(), cpu, cause, count });
    }

    fn settle(&mut self, until_ns: u64) {
        self.complete_until_ns = self.complete_until_ns.max(until_ns);
        let unsure = self.tracker.unsure();
        if !unsure.is_empty() {
            // One look proves all that waits.
            if until_ns < u64::MAX && self.reading.at.elapsed() < READ_AGAIN_EVERY {
                return;
            }
            self.read_again(&unsure);
        }
        self.name_floods();
        match self.tracker.settle(self.complete_until_ns) {
            0 => {}
            count => self.lost(Cause::STACKS_EXHAUSTED, u32::MAX, count),
        }
        match self.tracker.take_refused_stacks() {
            0 => {}
            count => self.lost(Cause::STACK_SHORTENED, u32::MAX, count),
        }
        let notes = self.tracker.take_notes();
        if let Some(evidence) = &mut self.evidence {
            evidence.note(&notes);
        }
        let changed = self.tracker.take_changed();
        if let Some(trust) = &mut self.trust {
            trust.settle(changed, &self.tracker);
        }
    }

    fn is_followed(&self, tgid: u32) -> bool {
        self.followed.as_ref().is_none_or(|followed| followed.contains(&tgid))
    }

    fn flush(&mut self, is_last: bool) {
        if self.tracker.wants_kernel_names() && self.kallsyms.is_none() {
            self.kallsyms = Some(Kallsyms::read().unwrap_or_else(|error| {
                tell(&format!("icecore-record: cannot read the names of kernel functions: {error}\n"));
                Kallsyms::default()
            }));
        }
        let mut batch = self.tracker.take_batch(self.kallsyms.as_ref());
        batch.cpu_times = self.tracker.take_cpu_times(clock::monotonic_ns(), is_last);
        let (code, counts) = self.tracker.take_hits();
        let (mut jit, mut call_sites) = (Vec::new(), Vec::new());
        if let Some(evidence) = &mut self.evidence {
            code.into_iter().for_each(|(image, file_off)| evidence.hit(image, file_off));
            counts.into_iter().for_each(|(image, hits)| evidence.count(image, hits));
            jit = evidence.take_jit();
            call_sites = evidence.take_call_sites();
        }
        // The writer takes batches until this end is dropped.
        let _ = self.batches.send(batch);
        self.send_jit(&jit);
        self.send_call_sites(&call_sites);
    }

    /// Writes down what the evidence tells, when sampling has ended.
    fn embed(&mut self, wishes: &Wishes<'_>) -> Embedded {
        let Some(mut evidence) = self.evidence.take() else { return Embedded::default() };
        let Found { symbols, rules, images, left_out, jit, call_sites, jit_told } = evidence.find();
        self.send_jit(&jit);
        self.send_call_sites(&call_sites);
        for rows in symbols.chunks(SYMBOLS_PER_BLOCK) {
            let _ = self.batches.send(Batch { symbols: SymbolsV1::from_rows(rows), ..Batch::default() });
        }
        for rows in rules.chunks(SYMBOLS_PER_BLOCK) {
            let unwind_rules = UnwindRulesV1::from_rows(rows);
            let _ = self.batches.send(Batch { unwind_rules, ..Batch::default() });
        }
        let functions = symbols.len() as u64;
        drop((symbols, rules));
        let files = match wishes.embed {
            Embed::None | Embed::Hits => Carried::default(),
            Embed::Sections => self.carry(evidence, Extent::Sections, wishes),
            Embed::All => self.carry(evidence, Extent::Whole, wishes),
        };
        Embedded { functions, images, left_out, jit: jit_told, files }
    }

    fn send_jit(&mut self, rows: &[Made]) {
        for rows in rows.chunks(SYMBOLS_PER_BLOCK) {
            let _ = self.batches.send(self.tracker.jit(rows));
        }
    }

    fn send_call_sites(&self, rows: &[CallSite]) {
        for rows in rows.chunks(SYMBOLS_PER_BLOCK) {
            let call_sites = CallSitesV1::from_rows(rows);
            let _ = self.batches.send(Batch { call_sites, ..Batch::default() });
        }
    }

    /// Writes the files themselves. A signal ends that and not the recorder, be it the second one; the next does.
    fn carry(&mut self, evidence: Evidence, extent: Extent, wishes: &Wishes<'_>) -> Carried {
        usage::background_priority();
        let Wishes { stop, refused, .. } = wishes;
        let was_asked = stop.swap(false, Ordering::Relaxed);
        let begun = Instant::now();
        let mut is_told = !wishes.is_told;
        let mut put = |image_parts| {
            if stop.load(Ordering::Relaxed) || refused.load(Ordering::Relaxed) {
                return false;
            }
            if !is_told && begun.elapsed() > TOLD_AFTER {
                is_told = true;
                tell(
                    "icecore-record: sampling is over; taking files into the recording (Ctrl-C ends that)\n",
                );
            }
            self.batches.send(Batch { image_parts, ..Batch::default() }).is_ok()
        };
        let mut carried = evidence.carry(extent, wishes.max_bytes, &mut put);
        stop.fetch_or(was_asked, Ordering::Relaxed);
        if refused.load(Ordering::Relaxed) {
            let rows = carried.left_out.iter_mut().map(|omitted| &mut omitted.row);
            rows.filter(|row| row.why == Omission::INTERRUPTED)
                .for_each(|row| row.why = Omission::WRITE_FAILED);
        }
        carried
    }
}
