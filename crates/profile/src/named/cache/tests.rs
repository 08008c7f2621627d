//! Tests writing, reading, truncated files and clearing.

use super::*;
use icecore_elf::Svma;
use icecore_symbolize::{Function, Reason};

const ID: &[u8] = &[0xab; 20];

fn answers(offsets: impl Iterator<Item = u64>) -> Vec<(FileOff, Answer)> {
    let function = |n: u64| Function {
        file: Some("/src/a.c".into()),
        line: Some(7),
        ..Function::new(format!("f{n}").into())
    };
    let answer = |n: u64| match n % 3 {
        0 => Answer::Unnamed { reason: Reason::NoSymbol, start: Some(Svma(1)), at: Some(Svma(n + 2)) },
        _ => Answer::Named(vec![function(n), function(n / 9)]),
    };
    offsets.map(|n| (FileOff(n), answer(n))).collect()
}

fn sources(len: u64) -> Vec<Stamp> {
    let inode = Some(Inode { device: 3, number: 4 });
    let source = |path: &str| Stamp { path: path.to_owned(), len, inode, changed_unix_ns: 9 };
    vec![source("/bin/a"), source("/usr/lib/debug/a")]
}

fn cache() -> (tempfile::TempDir, Cache) {
    let dir = tempfile::tempdir().expect("a directory");
    let cache = Cache::in_dir(dir.path().join("not/yet"));
    (dir, cache)
}

fn write(cache: &Cache, id: &[u8], earlier: &Earlier, answers: &[(FileOff, Answer)]) {
    let answers: Vec<_> = answers.iter().map(|(off, answer)| (*off, answer)).collect();
    cache.write(id, &sources(1), earlier, &answers);
}

/// Counts how many of these answers are cached and equal.
fn has(earlier: &Earlier, answers: &[(FileOff, Answer)]) -> usize {
    let found = answers.iter().filter_map(|(off, answer)| Some((earlier.find(*off)?, answer)));
    found.inspect(|(found, answer)| assert_eq!(found, *answer)).count()
}

#[test]
fn what_is_written_is_read_and_counted_and_cleared() {
    let (_dir, cache) = cache();
    let (odd, even) = (answers((1..200_000).step_by(2)), answers((0..200_000).step_by(2)));
    assert_eq!(cache.stats().expect("empty"), Stats::default());
    assert_eq!(has(&cache.read(ID, "/bin/a", &sources(1)), &odd), 0);
    write(&cache, ID, &Earlier::default(), &odd);
    let earlier = cache.read(ID, "/bin/a", &sources(1));
    assert!(earlier.tables.len() > 1, "{} tables", earlier.tables.len());
    assert_eq!((has(&earlier, &odd), has(&earlier, &even)), (odd.len(), 0));
    assert_eq!(
        has(&cache.read(ID, "/bin/a", &[]), &odd),
        odd.len(),
        "the files are gone, their names are not"
    );
    assert_eq!(has(&cache.read(ID, "/tmp/a", &[]), &odd), 0, "another file may have the same build-id");
    let replaced = [
        Stamp { inode: Some(Inode { device: 3, number: 5 }), ..sources(1)[0].clone() },
        sources(1)[1].clone(),
    ];
    let touched = [Stamp { changed_unix_ns: 10, ..sources(1)[0].clone() }, sources(1)[1].clone()];
    for other in [replaced, touched] {
        assert_eq!(has(&cache.read(ID, "/bin/a", &other), &odd), 0, "{other:?}");
    }
    write(&cache, ID, &earlier, &even);
    let both = cache.read(ID, "/bin/a", &sources(1));
    assert_eq!((has(&both, &odd), has(&both, &even)), (odd.len(), even.len()));
    let stats = cache.stats().expect("there");
    assert!(stats.images == 1 && stats.bytes > 300, "{stats:?}");
    std::fs::write(cache.dir().join("mine.txt"), "mine").expect("room");
    assert_eq!(cache.clear().expect("ours"), stats);
    assert_eq!(cache.stats().expect("there"), Stats::default());
    assert_eq!(std::fs::read_dir(cache.dir()).expect("there").count(), 1, "and nothing else");
}

