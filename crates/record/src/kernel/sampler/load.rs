//! Loads the BPF programs with the settings of a recording.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, RandomState};
use std::mem::{MaybeUninit, offset_of};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Struct};
use libbpf_rs::skel::{OpenSkel as _, SkelBuilder as _};
use libbpf_rs::{
    ErrorKind, MapCore as _, MapFlags, OpenObject, OpenProgramMut, PrintCallback, PrintLevel,
    ProgramAttachType, ProgramType,
};

use super::in_targets::InTargets;
use super::lists::MAX_TRUSTED;
use super::uprobes::has_uprobe_multi;
use super::{Sampler, StacksOfWaits, Walker, is_kernel_since};
use crate::proc::kallsyms;
use crate::settings::{Edge, Event, Hook, Of, Options, Place, Source, Take, Target, Unwind, Weight};
use crate::skeleton::IcecoreSkelBuilder;
use crate::skeleton::types::{self, copy_mode, limits, target_mode};
use crate::sys::tracefs::{Field, FieldKind};
use crate::sys::{perf, usage};

/// The kernel wakes user space at the latest when this many bytes wait.
const MAX_WAKEUP_BYTES: u64 = 1 << 20;
/// The number of threads whose waits can be followed at one time: 38 MiB of the kernel's memory, on Linux 6.18 only if there
/// are so many.
const MAX_WAITING: u32 = 128 << 10;
/// The number of calls whose durations can be measured at one time: 9 MiB of the kernel's memory.
const MAX_CALLS: u32 = 64 << 10;
/// The number of threads whose stacks are copied when they leave their CPU: 18 MiB of the kernel's memory.
const MAX_WAIT_COPIES: u32 = 8 << 10;
/// The number of threads that wait in functions of an interpreter: 24 MiB.
const MAX_WAIT_FUNCTIONS: u32 = 2 << 10;
/// The environment variable that names a feature which the recorder does not use although the kernel has it; for tests and measurements.
const WITHOUT: &str = "ICECORE_WITHOUT";
/// The most ways to load the programs.
pub const WAYS: usize = 5;
/// Since then a program of a probe may share its stack with all threads that run it on its CPU, and since `KEPT_CPUS` it can prevent that
/// they do (bpf/icecore.bpf.c).
const STACKS_OF_CPUS: (u32, u32) = (6, 13);
const KEPT_CPUS: (u32, u32) = (6, 15);
const MAX_CALLING: usize = limits::MAX_CALLING.0 as usize;
/// The number of stack pages on the list of sent pages: 256 MiB of stacks, 5 MiB of memory.
const MAX_SENT_PAGES: u32 = 64 << 10;
/// The number of processes and threads that can be followed at one time, if the kernel allows as many: 8 MiB of its memory.
const MAX_TARGETS: u32 = 128 << 10;

impl<'obj> Sampler<'obj> {
    /// Loads the programs and attaches none. What the kernel has not, or its verifier refuses, is replaced by something that older kernels
    /// have. `print` receives the messages of libbpf.
    ///
    /// # Errors
    /// If the kernel has no BTF, or privileges are missing; the message says what to do.
    pub fn load(
        storage: &'obj mut [MaybeUninit<OpenObject>; WAYS],
        options: &Options,
        events: &[Event],
        print: Option<PrintCallback>,
    ) -> anyhow::Result<Self> {
        check_btf()?;
        libbpf_rs::set_print(print.map(|print| (PrintLevel::Info, print)));
        let in_targets = if is_without("probes_in_targets") {
            Err(anyhow::anyhow!("the recorder does not use tracefs (ICECORE_WITHOUT)"))
        } else {
            InTargets::new(options, events)
        };
        let mut notes = Vec::new();
        let in_targets = in_targets.unwrap_or_else(|why| {
            notes.push(format!(
                "every process that runs the probed code pays for its hits, not only the targets: {why:#}"
            ));
            None
        });
        let mut refused = None;
        for (storage, way) in storage.iter_mut().zip(ways(options)) {
            match Self::load_with(storage, options, events, (way, in_targets.is_some())) {
                Err(error) if is_refused(&error) => {
                    refused.get_or_insert(error);
                }
                Err(error) => return Err(refused.unwrap_or(error)),
                Ok(loaded) => return Ok(Self { in_targets, notes, ..loaded }),
            }
        }
        Err(refused.unwrap_or_else(|| anyhow::anyhow!("bug: there is no way to load the programs")))
    }

