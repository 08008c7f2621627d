//! The counters beside the samples: of machines, of the processes that need most, of cgroups.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use icecore_format::records::{Counter, Growth};
use serde::Serialize;

use super::Buckets;
use super::drawn::squeezed;
use icecore_analysis::counters::{Counted, Of, counted};
use icecore_profile::named::pipeline::Report;
use icecore_text::chart::chart;
use icecore_text::quantity::{bytes, count, duration, percent};
use icecore_text::{Align, Page, Style, Table};

/// The counters of one machine, process or cgroup.
#[derive(Debug, Serialize)]
pub(super) struct Owner {
    /// `machine`, `process` or `cgroup`.
    pub(super) owner: &'static str,
    /// Present if there are several hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tgid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cgroup: Option<String>,
    pub(super) counters: Vec<Series>,
}

/// A counter over time.
#[derive(Debug, Serialize)]
pub(super) struct Series {
    pub(super) counter: String,
    /// The unit of all values but `total`: `cpus`, `share` (of the time), `bytes`, `count`, `bytes/s` or `count/s`.
    pub(super) unit: &'static str,
    /// What a sum grew by in the time that is shown; in ns if the unit is `cpus` or `share`. `None` for a level.
    pub(super) total: Option<u64>,
    /// The largest of `values`; of a level the largest reading.
    pub(super) peak: Option<f64>,
    /// Growth per second, or mean level, by bucket; `None` where nothing is known.
    pub(super) values: Vec<Option<f64>>,
    #[serde(skip)]
    of: Counter,
}

/// The counters of the machine that are drawn, each with its name on the page.
const DRAWN: [(Counter, &str); 13] = [
    (Counter::CPU, "CPUs that run threads"),
    (Counter::CPU_IO_WAIT, "CPUs that wait for disks"),
    (Counter::RUNNABLE, "threads that run or wait for a CPU"),
    (Counter::THREADS, "threads"),
    (Counter::MEMORY, "memory"),
    (Counter::MINOR_FAULTS, "page faults without disk per second"),
    (Counter::MAJOR_FAULTS, "page faults with disk per second"),
    (Counter::SWITCHES, "context switches per second"),
    (Counter::DISK_READ, "bytes from disks per second"),
    (Counter::DISK_WRITTEN, "bytes to disks per second"),
    (Counter::CPU_PRESSURE, "time in which threads wait for a CPU"),
    (Counter::MEMORY_PRESSURE, "time in which threads wait for memory"),
    (Counter::IO_PRESSURE, "time in which threads wait for disks"),
];

/// Collects the counters of all machines and cgroups, and of `most` processes: those that need most.
pub(super) fn owners(report: &Report<'_>, time: Buckets, most: usize) -> Vec<Owner> {
    let loaded = report.loaded;
    let parts = &loaded.tables.parts;
    let edges: Vec<u64> = (0..=time.len()).map(|bucket| time.begin_ns(bucket)).collect();
    let [Some(first_ns), Some(last_ns)] = [edges.first(), edges.last()] else { return vec![] };
    let mut all = counted(&loaded.selection());
    let is_there = |counted: &Counted| {
        let mut times = counted.values.values().flatten().map(|(time_ns, _)| time_ns);
        counted.ended_ns.is_none_or(|ended_ns| ended_ns >= *first_ns)
            && times.any(|time_ns| time_ns < last_ns)
    };
    all.retain(is_there);
    let kept = heaviest(&all, (*first_ns, *last_ns), most);
    let kept = all.iter().enumerate().filter(|(position, _)| kept.contains(position));
    let mut owners: Vec<Owner> = kept
        .map(|(_, counted)| Owner {
            host: parts.host_among(counted.part).map(str::to_owned),
            ..Owner::new(counted, &edges)
        })
        .collect();
    // Within a kind the one with the most memory comes first, or else the one with the most CPU time.
    let rank = |owner: &Owner| {
        let peak = |counter| owner.series(counter).and_then(|series| series.peak).unwrap_or(0.0) as u64;
        let total = |counter| owner.series(counter).and_then(|series| series.total);
        let kind = ["machine", "process", "cgroup"].iter().position(|kind| *kind == owner.owner);
        let memory = peak(Counter::MEMORY_PEAK).max(peak(Counter::MEMORY));
        (kind, Reverse((memory, total(Counter::CPU))), owner.tgid)
    };
    owners.sort_by_key(rank);
    owners
}

