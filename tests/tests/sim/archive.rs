//! `archive`: what goes in comes out, tables say what views say, and what was interrupted is never half there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use icecore_archive::archive::GRACE;
use icecore_archive::folder::Step;
use icecore_archive::{Archive, Folder, Partition};
use icecore_format::records::LabelV1;
use icecore_tests::inside::{answer, json, report, run_in, text};
use icecore_tests::synthetic::{Fleet, REGRESSION_DAY, SICK_HOST, story};
use serde_json::Value;

const FLEET: Fleet = Fleet { first: 0, days: 3, hosts: 4, samples: 60 };

fn rows(document: &Value) -> &Vec<Value> {
    document["rows"].as_array().expect("rows")
}

/// All files below a folder, with their bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let listed = Folder::new(folder).list(Path::new("")).expect("listed");
    let with_bytes = |name: PathBuf| (fs::read(folder.join(&name)).expect("read"), name);
    listed.into_iter().map(|file| with_bytes(file.name)).map(|(bytes, name)| (name, bytes)).collect()
}

#[test]
fn a_recording_that_was_got_shows_in_every_view_what_the_compacted_one_shows() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    story().write(&path.join("story"), true).expect("written");
    text(path, "archive DIR/archive add DIR/story");
    let uuid = json(path, "info DIR/story")["uuid"].as_str().expect("a UUID").to_owned();
    text(path, &format!("archive DIR/archive get {uuid} -o DIR/got"));
    text(path, "compact DIR/story -o DIR/compacted");
    assert_eq!(json(path, "info DIR/got")["uuid"], uuid);
    let views = ["summary", "tree", "depth", "timeline", "health", "missing", "folded", "samples"];
    let tops = ["function", "inlined", "line", "image", "process", "thread", "cpu"]
        .map(|by| format!("top -n 0 --by {by}"));
    for view in views.map(str::to_owned).into_iter().chain(tops) {
        let [got, compacted] = ["got", "compacted"].map(|name| {
            let printed = text(path, &format!("{view} DIR/{name} --json")).replace(name, "FILE");
            let Ok(mut document) = serde_json::from_str::<Value>(&printed) else { return printed };
            let keys = document.as_object_mut().expect("an object");
            // The size of the file, and what an edit says of itself.
            ["file", "file_bytes", "bytes_per_sample", "notes"]
                .iter()
                .for_each(|key| drop(keys.remove(*key)));
            format!("{document:#}")
        });
        assert!(got.len() > 100, "{view}: {got}");
        let differ = got.lines().zip(compacted.lines()).find(|(got, compacted)| got != compacted);
        assert!(got == compacted, "{view}: {differ:?}");
    }
}

#[test]
fn recordings_are_listed_selected_and_found() {
    let dir = FLEET.archived();
    let path = dir.path();
    let all = json(path, "archive DIR/archive list");
    assert_eq!(rows(&all).len(), 24);
    let hosts = |document: &Value| {
        let hosts = rows(document).iter().map(|row| row["host"].as_str().expect("a host").to_owned());
        hosts.collect::<BTreeSet<String>>()
    };
    assert_eq!(hosts(&all).len(), 8);
    let chosen = report(path, &["archive", "DIR/archive", "list", "host=web-0[12] service=web", "--json"]);
    assert_eq!(rows(&serde_json::from_str(&chosen).expect("JSON")).len(), 0, "a bracket is a bracket");
    let chosen = ["archive", "DIR/archive", "list", "host=*-02 release=1.4.* service=w?b", "--json"];
    let chosen: Value = serde_json::from_str(&report(path, &chosen)).expect("JSON");
    assert_eq!((rows(&chosen).len(), hosts(&chosen)), (3, BTreeSet::from(["web-02".to_owned()])));
    // They began at 3:00 of three days.
    for (times, count) in [
        ("--since 2026-09-02", 16),
        ("--since 2026-09-02 --until 2026-09-03", 8),
        ("--until 2026-09-01T03:00:02", 4),
        ("--since 2026-09-04", 0),
    ] {
        assert_eq!(rows(&json(path, &format!("archive DIR/archive list {times}"))).len(), count, "{times}");
    }
    let show = json(path, "archive DIR/archive show service=db");
    assert_eq!((show["recordings"].as_u64(), show["samples"].as_u64()), (Some(12), Some(12 * 90)));
    assert_eq!(show["labels"]["release"]["1.4.2"], 12);
    let found = json(path, "archive DIR/archive search --function crc32 -n 0");
    let top = json(path, "top DIR/fleet/web-01-000.icecore -n 0");
    let expected = rows(&top).iter().find(|row| row["name"] == "crc32").expect("it is hit");
    let is_it = |row: &&Value| row["host"] == "web-01" && row["start_unix_us"] == 1_788_231_601_000_000_u64;
    let row = rows(&found).iter().find(is_it).expect("it is found");
    for key in ["self", "total", "self_share", "total_share"] {
        assert_eq!(row[key], expected[key], "{key}");
    }
    // Every third host has the old build.
    let old = json(path, "archive DIR/archive search service=web --build-id 0d0d* -n 0");
    assert_eq!(hosts(&old), BTreeSet::from(["web-00".to_owned(), "web-03".to_owned()]));
    let (code, err) = answer(path, "archive DIR/archive show host=nobody");
    assert!(code == 2 && err.contains("no recording in `archive` is selected"), "{err}");
    let (code, err) = answer(path, "archive DIR/archive list host");
    assert!(code == 2 && err.contains("`host` is no term of a selection: write KEY=PATTERN"), "{err}");
}