    fn load_with(
        storage: &'obj mut MaybeUninit<OpenObject>,
        options: &Options,
        events: &[Event],
        (Way { walker, stacks_of_waits, walks_tables }, in_targets): (Way, bool),
    ) -> anyhow::Result<Self> {
        let has_loop = walker == Walker::Loop;
        if let Walker::Helper(why) = walker {
            if let Some(event) = events.iter().find(|event| event.is_of_returns()) {
                // The kernel's own walk shows its trampoline in place of return addresses.
                bail!("cannot record `{}`: {why}; probe the begin of the function (uprobe)", event.name);
            }
            if let Some(event) = events.iter().find(|event| event.calling().is_some()) {
                bail!("cannot record `{}`: {why}; use kprobe or kretprobe", event.name);
            }
        }
        let mut open =
            IcecoreSkelBuilder::default().open(storage).context("cannot open the sampling programs")?;
        let programs = &mut open.progs;
        // Those of one kind of events: with our own walk, and with the kernel's.
        let kinds = [
            (&mut programs.sample_by_loop, &mut programs.sample_by_helper),
            (&mut programs.tracepoint_by_loop, &mut programs.tracepoint_by_helper),
            (&mut programs.kprobe_by_loop, &mut programs.kprobe_by_helper),
            (&mut programs.uprobe_by_loop, &mut programs.uprobe_by_helper),
        ];
        for ((by_loop, by_helper), is_used) in kinds.into_iter().zip(kinds_of(events)) {
            by_loop.set_autoload(is_used && has_loop);
            by_helper.set_autoload(is_used && !has_loop);
        }
        let durations = |in_kernel: bool| {
            events.iter().any(|event| event.has_durations() && event.is_in_kernel() == in_kernel)
        };
        programs.kprobe_of_call.set_autoload(durations(true));
        programs.uprobe_of_call.set_autoload(durations(false));
        let called =
            [&mut programs.called_0, &mut programs.called_1, &mut programs.called_2, &mut programs.called_3];
        let events_of_calls = bind_calls(called, events)?;
        if has_uprobe_multi() && !in_targets {
            programs.uprobe_of_call.set_attach_type(ProgramAttachType::TraceUprobeMulti);
            programs.uprobe_by_loop.set_attach_type(ProgramAttachType::TraceUprobeMulti);
            programs.uprobe_by_helper.set_attach_type(ProgramAttachType::TraceUprobeMulti);
        }
        let has_waits = options.off_cpu.is_some();
        let has_wakers = options.off_cpu.is_some_and(|off_cpu| off_cpu.wakers);
        let copies_waits = matches!(stacks_of_waits, StacksOfWaits::Copied(_));
        programs.on_switch.set_autoload(has_waits && stacks_of_waits == StacksOfWaits::ByThread);
        programs.on_switch_with_copies.set_autoload(has_waits && copies_waits);
        programs
            .on_switch_without_stacks
            .set_autoload(has_waits && stacks_of_waits == StacksOfWaits::Missing);
        programs.on_waking.set_autoload(has_wakers && has_loop);
        programs.on_waking_by_helper.set_autoload(has_wakers && !has_loop);
        programs.name_address.set_autoload(options.kernel && has_function("bpf_iter_bpf_map_elem"));
        let has_counters = options.counters.is_some();
        programs.on_every_process_by_loop.set_autoload(has_counters && has_loop);
        programs.on_every_process_by_helper.set_autoload(has_counters && !has_loop);
        programs.on_end_of_process.set_autoload(has_counters);
        // Programs that may sleep can use these maps since 6.1.
        let reads_waiting = has_loop && is_kernel_since((6, 1));
        programs.on_every_waiting.set_autoload(has_waits && reads_waiting);
        programs.on_every_waiting_without_stacks.set_autoload(has_waits && !reads_waiting);
        let has_cookies = ProgramType::Tracepoint
            .is_helper_supported(libbpf_sys::BPF_FUNC_get_attach_cookie)
            .unwrap_or(false);
        let lanes = lanes(events, has_cookies)?;
        let has_cgroups = Path::new("/proc/self/cgroup").exists();
        open.progs.on_mkdir_cgroup.set_autoload(has_cgroups);
        open.maps.target_cgroups.set_autocreate(has_cgroups)?;

        let rodata = open.maps.rodata_data.as_deref_mut().context("bug: the programs have no settings")?;
        rodata.target_mode = match &options.target {
            Target::System => target_mode::TARGET_SYSTEM,
            Target::Processes(_) | Target::Command => target_mode::TARGET_PROCESSES,
            Target::Threads(_) => target_mode::TARGET_THREADS,
            Target::Cgroups(_) => target_mode::TARGET_CGROUPS,
        }
        .0;
        if let Target::Cgroups(cgroups) = &options.target {
            rodata.target_cgroup_count = u32::try_from(cgroups.len())?;
        }
        rodata.max_user_frames = options.max_depth;
        rodata.max_kernel_frames = rodata.max_kernel_frames.min(kernel_limit("perf_event_max_stack"));
        rodata.take_user = options.user;
        rodata.take_kernel = options.kernel;
        rodata.take_idle = options.idle;
        rodata.take_accounts = options.accounts();
        rodata.wakeup_bytes = (options.ring_bytes / 4).min(MAX_WAKEUP_BYTES);
        rodata.copy_mode = match options.unwind {
            Unwind::Fp => copy_mode::COPY_NOTHING,
            Unwind::Auto | Unwind::Copy => copy_mode::COPY_UNTRUSTED,
            Unwind::Dwarf => copy_mode::COPY_ALWAYS,
        }
        .0;
        rodata.walks_tables = walks_tables;
        rodata.audited_of = options.audit;
        rodata.max_stack_bytes = options.stack_bytes;
        rodata.ring_half = options.ring_bytes / 2;
        rodata.ring_three_quarters = options.ring_bytes / 4 * 3;
        rodata.hash_seed = RandomState::new().hash_one(0_u64);

        rodata.lanes = lanes;
        rodata.page_bytes = usage::page_bytes().into();
        rodata.wait_ns = options.off_cpu.map_or(0, |off_cpu| off_cpu.always_ns);
        rodata.most_waits = most_in_a_window(options);
        if has_waits {
            let code = kallsyms::wait_code();
            rodata.hard_interrupts = [code.hard.start.0, code.hard.end.0];
            rodata.soft_interrupts = [code.soft.start.0, code.soft.end.0];
            rodata.caller_at_waking = [code.caller.start.0, code.caller.end.0];
            rodata.scheduler = [code.scheduler.start.0, code.scheduler.end.0];
        }
        rodata.follows_all = has_wakers;
        let number = |which: Of| {
            let is_it = |event: &Event| matches!(event.source, Source::Wait { of, .. } if of == which);
            events.iter().position(is_it).unwrap_or(0) as u32
        };
        rodata.off_cpu_event = number(Of::OffCpu);
        rodata.run_delay_event = number(Of::RunDelay);
        rodata.waker_event = number(Of::Waker);
        rodata.has_cookies = has_cookies;
        rodata.events_of_calls = events_of_calls;
        rodata.is_stack_of_cpu = is_kernel_since(STACKS_OF_CPUS);
        rodata.some_cpus = options.some_cpus;
        for cpu in &options.cpus {
            let word = rodata.target_cpus.get_mut(*cpu as usize / 64);
            *word.with_context(|| {
                format!("cannot sample CPU {cpu}: the limit is {}", limits::MAX_CPUS.0 - 1)
            })? |= 1 << (cpu % 64);
        }

        let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?)?;
        open.maps.scratches.set_max_entries(cpus * lanes)?;
        open.maps.ring.set_max_entries(u32::try_from(options.ring_bytes)?)?;
        if matches!(&options.target, Target::Processes(_) | Target::Threads(_) | Target::Command) {
            let most = kernel_limit("pid_max").min(MAX_TARGETS);
            open.maps.target_tgids.set_max_entries(most)?;
            open.maps.target_tids.set_max_entries(most)?;
        }
        if events.iter().any(Event::has_durations) {
            open.maps.calls.set_max_entries(MAX_CALLS)?;
        }
        if has_waits {
            open.maps.waits.set_max_entries(MAX_WAITING)?;
            open.maps.wait_copies.set_max_entries(MAX_WAIT_COPIES)?;
            open.maps.wait_functions.set_max_entries(MAX_WAIT_FUNCTIONS)?;
        }
        let always_there = 0;
        if has_waits && stacks_of_waits != StacksOfWaits::ByThread {
            // Before 6.1 a map that grows takes memory from the kernel's allocator, which the scheduler must not call.
            open.maps.waits.set_map_flags(always_there)?;
        }
        if has_waits && copies_waits {
            open.maps.wait_copies.set_map_flags(always_there)?;
            let data = open.maps.bss_data.as_deref_mut().context("bug: the programs have no variables")?;
            data.makes_wait_copies = 1;
        }
        if options.unwind != Unwind::Fp {
            open.maps.sent_pages.set_max_entries(MAX_SENT_PAGES)?;
        }
        if walks_tables {
            open.maps.known_rows.set_max_entries(cpus * limits::KNOWN_ROWS.0)?;
        }
        if options.unwind.judges() {
            open.maps.trusted_tgids.set_max_entries(MAX_TRUSTED as u32)?;
        }
        let skel = open.load().map_err(|error| match events.iter().find(|event| event.calling().is_some()) {
            Some(event) => explain_load(error).context(format!(
                "cannot record `{}`: perhaps no function of this kernel calls programs (CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS); use kprobe or kretprobe",
                event.name
            )),
            None => explain_load(error),
        })?;
        for (number, event) in (0_u32..).zip(events) {
            if let Source::Probe { place, take } = &event.source {
                let choice = choice(options, place, take)?;
                skel.maps.choices.update(&number.to_ne_bytes(), &choice, MapFlags::ANY)?;
            }
        }
        Ok(Self {
            skel,
            walks_tables,
            finds_interpreters: walks_tables && !is_without("interpreters"),
            walker,
            stacks_of_waits,
            has_cgroups,
            events: events.len(),
            tasks: Vec::new(),
            sampling: Vec::new(),
            switches: Vec::new(),
            resting: Vec::new(),
            can_rest: Vec::new(),
            in_targets: None,
            opened: Vec::new(),
            counters: Vec::new(),
            notes: Vec::new(),
            missed_by_kprobes: 0,
            live: Cell::new(None),
            followed: RefCell::default(),
            _run_counter: usage::count_bpf_runs(),
        })
    }
}

