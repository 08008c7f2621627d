//! Samples at counters, tracepoints and probes: programs whose calls are known, recorded through real eBPF.

use std::path::Path;
use std::process::{Command, Stdio};

use icecore_tests::machine::{
    Recorded, Sample, locked, probed, probed_with_frames, queues, record, statics, text,
};

/// Returns the functions of a user stack from the leaf to `main`, or to the first function of the thread.
fn up_to_main(sample: &Sample) -> Vec<&str> {
    let names = sample.names("user");
    let end = names.iter().position(|name| ["main", "all"].contains(name)).unwrap_or(names.len());
    names[..end].to_vec()
}

fn nothing_lost(recorded: &Recorded) {
    let lost = recorded.lost();
    assert_eq!(lost, serde_json::json!({}), "a loss would explain a wrong count");
}

#[test]
fn root_every_call_of_a_function_is_a_sample_with_its_stack() {
    for (program, unwind) in [
        (probed(), "auto"),
        (probed(), "dwarf"),
        (probed_with_frames(), "auto"),
        (probed_with_frames(), "fp"),
    ] {
        let options = ["--unwind", unwind, "--max-event-rate", "0"];
        let recorded = Recorded::events(&program, &options, &["uprobe:{}:tick"], &["tick", "5000"]);
        nothing_lost(&recorded);
        let samples = recorded.samples(&[]);
        assert_eq!(samples.len(), 5000, "{unwind}");
        for sample in &samples {
            assert_eq!(up_to_main(sample), ["tick", "twice"], "{unwind}: {}", sample.0);
            // The C library of a distribution may have no frame pointers.
            assert!(unwind == "fp" || sample.has("_start"), "{unwind}: {}", sample.0);
            assert_eq!((sample.number("weight"), sample.names("kernel").len()), (1, 0));
        }
        assert!(samples[0].text("event").starts_with("uprobe:"));
    }
}

#[test]
fn root_the_depth_at_a_probe_is_that_of_the_recursion() {
    for program in [probed(), probed_with_frames()] {
        let recorded =
            Recorded::events(&program, &["--max-event-rate", "0"], &["uprobe:{}:down"], &["down", "700"]);
        nothing_lost(&recorded);
        let depths: Vec<usize> =
            recorded.samples(&[]).iter().map(|sample| up_to_main(sample).len()).collect();
        assert_eq!(depths, (1..=700).collect::<Vec<_>>());
        let depth = recorded.json("depth", &["--event", "uprobe:*"]);
        let group = &depth["groups"][0];
        // `main` and three functions of the C library are below.
        assert_eq!((group["count"].as_u64(), group["max"].as_u64()), (Some(700), Some(704)), "{group:#}");
        assert_eq!(group["cut_share"].as_f64(), Some(0.0));
        let recursion = &depth["recursion"][0];
        assert_eq!(
            (recursion["name"].as_str(), recursion["max_repeats"].as_u64()),
            (Some("down"), Some(700))
        );
    }
}

#[test]
fn root_one_of_some_hits_weighs_as_much_as_all_of_them() {
    let recorded = Recorded::events(
        &probed(),
        &["--max-event-rate", "0"],
        &["uprobe:{}:tick,every=10"],
        &["tick", "50000"],
    );
    let samples = recorded.samples(&[]);
    assert!(samples.iter().all(|sample| sample.number("weight") == 10));
    // Five standard deviations: the variance of one hit is every - 1.
    let found: u64 = samples.iter().map(|sample| sample.number("weight")).sum();
    assert!(found.abs_diff(50_000) < (5.0 * (50_000.0 * 9.0_f64).sqrt()) as u64, "{found}");
}

#[test]
fn root_a_rate_that_is_too_high_is_lowered_and_weights_stay_right() {
    let recorded =
        Recorded::events(&probed(), &["--max-event-rate", "2000"], &["uprobe:{}:tick"], &["tick", "300000"]);
    let samples = recorded.samples(&[]);
    let weights = || samples.iter().map(|sample| sample.number("weight"));
    let deviation = weights().map(|weight| (weight * (weight - 1)) as f64).sum::<f64>().sqrt();
    let found: u64 = weights().sum();
    assert!((found as f64 - 300_000.0).abs() < 5.0 * deviation, "{found}, with a deviation of {deviation}");
    let info = recorded.json("info", &[]);
    let seconds = info["receipt"]["end_ns"].as_u64().expect("it ended") as f64 / 1e9;
    assert!(
        weights().any(|weight| weight > 1) && samples.len() < 100_000,
        "{} in {seconds} s",
        samples.len()
    );
    let lowered = recorded.lost()["rate_lowered"].as_u64().expect("the file says so");
    assert_eq!(lowered + samples.len() as u64, 300_000, "each hit is a sample, or another stands for it");
    assert_eq!(recorded.json("summary", &[])["lost"].as_u64(), Some(0), "none of them is lost");
}

