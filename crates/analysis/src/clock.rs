//! What samples of CPU time tell, and those of no other event.

use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::events::{Meaning, is_drawn};
use icecore_profile::stacks::hits::SeenEvent;

/// Returns how many samples were taken in a second of CPU time; `None` if no sample stands for CPU time.
pub fn achieved_hz(report: &Report<'_>) -> Option<f64> {
    let whole = report.profile.whole();
    let (samples, weight) = if report.profile.measure.is_cpu_time {
        (whole.samples, whole.weight)
    } else {
        let (events, loaded) = (report.loaded.tables.parts.events(), report.loaded);
        let is_clock = |seen: &&SeenEvent| {
            let event = events.get(usize::from(seen.event));
            event.is_some_and(|event| Meaning::of(event) == Meaning::CpuTime)
        };
        let clocks = loaded.hits.seen.events.iter().filter(is_clock);
        clocks.fold((0, 0u64), |sum, seen| (sum.0 + seen.samples, sum.1.saturating_add(seen.weight)))
    };
    let ns = weight as f64 * f64::from(report.loaded.hits.seen.shift).exp2();
    (weight > 0).then(|| samples as f64 * 1e9 / ns)
}

/// Returns true if all samples are drawn from more that happened, so that shares of them have an error. Probes and waits are
/// counted instead, or drawn in another way.
pub(crate) fn is_drawn_evenly(report: &Report<'_>) -> bool {
    // A row of an aggregated profile stands for nobody knows how many samples.
    if report.loaded.tables.parts.iter().any(|part| part.session.maker.is_aggregated()) {
        return false;
    }
    let events = report.loaded.tables.parts.events();
    let seen = &report.loaded.hits.seen.events;
    seen.iter().all(|seen| events.get(usize::from(seen.event)).is_none_or(is_drawn))
}
