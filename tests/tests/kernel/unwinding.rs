//! Stacks of programs without frame pointers, through real eBPF: chains of callers are known, and every sample has all of its
//! callers, or says where its stack ends.

use std::path::Path;

use icecore_tests::machine::{Recorded, Sample, stacks_with_frames, stacks_without_frames};

/// Fast enough for half a second to hold some hundred samples, slow enough to copy 150 KB with each of them; prime, so that
/// nothing runs in lockstep.
const RATE: [&str; 3] = ["-F", "499", "-q"];

/// Records a part of `tests/programs/stacks.c`; returns the samples that hit in its `leaf`, or those that `is_wanted` chooses. If
/// the recorder had too little time to copy stacks, this records once more.
fn recorded(
    program: &Path,
    name: &str,
    options: &[&str],
    is_wanted: impl Fn(&Sample) -> bool,
) -> Vec<Sample> {
    let options = [&RATE[..], options].concat();
    let command = [program.as_os_str(), name.as_ref(), "500".as_ref()];
    let recorded = Recorded::without_loss(&options, &command);
    assert_eq!(recorded.lost(), serde_json::json!({}), "this machine is too busy for {name} {options:?}");
    let mut samples = recorded.samples(&[]);
    let all = samples.len();
    samples.retain(is_wanted);
    let rooted = samples.iter().filter(|sample| is_rooted(sample)).count();
    println!("{name} {options:?}: {rooted} of {} stacks are rooted; {all} samples", samples.len());
    assert!(samples.len() > 100 && samples.len() * 10 > all * 8, "{} of {all}", samples.len());
    samples
}

fn in_leaf(sample: &Sample) -> bool {
    sample.names("user").first() == Some(&"leaf")
}

/// Returns true if a program or a thread begins with the outermost frame.
fn is_rooted(sample: &Sample) -> bool {
    matches!(sample.names("user").last(), Some(&("_start" | "clone3" | "__clone3")))
}

/// Asserts that every sample begins with these frames and reaches the root.
fn assert_whole(samples: &[Sample], chain: &[&str]) {
    for sample in samples {
        let names = sample.names("user");
        assert!(names.starts_with(chain), "{}: {names:?}", sample.0["ended"]);
        assert!(is_rooted(sample), "{}: {names:?}", sample.0["ended"]);
    }
}

#[test]
fn root_a_program_without_frame_pointers_has_whole_stacks() {
    let chain = ["leaf", "b", "a", "chain", "main"];
    for options in [&[][..], &["--unwind", "copy"], &["--unwind", "dwarf"]] {
        assert_whole(&recorded(&stacks_without_frames(), "chain", options, in_leaf), &chain);
    }
    // Without unwinding they are not whole: this shows that the test can fail.
    let walked = recorded(&stacks_without_frames(), "chain", &["--unwind", "fp"], in_leaf);
    assert!(walked.iter().all(|sample| !sample.names("user").starts_with(&chain)));
}

#[test]
fn root_who_called_memcpy_is_in_every_stack() {
    // The program also reads the time from libc, now and then, and ends there.
    let in_libc = |sample: &Sample| {
        let image = sample.0["frames"][0]["image"].as_str();
        image.is_some_and(|image| image.contains("libc")) && !sample.has("cpu_ms") && !sample.has("exit")
    };
    let samples = recorded(&stacks_with_frames(), "copies", &[], in_libc);
    for sample in &samples {
        let names = sample.names("user");
        assert_eq!(names[1..4], ["copies", "memory", "main"], "{}", sample.0["ended"]);
    }
    let walked = recorded(&stacks_with_frames(), "copies", &["--unwind", "fp"], in_libc);
    assert!(walked.iter().all(|sample| !sample.has("copies")), "the hole that this closes");
}

