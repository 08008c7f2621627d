//! The state of the pump between two passes.

use std::cell::Cell;
use std::time::{Duration, Instant};

use icecore_format::records::{Cause, Loss, RateChange};
use rustc_hash::FxHashMap;

use crate::kernel::census::Reading;
use crate::kernel::feed::Feed;
use crate::sys::clock;
use crate::sys::queue::Queue;
use crate::threads::chunk::{Again, Chunk};

/// The longest sleep of the recorder if the ring does not wake it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The longest sleep if mapping reports arrive so fast that their queues would overflow in [`LOOK_EVERY`].
const LOOK_SOON: Duration = Duration::from_millis(5);
/// The longest sleep after new mappings were reported, and how many times: meanwhile the new code is judged, and the verdict should take
/// effect soon.
const LOOK_AT_NEW: (Duration, u32) = (Duration::from_millis(15), 6);
/// The longest sleep in a pause, in which nothing comes.
const LOOK_IN_PAUSE: Duration = Duration::from_millis(250);
/// How full a queue may become between two passes, 0 to 1.
const FULL_ENOUGH: f64 = 0.25;
/// The most bytes of mapping reports that wait for the end of a pass; further reports stay in their queues.
const MAX_REPORT_BYTES: usize = 16 << 20;

/// The time of the last check for a reason to end, and the longest time without one.
#[derive(Debug)]
pub struct Looks {
    last: Cell<Instant>,
    pub(super) longest: Cell<Duration>,
}

impl Default for Looks {
    fn default() -> Self {
        Self { last: Cell::new(Instant::now()), longest: Cell::default() }
    }
}

impl Looks {
    pub(super) fn note(&self) {
        let now = Instant::now();
        let passed = now.duration_since(self.last.replace(now));
        self.longest.set(self.longest.get().max(passed));
    }
}

/// The state and the counts of the pump.
#[derive(Debug)]
pub struct Progress {
    losses: FxHashMap<(Cause, u32, u8), (u64, u64)>,
    pub(super) high_water: u64,
    /// The next sleep if the ring does not wake the recorder.
    look_in: Duration,
    /// How many more sleeps are short because of new mappings.
    news: u32,
    /// Reports that wait for the end of a pass.
    pub(super) reports: Vec<u8>,
    /// Mapping reports from before now may be missing.
    pub(super) lacks_reports: bool,
    /// Readings of counters that wait for the end of a pass.
    pub(super) readings: Vec<Reading>,
    /// Changes of the sampling rate likewise, that the recorder goes on after a pause, and that memory is to be given back.
    pub(super) rates: Vec<RateChange>,
    pub(super) again: Option<Again>,
    pub(super) shrinks: bool,
    pub(super) is_paused: bool,
    /// Since when it pauses, ns `CLOCK_MONOTONIC`, if it does, and how long it paused before, since the current file began.
    pub(super) paused_since_ns: Option<u64>,
    pub(super) paused_ns: u64,
    /// When sampling, or the current file, began, ns `CLOCK_MONOTONIC`.
    pub(super) began_ns: u64,
    /// Records that were made before the pump ran, in the format of the ring.
    pub(super) records: Vec<u8>,
    /// The chunk that the tracker did not take before the recording ended.
    pub(super) unsent: Option<Chunk>,
    pub(super) longest_pass: Duration,
}

impl Default for Progress {
    fn default() -> Self {
        let (losses, high_water, news, reports, lacks_reports) = Default::default();
        let (readings, records, unsent, longest_pass) = Default::default();
        let (rates, again, shrinks, is_paused, began_ns) = Default::default();
        let (paused_since_ns, paused_ns) = Default::default();
        let look_in = LOOK_EVERY;
        Self {
            losses,
            high_water,
            look_in,
            news,
            reports,
            lacks_reports,
            readings,
            rates,
            again,
            shrinks,
            is_paused,
            paused_since_ns,
            paused_ns,
            began_ns,
            records,
            unsent,
            longest_pass,
        }
    }
}

impl Progress {
    /// Empties the queues of mapping reports; returns how full the fullest one was, 0 to 1. A long pass calls it often, so that the queues
    /// do not overflow.
    pub(super) fn look_at(&mut self, queues: &[Queue]) -> f64 {
        let mut fill: f64 = 0.0;
        for queue in queues {
            if self.reports.len() >= MAX_REPORT_BYTES {
                break;
            }
            let drained = queue.drain(&mut self.reports);
            self.lacks_reports |= drained.may_lack_some;
            fill = fill.max(drained.fill);
        }
        fill
    }

    /// Notes that it pauses from a moment on, or samples, ns `CLOCK_MONOTONIC`.
    pub(super) fn pause(&mut self, pauses: bool, at_ns: u64) {
        let since_ns = if pauses { self.paused_since_ns.or(Some(at_ns)) } else { None };
        if let Some(since_ns) = self.paused_since_ns.filter(|_| !pauses) {
            self.paused_ns += at_ns.saturating_sub(since_ns);
        }
        (self.paused_since_ns, self.is_paused) = (since_ns, pauses);
    }

    /// Notes that another file begins.
    pub(super) fn begin_file(&mut self, at_ns: u64) {
        (self.began_ns, self.paused_ns) = (at_ns, 0);
        self.paused_since_ns = self.paused_since_ns.map(|_| at_ns);
    }

    /// Returns how long it has paused since the current file began, ns.
    pub(super) fn paused_until(&self, now_ns: u64) -> u64 {
        self.paused_ns + self.paused_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }

    /// Returns how long to sleep now.
    pub(super) fn look_in(&self) -> Duration {
        match self.news {
            _ if self.is_paused => LOOK_IN_PAUSE,
            0 => self.look_in,
            _ => self.look_in.min(LOOK_AT_NEW.0),
        }
    }

    /// Chooses the next sleep by how full the fullest queue of mapping reports has become.
    pub(super) fn note_fill(&mut self, fill: f64) {
        self.news = if fill > 0.0 { LOOK_AT_NEW.1 } else { self.news.saturating_sub(1) };
        let until_full_enough =
            if fill > 0.0 { self.look_in.mul_f64((FULL_ENOUGH / fill).min(2.0)) } else { self.look_in * 2 };
        self.look_in = until_full_enough.clamp(LOOK_SOON, LOOK_EVERY);
    }

    /// Returns the losses since the last call.
    pub(super) fn new_losses(&mut self, sampler: &Feed<'_>) -> Vec<Loss> {
        let time_ns = clock::monotonic_ns();
        let mut losses = Vec::new();
        for total in sampler.losses() {
            let known = self.losses.entry((total.cause, total.cpu, total.event)).or_default();
            let (count, weight) = (total.count.saturating_sub(known.0), total.weight.wrapping_sub(known.1));
            if count > 0 {
                losses.push(Loss { time_ns, count, weight, ..total });
                *known = (total.count, total.weight);
            }
        }
        losses
    }
}
