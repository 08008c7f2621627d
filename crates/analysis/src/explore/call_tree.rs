//! Trees of callees and callers of which only opened nodes have children, so that a tree of millions of stacks costs what is seen
//! of it.

use super::Explorer;
use super::found::Found;
use super::selected::Selected;
use icecore_profile::map::Map;
use icecore_profile::named::Amount;

/// Which way a tree grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// A function's children are what it called.
    Callees,
    /// A function's children are who called it.
    Callers,
}

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// The root: everything in the tree.
    Root,
    /// A function, a position in the names' functions.
    Function(u32),
    /// The child of a function that nobody called: the stack begins there.
    Outermost,
    /// Samples without any shown frame.
    NoFrames,
}

/// A tree; node 0 is its root.
#[derive(Debug)]
pub struct CallTree {
    /// Which way it grows.
    pub direction: Direction,
    /// The nodes; a parent comes before its children.
    pub nodes: Vec<Node>,
}

/// One function in one context.
#[derive(Debug)]
pub struct Node {
    /// What the node stands for.
    pub label: Label,
    /// The position of the parent; the root is its own.
    pub parent: u32,
    /// What ended here: in a tree of callees the function itself was running, in a tree of callers it was the outermost one.
    pub own: Amount,
    /// What passed through here.
    pub total: Amount,
    /// Some of it has this frame by a guess that nothing has proven.
    pub is_guessed: bool,
    /// Positions of the children, heaviest first; empty until the node is opened for the first time.
    pub children: Vec<u32>,
    /// The children are shown.
    pub is_open: bool,
    /// There are children.
    pub has_children: bool,
    /// The stacks that the node stands for, and how much passes through each.
    seeds: Vec<(u32, Amount)>,
}

/// Nodes with at least this share of a tree are open at first.
const OPEN_SHARE: f64 = 0.1;

/// What trees are made of.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The profile.
    pub explorer: &'a Explorer<'a>,
    /// What is selected of it.
    pub selected: &'a Selected,
}

impl CallTree {
    /// Begins the tree of all stacks, root first.
    pub fn all(ground: Ground<'_>) -> Self {
        Self::begin(ground, Direction::Callees, vec![(0, ground.selected.through[0])])
    }

    /// Begins the tree of what a function calls, or of who calls it. Of a recursion the outermost call counts, so that the root is
    /// the total of the function.
    pub fn of(ground: Ground<'_>, function: u32, direction: Direction) -> Self {
        Self::begin(ground, direction, calls(ground, function))
    }

    fn begin(ground: Ground<'_>, direction: Direction, seeds: Vec<(u32, Amount)>) -> Self {
        let mut tree = Self::closed(ground, direction, seeds);
        tree.open_heavy(ground);
        tree
    }

    fn closed(ground: Ground<'_>, direction: Direction, seeds: Vec<(u32, Amount)>) -> Self {
        let root = Node::new(ground, direction, Label::Root, 0, seeds);
        Self { direction, nodes: vec![Node { has_children: true, ..root }] }
    }

    /// Opens all nodes that are heavy.
    fn open_heavy(&mut self, ground: Ground<'_>) {
        let whole = self.nodes[0].total;
        let mut work = vec![0];
        while let Some(node) = work.pop() {
            self.open(ground, node);
            let children = self.nodes[node as usize].children.iter();
            let is_heavy = |child: &&u32| self.nodes[**child as usize].total.share_of(whole) >= OPEN_SHARE;
            work.extend(children.filter(is_heavy));
        }
    }

