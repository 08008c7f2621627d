//! The settings of a recording, as plain types. Nothing here looks at the machine, reads a command line or prints.

mod budget;
mod condition;
mod event;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::proc::cgroup::Cgroup;
use crate::sys::perf::Rate;
use crate::sys::tracefs::FieldKind;
use crate::sys::user::User;
pub use budget::{Budget, Duty};
pub use condition::{Compare, Condition, Metric};
pub(crate) use event::{Edge, Event, Hook, InFile, MAX_EVENTS, Of, Place, Source, Take, Weight};

/// The parts of a history that is full, so that it loses at most so much of its length at once.
pub(crate) const PARTS: u32 = 4;

/// Whom to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The whole machine; until the command ends, if there is one.
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
    /// A file in the current directory, which the recorder names.
    NewFile,
    /// This file.
    File(PathBuf),
    /// Stdout: a pipe, or a file that the shell opened.
    Stdout,
}

/// When sampling begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// So long after the command, or after the recorder is ready.
    After(Duration),
    /// When the time since 1970 is next a multiple of this, so that several machines begin together.
    AtMultipleOf(Duration),
}

impl Start {
    /// Returns how long that is from a moment, ns since 1970.
    pub(crate) fn in_ns(self, unix_ns: u64) -> u64 {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match self {
            Self::After(delay) => ns(delay),
            Self::AtMultipleOf(every) => ns(every) - unix_ns % ns(every).max(1),
        }
    }
}

/// When a recording goes on in another file: whatever comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rotate {
    /// When the file is this old.
    pub every: Option<Duration>,
    /// When this much of it is written, bytes.
    pub bytes: Option<u64>,
}

/// How much history stays in memory until something asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flight {
    /// It reaches at least so far back, unless it has too many bytes, and at most a quarter more.
    pub lasts: Duration,
    /// It has so many bytes at most.
    pub bytes: u64,
}

impl Flight {
    /// Returns how long and how large the parts are of which the history consists.
    pub(crate) fn parts(self) -> Rotate {
        Rotate { every: Some(self.lasts / PARTS), bytes: Some(self.bytes / u64::from(PARTS)) }
    }
}

/// The socket by which the recorder is asked what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// None.
    Nothing,
    /// In a folder of the user, if there is one.
    Usual,
    /// At this path.
    At(PathBuf),
}

/// Which files of a recording that writes several stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Keep {
    /// So many at most, the one that is written included.
    pub files: Option<usize>,
    /// So many bytes of them together, the one that is written included.
    pub bytes: Option<u64>,
    /// Those that were written within this time.
    pub age: Option<Duration>,
}

/// Where finished files go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ship {
    /// The archive, as the user typed it.
    pub to: String,
    /// What has arrived stays here, too.
    pub keeps: bool,
}

/// What of the executable files goes into the recording.
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

/// How user stacks are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwind {
    /// The sampler walks by unwind tables; where it has none, it does as with `Copy`.
    Auto,
    /// The sampler walks frame pointers, and copies nothing.
    Fp,
    /// It also copies registers and the stack; of processes whose code all keeps frame pointers, registers and the top of the stack.
    Copy,
    /// It also copies registers and the stack.
    Dwarf,
}

impl Unwind {
    /// Returns true if less is copied of processes whose code all keeps frame pointers.
    pub fn judges(self) -> bool {
        matches!(self, Self::Auto | Self::Copy)
    }
}

/// Which waits of threads are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffCpu {
    /// A wait of this length, ns, is always kept; a shorter one with the probability length / this, and weighs this much.
    pub always_ns: u64,
    /// Record also who ended each wait.
    pub wakers: bool,
    /// Sample nothing else, unless the user chose events.
    pub only: bool,
}

/// When batches are written, and what the numbers of events mean.
#[derive(Debug, Clone)]
pub struct Pace {
    /// When the first row of a batch is this old.
    pub(crate) flush_ns: u64,
    /// When its columns reach about this many bytes.
    pub(crate) flush_bytes: usize,
    /// The expected time between two samples on one CPU, ns; 0 if the event does not count time.
    pub(crate) period_ns: u64,
    /// The events of waits.
    pub(crate) events: WaitEvents,
    /// The fields of tracepoints, each with the number of the event whose samples have it, and its name.
    pub(crate) fields: Vec<(u8, String, FieldType)>,
}

