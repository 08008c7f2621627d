//! Time that threads wait: programs that wait known times in known functions, recorded through real eBPF.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{Change, LifecycleV1};
use serde_json::Value;

use icecore_tests::machine::{Recorded, Sample, monotonic_ns, ping_pong, text, waits, waits_in_files};

const WAITS: &str = "off-cpu,run-delay";
const NEED_USERFAULTFD: [&str; 2] = ["faults_in", "overwrites"];

/// What the program printed: the figures behind each name, added up.
fn told(recorded: &Recorded) -> BTreeMap<String, Vec<u64>> {
    let mut told: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in text(&recorded.output.stdout).lines() {
        let mut words = line.split(' ');
        let name = words.next().expect("a line begins with a name").to_owned();
        // Two clocks that are read one after the other may say that a thread waited less than no time.
        let figure = |word: &str| word.parse::<i64>().expect("a number").max(0) as u64;
        let figures: Vec<u64> = words.map(figure).collect();
        let sums = told.entry(name).or_insert_with(|| vec![0; figures.len()]);
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
    }
    told
}

/// Returns true if the kernel lets threads run a program before they return to user space.
fn has_task_work() -> bool {
    let symbols = std::fs::read_to_string("/proc/kallsyms").expect("the kernel lists its functions");
    symbols.lines().any(|line| line.contains(" bpf_task_work_schedule_resume"))
}

fn weight<'a>(samples: impl Iterator<Item = &'a Sample>) -> u64 {
    samples.map(|sample| sample.number("weight")).sum()
}

/// With what the kernel has, and as on kernels before 6.18: with copies of stacks that are made when threads leave their CPU.
const WITHOUT: [&str; 2] = ["", "task_work"];

fn recorded(options: &[&str], arguments: &[&str]) -> Recorded {
    recorded_without("", options, arguments)
}

fn recorded_without(feature: &str, options: &[&str], arguments: &[&str]) -> Recorded {
    let program = waits();
    let mut command = vec![program.to_str().expect("plain text")];
    command.extend(arguments);
    Recorded::without(feature, &[&["-F", "99"], options].concat(), &command)
}

#[test]
fn root_every_wait_has_its_time_and_its_stack() {
    WITHOUT.iter().for_each(|feature| every_wait_has_its_time_and_its_stack(feature));
}

