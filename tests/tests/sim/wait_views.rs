//! Views of waits, on a recording whose waits are known: their kinds, who ended them, wall time, and when they lasted.

use std::path::Path;

use icecore_format::records::{Cause, KernelSymbol, Loss, Wait, WaitFlags, WaitState};
use icecore_tests::inside::{answer, golden, json, run_in, text};
use icecore_tests::synthetic::{Builder, KERNEL, START_NS, waiting};
use serde_json::{Value, json};

const FILE: &str = "DIR/x.icecore";
const WALL: &str = "cpu-clock,off-cpu,run-delay";
const ALL: [&str; 4] = ["cpu-clock", "off-cpu", "run-delay", "waker"];
const MS: u64 = 1_000_000;

fn made(builder: Builder) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    builder.write(&dir.path().join("x.icecore"), true).expect("written");
    dir
}

/// Returns names and weights of the rows of `top`.
fn rows(dir: &Path, options: &str) -> Vec<(String, u64)> {
    let top = json(dir, &format!("top {FILE} {options}"));
    let row = |row: &Value| {
        (row["name"].as_str().expect("a name").to_owned(), row["total"].as_u64().expect("a number"))
    };
    top["rows"].as_array().expect("a list").iter().map(row).collect()
}

fn expected(rows: &[(&str, u64)]) -> Vec<(String, u64)> {
    rows.iter().map(|(name, ms)| ((*name).to_owned(), ms * MS)).collect()
}

#[test]
fn waits_are_classified_by_the_functions_of_the_kernel() {
    let dir = made(waiting(&ALL));
    let kinds = expected(&[("futex", 200), ("sleep", 50), ("run-delay", 10)]);
    assert_eq!(rows(dir.path(), "--by wait"), kinds);
    // Frames that are hidden or not shown say the kind all the same.
    assert_eq!(rows(dir.path(), "--by wait --hide futex"), kinds);
    let wall = expected(&[("no wait", 300), ("futex", 200), ("sleep", 50), ("run-delay", 10)]);
    assert_eq!(rows(dir.path(), &format!("--by wait --event {WALL}")), wall);
    assert_eq!(rows(dir.path(), "--by wait --tid 8"), expected(&[("sleep", 50)]));
    let (code, err) = answer(dir.path(), &format!("top {FILE} --by wait --user"));
    assert!(code == 2 && err.contains("leave out --user"), "{err}");
    golden(dir.path(), "waits_top", &["top", FILE, "--by", "wait"]);
    golden(dir.path(), "waits_top.json", &["top", FILE, "--by", "wait", "--json"]);
}

#[test]
fn who_ended_waits_is_a_process_a_thread_or_an_interrupt() {
    let dir = made(waiting(&ALL));
    let wakers = expected(&[("server", 200), ("soft interrupt", 50)]);
    assert_eq!(rows(dir.path(), "--by waker"), wakers);
    assert_eq!(rows(dir.path(), "--by waker-thread"), wakers);
    let preempted = expected(&[("nobody", 10)]);
    assert_eq!(rows(dir.path(), "--by waker --event run-delay"), preempted);
    let top = json(dir.path(), &format!("top {FILE} --by waker-thread"));
    assert_eq!([&top["rows"][0]["tgid"], &top["rows"][0]["tid"]], [&json!(9), &json!(9)]);
    assert!(top["rows"][1].get("tgid").is_none(), "an interrupt has no number: {top:#}");
    golden(dir.path(), "waits_top_waker", &["top", FILE, "--by", "waker-thread"]);
    let mut open = waiting(&["off-cpu"]);
    let [first, second, ..] = &mut open.waits[..] else { panic!("three waits") };
    first.flags = WaitFlags::NOT_ENDED;
    // It has no row.
    *second = Wait { time_ns: 1, ..*second };
    let dir = made(open);
    let wakers = expected(&[("not ended", 100), ("unknown", 100), ("soft interrupt", 50)]);
    assert_eq!(rows(dir.path(), "--by waker"), wakers);
    assert_eq!(rows(dir.path(), "--by wait"), expected(&[("futex", 200), ("sleep", 50)]));
}

#[test]
fn views_of_waits_need_waits() {
    let dir = made(waiting(&["cpu-clock"]));
    for line in
        ["top DIR/x.icecore --by wait", "tree DIR/x.icecore --wakers", "folded DIR/x.icecore --wakers"]
    {
        let (code, err) = answer(dir.path(), line);
        assert!(
            code == 2 && err.contains("cannot show waits: `x.icecore` has none; record them with"),
            "{err}"
        );
    }
    assert_eq!(rows(dir.path(), "--by wait --event cpu-clock"), expected(&[("no wait", 300)]));
}

