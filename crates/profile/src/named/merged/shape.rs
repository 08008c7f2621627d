//! Builds the trie of labels: from the roots, or from the leaves.

use super::{Labels, MergedStacks};
use crate::map::{Interned, Map};
use crate::named::tree::{Root, roots};
use crate::named::{Amount, Profile};

/// Stands for a stack without frames.
const NO_STACK: &str = "[no stack]";
/// Stands for frames in the middle of a stack that has too many.
const CUT: &str = "[… frames left out …]";

/// The shape of the trie.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The name with which a stack begins, before its outermost frame.
    pub root: Root,
    /// A function that calls itself directly is one frame.
    pub collapse: bool,
    /// The most frames of a stack, the one that stands for those left out included; at least 4.
    pub max_depth: u32,
}

impl Shape {
    /// Shows all frames of all stacks.
    pub fn of(root: Root) -> Self {
        Self { root, collapse: false, max_depth: u32::MAX }
    }
}

/// The frames that are left out of stacks with too many; the number is the most frames of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Those in the middle.
    Middle(u32),
    /// The outermost ones.
    Outermost(u32),
}

/// A profile whose stacks are put into a trie.
struct Source<'a> {
    profile: &'a Profile,
    labels: &'a Labels,
    shape: Shape,
    /// Distinct labels, in their order.
    texts: Vec<String>,
    /// The position in `texts` of each of the labels' texts.
    rank_of: Vec<u32>,
    /// The position in `texts` of the name of each root, and the root of each thread.
    roots: (Vec<u32>, Vec<u32>),
}

impl<'a> Source<'a> {
    fn new(profile: &'a Profile, labels: &'a Labels, shape: Shape) -> Self {
        let (names, of_thread) = roots(profile, shape.root);
        let names: Vec<String> = names.iter().map(|name| name.replace(';', ":")).collect();
        let mut texts: Vec<String> = labels.texts().iter().chain(&names).cloned().collect();
        texts.extend([NO_STACK, CUT].map(str::to_owned));
        texts.sort_unstable();
        texts.dedup();
        let rank_of = labels.texts().iter().map(|text| rank(&texts, text)).collect();
        let roots = (names.iter().map(|name| rank(&texts, name)).collect(), of_thread);
        Self { profile, labels, shape, texts, rank_of, roots }
    }

    /// Returns the label of the innermost frame of a stack.
    fn label(&self, stack: u32) -> u32 {
        self.rank_of[self.labels.text_of(self.profile.stacks[stack as usize].frame)]
    }

    fn caller(&self, stack: u32) -> u32 {
        self.profile.stacks[stack as usize].caller
    }

    /// Returns true if the innermost frame is not shown, because its function is that of the caller.
    fn is_folded(&self, stack: u32) -> bool {
        let function = |stack: u32| self.profile.function_id(self.profile.stacks[stack as usize]);
        let caller = self.caller(stack);
        self.shape.collapse && caller != 0 && function(stack) == function(caller)
    }

    /// Counts the shown frames of each stack.
    fn depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.profile.stacks.len()];
        for stack in 1..depths.len() as u32 {
            depths[stack as usize] = depths[self.caller(stack) as usize] + u32::from(!self.is_folded(stack));
        }
        depths
    }
}

fn rank(texts: &[String], text: &str) -> u32 {
    texts.binary_search_by(|known| (**known).cmp(text)).unwrap_or(0) as u32
}

/// The nodes of a trie that begins at the roots.
struct Rooted {
    nodes: Interned<(u32, u32)>,
    /// The node of each root and stack.
    known: Map<(u32, u32), u32>,
}

impl Rooted {
    /// Returns the node of a whole stack.
    fn node(&mut self, source: &Source<'_>, root: u32, stack: u32) -> u32 {
        let mut path = Vec::new();
        let mut next = stack;
        let mut node = loop {
            if next == 0 {
                break source.roots.0.get(root as usize).map_or(0, |rank| self.nodes.intern((0, *rank)));
            }
            if let Some(found) = self.known.get(&(root, next)) {
                break *found;
            }
            path.push(next);
            next = source.caller(next);
        };
        while let Some(stack) = path.pop() {
            if !source.is_folded(stack) {
                node = self.nodes.intern((node, source.label(stack)));
            }
            self.known.insert((root, stack), node);
        }
        node
    }

    /// Returns the node of a stack whose middle frames are left out.
    fn cut(&mut self, source: &Source<'_>, depths: &[u32], root: u32, stack: u32) -> u32 {
        let outer = source.shape.max_depth / 2;
        let inner = depths[stack as usize] - (source.shape.max_depth - outer - 1);
        let mut innermost = Vec::new();
        let mut next = stack;
        while depths[next as usize] > outer {
            if depths[next as usize] > inner && !source.is_folded(next) {
                innermost.push(source.label(next));
            }
            next = source.caller(next);
        }
        let outermost = self.node(source, root, next);
        let cut = self.nodes.intern((outermost, rank(&source.texts, CUT)));
        innermost.iter().rev().fold(cut, |node, label| self.nodes.intern((node, *label)))
    }
}

