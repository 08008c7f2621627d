//! Calls in JIT code, through real eBPF: nothing proves them, so every wrong stack has the mark of a guess.

use icecore_tests::machine::{Recorded, Sample, made};

fn recorded(how: &str) -> Recorded {
    let command = [made().into_os_string(), how.into(), "1500".into()];
    Recorded::new(&["-F", "499", "-q"], &command)
}

/// Returns the samples whose leaf is a function.
fn in_leaf(recorded: &Recorded, leaf: &str) -> Vec<Sample> {
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| sample.names("user").first() == Some(&leaf));
    assert!(samples.len() > 100, "{leaf}: {}", samples.len());
    samples
}

/// Returns for each frame of user space whether it is a guess.
fn guesses(sample: &Sample) -> Vec<bool> {
    let frames = sample.0["frames"].as_array().expect("a list");
    frames.iter().filter(|frame| frame["side"] == "user").map(|frame| frame["guessed"] == true).collect()
}

fn is_right(sample: &Sample, leaf: &str) -> bool {
    sample.names("user").starts_with(&[leaf, "middle", "outer", "run", "main"])
}

/// Checks that every wrong stack of a leaf has the mark of a guess, and that no call counts as impossible. Returns the number of these
/// stacks, and how many of them are right.
fn right(recorded: &Recorded, leaf: &str) -> (usize, usize) {
    let samples = in_leaf(recorded, leaf);
    let is_marked = |sample: &Sample| is_right(sample, leaf) || guesses(sample).contains(&true);
    assert!(samples.iter().all(is_marked), "{leaf}: what is wrong is marked");
    assert_eq!(recorded.json("health", &[])["impossible"]["impossible"], 0, "{leaf}");
    (samples.len(), samples.iter().filter(|sample| is_right(sample, leaf)).count())
}

#[test]
fn root_frame_pointers_lead_through_made_code_and_its_callers_are_guesses() {
    let recorded = recorded("direct");
    let samples = in_leaf(&recorded, "leaf");
    // The other samples hit where the frame is being made or removed.
    let right = samples.iter().filter(|sample| is_right(sample, "leaf"));
    let right: Vec<Vec<bool>> = right.map(guesses).collect();
    assert!(right.len() * 100 >= samples.len() * 97, "{} of {}", right.len(), samples.len());
    assert!(right.iter().all(|guesses| guesses[..4] == [false, true, true, true]), "{right:?}");
}

#[test]
fn root_an_address_of_made_code_that_is_no_return_address_misleads_only_with_a_mark() {
    for how in ["inside", "first"] {
        let (all, right) = right(&recorded(how), "leaf");
        println!("{how}: {right} of {all} right");
    }
}

#[test]
fn root_code_that_is_replaced_makes_no_call_impossible() {
    let recorded = recorded("replaced");
    let (all, right_now) = right(&recorded, "other");
    assert!(right_now * 100 >= all * 99, "{right_now} of {all}");
    right(&recorded, "leaf");
}
