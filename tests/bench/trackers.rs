//! Gives trackers what many rings would send, and prints samples per second of CPU: what a machine of 256 CPUs needs
//! (docs/DECISIONS.md, "Hundreds of CPUs").
//!
//! usage: trackers [HZ] [SECONDS]     (199 and 10 by default)
//!
//! This machine is recorded while `tests/workload.sh` runs again and again; what came is then sent as if it came from 1, 8 and 64
//! rings, each with processes and CPUs of its own, to one tracker and to several.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use icecore_record::cli::{args, check};

use self::simulate::{MAX_RINGS, capture};

mod simulate;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let hz = args.next().unwrap_or_else(|| "199".to_owned());
    let seconds = args.next().unwrap_or_else(|| "10".to_owned());
    let line = ["icecore-record", "-a", "-F", &hz, "-d", &seconds, "--ring", "64M"].map(OsString::from);
    let options = check::options(args::parse(line).map_err(|code| format!("exit code {code}"))?)?;
    let is_over = AtomicBool::new(false);
    let captured = std::thread::scope(|scope| {
        scope.spawn(|| work_until(&is_over));
        let captured = capture(&options);
        is_over.store(true, Ordering::Relaxed);
        captured
    })?;
    let once = captured.feed(&options, 1, 1)?;
    println!(
        "captured: {} samples, {:.1} records and {:.1} KiB of the ring each, {} CPUs at {hz} Hz",
        once.samples,
        captured.ring_records() as f64 / once.samples.max(1) as f64,
        captured.ring_bytes() as f64 / 1024.0 / once.samples.max(1) as f64,
        options.cpus.len()
    );
    println!(
        "rings  trackers  samples    µs of CPU per sample  samples per second of CPU  samples per second  shortened"
    );
    for (rings, trackers) in [(1, 1), (8, 1), (MAX_RINGS, 1), (MAX_RINGS, 2), (MAX_RINGS, 4), (MAX_RINGS, 8)]
    {
        let fed = captured.feed(&options, rings, trackers)?;
        let cpu: f64 = fed.cpu.iter().map(std::time::Duration::as_secs_f64).sum();
        let samples = fed.samples as f64;
        println!(
            "{rings:5}  {trackers:8}  {:9}  {:20.1}  {:25.0}  {:18.0}  {:8.2} %",
            fed.samples,
            cpu / samples * 1e6,
            samples / cpu,
            samples / fed.took.as_secs_f64(),
            fed.shortened as f64 / samples * 100.0
        );
    }
    Ok(())
}

/// Keeps the machine busy.
fn work_until(is_over: &AtomicBool) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("workload.sh");
    let folder = std::env::temp_dir().join(format!("icecore-trackers-{}", std::process::id()));
    while !is_over.load(Ordering::Relaxed) {
        let run = Command::new(&script).arg(&folder).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !run.is_ok_and(|status| status.success()) {
            eprintln!("trackers: the workload failed");
            break;
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}
