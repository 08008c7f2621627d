//! What this user may do.

use super::limits;
use crate::doctor::check::Check;
use crate::doctor::facts::{Capability, Counters, Facts};
use crate::doctor::remedy;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![
        instead_of_admin(facts, "CAP_BPF", Capability::BPF, "loads the sampling programs"),
        instead_of_admin(facts, "CAP_PERFMON", Capability::PERFMON, "samples the kernel and all users"),
        processes(facts),
        addresses(facts),
        files(facts),
        administrator(facts),
    ];
    checks.extend(events(facts));
    checks.extend(own(facts));
    checks.extend([paranoid(facts), unprivileged(facts), pointers(facts), runs(facts), filter(facts)]);
    checks
}

/// Checks a capability that was a part of CAP_SYS_ADMIN once.
fn instead_of_admin(facts: &Facts, name: &'static str, capability: Capability, what: &str) -> Check {
    if facts.rights.has(capability) {
        Check::ok(name, format!("there: it {what}"))
    } else if facts.rights.has(Capability::SYS_ADMIN) {
        Check::ok(name, format!("CAP_SYS_ADMIN is there in its place: it {what}"))
    } else {
        let lacks = if facts.can_record_own() {
            "without it processes of this user alone are recorded, in user mode (see `own processes`)"
        } else {
            "there is no recording without it"
        };
        Check::missing(name, format!("not there: it {what}"), lacks).mended_by(remedy::capabilities(facts))
    }
}

fn processes(facts: &Facts) -> Check {
    const NAME: &str = "CAP_SYS_PTRACE";
    const WHAT: &str = "looks at processes of all users";
    if facts.rights.has(Capability::SYS_PTRACE) {
        return Check::ok(NAME, format!("there: it {WHAT}"));
    }
    Check::missing(
        NAME,
        format!("not there: it {WHAT}"),
        "what processes of other users mapped before the recording is unknown: their stacks are cut, and have no names",
    )
    .mended_by(remedy::capabilities(facts))
}

fn addresses(facts: &Facts) -> Check {
    const NAME: &str = "CAP_SYSLOG";
    const WHAT: &str = "names functions of the kernel";
    if facts.rights.has(Capability::SYSLOG) {
        return Check::ok(NAME, format!("there: it {WHAT}"));
    }
    if facts.shows_addresses {
        return Check::ok(
            NAME,
            format!("not there, and not needed: it {WHAT}, and the kernel hides none of their addresses"),
        );
    }
    Check::missing(NAME, format!("not there: it {WHAT}"), "functions of the kernel have no names")
        .mended_by(remedy::capabilities(facts))
}

fn files(facts: &Facts) -> Check {
    const NAME: &str = "CAP_DAC_READ_SEARCH";
    const WHAT: &str = "reads files in folders of all users";
    if facts.rights.has(Capability::DAC_READ_SEARCH) {
        return Check::ok(NAME, format!("there: it {WHAT}"));
    }
    Check::missing(
        NAME,
        format!("not there: it {WHAT}"),
        "functions have no names, and stacks may be copied or cut, if others may not read the file of the program",
    )
    .mended_by(remedy::capabilities(facts))
}

fn administrator(facts: &Facts) -> Check {
    const NAME: &str = "CAP_SYS_ADMIN";
    let found = if facts.rights.has(Capability::SYS_ADMIN) {
        "there: it can stand in for CAP_BPF and CAP_PERFMON"
    } else {
        "not there, and not needed: it can stand in for CAP_BPF and CAP_PERFMON"
    };
    Check::ok(NAME, found)
}

/// Returns true if CAP_PERFMON is not enough at this level for kernels of Debian and Ubuntu, some of which ask for CAP_SYS_ADMIN then.
fn is_of_distribution(level: i64) -> bool {
    level >= 3
}

fn events(facts: &Facts) -> Option<Check> {
    const NAME: &str = "sampling events";
    let why = match facts.events.as_ref()? {
        Ok(()) => return Some(Check::ok(NAME, "they open on every CPU")),
        Err(why) => why,
    };
    let level = facts.settings.perf_event_paranoid.unwrap_or(0);
    let remedy = if !facts.rights.has_or_admin(Capability::PERFMON) {
        remedy::capabilities(facts)
    } else if is_of_distribution(level) && !facts.rights.has(Capability::SYS_ADMIN) {
        "see `kernel.perf_event_paranoid`".to_owned()
    } else if facts.rights.is_filtered {
        "see `system call filter`".to_owned()
    } else if limits::has_few_files(facts) {
        "see `open files`".to_owned()
    } else {
        "perhaps a security module forbids it: its log names the program".to_owned()
    };
    let refused = format!("the kernel refuses them: {why}");
    Some(Check::missing(NAME, refused, "there is no recording").mended_by(remedy).preventing())
}

