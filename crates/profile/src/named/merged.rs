//! Holds the stacks of a profile as a trie of labels: frames with one label are one node, and no line is built before it is
//! needed. Folded lines and flame graphs are made of it.

mod shape;

use std::io::{self, Write};

use crate::map::{Interned, Map};
use crate::named::Amount;
use crate::named::names::{Frame, Names, Side};
use icecore_text::shorten::{MAX_LINE_BYTES, line};

pub use shape::{Cut, Shape};

/// The labels of frames in folded lines.
#[derive(Debug)]
pub struct Labels {
    texts: Vec<String>,
    /// The text of each frame.
    of_frame: Vec<u32>,
}

impl Labels {
    /// Labels frames by the names of their functions; with `annotate` it marks those of the kernel, inlined ones and guessed ones.
    pub fn new<'n>(names: &'n Names, annotate: bool, called: impl Fn(u32) -> &'n str) -> Self {
        let mut texts = Vec::new();
        let mut known: Map<(u32, &str), u32> = Map::default();
        let label = |(number, frame): (u32, &Frame)| {
            let function = &names.functions[frame.function as usize];
            let annotation = match (annotate, function.side, frame.inlined) {
                (true, Side::Kernel, _) => "_[k]",
                (true, _, true) => "_[i]",
                (true, ..) if names.is_guessed(number) => "_[?]",
                _ => "",
            };
            *known.entry((frame.function, annotation)).or_insert_with(|| {
                texts.push(format!("{}{annotation}", called(frame.function).replace(';', ":")));
                (texts.len() - 1) as u32
            })
        };
        let of_frame = (0..).zip(&names.frames).map(label).collect();
        Self { texts, of_frame }
    }

    /// Labels frames by their own names.
    pub fn own(names: &Names, annotate: bool) -> Self {
        Self::new(names, annotate, |function| &names.functions[function as usize].name)
    }

    /// Returns the distinct labels.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns the position of a frame's label.
    pub(super) fn text_of(&self, frame: u32) -> usize {
        self.of_frame[frame as usize] as usize
    }

    /// Returns the label of a frame.
    pub fn of(&self, frame: u32) -> &str {
        &self.texts[self.of_frame[frame as usize] as usize]
    }
}

/// Stacks merged by the labels of their frames, root first. Node 0 is above all outermost frames.
#[derive(Debug)]
pub struct MergedStacks {
    /// Distinct labels, in their order.
    texts: Vec<String>,
    /// Parent and label of each node; a parent comes before its children.
    nodes: Vec<(u32, u32)>,
    /// The samples that hit exactly there.
    pub own: Vec<Amount>,
    /// All nodes except the first: a stack before those that continue it, and these by their labels.
    order: Vec<u32>,
    /// Samples whose stacks have too many frames.
    pub cut_samples: u64,
    /// The frames of these that are left out.
    pub cut: Option<Cut>,
    /// Frames that were left out because they are too narrow, without those above them.
    pub narrow_frames: u64,
}

/// The bytes that are written at once.
const FLUSHED_BYTES: usize = 64 << 10;
/// Stands for outermost frames that are too narrow to be drawn.
const TOO_NARROW: &str = "[too narrow to be drawn]";

impl MergedStacks {
    /// Makes the trie of its nodes, which may be the cut ones of so many samples.
    pub(super) fn of(
        texts: Vec<String>,
        nodes: Vec<(u32, u32)>,
        own: Vec<Amount>,
        (cut_samples, cut): (u64, Option<Cut>),
    ) -> Self {
        let order = ordered(&nodes);
        Self { texts, nodes, own, order, cut_samples, cut, narrow_frames: 0 }
    }

    /// Notes how many frames were left out because they are too narrow.
    pub(super) fn without_narrow(self, narrow_frames: u64) -> Self {
        Self { narrow_frames, ..self }
    }

