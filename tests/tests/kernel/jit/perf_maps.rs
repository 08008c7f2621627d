//! Tests perf maps of processes that are gone, and of their children.

use std::collections::{BTreeMap, BTreeSet};

use icecore_tests::machine::{Recorded, Sample, jit, report};
use serde_json::Value;

use super::{OPTIONS, assert_named, leaves, names, recorded};

#[test]
fn root_code_at_an_address_that_had_other_code_before_has_both_names() {
    // Nothing shows when the one became the other: neither name is a fact.
    let names = names(&recorded("reused").samples(&[]));
    assert!(names.len() == 1 && names.get("alpha or gamma").is_some_and(|count| *count > 40), "{names:?}");
}

#[test]
fn root_code_in_a_perf_map_is_named_when_the_process_and_the_map_are_gone() {
    let program = jit();
    let script = format!("'{}' map 900; sleep 0.3", program.display());
    let recorded = Recorded::new(&OPTIONS, &["sh", "-c", &script]);
    let samples = recorded.samples(&[]);
    assert_named(&names(&samples), &["alpha", "beta /x y.js:1:2"]);
    for leaf in leaves(&samples) {
        assert_eq!((&leaf["image"], &leaf["offset"]), (&Value::from("[jit]"), &Value::Null), "{leaf}");
    }
    let made_by = samples.iter().filter(|sample| sample.has("alpha"));
    assert!(
        made_by.clone().all(|sample| sample.names("user").contains(&"run")),
        "callers of JIT code are named"
    );
    let images = recorded.json("top", &["--by", "image"]);
    let rows = images["rows"].as_array().expect("a list");
    assert!(
        rows.iter().any(|row| row["image"] == "[jit]" && row["self_share"].as_f64() > Some(0.5)),
        "{images}"
    );
    assert!(recorded.json("info", &[])["jit"].as_u64().is_some_and(|rows| rows == 2));
    report(&["verify".as_ref(), recorded.path().as_os_str()]);
}

#[test]
fn root_a_map_that_comes_late_or_is_replaced_counts_as_it_is_in_the_end() {
    for how in ["late", "replaced"] {
        let program = jit();
        let command = [program.as_os_str(), how.as_ref(), "2600".as_ref()];
        // The recorder looks at a changed map within a second: on a busy machine the program may be gone by then.
        let is_named = |recorded: &Recorded| names(&recorded.samples(&[])).len() == 2;
        let recorded = Recorded::until(is_named, || Recorded::new(&OPTIONS, &command));
        assert_named(&names(&recorded.samples(&[])), &["alpha", "beta /x y.js:1:2"]);
    }
}

#[test]
fn root_memory_that_is_mapped_twice_is_named() {
    assert_named(&names(&recorded("memfd").samples(&[])), &["alpha", "beta /x y.js:1:2"]);
}

#[test]
fn root_a_child_runs_code_under_the_names_that_its_parent_gave_it() {
    // On a busy machine the parent may be gone before the recorder has looked at its map.
    let is_named = |recorded: &Recorded| names(&recorded.samples(&[])).contains_key("alpha");
    assert_named(&names(&Recorded::until(is_named, || recorded("forked")).samples(&[])), &["alpha"]);
}

/// Returns how many samples have a function on their stack, and how often its caller is JIT code of each name; unnamed code under
/// its reason, in brackets.
fn callers(samples: &[Sample], function: &str) -> (usize, BTreeMap<String, usize>) {
    let (mut all, mut callers) = (0, BTreeMap::new());
    for sample in samples.iter().filter(|sample| sample.has(function)) {
        all += 1;
        let frames = sample.0["frames"].as_array().expect("a list");
        let at = frames.iter().position(|frame| frame["name"] == function).expect("it has it");
        let Some(caller) = frames.get(at + 1) else { continue };
        let name = match (&caller["name"], &caller["reason"]) {
            (Value::String(name), Value::Null) => name.clone(),
            (_, reason) => format!("[{}]", reason.as_str().unwrap_or("?")),
        };
        *callers.entry(name).or_default() += 1;
    }
    (all, callers)
}

#[test]
fn root_jit_code_that_only_unwinding_finds_is_named() {
    let recorded = recorded("called");
    let samples = recorded.samples(&[]);
    // The functions run in the process that made the code, and in its child.
    let processes: BTreeSet<u64> = samples.iter().map(|sample| sample.number("tgid")).collect();
    let mut found = 0;
    for tgid in processes {
        let own = recorded.samples(&["--pid", &tgid.to_string()]);
        let (all, callers) = callers(&own, "numbers");
        if all > 20 {
            found += 1;
            // The recorder may have skipped or shortened a copy.
            assert!(callers.get("alpha").copied().unwrap_or(0) * 10 > all * 9, "{all}: {callers:?}");
            assert!(callers.keys().all(|name| name == "alpha"), "{all}: {callers:?}");
        }
    }
    assert_eq!(found, 2);
}

#[test]
fn root_two_processes_with_code_at_one_address_have_their_own_names() {
    let program = jit();
    let script = format!("'{0}' map 900 one- & '{0}' map 900 two- & wait", program.display());
    let recorded = Recorded::new(&OPTIONS, &["sh", "-c", &script]);
    let samples = recorded.samples(&[]);
    let processes: BTreeSet<u64> = samples.iter().map(|sample| sample.number("tgid")).collect();
    let of = |tgid: u64| names(&recorded.samples(&["--pid", &tgid.to_string()]));
    let named: Vec<_> = processes.into_iter().map(of).filter(|names| !names.is_empty()).collect();
    assert_eq!(named.len(), 2, "{named:?}");
    for prefix in ["one-", "two-"] {
        let own = named.iter().find(|names| names.keys().any(|name| name.starts_with(prefix)));
        let expected = [format!("{prefix}alpha"), format!("{prefix}beta /x y.js:1:2")];
        assert_named(own.expect("it is named"), &expected.each_ref().map(String::as_str));
    }
}

#[test]
fn root_no_names_of_jit_code_are_stored_with_embed_none() {
    let program = jit();
    let command = [program.as_os_str(), "map".as_ref(), "400".as_ref()];
    let recorded = Recorded::new(&[&OPTIONS[..], &["--embed", "none"]].concat(), &command);
    assert_eq!(recorded.json("info", &[])["jit"], 0);
    let names = names(&recorded.samples(&[]));
    assert!(names.len() == 1 && names["[jit]"] > 50, "{names:?}");
}
