//! Makes the first block of the file: where, when and how this recording is made.

use std::fs;

use icecore_format::records::{EventV1, LabelV1, SessionV1};

use crate::machine::build_id;
use crate::proc::namespace;
use crate::settings::{Event, Options, Source, Target};
use crate::sys::clock;
use crate::sys::perf::Rate;

/// Describes the session that begins now, or after the delay.
pub(crate) fn describe(options: &Options, events: &[Event], notes: Vec<String>) -> SessionV1 {
    let delay_ns = options.delay.map_or(0, |delay| u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
    SessionV1 {
        recorder: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: command_line(options),
        host: host(),
        kernel_release: kernel("osrelease"),
        kernel_version: kernel("version"),
        arch: std::env::consts::ARCH.to_owned(),
        boot_id: kernel("random/boot_id"),
        kernel_build_id: build_id::of_kernel().unwrap_or_default(),
        start_ns: clock::monotonic_ns().saturating_add(delay_ns),
        start_unix_ns: clock::unix_ns().saturating_add(delay_ns),
        cpus: options.cpus.clone(),
        page_bytes: crate::sys::usage::page_bytes(),
        target: target(&options.target),
        events: events.iter().map(described).collect(),
        max_depth: options.max_depth,
        user: options.user,
        kernel: options.kernel,
        idle: options.idle,
        ring_bytes: options.ring_bytes,
        labels: options
            .labels
            .iter()
            .map(|(key, value)| LabelV1 { key: key.clone(), value: value.clone() })
            .collect(),
        notes,
        mount_ns: namespace::mount("self").unwrap_or(0),
    }
}

fn described(event: &Event) -> EventV1 {
    let (frequency_hz, period) = match event.source {
        Source::Counter { rate: Rate::Frequency(hz), .. } => (hz, 0),
        Source::Counter { rate: Rate::Period(units), .. } => (0, units),
        Source::Probe { take, .. } => (0, take.every),
        Source::Wait { always_ns, .. } => (0, always_ns),
    };
    EventV1 { name: event.name.clone(), unit: event.unit.clone(), frequency_hz, period }
}

/// Returns the name of this host.
pub(crate) fn host() -> String {
    kernel("hostname")
}

fn kernel(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default().trim().to_owned()
}

fn target(target: &Target) -> String {
    let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    match target {
        Target::System => "system".to_owned(),
        Target::Processes(ids) => format!("processes {}", list(ids)),
        Target::Threads(ids) => format!("threads {}", list(ids)),
        Target::Cgroups(cgroups) => {
            let paths: Vec<&str> = cgroups.iter().map(|cgroup| &*cgroup.path).collect();
            format!("cgroups {}", paths.join(","))
        }
        Target::Command => "command".to_owned(),
    }
}

/// Returns the command line of the recorder, with `--` before the recorded command even if the user did not type it: so a reader
/// can distinguish the options of the recorder from those of the command.
fn command_line(options: &Options) -> Vec<String> {
    let mut words: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let command_at = words.len().saturating_sub(options.command.len());
    if !options.command.is_empty() && command_at > 0 && words[command_at - 1] != "--" {
        words.insert(command_at, "--".to_owned());
    }
    words
}