fn every_wait_has_its_time_and_its_stack(without: &str) {
    let stolen_before = std::cell::Cell::new(0);
    let missed = |recorded: &Recorded| recorded.lost()["missed_runs"].as_u64().unwrap_or(0);
    // Of one switch in many thousands the kernel tells nobody, and of more on a busy machine.
    let recorded = Recorded::until(
        |recorded| missed(recorded) == 0,
        || {
            stolen_before.set(stolen_ns());
            recorded_without(without, &["--off-cpu=100us"], &["5", "40"])
        },
    );
    // While the machine below takes a CPU away, a thread neither runs nor waits, and its clock goes on.
    let stolen = stolen_ns() - stolen_before.get();
    let mut lost = recorded.lost();
    lost.as_object_mut().expect("losses by cause").remove("missed_runs");
    assert!(missed(&recorded) <= 3, "{lost:?}");
    assert_eq!(lost, serde_json::json!({}));
    let says_less = text(&recorded.output.stderr).contains("at most 2 KiB");
    assert_eq!(says_less, without == "task_work" || !has_task_work());
    let (told, samples) = (told(&recorded), recorded.samples(&["--event", WAITS]));
    let kernel = [
        ("sleeps", "sleeper", "hrtimer_nanosleep"),
        ("polls", "poller", "poll_schedule_timeout"),
        ("reads", "reader", "pipe_read"),
        ("locks", "locker", "futex_wait"),
        ("spawns", "spawner", "wait_for_completion"),
        ("faults_in", "faulter", "handle_userfault"),
        ("overwrites", "overwriter", "rwsem_down_write_slowpath"),
    ];
    let mut seen = 0;
    for (function, thread, waits_in) in kernel {
        let Some(told) = told.get(function).map(|figures| figures[0]) else {
            assert!(NEED_USERFAULTFD.contains(&function), "kernels may be built without userfaultfd");
            continue;
        };
        seen += 1;
        // Children are in the function, too, and their first threads.
        let is_thread = |sample: &&Sample| sample.number("tid") != sample.number("tgid");
        let of_function = || samples.iter().filter(is_thread).filter(|sample| sample.has(function));
        let found = weight(of_function());
        // A thread may also have lost its CPU between its function and its clock.
        let is_elsewhere = |sample: &&Sample| {
            sample.text("comm") == thread && sample.text("event") == "run-delay" && !sample.has(function)
        };
        let elsewhere = weight(samples.iter().filter(is_elsewhere));
        // All waits are longer than 100 us; 40 delays of a CPU may be shorter: five standard deviations of these, and one percent.
        let bound = told / 100 + 5 * 50_000 * 7;
        assert!(
            found < told + bound && found + elsewhere + stolen + bound > told,
            "{function}: {found} instead of {told} ns, {elsewhere} elsewhere, and {stolen} stolen"
        );
        let blocked: Vec<&Sample> =
            of_function().filter(|sample| sample.text("event") == "off-cpu").collect();
        // On a busy machine a thread may come too late to wait.
        assert!((36..=40).contains(&blocked.len()), "{function}: {}", blocked.len());
        for sample in blocked {
            let user = sample.names("user");
            let thread = user.iter().rev().position(|name| *name == "start_thread");
            assert_eq!(user.last().map(|_| thread), Some(Some(1)), "the stack is whole: {user:?}");
            assert!(user.contains(&function), "{user:?}");
            let names = sample.names("kernel");
            assert!(names.iter().any(|name| name.contains(waits_in)), "{function} waits in {names:?}");
        }
    }
    assert!(seen >= 5);
    let unrooted =
        samples.iter().filter(|sample| !sample.is_unwound() && sample.number("tid") != sample.number("tgid"));
    // A thread that has not run yet is in the middle of `clone3`, for which there are no unwind tables.
    let unrooted: Vec<_> = unrooted
        .filter(|sample| !matches!(sample.names("user")[..], [] | ["clone3" | "__clone3"]))
        // `printf` needs more of the stack than is copied, and so does the loader where it saves all registers.
        .filter(|sample| {
            let needs_more = ["printf", "_dl_runtime_resolve_xsavec", "_dl_runtime_resolve_xsave"];
            let is_deep = needs_more.iter().any(|function| sample.has(function));
            !(says_less && sample.text("ended") == "not_copied" && is_deep)
        })
        .map(|sample| &sample.0)
        .collect();
    assert!(unrooted.is_empty(), "{unrooted:#?}");
}

/// How long each thread of a recording lived whose begin and end it has, ns.
fn lives(recorded: &Recorded) -> BTreeMap<u32, u64> {
    let recording = Recording::open(&recorded.path()).expect("our own file");
    let (mut begun, mut lives) = (BTreeMap::new(), BTreeMap::new());
    for entry in recording.entries().iter().filter(|entry| entry.header.kind == Kind::LIFECYCLE) {
        let payload = recording.payload(entry).expect("it is whole");
        for row in payload.view::<LifecycleV1>().expect("a block of lifecycle").rows() {
            match row.change {
                Change::FORK => drop(begun.insert(row.tid, row.time_ns)),
                Change::EXIT => {
                    let life = begun.remove(&row.tid).map(|begun: u64| (row.tid, row.time_ns - begun));
                    lives.extend(life);
                }
                _ => {}
            }
        }
    }
    lives
}

/// Returns for how long the machine below has taken CPUs away, ns.
fn stolen_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("proc is there");
    let ticks = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
    ticks.expect("a number") * 10_000_000
}

