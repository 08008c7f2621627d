//! Tests which recordings have the same stacks, and files that are torn, foreign or too large.

use icecore_format::records::{Location, StackRepair, WalkEnd};

use super::*;
use crate::named::cache::folder::Limits;

fn bytes_of(host: &str) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut writer = Writer::create(file.reopen().expect("ours"), [7; 16]).expect("writable");
    writer.append(&SessionV1 { host: host.to_owned(), ..SessionV1::default() }).expect("fits");
    writer.finish().expect("writable");
    std::fs::read(file.path()).expect("ours")
}

fn cache() -> (tempfile::TempDir, Cache) {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::in_dir(dir.path().join("not/yet"));
    (dir, cache)
}

fn file(cache: &Cache, bytes: &[u8], selection: &str) -> Option<UnwoundFile> {
    cache.unwound(&Recording::from_bytes(bytes).expect("its header is whole"), selection)
}

fn example(rows: u32) -> Unwound {
    let empty = Sample {
        time_ns: 0,
        cpu: 0,
        event: 0,
        user_end: WalkEnd::UNWOUND,
        kernel_end: WalkEnd::NONE,
        task: 0,
        user_stack: 0,
        kernel_stack: 0,
        weight: 0,
        snapshot: 0,
        repair: StackRepair::REPLACED,
    };
    let row = |snapshot| Sample { snapshot, user_stack: 50 + snapshot % 3, ..empty };
    let rows: Vec<Sample> = (1..=rows).map(row).collect();
    let node =
        |n: u32| Node { parent: if n > 0 { 49 + n } else { 0 }, location: Location::Address(n.into()) };
    let look =
        |image| Look { image, is_carried: image == 1, found: "image path [1, 2] \"/a b\"\n".to_owned() };
    Unwound {
        sessions: 2,
        looks: vec![look(0), look(1)],
        marks: vec![(3, Mark::INTERRUPTED)],
        repaired: RepairedStacks::of_rows(rows, vec![50..51, 51..53]).expect("new stacks"),
        new: New { first_id: 50, nodes: (0..3).map(node).collect(), marks: vec![(51, Mark::GUESSED)] },
        judged: Vec::new(),
    }
}

/// Returns all that was found; marks of new nodes may stand among the others.
fn shown(found: &Unwound) -> String {
    let Unwound { sessions, looks, marks, repaired, new, judged } = found;
    let mut marks = [&marks[..], &new.marks].concat();
    marks.sort_unstable();
    let stacks = (repaired.to_rows(), repaired.ids_of_parts(), new.first_id, &new.nodes);
    format!("{sessions} {looks:?} {marks:?} {stacks:?} {judged:?}")
}

#[test]
fn what_is_written_is_read_for_the_same_bytes_and_selection_alone() {
    let (_dir, cache) = cache();
    let (bytes, found) = (bytes_of("a"), example(9));
    let own = file(&cache, &bytes, "all").expect("a place");
    assert!(own.read().is_none());
    own.write(&found);
    let again = file(&cache, &bytes, "all").expect("a place").read().expect("it was written");
    assert_eq!(shown(&again), shown(&found));
    let other = |bytes: &[u8], selection| file(&cache, bytes, selection).expect("a place").read();
    assert!(other(&bytes, "some").is_none());
    assert!(other(&bytes_of("b"), "all").is_none());
}

fn judged(counted: &str, calls: u64) -> Judged {
    let look = Look { image: 1, is_carried: false, found: "image path".to_owned() };
    let counts = Counts::of_text(&format!("{calls} 0\n1 1 7 0")).expect("counts");
    Judged { counted: counted.to_owned(), counts, looks: vec![look] }
}

