//! When sessions ran, and time divided into slices.

use icecore_format::records::{RateCause, RateChange};

use crate::recording::filter::Filter;
use crate::recording::load::Tables;
use crate::recording::load::parts::Part;
use crate::recording::series;

/// From when to when each session ran, on the common clock, cut to `--from` and `--to`; nothing of hosts that are
/// not wanted.
#[derive(Debug)]
pub struct Spans {
    spans: Vec<(u64, u64)>,
    /// By session and time.
    pauses: Vec<Pause>,
    sampled: (u64, u64),
}

/// Time of a session in which its recorder took no samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// The session.
    pub part: u32,
    /// Begin and end, ns on the common clock, cut to `--from` and `--to`.
    pub span_ns: (u64, u64),
    /// Why it paused.
    pub cause: RateCause,
}

impl Spans {
    /// A session ends with its receipt; without one, with its last sample. Of one that was cut, what was kept counts.
    pub fn new(tables: &Tables, filter: &Filter) -> Self {
        let parts = &tables.parts;
        let mut ends: Vec<u64> = vec![0; parts.len()];
        let mut sampled = (u64::MAX, 0);
        for block in &tables.sample_blocks {
            let part = parts.of(block);
            let block_ns = (part.time_ns(block.header.first_ns), part.time_ns(block.header.last_ns));
            sampled = widened(sampled, block_ns);
            let end = &mut ends[part.number() as usize];
            *end = (*end).max(block_ns.1);
        }
        let zero_ns = parts.zero_ns();
        let from_ns = filter.from.map_or(0, |from| zero_ns.saturating_add(from.ns));
        let to_ns = filter.to.map_or(u64::MAX, |to| zero_ns.saturating_add(to.ns));
        let spans = parts.iter().zip(ends).map(|(part, last_sample)| {
            let start = part.time_ns(part.start_ns());
            let end = part.receipt.as_ref().map_or(last_sample, |receipt| part.time_ns(receipt.end_ns));
            let kept_ns = part.kept_ns();
            let begin = start.saturating_add(kept_ns.0).max(from_ns);
            let end = end.min(start.saturating_add(kept_ns.1)).min(to_ns);
            if filter.wants_host(|| &part.session.host) { (begin, end.max(begin)) } else { (begin, begin) }
        });
        let sampled = (sampled.0.max(from_ns), sampled.1.saturating_add(1).min(to_ns));
        let spans: Vec<(u64, u64)> = spans.collect();
        Self { pauses: pauses(tables, &spans), spans, sampled }
    }