    /// Returns the number of frames of the deepest stack.
    pub fn depth(&self) -> u32 {
        let mut depths = vec![0; self.nodes.len()];
        for (node, (parent, _)) in self.nodes.iter().enumerate().skip(1) {
            depths[node] = depths[*parent as usize] + 1;
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> usize {
        self.own.iter().filter(|own| own.samples > 0).count()
    }

    /// Hands over each distinct stack that was hit, root first, until the receiver refuses one. A stack comes before those that
    /// continue it.
    pub fn each<E>(&self, mut hand: impl FnMut(&[&str], Amount) -> Result<(), E>) -> Result<(), E> {
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

    /// Writes folded lines: frames, root first, and a number.
    ///
    /// # Errors
    /// As the stream.
    pub fn write(&self, number: impl Fn(Amount) -> u64, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        self.each(|frames, amount| {
            line(frames, &mut text);
            text.push_str(&format!(" {}\n", number(amount)));
            if text.len() >= FLUSHED_BYTES {
                out.write_all(text.as_bytes())?;
                text.clear();
            }
            Ok::<(), io::Error>(())
        })?;
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Counts the lines that are too long to be written whole.
    pub fn too_long(&self) -> u64 {
        let mut bytes = vec![0_usize; self.nodes.len()];
        let mut too_long = 0;
        for (node, (parent, label)) in self.nodes.iter().enumerate().skip(1) {
            bytes[node] = bytes[*parent as usize] + self.texts[*label as usize].len() + 1;
            too_long += u64::from(bytes[node] > MAX_LINE_BYTES && self.own[node].samples > 0);
        }
        too_long
    }

    /// Adds up the samples of each node and of all nodes below it.
    pub fn totals(&self) -> Vec<Amount> {
        let mut totals = self.own.clone();
        for node in (1..totals.len()).rev() {
            let total = totals[node];
            totals[self.nodes[node].0 as usize].add(total);
        }
        totals
    }

    /// Returns only the nodes for which `is_kept` holds, which gets their position and their depth from 1 on. A node that is not
    /// kept, and everything below it, counts for the nearest kept node. `called` shortens labels.
    pub fn kept(&self, is_kept: impl Fn(usize, usize) -> bool, called: impl Fn(&str) -> String) -> Self {
        let mut texts: Vec<String> = self.texts.iter().map(|text| called(text)).collect();
        let mut nodes: Interned<(u32, u32)> = Interned::new();
        nodes.intern(self.nodes[0]);
        // The node that stands for each node, and the depth of the kept ones.
        let (mut of, mut depths) = (vec![0_u32; self.nodes.len()], vec![Some(0_usize); self.nodes.len()]);
        let mut own = vec![self.own[0]];
        let mut narrow_frames = self.narrow_frames;
        for (node, (parent, label)) in self.nodes.iter().enumerate().skip(1) {
            let parent = *parent as usize;
            depths[node] = depths[parent].map(|depth| depth + 1).filter(|depth| is_kept(node, *depth));
            of[node] = match depths[node] {
                Some(_) => nodes.intern((of[parent], *label)),
                None => of[parent],
            };
            own.resize(nodes.len(), Amount::default());
            own[of[node] as usize].add(self.own[node]);
            narrow_frames += u64::from(depths[parent].is_some() && depths[node].is_none());
        }
        if own[0].samples > 0 {
            texts.push(TOO_NARROW.to_owned());
            nodes.intern((0, (texts.len() - 1) as u32));
            let narrow = std::mem::take(&mut own[0]);
            own.push(narrow);
        }
        let cut = (self.cut_samples, self.cut);
        Self::of(texts, nodes.into_items(), own, cut).without_narrow(narrow_frames)
    }

    /// Counts the bytes of all lines, if they were whole.
    pub fn line_bytes(&self) -> u64 {
        let mut bytes = vec![0_u64; self.nodes.len()];
        let mut all = 0_u64;
        for (node, (parent, label)) in self.nodes.iter().enumerate().skip(1) {
            bytes[node] = bytes[*parent as usize] + self.texts[*label as usize].len() as u64 + 1;
            all += if self.own[node].samples > 0 { bytes[node] } else { 0 };
        }
        all
    }
}

/// Orders nodes for reading: a parent before its children, and these by their labels.
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
