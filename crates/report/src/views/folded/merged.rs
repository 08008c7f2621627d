//! The stacks of a profile as a trie of labels: what is called alike is one, and no line is built before it is needed.

use crate::base::map::{Interned, Map};
use crate::base::shorten::MAX_LINE_BYTES;
use crate::profile::names::{Frame, Names, Side};
use crate::profile::tree::Root;
use crate::profile::tree::roots;
use crate::profile::{Amount, Profile};

/// What frames are called in a folded line.
#[derive(Debug)]
pub(crate) struct Labels {
    texts: Vec<String>,
    /// The text of each frame.
    of_frame: Vec<u32>,
}

impl Labels {
    /// Labels frames by what their functions are called; `annotate` marks those of the kernel and inlined ones.
    pub(crate) fn new<'n>(names: &'n Names, annotate: bool, called: impl Fn(u32) -> &'n str) -> Self {
        let mut texts = Vec::new();
        let mut known: Map<(u32, &str), u32> = Map::default();
        let label = |frame: &Frame| {
            let function = &names.functions[frame.function as usize];
            let annotation = match (annotate, function.side, frame.inlined) {
                (true, Side::Kernel, _) => "_[k]",
                (true, _, true) => "_[i]",
                _ => "",
            };
            *known.entry((frame.function, annotation)).or_insert_with(|| {
                texts.push(format!("{}{annotation}", called(frame.function).replace(';', ":")));
                (texts.len() - 1) as u32
            })
        };
        let of_frame = names.frames.iter().map(label).collect();
        Self { texts, of_frame }
    }

    /// What each frame of the names is called in a folded line.
    pub(crate) fn own(names: &Names, annotate: bool) -> Self {
        Self::new(names, annotate, |function| &names.functions[function as usize].name)
    }

    /// The label of a frame.
    pub(crate) fn of(&self, frame: u32) -> &str {
        &self.texts[self.of_frame[frame as usize] as usize]
    }
}

/// Stacks merged by what their frames are called, root first. Node 0 is above all outermost frames.
#[derive(Debug)]
pub(crate) struct Merged {
    /// Distinct labels, in their order.
    texts: Vec<String>,
    /// Parent and label of each node; a parent comes before its children.
    nodes: Vec<(u32, u32)>,
    /// What hit exactly there.
    pub(crate) own: Vec<Amount>,
    /// All nodes but the first: a stack in front of those that go on from it, these by their labels.
    order: Vec<u32>,
}

/// What stands for a stack without frames.
const NO_STACK: &str = "[no stack]";
/// What stands for outermost frames that are too narrow to be drawn.
const TOO_NARROW: &str = "[too narrow to be drawn]";

