//! `top`: the heaviest functions, lines, addresses, images, processes, threads, cgroups, hosts or waits.

mod address;
mod text;
mod waits;

use serde::Serialize;

use super::{Error, Needs, Result, Screen, Shown, View};
use crate::base::map::Interned;
use crate::cli::{Select, Sort};
use crate::profile::names::{Names, Side};
use crate::profile::pipeline::Report;
use crate::profile::{Amount, Profile, Sum, Thread, groups, sums};
use crate::recording::cgroups::CgroupId;
use crate::recording::events::EventChoice;
use crate::stacks::hits::WaitsApart;

pub(super) use text::clip;

/// The arguments of `top`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report top [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report top demo.icecore                         functions by self time
  icecore-report top demo.icecore --sort total -n 50      with everything they call
  icecore-report top demo.icecore --by line --comm cc1    source lines of one program
  icecore-report top demo.icecore --by address            single instructions, which annotate shows in their function
  icecore-report top demo.icecore --by process
  icecore-report top demo.icecore --by cgroup             services and containers
  icecore-report top demo.icecore --by inlined            the compiler's inlining undone
  icecore-report top demo.icecore --event off-cpu         where threads waited, if waits were recorded
  icecore-report top demo.icecore --by wait               for what they waited: disk, lock, socket
  icecore-report top demo.icecore --by waker              which processes ended their waits
  icecore-report top demo.icecore --event 'uprobe:*'      the events of all probes in programs

Self is the time in the function itself, total the time in it and in what it calls; a function that \
occurs several times in one stack is counted once. Inlined code counts for the function around it, as in perf; --by \
inlined shows every inlined function as a row of its own. Waits are those of off-cpu and run-delay unless --event \
names others; wakers are of off-cpu.")]
pub struct Args {
    /// Show rows of this kind: function, inlined, line, address, image, process, thread, cgroup, host, wait, waker or waker-thread
    #[arg(long, value_name = "WHAT", default_value = "function", hide_possible_values = true)]
    pub by: By,
    /// Order rows by self or total
    #[arg(long, value_name = "WHICH", default_value = "self", hide_possible_values = true)]
    pub sort: Sort,
    /// Show this many rows; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 25)]
    pub rows: usize,
    /// Put the stack of who ended each wait on top, leaf first, and then its name; shows off-cpu unless --event names others
    #[arg(long)]
    pub wakers: bool,
}

/// What a row of `top` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// Functions of an image; what was inlined into one counts for it.
    Function,
    /// Functions as they are written: inlined ones apart.
    Inlined,
    /// Source lines.
    Line,
    /// Addresses of code.
    Address,
    /// Executable files.
    Image,
    /// Processes.
    Process,
    /// Threads.
    Thread,
    /// Control groups.
    Cgroup,
    /// Hosts.
    Host,
    /// Kinds of waits.
    Wait,
    /// Processes that ended waits.
    Waker,
    /// Threads that ended waits.
    WakerThread,
}

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        let needs = Needs::threads(self.by == By::Thread);
        let needs = match self.by {
            By::Wait => needs.with_waits(WaitsApart::Rows, EventChoice::Waits),
            By::Waker | By::WakerThread => needs.with_waits(WaitsApart::Rows, EventChoice::Blocked),
            _ => needs,
        };
        needs.with_wakers(self.wakers)
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        if self.by == By::Wait && shown.select.user {
            let why = "cannot tell kinds of waits without the functions of the kernel: leave out --user";
            return Err(Error::Refused(why.to_owned()));
        }
        if self.by == By::Address && self.wakers {
            let why = "cannot show stacks of wakers by address: use --by function";
            return Err(Error::Refused(why.to_owned()));
        }
        let top = Top::new(shown.report, self);
        screen.emit(&top, |page| top.text(shown.report, page))?;
        Ok(true)
    }
}

/// The document.
#[derive(Debug, Serialize)]
pub struct Top {
    schema: &'static str,
    by: &'static str,
    sort: &'static str,
    unit: String,
    total_weight: u64,
    total_samples: u64,
    filter: Option<String>,
    /// The number of all rows; `rows` may have fewer.
    row_count: u64,
    rows: Vec<Ranked>,
    #[serde(skip)]
    by_what: By,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<Option<u32>>,
    #[serde(flatten)]
    place: Option<address::AddressOf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tgid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cgroup: Option<String>,
}