    /// Shows the children of a node.
    ///
    /// # Cost
    /// O(n log n) for n stacks of the node and of its children
    pub fn open(&mut self, ground: Ground<'_>, position: u32) {
        let node = &mut self.nodes[position as usize];
        node.is_open = node.has_children;
        if !node.children.is_empty() || !node.has_children {
            return;
        }
        let (groups, loose) = match self.direction {
            Direction::Callees => {
                // The empty stack is the root of all.
                let is_all = node.seeds.first().is_some_and(|(stack, _)| *stack == 0);
                let frameless = if is_all { node.own } else { Amount::default() };
                (callees(ground, &node.seeds), (Label::NoFrames, frameless))
            }
            Direction::Callers => (callers(ground, &node.seeds), (Label::Outermost, node.own)),
        };
        let first = self.nodes.len() as u32;
        let nodes = groups.into_iter().map(|(function, seeds)| {
            Node::new(ground, self.direction, Label::Function(function), position, seeds)
        });
        let nodes: Vec<Node> =
            nodes.chain((loose.1.samples > 0).then(|| Node::leaf(loose, position))).collect();
        self.nodes.extend(nodes);
        let mut children: Vec<u32> = (first..self.nodes.len() as u32).collect();
        let name = |label: Label| match label {
            Label::Function(function) => (ground.explorer.name(function), function),
            _ => ("", 0),
        };
        children.sort_by(|a, b| {
            let [a, b] = [a, b].map(|child| &self.nodes[*child as usize]);
            b.total.weight.cmp(&a.total.weight).then_with(|| name(a.label).cmp(&name(b.label)))
        });
        let node = &mut self.nodes[position as usize];
        (node.is_open, node.has_children) = (!children.is_empty(), !children.is_empty());
        node.children = children;
    }

    /// Hides the children of a node.
    pub fn close(&mut self, position: u32) {
        self.nodes[position as usize].is_open = false;
    }

    /// Opens a node, its heaviest child, the heaviest child of that, and so on; returns the last.
    pub fn open_heaviest(&mut self, ground: Ground<'_>, mut position: u32) -> u32 {
        loop {
            self.open(ground, position);
            match self.nodes[position as usize].children.first() {
                Some(child) => position = *child,
                None => return position,
            }
        }
    }

    /// Lists the nodes that are shown, from top to bottom, without the root.
    pub fn visible(&self) -> Vec<u32> {
        let mut visible = Vec::new();
        let mut work = vec![0u32];
        while let Some(position) = work.pop() {
            if position != 0 {
                visible.push(position);
            }
            let node = &self.nodes[position as usize];
            if node.is_open {
                work.extend(node.children.iter().rev());
            }
        }
        visible
    }

    /// Grows the same tree of another selection. What was open is open; also returns the place of the `marked` node, or of the
    /// nearest one above it that is left.
    #[must_use]
    pub fn again(&self, ground: Ground<'_>, function: Option<u32>, marked: u32) -> (Self, u32) {
        let seeds = match function {
            Some(function) => calls(ground, function),
            None => vec![(0, ground.selected.through[0])],
        };
        let mut tree = Self::closed(ground, self.direction, seeds);
        let mut new_of: Map<u32, u32> = Map::from_iter([(0, 0)]);
        for (position, node) in (0..).zip(&self.nodes) {
            let Some(new) = new_of.get(&position).copied().filter(|_| node.is_open) else { continue };
            tree.open(ground, new);
            let places: Map<Label, u32> = tree.nodes[new as usize]
                .children
                .iter()
                .map(|child| (tree.nodes[*child as usize].label, *child))
                .collect();
            let label = |child: &u32| self.nodes[*child as usize].label;
            new_of
                .extend(node.children.iter().filter_map(|child| Some((*child, *places.get(&label(child))?))));
        }
        let mut marked = marked;
        while !new_of.contains_key(&marked) {
            marked = self.nodes[marked as usize].parent;
        }
        // Another process may have nothing of what was open.
        let root = &tree.nodes[0];
        if !root.children.iter().any(|child| tree.nodes[*child as usize].is_open) {
            tree.open_heavy(ground);
        }
        (tree, new_of.get(&marked).copied().unwrap_or_default())
    }

    /// Opens closed nodes that lead to a match, so that it can be seen; at most so many that a person can look through them. Returns
    /// true if all matches can be seen.
    pub fn open_to(&mut self, ground: Ground<'_>, found: &Found) -> bool {
        let mut work = self.visible();
        work.push(0);
        while let Some(position) = work.pop() {
            let node = &self.nodes[position as usize];
            if node.is_open || !node.has_children || !node.leads_to(found, self.direction) {
                continue;
            }
            if self.nodes.len() > MOST_OPENED {
                return false;
            }
            self.open(ground, position);
            work.extend(&self.nodes[position as usize].children);
        }
        true
    }
}

