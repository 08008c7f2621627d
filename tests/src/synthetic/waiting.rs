//! Threads that run and wait, with several events.

use icecore_format::records::{
    Change, CpuTime, EndReason, EventMeaning, EventV1, ImageKind, KernelSymbol, Origin, ReceiptV1, SessionV1,
    Wait, WaitFlags, WaitState, WokenBy,
};

use super::{Builder, KERNEL, PERIOD_NS, START_NS, session};

/// The events that [`waiting`] knows: name, unit, period, samples, and the sum of their weights.
///
/// | event | samples of thread 7 unless said otherwise |
/// |---|---|
/// | `cpu-clock` | 300 of 1 ms each: 200 in `main → work`, 100 in `main → read` and the kernel |
/// | `off-cpu` | two of 100 ms in a futex; one of 50 ms of thread 8 that sleeps |
/// | `run-delay` | five of 2 ms |
/// | `waker` | two of thread 9 of another process, one of an interrupt; they weigh as much as the waits that they end |
/// | `uprobe:/bin/app:work` | 40 |
/// | `kmem` | four of 4 KiB, one of 1 byte |
pub const EVENTS: [(&str, &str, u64, u64, u64); 6] = [
    ("cpu-clock", "ns", 0, 300, 300 * MS),
    ("off-cpu", "ns", PERIOD_NS, 3, 250 * MS),
    ("run-delay", "ns", PERIOD_NS, 5, 10 * MS),
    ("waker", "ns", PERIOD_NS, 3, 250 * MS),
    ("uprobe:/bin/app:work", "events", 1, 40, 40),
    ("kmem", "bytes", 1, 5, 16_385),
];

const MS: u64 = 1_000_000;

const MAIN: u64 = 0x1_0050;
const WORK: u64 = 0x1_0150;
const READ: u64 = 0x1_0250;

/// The functions of the kernel, of 0x100 bytes each.
const KERNEL_NAMES: [&str; 8] = [
    "entry_SYSCALL_64",
    "schedule",
    "futex_wait_queue",
    "do_nanosleep",
    "vfs_read",
    "kmalloc",
    "preempt_schedule",
    "try_to_wake_up",
];

/// Returns an address in a function of the kernel.
fn kernel(name: &str) -> u64 {
    let number = KERNEL_NAMES.iter().position(|known| *known == name).unwrap_or_default();
    KERNEL + number as u64 * 0x100 + 0x10
}

/// Returns what a sample of an event stands for, by its usual name.
pub fn meaning(name: &str) -> EventMeaning {
    match name {
        "cpu-clock" => EventMeaning::CPU_TIME,
        "cycles" => EventMeaning::CYCLES,
        "off-cpu" => EventMeaning::OFF_CPU,
        "run-delay" => EventMeaning::RUN_DELAY,
        "waker" => EventMeaning::WAKER,
        _ => EventMeaning::OCCURRENCE,
    }
}

