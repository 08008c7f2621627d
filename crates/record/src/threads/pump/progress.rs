//! What the pump remembers from one look at the kernel to the next.

use std::cell::Cell;
use std::time::{Duration, Instant};

use icecore_format::records::{Cause, Loss};
use rustc_hash::FxHashMap;

use crate::kernel::sampler::Sampler;
use crate::sys::clock;
use crate::sys::queue::Queue;
use crate::threads::chunk::Chunk;

/// How long the recorder sleeps if the ring does not wake it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The same where mapping reports come so fast that their queues would overflow until then.
const LOOK_SOON: Duration = Duration::from_millis(5);
/// The same after new mappings were reported, so many times: what runs there is judged meanwhile, and treated accordingly from then
/// on.
const LOOK_AT_NEW: (Duration, u32) = (Duration::from_millis(15), 6);
/// How full a queue may become between two looks.
const FULL_ENOUGH: f64 = 0.25;
/// Reports of mappings that wait for the end of a pass take so many bytes at most, and then fill their queues.
const MAX_REPORT_BYTES: usize = 16 << 20;

/// When it was last looked at whether there is a reason to end, and the longest time without such a look.
#[derive(Debug)]
pub(crate) struct Looks {
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

/// What the pump has seen so far.
#[derive(Debug)]
pub(crate) struct Seen {
    losses: FxHashMap<(Cause, u32), u64>,
    pub(super) high_water: u64,
    /// How long to sleep if the ring does not wake the recorder.
    look_in: Duration,
    /// How many more looks come soon.
    news: u32,
    /// Reports that wait for the end of a pass.
    pub(super) reports: Vec<u8>,
    /// Others that were made up to now may be missing.
    pub(super) lacks_reports: bool,
    /// What the tracker did not take before the recording was over.
    pub(super) unsent: Option<Chunk>,
    pub(super) longest_pass: Duration,
}

impl Default for Seen {
    fn default() -> Self {
        let (losses, high_water, news, reports, lacks_reports, unsent, longest_pass) = Default::default();
        Self { losses, high_water, look_in: LOOK_EVERY, news, reports, lacks_reports, unsent, longest_pass }
    }
}

impl Seen {
    /// Empties the queues of mapping reports; returns how full the fullest was, 0 to 1. It is called often in a long pass, or
    /// they would overflow meanwhile.
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

    /// How long to sleep now.
    pub(super) fn look_in(&self) -> Duration {
        if self.news > 0 { self.look_in.min(LOOK_AT_NEW.0) } else { self.look_in }
    }

    /// Chooses when to look next, by how full the fullest queue of mapping reports has become.
    pub(super) fn note_fill(&mut self, fill: f64) {
        self.news = if fill > 0.0 { LOOK_AT_NEW.1 } else { self.news.saturating_sub(1) };
        let until_full_enough =
            if fill > 0.0 { self.look_in.mul_f64((FULL_ENOUGH / fill).min(2.0)) } else { self.look_in * 2 };
        self.look_in = until_full_enough.clamp(LOOK_SOON, LOOK_EVERY);
    }

    /// Losses since the last look.
    pub(super) fn new_losses(&mut self, sampler: &Sampler<'_>) -> Vec<Loss> {
        let time_ns = clock::monotonic_ns();
        let mut losses = Vec::new();
        for (cause, cpu, total) in sampler.losses() {
            let known = self.losses.entry((cause, cpu)).or_default();
            if total > *known {
                losses.push(Loss { time_ns, cpu, cause, count: total - *known });
                *known = total;
            }
        }
        losses
    }
}
