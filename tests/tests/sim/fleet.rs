//! Tables of a fleet: DuckDB answers the questions of docs/FLEET.md as the report does.

use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_tests::machine::program;
use icecore_tests::synthetic::{Fleet, REGRESSION_DAY};
use serde_json::Value;

#[test]
fn duckdb_answers_the_questions_of_a_fleet_as_the_report_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    std::fs::create_dir(path.join("fleet")).expect("made");
    let fleet = Fleet { first: REGRESSION_DAY - 8, days: REGRESSION_DAY + 2, hosts: 8, samples: 100 };
    let count = fleet.write(&path.join("fleet")).expect("written");
    let files = std::fs::read_dir(path.join("fleet")).expect("listed");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut write = Command::new(program("icecore-report"));
    write.args(["parquet", "--json", "--no-cache", "-o"]).arg(path.join("tables")).args(&files);
    let written = write.output().expect("it runs");
    let written: Value = serde_json::from_slice(&written.stdout).expect("JSON");
    assert_eq!((written["recordings"].as_u64(), files.len()), (Some(u64::from(count)), count as usize));
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = tests.join("../target/engines/test/bin/python");
    assert!(python.exists(), "there is no DuckDB in target/engines: run `make setup-test`");
    let mut questions = Command::new(python);
    questions.arg(tests.join("engines/questions.py")).arg("duckdb");
    questions.args([path.join("tables"), path.join("fleet"), program("icecore-report")]);
    let asked = questions.output().expect("it runs");
    let said = String::from_utf8_lossy(&asked.stdout);
    assert!(asked.status.success(), "{said}{}", String::from_utf8_lossy(&asked.stderr));
    assert!(said.lines().filter(|line| line.starts_with("ok ")).count() >= 14, "{said}");
}
