//! `archive prune`: what goes is summed up once, whoever prunes, merges and is killed at the same time.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use icecore_archive::folder::Step;
use icecore_archive::schema::{FunctionRow, SampleRow, StackRow};
use icecore_archive::{Archive, Folder, Partition, Pool};
use icecore_tests::inside::{answer, json, run_in, text};
use icecore_tests::synthetic::Fleet;
use serde_json::Value;

const FLEET: Fleet = Fleet { first: 0, days: 3, hosts: 4, samples: 60 };

/// What functions take, by day, service, event, function, image and kind of row: in the tables and in the daily sums together.
type Totals = BTreeSet<(String, String, String, String, Option<String>, bool, [i64; 4])>;

fn totals(archive: &Archive) -> (Totals, u64) {
    let (mut sums, mut stored) = (std::collections::BTreeMap::new(), 0);
    let mut pool = Pool::default();
    let mut all = Vec::new();
    archive
        .each::<FunctionRow>(
            |_| true,
            &mut pool,
            |_, partition, rows| {
                stored += rows.len() as u64;
                let rows = rows.into_iter().map(|it| (it.event.0, it.code, it.inlined, it.own, it.total));
                all.extend(rows.map(|row| (partition.clone(), row)));
            },
        )
        .expect("read");
    archive
        .daily(
            |_| true,
            &mut pool,
            |partition, rows| {
                let rows = rows.into_iter().map(|it| (it.event.0, it.code, it.inlined, it.own, it.total));
                all.extend(rows.map(|row| (partition.clone(), row)));
            },
        )
        .expect("read");
    for (partition, (event, code, inlined, own, total)) in all {
        let text = |text| pool.text(text).to_owned();
        let key = (
            partition.day,
            partition.service,
            text(event),
            text(code.function),
            code.image.map(text),
            inlined,
        );
        let sum = sums.entry(key).or_insert([0; 4]);
        sum.iter_mut().zip([own.0, own.1, total.0, total.1]).for_each(|(sum, more)| *sum += more);
    }
    (sums.into_iter().map(|(it, sum)| (it.0, it.1, it.2, it.3, it.4, it.5, sum)).collect(), stored)
}

fn opened(path: &Path) -> Archive {
    Archive::open(Folder::new(&path.join("archive"))).expect("it is one")
}

fn listed(path: &Path) -> usize {
    json(path, "archive DIR/archive list")["rows"].as_array().expect("rows").len()
}

#[test]
fn what_is_pruned_by_age_size_and_selection_leaves_its_sums() {
    for is_merged in [false, true] {
        let dir = FLEET.archived();
        let path = dir.path();
        if is_merged {
            text(path, "archive DIR/archive compact");
        }
        let (before, _) = totals(&opened(path));
        let (code, err) = answer(path, "archive DIR/archive prune");
        assert!(code == 2 && err.contains("what shall go?"), "{err}");
        let planned = json(path, "archive DIR/archive prune --until 2026-09-02 --dry-run");
        assert_eq!((planned["rows"].as_array().map(Vec::len), listed(path)), (Some(8), 24));
        let pruned = json(path, "archive DIR/archive prune --until 2026-09-02");
        assert_eq!((pruned["rows"].as_array().map(Vec::len), listed(path)), (Some(8), 16));
        assert_eq!(totals(&opened(path)).0, before);
        assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
        // The newest of a service stay.
        let size = |row: &Value| row["file_bytes"].as_u64().expect("a size");
        let web = json(path, "archive DIR/archive prune service=web --dry-run");
        let sizes: Vec<u64> = web["rows"].as_array().expect("rows").iter().map(size).collect();
        let most: u64 = sizes[sizes.len() - 3..].iter().sum();
        text(path, &format!("archive DIR/archive prune service=web --max-size {most}"));
        let left = json(path, "archive DIR/archive list service=web");
        let hosts: Vec<&str> =
            left["rows"].as_array().expect("rows").iter().filter_map(|row| row["host"].as_str()).collect();
        assert_eq!(hosts, ["web-01", "web-02", "web-03"]);
        assert_eq!(totals(&opened(path)).0, before);
        // Nothing of them is so old.
        text(path, "archive DIR/archive prune host=db-* --older-than 5000w");
        assert_eq!(listed(path), 8 + 3);
        assert_eq!(totals(&opened(path)).0, before);
        // What was pruned stays so.
        let again = json(path, "archive DIR/archive add DIR/fleet");
        assert_eq!(
            (again["added"].as_array().map(Vec::len), again["pruned"].as_array().map(Vec::len)),
            (Some(0), Some(13))
        );
        text(path, "archive DIR/archive reindex --all");
        assert_eq!((listed(path), totals(&opened(path)).0), (11, before));
        // Without sums nothing stays but the UUID.
        let of_db = |(totals, _): (Totals, u64)| -> i64 {
            let of_db = totals.iter().filter(|it| it.1 == "db" && it.2 == "cpu-clock" && !it.5);
            of_db.map(|it| it.6[0]).sum()
        };
        let whole = of_db(totals(&opened(path)));
        text(path, "archive DIR/archive prune host=db-03 --without-sums --since 2026-09-03");
        // 60 samples of 10 ms.
        assert_eq!((listed(path), whole - of_db(totals(&opened(path)))), (10, 600_000_000));
        assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
        // No stack stays that no sample has.
        let archive = opened(path);
        let (mut used, mut there) = (BTreeSet::new(), BTreeSet::new());
        let all = |_: &Partition| true;
        archive
            .each::<SampleRow>(all, &mut Pool::default(), |_, of, rows| {
                used.extend(rows.into_iter().map(|row| (of.clone(), row.stack)));
            })
            .expect("read");
        archive
            .each::<StackRow>(all, &mut Pool::default(), |_, of, rows| {
                there.extend(rows.into_iter().map(|row| (of.clone(), row.stack)));
            })
            .expect("read");
        assert!(!there.is_empty() && there == used);
    }
}

