//! Every view of the synthetic recordings, as text and as JSON, at one and at several threads.
//!
//! `INSTA_UPDATE=always cargo test -p icecore-tests --test sim -- golden::` rewrites `tests/golden/`.

use std::path::Path;

use icecore_tests::corpus::recordings;
use icecore_tests::inside::{commands, golden, run_in, run_on};
use icecore_tests::synthetic::{Builder, named, story};

/// Runs a command line inside `dir`, without warnings; returns exit code, stdout and stderr.
fn report(dir: &Path, args: &[&str]) -> (u8, String, String) {
    run_in(dir, &[&["--quiet"], args].concat())
}

fn told(builder: Builder, close: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    builder.write(&dir.path().join("story.icecore"), close).expect("written");
    dir
}

#[test]
fn views_of_a_story() {
    let dir = told(story(), true);
    let file = "DIR/story.icecore";
    let views: [(&str, &[&str]); 23] = [
        ("summary", &[]),
        ("summary_filtered", &["--comm", "make", "--from", "0.5", "--to", "1500ms"]),
        ("top", &["top"]),
        ("top_total", &["top", "--sort", "total", "-n", "3"]),
        ("top_line", &["top", "--by", "line", "-n", "4"]),
        ("top_image", &["top", "--by", "image"]),
        ("top_process", &["top", "--by", "process"]),
        ("top_thread", &["top", "--by", "thread", "--cpu", "1"]),
        ("top_kernel", &["top", "--kernel"]),
        ("top_cpu_comm", &["top", "--by", "cpu,comm"]),
        ("top_process_function", &["top", "--by", "process,function", "-n", "6"]),
        ("top_perf", &["top", "--sort", "dso,srcline", "--children", "--percent-limit", "20"]),
        ("tree", &["tree"]),
        ("tree_callers", &["tree", "--callers", "--min-percent", "5"]),
        ("tree_no_root", &["tree", "--root", "none", "--pid", "100", "--max-depth", "2"]),
        ("folded", &["folded"]),
        (
            "folded_period",
            &["folded", "--weight", "period", "--root", "thread", "--no-annotations", "--user"],
        ),
        ("folded_hidden", &["folded", "--hide", "^make\\+0x1107", "--focus", "make"]),
        ("samples", &["samples", "--to", "25ms"]),
        ("samples_kernel", &["samples", "--kernel", "--tid", "101", "--to", "25ms"]),
        ("info", &["info"]),
        ("info_blocks", &["info", "--blocks"]),
        ("flame", &["flame", "-o", "-"]),
    ];
    for (name, args) in views {
        let mut line = args.to_vec();
        line.push(file);
        golden(dir.path(), name, &line);
        let is_json =
            !["flame", "folded_hidden", "info_blocks", "summary_filtered", "samples_kernel"].contains(&name);
        if is_json {
            line.push("--json");
            golden(dir.path(), &format!("{name}.json"), &line);
        }
    }
}

#[test]
fn functions_of_a_story_are_annotated() {
    let dir = told(story(), true);
    let file = "DIR/story.icecore";
    golden(dir.path(), "top_address", &["top", file, "--by", "address", "-n", "8"]);
    golden(dir.path(), "top_address.json", &["top", file, "--by", "address", "-n", "8", "--json"]);
    for (name, function) in [("annotate_kernel", "vfs_read"), ("annotate_file", "make+0x1200")] {
        golden(dir.path(), name, &["annotate", file, function]);
        golden(dir.path(), &format!("{name}.json"), &["annotate", file, function, "--json"]);
    }
}

