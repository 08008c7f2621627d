//! `icecore-report ship`: a file arrives whole and under its own name, or not at all, wherever it goes and wherever the way is cut.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use icecore_tests::bucket::{Server, cutting, two_of_three};
use icecore_tests::inside::json;
use icecore_tests::machine::{Host, program, text, wait_until};
use icecore_tests::synthetic::Fleet;
use serde_json::Value;
use tempfile::TempDir;

use crate::bucket;

const FLEET: Fleet = Fleet { first: 0, days: 1, hosts: 2, samples: 60 };

/// Recordings, and a folder for them.
struct Both {
    dir: TempDir,
    to: PathBuf,
    files: Vec<PathBuf>,
}

impl Both {
    fn new() -> Self {
        let dir = FLEET.archived();
        let to = dir.path().join("to");
        fs::create_dir(&to).expect("room");
        let files =
            names(&dir.path().join("fleet")).into_iter().map(|name| dir.path().join("fleet").join(name));
        Self { to, files: files.collect(), dir }
    }

    /// A file of no recording, so large that it takes a while.
    fn large(&self, bytes: usize) -> PathBuf {
        let path = self.dir.path().join("large.icecore");
        let noise: Vec<u8> = (0..bytes).map(|at| ((at * 2_654_435_761_usize) >> 7) as u8).collect();
        fs::write(&path, noise).expect("room");
        path
    }
}

/// The names in a folder, also those that begin with a dot.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

fn ship(to: &str, files: &[&Path], sftp: &str) -> Command {
    let mut command = Command::new(program("icecore-report"));
    command.args(["ship", "--json", to]).args(files).env("ICECORE_SFTP", sftp).stdin(Stdio::null());
    command
}

/// Returns of each file whether it has arrived, whether it was there, and why it has not arrived.
fn told(output: &Output) -> Vec<(bool, bool, String)> {
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(document["schema"], "icecore.ship/1");
    let files = document["files"].as_array().expect("a list");
    let told = files.iter().map(|file| {
        let error = file["error"].as_str().unwrap_or_default().to_owned();
        (file["arrived"] == true, file["was_there"] == true, error)
    });
    let told: Vec<_> = told.collect();
    let all = told.iter().all(|(arrived, ..)| *arrived);
    assert_eq!(output.status.code(), Some(if all { 0 } else { 2 }), "{}", text(&output.stderr));
    told
}

fn shipped(to: &str, files: &[&Path], sftp: &str) -> Vec<(bool, bool, String)> {
    told(&ship(to, files, sftp).output().expect("it runs"))
}

fn why_not(to: &str, file: &Path, sftp: &str) -> String {
    let mut told = shipped(to, &[file], sftp);
    let (arrived, _, why) = told.pop().expect("one file");
    assert!(!arrived, "{file:?}");
    why
}

fn same(one: &Path, other: &Path) -> bool {
    fs::read(one).expect("there") == fs::read(other).expect("there")
}

#[test]
fn a_file_comes_into_a_folder_once_and_replaces_none() {
    let both = Both::new();
    let (to, file) = (both.to.to_str().expect("UTF-8"), &*both.files[0]);
    let there = both.to.join(file.file_name().expect("a name"));
    assert_eq!(shipped(to, &[file], ""), [(true, false, String::new())]);
    assert!(same(file, &there) && file.exists());
    assert_eq!(
        shipped(to, &[file, &both.files[1]], ""),
        [(true, true, String::new()), (true, false, String::new())]
    );
    assert_eq!(names(&both.to).len(), 2, "nothing else");
    // Of another length, and of the same.
    let bytes = fs::read(file).expect("there");
    for other in [&bytes[1..], &[&[!bytes[0]][..], &bytes[1..]].concat()] {
        fs::write(&there, other).expect("room");
        let why = why_not(to, file, "");
        assert!(why.starts_with("another file of this name is there"), "{why}");
        assert_eq!(fs::read(&there).expect("there"), other);
    }
    fs::remove_file(&there).expect("ours");
    // What is being written is not whole.
    let written = File::open(file).expect("there");
    written.lock().expect("nobody else");
    assert_eq!(why_not(to, file, ""), "a recorder is writing it: ship it when it is finished");
    drop(written);
    // What others have left stays for a day.
    let (old, young) = (both.to.join(".icecore-old.part"), both.to.join(".icecore-young.part"));
    for (path, age) in [(&old, 90_000), (&young, 80_000)] {
        let left = File::create(path).expect("room");
        left.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("ours");
    }
    assert_eq!(shipped(to, &[file], ""), [(true, false, String::new())]);
    assert!(!old.exists() && young.exists() && same(file, &there));
}

