//! The arguments of `export`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use icecore_export::{ALL, Format, by_name};

use super::Source;

/// `export`. Its `--to` is the format, so that the end of a stretch of time has another name here.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("to", |end| end.long("until")))]
#[command(override_usage = "icecore-report export [OPTIONS] --to <FORMAT> [FILE]... -o <OUT>")]
#[command(after_help = "\
Examples:
  icecore-report export demo.icecore --to pprof -o demo.pb.gz && go tool pprof demo.pb.gz
  icecore-report export demo.icecore --to firefox -o demo.json.gz
  icecore-report export demo.icecore --to perf-script -o - | inferno-collapse-perf
  icecore-report export demo.icecore --to callgrind -o callgrind.out.demo --comm cc1
  icecore-report export demo.icecore --to csv -o demo.csv --from 10 --until 20

Names are whole, and inlined functions are frames, so that functions have the sums of top --by inlined. All events are exported unless \
--event names some; in folded and perf-script those that other views show. export prints what the recording has and the format has no place for; \
docs/EXPORT.md has a table. Text is compressed if OUT ends in .gz. parquet is a folder of tables, as the command of this name writes it.")]
pub struct Export {
    /// The format
    #[arg(id = "format", long = "to", value_name = "FORMAT", value_parser = formats(), help_heading = "Arguments")]
    pub to: To,
    /// The file; `-`: stdout, for formats that are text
    #[arg(short, long, value_name = "OUT", help_heading = "Arguments")]
    pub output: PathBuf,
    /// Replace OUT if it exists
    #[arg(long)]
    pub force: bool,
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

/// What is written.
#[derive(Clone, Copy)]
pub enum To {
    /// A file.
    Format(&'static dyn Format),
    /// A folder of tables.
    Parquet,
}

/// The name of [`To::Parquet`].
const PARQUET: &str = "parquet";

/// Makes the parser of the names of formats.
fn formats() -> impl TypedValueParser<Value = To> {
    let names = ALL.iter().map(|format| format.name()).chain([PARQUET]);
    PossibleValuesParser::new(names).map(|name| by_name(&name).map_or(To::Parquet, To::Format))
}

impl std::fmt::Debug for To {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Format(format) => f.write_str(format.name()),
            Self::Parquet => f.write_str(PARQUET),
        }
    }
}
