//! Describes when each session ran, and which part of the samples it has.

use std::collections::BTreeMap;

use icecore_format::records::SessionV1;
use serde::Serialize;

use super::ratio;
use crate::views::info::{EventRow, ReceiptRow, target};
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::load::Tables;
use icecore_profile::recording::spans::Spans;

/// One session of several.
#[derive(Debug, Serialize)]
pub(super) struct SessionSummary {
    pub(super) host: String,
    pub(super) kernel_release: String,
    pub(super) arch: String,
    pub(super) cpus: Vec<u32>,
    pub(super) recorder: String,
    pub(super) command_line: Vec<String>,
    pub(super) target: String,
    pub(super) events: Vec<EventRow>,
    pub(super) start_unix_ns: u64,
    pub(super) end_unix_ns: u64,
    pub(super) duration_s: f64,
    /// Samples that the filters select.
    pub(super) samples: u64,
    /// These samples per second of the session's own duration.
    pub(super) rate_hz: f64,
    pub(super) receipt: Option<ReceiptRow>,
}

/// Describes each session.
pub(super) fn rows(report: &Report<'_>, spans: &Spans) -> Vec<SessionSummary> {
    let (profile, parts) = (&report.profile, &report.loaded.tables.parts);
    let mut samples = vec![0u64; parts.len()];
    for row in &profile.rows {
        samples[profile.threads[row.thread as usize].part as usize] += row.samples;
    }
    let rows = parts.iter().zip(spans.of_parts()).zip(spans.ran_of_parts()).zip(samples);
    rows.map(|(((part, (_, end)), ran_ns), samples)| {
        let session = &part.session;
        let duration_s = ran_ns as f64 / 1e9;
        SessionSummary {
            host: session.host.clone(),
            kernel_release: session.kernel_release.clone(),
            arch: session.arch.clone(),
            cpus: session.cpus.clone(),
            recorder: session.recorder.clone(),
            command_line: session.command_line.clone(),
            target: target(session),
            events: EventRow::list(&session.events),
            start_unix_ns: session.start_unix_ns,
            end_unix_ns: parts.start_unix_ns().saturating_add(end.saturating_sub(parts.zero_ns())),
            duration_s,
            samples,
            rate_hz: ratio(samples as f64, duration_s),
            receipt: part.receipt.as_ref().map(|r| ReceiptRow::new(r, session.start_ns)),
        }
    })
    .collect()
}

/// Counts the recordings that the sessions of a file are.
pub(super) fn recordings(tables: &Tables) -> u64 {
    let parts = tables.parts.iter();
    let goes_on = parts.clone().zip(parts.clone().skip(1)).filter(|(part, next)| part.goes_on_in(next));
    (parts.len() - goes_on.count()) as u64
}

/// Returns the value that all sessions have in common; the default if they differ.
pub(super) fn alike<T: PartialEq + Default>(tables: &Tables, of: impl Fn(&SessionV1) -> T) -> T {
    let mut each = tables.parts.iter().map(|part| of(&part.session));
    let first = each.next().unwrap_or_default();
    if each.all(|other| other == first) { first } else { T::default() }
}

/// Joins the labels of all sessions, and values that differ. If a session has a key twice, the last value counts.
pub(super) fn labels(tables: &Tables) -> BTreeMap<String, String> {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for part in &tables.parts {
        let of_part = part.session.labels.iter().map(|label| (&*label.key, &*label.value));
        for (key, value) in of_part.collect::<BTreeMap<_, _>>() {
            let known = values.entry(key).or_default();
            if !known.contains(&value) {
                known.push(value);
            }
        }
    }
    values.into_iter().map(|(key, values)| (key.to_owned(), values.join(", "))).collect()
}

/// Returns the notes of all sessions; equal notes once.
pub(super) fn notes(tables: &Tables) -> Vec<String> {
    let mut known = std::collections::HashSet::new();
    let notes = tables.parts.iter().flat_map(|part| &part.session.notes);
    notes.filter(|note| known.insert(note.as_str())).cloned().collect()
}
