//! `diff`: what changed between two sides of recordings.

mod check;
mod code;
pub mod file;
pub mod flame;
mod markdown;
mod text;
mod totals;

use serde::Serialize;

use crate::cli::{self, Sort};
use icecore_analysis::compare::By as DiffBy;
use icecore_analysis::compare::noise::{RESAMPLES, SEED};
use icecore_analysis::compare::{
    self, Compared, ComparedSide, Comparison, Metric, RecordingFacts, RowKey, SHOWN_AT, Sided, Status, Unit,
    Work,
};
use icecore_text::path::shown;

/// The document.
#[derive(Debug, Serialize)]
pub struct Diff {
    schema: &'static str,
    by: &'static str,
    sort: &'static str,
    /// The unit of the rates: `share`, `cpu_s_per_s`, `cpu_s_per_work`, `cpu_s_per_run`; `time_s_per_s` and so on if waits are among
    /// the weights; `weight_per_s` and so on if weights are not times.
    unit: &'static str,
    weight_unit: String,
    /// The weight of all recordings of a side.
    before_total: u64,
    after_total: u64,
    /// The smallest change of a row of 1 % that `diff` would have found with a probability of 80 %.
    detectable: f64,
    detectable_at: Vec<Detectable>,
    before: Vec<ComparedRecording>,
    after: Vec<ComparedRecording>,
    /// The rates of everything: per run if recordings are whole runs, per unit of work, or per second of wall time, which is CPUs
    /// in use if weights are times.
    whole: Rates,
    whole_unit: &'static str,
    /// CPU time per run if recordings are whole runs, else per second of wall time.
    cpu_time: totals::Total,
    /// Wall time per run if recordings are whole runs, s; otherwise the recorded time, which is not tested.
    wall_time: totals::Total,
    noise: NoiseSource,
    /// The number of rows that were tested.
    tested: u64,
    /// The number of rows that changed, without those that only follow others.
    changed: u64,
    /// The factor by which the shares of most rows changed, because a few rows took more or less.
    common_factor: Option<f64>,
    /// The number of functions that share their name with others, and are told apart.
    told_apart: u64,
    /// The number of names of several functions that nothing tells apart on both sides.
    summed: u64,
    /// Images whose functions form one row together, because one side has no names for them.
    images_without_names: Vec<String>,
    /// The number of all rows; `rows` may have fewer.
    row_count: u64,
    rows: Vec<Difference>,
    /// The conditions of `--fail-on`, and the rows for which they hold.
    fail_on: Vec<check::Check>,
    /// The rates of everything, in the unit of the rows.
    #[serde(skip)]
    everything: [f64; 2],
    #[serde(skip)]
    shown: usize,
    /// The weights are CPU time.
    #[serde(skip)]
    is_cpu_time: bool,
    #[serde(skip)]
    with_noise: bool,
}

/// The smallest change that would have been found, for a row with this share.
#[derive(Debug, Serialize)]
struct Detectable {
    share: f64,
    change: f64,
}

/// One recording.
#[derive(Debug, Serialize)]
struct ComparedRecording {
    file: String,
    hosts: Vec<String>,
    samples: u64,
    weight: u64,
    duration_s: f64,
    lost_share: f64,
    filter: Option<String>,
    /// The number of stretches of the file that could not be used.
    damaged: u64,
}

/// How `diff` estimated noise.
#[derive(Debug, Serialize)]
struct NoiseSource {
    /// `blocks` of time, `steps` from slice to slice of whole runs, or `runs`, if the differences between several recordings
    /// count as well.
    from: &'static str,
    block_s: f64,
    resamples: u64,
    seed: u64,
    /// The factor by which the noise was raised, because rows differ by more than chance inside of recordings explains.
    widened: f64,
    false_discovery_rate: f64,
    /// The probability below which a row counts as changed.
    threshold: f64,
}

/// The rates of a row, or of everything.
#[derive(Debug, Clone, Copy, Serialize)]
struct Rates {
    before: f64,
    after: f64,
    delta: f64,
    /// 95 % confidence interval of the difference.
    low: f64,
    high: f64,
    /// There were enough samples to test the difference.
    tested: bool,
    /// The probability of such a difference by chance; 1 if it was not tested.
    p: f64,
    significant: bool,
    /// The smallest change that `diff` would have found with a probability of 80 %.
    detectable: f64,
    before_samples: u64,
    after_samples: u64,
}