/// A way to load the programs.
#[derive(Debug, Clone, Copy)]
struct Way {
    walker: Walker,
    stacks_of_waits: StacksOfWaits,
    /// User stacks are walked by unwind tables.
    walks_tables: bool,
}

/// Returns how the programs may be loaded, the best way first; the last one works everywhere.
fn ways(options: &Options) -> Vec<Way> {
    const REFUSED: &str =
        "the verifier of this kernel refuses the program that walks user stacks (-v shows why)";
    let by_helper = |why| Way {
        walker: Walker::Helper(why),
        stacks_of_waits: StacksOfWaits::Missing,
        walks_tables: false,
    };
    if !ProgramType::PerfEvent.is_helper_supported(libbpf_sys::BPF_FUNC_loop).unwrap_or(false) {
        return vec![by_helper("this kernel has no bpf_loop (5.17)")];
    }
    let mut stacks = Vec::new();
    let why = if is_without("task_work") {
        "threads run no programs after a wait (ICECORE_WITHOUT)"
    } else if options.off_cpu.is_some() && has_task_work() {
        stacks.push(StacksOfWaits::ByThread);
        "the verifier of this kernel refuses the program that threads run after a wait (-v shows why)"
    } else {
        "this kernel runs no programs in threads that have waited (6.18)"
    };
    stacks.push(StacksOfWaits::Copied(why));
    let by_loop = |walks_tables| {
        stacks.iter().map(move |stacks| Way { walker: Walker::Loop, stacks_of_waits: *stacks, walks_tables })
    };
    let with_tables = options.unwind == Unwind::Auto && !is_without("tables") && has_tree_of_mappings();
    let with_tables = with_tables.then(|| by_loop(true)).into_iter().flatten();
    with_tables.chain(by_loop(false)).chain([by_helper(REFUSED)]).collect()
}

