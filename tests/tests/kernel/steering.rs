//! Others can choose names of files, threads and cgroups, and the text of a recording: a terminal never gets control characters of
//! them.

use std::path::Path;

use icecore_tests::inside::{commands, run_in};
use icecore_tests::machine::{Recorded, copy, record, target, text};
use icecore_tests::synthetic::named;

/// Sets the title of a terminal, returns to the beginning of the line, begins another line, and has a sequence in C1 and text
/// from right to left; a tag, a space without width and a soft hyphen, which nobody sees.
const STEERING: &str = "\x1b]0;x\x07\r\n\u{9b}31m\u{202e}\u{e0041}\u{200b}\u{ad}~";
/// The same number of harmless characters.
const HARMLESS: &str = "?????????????????";

fn assert_steers_nothing(what: &[&str], said: &str) {
    let steers = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{ad}' | '\u{200b}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e0fff}')
    };
    let found = said.lines().find(|line| line.contains(steers));
    assert!(found.is_none(), "{what:?}: {found:?}");
}

#[test]
fn no_view_passes_on_what_steers_a_terminal() {
    assert_eq!(STEERING.chars().count(), HARMLESS.chars().count());
    let folder = |ending| {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["r.icecore", "s.icecore"] {
            named(ending).write(&dir.path().join(name), true).expect("written");
        }
        dir
    };
    let [hostile, harmless] = [STEERING, HARMLESS].map(folder);
    let views = [
        "summary",
        "top",
        "top --by line",
        "top --by address",
        "top --by image",
        "top --by process",
        "top --by thread",
        "top --by cgroup",
        "top --by comm,cpu",
        "top --by process,function",
        "top --comm nobody --focus nothing",
        "top --by wait --event *",
        "top --by waker-thread --event *",
        "tree --wakers --event *",
        "tree",
        "tree --root thread",
        "tree --callers",
        "folded",
        "samples",
        "missing",
        "health",
        "depth",
        "depth --by thread",
        "timeline",
        "timeline --by thread",
        "timeline --heatmap",
        "timeline --csv",
        "info",
        "info --blocks",
        "info --sizes",
        "info --symbol-source",
        "verify",
        "trend",
        "trend --csv",
        "trend --by process",
        "flame -o -",
        "flame --root thread -o -",
        "flame --inverted --colors image -o -",
        "html -o -",
        "export --to firefox -o -",
        "export --to callgrind -o -",
        "export --to csv -o -",
        "export --to csv-samples -o -",
        "export --to folded -o -",
        "export --to perf-script -o -",
        "export --to speedscope -o -",
    ];
    let mut lines: Vec<Vec<&str>> = views.map(|view| view.split(' ').collect::<Vec<_>>()).into();
    lines.iter_mut().for_each(|line| line.push("DIR/r.icecore"));
    for more in [&[][..], &["--markdown"], &["--by", "thread"], &["--by", "image"]] {
        lines.push([&["diff", "DIR/r.icecore", "DIR/s.icecore", "--all"], more].concat());
    }
    // Formats of bytes go into files only. The output of others is a recording, or contains no names from others; `tui` needs a terminal: tests/tui.rs; `serve` does not
    // end: tests/serve.rs, and its page is that of `html`.
    let others = [
        "repair", "merge", "cut", "pack", "compact", "import", "cache", "tui", "serve", "ship", "archive",
        "parquet",
    ];
    lines.push(vec!["annotate", "DIR/r.icecore", "^vfs_read"]);
    let shown: Vec<&str> = lines.iter().map(|line| line[0]).chain(others).collect();
    let missing: Vec<String> =
        commands().into_iter().filter(|command| !shown.contains(&command.as_str())).collect();
    assert!(missing.is_empty(), "no line in this list has these commands: {missing:?}");
    for line in &lines {
        let (code, out, err) = run_in(hostile.path(), line);
        assert_eq!(code, 0, "{line:?}: {err}");
        assert_steers_nothing(line, &format!("{out}{err}"));
        let (_, same, _) = run_in(harmless.path(), line);
        if line[0] != "flame" {
            assert_eq!(
                out.lines().count(),
                same.lines().count(),
                "{line:?} has lines that nobody wrote: {out}"
            );
        }
        if !["flame", "html", "export", "--csv", "--markdown"].iter().any(|word| line.contains(word)) {
            let line = [&line[..], &["--json"]].concat();
            let (code, out, err) = run_in(hostile.path(), &line);
            assert_eq!(code, 0, "{line:?}: {err}");
            assert_steers_nothing(&line, &format!("{out}{err}"));
            let read = serde_json::Deserializer::from_str(&out).into_iter::<serde_json::Value>();
            let read: Vec<_> = read.collect::<Result<_, _>>().expect("JSON");
            assert!(!read.is_empty(), "{line:?}");
        }
    }
}

