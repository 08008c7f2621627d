//! The report shows no guess as a fact: frames that a signal has interrupted, registers that hold numbers, unwind tables only in
//! `.debug_frame`, and false stack roots, in programs with known stacks, through real eBPF.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use icecore_tests::machine::{Recorded, Sample, fibers};

/// The options with which distributions compile.
const WITHOUT_FRAMES: [&str; 3] = ["-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];

fn run(compiler: &str, options: &[&str], files: &[&Path]) {
    let status = Command::new(compiler).args(options).args(files).status();
    assert!(status.unwrap_or_else(|error| panic!("{compiler}: {error}")).success(), "{compiler} {files:?}");
}

/// Compiles the program with one of `cc`, `musl-gcc`, once.
fn frames(compiler: &str, options: &[&str], name: &str) -> PathBuf {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = DIR.get_or_init(|| tempfile::tempdir().expect("a folder for temporary files")).path();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let (object, program) = (dir.join(format!("{name}.o")), dir.join(name));
    let no_rules = ["-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-c", "-o"];
    run(compiler, &[&WITHOUT_FRAMES[..], &no_rules].concat(), &[&object, &programs.join("no_rules.c")]);
    run(
        compiler,
        &[&WITHOUT_FRAMES[..], &["-pthread"], options, &["-o"]].concat(),
        &[&program, &programs.join("frames.c"), &object],
    );
    program
}

fn recorded(program: &Path, scenario: &str, options: &[&str]) -> Recorded {
    let options = [&["-F", "499", "-q"], options].concat();
    Recorded::until(
        |recorded| recorded.samples(&[]).iter().filter(|sample| is_told(sample)).count() > 20,
        || Recorded::new(&options, &[program.as_os_str(), scenario.as_ref()]),
    )
}

fn is_told(sample: &Sample) -> bool {
    sample.has("spin") || sample.has("at_its_first")
}

/// Returns the samples of the scenario itself, without the start of the program.
fn told(recorded: &Recorded) -> Vec<Sample> {
    let mut samples = recorded.samples(&[]);
    samples.retain(is_told);
    samples
}

fn is_incomplete(sample: &Sample) -> bool {
    sample.0["incomplete"] == true
}

/// Asserts that stacks are these, leaf first, up to the function that begins them, and that they are rooted.
fn assert_stacks(samples: &[Sample], frames: &[&str]) {
    for sample in samples {
        let names = sample.names("user");
        assert!(names.starts_with(frames), "{names:?} are not {frames:?}: {}", sample.text("ended"));
        assert!(!is_incomplete(sample), "{names:?}: {}", sample.text("ended"));
    }
}

#[test]
fn root_what_a_signal_interrupted_is_looked_up_where_it_is() {
    let recorded = recorded(&frames("cc", &[], "signal"), "signal", &[]);
    let samples = told(&recorded);
    let in_handler: Vec<&Sample> =
        samples.iter().filter(|sample| sample.has("handler") && !sample.has("quit")).collect();
    assert!(!in_handler.is_empty());
    for sample in in_handler {
        assert!(!sample.has("never_called"), "{:?}", sample.names("user"));
        let names = sample.names("user");
        let handler = names.iter().position(|name| *name == "handler").expect("it has it");
        assert_eq!(names[handler + 2..handler + 5], ["at_its_first", "interrupted", "main"]);
        // The trampoline has a name only if libc has symbols for it.
        assert!(["__restore_rt", ""].contains(&names[handler + 1]), "{names:?}");
        let frame =
            &sample.0["frames"].as_array().expect("a list").iter().find(|f| f["name"] == "at_its_first");
        assert_eq!(frame.expect("it has it")["interrupted"], true);
        assert!(!is_incomplete(sample), "{names:?}");
    }
}

#[test]
fn root_a_walk_through_a_signal_is_not_whole() {
    let program = frames("cc", &["-fno-omit-frame-pointer"], "walked");
    for scenario in ["signal", "alternate"] {
        let recorded = recorded(&program, scenario, &["--unwind", "fp"]);
        let samples = told(&recorded);
        for sample in samples.iter().filter(|sample| sample.has("spin")) {
            assert!(sample.has("at_its_first") || is_incomplete(sample), "{:?}", sample.names("user"));
        }
    }
    // A stack that unwinding finds is whole; any other stack is marked.
    let recorded = recorded(&program, "alternate", &[]);
    for sample in told(&recorded).iter().filter(|sample| sample.has("handler")) {
        assert!(sample.has("at_its_first") || is_incomplete(sample), "{:?}", sample.names("user"));
    }
}

#[test]
fn root_a_register_that_holds_a_number_ends_no_stack() {
    let frames_of = ["spin", "repeat", "with_a_number", "main"];
    for compiler in ["cc", "musl-gcc"] {
        let recorded = recorded(&frames(compiler, &[], &format!("number-{compiler}")), "number", &[]);
        assert_stacks(&told(&recorded), &frames_of);
    }
}

#[test]
fn root_programs_and_threads_of_musl_reach_their_roots() {
    for (name, options) in [("dynamic", &[][..]), ("static", &["-static"])] {
        let program = frames("musl-gcc", options, name);
        assert_stacks(&told(&recorded(&program, "thread", &[])), &["spin", "repeat", "small"]);
        assert_stacks(
            &told(&recorded(&program, "number", &[])),
            &["spin", "repeat", "with_a_number", "main"],
        );
    }
}

#[test]
fn root_rules_in_debug_frame_serve_beside_others() {
    let recorded = recorded(&frames("cc", &[], "no_rules"), "no_rules", &[]);
    let frames = ["spin", "repeat", "inner_without_rules", "without_rules", "main"];
    assert_stacks(&told(&recorded), &frames);
}

#[test]
fn root_rules_that_no_table_leads_to_travel_in_the_recording() {
    // Static programs of glibc have an `.eh_frame` and no `.eh_frame_hdr`; clang writes another version of `.debug_frame`.
    for (compiler, options, name) in
        [("cc", &[][..], "away"), ("clang", &[], "away-clang"), ("cc", &["-static"], "away-static")]
    {
        let program = frames(compiler, options, name);
        let recorded = recorded(&program, "no_rules", &[]);
        std::fs::remove_file(program).expect("it was recorded");
        assert_stacks(&told(&recorded), &["spin", "repeat", "inner_without_rules", "without_rules", "main"]);
    }
}

#[test]
fn root_a_stack_that_lacks_its_outer_frames_is_not_rooted() {
    let program = frames("cc", &[], "rooted");
    for (scenario, start) in [("large", "large"), ("for_ever", "main")] {
        let recorded = recorded(&program, scenario, &[]);
        for sample in told(&recorded) {
            assert!(sample.has(start) || is_incomplete(&sample), "{:?}", sample.names("user"));
        }
    }
    // The code proves the beginning of a fiber: no call precedes its return address.
    assert_stacks(&told(&recorded(&program, "fiber", &[])), &["spin", "repeat", "fiber"]);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn root_a_fiber_that_returns_to_the_middle_of_a_function_is_whole() {
    let recorded = Recorded::new(&["-F", "499", "-q"], &[fibers().as_os_str(), "1200".as_ref()]);
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| sample.has("leaf"));
    let of =
        |outer: &str| samples.iter().filter(|sample| sample.has(outer)).count() as f64 / samples.len() as f64;
    assert!(samples.len() > 300 && (of("body") - 0.5).abs() < 0.1 && (of("scheduler") - 0.5).abs() < 0.1);
    for sample in samples.iter().filter(|sample| sample.has("body")) {
        assert!(!is_incomplete(sample), "{}", sample.0);
        let names = sample.names("user");
        let leaf = names.iter().position(|name| *name == "leaf").expect("it is there");
        assert_eq!(names[leaf..], ["leaf", "middle", "body", "begin"]);
    }
    let health = recorded.json("health", &[]);
    assert!(health["rooted_share"].as_f64() > Some(0.99), "{health}");
}
