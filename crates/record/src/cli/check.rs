//! Checks the command line against this machine before anything is opened.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use icecore_text::quantity::duration;

use super::args::{self, Args};
use super::named;
use super::probes::{self, Common};
use crate::proc;
use crate::proc::cgroup::Cgroup;
use crate::proc::namespace::{self, Kind};
use crate::settings::{
    Condition, Control, Destination, Keep, Metric, OffCpu, Options, Ship, Start, Target, Unwind,
};
use crate::skeleton::types::limits;
use crate::sys::perf::Rate;
use crate::sys::user::{self, User};

/// The smallest ring: a few of the largest samples.
const MIN_RING_BYTES: u64 = 256 << 10;
/// The largest ring that the recorder offers, bytes.
const MAX_RING_BYTES: u64 = 1 << 30;

/// The most cgroups that can be sampled at once.
const MAX_CGROUPS: usize = limits::MAX_TARGET_CGROUPS.0 as usize;

/// Turns the command line into the options of a recording.
///
/// # Errors
/// If there is no target, a process or thread does not exist, no process has a name, a CPU is not online, or the command
/// or an event cannot be found.
pub fn options(args: Args) -> anyhow::Result<Options> {
    let mut target = if args.all {
        Target::System
    } else if !args.pids.is_empty() || !args.names.is_empty() {
        Target::Processes(args.pids)
    } else if !args.tids.is_empty() {
        Target::Threads(args.tids)
    } else if !args.cgroups.is_empty() {
        Target::Cgroups(cgroups(&args.cgroups)?)
    } else if !args.command.is_empty() {
        Target::Command
    } else {
        bail!(
            "nothing to record: give -a, -p PID, --name PATTERN, -t TID, --cgroup PATH or a command (see --help)"
        );
    };
    let output = match args.output {
        None => Destination::NewFile,
        Some(path) if path.as_os_str() == "-" => Destination::Stdout,
        Some(path) => Destination::File(path),
    };
    ensure!(
        args.rotate.is_none() && args.flight.is_none() || output != Destination::Stdout,
        "cannot write several files to stdout: name them with -o DIR/PREFIX.icecore"
    );
    ensure!(
        args.ship.is_none() || output != Destination::Stdout,
        "cannot ship what is written to stdout: name a file with -o"
    );
    let keep =
        Keep { files: args.keep.map(|files| files as usize), bytes: args.keep_bytes, age: args.keep_for };
    let ship = args.ship.map(|to| Ship { to, keeps: keep != Keep::default() });
    let always_ns = args.off_cpu.or(args.off_cpu_only).map(|typed| match (typed, args.count) {
        (Some(typed), _) => u64::try_from(typed.as_nanos()).unwrap_or(u64::MAX),
        // As often as the CPU is sampled.
        (None, None) => 1_000_000_000 / args.frequency,
        (None, Some(count)) => count,
    });
    let counted = args.when.iter().find(|condition| condition.metric.is_counted());
    if let Some(Condition { text, .. }) = counted.filter(|_| args.counters.0.is_none()) {
        bail!("cannot look whether `{text}`: counters are read for it, and --counters is off");
    }
    let delayed = args.when.iter().find(|condition| condition.metric == Metric::RunDelay);
    if let Some(Condition { text, value, .. }) = delayed {
        let Some(always_ns) = always_ns else {
            bail!("cannot look whether `{text}`: waits are recorded only with --off-cpu");
        };
        ensure!(
            *value * 1e9 >= always_ns as f64,
            "cannot look whether `{text}`: shorter waits than {} are recorded by chance; give --off-cpu=TIME of at most that length",
            duration(always_ns)
        );
    }
    check_terminal(&output)?;
    check_namespace()?;
    check_exist(&target)?;
    if let Target::Processes(ids) = &mut target {
        let named = named::find(&args.names)?;
        let more: Vec<u32> = named.into_iter().filter(|id| !ids.contains(id)).collect();
        ids.extend(more);
    }
    if let Some(program) = args.command.first() {
        check_program(Path::new(program))?;
    }
    let run_as = args.run_as.map(|name| user(&name, &args.command)).transpose()?;
    let online = proc::cpus::online()?;
    let cpus = match &args.cpus {
        None => online.clone(),
        Some(list) => {
            let cpus =
                proc::cpus::parse_list(list).with_context(|| format!("cannot read the CPU list `{list}`"))?;
            if let Some(cpu) = cpus.iter().find(|cpu| !online.contains(cpu)) {
                bail!(
                    "cannot sample CPU {cpu}: it is not online (online: {})",
                    proc::cpus::show_list(&online)
                );
            }
            cpus
        }
    };
    // Room for two seconds of the largest stream that is likely: 999 Hz, 250 frames.
    let default_ring = match args.unwind {
        Unwind::Fp => (online.len() as u64 * (1 << 20)).clamp(4 << 20, 256 << 20),
        // Room for a tenth of a second at 999 Hz with 64 KiB of stack in each sample.
        Unwind::Auto | Unwind::Copy | Unwind::Dwarf => {
            (online.len() as u64 * (8 << 20)).clamp(16 << 20, 256 << 20)
        }
    };
    let budget = args.budget.unwrap_or_default();
    // The ring is a part of the recorder's memory.
    let default_ring = default_ring.min(budget.memory.map_or(u64::MAX, |most| (most / 8).max(4 << 20)));
    let ring_bytes = args.ring.unwrap_or(default_ring);
    let is_left_running =
        args.rotate.is_some() || args.flight.is_some() || args.duty.is_some() || budget.is_limited();
    ensure!(
        (MIN_RING_BYTES..=MAX_RING_BYTES).contains(&ring_bytes),
        "cannot use a ring of {ring_bytes} bytes: give --ring between 256K and 1G"
    );
    let rate = args.count.map_or(Rate::Frequency(args.frequency), Rate::Period);
    let common = Common { rate, user: !args.kernel, kernel: !args.user };
    let (events, notes) = probes::find(&args.events, common)?;
    Ok(Options {
        target,
        names: args.names,
        children: args.children,
        command: args.command,
        events,
        notes,
        off_cpu: always_ns.map(|always_ns| OffCpu {
            always_ns,
            wakers: args.wakers,
            only: args.off_cpu_only.is_some(),
        }),
        counters: args.counters.0,
        max_event_rate: args.max_event_rate,
        run_as,
        start: args.delay.map(Start::After).or(args.at.map(Start::AtMultipleOf)),
        rate,
        duration: args.duration,
        duty: args.duty,
        budget,
        user: common.user,
        kernel: common.kernel,
        idle: args.include_idle,
        some_cpus: cpus.len() < online.len(),
        cpus,
        max_depth: args.max_depth,
        unwind: args.unwind,
        audit: args.audit,
        keeps_tables: !args.no_cache,
        stack_bytes: args.stack_bytes,
        labels: args.labels,
        ring_bytes: ring_bytes.next_power_of_two(),
        flush_ns: u64::try_from(args.flush.as_nanos()).unwrap_or(u64::MAX),
        flush_bytes: usize::try_from(args.flush_bytes).unwrap_or(usize::MAX),
        embed: args.embed,
        embed_max_bytes: args.embed_max,
        output,
        rotate: args.rotate,
        flight: args.flight,
        when: args.when,
        keep,
        ship,
        pidfile: args.pidfile,
        control: match args.control {
            Some(path) => Control::At(path),
            None if is_left_running => Control::Usual,
            None => Control::Nothing,
        },
        live: args.live,
        force: args.force,
        quiet: args.quiet,
        verbose: args.verbose,
    })
}