#[test]
fn names_are_cut_to_a_terminal_and_whole_elsewhere() {
    let ending = "_漢字_".repeat(30);
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["r.icecore", "s.icecore"] {
        named(&ending).write(&dir.path().join(name), true).expect("written");
    }
    let lines: [&[&str]; 8] = [
        &["top", "DIR/r.icecore"],
        &["top", "DIR/r.icecore", "--by", "line"],
        &["top", "DIR/r.icecore", "--by", "process,function"],
        &["top", "DIR/r.icecore", "--by", "cgroup"],
        &["tree", "DIR/r.icecore"],
        &["tree", "DIR/r.icecore", "--callers"],
        &["depth", "DIR/r.icecore"],
        &["diff", "DIR/r.icecore", "DIR/s.icecore", "--all"],
    ];
    for line in lines {
        let [piped, narrow, wide] = [
            run_in(dir.path(), line),
            run_on(Some(100), dir.path(), line),
            run_on(Some(100), dir.path(), &[line, &["--wide"]].concat()),
        ];
        assert_eq!(piped, wide, "{line:?}");
        // What precedes the first empty line are sentences.
        let rows = |out: &str| out.lines().skip_while(|line| !line.is_empty()).map(str::to_owned).collect();
        let (piped, narrow): (Vec<String>, Vec<String>) = (rows(&piped.1), rows(&narrow.1));
        assert!(piped.iter().any(|row| row.contains(&ending)), "{line:?}: {piped:?}");
        assert!(!narrow.iter().any(|row| row.contains(&ending)), "{line:?}: {narrow:?}");
        assert!(narrow.iter().any(|row| row.contains("_…") || row.contains("…_") || row.contains("字…")));
        let columns =
            |row: &str| row.chars().map(|c| if matches!(c, '漢' | '字') { 2 } else { 1 }).sum::<usize>();
        let named = narrow.iter().filter(|row| row.contains('漢'));
        for row in named {
            assert!(columns(row) <= 100, "{line:?}: {} columns: {row}", columns(row));
        }
    }
}

#[test]
fn the_first_screen_fits_a_terminal_of_24_lines_whatever_is_wrong() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, bytes) in recordings() {
        std::fs::write(dir.path().join("r.icecore"), bytes).expect("room");
        let screen = |width| run_on(width, dir.path(), &["summary", "DIR/r.icecore"]).1;
        let (narrow, whole) = (screen(Some(80)), screen(None));
        assert!(narrow.lines().count() < 24, "{name}: a prompt has no room below\n{narrow}");
        let broken = narrow.lines().find(|line| line.chars().count() > 80);
        assert_eq!(broken, None, "{name}: a line is too long\n{narrow}");
        // It has one function, and no cgroup.
        if name == "v1-paused" {
            continue;
        }
        // The worst problem, three functions, what is left out, and what to do next are on both.
        let line = |text: &str, begin: &str| {
            let found = text.lines().position(|line| line.trim_start().starts_with(begin));
            found.unwrap_or_else(|| panic!("{name}: no line `{begin}`\n{text}"))
        };
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        let problems = |text: &str| -> Vec<String> {
            let problems = text.lines().skip(line(text, "quality") + 1);
            problems.take_while(|line| !line.starts_with("  samples")).map(words).collect()
        };
        let worst = problems(&whole).into_iter().next().expect("something is wrong with each");
        let shown = problems(&narrow).join(" ");
        assert!(shown.starts_with(&worst), "{name}: {worst}\n{narrow}");
        assert!(shown.contains(" more problem"), "{name}\n{narrow}");
        assert!(shown.ends_with(": icecore-report health r.icecore"), "{name}\n{narrow}");
        assert!(line(&narrow, "next: ") - line(&narrow, "SELF") > 3, "{name}\n{narrow}");
        // A doubt stays, and losses are never silent.
        let doubts = whole.contains("can look so, too");
        let shows_doubt = narrow.contains("seem to reach a root") || narrow.contains("can look so");
        assert_eq!(shows_doubt, doubts, "{name}\n{narrow}");
        let loses = whole.contains("; besides: ");
        assert_eq!(
            narrow.contains("; besides: ") || narrow.contains("other losses"),
            loses,
            "{name}\n{narrow}"
        );
        // What is piped lacks nothing.
        let in_whole = ["command", "labels", "processes", "cgroups", "names"];
        in_whole.into_iter().for_each(|begin| assert!(line(&whole, begin) > 0));
    }
}

