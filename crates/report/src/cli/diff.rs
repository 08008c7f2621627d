//! The arguments of `diff`, which compares two sides of recordings.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::{Select, Sort};
use icecore_analysis::compare::By as DiffBy;
use icecore_profile::recording::filter::Moment;

/// `diff`
#[derive(Debug, Clone, Args)]
#[command(override_usage = "icecore-report diff [OPTIONS] <BEFORE> <AFTER>\n       \
icecore-report diff [OPTIONS] --before <FILE>... --after <FILE>...\n       \
icecore-report diff [OPTIONS] <FILE> --slice <A..B> --against <C..D>")]
#[command(after_help = "\
Examples:
  icecore-report diff before.icecore after.icecore             which functions changed
  icecore-report diff before.icecore after.icecore --sort total
  icecore-report diff old.icecore new.icecore -o diff.svg      and a flame graph
  icecore-report diff --before a1 a2 a3 --after b1 b2 b3       several runs on each side
  icecore-report diff FILE --slice 12.4..13 --against ..12     a spike against before
  icecore-report diff old new --unit work --work-before 5000 --work-after 8000
  icecore-report diff old new --fail-on 'self>2%' || exit 1    a check in CI

diff shows changes that chance does not explain: at most 5% of the reported changes are chance (Benjamini and \
Hochberg). It estimates noise from how rates vary over time inside of the recordings, and with several recordings on a \
side from how these differ; in whole runs of a command only variation from moment to moment counts. Sampling rates, \
lengths and periods of the recordings may differ: diff compares shares, or rates per time or work.

--fail-on: `self>2%` holds if the self time of a function grew by more than 2% of everything before, `total<-5%` if \
its total time shrank by more than 5%, `self_ratio>1.2` if its self time is more than 1.2 times what it was. If the \
recordings are whole runs of a command, `cpu>5%` holds if a run takes over 5% more CPU time, `wall>5%` if it takes \
over 5% longer. `whole>5%` means `cpu` for whole runs; otherwise it holds if everything takes over 5% more CPU per \
second, or with --work-before and --work-after per unit of work. Changes that may be chance never count, and neither \
do changes of shares that only follow from the changes of others. With one run on a side, diff assumes how runs differ \
(docs/COMPARING.md): it finds changes of CPU time of a fifth and more, and of wall time if it more than triples. With \
three and more on each side it measures how runs differ.

Exit codes: 0 done; 1 a condition of --fail-on holds; 2 failed.")]
pub struct Diff {
    /// The recordings: before and after; or one, with --slice and --against; of a folder the newest
    #[arg(value_name = "FILE", num_args = 0..=2, conflicts_with_all = ["before", "after"], help_heading = "Arguments")]
    pub files: Vec<PathBuf>,
    /// Recordings of the side before
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after")]
    pub before: Vec<PathBuf>,
    /// Recordings of the side after
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before")]
    pub after: Vec<PathBuf>,
    /// The stretch of one recording to examine: A..B, seconds after the start
    #[arg(long, value_name = "A..B", requires = "against", conflicts_with_all = ["from", "to", "before"])]
    pub slice: Option<Stretch>,
    /// The stretch of the same recording to compare it with
    #[arg(long, value_name = "C..D", requires = "slice")]
    pub against: Option<Stretch>,
    /// Show rows of this kind: function, line, image, process, thread or stack
    #[arg(long, value_name = "WHAT", default_value = "function", hide_possible_values = true, value_parser = diff_by())]
    pub by: DiffBy,
    /// Compare self or total
    #[arg(long, value_name = "WHICH", default_value = "self", hide_possible_values = true)]
    pub sort: Sort,
    /// Compare rates of this kind: share (of everything that was sampled), cpu (CPU seconds per second of wall time) or work (per
    /// unit of work, which is one run if the recordings are whole runs of a command)
    #[arg(long, value_name = "UNIT", hide_possible_values = true)]
    pub unit: Option<DiffUnit>,
    /// Units of work that each recording before did: requests, rows, builds
    #[arg(long, value_name = "N", requires = "work_after", value_parser = positive)]
    pub work_before: Option<f64>,
    /// Units of work that each recording after did
    #[arg(long, value_name = "N", requires = "work_before", value_parser = positive)]
    pub work_after: Option<f64>,
    /// Compare functions as they were compiled: inlined code counts for the function around it
    #[arg(long)]
    pub physical: bool,
    /// Let at most this many percent of the reported changes be chance
    #[arg(long, value_name = "P", default_value_t = FALSE_DISCOVERIES, value_parser = level)]
    pub false_discoveries: f64,
    /// Also show rows whose change may be chance
    #[arg(long)]
    pub all: bool,
    /// Show this many rows; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 25)]
    pub rows: usize,
    /// Write a flame graph of the difference (.svg), a page to explore both sides (.html), or the page for a pull request (.md)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file of -o if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Print Markdown, for a pull request
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Exit with 1 if this condition holds; may be repeated
    #[arg(long, value_name = "CONDITION")]
    pub fail_on: Vec<Condition>,
    /// Which samples of all the recordings.
    #[command(flatten)]
    pub select: Select,
}

