//! What the kernel gives, and what it forbids to all.

use super::limits;
use crate::doctor::check::Check;
use crate::doctor::facts::{Facts, Programs, Waits};
use crate::doctor::remedy;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![Check::ok("release", &*facts.release), types(facts)];
    checks.extend(facts.programs.as_ref().map(|programs| match programs {
        Ok(_) => Check::ok("sampling programs", "the kernel takes them"),
        Err(why) => refused(facts, why),
    }));
    if let Some(Ok(programs)) = &facts.programs {
        checks.extend([walker(programs), tables(facts, programs), waits(programs)]);
    }
    checks.extend([probes(facts), compiler(facts), lockdown(facts), filters(facts)]);
    checks
}

fn types(facts: &Facts) -> Check {
    const NAME: &str = "type information (BTF)";
    if facts.has_btf {
        return Check::ok(NAME, "/sys/kernel/btf/vmlinux");
    }
    Check::missing(
        NAME,
        "there is no /sys/kernel/btf/vmlinux",
        "the sampling programs do not find the fields of the kernel: there is no recording",
    )
    .mended_by("boot a kernel with CONFIG_DEBUG_INFO_BTF=y, which distributions have since 2020".to_owned())
    .preventing()
}

fn refused(facts: &Facts, why: &str) -> Check {
    let rights = &facts.rights;
    let remedy = if !facts.has_btf {
        "see `type information (BTF)`".to_owned()
    } else if !facts.has_privileges() {
        remedy::capabilities(facts)
    } else if forbids_reading(facts) {
        "see `lockdown`".to_owned()
    } else if facts.settings.bpf_jit_enable == Some(0) {
        "see `net.core.bpf_jit_enable`".to_owned()
    } else if rights.is_filtered {
        "see `system call filter`".to_owned()
    } else if limits::has_few_files(facts) {
        "see `open files`".to_owned()
    } else if facts.limits.counts_locked {
        "see `locked memory`".to_owned()
    } else {
        let program = icecore_text::path::word(&rights.program.to_string_lossy());
        format!(
            "`{program} -v -a -d 1 -o -` shows what the kernel says: perhaps a security module forbids it"
        )
    };
    let lacks = if facts.can_record_own() {
        "there is no recording of the machine, but one of processes of this user (see `own processes`)"
    } else {
        "there is no recording"
    };
    Check::missing("sampling programs", format!("the kernel refuses them: {why}"), lacks)
        .mended_by(remedy)
        .preventing()
}

fn walker(programs: &Programs) -> Check {
    const NAME: &str = "stacks of 4,096 frames (bpf_loop)";
    match &programs.without_loop {
        None => Check::ok(NAME, "the programs walk stacks"),
        Some(why) => Check::degraded(
            NAME,
            format!("{why}: the kernel walks stacks"),
            "user stacks end at 127 frames, and at code without frame pointers; neither returns of functions (`uretprobe`) nor `fentry` \
             can be sampled",
        )
        .mended_by("boot Linux 5.17 or newer".to_owned()),
    }
}

fn tables(facts: &Facts, programs: &Programs) -> Check {
    const NAME: &str = "walks by unwind tables";
    if programs.walks_tables {
        return Check::ok(NAME, "the programs find callers without frame pointers");
    }
    let newer = (facts.arch == "x86_64").then(|| "boot Linux 6.1 or newer".to_owned());
    Check::degraded(
        NAME,
        "not on this kernel or processor",
        "stacks of code without frame pointers are copied, which costs more, or end early where copies are not possible either",
    )
    .mended_by(newer)
}

fn waits(programs: &Programs) -> Check {
    const NAME: &str = "stacks of waits (bpf_task_work)";
    let newer = || "boot Linux 6.18 or newer".to_owned();
    match &programs.waits {
        Waits::Whole => Check::ok(NAME, "threads take their stacks themselves"),
        Waits::Copied(why) => Check::degraded(
            NAME,
            &**why,
            "with `--off-cpu`, at most 255 frames by unwind tables or 2 KiB of the stack are taken when a thread begins to wait",
        )
        .mended_by(newer()),
        Waits::Bare => {
            Check::degraded(NAME, "this kernel copies no stacks", "with `--off-cpu`, waits have kernel stacks only")
                .mended_by(newer())
        }
        Waits::Refused(why) => {
            Check::missing(NAME, &**why, "waits (`--off-cpu`), probes and several events cannot be recorded")
                .mended_by("boot Linux 5.15 or newer; whole stacks of waits need 6.18".to_owned())
        }
    }
}

fn probes(facts: &Facts) -> Check {
    const NAME: &str = "probes in programs";
    if facts.takes_preempted_probes {
        return Check::ok(NAME, "this kernel can take them");
    }
    Check::missing(
        NAME,
        "on Linux 6.13 and 6.14 they can crash the kernel",
        "`uprobe`, `uretprobe`, `usdt`, `fentry` and `fexit` are refused",
    )
    .mended_by("boot Linux 6.12, 6.15 or newer".to_owned())
}

fn compiler(facts: &Facts) -> Check {
    const NAME: &str = "net.core.bpf_jit_enable";
    match facts.settings.bpf_jit_enable {
        Some(0) => Check::degraded(
            NAME,
            "0: the kernel interprets programs",
            "samples cost several times as much, and programs at functions of the kernel may be refused",
        )
        .mended_by(remedy::sysctl(facts, "net.core.bpf_jit_enable=1")),
        Some(value) => Check::ok(NAME, format!("{value}: the kernel compiles programs")),
        None => Check::ok(NAME, "not shown to this user"),
    }
}

/// Returns true if the kernel lets no program read its memory.
fn forbids_reading(facts: &Facts) -> bool {
    facts.lockdown.as_deref() == Some("confidentiality")
}

fn lockdown(facts: &Facts) -> Check {
    const NAME: &str = "lockdown";
    let mode = facts.lockdown.as_deref().unwrap_or("the kernel has none");
    if !forbids_reading(facts) {
        return Check::ok(NAME, mode);
    }
    Check::degraded(
        NAME,
        mode,
        "programs may not read the memory of the kernel, so that the sampling programs are refused, and nobody may read tracefs",
    )
    .mended_by("boot with `lockdown=integrity` on the command line of the kernel, or without `lockdown=`".to_owned())
}

fn filters(facts: &Facts) -> Check {
    const NAME: &str = "filters of system calls";
    if facts.can_refuse_calls {
        return Check::ok(NAME, "the recorder limits what its own parts may do");
    }
    Check::degraded(
        NAME,
        "this kernel has none (CONFIG_SECCOMP_FILTER)",
        "nothing of the recording; but the processes that read files of others may make any system call",
    )
    .mended_by("boot a kernel with CONFIG_SECCOMP_FILTER=y".to_owned())
}
