//! What is on tracks beside samples, in the order of time: waits and values of counters.

use std::cmp::Reverse;

use icecore_analysis::counters::Counted;
use icecore_format::records::{Counter, Growth};
use icecore_profile::map::Map;
use icecore_profile::named::waits::Waker;

use super::tracks::{Track, Tracks};
use crate::exported::Exported;

/// What happens on a track at a moment. Of several at one moment, what ends comes before what begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// How good the data is.
    Remarks,
    /// The wait that began last on a track ends.
    End { machine: u32, track: u64 },
    /// A counter has a value.
    Value { machine: u32, track: u64, value: u64 },
    /// A wait begins. Of several on one track the one that lasts longer begins first.
    Begin { end_ns: Reverse<u64>, machine: u32, track: u64, moment: u32 },
}

/// A wait of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    begin_ns: u64,
    end_ns: u64,
    machine: u32,
    track: u64,
    /// The position of its sample.
    moment: u32,
}

/// Lists what is on tracks, each with its time.
pub(super) fn marks(of: &Exported<'_>, tracks: &Tracks, owners: &[Counted]) -> Vec<(u64, Mark)> {
    let mut marks = vec![(of.report.loaded.tables.parts.zero_ns(), Mark::Remarks)];
    for slice in nested(slices(of, tracks)) {
        let Slice { begin_ns, end_ns, machine, track, moment } = slice;
        marks.push((begin_ns, Mark::Begin { end_ns: Reverse(end_ns), machine, track, moment }));
        marks.push((end_ns, Mark::End { machine, track }));
    }
    for (number, owner) in (0u32..).zip(owners) {
        let machine = of.report.loaded.tables.parts.part(owner.part).host as u32;
        for (counter, track) in tracks.counters(number, owner) {
            let value = |(time_ns, value)| (time_ns, Mark::Value { machine, track, value });
            marks.extend(values(owner, counter).into_iter().map(value));
        }
    }
    marks.sort_unstable();
    marks
}

/// Lists the values of a counter. A sum was 0 when its owner began; what there was of a process is gone when it ends.
fn values(owner: &Counted, counter: Counter) -> Vec<(u64, u64)> {
    let mut values = owner.values.get(&counter).cloned().unwrap_or_default();
    let first_ns = values.first().map(|(time_ns, _)| *time_ns);
    let last_ns = values.last().map(|(time_ns, _)| *time_ns);
    match counter.growth() {
        Some(Growth::Sum) => {
            let born_ns =
                owner.born_ns.filter(|born_ns| first_ns.is_some_and(|first_ns| *born_ns < first_ns));
            born_ns.into_iter().for_each(|born_ns| values.insert(0, (born_ns, 0)));
        }
        Some(Growth::Level) if counter != Counter::MEMORY_PEAK => {
            let ended_ns =
                owner.ended_ns.filter(|ended_ns| last_ns.is_some_and(|last_ns| *ended_ns > last_ns));
            values.extend(ended_ns.map(|ended_ns| (ended_ns, 0)));
        }
        _ => {}
    }
    values
}

/// Lists the waits whose length is known.
fn slices(of: &Exported<'_>, tracks: &Tracks) -> Vec<Slice> {
    let mut slices = Vec::new();
    for (moment, sample) in (0u32..).zip(of.samples()) {
        if sample.row.wait.is_none() || sample.moment.lasted_ns == 0 {
            continue;
        }
        let end_ns = sample.moment.time_ns.saturating_sub(sample.moment.late_ns);
        let begin_ns = end_ns.saturating_sub(sample.moment.lasted_ns);
        let thread = of.thread(sample.row);
        let machine = of.part(thread).host as u32;
        let track = tracks.uuid(Track::Thread(machine, thread.tgid, thread.tid));
        slices.push(Slice { begin_ns, end_ns, machine, track, moment });
    }
    slices
}

/// Leaves out waits that begin in one of their track and end after it, in a recording that is wrong: an end says only that the last one ends.
fn nested(mut slices: Vec<Slice>) -> Vec<Slice> {
    slices.sort_unstable_by_key(|slice| (slice.begin_ns, Reverse(slice.end_ns), slice.moment));
    let mut open: Map<u64, Vec<u64>> = Map::default();
    slices.retain(|slice| {
        let ends_ns = open.entry(slice.track).or_default();
        while ends_ns.last().is_some_and(|end_ns| *end_ns <= slice.begin_ns) {
            ends_ns.pop();
        }
        let is_nested = ends_ns.last().is_none_or(|end_ns| slice.end_ns <= *end_ns);
        if is_nested && slice.begin_ns < slice.end_ns {
            ends_ns.push(slice.end_ns);
        }
        is_nested && slice.begin_ns < slice.end_ns
    });
    slices
}

/// Returns what ended a wait, in words.
pub(super) fn waker(waker: &Waker) -> Option<&str> {
    match waker {
        Waker::Thread(thread) => Some(&thread.comm),
        other => other.words(),
    }
}

/// Returns the thread that ended a wait.
pub(super) fn waker_tid(waker: &Waker) -> Option<u32> {
    match waker {
        Waker::Thread(thread) => Some(thread.tid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use icecore_analysis::counters::Of;

    use super::*;

    fn slice(begin_ns: u64, end_ns: u64, track: u64, moment: u32) -> Slice {
        Slice { begin_ns, end_ns, machine: 0, track, moment }
    }

    fn left(slices: &[Slice]) -> Vec<u32> {
        nested(slices.to_vec()).iter().map(|slice| slice.moment).collect()
    }

    #[test]
    fn waits_that_cross_are_left_out_and_nested_ones_stay() {
        assert_eq!(left(&[slice(5, 9, 1, 0), slice(0, 5, 1, 1)]), [1, 0], "one after the other");
        assert_eq!(left(&[slice(0, 10, 1, 0), slice(2, 10, 1, 1), slice(2, 3, 1, 2)]), [0, 1, 2]);
        assert_eq!(left(&[slice(0, 10, 1, 0), slice(5, 15, 1, 1), slice(12, 20, 1, 2)]), [0, 2]);
        assert_eq!(left(&[slice(0, 10, 1, 0), slice(5, 15, 2, 1)]), [0, 1], "of another thread");
        assert_eq!(left(&[slice(7, 7, 1, 0)]), [0; 0]);
    }

    #[test]
    fn what_ends_comes_before_what_begins() {
        let end = Mark::End { machine: 0, track: 1 };
        let begin = |end_ns| Mark::Begin { end_ns: Reverse(end_ns), machine: 0, track: 1, moment: 0 };
        assert!(end < begin(9) && begin(9) < begin(5));
    }

    #[test]
    fn a_sum_begins_with_its_owner_and_a_level_ends_with_it() {
        let counted = Counted {
            part: 0,
            of: Of::Machine,
            born_ns: Some(1),
            ended_ns: Some(9),
            breaks_ns: Vec::new(),
            values: [Counter::CPU, Counter::MEMORY, Counter::MEMORY_PEAK].map(|it| (it, vec![(5, 7)])).into(),
        };
        assert_eq!(values(&counted, Counter::CPU), [(1, 0), (5, 7)]);
        assert_eq!(values(&counted, Counter::MEMORY), [(5, 7), (9, 0)]);
        assert_eq!(values(&counted, Counter::MEMORY_PEAK), [(5, 7)]);
    }
}
