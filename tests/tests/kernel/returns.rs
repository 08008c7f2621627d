//! Samples at the returns of functions, and of everything else meanwhile: no stack shows the trampoline that the kernel puts in place of
//! return addresses.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use icecore_tests::machine::{Recorded, Sample, needs, probed, probed_with_frames, record, returns, text};

/// The kernel replaces at most 64 return addresses of a thread at a time.
const DEEPEST: usize = 50;

fn recorded(program: &Path, options: &[&str], events: &[&str], arguments: &[&str]) -> Recorded {
    recorded_but(&serde_json::json!({}), program, options, events, arguments)
}

/// Records a program, and loses exactly that.
fn recorded_but(
    losses: &serde_json::Value,
    program: &Path,
    options: &[&str],
    events: &[&str],
    arguments: &[&str],
) -> Recorded {
    // So that a busy machine loses nothing.
    let options = [options, &["--max-event-rate", "0", "--ring", "512M"]].concat();
    let recorded = Recorded::events(program, &options, events, arguments);
    let mut lost = recorded.lost();
    // While the timer's program runs on the CPU, the kernel does not run that of a tracepoint.
    lost.as_object_mut().expect("losses by cause").remove("missed_runs");
    assert_eq!(&lost, losses, "another loss would explain a wrong count");
    recorded
}

/// Returns the functions of a user stack from the leaf to `main`, or to the first function of the thread. Panics if the stack does not
/// show it, or shows code of the kernel's page for probes.
fn up_to_main(sample: &Sample) -> Vec<&str> {
    let names = sample.names("user");
    let end = names.iter().position(|name| ["main", "all"].contains(name));
    let end = end.unwrap_or_else(|| panic!("a stack that is not whole: {}", sample.0));
    assert!(!sample.0.to_string().contains("[uprobes"), "the kernel's own code: {}", sample.0);
    assert!(names[..end].iter().all(|name| !name.is_empty()), "{}", sample.0);
    names[..end].to_vec()
}

#[test]
fn root_a_return_has_the_stack_of_the_caller() {
    for (program, unwind) in [
        (probed(), "auto"),
        (probed(), "dwarf"),
        (probed_with_frames(), "auto"),
        (probed_with_frames(), "dwarf"),
        (probed_with_frames(), "fp"),
    ] {
        let arguments = ["down", &DEEPEST.to_string()];
        let recorded = recorded(&program, &["--unwind", unwind], &["uretprobe:{}:down"], &arguments);
        let samples = recorded.samples(&[]);
        let found: Vec<Vec<&str>> = samples.iter().map(up_to_main).collect();
        // The innermost call returns first.
        let expected: Vec<Vec<&str>> = (0..DEEPEST).rev().map(|depth| vec!["down"; depth]).collect();
        assert_eq!(found, expected, "{unwind}");
        assert!(unwind == "fp" || samples.iter().all(|sample| sample.has("_start")));
    }
}

