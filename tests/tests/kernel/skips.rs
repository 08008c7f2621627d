//! Frame-pointer walks skip callers, and stacks hold words that only look like return addresses: the report shows correct frames, or
//! marks the stack as incomplete. Programs with known stacks, through real eBPF.

use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_tests::machine::{Recorded, Sample};

fn compile(dir: &Path, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
    let program = dir.join(format!("{compiler}-{}", source.trim_end_matches(".c")));
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(source);
    let status = Command::new(compiler).args(options).arg("-o").arg(&program).arg(from).status();
    assert!(status.unwrap_or_else(|error| panic!("{compiler}: {error}")).success(), "{source}");
    program
}

/// Records a scenario until it has enough samples of its leaf.
fn recorded(program: &Path, scenario: &str, options: &[&str]) -> Recorded {
    let options = [&["-F", "499", "-q"], options].concat();
    Recorded::until(
        |recorded| of_leaf(recorded).len() > 100,
        || Recorded::new(&options, &[program.as_os_str(), scenario.as_ref()]),
    )
}

fn of_leaf(recorded: &Recorded) -> Vec<Sample> {
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| sample.has("leaf"));
    samples
}

/// Returns the names of the user frames before the first one that is marked as a guess.
fn facts(sample: &Sample) -> Vec<&str> {
    let frames = sample.0["frames"].as_array().expect("`frames` is a list");
    let of_user = frames.iter().filter(|frame| frame["side"] == "user");
    let facts = of_user.take_while(|frame| frame["guessed"] != true);
    facts.map(|frame| frame["name"].as_str().unwrap_or("")).collect()
}

/// Asserts that the frames that samples show as facts are one of these stacks, leaf first, or its beginning, and that an
/// incomplete stack is marked. Returns how many are whole.
fn assert_right_or_marked(samples: &[Sample], truths: &[&[&str]]) -> usize {
    let mut whole = 0;
    for sample in samples {
        let facts = facts(sample);
        let truth = truths.iter().find(|truth| facts.iter().zip(**truth).all(|(shown, is)| shown == is));
        let Some(truth) = truth else { panic!("{facts:?}, {}", sample.text("ended")) };
        let is_marked = sample.0["incomplete"] == true || facts.len() < sample.names("user").len();
        assert!(facts.len() >= truth.len() || is_marked, "{facts:?}, {}", sample.text("ended"));
        whole += usize::from(facts.len() >= truth.len() && sample.0["incomplete"] != true);
    }
    whole
}

/// Asserts that the verdict counts the incomplete samples.
fn assert_told(recorded: &Recorded) {
    let health = recorded.json("health", &[]);
    assert!(health["incomplete_share"].as_f64() > Some(0.9), "{health}");
    assert_eq!(health["verdict"], "misleading", "{health}");
}

#[test]
fn root_a_walk_does_not_go_on_behind_code_that_keeps_no_frame_pointer() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = compile(dir.path(), "cc", "skips.c", &["-O2", "-g", "-fomit-frame-pointer", "-pthread"]);
    let truths: [&[&str]; 2] = [
        &["leaf", "large", "above_large", "ten", "either", "main"],
        &["leaf", "large", "above_large", "ninety", "either", "main"],
    ];
    for unwind in ["copy", "dwarf"] {
        let recorded = recorded(&program, "copy", &["--unwind", unwind]);
        assert_right_or_marked(&of_leaf(&recorded), &truths);
        assert_told(&recorded);
    }
    // A recording of walks alone cuts nothing: each stack is marked as incomplete.
    let recorded = recorded(&program, "pointer", &["--unwind", "fp"]);
    let samples = of_leaf(&recorded);
    let is_right =
        |sample: &Sample| sample.names("user").starts_with(&["leaf", "calls_pointer", "above_pointer"]);
    assert!(samples.iter().all(|sample| is_right(sample) || sample.0["incomplete"] == true));
    assert_told(&recorded);
}

#[test]
fn root_a_caller_that_unwind_rules_lead_to_has_called() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = compile(dir.path(), "cc", "skips.c", &["-O2", "-g", "-fomit-frame-pointer", "-pthread"]);
    let recorded = recorded(&program, "lies", &[]);
    let truth = ["leaf", "lies", "above_lies", "calls_lies", "main"];
    assert_right_or_marked(&of_leaf(&recorded), &[&truth]);
    assert_told(&recorded);
}

