//! `icecore-record`: see `icecore-record --help`.

use std::process::ExitCode;

use icecore_record::cli::{self, args, cache, check, ctl, summary};
use icecore_record::{doctor, run};

fn main() -> ExitCode {
    let line = std::env::args_os;
    let ended = if let Some(args) = cache::parse(line()) {
        args.map(|args| run::cache::cache(&args))
    } else if let Some(args) = cli::doctor::parse(line()) {
        args.map(|args| doctor::doctor(&args))
    } else if let Some(args) = ctl::parse(line()) {
        args.map(|args| ctl::ctl(&args))
    } else {
        args::parse(line()).map(|args| check::options(args).and_then(|options| run::record(&options)))
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
