//! Looks whether conditions of the user hold, in what is recorded anyway.
//!
//! Pure. A condition that holds asks once, and again only after it did not hold.

use std::time::Duration;

use icecore_format::records::Counter;
use icecore_text::glob::is_like;
use icecore_text::quantity::{bytes, duration};
use rustc_hash::FxHashMap;

use crate::kernel::wire::Process;
use crate::settings::{Condition, Metric};

/// The most processes whose last reading is remembered.
const MAX_PROCESSES: usize = 4_096;

/// The conditions of a recording.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    all: Vec<Watched>,
    /// The last reading of the machine.
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
    /// The highest value of a process since the last reading ended, if one has been seen.
    of_processes: Option<(f64, u32)>,
}

impl Conditions {
    /// Watches these.
    pub(crate) fn new(conditions: &[Condition]) -> Self {
        let watched = |condition: &Condition| {
            let (since_ns, has_asked, of_processes) = Default::default();
            Watched { condition: condition.clone(), since_ns, has_asked, of_processes }
        };
        Self { all: conditions.iter().map(watched).collect(), ..Self::default() }
    }

    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Notes a reading of a process.
    pub(crate) fn process(&mut self, process: &Process, comm: &str) {
        let is_of = |watched: &Watched| match &watched.condition.metric {
            Metric::CpuOf(pattern) | Metric::RssOf(pattern) => is_like(pattern, comm),
            _ => false,
        };
        if !self.all.iter().any(is_of) {
            return;
        }
        let now = (process.time_ns, process.cpu_ns);
        if self.processes.len() >= MAX_PROCESSES {
            self.processes.clear();
        }
        let before = match process.has_ended {
            true => self.processes.remove(&process.key()),
            false => self.processes.insert(process.key(), now),
        };
        let cpu = before
            .and_then(|(time_ns, cpu_ns)| share(now.1.checked_sub(cpu_ns)?, now.0.checked_sub(time_ns)?));
        for watched in self.all.iter_mut().filter(|watched| is_of(watched)) {
            let value = match watched.condition.metric {
                Metric::CpuOf(_) => cpu,
                _ => process.memory.map(|bytes| bytes as f64),
            };
            watched.of_processes = value
                .map(|value| (value, process.tgid))
                .into_iter()
                .chain(watched.of_processes)
                .max_by(|one, other| one.0.total_cmp(&other.0));
        }
    }

    /// Ends a reading with the counters of the machine; returns what holds now and did not before.
    pub(crate) fn reading(&mut self, time_ns: u64, values: &[(Counter, u64)]) -> Option<String> {
        if self.all.is_empty() {
            return None;
        }
        let now: FxHashMap<Counter, u64> = values.iter().copied().collect();
        let before = self.before.replace((time_ns, now.clone()));
        let grown = |counter: Counter| {
            let (_, before) = before.as_ref()?;
            now.get(&counter)?.checked_sub(*before.get(&counter)?)
        };
        let passed_ns = before.as_ref().and_then(|(before_ns, _)| time_ns.checked_sub(*before_ns));
        let mut asks = None;
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
                Metric::CpuOf(_) | Metric::RssOf(_) => watched.of_processes.map(|(value, _)| value),
                Metric::RunDelay | Metric::ExitOf(_) => continue,
            };
            asks = watched.look(time_ns, value).or(asks);
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
            matches!(metric, Metric::ExitOf(pattern) if is_like(pattern, comm))
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
    /// Looks at the value of a reading; returns what holds, if it asks now.
    fn look(&mut self, time_ns: u64, value: Option<f64>) -> Option<String> {
        let process = self.of_processes.take();
        let Condition { text, metric, compare, value: with, lasts } = &self.condition;
        let Some(value) = value.filter(|value| compare.holds(*value, *with)) else {
            // A process that did nothing has no row: it has the memory that it had.
            if !(matches!(metric, Metric::RssOf(_)) && process.is_none()) {
                (self.since_ns, self.has_asked) = (None, false);
            }
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
        let of = process.map(|(_, tgid)| format!(" (process {tgid})")).unwrap_or_default();
        Some(format!("{text}: {shown}{of}"))
    }
}

/// Returns a part of a whole, percent; `None` of nothing.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Compare;

    const S: u64 = 1_000_000_000;

    fn watch(metric: Metric, value: f64, lasts_s: u64) -> Conditions {
        let (text, lasts) = ("it".to_owned(), Duration::from_secs(lasts_s));
        Conditions::new(&[Condition { text, metric, compare: Compare::Above, value, lasts }])
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
            .map(|(second, busy)| conditions.reading(second * S, &machine(second, busy)).is_some())
            .collect();
        assert_eq!(asks, [false, false, false, true, false, false, false, false, true]);
    }

    #[test]
    fn pressure_and_memory_are_shares() {
        let mut conditions = watch(Metric::Pressure(Counter::IO_PRESSURE), 30.0, 0);
        let pressure = |ns| vec![(Counter::IO_PRESSURE, ns)];
        assert_eq!(conditions.reading(S, &pressure(0)), None, "nothing to compare with");
        assert_eq!(conditions.reading(3 * S, &pressure(S / 2)), None);
        assert_eq!(conditions.reading(4 * S, &pressure(S)), Some("it: 50.0%".to_owned()));
        let mut conditions = watch(Metric::Memory, 90.0, 0);
        assert_eq!(
            conditions.reading(S, &[(Counter::MEMORY, 19), (Counter::MEMORY_TOTAL, 20)]),
            Some("it: 95.0%".to_owned())
        );
    }

    #[test]
    fn a_process_is_known_by_its_name_and_the_largest_one_counts() {
        let process = |tgid, time_s: u64, cpu_ns, memory| Process {
            tgid,
            time_ns: time_s * S,
            cpu_ns,
            memory: Some(memory),
            ..Process::default()
        };
        let mut conditions = watch(Metric::RssOf("post*".into()), 1e9, 0);
        conditions.process(&process(1, 1, 0, 2 << 30), "other");
        conditions.process(&process(2, 1, 0, 2 << 30), "postgres");
        conditions.process(&process(3, 1, 0, 1 << 20), "postgres");
        assert_eq!(conditions.reading(S, &[]), Some("it: 2.0 GiB (process 2)".to_owned()));
        assert_eq!(conditions.reading(2 * S, &[]), None, "it sleeps, and has asked");
        let mut conditions = watch(Metric::CpuOf("a".into()), 150.0, 0);
        for (second, cpu_s) in [(1, 0), (2, 1), (3, 3)] {
            conditions.process(&process(7, second, cpu_s * S, 0), "a");
            let asks = conditions.reading(second * S, &[]);
            assert_eq!(asks.is_some(), second == 3, "{second}: {asks:?}");
        }
    }

    #[test]
    fn the_end_of_a_process_is_what_a_shell_shows() {
        let exits = |status| watch(Metric::ExitOf("a".into()), 0.0, 0).exit("a", 7, status);
        assert_eq!(exits(0), None);
        assert_eq!(exits(3 << 8), Some("it: a (7) ended with 3".to_owned()));
        assert_eq!(exits(0x80 | 11), Some("it: a (7) ended with 139".to_owned()));
        assert_eq!(watch(Metric::ExitOf("a".into()), 0.0, 0).exit("b", 7, 3 << 8), None);
        let waits = watch(Metric::RunDelay, 0.1, 0);
        assert_eq!(waits.waited("a", 7, S / 20), None);
        assert_eq!(waits.waited("a", 7, S / 5), Some("it: a (7) waited 200.0 ms for a CPU".to_owned()));
    }
}
