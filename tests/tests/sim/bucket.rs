//! `archive s3://…`: an archive in a bucket answers as one in a folder does, with many writers and connections that end at any byte.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;

use icecore_tests::bucket::{Server, cutting, finds, two_of_three};
use icecore_tests::inside::json;
use icecore_tests::machine::program;
use icecore_tests::synthetic::Fleet;
use serde_json::Value;

const FLEET: Fleet = Fleet { first: 0, days: 2, hosts: 3, samples: 60 };

/// The report, which finds the object store there.
pub(crate) fn report(dir: &Path, endpoint: SocketAddr, line: &str) -> Command {
    let mut command = Command::new(program("icecore-report"));
    command.args(line.split(' ').map(|word| word.replace("DIR", &dir.display().to_string())));
    finds(&mut command, endpoint);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it; returns exit code, stdout and stderr.
pub(crate) fn run(dir: &Path, endpoint: SocketAddr, line: &str) -> (Option<i32>, String, String) {
    let out = report(dir, endpoint, line).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (out.status.code(), text(out.stdout), text(out.stderr))
}

/// Runs it with `--json`, and it must succeed; returns the document.
fn told(dir: &Path, endpoint: SocketAddr, line: &str) -> Value {
    let (code, out, err) = run(dir, endpoint, &format!("{line} --json"));
    assert_eq!(code, Some(0), "{line}: {err}");
    serde_json::from_str(&out).expect("JSON")
}

fn count(document: &Value, key: &str) -> usize {
    document[key].as_array().expect("a list").len()
}

/// The rows of a document, in the order of their texts: rows that weigh the same come in any order.
fn rows(document: &Value) -> Vec<String> {
    let mut rows: Vec<String> =
        document["rows"].as_array().expect("rows").iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

#[test]
fn an_archive_in_a_bucket_answers_as_one_in_a_folder() {
    let (server, dir) = (Server::start(), FLEET.archived());
    let (at, path) = (server.address, dir.path());
    let (code, _, err) = run(path, at, "archive s3://fleet/a list");
    assert!(code == Some(2) && err.contains("there is no archive in `s3://fleet/a`"), "{err}");
    assert_eq!(count(&told(path, at, "archive s3://fleet/a add DIR/fleet"), "added"), 12);
    let again = told(path, at, "archive s3://fleet/a add DIR/fleet");
    assert_eq!((count(&again, "added"), count(&again, "known")), (0, 12));
    let same = |actions: &[&str], then: &str| {
        for action in actions {
            let [here, there] = ["DIR/archive", "s3://fleet/a"]
                .map(|archive| told(path, at, &format!("archive {archive} {action}")));
            assert_eq!(rows(&here), rows(&there), "{action} {then}");
        }
        for archive in ["DIR/archive", "s3://fleet/a"] {
            assert_eq!(told(path, at, &format!("archive {archive} verify"))["ok"], true, "{then}");
        }
    };
    let all = [
        "list",
        "list host=web-01",
        "search --function * -n 0",
        "search --image libz* -n 0",
        "top service=web -n 0",
        "trend service=web",
    ];
    same(&all, "as it was added");
    for action in ["compact", "gc", "prune host=web-02", "reindex --all", "compact"] {
        for archive in ["DIR/archive", "s3://fleet/a"] {
            told(path, at, &format!("archive {archive} {action}"));
        }
        same(&all[2..3], action);
    }
    // A recording comes out byte for byte as it lies in the folder.
    let uuid = told(path, at, "archive DIR/archive list host=db-01")["rows"][0]["uuid"].clone();
    let uuid = uuid.as_str().expect("a UUID");
    for (archive, to) in [("s3://fleet/a", "there"), ("DIR/archive", "here")] {
        told(path, at, &format!("archive {archive} get {uuid} -o DIR/{to}"));
    }
    let read = |name: &str| fs::read(path.join(name)).expect("read");
    assert!(read("here") == read("there"));
    // Another archive in the same bucket, one in another, and one here.
    assert_eq!(count(&told(path, at, "archive s3://fleet/a push s3://fleet/b service=web"), "moved"), 4);
    assert_eq!(count(&told(path, at, "archive s3://other pull s3://fleet/a"), "moved"), 10);
    assert_eq!(count(&told(path, at, "archive DIR/back pull s3://other"), "moved"), 10);
    assert_eq!(json(path, "archive DIR/back list")["rows"], json(path, "archive DIR/archive list")["rows"]);
    assert_eq!(told(path, at, "archive s3://fleet/a list")["rows"].as_array().map(Vec::len), Some(10));
    // Tables alone, without an archive.
    let tables = told(path, at, "parquet DIR/here -o s3://other/tables");
    assert!(count(&tables, "files") >= 5, "{tables}");
    let (code, _, err) = run(path, at, "parquet DIR/here -o s3://fleet/a");
    assert!(code == Some(2) && err.contains("is an archive"), "{err}");
}

#[test]
fn connections_that_end_at_any_byte_lose_nothing() {
    let (server, dir) = (Server::start(), FLEET.archived());
    let (at, path) = (server.address, dir.path());
    let (cut_at, cut) = cutting(at, two_of_three);
    assert_eq!(count(&told(path, cut_at, "archive s3://fleet/a add DIR/fleet"), "added"), 12);
    for action in ["compact", "prune host=web-02", "gc"] {
        for archive in ["DIR/archive", "s3://fleet/a"] {
            told(path, cut_at, &format!("archive {archive} {action}"));
        }
    }
    assert!(cut.load(Ordering::Relaxed) > 20, "connections were cut");
    for action in ["list", "search --function * -n 0", "regressions --since 2026-09-02"] {
        let [here, there] = ["DIR/archive", "s3://fleet/a"]
            .map(|archive| told(path, cut_at, &format!("archive {archive} {action}")));
        assert_eq!(rows(&here), rows(&there), "{action}");
    }
    assert_eq!(told(path, at, "archive s3://fleet/a verify")["ok"], true);
}

#[test]
fn many_write_into_a_bucket_at_once_and_nothing_is_lost() {
    let (server, dir) = (Server::start(), FLEET.archived());
    let (at, path) = (server.address, dir.path());
    let halves =
        [["web-00*", "web-01*", "db-00*"], ["web-01*", "web-02*", "db-01*"], ["db-0*", "web-00*", "web-0*"]];
    let files = |patterns: &[&str]| {
        let names =
            fs::read_dir(path.join("fleet")).expect("listed").map(|file| file.expect("a file").path());
        let is = |name: &str| patterns.iter().any(|pattern| name.starts_with(pattern.trim_end_matches('*')));
        let is_wanted = |file: &std::path::PathBuf| is(&file.file_name().expect("a name").to_string_lossy());
        let mut files: Vec<String> = names.filter(is_wanted).map(|file| file.display().to_string()).collect();
        files.sort();
        files.join(" ")
    };
    let mut adding: Vec<Child> = Vec::new();
    for half in &halves {
        let line = format!("archive s3://fleet/a add {}", files(half));
        adding.push(report(path, at, &line).spawn().expect("it runs"));
    }
    // Another one merges and collects meanwhile, as soon as there is an archive.
    let mut merged = 0;
    while adding.iter_mut().any(|child| child.try_wait().is_ok_and(|ended| ended.is_none())) {
        let (code, _, err) = run(path, at, "archive s3://fleet/a compact");
        assert!(code == Some(0) || err.contains("there is no archive"), "{err}");
        merged += u32::from(code == Some(0));
        let (code, _, err) = run(path, at, "archive s3://fleet/a gc");
        assert!(code == Some(0) || err.contains("there is no archive"), "{err}");
    }
    for child in adding {
        let out = child.wait_with_output().expect("it ends");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    assert!(merged > 0, "nobody merged");
    told(path, at, "archive s3://fleet/a compact");
    assert_eq!(told(path, at, "archive s3://fleet/a verify")["ok"], true);
    let there = told(path, at, "archive s3://fleet/a search --function * -n 0");
    assert_eq!(rows(&there), rows(&json(path, "archive DIR/archive search --function * -n 0")));
}

#[test]
fn what_is_wrong_with_a_bucket_is_said() {
    let (server, dir) = (Server::start(), tempfile::tempdir().expect("a directory"));
    let (at, path) = (server.address, dir.path());
    let says = |command: &mut Command, cause: &str| {
        let out = command.output().expect("it runs");
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && err.contains(cause), "{err}");
    };
    says(&mut report(path, at, "archive s3:// list"), "names no bucket");
    says(&mut report(path, at, "archive s3://nowhere list"), "there is no bucket `nowhere`");
    says(
        report(path, at, "archive s3://fleet list").env_remove("AWS_SECRET_ACCESS_KEY"),
        "AWS_SECRET_ACCESS_KEY is not set",
    );
    says(report(path, at, "archive s3://fleet list").env("AWS_ENDPOINT_URL", "fleet:9000"), "is no address");
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    says(&mut report(path, nobody, "archive s3://fleet list"), "refused");
    // Something else is there already.
    let mut stream = TcpStream::connect(at).expect("it serves");
    write!(stream, "PUT /other/x HTTP/1.0\r\nHost: {at}\r\nContent-Length: 1\r\n\r\nx").expect("sent");
    stream.read_to_end(&mut Vec::new()).expect("answered");
    says(&mut report(path, at, "archive s3://other add DIR/fleet"), "is no archive, and has files already");
}
