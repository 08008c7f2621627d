//! Counters of the machine, of cgroups and of processes. The Profiler shows each beside a thread: those of a process at its first one, all others
//! at the first one of the profile.

use icecore_analysis::counters::{Of, counted};
use icecore_format::records::Growth;
use serde::Serialize;
use serde_json::{Value, json};

use super::ms;
use super::threads::{Tracks, pid};
use crate::exported::Exported;

/// A counter over time.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counter {
    name: String,
    category: &'static str,
    description: String,
    pid: String,
    main_thread_index: usize,
    samples: Samples,
    display: Value,
}

#[derive(Debug, Default, Serialize)]
struct Samples {
    length: usize,
    time: Vec<f64>,
    /// The difference to the value before.
    count: Vec<i64>,
}

/// Lists the counters, but not those of processes without samples.
pub(super) fn of(of: &Exported<'_>, tracks: &Tracks) -> Vec<Counter> {
    let mut all = Vec::new();
    for owner in counted(&of.report.loaded.selection()) {
        let (thread, whose) = match &owner.of {
            Of::Process { tgid, comm } => (tracks.of_process(owner.part, *tgid), format!("{comm} ({tgid})")),
            Of::Machine => {
                (tracks.first(), of.report.loaded.tables.parts.part(owner.part).session.host.clone())
            }
            Of::Cgroup { path } => (tracks.first(), path.clone()),
        };
        let Some(main_thread_index) = thread else { continue };
        let (part, tgid) = tracks.process(main_thread_index);
        for (counter, values) in &owner.values {
            // Others are of a newer recorder: nothing says what they mean.
            let (Some(unit), Some(growth)) = (counter.unit(), counter.growth()) else { continue };
            let name = format!("{} of {whose}", counter.name());
            let graph = if growth == Growth::Sum { "line-rate" } else { "line-accumulated" };
            all.push(Counter {
                category: if unit == "bytes" { "Memory" } else { "CPU" },
                description: format!("{name}, {unit}"),
                pid: pid(of, part, tgid),
                main_thread_index,
                samples: samples(of, values, growth),
                display: json!({
                    "graphType": graph, "unit": if unit == "count" { "" } else { unit }, "color": "grey",
                    "markerSchemaLocation": null, "sortWeight": 10, "label": name, "tooltipRows": [],
                }),
                name,
            });
        }
    }
    all
}

/// The Profiler takes the first count for 0, and adds up the others: a level begins with its first value as a second count.
fn samples(of: &Exported<'_>, values: &[(u64, u64)], growth: Growth) -> Samples {
    let first =
        values.first().map(|(time_ns, value)| (*time_ns, if growth == Growth::Sum { *value } else { 0 }));
    let mut samples = Samples::default();
    let mut before = first.map_or(0, |(_, value)| value);
    for (time_ns, value) in first.iter().chain(values) {
        samples.time.push(ms(of.after_begin_ns(*time_ns)));
        samples.count.push(value.wrapping_sub(before).cast_signed());
        before = *value;
    }
    samples.length = samples.time.len();
    samples
}