#[test]
fn root_cpu_time_and_waits_of_a_thread_add_up_to_its_life() {
    let stolen_before = stolen_ns();
    let recorded = recorded(&["--off-cpu=1us"], &["5", "40"]);
    // Once in some thousands of switches, if real-time threads take the CPU, the kernel tells nobody that it switched. That is
    // counted. What the thread that left did, and the one that came, is then told less.
    let missed = recorded.lost()["missed_runs"].as_u64().unwrap_or(0);
    assert!(missed <= 3, "{missed} switches were told to nobody");
    // While the machine below takes a CPU away, a thread neither runs nor waits. (These are whole ticks.)
    let stolen = stolen_ns() - stolen_before;
    let samples = recorded.samples(&["--event", WAITS]);
    // Of a child that lives for milliseconds, its end is more than one percent.
    let lives: Vec<_> = lives(&recorded).into_iter().filter(|(_, lived)| *lived > 100_000_000).collect();
    assert!(lives.len() >= 9, "{lives:?}");
    let mut less = Vec::new();
    for (tid, lived) in lives {
        // A thread can lose its CPU once more after it has ended.
        let is_alive = |sample: &&Sample| sample.number("tid") == u64::from(tid) && !sample.has("do_exit");
        let waited = weight(samples.iter().filter(is_alive));
        let cpu_time = recorded.json("health", &["--tid", &tid.to_string()])["cpu_time"].clone();
        let ran = cpu_time["kernel_ns"].as_u64().expect("the kernel accounts for every thread");
        let told = waited + ran;
        assert!(told < lived + lived / 100, "{tid}: {waited} + {ran} of {lived} ns");
        if told + stolen + lived / 100 <= lived {
            less.push(format!("{tid}: {waited} + {ran} of {lived} ns, {stolen} stolen"));
        }
    }
    assert!(less.len() as u64 <= 2 * missed, "{missed} switches were told to nobody: {less:#?}");
}

#[test]
fn root_short_waits_are_kept_by_chance_and_weigh_as_much_more() {
    let recorded = recorded(&["--off-cpu-only=10ms"], &["1", "400"]);
    let (told, samples) = (told(&recorded), recorded.samples(&["--event", WAITS]));
    let functions = ["sleeps", "polls", "reads", "locks", "faults_in"];
    let told: u64 =
        functions.iter().filter_map(|function| told.get(*function)).map(|figures| figures[0]).sum();
    let of_functions: Vec<&Sample> =
        samples.iter().filter(|sample| functions.iter().any(|function| sample.has(function))).collect();
    // A wait of d is kept with the probability d / T and weighs T: the variance is d * (T - d).
    let (d, t) = (1.1e6, 10e6);
    let deviation = ((told as f64 / d) * d * (t - d)).sqrt();
    let found = weight(of_functions.iter().copied());
    assert!((found as f64 - told as f64).abs() < 5.0 * deviation, "{found} instead of {told} ns");
    assert!(of_functions.iter().all(|sample| sample.number("weight") >= 10_000_000));
    assert!(of_functions.len() as u64 <= found / 10_000_000, "what is written is bounded by the time");
    assert!(recorded.samples(&["--event", "*"]).iter().all(|sample| sample.text("event") != "cpu-clock"));
}

#[test]
fn root_a_thread_that_waits_for_a_cpu_is_told_from_one_that_sleeps() {
    let recorded = recorded(&["--off-cpu=100us"], &["1", "1"]);
    let told = told(&recorded);
    let [lived, ran] = told["computes"][..] else { panic!("two figures: {told:?}") };
    let samples = recorded.samples(&["--event", WAITS]);
    let of = |event: &str| {
        weight(samples.iter().filter(|sample| sample.has("computes") && sample.text("event") == event))
    };
    let delay = of("run-delay");
    assert!(delay.abs_diff(lived - ran) < lived / 50, "{delay} instead of {} ns", lived - ran);
    assert_eq!(of("off-cpu"), 0, "it never sleeps there");
}

