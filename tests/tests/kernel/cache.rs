//! The cache of names and stacks: the second report equals the first, also when files are gone, and a damaged or foreign cache is not
//! trusted.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use icecore_tests::corpus;
use icecore_tests::machine::{Recorded, copy, inlining, program, stacks_without_frames, text};
use serde_json::Value;

/// Views that show all that there is to see of stacks.
const VIEWS: [&[&str]; 9] = [
    &["summary"],
    &["top", "--by", "line"],
    &["tree"],
    &["folded"],
    &["samples", "--json"],
    &["health", "--json"],
    &["timeline"],
    &["depth"],
    &["top", "--from", "0.1", "--to", "0.3"],
];
/// Files that changed less than two seconds ago are not trusted to stay as they are.
const SETTLED: Duration = Duration::from_millis(2100);

/// Runs the report with a cache in a folder.
fn report(cache: &Path, args: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut report = Command::new(program("icecore-report"));
    report.env("XDG_CACHE_HOME", cache).args(args.iter().map(|arg| arg.as_ref()));
    let out = report.output().expect("the report runs");
    assert!(out.status.success(), "{}", text(&out.stderr));
    out
}

#[test]
fn root_what_a_report_finds_out_is_there_for_the_next() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = inlining(dir.path());
    let recorded = Recorded::new(&["-F", "997", "-q"], &[program.as_os_str()]);
    let (path, cache) = (recorded.path(), dir.path().join("cache"));
    let lines = |more: &[&dyn AsRef<std::ffi::OsStr>]| {
        let args: [&dyn AsRef<std::ffi::OsStr>; 4] = [&"top", &path, &"--by", &"line"];
        text(&report(&cache, &[&args, more].concat()).stdout)
    };
    let stats = |options: &[&str]| -> Value {
        let mut args: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"cache", &"--json"];
        args.extend(options.iter().map(|option| option as &dyn AsRef<std::ffi::OsStr>));
        serde_json::from_slice(&report(&cache, &args).stdout).expect("JSON")
    };
    let bare = lines(&[&"--no-cache"]);
    assert!(bare.contains("inlined.c:3"), "{bare}");
    assert_eq!(stats(&[])["images"], 0, "--no-cache keeps nothing");
    assert_eq!(lines(&[]), bare);
    let kept = stats(&[]);
    assert!(kept["images"].as_u64() > Some(0) && kept["bytes"].as_u64() > Some(200), "{kept}");
    assert_eq!(lines(&[]), bare);

    // The cache file is torn: the report finds the names again, and writes it whole.
    let files = || {
        let entries = std::fs::read_dir(cache.join("icecore")).expect("it is there");
        entries.map(|entry| entry.expect("ours").path()).collect::<Vec<_>>()
    };
    for file in files() {
        let bytes = std::fs::read(&file).expect("ours");
        std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("room");
    }
    assert_eq!(lines(&[]), bare);

    // The program is gone, but the cache still answers, unless the report must not use it.
    std::fs::remove_file(&program).expect("it was there");
    assert_eq!(lines(&[]), bare);
    assert!(!lines(&[&"--no-cache"]).contains("inlined.c:3"));
    assert_eq!(stats(&["--clear"])["cleared"], true);
    assert_eq!(files().len(), 0);
    assert!(!lines(&[]).contains("inlined.c:3"));
}

/// Runs a view; returns everything that it says.
fn said(cache: &Path, view: &[&str], recording: &Path, options: &[&str]) -> (String, String, Option<i32>) {
    let mut report = Command::new(program("icecore-report"));
    let out = report.env("XDG_CACHE_HOME", cache).args(view).arg(recording).args(options).output();
    let out = out.expect("the report runs");
    (text(&out.stdout), text(&out.stderr), out.status.code())
}

/// Asserts that every view says the same without a cache, with a new cache, and from the cache.
fn assert_same(cache: &Path, recording: &Path) {
    for view in VIEWS {
        let bare = said(cache, view, recording, &["--no-cache"]);
        for options in [&[][..], &["--threads", "1"]] {
            assert_eq!(said(cache, view, recording, options), bare, "{view:?} {}", recording.display());
        }
    }
}

/// Returns a program of which the test has the only copy, and that did not change just now.
fn settled(dir: &Path) -> PathBuf {
    let program = dir.join("stacks");
    copy(&stacks_without_frames(), &program);
    std::thread::sleep(SETTLED);
    program
}

/// Lists the files with stacks, and the number of each: a file that is written anew has another one.
fn stacks(cache: &Path) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(cache.join("icecore")).expect("it is there");
    let paths = entries.map(|entry| entry.expect("ours").path());
    let wanted = paths.filter(|path| path.extension().is_some_and(|it| it == "unwound"));
    let mut all: Vec<_> = wanted.map(|path| (path.clone(), path.metadata().expect("there").ino())).collect();
    all.sort_unstable();
    all
}

