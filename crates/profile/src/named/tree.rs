//! Merges stacks into trees, from the root down or from the leaves up.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::map::Interned;
use crate::named::{Amount, Profile, ProfileRow, Stack};

/// The root level of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The name of the process.
    Process,
    /// The name of the thread.
    Thread,
    /// The field of the samples; fields must be apart.
    Field,
    /// No root level: the outermost function.
    None,
}

/// Merged stacks. Node 0 is the root of all.
#[derive(Debug, Default)]
pub struct Tree {
    /// The nodes; a parent comes before its children.
    pub nodes: Vec<Node>,
}

/// One function in one context.
#[derive(Debug, Default)]
pub struct Node {
    /// What the node stands for.
    pub label: Label,
    /// What ended here. In a tree of callees the function itself was running; in a tree of callers it was the outermost one.
    pub own: Amount,
    /// What passed through here.
    pub total: Amount,
    /// What of it has this frame by a guess that nothing has proven.
    pub guessed: Amount,
    /// Positions of the children, heaviest first.
    pub children: Vec<u32>,
    /// The node has children beyond the depth limit.
    pub cut: bool,
}

/// What a node of a tree stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Label {
    /// All samples.
    #[default]
    All,
    /// A process or thread, by a position in the names that [`roots`] lists.
    Root(u32),
    /// A position in the names' functions.
    Function(u32),
}

/// The limits of a tree.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Branches below this share of the total are skipped.
    pub min_share: f64,
    /// Nodes this deep have no children; the functions of the first level have depth 1.
    pub max_depth: u32,
}

/// Lists what the stacks of each thread begin with: distinct names, and for each thread a position in them. For [`Root::None`]
/// there are no names.
pub fn roots(profile: &Profile, root: Root) -> (Vec<Box<str>>, Vec<u32>) {
    let mut names: Interned<Box<str>> = Interned::new();
    let of_thread = profile.threads.iter().map(|thread| match root {
        Root::Process => names.intern(thread.process.clone()),
        Root::Thread => names.intern(thread.comm.clone()),
        Root::Field => names.intern(thread.field_name().into()),
        Root::None => 0,
    });
    let of_thread = of_thread.collect();
    (names.into_items(), of_thread)
}

impl Tree {
    /// Merges stacks root first.
    pub fn callees(profile: &Profile, root: Root, limits: Limits) -> Self {
        let (names, of_thread) = roots(profile, root);
        let mut labels: Interned<(u32, Label)> = Interned::new();
        let mut own = Vec::new();
        labels.intern((0, Label::All));
        let mut memo: HashMap<(u32, u32), u32> = HashMap::default();
        let mut path = Vec::new();
        let mut guesses = Guesses::default();
        for row in &profile.rows {
            let root = of_thread[row.thread as usize];
            let mut node = if names.is_empty() { 0 } else { labels.intern((0, Label::Root(root))) };
            let mut next = row.stack;
            while next != 0 {
                if let Some(known) = memo.get(&(root, next)) {
                    node = *known;
                    break;
                }
                path.push(next);
                next = profile.stacks[next as usize].caller;
            }
            while let Some(stack) = path.pop() {
                let function = profile.function_id(profile.stacks[stack as usize]);
                node = labels.intern((node, Label::Function(function)));
                memo.insert((root, stack), node);
            }
            own.resize(labels.len(), Amount::default());
            own[node as usize].add(row.amount());
            if row.taken.guessed {
                guesses.add(profile, row, |stack| memo[&(root, stack)]);
            }
        }
        own.resize(labels.len(), Amount::default());
        let mut tree = Self::assemble(&labels.into_items(), &own);
        for (node, guessed) in guesses.of_nodes {
            tree.nodes[node as usize].guessed = guessed;
        }
        tree.pruned(profile, &names, limits)
    }

    /// Merges stacks leaf first. Branches below the limit are never built.
    pub fn callers(profile: &Profile, limits: Limits) -> Self {
        let whole = profile.whole();
        let mut tree = Self { nodes: vec![Node { total: whole, ..Node::default() }] };
        let at = profile.at_stacks();
        tree.nodes[0].own = at[0];
        let leaves: Vec<(u32, Amount)> = (0u32..).zip(at).filter(|(s, a)| *s != 0 && a.samples > 0).collect();
        let mut work = vec![(0u32, 0u32, leaves)];
        while let Some((parent, depth, stacks)) = work.pop() {
            if depth == limits.max_depth {
                tree.nodes[parent as usize].cut = !stacks.is_empty();
                continue;
            }
            for group in by_function(profile, stacks) {
                if group.total.share_of(whole) < limits.min_share {
                    continue;
                }
                let position = tree.nodes.len() as u32;
                let (label, own, total) = (Label::Function(group.function), group.own, group.total);
                tree.nodes.push(Node { label, own, total, guessed: group.guessed, ..Node::default() });
                tree.nodes[parent as usize].children.push(position);
                work.push((position, depth + 1, group.callers));
            }
        }
        tree.sort(profile, &[]);
        tree
    }

