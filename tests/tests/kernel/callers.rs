//! Shares of known callers, through real eBPF: the caller lies far outside of the part of the stack that changes between samples.

use std::ffi::OsStr;
use std::path::Path;

use icecore_tests::machine::{Recorded, Sample, callers, callers_with_frames};

/// The rate gives two thousand samples, enough for the shares.
const OPTIONS: [&str; 3] = ["-F", "1999", "-q"];

/// Records a part of `tests/programs/callers.c` for a second; returns its samples in user space below `main`.
fn recorded(program: &Path, name: &str, options: &[&str]) -> Vec<Sample> {
    let options = [&OPTIONS[..], options].concat();
    // Without randomization, a program that is executed again has the same stack pointers.
    let command =
        ["setarch".as_ref(), "-R".as_ref(), program.as_os_str(), OsStr::new(name), OsStr::new("1000")];
    let recorded = Recorded::without_loss(&options, &command);
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| sample.has("spin"));
    assert!(samples.len() > 300, "{name}: {} samples", samples.len());
    samples
}

/// Returns the shares of samples below each of these functions; every other stack must be marked as incomplete.
fn shares<const N: usize>(samples: &[Sample], callers: [&str; N]) -> [f64; N] {
    let known: Vec<&Sample> =
        samples.iter().filter(|sample| callers.iter().any(|caller| sample.has(caller))).collect();
    for sample in samples.iter().filter(|sample| !callers.iter().any(|caller| sample.has(caller))) {
        assert_ne!(sample.text("ended"), "root", "{:?}", sample.names("user"));
        assert!(!sample.is_unwound(), "{:?}", sample.names("user"));
    }
    println!("{callers:?}: {} of {} stacks have their caller", known.len(), samples.len());
    assert!(known.len() * 100 >= samples.len() * 95, "{} of {}", known.len(), samples.len());
    callers.map(|caller| known.iter().filter(|sample| sample.has(caller)).count() as f64 / known.len() as f64)
}

fn assert_near(found: &[f64], truth: &[f64]) {
    println!("{found:.3?}, true are {truth:?}");
    let is_near = found.iter().zip(truth).all(|(found, truth)| (found - truth).abs() < 0.06);
    assert!(is_near, "{found:?}, true are {truth:?}");
}

#[test]
fn root_callers_outside_of_a_large_buffer_have_their_own_time() {
    for program in [callers(), callers_with_frames()] {
        for options in [&[][..], &["--unwind", "copy"], &["--unwind", "dwarf"]] {
            let samples = recorded(&program, "buffer", options);
            assert_near(&shares(&samples, ["ten", "thirty", "sixty"]), &[0.1, 0.3, 0.6]);
        }
    }
}

#[test]
fn root_callers_outside_of_deep_recursion_have_their_own_time() {
    for unwind in ["auto", "copy"] {
        let samples = recorded(&callers(), "recursion", &["--unwind", unwind]);
        assert_near(&shares(&samples, ["left", "right"]), &[0.25, 0.75]);
    }
}

#[test]
fn root_callers_before_an_exec_do_not_show_behind_it() {
    let samples = recorded(&callers(), "exec", &[]);
    assert_near(&shares(&samples, ["before", "after"]), &[0.5, 0.5]);
    let changes = samples.windows(2).filter(|pair| pair[0].has("after") != pair[1].has("after")).count();
    assert_eq!(changes, 1, "all of `before` comes before all of `after`");
}
