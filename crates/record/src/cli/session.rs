//! Makes the first block of the file: where, when and how this recording is made.

use std::fs;

use icecore_format::records::{
    CpuScope, EmbedMode, EventMeaning, EventV1, LabelV1, Maker, MissingFeature, SessionV1, TargetKind,
    UnwindMode,
};

use crate::machine::build_id;
use crate::proc::namespace;
use crate::settings::{Embed, Event, Of, Options, Source, Target, Unwind};
use crate::sys::clock;
use crate::sys::perf::Rate;

/// Describes the session that begins now, or after the delay.
pub(crate) fn describe(
    options: &Options,
    events: &[Event],
    notes: Vec<String>,
    missing_features: Vec<MissingFeature>,
) -> SessionV1 {
    let unix_ns = clock::unix_ns();
    let delay_ns = options.start.map_or(0, |start| start.in_ns(unix_ns));
    let (target, target_ids, target_cgroups) = target(&options.target);
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
        start_unix_ns: unix_ns.saturating_add(delay_ns),
        cpus: options.cpus.clone(),
        page_bytes: crate::sys::usage::page_bytes(),
        target,
        target_ids,
        target_cgroups,
        cpu_scope: if options.some_cpus { CpuScope::SOME } else { CpuScope::ALL },
        maker: Maker::RECORDER,
        events: events.iter().map(described).collect(),
        max_depth: options.max_depth,
        stack_bytes: if options.unwind == Unwind::Fp { 0 } else { options.stack_bytes },
        unwind: match options.unwind {
            Unwind::Auto => UnwindMode::AUTO,
            Unwind::Fp => UnwindMode::FRAME_POINTERS,
            Unwind::Copy => UnwindMode::COPY,
            Unwind::Dwarf => UnwindMode::DWARF,
        },
        embed: match options.embed {
            Embed::None => EmbedMode::NONE,
            Embed::Hits => EmbedMode::HITS,
            Embed::Sections => EmbedMode::SECTIONS,
            Embed::All => EmbedMode::ALL,
        },
        missing_features,
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
    let (name, unit) = (event.name.clone(), event.unit.clone());
    EventV1 { name, unit, frequency_hz, period, meaning: meaning(event) }
}

/// Returns what a sample of an event stands for.
fn meaning(event: &Event) -> EventMeaning {
    match (&event.source, &*event.unit) {
        // The number of a counter decides its unit.
        (Source::Counter { .. }, "ns") => EventMeaning::CPU_TIME,
        (Source::Counter { .. }, "cycles") => EventMeaning::CYCLES,
        (Source::Wait { of: Of::OffCpu, .. }, _) => EventMeaning::OFF_CPU,
        (Source::Wait { of: Of::RunDelay, .. }, _) => EventMeaning::RUN_DELAY,
        (Source::Wait { of: Of::Waker, .. }, _) => EventMeaning::WAKER,
        // Also an argument that the user calls a time.
        (Source::Probe { .. }, "ns") => EventMeaning::DURATION,
        (Source::Counter { .. } | Source::Probe { .. }, _) => EventMeaning::OCCURRENCE,
    }
}

/// Returns the name of this host.
pub(crate) fn host() -> String {
    kernel("hostname")
}

fn kernel(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default().trim().to_owned()
}

/// Returns whom the recorder samples: the kind, ids, and paths of cgroups.
fn target(target: &Target) -> (TargetKind, Vec<u32>, Vec<String>) {
    match target {
        Target::System => (TargetKind::SYSTEM, Vec::new(), Vec::new()),
        Target::Processes(ids) => (TargetKind::PROCESSES, ids.clone(), Vec::new()),
        Target::Threads(ids) => (TargetKind::THREADS, ids.clone(), Vec::new()),
        Target::Cgroups(cgroups) => {
            let paths = cgroups.iter().map(|cgroup| cgroup.path.to_string()).collect();
            (TargetKind::CGROUPS, Vec::new(), paths)
        }
        Target::Command => (TargetKind::COMMAND, Vec::new(), Vec::new()),
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