#[test]
fn root_a_hit_can_weigh_an_argument() {
    let event = "uprobe:{}:sized,weight=arg1,min=11,unit=bytes";
    let recorded = Recorded::events(&probed(), &["--max-event-rate", "0"], &[event], &["sized", "100"]);
    let weights: Vec<u64> = recorded.samples(&[]).iter().map(|sample| sample.number("weight")).collect();
    assert_eq!(weights, (11..=100).collect::<Vec<_>>());
    assert_eq!(recorded.json("top", &[])["total_weight"].as_u64(), Some((11..=100).sum()));
    assert_eq!(recorded.json("info", &[])["session"]["events"][0]["unit"], "bytes");
}

#[test]
fn root_tracepoints_and_page_faults_are_counted_exactly() {
    for name in ["syscalls:sys_enter_sched_yield", "tracepoint:syscalls:sys_enter_sched_yield"] {
        let recorded = Recorded::events(&probed(), &["--max-event-rate", "0"], &[name], &["yield", "3000"]);
        nothing_lost(&recorded);
        let samples = recorded.samples(&[]);
        assert_eq!(samples.len(), 3000);
        for sample in &samples {
            assert_eq!(sample.text("event"), "syscalls:sys_enter_sched_yield");
            assert!(up_to_main(sample).ends_with(&["yields"]) && sample.has("_start"), "{}", sample.0);
            assert!(sample.has("do_syscall_64") || sample.has("invoke_syscall"), "{}", sample.0);
        }
    }
    let recorded = Recorded::events(&probed(), &[], &["page-faults"], &["touch", "2000"]);
    let samples = recorded.samples(&[]);
    let touches = samples.iter().filter(|sample| sample.names("user").first() == Some(&"touches")).count();
    assert_eq!(touches, 2000, "of {} faults", samples.len());
}

#[test]
fn root_a_process_with_the_number_of_one_that_has_just_ended_is_a_target() {
    let recorded = Recorded::events(&queues(), &[], &["uprobe:{}:hit"], &["again", "50"]);
    assert_eq!(recorded.samples(&[]).len(), 50 * 7, "lost: {}", recorded.lost());
}

#[test]
fn root_a_process_whose_first_thread_has_ended_keeps_its_stacks() {
    for _ in 0..5 {
        let recorded =
            Recorded::events(&probed(), &["--max-event-rate", "0"], &["uprobe:{}:tick"], &["leave", "50"]);
        let samples = recorded.samples(&[]);
        assert_eq!(samples.len(), 50, "lost: {}", recorded.lost());
        for sample in &samples {
            let names = sample.names("user");
            assert_eq!(
                names[..names.len().saturating_sub(1)],
                ["tick", "twice", "left", "start_thread"],
                "{}",
                sample.0
            );
        }
    }
}

#[test]
fn root_who_runs_an_older_version_of_a_probed_file_is_told() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (program, new) = (dir.path().join("replaced"), dir.path().join("new"));
    std::fs::copy(probed(), &program).expect("room");
    let mut older =
        Command::new(&program).args(["leave", "5000"]).stdout(Stdio::null()).spawn().expect("it runs");
    std::fs::copy(probed(), &new).expect("room");
    std::fs::rename(&new, &program).expect("one folder");
    let event = format!("uprobe:{}:tick", program.display());
    let output = dir.path().join("out.icecore").display().to_string();
    let said: Vec<String> = [&["-p", &older.id().to_string()][..], &["-a"]]
        .iter()
        .map(|target| {
            let options = [&["-d", "0.2", "-e", &event, "--force", "-o", &output], *target].concat();
            text(&record().args(options).output().expect("it runs").stderr)
        })
        .collect();
    let _ = older.kill();
    let _ = older.wait();
    for said in said {
        assert!(said.contains(&format!("no probe is hit in {} until", older.id())), "{said}");
    }
}

#[test]
fn root_a_hit_while_the_program_of_another_event_runs_is_counted() {
    // The timer's program follows the frame pointer to a page that is not there. In its page fault the kernel runs no other program.
    let events = ["cpu-clock,freq=999", "exceptions:page_fault_kernel"];
    let recorded = Recorded::events(&probed(), &["--unwind", "fp"], &events, &["stray", "2000000000"]);
    let samples = recorded.samples(&["--event", "cpu-clock"]);
    let strays = samples.iter().filter(|sample| sample.has("strays") && sample.text("ended") == "unreadable");
    let (strays, missed) = (strays.count() as u64, recorded.lost()["missed_runs"].as_u64());
    assert!(strays > 300, "{strays} of {} samples", samples.len());
    let missed = missed.expect("the kernel counts what it leaves out");
    assert!(
        (strays..strays + strays / 10 + 20).contains(&missed),
        "{missed} runs left out in {strays} samples"
    );
}

