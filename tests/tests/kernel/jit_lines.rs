//! Tests source lines of JIT code, from the jitdump files of its programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use icecore_tests::machine::{Recorded, Sample, jit, needs, report};
use serde_json::Value;

const OPTIONS: [&str; 3] = ["-F", "997", "-q"];

/// Returns how often each line occurs in frames of JIT code whose function has such a name; `None` stands for a missing line.
fn lines(samples: &[Sample], function: &str) -> BTreeMap<Option<(String, u64)>, usize> {
    let frames = samples.iter().flat_map(|sample| sample.0["frames"].as_array().expect("a list"));
    let is_it = |frame: &&Value| {
        frame["image"] == "[jit]" && frame["name"].as_str().is_some_and(|name| name.contains(function))
    };
    let mut lines = BTreeMap::new();
    for frame in frames.filter(is_it) {
        let line = frame["file"].as_str().zip(frame["line"].as_u64());
        *lines.entry(line.map(|(file, line)| (file.to_owned(), line))).or_default() += 1;
    }
    lines
}

/// Records `tests/programs/jit.c`, which spends its time in two loops; one of them is in two places.
fn recorded(folder: &Path) -> Recorded {
    let script = format!("cd '{}' && exec '{}' dump 1200", folder.display(), jit().display());
    Recorded::new(&OPTIONS, &["sh", "-c", &script])
}

#[test]
fn root_code_has_the_lines_of_its_jitdump_where_it_was_made_and_where_it_moved() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let samples = recorded(folder.path()).samples(&[]);
    for (function, file, first, least) in
        [("first", "/src/first.x", 10, 100), ("second", "/src/second.x", 20, 50)]
    {
        let lines = lines(&samples, function);
        let of = |line: u64| lines.get(&Some((file.to_owned(), line))).copied().unwrap_or(0);
        let all: usize = lines.values().sum();
        // The first line belongs to the few instructions before the loop.
        assert!(of(first + 1) > least && of(first + 1) * 100 >= all * 95, "{lines:?}");
        assert_eq!(of(first) + of(first + 1), all, "{lines:?}");
    }
}

#[test]
fn root_lines_of_made_code_are_ranked_and_go_into_a_part_of_the_recording() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let recorded = recorded(folder.path());
    let (file, part) = (recorded.path(), folder.path().join("part.icecore"));
    report(&[
        "cut".as_ref(),
        file.as_os_str(),
        "--comm".as_ref(),
        "jit".as_ref(),
        "-o".as_ref(),
        part.as_os_str(),
    ]);
    report(&["verify".as_ref(), part.as_os_str()]);
    for path in [&file, &part] {
        let options = ["--by", "line", "-n", "2", "--json"].map(AsRef::as_ref);
        let top = report(&[&["top".as_ref(), path.as_os_str()][..], &options].concat());
        let top: Value = serde_json::from_str(&top).expect("JSON");
        let rows = top["rows"].as_array().expect("a list").iter();
        let places: BTreeSet<_> = rows.map(|row| (row["file"].as_str(), row["line"].as_u64())).collect();
        let expected = [(Some("/src/first.x"), Some(11)), (Some("/src/second.x"), Some(21))];
        assert_eq!(places, BTreeSet::from(expected));
    }
}

/// Calls functions of node itself: V8 reports wrong files for other scripts.
const JAVASCRIPT: &str = "const path = require('path');
while (process.cpuUsage().user < 1200000)
    for (let i = 0; i < 20000; i++) path.normalize('/a/b/../c/./d//e');
";

#[test]
fn root_functions_of_node_have_the_lines_of_its_jitdump() {
    needs("node", &["--version"]);
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    std::fs::write(folder.path().join("work.js"), JAVASCRIPT).expect("room");
    let node = "exec node --perf-prof --no-turbo-inlining work.js";
    let run = format!("cd '{}' && {node}", folder.path().display());
    let samples = Recorded::new(&OPTIONS, &["sh", "-c", &run]).samples(&["--native"]);
    // A name contains file, line and column of the function: `JS:*normalizeString node:path:94:25`.
    let name =
        samples.iter().flat_map(|sample| sample.names("user")).find(|name| name.contains("normalizeString "));
    let begin = name
        .and_then(|name| name.rsplit(':').nth(1)?.parse().ok())
        .unwrap_or_else(|| panic!("its first line: {name:?}"));
    let lines = lines(&samples, "normalizeString ");
    let all: usize = lines.values().sum();
    let inside = |(at, _): &(&Option<(String, u64)>, &usize)| {
        at.as_ref().is_some_and(|(file, line)| file == "node:path" && (begin..begin + 90).contains(line))
    };
    let told: usize = lines.iter().filter(inside).map(|(_, count)| count).sum();
    assert!(all > 100 && told * 10 > all * 9 && lines.len() > 4, "{told} of {all}: {lines:?}");
}
