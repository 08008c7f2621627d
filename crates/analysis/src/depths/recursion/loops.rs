//! Collects the ways from functions back to themselves from the trie of stacks.

use std::cmp::{Ordering, Reverse};

use super::super::{Depths, Distribution};
use icecore_profile::map::{Interned, Map};
use icecore_profile::named::names::{Function, Names, Side};
use icecore_profile::named::{Profile, depth_first};
use icecore_symbolize::Reason;

/// Of longer ways from a function back to itself only the shortest is kept.
const LONGEST: usize = 64;

/// A way from a function back to itself.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) from: u32,
    /// The functions in between; empty if the function calls itself.
    pub(super) between: Vec<u32>,
    /// Samples below its end; a stack that takes it twice counts twice.
    pub(super) samples: u64,
}

/// Recurring functions of the trie.
#[derive(Debug)]
pub(super) struct Loops {
    /// The functions between two occurrences, without inner recursion.
    words: Vec<Vec<u32>>,
    /// Samples by function and word.
    short: Map<(u32, u32), u64>,
    /// One longer way for each function.
    long: Vec<Way>,
    /// For each function: samples in which it occurs at least 2, 3, … times.
    at_least: Map<u32, Vec<LoopSamples>>,
    /// For each function: the first stack that ends with it.
    first_seen: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct LoopSamples {
    all: u64,
    /// The samples whose stack was truncated.
    cut: u64,
}

impl Loops {
    pub(super) fn find(profile: &Profile, depths: &Depths, event: u8) -> Self {
        let below = Below::new(profile, depths, event);
        let mut search = Search::new(profile.names.functions.len());
        depth_first(profile, |position, enters| {
            let stack = profile.stacks[position as usize];
            if profile.names.frames[stack.frame as usize].inlined {
                return;
            }
            let (id, function) = (profile.function_id(stack), profile.function(stack));
            match enters {
                true if is_one(function) => search.enter(id, position, below.of(position, function.side)),
                true => search.pass(id),
                false => search.leave(id, is_one(function)),
            }
        });
        let way = |(from, (samples, _, end)): (u32, (u64, usize, u32))| Way {
            from,
            between: between(profile, end),
            samples,
        };
        let mut long: Vec<Way> = search.long.into_iter().map(way).collect();
        long.sort_by_key(|way| way.from);
        let Search { words, short, at_least, first_seen, .. } = search;
        Self { words: words.into_items(), short, long, at_least, first_seen }
    }

    /// Lists every known way: a function, and the functions between it and itself. In no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let short = self.short.keys().map(|(from, word)| (*from, &*self.words[*word as usize]));
        short.chain(self.long.iter().map(|way| (way.from, &*way.between)))
    }

    /// Returns the direct way of each function that calls itself, and for each function that recurs through others the way that
    /// most samples took.
    pub(super) fn ways(&self, names: &Names) -> Vec<Way> {
        let mut best: Map<(u32, bool), Way> = Map::default();
        let short = self.short.iter().map(|((from, word), samples)| Way {
            from: *from,
            between: self.words[*word as usize].clone(),
            samples: *samples,
        });
        for way in short.chain(self.long.iter().cloned()) {
            let key = (way.from, way.between.is_empty());
            if best.get(&key).is_none_or(|known| way.compare(known, names).is_gt()) {
                best.insert(key, way);
            }
        }
        best.into_values().collect()
    }

    /// Returns how often a function occurs in the stacks in which it recurs.
    pub(super) fn repeats(&self, function: u32) -> Distribution {
        let mut repeats = Distribution::default();
        let counts = self.at_least.get(&function).map(Vec::as_slice).unwrap_or_default();
        let more = counts.iter().skip(1).copied().chain([LoopSamples::default()]);
        for (times, (here, more)) in (2..).zip(counts.iter().zip(more)) {
            let (all, cut) = (here.all - more.all, here.cut - more.cut);
            for (samples, is_cut) in [(all - cut, false), (cut, true)] {
                if samples > 0 {
                    repeats.add(times, samples, is_cut);
                }
            }
        }
        repeats
    }

    /// Returns the position of the first stack that ends with a function.
    pub(super) fn first_seen(&self, function: u32) -> u32 {
        self.first_seen[function as usize]
    }
}

impl Way {
    /// Orders two ways of a function: more samples first, then the shorter, then by name.
    fn compare(&self, other: &Self, names: &Names) -> Ordering {
        let rank = |way: &Self| (way.samples, Reverse(way.between.len()));
        let spelled = |way: &Self| -> Vec<(Box<str>, u32)> {
            way.between.iter().map(|f| (names.functions[*f as usize].name.clone(), *f)).collect()
        };
        rank(self).cmp(&rank(other)).then_with(|| spelled(other).cmp(&spelled(self)))
    }
}

/// Samples at each stack or below it.
struct Below {
    all: Vec<u64>,
    /// Truncated samples, on the user side and on the kernel side.
    cut: [Vec<u64>; 2],
}

