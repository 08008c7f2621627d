//! Adds up self and total of groups of frames.

use super::{Amount, Profile, ProfileRow, Stack};
use crate::map::Interned;
use crate::named::names::Frame;

/// Returns the group of every stack's innermost frame, given the group of every frame. Inlined frames for which `is_apart` is false
/// belong to the function into which they were inlined. Entry 0 (the empty stack) has no meaning.
pub fn groups(profile: &Profile, of_frame: &[u32], is_apart: impl Fn(&Frame) -> bool) -> Vec<u32> {
    let mut of_stack = vec![0; profile.stacks.len()];
    for (stack, entry) in profile.stacks.iter().enumerate().skip(1) {
        let frame = entry.frame as usize;
        let inlined = &profile.names.frames[frame];
        let is_part = inlined.inlined && entry.caller != 0 && !is_apart(inlined);
        of_stack[stack] = if is_part { of_stack[entry.caller as usize] } else { of_frame[frame] };
    }
    of_stack
}

/// What hit a group of frames itself, and what passed through it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Samples whose leaf belongs to the group.
    pub own: Amount,
    /// Samples with a frame of the group anywhere, each counted once.
    pub total: Amount,
}

/// Adds up groups; `group_of` names the group of each stack's innermost frame, a number below `groups`.
///
/// # Cost
/// O(stacks): one walk over the trie, whatever the depth of recursion.
pub fn sums(profile: &Profile, group_of: &[u32], groups: usize) -> Vec<Sum> {
    let own = profile.at_stacks();
    let through = through(profile, own.clone());
    let mut sums = vec![Sum::default(); groups];
    let mut on_path = vec![0u32; groups];
    depth_first(profile, |stack, enters| {
        let group = group_of[stack as usize] as usize;
        if !enters {
            on_path[group] -= 1;
            return;
        }
        sums[group].own.add(own[stack as usize]);
        if on_path[group] == 0 {
            sums[group].total.add(through[stack as usize]);
        }
        on_path[group] += 1;
    });
    sums
}

/// Adds up groups as [`sums`] does, but apart for each context; `context_of` names the context of each row. Returns the pairs of
/// context and group, and their sums.
///
/// # Cost
/// O(stacks of each context, with all their callers).
pub fn sums_apart(profile: &Profile, context_of: &[u32], group_of: &[u32]) -> (Vec<(u32, u32)>, Vec<Sum>) {
    // Every context has a trie of its own. All begin at the empty stack.
    let mut copies: Interned<(u32, u32)> = Interned::new();
    copies.intern((0, 0));
    let mut stacks = vec![profile.stacks[0]];
    let mut path = Vec::new();
    let row = |(row, context): (&ProfileRow, &u32)| {
        let mut next = row.stack;
        let mut copy = loop {
            match copies.find(&(*context, next)) {
                _ if next == 0 => break 0,
                Some(known) => break known,
                None => path.push(next),
            }
            next = profile.stacks[next as usize].caller;
        };
        while let Some(stack) = path.pop() {
            stacks.push(Stack { caller: copy, frame: profile.stacks[stack as usize].frame });
            copy = copies.intern((*context, stack));
        }
        ProfileRow { stack: copy, ..*row }
    };
    let rows = profile.rows.iter().zip(context_of).map(row).collect();
    let mut groups: Interned<(u32, u32)> = Interned::new();
    let group = |(context, stack): (u32, u32)| match stack {
        0 => 0,
        _ => groups.intern((context, group_of[stack as usize])),
    };
    let group_of: Vec<u32> = copies.into_items().into_iter().map(group).collect();
    let apart = Profile { stacks, rows, ..Profile::default() };
    let sums = sums(&apart, &group_of, groups.len());
    (groups.into_items(), sums)
}

/// Walks over the trie, callers before callees. It calls `visit` twice for each stack: on entering it (`true`), and after leaving
/// all its callees.
pub fn depth_first(profile: &Profile, mut visit: impl FnMut(u32, bool)) {
    let (first_child, siblings) = children(profile);
    let mut work: Vec<(u32, bool)> = listed(&first_child, &siblings, 0).map(|stack| (stack, true)).collect();
    while let Some((stack, enters)) = work.pop() {
        visit(stack, enters);
        if enters {
            work.push((stack, false));
            work.extend(listed(&first_child, &siblings, stack).map(|child| (child, true)));
        }
    }
}

