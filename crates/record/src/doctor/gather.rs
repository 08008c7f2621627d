//! Finds the facts out: looks into `/proc` and `/sys`, tries a recording, and changes nothing.

use std::fs;
use std::path::Path;

use super::facts::{Counters, Facts, Limits, Place, Rights, Settings, Tracefs};
use super::trial::{self, Tried};
use crate::kernel::sampler;
use crate::proc::namespace::{self, Kind};
use crate::proc::{cgroup, cpus, kallsyms, scan};
use crate::sys::tracefs::{self, Tracepoint};
use crate::sys::{place, rights, usage, user};

/// Since then the kernel counts the memory of programs for their cgroup, and not as locked memory.
const COUNTS_FOR_CGROUPS: (u32, u32) = (5, 11);
/// Files that container engines put into a container.
const MARKS: [&str; 3] = ["/.dockerenv", "/run/.containerenv", "/run/host/container-manager"];

/// Finds all facts out.
///
/// # Errors
/// If `/proc` is not mounted, or there are no settings for a recording here.
pub(super) fn facts() -> anyhow::Result<Facts> {
    usage::raise_max_files();
    let rights = rights();
    let place = place()?;
    // A recording inside of another PID namespace ends before it loads anything.
    let tried = if place.is_first_pid_namespace { Some(trial::tried()?) } else { None };
    let (programs, events, own, counters, spare_files) = match tried {
        Some(Tried { programs, events, own, counters, spare_files }) => {
            (Some(programs), events, own, counters, spare_files)
        }
        None => (None, None, None, Counters::Untold, None),
    };
    let here = Path::new(".");
    Ok(Facts {
        arch: std::env::consts::ARCH.to_owned(),
        release: text("/proc/sys/kernel/osrelease").unwrap_or_default(),
        has_btf: sampler::has_btf(),
        programs,
        events,
        own,
        counters,
        takes_preempted_probes: sampler::takes_preempted_probes(),
        can_refuse_calls: rights::can_refuse(),
        rights,
        settings: Settings {
            perf_event_paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
            unprivileged_bpf_disabled: number("/proc/sys/kernel/unprivileged_bpf_disabled"),
            kptr_restrict: number("/proc/sys/kernel/kptr_restrict"),
            bpf_stats_enabled: number("/proc/sys/kernel/bpf_stats_enabled"),
            bpf_jit_enable: number("/proc/sys/net/core/bpf_jit_enable"),
            are_read_only: place::is_read_only(Path::new("/proc/sys/kernel")),
        },
        shows_addresses: !kallsyms::are_hidden(),
        counts_runs: usage::count_bpf_runs().is_some(),
        lockdown: text("/sys/kernel/security/lockdown").and_then(|modes| chosen(&modes)),
        place,
        limits: Limits {
            spare_files,
            cpus: cpus::online().map_or(1, |cpus| cpus.len()),
            most_files: place::most_files(),
            counts_locked: !sampler::is_kernel_since(COUNTS_FOR_CGROUPS),
            max_locked_bytes: place::max_locked_bytes(),
            may_write: place::may_write(here),
            free_bytes: place::free_bytes(here),
        },
    })
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Option<i64> {
    text(path)?.parse().ok()
}

/// Returns the word in brackets: `none [integrity] confidentiality`.
fn chosen(modes: &str) -> Option<String> {
    Some(modes.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn rights() -> Rights {
    let status = fs::read("/proc/self/status").unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_else(|_| "icecore-record".into());
    Rights {
        is_root: user::is_root(),
        effective: scan::status_set(&status, "CapEff").unwrap_or(0),
        bounding: scan::status_set(&status, "CapBnd").unwrap_or(0),
        gains_none: scan::status_field(&status, "NoNewPrivs") == Some(1),
        is_filtered: scan::status_field(&status, "Seccomp").is_some_and(|mode| mode != 0),
        is_granted_nothing: place::grants_nothing(&program),
        program,
    }
}

fn place() -> anyhow::Result<Place> {
    let is_first = |kind| {
        namespace::is_first(kind).map_err(|error| {
            anyhow::Error::new(error)
                .context("cannot read the namespaces of this process in `/proc/self/ns`: mount /proc")
        })
    };
    let cgroup2 = cgroup::mount();
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    Ok(Place {
        container: MARKS.into_iter().find(|mark| Path::new(mark).exists()),
        is_first_pid_namespace: is_first(Kind::Pid)?,
        is_first_user_namespace: is_first(Kind::User)?,
        is_first_cgroup_namespace: is_first(Kind::Cgroup)?,
        tracefs: tracefs(),
        cgroup2,
        knows_cgroup2: known.lines().any(|line| line.split_ascii_whitespace().last() == Some("cgroup2")),
        has_pressure: fs::read("/proc/pressure/cpu").is_ok(),
    })
}

/// Looks for a tracepoint that every kernel has.
fn tracefs() -> Tracefs {
    let wanted = Tracepoint { category: "sched".to_owned(), name: "sched_switch".to_owned() };
    let Ok(found) = tracefs::Tracefs::open() else { return Tracefs::Unmounted };
    match found.id(&wanted) {
        Ok(_) if found.is_own() => Tracefs::Own,
        Ok(Some(_)) => Tracefs::Readable(found.root().display().to_string()),
        Ok(None) => Tracefs::Closed("it has no tracepoint `sched:sched_switch`".to_owned()),
        Err(error) => Tracefs::Closed(error.root_cause().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_lockdown_stands_in_brackets() {
        assert_eq!(chosen("none [integrity] confidentiality").as_deref(), Some("integrity"));
        assert_eq!(chosen("[none] integrity confidentiality").as_deref(), Some("none"));
        assert_eq!((chosen("none"), chosen("[none"), chosen("")), (None, None, None));
    }
}