/// Checks what a recording falls back on if the kernel forbids programs.
fn own(facts: &Facts) -> Option<Check> {
    const NAME: &str = "own processes";
    let why = match facts.own.as_ref()? {
        Ok(()) => {
            let found = "a command, and processes of this user (-p, -t), can be sampled in user mode";
            return Some(Check::degraded(
                NAME,
                found,
                "time in the kernel, waits, probes, counters of processes, functions of interpreters, and more than 16 KiB of a stack",
            ));
        }
        Err(why) => why,
    };
    let level = facts.settings.perf_event_paranoid.unwrap_or(0);
    let remedy = if is_of_distribution(level) {
        format!(
            "{} lets users sample their own processes in user mode",
            remedy::sysctl(facts, "kernel.perf_event_paranoid=2")
        )
    } else if facts.rights.is_filtered {
        "see `system call filter`".to_owned()
    } else {
        "perhaps a security module forbids it: its log names the program".to_owned()
    };
    let found = format!("the kernel refuses their events: {why}");
    Some(Check::missing(NAME, found, "without privileges nothing can be recorded").mended_by(remedy))
}

fn paranoid(facts: &Facts) -> Check {
    const NAME: &str = "kernel.perf_event_paranoid";
    let Some(level) = facts.settings.perf_event_paranoid else {
        return Check::missing(
            NAME,
            "there is no such setting",
            "this kernel has no events: there is no recording",
        )
        .mended_by("boot a kernel with CONFIG_PERF_EVENTS=y".to_owned());
    };
    let meaning = match level {
        ..=-1 => "everything is open to all users",
        0 => "CPUs are open to all users",
        1 => "all users may sample their own processes, and the kernel in these",
        2 => "all users may sample their own processes",
        3 => "Debian's level: nothing is open to users",
        4.. => "Ubuntu's level: nothing is open to users",
    };
    let found = format!("{level} ({meaning})");
    let is_overruled =
        facts.rights.has_or_admin(Capability::PERFMON) && !matches!(facts.events, Some(Err(_)));
    if is_overruled {
        Check::ok(NAME, format!("{found}; the capabilities of this process override it"))
    } else if is_of_distribution(level) && !facts.rights.has(Capability::SYS_ADMIN) {
        Check::degraded(
            NAME,
            found,
            "on kernels of Debian and Ubuntu CAP_PERFMON may not override this level: events may be refused all the same, and without \
             privileges nothing can be recorded",
        )
        .mended_by(remedy::sysctl(facts, "kernel.perf_event_paranoid=2"))
    } else {
        Check::ok(NAME, format!("{found}; CAP_PERFMON overrides it"))
    }
}

fn unprivileged(facts: &Facts) -> Check {
    const NAME: &str = "kernel.unprivileged_bpf_disabled";
    let found = match facts.settings.unprivileged_bpf_disabled {
        Some(value) => format!("{value}; the sampling programs need CAP_BPF whatever it is"),
        None => "there is no such setting".to_owned(),
    };
    Check::ok(NAME, found)
}

fn pointers(facts: &Facts) -> Check {
    const NAME: &str = "kernel.kptr_restrict";
    let value = facts.settings.kptr_restrict;
    let told = value.map_or("unknown".to_owned(), |value| value.to_string());
    if facts.shows_addresses {
        return Check::ok(NAME, format!("{told}: the kernel shows its addresses to this user"));
    }
    let paranoid = facts.settings.perf_event_paranoid;
    let remedy = match (value, facts.rights.has(Capability::SYSLOG)) {
        (Some(2..), true) => Some(remedy::sysctl(facts, "kernel.kptr_restrict=1")),
        // CAP_SYSLOG does it as well.
        (Some(1..), false) if paranoid > Some(1) => {
            Some(remedy::sysctl(facts, "kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"))
        }
        (Some(1..), false) => Some(remedy::sysctl(facts, "kernel.kptr_restrict=0")),
        (Some(0), false) if paranoid > Some(1) => Some(remedy::sysctl(facts, "kernel.perf_event_paranoid=1")),
        _ => Some("boot a kernel with CONFIG_KALLSYMS=y".to_owned()),
    };
    let found = format!("{told}: the kernel hides its addresses from this user");
    Check::degraded(NAME, found, "functions of the kernel have no names").mended_by(remedy)
}

fn runs(facts: &Facts) -> Check {
    const NAME: &str = "kernel.bpf_stats_enabled";
    let value = facts.settings.bpf_stats_enabled;
    match value {
        _ if facts.counts_runs => {
            Check::ok(NAME, "the kernel counts the runs of programs while a recording lasts")
        }
        Some(1..) => Check::ok(NAME, "1: the kernel counts the runs of all programs"),
        _ => Check::degraded(
            NAME,
            "0, and this user may not have runs counted",
            "a recording does not know what its programs cost (`bpf_ns` of `info`)",
        )
        .mended_by(remedy::sysctl(facts, "kernel.bpf_stats_enabled=1")),
    }
}

fn filter(facts: &Facts) -> Check {
    const NAME: &str = "system call filter";
    let rights = &facts.rights;
    if !rights.is_filtered {
        return Check::ok(NAME, "none (seccomp)");
    }
    if facts.can_record() || facts.counters != Counters::Untold && matches!(facts.programs, Some(Ok(_))) {
        return Check::ok(NAME, "there is one (seccomp), which lets the recorder make its system calls");
    }
    let remedy = if facts.has_privileges() {
        "start the container with --security-opt seccomp=unconfined, or let its filter allow bpf and perf_event_open"
            .to_owned()
    } else {
        // The usual filter of containers allows the calls with them.
        remedy::capabilities(facts)
    };
    Check::degraded(
        NAME,
        "there is one (seccomp)",
        "it may forbid bpf(2) and perf_event_open(2), without which there is no recording",
    )
    .mended_by(remedy)
}