impl Diff {
    /// Returns the options of `diff BEFORE AFTER --all --rows 0`.
    pub fn of(files: Vec<PathBuf>, select: Select) -> Self {
        Self {
            files,
            before: Vec::new(),
            after: Vec::new(),
            slice: None,
            against: None,
            by: DiffBy::Function,
            sort: Sort::Own,
            unit: None,
            work_before: None,
            work_after: None,
            physical: false,
            false_discoveries: FALSE_DISCOVERIES,
            all: true,
            rows: 0,
            output: None,
            force: false,
            markdown: false,
            fail_on: Vec::new(),
            select,
        }
    }
}

/// How many percent of the reported changes may be chance, unless the user says it.
pub(super) const FALSE_DISCOVERIES: f64 = 5.0;

words!(diff_by: DiffBy {
    Function: "function",
    Line: "line",
    Image: "image",
    Process: "process",
    Thread: "thread",
    Stack: "stack"
});

/// The kind of the rates that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffUnit {
    /// Shares of everything that was sampled.
    Share,
    /// CPU seconds per second of wall time.
    Cpu,
    /// CPU seconds per unit of work.
    Work,
}

/// A stretch of time: `A..B`, `..B` or `A..`, after the start of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Its begin; the start if absent.
    pub from: Option<Moment>,
    /// Its end; the end if absent.
    pub to: Option<Moment>,
}

/// A condition with which `diff` exits with 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// The measure that is compared with the bound.
    pub what: Measure,
    /// The condition holds if the value is larger than the bound, else if it is smaller.
    pub is_above: bool,
    /// The bound as a fraction: 2% is 0.02.
    pub bound: f64,
}

/// The measure of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The change of a row, as a share of everything before.
    Change(Sort),
    /// After divided by before.
    Ratio(Sort),
    /// The change of everything, as a share of everything before.
    Whole,
    /// The change of the CPU time per run, as a share of that before.
    Cpu,
    /// The change of the wall time per run, as a share of that before.
    Wall,
}

