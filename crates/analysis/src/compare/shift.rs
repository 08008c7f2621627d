//! Finds functions whose source moved up or down in another build.

use super::functions::Functions;
use super::row::Sided;
use icecore_profile::map::Map;
use icecore_profile::named::through;

/// The heaviest lines of a function on each side that are compared.
const TRIED: usize = 32;

/// Returns by how many lines each function, by its number, moved down: the shift that matches the most weight.
pub(super) fn shifts(reports: &[Sided<'_>], functions: &Functions) -> Map<u32, i32> {
    let mut lines: Map<u32, [Map<u32, u64>; 2]> = Map::default();
    for (number, (report, side)) in reports.iter().enumerate() {
        let profile = &report.profile;
        let weights = through(profile, profile.at_stacks());
        for (stack, weight) in profile.stacks.iter().zip(weights).skip(1) {
            let frame = &profile.names.frames[stack.frame as usize];
            let Some(line) = frame.line else { continue };
            let of_sides = lines.entry(functions.of[number][frame.function as usize]).or_default();
            let sum = of_sides[*side].entry(line).or_default();
            *sum = sum.saturating_add(weight.weight);
        }
    }
    let shift = |(function, [before, after]): (u32, [Map<u32, u64>; 2])| {
        let shift = best(&heaviest(before), &heaviest(after));
        (shift != 0).then_some((function, shift))
    };
    lines.into_iter().filter_map(shift).collect()
}

/// Returns the heaviest lines, by their share of the function.
fn heaviest(lines: Map<u32, u64>) -> Vec<(u32, f64)> {
    let whole = lines.values().fold(0, |sum: u64, weight| sum.saturating_add(*weight)).max(1) as f64;
    let mut lines: Vec<(u32, u64)> = lines.into_iter().collect();
    lines.sort_unstable_by_key(|(line, weight)| (std::cmp::Reverse(*weight), *line));
    lines.truncate(TRIED);
    lines.into_iter().map(|(line, weight)| (line, weight as f64 / whole)).collect()
}

/// Returns the shift that matches the most weight; the smallest of several.
fn best(before: &[(u32, f64)], after: &[(u32, f64)]) -> i32 {
    let together = |shift: i32| -> f64 {
        let of = |(line, share): &(u32, f64)| {
            let moved = line.checked_add_signed(shift)?;
            after.iter().find(|(line, _)| *line == moved).map(|(_, other)| share.min(*other))
        };
        before.iter().filter_map(of).sum()
    };
    let pairs = before.iter().flat_map(|(b, _)| after.iter().map(|(a, _)| i64::from(*a) - i64::from(*b)));
    let mut shifts: Vec<i32> = pairs.filter_map(|shift| i32::try_from(shift).ok()).collect();
    shifts.sort_unstable_by_key(|shift| (shift.unsigned_abs(), *shift));
    shifts.dedup();
    let stays = (0, together(0));
    shifts
        .into_iter()
        .map(|shift| (shift, together(shift)))
        .fold(stays, |best, new| if new.1 > best.1 + 1e-9 { new } else { best })
        .0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_move_together() {
        let before = [(10, 0.6), (14, 0.3), (20, 0.1)];
        assert_eq!(best(&before, &[(13, 0.5), (17, 0.4), (23, 0.1)]), 3);
        assert_eq!(best(&before, &before), 0);
        assert_eq!(best(&before, &[]), 0);
        assert_eq!(best(&[(2, 1.0)], &[(1, 0.5), (3, 0.5)]), -1, "the smallest of several");
    }
}
