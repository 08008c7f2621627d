//! Prints the summary at the end of a recording.

mod embedded;

use std::path::Path;
use std::time::Duration;

use icecore_format::records::{Cause, ReceiptV1};
use icecore_text::clean::clean;
use icecore_text::path::{quoted, shown};
use icecore_text::quantity::{bytes, count, duration, things};

use super::live;
use crate::settings::{Event, Source};
use crate::sys::perf::Rate;
use crate::threads::closing::Embedded;

/// Writes one line to stderr. All messages of the recorder pass here, so that no name of a file, a thread or a cgroup can
/// control the terminal. A closed stderr is no error: the recording goes on.
pub fn tell(line: &str) {
    live::put(&format!("{}\n", clean(line.trim_end().as_bytes())), false);
}

/// A recording that ended without an error.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    /// None if it was written to stdout.
    pub(crate) path: Option<&'a Path>,
    pub(crate) elapsed: Duration,
    /// How long of that the recorder paused.
    pub(crate) paused: Duration,
    pub(crate) events: &'a [Event],
    pub(crate) cpus: usize,
    /// CPU time of the command, if there is one and it has ended.
    pub(crate) command_cpu: Option<Duration>,
    /// Sampling began; false if the recording ended before.
    pub(crate) has_begun: bool,
    /// Processes that descend from the targets, existed already, and were not recorded.
    pub(crate) left_out: usize,
    /// The user restricted sampling to one mode or to some CPUs.
    pub(crate) is_restricted: bool,
    pub(crate) file_bytes: u64,
    /// Bytes of the recording that are pieces of embedded files.
    pub(crate) pieces_bytes: u64,
    pub(crate) receipt: &'a ReceiptV1,
    pub(crate) losses: &'a [(Cause, u64)],
    pub(crate) embedded: Embedded,
}

/// Returns the lines of the summary.
pub(crate) fn lines(ended: &Ended<'_>) -> Vec<String> {
    let receipt = ended.receipt;
    let per_sample = |amount: f64| if receipt.samples == 0 { 0.0 } else { amount / receipt.samples as f64 };
    let seconds = ended.elapsed.as_secs_f64();
    let events: Vec<String> = ended.events.iter().map(with_rate).collect();
    let is_loss = |cause: &Cause| ![Cause::RATE_LOWERED, Cause::NOT_SAMPLED].contains(cause);
    let count_of = |wanted| ended.losses.iter().find(|(cause, _)| *cause == wanted).map(|(_, count)| *count);
    let lost: Vec<String> = ended
        .losses
        .iter()
        .filter(|(cause, _)| is_loss(cause))
        .map(|(cause, lost)| format!("{} {}", count(*lost), cause.name()))
        .collect();
    let mut lost =
        if lost.is_empty() { "nothing lost".to_owned() } else { format!("lost: {}", lost.join(", ")) };
    if let Some(hits) = count_of(Cause::RATE_LOWERED) {
        lost += &format!("; other samples stand for {} (--max-event-rate)", things(hits, "hit"));
    }
    if let Some(samples) = count_of(Cause::NOT_SAMPLED) {
        lost += &format!(
            "; not sampled, in the kernel or of threads that ended before a sample: the time of {}",
            things(samples, "sample")
        );
    }
    let cpu_ns = receipt.user_cpu_ns + receipt.kernel_cpu_ns;
    let sampled = match ended.paused.is_zero() {
        true => String::new(),
        false => {
            format!(" ({:.1} s without pauses)", ended.elapsed.saturating_sub(ended.paused).as_secs_f64())
        }
    };
    let mut out = Vec::new();
    let mut line = |text: String| out.push(text);
    line(format!("recorded   {}", ended.path.map_or("to stdout".into(), shown)));
    line(format!(
        "samples    {} in {seconds:.1} s{sampled}, {} on {}; {lost}",
        count(receipt.samples),
        events.join(", "),
        things(ended.cpus as u64, "CPU")
    ));
    let pieces = match ended.pieces_bytes {
        0 => String::new(),
        pieces => format!(" and {} of files", bytes(pieces)),
    };
    line(format!(
        "file       {}, {:.1} bytes per sample{pieces}",
        bytes(ended.file_bytes),
        per_sample(ended.file_bytes.saturating_sub(ended.pieces_bytes) as f64)
    ));
    for (number, text) in embedded::lines(&ended.embedded).iter().enumerate() {
        line(format!("{:<10} {text}", if number == 0 { "embedded" } else { "" }));
    }
    line(format!(
        "recorder   {:.2} s CPU ({:.1} µs per sample), peak memory {}",
        cpu_ns as f64 / 1e9,
        per_sample(cpu_ns as f64 / 1e3),
        bytes(receipt.peak_rss_bytes)
    ));
    if receipt.bpf_runs > 0 {
        let mean_us = receipt.bpf_ns as f64 / receipt.bpf_runs as f64 / 1e3;
        line(format!("overhead   {mean_us:.1} µs per run of the sampler, inside the sampled programs"));
    }
    if receipt.samples == 0 {
        let others = match ended.left_out {
            0 => String::new(),
            left_out => format!(
                "; {} of the target existed already and were not recorded: give --children",
                things(left_out as u64, "descendant")
            ),
        };
        line(format!("no samples: {}{others}", why_none(ended)));
    }
    if let Some(path) = ended.path {
        line(format!("next       icecore-report {}", quoted(path)));
    }
    out
}

