//! The recorder refuses what it cannot record: it prints cause and remedy, ends with exit code 2, and leaves no file.

use icecore_tests::machine::{copy, record, report, target, text};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Runs the recorder in a folder of its own; asserts that it fails with these words and leaves no file.
fn assert_refused(args: &[&str], words: &[&str]) {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let output = record().args(args).current_dir(dir.path()).output().expect("the recorder runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{args:?} should say `{word}`: {said}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("ours").count(), 0, "{args:?} left a file");
}

#[test]
fn what_cannot_be_recorded_is_told_before_anything_is_opened() {
    assert_refused(&[], &["nothing to record", "-a"]);
    assert_refused(&["-p", "4194304"], &["cannot record process 4194304", "no such process"]);
    assert_refused(&["-t", "4194304"], &["cannot record thread 4194304", "no such thread"]);
    assert_refused(&["--", "no-such-program-anywhere"], &["cannot run `no-such-program-anywhere`"]);
    assert_refused(&["report", "x.icecore"], &["error: cannot run `report`", "run icecore-report FILE"]);
    assert_refused(&["-a", "-g"], &["error: unexpected argument `-g`: every sample has its stack"]);
    assert_refused(&["-a", "-C", "9999"], &["CPU 9999", "not online"]);
    assert_refused(&["-a", "-C", "x"], &["`x`"]);
    assert_refused(&["-a", "--ring", "1K"], &["--ring"]);
}

#[test]
fn root_a_command_needs_no_dashes_and_its_options_are_its_own() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let output =
        record().arg("-o").arg(&path).args(["sh", "-c", "exit 7", "--", "--unwind", "dwarf"]).output();
    let output = output.expect("the recorder runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(!said.contains("no samples") || said.contains("less than the 10.1 ms"), "{said}");
    let info = report(&["info".as_ref(), path.as_os_str()]);
    // A reader can distinguish the options of the command from those of the recorder.
    assert!(info.contains("-- sh -c 'exit 7' -- --unwind dwarf"), "{info}");
}

#[test]
fn root_a_rate_above_the_kernels_limit_is_refused_with_the_limit() {
    let limit =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").expect("perf is there");
    let limit: u64 = limit.trim().parse().expect("a number");
    if limit < 100_000 {
        assert_refused(
            &["-a", "-F", "100000", "-d", "1"],
            &["perf_event_max_sample_rate", &limit.to_string()],
        );
    }
}

#[test]
fn root_without_privileges_the_remedy_is_named() {
    // A user without privileges must be able to read the program.
    let dir = tempfile::Builder::new()
        .prefix("icecore")
        .permissions(open_to_all())
        .tempdir_in("/tmp")
        .expect("/tmp");
    let program = dir.path().join("icecore-record");
    copy(&icecore_tests::machine::program("icecore-record"), &program);
    let output =
        Command::new(&program).args(["-a", "-d", "1"]).current_dir(dir.path()).uid(65534).gid(65534).output();
    let output = output.expect("the recorder runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for word in ["cannot load the sampling programs", "CAP_BPF", "root", "perf_event_paranoid is"] {
        assert!(said.to_lowercase().contains(&word.to_lowercase()), "{said}");
    }
}

#[test]
fn root_what_the_kernel_forbids_to_all_is_not_called_a_lack_of_privileges() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let output = record().args(["-e", "fentry:vfs_read", "--", "true"]).current_dir(dir.path()).output();
    let output = output.expect("the recorder runs");
    let said = text(&output.stderr);
    // Some kernels can.
    if output.status.code() != Some(0) {
        assert!(said.contains("use kprobe or kretprobe") && !said.contains("as root"), "{said}");
    }
}

fn open_to_all() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o777)
}

#[test]
fn root_an_existing_file_and_an_unwritable_folder_are_refused() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("precious");
    std::fs::write(&path, "precious").expect("ours");
    let refuse = |path: &Path, words: &[&str]| {
        let output = record().args(["-a", "-d", "0.1", "-o"]).arg(path).output().expect("the recorder runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    refuse(&path, &["--force", "precious"]);
    assert_eq!(std::fs::read(&path).expect("ours"), b"precious");
    refuse(Path::new("/sys/x.icecore"), &["cannot create `/sys/x.icecore`", "another folder with -o"]);
    refuse(&dir.path().join("none/x.icecore"), &["folder does not exist"]);
    refuse(dir.path(), &["cannot create"]);
}

#[test]
fn root_a_full_disk_ends_the_recording_and_keeps_what_is_written() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=32k", "icecore"]).arg(dir.path()).status();
    assert!(mounted.expect("mount exists").success());
    let path = dir.path().join("r.icecore");
    let mut load = Command::new(target()).args(["recursion", "20000"]).spawn().expect("compiled");
    let output =
        record().args(["-a", "-F", "997", "-d", "20", "-o"]).arg(&path).output().expect("the recorder runs");
    let _ = load.kill();
    let _ = load.wait();
    let said = text(&output.stderr);
    let kept = report(&["summary".as_ref(), path.as_os_str()]);
    assert!(Command::new("umount").arg(dir.path()).status().expect("umount exists").success());
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("cannot write") && said.contains("No space left") && said.contains("can be read"),
        "{said}"
    );
    assert!(kept.contains("samples"), "{kept}");
}

#[test]
fn root_inside_a_pid_namespace_recording_is_refused() {
    let program = icecore_tests::machine::program("icecore-record");
    let mut unshare = Command::new("unshare");
    let output =
        unshare.args(["--pid", "--fork", "--mount-proc"]).arg(program).args(["-a", "-d", "0.1"]).output();
    let output = output.expect("util-linux is everywhere");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("PID namespace") && said.contains("--pid=host"), "{said}");
}

#[test]
fn root_a_command_that_cannot_be_recorded_is_not_left_behind() {
    // A unique duration, so that nobody else sleeps for as long.
    let seconds = format!("8639.{}", std::process::id());
    let output =
        record().args(["-o", "/nonexistent/x", "--", "sleep", &seconds]).output().expect("the recorder runs");
    assert_eq!(output.status.code(), Some(2));
    let name = format!("sleep {seconds}");
    let left = Command::new("pgrep").args(["-f", "-x", &name]).output().expect("procps is everywhere");
    assert_eq!(text(&left.stdout), "", "the command is still there");
}

#[test]
fn root_a_kernel_without_type_information_is_refused_with_the_option_that_it_needs() {
    let program = icecore_tests::machine::program("icecore-record");
    // In a mount namespace of its own, the path at which the kernel offers its types is empty.
    let script = format!("mount -t tmpfs none /sys/kernel/btf && exec {} -a -d 0.1", program.display());
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().expect("util-linux");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("/sys/kernel/btf/vmlinux") && said.contains("CONFIG_DEBUG_INFO_BTF"), "{said}");
}
