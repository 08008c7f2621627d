//! Changes of the sampling rate, and pauses.

use icecore_format::records::{RateCause, RateChange};
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::filter::Filter;
use icecore_profile::recording::load::Tables;
use icecore_profile::recording::load::parts::Part;
use icecore_profile::recording::rates::Rates;
use icecore_profile::recording::spans::Spans;
use icecore_text::quantity::{bytes, count, duration, percent, utc};
use serde::Serialize;

/// Says that a report has no samples, and why, as far as that is known.
pub(crate) fn no_samples(report: &Report<'_>) -> String {
    let spans = Spans::new(&report.loaded.tables, &report.loaded.filter);
    match spans.pauses().first() {
        Some(pause) if spans.sum_ns() == 0 => {
            format!("no samples: the recorder paused all that time ({})", pause.cause.name())
        }
        _ if report.filtered.is_some() => "no samples: the filters leave none".to_owned(),
        _ => "no samples".to_owned(),
    }
}

/// From a moment on the recorder samples so often.
#[derive(Debug, Serialize)]
pub(crate) struct RateRow {
    /// When, by the clock of the recording's other times.
    unix_ns: u64,
    /// The share of the requested rate; 0: no samples are taken.
    share: f64,
    /// The same as a frequency; `None` if no frequency was requested, or several.
    hz: Option<f64>,
    cause: String,
    /// What was measured, and the budget; 0 if there is none.
    measured: f64,
    limit: f64,
    /// The unit of both; `None` if the cause measures nothing.
    unit: Option<&'static str>,
    /// All of it, for people.
    text: String,
}

impl RateRow {
    /// Lists those of all sessions in the order of time.
    pub(crate) fn list(tables: &Tables) -> Vec<Self> {
        let parts = &tables.parts;
        let unix_ns = |ns: u64| parts.start_unix_ns().saturating_add(ns.saturating_sub(parts.zero_ns()));
        let mut rows = tables.rates.clone();
        rows.sort_by_key(|(_, row)| row.time_ns);
        rows.iter().map(|(part, row)| Self::new(parts.part(*part), row, unix_ns(row.time_ns))).collect()
    }

    fn new(part: &Part, row: &RateChange, unix_ns: u64) -> Self {
        let share = f64::from(row.share) / f64::from(RateChange::WHOLE);
        let hz = frequency([part].into_iter()).map(|hz| hz as f64 * share);
        let (unit, per) = match row.cause {
            RateCause::CONTROL => (Some("pid"), 1.0),
            RateCause::CPU => (Some("cpus"), 1e6),
            RateCause::MEMORY => (Some("bytes"), 1.0),
            RateCause::DISK => (Some("bytes/s"), 1.0),
            _ => (None, 1.0),
        };
        let how = match (row.share, hz) {
            (0, _) => "paused".to_owned(),
            (_, Some(hz)) => format!("{} of the requested rate, {}", percent(share), hertz(hz)),
            (_, None) => format!("{} of the requested rate", percent(share)),
        };
        let figure = |value: u64| match row.cause {
            RateCause::CPU => format!("{} of one CPU", percent(value as f64 / per)),
            RateCause::DISK => format!("{}/s", bytes(value)),
            _ => bytes(value),
        };
        let why = match row.cause {
            RateCause::CONTROL if row.measured > 0 => format!(": process {} asked", row.measured),
            RateCause::CPU | RateCause::MEMORY | RateCause::DISK => {
                format!(": {} measured, {} allowed", figure(row.measured), figure(row.limit))
            }
            _ => String::new(),
        };
        Self {
            unix_ns,
            share,
            hz,
            cause: row.cause.name(),
            measured: row.measured as f64 / per,
            limit: row.limit as f64 / per,
            unit,
            text: format!("{how}, from {} on ({}{why})", utc(unix_ns), row.cause.name()),
        }
    }