#[test]
fn views_of_all_versions_are_the_same_from_the_cache() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    for (name, bytes) in corpus::recordings() {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("room");
        assert_same(&dir.path().join("cache"), &path);
    }
}

#[test]
fn root_stacks_from_the_cache_are_those_that_unwinding_finds() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = settled(dir.path());
    for options in [&["--unwind", "dwarf"][..], &["--unwind", "copy"], &[]] {
        let cache = tempfile::tempdir().expect("a folder for temporary files");
        let cache = cache.path();
        let command = [program.as_os_str(), "chain".as_ref(), "500".as_ref()];
        let recorded = Recorded::new(&[&["-F", "499", "-q"], options].concat(), &command);
        let path = recorded.path();
        assert_same(cache, &path);
        let kept = stacks(cache);
        // One of the views shows a part; without snapshots it loads only that part.
        let files = if options.is_empty() { 1..=2 } else { 2..=2 };
        assert!(files.contains(&kept.len()), "{kept:?}");
        let other = dir.path().join("other.icecore");
        std::fs::copy(&path, &other).expect("room");
        assert_eq!(said(cache, &["health"], &other, &[]).2, Some(0));
        assert_eq!(stacks(cache), kept, "the same bytes, and calls that were judged");

        // Another recording of the same samples has stacks of its own.
        let packed = dir.path().join("packed.icecore");
        let _ = std::fs::remove_file(&packed);
        report(cache, &[&"pack", &path, &"-o", &packed]);
        assert_same(cache, &packed);
        assert_eq!(stacks(cache).len(), 2 * kept.len());
        std::fs::remove_file(&packed).expect("it was there");

        // Files that are torn are not used, and written anew.
        for (file, _) in &kept {
            let bytes = std::fs::read(file).expect("ours");
            std::fs::write(file, &bytes[..bytes.len() - 9]).expect("room");
        }
        let contents = report(cache, &[&"cache", &"--json"]);
        let contents: Value = serde_json::from_slice(&contents.stdout).expect("JSON");
        assert_eq!(contents["recordings"], 2 * kept.len(), "{contents}");
        assert_eq!(contents["unusable"], kept.len(), "{contents}");
        assert_same(cache, &path);
        assert!(stacks(cache).iter().all(|(file, _)| is_whole(file)));
    }
}

/// Returns true if a file ends as a recording does.
fn is_whole(path: &Path) -> bool {
    std::fs::read(path).expect("ours").ends_with(b"\r\nICETIP")
}

#[test]
fn root_a_program_that_changes_or_is_gone_is_looked_at_again() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (program, cache) = (settled(dir.path()), dir.path().join("cache"));
    // Without unwind tables in the recording, those of the program's file are needed.
    let options = ["-F", "499", "-q", "--unwind", "dwarf", "--embed", "none"];
    let recorded = Recorded::new(&options, &[program.as_os_str(), "chain".as_ref(), "500".as_ref()]);
    let path = recorded.path();
    assert_same(&cache, &path);
    let kept = stacks(&cache);
    let top = || said(&cache, &["top"], &path, &[]);
    let bare = || said(&cache, &["top"], &path, &["--no-cache"]);
    let before = top();

    // The contents stay, but the file system says that the file changed.
    let mode = program.metadata().expect("there").permissions();
    std::fs::set_permissions(&program, mode).expect("ours");
    assert_eq!((top(), stacks(&cache)), (before.clone(), kept.clone()), "it may change once more");
    std::thread::sleep(SETTLED);
    assert_eq!(top(), before);
    let again = stacks(&cache);
    assert_ne!(again, kept, "unwound and kept anew");

    let away = dir.path().join("away");
    std::fs::rename(&program, &away).expect("ours");
    let judged = || said(&cache, &["health", "--json"], &path, &[]);
    let gone = (said(&cache, &["samples", "--json"], &path, &[]), judged());
    for (file, _) in stacks(&cache) {
        std::fs::remove_file(file).expect("ours");
    }
    assert_eq!((said(&cache, &["samples", "--json"], &path, &[]), judged()), gone);
    std::fs::rename(&away, &program).expect("ours");
    std::thread::sleep(SETTLED);
    assert_eq!((top(), bare()), (before.clone(), before));
}

/// A function without a frame pointer in a library, called by a program.
const INNER: &str = "volatile long sink;
void inner(long n) { volatile char pad[64]; for (long i = 0; i < n; i++) pad[i % 64] = sink += i; }
";
const OUTER: &str =
    "void inner(long n); int main(void) { for (int i = 0; i < 300; i++) inner(1000000); return 0; }\n";

