//! Builds by compilers that distributions ship without frame pointers, recorded as a user would: the whole machine, with
//! defaults. Their stacks reach a root.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use icecore_tests::machine::{Recorded, text};
use serde_json::Value;

/// Only one build at a time uses the machine.
static MACHINE: Mutex<()> = Mutex::new(());

/// Returns true if almost nothing was lost: other programs may leave too little CPU time for the tracker.
fn has_all(recorded: &Recorded) -> bool {
    let lost = recorded.lost();
    let lost: u64 = lost.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
    lost * 100 < recorded.json("summary", &[])["samples"].as_u64().expect("a number")
}

/// Records the machine while a script runs in `dir`. Returns the recording and the share of user stacks that reach a root.
fn build(dir: &Path, script: &str) -> (Recorded, f64) {
    let _alone = MACHINE.lock();
    let script = format!("cd {} && {script}", dir.display());
    let record = || Recorded::new(&["-a", "-F", "999", "-q"], &["sh", "-c", &script]);
    let recorded = Recorded::until(has_all, record);
    assert!(recorded.output.status.success(), "{script}: {}", text(&recorded.output.stderr));
    let health = recorded.json("health", &[]);
    let number = |key: &str| health[key].as_f64().unwrap_or_else(|| panic!("`{key}`: {health}"));
    println!(
        "{script}: {} samples, lost {}; {:.2} % of the user stacks reach a root, {:.2} % were repaired; {:.0} bytes per sample; ends: {}",
        health["samples"],
        health["lost"],
        100.0 * number("rooted_share"),
        100.0 * number("repaired_share"),
        recorded.json("summary", &[])["bytes_per_sample"].as_f64().expect("a number"),
        health["user_ends"],
    );
    assert!(number("samples") > 500.0);
    let rooted = number("rooted_share");
    (recorded, rooted)
}

/// Asserts that a function is at the bottom of nearly all stacks of a program in the flame graph.
fn assert_stands_on(recorded: &Recorded, comm: &str, functions: &[&str]) {
    let tree = recorded.json("tree", &["--comm", comm, "--user", "--max-depth", "3"]);
    let mut frames: Vec<&Value> = vec![&tree];
    let mut share = 0.0;
    while let Some(frame) = frames.pop() {
        if frame["name"].as_str().is_some_and(|name| functions.contains(&name)) {
            share += frame["total_share"].as_f64().expect("a share");
        } else {
            frames.extend(frame["children"].as_array().into_iter().flatten());
        }
    }
    println!("{comm}: {:.2} % of the time is above one of {functions:?}", share * 100.0);
    assert!(share > 0.95, "{comm}: {share}");
}

#[test]
fn root_a_build_by_gcc_has_whole_stacks() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (mut c, mut cpp) =
        (String::new(), String::from("#include <algorithm>\n#include <map>\n#include <string>\n"));
    for i in 0..400 {
        writeln!(
            c,
            "int f{i}(int n, int *v) {{ for (int i = 0; i < n; i++) v[i] += v[i ^ {i}] * n; return v[n]; }}"
        )
        .expect("memory");
    }
    for i in 0..12 {
        writeln!(cpp, "struct S{i} {{ int v; bool operator<(const S{i} &o) const {{ return v < o.v; }} }};\n\
            int g{i}(std::map<S{i}, std::string> &m) {{ m[S{i}{{1}}] += \"x\"; return std::count_if(m.begin(), m.end(), \
            [](auto &e) {{ return e.second.size() > {i}; }}); }}").expect("memory");
    }
    std::fs::write(dir.path().join("x.c"), c).expect("room");
    std::fs::write(dir.path().join("y.cpp"), cpp).expect("room");
    let (recorded, rooted) =
        build(dir.path(), "gcc -O2 -fPIC -c x.c && g++ -O2 -fPIC -c y.cpp && g++ -shared x.o y.o -o x.so");
    assert!(rooted > 0.95, "{rooted}");
    assert_stands_on(&recorded, "cc1plus", &["main", "_start", "__libc_start_main"]);
}

#[test]
fn root_a_build_by_rustc_has_whole_stacks() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut source = String::from("use std::collections::BTreeMap;\n");
    for i in 0..2000 {
        writeln!(
            source,
            "pub fn f{i}(v: &mut Vec<(u{bits}, String)>) -> BTreeMap<u{bits}, String> {{ v.sort(); v.iter()\
            .filter(|x| x.0 > {least}).map(|x| (x.0, format!(\"{{x:?}}{i}\"))).collect() }}",
            bits = [8, 16, 32, 64][i % 4],
            least = i % 200
        )
        .expect("memory");
    }
    std::fs::write(dir.path().join("x.rs"), source).expect("room");
    let (recorded, rooted) = build(dir.path(), "rustc -O --crate-type=cdylib x.rs");
    assert!(rooted > 0.95, "{rooted}");
    // The shell itself, and everything that it starts.
    assert_stands_on(&recorded, "rustc", &["main", "_start", "__libc_start_main", "clone3", "__clone3"]);
}
