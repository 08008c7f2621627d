//! Compares samples with the kernel's own account of CPU time: do the samples represent what ran?
//!
//! Each thread is compared over exactly the stretches of time that its rows of the account cover.
//!
//! # Statistics
//! Samples that are independent of a program hit it as often as they should, except for counting noise: for *n* expected samples
//! the standard deviation is at most √*n*. A difference of more than `DEVIATIONS` standard deviations, and of more than
//! `DIFFERENCE` of the larger figure, is not chance.

use std::collections::BTreeMap;

use icecore_format::records::{CpuScope, CpuTime, EventV1, RateChange, SessionV1, TargetKind};
use rayon::prelude::*;
use serde::Serialize;

use icecore_profile::map::Map;
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::recording::events::Meaning;
use icecore_profile::recording::load::parts::Parts;
use icecore_profile::recording::rates::Rates;
use icecore_profile::stacks::hits::Selection;

/// A difference of so many standard deviations is not chance: 1 of 16,000.
const DEVIATIONS: f64 = 4.0;
/// A difference below this share of the larger figure does not matter.
const DIFFERENCE: f64 = 0.20;
/// How many processes and threads `--json` lists.
const LISTED: usize = 20;

/// The CPU time of everything that can be compared.
#[derive(Debug, Default, Serialize)]
pub struct Account {
    /// By the kernel's account (`sum_exec_runtime`), ns.
    pub kernel_ns: u64,
    /// By samples, ns.
    pub sampled_ns: u64,
    /// User time by the kernel's account (`utime`); whole ticks on most kernels.
    pub user_ns: u64,
    /// Kernel time by the kernel's account (`stime`), likewise.
    pub system_ns: u64,
    /// Threads, the largest differences first.
    pub threads: Vec<Accounted>,
    /// Processes, the largest differences first.
    pub processes: Vec<Accounted>,
    /// The largest difference that is more than chance.
    #[serde(skip)]
    pub disagrees: Option<Disagreement>,
}

/// One thread or process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Accounted {
    /// Process id.
    pub tgid: u32,
    /// Thread id; `None` for a whole process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Name of the thread, or of the process.
    pub comm: String,
    /// CPU time by the kernel's account, ns.
    pub kernel_ns: u64,
    /// CPU time by samples, ns.
    pub sampled_ns: u64,
}

/// A thread or process whose samples disagree with the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// Its description, for people.
    pub who: String,
    /// CPU time by the kernel's account, ns.
    pub kernel_ns: u64,
    /// CPU time by samples, ns.
    pub sampled_ns: u64,
}

impl Accounted {
    fn add(&mut self, kernel_ns: u64, sampled_ns: u64) {
        self.kernel_ns = self.kernel_ns.saturating_add(kernel_ns);
        self.sampled_ns = self.sampled_ns.saturating_add(sampled_ns);
    }

    fn difference_ns(&self) -> u64 {
        self.kernel_ns.abs_diff(self.sampled_ns)
    }

    /// Returns true if the difference is more than chance, given the time for which one sample stands.
    fn disagrees(&self, period_ns: f64) -> bool {
        let larger = self.kernel_ns.max(self.sampled_ns) as f64;
        let noise = DEVIATIONS * (larger * period_ns).sqrt();
        self.difference_ns() as f64 > noise.max(DIFFERENCE * larger)
    }
}