#[test]
fn root_calls_are_judged_anew_when_only_the_stacks_changed() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let [library, program, away] = ["libinner.so", "program", "away"].map(|name| dir.path().join(name));
    for (name, text) in [("inner.c", INNER), ("outer.c", OUTER)] {
        std::fs::write(dir.path().join(name), text).expect("room");
    }
    for build in ["-shared -fPIC -o libinner.so inner.c", "-o program outer.c -L. -linner -Wl,-rpath,$ORIGIN"]
    {
        let mut cc = Command::new("cc");
        cc.current_dir(dir.path()).args(["-O1", "-fomit-frame-pointer"]).args(build.split(' '));
        assert!(cc.status().expect("there is a compiler").success());
    }
    std::thread::sleep(SETTLED);
    let options = ["-F", "499", "-q", "--unwind", "dwarf", "--embed", "none"];
    let recorded = Recorded::new(&options, &[program.as_os_str()]);
    let (cache, path) = (dir.path().join("cache"), recorded.path());
    let health = |options: &[&str]| said(&cache, &["health", "--json"], &path, options);

    // The code that calls is there in both cases. Without the library, nothing is known of the calls in it.
    std::fs::rename(&library, &away).expect("ours");
    let without = health(&[]);
    assert_eq!(health(&[]), without);
    std::fs::rename(&away, &library).expect("ours");
    std::thread::sleep(SETTLED);
    let with = health(&["--no-cache"]);
    assert_ne!(with, without);
    assert_eq!(health(&[]), with);
}

/// Compiles a program of which one function has all samples, with a build-id that was chosen.
fn with_build_id(path: &Path, function: &str) {
    let source = path.with_extension("c");
    let text = format!(
        "#include <time.h>\nvolatile unsigned long sink;\n__attribute__((noinline)) void {function}(void) {{ for (int i = 0; i < 100000; i++) \
         sink += i; }}\nint main(void) {{ for (clock_t end = clock() + CLOCKS_PER_SEC / 2; clock() < end;) {function}(); return 0; }}\n"
    );
    std::fs::write(&source, text).expect("room");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-fno-omit-frame-pointer", "-Wl,--build-id=0x0123456789abcdef", "-o"])
        .arg(path)
        .arg(&source);
    assert!(cc.status().expect("a C compiler").success());
}

#[test]
fn root_files_of_one_recording_rename_no_function_of_another() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (program, cache) = (dir.path().join("program"), dir.path().join("cache"));
    let record = |function: &str, embed: &str| {
        with_build_id(&program, function);
        let recorded = Recorded::new(&["-F", "499", "-q", "--embed", embed], &[program.as_os_str()]);
        std::fs::remove_file(&program).expect("it was there");
        recorded
    };
    let hostile = record("evil", "all");
    let honest = record("good", "none");
    let top = |recorded: &Recorded, options: &[&str]| said(&cache, &["top"], &recorded.path(), options).0;
    assert!(top(&hostile, &[]).contains("evil"));
    let bare = top(&honest, &["--no-cache"]);
    assert!(!bare.contains("evil") && !bare.contains("good"), "{bare}");
    assert_eq!(top(&honest, &[]), bare);

    // Another file that has the same build-id proves nothing, either, after it is gone.
    let elsewhere = dir.path().join("elsewhere");
    with_build_id(&elsewhere, "evil");
    let hostile = Recorded::new(&["-F", "499", "-q", "--embed", "none"], &[elsewhere.as_os_str()]);
    assert!(top(&hostile, &[]).contains("evil"));
    assert_eq!(top(&honest, &[]), bare);
}

#[test]
fn root_the_cache_of_another_user_is_neither_believed_nor_written_through() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (home, target) = (dir.path().join("home"), dir.path().join("target"));
    for folder in [&home, &target] {
        std::fs::create_dir(folder).expect("room");
    }
    std::os::unix::fs::symlink(&target, home.join(".cache")).expect("room");
    for path in [&home, &home.join(".cache")] {
        std::os::unix::fs::lchown(path, Some(54_321), Some(54_321)).expect("root may");
    }
    let command = [stacks_without_frames().into_os_string(), "chain".into(), "200".into()];
    let recorded = Recorded::new(&["-F", "499", "-q"], &command);
    let run = |args: &[&str]| {
        let mut report = Command::new(program("icecore-report"));
        report.env_remove("XDG_CACHE_HOME").env("HOME", &home).args(args);
        report.output().expect("the report runs")
    };
    let path = recorded.path();
    let out = run(&["top", path.to_str().expect("text")]);
    let err = text(&out.stderr);
    assert!(
        out.status.success() && err.contains("is not used: `") && err.contains("belongs to user 54321"),
        "{err}"
    );
    assert_eq!(std::fs::read_dir(&target).expect("ours").count(), 0, "nothing was written through the link");
    let out = run(&["cache"]);
    assert!(
        !out.status.success() && text(&out.stderr).contains("belongs to user 54321"),
        "{}",
        text(&out.stderr)
    );
    assert!(run(&["top", "--no-cache", path.to_str().expect("text")]).stderr.is_empty());
}