#[test]
fn root_stacks_are_true_while_returns_are_probed() {
    let rounds = 150;
    for (program, unwind) in [
        (probed(), "auto"),
        (probed(), "dwarf"),
        (probed_with_frames(), "auto"),
        (probed_with_frames(), "fp"),
    ] {
        let events = [
            "cpu-clock,freq=9000",
            "uretprobe:{}:t*",
            "uretprobe:{}:down",
            "uretprobe:{}:yields",
            "uprobe:{}:tick",
            "uprobe:{}:down",
            "syscalls:sys_enter_sched_yield",
        ];
        let arguments = ["all", &rounds.to_string()];
        let recorded = recorded(&program, &["--unwind", unwind], &events, &arguments);
        let of = |event: &str| recorded.samples(&["--event", event]);
        // How often `down` is in a stack, for all its calls: each round has one more, 40 at most.
        let levels = |from: usize| -> usize {
            2 * (0..rounds).map(|round| (from..from + 1 + round % 40).sum::<usize>()).sum::<usize>()
        };
        for (event, calls_below, sum) in [("uprobe:*:down", 1, levels(1)), ("uretprobe:*:down", 0, levels(0))]
        {
            let samples = of(event);
            let stacks: Vec<_> = samples.iter().map(up_to_main).collect();
            assert!(stacks.iter().flatten().all(|name| *name == "down"), "{unwind} {event}");
            assert!(stacks.iter().all(|stack| (calls_below..calls_below + 40).contains(&stack.len())));
            assert_eq!(samples.len(), levels(1) - levels(0), "{unwind} {event}");
            let found = stacks.iter().map(Vec::len).sum::<usize>();
            assert_eq!(found, sum, "{unwind}: {event}");
        }
        let is_below = |stack: &[&str]| match stack {
            ["twice"] => true,
            downs => !downs.is_empty() && downs.len() <= 40 && downs.iter().all(|name| *name == "down"),
        };
        let ticks = of("uprobe:*:tick");
        assert_eq!(ticks.len(), 2 * 2 * rounds);
        for stack in ticks.iter().map(up_to_main) {
            assert!(stack[0] == "tick" && is_below(&stack[1..]), "{unwind}: {stack:?}");
        }
        // `tick` returns to its callers, and `twice` to `all`.
        let returns = of("uretprobe:*:t?");
        assert_eq!(returns.len(), 3 * 2 * rounds);
        let stacks: Vec<_> = returns.iter().map(up_to_main).collect();
        assert_eq!(stacks.iter().filter(|stack| stack.is_empty()).count(), 2 * rounds, "{unwind}");
        assert!(stacks.iter().all(|stack| stack.is_empty() || is_below(stack)), "{unwind}");
        let returns = of("uretprobe:*:yields");
        assert!(returns.iter().all(|sample| up_to_main(sample).is_empty()), "{unwind}");
        for sample in of("syscalls:*") {
            let stack = up_to_main(&sample);
            // The C library of a distribution keeps no frame pointers.
            assert!(stack.ends_with(&["yields"]) || unwind == "fp", "{unwind}: {stack:?}");
        }
        let clock = of("cpu-clock");
        let mut exchanged = 0;
        assert!(clock.len() > 100, "{unwind}: {}", clock.len());
        for sample in clock.iter().filter(|sample| sample.has("down") || sample.has("twice")) {
            // While the kernel handles a probe, there are moments at which only its own registers have the return address, or the
            // program counter stands behind the breakpoint.
            // At the first instruction of a function, frame pointers lead past its caller.
            if !sample.has("all") {
                assert_eq!(sample.0["incomplete"], true, "a stack that is not whole, unmarked: {}", sample.0);
                exchanged += usize::from(unwind != "fp");
                continue;
            }
            let stack = up_to_main(sample);
            let known = ["tick", "twice", "down", "yields"];
            assert!(stack.iter().filter(|name| known.contains(name)).count() <= 41, "{unwind}: {stack:?}");
        }
        // Measured: 2 to 6 of 100 where the kernel handles two probes for each call.
        assert!(exchanged <= 5 + clock.len() / 10, "{unwind}: {exchanged} of {}", clock.len());
    }
}

#[test]
fn root_a_call_that_longjmp_has_left_is_not_on_the_stack() {
    let events = ["cpu-clock,freq=9999", "uretprobe:{}:leaps", "uretprobe:{}:stays"];
    let recorded = recorded(&returns(), &[], &events, &["leaps", "100000"]);
    let mut samples = recorded.samples(&["--event", "cpu-clock"]);
    samples.retain(|sample| sample.has("leaps") || sample.has("stays"));
    // The kernel handles 300,000 returns, and passes over two calls in a third of them.
    let (all, mut whole) = (samples.len(), 0);
    for sample in samples {
        let names = sample.names("user");
        assert!(!sample.has("decoy"), "{names:?}");
        if sample.0["incomplete"] != true {
            let end = names.iter().position(|name| *name == "stays").expect("it is below all others");
            assert!(names[end..].starts_with(&["stays", "calls_stays", "main"]), "{names:?}");
            whole += 1;
        }
    }
    println!("{whole} of {all} stacks are whole");
    assert!(all > 10_000 && whole * 100 > all * 98, "{whole} of {all}");
}