#[test]
fn judged_calls_are_added_to_the_stacks_that_they_are_of() {
    let (_dir, cache) = cache();
    let (own, found) = (file(&cache, &bytes_of("a"), "all").expect("a place"), example(9));
    own.add(&found.looks, judged("all", 7));
    assert!(own.read().is_none(), "there are no stacks");
    own.write(&found);
    for (counted, calls) in [("all", 7), ("some", 8), ("all", 9)] {
        own.add(&found.looks, judged(counted, calls));
    }
    let expected = Unwound { judged: vec![judged("all", 9), judged("some", 8)], ..example(9) };
    assert_eq!(own.read().map(|read| shown(&read)), Some(shown(&expected)));
    own.add(&found.looks[1..], judged("none", 1));
    assert_eq!(own.read().map(|read| shown(&read)), Some(shown(&expected)), "of other stacks");
    for number in 0..20 {
        own.add(&found.looks, judged(&number.to_string(), 1));
    }
    let left = own.read().expect("whole").judged;
    assert_eq!((left.len(), &*left[0].counted, &*left[15].counted), (MAX_JUDGED, "19", "4"));
    own.write(&found);
    assert!(own.read().expect("whole").judged.is_empty(), "the stacks were unwound anew");
}

#[test]
fn a_recording_that_changes_by_one_byte_has_other_stacks_or_none() {
    let (_dir, cache) = cache();
    let bytes = bytes_of("host");
    let own = file(&cache, &bytes, "all").expect("a place").key;
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        let recording = Recording::from_bytes(&bytes);
        let place = recording.ok().and_then(|recording| cache.unwound(&recording, "all"));
        assert!(place.is_none_or(|place| place.key != own), "byte {at}");
    }
}

#[test]
fn a_recording_that_is_still_written_has_no_place() {
    let (_dir, cache) = cache();
    let bytes = bytes_of("host");
    let cut = &bytes[..bytes.len() - icecore_format::index::TAIL_LEN];
    assert!(file(&cache, cut, "all").is_none());
}

#[test]
fn a_file_that_is_cut_or_changed_anywhere_is_ignored_and_counted() {
    let (_dir, cache) = cache();
    let own = file(&cache, &bytes_of("a"), "all").expect("a place");
    let found = Unwound { judged: vec![judged("all", 7)], ..example(9) };
    own.write(&found);
    let whole = std::fs::read(own.path()).expect("there");
    assert_eq!(cache.stats().expect("there").unusable, 0);
    for len in 0..whole.len() {
        std::fs::write(own.path(), &whole[..len]).expect("room");
        assert!(own.read().is_none(), "{len} bytes");
    }
    let stats = cache.stats().expect("there");
    assert_eq!((stats.images, stats.recordings, stats.unusable), (0, 1, 1));
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(own.path(), bytes).expect("room");
        // Padding between blocks means nothing.
        assert!(own.read().is_none_or(|read| shown(&read) == shown(&found)), "byte {at}");
    }
}

#[test]
fn a_file_under_another_name_is_ignored() {
    let (_dir, cache) = cache();
    let [own, other] =
        ["all", "some"].map(|selection| file(&cache, &bytes_of("a"), selection).expect("a place"));
    own.write(&example(9));
    std::fs::rename(own.path(), other.path()).expect("room");
    assert!(other.read().is_none());
}

#[test]
fn many_rows_are_kept_and_the_oldest_files_are_removed() {
    let (_dir, cache) = cache();
    let files = ["a", "b", "c"].map(|host| file(&cache, &bytes_of(host), "all").expect("a place"));
    let found = example(3 * ROWS as u32 + 5);
    for own in &files {
        own.write(&found);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(files[0].read().map(|read| shown(&read)), Some(shown(&found)));
    let bytes = cache.stats().expect("there").bytes;
    cache.trim_to(Contents::Stacks, Limits { files: 9, bytes }).expect("ours");
    assert_eq!(cache.stats().expect("there").recordings, 3);
    cache.trim_to(Contents::Stacks, Limits { files: 9, bytes: bytes - 1 }).expect("ours");
    assert_eq!(files.each_ref().map(|own| own.read().is_some()), [false, true, true]);
    cache.trim_to(Contents::Stacks, Limits { files: 1, bytes: u64::MAX }).expect("ours");
    assert_eq!(cache.stats().expect("there").recordings, 0, "seven eighths of one is none");
}

#[test]
fn writers_at_the_same_time_leave_one_whole_file() {
    let (_dir, cache) = cache();
    let bytes = bytes_of("a");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| file(&cache, &bytes, "all").expect("a place").write(&example(1000)));
        }
    });
    let read = file(&cache, &bytes, "all").expect("a place").read().expect("whole");
    assert_eq!(shown(&read), shown(&example(1000)));
    assert_eq!(std::fs::read_dir(cache.dir()).expect("there").count(), 1, "nothing is left behind");
}