/// What the bytes of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldType {
    /// An integer without a sign.
    Unsigned,
    /// An integer with a sign.
    Signed,
    /// Characters.
    Text,
}

impl FieldType {
    fn of(kind: FieldKind) -> Self {
        match kind {
            FieldKind::Unsigned => Self::Unsigned,
            FieldKind::Signed => Self::Signed,
            FieldKind::Text | FieldKind::Located | FieldKind::LocatedBehind => Self::Text,
        }
    }
}

/// The numbers of the events of waits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WaitEvents {
    pub(crate) off_cpu: u8,
    pub(crate) run_delay: u8,
}

/// Everything that one run of the recorder needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whom to sample.
    pub target: Target,
    /// Patterns of names: the processes that have one when recording begins are targets, too.
    pub names: Vec<String>,
    /// Also record the processes that descend from the targets already.
    pub children: bool,
    /// The command to run, program first; empty if there is none.
    pub command: Vec<OsString>,
    /// What to sample; empty: cycles, or a timer where they cannot be counted.
    pub events: Vec<Event>,
    /// What the user must know about the choice of events.
    pub notes: Vec<String>,
    /// Which waits to record; `None`: none.
    pub off_cpu: Option<OffCpu>,
    /// How often counters are read; `None`: never.
    pub counters: Option<Duration>,
    /// The most samples of a probe per second; 0: no limit.
    pub max_event_rate: u64,
    /// As whom to run the command; `None` for the user of the recorder.
    pub run_as: Option<User>,
    /// How often to sample counters that have no rate of their own.
    pub rate: Rate,
    /// When sampling begins; `None` if it begins before the command.
    pub start: Option<Start>,
    /// When to stop by itself, counted from the begin of sampling.
    pub duration: Option<Duration>,
    /// Which part of the time is sampled; `None`: all of it.
    pub duty: Option<Duty>,
    /// What the recorder may use.
    pub budget: Budget,
    /// Sample user mode.
    pub user: bool,
    /// Sample kernel mode.
    pub kernel: bool,
    /// Sample the idle task.
    pub idle: bool,
    /// CPUs to sample: online ones, ascending.
    pub cpus: Vec<u32>,
    /// Some online CPUs are not sampled.
    pub some_cpus: bool,
    /// The most user frames of one stack.
    pub max_depth: u32,
    /// What is kept of user stacks.
    pub unwind: Unwind,
    /// One of so many walks by unwind tables is checked against a copy of the stack; 0: none.
    pub audit: u32,
    /// Unwind tables that took long to compile stay on disk for later recordings.
    pub keeps_tables: bool,
    /// The most of a stack that is copied, bytes.
    pub stack_bytes: u32,
    /// The user's labels.
    pub labels: Vec<(String, String)>,
    /// Size of the ring, bytes: a power of two.
    pub ring_bytes: u64,
    /// How long rows may wait before they are written, ns. A kill of the recorder loses at most this much.
    pub flush_ns: u64,
    /// How many bytes of rows may wait before they are written.
    pub flush_bytes: usize,
    /// What goes into the recording for reports on other machines.
    pub embed: Embed,
    /// The most bytes of files that go into it.
    pub embed_max_bytes: u64,
    /// Where to write.
    pub output: Destination,
    /// When to go on in another file; `None` for one file.
    pub rotate: Option<Rotate>,
    /// What stays in memory, so that nothing is written until something asks for it; `None`: all is written at once.
    pub flight: Option<Flight>,
    /// What asks for it.
    pub when: Vec<Condition>,
    /// Which of these files stay.
    pub keep: Keep,
    /// Where they go once they are finished; `None`: they stay.
    pub ship: Option<Ship>,
    /// The file that has the process id of the recorder while it records.
    pub pidfile: Option<PathBuf>,
    /// Where it can be asked.
    pub control: Control,
    /// Show the functions of the last seconds on the terminal.
    pub live: bool,
    /// Replace an existing file.
    pub force: bool,
    /// Print only errors.
    pub quiet: bool,
    /// Print each step.
    pub verbose: bool,
}

