//! Programs whose files are gone when the recording ends, or have no path: their functions are named all the same, or the
//! report says what would name them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use icecore_tests::machine::{Recorded, Sample, in_memory, target, text};

/// Records a shell script whose first argument is the target program.
fn recorded(options: &[&str], script: &str) -> Recorded {
    let target = target();
    let command =
        ["sh".as_ref(), "-e".as_ref(), "-c".as_ref(), script.as_ref(), "sh".as_ref(), target.as_os_str()];
    Recorded::new(&[&["-q", "-F", "1997"], options].concat(), &command)
}

/// Counts frames with and without a name in images whose name begins so, by image.
fn frames(samples: &[Sample], image: &str) -> BTreeMap<String, (usize, usize)> {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for frame in samples.iter().flat_map(|sample| sample.0["frames"].as_array().expect("a list")) {
        let path = frame["image"].as_str().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.starts_with(image) {
            let (named, unnamed) = counts.entry(name.to_owned()).or_default();
            *if frame["name"].is_null() { unnamed } else { named } += 1;
        }
    }
    counts
}

/// Counts the images that were hit, and those with names for nearly all frames: PLT stubs have none.
fn named(samples: &[Sample], image: &str) -> (usize, usize) {
    let frames = frames(samples, image);
    eprintln!("{image}: named and unnamed frames {frames:?}");
    (frames.len(), frames.values().filter(|(named, unnamed)| *named > 9 * unnamed).count())
}

/// Asserts that at least this many of the short-lived programs were sampled, and half of these have names. The recorder is woken
/// for the first run of a file, and must get a CPU while the program lives: on a busy machine it sometimes does not. Without
/// waking, it would name one in eight, and would fail to name half in each of three recordings.
fn assert_half_are_named(script: &str, image: &str, least: usize) {
    let half = |recorded: &Recorded| {
        let (all, named) = named(&recorded.samples(&[]), image);
        all >= least && named * 2 >= all
    };
    let recorded = Recorded::until(half, || recorded(&[], script));
    assert!(half(&recorded), "it says above how many are named");
}

/// Runs ten programs of five milliseconds, each a file of its own in a file system that disappears with its namespace.
const BRIEF: &str = r#"
    for i in 0 1 2 3 4 5 6 7 8 9; do
        d=$(mktemp -d)
        unshare -m sh -ec "mount -t tmpfs none $d; cp $1 $d/brief$i; echo $i >> $d/brief$i; exec $d/brief$i shares 5"
        rmdir $d
    done"#;

#[test]
fn root_programs_of_five_milliseconds_whose_file_system_goes_with_them_are_named() {
    assert_half_are_named(BRIEF, "brief", 9);
}

#[test]
fn root_what_nobody_could_look_at_is_said_to_be_missing_and_found_by_its_build_id() {
    let script = r#"d=$(mktemp -d)
        unshare -m sh -ec "mount -t tmpfs none $d; cp $1 $d/gone; exec $d/gone shares 100"
        rmdir $d"#;
    let recorded = recorded(&["--embed", "none"], script);
    let reasons = |samples: &[Sample]| {
        let frames = samples.iter().flat_map(|sample| sample.0["frames"].as_array().expect("a list"));
        let gone = frames.filter(|frame| frame["image"].as_str().is_some_and(|path| path.ends_with("/gone")));
        gone.map(|frame| frame["reason"].as_str().unwrap_or("named").to_owned()).collect::<Vec<_>>()
    };
    let missing = reasons(&recorded.samples(&[]));
    assert!(missing.len() > 50 && missing.iter().all(|reason| reason == "image_missing"), "{missing:?}");

    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let notes = Command::new("readelf").arg("-n").arg(target()).output().expect("binutils are there");
    let notes = text(&notes.stdout);
    let build_id = notes.split("Build ID: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let (first, rest) = build_id.expect("the compiler writes one").split_at(2);
    let folder = dir.path().join(".build-id").join(first);
    std::fs::create_dir_all(&folder).expect("room");
    std::fs::copy(target(), folder.join(format!("{rest}.debug"))).expect("room");
    let samples = recorded.samples(&["--debug-dir", &dir.path().display().to_string()]);
    assert!(named(&samples, "gone") == (1, 1) && samples.iter().any(|sample| sample.has("takes_half")));
}

#[test]
fn root_programs_that_are_deleted_as_soon_as_they_run_are_named() {
    let script = r#"d=$(mktemp -d)
        for i in 0 1 2 3 4; do
            cp $1 $d/deleted$i; echo $i >> $d/deleted$i
            $d/deleted$i shares 5 &
            while [ "$(readlink /proc/$!/exe)" = "$(readlink /proc/$$/exe)" ]; do :; done
            rm $d/deleted$i
            wait
        done
        rmdir $d"#;
    assert_half_are_named(script, "deleted", 4);
}

#[test]
fn root_a_program_in_a_pid_namespace_is_named_under_the_number_that_the_host_gives_it() {
    let samples = recorded(&[], "unshare -pf --mount-proc $1 shares 200").samples(&["--focus", "^shares$"]);
    assert_eq!(named(&samples, "target"), (1, 1));
    let tgids: Vec<u64> = samples.iter().map(|sample| sample.number("tgid")).collect();
    assert!(tgids.len() > 100 && tgids.iter().all(|tgid| *tgid == tgids[0] && *tgid > 1), "{tgids:?}");
}

#[test]
fn root_a_program_that_is_in_no_file_is_named() {
    // The second runs so long that a recorder that waits for a CPU comes to it in time.
    let script = format!("{} $1 shares 5; exec {0} $1 shares 1000", in_memory().display());
    let recorded = recorded(&[], &script);
    let samples = recorded.samples(&["--focus", "^shares$"]);
    assert_eq!(
        named(&samples, "memfd:service"),
        (1, 1),
        "of all: {:?}",
        frames(&recorded.samples(&[]), "memfd:")
    );
    assert!(samples.iter().filter(|sample| sample.has("takes_half")).count() > 50);
    // The name does not come from a file that happens to lie at the path.
    assert!(!Path::new("/memfd:service (deleted)").exists());
}