#[test]
fn json_holds_the_very_text() {
    let dir = tempfile::tempdir().expect("a directory");
    named(STEERING).write(&dir.path().join("r.icecore"), true).expect("written");
    let (_, out, _) = run_in(dir.path(), &["info", "DIR/r.icecore", "--json"]);
    let info: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(info["session"]["command_line"][0], format!("icecore-record{STEERING}"));
}

#[test]
fn no_error_passes_on_what_steers_a_terminal() {
    let dir = tempfile::tempdir().expect("a directory");
    named(STEERING).write(&dir.path().join("r.icecore"), true).expect("written");
    let path = format!("DIR/{STEERING}");
    for line in [
        &["summary", &path][..],
        &[STEERING, "DIR/r.icecore"],
        &["top", "DIR/r.icecore", STEERING],
        &["top", "DIR/r.icecore", &format!("--{STEERING}")],
        &["top", "DIR/r.icecore", "--by", STEERING],
        &["top", "DIR/r.icecore", "--focus", &format!("({STEERING}")],
        &["cut", "DIR/r.icecore", "-o", &format!("DIR/none/{STEERING}")],
        &["diff", "DIR/r.icecore", "DIR/r.icecore", "-o", &path],
        &["flame", "DIR/r.icecore", "-o", &format!("DIR/none/{STEERING}")],
        &["ship", STEERING, "DIR/r.icecore"],
        &["ship", "DIR", &path],
    ] {
        let (code, out, err) = run_in(dir.path(), line);
        assert_eq!(code, 2, "{line:?}: {err}");
        assert_steers_nothing(line, &format!("{out}{err}"));
    }
}

#[test]
fn root_the_recorder_passes_on_nothing_that_steers_a_terminal() {
    // This is the name of a file, from which a thread takes its name.
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let folder = dir.path().join(STEERING);
    std::fs::create_dir(&folder).expect("room");
    let (program, path) = (folder.join(STEERING), folder.join("r.icecore"));
    copy(&target(), &program);
    let said = |args: &[&str], more: &[&Path]| {
        let output = record().args(args).args(more).output().expect("the recorder runs");
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_steers_nothing(args, &said);
        (output.status.code(), said)
    };
    let run = ["-v", "--embed", "all", "--embed-max", "1K", "--force", "-o"];
    let output = record().args(run).arg(&path).arg("--").arg(&program).args(["recursion", "300"]).output();
    let output = output.expect("the recorder runs");
    let told = text(&output.stderr);
    assert!(output.status.success() && told.contains("skipped /"), "{told}");
    assert_steers_nothing(&run, &told);
    for args in [
        &["-a", "-d", "0.1", "-o"][..],
        &["-o", "/nonexistent/x", "--"],
        &["-a", "--cgroup"],
        &["-a", "-d"],
        &["--"],
    ] {
        let (code, said) = said(args, &[&folder.join("nobody")]);
        assert!(args[0] == "-a" && args.contains(&"-o") || code == Some(2), "{args:?}: {said}");
    }
    // The same holds for JSON.
    let recorded =
        Recorded::new(&["-F", "499"], &[program.as_os_str(), "recursion".as_ref(), "300".as_ref()]);
    for view in ["summary", "top", "samples", "info"] {
        let out =
            icecore_tests::machine::report(&[view.as_ref(), recorded.path().as_os_str(), "--json".as_ref()]);
        assert_steers_nothing(&[view], &out);
    }
}