/// Adds the amount of each stack to all its callers.
pub fn through(profile: &Profile, mut at: Vec<Amount>) -> Vec<Amount> {
    for stack in (1..at.len()).rev() {
        let amount = at[stack];
        at[profile.stacks[stack].caller as usize].add(amount);
    }
    at
}

/// Lists children: the first child of each stack, and the next sibling of each stack; 0 ends a list.
fn children(profile: &Profile) -> (Vec<u32>, Vec<u32>) {
    let mut first_child = vec![0u32; profile.stacks.len()];
    let mut siblings = vec![0u32; profile.stacks.len()];
    for (stack, entry) in profile.stacks.iter().enumerate().skip(1) {
        let first = &mut first_child[entry.caller as usize];
        siblings[stack] = *first;
        *first = stack as u32;
    }
    (first_child, siblings)
}

fn listed<'a>(first_child: &[u32], siblings: &'a [u32], stack: u32) -> impl Iterator<Item = u32> + 'a {
    let some = |stack: u32| (stack != 0).then_some(stack);
    std::iter::successors(some(first_child[stack as usize]), move |s| some(siblings[*s as usize]))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn by_function(profile: &Profile) -> Vec<(String, u64, u64)> {
        let group_of: Vec<u32> = profile.names.frames.iter().map(|frame| frame.function).collect();
        let functions = &profile.names.functions;
        let sums = sums(profile, &groups(profile, &group_of, |_| false), functions.len());
        let named = functions.iter().zip(sums);
        named.map(|(f, s)| (f.name.to_string(), s.own.samples, s.total.samples)).collect()
    }

    #[test]
    fn recursion_counts_once_in_the_total() {
        let profile = fixture::profile(&[("main;f;g;f;g;f", 3), ("main;f", 2), ("main;g;f", 1)]);
        assert_eq!(by_function(&profile), [("main".into(), 0, 6), ("f".into(), 6, 6), ("g".into(), 0, 4)]);
    }

    #[test]
    fn inlined_frames_count_for_the_function_around_them_unless_set_apart() {
        let mut profile = fixture::profile(&[("main;f;g", 3), ("main;f", 2)]);
        let g =
            profile.names.functions.iter().position(|function| &*function.name == "g").expect("it is there");
        profile.names.frames.iter_mut().for_each(|frame| frame.inlined = frame.function as usize == g);
        assert_eq!(by_function(&profile), [("main".into(), 0, 5), ("f".into(), 5, 5), ("g".into(), 0, 0)]);
        let of_frame: Vec<u32> = profile.names.frames.iter().map(|frame| frame.function).collect();
        let apart = sums(&profile, &groups(&profile, &of_frame, |_| true), 3);
        assert_eq!(apart.iter().map(|sum| sum.own.samples).collect::<Vec<_>>(), [0, 2, 3]);
    }

    #[test]
    fn contexts_that_share_stacks_have_sums_of_their_own() {
        let profile = fixture::profile(&[("main;f;g;f", 3), ("main;f", 2), ("main;g", 1)]);
        let of_frame: Vec<u32> = profile.names.frames.iter().map(|frame| frame.function).collect();
        let of_stack = groups(&profile, &of_frame, |_| false);
        let (keys, sums) = sums_apart(&profile, &[0, 1, 0], &of_stack);
        let row = |((context, function), sum): (&(u32, u32), &Sum)| {
            let name = &profile.names.functions[*function as usize].name;
            format!("{context} {name} {} {}", sum.own.samples, sum.total.samples)
        };
        let rows: Vec<String> = keys.iter().zip(&sums).map(row).collect();
        assert_eq!(rows, ["0 main 0 4", "0 f 3 3", "0 g 1 4", "1 main 0 2", "1 f 2 2"]);
        let empty = fixture::profile(&[]);
        assert_eq!(sums_apart(&empty, &[], &[0]), (vec![], vec![]));
    }

    #[test]
    fn an_empty_profile_has_no_sums() {
        let profile = fixture::profile(&[]);
        assert_eq!(sums(&profile, &groups(&profile, &[], |_| false), 0), []);
    }
}