impl MergedStacks {
    /// Merges all frames of the stacks of a profile, below the names that `root` requests.
    pub fn new(profile: &Profile, root: Root, labels: &Labels) -> Self {
        Self::shaped(profile, labels, Shape::of(root))
    }

    /// Merges the stacks of a profile, root first. A stack of too many frames keeps its outermost and its innermost ones.
    pub fn shaped(profile: &Profile, labels: &Labels, shape: Shape) -> Self {
        let source = Source::new(profile, labels, shape);
        let depths = source.depths();
        let mut rooted = Rooted { nodes: Interned::new(), known: Map::default() };
        rooted.nodes.intern((0, u32::MAX));
        let mut own: Vec<Amount> = Vec::new();
        let mut cut_samples = 0;
        for row in &profile.rows {
            let root = source.roots.1[row.thread as usize];
            let mut node = if depths[row.stack as usize] > shape.max_depth {
                cut_samples += row.samples;
                rooted.cut(&source, &depths, root, row.stack)
            } else {
                rooted.node(&source, root, row.stack)
            };
            if node == 0 {
                node = rooted.nodes.intern((0, rank(&source.texts, NO_STACK)));
            }
            own.resize(rooted.nodes.len(), Amount::default());
            own[node as usize].add(row.amount());
        }
        own.resize(rooted.nodes.len(), Amount::default());
        let cut = (cut_samples > 0).then_some(Cut::Middle(shape.max_depth));
        Self::of(source.texts, rooted.nodes.into_items(), own, (cut_samples, cut))
    }

    /// Merges the stacks of a profile, leaf first, and last the name of the root. Branches below a share are never built: they count
    /// for the function below them.
    pub fn from_leaves(profile: &Profile, labels: &Labels, shape: Shape, min_share: f64) -> Self {
        let source = Source::new(profile, labels, shape);
        let whole = profile.whole();
        let is_wide = |amount: Amount| {
            let samples = amount.samples as f64 / (whole.samples as f64).max(1.0);
            samples.max(amount.share_of(whole)) >= min_share
        };
        let (mut nodes, mut own) = (vec![(0, u32::MAX)], vec![Amount::default()]);
        let (mut cut_samples, mut narrow_frames) = (0, 0);
        let leaves = profile.rows.iter().map(|row| Part {
            root: source.roots.1[row.thread as usize],
            stack: row.stack,
            amount: row.amount(),
        });
        let mut work = vec![(0_u32, 0_u32, leaves.collect::<Vec<Part>>())];
        while let Some((parent, depth, parts)) = work.pop() {
            for (label, amount, callers) in source.by_label(parts, depth == 0) {
                let is_too_deep = depth == shape.max_depth && label.is_some();
                match label.filter(|_| !is_too_deep && is_wide(amount)) {
                    Some(label) => {
                        nodes.push((parent, label));
                        own.push(Amount::default());
                        work.push(((nodes.len() - 1) as u32, depth + 1, callers));
                    }
                    None => {
                        own[parent as usize].add(amount);
                        cut_samples += if is_too_deep { amount.samples } else { 0 };
                        narrow_frames += u64::from(label.is_some() && !is_too_deep);
                    }
                }
            }
        }
        let cut = (cut_samples > 0).then_some(Cut::Outermost(shape.max_depth));
        let merged = Self::of(source.texts, nodes, own, (cut_samples, cut));
        merged.without_narrow(narrow_frames)
    }
}

/// Samples of one root whose frames up to that of a stack are not in the trie yet.
#[derive(Debug, Clone, Copy)]
struct Part {
    root: u32,
    /// 0 if the name of the root is next; [`ENDED`] if nothing is.
    stack: u32,
    amount: Amount,
}

/// Stands for the stack of a part of which all is in the trie.
const ENDED: u32 = u32::MAX;

