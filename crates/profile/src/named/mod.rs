//! A profile: named stacks, and how often each was hit by which thread.
//!
//! | module | what lives there |
//! |---|---|
//! | [`pipeline`] | the pipeline from a file to the data of every view |
//! | [`names`] | names places by functions and source lines |
//! | `folded` | code that is several functions, by the calls that name them |
//! | `function`, `identity` | a function and its names; which names are names of one function; what tells apart those that read the same |
//! | [`embedded`], `found` | names that the recording has; names that a report found, as files store them |
//! | `unwound` | unwinds stacks, or takes them from the cache |
//! | [`cache`] | names and stacks that earlier reports found, on this machine |
//! | `narrow`, `pattern` | filters by function; names and patterns that users type |
//! | `sums`, `entry` | sums of rows; entry points of programs |
//! | `measure` | what weights add up to |
//! | [`waits`] | what rows of waits have in common: the kind, and what ended them |
//! | `wakers` | stacks of wakers on top of those that they woke |
//! | [`tree`] | merges stacks into trees |
//! | [`merged`] | merges stacks by the labels of their frames, for folded lines and flame graphs |
//! | [`source`] | source texts, and whether they are what was compiled |

pub mod cache;
pub mod embedded;
pub mod entry;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
mod folded;
pub mod found;
mod function;
mod identity;
mod measure;
pub mod merged;
pub mod names;
mod narrow;
mod pattern;
pub mod pipeline;
pub mod source;
mod sums;
pub mod tree;
mod unwound;
pub mod waits;
mod wakers;

use icecore_format::records::{StackRepair, WalkEnd};

use crate::map::{Interned, Map};
use crate::named::names::{Function, Names};
use crate::recording::cgroups::CgroupId;
use crate::recording::load::Tables;
use crate::recording::spaces::SpaceId;
use crate::recording::spans::widened;
use crate::stacks::fields::{Field, Fields};
use crate::stacks::hits::{Cell, Hit, Hits, Key, Moment, Selection};
use crate::stacks::locate::Located;
use crate::stacks::waits::WaitGroups;
use icecore_text::shorten::{MAX_NAME_BYTES, shorten};
use waits::{RowWait, RowWaits};
use wakers::Composer;

pub use measure::Measure;
pub use narrow::{Matches, Patterns};
pub use pattern::NamePattern;
pub use sums::depth_first;
pub use sums::{Sum, groups, sums, sums_apart, through};

/// Named stacks, and how often each thread hit them.
#[derive(Debug, Default)]
pub struct Profile {
    /// Functions, frames, images.
    pub names: Names,
    /// The trie of stacks. A caller comes before its callees; entry 0 is the empty stack.
    pub stacks: Vec<Stack>,
    /// Threads, each under one name.
    pub threads: Vec<Thread>,
    /// Distinct (thread, stack).
    pub rows: Vec<ProfileRow>,
    /// The parts of rows in slices of time, if slices are apart. A row may have several cells in one slice.
    pub cells: Vec<Cell>,
    /// Every sample, in the order of time, if they are listed.
    pub moments: Vec<Moment>,
    /// The row of each row of the hits, a position in [`Self::rows`]; `None` if the patterns exclude it.
    pub of_hits: Vec<Option<u32>>,
    /// What rows of waits have in common, if waits are counted apart.
    pub waits: Vec<RowWait>,
    /// What the weights add up to.
    pub measure: Measure,
    /// The number of samples that `--hide` or `--show` left without any frame.
    pub emptied: u64,
}

/// A stack, as its innermost frame on top of its caller's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stack {
    /// The stack of the caller, a position; 0 at the outermost frame.
    pub caller: u32,
    /// The innermost frame, a position in the names' frames.
    pub frame: u32,
}

/// Stands for samples that have no field.
const NO_FIELD: &str = "(no field)";

/// A thread under one name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The number of the part to which it belongs.
    pub part: u32,
    /// Process id.
    pub tgid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name of the thread.
    pub comm: Box<str>,
    /// Name of its process.
    pub process: Box<str>,
    /// The cgroup of the thread. A thread that moves between cgroups is several threads here.
    pub cgroup: CgroupId,
    /// The field of the samples, if fields are apart. A thread with different fields is several threads here.
    pub field: Option<Field>,
}

/// All samples of a thread with one stack that were taken in one way; if events or CPUs are apart, of one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileRow {
    /// A position in [`Profile::threads`].
    pub thread: u32,
    /// A position in [`Profile::stacks`].
    pub stack: u32,
    /// How the samples were taken.
    pub taken: Taken,
    /// Their event, if events are apart; else 0.
    pub event: u8,
    /// Their CPU, if CPUs are apart; else 0.
    pub cpu: u16,
    /// A position in [`Profile::waits`] if they are waits that are counted apart.
    pub wait: Option<u32>,
    /// The number of samples.
    pub samples: u64,
    /// The sum of their weights.
    pub weight: u64,
    /// Earliest and latest time, ns `CLOCK_MONOTONIC`.
    pub span_ns: (u64, u64),
}

