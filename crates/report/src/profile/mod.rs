//! A profile: named stacks, and how often each was hit by which thread.
//!
//! | module | what lives there |
//! |---|---|
//! | [`pipeline`] | the way from a file to everything that a view may show |
//! | [`names`] | places as functions and source lines |
//! | [`embedded`], `found` | names that the recording has; places and answers, as the file writes them |
//! | [`cache`] | what earlier reports found out, on this machine |
//! | `narrow`, `sums`, `entry` | functions taken out; rows added up; where programs begin |
//! | [`tree`] | stacks merged into trees |

pub mod cache;
pub mod embedded;
pub(crate) mod entry;
pub(crate) mod found;
pub mod names;
mod narrow;
pub mod pipeline;
mod sums;
pub mod tree;

use icecore_format::records::{Mark, StackRepair, WalkEnd};

use crate::base::map::{Interned, Map};
use crate::base::shorten::{MAX_NAME_BYTES, shorten};
use crate::profile::names::{Function, Names};
use crate::recording::cgroups::CgroupId;
use crate::recording::load::Tables;
use crate::recording::spans::widened;
use crate::stacks::hits::{Cell, Hit, Hits, Key, Selection};
use crate::stacks::locate::{Located, steps};

pub use narrow::{Matches, Patterns};
pub(crate) use sums::depth_first;
pub use sums::{Sum, groups, sums, through};

/// Named stacks and who hit them.
#[derive(Debug, Default)]
pub struct Profile {
    /// Functions, frames, images.
    pub names: Names,
    /// The trie of stacks. A caller comes before its callees; entry 0 is the empty stack.
    pub stacks: Vec<Stack>,
    /// Threads, each under one name.
    pub threads: Vec<Thread>,
    /// Distinct (thread, stack).
    pub rows: Vec<Row>,
    /// The rows slice by slice, where slices are apart: what of a row fell into one may be several of these.
    pub cells: Vec<Cell>,
    /// Unit of the weights: `ns`, `cycles`, `samples`.
    pub unit: String,
    /// Samples that `--hide` left without any frame.
    pub emptied: u64,
}

/// The stack that ends at this frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stack {
    /// The stack of the caller, a position; 0 at the outermost frame.
    pub caller: u32,
    /// The innermost frame, a position in the names' frames.
    pub frame: u32,
}

/// A thread under one name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The number of the session to which it belongs.
    pub part: u32,
    /// Process id.
    pub tgid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name of the thread.
    pub comm: Box<str>,
    /// Name of its process.
    pub process: Box<str>,
    /// The cgroup in which it was; one that moved is several threads here.
    pub cgroup: CgroupId,
}

/// All samples of a thread with one stack that was taken in one way; of one event, where these are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// A position in [`Profile::threads`].
    pub thread: u32,
    /// A position in [`Profile::stacks`].
    pub stack: u32,
    /// How the samples were taken.
    pub taken: Taken,
    /// Their event, where events are apart; else 0.
    pub event: u8,
    /// How many samples.
    pub samples: u64,
    /// Their weight together.
    pub weight: u64,
    /// Earliest and latest time, ns `CLOCK_MONOTONIC`.
    pub span_ns: (u64, u64),
}

/// How a sample was taken: what filters by name do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Taken {
    /// How the user walk ended.
    pub end: WalkEnd,
    /// The outermost frame of the user stack is a proven start: `Loaded::is_rooted`.
    pub rooted: bool,
    /// A frame of the user stack was found by a guess.
    pub guessed: bool,
    /// What became of the user walk.
    pub repair: StackRepair,
    /// It hit in the kernel.
    pub in_kernel: bool,
}

impl Taken {
    /// Tells whether the user walk says how it ended.
    pub fn is_walked(self) -> bool {
        self.end != WalkEnd::NONE && self.end != WalkEnd::UNSAID
    }
}

/// A number of samples and what they weigh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many samples.
    pub samples: u64,
    /// Their weight together.
    pub weight: u64,
}

impl Amount {
    /// Adds another amount.
    pub fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.weight = self.weight.saturating_add(other.weight);
    }

    /// The share of a whole, 0 to 1; 0 of nothing.
    pub fn share_of(self, whole: Self) -> f64 {
        if whole.weight == 0 { 0.0 } else { self.weight as f64 / whole.weight as f64 }
    }
}

impl Row {
    /// Samples and weight.
    pub fn amount(&self) -> Amount {
        Amount { samples: self.samples, weight: self.weight }
    }
}