impl Source<'_> {
    /// Groups parts by the label of their next frame, in the order of the first of each; `None` is the label of parts that have
    /// ended. Returns what is left of the parts of each label.
    fn by_label(&self, parts: Vec<Part>, are_leaves: bool) -> Vec<(Option<u32>, Amount, Vec<Part>)> {
        let mut groups: Vec<(Option<u32>, Amount, Vec<Part>)> = Vec::new();
        let mut positions: Map<Option<u32>, usize> = Map::default();
        for part in parts {
            let mut stack = part.stack;
            while stack != 0 && stack != ENDED && self.is_folded(stack) {
                stack = self.caller(stack);
            }
            let (label, next) = match stack {
                ENDED => (None, ENDED),
                0 => match self.roots.0.get(part.root as usize) {
                    Some(root) => (Some(*root), ENDED),
                    None if are_leaves => (Some(rank(&self.texts, NO_STACK)), ENDED),
                    None => (None, ENDED),
                },
                _ => (Some(self.label(stack)), self.caller(stack)),
            };
            let position = *positions.entry(label).or_insert(groups.len());
            if position == groups.len() {
                groups.push((label, Amount::default(), Vec::new()));
            }
            let (_, amount, callers) = &mut groups[position];
            amount.add(part.amount);
            callers.push(Part { stack: next, ..part });
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::fixture;

    const SHAPE: Shape = Shape { root: Root::None, collapse: false, max_depth: u32::MAX };

    fn lines(stacks: &MergedStacks) -> Vec<String> {
        let mut lines = Vec::new();
        let handed = stacks.each(|frames, amount| {
            lines.push(format!("{} {}", frames.join(";"), amount.samples));
            Ok::<(), ()>(())
        });
        handed.expect("nothing is refused");
        lines
    }

    fn rooted(stacks: &[(&str, u64)], shape: Shape) -> MergedStacks {
        let profile = fixture::profile(stacks);
        MergedStacks::shaped(&profile, &Labels::own(&profile.names, true), shape)
    }

    fn inverted(stacks: &[(&str, u64)], shape: Shape, min_share: f64) -> MergedStacks {
        let profile = fixture::profile(stacks);
        MergedStacks::from_leaves(&profile, &Labels::own(&profile.names, true), shape, min_share)
    }

    #[test]
    fn direct_recursion_is_drawn_once_and_other_recursion_stays() {
        let shape = Shape { collapse: true, ..SHAPE };
        let stacks = [("main;f;f;f;g", 3), ("main;f;g", 1), ("main;f;g;f", 2), ("main;f;f", 4)];
        assert_eq!(lines(&rooted(&stacks, shape)), ["main;f 4", "main;f;g 4", "main;f;g;f 2"]);
        assert_eq!(lines(&inverted(&stacks, shape, 0.0)), ["f;g;f;main 2", "f;main 4", "g;f;main 4"]);
    }

    #[test]
    fn stacks_begin_at_the_leaf_and_end_with_the_root() {
        let stacks = [("main;a;x", 1), ("main;b;x", 2), ("main", 4)];
        let shape = Shape { root: Root::Process, ..SHAPE };
        // The process of the fixture is `x`, too.
        let expected = ["main;x 4", "x;a;main;x 1", "x;b;main;x 2"];
        assert_eq!(lines(&inverted(&stacks, shape, 0.0)), expected);
        assert_eq!(lines(&inverted(&stacks, SHAPE, 0.0)), ["main 4", "x;a;main 1", "x;b;main 2"]);
    }

    #[test]
    fn narrow_frames_from_the_leaves_count_for_what_is_below_them() {
        let stacks = [("main;a;x", 1), ("main;b;x", 98), ("main;y", 1)];
        let merged = inverted(&stacks, SHAPE, 0.02);
        assert_eq!(lines(&merged), ["x 1", "x;b;main 98"]);
        // That of `a`, and that of `y`, which the whole graph keeps as too narrow.
        assert_eq!((merged.narrow_frames, merged.own[0].samples), (2, 1));
    }

    #[test]
    fn deep_stacks_keep_both_ends() {
        let shape = Shape { max_depth: 5, ..SHAPE };
        let stacks = [("a;b;c;d;e", 1), ("a;b;c;d;e;f", 2), ("a;b;x;y;z;e;f", 4)];
        let merged = rooted(&stacks, shape);
        assert_eq!(lines(&merged), ["a;b;[… frames left out …];e;f 6", "a;b;c;d;e 1"]);
        assert_eq!((merged.cut_samples, merged.depth()), (6, 5));
        assert_eq!(merged.cut, Some(Cut::Middle(5)));
        let merged = inverted(&stacks, shape, 0.0);
        assert_eq!(lines(&merged), ["e;d;c;b;a 1", "f;e;d;c;b 2", "f;e;z;y;x 4"]);
        assert_eq!((merged.cut_samples, merged.cut), (6, Some(Cut::Outermost(5))));
        // Folded recursion is not deep.
        let recursive = [("m;f;f;f;f;f;f;f;g", 1)];
        assert_eq!(lines(&rooted(&recursive, Shape { collapse: true, ..shape })), ["m;f;g 1"]);
        assert_eq!(rooted(&[("a;b", 1)], shape).cut, None);
    }

    #[test]
    fn a_stack_without_frames_has_a_name() {
        let profile = fixture::profile(&[("a", 1)]);
        let mut profile = profile;
        profile.rows[0].stack = 0;
        let labels = Labels::own(&profile.names, true);
        assert_eq!(lines(&MergedStacks::shaped(&profile, &labels, SHAPE)), ["[no stack] 1"]);
        assert_eq!(lines(&MergedStacks::from_leaves(&profile, &labels, SHAPE, 0.0)), ["[no stack] 1"]);
    }
}