#[test]
fn views_of_a_selection_are_those_of_the_merged_recordings() {
    let dir = FLEET.archived();
    let path = dir.path();
    let merged = "merge DIR/fleet/web-02-000.icecore DIR/fleet/web-02-001.icecore DIR/fleet/web-02-002.icecore -o DIR/merged";
    text(path, merged);
    for view in ["top -n 0", "top -n 0 --by inlined", "top -n 0 --event * --by host", "depth"] {
        let (name, options) = view.split_once(' ').unwrap_or((view, ""));
        let of_archive = format!("archive DIR/archive {name} host=web-02 {options}");
        let [got, expected] = [of_archive.trim_end(), &format!("{view} DIR/merged")].map(|line| {
            let mut document = json(path, line);
            document.as_object_mut().expect("an object").remove("file");
            document
        });
        assert_eq!(got, expected, "{view}");
    }
    let one = json(path, "archive DIR/archive top host=web-02 --until 2026-09-02 -n 0");
    assert_eq!(one["rows"], json(path, "top DIR/fleet/web-02-000.icecore -n 0")["rows"]);
    let trend = json(path, "archive DIR/archive trend host=web-02");
    assert_eq!(trend["recordings"].as_array().map(Vec::len), Some(3), "{trend}");
    for (view, title) in [("html", "<title>host=web-02</title>"), ("flame", ">host=web-02<")] {
        text(path, &format!("archive DIR/archive {view} host=web-02 -o DIR/{view}"));
        assert!(fs::read_to_string(path.join(view)).expect("written").contains(title), "{view}");
    }
    let annotated = answer(path, "archive DIR/archive annotate host=web-02 no_such_function");
    assert!(annotated.1.contains("no_such_function"), "{annotated:?}");
    let (code, err) = answer(path, "archive DIR/archive top --by image host=web-02");
    assert!(code == 2 && err.contains("archive DIR top [SELECTION] [OPTIONS]"), "{err}");
    let (code, err) = answer(path, "archive DIR/archive frobnicate host=web-02");
    assert!(code == 2 && err.contains("`frobnicate` is no action on an archive"), "{err}");
}

