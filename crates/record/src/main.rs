//! `icecore-record`: see `icecore-record --help`.

use std::process::ExitCode;

use icecore_record::cli::{args, cache, check, summary};
use icecore_record::run;

fn main() -> ExitCode {
    let ended = match cache::parse(std::env::args_os()) {
        Some(args) => args.map(|args| run::cache::cache(&args)),
        None => args::parse(std::env::args_os())
            .map(|args| check::options(args).and_then(|options| run::record(&options))),
    };
    let ended = match ended {
        Ok(ended) => ended,
        Err(code) => return ExitCode::from(code),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            summary::tell(&format!("error: {error:#}"));
            ExitCode::from(run::FAILED)
        }
    }
}
