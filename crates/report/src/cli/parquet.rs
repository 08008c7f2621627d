//! The arguments of `parquet`.

use std::path::PathBuf;

use clap::Args;

use super::Lookup;

/// `parquet`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report parquet [OPTIONS] <FILE>... -o <DIR>")]
#[command(after_help = "\
Examples:
  icecore-report parquet fleet/*.icecore -o tables
  duckdb -c \"SELECT function_name, SUM(self) FROM 'tables/function/**/*.parquet'
             WHERE NOT inlined GROUP BY 1 ORDER BY 2 DESC LIMIT 20\"

parquet writes six tables: recording, function, stack, sample, image and counter, each in folders by day (UTC) and by the label \
`service` of the recording. DuckDB, ClickHouse, Spark and others read them as they are. function is the smallest and fastest: \
what hit each function, as top and top --by inlined print it. docs/FLEET.md describes the columns, and has questions as SQL.

To write the same recordings again replaces their files by equal ones. Rows of one run and one day and service become one file of \
each table, with at most 2 million samples; up to about 150 bytes of memory are taken for each sample that waits.

If some recordings cannot be read, parquet writes the tables of the others, names what it left out, and exits with 2.")]
pub struct Parquet {
    /// The recordings; `-`: stdin
    #[arg(required = true, value_name = "FILE", help_heading = "Arguments")]
    pub files: Vec<PathBuf>,
    /// The folder of the tables, or s3://BUCKET/PREFIX; it need not exist
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Where images and debug files are found.
    #[command(flatten)]
    pub lookup: Lookup,
}