/// Compares a recording with its account.
///
/// # Errors
/// Why nothing can be compared, for people.
pub fn compare(loaded: &Loaded<'_>) -> Result<Account, &'static str> {
    let selection = loaded.selection();
    let tables = &loaded.tables;
    let threads = threads(loaded)?;
    let sampled = sampled(loaded, &threads);
    let comms: Map<(u32, u32), &str> =
        tables.tasks.iter().map(|(_, task)| ((task.tgid, task.tid), tables.text(task.comm))).collect();
    let mut account = Account::default();
    let (mut rows, mut processes): (Vec<Accounted>, BTreeMap<u32, Accounted>) = Default::default();
    for (&(tgid, tid), thread) in &threads {
        let sampled_ns = sampled.by_thread.get(&(tgid, tid)).copied().unwrap_or(0);
        let process = process_name(selection, tgid, thread.last_ns());
        let comm = comms.get(&(tgid, tid)).map_or_else(|| process.clone(), |comm| (*comm).to_owned());
        let row = |tgid, tid| Accounted { tgid, tid, comm: String::new(), kernel_ns: 0, sampled_ns: 0 };
        let pid = |id| tables.parts.pid(id);
        let of_process = processes.entry(tgid).or_insert_with(|| row(pid(tgid), None));
        if of_process.comm.is_empty() || tid == tgid {
            of_process.comm.clone_from(if process.is_empty() { &comm } else { &process });
        }
        of_process.add(thread.kernel_ns, sampled_ns);
        rows.push(Accounted {
            comm,
            kernel_ns: thread.kernel_ns,
            sampled_ns,
            ..row(pid(tgid), Some(pid(tid)))
        });
        account.kernel_ns = account.kernel_ns.saturating_add(thread.kernel_ns);
        account.sampled_ns = account.sampled_ns.saturating_add(sampled_ns);
        account.user_ns = account.user_ns.saturating_add(thread.user_ns);
        account.system_ns = account.system_ns.saturating_add(thread.system_ns);
    }
    if [account.kernel_ns, account.sampled_ns].contains(&u64::MAX) {
        return Err("their sums, ns, have more than 64 bits");
    }
    account.processes = processes.into_values().collect();
    account.threads = rows;
    let rates = Rates::new(tables, &loaded.filter);
    // What a thread ran at the lowest rate has the fewest samples.
    let lowest = rates.lowest().map_or(1.0, |it| f64::from(it.share) / f64::from(RateChange::WHOLE));
    let asked_ns = asked_ns(&clocks(&tables.parts)) / lowest.min(1.0);
    let period_ns =
        if lowest < 1.0 { sampled.period_ns(asked_ns).max(asked_ns) } else { sampled.period_ns(asked_ns) };
    account.disagrees = disagreement(&account, period_ns);
    for list in [&mut account.threads, &mut account.processes] {
        list.sort_unstable_by_key(|row| (std::cmp::Reverse(row.difference_ns()), row.tgid, row.tid));
        list.truncate(LISTED);
    }
    Ok(account)
}

/// Returns the CPU time of everything by the kernel's account, ns.
///
/// # Errors
/// Why it is unknown, for people.
pub fn kernel_ns(loaded: &Loaded<'_>) -> Result<u64, &'static str> {
    Ok(threads(loaded)?.values().fold(0, |sum: u64, thread| sum.saturating_add(thread.kernel_ns)))
}

/// Returns the account of each thread that the filters keep.
fn threads(loaded: &Loaded<'_>) -> Result<Map<(u32, u32), ThreadAccount>, &'static str> {
    let selection = loaded.selection();
    let tables = &loaded.tables;
    let parts = &tables.parts;
    if tables.cpu_times.is_empty() {
        return Err(absence(parts));
    }
    let clocks: Vec<u8> = parts.iter().filter_map(|part| parts.clock(part)).collect();
    if clocks.is_empty() {
        let has_cycles = parts.events().iter().any(|event| Meaning::of(event).is_of_cpu());
        return Err(if has_cycles { "weights of samples are no times" } else { "no event samples CPU time" });
    }
    if !clocks.iter().any(|clock| loaded.events.has(*clock)) {
        return Err("no event that is looked at samples CPU time");
    }
    if !loaded.filter.is_of_threads_and_times() {
        return Err("the filters keep only a part of what threads ran");
    }
    let mut threads: Map<(u32, u32), ThreadAccount> = Map::default();
    let has_clock: Vec<bool> = parts.iter().map(|part| parts.clock(part).is_some()).collect();
    let is_sampled = |row: &&CpuTime| has_clock[parts.of_process(row.tgid).number() as usize];
    for row in tables.cpu_times.iter().filter(|row| selection.wants_cpu_time(row)).filter(is_sampled) {
        let thread = threads.entry((row.tgid, row.tid)).or_default();
        thread.covered.push((row.since_ns, row.time_ns));
        thread.kernel_ns = thread.kernel_ns.saturating_add(row.ran_ns);
        thread.user_ns = thread.user_ns.saturating_add(row.user_ns);
        thread.system_ns = thread.system_ns.saturating_add(row.kernel_ns);
    }
    threads.values_mut().for_each(ThreadAccount::settle);
    Ok(threads)
}

/// Lists the events that sample CPU time.
fn clocks(parts: &Parts) -> Vec<EventV1> {
    let clocks = parts.iter().filter_map(|part| parts.clock(part));
    clocks.filter_map(|clock| parts.events().get(usize::from(clock)).cloned()).collect()
}

/// Says why a recording has no account.
fn absence(parts: &Parts) -> &'static str {
    let any = |which: fn(&SessionV1) -> bool| parts.iter().any(|part| which(&part.session));
    let reasons = [
        (any(|session| session.maker.is_foreign()), "another program recorded, which does not tell it"),
        (any(|session| session.user != session.kernel), "only one side was sampled (-U, -K)"),
        (any(|session| session.cpu_scope == CpuScope::SOME), "only some CPUs were sampled (-C)"),
        (
            any(|session| session.target == TargetKind::CGROUPS),
            "a cgroup was recorded, which threads join and leave",
        ),
    ];
    let reason = reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why);
    reason.unwrap_or("the recording does not have it: its recorder was older, or was killed")
}

/// The account of one thread.
#[derive(Debug, Default)]
struct ThreadAccount {
    /// Stretches of time; after `settle` in order and disjoint.
    covered: Vec<(u64, u64)>,
    kernel_ns: u64,
    user_ns: u64,
    system_ns: u64,
}

impl ThreadAccount {
    /// Joins adjacent stretches: the rows of a thread follow each other without a gap.
    fn settle(&mut self) {
        self.covered.sort_unstable();
        self.covered.dedup_by(|next, before| {
            let touches = next.0 <= before.1;
            if touches {
                before.1 = before.1.max(next.1);
            }
            touches
        });
    }

    fn covers(&self, time_ns: u64) -> bool {
        let after = self.covered.partition_point(|stretch| stretch.0 <= time_ns);
        after.checked_sub(1).is_some_and(|last| time_ns <= self.covered[last].1)
    }

    fn last_ns(&self) -> u64 {
        self.covered.last().map_or(0, |stretch| stretch.1)
    }
}

/// The time that samples of CPU time represent while the account covers the threads.
#[derive(Debug, Default)]
struct Sampled {
    by_thread: Map<(u32, u32), u64>,
    samples: u64,
    weight_ns: u64,
}

impl Sampled {
    fn merged(mut self, other: Self) -> Self {
        for (thread, ns) in other.by_thread {
            let sum = self.by_thread.entry(thread).or_default();
            *sum = sum.saturating_add(ns);
        }
        self.samples += other.samples;
        self.weight_ns = self.weight_ns.saturating_add(other.weight_ns);
        self
    }

    /// Returns the time for which one sample stands; without samples, `asked_ns`, for which one would stand.
    fn period_ns(&self, asked_ns: f64) -> f64 {
        match self.samples {
            0 => asked_ns,
            samples => self.weight_ns as f64 / samples as f64,
        }
    }
}

/// Returns the longest of the requested periods.
fn asked_ns(events: &[EventV1]) -> f64 {
    let asked = |event: &EventV1| match event.frequency_hz {
        0 => event.period as f64,
        hz => 1e9 / hz as f64,
    };
    events.iter().map(asked).fold(0.0, f64::max)
}

fn sampled(loaded: &Loaded<'_>, threads: &Map<(u32, u32), ThreadAccount>) -> Sampled {
    let tables = &loaded.tables;
    let selection = loaded.selection();
    let blocks = tables.sample_blocks.par_iter().filter(|entry| selection.may_be_in(entry));
    let of_block = |entry| {
        let mut sums = Sampled::default();
        let clock = tables.parts.clock(tables.parts.of(entry));
        // The stage that counts samples reports damaged blocks.
        let samples =
            icecore_profile::recording::load::samples(loaded.recording, tables, entry).into_iter().flatten();
        for sample in samples.filter(|sample| Some(sample.event) == clock) {
            let task = tables.task(sample.task);
            let id = (task.tgid, task.tid);
            sums.samples += 1;
            sums.weight_ns = sums.weight_ns.saturating_add(sample.weight);
            if threads.get(&id).is_some_and(|thread| thread.covers(sample.time_ns)) {
                let sum = sums.by_thread.entry(id).or_default();
                *sum = sum.saturating_add(sample.weight);
            }
        }
        sums
    };
    blocks.map(of_block).reduce(Sampled::default, Sampled::merged)
}

/// Returns the name of a process, even if no sample hit it; empty if unknown.
fn process_name(selection: Selection<'_>, tgid: u32, time_ns: u64) -> String {
    let space = selection.spaces.stay(tgid, time_ns).0;
    let name = space.map_or(0, |space| selection.spaces.process_name(tgid, space));
    selection.tables.text(name).to_owned()
}

/// Finds the largest difference that is more than chance: of a process, of all processes with one name (each may be too short to
/// decide), or of a thread (the threads of a process may cancel out).
fn disagreement(account: &Account, period_ns: f64) -> Option<Disagreement> {
    let mut by_name: BTreeMap<&str, (u64, Accounted)> = BTreeMap::new();
    for process in &account.processes {
        let (count, sum) = by_name.entry(&process.comm).or_default();
        *count += 1;
        sum.comm.clone_from(&process.comm);
        sum.add(process.kernel_ns, process.sampled_ns);
    }
    let processes =
        account.processes.iter().map(|row| (format!("`{}` (process {})", row.comm, row.tgid), row));
    let names = by_name.values().filter(|(count, _)| *count > 1);
    let names = names.map(|(count, row)| (format!("`{}` ({count} processes)", row.comm), row));
    let threads = account.threads.iter();
    let threads = threads.map(|row| {
        let tid = row.tid.unwrap_or_default();
        (format!("`{}` (thread {tid} of process {})", row.comm, row.tgid), row)
    });
    let worst = |rows: &mut dyn Iterator<Item = (String, &Accounted)>| {
        let rows = rows.filter(|(_, row)| row.disagrees(period_ns));
        rows.max_by_key(|(_, row)| row.difference_ns()).map(|(who, row)| Disagreement {
            who,
            kernel_ns: row.kernel_ns,
            sampled_ns: row.sampled_ns,
        })
    };
    worst(&mut { processes }).or_else(|| worst(&mut { names })).or_else(|| worst(&mut { threads }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn row(tgid: u32, comm: &str, kernel_ms: u64, sampled_ms: u64) -> Accounted {
        Accounted {
            tgid,
            tid: None,
            comm: comm.to_owned(),
            kernel_ns: kernel_ms * MS,
            sampled_ns: sampled_ms * MS,
        }
    }

    #[test]
    fn what_counting_explains_is_no_disagreement() {
        let at_100_hz = |kernel, sampled| row(1, "x", kernel, sampled).disagrees(10.0 * MS as f64);
        // A hundred samples are 20 to 180, four standard deviations; 20 % decide only from 400 on.
        assert!(at_100_hz(1_200, 100) && at_100_hz(100, 1_200));
        assert!(!at_100_hz(1_000, 650) && at_100_hz(1_000, 590));
        assert!(!at_100_hz(30, 0) && !at_100_hz(0, 30) && !at_100_hz(0, 0));
        assert!(!at_100_hz(10_000, 8_100) && at_100_hz(10_000, 7_900));
    }

    #[test]
    fn a_process_that_is_too_short_for_any_sample_is_not_in_step() {
        let event = |frequency_hz, period| EventV1 { frequency_hz, period, ..EventV1::default() };
        let none = Sampled::default();
        assert_eq!(none.period_ns(asked_ns(&[event(100, 0)])), 1e7);
        assert_eq!(none.period_ns(asked_ns(&[event(0, 5_000)])), 5e3);
        let some = Sampled { samples: 2, weight_ns: 30, ..Sampled::default() };
        assert_eq!(some.period_ns(asked_ns(&[event(100, 0)])), 15.0);
        assert!(!row(1, "x", 5, 0).disagrees(none.period_ns(asked_ns(&[event(100, 0)]))));
    }

    #[test]
    fn short_processes_of_one_name_are_judged_together_and_threads_apart() {
        let period = 10.0 * MS as f64;
        let said = |processes, threads| {
            let account = Account { processes, threads, ..Account::default() };
            disagreement(&account, period).map(|told| told.who)
        };
        let short: Vec<Accounted> = (0..100).map(|tgid| row(tgid, "step", 20, 0)).collect();
        assert_eq!(said(short, vec![]).as_deref(), Some("`step` (100 processes)"));
        let thread = |tid, kernel, sampled| Accounted { tid: Some(tid), ..row(5, "two", kernel, sampled) };
        let both = vec![thread(5, 600, 1_200), thread(6, 600, 0)];
        assert_eq!(
            said(vec![row(5, "two", 1_200, 1_200)], both).as_deref(),
            Some("`two` (thread 6 of process 5)")
        );
        assert_eq!(said(vec![row(5, "two", 1_200, 1_150)], vec![]), None);
    }

    #[test]
    fn a_thread_is_covered_where_its_rows_are() {
        let mut thread =
            ThreadAccount { covered: vec![(20, 30), (10, 20), (50, 60)], ..ThreadAccount::default() };
        thread.settle();
        assert_eq!(thread.covered, [(10, 30), (50, 60)]);
        assert_eq!(
            [9, 10, 25, 30, 31, 50, 61].map(|at| thread.covers(at)),
            [false, true, true, true, false, true, false]
        );
    }
}