const MEASURES: [(&str, Measure); 7] = [
    ("self_ratio", Measure::Ratio(Sort::Own)),
    ("total_ratio", Measure::Ratio(Sort::Total)),
    ("self", Measure::Change(Sort::Own)),
    ("total", Measure::Change(Sort::Total)),
    ("whole", Measure::Whole),
    ("cpu", Measure::Cpu),
    ("wall", Measure::Wall),
];

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let how = || "use self>2%, total<-5%, self_ratio>1.2, whole>5%, cpu>5% or wall>5%".to_owned();
        let at = text.find(['<', '>']).ok_or_else(how)?;
        let (name, rest) = text.split_at(at);
        let (_, what) = *MEASURES.iter().find(|(known, _)| *known == name.trim()).ok_or_else(how)?;
        let number = rest[1..].trim();
        let percent = number.strip_suffix('%');
        let bound: f64 = percent.unwrap_or(number).trim().parse().map_err(|_| how())?;
        let scale = if percent.is_some() { 0.01 } else { 1.0 };
        let is_possible = match what {
            Measure::Ratio(_) => bound >= 0.0,
            // A program reads 2 as 200%, most people as 2%.
            _ => percent.is_some() || bound.abs() <= 1.0,
        };
        if !bound.is_finite() || !is_possible {
            return Err(how());
        }
        Ok(Self { what, is_above: rest.starts_with('>'), bound: bound * scale })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = MEASURES.iter().find(|(_, what)| *what == self.what).unwrap_or(&MEASURES[0]);
        let sign = if self.is_above { '>' } else { '<' };
        match self.what {
            Measure::Ratio(_) => write!(f, "{name}{sign}{}", self.bound),
            // Rounded, because 2% must not become 2.0000000000000004%.
            _ => write!(f, "{name}{sign}{}%", (self.bound * 1e8).round() / 1e6),
        }
    }
}

impl Stretch {
    /// Returns true if two stretches have a moment in common.
    pub fn overlaps(self, other: Self) -> bool {
        let begins_before_end = |a: Self, b: Self| match (a.from, b.to) {
            (Some(from), Some(to)) => from.ns < to.ns,
            _ => true,
        };
        begins_before_end(self, other) && begins_before_end(other, self)
    }
}

impl FromStr for Stretch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").ok_or("use A..B, in seconds after the start")?;
        let moment = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse::<Moment>().map(Some),
        };
        let stretch = Self { from: moment(from)?, to: moment(to)? };
        match (stretch.from, stretch.to) {
            (Some(from), Some(to)) if from.ns >= to.ns => Err("it ends before it begins".to_owned()),
            _ => Ok(stretch),
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("must be a number above 0".to_owned()),
    }
}

pub(super) fn level(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.001..=50.0).contains(&percent) => Ok(percent),
        _ => Err("must lie between 0.001 and 50".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_printed_as_they_are_typed() {
        for text in
            ["self>2%", "total<-5%", "self_ratio>1.2", "total_ratio<0.5", "whole>0.5%", "cpu>5%", "wall<-10%"]
        {
            assert_eq!(text.parse::<Condition>().map(|it| it.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(" self > 0.02".parse::<Condition>().map(|it| it.bound), Ok(0.02));
        for bad in [
            "",
            "self",
            "self>",
            "selfie>2%",
            "self>nan",
            "self=2%",
            "self>2%%",
            "self>2",
            "whole<-5",
            "self_ratio>-1",
        ] {
            assert!(bad.parse::<Condition>().is_err(), "{bad}");
        }
    }

    #[test]
    fn stretches_may_be_open_on_both_sides() {
        let ns = |text: &str| {
            text.parse::<Stretch>().map(|it| (it.from.map(|it| it.ns), it.to.map(|it| it.ns))).ok()
        };
        assert_eq!(ns("1..2.5"), Some((Some(1_000_000_000), Some(2_500_000_000))));
        assert_eq!(ns("..500ms"), Some((None, Some(500_000_000))));
        assert_eq!(ns("1.."), Some((Some(1_000_000_000), None)));
        for bad in ["1", "2..1", "1..1", "a..b"] {
            assert_eq!(ns(bad), None, "{bad}");
        }
        let stretch = |text: &str| text.parse::<Stretch>().expect("a stretch");
        let overlaps = |a, b| stretch(a).overlaps(stretch(b));
        assert_eq!([overlaps("0..2", ".."), overlaps("1..3", "2..4"), overlaps("..5", "4..")], [true; 3]);
        assert_eq!([overlaps("0..2", "2..3"), overlaps("3..", "..3")], [false; 2]);
    }
}