#[test]
fn a_regression_and_a_sick_host_are_found_by_one_command_each() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    fs::create_dir(path.join("nights")).expect("made");
    let fleet = Fleet { hosts: 10, samples: 400, first: 0, days: 0 };
    // A week before the night of the regression, and the week that begins with it.
    for day in REGRESSION_DAY - 7..REGRESSION_DAY + 7 {
        for host in 0..fleet.hosts {
            let name = format!("nights/{host}-{day}.icecore");
            fleet.night("web", host, day).write(&path.join(name), true).expect("written");
        }
    }
    text(path, "archive DIR/archive add DIR/nights");
    // Day 60 is 2026-10-31.
    let grew = |diff: &Value| {
        let grew = rows(diff).iter().filter(|row| row["status"] == "grew" && row["significant"] == true);
        grew.map(|row| row["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    let weeks = json(path, "archive DIR/archive diff service=web --last 7d --until 2026-11-07");
    assert_eq!(grew(&weeks), ["parse"], "{weeks:#}");
    let releases = json(path, "archive DIR/archive diff release=1.4.2 release=1.5.0");
    assert_eq!(grew(&releases), ["parse"], "{releases:#}");
    let sick = json(path, "archive DIR/archive search service=web --function crc32 -n 1");
    assert_eq!(rows(&sick)[0]["host"], SICK_HOST);
}

#[test]
fn what_is_added_twice_or_by_many_at_once_is_there_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    fs::create_dir(path.join("fleet")).expect("made");
    FLEET.write(&path.join("fleet")).expect("written");
    let added: usize = std::thread::scope(|scope| {
        let adding =
            || json(path, "archive DIR/archive add DIR/fleet")["added"].as_array().map_or(0, Vec::len);
        let listing = || (0..20).for_each(|_| drop(run_in(path, &["archive", "DIR/archive", "list"])));
        scope.spawn(listing);
        let writers: Vec<_> = (0..4).map(|_| scope.spawn(adding)).collect();
        writers.into_iter().map(|writer| writer.join().expect("it ends well")).sum()
    });
    assert!(added >= 24, "{added}: each was added by somebody");
    assert_eq!(rows(&json(path, "archive DIR/archive list")).len(), 24);
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
    let again = json(path, "archive DIR/archive add DIR/fleet");
    assert_eq!(
        (again["added"].as_array().map(Vec::len), again["known"].as_array().map(Vec::len)),
        (Some(0), Some(24))
    );
    assert_eq!(rows(&json(path, "archive DIR/archive list")).len(), 24);
}

/// All that the archive says, which must not depend on how its files are merged.
fn said(path: &Path) -> [Value; 3] {
    ["list", "search --function * -n 0", "show"].map(|action| {
        let mut document = json(path, &format!("archive DIR/archive {action}"));
        document["rows"].as_array_mut().into_iter().for_each(|rows| rows.sort_by_key(Value::to_string));
        // Files of recordings become others when they share their names.
        if action == "show" {
            let keys = document.as_object_mut().expect("an object");
            assert!(["files", "file_bytes"].iter().all(|key| keys.remove(*key).is_some()));
        }
        document
    })
}

fn tables(path: &Path) -> usize {
    let all = Folder::new(&path.join("archive")).list(Path::new("")).expect("listed");
    all.iter().filter(|file| file.name.extension().is_some_and(|it| it == "parquet")).count()
}

#[test]
fn merged_tables_say_the_same_in_fewer_files() {
    let dir = FLEET.archived();
    let path = dir.path();
    let (before, count) = (said(path), tables(path));
    assert_eq!(count, 24 * 6);
    let compacted = json(path, "archive DIR/archive compact");
    // Three days of two services, six tables.
    assert_eq!(
        (compacted["files_before"].as_u64(), compacted["files_after"].as_u64()),
        (Some(24 * 6), Some(36))
    );
    assert_eq!(tables(path), 36);
    assert_eq!(said(path), before);
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
    let twice = files(&path.join("archive"));
    text(path, "archive DIR/archive compact");
    assert!(files(&path.join("archive")) == twice, "nothing is left to merge");
    // One more recording of a day that was merged.
    Fleet { hosts: 9, ..FLEET }.night("web", 8, 1).write(&path.join("more"), true).expect("written");
    text(path, "archive DIR/archive add DIR/more");
    assert_eq!((tables(path), rows(&said(path)[0]).len()), (42, 25));
    text(path, "archive DIR/archive compact");
    assert_eq!((tables(path), rows(&said(path)[0]).len()), (36, 25));
    let merged = said(path);
    text(path, "archive DIR/archive reindex --all");
    assert_eq!((tables(path), said(path)), (36, merged));
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
}

#[test]
fn recordings_that_share_their_names_come_back_byte_for_byte_and_show_the_same() {
    let dir = FLEET.archived();
    let path = dir.path();
    text(path, "archive DIR/archive get host=* -o DIR/before");
    let shown = |action: &str| json(path, &format!("archive DIR/archive {action}"))["rows"].clone();
    let views = ["top service=web -n 0", "top host=db-01 -n 0 --by line", "diff service=web service=db"];
    let before = views.map(shown);
    let compacted = json(path, "archive DIR/archive compact");
    assert_eq!(compacted["nameless"], 24);
    // Two programs; the library has too few functions.
    let named = |kind: &str| {
        let all = Folder::new(&path.join("archive")).list(Path::new("")).expect("listed");
        all.iter().filter(|file| file.name.extension().is_some_and(|it| it == kind)).count()
    };
    assert_eq!((named("names"), named("nameless"), named("icecore")), (2, 24, 0));
    text(path, "archive DIR/archive get host=* -o DIR/after");
    let got = files(&path.join("before"));
    assert_eq!(got.len(), 24);
    assert!(got == files(&path.join("after")));
    assert_eq!(views.map(shown), before);
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
    // Views name the file in the archive, and every command opens it there.
    let uuid = got[0].0.file_stem().and_then(|stem| stem.to_str()).expect("a UUID");
    let (code, out, _) = run_in(path, &["archive", "DIR/archive", "summary", uuid]);
    let at = out.find("archive/recordings/").expect("it names the file");
    let file = out[at..].split_whitespace().next().expect("a path");
    assert!(code == 0 && file.ends_with(&format!("{uuid}.nameless")), "{out}");
    let rows = |file: &str| json(path, &format!("top DIR/{file} -n 0"))["rows"].clone();
    assert_eq!(rows(file), rows(&format!("after/{uuid}.icecore")));
    fs::copy(path.join(file), path.join("alone.nameless")).expect("copied");
    let (code, errors) = answer(path, "top DIR/alone.nameless");
    assert!(code == 2 && errors.contains("archive DIR get UUID"), "{errors}");
    // Who gets them from here stores them as they were added.
    text(path, "archive DIR/archive push DIR/other");
    text(path, "archive DIR/other get host=* -o DIR/pushed");
    assert!(got == files(&path.join("pushed")));
    // Names that are lost are said to be, whoever needs them.
    text(path, "archive DIR/other compact");
    fs::remove_dir_all(path.join("other/names")).expect("removed");
    let failed = json_of_failure(path, "archive DIR/other verify --json");
    assert_eq!(failed["problems"].as_array().map(Vec::len), Some(24));
    let (code, _, errors) = run_in(path, &["archive", "DIR/other", "top", "service=web"]);
    assert_eq!((code, errors.contains("any more")), (2, true), "{errors}");
}

#[test]
fn adding_merging_collecting_and_reading_at_once_lose_and_double_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    fs::create_dir(path.join("fleet")).expect("made");
    let fleet = Fleet { first: 0, days: 1, hosts: 20, samples: 20 };
    fleet.write(&path.join("fleet")).expect("written");
    text(path, "archive DIR/archive add DIR/fleet/web-00-000.icecore");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let until_done = |action: &'static str| {
            let done = &done;
            move || {
                let mut most = 0;
                while !done.load(Ordering::Relaxed) {
                    let document = json(path, &format!("archive DIR/archive {action}"));
                    let listed = document["rows"].as_array().map_or(most, Vec::len);
                    assert!(listed >= most, "what was listed stays listed: {listed} after {most}");
                    most = listed;
                }
            }
        };
        // With those that add, sixteen.
        let others: Vec<_> =
            ["compact", "compact", "gc", "gc", "list", "list", "search --function parse", "reindex --all"]
                .map(|action| scope.spawn(until_done(action)))
                .into();
        let adders: Vec<_> =
            ["web", "db"].into_iter().flat_map(|service| (0..4).map(move |part| (service, part))).collect();
        let adders: Vec<_> = adders
            .into_iter()
            .map(|(service, part)| {
                scope.spawn(move || {
                    for host in (0..20).filter(|host| host % 4 == part) {
                        text(
                            path,
                            &format!("archive DIR/archive add DIR/fleet/{service}-{host:02}-000.icecore"),
                        );
                    }
                })
            })
            .collect();
        let added: Vec<_> = adders.into_iter().map(|adder| adder.join()).collect();
        done.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().expect("it ends well"));
        added.into_iter().for_each(|added| added.expect("it ends well"));
    });
    let listed = json(path, "archive DIR/archive list");
    assert_eq!(rows(&listed).len(), 40);
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
    text(path, "archive DIR/archive compact");
    assert_eq!((tables(path), rows(&json(path, "archive DIR/archive list")).len()), (12, 40));
}

