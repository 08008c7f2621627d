//! `icecore-fuzz`: fuzz targets without libFuzzer, to repeat a finding or to look for one with any compiler.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use icecore_fuzz::drive::drive;
use icecore_fuzz::targets::{ALL, find};

const USAGE: &str = "\
usage: icecore-fuzz run TARGET FILE...             run these inputs
       icecore-fuzz mutate TARGET SECONDS [SEED]   run seeds and mutations
       icecore-fuzz seeds DIR                      write the seeds of TARGET to DIR/TARGET
targets:";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match command(&args) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
        None => {
            eprintln!("{USAGE} {}", ALL.map(|target| target.name).join(", "));
            ExitCode::from(2)
        }
    }
}

/// `None` if it makes no sense.
fn command(args: &[&str]) -> Option<std::io::Result<()>> {
    match args {
        ["run", target, files @ ..] => {
            let target = find(target)?;
            Some(files.iter().try_for_each(|file| {
                (target.run)(&std::fs::read(file)?);
                Ok(())
            }))
        }
        ["mutate", target, seconds, seed @ ..] => {
            let time = Duration::from_secs(seconds.parse().ok()?);
            let seed = seed.first().map_or(Some(1), |seed| seed.parse().ok())?;
            println!("{} executions", drive(find(target)?, time, seed));
            Some(Ok(()))
        }
        ["seeds", dir] => Some(write_seeds(Path::new(dir))),
        _ => None,
    }
}

fn write_seeds(dir: &Path) -> std::io::Result<()> {
    for target in ALL {
        let dir = dir.join(target.name);
        std::fs::create_dir_all(&dir)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(dir.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
