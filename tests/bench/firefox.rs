//! Writes samples as a profile for the Firefox Profiler, with the crate by which samply writes its own: `firefox FILE < SAMPLES`.
//!
//! The samples are the lines of `icecore-report samples --json`. Frames are labels: names, without addresses and lines. All frames
//! without a name have one label, which makes the profile smaller than samply's.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufWriter, Write};
use std::time::SystemTime;

use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, SamplingInterval, Timestamp,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Sample {
    time_ns: u64,
    tgid: u32,
    tid: u32,
    comm: String,
    weight: u64,
    frames: Vec<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: firefox FILE < SAMPLES")?;
    let now = SystemTime::now().into();
    let mut profile = Profile::new("bench", now, SamplingInterval::from_nanos(1_001_001));
    let (mut processes, mut threads) = (HashMap::new(), HashMap::new());
    let zero = Timestamp::from_nanos_since_reference(0);
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let Sample { time_ns, tgid, tid, comm, weight, frames } = serde_json::from_str(&line)?;
        let process = *processes.entry(tgid).or_insert_with(|| profile.add_process(&comm, tgid, zero));
        let thread = *threads.entry((tgid, tid)).or_insert_with(|| {
            let thread = profile.add_thread(process, tid, zero, tgid == tid);
            profile.set_thread_name(thread, &comm);
            thread
        });
        let frames: Vec<FrameInfo> = frames
            .iter()
            .rev()
            .map(|function| FrameInfo {
                frame: Frame::Label(profile.intern_string(function.name.as_deref().unwrap_or("unnamed"))),
                category_pair: CategoryHandle::OTHER.into(),
                flags: FrameFlags::empty(),
            })
            .collect();
        let stack = profile.intern_stack_frames(thread, frames.into_iter());
        let time = Timestamp::from_nanos_since_reference(time_ns);
        profile.add_sample(thread, time, stack, CpuDelta::from_nanos(weight), 1);
        line.clear();
    }
    let mut output = BufWriter::new(File::create(path)?);
    serde_json::to_writer(&mut output, &profile)?;
    Ok(output.flush()?)
}