#[test]
fn merging_that_fails_at_any_step_loses_nothing() {
    let dir = FLEET.archived();
    let path = dir.path();
    let before = said(path);
    let root = path.join("archive");
    for at in (0..400).step_by(7) {
        let counted = AtomicUsize::new(0);
        let watch = move |_: Step, _: &Path| match counted.fetch_add(1, Ordering::Relaxed) {
            step if step >= at => Err(io::Error::other("killed")),
            _ => Ok(()),
        };
        let archive = Archive::open(Folder::new(&root).watched(Arc::new(watch))).expect("it is one");
        let is_done = archive.compact().is_ok();
        assert_eq!(said(path), before, "step {at}");
        if is_done {
            assert!(at > 30, "it has steps");
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn a_broken_recording_is_refused_or_mended() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    story().write(&path.join("open.icecore"), false).expect("written");
    let mut bytes = fs::read(path.join("open.icecore")).expect("read");
    bytes.truncate(bytes.len() - 100);
    fs::write(path.join("torn.icecore"), bytes).expect("written");
    fs::write(path.join("other.icecore"), "no recording").expect("written");
    for (name, cause) in [("open", "not closed"), ("torn", "--repair"), ("other", "cannot open recording")] {
        let (code, err) = answer(path, &format!("archive DIR/archive add DIR/{name}.icecore"));
        assert!(code == 2 && err.contains(cause), "{name}: {err}");
        assert!(err.contains("cannot add 1 of 1 recording"), "{err}");
    }
    let (code, out, err) =
        run_in(path, &["archive", "DIR/archive", "add", "DIR/torn.icecore", "--repair", "--json"]);
    assert_eq!(code, 0, "{err}");
    let added: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(added["added"].as_array().map(Vec::len), Some(1));
    let listed = json(path, "archive DIR/archive list");
    assert_eq!(rows(&listed)[0]["samples"].as_u64().map(|samples| samples > 0), Some(true));
    let (code, err) = answer(path, "archive DIR add DIR/open.icecore");
    assert!(code == 2 && err.contains("is no archive, and has files already"), "{err}");
    let (code, err) = answer(path, "archive DIR/nowhere list");
    assert!(code == 2 && err.contains("add FILE"), "{err}");
}

#[test]
fn damage_is_found_and_tables_are_mended() {
    let dir = FLEET.archived();
    let path = dir.path();
    let archive = path.join("archive");
    let of = |part: &str, extension: &str| {
        let listed = Folder::new(&archive).list(Path::new(part)).expect("listed");
        let file = listed.iter().find(|file| file.name.extension().is_some_and(|it| it == extension));
        archive.join(&file.expect("there are some").name)
    };
    let problems = || {
        let found = json_of_failure(path, "archive DIR/archive verify --json");
        found["problems"].as_array().expect("problems").len()
    };
    // Tables: one bit, one file.
    let table = of("function", "parquet");
    let mut bytes = fs::read(&table).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&table, &bytes).expect("written");
    fs::remove_file(of("image", "parquet")).expect("removed");
    assert_eq!(problems(), 2);
    text(path, "archive DIR/archive reindex --all");
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
    assert_eq!(rows(&json(path, "archive DIR/archive list")).len(), 24);
    // A file of several recordings.
    let table = of("sample", "parquet");
    fs::write(&table, "torn").expect("written");
    assert_eq!(problems(), 1);
    text(path, "archive DIR/archive reindex --all");
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
    // A row in `recording` makes a recording listed.
    fs::remove_file(of("recording", "parquet")).expect("removed");
    assert_eq!(rows(&json(path, "archive DIR/archive list")).len(), 20);
    assert_eq!(problems(), 4);
    let mended = json(path, "archive DIR/archive reindex");
    assert_eq!(mended["recordings"].as_array().map(Vec::len), Some(4));
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
    // A recording.
    let recording = of("recordings", "nameless");
    let mut bytes = fs::read(&recording).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&recording, &bytes).expect("written");
    assert_eq!(problems(), 1);
    // What can be read of it is less than its rows.
    let before = said(path);
    let (code, err) = answer(path, "archive DIR/archive reindex --all");
    assert!(code == 2 && err.contains("is damaged") && err.contains("its rows stay"), "{err}");
    assert_eq!(said(path), before);
    fs::remove_file(&recording).expect("removed");
    assert_eq!(problems(), 1 + 6, "it is listed, and is not there; six tables have its rows");
}