fn is_without(feature: &str) -> bool {
    std::env::var_os(WITHOUT).is_some_and(|without| without == feature)
}

/// Returns true if programs can find the mapping of an address while they walk (6.1), and the rows of unwind tables are those of this
/// machine.
fn has_tree_of_mappings() -> bool {
    let is_there = |btf: &Btf<'_>| btf.type_by_name::<Struct<'_>>("maple_tree").is_some();
    cfg!(target_arch = "x86_64") && Btf::from_vmlinux().is_ok_and(|btf| is_there(&btf))
}

/// Returns true if the kernel lets a thread run a program before it returns to user space.
fn has_task_work() -> bool {
    ["bpf_task_work_schedule_resume", "bpf_task_work_schedule_resume_impl"].into_iter().any(has_function)
}

/// Returns true if the kernel has a function that programs may call or follow.
fn has_function(name: &str) -> bool {
    Btf::from_vmlinux().is_ok_and(|btf| btf.type_by_name::<Func<'_>>(name).is_some())
}

/// Returns which kinds of events there are: counters, tracepoints, probes in the kernel, probes in programs.
fn kinds_of(events: &[Event]) -> [bool; 4] {
    let has = |is_kind: fn(&Source) -> bool| events.iter().any(|event| is_kind(&event.source));
    [
        has(|source| matches!(source, Source::Counter { .. })),
        has(|source| matches!(source, Source::Probe { place: Place::Tracepoint { .. }, .. })),
        has(|source| matches!(source, Source::Probe { place: Place::Kernel { hook: Hook::Kprobe, .. }, .. })),
        has(|source| matches!(source, Source::Probe { place: Place::User { .. }, .. })),
    ]
}

/// Binds a program to each function of the kernel that is to call one. The others are not loaded. Returns the number of the event of each
/// program.
///
/// # Errors
/// If there are too many, or the kernel has no such function that can call programs.
fn bind_calls(
    programs: [&mut OpenProgramMut<'_>; MAX_CALLING],
    events: &[Event],
) -> anyhow::Result<[u32; MAX_CALLING]> {
    let calling: Vec<_> =
        (0_u32..).zip(events).filter_map(|(number, event)| Some((number, event, event.calling()?))).collect();
    ensure!(
        calling.len() <= MAX_CALLING,
        "cannot record {} events of fentry and fexit at once: the limit is {MAX_CALLING}; use kprobe and kretprobe for the others",
        calling.len()
    );
    let mut numbers = [0; MAX_CALLING];
    for (at, program) in programs.into_iter().enumerate() {
        program.set_autoload(at < calling.len());
        let Some((number, event, (function, edge))) = calling.get(at) else { continue };
        numbers[at] = *number;
        if *edge == Edge::Return {
            program.set_attach_type(ProgramAttachType::TraceFexit);
        }
        program.set_attach_target(0, Some((*function).to_owned())).with_context(|| {
            format!("cannot sample `{}`: the kernel describes no such function in its BTF; use kprobe or kretprobe", event.name)
        })?;
    }
    Ok(numbers)
}

/// Returns true if probes whose threads can be preempted in them (in programs, `fentry`, `fexit`) do not harm this kernel.
pub(crate) fn takes_preempted_probes() -> bool {
    !is_kernel_since(STACKS_OF_CPUS) || is_kernel_since(KEPT_CPUS)
}

/// Returns how many programs may take a sample on a CPU at the same time.
///
/// # Errors
/// If this kernel cannot record these events.
fn lanes(events: &[Event], has_cookies: bool) -> anyhow::Result<u32> {
    if matches!(events, [Event { source: Source::Counter { .. }, .. }]) {
        return Ok(1);
    }
    ensure!(
        is_kernel_since((5, 12)),
        "cannot record probes, waits or several events: this kernel has no atomic operations for programs (5.12); record without -e and --off-cpu, or one counter"
    );
    let is_preempted = |event: &Event| {
        matches!(event.source, Source::Probe { place: Place::User { .. }, .. }) || event.calling().is_some()
    };
    ensure!(
        !events.iter().any(is_preempted) || takes_preempted_probes(),
        "cannot record probes in programs, fentry and fexit: on Linux 6.13 and 6.14 threads that are preempted in one can crash the kernel; record on another kernel"
    );
    let has_cookie =
        |event: &&Event| !matches!(event.source, Source::Wait { .. }) && event.calling().is_none();
    let by_cookie = events.iter().filter(has_cookie).count();
    ensure!(
        has_cookies || by_cookie <= 1,
        "cannot record {by_cookie} events at once: this kernel has no cookies of programs (5.15); record one event at a time"
    );
    Ok(limits::LANES.0)
}

/// Returns the bytes of the `struct choice` of a probe (bpf/events.h).
fn choice(options: &Options, place: &Place, take: &Take) -> anyhow::Result<Vec<u8>> {
    let every = u32::try_from(take.every).context("cannot use `every`: the limit is 2^32 - 1")?;
    let argument = match take.weight {
        Weight::One => 0,
        Weight::Argument(number) => u32::from(number),
        Weight::ArgumentInt(number) => types::weight::WEIGHT_INT.0 | u32::from(number),
        Weight::Returned => types::weight::WEIGHT_RETURN_VALUE.0,
        Weight::ReturnedInt => types::weight::WEIGHT_RETURN_INT.0,
        Weight::Duration => types::weight::WEIGHT_DURATION.0,
        // `weighed` has it.
        Weight::Field(_) => 0,
    };
    let most = most_in_a_window(options);
    let at_entry = match place {
        Place::User { edge, .. } => u32::from(*edge == Edge::Entry),
        Place::Tracepoint { .. } | Place::Kernel { .. } => 0,
    };
    let mut bytes = vec![0; size_of::<types::choice>()];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(offset_of!(types::choice, every), &every.to_ne_bytes());
    put(offset_of!(types::choice, argument), &argument.to_ne_bytes());
    put(offset_of!(types::choice, min), &take.min.to_ne_bytes());
    put(offset_of!(types::choice, most), &most.to_ne_bytes());
    put(offset_of!(types::choice, at_entry), &at_entry.to_ne_bytes());
    if let Weight::Field(field) = take.weight {
        put(offset_of!(types::choice, weighed), &field_bytes(field));
    }
    if let Place::Tracepoint { sent: Some((_, field)), .. } = place {
        put(offset_of!(types::choice, sent), &field_bytes(*field));
    }
    Ok(bytes)
}

/// Returns the most samples of an event in a window of the programs; 0 for no bound.
fn most_in_a_window(options: &Options) -> u32 {
    let windows_per_second = 1_000_000_000.0 / f64::from(1_u32 << limits::WINDOW_BITS.0);
    match options.max_event_rate {
        0 => 0,
        rate => ((rate as f64 / windows_per_second) as u32).max(2),
    }
}

/// Returns the bytes of a `struct field` (bpf/wire.h).
fn field_bytes(Field { off, size, kind }: Field) -> [u8; size_of::<types::field>()] {
    let kind = match kind {
        FieldKind::Unsigned => types::field_kind::FIELD_UNSIGNED,
        FieldKind::Signed => types::field_kind::FIELD_SIGNED,
        FieldKind::Text => types::field_kind::FIELD_TEXT,
        FieldKind::Located => types::field_kind::FIELD_LOCATED,
        FieldKind::LocatedBehind => types::field_kind::FIELD_LOCATED_BEHIND,
    };
    let [low, high] = off.to_ne_bytes();
    [low, high, size, kind.0 as u8]
}

/// Returns a limit of the kernel; the largest number if it cannot be read.
fn kernel_limit(name: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    text.trim().parse().unwrap_or(u32::MAX)
}

/// The types of the kernel, by which programs find its fields.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Returns true if the kernel describes its types.
pub(crate) fn has_btf() -> bool {
    Path::new(BTF).exists()
}

fn check_btf() -> anyhow::Result<()> {
    if has_btf() {
        return Ok(());
    }
    bail!(
        "cannot find `{BTF}`: this kernel has no type information; it needs CONFIG_DEBUG_INFO_BTF=y (distributions have it since 2020)"
    )
}

/// Returns true if the kernel refuses the content of a program. If privileges are missing, the error is EPERM instead.
fn is_refused(error: &anyhow::Error) -> bool {
    let refusals = [libc::EACCES, libc::EINVAL, libc::E2BIG].map(std::io::Error::from_raw_os_error);
    let text = error.root_cause().to_string();
    refusals.iter().any(|refusal| refusal.to_string() == text)
}

/// The kernel does not let this process load programs, whatever they are. Holds what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Forbidden(String);

/// Returns true if this is why programs cannot be loaded.
pub(crate) fn is_forbidden(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Forbidden>().is_some()
}

fn explain_load(error: libbpf_rs::Error) -> anyhow::Error {
    let kind = error.kind();
    let error = anyhow::Error::new(error);
    let is_forbidden = kind == ErrorKind::PermissionDenied && !is_refused(&error);
    if is_forbidden && perf::has_privileges() {
        error.context(Forbidden(
            "cannot load the sampling programs: the recorder has the privileges, and the kernel forbids it all the same: its lockdown, a security module or a container's limits (-v shows what the kernel says)".to_owned(),
        ))
    } else if is_forbidden {
        error.context(Forbidden(format!(
            "cannot load the sampling programs: {} (kernel.perf_event_paranoid is {}, kernel.unprivileged_bpf_disabled is {})",
            perf::PRIVILEGES,
            perf::sysctl("perf_event_paranoid"),
            perf::sysctl("unprivileged_bpf_disabled"),
        )))
    } else if is_refused(&error) {
        error.context(
            "cannot load the sampling programs: the kernel's verifier, or a security module, refuses them (-v shows what the kernel says)",
        )
    } else if format!("{error:#}").contains("Too many open files") {
        error.context("cannot load the sampling programs: raise the limit with `ulimit -n`")
    } else {
        error.context("cannot load the sampling programs (-v shows what the kernel says)")
    }
}