#[test]
fn the_stack_of_the_waker_stands_upside_down_on_that_of_the_wait() {
    let dir = made(waiting(&ALL));
    let folded = text(
        dir.path(),
        &format!("folded {FILE} --wakers --event off-cpu,run-delay --root thread --no-annotations"),
    );
    let lines: Vec<(&str, u64)> = folded
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a number"))
        .map(|(stack, weight)| (stack, weight.parse().expect("a number")))
        .collect();
    let (work, read, main) = ("app+0x1150", "app+0x1250", "app+0x104f");
    let (work, read, main) = (work, read, main);
    let entry = "entry_SYSCALL_64";
    let futex = format!(
        "app;{main};{work};{entry};futex_wait_queue;schedule;[woken by];try_to_wake_up;{entry};{read};{main};[server]"
    );
    let sleep = format!(
        "app-idle;{main};{read};{entry};do_nanosleep;schedule;[woken by];try_to_wake_up;[soft interrupt]"
    );
    let preempted = format!("app;{main};{work};preempt_schedule;schedule");
    for (stack, ms) in [(&futex, 200), (&sleep, 50), (&preempted, 10)] {
        assert!(lines.contains(&(stack.as_str(), ms * MS)), "{stack} is not in\n{folded}");
    }
    assert_eq!(lines.len(), 3, "{folded}");
    golden(dir.path(), "waits_tree_wakers", &["tree", FILE, "--wakers"]);
    golden(dir.path(), "waits_tree_callers", &["tree", FILE, "--wakers", "--callers"]);
    golden(dir.path(), "waits_top_wakers", &["top", FILE, "--wakers", "--sort", "total"]);
    let tree = json(dir.path(), &format!("tree {FILE} --wakers --callers"));
    assert_eq!(
        (&tree["children"][0]["name"], &tree["children"][0]["total"]),
        (&json!("[server]"), &json!(200 * MS))
    );
    // The waker need not pass the filters, and the focus sees both stacks.
    let one = text(dir.path(), &format!("folded {FILE} --wakers --pid 7 --focus do_nanosleep"));
    assert!(one.lines().count() == 1 && one.contains("[soft interrupt] 50000000"), "{one}");
    let woken = text(dir.path(), &format!("folded {FILE} --wakers --focus try_to_wake_up --root none"));
    assert_eq!(woken.lines().count(), 2, "{woken}");
    let user = text(dir.path(), &format!("folded {FILE} --wakers --user --tid 7 --focus server"));
    assert!(user.contains(&format!("{work};[woken by];{read};{main};[server] 200000000")), "{user}");
    let svg = text(dir.path(), &format!("flame {FILE} --event off-cpu --wakers -o -"));
    assert!(svg.contains("<title>[woken by] (200,000,000 ns, 80.00%)</title>"), "{svg}");
}

#[test]
fn a_waker_whose_stack_is_not_there_says_so() {
    let dir = made(waiting(&["off-cpu"]));
    let (_, out, err) = run_in(dir.path(), &["folded", FILE, "--wakers"]);
    assert!(err.contains("has no stacks of those who ended waits: record them with --wakers"), "{err}");
    assert!(out.contains(";[woken by];[waker not recorded];[server] 200000000"), "{out}");
    // Two stacks at one microsecond: nothing tells which of them ended the wait.
    let mut several = waiting(&ALL);
    let first = several.samples.iter().position(|sample| sample.event == 3).expect("a waker");
    let waker = several.samples[first];
    several.samples.push(icecore_format::records::Sample { user_stack: 0, ..waker });
    several.waits[0].flags = WaitFlags::NOT_ENDED;
    let dir = made(several);
    let out = text(dir.path(), &format!("folded {FILE} --wakers"));
    assert!(out.contains(";[woken by];[nobody yet] 100000000"), "{out}");
    assert!(!out.contains("several"), "the other wait has one waker: {out}");
    let mut several = waiting(&ALL);
    several.samples.push(icecore_format::records::Sample { user_stack: 0, ..waker });
    let dir = made(several);
    let out = text(dir.path(), &format!("folded {FILE} --wakers"));
    assert!(out.contains("[woken by];[one of several stacks of the waker];[server] 100000000"), "{out}");
}

