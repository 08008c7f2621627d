//! Finds functions that occur more than once in a stack.

mod loops;
mod sets;

use std::cmp::Reverse;

use super::{Depths, Distribution};
use icecore_profile::map::Map;
use icecore_profile::named::Profile;
use loops::{Loops, Way};
use sets::Sets;

/// A function that calls itself, or a set of functions that call each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recursing {
    /// The function, a position in the names' functions; for a set the function through which it is entered most.
    pub function: u32,
    /// The most frequent way from the function back to itself, both ends included.
    pub cycle: Vec<u32>,
    /// How many functions call each other; 1 if it calls itself.
    pub functions: u32,
    /// How often the function occurs in a stack, for samples in which it occurs more than once.
    pub repeats: Distribution,
}

/// Finds recursion in the samples of an event (0 if events are not apart): functions that call themselves, and sets of functions that call each other, each once. The one with
/// most samples comes first.
///
/// # Cost
/// O(stacks): one walk over the trie, whatever the depth of recursion.
pub fn recursing(profile: &Profile, depths: &Depths, event: u8) -> Vec<Recursing> {
    let loops = Loops::find(profile, depths, event);
    let mut sets = Sets::new(profile.names.functions.len());
    for (from, between) in loops.iter() {
        between.iter().for_each(|to| sets.join(from, *to));
    }
    let (direct, mutual): (Vec<Way>, Vec<Way>) =
        loops.ways(&profile.names).into_iter().partition(|way| way.between.is_empty());
    // Of equal functions, the one that was called first represents its set.
    let rank = |way: &Way| (way.samples, Reverse(loops.first_seen(way.from)), Reverse(way.from));
    let mut leaders: Map<u32, Way> = Map::default();
    for way in mutual {
        let set = sets.of(way.from);
        if leaders.get(&set).is_none_or(|known| rank(&way) > rank(known)) {
            leaders.insert(set, way);
        }
    }
    let mutual = leaders.into_iter().map(|(set, way)| (sets.len_of(set), way));
    let ways = direct.into_iter().map(|way| (1, way)).chain(mutual);
    let row = |(functions, way): (u32, Way)| Recursing {
        function: way.from,
        cycle: [&[way.from][..], &way.between, &[way.from]].concat(),
        functions,
        repeats: loops.repeats(way.from),
    };
    let mut rows: Vec<Recursing> = ways.map(row).collect();
    rows.sort_by_cached_key(|row| {
        let name = profile.names.functions[row.function as usize].name.clone();
        let most = row.repeats.max().map(|max| max.value);
        (Reverse((row.repeats.count(), most)), name, row.function, row.functions)
    });
    rows
}

#[cfg(test)]
mod tests {
    use icecore_format::records::WalkEnd;

    use super::*;
    use icecore_profile::named::fixture;

    /// Returns cycles, functions, most repeats and samples.
    fn of(profile: &Profile) -> Vec<(String, u32, u32, u64)> {
        let row = |row: Recursing| {
            let names = row.cycle.iter().map(|f| &*profile.names.functions[*f as usize].name);
            let most = row.repeats.max().expect("it recurs");
            (names.collect::<Vec<_>>().join(" "), row.functions, most.value, row.repeats.count())
        };
        recursing(profile, &Depths::new(profile), 0).into_iter().map(row).collect()
    }

    #[test]
    fn direct_recursion_has_its_most_repeats_and_their_distribution() {
        let profile = fixture::profile(&[
            ("main;f;f;f", 3),
            ("main;f;f;leaf", 2),
            ("main;f", 5),
            ("main;f;f;f;f;g", 1),
        ]);
        assert_eq!(of(&profile), [("f f".into(), 1, 4, 6)]);
        let repeats = &recursing(&profile, &Depths::new(&profile), 0)[0].repeats;
        let counts: Vec<u64> = (2..=5).map(|times| repeats.count_from(times)).collect();
        assert_eq!(counts, [6, 4, 1, 0]);
        assert_eq!(repeats.percentile(50).map(|figure| figure.value), Some(3));
    }