/// A search opens no more nodes than these: what a person can look through.
const MOST_OPENED: usize = 100_000;

impl Node {
    fn new(
        ground: Ground<'_>,
        direction: Direction,
        label: Label,
        parent: u32,
        seeds: Vec<(u32, Amount)>,
    ) -> Self {
        let Ground { explorer, selected } = ground;
        let (mut own, mut total) = (Amount::default(), Amount::default());
        for (stack, amount) in &seeds {
            total.add(*amount);
            match direction {
                Direction::Callees => own.add(selected.at[*stack as usize]),
                Direction::Callers if caller(explorer, selected, *stack) == 0 => own.add(*amount),
                Direction::Callers => {}
            }
        }
        let has_children = own.samples < total.samples;
        let is_guessed = seeds.iter().any(|(stack, _)| explorer.trie.guessed[*stack as usize]);
        Self {
            label,
            parent,
            own,
            total,
            is_guessed,
            children: Vec::new(),
            is_open: false,
            has_children,
            seeds,
        }
    }

    /// Makes a node that stands for no stack.
    fn leaf((label, total): (Label, Amount), parent: u32) -> Self {
        let (own, children, seeds) = (total, Vec::new(), Vec::new());
        let (is_guessed, is_open, has_children) = (false, false, false);
        Self { label, parent, own, total, is_guessed, children, is_open, has_children, seeds }
    }

    /// Returns true if the function of the node matches.
    pub fn is_hit(&self, found: &Found) -> bool {
        matches!(self.label, Label::Function(function) if found.matching.is_in[function as usize])
    }

    /// Returns true if a function below the node matches.
    fn leads_to(&self, found: &Found, direction: Direction) -> bool {
        let is_near = match direction {
            Direction::Callees => &found.leads,
            Direction::Callers => &found.called,
        };
        self.seeds.iter().any(|(stack, _)| is_near[*stack as usize])
    }
}

/// Returns the shown caller of a stack; 0 if there is none.
fn caller(explorer: &Explorer<'_>, selected: &Selected, stack: u32) -> u32 {
    selected.shape.shown[explorer.trie.caller[stack as usize] as usize]
}

/// Lists the outermost calls of a function, and how much passes through each.
fn calls(ground: Ground<'_>, function: u32) -> Vec<(u32, Amount)> {
    let Ground { explorer, selected } = ground;
    let calls = (1u32..).zip(&selected.through[1..]).filter(|(stack, through)| {
        let position = *stack as usize;
        through.samples > 0
            && explorer.trie.function[position] == function
            && selected.shape.is_first_of_function[position]
    });
    calls.map(|(stack, through)| (stack, *through)).collect()
}

/// Groups what stacks called by function.
fn callees(ground: Ground<'_>, seeds: &[(u32, Amount)]) -> Map<u32, Vec<(u32, Amount)>> {
    let Ground { explorer: Explorer { trie, .. }, selected: Selected { shape, through, .. } } = ground;
    let mut groups: Map<u32, Vec<(u32, Amount)>> = Map::default();
    for child in seeds.iter().flat_map(|(stack, _)| shape.children(trie, *stack)) {
        let amount = through[child as usize];
        if amount.samples > 0 {
            groups.entry(trie.function[child as usize]).or_default().push((child, amount));
        }
    }
    groups
}

/// Groups the callers of stacks by function. Stacks with one caller become one.
fn callers(ground: Ground<'_>, seeds: &[(u32, Amount)]) -> Map<u32, Vec<(u32, Amount)>> {
    let Ground { explorer, selected } = ground;
    let called = seeds.iter().map(|(stack, amount)| (caller(explorer, selected, *stack), *amount));
    let mut called: Vec<(u32, Amount)> = called.filter(|(caller, _)| *caller != 0).collect();
    called.sort_unstable_by_key(|(caller, _)| *caller);
    let mut groups: Map<u32, Vec<(u32, Amount)>> = Map::default();
    for (caller, amount) in called {
        let group = groups.entry(explorer.trie.function[caller as usize]).or_default();
        match group.last_mut() {
            Some((last, sum)) if *last == caller => sum.add(amount),
            _ => group.push((caller, amount)),
        }
    }
    groups
}