    /// Builds nodes from (parent, label) and the amount that ended at each; adds up totals from the leaves.
    fn assemble(labels: &[(u32, Label)], own: &[Amount]) -> Self {
        let mut nodes: Vec<Node> = labels
            .iter()
            .zip(own)
            .map(|((_, label), own)| Node { label: *label, own: *own, total: *own, ..Node::default() })
            .collect();
        for position in (1..nodes.len()).rev() {
            let parent = labels[position].0 as usize;
            let total = nodes[position].total;
            nodes[parent].total.add(total);
            nodes[parent].children.push(position as u32);
        }
        Self { nodes }
    }

    fn pruned(mut self, profile: &Profile, names: &[Box<str>], limits: Limits) -> Self {
        let whole = self.nodes[0].total;
        let heavy: Vec<bool> =
            self.nodes.iter().map(|node| node.total.share_of(whole) >= limits.min_share).collect();
        // The node of a root name takes no level of its own.
        let mut depth = vec![0u32; self.nodes.len()];
        for position in 0..self.nodes.len() {
            let node = &mut self.nodes[position];
            node.children.retain(|child| heavy[*child as usize]);
            if depth[position] >= limits.max_depth && !node.children.is_empty() {
                node.children.clear();
                node.cut = true;
            }
            for child in self.nodes[position].children.clone() {
                let is_function = matches!(self.nodes[child as usize].label, Label::Function(_));
                depth[child as usize] = depth[position] + u32::from(is_function);
            }
        }
        self.sort(profile, names);
        self
    }

    /// Keeps the heaviest nodes besides that of all, at most so many, and returns how many there were. A node is never kept without
    /// its parent, which is no lighter.
    pub fn keep_heaviest(&mut self, most: usize) -> usize {
        let mut reached = vec![0u32];
        let mut next = 0;
        while let Some(node) = reached.get(next) {
            reached.extend(&self.nodes[*node as usize].children);
            next += 1;
        }
        let mut order = reached.split_off(1);
        if order.len() > most {
            order.sort_by_key(|node| (Reverse(self.nodes[*node as usize].total.weight), *node));
            let dropped: HashSet<u32> = order[most..].iter().copied().collect();
            for node in &mut self.nodes {
                node.children.retain(|child| !dropped.contains(child));
            }
        }
        order.len()
    }

    fn sort(&mut self, profile: &Profile, names: &[Box<str>]) {
        let name = |label: Label| match label {
            Label::All => "",
            Label::Root(root) => &names[root as usize],
            Label::Function(function) => &*profile.names.functions[function as usize].name,
        };
        let keys: Vec<(u64, &str)> =
            self.nodes.iter().map(|node| (u64::MAX - node.total.weight, name(node.label))).collect();
        for node in &mut self.nodes {
            node.children.sort_by_key(|child| (keys[*child as usize], *child));
        }
    }
}

/// What of nodes was found by a guess.
#[derive(Default)]
struct Guesses {
    of_nodes: HashMap<u32, Amount>,
}

impl Guesses {
    /// Adds the guessed frames of a row, given the node of each stack.
    fn add(&mut self, profile: &Profile, row: &ProfileRow, node: impl Fn(u32) -> u32) {
        let mut next = row.stack;
        while next != 0 {
            let Stack { caller, frame } = profile.stacks[next as usize];
            if profile.names.is_guessed(frame) {
                self.of_nodes.entry(node(next)).or_default().add(row.amount());
            }
            next = caller;
        }
    }
}

/// Stacks whose innermost frames belong to one function.
struct Group {
    function: u32,
    total: Amount,
    /// The amount of stacks that have no further frame.
    own: Amount,
    /// The amount of stacks whose innermost frame was found by a guess.
    guessed: Amount,
    /// The stacks of the callers, and how much passed through each.
    callers: Vec<(u32, Amount)>,
}

