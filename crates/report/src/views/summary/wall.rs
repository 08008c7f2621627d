//! Shows the wall time of threads: what they ran, and for what they waited.

use serde::Serialize;

use icecore_analysis::wall_time::WallTime;
use icecore_profile::named::Amount;
use icecore_profile::stacks::waits::kinds::WaitKind;
use icecore_text::quantity::{duration, percent};

/// Kinds of waits that the screen names; JSON has all.
const KINDS: usize = 6;

/// The wall time of all threads that have samples.
#[derive(Debug, Serialize)]
pub(super) struct WallRow {
    total_ns: u64,
    /// `None` if CPU time was not sampled.
    cpu_ns: Option<u64>,
    cpu_share: Option<f64>,
    run_delay_ns: u64,
    run_delay_share: f64,
    /// The other kinds of waits, the longest first.
    waits: Vec<WaitRow>,
    /// What kernel threads without work waited; nothing else counts it.
    idle_kernel_threads_ns: u64,
}

/// A kind of waits.
#[derive(Debug, Serialize)]
struct WaitRow {
    kind: String,
    ns: u64,
    share: f64,
    samples: u64,
}

impl WallRow {
    pub(super) fn new(wall: &WallTime) -> Self {
        let whole = wall.whole();
        let delay = wall.waits.get(&WaitKind::RunDelay).copied().unwrap_or_default();
        let row = |(kind, amount): (&WaitKind, &Amount)| WaitRow {
            kind: kind.name(),
            ns: amount.weight,
            share: amount.share_of(whole),
            samples: amount.samples,
        };
        let waits = wall.waits.iter().filter(|(kind, _)| **kind != WaitKind::RunDelay);
        let mut waits: Vec<WaitRow> = waits.map(row).collect();
        waits.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.kind.cmp(&b.kind)));
        Self {
            total_ns: whole.weight,
            cpu_ns: wall.cpu.map(|cpu| cpu.weight),
            cpu_share: wall.cpu.map(|cpu| cpu.share_of(whole)),
            run_delay_ns: delay.weight,
            run_delay_share: delay.share_of(whole),
            waits,
            idle_kernel_threads_ns: wall.idle.weight,
        }
    }

    /// Describes it for people.
    pub(super) fn text(&self) -> String {
        let cpu = match self.cpu_share {
            Some(share) => format!("CPU {}", percent(share)),
            None => "CPU not sampled".to_owned(),
        };
        let mut parts = vec![cpu, format!("run-delay {}", percent(self.run_delay_share))];
        parts.extend(self.waits.iter().take(KINDS).map(|row| format!("{} {}", row.kind, percent(row.share))));
        let more = self.waits.get(KINDS..).unwrap_or_default();
        let rest: f64 = more.iter().map(|row| row.share).sum();
        parts.extend((!more.is_empty()).then(|| format!("{} more kinds {}", more.len(), percent(rest))));
        let idle = match self.idle_kernel_threads_ns {
            0 => String::new(),
            idle_ns => format!("; besides, {} of kernel threads without work (--idle)", duration(idle_ns)),
        };
        format!("{} of threads: {}{idle}", duration(self.total_ns), parts.join(", "))
    }
}
