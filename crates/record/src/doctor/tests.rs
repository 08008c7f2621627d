//! What is concluded from the facts of known machines.

use super::check::{Can, Check, State, Verdict};
use super::checks::checks;
use super::facts::{Capability, Counters, Facts, Limits, Place, Programs, Rights, Settings, Tracefs, Waits};
use super::page;

const ALL: u64 = (1 << 41) - 1;
/// What a container of Docker has without options.
const OF_CONTAINER: u64 = 0xa804_25fb;

/// Root on Linux 6.18, on a processor that counts cycles.
fn root() -> Facts {
    let programs = Programs { without_loop: None, walks_tables: true, waits: Waits::Whole };
    Facts {
        arch: "x86_64".to_owned(),
        release: "6.18.3".to_owned(),
        has_btf: true,
        programs: Some(Ok(programs)),
        events: Some(Ok(())),
        own: None,
        counters: Counters::Cycles,
        takes_preempted_probes: true,
        can_refuse_calls: true,
        rights: Rights {
            is_root: true,
            effective: ALL,
            bounding: ALL,
            gains_none: false,
            is_filtered: false,
            program: "/usr/bin/icecore-record".into(),
            is_granted_nothing: false,
        },
        settings: Settings {
            perf_event_paranoid: Some(2),
            unprivileged_bpf_disabled: Some(2),
            kptr_restrict: Some(1),
            bpf_stats_enabled: Some(0),
            bpf_jit_enable: Some(1),
            are_read_only: false,
        },
        shows_addresses: true,
        counts_runs: true,
        lockdown: Some("none".to_owned()),
        place: Place {
            container: None,
            is_first_pid_namespace: true,
            is_first_user_namespace: true,
            is_first_cgroup_namespace: true,
            tracefs: Tracefs::Readable("/sys/kernel/tracing".to_owned()),
            cgroup2: Some("/sys/fs/cgroup".into()),
            knows_cgroup2: true,
            has_pressure: true,
        },
        limits: Limits {
            spare_files: Some(1 << 19),
            cpus: 8,
            most_files: Some(1 << 20),
            counts_locked: false,
            max_locked_bytes: Some(8 << 20),
            may_write: true,
            free_bytes: Some(100 << 30),
        },
    }
}

/// A user without rights.
fn user(paranoid: i64) -> Facts {
    let (mut facts, refused) = (root(), "Operation not permitted (os error 1)".to_owned());
    facts.rights = Rights { is_root: false, effective: 0, ..facts.rights };
    facts.settings.perf_event_paranoid = Some(paranoid);
    facts.settings.bpf_jit_enable = None;
    facts.place.tracefs = Tracefs::Closed("Permission denied (os error 13)".to_owned());
    Facts {
        own: Some(if paranoid > 2 { Err("Permission denied (os error 13)".to_owned()) } else { Ok(()) }),
        programs: Some(Err(refused)),
        events: None,
        counters: Counters::Untold,
        shows_addresses: false,
        counts_runs: false,
        ..facts
    }
}

fn bits(capabilities: &[Capability]) -> u64 {
    capabilities.iter().fold(0, |bits, capability| bits | capability.bit())
}