#[test]
fn a_folder_that_is_not_there_is_not_made_and_what_cannot_be_meant_is_refused() {
    let both = Both::new();
    let (file, nowhere) = (&*both.files[0], both.dir.path().join("nowhere"));
    let why = why_not(nowhere.to_str().expect("UTF-8"), file, "");
    assert!(why.ends_with("make it, or mount what it is on") && !nowhere.exists(), "{why}");
    // What is in the archive only because it is there itself would be removed.
    let fleet = both.dir.path().join("fleet");
    let link = both.dir.path().join("link");
    std::os::unix::fs::symlink(&fleet, &link).expect("room");
    for folder in [&fleet, &link] {
        let why = why_not(folder.to_str().expect("UTF-8"), file, "");
        assert_eq!(why, "the archive is the folder in which it is: name another one");
    }
    std::os::unix::fs::symlink(file, both.to.join(file.file_name().expect("a name"))).expect("room");
    assert!(why_not(both.to.to_str().expect("UTF-8"), file, "").starts_with("the archive is the folder"));
    assert_eq!((names(&fleet).len(), names(&both.to).len()), (both.files.len(), 1), "nothing is left");
    let to = both.to.to_str().expect("UTF-8");
    assert!(why_not(to, &both.dir.path().join("none"), "").starts_with("No such file"));
    assert_eq!(why_not(to, both.dir.path(), ""), "it is no regular file");
    for (to, cause) in [("ssh://host", "names no folder"), ("s3://", "names no bucket"), ("a:b\"c", "quote")]
    {
        let output = ship(to, &[file], "").output().expect("it runs");
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains(cause) && said.contains("cannot ship to"),
            "{said}"
        );
    }
}

#[test]
fn what_others_put_into_the_folder_keeps_no_file_waiting() {
    let both = Both::new();
    let to = both.to.to_str().expect("UTF-8");
    let (first, others) = both.files.split_first().expect("there are some");
    let pipe = |name: &Path| {
        let made = Command::new("mkfifo").arg(both.to.join(name)).status();
        assert!(made.expect("coreutils").success());
    };
    // A pipe without a writer lets whoever opens it wait.
    pipe(first.file_name().expect("a name").as_ref());
    let files: Vec<&Path> = both.files.iter().map(PathBuf::as_path).collect();
    let told = shipped(to, &files, "");
    assert!(!told[0].0 && told[0].2.contains("it is no regular file"), "{told:?}");
    assert!(told.len() == others.len() + 1 && told[1..].iter().all(|(arrived, ..)| *arrived), "{told:?}");
    // The file by which an archive is known.
    let both = Both::new();
    let to = both.to.to_str().expect("UTF-8");
    assert!(
        Command::new("mkfifo").arg(both.to.join("icecore-archive")).status().expect("coreutils").success()
    );
    let why = why_not(to, &both.files[0], "");
    assert!(why.contains("it is no regular file"), "{why}");
}