    /// Each session, in the order of the file: begin and end, ns on the common clock.
    pub fn of_parts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.spans.iter().copied()
    }

    /// Each session, in the order of the file: the time in which it sampled, ns.
    pub fn ran_of_parts(&self) -> Vec<u64> {
        let mut ran: Vec<u64> = self.spans.iter().map(|(begin, end)| end - begin).collect();
        for Pause { part, span_ns, .. } in &self.pauses {
            ran[*part as usize] -= span_ns.1 - span_ns.0;
        }
        ran
    }

    /// The pauses of recorders, by session and time.
    pub fn pauses(&self) -> &[Pause] {
        &self.pauses
    }

    /// Stretches of sessions without their pauses.
    fn pieces(&self) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        let mut pauses = self.pauses.iter().peekable();
        for (part, (mut begin, end)) in (0..).zip(self.spans.iter().copied()) {
            while let Some(pause) = pauses.next_if(|pause| pause.part == part) {
                pieces.push((begin, pause.span_ns.0));
                begin = pause.span_ns.1;
            }
            pieces.push((begin, end));
        }
        pieces
    }

    /// Tells whether there is one session only.
    pub fn is_one(&self) -> bool {
        self.spans.len() == 1
    }

    /// The time in which any session sampled, ns.
    pub fn together_ns(&self) -> u64 {
        together_ns(self.pieces())
    }

    /// The time of all sessions, those that ran at the same time each by itself, ns.
    pub fn sum_ns(&self) -> u64 {
        self.ran_of_parts().into_iter().fold(0, u64::saturating_add)
    }

    /// From the first sample of the file to behind the last, cut to `--from` and `--to`: what was cut out of a recording keeps
    /// the start and the end of that.
    pub fn sampled_ns(&self) -> (u64, u64) {
        self.sampled
    }

    /// The time in which any session sampled: stretches that do not touch, in the order of time.
    pub fn ran_ns(&self) -> Vec<(u64, u64)> {
        let mut spans = self.pieces();
        spans.retain(|(begin, end)| begin < end);
        spans.sort_unstable();
        spans.dedup_by(|next, before| {
            let touches = next.0 <= before.1;
            if touches {
                before.1 = before.1.max(next.1);
            }
            touches
        });
        spans
    }

    /// The same if time lies between them; nothing if sessions sampled all the time.
    pub fn ran_apart_ns(&self) -> Vec<(u64, u64)> {
        let ran_ns = self.ran_ns();
        if ran_ns == [self.hull_ns()] { Vec::new() } else { ran_ns }
    }

    /// The time between sessions in which none sampled, in the order of time, if it is longer than what touches.
    pub fn between_ns(&self) -> Vec<(u64, u64)> {
        let ran = self.ran_ns();
        let between = ran.iter().zip(ran.iter().skip(1)).map(|(before, next)| (before.1, next.0));
        between.filter(|(begin, end)| end - begin > series::TOUCHING_NS).collect()
    }

    /// Begin of the earliest and end of the latest, ns on the common clock; nothing if no session took any time.
    pub fn hull_ns(&self) -> (u64, u64) {
        let ran = self.spans.iter().filter(|(begin, end)| begin < end);
        ran.copied().reduce(widened).unwrap_or_default()
    }
}

/// Time in which nobody recorded a host, between sessions of it or in a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unrecorded {
    /// The session after it, or that paused.
    pub part: u32,
    /// Begin and end, ns on the common clock.
    pub span_ns: (u64, u64),
    /// Why the recorder paused; `None` between sessions.
    pub paused: Option<RateCause>,
}

/// Finds the time between sessions that nobody recorded, and the pauses of recorders, cut to `--from` and `--to`, in the order of time; none of hosts that are not
/// wanted.
pub fn unrecorded(tables: &Tables, filter: &Filter) -> Vec<Unrecorded> {
    let (parts, zero_ns) = (&tables.parts, tables.parts.zero_ns());
    let from_ns = filter.from.map_or(0, |from| zero_ns.saturating_add(from.ns));
    let to_ns = filter.to.map_or(u64::MAX, |to| zero_ns.saturating_add(to.ns));
    let gaps = series::gaps(&parts.runs()).into_iter().filter_map(|gap| {
        let [last, next] = [gap.after, gap.before].map(|part| parts.part(part as u32));
        if is_cut_off(last, next) {
            return None;
        }
        let end_ns = next.time_ns(next.start_ns());
        let begin_ns = end_ns.saturating_sub(gap.ns);
        let paused = None;
        Some(Unrecorded { part: next.number(), span_ns: (begin_ns.max(from_ns), end_ns.min(to_ns)), paused })
    });
    let wanted = |gap: &Unrecorded| filter.wants_host(|| &parts.part(gap.part).session.host);
    let mut gaps: Vec<Unrecorded> = gaps.filter(|gap| gap.span_ns.0 < gap.span_ns.1).filter(wanted).collect();
    if !tables.rates.is_empty() {
        let spans = Spans::new(tables, filter);
        let pause = |it: &Pause| Unrecorded { part: it.part, span_ns: it.span_ns, paused: Some(it.cause) };
        gaps.extend(spans.pauses.iter().map(pause));
        gaps.sort_by_key(|gap| (gap.span_ns, gap.part));
        // A recorder that pauses may go on in another file, or in another part of a history, meanwhile.
        gaps.dedup_by(|next, before| {
            let goes_on = before.paused.is_some() && before.paused == next.paused;
            let is_one = goes_on && before.span_ns.1 == next.span_ns.0;
            if is_one {
                before.span_ns.1 = next.span_ns.1;
            }
            is_one
        });
    }
    gaps
}

