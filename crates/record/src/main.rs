//! `icecore-record`: see `icecore-record --help`.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use icecore_record::{cli, options, run};

fn main() -> ExitCode {
    let outcome = options::Options::new(cli::Args::parse()).and_then(|options| run::record(&options));
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // stderr may be gone; there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "icecore-record: {error:#}");
            ExitCode::from(run::FAILED)
        }
    }
}
