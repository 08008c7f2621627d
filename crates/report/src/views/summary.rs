//! `summary`: the first screen. It shows what the recording is, how good it is, and where time went.

mod events;
pub(super) mod gaps;
mod memory;
mod sessions;
mod text;
mod wall;

use std::collections::BTreeMap;

use icecore_format::records::SessionV1;
use serde::Serialize;

use super::info::{EventRow, ReceiptRow, target};
use super::left_out::LeftOutRow;
use super::lost::LostRow;
use super::rates::{RateRow, RateSummary};
use super::triggers::TriggerRow;
use super::{Needs, Result, Screen, Shown, View};
use crate::cli::{Select, Sort};
use crate::views::top::{self, By, Top};
use icecore_analysis::clock::achieved_hz;
use icecore_analysis::wall_time::WallTime;
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::damage::DamageRow;
use icecore_profile::recording::losses::{losses, other_losses};
use icecore_profile::stacks::hits::Apart;
use icecore_text::quantity::ratio;

pub use icecore_analysis::quality::{Quality, Verdict};
use icecore_profile::recording::spans::Spans;
use sessions::{alike, labels, notes};

/// The arguments of `summary`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report summary [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report summary demo.icecore
  icecore-report demo.icecore --comm cc1        the same, of one program
  icecore-report demo.icecore --json | jq .verdict

The verdict: misleading if more than 10% of the samples (by weight) were lost; usable if more than 1% were, or fewer \
than 90% of the user stacks reach a root, or if the file is damaged; else good. Names are judged apart: most are \
missing if fewer than 50% of the frames of a sample have one, some if fewer than 90% have.

On a terminal it leaves out less important lines, to fit into 24; with --wide, or through a pipe, it has all.")]
pub struct Args;

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        Needs { apart: Apart { wall: true, ..Apart::default() }, tells_quality: true, ..Needs::default() }
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        let summary = Summary::new(shown.report);
        screen.emit(&summary, |page| summary.text(shown.report, page))?;
        Ok(true)
    }
}

/// The document.
#[derive(Debug, Serialize)]
pub struct Summary {
    schema: &'static str,
    file: String,
    /// Samples that the filters select.
    samples: u64,
    /// Samples in the file.
    samples_in_file: u64,
    /// Samples that were lost while recording.
    lost: u64,
    /// Those of known events.
    lost_by_event: Vec<LostRow>,
    /// The lost samples that only the receipt counts: their blocks are missing.
    samples_missing: u64,
    /// Wall time in which any session ran.
    duration_s: f64,
    /// The sum of the wall times of all sessions.
    sessions_s: f64,
    /// Samples per second of wall time, all CPUs together.
    rate_hz: f64,
    /// Samples of CPU time per second of it; `None` if no sample represents CPU time.
    achieved_hz: Option<f64>,
    file_bytes: u64,
    bytes_per_sample: f64,
    closed: bool,
    #[serde(flatten)]
    quality: Quality,
    hosts: Vec<String>,
    /// The files that were read as one; empty if it is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    /// The time between the sessions of a host that nobody recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<gaps::GapRow>,
    /// How many recordings these sessions are: of one that goes on in another session, all are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    recordings: Option<u64>,
    /// All sessions; empty if there is only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sessions: Vec<sessions::SessionSummary>,
    /// All sessions are of one machine, and were recorded by one command line.
    #[serde(skip)]
    are_of_one: bool,
    labels: BTreeMap<String, String>,
    filter: Option<String>,
    unit: String,
    total_weight: u64,
    /// `None` if that side was not sampled.
    user_share: Option<f64>,
    kernel_share: Option<f64>,
    /// From here to `events`: what all sessions have in common, if there are several; `sessions` has each.
    recorder: String,
    command_line: Vec<String>,
    kernel_release: String,
    arch: String,
    target: String,
    cpus: Vec<u32>,
    events: Vec<EventRow>,
    /// The events of the samples.
    events_shown: Vec<events::EventSum>,
    /// The events of samples that are not shown: waits that nobody asked for, or what `--event` leaves out.
    events_left_out: Vec<events::EventSum>,
    /// What the threads did all the time; `None` without waits, or with filters by function.
    wall_time: Option<wall::WallRow>,
    /// The begin of the earliest session, and the end of the latest.
    start_unix_ns: u64,
    end_unix_ns: u64,
    notes: Vec<String>,
    lost_by_cause: BTreeMap<String, u64>,
    /// Those of them that are no samples.
    #[serde(skip)]
    other_losses: BTreeMap<String, u64>,
    left_out: Vec<LeftOutRow>,
    damage: Vec<DamageRow>,
    processes: Vec<Process>,
    /// The heaviest cgroups; empty unless there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cgroups: Vec<Cgroup>,
    functions: Vec<top::Ranked>,
    /// The processes with the most memory; empty if the recording has no counters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peak_memory: Vec<memory::Peak>,
    /// What asked for it, if the recorder held it in memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    triggers: Vec<TriggerRow>,
    /// How the sampling rate changed; `None` if it did not, and the recorder did not pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<RateSummary>,
    /// The changes of the sampling rate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rates: Vec<RateRow>,
    receipt: Option<ReceiptRow>,
}