/// Groups stacks by their innermost function, in the order of the first of each.
fn by_function(profile: &Profile, stacks: Vec<(u32, Amount)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut positions = HashMap::new();
    for (stack, amount) in stacks {
        let stack = profile.stacks[stack as usize];
        let function = profile.function_id(stack);
        let position = *positions.entry(function).or_insert(groups.len());
        if position == groups.len() {
            let (total, own, guessed) = Default::default();
            groups.push(Group { function, total, own, guessed, callers: Vec::new() });
        }
        let group = &mut groups[position];
        group.total.add(amount);
        if profile.names.is_guessed(stack.frame) {
            group.guessed.add(amount);
        }
        match stack.caller {
            0 => group.own.add(amount),
            caller => group.callers.push((caller, amount)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::fixture;

    const ALL: Limits = Limits { min_share: 0.0, max_depth: 100 };

    /// Prints a tree as `name own/total` lines, indented.
    fn print(tree: &Tree, profile: &Profile) -> Vec<String> {
        let mut lines = Vec::new();
        let mut work = vec![(0u32, 0)];
        while let Some((position, depth)) = work.pop() {
            let node = &tree.nodes[position as usize];
            let name = match node.label {
                Label::All => "all",
                Label::Root(_) => "root",
                Label::Function(function) => &profile.names.functions[function as usize].name,
            };
            let cut = if node.cut { " …" } else { "" };
            let (own, total) = (node.own.samples, node.total.samples);
            lines.push(format!("{}{name} {own}/{total}{cut}", " ".repeat(depth)));
            work.extend(node.children.iter().rev().map(|child| (*child, depth + 1)));
        }
        lines
    }

    #[test]
    fn callees_share_their_callers() {
        let profile = fixture::profile(&[("main;a;b", 1), ("main;c", 5), ("main;a", 2)]);
        let tree = Tree::callees(&profile, Root::None, ALL);
        assert_eq!(print(&tree, &profile), ["all 0/8", " main 0/8", "  c 5/5", "  a 2/3", "   b 1/1"]);
        let tree = Tree::callees(&profile, Root::Process, ALL);
        assert_eq!(print(&tree, &profile)[..3], ["all 0/8", " root 0/8", "  main 0/8"]);
    }

    #[test]
    fn the_heaviest_nodes_are_kept_with_their_parents() {
        let profile = fixture::profile(&[("main;a;b", 3), ("main;c", 5), ("main;a", 2), ("x", 1)]);
        let kept = |most| {
            let mut tree = Tree::callees(&profile, Root::None, ALL);
            let all = tree.keep_heaviest(most);
            (all, print(&tree, &profile))
        };
        let [all, main, a, b, c, x] =
            ["all 0/11", " main 0/10", "  a 2/5", "   b 3/3", "  c 5/5", " x 1/1"].map(str::to_owned);
        assert_eq!(kept(5), (5, vec![all.clone(), main.clone(), a.clone(), b.clone(), c.clone(), x]));
        assert_eq!(kept(4), (5, vec![all.clone(), main.clone(), a.clone(), b, c.clone()]));
        assert_eq!(kept(3), (5, vec![all.clone(), main.clone(), a, c]));
        assert_eq!(kept(1), (5, vec![all.clone(), main]));
        assert_eq!(kept(0), (5, vec![all]));
    }

    #[test]
    fn nodes_say_how_much_of_them_was_guessed() {
        let mut profile = fixture::profile(&[("main;a;x", 1), ("main;b;x", 2), ("main;a", 4)]);
        // `a` again, as a guess, below another `main`.
        let a =
            profile.names.functions.iter().position(|function| &*function.name == "a").expect("it is there");
        let guess = profile.names.add_guessed(profile.names.frames[a]);
        let guessed = profile.rows[0].stack;
        let caller = profile.stacks[guessed as usize].caller;
        let position = profile.stacks.len() as u32;
        profile.stacks.push(Stack { caller: profile.stacks[caller as usize].caller, frame: guess });
        profile.stacks.push(Stack { caller: position, frame: profile.stacks[guessed as usize].frame });
        (profile.rows[0].stack, profile.rows[0].taken.guessed) = (position + 1, true);
        for tree in [Tree::callees(&profile, Root::Process, ALL), Tree::callers(&profile, ALL)] {
            let of = |node: &&Node| node.label == Label::Function(a as u32);
            let guesses = tree.nodes.iter().filter(of).map(|node| node.guessed.samples);
            assert_eq!(guesses.sum::<u64>(), 1);
            assert!(tree.nodes.iter().filter(|node| !of(node)).all(|node| node.guessed.samples == 0));
        }
    }

    #[test]
    fn callers_begin_at_the_leaves() {
        let profile = fixture::profile(&[("main;a;x", 1), ("main;b;x", 2), ("main;b", 4)]);
        let tree = Tree::callers(&profile, ALL);
        let expected =
            ["all 0/7", " b 0/4", "  main 4/4", " x 0/3", "  b 0/2", "   main 2/2", "  a 0/1", "   main 1/1"];
        assert_eq!(print(&tree, &profile), expected);
    }

    #[test]
    fn light_branches_are_left_out_of_both() {
        let profile = fixture::profile(&[("main;a", 1), ("main;b", 99)]);
        let limits = Limits { min_share: 0.02, ..ALL };
        assert_eq!(
            print(&Tree::callees(&profile, Root::None, limits), &profile),
            ["all 0/100", " main 0/100", "  b 99/99"]
        );
        assert_eq!(
            print(&Tree::callers(&profile, limits), &profile),
            ["all 0/100", " b 0/99", "  main 99/99"]
        );
    }

    #[test]
    fn deep_branches_are_cut_and_say_so() {
        let profile = fixture::profile(&[("a;b;c;d", 1)]);
        let limits = Limits { max_depth: 2, ..ALL };
        assert_eq!(
            print(&Tree::callees(&profile, Root::None, limits), &profile),
            ["all 0/1", " a 0/1", "  b 0/1 …"]
        );
        assert_eq!(print(&Tree::callers(&profile, limits), &profile), ["all 0/1", " d 0/1", "  c 0/1 …"]);
    }

    #[test]
    fn ties_are_ordered_by_name() {
        let profile = fixture::profile(&[("b", 1), ("a", 1)]);
        assert_eq!(
            print(&Tree::callees(&profile, Root::None, ALL), &profile),
            ["all 0/2", " a 1/1", " b 1/1"]
        );
    }
}
