//! The page of `html`: its modules in Node.js, and a page in a browser, which must show what the command line prints.
//!
//! The tests themselves are in `tests/page/`; each of these runs one file of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use icecore_tests::listed::Listed;
use icecore_tests::machine::{program, text};
use icecore_tests::synthetic::{busy, changed, deep, hostile, paused, wide};

/// The folder of the tests.
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/page");

#[test]
fn the_modules_and_the_one_script_have_right_types() {
    run("types.test.mjs");
}

#[test]
fn modules_find_the_sums_that_the_command_line_prints() {
    run("sums.test.mjs");
}

#[test]
fn a_browser_shows_what_the_command_line_prints() {
    run("browser.test.mjs");
}

#[test]
fn the_list_of_functions_the_tree_and_the_comparison_are_those_of_the_command_line() {
    run("tables.test.mjs");
}

#[test]
fn a_stretch_that_is_chosen_by_hand_leaves_the_samples_of_the_command_line() {
    run("stretches.test.mjs");
}

#[test]
fn tracks_charts_and_maps_lie_where_the_times_of_samples_say() {
    run("time.test.mjs");
}

#[test]
fn lines_and_instructions_are_those_of_annotate() {
    run("code.test.mjs");
}

/// Runs a file of tests by Node.js.
fn run(file: &str) {
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter", "spec"]).arg(Path::new(TESTS).join(file));
    node.env("ICECORE_PAGE_RECORDINGS", recordings()).env("ICECORE_PAGE_PACKAGES", packages());
    node.env("ICECORE_REPORT", program("icecore-report"));
    let out = node.output().expect("there is no node here: run tests/setup.sh");
    assert!(out.status.success(), "{file}:\n{}{}", text(&out.stdout), text(&out.stderr));
}

/// Writes the recordings of these tests once. Browsers that are snaps read no file in `/tmp`, so they lie below `target/`.
fn recordings() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
        std::fs::create_dir_all(&folder).expect("room");
        let told = folder.join("told");
        std::fs::create_dir_all(&told).expect("room");
        Listed::write("cc", &told);
        std::fs::rename(told.join("r.icecore"), folder.join("code.icecore")).expect("room");
        let [before, after] = changed();
        let recordings = [("busy", busy()), ("deep", deep()), ("wide", wide()), ("hostile", hostile())];
        let others = [("paused", paused()), ("before", before), ("after", after)];
        for (name, recording) in recordings.into_iter().chain(others) {
            recording.write(&folder.join(name).with_extension("icecore"), true).expect("written");
        }
        folder
    })
}

/// Installs the packages that `tests/page/package-lock.json` names, unless they are there from an earlier run.
fn packages() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        let lock = std::fs::read(Path::new(TESTS).join("package-lock.json")).expect("it is in the repository");
        // Written last: what a run that was ended left is installed again.
        let done = folder.join("installed");
        if std::fs::read(&done).is_ok_and(|installed| installed == lock) {
            return folder;
        }
        std::fs::create_dir_all(&folder).expect("room");
        for name in ["package.json", "package-lock.json"] {
            std::fs::copy(Path::new(TESTS).join(name), folder.join(name)).expect("room");
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--prefer-offline", "--no-audit", "--no-fund"]).current_dir(&folder);
        let out = npm.output().expect("there is no npm here: run tests/setup.sh");
        assert!(
            out.status.success(),
            "cannot install the packages of tests/page: npm needs its registry once (or `npm config set registry` of one that \
             it can reach); run `npm ci` in {} until it succeeds:\n{}{}",
            folder.display(),
            text(&out.stdout),
            text(&out.stderr),
        );
        std::fs::write(done, lock).expect("room");
        folder
    })
}