#[test]
fn root_who_ended_a_wait_is_known_by_its_stack() {
    let recorded = recorded(&["--off-cpu=100us", "--wakers"], &["5", "40"]);
    let wakers = recorded.samples(&["--event", "waker"]);
    for (function, thread) in [("writes", "writer"), ("unlocks", "holder")] {
        let of_function: Vec<&Sample> = wakers.iter().filter(|sample| sample.has(function)).collect();
        // On a busy machine a thread may come too late to wait.
        assert!((36..=40).contains(&of_function.len()), "{function}: {}", of_function.len());
        assert!(of_function.iter().all(|sample| sample.text("comm") == thread), "{function}");
        assert!(
            of_function.iter().all(|sample| sample.names("user").contains(&"start_thread")),
            "{function}"
        );
    }
    // Timers end sleeps, and no thread that happened to run then.
    let timers = wakers.iter().filter(|sample| sample.has("hrtimer_wakeup"));
    let timers: Vec<&Sample> = timers.collect();
    assert!(timers.len() >= 120, "{}", timers.len());
    for sample in timers {
        assert!(sample.text("comm").ends_with(" interrupt"), "{}", sample.0);
        assert_eq!((sample.number("tid"), sample.names("user").len()), (0, 0), "{}", sample.0);
        let kernel = sample.names("kernel");
        let entry = kernel.last().expect("it has frames");
        assert!(
            !entry.contains("syscall") && !entry.contains("SYSCALL"),
            "what it interrupted is cut off: {kernel:?}"
        );
    }
}

#[test]
fn root_a_wait_for_another_program_has_no_stack_of_that_program() {
    let recorded = recorded(&["--off-cpu-only=1ms"], &["50", "1", "execute"]);
    let waits = recorded.samples(&["--event", "off-cpu"]);
    let waits: Vec<_> = waits.iter().filter(|sample| sample.has("handle_userfault")).collect();
    let [wait] = waits[..] else { panic!("it waits once: {}", waits.len()) };
    assert!(wait.names("kernel").iter().any(|name| name.contains("execve")), "{}", wait.0);
    let user = wait.names("user");
    assert!(user.is_empty() || user.contains(&"executes"), "{}", wait.0);
    assert_eq!(wait.text("comm"), "waits");
    assert!(wait.number("weight") >= 50_000_000, "{}", wait.0);
}

#[test]
fn root_a_waker_that_is_no_target_has_its_whole_stack() {
    let program = waits();
    let path = program.to_str().expect("plain text");
    // It begins when the recording has begun.
    let script = format!("sleep 1; exec {path} 5 100 write");
    let mut writer =
        Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().expect("it runs");
    let pipe = writer.stdout.take().expect("a pipe");
    let mut reader = Command::new(path)
        .args(["5", "100", "read"])
        .stdin(pipe)
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let pid = reader.id().to_string();
    let recorded = Recorded::meanwhile(&["--off-cpu-only=100us", "--wakers", "-p", &pid], || {
        let ended = [writer.wait(), reader.wait()];
        assert!(ended.into_iter().all(|status| status.is_ok_and(|status| status.success())));
    });
    let mut found = 0;
    for sample in recorded.samples(&["--event", "waker"]) {
        let is_write = sample.names("kernel").iter().any(|name| name.contains("pipe_write"));
        if sample.number("tgid") == u64::from(writer.id()) && is_write {
            found += 1;
            let names = sample.names("user");
            let [.., "writes", "writer", "main", _, _, "_start"] = names[..] else { panic!("{}", sample.0) };
        }
    }
    assert!((95..=101).contains(&found), "{found} of 100");
}

#[test]
fn root_waits_that_are_open_at_both_ends_are_there() {
    WITHOUT.iter().for_each(|feature| waits_that_are_open_at_both_ends_are_there(feature));
}

