//! The methods at the addresses of a compiled method that were hit, with their lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::methods::{Method, Methods};
use super::scopes::{Scopes, Stretch};
use super::structs::Reader;
use icecore_jit::{Inlined, Line};

/// The most scopes and frames of a process that are held, and the most bytes of their texts.
const MAX_HELD: usize = 1 << 20;
const MAX_TEXT_BYTES: usize = 16 << 20;
/// How long a method is taken to be where it was read, ns.
const SURE_NS: u64 = 100_000_000;

/// The methods of a process that were read shortly before, and what all its pieces hold.
#[derive(Debug, Default)]
pub(super) struct Known {
    methods: FxHashMap<u64, Option<Arc<Method>>>,
    since_ns: u64,
    texts: FxHashSet<Arc<[u8]>>,
    text_bytes: usize,
    held: usize,
}

/// What is known at the addresses of a compiled method.
#[derive(Debug, Default)]
pub(super) struct Lines {
    scopes: Scopes,
    /// By the offsets where they begin, innermost first; empty if nothing is known.
    frames: BTreeMap<u64, Vec<Frame>>,
}

/// A method, and where in it the code is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    name: Arc<[u8]>,
    file: Arc<[u8]>,
    line: u32,
}

/// What was read of a piece, and counts if the piece is still there after that.
#[derive(Debug, Default)]
pub(super) struct Fresh(BTreeMap<u64, Vec<Frame>>);

impl Fresh {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Known {
    /// Returns true if further things may be held.
    fn holds(&mut self, more: usize) -> bool {
        let held = self.held.saturating_add(more);
        let has_room = held <= MAX_HELD;
        self.held = if has_room { held } else { self.held };
        has_room
    }

    /// Returns the one copy of a text; `None` if there is too much text.
    fn text(&mut self, text: &Arc<[u8]>) -> Option<Arc<[u8]>> {
        if let Some(known) = self.texts.get(text) {
            return Some(Arc::clone(known));
        }
        self.text_bytes = self.text_bytes.checked_add(text.len()).filter(|bytes| *bytes <= MAX_TEXT_BYTES)?;
        self.texts.insert(Arc::clone(text));
        Some(Arc::clone(text))
    }

    fn method(&mut self, memory: Reader<'_>, of: &Methods, at: u64) -> Option<Arc<Method>> {
        self.methods.entry(at).or_insert_with(|| of.read(memory, at).map(Arc::new)).clone()
    }

    /// Forgets methods that were read too long ago.
    pub(super) fn begin(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.since_ns) > SURE_NS {
            (self.methods, self.since_ns) = (FxHashMap::default(), now_ns);
        }
    }
}

impl Lines {
    /// Takes the debug information of a method, if there is room for it.
    pub(super) fn new(scopes: Option<Scopes>, known: &mut Known) -> Self {
        let scopes = scopes.filter(|scopes| known.holds(scopes.len())).unwrap_or_default();
        Self { scopes, frames: BTreeMap::new() }
    }

    /// Reads what is known at an offset of the compiled method at `method`, if there is room for it.
    pub(super) fn read(
        &self,
        memory: Reader<'_>,
        of: &Methods,
        known: &mut Known,
        (method, off): (u64, u64),
        fresh: &mut Fresh,
    ) {
        for stretch in self.scopes.at(off).into_iter().flatten() {
            let is_new = !self.frames.contains_key(&stretch.off) && !fresh.0.contains_key(&stretch.off);
            if is_new && known.holds(1 + stretch.places.len()) {
                let frames = frames(memory, of, known, method, &stretch);
                fresh.0.insert(stretch.off, frames.unwrap_or_default());
            }
        }
    }

    pub(super) fn take(&mut self, fresh: Fresh) {
        self.frames.extend(fresh.0);
    }

    /// Lists the lines.
    pub(super) fn lines(&self) -> Vec<Line> {
        let line = |(off, frames): (&u64, &Vec<Frame>)| {
            let inlined = frames.windows(2).map(|pair| Inlined {
                name: Arc::clone(&pair[0].name),
                call_file: Arc::clone(&pair[1].file),
                call_line: pair[1].line,
            });
            let (file, line) =
                frames.first().map_or_else(Default::default, |it| (Arc::clone(&it.file), it.line));
            Line { off: *off, file, line, inlined: inlined.collect() }
        };
        self.frames.iter().map(line).collect()
    }
}

/// Names the places of a stretch, innermost first; `None` if a method cannot be read.
fn frames(
    memory: Reader<'_>,
    of: &Methods,
    known: &mut Known,
    method: u64,
    stretch: &Stretch,
) -> Option<Vec<Frame>> {
    let mut frame = |at: u64, line: &dyn Fn(&Method) -> u32| {
        let method = known.method(memory, of, at)?;
        Some(Frame { name: known.text(&method.name)?, file: known.text(&method.file)?, line: line(&method) })
    };
    if stretch.places.is_empty() {
        return Some(vec![frame(method, &|_| 0)?]);
    }
    let last = stretch.places.len() - 1;
    let mut frames = Vec::new();
    for (position, place) in stretch.places.iter().enumerate() {
        frames.push(frame(place.method, &|method| {
            let line = method.line(place.bytecode);
            let is_it = |other: i32| method.line(other) == line;
            if position < last || stretch.or.is_none_or(is_it) { line } else { 0 }
        })?);
    }
    frames.reverse();
    Some(frames)
}
