//! The driver for any compiler: seeds, then mutations of them, for a while. It knows no coverage; libFuzzer
//! (`make fuzz`) does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::mutate::{Dice, mutate};
use crate::scratch;
use crate::targets::Target;

/// No execution may take longer, on a machine that others use as well.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Executions that there are at least, however slow they are.
const FEWEST: usize = 30;

/// Runs a target over its seeds and over mutations of them until the time is up, and tells how often.
///
/// # Panics
/// With the file of the input, if the target panics or takes longer than [`TIME_LIMIT`]. If it aborts, the file is
/// there as well.
pub fn drive(target: Target, time: Duration, seed: u64) -> u64 {
    let current = current_input(&target);
    let again = format!("again: cargo run -p icecore-fuzz -- run {} {}", target.name, current.display());
    // A backtrace would be read from the DWARF of this program: memory that is not the target's.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let (done, heard) = channel();
    let file = current.clone();
    // Some are made by compilers: that is not the target's time.
    let seeds = (target.seeds)();
    std::thread::spawn(move || {
        let mut dice = Dice::new(seed);
        let end = Instant::now() + time;
        let mut executions = 0;
        while executions < seeds.len().max(FEWEST) || Instant::now() < end {
            let mut input = seeds.get(executions).cloned().unwrap_or_else(|| {
                let mut input = seeds[dice.below(seeds.len())].clone();
                mutate(&mut input, &seeds, &mut dice);
                input
            });
            std::fs::write(&file, &input).expect("room for one input");
            let ran = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
            executions += 1;
            input.clear();
            let is_finding = ran.is_err();
            // The file of a finding must stay as it is.
            if done.send(ran.map(|()| executions as u64)).is_err() || is_finding {
                return;
            }
        }
    });
    let mut executions = 0;
    loop {
        match heard.recv_timeout(TIME_LIMIT) {
            Ok(Ok(count)) => executions = count,
            Ok(Err(_)) => panic!("{} panicked, seed {seed}; {again}", target.name),
            Err(RecvTimeoutError::Timeout) => panic!("{} did not end, seed {seed}; {again}", target.name),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    drop(std::fs::remove_file(current));
    executions
}

/// Where the input of the execution that runs is kept.
fn current_input(target: &Target) -> PathBuf {
    scratch::folder().join(format!("icecore-fuzz-{}-{}", target.name, std::process::id()))
}
