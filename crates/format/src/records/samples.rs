//! Samples as columns, version 1.

use rkyv::{Archive, Serialize};

use super::payload;
use crate::Error;
use crate::block::Kind;

/// How a stack walk ended; the numbers are on disk and in `bpf/wire.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WalkEnd(pub u8);

impl WalkEnd {
    /// No walk: the side was filtered out, or there is none (a kernel thread, user mode).
    pub const NONE: Self = Self(0);
    /// The frame pointer was 0, as at the outermost frame. Programs without frame pointers end so by
    /// accident, too.
    pub const ROOT: Self = Self(1);
    /// `max_depth` frames were taken, and there are more: the outermost are missing.
    pub const DEPTH: Self = Self(2);
    /// The frame pointer pointed to memory that could not be read.
    pub const UNREADABLE: Self = Self(3);
    /// The next frame pointer did not point towards the outermost frame.
    pub const NOT_MONOTONIC: Self = Self(4);
    /// The frame pointer was no multiple of the word size.
    pub const MISALIGNED: Self = Self(5);
    /// The frame held the return address 0.
    pub const ZERO_RETURN: Self = Self(6);
    /// The kernel's own walk, which does not say how it ended.
    pub const UNSAID: Self = Self(7);

    /// Name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::NONE => "none",
            Self::ROOT => "root",
            Self::DEPTH => "depth",
            Self::UNREADABLE => "unreadable",
            Self::NOT_MONOTONIC => "not_monotonic",
            Self::MISALIGNED => "misaligned",
            Self::ZERO_RETURN => "zero_return",
            Self::UNSAID => "unsaid",
            _ => "unknown",
        }
    }
}

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When, ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u16,
    /// Which event, a position in the session's events.
    pub event: u8,
    /// How the walk of the user stack ended.
    pub user_end: WalkEnd,
    /// How the walk of the kernel stack ended.
    pub kernel_end: WalkEnd,
    /// Which thread, a task id.
    pub task: u32,
    /// The user stack, a stack id; 0 if empty.
    pub user_stack: u32,
    /// The kernel stack, a stack id; 0 if empty: the sample hit in user mode.
    pub kernel_stack: u32,
    /// What the sample stands for, in the event's unit.
    pub weight: u64,
}

/// Samples, ordered by time.
#[derive(Debug, Default, Archive, Serialize)]
pub struct SamplesV1 {
    /// Earliest time, ns.
    pub first_ns: u64,
    /// Latest time, ns.
    pub last_ns: u64,
    /// Times, ns after the sample before it *on the same CPU* (the first on a CPU: after `first_ns`).
    pub after_ns: Vec<u32>,
    /// CPUs.
    pub cpu: Vec<u16>,
    /// Events.
    pub event: Vec<u8>,
    /// Numbers of [`WalkEnd`], user side.
    pub user_end: Vec<u8>,
    /// Numbers of [`WalkEnd`], kernel side.
    pub kernel_end: Vec<u8>,
    /// Task ids.
    pub task: Vec<u32>,
    /// Stack ids, user side.
    pub user_stack: Vec<u32>,
    /// Stack ids, kernel side.
    pub kernel_stack: Vec<u32>,
    /// Weights.
    pub weight: Vec<u64>,
}

payload!(
    SamplesV1, ArchivedSamplesV1, Kind::SAMPLES, 1,
    count after_ns, same cpu, same event, same user_end, same kernel_end, same task, same user_stack,
    same kernel_stack, same weight, span first_ns last_ns
);

impl SamplesV1 {
    /// Builds the columns; `rows` are ordered by time.
    ///
    /// # Errors
    /// [`Error::Payload`] if the rows are not in order or span more than
    /// [`MAX_BLOCK_SPAN_NS`](crate::limits::MAX_BLOCK_SPAN_NS).
    pub fn from_rows(rows: &[Sample]) -> Result<Self, Error> {
        let first_ns = rows.first().map_or(0, |r| r.time_ns);
        let mut clock = CpuClocks::starting_at(first_ns);
        let mut after_ns = Vec::with_capacity(rows.len());
        for row in rows {
            let before = clock.replace(row.cpu, row.time_ns);
            let after = row.time_ns.checked_sub(before).and_then(|ns| u32::try_from(ns).ok());
            after_ns.push(after.ok_or_else(|| Error::Payload {
                kind: Kind::SAMPLES,
                cause: format!("a sample at {} ns cannot follow one at {before} ns", row.time_ns),
            })?);
        }
        Ok(Self {
            first_ns,
            last_ns: rows.last().map_or(0, |r| r.time_ns),
            after_ns,
            cpu: rows.iter().map(|r| r.cpu).collect(),
            event: rows.iter().map(|r| r.event).collect(),
            user_end: rows.iter().map(|r| r.user_end.0).collect(),
            kernel_end: rows.iter().map(|r| r.kernel_end.0).collect(),
            task: rows.iter().map(|r| r.task).collect(),
            user_stack: rows.iter().map(|r| r.user_stack).collect(),
            kernel_stack: rows.iter().map(|r| r.kernel_stack).collect(),
            weight: rows.iter().map(|r| r.weight).collect(),
        })
    }
}

impl ArchivedSamplesV1 {
    /// Lists the samples in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = Sample> + '_ {
        let mut clock = CpuClocks::starting_at(self.first_ns.to_native());
        (0..self.after_ns.len()).map(move |i| {
            let cpu = self.cpu[i].to_native();
            let time_ns = clock.advance(cpu, u64::from(self.after_ns[i].to_native()));
            Sample {
                time_ns,
                cpu,
                event: self.event[i],
                user_end: WalkEnd(self.user_end[i]),
                kernel_end: WalkEnd(self.kernel_end[i]),
                task: self.task[i].to_native(),
                user_stack: self.user_stack[i].to_native(),
                kernel_stack: self.kernel_stack[i].to_native(),
                weight: self.weight[i].to_native(),
            }
        })
    }
}

/// The time of the last sample on each CPU.
struct CpuClocks {
    first_ns: u64,
    last_ns: Vec<u64>,
}

impl CpuClocks {
    fn starting_at(first_ns: u64) -> Self {
        Self { first_ns, last_ns: Vec::new() }
    }

    fn slot(&mut self, cpu: u16) -> &mut u64 {
        let cpu = usize::from(cpu);
        if self.last_ns.len() <= cpu {
            self.last_ns.resize(cpu + 1, self.first_ns);
        }
        &mut self.last_ns[cpu]
    }

    fn replace(&mut self, cpu: u16, time_ns: u64) -> u64 {
        std::mem::replace(self.slot(cpu), time_ns)
    }

    fn advance(&mut self, cpu: u16, by_ns: u64) -> u64 {
        let slot = self.slot(cpu);
        *slot = slot.saturating_add(by_ns);
        *slot
    }
}