/// Returns the name of an event, and how often it is sampled.
fn with_rate(event: &Event) -> String {
    match event.source {
        Source::Counter { rate: Rate::Frequency(hz), .. } => format!("{} at {hz} Hz", event.name),
        Source::Counter { rate: Rate::Period(1), .. } => event.name.clone(),
        Source::Counter { rate: Rate::Period(units), .. } => {
            format!("{} at one in {} {}", event.name, count(units), event.unit)
        }
        Source::Probe { take, .. } if take.every > 1 => {
            format!("{}, one of {}", event.name, count(take.every))
        }
        Source::Probe { .. } => event.name.clone(),
        Source::Wait { always_ns, .. } => format!("{} of {} and more", event.name, duration(always_ns)),
    }
}

/// Says why there are no samples.
fn why_none(ended: &Ended<'_>) -> String {
    let period = ended.events.iter().find_map(|event| match event.source {
        Source::Counter { rate: Rate::Frequency(hz), .. } => {
            Some(Duration::from_nanos(1_000_000_000 / hz.max(1)))
        }
        Source::Counter { rate: Rate::Period(units), .. } => {
            (event.unit == "ns").then(|| Duration::from_nanos(units))
        }
        Source::Probe { .. } | Source::Wait { .. } => None,
    });
    let is_timed = period.is_some();
    match (ended.command_cpu, period) {
        _ if !ended.has_begun => "the recording ended before sampling began (--delay, --at)".to_owned(),
        _ if ended.is_restricted => {
            "the target was not on one of these CPUs, in this mode, when a sample was due (-C, -U, -K)"
                .to_owned()
        }
        (Some(cpu), Some(period)) if cpu < period => format!(
            "the command took {} of CPU time, less than the {} from one sample to the next; record with a higher -F",
            duration(cpu.as_nanos() as u64),
            duration(period.as_nanos() as u64)
        ),
        _ if !ended.paused.is_zero() => {
            "the recorder paused, and the target did nothing while it sampled".to_owned()
        }
        _ if is_timed => "the target was not on a CPU when a sample was due".to_owned(),
        _ => "the target did not run into one of these events".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::perf::Counter;

    fn ended(receipt: &ReceiptV1, losses: &[(Cause, u64)]) -> String {
        let source = Source::Counter { counter: Counter::CPU_CLOCK, rate: Rate::Frequency(99) };
        let events = [Event { name: "cpu-clock".into(), unit: "ns".into(), source }];
        lines(&Ended {
            path: Some(Path::new("x.icecore")),
            elapsed: Duration::from_millis(10_040),
            paused: Duration::ZERO,
            events: &events,
            cpus: 2,
            command_cpu: Some(Duration::from_millis(3)),
            has_begun: true,
            left_out: 0,
            is_restricted: false,
            file_bytes: 19_800,
            pieces_bytes: 0,
            receipt,
            losses,
            embedded: Embedded { functions: 1200, images: 3, ..Embedded::default() },
        })
        .join("\n")
    }

    #[test]
    fn every_number_has_its_unit_and_losses_their_cause() {
        let receipt = ReceiptV1 {
            samples: 1980,
            user_cpu_ns: 19_800_000,
            bpf_runs: 10,
            bpf_ns: 40_000,
            ..Default::default()
        };
        let text = ended(&receipt, &[(Cause::RING_FULL_SAMPLE, 1234)]);
        assert!(
            text.contains("1,980 in 10.0 s, cpu-clock at 99 Hz on 2 CPUs; lost: 1,234 ring_full_sample"),
            "{text}"
        );
        assert!(text.contains("19.3 KiB, 10.0 bytes per sample"), "{text}");
        assert!(text.contains("0.02 s CPU (10.0 µs per sample)"), "{text}");
        assert!(text.contains("4.0 µs per run"), "{text}");
        assert!(text.contains("the names of 1,200 functions in 3 files"), "{text}");
    }

    #[test]
    fn an_empty_recording_divides_by_nothing_and_says_why() {
        let text = ended(&ReceiptV1::default(), &[]);
        assert!(text.contains("0.0 bytes per sample"), "{text}");
        assert!(
            text.contains("no samples: the command took 3.0 ms of CPU time, less than the 10.1 ms"),
            "{text}"
        );
    }
}