#[test]
fn filters_that_match_nothing_say_what_there_is() {
    let dir = told(story(), true);
    let says = |filter: &[&str], what: &str| {
        let (code, _, err) =
            run_in(dir.path(), &[&["top", "DIR/story.icecore", "--kernel"], filter].concat());
        assert!(code == 0 && err.contains(what), "{filter:?}: {err}");
    };
    says(&["--comm", "mkae"], "no sample is of a thread or process called `mkae`: ");
    says(&["--comm", "mkae"], "; did you mean `make`?");
    says(&["--comm", "MAKE"], "; did you mean `make`?");
    says(&["--pid", "4"], "no sample is of a process with the number `4`: ");
    says(&["--cpu", "9"], "no sample is of the CPU `9`: ");
    says(&["--host", "statoin"], "; did you mean `station`?");
    says(&["--focus", "no such function"], "no function matches --focus `no such function`: ");
    says(&["--focus", "VFS_"], " would with --ignore-case");
    says(
        &["--language", "php"],
        "no function of the chosen samples is of --language php, and none of another",
    );
    let found = ["--comm", "make,*worker*", "--cpu", "0-9", "--focus", "VFS_", "-i"];
    let (code, out, err) =
        run_in(dir.path(), &[&["top", "DIR/story.icecore", "--kernel"], &found[..]].concat());
    assert!(code == 0 && err.is_empty() && out.contains("focus (?i)VFS_"), "{err}{out}");
}

#[test]
fn a_flame_graph_has_many_shapes() {
    let dir = told(story(), true);
    let drawn = |options: &[&str]| {
        let (code, svg, err) =
            report(dir.path(), &[&["flame", "DIR/story.icecore", "-o", "-"], options].concat());
        assert!(code == 0 && err.lines().all(|line| line.starts_with("warning: ")), "{options:?}: {err}");
        svg
    };
    let usual = drawn(&[]);
    let shapes: [&[&str]; 8] = [
        &["--icicle"],
        &["--inverted"],
        &["--inverted", "--icicle", "--collapse"],
        &["--collapse"],
        &["--colors", "safe"],
        &["--colors", "image"],
        &["--width", "2000"],
        &["--height", "24"],
    ];
    for options in shapes {
        assert_ne!(drawn(options), usual, "{options:?}");
    }
    assert!(drawn(&["--inverted"]).contains("leaves first, then their callers"));
    assert!(drawn(&["--width", "2000"]).contains("width=\"2000\""));
    assert_eq!(drawn(&["--reverse"]), drawn(&["--inverted"]));
}

#[test]
fn options_before_a_command_are_never_ignored() {
    let dir = told(story(), true);
    for line in
        [&["--comm", "make", "top"][..], &["-i", "top"], &["--from", "1", "top"], &["--no-cache", "top"]]
    {
        let (code, out, err) = report(dir.path(), &[line, &["DIR/story.icecore"]].concat());
        assert!(code == 2 && out.is_empty() && err.contains("after"), "{line:?}: {err}");
    }
}

#[test]
fn what_a_story_misses() {
    let dir = told(story(), true);
    let file = "DIR/story.icecore";
    golden(dir.path(), "missing", &["missing", file, "--no-debuginfod"]);
    golden(dir.path(), "missing_paths", &["missing", file, "--no-debuginfod", "-n", "1", "--paths"]);
    golden(dir.path(), "missing.json", &["missing", file, "--no-debuginfod", "--json", "--comm", "jit"]);
    let nothing = told(Builder::default(), true);
    golden(nothing.path(), "missing_empty", &["missing", file, "--no-debuginfod"]);
}

#[test]
fn a_view_that_does_not_show_the_verdict_warns_in_one_line_if_data_misleads() {
    let dir = told(story(), true);
    let warning = "warning: most names are missing: only 17.6% of the frames of a sample have a name: ";
    for view in ["top", "tree", "samples", "folded"] {
        let (code, _, err) = run_in(dir.path(), &[view, "DIR/story.icecore"]);
        assert!(code == 0 && err.starts_with(warning) && err.lines().count() == 1, "{view}: {err}");
        assert!(err.ends_with("(more: icecore-report health story.icecore)\n"), "{view}: {err}");
        let quiet = run_in(dir.path(), &[view, "DIR/story.icecore", "--quiet"]);
        assert_eq!(quiet.2, err, "{view}: --quiet hides no warning about the data");
    }
    for view in ["summary", "health"] {
        let (code, out, err) = run_in(dir.path(), &[view, "DIR/story.icecore"]);
        assert!(
            code == 0 && err.is_empty() && out.contains("usable, and most names are missing"),
            "{view}: {err}"
        );
    }
    // The frames of the kernel have names.
    assert_eq!(run_in(dir.path(), &["top", "DIR/story.icecore", "--kernel"]).2, "");
}

