//! Looks whether conditions of the user hold, in what is recorded anyway.
//!
//! Pure. A condition that holds asks once, and again only after it did not hold.

use std::time::Duration;

use icecore_format::records::Counter;
use icecore_text::glob::is_like;
use icecore_text::quantity::{bytes, duration};
use rustc_hash::FxHashMap;

use crate::kernel::wire::Process;
use crate::settings::{Compare, Condition, Metric};

/// The most processes whose last reading is remembered.
const MAX_PROCESSES: usize = 4_096;
/// What the kernel keeps of a name, bytes.
const COMM_BYTES: usize = 15;

/// The conditions of a recording.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    all: Vec<Watched>,
    /// Readings that follow another one sooner are not looked at: a new file begins with one, and in so short a time a counter says little.
    least_ns: u64,
    /// The last reading of the machine that was looked at.
    before: Option<(u64, FxHashMap<Counter, u64>)>,
    /// Time and CPU time of processes that have a condition, at their last reading.
    processes: FxHashMap<(u32, u64), (u64, u64)>,
}

/// A condition, and whether it holds.
#[derive(Debug)]
struct Watched {
    condition: Condition,
    /// When it began to hold, ns.
    since_ns: Option<u64>,
    has_asked: bool,
    /// The value of a process since the last reading ended that comes closest to holding, if one has been seen.
    of_processes: Option<(f64, u32)>,
    /// That of the reading before: a process that does nothing keeps its memory, and has no row.
    before: Option<(f64, u32)>,
}

impl Conditions {
    /// Watches these, in counters that are read so often.
    pub(crate) fn new(conditions: &[Condition], every: Duration) -> Self {
        let watched = |condition: &Condition| {
            let (since_ns, has_asked, of_processes, before) = Default::default();
            Watched { condition: condition.clone(), since_ns, has_asked, of_processes, before }
        };
        let least_ns = u64::try_from(every.mul_f64(0.9).as_nanos()).unwrap_or(u64::MAX);
        Self { all: conditions.iter().map(watched).collect(), least_ns, ..Self::default() }
    }

    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Notes a reading of a process.
    pub(crate) fn process(&mut self, process: &Process, comm: &str) {
        let is_of = |watched: &Watched| match &watched.condition.metric {
            Metric::CpuOf(pattern) | Metric::RssOf(pattern) => is_named(pattern, comm),
            _ => false,
        };
        if !self.all.iter().any(is_of) {
            return;
        }
        let before = self.processes.get(&process.key()).copied();
        let passed_ns = before.and_then(|(time_ns, _)| process.time_ns.checked_sub(time_ns));
        let is_early = passed_ns.is_some_and(|passed| passed < self.least_ns);
        let cpu = before
            .zip(passed_ns)
            .filter(|_| !is_early)
            .and_then(|((_, cpu_ns), passed)| share(process.cpu_ns.checked_sub(cpu_ns)?, passed));
        if self.processes.len() >= MAX_PROCESSES {
            self.processes.clear();
        }
        if process.has_ended {
            self.processes.remove(&process.key());
        } else if !is_early {
            self.processes.insert(process.key(), (process.time_ns, process.cpu_ns));
        }
        for watched in self.all.iter_mut().filter(|watched| is_of(watched)) {
            // What it had is not what it has.
            watched.before.take_if(|(_, of)| *of == process.tgid);
            let value = match watched.condition.metric {
                Metric::CpuOf(_) => cpu,
                _ if process.has_ended => {
                    watched.of_processes.take_if(|(_, of)| *of == process.tgid);
                    None
                }
                _ => process.memory.map(|bytes| bytes as f64),
            };
            let compare = watched.condition.compare;
            let closest = |one: &(f64, u32), other: &(f64, u32)| match compare {
                Compare::Below | Compare::AtMost => other.0.total_cmp(&one.0),
                _ => one.0.total_cmp(&other.0),
            };
            let value = value.map(|value| (value, process.tgid));
            watched.of_processes = value.into_iter().chain(watched.of_processes).max_by(closest);
        }
    }

