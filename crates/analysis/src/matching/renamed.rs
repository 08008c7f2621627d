//! Finds functions that may have been renamed: the same callers, the same callees, about the same time.

/// An unmatched function.
///
/// Neighbours are sorted by number, each once. Numbers mean the same on both sides: the position of the neighbour's
/// [`Group`](super::Group), so that an unmatched neighbour matches none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left<'a> {
    /// Its share of everything, including its callees.
    pub total: f64,
    /// Its share without its callees.
    pub own: f64,
    /// Its callers: how much of `total` came from each.
    pub callers: &'a [(u32, f64)],
    /// Its callees: how much of `total` went to each.
    pub callees: &'a [(u32, f64)],
}

/// A probable rename.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Renamed {
    /// Position of the old function.
    pub gone: usize,
    /// Position of the new function.
    pub new: usize,
    /// Similarity of callers and callees, 0 to 1: the mean of the weighted Jaccard indices of both.
    pub likeness: f64,
}

/// The least similarity of callers and callees.
const MIN_LIKENESS: f64 = 0.7;
/// The largest ratio of times: beyond it, the functions are different, or nobody could tell.
const MAX_RATIO: f64 = 3.0;
/// If a second candidate reaches this share of the best similarity, both are doubtful.
const MAX_SECOND: f64 = 0.9;

/// Proposes pairs of gone and new functions: those that match each other best, and clearly better than any other.
///
/// # Shape   by `gone`; every position at most once
/// # Cost    all pairs, each proportional to its lists: pass only functions that matter
pub fn renamed(gone: &[Left<'_>], new: &[Left<'_>]) -> Vec<Renamed> {
    let fits: Vec<Vec<(f64, f64)>> =
        gone.iter().map(|gone| new.iter().map(|new| fit(gone, new)).collect()).collect();
    let of_new = |new: usize| fits.iter().map(move |row| row[new].0);
    let proposal = |(gone, row): (usize, &Vec<(f64, f64)>)| {
        let new = clear_best(row.iter().map(|fit| fit.0))?;
        let is_mutual = clear_best(of_new(new)) == Some(gone);
        is_mutual.then(|| Renamed { gone, new, likeness: row[new].1 })
    };
    fits.iter().enumerate().filter_map(proposal).collect()
}

/// Returns how well two functions match, for choosing, and their similarity; the first is 0 if they cannot be one function.
fn fit(gone: &Left<'_>, new: &Left<'_>) -> (f64, f64) {
    if !(gone.total > 0.0 && new.total > 0.0) {
        return (0.0, 0.0);
    }
    let closeness = gone.total.min(new.total) / gone.total.max(new.total);
    let likeness = likeness(gone, new);
    let may_be = likeness >= MIN_LIKENESS && closeness * MAX_RATIO >= 1.0;
    (if may_be { likeness * closeness } else { 0.0 }, likeness)
}

fn likeness(gone: &Left<'_>, new: &Left<'_>) -> f64 {
    let callers = jaccard(gone.callers, new.callers, (0.0, 0.0));
    let callees = jaccard(gone.callees, new.callees, (gone.own, new.own));
    // The first function of a thread has no callers.
    if gone.callers.is_empty() && new.callers.is_empty() { callees } else { (callers + callees) / 2.0 }
}

/// Returns the weighted Jaccard index of two lists, each scaled to a sum of 1; entries in only one list count against it. Own time
/// counts as one more neighbour.
fn jaccard(a: &[(u32, f64)], b: &[(u32, f64)], own: (f64, f64)) -> f64 {
    let sum = |list: &[(u32, f64)], own: f64| own + list.iter().map(|(_, weight)| weight).sum::<f64>();
    let (a_sum, b_sum) = (sum(a, own.0), sum(b, own.1));
    if !(a_sum > 0.0 && b_sum > 0.0) {
        return 0.0;
    }
    let (a_own, b_own) = (own.0 / a_sum, own.1 / b_sum);
    let (mut least, mut most) = (a_own.min(b_own), a_own.max(b_own));
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let Some(number) = a.peek().into_iter().chain(b.peek()).map(|next| next.0).min() {
        let a_weight = a.next_if(|next| next.0 == number).map_or(0.0, |next| next.1 / a_sum);
        let b_weight = b.next_if(|next| next.0 == number).map_or(0.0, |next| next.1 / b_sum);
        least += a_weight.min(b_weight);
        most += a_weight.max(b_weight);
    }
    least / most
}