/// Makes a second of a program whose events are those named, in this order; names are those of [`EVENTS`].
pub fn waiting(names: &[&str]) -> Builder {
    let mut b = Builder { block_len: 100, ..Builder::default() };
    let event = |name: &&str| {
        let known = EVENTS.iter().find(|(known, ..)| known == name);
        let (name, unit, period, ..) = known.copied().unwrap_or((*name, "events", 1, 0, 0));
        let frequency_hz = if name == "cpu-clock" { 1000 } else { 0 };
        EventV1 { name: name.into(), unit: unit.into(), frequency_hz, period, meaning: meaning(name) }
    };
    let events = names.iter().map(event).collect();
    b.session = Some(SessionV1 { events, ..session() });
    let image = b.image(ImageKind::FILE, "/no/such/bin/app");
    for (start, name) in (KERNEL..).step_by(0x100).zip(KERNEL_NAMES) {
        let name = b.string(name);
        b.kernel_symbols.push(KernelSymbol { start, end: start + 0x100, name, module: 0 });
    }
    for (tgid, comm) in [(7, "app"), (9, "server")] {
        b.change(1_000, Change::FOUND, tgid, 1, comm);
        b.map(2_000, tgid, 0x1_0000, image, Origin::SCAN);
    }
    let (app, sleeper, server) = (b.task(7, 7, "app"), b.task(7, 8, "app-idle"), b.task(9, 9, "server"));
    let timer = b.task(0, 0, "soft interrupt");
    let mut add = |name: &str, at_ns: u64, task: u32, weight: u64, user: &[u64], kernel: &[u64]| {
        let Some(event) = names.iter().position(|known| *known == name) else { return };
        let sample = b.sample(at_ns, 0, task, user, kernel);
        (sample.event, sample.weight) = (event as u8, weight);
    };
    let entry = kernel("entry_SYSCALL_64");
    for n in 0..300 {
        let at_ns = n * 3 * MS;
        let read = [kernel("vfs_read"), entry];
        match n % 3 {
            0 => add("cpu-clock", at_ns, app, MS, &[READ, MAIN], &read),
            _ => add("cpu-clock", at_ns, app, MS, &[WORK, MAIN], &[]),
        }
    }
    for at_ns in [200 * MS, 400 * MS] {
        let futex = [kernel("schedule"), kernel("futex_wait_queue"), entry];
        add("off-cpu", at_ns + 1_000, app, 100 * MS, &[WORK, MAIN], &futex);
        add("waker", at_ns, server, 100 * MS, &[READ, MAIN], &[kernel("try_to_wake_up"), entry]);
    }
    let sleep = [kernel("schedule"), kernel("do_nanosleep"), entry];
    add("off-cpu", 600 * MS + 1_000, sleeper, 50 * MS, &[READ, MAIN], &sleep);
    add("waker", 600 * MS, timer, 50 * MS, &[], &[kernel("try_to_wake_up")]);
    for n in 0..5 {
        add(
            "run-delay",
            (700 + n) * MS,
            app,
            2 * MS,
            &[WORK, MAIN],
            &[kernel("schedule"), kernel("preempt_schedule")],
        );
        let size = if n == 4 { 1 } else { 4_096 };
        add("kmem", (700 + n) * MS + 2_000, app, size, &[READ, MAIN], &[kernel("kmalloc"), entry]);
    }
    for n in 0..40 {
        add("uprobe:/bin/app:work", n * MS + 3_000, app, 1, &[WORK, MAIN], &[]);
    }
    b.waits = waits(names, [app, sleeper, server, timer]);
    account(&mut b);
    b
}

/// Returns what is known of the waits: the sleeper is woken by a timer, the others by the server; one futex wait began before the
/// recording. A thread that is preempted is woken by nobody.
fn waits(names: &[&str], [app, sleeper, server, timer]: [u32; 4]) -> Vec<Wait> {
    let event = |name: &str| names.iter().position(|known| *known == name).map(|event| event as u8);
    let wait = |at_ns: u64, lasted_ns: u64, task, event| Wait {
        time_ns: START_NS + at_ns,
        task,
        event,
        state: WaitState::SLEEPING,
        flags: WaitFlags::default(),
        woken_by: WokenBy::THREAD,
        began_ns: START_NS + at_ns - lasted_ns,
        ended_ns: START_NS + at_ns,
        waker_task: Some(server),
        waker_time_ns: if names.contains(&"waker") { START_NS + at_ns - 1_000 } else { 0 },
    };
    let mut waits = Vec::new();
    if let Some(event) = event("off-cpu") {
        let flags = WaitFlags::BEGAN_BEFORE;
        waits.push(Wait { flags, ..wait(200 * MS + 1_000, 100 * MS, app, event) });
        waits.push(wait(400 * MS + 1_000, 100 * MS, app, event));
        let woken_by = WokenBy::SOFT_INTERRUPT;
        let waker_task = Some(timer);
        waits.push(Wait { woken_by, waker_task, ..wait(600 * MS + 1_000, 50 * MS, sleeper, event) });
    }
    if let Some(event) = event("run-delay") {
        let (state, woken_by) = (WaitState::RUNNABLE, WokenBy::NOBODY);
        let preempted = |at_ns| Wait {
            state,
            woken_by,
            waker_task: None,
            waker_time_ns: 0,
            ..wait(at_ns, 2 * MS, app, event)
        };
        waits.extend((700..705).map(|ms| preempted(ms * MS)));
    }
    waits
}

/// Thread 7 ran for 300 ms of a second, the others for no time.
fn account(b: &mut Builder) {
    for (tgid, tid, ran_ns) in [(7, 7, 300 * MS), (7, 8, 0), (9, 9, 0)] {
        let (time_ns, since_ns) = (START_NS + 1_000 * MS, START_NS);
        let (user_ns, kernel_ns) = (ran_ns / 3 * 2, ran_ns / 3);
        b.cpu_times.push(CpuTime { time_ns, since_ns, tgid, tid, ran_ns, user_ns, kernel_ns });
    }
    let end_ns = START_NS + 1_000 * MS;
    b.receipt = Some(ReceiptV1 {
        end_ns,
        end_reason: EndReason::DURATION,
        samples: b.samples.len() as u64,
        ..Default::default()
    });
}