#[test]
fn the_summary_says_what_threads_did_all_the_time() {
    let dir = made(waiting(&ALL));
    let wall = |options: &str| json(dir.path(), &format!("summary {FILE}{options}"))["wall_time"].clone();
    let whole = wall("");
    let figures =
        ["total_ns", "cpu_ns", "run_delay_ns"].map(|key| whole[key].as_u64().expect("a number") / MS);
    assert_eq!(figures, [560, 300, 10]);
    let waits = whole["waits"].as_array().expect("a list");
    let waits: Vec<_> =
        waits.iter().map(|row| (row["kind"].as_str(), row["ns"].as_u64(), row["samples"].as_u64())).collect();
    assert_eq!(waits, [(Some("futex"), Some(200 * MS), Some(2)), (Some("sleep"), Some(50 * MS), Some(1))]);
    // It is the same whatever events and sides are shown, but not for parts of the time.
    assert_eq!(wall(&format!(" --event {WALL}")), whole);
    assert_eq!(wall(" --user"), whole);
    assert_eq!(wall(" --focus futex"), Value::Null);
    assert_eq!(wall(" --tid 8")["total_ns"], 50 * MS);
    let page = text(dir.path(), &format!("summary {FILE}"));
    let told = "wall time   560.0 ms of threads: CPU 53.6%, run-delay 1.8%, futex 35.7%, sleep 8.9%";
    assert!(page.contains(told), "{page}");
    let page = text(made(waiting(&["off-cpu"])).path(), &format!("summary {FILE}"));
    assert!(page.contains("250.0 ms of threads: CPU not sampled, run-delay 0.0%, futex 80.0%"), "{page}");
    let without = made(waiting(&["cpu-clock"]));
    assert_eq!(json(without.path(), &format!("summary {FILE}"))["wall_time"], Value::Null);
}

#[test]
fn a_timeline_spreads_waits_over_the_time_that_they_lasted() {
    let dir = made(waiting(&ALL));
    let values = |options: &str| -> Vec<f64> {
        let timeline = json(dir.path(), &format!("timeline {FILE} {options}"));
        let values = timeline["values"].as_array().expect("a list");
        values.iter().map(|value| (value.as_f64().expect("a number") * 1e3).round() / 1e3).collect()
    };
    // From 100 to 200, from 300 to 400, and from 550 to 600 ms.
    assert_eq!(values("--event off-cpu --buckets 10"), [0., 1., 0., 1., 0., 0.5, 0., 0., 0., 0.]);
    let sum: f64 = values("--event off-cpu --resolution 10ms").iter().sum();
    assert!((sum * 10.0 - 250.0).abs() < 0.1, "{sum}");
    // What was before the time that is shown is not drawn.
    assert_eq!(values("--event off-cpu --buckets 2 --from 150ms --to 250ms"), [1., 0.]);
    assert_eq!(values("--event cpu-clock --buckets 2"), [0.334, 0.266]);
}