/// Returns the position of the largest number, if it is positive and clearly larger than all others.
fn clear_best(fits: impl Iterator<Item = f64>) -> Option<usize> {
    let (mut best, mut second) = ((0, 0.0), 0.0);
    for (position, fit) in fits.enumerate() {
        if fit > best.1 {
            second = best.1;
            best = (position, fit);
        } else if fit > second {
            second = fit;
        }
    }
    (best.1 > 0.0 && second <= best.1 * MAX_SECOND).then_some(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left<'a>(total: f64, own: f64, callers: &'a [(u32, f64)], callees: &'a [(u32, f64)]) -> Left<'a> {
        Left { total, own, callers, callees }
    }

    #[test]
    fn equal_neighbours_and_time_are_one_function() {
        let gone = [left(0.2, 0.1, &[(1, 0.2)], &[(7, 0.1)]), left(0.4, 0.4, &[(2, 0.4)], &[])];
        let new = [left(0.41, 0.4, &[(2, 0.41)], &[(9, 0.01)]), left(0.25, 0.12, &[(1, 0.25)], &[(7, 0.13)])];
        let found = renamed(&gone, &new);
        assert_eq!(found.iter().map(|it| (it.gone, it.new)).collect::<Vec<_>>(), [(0, 1), (1, 0)]);
        assert!(found.iter().all(|it| it.likeness > 0.9), "{found:?}");
        let other_way: Vec<_> = renamed(&new, &gone).iter().map(|it| (it.new, it.gone)).collect();
        assert_eq!(other_way, [(1, 0), (0, 1)]);
    }

    #[test]
    fn other_callers_or_much_more_time_is_another_function() {
        let gone = [left(0.2, 0.1, &[(1, 0.2)], &[(7, 0.1)])];
        for new in [
            left(0.2, 0.1, &[(2, 0.2)], &[(7, 0.1)]),
            left(0.2, 0.1, &[(1, 0.2)], &[(8, 0.1)]),
            left(0.7, 0.35, &[(1, 0.7)], &[(7, 0.35)]),
            left(0.2, 0.0, &[(1, 0.2)], &[(6, 0.2)]),
            left(0.0, 0.0, &[], &[]),
            left(f64::NAN, 0.1, &[(1, 0.2)], &[(7, 0.1)]),
        ] {
            assert_eq!(renamed(&gone, &[new]), [], "{new:?}");
        }
    }

    #[test]
    fn of_two_that_fit_equally_none_is_proposed() {
        let one = left(0.2, 0.2, &[(1, 0.2)], &[]);
        assert_eq!(renamed(&[one], &[one]).len(), 1);
        assert_eq!(renamed(&[one], &[one, one]), []);
        assert_eq!(renamed(&[one, one], &[one]), []);
        // Time tells them apart.
        let half = left(0.1, 0.1, &[(1, 0.1)], &[]);
        let found = renamed(&[one, half], &[half, one]);
        assert_eq!(found.iter().map(|it| (it.gone, it.new)).collect::<Vec<_>>(), [(0, 1), (1, 0)]);
    }

    #[test]
    fn the_first_function_of_a_thread_needs_no_caller() {
        let gone = [left(1.0, 0.0, &[], &[(3, 0.6), (4, 0.4)])];
        let new = [left(1.0, 0.0, &[], &[(3, 0.5), (4, 0.5)])];
        assert_eq!(renamed(&gone, &new).len(), 1);
        assert_eq!(renamed(&gone, &[left(1.0, 0.0, &[(9, 1.0)], &[(3, 0.5), (4, 0.5)])]), []);
    }
}