    /// Ends a reading with the counters of the machine; returns what holds now and did not before.
    pub(crate) fn reading(&mut self, time_ns: u64, values: &[(Counter, u64)]) -> Vec<String> {
        let is_early =
            self.before.as_ref().is_some_and(|(before, _)| time_ns.saturating_sub(*before) < self.least_ns);
        if self.all.is_empty() || is_early {
            return Vec::new();
        }
        let now: FxHashMap<Counter, u64> = values.iter().copied().collect();
        let before = self.before.replace((time_ns, now.clone()));
        let grown = |counter: Counter| {
            let (_, before) = before.as_ref()?;
            now.get(&counter)?.checked_sub(*before.get(&counter)?)
        };
        let passed_ns = before.as_ref().and_then(|(before_ns, _)| time_ns.checked_sub(*before_ns));
        let mut asks = Vec::new();
        for watched in &mut self.all {
            let value = match &watched.condition.metric {
                Metric::Cpu => grown(Counter::CPU).and_then(|busy| {
                    let others = [Counter::CPU_IDLE, Counter::CPU_IO_WAIT, Counter::CPU_STEAL];
                    share(busy, busy + others.into_iter().filter_map(grown).sum::<u64>())
                }),
                Metric::Memory => {
                    let total = now.get(&Counter::MEMORY_TOTAL);
                    now.get(&Counter::MEMORY).zip(total).and_then(|(used, total)| share(*used, *total))
                }
                Metric::Pressure(counter) => {
                    grown(*counter).zip(passed_ns).and_then(|(ns, passed)| share(ns, passed))
                }
                Metric::CpuOf(_) | Metric::RssOf(_) => watched.of_process(),
                Metric::RunDelay | Metric::ExitOf(_) => continue,
            };
            asks.extend(watched.look(time_ns, value));
        }
        asks
    }

    /// Notes that a process has ended, as wait(2) says; returns what holds.
    pub(crate) fn exit(&self, comm: &str, tgid: u32, status: u32) -> Option<String> {
        let code = match (status & 0x7f, status >> 8 & 0xff) {
            (0, code) => code,
            (signal, _) => 128 + signal,
        };
        let is_it = |Watched { condition: Condition { metric, compare, value, .. }, .. }: &&Watched| {
            matches!(metric, Metric::ExitOf(pattern) if is_named(pattern, comm))
                && compare.holds(f64::from(code), *value)
        };
        let watched = self.all.iter().find(is_it)?;
        Some(format!("{}: {comm} ({tgid}) ended with {code}", watched.condition.text))
    }

    /// Notes that a thread was ready for so long before it had a CPU; returns what holds.
    pub(crate) fn waited(&self, comm: &str, tid: u32, ns: u64) -> Option<String> {
        let is_it = |Watched { condition: Condition { metric, compare, value, .. }, .. }: &&Watched| {
            *metric == Metric::RunDelay && compare.holds(ns as f64 / 1e9, *value)
        };
        let watched = self.all.iter().find(is_it)?;
        Some(format!("{}: {comm} ({tid}) waited {} for a CPU", watched.condition.text, duration(ns)))
    }
}

impl Watched {
    /// Returns the value of a process at this reading.
    fn of_process(&mut self) -> Option<f64> {
        let keeps = matches!(self.condition.metric, Metric::RssOf(_));
        let now = self.of_processes.take();
        // One that holds and does nothing counts still.
        let holds = |(value, _): &(f64, u32)| self.condition.compare.holds(*value, self.condition.value);
        let before = self.before.filter(|before| keeps && holds(before));
        self.before = now.filter(|now| holds(now) || before.is_none()).or(before);
        self.before.map(|(value, _)| value)
    }