fn json_of_failure(path: &Path, line: &str) -> Value {
    let (code, out, err) = run_in(path, &line.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 1, "{err}");
    serde_json::from_str(&out).expect("JSON")
}

/// The name of the recording.
const UUID: &str = "1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c";

/// Adds a recording with a folder in which the n-th step fails, and all after it, as if the process was killed there. Returns true if
/// that was confirmed.
fn add_with_failure(root: &Path, at: usize, bytes: &[u8], steps: &Arc<AtomicUsize>) -> bool {
    let counted = Arc::clone(steps);
    let watch = move |_: Step, _: &Path| match counted.fetch_add(1, Ordering::Relaxed) {
        step if step >= at => Err(io::Error::other("killed")),
        _ => Ok(()),
    };
    let partition = Partition { day: "2026-09-01".into(), service: "web".into() };
    let folder = Folder::new(root).watched(Arc::new(watch));
    let add = || -> Result<(), Box<dyn std::error::Error>> {
        let archive = Archive::open_or_create(folder)?;
        archive.store(&partition, UUID, |file| io::copy(&mut &*bytes, file).map(drop))?;
        let source = tempfile::NamedTempFile::new()?;
        fs::write(source.path(), bytes)?;
        let recording = icecore_profile::Recording::open(source.path())?;
        let search = icecore_profile::Search::default();
        let filter = icecore_profile::recording::filter::Filter::default();
        let patterns = icecore_profile::named::Patterns::default();
        let apart = icecore_archive::rows::needs();
        let loaded =
            icecore_profile::Loaded::new(source.path(), &recording, filter, patterns, &search, apart);
        let named = loaded.name(&search, None, &icecore_profile::watch::Unwatched);
        let report = loaded.report(&named.located, named.names);
        let mut pool = icecore_archive::Pool::default();
        let quality = icecore_analysis::quality::Quality::new(&report);
        let sessions = icecore_archive::rows::of_sessions(&report, &quality, &mut pool);
        let sessions = sessions.into_iter().map(|(_, rows)| (partition.clone(), rows)).collect();
        archive.list(UUID, sessions, &pool)?;
        Ok(())
    };
    add().is_ok()
}