#[test]
fn a_flame_graph_in_a_file_is_described() {
    let dir = told(story(), true);
    golden(dir.path(), "flame_file", &["flame", "DIR/story.icecore", "-o", "DIR/x.svg", "--force"]);
    golden(
        dir.path(),
        "flame_file.json",
        &["flame", "DIR/story.icecore", "-o", "DIR/x.svg", "--force", "--json"],
    );
    let svg = std::fs::read_to_string(dir.path().join("x.svg")).expect("written");
    assert!(svg.contains("<svg") && svg.contains("station") && svg.contains("a:b"));
}

#[test]
fn filters_by_name_change_every_number_of_the_summary() {
    let dir = told(story(), true);
    golden(dir.path(), "summary_focus.json", &["DIR/story.icecore", "--focus", "^(ext4|vfs)", "--json"]);
    let json = |args: &[&str]| -> serde_json::Value {
        let (code, out, err) = report(dir.path(), args);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str(&out).expect("JSON")
    };
    for focus in [".", "^make", "kworker", "stack|jit", "^no such function$"] {
        let summary = json(&["DIR/story.icecore", "--json", "--focus", focus]);
        let (_, out, _) = report(dir.path(), &["samples", "DIR/story.icecore", "--json", "--focus", focus]);
        let samples: Vec<serde_json::Value> =
            out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(summary["samples"], samples.len(), "{focus}");
        let of = |n: usize, all: usize| if all == 0 { 0.0 } else { n as f64 / all as f64 };
        let in_kernel = samples.iter().filter(|sample| sample["kernel_ended"] != "none").count();
        assert_eq!(summary["kernel_share"], of(in_kernel, samples.len()), "{focus}");
        assert_eq!(summary["user_share"], of(samples.len() - in_kernel, samples.len()), "{focus}");
        let ends = summary["user_ends"].as_object().expect("an object");
        for (end, n) in ends {
            assert_eq!(*n, samples.iter().filter(|sample| sample["ended"] == *end).count(), "{focus} {end}");
        }
        assert_eq!(ends.values().filter_map(serde_json::Value::as_u64).sum::<u64>(), samples.len() as u64);
        let frames = samples.iter().flat_map(|sample| sample["frames"].as_array().expect("a list"));
        let (named, unnamed): (Vec<_>, Vec<_>) = frames.partition(|frame| frame["reason"].is_null());
        if let Some(share) = summary["named_share"].as_f64() {
            let expected = of(named.len(), named.len() + unnamed.len());
            assert!((share - expected).abs() < 1e-12, "{focus}: {share} is not {expected}");
        }
    }
}

#[test]
fn a_graph_is_never_drawn_over_its_recording() {
    let dir = told(story(), true);
    let before = std::fs::read(dir.path().join("story.icecore")).expect("there");
    let (code, _, err) = report(dir.path(), &["flame", "DIR/story.icecore", "-o", "DIR/story.icecore"]);
    let why = "this is the recording itself: name a file with -o";
    assert_eq!(code, 2);
    assert!(err.ends_with(&format!("\nerror: cannot create `story.icecore`: {why}\n")), "{err}");
    assert_eq!(std::fs::read(dir.path().join("story.icecore")).expect("there"), before);
    std::fs::write(dir.path().join("other"), &before).expect("writable");
    let (code, _, err) = report(dir.path(), &["flame", "DIR/story.icecore", "-o", "DIR/other"]);
    assert!(code == 2 && err.contains("there is a recording: name another file with -o"), "{err}");
    std::fs::write(dir.path().join("x.svg"), "precious").expect("writable");
    let (code, _, err) = report(dir.path(), &["flame", "DIR/story.icecore", "-o", "DIR/x.svg"]);
    let why = "File exists; overwrite it with --force, or name another file with -o";
    assert_eq!(code, 2);
    assert!(err.ends_with(&format!("\nerror: cannot create `x.svg`: {why}\n")), "{err}");
    assert_eq!(std::fs::read(dir.path().join("x.svg")).expect("there"), b"precious");
}

