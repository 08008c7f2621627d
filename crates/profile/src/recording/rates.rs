//! How often a recorder sampled, and when it paused.
//!
//! ```text
//! session   ├─────────────────────────────────────────┤
//! share     ├── 1 ──┤├── 0.25 ──┤ paused ├─── 0.5 ────┤     a stretch each; a row begins one
//! ```
//!
//! A sample weighs the period at which it was taken, so no sum depends on the rate.

use icecore_format::records::{RateCause, RateChange};

use super::filter::Filter;
use super::load::Tables;
use super::spans::{Spans, Unrecorded, unrecorded};

/// Time of a session in which the rate did not change, cut to `--from` and `--to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The session.
    pub part: u32,
    /// Begin and end, ns on the common clock.
    pub span_ns: (u64, u64),
    /// The share of the requested rate, parts in [`RateChange::WHOLE`]; more than 0.
    pub share: u32,
    /// What began it.
    pub cause: RateCause,
}

/// The rates of a recording, and its pauses.
#[derive(Debug, Default)]
pub struct Rates {
    /// By session and time; empty if no rate changed.
    stretches: Vec<Stretch>,
    /// Length, ns, and cause; in the order of time.
    pauses: Vec<(u64, RateCause)>,
}

impl Rates {
    /// Reads the changes of the rate; none of hosts that are not wanted.
    pub fn new(tables: &Tables, filter: &Filter) -> Self {
        let pause = |gap: Unrecorded| Some((gap.span_ns.1 - gap.span_ns.0, gap.paused?));
        let pauses = unrecorded(tables, filter).into_iter().filter_map(pause).collect();
        if tables.rates.is_empty() {
            return Self { stretches: Vec::new(), pauses };
        }
        let mut rows = tables.rates.clone();
        rows.sort_by_key(|(part, row)| (*part, row.time_ns));
        let mut stretches = Vec::new();
        for (part, (begin_ns, end_ns)) in tables.parts.iter().zip(Spans::new(tables, filter).of_parts()) {
            let first = rows.partition_point(|(of, _)| *of < part.number());
            let own = rows[first..].iter().take_while(|(of, _)| *of == part.number()).map(|(_, row)| row);
            let start = (part.time_ns(part.start_ns()), RateChange::WHOLE, RateCause::UNKNOWN);
            let mut changes = vec![start];
            changes.extend(own.map(|row| (row.time_ns, row.share, row.cause)));
            let ends = changes.iter().skip(1).map(|next| next.0).chain([u64::MAX]);
            let cut = changes.iter().zip(ends).map(|((since_ns, share, cause), until_ns)| Stretch {
                part: part.number(),
                span_ns: ((*since_ns).max(begin_ns), until_ns.min(end_ns)),
                share: *share,
                cause: *cause,
            });
            stretches.extend(cut.filter(|it| it.share > 0 && it.span_ns.0 < it.span_ns.1));
        }
        Self { stretches, pauses }
    }

    /// Returns the stretches, by session and time; none if the recorder changed no rate.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Returns length, ns, and cause of each pause, in the order of time.
    pub fn pauses(&self) -> &[(u64, RateCause)] {
        &self.pauses
    }

    /// Returns true if the recorder sampled at another rate than the requested one.
    pub fn has_changed(&self) -> bool {
        self.stretches.iter().any(|it| it.share != RateChange::WHOLE)
    }

    /// Returns the stretch with the lowest rate.
    pub fn lowest(&self) -> Option<&Stretch> {
        self.stretches.iter().min_by_key(|it| it.share)
    }

    /// Returns the stretch with the highest rate.
    pub fn highest(&self) -> Option<&Stretch> {
        self.stretches.iter().rev().max_by_key(|it| it.share)
    }

    /// Returns why there are fewer samples than requested: what lowered the rate most, or paused first.
    pub fn thinned(&self) -> Option<RateCause> {
        let lowered = self.lowest().filter(|it| it.share < RateChange::WHOLE).map(|it| it.cause);
        lowered.or_else(|| self.pauses.first().map(|pause| pause.1))
    }

    /// Returns the stretches that begin with a lower rate, also over pauses: the recorder goes on where it was.
    pub fn lowered(&self) -> Vec<&Stretch> {
        let before = [RateChange::WHOLE].into_iter().chain(self.stretches.iter().map(|it| it.share));
        self.stretches
            .iter()
            .zip(before)
            .filter(|(it, before)| it.share < *before)
            .map(|(it, _)| it)
            .collect()
    }

    /// Returns the mean share of the requested rate between the edges of buckets, by sampled time; `None` where nobody sampled.
    pub fn means(&self, edges: &[u64]) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0u64); edges.len().saturating_sub(1)];
        for Stretch { span_ns: (begin_ns, end_ns), share, .. } in &self.stretches {
            let first = edges.partition_point(|edge| edge <= begin_ns).saturating_sub(1);
            for (bucket, sum) in sums.iter_mut().enumerate().skip(first) {
                let (from_ns, to_ns) = ((*begin_ns).max(edges[bucket]), (*end_ns).min(edges[bucket + 1]));
                if edges[bucket] >= *end_ns {
                    break;
                }
                let ns = to_ns.saturating_sub(from_ns);
                sum.0 += f64::from(*share) / f64::from(RateChange::WHOLE) * ns as f64;
                sum.1 = sum.1.saturating_add(ns);
            }
        }
        sums.into_iter().map(|(sum, ns)| (ns > 0).then(|| sum / ns as f64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn stretch(from_s: u64, to_s: u64, share: u32) -> Stretch {
        Stretch { part: 0, span_ns: (from_s * S, to_s * S), share, cause: RateCause::CPU }
    }

    #[test]
    fn means_are_weighted_by_sampled_time() {
        let stretches = vec![stretch(0, 10, RateChange::WHOLE), stretch(10, 15, RateChange::WHOLE / 4)];
        let rates = Rates {
            stretches: [stretches, vec![stretch(30, 40, RateChange::WHOLE / 2)]].concat(),
            pauses: vec![],
        };
        let edges: Vec<u64> = (0..=5).map(|edge| edge * 8 * S).collect();
        let close = |found: &[Option<f64>], wanted: &[Option<f64>]| {
            assert_eq!(found.len(), wanted.len());
            let pairs = found.iter().zip(wanted);
            assert!(pairs.clone().all(|(a, b)| a.is_some() == b.is_some()), "{found:?}");
            assert!(pairs.flat_map(|(a, b)| a.zip(*b)).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        };
        close(&rates.means(&edges), &[Some(1.0), Some(3.25 / 7.0), None, Some(0.5), Some(0.5)]);
        close(&rates.means(&[20 * S, 25 * S]), &[None]);
        assert!(rates.means(&[]).is_empty());
    }

    #[test]
    fn only_a_lower_rate_than_before_counts_as_lowered() {
        let (whole, half) = (RateChange::WHOLE, RateChange::WHOLE / 2);
        let shares = [half, half, whole, half / 2, half];
        let stretches = (0..).zip(shares).map(|(s, share)| stretch(s, s + 1, share)).collect();
        let rates = Rates { stretches, pauses: vec![] };
        let lowered: Vec<u32> = rates.lowered().iter().map(|it| it.share).collect();
        assert_eq!(lowered, [half, half / 2]);
        assert_eq!(rates.lowest().map(|it| it.share), Some(half / 2));
        assert!(rates.has_changed() && !Rates::default().has_changed());
    }
}