impl Options {
    /// Returns when batches are written.
    pub fn pace(&self, events: &[Event]) -> Pace {
        // The period is a time only if the event is a clock that counts nanoseconds.
        let period_ns = match self.rate {
            Rate::Frequency(hz) => 1_000_000_000 / hz.max(1),
            Rate::Period(units) => units,
        };
        let number = |wanted: Of| {
            let is_it = |event: &Event| matches!(event.source, Source::Wait { of, .. } if of == wanted);
            events.iter().position(is_it).unwrap_or(0) as u8
        };
        let field = |(event, it): (u8, &Event)| match &it.source {
            Source::Probe { place: Place::Tracepoint { sent: Some((name, field)), .. }, .. } => {
                Some((event, name.clone(), FieldType::of(field.kind)))
            }
            _ => None,
        };
        let fields = (0..=u8::MAX).zip(events).filter_map(field).collect();
        let events = WaitEvents { off_cpu: number(Of::OffCpu), run_delay: number(Of::RunDelay) };
        Pace { flush_ns: self.flush_ns, flush_bytes: self.flush_bytes, period_ns, events, fields }
    }

    /// Returns when a part of the recording ends and another one begins; `None` if it has one part.
    pub(crate) fn turns(&self) -> Option<Rotate> {
        self.rotate.or(self.flight.map(Flight::parts))
    }

    /// Returns the options of a recording without privileges, with at most so many bytes of each stack; or what of these options needs
    /// privileges.
    pub(crate) fn without_privileges(&self, max_stack_bytes: u32) -> Result<Self, &'static str> {
        let is_counter = |event: &Event| matches!(event.source, Source::Counter { .. });
        match self.target {
            Target::System => return Err("-a"),
            Target::Cgroups(_) => return Err("--cgroup"),
            Target::Processes(_) | Target::Threads(_) | Target::Command => {}
        }
        if self.off_cpu.is_some() {
            return Err("--off-cpu");
        }
        if !self.user {
            return Err("-K");
        }
        if !self.events.iter().all(is_counter) {
            return Err("an event of -e that is no counter");
        }
        if !self.when.is_empty() {
            return Err("--when");
        }
        if self.budget.is_limited() {
            return Err("--budget");
        }
        Ok(Self {
            kernel: false,
            unwind: if self.unwind == Unwind::Fp { Unwind::Fp } else { Unwind::Dwarf },
            audit: 0,
            stack_bytes: self.stack_bytes.min(max_stack_bytes),
            counters: None,
            ..self.clone()
        })
    }

    /// Returns true if all that a recorded thread runs is sampled, so that the report can compare the samples with the kernel's account
    /// of its CPU time. That is not so for cgroups: a thread may be moved into a cgroup and out of it.
    pub(crate) fn accounts(&self) -> bool {
        self.user && self.kernel && !self.some_cpus && !matches!(self.target, Target::Cgroups(_))
    }
}

impl Event {
    /// Returns true if the returns of functions of programs are sampled.
    pub(crate) fn is_of_returns(&self) -> bool {
        matches!(self.source, Source::Probe { place: Place::User { edge: Edge::Return, .. }, .. })
    }

    /// Returns true if it is at a function of the kernel.
    pub(crate) fn is_in_kernel(&self) -> bool {
        matches!(self.source, Source::Probe { place: Place::Kernel { .. }, .. })
    }

    /// Returns true if a hit weighs how long a function ran.
    pub(crate) fn has_durations(&self) -> bool {
        matches!(self.source, Source::Probe { take: Take { weight: Weight::Duration, .. }, .. })
    }

    /// Returns the function of the kernel that is to call the program itself, and its side.
    pub(crate) fn calling(&self) -> Option<(&str, Edge)> {
        match &self.source {
            Source::Probe { place: Place::Kernel { function, edge, hook: Hook::Call }, .. } => {
                Some((function, *edge))
            }
            _ => None,
        }
    }

    /// Returns the sampling period that the recorder varies; `None` if the period stays as it is, or the kernel varies it.
    pub(crate) fn varied_period(&self) -> Option<Duration> {
        match self.source {
            Source::Counter { counter, rate: Rate::Frequency(hz) } if counter.is_cpu_clock() => {
                Some(Duration::from_secs(1) / hz.try_into().ok()?)
            }
            _ => None,
        }
    }
}
