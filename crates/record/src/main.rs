//! `icecore-record`: see `icecore-record --help`.

use std::process::ExitCode;

use icecore_record::cli::{args, cache, check, summary};
use icecore_record::run;

fn main() -> ExitCode {
    let ended = if std::env::args_os().nth(1).is_some_and(|first| first == cache::NAME) {
        cache::run(std::env::args_os().skip(1))
    } else {
        match args::parse(std::env::args_os()) {
            Ok(args) => check::options(args).and_then(|options| run::record(&options)),
            Err(code) => return ExitCode::from(code),
        }
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            summary::tell(&format!("error: {error:#}"));
            ExitCode::from(run::FAILED)
        }
    }
}