fn waits_that_are_open_at_both_ends_are_there(without: &str) {
    let mut idle =
        Command::new(waits()).args(["3000", "1", "idle"]).stdout(Stdio::piped()).spawn().expect("it runs");
    let pid = idle.id().to_string();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let began = monotonic_ns();
    let recorded = Recorded::without::<&str>(without, &["-p", &pid, "-d", "0.4", "--off-cpu"], &[]);
    let lasted = monotonic_ns() - began;
    let _ = idle.kill();
    let _ = idle.wait();
    let samples = recorded.samples(&["--event", WAITS]);
    for (comm, function, caller) in [("idler", "pause", "idler"), ("waits", "nanosleep", "main")] {
        let of_thread: Vec<&Sample> = samples.iter().filter(|sample| sample.text("comm") == comm).collect();
        assert_eq!(of_thread.len(), 1, "{comm}");
        let weight = of_thread[0].number("weight");
        assert!((400_000_000..lasted).contains(&weight), "{comm}: {weight} of {lasted} ns");
        let kernel = of_thread[0].names("kernel");
        assert!(kernel.iter().any(|name| name.contains(function)), "{comm}: {kernel:?}");
        let user = of_thread[0].names("user");
        assert!(user.contains(&caller) && of_thread[0].is_unwound(), "{comm}: {user:?}");
    }
}

#[test]
fn root_a_copy_that_does_not_reach_the_root_is_said_to_be_cut() {
    let recorded = recorded_without("task_work", &["--off-cpu-only=1ms", "--unwind", "copy"], &DEEP);
    let deep = deep(&recorded);
    deep.iter().for_each(|sample| assert!(is_cut(sample), "{}", sample.0));
    let health = recorded.json("health", &["--event", "off-cpu"]).to_string();
    assert!(health.contains("2 KiB is the most") && !health.contains("1 MiB"), "{health}");
}

#[test]
fn root_a_thread_that_leaves_its_cpu_is_walked_by_unwind_tables_on_older_kernels() {
    let recorded = recorded_without("task_work", &["--off-cpu-only=1ms"], &DEEP);
    let deep = deep(&recorded);
    // The tables are ready a little later.
    let walked: Vec<&Sample> = deep.iter().filter(|sample| !is_cut(sample)).collect();
    assert!(walked.len() >= 20, "{}", walked.len());
    for sample in walked {
        let names = sample.names("user");
        let downs = names.iter().filter(|name| **name == "goes_down").count();
        assert_eq!((sample.text("ended"), downs, names.last()), ("by_tables", 100, Some(&"_start")));
    }
}

/// 40 waits of 5 ms below 100 frames of 128 bytes.
const DEEP: [&str; 3] = ["5", "40", "deep"];

/// Returns these waits: all of them, or the recorder says how many it missed. On a busy machine the kernel does not tell it of
/// every switch.
fn deep(recorded: &Recorded) -> Vec<Sample> {
    let mut samples = recorded.samples(&["--event", "off-cpu"]);
    samples.retain(|sample| sample.has("sleeps"));
    let missed = recorded.lost()["missed_runs"].as_u64().unwrap_or(0) as usize;
    assert!((40 - missed.min(3)..=40).contains(&samples.len()), "{} and {missed} missed", samples.len());
    samples
}

/// Returns true if a stack is what 2 KiB hold of the frames, and is marked so.
fn is_cut(sample: &Sample) -> bool {
    let downs = sample.names("user").iter().filter(|name| **name == "goes_down").count();
    (10..20).contains(&downs) && sample.text("ended") == "not_copied"
}

#[test]
fn root_waits_below_probed_returns_have_their_stacks() {
    let probed = |function: &str| format!("uretprobe:{}:{function}", waits().display());
    for without in WITHOUT {
        let events = ["sleeps", "polls", "reads", "locks", "goes_down"].map(probed);
        let events: Vec<&str> = events.iter().flat_map(|event| ["-e", event.as_str()]).collect();
        let options = [&["--off-cpu-only=1ms", "--max-event-rate", "0"], &events[..]].concat();
        let recorded = recorded_without(without, &options, &["5", "20"]);
        let samples = recorded.samples(&["--event", "off-cpu"]);
        for function in ["sleeps", "polls", "reads", "locks"] {
            let own: Vec<&Sample> = samples.iter().filter(|sample| sample.has(function)).collect();
            assert!(own.len() >= 18, "{without}: {function}: {}", own.len());
            for sample in own {
                let names = sample.names("user");
                let is_whole =
                    names.iter().skip_while(|name| **name != function).nth(2) == Some(&"start_thread");
                assert!(is_whole && sample.is_unwound(), "{without}: {}", sample.0);
            }
        }
        let open = recorded_without(
            without,
            &["-d", "0.4", "--off-cpu", "-e", &probed("idler"), "-e", &probed("main")],
            &["1000", "1", "idle"],
        );
        let samples = open.samples(&["--event", WAITS]);
        for (comm, function) in [("idler", "idler"), ("waits", "main")] {
            let is_open =
                |sample: &&Sample| sample.text("comm") == comm && sample.number("weight") > 300_000_000;
            let own: Vec<&Sample> = samples.iter().filter(is_open).collect();
            assert_eq!(own.len(), 1, "{without}: {comm}");
            assert!(own[0].has(function) && own[0].is_unwound(), "{without}: {}", own[0].0);
        }
    }
}

