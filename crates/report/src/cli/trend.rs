//! The arguments of `trend`, which compares many recordings.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::{Select, Sort};
use icecore_analysis::trend::By as TrendBy;
use icecore_profile::named::NamePattern;

/// `trend`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report trend [OPTIONS] <FILE>...")]
#[command(after_help = "\
Examples:
  icecore-report trend archive/*.icecore                          the heaviest functions over time
  icecore-report trend archive/*.icecore --function '^compress'
  icecore-report trend builds/*.icecore --order label:version     by --label version=…
  icecore-report trend archive/*.icecore --csv > trend.csv

trend shows shares of everything that was sampled, so recordings of different rates and lengths can be mixed. It lists \
a change if neither chance in the samples nor the spread of the recordings explains it (5% for all rows together), with \
the first recording that shows it; a level needs three recordings. It says how large a change must be to be found in 8 of \
10 cases: smaller ones may be there. It matches functions by name and image, without what \
compilers and linkers add to names.")]
pub struct Trend {
    /// The recordings
    #[arg(required = true, value_name = "FILE", help_heading = "Arguments")]
    pub files: Vec<PathBuf>,
    /// Only the row of this name, or rows that match
    #[arg(long, value_name = "NAME|REGEX")]
    pub function: Option<NamePattern>,
    /// Show this many of the heaviest rows; 0: all
    #[arg(long, short = 'n', visible_alias = "rows", value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Show rows of this kind: function, image, process or thread
    #[arg(long, value_name = "WHAT", default_value = "function", hide_possible_values = true, value_parser = trend_by())]
    pub by: TrendBy,
    /// Follow self or total
    #[arg(long, value_name = "WHICH", default_value = "self", hide_possible_values = true)]
    pub sort: Sort,
    /// Compare functions as they were compiled: inlined code counts for the function around it
    #[arg(long)]
    pub physical: bool,
    /// Order recordings by time, given (as on the command line) or label:KEY (numbers in it by their value;
    /// recordings without it first)
    #[arg(long, value_name = "ORDER", default_value = "time")]
    pub order: Order,
    /// Print comma-separated values instead of text
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Which samples of all the recordings.
    #[command(flatten)]
    pub select: Select,
}

words!(trend_by: TrendBy { Function: "function", Image: "image", Process: "process", Thread: "thread" });

/// The order of recordings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// By their start.
    Time,
    /// As on the command line.
    Given,
    /// By the value of a label.
    Label(String),
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "time" => Ok(Self::Time),
            "given" => Ok(Self::Given),
            _ => match text.strip_prefix("label:") {
                Some(key) if !key.is_empty() => Ok(Self::Label(key.to_owned())),
                _ => Err("use time, given or label:KEY".to_owned()),
            },
        }
    }
}