/// All processes with one name.
#[derive(Debug, Serialize)]
struct Process {
    comm: String,
    pids: u64,
    samples: u64,
    total: u64,
    share: f64,
}

/// A cgroup, without those below it.
#[derive(Debug, Serialize)]
struct Cgroup {
    /// `None` if there is one session.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// `None` if it is unknown.
    cgroup: Option<String>,
    samples: u64,
    total: u64,
    share: f64,
}

/// The number of rows of each ranking.
const PROCESSES: usize = 5;
const CGROUPS: usize = 5;
const FUNCTIONS: usize = 10;

impl Summary {
    /// Sums up a recording.
    pub fn new(report: &Report<'_>) -> Self {
        let loaded = report.loaded;
        let (tables, seen) = (&loaded.tables, &loaded.hits.seen);
        let session = &tables.session;
        let whole = report.profile.whole();
        let samples_in_file = tables.sample_blocks.iter().map(|b| u64::from(b.header.items)).sum();
        let lost_by_cause = losses(tables);
        let spans = Spans::new(tables, &loaded.filter);
        let duration_s = spans.together_ns() as f64 / 1e9;
        let last_ns = spans.hull_ns().1;
        let sessions = if spans.is_one() { Vec::new() } else { sessions::rows(report, &spans) };
        let ((quality, processes), (functions, _)) = rayon::join(
            || (Quality::new(report), processes(report)),
            || Top::rank(report, &[By::Function], Sort::Own, FUNCTIONS),
        );
        let in_kernel = report.profile.taken(|taken| taken.in_kernel);
        let in_user = report.profile.taken(|taken| !taken.in_kernel);
        let sessions_sample =
            |side: fn(&SessionV1) -> bool| tables.parts.iter().any(|part| side(&part.session));
        let sampled = (sessions_sample(|session| session.user), sessions_sample(|session| session.kernel));
        let file_bytes = loaded.recording.len_bytes();
        Self {
            schema: "icecore.summary/1",
            file: loaded.path.display().to_string(),
            samples: whole.samples,
            samples_in_file,
            lost: quality.lost.samples,
            lost_by_event: LostRow::list(tables, &quality.lost),
            samples_missing: tables.samples_missing,
            duration_s,
            sessions_s: spans.sum_ns() as f64 / 1e9,
            rate_hz: ratio(whole.samples as f64, duration_s),
            achieved_hz: achieved_hz(report),
            file_bytes,
            bytes_per_sample: ratio(file_bytes as f64, samples_in_file as f64),
            closed: loaded.recording.is_closed(),
            quality,
            hosts: tables.parts.hosts().to_vec(),
            files: if loaded.is_of_several() {
                loaded.files().into_iter().map(|path| path.display().to_string()).collect()
            } else {
                Vec::new()
            },
            gaps: gaps::GapRow::list(tables, &loaded.filter),
            are_of_one: tables.parts.are_alike(|it| {
                (it.kernel_release.clone(), it.arch.clone(), it.cpus.clone(), it.command_line.clone())
            }),
            recordings: (!spans.is_one()).then(|| sessions::recordings(tables)),
            sessions,
            labels: labels(tables),
            filter: report.filtered.clone(),
            unit: report.profile.measure.unit.clone(),
            total_weight: whole.weight,
            user_share: sampled.0.then(|| in_user.share_of(whole)),
            kernel_share: sampled.1.then(|| in_kernel.share_of(whole)),
            recorder: alike(tables, |session| session.recorder.clone()),
            command_line: alike(tables, |session| session.command_line.clone()),
            kernel_release: alike(tables, |session| session.kernel_release.clone()),
            arch: alike(tables, |session| session.arch.clone()),
            target: alike(tables, target),
            cpus: alike(tables, |session| session.cpus.clone()),
            events: EventRow::list(&alike(tables, |session| session.events.clone())),
            events_shown: events::sums(tables, seen, &seen.events),
            events_left_out: events::sums(tables, seen, &seen.unshown),
            wall_time: WallTime::new(report).map(|wall| wall::WallRow::new(&wall)),
            start_unix_ns: tables.parts.start_unix_ns(),
            end_unix_ns: tables
                .parts
                .start_unix_ns()
                .saturating_add(last_ns.saturating_sub(tables.parts.zero_ns())),
            notes: notes(tables),
            lost_by_cause,
            other_losses: other_losses(tables),
            left_out: LeftOutRow::list(tables),
            damage: DamageRow::list(&tables.damage),
            processes,
            cgroups: cgroups(report),
            functions,
            peak_memory: memory::peaks(report),
            triggers: TriggerRow::list(tables),
            rate: RateSummary::new(tables, &loaded.filter),
            rates: RateRow::list(tables),
            // If there are several sessions, each has its own.
            receipt: tables
                .receipt
                .as_ref()
                .filter(|_| spans.is_one())
                .map(|receipt| ReceiptRow::new(receipt, session.start_ns)),
        }
    }
}

