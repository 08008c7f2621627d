//! JIT code that keeps no frame pointers: its callers are right, or marked as guesses in every view.

use icecore_tests::machine::{Recorded, Sample, unframed};
use serde_json::Value;

/// The frames from the leaf to `main`.
const CHAIN: [&str; 4] = ["jit_inner", "jit_outer", "enter", "main"];

fn recorded(how: &str) -> Recorded {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let script = format!("cd '{}' && exec '{}' {how} 1200", folder.path().display(), unframed().display());
    Recorded::new(&["-F", "499", "-q"], &["sh", "-c", &script])
}

/// Returns the samples whose leaf is the inner piece.
fn in_inner(recorded: &Recorded) -> Vec<Sample> {
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| sample.names("user").first() == Some(&CHAIN[0]));
    assert!(samples.len() > 300, "{}", samples.len());
    samples
}

fn share_of(samples: &[Sample], which: impl Fn(&Sample) -> bool) -> f64 {
    samples.iter().filter(|sample| which(sample)).count() as f64 / samples.len() as f64
}

fn is_guessed(sample: &Sample) -> bool {
    sample.0["frames"].as_array().expect("a list").iter().any(|frame| frame["guessed"] == true)
}

/// Finds the nodes of a function in a tree.
fn nodes<'t>(tree: &'t Value, name: &str) -> Vec<&'t Value> {
    let own = (tree["name"] == name).then_some(tree);
    let children = tree["children"].as_array().expect("a list").iter();
    own.into_iter().chain(children.flat_map(|child| nodes(child, name))).collect()
}

#[test]
fn root_a_leaf_that_has_pushed_a_register_does_not_skip_its_caller() {
    for how in ["map", "dump"] {
        let recorded = recorded(how);
        let samples = in_inner(&recorded);
        let with_caller = share_of(&samples, |sample| sample.names("user").starts_with(&CHAIN[..2]));
        assert!(with_caller > 0.97, "{how}: {with_caller}");
        // A stack holds no frame that is not there, unless it has the mark.
        let is_right = |sample: &Sample| CHAIN.starts_with(&sample.names("user")) || is_guessed(sample);
        assert!(samples.iter().all(is_right), "{how}");
    }
}

#[test]
fn root_unwind_tables_of_a_jitdump_lead_through_its_code() {
    for how in ["rules", "far"] {
        let recorded = recorded(how);
        let samples = in_inner(&recorded);
        let leaf = |sample: &Sample| {
            let frames = sample.0["frames"].as_array()?.iter();
            frames.filter(|frame| frame["side"] == "user").find_map(|frame| frame["address"].as_u64())
        };
        let is_right = |sample: &Sample| sample.names("user").starts_with(&CHAIN) && !is_guessed(sample);
        let right = share_of(&samples, is_right);
        assert!(right > 0.99, "{how}: {right}");
        assert!(recorded.json("health", &[])["rooted_share"].as_f64() > Some(0.98), "{how}");
        let addresses: std::collections::BTreeSet<u64> =
            samples.iter().filter_map(leaf).map(|address| address & !0xff).collect();
        assert_eq!(addresses.len(), if how == "far" { 2 } else { 1 }, "{addresses:x?}");
    }
}

#[test]
fn root_unwind_tables_that_a_program_registered_lead_through_its_code() {
    let with_names = recorded("named");
    let samples = in_inner(&with_names);
    let right = share_of(&samples, |sample| sample.names("user").starts_with(&CHAIN) && !is_guessed(sample));
    assert!(right > 0.99, "{right}");
    // Nobody tells the names of this code.
    let nameless = recorded("frames");
    let mut samples = nameless.samples(&[]);
    samples.retain(|sample| sample.has("enter"));
    assert!(samples.len() > 300, "{}", samples.len());
    let in_code = share_of(&samples, |sample| {
        let frames = sample.0["frames"].as_array().expect("a list").iter();
        let user = frames.filter(|frame| frame["side"] == "user");
        let names: Vec<&Value> = user
            .map(|frame| if frame["name"].is_null() { &frame["reason"] } else { &frame["name"] })
            .collect();
        names.starts_with(&[&"jit".into(), &"jit".into(), &"enter".into(), &"main".into()])
            && !is_guessed(sample)
    });
    assert!(in_code > 0.98, "{in_code}");
    for recorded in [&with_names, &nameless] {
        let health = recorded.json("health", &[]);
        assert!(
            health["rooted_share"].as_f64() > Some(0.98) && health["guessed_share"].as_f64() < Some(0.01),
            "{health:#}"
        );
    }
}

#[test]
fn root_every_view_marks_or_counts_guesses() {
    let recorded = recorded("map");
    let guessed = share_of(&recorded.samples(&[]), is_guessed);
    assert!(guessed > 0.9, "{guessed}");
    for view in ["tree", "top"] {
        let path = recorded.path();
        let text = icecore_tests::machine::report(&[view.as_ref(), path.as_os_str()]);
        assert!(text.contains("in stacks with a guessed caller"), "{text}");
    }
    for options in [&[][..], &["--callers"]] {
        let tree = recorded.json("tree", options);
        let outer = nodes(&tree, "jit_outer");
        assert!(!outer.is_empty() && outer.iter().all(|node| node["guessed_share"] == 1.0), "{tree}");
        assert!(nodes(&tree, "jit_inner").iter().all(|node| node.get("guessed_share").is_none()), "{tree}");
    }
    let share = recorded.json("top", &[])["guessed_share"].as_f64().expect("a number");
    assert!((share - guessed).abs() < 0.02, "{share} {guessed}");
    let stacks = recorded.json("folded", &[]);
    let stacks = stacks["stacks"].as_array().expect("a list").iter();
    let frames: Vec<&str> =
        stacks.filter_map(|stack| stack["frames"].as_array()).flatten().filter_map(Value::as_str).collect();
    assert!(frames.contains(&"jit_outer_[?]") && !frames.contains(&"jit_outer"), "{frames:?}");
    assert_eq!(recorded.json("folded", &["--no-annotations"]).to_string().matches("_[?]").count(), 0);
    let graph = icecore_tests::machine::report(&[
        "flame".as_ref(),
        recorded.path().as_os_str(),
        "-o".as_ref(),
        "-".as_ref(),
    ]);
    assert!(graph.contains("jit_outer_[?]") && graph.contains("with a guessed caller"));
}
