//! What the processor gives.

use crate::doctor::check::Check;
use crate::doctor::facts::{Counters, Facts};

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    vec![architecture(facts), counters(facts)]
}

fn architecture(facts: &Facts) -> Check {
    const NAME: &str = "architecture";
    match &*facts.arch {
        "x86_64" => Check::ok(NAME, &*facts.arch),
        "aarch64" => Check::degraded(
            NAME,
            &*facts.arch,
            "stacks are not walked by unwind tables, but copied; returns of functions (`uretprobe`) cannot be sampled, and stacks have no \
             functions of Python, PHP and JavaScript",
        ),
        _ => Check::missing(
            NAME,
            &*facts.arch,
            "the recorder knows x86-64 and arm64 only: there is no recording",
        )
        .preventing(),
    }
}

fn counters(facts: &Facts) -> Check {
    const NAME: &str = "hardware counters";
    match facts.counters {
        Counters::Cycles => Check::ok(NAME, "the processor counts cycles"),
        Counters::Timer => Check::degraded(
            NAME,
            "none: a timer on each CPU takes the samples (cpu-clock)",
            "counters of the processor (`-e cycles`, `-e cache-misses`), and samples of code that runs while interrupts are off",
        )
        .mended_by("in a virtual machine: let its host pass on the performance monitoring unit".to_owned()),
        Counters::Untold => Check::degraded(
            NAME,
            "unknown: this user may open no event",
            "until events can be opened, nobody knows whether the processor counts cycles",
        )
        .mended_by(match (&facts.programs, &facts.events) {
            (None, _) => "see `PID namespace`".to_owned(),
            (Some(_), None) => "see `sampling programs`".to_owned(),
            (Some(_), Some(_)) => "see `sampling events`".to_owned(),
        }),
    }
}