#[test]
fn root_what_an_unwinder_of_exceptions_has_overwritten_is_no_caller() {
    const CALLS: [&str; 6] = ["main", "catches", "first", "second", "third", "throws"];
    let dir = tempfile::tempdir().expect("a folder");
    let program = compile(dir.path(), "c++", "throws.cpp", &["-O1", "-g", "-fno-omit-frame-pointer"]);
    for unwind in ["auto", "copy"] {
        let options = ["-F", "4999", "-q", "--unwind", unwind];
        let recorded = Recorded::new(&options, &[program.as_os_str()]);
        let mut samples = recorded.samples(&[]);
        samples.retain(|sample| sample.has("_Unwind_RaiseException") || sample.has("_Unwind_Resume"));
        let (all, mut whole) = (samples.len(), 0);
        for sample in samples.iter().filter(|sample| sample.0["incomplete"] != true) {
            let names = facts(sample);
            let own: Vec<&str> = names.iter().rev().filter(|name| CALLS.contains(name)).copied().collect();
            let is_raised = names.contains(&"_Unwind_RaiseException");
            assert!(
                CALLS.starts_with(&own) && own.len() >= 3 && (!is_raised || own.len() == 6),
                "{unwind}: {names:?}"
            );
            whole += 1;
        }
        println!("{unwind}: {whole} of {all} stacks are whole");
        assert!(all > 1000 && whole * 10 > all * 8, "{unwind}: {whole} of {all}");
    }
}

#[test]
fn root_a_start_that_lies_further_up_skips_nobody() {
    let dir = tempfile::tempdir().expect("a folder");
    let no_rules = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fcf-protection=none"];
    let options = [&["-static", "-O2", "-fomit-frame-pointer", "-pthread"][..], &no_rules].concat();
    let program = compile(dir.path(), "musl-gcc", "skips.c", &options);
    let recorded = recorded(&program, "table", &[]);
    assert_right_or_marked(&of_leaf(&recorded), &[&["leaf", "jumps", "above_jumps", "thread"]]);
}

#[test]
fn root_what_lies_in_front_of_the_beginning_of_a_fiber_is_not_its_caller() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = compile(dir.path(), "cc", "skips.c", &["-O2", "-pthread"]);
    let samples = of_leaf(&recorded(&program, "fiber", &[]));
    assert_eq!(assert_right_or_marked(&samples, &[&["leaf", "fiber", "after_fiber"]]), samples.len());
}

#[test]
fn root_a_signal_that_is_over_has_interrupted_nobody() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = compile(dir.path(), "cc", "skips.c", &["-O2", "-pthread"]);
    for scenario in ["coroutine", "in_place"] {
        let recorded = recorded(&program, scenario, &[]);
        for sample in &of_leaf(&recorded) {
            let names = sample.names("user");
            let is_other = |name: &&str| ["make", "go_on", "makes_here", "goes_on", "main"].contains(name);
            assert!(!names.iter().any(is_other), "{scenario}: {names:?}");
            assert_eq!(sample.0["incomplete"], true, "{scenario}: {names:?}");
        }
        assert_told(&recorded);
    }
}

#[test]
fn root_a_function_that_was_pushed_by_hand_begins_no_stack() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = compile(dir.path(), "cc", "skips.c", &["-O2", "-pthread"]);
    for unwind in ["auto", "copy"] {
        let recorded = recorded(&program, "injected", &["--unwind", unwind]);
        let truth = ["leaf", "landing", "get", "gets_it", "round_of", "main"];
        assert_right_or_marked(&of_leaf(&recorded), &[&truth]);
    }
}

#[test]
fn root_a_leaf_without_a_frame_pointer_has_its_caller_where_all_others_keep_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = ["-O2", "-fno-omit-frame-pointer", "-fno-stack-protector", "-fno-builtin"];
    let alone = ["-nostdlib", "-static", "-Wl,--eh-frame-hdr"];
    let program = compile(dir.path(), "cc", "large_leaf.c", &[&options[..], &alone].concat());
    let recorded = recorded(&program, "", &[]);
    let samples = of_leaf(&recorded);
    let truths: [&[&str]; 2] = [&["leaf", "ten", "either", "begin"], &["leaf", "ninety", "either", "begin"]];
    let whole = assert_right_or_marked(&samples, &truths);
    assert!(whole * 100 >= samples.len() * 95, "{whole} of {} stacks are whole", samples.len());
    // The walk alone shows none of the callers, and is marked.
    let walked = Recorded::new(&["-F", "499", "-q", "--unwind", "fp"], &[&program]);
    for sample in of_leaf(&walked) {
        assert!(
            sample.has("ten") || sample.has("ninety") || sample.0["incomplete"] == true,
            "{:?}",
            sample.names("user")
        );
    }
}