#[test]
fn a_recording_that_is_shipped_to_an_archive_is_added_to_it() {
    let both = Both::new();
    let (path, to) = (both.dir.path(), both.dir.path().join("archive"));
    let before = json(path, "archive DIR/archive list")["rows"].as_array().map(Vec::len);
    let to = to.to_str().expect("UTF-8");
    assert!(shipped(to, &[&both.files[0]], "").iter().all(|(arrived, was_there, _)| *arrived && *was_there));
    // Another recording: its UUID differs. Its end is missing, as if its recorder had been killed.
    let bytes = fs::read(&both.files[0]).expect("there");
    let new = both.dir.path().join("new.icecore");
    json(path, &format!("merge {} {} -o DIR/new.icecore", both.files[0].display(), both.files[1].display()));
    let whole = fs::read(&new).expect("made");
    fs::write(&new, &whole[..whole.len() - 100]).expect("room");
    assert_eq!(shipped(to, &[&new], ""), [(true, false, String::new())]);
    let after = json(path, "archive DIR/archive list")["rows"].as_array().map(Vec::len);
    assert_eq!(after, before.map(|rows| rows + 2), "a session each");
    // What is damaged, and was closed, stays.
    let mut damaged = bytes;
    let middle = damaged.len() / 2;
    damaged[16] ^= 1;
    damaged[middle] ^= 1;
    fs::write(&new, damaged).expect("room");
    let why = why_not(to, &new, "");
    assert!(!why.is_empty(), "{why}");
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
}

#[test]
fn files_come_into_a_bucket_whole_wherever_connections_end() {
    let (server, both) = (Server::start(), Both::new());
    let (path, at) = (both.dir.path(), server.address);
    let (cut_at, _) = cutting(at, two_of_three);
    let files: Vec<String> = both.files.iter().map(|file| file.display().to_string()).collect();
    let line = format!("ship --json s3://fleet/web {}", files.join(" "));
    // Each request is tried six times, and two of three connections are cut.
    let mut rounds = 0;
    loop {
        let (code, _, err) = bucket::run(path, cut_at, &line);
        rounds += 1;
        if code == Some(0) {
            break;
        }
        assert!(rounds < 20, "{err}");
    }
    let again = told(&bucket::report(path, at, &line).output().expect("it runs"));
    assert!(again.len() == files.len() && again.iter().all(|(_, was_there, _)| *was_there));
    // Another file with one of these names.
    let other = path.join("other").join(both.files[0].file_name().expect("a name"));
    fs::create_dir(path.join("other")).and_then(|()| fs::copy(&both.files[1], &other)).expect("room");
    let refused = format!("ship --json s3://fleet/web {}", other.display());
    let refused = told(&bucket::report(path, at, &refused).output().expect("it runs"));
    assert!(refused[0].2.starts_with("another file of this name is there"), "{refused:?}");
    // A bucket that is not there, and an archive in one.
    let nowhere = format!("ship --json s3://nowhere {}", files[0]);
    let nowhere = told(&bucket::report(path, at, &nowhere).output().expect("it runs"));
    assert!(nowhere[0].2.contains("there is no bucket `nowhere`"), "{nowhere:?}");
    assert_eq!(bucket::run(path, at, &format!("archive s3://other add {}", files[0])).0, Some(0));
    let line = format!("ship --json s3://other {}", files.join(" "));
    let added = told(&bucket::report(path, at, &line).output().expect("it runs"));
    assert_eq!(
        added.iter().filter(|(arrived, was_there, _)| *arrived && !*was_there).count(),
        files.len() - 1
    );
}

