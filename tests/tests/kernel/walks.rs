//! Stacks that the sampler walks by unwind tables, through real eBPF: each is the one that the program has by construction.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use icecore_tests::machine::{
    Recorded, Sample, callers, profiled, replaced, replaced_second, skips, stacks_without_frames, swapped,
    swapped_large, swapped_small, vforks,
};
use serde_json::Value;

const OPTIONS: [&str; 3] = ["-q", "--audit", "8"];

/// Records a command; returns its samples below `main` that were walked by tables. On a busy machine the sampler has these late.
fn walked(command: &[&str]) -> (Recorded, Vec<Sample>) {
    let (recorded, samples) = walked_at("1999", command);
    assert_agree(&recorded, 30);
    (recorded, samples)
}

/// The same with so many samples per second, and without a look at the copies.
fn walked_at(rate: &str, command: &[&str]) -> (Recorded, Vec<Sample>) {
    let recorded = Recorded::new(&[&OPTIONS[..], &["-F", rate]].concat(), command);
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| sample.has("main"));
    let all = samples.len();
    samples.retain(|sample| sample.text("ended") == "by_tables");
    println!("{command:?}: {} of {all} stacks were walked by tables", samples.len());
    assert!(samples.len() > 300 && samples.len() * 2 > all, "{} of {all}", samples.len());
    (recorded, samples)
}

/// Asserts that so many walks, or more, were checked against copies, and that all agree.
fn assert_agree(recorded: &Recorded, least: u64) {
    let health = recorded.json("health", &[]);
    let audit = &health["audit"];
    let number = |key: &str| audit[key].as_u64().unwrap_or_else(|| panic!("{key}: {audit}"));
    println!("{audit}");
    assert!(number("checked") >= least && number("agree") == number("checked"), "{audit:#}");
    assert_eq!(number("differ"), 0, "{audit:#}");
    assert!(audit["disagreements"].as_array().is_some_and(Vec::is_empty), "{audit:#}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of this test")
}

/// Returns how many samples have a function, of all.
fn share(samples: &[Sample], function: &str) -> f64 {
    samples.iter().filter(|sample| sample.has(function)).count() as f64 / samples.len() as f64
}

#[test]
fn root_recursion_of_4000_frames_is_walked_to_its_caller() {
    let (recorded, mut samples) = walked_at("299", &[text(&callers()), "deepest", "2500"]);
    assert_agree(&recorded, 30);
    samples.retain(|sample| sample.names("user").first() == Some(&"spin"));
    assert!(samples.len() > 300, "{}", samples.len());
    for sample in &samples {
        let names = sample.names("user");
        let (deep, outer) = (&names[1..4001], &names[4001..]);
        assert!(deep.iter().all(|name| *name == "deep"), "{names:?}");
        let is_begun = matches!(outer, ["far_left" | "far_right", "main", .., "_start"]) && outer.len() == 5;
        assert!(is_begun, "{outer:?}");
    }
    let right = share(&samples, "far_right");
    assert!((right - 0.75).abs() < 0.06, "{right}");
}

#[test]
fn root_callers_far_outside_are_exact() {
    let (_, samples) = walked(&[text(&callers()), "buffer", "1500"]);
    for sample in samples.iter().filter(|sample| sample.names("user").first() == Some(&"spin")) {
        let names = sample.names("user");
        let is_one =
            matches!(names[..], ["spin", "work", "ten" | "thirty" | "sixty", "main", _, _, "_start"]);
        assert!(is_one, "{names:?}");
    }
    for (function, truth) in [("ten", 0.1), ("thirty", 0.3), ("sixty", 0.6)] {
        let found = share(&samples, function);
        assert!((found - truth).abs() < 0.06, "{function}: {found}, true is {truth}");
    }
}

#[test]
fn root_callers_of_functions_with_frames_of_megabytes_are_exact() {
    let (_, mut samples) = walked(&[text(&callers()), "broad", "1500"]);
    samples.retain(|sample| sample.names("user").first() == Some(&"spin"));
    for sample in &samples {
        let names = sample.names("user");
        assert!(matches!(names[..], ["spin", "broad" | "broader", "main", _, _, "_start"]), "{names:?}");
    }
    for function in ["broad", "broader"] {
        let found = share(&samples, function);
        assert!((found - 0.5).abs() < 0.06, "{function}: {found}");
    }
}

#[test]
fn root_libraries_that_take_turns_at_one_address_have_their_own_tables() {
    let (program, small, large) = (swapped(), swapped_small(), swapped_large());
    let (_, mut samples) = walked(&[text(&program), text(&small), text(&large), "1500"]);
    samples.retain(|sample| sample.names("user").first() == Some(&"spin"));
    for sample in &samples {
        let names = sample.names("user");
        let is_one = matches!(names[..], ["spin", "work", "small" | "large", "turn", "main", _, _, "_start"]);
        assert!(is_one, "{names:?}");
    }
    let found = share(&samples, "small");
    assert!((found - 0.25).abs() < 0.06, "{found}");
}

