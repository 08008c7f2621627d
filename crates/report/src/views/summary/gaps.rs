//! The time between sessions that nobody recorded.

use serde::Serialize;

use icecore_profile::recording::filter::Filter;
use icecore_profile::recording::load::Tables;
use icecore_profile::recording::spans::unrecorded;
use icecore_text::quantity::{duration, things, utc};

/// The number of gaps that the page shows.
const SHOWN: usize = 2;

/// Time between two sessions of a host.
#[derive(Debug, Serialize)]
pub(in crate::views) struct GapRow {
    /// Present if there are several hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    from_unix_ns: u64,
    to_unix_ns: u64,
    s: f64,
    /// Why the recorder paused; absent if nothing says that it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<String>,
}

impl GapRow {
    /// Lists all gaps in the order of time.
    pub(in crate::views) fn list(tables: &Tables, filter: &Filter) -> Vec<Self> {
        let parts = &tables.parts;
        let unix_ns = |ns: u64| parts.start_unix_ns().saturating_add(ns.saturating_sub(parts.zero_ns()));
        let row = |gap: icecore_profile::recording::spans::Unrecorded| Self {
            host: parts.host_among(gap.part).map(str::to_owned),
            from_unix_ns: unix_ns(gap.span_ns.0),
            to_unix_ns: unix_ns(gap.span_ns.1),
            s: (gap.span_ns.1 - gap.span_ns.0) as f64 / 1e9,
            paused: gap.paused.map(icecore_format::records::RateCause::name),
        };
        unrecorded(tables, filter).into_iter().map(row).collect()
    }
}

/// Says how much time nobody recorded, and when the first gaps were; `None` if there are none. Pauses are told with the rate.
pub(in crate::views) fn text(gaps: &[GapRow]) -> Option<String> {
    let gaps: Vec<&GapRow> = gaps.iter().filter(|gap| gap.paused.is_none()).collect();
    let length = |seconds: f64| duration((seconds * 1e9) as u64);
    let each = |gap: &&GapRow| {
        let host = gap.host.as_ref().map(|host| format!("{host} ")).unwrap_or_default();
        format!("{host}{} for {}", utc(gap.from_unix_ns), length(gap.s))
    };
    let shown: Vec<String> = gaps.iter().take(SHOWN).map(each).collect();
    let more = gaps.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let all = length(gaps.iter().map(|gap| gap.s).sum());
    let number = things(gaps.len() as u64, "gap");
    (!gaps.is_empty())
        .then(|| format!("{number}, {all} in all, in which nobody recorded: {}{more}", shown.join(", ")))
}
