//! Tests change points: programs with known phases, recorded through real eBPF.

use icecore_tests::machine::Recorded;
use serde_json::Value;

/// Shows functions with their callees, only in the program itself: the kernel's share depends on other programs.
const OPTIONS: [&str; 7] = ["--by", "function", "--sort", "total", "-n", "0", "--user"];

/// Returns the changes of functions of the target program.
fn changes(recorded: &Recorded, focus: &str) -> Vec<Value> {
    let timeline = recorded.json("timeline", &[&OPTIONS[..], &["--focus", focus]].concat());
    let is_own = |row: &&Value| row["image"].as_str().is_some_and(|image| image.ends_with("/target"));
    let changes = timeline["changes"].as_array().expect("a list");
    changes.iter().filter(is_own).cloned().collect()
}

#[test]
fn root_a_phase_begins_when_it_does_and_takes_what_it_does() {
    let recorded = Recorded::target(&["-F", "997"], "phases", 6000);
    // The program counts its CPU time, so the moment depends on other programs: the samples show it.
    let first = recorded.samples(&["--focus", "^only_later$"])[0].number("time_ns") as f64 / 1e9;
    let changes = changes(&recorded, "^phases$");
    let near = |row: &Value, key: &str, value: f64, by: f64| {
        assert!(
            row[key].as_f64().is_some_and(|found| (found - value).abs() <= by),
            "{key} is {value}: {row:#}"
        );
    };
    for (name, before, after) in [("always", 1.0, 0.7), ("only_later", 0.0, 0.3)] {
        let size = |row: &&Value| {
            let number = |key: &str| row[key].as_f64().unwrap_or_default();
            ((number("after") - number("before")).abs() * 1e6) as u64
        };
        let largest = changes.iter().filter(|row| row["name"] == name).max_by_key(size);
        let row = largest.unwrap_or_else(|| panic!("{name}: {changes:#?}"));
        near(row, "time_s", first, 0.2);
        near(row, "before", before, 0.02);
        near(row, "after", after, 0.06);
        assert_eq!(row["measure"], "share");
    }
    // One recording in twenty may show another change by chance, which ends as well.
    assert!(changes.len() <= 4, "{changes:#?}");
}

#[test]
fn root_a_steady_program_has_no_change() {
    let found: Vec<Vec<Value>> = (0..3)
        .map(|_| changes(&Recorded::target(&["-F", "997"], "shares", 3000), "^shares$"))
        .filter(|changes| !changes.is_empty())
        .collect();
    // One recording in twenty may show a change by chance: two of three come once in 140 times.
    assert!(found.len() < 2, "{found:#?}");
}