#[test]
fn root_stacks_that_are_deeper_than_what_is_copied_of_each_are_whole() {
    let chain = [&["leaf"][..], &["deep"; 300], &["recursion", "main"]].concat();
    for options in [&[][..], &["--unwind", "copy"], &["--unwind", "dwarf"]] {
        assert_whole(&recorded(&stacks_without_frames(), "deep", options, in_leaf), &chain);
    }
}

#[test]
fn root_a_stack_of_which_little_is_copied_has_no_wrong_callers() {
    let samples =
        recorded(&stacks_without_frames(), "deep", &["--unwind", "copy", "--stack-bytes", "4K"], in_leaf);
    for sample in &samples {
        let names = sample.names("user");
        assert_eq!(sample.text("ended"), "not_copied", "{names:?}");
        assert!(names.len() > 4 && names[1..].iter().all(|name| *name == "deep"), "{names:?}");
    }
    // Where frame pointers lead on, the report follows them.
    let chain = [&["leaf"][..], &["deep"; 300], &["recursion", "main"]].concat();
    for sample in
        recorded(&stacks_with_frames(), "deep", &["--unwind", "copy", "--stack-bytes", "4K"], in_leaf)
    {
        assert!(sample.names("user").starts_with(&chain), "{}", sample.0);
    }
}

#[test]
fn root_stacks_of_threads_are_whole() {
    let samples = recorded(&stacks_without_frames(), "thread", &[], in_leaf);
    assert_whole(&samples, &["leaf", "b", "a", "chain", "in_thread", "start_thread"]);
}

#[test]
fn root_a_signal_handler_shows_whom_it_interrupted() {
    for sample in &recorded(&stacks_without_frames(), "handler", &[], in_leaf) {
        let names = sample.names("user");
        let [own @ .., "raises", "handled", "main", _, _, "_start"] = &names[..] else { panic!("{names:?}") };
        assert_eq!(own[..2], ["leaf", "handler"], "{names:?}");
    }
}

#[test]
fn root_a_signal_handler_on_a_stack_of_its_own_shows_whom_it_interrupted() {
    for program in [stacks_without_frames(), stacks_with_frames()] {
        for sample in &recorded(&program, "alternate", &[], in_leaf) {
            let names = sample.names("user");
            let [own @ .., "raises", "handled", "main", _, _, "_start"] = &names[..] else {
                panic!("{}: {names:?}", sample.text("ended"))
            };
            assert_eq!(own[..2], ["leaf", "handler"], "{names:?}");
        }
    }
}

#[test]
fn root_a_stack_of_a_signal_handler_may_lie_anywhere() {
    for program in [stacks_without_frames(), stacks_with_frames()] {
        let path = program.to_str().expect("plain text");
        let event = format!("uprobe:{path}:handler");
        let recorded = Recorded::new(&["--max-event-rate", "0", "-e", &event], &[path, "alternates", "0"]);
        let samples = recorded.samples(&[]);
        assert_eq!(samples.len(), 32);
        for sample in &samples {
            let names = sample.names("user");
            let [own @ .., "raises", "alternates", "main", _, _, "_start"] = &names[..] else {
                panic!("{}: {names:?}", sample.text("ended"))
            };
            assert_eq!(own[0], "handler", "{names:?}");
        }
    }
}

#[test]
fn root_python_without_frame_pointers_reaches_its_root() {
    let script = "import time\ndef f(n):\n return sum(i * i for i in range(n))\nwhile time.process_time() < 0.6: f(10000)";
    let recorded = Recorded::new(&RATE, &["/usr/bin/python3", "-c", script]);
    let mut samples = recorded.samples(&[]);
    // Before the dynamic linker has begun there is no stack.
    samples.retain(|sample| !sample.names("user").is_empty() && sample.text("comm") == "python3");
    let rooted = samples.iter().filter(|sample| is_rooted(sample)).count();
    println!("python3: {rooted} of {} stacks are rooted", samples.len());
    assert!(samples.len() > 50 && rooted * 100 >= samples.len() * 97, "{rooted} of {}", samples.len());
}
