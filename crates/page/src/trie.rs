//! Orders a trie of stacks so that each is followed by all that continue it.

use icecore_profile::named::Stack;

/// The stacks in that order, and the new position of each.
pub(super) struct Ordered {
    /// The frame of each stack, in the new order; without the empty stack.
    pub(super) frames: Vec<u32>,
    /// How many frames the stack before has that this one does not share: 0 if this one continues it.
    pub(super) leaves: Vec<u32>,
    /// By old position, the new one; `u32::MAX` for stacks that no row needs.
    pub(super) position: Vec<u32>,
}

/// Orders stacks, those that share a frame as neighbours; `is_used` returns true for the stacks of rows. Callers come before callees in
/// `stacks`, and the first is the empty one.
pub(super) fn order(stacks: &[Stack], mut is_used: Vec<bool>) -> Ordered {
    for (stack, of) in stacks.iter().enumerate().skip(1).rev() {
        if is_used[stack] {
            is_used[of.caller as usize] = true;
        }
    }
    // The children of each stack, as lists that begin with the first child.
    let mut first = vec![0u32; stacks.len()];
    let mut next = vec![0u32; stacks.len()];
    for (stack, of) in stacks.iter().enumerate().skip(1).rev() {
        if is_used[stack] {
            next[stack] = std::mem::replace(&mut first[of.caller as usize], stack as u32);
        }
    }
    let mut ordered =
        Ordered { frames: Vec::new(), leaves: Vec::new(), position: vec![u32::MAX; stacks.len()] };
    ordered.position[0] = 0;
    let (mut before, mut work) = (0u32, vec![(first[0], 1u32)]);
    while let Some((stack, depth)) = work.pop() {
        if stack == 0 {
            continue;
        }
        ordered.leaves.push(before + 1 - depth);
        ordered.frames.push(stacks[stack as usize].frame);
        ordered.position[stack as usize] = ordered.frames.len() as u32;
        before = depth;
        work.push((next[stack as usize], depth));
        work.push((first[stack as usize], depth + 1));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_followed_by_those_that_continue_it() {
        let stack = |caller, frame| Stack { caller, frame };
        // 1: a, 2: b, 3: a;c, 4: b;d (unused), 5: a;c;e
        let stacks =
            [stack(u32::MAX, u32::MAX), stack(0, 10), stack(0, 11), stack(1, 12), stack(2, 13), stack(3, 14)];
        let ordered = order(&stacks, vec![false, false, true, false, false, true]);
        assert_eq!(ordered.frames, [10, 12, 14, 11]);
        assert_eq!(ordered.leaves, [0, 0, 0, 3]);
        assert_eq!(ordered.position, [0, 1, 4, 2, u32::MAX, 3]);
    }

    #[test]
    fn deep_stacks_need_no_deep_calls() {
        let stacks: Vec<Stack> =
            (0..100_000u32).map(|n| Stack { caller: n.wrapping_sub(1), frame: 0 }).collect();
        let mut used = vec![false; stacks.len()];
        used[99_999] = true;
        let ordered = order(&stacks, used);
        assert_eq!((ordered.frames.len(), ordered.leaves.iter().sum::<u32>()), (99_999, 0));
    }
}
