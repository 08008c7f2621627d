//! What is sampled: events, as plain types.

use std::path::PathBuf;

use crate::skeleton::types::limits;
use crate::sys::perf::{Counter, Rate};
use crate::sys::tracefs::Field;

/// The most events of one recording.
pub(crate) const MAX_EVENTS: usize = limits::MAX_EVENTS.0 as usize;

/// An event of which samples are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name in the recording: what the user typed, without options.
    pub name: String,
    /// The unit of a sample's weight.
    pub unit: String,
    /// What makes it happen.
    pub source: Source,
}

/// What makes an event happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A counter of the processor or the kernel on each CPU.
    Counter {
        /// Which one.
        counter: Counter,
        /// How often it is sampled.
        rate: Rate,
    },
    /// Somewhere in the code of the kernel or of programs.
    Probe {
        /// Where.
        place: Place,
        /// Which of its hits are sampled.
        take: Take,
    },
    /// The waits of threads.
    Wait {
        /// Which part of them.
        of: Of,
        /// A wait of this length, ns, is always kept.
        always_ns: u64,
    },
}

/// What a sample of a wait is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The time until somebody wakes the thread.
    OffCpu,
    /// The time that a thread waits for a CPU.
    RunDelay,
    /// Who ended the wait.
    Waker,
}

/// Where a probe lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A tracepoint of the kernel.
    Tracepoint {
        /// Its number in tracefs.
        id: u64,
        /// The field that its samples have, and its name.
        sent: Option<(String, Field)>,
    },
    /// A side of a function of the kernel.
    Kernel {
        /// Its name in `/proc/kallsyms`.
        function: String,
        /// `Entry` or `Return`.
        edge: Edge,
        /// How the kernel runs the program.
        hook: Hook,
    },
    /// Instructions in executable files.
    User {
        /// Which ones; at least one.
        at: Vec<InFile>,
        /// What these instructions are.
        edge: Edge,
    },
}

/// How the kernel runs a program at a function of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// An instruction of the function is replaced (`kprobe`, `kretprobe`).
    Kprobe,
    /// The function itself calls the program, which is bound to it when it is loaded (`fentry`, `fexit`).
    Call,
}

/// What the instructions of a probe are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The first instructions of functions: the return address is where the stack pointer leads.
    Entry,
    /// The returns of functions: the stack is that of the caller.
    Return,
    /// Any, in the midst of functions, too.
    Inside,
}

/// Instructions in one executable file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFile {
    /// The file.
    pub file: PathBuf,
    /// Offsets in the file, ascending.
    pub offsets: Vec<u64>,
    /// Offsets of the counters that tell the program of each of them that somebody listens, 0 for none; empty if none has one.
    pub counters: Vec<u64>,
}

impl InFile {
    /// Makes it of instructions that have no counters.
    pub(crate) fn new(file: PathBuf, offsets: Vec<u64>) -> Self {
        Self { file, offsets, counters: Vec::new() }
    }
}

/// Which hits of a probe are sampled, and what they weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Take {
    /// One of so many hits is sampled and weighs as much more; at least 1.
    pub every: u64,
    /// What a hit weighs.
    pub weight: Weight,
    /// Hits that weigh less are no samples.
    pub min: u64,
}

/// What a hit of a probe weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// 1.
    One,
    /// An argument of the function, counted from 1, of 64 bits without a sign.
    Argument(u8),
    /// The same of 32 bits; a hit is no sample if it is negative.
    ArgumentInt(u8),
    /// What the function returned, of 64 bits; a hit is no sample if it is negative.
    Returned,
    /// The same of 32 bits.
    ReturnedInt,
    /// How long the function ran, ns.
    Duration,
    /// An integer of a tracepoint; a hit is no sample if it is negative.
    Field(Field),
}

impl Default for Take {
    fn default() -> Self {
        Self { every: 1, weight: Weight::One, min: 0 }
    }
}