#[test]
fn root_of_a_hundred_thousand_switches_a_second_nothing_is_lost_uncounted() {
    for without in WITHOUT {
        // Every wait is kept, more than the recorder can take; and one of a thousand or so.
        for (threshold, is_each) in [("1ns", true), ("2ms", false)] {
            let recorded = recorded_without(
                without,
                &[&format!("--off-cpu-only={threshold}"), "--max-event-rate", "0"],
                &["1", "20000", "pass"],
            );
            let [waits, ns] = told(&recorded)["waits"][..] else { panic!("two figures") };
            let mut samples = recorded.samples(&["--event", WAITS]);
            // The recorder's own name is that of the command before it begins.
            samples.retain(|sample| ["waits", "answerer"].contains(&sample.text("comm")));
            let weights = recorded.json("health", &[])["lost_by_event"].clone();
            let lost_ns: u64 =
                weights.as_array().expect("rows").iter().filter_map(|row| row["weight"].as_u64()).sum();
            let lost = recorded.lost();
            let lost: u64 = ["ring_full_sample", "no_scratch", "missed_runs"]
                .iter()
                .filter_map(|cause| lost[cause].as_u64())
                .sum();
            println!("{waits} waits in {ns} ns, {} samples, {lost} lost", samples.len());
            let off_cpu = samples.iter().filter(|sample| sample.text("event") == "off-cpu").count() as u64;
            if is_each {
                // The two threads share a CPU: what one runs, the other waits.
                let all = weight(samples.iter()) + lost_ns;
                assert!(all > ns * 9 / 10 && all < ns * 5 / 2, "{all} of {ns} ns, lost: {weights}");
                // The recorder loses waits of other threads than these two only if there are such.
                assert!(off_cpu <= waits && off_cpu + lost + 20 >= waits, "{off_cpu} + {lost} of {waits}");
            } else {
                assert!(lost <= 2, "{lost}: of one switch in many thousands the kernel tells nobody");
                // The two threads share a CPU: one of them waits at any time. Five standard deviations of d * (T - d).
                let deviation = (ns as f64 * 2e6).sqrt();
                let found = weight(samples.iter()) as f64;
                let both = 2.0 * ns as f64;
                assert!(
                    found > both / 2.0 - 5.0 * deviation && found < both + 5.0 * deviation,
                    "{found} of {ns}"
                );
            }
        }
    }
}