    /// Looks at the value of a reading; returns what holds, if it asks now.
    fn look(&mut self, time_ns: u64, value: Option<f64>) -> Option<String> {
        let Condition { text, metric, compare, value: with, lasts } = &self.condition;
        let Some(value) = value.filter(|value| compare.holds(*value, *with)) else {
            (self.since_ns, self.has_asked) = (None, false);
            return None;
        };
        let since_ns = *self.since_ns.get_or_insert(time_ns);
        if self.has_asked || Duration::from_nanos(time_ns.saturating_sub(since_ns)) < *lasts {
            return None;
        }
        self.has_asked = true;
        let shown = match metric {
            Metric::RssOf(_) => bytes(value as u64),
            _ => format!("{value:.1}%"),
        };
        let is_of_process = matches!(metric, Metric::CpuOf(_) | Metric::RssOf(_));
        let of = self.before.filter(|_| is_of_process).map(|(_, tgid)| format!(" (process {tgid})"));
        Some(format!("{text}: {shown}{}", of.unwrap_or_default()))
    }
}

/// Returns true if a process with this name is meant. The kernel keeps 15 bytes of a name, so that a longer one is known by these.
fn is_named(pattern: &str, comm: &str) -> bool {
    let is_cut = comm.len() == COMM_BYTES && pattern.len() > COMM_BYTES && !pattern.contains(['*', '?']);
    is_like(pattern, comm) || is_cut && pattern.starts_with(comm)
}