#[test]
fn root_a_library_that_is_overwritten_in_its_place_has_new_tables() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let place = dir.path().join("library.so");
    // Both have the same size.
    for (name, library) in [("first", swapped_large()), ("second", swapped_small())] {
        let mut bytes = std::fs::read(library).expect("it was compiled");
        bytes.resize(64 << 10, 0);
        std::fs::write(dir.path().join(name), bytes).expect("room");
    }
    let (program, dir, place) = (swapped(), text(dir.path()), text(&place));
    let program = text(&program);
    let run = format!(
        "cp {dir}/first {place}; {program} {place} large 800; cat {dir}/second > {place}; {program} {place} small 800"
    );
    let (_, mut samples) = walked(&["sh", "-c", &run]);
    samples.retain(|sample| sample.names("user").first() == Some(&"spin"));
    for sample in &samples {
        let names = sample.names("user");
        // Of the first one no names are left.
        let is_one = matches!(names[..], ["spin", "work", "small" | "", "turn", "main", _, _, "_start"]);
        assert!(is_one, "{names:?}");
    }
    let found = share(&samples, "small");
    assert!((found - 0.5).abs() < 0.15, "{found}");
}

#[test]
fn root_a_library_that_is_overwritten_while_it_is_called_is_not_walked_by_what_it_was() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let place = dir.path().join("library.so");
    let (program, small, large) = (swapped(), swapped_small(), swapped_large());
    let (_, mut samples) =
        walked_at("1999", &[text(&program), text(&small), text(&large), "3000", text(&place)]);
    samples.retain(|sample| sample.names("user").first() == Some(&"spin"));
    for sample in &samples {
        let names = sample.names("user");
        // No names are left of the library.
        let is_one = matches!(names[..], ["spin", "work", "", "overwritten", "main", _, _, "_start"]);
        assert!(is_one, "{names:?}");
    }
    let frames = samples.iter().filter_map(|sample| sample.0["frames"].as_array()).flatten();
    let unnamed = frames.filter(|frame| frame["name"].is_null());
    let places: std::collections::BTreeSet<_> = unnamed.map(|frame| frame["offset"].as_u64()).collect();
    assert_eq!(places.len(), 2, "both functions were walked: {places:?}");
}

#[test]
fn root_what_a_signal_interrupted_is_in_the_walk() {
    for scenario in ["handler", "alternate"] {
        let (_, mut samples) = walked(&[text(&stacks_without_frames()), scenario, "1000"]);
        samples.retain(|sample| sample.names("user").first() == Some(&"leaf"));
        assert!(samples.len() > 200, "{}", samples.len());
        for sample in &samples {
            let names = sample.names("user");
            assert!(names.contains(&"handler") && names.last() == Some(&"_start"), "{names:?}");
        }
    }
}

#[test]
fn root_functions_that_count_their_calls_are_walked() {
    let dir = tempfile::tempdir().expect("a folder for what the program writes");
    let run = format!("cd {} && exec {} 1500", text(dir.path()), text(&profiled()));
    let (_, mut samples) = walked(&["sh", "-c", &run]);
    samples.retain(|sample| sample.has("mcount"));
    assert!(samples.len() > 300, "{}", samples.len());
    for sample in &samples {
        let names = sample.names("user");
        let count = names.iter().position(|name| *name == "mcount").unwrap_or_default();
        let ["mcount", called @ .., _, _, "_start"] = &names[count..] else { panic!("{names:?}") };
        assert!(matches!(called, ["leaf", "calls_leaf", "main"] | ["calls_leaf", "main"]), "{names:?}");
    }
}

#[test]
fn root_a_frame_pointer_in_the_red_zone_is_that_of_the_caller() {
    // A copy begins at the stack pointer, so it checks none of these walks.
    let (recorded, mut samples) = walked_at("1999", &[text(&skips()), "red_zone"]);
    assert_agree(&recorded, 0);
    samples.retain(|sample| sample.names("user").first() == Some(&"in_red_zone"));
    assert!(samples.len() > 300, "{}", samples.len());
    for sample in &samples {
        let names = sample.names("user");
        let is_whole =
            matches!(names[..], ["in_red_zone", "inner_frame", "outer_frame", "main", _, _, "_start"]);
        assert!(is_whole, "{names:?}");
    }
}