#[test]
fn root_views_say_for_what_threads_waited_and_who_ended_it() {
    let recorded = recorded(&["--off-cpu=100us", "--wakers"], &["5", "40"]);
    let told = told(&recorded);
    let rows = |by: &str, thread: &str, function: &str, more: &[&str]| -> BTreeMap<String, (u64, u64)> {
        let focus = format!("^{function}$");
        let options = [&["--by", by, "--comm", thread, "--focus", &focus][..], more].concat();
        let top = recorded.json("top", &options);
        let rows = top["rows"].as_array().expect("a list").iter();
        let number = |row: &Value, key: &str| row[key].as_u64().expect("a number");
        let row = |row: &Value| (number(row, "total"), number(row, "total_samples"));
        rows.map(|it| (it["name"].as_str().expect("a name").to_owned(), row(it))).collect()
    };
    let mut seen = 0;
    for (function, thread, kind) in [
        ("sleeps", "sleeper", "sleep"),
        ("polls", "poller", "poll"),
        ("reads", "reader", "pipe"),
        ("locks", "locker", "futex"),
        ("spawns", "spawner", "child"),
        ("faults_in", "faulter", "page fault"),
        ("overwrites", "overwriter", "kernel lock"),
    ] {
        let Some(told) = told.get(function).map(|figures| figures[0]) else {
            assert!(NEED_USERFAULTFD.contains(&function), "kernels may be built without userfaultfd");
            continue;
        };
        seen += 1;
        let rows = rows("wait", thread, function, &[]);
        let names: Vec<&str> = rows.keys().map(String::as_str).filter(|name| *name != "run-delay").collect();
        assert_eq!(names, [kind], "{function}");
        let (waited, samples) = rows[kind];
        let delayed = rows.get("run-delay").map_or(0, |(weight, _)| *weight);
        // On a busy machine a thread may come too late to wait, and may wait for its CPU after its function.
        assert!((36..=40).contains(&samples), "{function}: {samples}");
        let bound = told / 100 + 5 * 50_000 * 7;
        assert!(
            waited < told + bound && waited + delayed + told / 10 > told,
            "{function}: {waited} of {told} ns"
        );
    }
    assert!(seen >= 5);
    for (thread, function, waker) in [("reader", "reads", "writer"), ("locker", "locks", "holder")] {
        let of_event = ["--event", "off-cpu"];
        let rows = rows("waker-thread", thread, function, &of_event);
        let (_, samples) = rows.get(waker).unwrap_or_else(|| panic!("{function}: {rows:?}"));
        assert!((36..=40).contains(samples), "{function}: {rows:?}");
        let focus = format!("^{function}$");
        let folded = recorded.json(
            "folded",
            &["--wakers", "--comm", thread, "--focus", &focus, "--event", "off-cpu", "--no-annotations"],
        );
        let name = format!("[{waker}]");
        let ended: u64 = folded["stacks"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|stack| {
                let frames: Vec<&str> =
                    stack["frames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let at = |name: &str| frames.iter().position(|frame| *frame == name);
                let by = if waker == "writer" { "writes" } else { "unlocks" };
                frames.last() == Some(&name.as_str())
                    && at(function).is_some_and(|of| at("[woken by]") > Some(of) && at(by) > at("[woken by]"))
            })
            .map(|stack| stack["samples"].as_u64().expect("a number"))
            .sum();
        assert!((36..=40).contains(&ended), "{function}: {ended} of {folded:#}");
    }
    let timers = rows("waker", "sleeper", "sleeps", &["--event", "off-cpu"]);
    // While the program runs for one wake-up, an interrupt may be another one on that CPU, of which it is not told.
    let is_said =
        |name: &String, samples: u64| name.ends_with(" interrupt") || name == "unknown" && samples == 1;
    assert!(timers.iter().all(|(name, (_, samples))| is_said(name, *samples)), "{timers:?}");
    let wall = recorded.json("summary", &["--comm", "sleeper"])["wall_time"].clone();
    let slept = wall["waits"].as_array().expect("a list").iter().find(|row| row["kind"] == "sleep");
    let slept = slept.and_then(|row| row["ns"].as_u64()).expect("it slept");
    let told = told["sleeps"][0];
    // By its clock it also waited for a CPU. On a busy machine it has its name only after it has slept once or twice.
    assert!((38 * 4_950_000..told + told / 50).contains(&slept), "{slept} of {told} ns");
}

#[test]
fn root_waits_in_files_that_hold_no_data_have_kinds() {
    let program = waits_in_files();
    let recorded = Recorded::new(&["--off-cpu-only=1ms"], &[program.to_str().expect("plain text"), "4"]);
    let samples = recorded.samples(&["--event", "off-cpu"]);
    for (function, kind) in [
        ("wait_event", "eventfd"),
        ("wait_timer", "timerfd"),
        ("wait_signal", "signal"),
        ("wait_change", "file change"),
        ("wait_lock", "file lock"),
        ("wait_message", "ipc"),
    ] {
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.has(function)).collect();
        let others: Vec<&str> =
            own.iter().map(|sample| sample.0["wait"]["kind"].as_str().expect("a kind")).collect();
        assert!(others.iter().all(|of| *of == kind), "{function}: {others:?}");
        let waited_ns = weight(own.into_iter());
        // On a busy machine the wait of a round may be over before it begins, or be told late.
        assert!((140_000_000..600_000_000).contains(&waited_ns), "{function}: {waited_ns}");
    }
}

