//! The trie of stacks in depth-first order: a caller comes before its callees, and all that a stack called follows it without a
//! gap. So every sum over the trie is one pass, and no depth of recursion overflows anything.
//!
//! ```text
//! position   0   1     2   3   4
//! stack      ()  main  a   b   c        main calls a and c, a calls b
//! end        5   5     4   4   5        the position after all that was called
//! ```

use std::sync::OnceLock;

use icecore_profile::named::{Amount, Profile, depth_first};

/// The stacks of a profile, in depth-first order. Position 0 is the empty stack.
#[derive(Debug)]
pub(super) struct Trie {
    /// The position of the caller; 0 at the outermost frame.
    pub(super) caller: Vec<u32>,
    /// The position after the last stack that goes through this one.
    pub(super) end: Vec<u32>,
    /// The function of the innermost frame, a position in the names' functions.
    pub(super) function: Vec<u32>,
    /// The innermost frame was inlined into its caller.
    pub(super) inlined: Vec<bool>,
    /// The innermost frame was found by a guess.
    pub(super) guessed: Vec<bool>,
}

impl Trie {
    /// Orders the stacks of a profile; also returns the new position of each.
    pub(super) fn new(profile: &Profile) -> (Self, Vec<u32>) {
        let mut position_of = vec![0u32; profile.stacks.len()];
        let (inlined, guessed) = (vec![false], vec![false]);
        let mut trie = Self { caller: vec![0], end: vec![0], function: vec![u32::MAX], inlined, guessed };
        depth_first(profile, |stack, enters| {
            let entry = profile.stacks[stack as usize];
            if !enters {
                let position = position_of[stack as usize] as usize;
                trie.end[position] = trie.caller.len() as u32;
                return;
            }
            position_of[stack as usize] = trie.caller.len() as u32;
            let frame = &profile.names.frames[entry.frame as usize];
            trie.caller.push(position_of[entry.caller as usize]);
            trie.end.push(0);
            trie.function.push(frame.function);
            trie.inlined.push(frame.inlined && entry.caller != 0);
            trie.guessed.push(profile.names.is_guessed(entry.frame));
        });
        trie.end[0] = trie.caller.len() as u32;
        (trie, position_of)
    }

    pub(super) fn len(&self) -> usize {
        self.caller.len()
    }

    /// Adds the amount of each stack to all its callers.
    pub(super) fn through(&self, at: &[Amount]) -> Vec<Amount> {
        let mut through = at.to_vec();
        for position in (1..through.len()).rev() {
            let amount = through[position];
            if amount.samples > 0 {
                through[self.caller[position] as usize].add(amount);
            }
        }
        through
    }

    /// Returns for each stack whether it has a frame of one of these functions. Frames that count for the function around them
    /// have none of their own, unless inlined frames are `apart`.
    pub(super) fn having(&self, is_in: &[bool], apart: bool) -> Vec<bool> {
        let mut has = vec![false; self.len()];
        for position in 1..self.len() {
            let is_own = apart || !self.inlined[position];
            let is_hit = is_own && is_in[self.function[position] as usize];
            has[position] = is_hit || has[self.caller[position] as usize];
        }
        has
    }
}

/// Which frames are shown: not those that are hidden, and those that were inlined only if they are shown apart.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// The nearest stack outwards whose innermost frame is shown, the stack itself included; 0 if there is none.
    pub(super) shown: Vec<u32>,
    /// The frame is shown, and no shown frame further out is of the same function.
    pub(super) is_first_of_function: Vec<bool>,
    /// Likewise of the same image. Few views ask for it.
    is_first_of_image: OnceLock<Vec<bool>>,
}

impl Shape {
    /// Looks at every frame once.
    pub(super) fn new(trie: &Trie, hidden: &[bool], apart: bool) -> Self {
        let mut shown = vec![0u32; trie.len()];
        let mut functions = Open::new(hidden.len());
        let mut is_first_of_function = vec![false; trie.len()];
        for position in 1..trie.len() {
            let (function, outer) = (trie.function[position], shown[trie.caller[position] as usize]);
            let is_part = !apart && trie.inlined[position] && outer != 0;
            let is_shown = !hidden[function as usize] && !is_part;
            shown[position] = if is_shown { position as u32 } else { outer };
            functions.leave(position as u32);
            is_first_of_function[position] = is_shown && functions.enter(function, trie.end[position]);
        }
        Self { shown, is_first_of_function, is_first_of_image: OnceLock::new() }
    }

