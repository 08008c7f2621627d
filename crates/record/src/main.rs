//! `icecore-record`: see `icecore-record --help`.

use std::process::ExitCode;

use icecore_record::cli::{args, check, summary};
use icecore_record::run;

fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(code) => return ExitCode::from(code),
    };
    match check::options(args).and_then(|options| run::record(&options)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            summary::tell(&format!("error: {error:#}"));
            ExitCode::from(run::FAILED)
        }
    }
}