#[test]
fn whatever_step_fails_nothing_is_half_there_and_nothing_that_was_confirmed_is_lost() {
    let source = tempfile::NamedTempFile::new().expect("a file");
    story().write(source.path(), true).expect("written");
    let bytes = fs::read(source.path()).expect("read");
    let whole = tempfile::tempdir().expect("a directory");
    let steps = Arc::default();
    assert!(add_with_failure(&whole.path().join("a"), usize::MAX, &bytes, &steps));
    let (all, expected) = (steps.load(Ordering::Relaxed), files(&whole.path().join("a")));
    // The mark, the recording and its tables (it has no counters), two steps each.
    assert_eq!(all, 2 * 7);
    for at in 0..all {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("a");
        assert!(!add_with_failure(&root, at, &bytes, &Arc::default()), "step {at} fails");
        // What has a name is whole.
        for (name, found) in files(&root) {
            let same = expected.iter().find(|(known, _)| *known == name).expect("a file of a whole archive");
            assert!(same.1 == found, "step {at}: {}", name.display());
        }
        // What is listed is all there.
        if let Ok(archive) = Archive::open(Folder::new(&root)) {
            let index = archive.index(|_| true).expect("it can be read");
            let is_whole = files(&root).len() == expected.len();
            assert!(index.listed.is_empty() || is_whole, "step {at}");
        }
        // To add it again completes it.
        assert!(add_with_failure(&root, usize::MAX, &bytes, &Arc::default()), "step {at}");
        assert!(files(&root) == expected, "step {at}");
    }
}

#[test]
fn garbage_is_what_nobody_finishes_and_nothing_else() {
    let dir = FLEET.archived();
    let root = dir.path().join("archive");
    let before = files(&root);
    let archive = Archive::open(Folder::new(&root)).expect("it is one");
    fs::write(root.join(".tmp/young"), "being written").expect("written");
    let now = std::time::SystemTime::now();
    assert_eq!(archive.collect_garbage(now).expect("collected"), []);
    assert_eq!(json(dir.path(), "archive DIR/archive gc")["files"], 0);
    let later = now + GRACE + std::time::Duration::from_secs(60);
    assert_eq!(archive.collect_garbage(later).expect("collected").len(), 1);
    assert!(!root.join(".tmp/young").exists());
    assert!(before == files(&root));
}

/// A recording of the web service, with these labels.
fn labelled(path: &Path, host: u32, labels: &[(&str, &str)]) {
    let mut night = FLEET.night("web", host, 0);
    let label = |(key, value): &(&str, &str)| LabelV1 { key: (*key).into(), value: (*value).into() };
    night.session.as_mut().expect("it has one").labels = labels.iter().map(label).collect();
    night.write(path, true).expect("written");
}