/// The compiler that builds this: 350 MB of code whose unwind tables have 2.4 million rows.
#[test]
fn root_a_child_of_vfork_has_no_stack_when_its_parent_goes_on() {
    let recorded = Recorded::new(&["-q", "-F", "9997"], &[text(&vforks()), "1000"]);
    // Without the code, which refutes a caller that does not call.
    let elsewhere = tempfile::tempdir().expect("a folder for temporary files");
    let samples = recorded.samples(&["--sysroot", text(elsewhere.path())]);
    let executes = |sample: &&Sample| sample.names("user").first() == Some(&"execve");
    let executing: Vec<&Sample> = samples.iter().filter(executes).collect();
    let wrong: Vec<_> = executing.iter().filter(|sample| sample.has("reuses")).collect();
    let whole = executing.iter().filter(|sample| sample.has("executes") && sample.has("main")).count();
    // The kernel lets the parent go on in `mm_release`.
    let given_back = |sample: &&&Sample| {
        sample.text("ended") == "unreadable" && sample.names("kernel").contains(&"begin_new_exec")
    };
    let given_back = executing.iter().filter(given_back).count();
    println!("{} samples in execve, {whole} are whole, {given_back} have no stack", executing.len());
    assert!(wrong.is_empty() && whole > 20 && given_back > 20, "{wrong:?}");
}

#[test]
fn root_a_program_that_begins_is_not_named_as_the_caller_of_its_own_begin() {
    let (first, second) = (replaced(), replaced_second());
    let recorded = Recorded::new(&["-q", "-F", "9997"], &[text(&first), "1000", text(&second)]);
    let samples = recorded.samples(&[]);
    let executing: Vec<&Sample> =
        samples.iter().filter(|sample| sample.names("kernel").contains(&"bprm_execve")).collect();
    let of = |function: &str| executing.iter().filter(|sample| sample.has(function)).count();
    let without = executing.iter().filter(|sample| sample.names("user").is_empty()).count();
    let (wrong, whole) = (of("second"), of("main"));
    println!(
        "{} samples in execve, {whole} are whole, {without} have no user side, {wrong} are wrong",
        executing.len()
    );
    // In the last steps nothing says that the registers are still those of the old program.
    assert!(wrong * 50 < executing.len() && whole > 20 && without > 20, "{wrong} of {}", executing.len());
}

#[test]
fn root_a_large_compiler_is_walked_and_agrees_with_its_copies() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let source = dir.path().join("shapes.rs");
    let functions = (0..400).map(|n| {
        format!("pub fn f{n}(v: &mut Vec<(u64, String)>) {{ v.sort(); v.dedup_by_key(|x| x.0 % {n}_1); }}\n")
    });
    std::fs::write(&source, functions.collect::<String>()).expect("room");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = Command::new(&rustc).args(["--print", "sysroot"]).output().expect("a Rust compiler");
    let sysroot = String::from_utf8(sysroot.stdout).expect("a path");
    let compiler = format!("{}/bin/rustc", sysroot.trim());
    let object = dir.path().join("shapes.rlib");
    let command =
        [&compiler, "-O", "--crate-type", "lib", "-o", text(&object), text(&source)].map(str::to_owned);
    let (cache, options) = (dir.path().join("cache"), ["-F", "999", "-q", "--audit", "4"]);
    let record = |options: &[&str]| Recorded::with(("XDG_CACHE_HOME", text(&cache)), options, &command);
    let recorded = record(&options);
    assert_whole(&recorded);

    // The next recording has the tables at once. It renews the time of what it uses.
    let files = std::fs::read_dir(cache.join("icecore-record")).expect("tables that took long are kept");
    let files = files.map(|entry| entry.expect("a file").path());
    let largest = files.max_by_key(|path| path.metadata().expect("a file").len()).expect("one at least");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(&largest).and_then(|file| file.set_modified(long_ago)).expect("own");
    let is_used = || largest.metadata().and_then(|meta| meta.modified()).expect("it is there") > long_ago;
    record(&[&options[..], &["--no-cache"]].concat());
    assert!(!is_used());
    assert_whole(&record(&options));
    assert!(is_used(), "it was compiled again");
}

/// Returns how many of the user stacks were walked by tables.
fn share_walked(recorded: &Recorded) -> f64 {
    let health: Value = recorded.json("health", &[]);
    let ends = health["user_ends"].as_object().expect("ends");
    let all: u64 = ends.iter().filter(|(end, _)| *end != "none").filter_map(|(_, n)| n.as_u64()).sum();
    ends["by_tables"].as_u64().expect("a number") as f64 / all as f64
}

fn assert_whole(recorded: &Recorded) {
    let health: Value = recorded.json("health", &[]);
    println!("{} {}", health["user_ends"], health["rooted_share"]);
    assert!(share_walked(recorded) > 0.6, "{health:#}");
    assert!(health["rooted_share"].as_f64().is_some_and(|share| share > 0.995), "{health:#}");
    assert_agree(recorded, 100);
}