    #[test]
    fn each_event_has_recursion_of_its_own() {
        let mut profile = fixture::profile(&[("main;f;f;f", 3), ("main;f;f", 2), ("main;g;g", 5)]);
        profile.rows[1].event = 4;
        profile.rows[2].event = 4;
        let of = |event| {
            let rows = recursing(&profile, &Depths::new(&profile), event);
            let row =
                |row: &Recursing| (row.function, row.repeats.max().map(|max| max.value), row.repeats.count());
            rows.iter().map(row).collect::<Vec<_>>()
        };
        assert_eq!(of(0), [(1, Some(3), 3)]);
        assert_eq!(of(4), [(2, Some(2), 5), (1, Some(2), 2)]);
        assert_eq!(of(9), []);
    }

    #[test]
    fn mutual_recursion_is_told_once_for_all_its_functions() {
        let profile = fixture::profile(&[("main;f;g;f;g;f;leaf", 4), ("main;f;g;h;f", 1), ("main;f;g", 9)]);
        assert_eq!(of(&profile), [("f g f".into(), 3, 3, 5)]);
        // Of equal functions, the first one represents them.
        assert_eq!(of(&fixture::profile(&[("main;g;f;g;f;leaf", 4)])), [("g f g".into(), 2, 2, 4)]);
    }

    #[test]
    fn what_recurs_on_the_way_is_no_part_of_the_cycle() {
        let profile = fixture::profile(&[("main;f;g;g;g;f;g;g;f", 1)]);
        assert_eq!(of(&profile), [("g g".into(), 1, 5, 1), ("f g f".into(), 2, 3, 1)]);
    }

    #[test]
    fn functions_that_only_call_each_other_in_different_stacks_do_not_recur() {
        assert_eq!(of(&fixture::profile(&[("main;f;g", 1), ("main;g;f", 1), ("f;main", 1)])), []);
    }

    #[test]
    fn a_very_long_way_is_found() {
        let way: Vec<String> = (0..200).map(|n| format!("a{n}")).collect();
        let stack = format!("main;f;{};f", way.join(";"));
        let found = of(&fixture::profile(&[(&stack, 2)]));
        assert_eq!((found.len(), found[0].1, found[0].3), (1, 201, 2));
        assert_eq!(found[0].0, format!("f {} f", way.join(" ")));
    }

    #[test]
    fn code_that_nothing_names_is_no_function() {
        let mut profile = fixture::profile(&[("main;f;[jit];[jit];f", 1)]);
        profile.names.functions[2].reason = Some(icecore_symbolize::Reason::Jit);
        assert_eq!(of(&profile), [("f [jit] f".into(), 2, 2, 1)]);
    }

    #[test]
    fn inlined_frames_are_no_repetition() {
        let mut profile = fixture::profile(&[("main;f;i;f", 1)]);
        profile.names.frames[2].inlined = true;
        assert_eq!(of(&profile), [("f f".into(), 1, 2, 1)]);
        profile.names.frames[1].inlined = true;
        assert_eq!(of(&profile), []);
    }

    #[test]
    fn repeats_of_cut_stacks_are_least_values() {
        let mut profile = fixture::profile(&[("f;f;f", 1), ("main;f;f", 9)]);
        profile.rows[0].taken.end = WalkEnd::DEPTH;
        let repeats = &recursing(&profile, &Depths::new(&profile), 0)[0].repeats;
        let figures = [50, 100].map(|p| repeats.percentile(p).map(|f| (f.value, f.at_least)));
        assert_eq!(figures, [Some((2, false)), Some((3, true))]);
    }

    #[test]
    fn a_trie_of_a_million_frames_takes_a_moment() {
        let stack = |n: usize| format!("main{n};{};leaf", vec!["f;g"; 500 + n % 7].join(";"));
        let stacks: Vec<String> = (0..1000).map(stack).collect();
        let profile = fixture::profile(&stacks.iter().map(|s| (s.as_str(), 1)).collect::<Vec<_>>());
        assert_eq!(of(&profile), [("f g f".into(), 2, 506, 1000)]);
    }
}