    /// Says it to people.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// What a recording lacks because its recorder sampled more rarely than requested, or paused.
#[derive(Debug, Serialize)]
pub(crate) struct RateSummary {
    /// The lowest, the highest and the mean share of the requested rate, of the time in which samples were taken.
    pub(crate) lowest_share: f64,
    pub(crate) highest_share: f64,
    pub(crate) mean_share: f64,
    /// The requested rate; `None` if no frequency was requested, or several.
    pub(crate) requested_hz: Option<u64>,
    /// How often the rate became lower.
    pub(crate) lowered: u64,
    /// Why it became lower.
    lowered_by: Vec<String>,
    raised_by: Option<String>,
    pub(crate) pauses: u64,
    pub(crate) paused_s: f64,
    paused_by: Vec<String>,
}

impl RateSummary {
    /// Sums up the rates of a recording, or what filters keep of it; `None` if it was sampled as requested all the time.
    pub(crate) fn new(tables: &Tables, filter: &Filter) -> Option<Self> {
        let rates = Rates::new(tables, filter);
        let (lowered, pauses) = (rates.lowered(), rates.pauses());
        if !rates.has_changed() && pauses.is_empty() {
            return None;
        }
        let share = |share: Option<u32>| share.map_or(1.0, |it| f64::from(it) / f64::from(RateChange::WHOLE));
        let highest = rates.highest();
        Some(Self {
            lowest_share: share(rates.lowest().map(|it| it.share)),
            highest_share: share(highest.map(|it| it.share)),
            mean_share: rates.means(&[0, u64::MAX])[0].unwrap_or(1.0),
            requested_hz: frequency(tables.parts.iter()),
            lowered: lowered.len() as u64,
            lowered_by: names(lowered.iter().map(|it| it.cause)),
            raised_by: highest.filter(|it| it.share > RateChange::WHOLE).map(|it| it.cause.name()),
            pauses: pauses.len() as u64,
            paused_s: pauses.iter().map(|pause| pause.0).fold(0, u64::saturating_add) as f64 / 1e9,
            paused_by: names(pauses.iter().map(|pause| pause.1)),
        })
    }

    /// Says it in a sentence without a subject.
    pub(crate) fn text(&self) -> String {
        let of = self.requested_hz.map_or("the requested rate".to_owned(), |hz| format!("{} Hz", count(hz)));
        let lowest = percent(self.lowest_share);
        let by = |causes: &[String]| format!(" ({})", causes.join(", "));
        let lowered = match self.lowered {
            0 => None,
            1 => Some(format!("lowered once, to {lowest} of {of}{}", by(&self.lowered_by))),
            n => Some(format!(
                "lowered {} times, to {lowest} of {of} at the least{}",
                count(n),
                by(&self.lowered_by)
            )),
        };
        let raised = self
            .raised_by
            .as_ref()
            .map(|cause| format!("raised to {} of {of} at the most ({cause})", percent(self.highest_share)));
        let paused = duration((self.paused_s * 1e9) as u64);
        let paused = match self.pauses {
            0 => None,
            1 => Some(format!("paused once, for {paused}{}", by(&self.paused_by))),
            n => Some(format!("paused for {paused} in {} stretches{}", count(n), by(&self.paused_by))),
        };
        [lowered, raised, paused].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Returns the frequency that sessions asked for; `None` if they asked for none, or for several.
fn frequency<'a>(parts: impl Iterator<Item = &'a Part>) -> Option<u64> {
    let events = parts.flat_map(|part| &part.session.events).filter(|event| event.frequency_hz > 0);
    let mut all = events.map(|event| event.frequency_hz);
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// Lists the names of distinct causes in the order of their numbers.
fn names(causes: impl Iterator<Item = RateCause>) -> Vec<String> {
    let mut causes: Vec<RateCause> = causes.collect();
    causes.sort_unstable_by_key(|cause| cause.0);
    causes.dedup();
    causes.into_iter().map(RateCause::name).collect()
}

fn hertz(hz: f64) -> String {
    if hz < 9.95 { format!("{hz:.2} Hz") } else { format!("{hz:.0} Hz") }
}
