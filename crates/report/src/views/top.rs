//! `top`: the heaviest functions, lines, addresses, images, processes, threads, CPUs, cgroups, hosts or waits, and combinations of them.

mod address;
mod by;
mod durations;
mod subject;
mod summed;
mod text;

use serde::Serialize;

use super::{Needs, Result, Screen, Shown, View};
use crate::cli::{Select, Sort, share_percent};
use address::AddressOf;
use by::SortWord;
use durations::Durations;
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{Amount, Sum};
use icecore_profile::recording::events::EventChoice;
use icecore_profile::stacks::hits::WaitsApart;
use subject::{Facts, Value};
use summed::Summed;

pub use by::By;

/// The arguments of `top`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report top [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report top demo.icecore                         functions by self time
  icecore-report top demo.icecore --sort total -n 50      with everything they call
  icecore-report top demo.icecore --by line --comm cc1    source lines of one program
  icecore-report top demo.icecore --by address            single instructions
  icecore-report top demo.icecore --by process
  icecore-report top demo.icecore --by process,function   the functions of each process
  icecore-report top demo.icecore --sort comm,dso,symbol  in the words of perf report
  icecore-report top demo.icecore --by cpu,comm           which threads ran on which CPU
  icecore-report top demo.icecore --by cgroup             services and containers
  icecore-report top demo.icecore --by field              values of a field (-e EVENT,field=FIELD)
  icecore-report top demo.icecore --by inlined            each inlined function as a row
  icecore-report top demo.icecore --event off-cpu         where threads waited (--off-cpu)
  icecore-report top demo.icecore --by wait               for what they waited: disk, lock, socket
  icecore-report top demo.icecore --by waker              which processes ended their waits
  icecore-report top demo.icecore --event 'uprobe:*'      the events of all probes in programs

Self is the time in the function itself, total the time in it and in what it calls; a function that \
occurs several times in one stack is counted once. Inlined code counts for the function around it, as in perf; --by \
inlined shows every inlined function as a row of its own. Waits are those of off-cpu and run-delay unless --event \
names others; wakers are of off-cpu.")]
pub struct Args {
    /// Show rows of this kind: function, inlined, line, address, image, process, thread, comm (the name of a thread), cpu,
    /// cgroup, host, field (of a tracepoint: -e EVENT,field=NAME), wait, waker or waker-thread; or of several: process,function [default: function]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', hide_possible_values = true)]
    pub by: Vec<By>,
    /// Order rows by self or total [default: self]; or show rows of perf's kinds: comm,dso,symbol, pid, tid, cpu, srcline
    #[arg(long, value_name = "WHICH", value_delimiter = ',')]
    pub sort: Vec<SortWord>,
    /// The same as --sort total, in perf's words
    #[arg(long, conflicts_with = "no_children")]
    pub children: bool,
    /// The same as --sort self, in perf's words
    #[arg(long)]
    pub no_children: bool,
    /// Show this many rows; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 25)]
    pub rows: usize,
    /// Leave out rows below this share of the total
    #[arg(long, visible_alias = "percent-limit", value_name = "P", default_value_t = 0.0, value_parser = share_percent)]
    pub min_percent: f64,
    /// Put the stack and the name of the thread that ended each wait on top of its stack; shows off-cpu unless --event names others
    #[arg(long)]
    pub wakers: bool,
}

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        let keys = self.keys();
        let has = |wanted: &[By]| keys.iter().any(|by| wanted.contains(by));
        let mut needs = Needs::threads(has(&[By::Thread, By::Comm]));
        needs.apart.cpus = has(&[By::Cpu]);
        needs.apart.fields = has(&[By::Field]);
        let needs = if has(&[By::Waker, By::WakerThread]) {
            needs.with_waits(WaitsApart::Rows, EventChoice::Blocked)
        } else if has(&[By::Wait]) {
            needs.with_waits(WaitsApart::Rows, EventChoice::Waits)
        } else {
            needs
        };
        needs.with_wakers(self.wakers)
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        self.check(shown.select.user)?;
        let mut top = Top::new(shown.report, self);
        if let [by @ (By::Function | By::Inlined)] = top.keys[..] {
            top.durations = durations::add(&mut top.rows, shown, by == By::Function);
        }
        screen.emit(&top, |page| top.text(shown.report, page))?;
        Ok(true)
    }
}

/// The document.
#[derive(Debug, Serialize)]
pub struct Top {
    schema: &'static str,
    by: String,
    sort: &'static str,
    unit: String,
    total_weight: u64,
    total_samples: u64,
    filter: Option<String>,
    /// How the times of all samples are distributed, if they are times of functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    durations: Option<Durations>,
    /// The share of the weight that is in stacks with a guessed frame.
    guessed_share: f64,
    /// The number of all rows; `rows` may have fewer.
    row_count: u64,
    rows: Vec<Ranked>,
    #[serde(skip)]
    keys: Vec<By>,
}

/// One row.
#[derive(Debug, Clone, Serialize)]
pub struct Ranked {
    pub(super) name: String,
    image: Option<String>,
    #[serde(rename = "self")]
    own: u64,
    pub(super) total: u64,
    self_share: f64,
    total_share: f64,
    self_samples: u64,
    pub(super) total_samples: u64,
    #[serde(flatten)]
    pub(super) facts: Facts,
    /// How the times are distributed of the samples whose stacks end in the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    durations: Option<Durations>,
    /// Where the code of an address is.
    #[serde(flatten)]
    place: Option<AddressOf>,
    /// The value of each key, if there are several.
    #[serde(rename = "keys", skip_serializing_if = "is_one")]
    values: Vec<Value>,
}

