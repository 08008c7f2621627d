//! Defines options that several commands have, and the arguments of commands that do not show the samples of one recording.

/// Makes a parser for the values of an enum of another package.
macro_rules! words {
    ($parser:ident: $type:ty { $($value:ident: $word:literal),+ $(,)? }) => {
        pub(crate) fn $parser() -> impl clap::builder::TypedValueParser<Value = $type> {
            use clap::builder::TypedValueParser as _;
            clap::builder::PossibleValuesParser::new([$($word),+]).map(|word| match &*word {
                $($word => <$type>::$value,)+
                _ => unreachable!("bug: the parser accepts only its words"),
            })
        }
    };
}

mod archive;
mod diff;
mod export;
mod file;
mod html;
mod lookup;
mod parquet;
mod place;
mod serve;
mod ship;
mod source;
mod trend;
mod words;

use clap::{Args, ValueEnum};

pub use archive::{
    Action, Add, Archive, Baseline, Began, Chosen, Followed, Get, Moving, NightTrend, Outliers, Prune,
    QualityTrend, Regressions, Reindex, Search, ServeArchive, Verify as VerifyArchive,
};
pub use diff::{Condition, Diff, DiffUnit, Measure, Stretch};
pub use export::{Export, To};
pub use file::{Cache, Compact, Cut, Import, Info, Merge, Output, Pack, Redacted, Repair, Verify};
pub use html::{CODE, Html};
pub use lookup::Lookup;
pub use parquet::Parquet;
pub(crate) use place::Place;
pub use serve::Serve;
pub use ship::Ship;
pub use source::{Select, Source, Which};
pub use trend::{Order, Trend};
pub(crate) use words::root;
pub use words::{Owner, Sort, Weight, folder, share_percent};

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// Print JSON instead of text; docs/JSON.md has the keys
    #[arg(long, global = true, display_order = 100)]
    pub json: bool,
    /// Number of worker threads; the output does not depend on it [default: one per CPU]
    #[arg(long, global = true, display_order = 101, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Color the text: auto, always or never
    #[arg(
        long,
        global = true,
        display_order = 101,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: When,
    /// Show whole names on a terminal instead of cutting them to its width
    #[arg(long, global = true, display_order = 101)]
    pub wide: bool,
    /// Show no progress and no notes; warnings about the data stay
    #[arg(short, long, global = true, display_order = 102)]
    pub quiet: bool,
}

/// When to color.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// If the output is a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[cfg(test)]
mod tests;