impl Merged {
    /// Merges the stacks of a profile, below the names that `root` asks for.
    pub(crate) fn new(profile: &Profile, root: Root, labels: &Labels) -> Self {
        let (names, of_thread) = roots(profile, root);
        let names: Vec<String> = names.iter().map(|name| name.replace(';', ":")).collect();
        let mut texts: Vec<String> = labels.texts.iter().chain(&names).cloned().collect();
        texts.push(NO_STACK.to_owned());
        texts.sort_unstable();
        texts.dedup();
        let rank = |text: &str| texts.binary_search_by(|known| (**known).cmp(text)).unwrap_or(0) as u32;
        let rank_of: Vec<u32> = labels.texts.iter().map(|text| rank(text)).collect();
        let roots: Vec<u32> = names.iter().map(|name| rank(name)).collect();
        let no_stack = rank(NO_STACK);
        let mut nodes: Interned<(u32, u32)> = Interned::new();
        nodes.intern((0, u32::MAX));
        let mut known: Map<(u32, u32), u32> = Map::default();
        let mut own: Vec<Amount> = Vec::new();
        let mut path = Vec::new();
        for row in &profile.rows {
            let root = of_thread[row.thread as usize];
            let mut node = roots.get(root as usize).map_or(0, |rank| nodes.intern((0, *rank)));
            let mut next = row.stack;
            while next != 0 {
                if let Some(found) = known.get(&(root, next)) {
                    node = *found;
                    break;
                }
                path.push(next);
                next = profile.stacks[next as usize].caller;
            }
            while let Some(stack) = path.pop() {
                let frame = profile.stacks[stack as usize].frame;
                node = nodes.intern((node, rank_of[labels.of_frame[frame as usize] as usize]));
                known.insert((root, stack), node);
            }
            if node == 0 {
                node = nodes.intern((0, no_stack));
            }
            own.resize(nodes.len(), Amount::default());
            own[node as usize].add(row.amount());
        }
        own.resize(nodes.len(), Amount::default());
        let nodes = nodes.into_items();
        let order = ordered(&nodes);
        Self { texts, nodes, own, order }
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> usize {
        self.own.iter().filter(|own| own.samples > 0).count()
    }

    /// Hands on each distinct stack that was hit, root first, until one is refused: a stack in front of those that go on from it.
    pub(crate) fn each<E>(&self, mut hand: impl FnMut(&[&str], Amount) -> Result<(), E>) -> Result<(), E> {
        let mut path: Vec<&str> = Vec::new();
        let mut nodes: Vec<u32> = vec![0];
        for node in &self.order {
            let (parent, label) = self.nodes[*node as usize];
            while nodes.last().is_some_and(|last| *last != parent) {
                nodes.pop();
                path.pop();
            }
            nodes.push(*node);
            path.push(&self.texts[label as usize]);
            let own = self.own[*node as usize];
            if own.samples > 0 {
                hand(&path, own)?;
            }
        }
        Ok(())
    }

    /// How many lines are too long to be written whole.
    pub(crate) fn too_long(&self) -> u64 {
        let mut bytes = vec![0_usize; self.nodes.len()];
        let mut too_long = 0;
        for (node, (parent, label)) in self.nodes.iter().enumerate().skip(1) {
            bytes[node] = bytes[*parent as usize] + self.texts[*label as usize].len() + 1;
            too_long += u64::from(bytes[node] > MAX_LINE_BYTES && self.own[node].samples > 0);
        }
        too_long
    }

    /// Counts what went through each node.
    pub(crate) fn totals(&self) -> Vec<Amount> {
        let mut totals = self.own.clone();
        for node in (1..totals.len()).rev() {
            let total = totals[node];
            totals[self.nodes[node].0 as usize].add(total);
        }
        totals
    }

    /// Cuts what a picture cannot show: a node for which `is_kept` does not hold, told its position and its depth from 1 on, counts
    /// for the nearest one that is kept, and so does all below it. `called` shortens labels.
    pub(crate) fn kept(
        &self,
        is_kept: impl Fn(usize, usize) -> bool,
        called: impl Fn(&str) -> String,
    ) -> Self {
        let mut texts: Vec<String> = self.texts.iter().map(|text| called(text)).collect();
        let mut nodes: Interned<(u32, u32)> = Interned::new();
        nodes.intern(self.nodes[0]);
        // The node that stands for each, and the depth of those that are kept.
        let (mut of, mut depths) = (vec![0_u32; self.nodes.len()], vec![Some(0_usize); self.nodes.len()]);
        let mut own = vec![self.own[0]];
        for (node, (parent, label)) in self.nodes.iter().enumerate().skip(1) {
            let parent = *parent as usize;
            depths[node] = depths[parent].map(|depth| depth + 1).filter(|depth| is_kept(node, *depth));
            of[node] = match depths[node] {
                Some(_) => nodes.intern((of[parent], *label)),
                None => of[parent],
            };
            own.resize(nodes.len(), Amount::default());
            own[of[node] as usize].add(self.own[node]);
        }
        if own[0].samples > 0 {
            texts.push(TOO_NARROW.to_owned());
            nodes.intern((0, (texts.len() - 1) as u32));
            let narrow = std::mem::take(&mut own[0]);
            own.push(narrow);
        }
        let nodes = nodes.into_items();
        let order = ordered(&nodes);
        Self { texts, nodes, own, order }
    }

    /// How many bytes all lines have together, were they whole.
    pub(crate) fn line_bytes(&self) -> u64 {
        let mut bytes = vec![0_u64; self.nodes.len()];
        let mut all = 0_u64;
        for (node, (parent, label)) in self.nodes.iter().enumerate().skip(1) {
            bytes[node] = bytes[*parent as usize] + self.texts[*label as usize].len() as u64 + 1;
            all += if self.own[node].samples > 0 { bytes[node] } else { 0 };
        }
        all
    }
}

/// Orders nodes as they are read: a parent in front of its children, these by their labels.
fn ordered(nodes: &[(u32, u32)]) -> Vec<u32> {
    let mut by_parent: Vec<u32> = (1..nodes.len() as u32).collect();
    by_parent.sort_unstable_by_key(|node| nodes[*node as usize]);
    let children = |parent: u32| {
        let begin = by_parent.partition_point(|node| nodes[*node as usize].0 < parent);
        let len = by_parent[begin..].partition_point(|node| nodes[*node as usize].0 == parent);
        &by_parent[begin..begin + len]
    };
    let mut order = Vec::with_capacity(by_parent.len());
    let mut work: Vec<u32> = children(0).iter().rev().copied().collect();
    while let Some(node) = work.pop() {
        order.push(node);
        work.extend(children(node).iter().rev());
    }
    order
}
