//! Runs the report inside the test's own process, without cache, colors and progress.

use std::path::Path;

use icecore_report::{Streams, run};
use serde_json::Value;

/// Runs a command line, in which `DIR` stands for `dir`. Returns exit code, stdout and stderr; the random name of `dir` is
/// removed from these.
pub fn run_in(dir: &Path, args: &[&str]) -> (u8, String, String) {
    run_on(None, dir, args)
}

/// Runs a command line as [`run_in`] does, as if on a terminal of this width.
pub fn run_on(width: Option<u32>, dir: &Path, args: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams { width, ..Streams::plain(&mut out, &mut err) };
    let folder = dir.display().to_string();
    let args = args.iter().map(|arg| arg.replace("DIR", &folder));
    let code = run(["icecore-report".to_owned()].into_iter().chain(args), &mut streams);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8").replace(&format!("{folder}/"), "");
    (code, text(out), text(err))
}

/// Runs a command line, which must succeed and print no errors but warnings about the data. Returns stdout.
pub fn report(dir: &Path, args: &[&str]) -> String {
    let (code, out, err) = run_in(dir, args);
    assert!(code == 0 && err.lines().all(|line| line.starts_with("warning: ")), "{args:?}: {err}");
    out
}

/// Runs a typed command line; returns exit code and errors.
pub fn answer(dir: &Path, line: &str) -> (u8, String) {
    let (code, _, err) = run_in(dir, &words(line));
    (code, err)
}

/// Runs a typed command line. Returns exit code, stdout and stderr.
pub fn typed(dir: &Path, line: &str) -> (u8, String, String) {
    run_in(dir, &words(line))
}

/// Runs a typed command line as [`report`] does. Returns stdout.
pub fn text(dir: &Path, line: &str) -> String {
    report(dir, &words(line))
}

/// Runs a typed command line with `--json` as [`report`] does. Returns the document.
pub fn json(dir: &Path, line: &str) -> Value {
    serde_json::from_str(&text(dir, &format!("{line} --json"))).expect("the report prints JSON")
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The names of all commands of the report, as its help lists them.
pub fn commands() -> Vec<String> {
    let help = report(Path::new("/"), &["--help"]);
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.take_while(|line| !line.is_empty()).filter_map(|line| {
        // What is further right continues a description.
        line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?.split(' ').next()
    });
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Compares a view with its snapshot in `tests/golden`, at 1 and at 4 threads.
pub fn golden(dir: &Path, name: &str, args: &[&str]) {
    let [one, four] = ["1", "4"].map(|threads| report(dir, &[args, &["--threads", threads]].concat()));
    assert_eq!(one, four, "{args:?}: output depends on the number of threads");
    // The report prints a tree on one line; a snapshot with one node a line is easier to read.
    let output = if one.starts_with("{\"schema\":\"icecore.tree/") {
        one.replace("{\"name\":", "\n{\"name\":")
    } else {
        one
    };
    insta::with_settings!({ snapshot_path => "../golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, output);
    });
}