/// Returns a part of a whole, percent; `None` of nothing.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn watch(metric: Metric, value: f64, lasts_s: u64) -> Conditions {
        let (text, lasts) = ("it".to_owned(), Duration::from_secs(lasts_s));
        Conditions::new(
            &[Condition { text, metric, compare: Compare::Above, value, lasts }],
            Duration::from_secs(1),
        )
    }

    /// Two CPUs, of which so many seconds were busy up to a second.
    fn machine(second: u64, busy: u64) -> Vec<(Counter, u64)> {
        vec![(Counter::CPU, busy * S), (Counter::CPU_IDLE, (2 * second - busy) * S)]
    }

    #[test]
    fn a_condition_asks_when_it_has_held_long_enough_and_again_only_after_it_did_not_hold() {
        let mut conditions = watch(Metric::Cpu, 80.0, 2);
        let busy = [0, 2, 4, 6, 8, 8, 10, 12, 14];
        let asks: Vec<bool> = (0..)
            .zip(busy)
            .map(|(second, busy)| !conditions.reading(second * S, &machine(second, busy)).is_empty())
            .collect();
        assert_eq!(asks, [false, false, false, true, false, false, false, false, true]);
    }

    #[test]
    fn readings_that_follow_each_other_too_soon_count_as_one() {
        // A new part begins each half second, with readings a tick apart, in which the counters of the machine may stand still.
        let mut conditions = watch(Metric::Cpu, 80.0, 3);
        let mut asks = 0;
        for half in 0..14_u64 {
            for extra_ns in [0, S / 100] {
                let busy_ns = half * S;
                let values = [(Counter::CPU, busy_ns), (Counter::CPU_IDLE, half * S / 50)];
                asks += conditions.reading(half * S / 2 + extra_ns, &values).len();
            }
        }
        assert_eq!(asks, 1, "it holds all the time");
        let mut conditions = watch(Metric::CpuOf("a".into()), 104.0, 0);
        for (time_ns, cpu_ns) in
            [(S, S), (2 * S, 2 * S), (2 * S + 2_000_000, 2 * S + 10_000_000), (3 * S, 3 * S)]
        {
            conditions.process(&Process { tgid: 7, time_ns, cpu_ns, ..Process::default() }, "a");
            assert_eq!(conditions.reading(time_ns, &[]), [""; 0], "one thread is no more than one CPU");
        }
    }

    #[test]
    fn pressure_and_memory_are_shares() {
        let mut conditions = watch(Metric::Pressure(Counter::IO_PRESSURE), 30.0, 0);
        let pressure = |ns| vec![(Counter::IO_PRESSURE, ns)];
        assert_eq!(conditions.reading(S, &pressure(0)), [""; 0], "nothing to compare with");
        assert_eq!(conditions.reading(3 * S, &pressure(S / 2)), [""; 0]);
        assert_eq!(conditions.reading(4 * S, &pressure(S)), ["it: 50.0%"]);
        let mut conditions = watch(Metric::Memory, 90.0, 0);
        let values = [(Counter::MEMORY, 19), (Counter::MEMORY_TOTAL, 20)];
        assert_eq!(conditions.reading(S, &values), ["it: 95.0%"]);
    }

    fn process(tgid: u32, second: u64, cpu_s: u64, memory: u64) -> Process {
        let (time_ns, cpu_ns, memory) = (second * S, cpu_s * S, Some(memory));
        Process { tgid, time_ns, cpu_ns, memory, ..Process::default() }
    }

    #[test]
    fn a_process_is_known_by_its_name_and_the_largest_one_counts() {
        let mut conditions = watch(Metric::RssOf("post*".into()), 1e9, 0);
        conditions.process(&process(1, 1, 0, 2 << 30), "other");
        conditions.process(&process(2, 1, 0, 2 << 30), "postgres");
        conditions.process(&process(3, 1, 0, 1 << 20), "postgres");
        assert_eq!(conditions.reading(S, &[]), ["it: 2.0 GiB (process 2)"]);
        assert_eq!(conditions.reading(2 * S, &[]), [""; 0], "it sleeps, and has asked");
        conditions.process(&process(2, 3, 0, 1 << 20), "postgres");
        assert_eq!(conditions.reading(3 * S, &[]), [""; 0], "it has given it back");
        conditions.process(&process(3, 4, 0, 3 << 30), "postgres");
        assert_eq!(conditions.reading(4 * S, &[]), ["it: 3.0 GiB (process 3)"]);
        let mut conditions = watch(Metric::CpuOf("a".into()), 150.0, 0);
        for (second, cpu_s) in [(1, 0), (2, 1), (3, 3)] {
            conditions.process(&process(7, second, cpu_s, 0), "a");
            let asks = conditions.reading(second * S, &[]);
            assert_eq!(asks.len() == 1, second == 3, "{second}: {asks:?}");
        }
    }

    #[test]
    fn memory_holds_while_the_process_sleeps_and_goes_with_it() {
        let mut conditions = watch(Metric::RssOf("a".into()), 1e9, 2);
        conditions.process(&process(7, 1, 0, 2 << 30), "a");
        let asks: Vec<usize> = (1..5).map(|second| conditions.reading(second * S, &[]).len()).collect();
        assert_eq!(asks, [0, 0, 1, 0], "it has no row while it sleeps");
        // Two processes, each shorter than what must last.
        let mut conditions = watch(Metric::RssOf("a".into()), 1e9, 3);
        for (tgid, second) in [(7, 1), (8, 6)] {
            conditions.process(&process(tgid, second, 0, 2 << 30), "a");
            assert_eq!(conditions.reading(second * S, &[]), [""; 0]);
            conditions.process(&Process { has_ended: true, ..process(tgid, second + 1, 0, 0) }, "a");
            for later in 1..4 {
                assert_eq!(conditions.reading((second + later) * S, &[]), [""; 0], "{tgid}");
            }
        }
    }

    #[test]
    fn the_end_of_a_process_is_what_a_shell_shows() {
        let exits = |status| watch(Metric::ExitOf("a".into()), 0.0, 0).exit("a", 7, status);
        assert_eq!(exits(0), None);
        assert_eq!(exits(3 << 8), Some("it: a (7) ended with 3".to_owned()));
        assert_eq!(exits(0x80 | 11), Some("it: a (7) ended with 139".to_owned()));
        assert_eq!(watch(Metric::ExitOf("a".into()), 0.0, 0).exit("b", 7, 3 << 8), None);
        let long = watch(Metric::ExitOf("myveryverylongservicename".into()), 0.0, 0);
        assert!(long.exit("myveryverylongs", 7, 256).is_some() && long.exit("myvery", 7, 256).is_none());
        let waits = watch(Metric::RunDelay, 0.1, 0);
        assert_eq!(waits.waited("a", 7, S / 20), None);
        assert_eq!(waits.waited("a", 7, S / 5), Some("it: a (7) waited 200.0 ms for a CPU".to_owned()));
    }
}