#[test]
fn other_files_and_other_images_give_nothing() {
    let (_dir, cache) = cache();
    let few = answers(0..3);
    write(&cache, ID, &Earlier::default(), &few);
    assert_eq!(has(&cache.read(ID, "/bin/a", &sources(2)), &few), 0);
    assert_eq!(has(&cache.read(ID, "/bin/a", &sources(1)[..1]), &few), 0);
    assert_eq!(has(&cache.read(&[1; 20], "/bin/a", &sources(1)), &few), 0);
    let [from, to] = [ID, &[1; 20]].map(|id| cache.place(id, &[]).expect("a place"));
    std::fs::copy(from, to).expect("room");
    assert_eq!(has(&cache.read(&[1; 20], "/bin/a", &sources(1)), &few), 0, "a file under another name");
}

#[test]
fn an_image_without_a_build_id_is_known_by_path_size_and_time() {
    let (_dir, cache) = cache();
    let few = answers(0..3);
    write(&cache, &[], &Earlier::default(), &few);
    assert_eq!(has(&cache.read(&[], "/bin/a", &sources(1)), &few), 3);
    assert_eq!(has(&cache.read(&[], "/bin/a", &sources(2)), &few), 0);
    assert_eq!(has(&cache.read(&[], "/bin/a", &[]), &few), 0, "nothing tells which it was");
    let [from, to] = [1, 2].map(|len| cache.place(&[], &sources(len)).expect("a place"));
    std::fs::rename(from, to).expect("room");
    assert_eq!(
        has(&cache.read(&[], "/bin/a", &sources(2)), &few),
        0,
        "a checksum of another file that is the same"
    );
}

#[test]
fn a_file_that_is_cut_or_changed_anywhere_is_ignored_and_written_anew() {
    let (_dir, cache) = cache();
    let few = answers(0..3);
    write(&cache, ID, &Earlier::default(), &few);
    let path = cache.place(ID, &[]).expect("a place");
    let whole = std::fs::read(&path).expect("there");
    let after = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("room");
        has(&cache.read(ID, "/bin/a", &sources(1)), &few)
    };
    let cut = (0..whole.len()).map(|len| after(&whole[..len])).sum::<usize>();
    assert_eq!(cut, 0);
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        after(&bytes)
    };
    // Padding between blocks is not checked, but the answers must be equal in any case.
    let harmless = (0..whole.len()).filter(|at| changed(*at) > 0).count();
    assert!(harmless < 64, "{harmless} bytes of {} mean nothing", whole.len());
    write(&cache, ID, &Earlier::default(), &few);
    assert_eq!(has(&cache.read(ID, "/bin/a", &sources(1)), &few), 3);
}

#[test]
fn writers_at_the_same_time_leave_one_whole_file() {
    let (_dir, cache) = cache();
    let all: Vec<_> = (1..9).map(|n| answers(0..n * 1000)).collect();
    std::thread::scope(|scope| {
        for answers in &all {
            let cache = &cache;
            scope.spawn(move || write(cache, ID, &Earlier::default(), answers));
        }
    });
    let read = cache.read(ID, "/bin/a", &sources(1));
    assert!(all.iter().any(|answers| answers.len() == has(&read, &all[7])));
    assert_eq!(std::fs::read_dir(cache.dir()).expect("there").count(), 1, "nothing is left behind");
}

#[test]
fn a_cache_that_others_can_change_is_neither_read_nor_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, cache) = cache();
    let few = answers(0..3);
    write(&cache, ID, &Earlier::default(), &few);
    let path = cache.place(ID, &[]).expect("a place");
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
    };
    for (changed, mode) in [(cache.dir(), 0o777), (&dir.path().join("not"), 0o777), (&path, 0o666)] {
        let before = changed.metadata().expect("there").permissions();
        allow(changed, mode);
        assert_eq!(has(&cache.read(ID, "/bin/a", &sources(1)), &few), 0, "{}", changed.display());
        if changed != path {
            write(&cache, &[1; 20], &Earlier::default(), &few);
            assert!(!cache.place(&[1; 20], &[]).expect("a place").exists(), "{}", changed.display());
            assert!(cache.stats().is_err() && cache.clear().is_err(), "and it says so");
        }
        std::fs::set_permissions(changed, before).expect("ours");
        assert_eq!(has(&cache.read(ID, "/bin/a", &sources(1)), &few), 3);
    }
    // A link in the folder is not followed.
    let away = dir.path().join("away");
    std::fs::rename(&path, &away).expect("ours");
    std::os::unix::fs::symlink(&away, &path).expect("ours");
    assert_eq!(has(&cache.read(ID, "/bin/a", &sources(1)), &few), 0);
    write(&cache, ID, &Earlier::default(), &answers(0..2));
    assert!(
        !path.is_symlink() && std::fs::metadata(&away).is_ok_and(|meta| meta.len() > 300),
        "not written through"
    );
}