/// Finds the user as whom the command is to run.
fn user(name: &str, command: &[OsString]) -> anyhow::Result<User> {
    ensure!(!command.is_empty(), "cannot run a command as `{name}`: there is no command (see --help)");
    ensure!(
        user::is_root(),
        "cannot run a command as `{name}`: only root may; run icecore-record as root (sudo)"
    );
    let found = User::find(name).with_context(|| format!("cannot look up the user `{name}`"))?;
    found.with_context(|| format!("cannot run a command as `{name}`: there is no such user"))
}

fn cgroups(typed: &[String]) -> anyhow::Result<Vec<Cgroup>> {
    ensure!(
        typed.len() <= MAX_CGROUPS,
        "cannot sample {} cgroups at once: the limit is {MAX_CGROUPS}; name one above them, or record -a",
        typed.len()
    );
    typed.iter().map(|typed| Cgroup::find(typed)).collect()
}

fn check_terminal(output: &Destination) -> anyhow::Result<()> {
    ensure!(
        *output != Destination::Stdout || !std::io::stdout().is_terminal(),
        "cannot write a recording to a terminal: pipe it (| icecore-report -), redirect it (> FILE), or name a file with -o"
    );
    Ok(())
}

/// Checks that `/proc` uses the ids of the first PID namespace, as the kernel does.
fn check_namespace() -> anyhow::Result<()> {
    ensure!(
        namespace::is_first(Kind::Pid).context("cannot read `/proc/self/ns/pid`")?,
        "cannot record from inside a PID namespace: run on the host, or in a container with the host's (--pid=host)"
    );
    Ok(())
}

fn check_exist(target: &Target) -> anyhow::Result<()> {
    let (what, ids) = match target {
        Target::Processes(ids) => ("process", ids),
        Target::Threads(ids) => ("thread", ids),
        Target::System | Target::Command | Target::Cgroups(_) => return Ok(()),
    };
    for id in ids {
        // /proc/TID exists for threads as well, though it is not listed.
        let status = match std::fs::read(format!("/proc/{id}/status")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bail!("cannot record {what} {id}: there is no such {what}")
            }
            other => other.with_context(|| format!("cannot record {what} {id}"))?,
        };
        let tgid = proc::scan::status_field(&status, "Tgid");
        if what == "process" && tgid.is_some_and(|tgid| tgid != *id) {
            bail!("cannot record process {id}: it is a thread of process {}; use -t {id}", tgid.unwrap_or(0));
        }
    }
    Ok(())
}

/// Searches for the command as a shell does, before anything is attached.
fn check_program(program: &Path) -> anyhow::Result<()> {
    let candidates: Vec<PathBuf> = if program.components().count() > 1 {
        vec![program.to_owned()]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        std::env::split_paths(&path).map(|dir| dir.join(program)).collect()
    };
    let exists = candidates.iter().any(|path| path.exists());
    let hint = args::no_command(&program.to_string_lossy());
    ensure!(exists, "cannot run `{}`: no such program{hint}", program.display());
    let is_executable = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    ensure!(
        candidates.iter().any(is_executable),
        "cannot run `{}`: not an executable file",
        program.display()
    );
    Ok(())
}