/// Returns the positions of machines, cgroups, and of the `most` first processes by memory, CPU time, faults and bytes.
fn heaviest(all: &[Counted], (first_ns, last_ns): (u64, u64), most: usize) -> BTreeSet<usize> {
    let is_process = |position: &usize| matches!(all[*position].of, Of::Process { .. });
    let (mut processes, others): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(is_process);
    let mut kept: BTreeSet<usize> = others.into_iter().collect();
    let grew =
        |position: usize, counter| all[position].grew(counter, first_ns, last_ns).unwrap_or(0.0) as u64;
    let needs: [&dyn Fn(usize) -> u64; 3] = [
        &|position| {
            all[position].most(Counter::MEMORY_PEAK).or(all[position].most(Counter::MEMORY)).unwrap_or(0)
        },
        &|position| grew(position, Counter::CPU),
        &|position| grew(position, Counter::DISK_READ).saturating_add(grew(position, Counter::DISK_WRITTEN)),
    ];
    for need in needs {
        processes.sort_by_cached_key(|position| (Reverse(need(*position)), *position));
        kept.extend(processes.iter().copied().take(most).filter(|position| need(*position) > 0));
    }
    kept
}

impl Owner {
    fn new(counted: &Counted, edges: &[u64]) -> Self {
        let (owner, tgid, comm, cgroup) = match &counted.of {
            Of::Machine => ("machine", None, None, None),
            Of::Process { tgid, comm } => ("process", Some(*tgid), Some(comm.clone()), None),
            Of::Cgroup { path } => ("cgroup", None, None, Some(path.clone())),
        };
        let counters =
            counted.values.keys().filter_map(|counter| Series::new(counted, *counter, edges)).collect();
        Self { owner, host: None, tgid, comm, cgroup, counters }
    }

    fn series(&self, counter: Counter) -> Option<&Series> {
        self.counters.iter().find(|series| series.of == counter)
    }

    /// Returns the largest level of a counter, or what a sum grew by, for a table.
    fn cell(&self, counter: Counter) -> String {
        let series = self.series(counter);
        series.and_then(Series::whole).unwrap_or_else(|| "-".to_owned())
    }
}

impl Series {
    /// `None` for a counter that this build does not know.
    fn new(counted: &Counted, of: Counter, edges: &[u64]) -> Option<Self> {
        let growth = of.growth()?;
        let is_pressure = (Counter::CPU_PRESSURE..=Counter::IO_PRESSURE_ALL).contains(&of);
        let unit = match (of.unit()?, growth) {
            ("ns", _) if is_pressure => "share",
            ("ns", _) => "cpus",
            ("bytes", Growth::Sum) => "bytes/s",
            ("bytes", Growth::Level) => "bytes",
            (_, Growth::Sum) => "count/s",
            (_, Growth::Level) => "count",
        };
        let per = if matches!(unit, "share" | "cpus") { 1e9 } else { 1.0 };
        let values: Vec<Option<f64>> =
            counted.in_buckets(of, edges).into_iter().map(|value| Some(value? / per)).collect();
        let (peak, total) = match growth {
            Growth::Level => (counted.most(of).map(|most| most as f64), None),
            Growth::Sum => {
                let peak = values.iter().flatten().copied().reduce(f64::max);
                (peak, counted.grew(of, *edges.first()?, *edges.last()?).map(|grew| grew.round() as u64))
            }
        };
        Some(Self { counter: of.name(), unit, total, peak, values, of })
    }

    fn whole(&self) -> Option<String> {
        match self.unit {
            "cpus" | "share" => self.total.map(duration),
            "bytes/s" => self.total.map(bytes),
            "count/s" => self.total.map(count),
            _ => self.peak.map(|peak| self.value(peak)),
        }
    }

