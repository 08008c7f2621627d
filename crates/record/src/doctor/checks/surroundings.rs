//! Namespaces, and the file systems of the kernel.

use crate::doctor::check::Check;
use crate::doctor::facts::{Facts, Tracefs};
use crate::doctor::remedy;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    vec![
        container(facts),
        processes(facts),
        users(facts),
        cgroups_seen(facts),
        tracepoints(facts),
        cgroups(facts),
        pressure(facts),
    ]
}

fn container(facts: &Facts) -> Check {
    let found = match facts.place.container {
        Some(mark) => format!("{mark} says that this is one"),
        None => "nothing says that this is one".to_owned(),
    };
    Check::ok("container", found)
}

fn processes(facts: &Facts) -> Check {
    const NAME: &str = "PID namespace";
    if facts.place.is_first_pid_namespace {
        return Check::ok(NAME, "the machine's own");
    }
    Check::missing(
        NAME,
        "another one than the machine's",
        "the numbers of processes here are not those that the kernel reports: there is no recording",
    )
    .mended_by(
        "run it on the host, or start the container with --pid=host (Kubernetes: hostPID: true)".to_owned(),
    )
    .preventing()
}

fn users(facts: &Facts) -> Check {
    const NAME: &str = "user namespace";
    if facts.place.is_first_user_namespace {
        return Check::ok(NAME, "the machine's own");
    }
    Check::degraded(
        NAME,
        "another one than the machine's",
        "capabilities do not count for the machine: the kernel refuses programs and events",
    )
    .mended_by(
        "run it on the host, or start the container by root and without a user namespace (--userns=host)"
            .to_owned(),
    )
}

fn cgroups_seen(facts: &Facts) -> Check {
    const NAME: &str = "cgroup namespace";
    if facts.place.is_first_cgroup_namespace {
        return Check::ok(NAME, "the machine's own");
    }
    Check::degraded(
        NAME,
        "another one than the machine's",
        "cgroups that exist already have the paths that this container sees, and those of others may have none",
    )
    .mended_by("run it on the host, or start the container with --cgroupns=host".to_owned())
}

fn tracepoints(facts: &Facts) -> Check {
    const NAME: &str = "tracefs";
    const LACKS: &str = "tracepoints (`-e sched:sched_switch`) cannot be sampled, and a probe of a target is in all processes";
    let mount = |options: &str| remedy::as_root(facts, &format!("mount {options} /sys/kernel/tracing"));
    match &facts.place.tracefs {
        Tracefs::Readable(folder) => Check::ok(NAME, &**folder),
        Tracefs::Own => Check::ok(NAME, "not mounted: the recorder mounts it where nobody else sees it"),
        Tracefs::Unmounted => {
            Check::missing(NAME, "not mounted", LACKS).mended_by(mount("-t tracefs tracefs"))
        }
        Tracefs::Closed(why) if facts.lockdown.as_deref() == Some("confidentiality") => {
            Check::missing(NAME, format!("mounted, and cannot be read: {why}"), LACKS)
                .mended_by("see `lockdown`".to_owned())
        }
        Tracefs::Closed(why) => Check::missing(NAME, format!("mounted, and cannot be read: {why}"), LACKS)
            .mended_by(remedy::capabilities(facts)),
    }
}

fn cgroups(facts: &Facts) -> Check {
    const NAME: &str = "cgroup v2";
    if let Some(mount) = &facts.place.cgroup2 {
        return Check::ok(NAME, mount.display().to_string());
    }
    let (at, lacks) =
        ("/sys/fs/cgroup/unified", "`--cgroup` is refused, and counters of cgroups are missing");
    let remedy = if facts.place.knows_cgroup2 {
        let make = remedy::as_root(facts, &format!("mkdir -p {at}"));
        let mount = remedy::as_root(facts, &format!("mount -t cgroup2 cgroup2 {at}"));
        format!("{make} && {mount}")
    } else {
        "boot a kernel with CONFIG_CGROUPS=y".to_owned()
    };
    Check::missing(NAME, "not mounted", lacks).mended_by(remedy)
}

fn pressure(facts: &Facts) -> Check {
    const NAME: &str = "pressure (PSI)";
    if facts.place.has_pressure {
        return Check::ok(NAME, "/proc/pressure");
    }
    Check::missing(NAME, "there is no /proc/pressure", "the counters of pressure are missing")
        .mended_by("boot with `psi=1` on the command line of the kernel (it needs CONFIG_PSI=y)".to_owned())
}