/// One row.
#[derive(Debug, Clone, Serialize)]
struct Difference {
    name: String,
    image: Option<String>,
    /// Its name before, if that was another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    before_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before_image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before_line: Option<u32>,
    status: &'static str,
    /// The rates by the requested metric.
    #[serde(flatten)]
    rates: Rates,
    #[serde(rename = "self")]
    own: Rates,
    total: Rates,
    /// The similarity of callers and callees, for a row that was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    likeness: Option<f64>,
    /// The machine code is `identical` or `different`, or both images are the `same_build`; absent if the files are not
    /// available.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip)]
    what: Status,
}

/// The number of rows whose code is compared: the first ones.
const CODE_ROWS: usize = 50;

impl Diff {
    /// Makes the rows of a comparison.
    pub fn new(compared: &Comparison, reports: &[Sided<'_>], options: &cli::Diff) -> Self {
        let metric = match options.sort {
            Sort::Own => Metric::Own,
            Sort::Total => Metric::Total,
        };
        let summary = compared.summary(metric);
        let mut rows: Vec<(&compare::ComparedRow, Status)> =
            compared.rows.iter().map(|row| (row, compared.status(row, metric))).collect();
        let row_count = rows.len() as u64;
        let is_change = |(row, what): &&(&compare::ComparedRow, Status)| {
            what.is_shown() && row.of(metric).judged.significant
        };
        let changed = rows.iter().filter(is_change).count() as u64;
        rows.retain(|(row, what)| options.all || row.of(metric).judged.tested || what.is_shown());
        let mut rows: Vec<Difference> = rows
            .into_iter()
            .map(|(row, what)| {
                Difference::new(&row.keys, what, row.of(metric), &row.own, &row.total, row.likeness)
            })
            .collect();
        rows.sort_by(|a, b| {
            let weight = |row: &Difference| (row.what.is_shown(), row.rates.delta.abs());
            let (x, y) = (weight(a), weight(b));
            y.0.cmp(&x.0).then(y.1.total_cmp(&x.1)).then_with(|| a.identity().cmp(&b.identity()))
        });
        let [before, after] = &compared.sides;
        let total = |side: &ComparedSide| {
            side.recordings.iter().fold(0, |sum: u64, it| sum.saturating_add(it.weight))
        };
        let fail_on = options.fail_on.iter().map(|it| check::Check::new(*it, compared)).collect();
        if options.by == DiffBy::Function {
            let changed = rows.iter_mut().filter(|row| row.what.is_shown());
            code::compare_code(reports, &mut changed.take(CODE_ROWS).collect::<Vec<_>>());
        }
        Self {
            schema: "icecore.diff/1",
            by: by(options.by),
            sort: if options.sort == Sort::Own { "self" } else { "total" },
            unit: unit(compared.unit, compared),
            weight_unit: compared.weight_unit.clone(),
            before_total: total(before),
            after_total: total(after),
            detectable: summary.detectable[1],
            detectable_at: SHOWN_AT
                .iter()
                .zip(summary.detectable)
                .map(|(share, change)| Detectable { share: *share, change })
                .collect(),
            before: before.recordings.iter().map(ComparedRecording::new).collect(),
            after: after.recordings.iter().map(ComparedRecording::new).collect(),
            whole: Rates::new(&compared.whole.0),
            whole_unit: unit(compared.whole.1, compared),
            cpu_time: totals::cpu(compared),
            wall_time: totals::wall(compared),
            noise: NoiseSource {
                from: noise(compared),
                block_s: compared.block_ns[metric as usize] as f64 / 1e9,
                resamples: RESAMPLES as u64,
                seed: SEED,
                widened: summary.widened,
                false_discovery_rate: options.false_discoveries / 100.0,
                threshold: summary.threshold,
            },
            tested: summary.tested as u64,
            changed,
            common_factor: summary.common,
            told_apart: compared.told_apart().0,
            summed: compared.told_apart().1,
            images_without_names: compared.images_without_names(),
            row_count,
            rows,
            fail_on,
            everything: [before.rate, after.rate],
            shown: if options.rows > 0 { options.rows } else { usize::MAX },
            is_cpu_time: compared.is_cpu_time,
            with_noise: options.all,
        }
    }

    /// Returns true if a condition of `--fail-on` holds.
    pub fn fails(&self) -> bool {
        self.fail_on.iter().any(check::Check::holds)
    }

    /// Returns the rows that the text shows, and how many there would be without a limit.
    fn shown(&self) -> (&[Difference], usize) {
        let end = if self.with_noise {
            self.rows.len()
        } else {
            self.rows.iter().take_while(|row| row.what.is_shown()).count()
        };
        (&self.rows[..end.min(self.shown)], end)
    }

    /// Describes the recordings of a side, for a title.
    fn files(&self, side: usize) -> String {
        match &[&self.before, &self.after][side][..] {
            [one] => one.file.clone(),
            several => format!("{} recordings", several.len()),
        }
    }

    fn diluted(&self) -> usize {
        self.rows.iter().filter(|row| row.what == Status::Diluted).count()
    }
}

fn by(by: DiffBy) -> &'static str {
    match by {
        DiffBy::Function => "function",
        DiffBy::Line => "line",
        DiffBy::Image => "image",
        DiffBy::Process => "process",
        DiffBy::Thread => "thread",
        DiffBy::Stack => "stack",
    }
}

