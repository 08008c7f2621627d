//! Files and memory that look alike, through real eBPF: each has its own names, because two files count as one only if that is proven.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use icecore_tests::machine::{
    Recorded, Sample, Served, ServedTo, copy, moved, shares_memory, swapped, swapped_large, swapped_small,
};

/// Returns the share of the samples below `main` that have a function.
fn share(samples: &[Sample], function: &str) -> f64 {
    let below: Vec<&Sample> = samples.iter().filter(|sample| sample.has("main")).collect();
    assert!(below.len() > 200, "{}", below.len());
    below.iter().filter(|sample| sample.has(function)).count() as f64 / below.len() as f64
}

/// Makes a copy of a library without a build-id, of 64 KiB and of a fixed time.
fn without_build_id(library: &Path, to: &Path) {
    copy(library, to);
    let strip = Command::new("objcopy").args(["--remove-section", ".note.gnu.build-id"]).arg(to).status();
    assert!(strip.expect("objcopy is installed").success());
    let file = std::fs::OpenOptions::new().write(true).open(to).expect("it was copied");
    file.set_len(64 << 10).expect("room");
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    file.set_modified(old).expect("it is ours");
}

#[test]
fn root_a_library_replaced_by_one_of_equal_size_and_time_has_its_own_names() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    for (name, library) in [("library.so", swapped_small()), ("next.so", swapped_large())] {
        without_build_id(&library, &dir.path().join(name));
    }
    let (program, dir) = (swapped().display().to_string(), dir.path().display().to_string());
    let run = format!(
        "cd {dir}; {program} ./library.so small 700; mv next.so library.so; {program} ./library.so large 700"
    );
    let recorded = Recorded::new(&["-F", "499", "-q"], &["sh", "-c", &run]);
    let samples = recorded.samples(&[]);
    for function in ["small", "large"] {
        let found = share(&samples, function);
        assert!((found - 0.5).abs() < 0.1, "{function}: {found}");
    }
    // Without the recorded names, the file that was replaced has none.
    let recorded = Recorded::new(
        &["-F", "499", "-q", "--embed", "none"],
        &[
            "sh",
            "-c",
            &format!(
                "cd {dir}; cp -p library.so next.so; {program} ./library.so large 700; mv next.so library.so; {program} ./library.so large 700"
            ),
        ],
    );
    let samples = recorded.samples(&[]);
    let found = share(&samples, "large");
    assert!((found - 0.5).abs() < 0.1, "{found}");
    let missing = recorded.json("missing", &[]);
    let rows = missing["names"].as_array().expect("a list");
    let gone =
        rows.iter().find(|row| row["image"].as_str().is_some_and(|path| path.ends_with("/library.so")));
    assert_eq!(gone.map(|row| &row["reason"]), Some(&"image_unproven".into()), "{missing:#}");
}

#[test]
fn root_processes_that_share_memory_have_each_others_libraries() {
    let recorded = Recorded::new(&["-F", "499", "-q"], &[shares_memory(), swapped_small(), swapped_large()]);
    assert!(recorded.output.status.success());
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| sample.has("spin"));
    let processes: std::collections::BTreeSet<u64> =
        samples.iter().map(|sample| sample.number("tgid")).collect();
    assert_eq!(processes.len(), 2, "two processes, not two threads");
    for (own, library) in [("in_creator", "small"), ("in_helper", "large")] {
        let of: Vec<&Sample> = samples.iter().filter(|sample| sample.has(own)).collect();
        assert!(of.len() > 100, "{own}: {}", of.len());
        for sample in of {
            let names = sample.names("user");
            assert!(names.starts_with(&["spin", "work", library, own]), "{names:?}");
        }
    }
}