#[test]
fn a_file_comes_to_another_host_whole_or_not_at_all() {
    let (mut host, both) = (Host::start(), Both::new());
    let (to, sftp) = (host.folder(&both.to), host.sftp());
    let file = &*both.files[0];
    assert_eq!(shipped(&to, &[file], &sftp), [(true, false, String::new())]);
    assert_eq!(shipped(&to, &[file], &sftp), [(true, true, String::new())]);
    let there = both.to.join(file.file_name().expect("a name"));
    assert!(same(file, &there) && names(&both.to).len() == 1);
    fs::OpenOptions::new().append(true).open(&there).and_then(|mut file| file.write_all(b"x")).expect("ours");
    assert!(why_not(&to, file, &sftp).starts_with("another file of this name is there"));
    let itself = why_not(&host.folder(&both.dir.path().join("fleet")), file, &sftp);
    assert!(itself.ends_with("the archive is the folder in which it is: name another one"), "{itself}");
    assert_eq!(names(&both.dir.path().join("fleet")).len(), both.files.len(), "nothing is left");
    // Names with what sftp takes for patterns, quotes and comments.
    let strange = both.dir.path().join("-a [b]*'#?.icecore");
    fs::copy(file, &strange).expect("room");
    assert_eq!(shipped(&to, &[&strange], &sftp), [(true, false, String::new())]);
    assert!(same(file, &both.to.join("-a [b]*'#?.icecore")));
    // The connection ends in the midst, at one end and at the other.
    let large = both.large(8 << 20);
    let arrived = both.to.join("large.icecore");
    let part = || names(&both.to).into_iter().find(|name| name.starts_with(".icecore-large.icecore-"));
    let is_under_way = |seen: &Option<String>| {
        let now = part().filter(|name| seen.as_ref() != Some(name));
        now.is_some_and(|name| fs::metadata(both.to.join(name)).is_ok_and(|meta| meta.len() > 1 << 20))
    };
    let slow = format!("{sftp} -l 20000");
    let begin = || ship(&to, &[&large], &slow).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let ended = |child: Child| child.wait_with_output().expect("it ends");
    for of_host in [true, false] {
        let seen = part();
        let child = begin().expect("it runs");
        wait_until("a part is there", || is_under_way(&seen));
        if of_host {
            host.cut();
        } else {
            let sftp =
                Command::new("pkill").args(["-9", "-x", "-P", &child.id().to_string(), "sftp"]).status();
            assert!(sftp.expect("procps").success());
        }
        let (arrives, _, why) = told(&ended(child)).pop().expect("one file");
        assert!(!arrives && why.contains("cannot write into"), "{why}");
        assert!(!arrived.exists() && part().is_some(), "no file has the name");
        if of_host {
            let why = why_not(&to, &large, &sftp);
            assert!(why.contains("Connection refused"), "{why}");
            host.begin();
        }
    }
    assert_eq!(shipped(&to, &[&large], &sftp), [(true, false, String::new())]);
    assert!(same(&large, &arrived) && part().is_none(), "{:?}", names(&both.to));
    // What cannot be shipped there.
    assert!(why_not(&host.folder(&both.dir.path().join("none")), file, &sftp).contains("No such file"));
    let why = why_not(&host.folder(&both.dir.path().join("archive")), file, &sftp);
    assert!(why.contains("is an archive, to which only a program there adds"), "{why}");
    let why = why_not(&to, file, "sftp -F /dev/null -o UserKnownHostsFile=/dev/null");
    assert!(why.contains("Host key verification failed") && why.contains("connect once by hand"), "{why}");
    assert!(why_not(&to, file, "no-such-program").contains("install the client of OpenSSH"));
}

#[test]
fn requests_are_answered_one_after_the_other() {
    let both = Both::new();
    let mut command = ship(both.to.to_str().expect("UTF-8"), &[], "");
    let command = command.arg("--requests").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    for path in [both.files[0].as_path(), Path::new("/nowhere/x"), &both.files[1]] {
        writeln!(stdin, "{}", path.display()).expect("it reads");
    }
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let arrived = |line: &Value| line["files"][0]["arrived"].as_bool();
    assert!(lines.iter().all(|line| line["schema"] == "icecore.ship/1"));
    assert_eq!(lines.iter().map(arrived).collect::<Vec<_>>(), [None, Some(true), Some(false), Some(true)]);
    assert_eq!(names(&both.to).len(), 2);
}