/// Returns the times inside of and around each call of a timed function, by thread and in the order of the returns, ns.
fn times(recorded: &Recorded) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let mut times: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for line in text(&recorded.output.stdout).lines() {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        times.entry(numbers[0]).or_default().push((numbers[1], numbers[2]));
    }
    times
}

#[test]
fn root_a_return_can_weigh_how_long_the_function_ran() {
    let rounds = 300;
    // A second event in the same functions has calls of its own.
    let events = ["uretprobe:{}:timed_*,weight=duration", "uretprobe:{}:timed_s*,weight=duration,min=15000"];
    // In every other round longjmp leaves four calls, of which the second event has none.
    let left = serde_json::json!({"unpaired": 2 * (rounds / 2) * 4});
    let recorded = recorded_but(&left, &returns(), &[], &events, &["times", &rounds.to_string()]);
    let told = times(&recorded);
    let samples = recorded.samples(&["--event", "*:timed_?"]);
    // Per round: one short function, twelve that nest, and one that stays, in which four return or none.
    assert_eq!((told.len(), samples.len()), (2, 2 * (rounds * 14 + rounds / 2 * 4)));
    let mut sum = 0;
    for (tid, calls) in &told {
        let of_thread = samples.iter().filter(|sample| sample.number("tid") == *tid);
        let weights: Vec<u64> = of_thread.map(|sample| sample.number("weight")).collect();
        assert_eq!(weights.len(), calls.len());
        for (at, (weight, (inside, around))) in weights.iter().zip(calls).enumerate() {
            assert!((inside..=around).contains(&weight), "{at}: {inside} <= {weight} <= {around}");
        }
        sum += weights.iter().sum::<u64>();
    }
    let top = recorded.json("top", &["--event", "*:timed_?"]);
    assert_eq!((top["total_weight"].as_u64(), top["unit"].as_str()), (Some(sum), Some("ns")), "{top:#}");
    // The distribution is that of the samples, in each function.
    let rows = top["rows"].as_array().expect("a list");
    assert_eq!(
        rows.iter().map(|row| row["self_samples"].as_u64().expect("a number")).sum::<u64>(),
        samples.len() as u64
    );
    let leaf = |sample: &Sample| {
        let frames = sample.0["frames"].as_array().expect("a list");
        frames.iter().find(|frame| frame["inlined"] == false).expect("it has a stack")["name"].clone()
    };
    let returned_into = rows.iter().filter(|row| row["self_samples"] != 0);
    for row in returned_into.chain([&top]) {
        let of_row = samples.iter().filter(|sample| row["name"].is_null() || leaf(sample) == row["name"]);
        let mut times: Vec<u64> = of_row.map(|sample| sample.number("weight")).collect();
        times.sort_unstable();
        let rank = |percent: usize| times[(times.len() * percent).div_ceil(100) - 1];
        let durations = &row["durations"];
        let figures =
            [("min", times[0]), ("p50", rank(50)), ("p90", rank(90)), ("p99", rank(99)), ("max", rank(100))];
        for (figure, true_one) in figures {
            assert_eq!(durations[figure].as_u64(), Some(true_one), "{figure} of {}", row["name"]);
        }
        let histogram = durations["histogram"].as_array().expect("a list");
        for range in histogram {
            let [from, to, count] = ["from", "to", "count"].map(|key| range[key].as_u64().expect("a number"));
            assert_eq!(
                times.iter().filter(|time| (from..to).contains(time)).count() as u64,
                count,
                "{range}"
            );
        }
    }
    let long: Vec<u64> =
        recorded.samples(&["--event", "*:timed_s?"]).iter().map(|sample| sample.number("weight")).collect();
    assert!(long.len() >= 2 * rounds && long.iter().all(|weight| *weight >= 15_000), "{}", long.len());
}