#[test]
fn samples_say_what_is_known_of_waits() {
    let dir = made(waiting(&ALL));
    let lines = text(dir.path(), &format!("samples {FILE} --event {WALL} --json"));
    let samples: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let waits: Vec<&Value> = samples.iter().map(|row| &row["wait"]).filter(|wait| !wait.is_null()).collect();
    assert_eq!(waits.len(), 8);
    assert!(samples.iter().all(|row| row["event"] != "cpu-clock" || row.get("wait").is_none()));
    let first = json!({
        "kind": "futex", "state": "sleeping", "began_ns": 100_001_000, "ended_ns": 200_001_000, "began_before": true,
        "woken_by": "thread",
        "waker": { "tgid": 9, "tid": 9, "comm": "server", "sample_time_ns": 200_000_000 },
    });
    assert_eq!(*waits[0], first);
    assert_eq!(
        (&waits[2]["kind"], &waits[2]["woken_by"], &waits[2]["waker"]),
        (&json!("sleep"), &json!("softirq"), &Value::Null)
    );
    assert_eq!((&waits[3]["kind"], &waits[3]["state"]), (&json!("run-delay"), &json!("runnable")));
    let user = text(dir.path(), &format!("samples {FILE} --event off-cpu --user --json --to 300ms"));
    assert!(user.lines().count() == 1 && user.contains(r#""kind":"futex""#), "{user}");
}

#[test]
fn stacks_with_ignored_functions_are_left_out() {
    let dir = made(waiting(&ALL));
    assert_eq!(
        rows(dir.path(), "--by wait --ignore nanosleep"),
        expected(&[("futex", 200), ("run-delay", 10)])
    );
    let all = text(dir.path(), &format!("samples {FILE} --event {WALL} --json")).lines().count();
    let left = text(dir.path(), &format!("samples {FILE} --event {WALL} --json --ignore nanosleep|futex"));
    assert_eq!(left.lines().count(), all - 3);
    let page = text(dir.path(), &format!("top {FILE} --ignore vfs_read"));
    assert!(page.contains("100% is 200.0 ms in 200 samples · ignore vfs_read"), "{page}");
}

#[test]
fn names_of_threads_may_be_lists_and_have_wildcards() {
    let dir = made(waiting(&ALL));
    let total = |comm: &str| {
        json(dir.path(), &format!("top {FILE} --event {WALL} --by thread --comm {comm}"))["total_weight"]
            .clone()
    };
    assert_eq!([total("app-*"), total("app-idle,server"), total("?pp*")], [50 * MS, 50 * MS, 560 * MS]);
    let says = |options: &str, what: &str| {
        let (code, err) = answer(dir.path(), &format!("top {FILE} {options}"));
        assert!(code == 0 && err.contains(what), "{options}: {err}");
    };
    says("--comm ap?", "");
    says(
        "--comm app,nobody",
        "no sample is of a thread or process called `nobody`: all are of app, server, app-idle",
    );
    says("--pid 8", "no sample is of a process with the number `8`: all are of 7 (app), 9 (server)");
    says("--tid 10", "no sample is of a thread with the number `10`: all are of");
    says("--cgroup x", "no sample is of a cgroup called `x`: there is none");
    let (code, err) = answer(dir.path(), &format!("top {FILE} --comm app,server --pid 7 --tid 7"));
    assert!(code == 0 && !err.contains("no sample"), "{err}");
}

#[test]
fn a_shortened_stack_is_no_lost_sample() {
    let mut builder = waiting(&["cpu-clock"]);
    let loss = |cause, count| Loss { time_ns: START_NS, ..Loss::of(cause, count) };
    builder.losses = vec![loss(Cause::STACK_SHORTENED, 2)];
    let dir = made(builder);
    let page = text(dir.path(), &format!("summary {FILE}"));
    assert!(page.contains("300, none lost; besides: stack_shortened 2"), "{page}");
    let mut builder = waiting(&["cpu-clock"]);
    builder.losses = vec![loss(Cause::RATE_LOWERED, 7), loss(Cause::RING_FULL_SAMPLE, 100)];
    let page = text(made(builder).path(), &format!("summary {FILE}"));
    assert!(page.contains("300, 100 lost (25.0%): ring_full_sample 100; besides: rate_lowered 7"), "{page}");
}

#[test]
fn losses_weigh_what_the_lost_samples_weigh() {
    let mut builder = waiting(&["cpu-clock", "off-cpu"]);
    let weight = |name: &str, builder: &Builder| -> u64 {
        let event = builder
            .session
            .as_ref()
            .and_then(|session| session.events.iter().position(|event| event.name == name))
            .expect("it has it");
        builder
            .samples
            .iter()
            .filter(|sample| usize::from(sample.event) == event)
            .map(|sample| sample.weight)
            .sum()
    };
    let (cpu, waits) = (weight("cpu-clock", &builder), weight("off-cpu", &builder));
    let loss = |event, count, weight| Loss { event, weight, ..Loss::of(Cause::RING_FULL_SAMPLE, count) };
    // One wait, as long as all others together, and two samples of the CPU's time whose weight nobody knows.
    builder.losses = vec![loss(1, 1, waits), loss(0, 2, 0)];
    let samples = |event| builder.samples.iter().filter(|sample| sample.event == event).count() as f64;
    let (of_cpu, all) = (samples(0), builder.samples.len() as f64);
    let dir = made(builder);
    let health = |options: &str| json(dir.path(), format!("health {FILE} {options}").trim_end());
    let share = |options: &str, key: &str| health(options)[key].as_f64().expect("a share");
    let close =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    close(share("", "lost_share"), 3.0 / (all + 3.0));
    close(share("--event off-cpu", "lost_weight_share"), 0.5);
    close(share("--event cpu-clock", "lost_weight_share"), 2.0 / (of_cpu + 2.0));
    let lost = &health("")["lost_by_event"];
    assert_eq!(lost[1]["weight"].as_u64(), Some(waits), "{lost}");
    assert_eq!((lost[0]["samples"].as_u64(), lost[0]["unweighed"].as_u64()), (Some(2), Some(2)), "{lost}");
    assert!(cpu > 0 && health("--event off-cpu")["verdict"] == "misleading");
    let page = text(dir.path(), &format!("health {FILE} --event off-cpu"));
    assert!(page.contains("50.0% of the weight was lost"), "{page}");
}

/// Adds a kernel thread that waits: 400 ms in its main function, 30 ms at work, 20 ms in its main function where no signal ends that.
fn with_kernel_thread(mut builder: Builder) -> Builder {
    let names = ["ret_from_fork", "kthread", "worker_thread", "process_one_work"];
    let code = |number: u64| KERNEL + 0x10_000 + number * 0x100;
    for (number, name) in (0..).zip(names) {
        let (start, name) = (code(number), builder.string(name));
        builder.kernel_symbols.push(KernelSymbol { start, end: start + 0x100, name, module: 0 });
    }
    let task = builder.task(50, 50, "kworker/0:1");
    let stack: Vec<u64> = [3, 2, 1, 0].map(|number| code(number) + 0x10).to_vec();
    let (idle, working) = (&stack[1..], &stack[..]);
    for (at_ms, ms, kernel, state) in [
        (800, 400, idle, WaitState::IDLE),
        (830, 30, working, WaitState::SLEEPING),
        (850, 20, idle, WaitState::UNINTERRUPTIBLE),
        // It waits for a CPU.
        (855, 5, idle, WaitState::RUNNABLE),
    ] {
        let event = if state == WaitState::RUNNABLE { 2 } else { 1 };
        let sample = builder.sample(at_ms * MS, 0, task, &[], kernel);
        (sample.event, sample.weight) = (event, ms * MS);
        let (time_ns, ended_ns) = (START_NS + at_ms * MS, START_NS + at_ms * MS);
        let wait =
            Wait { time_ns, task, event, state, began_ns: ended_ns - ms * MS, ended_ns, ..builder.waits[0] };
        builder.waits.push(Wait { waker_time_ns: 0, flags: WaitFlags::default(), ..wait });
    }
    builder.waits.sort_by_key(|wait| wait.time_ns);
    builder
}

#[test]
fn threads_of_the_kernel_without_work_are_left_out_and_counted() {
    let dir = made(with_kernel_thread(waiting(&ALL)));
    let shown = [
        ("futex", 200),
        ("sleep", 50),
        ("other (process_one_work)", 30),
        ("other (worker_thread)", 20),
        ("run-delay", 15),
    ];
    assert_eq!(rows(dir.path(), "--by wait"), expected(&shown));
    let all: Vec<(&str, u64)> = [("idle kernel thread", 400)].into_iter().chain(shown).collect();
    assert_eq!(rows(dir.path(), "--by wait --idle"), expected(&all));
    assert_eq!(
        rows(dir.path(), "--by wait --pid 50"),
        expected(
            &shown[2..]
                .iter()
                .map(|(name, ms)| (*name, if *name == "run-delay" { 5 } else { *ms }))
                .collect::<Vec<_>>()
        )
    );
    assert_eq!(json(dir.path(), &format!("tree {FILE} --event off-cpu"))["total_weight"], 300 * MS);
    assert_eq!(json(dir.path(), &format!("tree {FILE} --event off-cpu --idle"))["total_weight"], 700 * MS);
    let said = "1 wait of a kernel thread without work left out, 400.0 ms (--idle shows them)";
    let (shown, all) = (
        text(dir.path(), &format!("top {FILE} --by wait")),
        text(dir.path(), &format!("top {FILE} --by wait --idle")),
    );
    assert!(shown.contains(said) && !all.contains("left out"), "{shown}");
    let wall =
        |options: &str| json(dir.path(), format!("summary {FILE} {options}").trim_end())["wall_time"].clone();
    assert_eq!(wall("")["total_ns"], 615 * MS);
    assert_eq!(wall("")["idle_kernel_threads_ns"], 400 * MS);
    assert_eq!(
        (&wall("--idle")["total_ns"], &wall("--idle")["idle_kernel_threads_ns"]),
        (&json!(1015 * MS), &json!(0))
    );
    let page = text(dir.path(), &format!("summary {FILE}"));
    assert!(page.contains("; besides, 400.0 ms of kernel threads without work (--idle)"), "{page}");
    let samples = |options: &str| {
        text(dir.path(), format!("samples {FILE} --event off-cpu --json {options}").trim_end())
            .lines()
            .count()
    };
    assert_eq!((samples(""), samples("--idle")), (5, 6));
}