#[test]
fn what_makes_no_sense_is_refused_with_exit_code_2() {
    let dir = told(story(), true);
    let file = "DIR/story.icecore";
    for (args, message) in [
        (&["topp", file][..], "there is no command `topp`: did you mean `top`?"),
        (&[file, "--from", "5", "--to", "1"], "cannot report on no time: --from 5 s is not before --to 1 s"),
        (
            &["top", file, "--debug-dir", "DIR/none"],
            "cannot open debug directory `none`: No such file or directory (os error 2)",
        ),
    ] {
        let (code, out, err) = report(dir.path(), args);
        assert_eq!((code, out.as_str(), err), (2, "", format!("error: {message}\n")), "{args:?}");
    }
}

#[test]
fn filters_steer_no_terminal() {
    let dir = told(story(), true);
    let (_, out, _) = report(dir.path(), &["top", "DIR/story.icecore", "--hide", "\u{1b}\u{202e}"]);
    assert!(out.contains("hide \u{fffd}\u{fffd}"), "{out}");
}

#[test]
fn paths_with_blanks_can_be_pasted() {
    let dir = tempfile::tempdir().expect("a directory");
    story().write(&dir.path().join("my story-1.2.icecore"), true).expect("written");
    let (code, out, _) = report(dir.path(), &["DIR/my story-1.2.icecore"]);
    assert_eq!(code, 0);
    assert!(
        out.ends_with("next: icecore-report html 'my story-1.2.icecore' -o 'my story-1.2.html'\n"),
        "{out}"
    );
}

#[test]
fn a_file_that_was_not_closed_says_so() {
    let dir = told(story(), false);
    golden(dir.path(), "summary_open", &["DIR/story.icecore"]);
}

#[test]
fn an_empty_recording_divides_by_nothing() {
    let dir = told(Builder::default(), true);
    for view in ["summary", "top", "tree", "folded", "samples", "info"] {
        golden(dir.path(), &format!("empty_{view}"), &[view, "DIR/story.icecore"]);
        golden(dir.path(), &format!("empty_{view}.json"), &[view, "DIR/story.icecore", "--json"]);
    }
    let (code, _, err) = report(dir.path(), &["flame", "DIR/story.icecore", "-o", "-"]);
    assert_eq!((code, err.as_str()), (2, "error: cannot draw a graph of no samples\n"));
}

#[test]
fn the_pages_have_every_command() {
    let (page, json) = (include_str!("../../../docs/COMMANDS.md"), include_str!("../../../docs/JSON.md"));
    for command in commands() {
        assert!(
            json.contains(&format!("\n## `icecore.{command}/")),
            "docs/JSON.md has no keys of `{command}`"
        );
        // A recording without a command is its summary.
        let called = if command == "summary" { "FILE`" } else { &format!("{command} ") };
        let is_named = page.contains(&format!("`icecore-report {called}"));
        assert!(is_named, "docs/COMMANDS.md does not name `{command}`");
    }
    // The recorder prints one document, too.
    assert!(page.contains("`icecore-record doctor`"));
    let keys = json.split_once("\n## `icecore.doctor/1`").expect("docs/JSON.md has its keys").1;
    let keys = keys.split("\n## ").next().unwrap_or_default();
    for key in ["verdict", "checks", "group", "name", "state", "found", "lacks", "remedy"] {
        assert!(keys.contains(&format!("| `{key}` |")), "docs/JSON.md does not have `{key}` of `doctor`");
    }
}

#[test]
fn help_of_every_command() {
    let commands = commands();
    assert!(commands.iter().any(|command| command == "top"), "{commands:?}");
    for command in [""].into_iter().chain(commands.iter().map(String::as_str)) {
        let mut args = vec!["--help"];
        if !command.is_empty() {
            args.insert(0, command);
        }
        let (code, out, err) = report(Path::new("/"), &args);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(
            out.contains("Examples:") && out.contains("--json"),
            "no examples in the help of `{command}`"
        );
    }
}