#[test]
fn root_code_that_a_program_has_moved_keeps_its_names_if_its_bytes_are_those_of_the_file() {
    let recorded = Recorded::new(&["-F", "499", "-q"], &[moved().as_os_str(), "2000".as_ref()]);
    assert!(recorded.output.status.success());
    let samples = recorded.samples(&[]);
    let below: Vec<&Sample> = samples.iter().filter(|sample| sample.has("main")).collect();
    let share = |function: &str| {
        below.iter().filter(|sample| sample.names("user").first() == Some(&function)).count() as f64
            / below.len() as f64
    };
    // Nothing tells the callers of the code whose page differs, so its stacks do not reach `main`.
    let (moved, stays) = (share("moved"), share("stays"));
    println!("{} of {} samples below main: moved {moved}, stays {stays}", below.len(), samples.len());
    assert!(below.len() > 500 && below.len() * 100 < samples.len() * 85, "{}", samples.len());
    assert!((moved - 2.0 / 3.0).abs() < 0.06 && (stays - 1.0 / 3.0).abs() < 0.06, "{moved} {stays}");
    assert_eq!(share("patched"), 0.0, "its page has other bytes than the file");
    for sample in below.iter().filter(|sample| sample.names("user").first() == Some(&"moved")) {
        assert!(sample.names("user").starts_with(&["moved", "calls_moved", "main"]), "{sample:?}");
    }
    let health = recorded.json("health", &[]);
    let is_leaf_moved = |sample: &&Sample| {
        let user = sample.0["frames"].as_array().into_iter().flatten().find(|frame| frame["side"] == "user");
        user.is_some_and(|frame| frame["moved"] == true)
    };
    let leaves = samples.iter().filter(is_leaf_moved).count() as f64 / samples.len() as f64;
    let told = health["moved_share"].as_f64().expect("some code has moved");
    assert!((told - leaves).abs() < 0.01 && told > 0.4, "{told}, not {leaves}");
    let frames = below.iter().filter_map(|sample| sample.0["frames"].as_array()).flatten();
    let is_marked =
        |name: &str| frames.clone().filter(|frame| frame["name"] == name).all(|frame| frame["moved"] == true);
    assert!(is_marked("moved") && is_marked("calls_moved") && !is_marked("stays") && !is_marked("main"));
}

#[test]
fn root_files_that_nobody_may_open_are_read_from_the_memory_of_their_process() {
    const USER: u32 = 65534;
    let source = "#include <time.h>
volatile unsigned long sink;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
__attribute__((noinline)) void leaf(void) {
  unsigned long x = 1;
  for (int i = 0; i < 2000000; i++) x = x * 6364136223846793005ul + (x >> 3);
  sink += x;
}
__attribute__((noinline)) void middle(void) { leaf(); sink++; }
int main(void) { double end = now() + 2.5; do middle(); while (now() < end); }
";
    for (flags, is_named) in [(&["-O2", "-rdynamic"][..], true), (&["-O2"], false)] {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("our own");
        let program = dir.path().join("compiled");
        std::fs::write(dir.path().join("denied.c"), source).expect("room");
        let mut compiler = Command::new("cc");
        compiler
            .args(flags)
            .arg("-fomit-frame-pointer")
            .arg(dir.path().join("denied.c"))
            .arg("-o")
            .arg(&program);
        assert!(compiler.status().expect("a compiler").success());
        let served = Served::new(&dir.path().join("mount"), &program, ServedTo::User(USER));
        let refused = File::open(&served.file).expect_err("root may not");
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        let mut child = Command::new(&served.file).uid(USER).gid(USER).spawn().expect("its user may");
        let recorded = Recorded::new(&["-F", "499", "-q", "-p", &child.id().to_string()], &[] as &[&str]);
        assert!(child.wait().expect("it ends").success());
        let health = recorded.json("health", &[]);
        assert!(health["rooted_share"].as_f64().is_some_and(|share| share > 0.98), "{flags:?}: {health:#}");
        assert_eq!(health["guessed_share"].as_f64(), Some(0.0), "{flags:?}: {health:#}");
        let samples = recorded.samples(&[]);
        assert!(samples.len() > 300, "{}", samples.len());
        let named = samples
            .iter()
            .filter(|sample| sample.names("user").starts_with(&["leaf", "middle", "main"]))
            .count();
        if is_named {
            assert!(named * 100 > samples.len() * 95, "{named} of {}", samples.len());
        } else {
            // The names of local symbols are not in memory.
            let missing = recorded.json("missing", &[]);
            let rows = missing["names"].as_array().expect("a list");
            assert!(rows.iter().any(|row| row["reason"] == "image_denied"), "{missing:#}");
        }
    }
}
