//! Repaired stacks as rows of samples, and back.
//!
//! | row | it says |
//! |---|---|
//! | event 0 | the sample with `snapshot` has `user_stack` and `repair`; it keeps its walk if `user_stack` is 0, and the end of it without another |
//! | event 1 | of the walk by unwind tables with the id `kernel_stack`, `user_stack` is left; all of it if that is 0 |
//! | event 2 | the sample in the next row has a walk that differs from the unwound `user_stack` after `weight` frames |

use std::ops::Range;

use icecore_format::records::{Sample, StackRepair, WalkEnd};

use super::{Disagreement, OWN, Outcome, RepairedStacks};

const REPAIRED: u8 = 0;
const CUT: u8 = 1;
const DIFFERS: u8 = 2;

const EMPTY: Sample = Sample {
    time_ns: 0,
    cpu: 0,
    event: 0,
    user_end: WalkEnd::NONE,
    kernel_end: WalkEnd::NONE,
    task: 0,
    user_stack: 0,
    kernel_stack: 0,
    weight: 0,
    snapshot: 0,
    repair: StackRepair::NONE,
};

impl RepairedStacks {
    /// Returns the rows, always in the same order.
    pub(crate) fn to_rows(&self) -> Vec<Sample> {
        let mut repaired: Vec<Sample> =
            self.by_snapshot.iter().map(|(id, outcome)| row(*id, outcome)).collect();
        repaired.sort_unstable_by_key(|row| row.snapshot);
        let cut = self.cut.iter().map(|(of, (left, end))| Sample {
            event: CUT,
            kernel_stack: *of,
            user_stack: *left,
            user_end: *end,
            ..EMPTY
        });
        let mut cut: Vec<Sample> = cut.collect();
        cut.sort_unstable_by_key(|row| row.kernel_stack);
        let differs = self.disagreements.iter().flat_map(|it| {
            let (event, time_ns, weight) = (DIFFERS, it.sample.time_ns, it.common.into());
            [Sample { event, time_ns, user_stack: it.unwound, weight, ..EMPTY }, it.sample]
        });
        repaired.into_iter().chain(cut).chain(differs).collect()
    }

    /// Takes rows; `None` if they are none of these, or name other stacks than new ones.
    pub(crate) fn of_rows(rows: Vec<Sample>, ids_of_parts: Vec<Range<u32>>) -> Option<Self> {
        let mut all = Self { ids_of_parts, ..Self::default() };
        let mut rows = rows.into_iter();
        while let Some(row) = rows.next() {
            let stack = (row.user_stack, row.user_end);
            let is_kept = row.event == REPAIRED && stack == (OWN, WalkEnd::NONE);
            let is_own = row.event != DIFFERS && stack == (OWN, WalkEnd::NOT_EXAMINED);
            if !is_kept && !is_own && !all.is_new(row.user_stack) {
                return None;
            }
            match row.event {
                REPAIRED => {
                    let outcome = Outcome { other: (!is_kept).then_some(stack), repair: row.repair };
                    all.by_snapshot.insert(row.snapshot, outcome);
                }
                CUT => drop(all.cut.insert(row.kernel_stack, stack)),
                DIFFERS => {
                    let (sample, common) = (rows.next()?, u32::try_from(row.weight).ok()?);
                    all.disagreements.push(Disagreement { sample, unwound: row.user_stack, common });
                }
                _ => return None,
            }
        }
        Some(all)
    }

    /// Returns the ids of the new nodes of each part.
    pub(crate) fn ids_of_parts(&self) -> &[Range<u32>] {
        &self.ids_of_parts
    }
}

fn row(snapshot: u32, outcome: &Outcome) -> Sample {
    let (user_stack, user_end) = outcome.other.unwrap_or((OWN, WalkEnd::NONE));
    Sample { event: REPAIRED, snapshot, user_stack, user_end, repair: outcome.repair, ..EMPTY }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> RepairedStacks {
        let mut all = RepairedStacks { ids_of_parts: vec![10..12, 12..20], ..RepairedStacks::default() };
        for id in 1..100 {
            let other = (id % 3 != 0).then_some((10 + id % 10, WalkEnd::UNWOUND));
            all.by_snapshot.insert(id, Outcome { other, repair: StackRepair::REPLACED.audited() });
        }
        all.cut.insert(3, (11, WalkEnd::BAD_RULES));
        all.cut.insert(4, (OWN, WalkEnd::NOT_EXAMINED));
        let not_examined = Outcome { other: Some((OWN, WalkEnd::NOT_EXAMINED)), repair: StackRepair::NONE };
        all.by_snapshot.insert(100, not_examined);
        let sample =
            Sample { time_ns: 7, cpu: 3, event: 2, task: 5, user_stack: 4, weight: 9, snapshot: 6, ..EMPTY };
        all.disagreements = [4, 2].map(|common| Disagreement { sample, unwound: 19, common }).into();
        all
    }

    #[test]
    fn rows_say_everything() {
        let all = example();
        let again = RepairedStacks::of_rows(all.to_rows(), all.ids_of_parts.clone()).expect("its own rows");
        assert_eq!(format!("{:?}", sorted(&again)), format!("{:?}", sorted(&all)));
        assert_eq!(again.to_rows(), all.to_rows());
    }

    /// Returns all fields, in an order that does not depend on hashes.
    fn sorted(all: &RepairedStacks) -> impl std::fmt::Debug {
        let mut outcomes: Vec<_> =
            all.by_snapshot.iter().map(|(id, it)| (*id, it.other, it.repair)).collect();
        outcomes.sort_unstable_by_key(|row| row.0);
        (
            outcomes,
            [3, 4].map(|of| all.cut.get(&of).copied()),
            all.disagreements.clone(),
            all.ids_of_parts.clone(),
        )
    }

    #[test]
    fn rows_of_others_are_refused() {
        let ids = || vec![10..12, 12..20];
        let refused = |row: Sample| assert!(RepairedStacks::of_rows(vec![row], ids()).is_none(), "{row:?}");
        let new = Sample { user_stack: 15, ..EMPTY };
        assert!(RepairedStacks::of_rows(vec![new], ids()).is_some());
        refused(Sample { user_stack: 20, ..new });
        refused(Sample { user_stack: 9, ..new });
        refused(Sample { event: 3, ..new });
        refused(Sample { event: CUT, user_stack: 0, ..new });
        refused(Sample { event: DIFFERS, ..new });
    }
}