    /// Returns for each stack whether its innermost frame is shown, and no shown frame further out is of the same image. `image_of`
    /// maps a function to the number of its image.
    pub(super) fn is_first_of_image(&self, trie: &Trie, image_of: &[u32]) -> &[bool] {
        self.is_first_of_image.get_or_init(|| {
            let mut images = Open::new(image_of.iter().max().map_or(0, |last| *last as usize + 1));
            let mut is_first = vec![false; trie.len()];
            for position in 1..trie.len() {
                images.leave(position as u32);
                let image = image_of[trie.function[position] as usize];
                is_first[position] = self.has(position as u32) && images.enter(image, trie.end[position]);
            }
            is_first
        })
    }

    /// Returns true if the innermost frame of a stack is shown.
    pub(super) fn has(&self, position: u32) -> bool {
        position != 0 && self.shown[position as usize] == position
    }

    /// Lists the stacks that are one shown frame longer than the given one. Frames that are not shown are passed through.
    pub(super) fn children<'a>(&'a self, trie: &'a Trie, of: u32) -> impl Iterator<Item = u32> + 'a {
        let mut next = of + 1;
        std::iter::from_fn(move || {
            while next < trie.end[of as usize] {
                let position = next;
                if self.has(position) {
                    next = trie.end[position as usize];
                    return Some(position);
                }
                next += 1;
            }
            None
        })
    }
}

/// The groups that have a frame on the path to the current stack, each with where its outermost frame ends.
struct Open {
    /// For each group, the end of its outermost frame; 0 if it has none on the path.
    until: Vec<u32>,
    /// The groups on the path, outermost first.
    path: Vec<u32>,
}

impl Open {
    fn new(groups: usize) -> Self {
        Self { until: vec![0; groups], path: Vec::new() }
    }

    /// Takes the groups from the path whose outermost frame ends before a position.
    fn leave(&mut self, position: u32) {
        while let Some(group) = self.path.last().filter(|group| self.until[**group as usize] <= position) {
            self.until[*group as usize] = 0;
            self.path.pop();
        }
    }

    /// Puts a group on the path; returns false if it was there.
    fn enter(&mut self, group: u32, end: u32) -> bool {
        let is_first = self.until[group as usize] == 0;
        if is_first {
            self.until[group as usize] = end;
            self.path.push(group);
        }
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::fixture;

    #[test]
    fn callees_follow_their_callers_without_a_gap() {
        let profile = fixture::profile(&[("main;a", 1), ("main;c", 1), ("main;a;b", 1), ("x", 1)]);
        let (trie, position_of) = Trie::new(&profile);
        for (stack, entry) in profile.stacks.iter().enumerate().skip(1) {
            let (position, caller) = (position_of[stack], position_of[entry.caller as usize]);
            assert_eq!(trie.caller[position as usize], caller);
            assert!(caller < position && position < trie.end[caller as usize]);
            assert_eq!(trie.function[position as usize], profile.function_id(*entry));
        }
        assert_eq!(trie.end[0] as usize, trie.len());
    }

    #[test]
    fn only_the_outermost_frame_of_a_recursion_is_the_first() {
        let profile = fixture::profile(&[("f;g;f;g", 1), ("g;f", 1)]);
        let (trie, _) = Trie::new(&profile);
        let shape = Shape::new(&trie, &[false; 2], true);
        let first: Vec<u32> = (1..).zip(&trie.caller[1..]).map(|(position, _)| position).collect();
        let first: Vec<bool> = first.iter().map(|at| shape.is_first_of_function[*at as usize]).collect();
        assert_eq!(first.iter().filter(|is_first| **is_first).count(), 4, "{first:?}");
    }

    #[test]
    fn hidden_frames_are_passed_through() {
        let profile = fixture::profile(&[("main;a;b", 1), ("main;a;c", 1), ("main;d", 1)]);
        let (trie, _) = Trie::new(&profile);
        let hidden: Vec<bool> = profile.names.functions.iter().map(|f| &*f.name == "a").collect();
        let shape = Shape::new(&trie, &hidden, true);
        let name = |at: u32| &*profile.names.functions[trie.function[at as usize] as usize].name;
        let mut below: Vec<&str> = shape.children(&trie, 1).map(name).collect();
        below.sort_unstable();
        assert_eq!((name(1), below), ("main", vec!["b", "c", "d"]));
    }

    #[test]
    fn ten_thousand_calls_deep_is_one_pass() {
        let deep = vec!["f"; 10_000].join(";");
        let profile = fixture::profile(&[(&deep, 1)]);
        let (trie, _) = Trie::new(&profile);
        let shape = Shape::new(&trie, &[false], false);
        assert_eq!(
            (trie.len(), shape.is_first_of_function.iter().filter(|first| **first).count()),
            (10_001, 1)
        );
    }
}