#[test]
fn whatever_step_of_pruning_fails_nothing_is_lost_or_summed_twice() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    fs::create_dir(path.join("fleet")).expect("made");
    Fleet { days: 1, hosts: 3, ..FLEET }.write(&path.join("fleet")).expect("written");
    text(path, "archive DIR/archive add DIR/fleet");
    text(path, "archive DIR/archive compact");
    let (before, _) = totals(&opened(path));
    let uuids: BTreeSet<String> = opened(path).recordings().expect("listed").into_keys().step_by(2).collect();
    for at in (0..).step_by(2) {
        let copy = tempfile::tempdir().expect("a directory");
        let copied = Command::new("cp").arg("-r").arg(path.join("archive")).arg(copy.path()).status();
        assert!(copied.expect("it runs").success());
        let steps = AtomicUsize::new(0);
        let watch = move |_: Step, _: &Path| match steps.fetch_add(1, Ordering::Relaxed) {
            step if step >= at => Err(io::Error::other("killed")),
            _ => Ok(()),
        };
        let folder = Folder::new(&copy.path().join("archive")).watched(Arc::new(watch));
        let archive = Archive::open(folder).expect("it is one");
        let index = archive.index(|_| true).expect("read");
        let is_done = archive.prune(&index, &uuids, true).is_ok();
        // `gc` completes what was begun; to prune again does the rest.
        let mended = opened(copy.path());
        mended.collect_garbage(std::time::SystemTime::now()).expect("collected");
        assert_eq!(totals(&mended).0, before, "step {at}");
        let index = mended.index(|_| true).expect("read");
        mended.prune(&index, &uuids, true).expect("pruned");
        assert_eq!(totals(&mended).0, before, "step {at}");
        assert_eq!(mended.recordings().expect("listed").len(), 3);
        let (code, out, err) = run_in(copy.path(), &["archive", "DIR/archive", "verify"]);
        assert_eq!(code, 0, "step {at}: {out}{err}");
        if is_done {
            assert!(at > 30, "it has steps");
            return;
        }
    }
}

#[test]
fn many_that_prune_and_merge_at_once_sum_everything_once() {
    let dir = FLEET.archived();
    let path = dir.path();
    let (before, _) = totals(&opened(path));
    let uuids: Vec<String> = opened(path).recordings().expect("listed").into_keys().collect();
    // Each of six prunes two thirds of all: every recording is pruned by four.
    std::thread::scope(|scope| {
        for actor in 0..6 {
            let uuids = &uuids;
            scope.spawn(move || {
                let archive = opened(path);
                let own = uuids.iter().enumerate().filter(|(at, _)| (at + actor) % 3 > 0);
                let own: Vec<String> = own.map(|(_, uuid)| uuid.clone()).collect();
                for some in own.chunks(5) {
                    let index = archive.index(|_| true).expect("read");
                    archive.prune(&index, &some.iter().cloned().collect(), true).expect("pruned");
                }
            });
        }
        scope.spawn(|| (0..5).for_each(|_| drop(opened(path).compact().expect("merged"))));
        scope.spawn(|| {
            let now = std::time::SystemTime::now();
            (0..5).for_each(|_| drop(opened(path).collect_garbage(now).expect("collected")));
        });
    });
    let archive = opened(path);
    archive.complete_pruning().expect("completed");
    let (after, stored) = totals(&archive);
    assert_eq!((after, stored, archive.recordings().expect("listed").len()), (before, 0, 0));
    assert_eq!(json(path, "archive DIR/archive verify")["ok"], true);
}