#[test]
fn root_functions_that_jump_to_each_other_each_weigh_how_long_they_ran() {
    let rounds = 100;
    let events = ["uretprobe:{}:timed_*,weight=duration"];
    let recorded = recorded(&returns(), &[], &events, &["jumps", &rounds.to_string()]);
    assert_eq!(recorded.lost(), serde_json::json!({}));
    let told = times(&recorded).into_values().next().expect("one thread");
    let weights: Vec<u64> = recorded.samples(&[]).iter().map(|sample| sample.number("weight")).collect();
    assert_eq!((told.len(), weights.len()), (4 * rounds, 4 * rounds));
    for (at, (weight, (inside, around))) in weights.iter().zip(&told).enumerate() {
        assert!((inside..=around).contains(&weight), "{at}: {inside} <= {weight} <= {around}");
    }
}

#[test]
fn root_a_return_without_a_known_begin_is_counted() {
    let options = ["--max-event-rate", "0", "-e"];
    let event = format!("uretprobe:{}:timed_*,weight=duration", returns().display());
    let record = |what: &str, n: &str| {
        let path = returns();
        Recorded::new(&[&options[..], &[&event]].concat(), &[path.to_str().expect("plain text"), what, n])
    };
    // Of the child's return nobody knows when it began.
    let forked = record("fork", "1");
    assert_eq!(forked.lost(), serde_json::json!({"unpaired": 1}));
    assert_eq!(forked.samples(&[]).len(), 1);
    // The kernel does not tell of the innermost returns.
    let deep = record("deep", "100");
    assert_eq!(deep.lost(), serde_json::json!({"unpaired": 36}));
    let told = times(&deep).into_values().next().expect("one thread");
    let samples = deep.samples(&[]);
    assert_eq!(samples.len(), 64);
    for (sample, (inside, around)) in samples.iter().zip(&told[36..]) {
        assert!((*inside..=*around).contains(&sample.number("weight")), "{}", sample.0);
    }
}

#[test]
fn root_a_return_can_weigh_what_the_function_returned() {
    let events =
        ["uretprobe:{}:gives,weight=retval", "uretprobe:{}:gives_int,weight=retval32,min=3,unit=bytes"];
    let recorded = recorded(&returns(), &[], &events, &["give", "9"]);
    let weights = |event: &str| -> Vec<u64> {
        recorded.samples(&["--event", event]).iter().map(|sample| sample.number("weight")).collect()
    };
    assert_eq!(weights("*:gives"), (1..=9).collect::<Vec<_>>(), "negative numbers and 0 weigh nothing");
    assert_eq!(weights("*:gives_int"), (3..=9).collect::<Vec<_>>());
    let taken = self::recorded(&returns(), &[], &["uprobe:{}:gives_int,weight=arg1:int"], &["give", "9"]);
    let weights: Vec<u64> = taken.samples(&[]).iter().map(|sample| sample.number("weight")).collect();
    assert_eq!(weights, (1..=9).collect::<Vec<_>>());
    assert_eq!(recorded.json("info", &[])["session"]["events"][1]["unit"], "bytes");
}

#[test]
fn root_a_program_in_go_is_not_ended_by_a_probe() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let source = "package main\nimport \"fmt\"\n//go:noinline\nfunc f(n int) int { return n }\n\
                  func main() { fmt.Println(f(1)) }\n";
    std::fs::write(dir.path().join("x.go"), source).expect("room");
    let mut go = Command::new("go");
    go.args(["build", "-o", "x", "x.go"]).current_dir(dir.path()).env("HOME", dir.path());
    needs("go", &["version"]);
    assert!(go.status().expect("it just ran").success());
    let event = format!("uretprobe:{}:main.f", dir.path().join("x").display());
    let mut recorder = record();
    let out = recorder.args(["-e", &event, "-o", "/dev/null", "true"]).output().expect("it runs");
    let said = text(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("written in Go"), "{said}");
}
