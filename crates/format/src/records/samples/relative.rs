//! What the columns of samples are relative to: the newest stack, the last end of a walk, the CPU's recent tasks.

use super::super::packed::ArchivedPacked;
use super::super::{StackRepair, WalkEnd, rows_of};
use crate::error::Error;
use crate::kind::Kind;

/// How a walk ended, and what became of it.
pub(super) type End = (WalkEnd, StackRepair);

/// One side of all samples, to be written.
#[derive(Default)]
pub(super) struct Side {
    pub(super) new: Vec<u64>,
    pub(super) known: Vec<u64>,
    pub(super) end: Vec<u64>,
    last_end: LastEnd,
}

impl Side {
    pub(super) fn push(&mut self, id: u32, end: End, newest: &mut u64) {
        let wide = u64::from(id);
        if wide > *newest {
            self.new.push(wide - std::mem::replace(newest, wide));
        } else {
            self.new.push(0);
            self.known.push(wide);
        }
        let last = std::mem::replace(self.last_end.of(id), end);
        self.end.push(if last == end { 0 } else { u64::from(end.1.0) * 256 + u64::from(end.0.0) + 1 });
    }
}

/// One side of all samples, as it was written.
pub(super) struct Told {
    new: Vec<u64>,
    known: std::vec::IntoIter<u64>,
    end: Vec<u64>,
    last_end: LastEnd,
}

impl Told {
    pub(super) fn new(
        new: &ArchivedPacked,
        known: &ArchivedPacked,
        end: &ArchivedPacked,
    ) -> Result<Self, Error> {
        rows_of(Kind::SAMPLES, "known", known)?;
        let known = known.values().into_iter();
        Ok(Self { new: new.values(), known, end: end.values(), last_end: LastEnd::default() })
    }

    /// The stack and the end of the walk of sample `i`; `None` if there can be no such stack.
    pub(super) fn next(&mut self, i: usize, newest: &mut u64) -> Option<(u32, End)> {
        let id = match self.new[i] {
            0 => self.known.next()?,
            above => {
                *newest = newest.checked_add(above)?;
                *newest
            }
        };
        let id = u32::try_from(id).ok()?;
        let last = self.last_end.of(id);
        if self.end[i] > 0 {
            let told = self.end[i] - 1;
            *last = (WalkEnd(told as u8), StackRepair((told >> 8) as u8));
        }
        Some((id, *last))
    }
}

/// How walks ended last, of empty stacks and of others.
#[derive(Default)]
struct LastEnd([End; 2]);

impl LastEnd {
    fn of(&mut self, stack: u32) -> &mut End {
        &mut self.0[usize::from(stack != 0)]
    }
}

/// What is expected of the next sample on each CPU.
pub(super) struct Expected {
    first: u64,
    slots: Vec<Slot>,
}

pub(super) struct Slot {
    /// Its time.
    pub(super) units: u64,
    /// Its task.
    pub(super) recent: Recent,
}

impl Expected {
    pub(super) fn at(first: u64) -> Self {
        Self { first, slots: Vec::new() }
    }

    pub(super) fn slot(&mut self, cpu: u16) -> &mut Slot {
        let cpu = usize::from(cpu);
        if self.slots.len() <= cpu {
            self.slots.resize_with(cpu + 1, || Slot { units: self.first, recent: Recent::default() });
        }
        &mut self.slots[cpu]
    }
}

/// The tasks that ran last on a CPU, the latest first.
#[derive(Default)]
pub(super) struct Recent(Vec<u32>);

/// The most tasks in the list of a CPU.
const MAX_RECENT: usize = 64;

impl Recent {
    pub(super) fn tell(&mut self, task: u32) -> u64 {
        let rank = self.0.iter().position(|recent| *recent == task);
        self.run(task, rank);
        rank.map_or(u64::from(task) * 2, |rank| rank as u64 * 2 + 1)
    }

    /// Undoes [`Recent::tell`]; `None` if there can be no such task.
    pub(super) fn told(&mut self, told: u64) -> Option<u32> {
        let rank = (told % 2 == 1).then_some(usize::try_from(told / 2).ok()?);
        let task = match rank {
            Some(rank) => *self.0.get(rank)?,
            None => u32::try_from(told / 2).ok()?,
        };
        self.run(task, rank);
        Some(task)
    }

    fn run(&mut self, task: u32, rank: Option<usize>) {
        match rank {
            Some(rank) => self.0[..=rank].rotate_right(1),
            None => {
                self.0.truncate(MAX_RECENT - 1);
                self.0.insert(0, task);
            }
        }
    }
}