#[test]
fn root_events_at_the_same_time_keep_their_stacks_apart() {
    // Half of the ring has room for all of it (115 MB), so that no copy is shortened even if the recorder gets no CPU meanwhile.
    let rounds = 500;
    for program in [probed(), probed_with_frames()] {
        let events =
            ["cpu-clock,freq=9000", "uprobe:{}:tick", "uprobe:{}:down", "syscalls:sys_enter_sched_yield"];
        let options = ["--max-event-rate", "0", "--ring", "256M"];
        let recorded = Recorded::events(&program, &options, &events, &["all", &rounds.to_string()]);
        let mut lost = recorded.lost();
        let missed = lost.as_object_mut().expect("losses by cause").remove("missed_runs");
        let missed = missed.map_or(0, |count| count.as_u64().expect("a count") as usize);
        assert_eq!(lost, serde_json::json!({}), "a loss would explain a wrong count");
        let of = |event: &str| -> Vec<Sample> {
            let samples = recorded.samples(&["--event", event]);
            assert!(samples.iter().all(|sample| sample.has("all")), "a stack that is not whole: {event}");
            samples
        };
        let ticks = of("*:tick");
        assert_eq!(ticks.len(), 2 * 2 * rounds);
        for sample in &ticks {
            match &up_to_main(sample)[..] {
                ["tick", "twice"] => {}
                ["tick", rest @ ..] if rest.iter().all(|name| *name == "down") && rest.len() <= 40 => {}
                other => panic!("{other:?}"),
            }
        }
        let downs = of("*:down");
        let depths: usize = downs.iter().map(|sample| up_to_main(sample).len()).sum();
        let of_round = |round: usize| (1..=1 + round % 40).sum::<usize>();
        assert_eq!(depths, 2 * (0..rounds).map(of_round).sum::<usize>());
        let yields = of("syscalls:*");
        assert!(yields.iter().all(|sample| up_to_main(sample).ends_with(&["yields"])));
        // While the timer's program runs on the CPU, the kernel does not run that of a tracepoint.
        let seen = yields.len();
        assert!(seen <= 2 * rounds && seen + missed >= 2 * rounds, "{seen}, and {missed} missed");
        assert!(missed < 2 * rounds / 50, "{missed} missed");
        for sample in recorded.samples(&["--event", "cpu-clock"]) {
            let names = up_to_main(&sample);
            let known = ["tick", "twice", "down", "yields"];
            let own: Vec<&&str> = names.iter().filter(|name| known.contains(name)).collect();
            assert!(own.len() <= 41, "{names:?}");
        }
    }
}

/// Recursion of a known depth: Python calls `sorted`, which calls Python.
const RECURSE: &str = "\
def down(n):
    return n and sorted([n], key=lambda m: down(m - 1) or 0)[0]
for i in range(20):
    down(50)
";

#[test]
fn root_functions_of_python_are_found_by_their_pattern() {
    let python = Path::new("/usr/bin/python3");
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let script = dir.path().join("recurse.py");
    std::fs::write(&script, RECURSE).expect("room");
    let script = script.to_str().expect("plain text");
    let recorded = Recorded::new(
        &[
            "--max-event-rate",
            "0",
            "--ring",
            "256M",
            "-e",
            "uprobe:/usr/bin/python3:PyObject_*",
            "-e",
            "uprobe:/usr/bin/python3:_PyEval_EvalFrameDefault",
        ],
        &[python.to_str().expect("plain text"), script],
    );
    nothing_lost(&recorded);
    let samples = recorded.samples(&["--event", "*:PyObject_*"]);
    assert!(samples.len() > 1000, "{}", samples.len());
    assert!(
        samples
            .iter()
            .all(|sample| sample.names("user").first().is_some_and(|name| name.starts_with("PyObject_")))
    );
    let calls = recorded.samples(&["--event", "*:_PyEval_EvalFrameDefault", "--native"]);
    let depth = |sample: &Sample| {
        sample.names("user").iter().filter(|name| **name == "_PyEval_EvalFrameDefault").count()
    };
    // The script itself, and one more for each call of C. What Python does at its start is not as deep as 20.
    let mut depths: Vec<usize> = calls.iter().map(depth).filter(|depth| *depth > 20).collect();
    depths.sort_unstable();
    let expected: Vec<usize> = (21..=51).flat_map(|depth| [depth; 20]).collect();
    assert_eq!(depths, expected, "each call is in the one around it");
}