fn is_one(values: &[Value]) -> bool {
    values.len() == 1
}

impl Top {
    /// Sums up a profile.
    pub fn new(report: &Report<'_>, options: &Args) -> Self {
        let profile = &report.profile;
        let (keys, sort) = (options.keys(), options.order());
        let most = if options.rows > 0 { options.rows } else { usize::MAX };
        let (mut rows, row_count) = Self::rank(report, &keys, sort, most);
        rows.retain(|row| row.share(sort) * 100.0 >= options.min_percent);
        let whole = profile.whole();
        Self {
            schema: "icecore.top/1",
            by: keys.iter().map(|by| by.name()).collect::<Vec<_>>().join(","),
            sort: if sort == Sort::Own { "self" } else { "total" },
            unit: profile.measure.unit.clone(),
            total_weight: whole.weight,
            total_samples: whole.samples,
            filter: report.filtered.clone(),
            durations: None,
            guessed_share: super::guessed_share(report),
            row_count,
            rows,
            keys,
        }
    }

    /// Ranks the rows, and keeps at most `most`; also returns how many there are.
    pub(super) fn rank(report: &Report<'_>, keys: &[By], sort: Sort, most: usize) -> (Vec<Ranked>, u64) {
        let (mut rows, count) = if keys == [By::Address] {
            address::rank(report, sort, most)
        } else {
            let whole = report.profile.whole();
            let summed = Summed::new(report, keys);
            let (heavy, count) = heaviest(&summed.sums, sort, most);
            let row = |at: usize| Ranked::new(summed.values(report, keys, at), summed.sums[at], whole);
            (heavy.into_iter().map(row).collect::<Vec<Ranked>>(), count)
        };
        let weights = |row: &Ranked| match sort {
            Sort::Own => (row.own, row.total),
            Sort::Total => (row.total, row.own),
        };
        rows.sort_by(|a, b| weights(b).cmp(&weights(a)).then_with(|| a.identity().cmp(&b.identity())));
        rows.truncate(most);
        (rows, count)
    }
}

impl Ranked {
    /// Makes a row of the values of its keys; its name is that of the last one.
    fn new(values: Vec<Value>, Sum { own, total }: Sum, whole: Amount) -> Self {
        let facts = values.iter().fold(Facts::default(), |facts, value| facts.complete(value.facts.clone()));
        Self {
            name: values.last().map(|value| value.name.clone()).unwrap_or_default(),
            image: values.iter().rev().find_map(|value| value.image.clone()),
            own: own.weight,
            total: total.weight,
            self_share: own.share_of(whole),
            total_share: total.share_of(whole),
            self_samples: own.samples,
            total_samples: total.samples,
            facts,
            durations: None,
            place: None,
            values,
        }
    }

    /// Returns the key that orders rows of equal weight.
    fn identity(&self) -> impl Ord + '_ {
        let Facts { file, line, host, tgid, tid, reason, cpu, .. } = &self.facts;
        let names: Vec<&str> = self.values.iter().map(|value| &*value.name).collect();
        (&self.name, &self.image, file, line, host, (tgid, tid, reason, cpu), names)
    }

    /// Returns the share by which rows are ordered.
    fn share(&self, sort: Sort) -> f64 {
        if sort == Sort::Own { self.self_share } else { self.total_share }
    }
}

/// Returns the positions of the sums that can be among the `most` heaviest, and how many sums have samples: rows have long names,
/// and most of them are light.
fn heaviest(sums: &[Sum], sort: Sort, most: usize) -> (Vec<usize>, u64) {
    let weights = |sum: &Sum| match sort {
        Sort::Own => (sum.own.weight, sum.total.weight),
        Sort::Total => (sum.total.weight, sum.own.weight),
    };
    let is_hit = |sum: &&Sum| sum.total.samples > 0;
    let mut all: Vec<(u64, u64)> = sums.iter().filter(is_hit).map(weights).collect();
    let count = all.len() as u64;
    let least = if most < all.len() { *all.select_nth_unstable_by(most, |a, b| b.cmp(a)).1 } else { (0, 0) };
    let heavy = sums.iter().enumerate().filter(|(_, sum)| is_hit(sum) && weights(sum) >= least);
    (heavy.map(|(position, _)| position).collect(), count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_are_all_that_their_names_may_bring_to_the_first_rows() {
        let sum = |own, total| {
            let amount = |weight| Amount { samples: u64::from(weight > 0), weight };
            Sum { own: amount(own), total: amount(total) }
        };
        let sums = [sum(1, 9), sum(5, 5), sum(3, 3), sum(3, 3), sum(0, 0), sum(3, 4)];
        assert_eq!(heaviest(&sums, Sort::Own, 1), (vec![1, 5], 5));
        assert_eq!(heaviest(&sums, Sort::Own, 3), (vec![1, 2, 3, 5], 5));
        assert_eq!(heaviest(&sums, Sort::Total, 1).0, [0, 1]);
        assert_eq!(heaviest(&sums, Sort::Own, usize::MAX), (vec![0, 1, 2, 3, 5], 5));
    }
}