impl Below {
    fn new(profile: &Profile, depths: &Depths, event: u8) -> Self {
        let none = || vec![0u64; profile.stacks.len()];
        let (mut all, mut cut) = (none(), [none(), none()]);
        for row in profile.rows.iter().filter(|row| row.event == event) {
            all[row.stack as usize] += row.samples;
            for (cut, side) in cut.iter_mut().zip([Side::User, Side::Kernel]) {
                let is_cut = depths.outermost(row, side).is_cut();
                cut[row.stack as usize] += if is_cut { row.samples } else { 0 };
            }
        }
        for sums in [&mut all].into_iter().chain(&mut cut) {
            for stack in (1..sums.len()).rev() {
                let samples = sums[stack];
                let caller = &mut sums[profile.stacks[stack].caller as usize];
                *caller = caller.saturating_add(samples);
            }
        }
        Self { all, cut }
    }

    fn of(&self, stack: u32, side: Side) -> LoopSamples {
        let [user, kernel] = &self.cut;
        let cut = if side == Side::User { user } else { kernel };
        LoopSamples { all: self.all[stack as usize], cut: cut[stack as usize] }
    }
}

/// A walk over the trie.
struct Search {
    /// The frames from the root to here: a function, and the length of the path at its previous occurrence; 0 if there is none.
    path: Vec<(u32, usize)>,
    /// For each function: the length of the path at its last occurrence, and how often it is on the path.
    on_path: Vec<(usize, usize)>,
    words: Interned<Vec<u32>>,
    short: Map<(u32, u32), u64>,
    /// For each function: samples, the length of the shortest way, and the stack with which it ends.
    long: Map<u32, (u64, usize, u32)>,
    at_least: Map<u32, Vec<LoopSamples>>,
    first_seen: Vec<u32>,
}

impl Search {
    fn new(functions: usize) -> Self {
        let (path, words, short, long, at_least) = Default::default();
        let (on_path, first_seen) = (vec![(0, 0); functions], vec![u32::MAX; functions]);
        Self { path, on_path, words, short, long, at_least, first_seen }
    }

    fn enter(&mut self, function: u32, position: u32, below: LoopSamples) {
        let of = function as usize;
        self.first_seen[of] = self.first_seen[of].min(position);
        let (last, times) = self.on_path[of];
        if times > 0 && below.all > 0 {
            self.again(function, last, position, below.all);
            let counts = self.at_least.entry(function).or_default();
            counts.resize(counts.len().max(times), LoopSamples::default());
            let count = &mut counts[times - 1];
            *count = LoopSamples { all: count.all + below.all, cut: count.cut + below.cut };
        }
        self.path.push((function, last));
        self.on_path[of] = (self.path.len(), times + 1);
    }

    /// Records the way from the last occurrence of a function to this one.
    fn again(&mut self, function: u32, last: usize, position: u32, samples: u64) {
        let between = &self.path[last..];
        if between.len() <= LONGEST {
            let word = self.words.intern(without_loops(between.iter().map(|(function, _)| *function)));
            *self.short.entry((function, word)).or_default() += samples;
            return;
        }
        let (sum, len, end) = self.long.entry(function).or_insert((0, usize::MAX, 0));
        *sum += samples;
        (*len, *end) = (*len, *end).min((between.len(), position));
    }

    /// Enters what may be several functions.
    fn pass(&mut self, function: u32) {
        self.path.push((function, 0));
    }

    fn leave(&mut self, function: u32, is_one: bool) {
        let left = self.path.pop();
        if !is_one {
            return;
        }
        let (last, times) = self.on_path[function as usize];
        debug_assert_eq!((left.map(|(left, _)| left), last), (Some(function), self.path.len() + 1));
        self.on_path[function as usize] = (left.map_or(0, |(_, before)| before), times - 1);
    }
}

/// Returns true if all frames with one name belong to one function: all unnamed code of a process has one name.
fn is_one(function: &Function) -> bool {
    use Reason::{Jit, Special, StackLost, Unmapped, Vdso};
    !matches!(function.reason, Some(Jit | Special | StackLost | Unmapped | Vdso))
}

/// Lists the functions between the last frame of a stack and the previous occurrence of its function.
fn between(profile: &Profile, end: u32) -> Vec<u32> {
    let own = profile.walk(end).filter(|stack| !profile.names.frames[stack.frame as usize].inlined);
    let mut functions = own.map(|stack| profile.function_id(stack));
    let function = functions.next();
    let mut between: Vec<u32> = functions.take_while(|callers| Some(*callers) != function).collect();
    between.reverse();
    without_loops(between.into_iter())
}

/// Removes inner recursion: `g h g k` is `g k`.
fn without_loops(functions: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut way: Vec<u32> = Vec::new();
    let mut places: Map<u32, usize> = Map::default();
    for function in functions {
        match places.get(&function) {
            Some(place) => {
                for left in way.drain(place + 1..) {
                    places.remove(&left);
                }
            }
            None => {
                places.insert(function, way.len());
                way.push(function);
            }
        }
    }
    way
}