#[test]
fn labels_are_what_users_write_and_lead_nowhere_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    let long = "ü".repeat(150);
    let services = ["../../x", "a=b/c", "day=1", "..", "*", "", "%2F", &long];
    for (host, service) in (0..).zip(services) {
        labelled(
            &path.join(format!("{host}.icecore")),
            host,
            &[("service", service), ("a", "1"), ("a", "2"), ("host", "no")],
        );
        text(path, &format!("archive DIR/archive add DIR/{host}.icecore"));
    }
    let listed = json(path, "archive DIR/archive list");
    let found: BTreeSet<&str> = rows(&listed).iter().filter_map(|row| row["service"].as_str()).collect();
    let expected = services.map(|name| if name.is_empty() { "unlabeled" } else { name });
    assert_eq!(found, expected.into_iter().collect());
    assert!(rows(&listed).iter().all(|row| row["labels"]["a"] == "2"), "the last one counts");
    let count = |selection: &str| {
        let listed = report(path, &["archive", "DIR/archive", "list", "--json", selection]);
        rows(&serde_json::from_str(&listed).expect("JSON")).len()
    };
    assert_eq!(
        ["service=../../x", "a=2", "a=1", "host=no", "label:host=no", "service=%2F"].map(count),
        [1, 8, 0, 0, 8, 1]
    );
    let folders: BTreeSet<PathBuf> = files(&path.join("archive"))
        .into_iter()
        .filter_map(|(name, _)| {
            Some(name.parent()?.strip_prefix("recording/day=2026-09-01").ok()?.to_owned())
        })
        .collect();
    assert_eq!(folders.len(), 8, "{folders:?}");
    // Characters are whole: engines decode them.
    assert!(folders.iter().any(|folder| folder.display().to_string().contains("%C3%BC-")), "{folders:?}");
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
}

#[test]
fn sessions_of_one_file_are_listed_together_and_shown_together() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    FLEET.night("web", 0, 0).write(&path.join("web"), true).expect("written");
    FLEET.night("db", 1, 1).write(&path.join("db"), true).expect("written");
    text(path, "merge DIR/web DIR/db -o DIR/both");
    text(path, "archive DIR/archive add DIR/both");
    let hosts = |day: &str| rows(&json(path, &format!("archive DIR/archive list --until {day}"))).len();
    assert_eq!((hosts("2026-09-02"), hosts("2026-09-03")), (1, 2));
    let (code, err) = answer(path, "archive DIR/archive top service=db");
    assert!(code == 2 && err.contains("sessions that are not selected"), "{err}");
    let whole = json(path, "archive DIR/archive top -n 0");
    assert_eq!(whole["rows"], json(path, "top DIR/both -n 0")["rows"]);
    // One of its sessions is not listed: it is not there.
    let part = Folder::new(&path.join("archive")).list(Path::new("recording")).expect("listed").remove(0);
    fs::remove_file(path.join("archive").join(part.name)).expect("removed");
    let again = json(path, "archive DIR/archive add DIR/both");
    assert_eq!(again["added"].as_array().map(Vec::len), Some(1));
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
}

#[test]
fn what_would_do_something_else_than_was_asked_is_refused() {
    let dir = FLEET.archived();
    let path = dir.path();
    for (line, cause) in [
        ("parquet DIR/fleet/web-00-000.icecore -o DIR/archive", "is an archive: add recordings"),
        ("archive DIR/archive add DIR/fleet/web-00-000.icecore --redact host", "has this recording already"),
        ("archive DIR/archive get host=web-00 -o -", "into a file or a folder"),
    ] {
        let (code, err) = answer(path, line);
        assert!(code == 2 && err.contains(cause), "{line}: {err}");
    }
    // Others may have put something there.
    let foreign = path.join("archive/function/day=2026-09-01/service=web/notes.parquet");
    fs::write(&foreign, "no table").expect("written");
    assert_eq!(rows(&json(path, "archive DIR/archive list")).len(), 24);
    let found = json_of_failure(path, "archive DIR/archive verify --json");
    assert_eq!(found["problems"].as_array().map(Vec::len), Some(1), "{found}");
    let help = text(path, "archive DIR/archive top --help");
    assert!(help.contains("icecore-report top demo.icecore"), "{help}");
}
