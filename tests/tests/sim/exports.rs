//! Made-up recordings in the formats of other tools, read by programs of these.

use std::process::Command;

use icecore_export::ALL;
use icecore_export::kept::Fact;
use icecore_tests::exports::{assert_all_equal, assert_equal, export, read};
use icecore_tests::machine::{report_output, text};
use icecore_tests::synthetic::{Builder, busy, deep, hostile, paused, wide};

/// Writes a recording into a new folder.
fn written(recording: Builder) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    recording.write(&path, true).expect("written");
    (dir, path)
}

#[test]
fn every_format_has_the_sums_of_a_busy_machine() {
    let (_dir, path) = written(busy());
    assert_all_equal(&path, &[]);
}

#[test]
fn every_format_has_the_sums_of_deep_recursion() {
    let (_dir, path) = written(deep());
    // The page of speedscope, which reads folded stacks and perf script, too, shows no stack of 12,288 frames.
    for format in ["pprof", "firefox", "callgrind", "csv", "csv-samples", "otlp", "perfetto"] {
        assert_equal(&path, format, &[]);
    }
}

#[test]
fn every_format_has_the_sums_of_many_functions() {
    let (_dir, path) = written(wide());
    assert_all_equal(&path, &[]);
}

#[test]
fn every_format_has_the_sums_of_hostile_names() {
    let (_dir, path) = written(hostile());
    assert_all_equal(&path, &[]);
}

#[test]
fn every_format_has_the_sums_of_a_recorder_that_paused() {
    let (_dir, path) = written(paused());
    assert_all_equal(&path, &[]);
}

#[test]
fn the_same_recording_makes_the_same_file_at_any_number_of_threads() {
    let (_dir, path) = written(busy());
    for format in ALL {
        let bytes = ["1", "4"].map(|threads| {
            let (file, _) = export(&path, format.name(), &["--threads", threads]);
            std::fs::read(file).expect("written")
        });
        assert!(bytes[0] == bytes[1], "{}", format.name());
    }
}

#[test]
fn tables_are_those_of_the_command_parquet_and_take_no_filter() {
    let (dir, path) = written(busy());
    let [recording, a, b] =
        [path.clone(), dir.path().join("a"), dir.path().join("b")].map(|it| it.display().to_string());
    for words in
        [["parquet", &recording, "-o", &a, "--quiet"], ["export", &recording, "--to=parquet", "-o", &b]]
    {
        let out = report_output(&words);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let same = Command::new("diff").args(["-r", &a, &b]).output().expect("diff runs");
    assert!(same.status.success() && dir.path().join("b/function").is_dir(), "{}", text(&same.stdout));
    let out = report_output(&["export", &recording, "--to=parquet", "-o", &b, "--pid", "1"]);
    assert!(text(&out.stderr).contains("cannot select samples for tables"), "{}", text(&out.stderr));
}

#[test]
fn text_is_compressed_on_request_and_pprof_tells_callers() {
    let (dir, path) = written(busy());
    let [plain, zipped] = ["x.json", "x.json.gz"].map(|name| dir.path().join(name).display().to_string());
    for out in [&plain, &zipped] {
        let recording = path.display().to_string();
        let out = report_output(&["export", &recording, "--to", "speedscope", "-o", out]);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let unzipped = Command::new("gunzip").args(["-c", &zipped]).output().expect("gunzip runs").stdout;
    assert!(unzipped == std::fs::read(&plain).expect("written") && !unzipped.is_empty());
    let (file, _) = export(&path, "pprof", &[]);
    let read = read("pprof", file.as_os_str(), &["--peek", "."]);
    assert!(read["facts"]["peek"].to_string().len() > 100, "{}", read["facts"]["peek"]);
}

#[test]
fn files_that_are_no_text_go_into_files_only_and_nothing_is_replaced_by_chance() {
    let (dir, path) = written(busy());
    let run = |words: &[&str]| {
        let recording = path.to_str().expect("UTF-8");
        let out = report_output(&[&["export", recording], words].concat());
        (out.status.code(), text(&out.stderr), out.stdout)
    };
    for format in ALL {
        let (code, said, bytes) = run(&["--to", format.name(), "-o", "-", "--quiet"]);
        let refused = said.contains("to stdout: it is no text; name a file with -o");
        assert_eq!((code == Some(0), refused), (format.is_text(), !format.is_text()), "{said}");
        assert_eq!(bytes.is_empty(), !format.is_text(), "{}", format.name());
    }
    let there = dir.path().join("there");
    std::fs::write(&there, "precious").expect("written");
    let (code, said, _) = run(&["--to", "pprof", "-o", there.to_str().expect("UTF-8")]);
    assert!(code == Some(2) && said.contains("overwrite it with --force"), "{said}");
    assert_eq!(std::fs::read(&there).expect("there"), b"precious");
    let (code, said, _) = run(&["--to", "pprof", "-o", path.to_str().expect("UTF-8"), "--force"]);
    assert!(code == Some(2) && said.contains("the recording itself"), "{said}");
    let (code, said, _) = run(&["--to", "gprof", "-o", "x"]);
    assert!(code == Some(2) && said.contains("pprof"), "{said}");
}

#[test]
fn the_table_of_the_docs_is_what_formats_keep() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/EXPORT.md");
    let docs = std::fs::read_to_string(docs).expect("it is in the repository");
    let names: Vec<String> = ALL.iter().map(|format| format!(" `{}` |", format.name())).collect();
    let mut table = format!("| |{}\n|---|{}\n", names.concat(), "---|".repeat(ALL.len()));
    for fact in Fact::ALL {
        let kept = ALL.iter().map(|format| if format.keeps().contains(&fact) { " yes |" } else { " – |" });
        table.push_str(&format!("| {} |{}\n", fact.words(), kept.collect::<String>()));
    }
    assert!(docs.contains(&table), "docs/EXPORT.md must have this table:\n{table}");
}
