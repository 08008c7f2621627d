//! What a recording is asked to be: plain types. Nothing here looks at the machine, reads a command line or prints.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::proc::cgroup::Cgroup;
use crate::sys::perf::{self, Event, Rate};

/// Whom to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Everything; until the command ends, if there is one.
    System,
    /// These processes and the children that they fork.
    Processes(Vec<u32>),
    /// These threads.
    Threads(Vec<u32>),
    /// Tasks in these cgroups and those below them; until the command ends, if there is one.
    Cgroups(Vec<Cgroup>),
    /// The command and its children.
    Command,
}

/// Where the recording goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A file in this directory, for which a name is made.
    NewFile,
    /// This file.
    File(PathBuf),
    /// Stdout: a pipe, or a file that the shell opened.
    Stdout,
}

/// What of the images goes into the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embed {
    /// Nothing.
    None,
    /// The names of the functions that were hit.
    Hits,
    /// Also symbol tables and unwind tables of the files that were hit.
    Sections,
    /// Also these files as a whole.
    All,
}

/// What is kept of user stacks besides the walk along frame pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwind {
    /// Nothing.
    Fp,
    /// Registers and the stack; where all code keeps frame pointers, registers and the top alone.
    Auto,
    /// Registers and the stack.
    Dwarf,
}

/// When batches are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// When the first row of a batch is this old.
    pub(crate) flush_ns: u64,
    /// When its columns reach about this many bytes.
    pub(crate) flush_bytes: usize,
    /// Expected distance of two samples on one CPU, ns; 0 if there is none.
    pub(crate) period_ns: u64,
}

/// Everything that one run of the recorder needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whom to sample.
    pub target: Target,
    /// The command to run, program first; empty if there is none.
    pub command: Vec<OsString>,
    /// How often.
    pub rate: Rate,
    /// When to stop by itself.
    pub duration: Option<Duration>,
    /// Sample user mode.
    pub user: bool,
    /// Sample kernel mode.
    pub kernel: bool,
    /// Sample the idle task.
    pub idle: bool,
    /// CPUs to sample: online ones, ascending.
    pub cpus: Vec<u32>,
    /// There are others.
    pub some_cpus: bool,
    /// The most user frames of one stack.
    pub max_depth: u32,
    /// What is kept of user stacks.
    pub unwind: Unwind,
    /// The most of a stack that is copied, bytes.
    pub stack_bytes: u32,
    /// The user's labels.
    pub labels: Vec<(String, String)>,
    /// Size of the ring, bytes: a power of two.
    pub ring_bytes: u64,
    /// How long rows wait before they are written, ns: what a kill costs at most.
    pub flush_ns: u64,
    /// How many bytes of rows wait at most.
    pub flush_bytes: usize,
    /// What goes into the recording for reports on other machines.
    pub embed: Embed,
    /// The most bytes of files that go into it.
    pub embed_max_bytes: u64,
    /// Where to write.
    pub output: Destination,
    /// Overwrite it.
    pub force: bool,
    /// Say nothing.
    pub quiet: bool,
    /// Say much.
    pub verbose: bool,
}

impl Options {
    /// When batches are written.
    pub(crate) fn pace(&self) -> Pace {
        // A clock that counts nanoseconds is the only event whose period says anything about time.
        let period_ns = match self.rate {
            Rate::Frequency(hz) => 1_000_000_000 / hz.max(1),
            Rate::Period(units) => units,
        };
        Pace { flush_ns: self.flush_ns, flush_bytes: self.flush_bytes, period_ns }
    }

    /// Whether all that a recorded thread runs is sampled, so that samples can be compared with the kernel's account of its CPU
    /// time. A thread may be moved into a cgroup and out of it.
    pub(crate) fn accounts(&self) -> bool {
        self.user && self.kernel && !self.some_cpus && !matches!(self.target, Target::Cgroups(_))
    }

    /// The distance of samples that is varied; `None` if it is kept, or the kernel varies it.
    pub(crate) fn varied_period(&self, event: Event) -> Option<Duration> {
        match self.rate {
            Rate::Frequency(hz) if event == perf::CPU_CLOCK => {
                Some(Duration::from_secs(1) / hz.try_into().ok()?)
            }
            _ => None,
        }
    }
}