/// What one row stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Function(u32),
    Line(u32, Option<u32>, Option<u32>),
    Image(Option<u32>),
}

impl Top {
    /// Sums up a profile.
    pub fn new(report: &Report<'_>, options: &Args) -> Self {
        let profile = &report.profile;
        let most = if options.rows > 0 { options.rows } else { usize::MAX };
        let (rows, row_count) = Self::rank(report, options.by, options.sort, most);
        let whole = profile.whole();
        Self {
            schema: "icecore.top/1",
            by: match options.by {
                By::Function => "function",
                By::Inlined => "inlined",
                By::Line => "line",
                By::Address => "address",
                By::Image => "image",
                By::Process => "process",
                By::Thread => "thread",
                By::Cgroup => "cgroup",
                By::Host => "host",
                By::Wait => "wait",
                By::Waker => "waker",
                By::WakerThread => "waker-thread",
            },
            sort: if options.sort == Sort::Own { "self" } else { "total" },
            unit: profile.measure.unit.clone(),
            total_weight: whole.weight,
            total_samples: whole.samples,
            filter: report.filtered.clone(),
            row_count,
            rows,
            by_what: options.by,
        }
    }

    /// Ranks the rows, and keeps at most `most`; also returns how many there are.
    pub(super) fn rank(report: &Report<'_>, by: By, sort: Sort, most: usize) -> (Vec<Ranked>, u64) {
        let whole = report.profile.whole();
        let (mut rows, count): (Vec<Ranked>, u64) = match by {
            By::Function | By::Inlined | By::Line | By::Image => {
                let (keys, sums) = code_sums(&report.profile, by);
                let (heavy, count) = heaviest(&sums, sort, most);
                let row = |at: usize| code_row(&report.profile.names, &keys[at], sums[at], whole);
                (heavy.into_iter().map(row).collect(), count)
            }
            By::Address => address::rank(report, sort, most),
            By::Process | By::Thread | By::Cgroup | By::Host => {
                let (keys, sums) = task_sums(report, by);
                let (heavy, count) = heaviest(&sums, sort, most);
                let row = |at: usize| task_row(report, &keys[at], sums[at].own, whole);
                (heavy.into_iter().map(row).collect(), count)
            }
            By::Wait | By::Waker | By::WakerThread => {
                let (keys, sums) = waits::sums(report, by);
                let (heavy, count) = heaviest(&sums, sort, most);
                let row = |at: usize| waits::row(report, by, &keys[at], sums[at].own, whole);
                (heavy.into_iter().map(row).collect(), count)
            }
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
    fn new(name: &str, image: Option<&str>, own: Amount, total: Amount, whole: Amount) -> Self {
        Self {
            name: name.to_owned(),
            image: image.map(str::to_owned),
            own: own.weight,
            total: total.weight,
            self_share: own.share_of(whole),
            total_share: total.share_of(whole),
            self_samples: own.samples,
            total_samples: total.samples,
            side: None,
            reason: None,
            file: None,
            line: None,
            place: None,
            host: None,
            tgid: None,
            tid: None,
            comm: None,
            cgroup: None,
        }
    }

    /// Returns the key that orders rows of equal weight.
    fn identity(&self) -> impl Ord + '_ {
        (&self.name, &self.image, &self.file, self.line, &self.host, self.tgid, self.tid, self.reason)
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

/// Sums up functions, lines or images. One that occurs several times in one stack counts once.
fn code_sums(profile: &Profile, by: By) -> (Vec<Subject>, Vec<Sum>) {
    let mut keys: Interned<Subject> = Interned::new();
    let key_of_frame: Vec<u32> = profile
        .names
        .frames
        .iter()
        .map(|frame| {
            let function = &profile.names.functions[frame.function as usize];
            keys.intern(match by {
                By::Image => Subject::Image(function.image),
                By::Line => Subject::Line(frame.function, frame.file, frame.line),
                _ => Subject::Function(frame.function),
            })
        })
        .collect();
    let is_apart = matches!(by, By::Line | By::Inlined);
    let of_stack = groups(profile, &key_of_frame, |_| is_apart);
    let sums = sums(profile, &of_stack, keys.len());
    (keys.into_items(), sums)
}

fn code_row(names: &Names, key: &Subject, sum: Sum, whole: Amount) -> Ranked {
    let (function, line) = match key {
        Subject::Function(function) => (*function, None),
        Subject::Line(function, file, line) => (*function, Some((*file, *line))),
        Subject::Image(image) => {
            let path = image.map(|image| &*names.images[image as usize].path);
            return Ranked::new(path.unwrap_or("[no image]"), path, sum.own, sum.total, whole);
        }
    };
    let function = &names.functions[function as usize];
    let image = names.image(function).map(|image| &*image.path);
    let mut row = Ranked::new(&function.name, image, sum.own, sum.total, whole);
    row.side = Some(if function.side == Side::User { "user" } else { "kernel" });
    row.reason = function.reason.map(|reason| reason.code());
    if let Some((file, line)) = line {
        row.file = Some(file.map(|file| names.files[file as usize].to_string()));
        row.line = Some(line);
    }
    row
}

/// What a row of tasks stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Task {
    /// A process or thread with its name, on a host.
    Of(usize, u32, u32, Box<str>),
    /// A cgroup of a host.
    Cgroup(usize, CgroupId),
    Host(usize),
}

/// Sums up processes (with one number and name on one host), threads, cgroups or hosts. Each comes with the cgroup in which all
/// of it ran.
fn task_sums(report: &Report<'_>, by: By) -> (Vec<(Task, CgroupId)>, Vec<Sum>) {
    let (profile, parts) = (&report.profile, &report.loaded.tables.parts);
    let key = |thread: &Thread| {
        let host = parts.part(thread.part).host;
        match by {
            By::Host => Task::Host(host),
            By::Cgroup => Task::Cgroup(host, thread.cgroup),
            By::Process => Task::Of(host, thread.tgid, thread.tgid, thread.process.clone()),
            _ => Task::Of(host, thread.tgid, thread.tid, thread.comm.clone()),
        }
    };
    let mut keys: Interned<Task> = Interned::new();
    let of_thread: Vec<u32> = profile.threads.iter().map(|thread| keys.intern(key(thread))).collect();
    let mut cgroups: Vec<Option<CgroupId>> = vec![None; keys.len()];
    for (thread, key) in profile.threads.iter().zip(&of_thread) {
        let known = cgroups[*key as usize].get_or_insert(thread.cgroup);
        *known = if *known == thread.cgroup { *known } else { 0 };
    }
    let mut sums = vec![Sum::default(); keys.len()];
    for row in &profile.rows {
        let sum = &mut sums[of_thread[row.thread as usize] as usize];
        sum.own.add(row.amount());
        sum.total = sum.own;
    }
    let cgroups = cgroups.into_iter().map(Option::unwrap_or_default);
    (keys.into_items().into_iter().zip(cgroups).collect(), sums)
}

/// Makes a row of tasks. It names hosts if there are several sessions.
fn task_row(report: &Report<'_>, (key, cgroup): &(Task, CgroupId), sum: Amount, whole: Amount) -> Ranked {
    let parts = &report.loaded.tables.parts;
    let host_name = |host: &usize| (parts.len() > 1).then(|| parts.hosts()[*host].clone());
    let cgroup = report.loaded.cgroups.path(*cgroup);
    match key {
        Task::Cgroup(host, _) => {
            let mut row = Ranked::new(cgroup.unwrap_or("-"), None, sum, sum, whole);
            (row.host, row.cgroup) = (host_name(host), cgroup.map(str::to_owned));
            row
        }
        Task::Host(host) => {
            let mut row = Ranked::new(&parts.hosts()[*host], None, sum, sum, whole);
            row.host = Some(row.name.clone());
            row
        }
        Task::Of(host, tgid, tid, name) => {
            let mut row = Ranked::new(name, None, sum, sum, whole);
            row.host = host_name(host);
            row.cgroup = cgroup.map(str::to_owned);
            row.tgid = Some(*tgid);
            row.tid = Some(*tid);
            row.comm = Some(name.to_string());
            row
        }
    }
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