fn noise(compared: &Comparison) -> &'static str {
    match (compared.sides.iter().any(|side| side.recordings.len() > 1), compared.whole_runs) {
        (true, _) => "runs",
        (_, true) => "steps",
        _ => "blocks",
    }
}

fn unit(unit: Unit, compared: &Comparison) -> &'static str {
    let [per_second, per_work, per_run] = match (compared.is_cpu_time, &*compared.weight_unit) {
        (true, _) => ["cpu_s_per_s", "cpu_s_per_work", "cpu_s_per_run"],
        (_, "ns") => ["time_s_per_s", "time_s_per_work", "time_s_per_run"],
        _ => ["weight_per_s", "weight_per_work", "weight_per_run"],
    };
    match unit {
        Unit::Share => "share",
        Unit::PerSecond => per_second,
        Unit::PerWork(Work { .. }) => per_work,
        Unit::PerRun => per_run,
    }
}

impl ComparedRecording {
    fn new(facts: &RecordingFacts) -> Self {
        Self {
            file: shown(&facts.path),
            hosts: facts.hosts.clone(),
            samples: facts.samples,
            weight: facts.weight,
            duration_s: facts.span_ns as f64 / 1e9,
            lost_share: facts.lost_share,
            filter: facts.filter.clone(),
            damaged: facts.damaged,
        }
    }
}

impl Rates {
    fn new(compared: &Compared) -> Self {
        let Compared { estimate, judged, samples } = compared;
        Self {
            before: estimate.before,
            after: estimate.after,
            delta: estimate.delta(),
            low: judged.low,
            high: judged.high,
            tested: judged.tested,
            p: judged.p,
            significant: judged.significant,
            detectable: judged.detectable,
            before_samples: samples.0,
            after_samples: samples.1,
        }
    }
}

impl Difference {
    fn new(
        keys: &[Option<RowKey>; 2],
        what: Status,
        shown: &Compared,
        own: &Compared,
        total: &Compared,
        likeness: Option<f64>,
    ) -> Self {
        let [before, after] = keys;
        let key = after.as_ref().or(before.as_ref()).cloned().unwrap_or_default();
        let earlier = before.as_ref().filter(|_| after.is_some());
        let differs = |old: Option<String>, new: &Option<String>| old.filter(|old| Some(old) != new.as_ref());
        Self {
            before_name: differs(earlier.map(|it| it.name.clone()), &Some(key.name.clone())),
            before_image: differs(earlier.and_then(|it| it.image.clone()), &key.image),
            before_line: earlier.and_then(|it| it.line).filter(|line| Some(*line) != key.line),
            name: key.name,
            image: key.image,
            file: key.file,
            line: key.line,
            status: what.name(),
            rates: Rates::new(shown),
            own: Rates::new(own),
            total: Rates::new(total),
            likeness,
            code: None,
            what,
        }
    }

    /// Returns the key that orders rows of equal weight.
    fn identity(&self) -> impl Ord + '_ {
        (&self.name, &self.image, &self.before_name, &self.file, self.line, self.before_line)
    }
}