#[test]
fn root_static_probes_are_hit_wherever_they_lie() {
    let rounds = 300;
    let options = ["--max-event-rate", "0"];
    let events = ["usdt:{}:shop:sold", "usdt:{}:sh*:*"];
    let recorded = Recorded::events(&statics(), &options, &events, &[&rounds.to_string()]);
    nothing_lost(&recorded);
    let stacks_of = |event: &str| -> Vec<Vec<String>> {
        let samples = recorded.samples(&["--event", event]);
        let mut stacks: Vec<Vec<String>> = samples
            .iter()
            .map(|sample| {
                assert!(sample.has("_start"), "a stack that is not whole: {}", sample.0);
                up_to_main(sample).into_iter().map(str::to_owned).collect()
            })
            .collect();
        stacks.sort();
        stacks
    };
    let expected = |stacks: &[&[&str]]| -> Vec<Vec<String>> {
        let stack = |stack: &&[&str]| vec![stack.iter().map(|name| (*name).to_owned()).collect(); rounds];
        stacks.iter().flat_map(stack).collect()
    };
    let sold: [&[&str]; 2] = [&["resells", "sells"], &["sells"]];
    assert_eq!(stacks_of("*:shop:sold"), expected(&sold));
    assert_eq!(stacks_of("*:sh?:?"), expected(&[&["prices", "sells"], sold[0], sold[1]]));
    assert_eq!(text(&recorded.output.stdout), format!("priced {rounds}\n"));
    let unlistened = Command::new(statics()).arg("300").output().expect("it runs");
    assert_eq!(text(&unlistened.stdout), "priced 0\n", "nobody listens");
}

#[test]
fn root_functions_that_the_kernel_refuses_are_left_out_and_named() {
    let options = ["--max-event-rate", "0"];
    let events = ["uprobe:{}:*_hit", "uprobe:libc:pthread_spin_*"];
    let recorded = Recorded::events(&locked(), &options, &events, &["200"]);
    nothing_lost(&recorded);
    assert_eq!(recorded.output.status.code(), Some(0), "the program computes what it does without probes");
    let hits = recorded.samples(&["--event", "*:*_hit"]);
    assert_eq!(hits.len(), 200);
    assert!(
        hits.iter().all(|sample| up_to_main(sample) == ["plain_hit"] && sample.has("main")),
        "{}",
        hits[0].0
    );
    // Aliases of the C library: initializing a lock is unlocking it.
    let of_libc = recorded.samples(&["--event", "*:pthread_spin_*"]);
    assert_eq!(of_libc.len(), 201);
    let summary = recorded.json("summary", &[]);
    let notes: Vec<&str> =
        summary["notes"].as_array().expect("notes").iter().filter_map(|note| note.as_str()).collect();
    let said = text(&recorded.output.stderr);
    for words in [
        "no probe in 2 of 4 functions, `locked_hit`, `vector_hit` of",
        "`pthread_spin_lock`",
        "on 1 of 2 instructions of",
    ] {
        assert!(notes.iter().any(|note| note.contains(words)), "{words}: {notes:#?}");
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn root_what_cannot_be_sampled_is_refused_with_a_remedy() {
    let program = probed();
    let path = program.to_str().expect("plain text");
    for (event, words) in [
        ("page-fault", "page-faults"),
        ("uprobe:nosuchprogram:main", "nosuchprogram"),
        (&format!("uprobe:{path}:tock") as &str, "tick"),
        (&format!("uprobe:{path}:tick,every=0") as &str, "every"),
        ("sched:sched_swich", "sched_switch"),
        ("sched:sched_switch,weight=prev_pri", "its integers are common_type, "),
        ("sched:sched_switch,weight=prev_comm", "is not one of its integers: common_type, "),
        ("sched:sched_switch,field=next_com", "its integers and texts are common_type, "),
        ("sched:sched_switch,field=next_com", "prev_comm, prev_pid, "),
        ("syscalls:sys_enter_write,field=buf", "is not one of its integers and texts"),
        ("usdt:libc:libc:nosuchprobe", "has no static probe"),
    ] {
        let mut recorder = record();
        recorder.args(["-e", event, "-o", "/dev/null", "--", "true"]);
        let out = recorder.output().expect("it runs");
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{event}: {said}");
        assert!(said.contains(words), "{event}: {said}");
    }
}