/// Returns true if `cut` removed the end of a session or the begin of the next one, and so the time between them.
fn is_cut_off(last: &Part, next: &Part) -> bool {
    let len_ns = last.receipt.as_ref().map_or(u64::MAX, |end| end.end_ns.saturating_sub(last.start_ns()));
    let ((from_ns, to_ns), (next_from_ns, next_to_ns)) = (last.kept_ns(), next.kept_ns());
    to_ns < len_ns || (from_ns >= len_ns && len_ns > 0) || next_from_ns > 0 || next_to_ns == 0
}

/// Finds the pauses in these spans of sessions, by session and time.
fn pauses(tables: &Tables, spans: &[(u64, u64)]) -> Vec<Pause> {
    let mut rows = tables.rates.clone();
    rows.sort_by_key(|(part, row)| (*part, row.time_ns));
    let mut pauses = Vec::new();
    for own in rows.chunk_by(|a, b| a.0 == b.0) {
        let Some((begin_ns, end_ns)) = spans.get(own[0].0 as usize).copied() else { continue };
        // Several rows of one pause have different causes.
        let of_pause = |(at, (part, row)): (usize, &(u32, RateChange))| {
            let until_ns = own.get(at + 1).map_or(end_ns, |next| next.1.time_ns);
            let span_ns = (row.time_ns.clamp(begin_ns, end_ns), until_ns.clamp(begin_ns, end_ns));
            Pause { part: *part, span_ns, cause: row.cause }
        };
        let paused = own.iter().enumerate().filter(|(_, (_, row))| row.share == 0).map(of_pause);
        pauses.extend(paused.filter(|pause| pause.span_ns.0 < pause.span_ns.1));
    }
    pauses
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

/// The span that holds two spans.
pub(crate) fn widened(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// The most pieces of one weight: a thread that waits all the time has a piece in each slice, of which there may be many.
pub const MAX_PIECES: u32 = 4096;

/// How time is to be divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slicing {
    /// Into so many slices of equal length.
    Number(u32),
    /// The time from the first sample to the last into so many slices of equal length.
    Sampled(u32),
    /// Into slices of this length, ns; longer ones if there were more than the first number.
    Length(u32, u64),
}

/// Time divided into slices of equal length; a moment outside belongs to the nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slices {
    /// Begin of the first, ns on the common clock.
    pub begin_ns: u64,
    /// Length of each, ns; at least 1.
    pub len_ns: u64,
    /// How many there are; at least 1.
    pub number: u32,
}

impl Slices {
    /// Divides a stretch of time; the last slice may reach behind its end.
    pub fn new((begin_ns, end_ns): (u64, u64), slicing: Slicing) -> Self {
        let span_ns = end_ns.saturating_sub(begin_ns).max(1);
        let len_ns = match slicing {
            Slicing::Number(number) | Slicing::Sampled(number) => span_ns.div_ceil(u64::from(number.max(1))),
            Slicing::Length(most, len_ns) => len_ns.max(span_ns.div_ceil(u64::from(most.max(1)))).max(1),
        };
        // At most the number that was asked for, so it fits.
        Self { begin_ns, len_ns, number: span_ns.div_ceil(len_ns) as u32 }
    }

    /// The slice of a moment.
    pub fn of(&self, time_ns: u64) -> u32 {
        let into = time_ns.saturating_sub(self.begin_ns) / self.len_ns;
        into.min(u64::from(self.number - 1)) as u32
    }