#[test]
fn root_threads_of_the_kernel_without_work_are_left_out_and_counted() {
    let recorded = Recorded::new::<&str>(&["-a", "--off-cpu=1ms", "-d", "1"], &[]);
    let kinds = |options: &[&str]| -> BTreeMap<String, f64> {
        let top =
            recorded.json("top", &[&["--by", "wait", "--event", "off-cpu", "-n", "1000"], options].concat());
        let row = |row: &Value| {
            (row["name"].as_str().expect("a name").to_owned(), row["total"].as_f64().expect("a number"))
        };
        top["rows"].as_array().expect("rows").iter().map(row).collect()
    };
    let (shown, all) = (kinds(&[]), kinds(&["--idle"]));
    let idle_ns = all["idle kernel thread"];
    // Each CPU has several threads that rarely have work.
    assert!(idle_ns > 5e9, "{all:#?}");
    for name in
        ["idle kernel thread", "other (rescuer_thread)", "other (worker_thread)", "other (smpboot_thread_fn)"]
    {
        assert!(!shown.contains_key(name), "{shown:#?}");
    }
    let (shown_ns, all_ns): (f64, f64) = (shown.values().sum(), all.values().sum());
    assert_eq!(shown_ns + idle_ns, all_ns, "nothing else is left out");
    let summary = recorded.json("summary", &[]);
    assert_eq!(summary["wall_time"]["idle_kernel_threads_ns"].as_f64(), Some(idle_ns));
}

#[test]
fn root_threads_that_switch_all_the_time_are_slowed_down_little_and_their_waits_add_up() {
    let record = |rate: &str| {
        let options = ["-q", "--off-cpu-only=1us", "--max-event-rate", rate];
        let recorded = Recorded::new(&options, &[ping_pong().as_os_str(), "1000".as_ref()]);
        let said = text(&recorded.output.stdout);
        let (ns, turns) = said.trim().split_once(' ').expect("two numbers");
        let [ns, turns] = [ns, turns].map(|word| word.parse::<u64>().expect("a number"));
        let lowered = recorded.lost()["rate_lowered"].as_u64();
        (recorded, ns, turns, lowered)
    };
    let (limited, ns, turns, lowered) = record("5000");
    let samples = limited.samples(&["--event", WAITS]);
    let weights = || samples.iter().map(|sample| sample.number("weight"));
    // While one of them runs, the other one waits; other threads may take the CPU from both. A part that is kept by chance weighs
    // more than it took, and adds at most the square of that to the variance.
    let deviation = weights().map(|weight| (weight as f64).powi(2)).sum::<f64>().sqrt();
    let sum = weights().sum::<u64>() as f64;
    assert!(sum > 0.9 * ns as f64 - 5.0 * deviation, "{sum} of {ns} ns, with a deviation of {deviation}");
    assert!(sum < 2.0 * ns as f64 + 5.0 * deviation, "{sum} of {ns} ns, with a deviation of {deviation}");
    // Two parts a turn, of which one window of 17 ms has more than its share before the next one has less.
    assert!(samples.len() < 25_000 && lowered > Some(turns / 4), "{} of {turns}: {lowered:?}", samples.len());
    let (all, _, slow, lowered) = record("0");
    let count = all.samples(&["--event", WAITS]).len();
    assert!(lowered.is_none() && count as u64 > slow / 2, "{count} of {slow}: {lowered:?}");
    eprintln!("{turns} turns with a limit, {slow} without");
    assert!(turns > slow, "{turns} {slow}");
}