/// Ranks processes by name; adds up those with one name.
fn processes(report: &Report<'_>) -> Vec<Process> {
    let (by_process, _) = Top::rank(report, &[By::Process], Sort::Own, usize::MAX);
    let mut by_name: BTreeMap<&str, Process> = BTreeMap::new();
    for row in &by_process {
        let process = by_name.entry(&row.name).or_insert_with(|| Process {
            comm: row.name.clone(),
            pids: 0,
            samples: 0,
            total: 0,
            share: 0.0,
        });
        process.pids += 1;
        process.samples += row.total_samples;
        process.total = process.total.saturating_add(row.total);
    }
    let whole = report.profile.whole();
    let mut processes: Vec<Process> = by_name.into_values().collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.total));
    processes.truncate(PROCESSES);
    for process in &mut processes {
        process.share = ratio(process.total as f64, whole.weight as f64);
    }
    processes
}

/// Ranks cgroups, if there are several.
fn cgroups(report: &Report<'_>) -> Vec<Cgroup> {
    let (rows, count) = Top::rank(report, &[By::Cgroup], Sort::Own, CGROUPS);
    let whole = report.profile.whole().weight as f64;
    let cgroup = |row: top::Ranked| Cgroup {
        share: ratio(row.total as f64, whole),
        host: row.facts.host,
        cgroup: row.facts.cgroup,
        samples: row.total_samples,
        total: row.total,
    };
    // Unknown cgroups of several hosts mean nothing.
    let is_told = count > 1 && rows.iter().any(|row| row.facts.cgroup.is_some());
    if is_told { rows.into_iter().map(cgroup).collect() } else { Vec::new() }
}