/// How a sample was taken. Filters by name do not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Taken {
    /// How the user walk ended.
    pub end: WalkEnd,
    /// The outermost frame of the user stack is a proven start: `Loaded::is_rooted`.
    pub rooted: bool,
    /// A frame of the user stack was guessed.
    pub guessed: bool,
    /// Whether the user walk was kept or replaced.
    pub repair: StackRepair,
    /// The sample hit in the kernel.
    pub in_kernel: bool,
}

impl Taken {
    /// Returns true if the user walk states how it ended.
    pub fn is_walked(self) -> bool {
        self.end != WalkEnd::NONE && self.end != WalkEnd::UNSAID
    }

    /// Returns true if the user stack was unwound by unwind tables, by the sampler or from a snapshot.
    pub fn is_unwound(self) -> bool {
        self.repair != StackRepair::NONE || self.end == WalkEnd::BY_TABLES
    }

    /// Returns true if the user stack shows more than the walk along frame pointers did.
    pub fn is_repaired(self) -> bool {
        self.repair.kind() > StackRepair::KEPT && !self.repair.is_audited()
    }
}

/// A number of samples and their weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// The number of samples.
    pub samples: u64,
    /// The sum of their weights.
    pub weight: u64,
}

impl Amount {
    /// Adds another amount.
    pub fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.weight = self.weight.saturating_add(other.weight);
    }

    /// Returns the share of a whole, 0 to 1; 0 if the whole is 0.
    pub fn share_of(self, whole: Self) -> f64 {
        if whole.weight == 0 { 0.0 } else { self.weight as f64 / whole.weight as f64 }
    }
}

impl ProfileRow {
    /// Returns samples and weight.
    pub fn amount(&self) -> Amount {
        Amount { samples: self.samples, weight: self.weight }
    }
}

/// Samples that were counted, and the groups of waits and of fields that they name.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// The samples.
    pub hits: &'a Hits,
    /// The groups.
    pub waits: &'a WaitGroups,
    /// The fields that they have.
    pub fields: &'a Fields,
}

impl Profile {
    /// Puts the frames of every place into the trie. `is_rooted` decides whether the outermost frame of a walk is a proven start;
    /// its second argument is true if the name is that of an entry point.
    pub fn build(
        selection: Selection<'_>,
        Counted { hits, waits, fields }: Counted<'_>,
        located: &Located,
        mut names: Names,
        is_rooted: impl Fn(&Key, bool) -> bool,
    ) -> Self {
        let mut stacks: Interned<Stack> = Interned::for_items(located.spots.len());
        stacks.intern(Stack { caller: u32::MAX, frame: u32::MAX });
        folded::mark(located, &mut names);
        let mut of_spot = vec![0u32; located.spots.len()];
        let mut guesses: Map<u32, u32> = Map::default();
        for (position, spot) in located.spots.iter().enumerate().skip(1) {
            let place = spot.place as usize;
            let mut stack = of_spot[spot.caller as usize];
            for inner in (0..names.of_places.of(place).len()).rev() {
                let mut frame = names.of_places.of(place)[inner];
                // The guess is where the function lies whose call was found; what is inlined there follows from it.
                if inner == names.of_places.of(place).len() - 1 && located.guessed[position] {
                    frame = *guesses
                        .entry(frame)
                        .or_insert_with(|| names.add_guessed(names.frames[frame as usize]));
                }
                stack = stacks.intern(Stack { caller: stack, frame });
            }
            of_spot[position] = stack;
        }
        let mut threads: Interned<Thread> = Interned::new();
        let mut known = Map::default();
        let stacks = stacks.into_items();
        let begins = entry::below(&names, &stacks);
        let mut rows = Rows::default();
        let guessed = located.with_guesses();
        let mut row_waits = RowWaits::new(selection, waits);
        // The stacks of wakers come after those of samples.
        let wakers = located.leaves[hits.rows.len().min(located.leaves.len())..].iter();
        let wakers = wakers.map(|leaf| of_spot[*leaf as usize]).collect();
        let mut composer = Composer::new(waits, wakers, &mut names, stacks);
        let mut row_of = Vec::with_capacity(hits.rows.len());
        // Rows that differ only by event or CPU are neighbours.
        let mut before: Option<(Key, u32, Taken)> = None;
        for (hit, leaf) in hits.rows.iter().zip(&located.leaves) {
            let stack = of_spot[*leaf as usize];
            let Key { end, repair, in_kernel, event, cpu, .. } = hit.key;
            let same = Key { event: 0, cpu: 0, wait: 0, ..hit.key };
            let (thread, taken) = match before {
                Some((known, thread, taken)) if known == same => (thread, taken),
                _ => {
                    let thread = *known
                        .entry((hit.key.task, hit.key.space, hit.key.cgroup, hit.key.field))
                        .or_insert_with(|| threads.intern(thread(selection, &hit.key, fields)));
                    let rooted = is_rooted(&hit.key, begins[stack as usize]);
                    let guessed = guessed[*leaf as usize];
                    (thread, Taken { end, rooted, guessed, repair, in_kernel })
                }
            };
            before = Some((same, thread, taken));
            let Hit { samples, weight, span_ns, .. } = *hit;
            let wait = row_waits.of(&hit.key);
            let stack = match wait.filter(|_| waits.have_wakers()).and_then(|wait| row_waits.get(wait)) {
                Some(wait) => composer.of(stack, hit.key.wait, wait),
                None => stack,
            };
            row_of.push(rows.add(ProfileRow {
                thread,
                stack,
                taken,
                event,
                cpu,
                wait,
                samples,
                weight,
                span_ns,
            }));
        }
        let cells = hits.cells.iter().map(|cell| Cell { row: row_of[cell.row as usize], ..*cell }).collect();
        let moment = |moment: &Moment| Moment { row: row_of[moment.row as usize], ..*moment };
        let moments = hits.moments.iter().map(moment).collect();
        let threads = threads.into_items();
        let of_hits = row_of.into_iter().map(Some).collect();
        let measure = Measure::new(selection, hits);
        let (waits, stacks) = (row_waits.into_items(), composer.into_stacks());
        Self { names, stacks, threads, rows: rows.rows, cells, moments, of_hits, waits, measure, emptied: 0 }
    }

