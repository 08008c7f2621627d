//! When each session ran, and what it has of the samples.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ratio;
use crate::load::Tables;
use crate::pipeline::{Loaded, Report};
use crate::views::info::ReceiptRow;

/// One session of several.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) host: String,
    pub(super) kernel_release: String,
    pub(super) arch: String,
    pub(super) cpus: Vec<u32>,
    pub(super) start_unix_ns: u64,
    pub(super) duration_s: f64,
    /// Samples that the filters keep.
    pub(super) samples: u64,
    /// These per second of its own duration.
    pub(super) rate_hz: f64,
    pub(super) receipt: Option<ReceiptRow>,
}

/// From when to when each session ran, on the common clock, cut to `--from` and `--to`; nothing of hosts that are
/// not wanted.
pub(super) struct Spans<'a> {
    tables: &'a Tables,
    spans: Vec<(u64, u64)>,
}

impl<'a> Spans<'a> {
    /// A session ends with its receipt; without one, with its last sample.
    pub(super) fn new(loaded: &'a Loaded<'_>) -> Self {
        let (tables, filter) = (&loaded.tables, &loaded.filter);
        let parts = &tables.parts;
        let mut ends: Vec<u64> = vec![0; parts.len()];
        for block in &tables.sample_blocks {
            let part = parts.of(block);
            let end = &mut ends[part.number() as usize];
            *end = (*end).max(part.time_ns(block.header.last_ns));
        }
        let zero_ns = parts.zero_ns();
        let from_ns = filter.from.map_or(0, |from| zero_ns.saturating_add(from.ns));
        let to_ns = filter.to.map_or(u64::MAX, |to| zero_ns.saturating_add(to.ns));
        let spans = parts.iter().zip(ends).map(|(part, last_sample)| {
            let begin = part.time_ns(part.start_ns());
            let end = part.receipt.as_ref().map_or(last_sample, |receipt| part.time_ns(receipt.end_ns));
            let (begin, end) = (begin.max(from_ns), end.min(to_ns));
            match filter.wants_host(|| &part.session.host) {
                true => (begin, end.max(begin)),
                false => (begin, begin),
            }
        });
        Self { tables, spans: spans.collect() }
    }

    /// Tells whether there is one session only.
    pub(super) fn is_one(&self) -> bool {
        self.spans.len() == 1
    }

    /// The time in which any session ran.
    pub(super) fn together_ns(&self) -> u64 {
        together_ns(self.spans.clone())
    }

    /// Describes each session.
    pub(super) fn rows(&self, report: &Report<'_>) -> Vec<Row> {
        let profile = &report.profile;
        let mut samples = vec![0u64; self.spans.len()];
        for row in &profile.rows {
            samples[profile.threads[row.thread as usize].part as usize] += row.samples;
        }
        let rows = self.tables.parts.iter().zip(&self.spans).zip(samples);
        rows.map(|((part, (begin, end)), samples)| {
            let session = &part.session;
            let duration_s = (end - begin) as f64 / 1e9;
            Row {
                host: session.host.clone(),
                kernel_release: session.kernel_release.clone(),
                arch: session.arch.clone(),
                cpus: session.cpus.clone(),
                start_unix_ns: session.start_unix_ns,
                duration_s,
                samples,
                rate_hz: ratio(samples as f64, duration_s),
                receipt: part.receipt.as_ref().map(|r| ReceiptRow::new(r, session.start_ns)),
            }
        })
        .collect()
    }
}

/// The length of the union of spans.
fn together_ns(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let mut covered_to = 0;
    spans.into_iter().fold(0, |sum: u64, (begin, end)| {
        let new = end.saturating_sub(begin.max(covered_to));
        covered_to = covered_to.max(end);
        sum.saturating_add(new)
    })
}

/// Labels of all sessions; values that differ are joined. Of one key in one session the last counts.
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

/// Notes of all sessions, those of equal text once.
pub(super) fn notes(tables: &Tables) -> Vec<String> {
    let mut known = std::collections::HashSet::new();
    let notes = tables.parts.iter().flat_map(|part| &part.session.notes);
    notes.filter(|note| known.insert(note.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::together_ns;

    #[test]
    fn time_that_sessions_share_counts_once_and_time_between_them_not_at_all() {
        assert_eq!(together_ns(vec![(5, 10), (7, 12), (8, 9), (20, 21)]), 8);
        assert_eq!(together_ns(vec![]), 0);
        assert_eq!(together_ns(vec![(3, 3)]), 0);
    }
}