    fn value(&self, value: f64) -> String {
        match self.unit {
            "share" => percent(value),
            "cpus" => format!("{value:.2}"),
            "bytes" | "bytes/s" => bytes(value.round() as u64),
            _ if value < 9.95 && value.fract() > 0.0 => format!("{value:.1}"),
            _ => count(value.round() as u64),
        }
    }

    /// Draws the values; `per` of them are one character.
    fn line(&self, per: usize) -> String {
        let (values, peak) = squeezed(&self.values, &[], per);
        let values: Vec<f64> = values.into_iter().map(Option::unwrap_or_default).collect();
        chart(&values, peak, 1).concat()
    }

    /// The mean of the values that are known.
    fn mean(&self) -> Option<f64> {
        let known: Vec<f64> = self.values.iter().copied().flatten().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }
}

/// Writes tables of the counters.
pub(super) fn text(owners: &[Owner], per: usize, page: &mut Page) {
    let of = |kind: &str| -> Vec<&Owner> { owners.iter().filter(|owner| owner.owner == kind).collect() };
    for machine in of("machine") {
        let columns =
            [("", Align::Left), ("MEAN", Align::Right), ("PEAK", Align::Right), ("COUNTER", Align::Left)];
        let mut table = Table::new(0, &columns);
        for (counter, name) in DRAWN {
            let Some(series) = machine.series(counter) else { continue };
            // A line of nothing says nothing.
            let Some((mean, peak)) = series.mean().zip(series.peak).filter(|(_, peak)| *peak > 0.0) else {
                continue;
            };
            table.row(vec![series.line(per), series.value(mean), series.value(peak), name.to_owned()]);
        }
        page.gap();
        let host = machine.host.as_ref().map(|host| format!(" {host}")).unwrap_or_default();
        page.styled(Style::Bold, &format!("counters of the machine{host}"));
        page.table(&table);
        let left_out = |counter| machine.series(counter).and_then(|series| series.peak).unwrap_or(0.0) as u64;
        let processes = left_out(Counter::PROCESSES_LEFT_OUT);
        if processes > 0 {
            let text = format!(
                "at most {} processes of one reading have no counters: others ran longer",
                count(processes)
            );
            page.styled(Style::Dim, &text);
        }
    }
    for (kind, title) in [("process", "PROCESS"), ("cgroup", "CGROUP")] {
        let owners = of(kind);
        if owners.is_empty() {
            continue;
        }
        let has_hosts = owners.iter().any(|owner| owner.host.is_some());
        let mut columns = vec![
            ("MEMORY", Align::Left),
            ("PEAK", Align::Right),
            ("CPU", Align::Right),
            ("FAULTS", Align::Right),
            ("SWITCHES", Align::Right),
            ("READ", Align::Right),
            ("WRITTEN", Align::Right),
        ];
        columns.extend(has_hosts.then_some(("HOST", Align::Left)));
        columns.extend((kind == "process").then_some(("PID", Align::Right)));
        columns.push((title, Align::Left));
        let mut table = Table::new(0, &columns);
        for owner in owners {
            let line = owner.series(Counter::MEMORY).map(|series| series.line(per)).unwrap_or_default();
            let peak = match owner.cell(Counter::MEMORY_PEAK) {
                unknown if unknown == "-" => owner.cell(Counter::MEMORY),
                peak => peak,
            };
            let mut cells = vec![line, peak];
            let sums = [
                Counter::CPU,
                Counter::MINOR_FAULTS,
                Counter::SWITCHES,
                Counter::DISK_READ,
                Counter::DISK_WRITTEN,
            ];
            cells.extend(sums.map(|counter| owner.cell(counter)));
            cells.extend(owner.host.iter().cloned());
            cells.extend(owner.tgid.map(|tgid| tgid.to_string()));
            cells.extend(owner.comm.iter().chain(&owner.cgroup).cloned());
            table.row(cells);
        }
        page.gap();
        page.table(&table);
    }
}
