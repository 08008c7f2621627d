//! `icecore-record`: see `icecore-record --help`.

use std::process::ExitCode;

use clap::Parser as _;
use icecore_record::{cli, options, run};

/// Exit code for every failure of the recorder itself; the command's own code is passed on otherwise.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let outcome = options::Options::new(cli::Args::parse()).and_then(|options| run::record(&options));
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("icecore-record: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}