/// Returns the check of a name.
fn of(facts: &Facts, name: &str) -> Check {
    let mut found: Vec<Check> = checks(facts).into_iter().filter(|check| check.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found.remove(0)
}

fn state(facts: &Facts, name: &str) -> State {
    of(facts, name).state
}

fn remedy(facts: &Facts, name: &str) -> String {
    of(facts, name).remedy.unwrap_or_else(|| panic!("{name} has no remedy"))
}

fn verdict(facts: &Facts) -> Verdict {
    Verdict::of(&checks(facts))
}

const SETCAP: &str = "sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search+ep /usr/bin/icecore-record";

#[test]
fn root_of_a_new_kernel_lacks_nothing() {
    let facts = root();
    let found = checks(&facts);
    assert_eq!(verdict(&facts), Verdict::Ok, "{found:#?}");
    assert!(found.len() > 25 && found.iter().all(|check| check.lacks.is_none() && check.remedy.is_none()));
    let text = page::page(icecore_text::Page::new(false), &found, Verdict::Ok, &[]);
    assert!(
        text.starts_with("machine\n  ok        architecture ") && text.ends_with("all features.\n"),
        "{text}"
    );
}

#[test]
fn in_a_virtual_machine_without_counters_a_recording_is_degraded() {
    let facts = Facts { counters: Counters::Timer, ..root() };
    assert_eq!((verdict(&facts), state(&facts, "hardware counters")), (Verdict::Degraded, State::Degraded));
    assert_eq!(verdict(&facts).exit_code(), 1);
}

#[test]
fn every_check_that_lacks_something_says_what_and_every_name_is_one_check() {
    let mut inside = Facts { programs: None, events: None, counters: Counters::Untold, ..root() };
    inside.place.is_first_pid_namespace = false;
    let unlike =
        [user(3), user(4), old(), container(0), inside, Facts { arch: "riscv64".to_owned(), ..root() }];
    for facts in unlike {
        let found = checks(&facts);
        for check in &found {
            let is_ok = check.state == State::Ok;
            assert_eq!(check.lacks.is_none(), is_ok, "{check:?}");
            assert!(!is_ok || check.remedy.is_none() && !check.prevents, "{check:?}");
            assert!(!check.found.is_empty() && !check.group.is_empty(), "{check:?}");
        }
        let mut names: Vec<&str> = found.iter().map(|check| check.name).collect();
        for remedy in found.iter().filter_map(|check| check.remedy.as_deref()) {
            let other = remedy.strip_prefix("see `").map(|rest| rest.trim_end_matches('`'));
            assert!(other.is_none_or(|other| names.contains(&other)), "{remedy}: {names:?}");
        }
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}

#[test]
fn a_user_of_debian_needs_capabilities_and_perhaps_another_level() {
    let facts = user(3);
    assert_eq!(verdict(&facts), Verdict::Impossible);
    for name in ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_SYSLOG", "CAP_DAC_READ_SEARCH"] {
        assert_eq!((state(&facts, name), &*remedy(&facts, name)), (State::Missing, SETCAP), "{name}");
    }
    assert_eq!(remedy(&facts, "sampling programs"), SETCAP);
    let paranoid = of(&facts, "kernel.perf_event_paranoid");
    assert!(paranoid.found.starts_with("3 (Debian's level"), "{paranoid:?}");
    assert_eq!(paranoid.remedy.as_deref(), Some("sudo sysctl kernel.perf_event_paranoid=2"));
    assert_eq!(remedy(&facts, "kernel.bpf_stats_enabled"), "sudo sysctl kernel.bpf_stats_enabled=1");
    assert_eq!(remedy(&facts, "tracefs"), SETCAP);
    let text = page::page(icecore_text::Page::new(false), &checks(&facts), Verdict::Impossible, &[]);
    assert!(text.contains("remedy: the same\n"), "a command is not repeated: {text}");
    assert!(text.ends_with("because of: sampling programs.\n"), "{text}");
}

#[test]
fn ubuntus_level_is_named_and_a_common_level_is_no_obstacle() {
    let facts = user(4);
    assert!(of(&facts, "kernel.perf_event_paranoid").found.starts_with("4 (Ubuntu's level"));
    assert_eq!(remedy(&facts, "kernel.perf_event_paranoid"), "sudo sysctl kernel.perf_event_paranoid=2");
    assert_eq!(state(&user(2), "kernel.perf_event_paranoid"), State::Ok);
    // With the capabilities in the file, Ubuntu may refuse the events all the same.
    let mut facts = user(4);
    facts.rights.effective = bits(&Capability::WANTED);
    facts.programs = root().programs;
    facts.events = Some(Err("Permission denied (os error 13)".to_owned()));
    assert_eq!(verdict(&facts), Verdict::Impossible);
    assert_eq!(remedy(&facts, "sampling events"), "see `kernel.perf_event_paranoid`");
    assert_eq!(remedy(&facts, "kernel.perf_event_paranoid"), "sudo sysctl kernel.perf_event_paranoid=2");
    facts.events = Some(Ok(()));
    assert_eq!(state(&facts, "kernel.perf_event_paranoid"), State::Ok, "it is not in the way");
}

#[test]
fn a_user_with_capabilities_is_not_told_to_get_them() {
    let mut facts = root();
    facts.rights = Rights { is_root: false, effective: bits(&Capability::WANTED), ..facts.rights };
    facts.counts_runs = false;
    let lacking: Vec<Check> = checks(&facts).into_iter().filter(|check| check.state != State::Ok).collect();
    assert_eq!(lacking.iter().map(|check| check.name).collect::<Vec<_>>(), ["kernel.bpf_stats_enabled"]);
    facts.settings.bpf_stats_enabled = Some(1);
    assert_eq!(verdict(&facts), Verdict::Ok, "the advice is taken");
}

/// Root on Debian 11.
fn old() -> Facts {
    let without_loop = Some("this kernel has no bpf_loop (5.17)".to_owned());
    let waits = Waits::Refused("this kernel has no atomic operations for programs (5.12)".to_owned());
    let mut facts = root();
    facts.limits.counts_locked = true;
    Facts {
        release: "5.10.0-32-amd64".to_owned(),
        programs: Some(Ok(Programs { without_loop, walks_tables: false, waits })),
        ..facts
    }
}

#[test]
fn an_old_kernel_gives_less() {
    let facts = old();
    assert_eq!(verdict(&facts), Verdict::Degraded);
    assert_eq!(remedy(&facts, "stacks of 4,096 frames (bpf_loop)"), "boot Linux 5.17 or newer");
    assert_eq!(remedy(&facts, "walks by unwind tables"), "boot Linux 6.1 or newer");
    assert_eq!(state(&facts, "stacks of waits (bpf_task_work)"), State::Missing);
    // The limit counts, but root may raise it.
    assert_eq!(state(&facts, "locked memory"), State::Ok);
    let mut user = facts.clone();
    user.rights = Rights { is_root: false, effective: bits(&Capability::WANTED), ..facts.rights.clone() };
    assert_eq!(remedy(&user, "locked memory"), "sudo prlimit --pid $$ --memlock=unlimited");
    user.limits.max_locked_bytes = None;
    assert_eq!(state(&user, "locked memory"), State::Ok, "what is in force is not advised");
    let without_types =
        Facts { has_btf: false, programs: Some(Err("no BTF".to_owned())), events: None, ..facts };
    assert_eq!(verdict(&without_types), Verdict::Impossible);
    assert_eq!(remedy(&without_types, "sampling programs"), "see `type information (BTF)`");
}

/// Root in a container of Docker, in the PID namespace of the machine, with more capabilities than usual.
fn container(more: u64) -> Facts {
    let (mut facts, paranoid) = (user(2), 2);
    facts.rights.is_root = true;
    facts.rights.effective = OF_CONTAINER | more;
    facts.rights.bounding = OF_CONTAINER | more;
    facts.rights.is_filtered = true;
    facts.settings.are_read_only = true;
    facts.settings.perf_event_paranoid = Some(paranoid);
    facts.place.container = Some("/.dockerenv");
    facts.place.is_first_cgroup_namespace = false;
    facts.place.tracefs = Tracefs::Unmounted;
    facts
}

#[test]
fn a_container_without_capabilities_is_to_be_started_with_them() {
    let facts = container(0);
    assert_eq!(verdict(&facts), Verdict::Impossible);
    let added = "start the container with --cap-add=BPF --cap-add=PERFMON --cap-add=SYS_PTRACE --cap-add=SYSLOG --cap-add=DAC_READ_SEARCH";
    for name in ["CAP_BPF", "sampling programs", "system call filter"] {
        assert_eq!(remedy(&facts, name), added, "{name}");
    }
    assert_eq!(
        remedy(&facts, "kernel.bpf_stats_enabled"),
        "on the host: sudo sysctl kernel.bpf_stats_enabled=1"
    );
    assert!(remedy(&facts, "cgroup namespace").contains("--cgroupns=host"));
}

#[test]
fn a_container_with_two_capabilities_records_and_lacks_names() {
    let mut facts = container(bits(&[Capability::BPF, Capability::PERFMON]));
    (facts.programs, facts.events, facts.counters) = (root().programs, Some(Ok(())), Counters::Cycles);
    assert_eq!(verdict(&facts), Verdict::Degraded);
    assert_eq!((state(&facts, "CAP_BPF"), state(&facts, "system call filter")), (State::Ok, State::Ok));
    let added = "start the container with --cap-add=SYS_PTRACE --cap-add=SYSLOG --cap-add=DAC_READ_SEARCH";
    assert_eq!((state(&facts, "CAP_SYSLOG"), &*remedy(&facts, "CAP_SYSLOG")), (State::Missing, added));
    let setting = remedy(&facts, "kernel.kptr_restrict");
    assert_eq!(setting, "on the host: sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1");
    // A filter of another kind refuses what the capabilities allow.
    facts.programs = Some(Err("Operation not permitted (os error 1)".to_owned()));
    assert_eq!(remedy(&facts, "sampling programs"), "see `system call filter`");
    assert!(remedy(&facts, "system call filter").contains("seccomp=unconfined"));
}

#[test]
fn namespaces_of_containers_are_told() {
    let mut facts = Facts { programs: None, events: None, counters: Counters::Untold, ..root() };
    facts.place.is_first_pid_namespace = false;
    assert_eq!((verdict(&facts), state(&facts, "PID namespace")), (Verdict::Impossible, State::Missing));
    assert!(remedy(&facts, "PID namespace").contains("--pid=host"));
    assert!(!checks(&facts).iter().any(|check| check.name == "sampling programs"), "nobody tried");
    let mut facts = user(2);
    facts.place.is_first_user_namespace = false;
    facts.rights.effective = ALL;
    assert!(remedy(&facts, "sampling programs").contains("outside of the user namespace"));
}

#[test]
fn lockdown_and_an_interpreter_of_programs_are_causes() {
    let refused = Some(Err("Invalid argument (os error 22)".to_owned()));
    let lockdown = Some("confidentiality".to_owned());
    let facts = Facts { lockdown, programs: refused.clone(), events: None, ..root() };
    assert_eq!((verdict(&facts), state(&facts, "lockdown")), (Verdict::Impossible, State::Degraded));
    assert_eq!(remedy(&facts, "sampling programs"), "see `lockdown`");
    let integrity = Facts { lockdown: Some("integrity".to_owned()), ..root() };
    assert_eq!(verdict(&integrity), Verdict::Ok);
    let mut facts = Facts { programs: refused, ..root() };
    facts.settings.bpf_jit_enable = Some(0);
    assert_eq!(remedy(&facts, "sampling programs"), "see `net.core.bpf_jit_enable`");
    assert_eq!(remedy(&facts, "net.core.bpf_jit_enable"), "sysctl net.core.bpf_jit_enable=1");
}

#[test]
fn arm64_copies_stacks_and_no_newer_kernel_changes_that() {
    let programs = Programs { without_loop: None, walks_tables: false, waits: Waits::Whole };
    let facts = Facts { arch: "aarch64".to_owned(), programs: Some(Ok(programs)), ..root() };
    assert_eq!((verdict(&facts), state(&facts, "architecture")), (Verdict::Degraded, State::Degraded));
    assert_eq!(of(&facts, "walks by unwind tables").remedy, None);
    assert_eq!(verdict(&Facts { arch: "riscv64".to_owned(), ..root() }), Verdict::Impossible);
}

#[test]
fn capabilities_that_nobody_can_gain_are_not_advised_to_be_set() {
    let mut facts = user(2);
    facts.rights.gains_none = true;
    assert!(remedy(&facts, "CAP_BPF").contains("no_new_privs"));
    facts.rights.gains_none = false;
    facts.rights.is_granted_nothing = true;
    assert!(remedy(&facts, "CAP_BPF").starts_with("sudo /usr/bin/icecore-record "));
    facts.rights.bounding = 0;
    assert!(remedy(&facts, "CAP_BPF").contains("CapabilityBoundingSet="));
    facts.rights = Rights { program: "/home/a user/record".into(), ..user(2).rights };
    assert!(
        remedy(&facts, "CAP_BPF").ends_with("+ep '/home/a user/record'"),
        "{}",
        remedy(&facts, "CAP_BPF")
    );
}

#[test]
fn settings_that_hide_the_kernel_are_named() {
    let mut facts = Facts { shows_addresses: false, ..root() };
    facts.settings.kptr_restrict = Some(2);
    assert_eq!(remedy(&facts, "kernel.kptr_restrict"), "sysctl kernel.kptr_restrict=1");
    facts.settings.kptr_restrict = Some(1);
    assert_eq!(remedy(&facts, "kernel.kptr_restrict"), "boot a kernel with CONFIG_KALLSYMS=y");
    let mut facts = user(2);
    facts.settings.kptr_restrict = Some(0);
    assert_eq!(remedy(&facts, "kernel.kptr_restrict"), "sudo sysctl kernel.perf_event_paranoid=1");
}

#[test]
fn what_runs_out_is_told_before_it_does() {
    let mut facts = root();
    facts.limits.spare_files = Some(50);
    facts.limits.free_bytes = Some(1 << 20);
    assert_eq!(remedy(&facts, "open files"), "prlimit --pid $$ --nofile=4096");
    assert_eq!((state(&facts, "this folder"), verdict(&facts)), (State::Degraded, Verdict::Degraded));
    let mut without = facts.clone();
    without.limits.spare_files = Some(30);
    assert_eq!((state(&without, "open files"), verdict(&without)), (State::Missing, Verdict::Impossible));
    without.limits.most_files = Some(40);
    without.programs = Some(Err("Too many open files (os error 24)".to_owned()));
    assert_eq!(remedy(&without, "sampling programs"), "see `open files`");
    assert_eq!(state(&without, "open files"), State::Degraded);
    facts.limits.may_write = false;
    assert!(of(&facts, "this folder").found.contains("may not write"));
}

#[test]
fn a_user_without_rights_can_record_own_processes_unless_the_distribution_forbids_it() {
    let facts = user(2);
    let own = of(&facts, "own processes");
    assert_eq!(own.state, State::Degraded);
    assert!(own.lacks.is_some_and(|lacks| lacks.contains("time in the kernel")));
    assert!(of(&facts, "CAP_BPF").lacks.is_some_and(|lacks| lacks.contains("own processes")));
    let can = Can::of(verdict(&facts), facts.can_record_own());
    assert_eq!((verdict(&facts), &can[..]), (Verdict::Impossible, &[Can::OwnProcesses][..]));
    let text = page::page(icecore_text::Page::new(false), &checks(&facts), Verdict::Impossible, &can);
    assert!(text.contains("It can record a command, and processes of its own"), "{text}");
    for level in [3, 4] {
        let facts = user(level);
        assert_eq!(state(&facts, "own processes"), State::Missing);
        let said = remedy(&facts, "own processes");
        assert!(said.starts_with("sudo sysctl kernel.perf_event_paranoid=2 lets users sample"), "{said}");
        assert!(Can::of(verdict(&facts), facts.can_record_own()).is_empty());
    }
    assert!(checks(&root()).iter().all(|check| check.name != "own processes"));
    assert_eq!(Can::of(Verdict::Degraded, false), [Can::Machine, Can::OwnProcesses]);
}
