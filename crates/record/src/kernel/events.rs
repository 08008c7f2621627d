//! Chooses the events of a recording, and opens those that are counters or tracepoints; and the queues of mapping reports.

use std::io;
use std::os::fd::OwnedFd;

use anyhow::{Context as _, bail};

use crate::proc;
use crate::settings::{Event, Hook, Of, OffCpu, Options, Place, Source};
use crate::sys::perf::{self, Counter, Rate};
use crate::sys::queue::Queue;

/// An event that is open and does not run yet.
pub enum Opened {
    /// A counter on each CPU.
    Counters(Vec<OwnedFd>),
    /// A tracepoint, on all CPUs.
    Tracepoint(OwnedFd),
    /// A probe, which is made when the sampler is attached.
    Probe,
    /// Waits of threads: the program runs at every switch.
    Waits,
}

impl Opened {
    /// Returns true if a pause detaches its program and attaches it again. Programs at switches have a way of their own, and counters stop. Kprobes and
    /// probes in programs stay: to make them again takes privileges that the recorder has given up, and the file may be another one by then.
    /// `has_links`: the kernel detaches a program from an event that stays open.
    pub(super) fn can_rest(&self, event: &Event, has_links: bool) -> bool {
        match self {
            Self::Counters(_) | Self::Waits => false,
            Self::Tracepoint(_) => has_links,
            Self::Probe => {
                let Source::Probe { place, .. } = &event.source else { return false };
                matches!(place, Place::Kernel { hook: Hook::Call, .. })
            }
        }
    }

    /// Returns the same event for another attachment.
    ///
    /// # Errors
    /// If no more files may be open.
    pub(super) fn again(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Counters(fds) => {
                Self::Counters(fds.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?)
            }
            Self::Tracepoint(fd) => Self::Tracepoint(fd.try_clone()?),
            Self::Probe => Self::Probe,
            Self::Waits => Self::Waits,
        })
    }
}

/// Returns the events that the user wants: without a choice cycles if the machine can count them, and a timer otherwise.
pub fn chosen(options: &Options, notes: &mut Vec<String>) -> Vec<Event> {
    let mut events = options.events.clone();
    if events.is_empty() && !options.off_cpu.is_some_and(|off_cpu| off_cpu.only) {
        events.push(default_counter(options, notes));
    }
    if let Some(OffCpu { always_ns, wakers, .. }) = options.off_cpu {
        let of_waits = |name: &str, of| Event {
            name: name.to_owned(),
            unit: "ns".to_owned(),
            source: Source::Wait { of, always_ns },
        };
        events.push(of_waits("off-cpu", Of::OffCpu));
        events.push(of_waits("run-delay", Of::RunDelay));
        events.extend(wakers.then(|| of_waits("waker", Of::Waker)));
    }
    events
}

/// Returns the events that the user wants, for a recording without privileges. Without a choice it is a timer: what it counts says how long
/// processes ran, also in the kernel, where they are not sampled.
pub fn chosen_without_privileges(options: &Options) -> Vec<Event> {
    if !options.events.is_empty() {
        return options.events.clone();
    }
    let source = Source::Counter { counter: Counter::CPU_CLOCK, rate: options.rate };
    vec![Event { name: "cpu-clock".to_owned(), unit: "ns".to_owned(), source }]
}

/// Returns the counter that is sampled without a choice.
fn default_counter(options: &Options, notes: &mut Vec<String>) -> Event {
    let first = options.cpus.first().copied().unwrap_or(0);
    let open =
        perf::open_sampling(Counter::CYCLES, options.rate, first).map_err(|error| error.raw_os_error());
    let (name, unit, counter) = match open {
        Err(Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV)) => {
            notes.push(
                "no counter of CPU cycles here (usual in virtual machines): sampling by cpu-clock".to_owned(),
            );
            ("cpu-clock", "ns", Counter::CPU_CLOCK)
        }
        _ => ("cycles", "cycles", Counter::CYCLES),
    };
    let source = Source::Counter { counter, rate: options.rate };
    Event { name: name.to_owned(), unit: unit.to_owned(), source }
}

/// Opens the events.
///
/// # Errors
/// If the kernel refuses one; the message says what to do.
pub fn open_sampling(
    options: &Options,
    events: &[Event],
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<Opened>> {
    let mut gone = Vec::new();
    let opened = events
        .iter()
        .map(|event| match &event.source {
            Source::Counter { counter, rate } => {
                let counter = Counter {
                    user: counter.user && options.user,
                    kernel: counter.kernel && options.kernel,
                    ..*counter
                };
                open_counters(&event.name, counter, *rate, &options.cpus, &mut gone).map(Opened::Counters)
            }
            Source::Probe { place: Place::Tracepoint { id, .. }, .. } => {
                let opened = perf::open_tracepoint(*id).map_err(|error| cannot_open(error, &event.name, ""));
                opened.map(Opened::Tracepoint)
            }
            Source::Probe { .. } => Ok(Opened::Probe),
            Source::Wait { .. } => Ok(Opened::Waits),
        })
        .collect();
    gone.sort_unstable();
    gone.dedup();
    notes.extend(gone.into_iter().map(|cpu| format!("CPU {cpu} went offline and is not sampled")));
    opened
}

/// Opens a counter on each CPU; lists those that are offline.
fn open_counters(
    name: &str,
    counter: Counter,
    rate: Rate,
    cpus: &[u32],
    gone: &mut Vec<u32>,
) -> anyhow::Result<Vec<OwnedFd>> {
    if let Rate::Frequency(hz) = rate {
        check_rate(hz)?;
    }
    let mut fds = Vec::with_capacity(cpus.len());
    for cpu in cpus {
        match perf::open_sampling(counter, rate, *cpu) {
            Ok(fd) => fds.push(fd),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => gone.push(*cpu),
            Err(error) => return Err(cannot_open(error, name, &format!(" on CPU {cpu}"))),
        }
    }
    Ok(fds)
}

fn cannot_open(error: io::Error, name: &str, place: &str) -> anyhow::Error {
    let remedy = perf::explain_open(&error);
    anyhow::Error::new(error).context(format!("cannot sample `{name}`{place}: {remedy}"))
}

/// Returns an error if the kernel takes no samples at this rate.
pub(crate) fn check_rate(hz: u64) -> anyhow::Result<()> {
    let name = "/proc/sys/kernel/perf_event_max_sample_rate";
    let limit = std::fs::read_to_string(name).ok().and_then(|text| text.trim().parse::<u64>().ok());
    match limit {
        Some(limit) if hz > limit => bail!(
            "cannot sample at {hz} Hz: kernel.perf_event_max_sample_rate is {limit}; lower -F, or raise the limit with sysctl"
        ),
        _ => Ok(()),
    }
}

/// Opens the mapping queue of every CPU, also of those that are not sampled.
pub fn open_queues() -> anyhow::Result<Vec<Queue>> {
    let open = |cpu: u32| match perf::open_mappings(cpu) {
        Ok(event) => {
            Some(Queue::map(event).with_context(|| format!("cannot map the queue of mappings of CPU {cpu}")))
        }
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => None,
        Err(error) => {
            let remedy = perf::explain_open(&error);
            Some(Err(error).context(format!("cannot watch mappings on CPU {cpu}: {remedy}")))
        }
    };
    proc::cpus::online()?.into_iter().filter_map(open).collect()
}