    /// Spreads a weight evenly over a stretch of time; returns what falls into each slice. What falls outside of all slices is
    /// left out. A stretch over more than [`MAX_PIECES`] slices is spread over every second, third, … of them.
    pub fn spread(&self, (begin_ns, end_ns): (u64, u64), weight: u64) -> Vec<(u32, u64)> {
        let all_ns = end_ns.saturating_sub(begin_ns);
        if all_ns == 0 {
            return vec![(self.of(begin_ns), weight)];
        }
        let last_ns = self.begin_ns.saturating_add(self.len_ns.saturating_mul(u64::from(self.number)));
        let (from_ns, to_ns) = (begin_ns.max(self.begin_ns), end_ns.min(last_ns));
        if from_ns >= to_ns {
            return Vec::new();
        }
        let slices = self.of(to_ns - 1) - self.of(from_ns) + 1;
        let each = slices.div_ceil(MAX_PIECES);
        // What was spread up to a moment, so that rounding adds up.
        let up_to = |ns: u64| (u128::from(weight) * u128::from(ns - begin_ns) / u128::from(all_ns)) as u64;
        let mut spread = Vec::new();
        let mut done_ns = from_ns;
        while done_ns < to_ns {
            let slice = self.of(done_ns);
            let next = u64::from(slice) + u64::from(each);
            let next_ns = self.begin_ns.saturating_add(self.len_ns.saturating_mul(next)).min(to_ns);
            spread.push((slice, up_to(next_ns) - up_to(done_ns)));
            done_ns = next_ns;
        }
        spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_sessions_share_counts_once_and_time_between_them_not_at_all() {
        assert_eq!(together_ns(vec![(5, 10), (7, 12), (8, 9), (20, 21)]), 8);
        assert_eq!(together_ns(vec![]), 0);
        assert_eq!(together_ns(vec![(3, 3)]), 0);
    }

    #[test]
    fn time_in_which_no_session_ran_is_between_them() {
        const MS: u64 = 1_000_000;
        let span = |begin: u64, end: u64| (begin * MS, end * MS);
        let of = |spans| Spans { spans, pauses: vec![], sampled: (0, 0) };
        let spans = vec![span(500, 600), span(0, 0), span(100, 200), span(110, 150), span(250, 300)];
        assert_eq!(of(spans).between_ns(), [span(300, 500)]);
        assert!(of(vec![]).between_ns().is_empty());
    }

    #[test]
    fn a_weight_is_spread_over_the_slices_in_proportion_to_time() {
        let slices = Slices { begin_ns: 100, len_ns: 50, number: 4 };
        assert_eq!(slices.spread((120, 220), 1_000), [(0, 300), (1, 500), (2, 200)]);
        assert_eq!(slices.spread((150, 200), 7), [(1, 7)]);
        assert_eq!(slices.spread((160, 160), 7), [(1, 7)], "a wait of no time has a weight, too");
        assert_eq!(slices.spread((0, 200), 200), [(0, 50), (1, 50)], "what was before is left out");
        assert_eq!(slices.spread((290, 310), 10), [(3, 5)]);
        assert!(slices.spread((400, 500), 10).is_empty() && slices.spread((1, 2), 10).is_empty());
        let thirds: u64 = slices.spread((101, 299), 1_000_003).iter().map(|(_, part)| part).sum();
        assert_eq!(thirds, 1_000_003, "nothing is lost by rounding");
        let many = Slices { begin_ns: 0, len_ns: 1, number: 10_000 };
        let pieces = many.spread((0, 10_000), 10_000);
        assert_eq!((pieces.len(), pieces[1], pieces[3_333]), (3_334, (3, 3), (9_999, 1)));
    }

    #[test]
    fn slices_cover_time_and_moments_outside_belong_to_the_nearest() {
        let slices = Slices::new((100, 200), Slicing::Number(3));
        assert_eq!(slices, Slices { begin_ns: 100, len_ns: 34, number: 3 });
        assert_eq!([0, 100, 133, 134, 199, 999].map(|ns| slices.of(ns)), [0, 0, 0, 1, 2, 2]);
        let by_length = |most| Slices::new((0, 1000), Slicing::Length(most, 100));
        assert_eq!((by_length(50).number, by_length(50).len_ns), (10, 100));
        assert_eq!((by_length(4).number, by_length(4).len_ns), (4, 250));
        let nothing = Slices::new((7, 7), Slicing::Number(64));
        assert_eq!((nothing.number, nothing.of(u64::MAX)), (1, 0));
        assert_eq!(Slices::new((0, u64::MAX), Slicing::Length(u32::MAX, 1)).number, u32::MAX);
    }
}