    /// Adds up all rows.
    pub fn whole(&self) -> Amount {
        let mut whole = Amount::default();
        self.rows.iter().for_each(|row| whole.add(row.amount()));
        whole
    }

    /// Adds up the rows that were taken in certain ways.
    pub fn taken(&self, which: impl Fn(Taken) -> bool) -> Amount {
        let mut sum = Amount::default();
        self.rows.iter().filter(|row| which(row.taken)).for_each(|row| sum.add(row.amount()));
        sum
    }

    /// Returns the earliest and latest time of a sample, ns `CLOCK_MONOTONIC`; `None` without samples.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        self.rows.iter().map(|row| row.span_ns).reduce(widened)
    }

    /// Lists a stack and its callers' stacks, innermost first; nothing for the empty stack.
    pub fn walk(&self, stack: u32) -> impl Iterator<Item = Stack> + '_ {
        let mut next = stack;
        std::iter::from_fn(move || {
            let stack = (next != 0).then(|| self.stacks[next as usize])?;
            next = stack.caller;
            Some(stack)
        })
    }

    /// Returns the function at the innermost frame of a stack, a position in the names' functions.
    pub fn function_id(&self, stack: Stack) -> u32 {
        self.names.frames[stack.frame as usize].function
    }

    /// Returns the function at the innermost frame of a stack.
    pub fn function(&self, stack: Stack) -> &Function {
        self.names.function(stack.frame)
    }

    /// Adds up the samples whose stacks hold a frame that was guessed.
    pub fn guessed(&self) -> Amount {
        self.taken(|taken| taken.guessed)
    }

    /// Adds up, for each stack, the rows whose samples hit exactly that stack.
    pub fn at_stacks(&self) -> Vec<Amount> {
        let mut at = vec![Amount::default(); self.stacks.len()];
        self.rows.iter().for_each(|row| at[row.stack as usize].add(row.amount()));
        at
    }
}

fn thread(selection: Selection<'_>, key: &Key, fields: &Fields) -> Thread {
    let field = fields.get(key.field).cloned();
    Thread { field, ..Thread::new(selection, key.task, key.space, key.cgroup) }
}

impl Thread {
    /// Returns the field and its value, as `fd=1`; words if the samples have none.
    pub fn field_name(&self) -> String {
        self.field.as_ref().map_or_else(|| NO_FIELD.to_owned(), ToString::to_string)
    }

    /// Describes a task, given its address space and its cgroup.
    fn new(selection: Selection<'_>, id: u32, space: Option<SpaceId>, cgroup: CgroupId) -> Self {
        let Tables { parts, .. } = selection.tables;
        let task = &selection.tables.task(id);
        Self {
            part: parts.of_task(id),
            tgid: parts.pid(task.tgid),
            tid: parts.pid(task.tid),
            comm: shorten(selection.tables.text(task.comm), MAX_NAME_BYTES).into(),
            process: shorten(selection.process_name(task, space), MAX_NAME_BYTES).into(),
            cgroup,
            field: None,
        }
    }
}

/// What tells rows apart: thread, stack, way, event, CPU, wait.
type RowKey = (u32, u32, Taken, u8, u16, Option<u32>);

/// The rows of a profile; equal ones are merged.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<ProfileRow>,
    positions: Map<RowKey, u32>,
}

impl Rows {
    /// Adds a row; returns its position.
    fn add(&mut self, new: ProfileRow) -> u32 {
        let key = (new.thread, new.stack, new.taken, new.event, new.cpu, new.wait);
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