impl Profile {
    /// Hangs the frames of every place into the trie. `is_rooted` tells of a walk whether its outermost frame is a start, if
    /// it is told whether that is an entry point by its name.
    pub fn build(
        selection: Selection<'_>,
        hits: &Hits,
        located: &Located,
        names: Names,
        is_rooted: impl Fn(&Key, bool) -> bool,
    ) -> Self {
        let mut stacks: Interned<Stack> = Interned::for_items(located.spots.len());
        stacks.intern(Stack { caller: u32::MAX, frame: u32::MAX });
        let mut of_spot = vec![0u32; located.spots.len()];
        for (position, spot) in located.spots.iter().enumerate().skip(1) {
            let outermost_first = names.of_places.of(spot.place as usize).iter().rev();
            of_spot[position] = outermost_first.fold(of_spot[spot.caller as usize], |caller, frame| {
                stacks.intern(Stack { caller, frame: *frame })
            });
        }
        let mut threads: Interned<Thread> = Interned::new();
        let mut known = Map::default();
        let stacks = stacks.into_items();
        let begins = entry::below(&names, &stacks);
        let mut rows = Rows::default();
        let mut guesses = Guesses::default();
        let mut row_of = Vec::with_capacity(hits.rows.len());
        // Rows that differ by event alone are neighbours.
        let mut before: Option<(Key, u32, Taken)> = None;
        for (hit, leaf) in hits.rows.iter().zip(&located.leaves) {
            let stack = of_spot[*leaf as usize];
            let Key { end, repair, in_kernel, event, .. } = hit.key;
            let same = Key { event: 0, ..hit.key };
            let (thread, taken) = match before {
                Some((known, thread, taken)) if known == same => (thread, taken),
                _ => {
                    let thread = *known
                        .entry((hit.key.task, hit.key.space, hit.key.cgroup))
                        .or_insert_with(|| threads.intern(thread(selection, &hit.key)));
                    let rooted = is_rooted(&hit.key, begins[stack as usize]);
                    let guessed = guesses.are_in(selection.tables, hit.key.user);
                    (thread, Taken { end, rooted, guessed, repair, in_kernel })
                }
            };
            before = Some((same, thread, taken));
            let Hit { samples, weight, span_ns, .. } = *hit;
            row_of.push(rows.add(Row { thread, stack, taken, event, samples, weight, span_ns }));
        }
        let cells = hits.cells.iter().map(|cell| Cell { row: row_of[cell.row as usize], ..*cell }).collect();
        let unit = unit(selection, hits);
        let threads = threads.into_items();
        Self { names, stacks, threads, rows: rows.rows, cells, unit, emptied: 0 }
    }

    /// Adds up all rows.
    pub fn whole(&self) -> Amount {
        let mut whole = Amount::default();
        self.rows.iter().for_each(|row| whole.add(row.amount()));
        whole
    }

    /// Adds up the rows that were taken in some way.
    pub fn taken(&self, which: impl Fn(Taken) -> bool) -> Amount {
        let mut sum = Amount::default();
        self.rows.iter().filter(|row| which(row.taken)).for_each(|row| sum.add(row.amount()));
        sum
    }

    /// Earliest and latest time of a sample, ns `CLOCK_MONOTONIC`; `None` if there are none.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        self.rows.iter().map(|row| row.span_ns).reduce(widened)
    }

    /// Lists the stacks from one to the outermost, innermost first; nothing for the empty stack.
    pub fn walk(&self, stack: u32) -> impl Iterator<Item = Stack> + '_ {
        let mut next = stack;
        std::iter::from_fn(move || {
            let stack = (next != 0).then(|| self.stacks[next as usize])?;
            next = stack.caller;
            Some(stack)
        })
    }

    /// The function at the innermost frame of a stack, a position in the names' functions.
    pub fn function_id(&self, stack: Stack) -> u32 {
        self.names.frames[stack.frame as usize].function
    }

    /// The function at the innermost frame of a stack.
    pub fn function(&self, stack: Stack) -> &Function {
        self.names.function(stack.frame)
    }

    /// Adds up the rows of each stack: what hit exactly there.
    pub fn at_stacks(&self) -> Vec<Amount> {
        let mut at = vec![Amount::default(); self.stacks.len()];
        self.rows.iter().for_each(|row| at[row.stack as usize].add(row.amount()));
        at
    }
}

/// Which stacks hold a frame that was found by a guess.
#[derive(Default)]
struct Guesses(Map<u32, bool>);

impl Guesses {
    fn are_in(&mut self, tables: &Tables, stack: u32) -> bool {
        if tables.marks.is_empty() {
            return false;
        }
        let look = || steps(tables, stack).any(|step| step.mark.has(Mark::GUESSED));
        *self.0.entry(stack).or_insert_with(look)
    }
}

fn thread(selection: Selection<'_>, key: &Key) -> Thread {
    let Tables { parts, .. } = selection.tables;
    let task = &selection.tables.task(key.task);
    Thread {
        part: parts.of_task(key.task),
        tgid: parts.pid(task.tgid),
        tid: parts.pid(task.tid),
        comm: shorten(selection.tables.text(task.comm), MAX_NAME_BYTES).into(),
        process: shorten(selection.process_name(task, key.space), MAX_NAME_BYTES).into(),
        cgroup: key.cgroup,
    }
}

fn unit(selection: Selection<'_>, hits: &Hits) -> String {
    let events = selection.tables.parts.events();
    match hits.seen.events[..] {
        [event] => events.get(usize::from(event)).map(|e| e.unit.clone()),
        [] => events.first().map(|e| e.unit.clone()),
        _ => None,
    }
    .filter(|unit| !unit.is_empty())
    .unwrap_or_else(|| "samples".to_owned())
}

/// Rows of a profile, merged as they come.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<Row>,
    positions: Map<(u32, u32, Taken, u8), u32>,
}

impl Rows {
    /// Adds a row; returns its position.
    fn add(&mut self, new: Row) -> u32 {
        let key = (new.thread, new.stack, new.taken, new.event);
        let position = *self.positions.entry(key).or_insert(self.rows.len() as u32);
        match self.rows.get_mut(position as usize) {
            Some(row) => {
                row.samples += new.samples;
                row.weight = row.weight.saturating_add(new.weight);
                row.span_ns = widened(row.span_ns, new.span_ns);
            }
            None => self.rows.push(new),
        }
        position
    }
}

#[cfg(test)]
pub(crate) mod fixture;
