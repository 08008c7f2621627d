//! What processes and threads of the recorder may do while it records: what SECURITY.md says, and nothing else.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use icecore_tests::machine::{
    Recorded, copy, json, program, python, record, report, send, text, wait_for_samples, wait_until,
};

/// uapi/linux/capability.h: the capabilities that the table names.
const CAPABILITIES: [(&str, u32); 10] = [
    ("CAP_CHOWN", 0),
    ("CAP_DAC_OVERRIDE", 1),
    ("CAP_DAC_READ_SEARCH", 2),
    ("CAP_KILL", 5),
    ("CAP_SETGID", 6),
    ("CAP_SETUID", 7),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYSLOG", 34),
    ("CAP_BPF", 39),
    ("CAP_CHECKPOINT_RESTORE", 40),
];

/// What a process or a thread may do.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rights {
    effective: u64,
    permitted: u64,
}

/// Returns the rows of the table in SECURITY.md.
fn documented() -> BTreeMap<String, Rights> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../SECURITY.md");
    let page = std::fs::read_to_string(page).expect("it is there");
    let set = |cell: &str| {
        let named = CAPABILITIES.iter().filter(|(name, _)| cell.split([' ', ',']).any(|word| word == *name));
        let bits = named.clone().fold(0, |bits, (_, bit)| bits | 1 << bit);
        assert_eq!(cell.matches("CAP_").count(), named.count(), "{cell}");
        bits
    };
    let rows = page.lines().filter(|line| line.starts_with("| `icecore-"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells[1].split('`').nth(1).expect("a name").to_owned();
        let (effective, reserve) = (set(cells[2]), set(cells[3]));
        (name, Rights { effective, permitted: effective | reserve })
    };
    rows.map(row).collect()
}

/// Returns a field of `/proc/PID/status`, which is empty if the process has ended.
fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn set(status: &str, name: &str) -> u64 {
    u64::from_str_radix(&field(status, name), 16).unwrap_or(u64::MAX)
}

/// Returns what the kernel says of each thread of a process and of its children, apart from the command.
fn statuses(recorder: u32, command: u32) -> Vec<String> {
    let children = |tgid: u32| {
        let list =
            Command::new("pgrep").args(["-P", &tgid.to_string()]).output().expect("procps is installed");
        text(&list.stdout).lines().filter_map(|line| line.parse::<u32>().ok()).collect::<Vec<_>>()
    };
    let mut processes = vec![recorder];
    let mut at = 0;
    while at < processes.len() {
        processes.extend(children(processes[at]).into_iter().filter(|child| *child != command));
        at += 1;
    }
    let threads = processes.iter().filter_map(|tgid| std::fs::read_dir(format!("/proc/{tgid}/task")).ok());
    threads
        .flatten()
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .collect()
}

/// Returns the readers of a recorder.
fn readers(recorder: u32) -> Vec<u32> {
    let found = statuses(recorder, 0).into_iter().filter(|status| field(status, "Name") == "icecore-reader");
    found.filter_map(|status| field(&status, "Pid").parse().ok()).collect()
}

/// A recorder, which ends when it is dropped.
struct Running(Option<Child>);

impl Running {
    fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    /// Lets the program end, and returns the exit code of the recorder and what it says.
    fn ended(mut self, dir: &Path) -> (Option<i32>, String) {
        std::fs::write(dir.join("end"), "").expect("room");
        let output = self.0.take().expect("it runs").wait_with_output().expect("it ends");
        (output.status.code(), text(&output.stderr))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut recorder) = self.0.take() {
            send(libc::SIGTERM, recorder.id());
            let _ = recorder.wait();
        }
    }
}

/// Starts to record a program for which every thread of the recorder has something to do, and returns the recorder and the program. The names
/// of code are read when a process ends.
fn started(dir: &Path, recording: &Path) -> (Running, u32) {
    started_with(&[], dir, recording)
}

/// The same with further options.
fn started_with(options: &[&str], dir: &Path, recording: &Path) -> (Running, u32) {
    let script = dir.join("named.py");
    // Code that adds to a register and returns, in memory of no file, and its name.
    let source = "import ctypes, mmap, os, sys, time
code = b'\\x31\\xc0\\xb9\\x00\\x00\\x00\\x08\\xff\\xc0\\xff\\xc9\\x75\\xfa\\xc3' if os.uname().machine == 'x86_64' else b'\\xc0\\x03\\x5f\\xd6'
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
def run(is_over):
    path = f'/tmp/perf-{os.getpid()}.map'
    open(path, 'w').write(f'{at:x} 1000 is_named\\n')
    while not is_over(): ctypes.CFUNCTYPE(ctypes.c_int)(at)()
    os.unlink(path)
end = time.monotonic() + 1
if os.fork() == 0: run(lambda: time.monotonic() > end); os._exit(0)
run(lambda: os.path.exists(sys.argv[1]))
os.wait()
";
    std::fs::write(&script, source).expect("room");
    let mut recorder = record();
    recorder.args(["-F", "499"]).args(options).arg("-o").arg(recording).arg("--");
    recorder.arg(python().get_program()).arg(&script).arg(dir.join("end")).stderr(Stdio::piped());
    let recorder = Running(Some(recorder.spawn().expect("it runs")));
    if options.is_empty() {
        wait_for_samples(recording);
    } else {
        wait_until("several files", || std::fs::read_dir(dir).is_ok_and(|dir| dir.count() > 3));
    }
    let list = Command::new("pgrep").args(["-P", &recorder.id().to_string(), "-x", "python3"]).output();
    let command = text(&list.expect("procps is installed").stdout).trim().parse().expect("one command");
    (recorder, command)
}

#[test]
fn root_every_part_of_the_recorder_has_the_rights_that_its_documentation_names_and_no_others() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    // The relay is there only for a command of another user.
    let absent =
        ["relay", "closer", "files", "saver", "control", "shipper"].map(|name| format!("icecore-{name}"));
    let absent = absent.each_ref().map(String::as_str);
    assert_documented(dir.path(), started(dir.path(), &path), &absent);
    report(&["verify".as_ref(), path.as_os_str()]);
}

#[test]
fn root_what_makes_several_files_has_the_rights_that_its_documentation_names() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let started = started_with(&["--rotate", "300ms"], dir.path(), &path);
    assert_documented(
        dir.path(),
        started,
        &["icecore-relay", "icecore-writer", "icecore-saver", "icecore-shipper"],
    );
}

#[test]
fn root_what_holds_a_history_has_the_rights_that_its_documentation_names() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    // The script and two files that are there while it records.
    let [pidfile, socket] = ["pid", "socket"].map(|name| dir.path().join(name).display().to_string());
    std::fs::write(dir.path().join("one more"), "").expect("room");
    let options = ["--flight", "1s", "--pidfile", &pidfile, "--control", &socket];
    let started = started_with(&options, dir.path(), &path);
    assert_documented(dir.path(), started, &["icecore-relay", "icecore-writer", "icecore-shipper"]);
}

#[test]
fn root_what_ships_files_has_no_capability_and_the_rest_the_documented_rights() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    // No archive is there, so files wait.
    let nowhere = dir.path().join("nowhere").display().to_string();
    let started = started_with(&["--rotate", "300ms", "--ship", &nowhere], dir.path(), &path);
    assert!(!shipping(started.0.id()).is_empty(), "it ships");
    std::fs::create_dir(&nowhere).expect("room");
    assert_documented(dir.path(), started, &["icecore-relay", "icecore-writer", "icecore-saver"]);
}

/// Returns what the kernel says of the processes that ship the files of a recorder.
fn shipping(recorder: u32) -> Vec<String> {
    let all = statuses(recorder, 0).into_iter();
    all.filter(|status| field(status, "Name") == "icecore-report").collect()
}

/// Compares what each part of a recorder may do with SECURITY.md, and ends it. These parts need not be there.
fn assert_documented(dir: &Path, (recorder, command): (Running, u32), absent: &[&str]) {
    let documented = documented();
    let is_expected = |name: &&String| !absent.contains(&name.as_str());
    let mut found = Vec::new();
    wait_until("every thread of the recorder", || {
        found = statuses(recorder.id(), command);
        documented
            .keys()
            .filter(is_expected)
            .all(|name| found.iter().any(|status| field(status, "Name") == *name))
    });
    let status = std::fs::read_to_string(format!("/proc/{command}/status")).expect("the command runs");
    let own = std::fs::read_to_string("/proc/self/status").expect("we run");
    let shipping = shipping(recorder.id());
    let (code, said) = recorder.ended(dir);
    for status in &shipping {
        for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(set(status, name), 0, "{name} of what ships files");
        }
        assert_eq!(field(status, "NoNewPrivs"), "1");
    }
    found.retain(|status| field(status, "Name") != "icecore-report");
    for status in &found {
        let name = field(status, "Name");
        let rights = documented.get(&name).unwrap_or_else(|| panic!("`{name}` is not in SECURITY.md"));
        let (effective, permitted) = (set(status, "CapEff"), set(status, "CapPrm"));
        assert_eq!(*rights, Rights { effective, permitted }, "{name}");
        assert_eq!(field(status, "Seccomp"), "2", "{name}");
        assert_eq!(field(status, "NoNewPrivs"), "1", "{name}");
        for name_of_set in ["CapInh", "CapBnd", "CapAmb"] {
            assert_eq!(set(status, name_of_set), 0, "{name_of_set} of {name}");
        }
    }
    for name in ["CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp"] {
        assert_eq!(field(&status, name), field(&own, name), "{name} of the command");
    }
    assert_eq!(code, Some(0), "{said}");
}

/// Makes a process that waits in a system call make another one, `getppid`, and returns the signal by which it ends.
#[cfg(target_arch = "x86_64")]
fn made_to_call_something_else(pid: u32) -> Option<nix::sys::signal::Signal> {
    use nix::sys::ptrace;
    use nix::sys::wait::{WaitStatus, waitpid};

    let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
    ptrace::attach(pid).expect("root may");
    waitpid(pid, None).expect("it stops");
    let mut registers = ptrace::getregs(pid).expect("it has stopped");
    // The instruction that made the system call is made again, with another number.
    registers.rip -= 2;
    registers.rax = libc::SYS_getppid.cast_unsigned();
    registers.orig_rax = u64::MAX;
    ptrace::setregs(pid, registers).expect("it has stopped");
    ptrace::cont(pid, None).expect("it has stopped");
    match waitpid(pid, None).expect("it is traced") {
        WaitStatus::Signaled(_, signal, _) => Some(signal),
        WaitStatus::Stopped(..) => {
            ptrace::kill(pid).expect("it has stopped");
            None
        }
        _ => None,
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn root_a_reader_that_is_made_to_do_something_else_ends_and_the_recording_is_whole() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let (recorder, _) = started(dir.path(), &path);
    let first = readers(recorder.id());
    assert!(!first.is_empty(), "somebody has read files");
    for reader in &first {
        let ended_by = made_to_call_something_else(*reader);
        assert_eq!(ended_by, Some(nix::sys::signal::Signal::SIGSYS));
    }
    let (code, said) = recorder.ended(dir.path());
    assert_eq!(code, Some(0), "{said}");
    report(&["verify".as_ref(), path.as_os_str()]);
    let functions = report(&["top".as_ref(), path.as_os_str()]);
    assert!(functions.contains("is_named"), "the map is read at the end: {functions}");
}

/// A folder that every user may read.
fn open_folder() -> tempfile::TempDir {
    let permissions = std::fs::Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().prefix("icecore").permissions(permissions).tempdir_in("/tmp");
    folder.expect("/tmp")
}

/// Compiles a program that says as whom it runs, and computes for a while in a function.
fn compiled(dir: &Path) -> PathBuf {
    let source = "#include <stdio.h>
#include <time.h>
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline)) void computes(void) { for (int i = 0; i < 1000000; i++) sink += i; }
int main(void) { printf(\"%d\\n\", geteuid()); time_t end = time(0) + 2; while (time(0) < end) computes(); }
";
    let (from, to) = (dir.join("program.c"), dir.join("program"));
    std::fs::write(&from, source).expect("room");
    let made = Command::new("cc").arg("-O1").arg(&from).arg("-o").arg(&to).status();
    assert!(made.expect("a compiler").success());
    to
}

#[test]
fn root_a_command_may_still_gain_the_rights_of_another_user() {
    let dir = open_folder();
    let program = compiled(dir.path());
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).expect("ours");
    let recorded = Recorded::new(&["--as", "nobody"], &[&program]);
    assert_eq!(text(&recorded.output.stdout), "0\n", "{}", text(&recorded.output.stderr));
}

#[test]
fn root_few_capabilities_are_enough_for_the_recorder() {
    let dir = open_folder();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("ours");
    let (compiled, recorder) = (compiled(dir.path()), dir.path().join("icecore-record"));
    copy(&program("icecore-record"), &recorder);
    let of_readme = "+bpf,+perfmon,+sys_ptrace,+syslog";
    let of_user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    // What a container usually has, and what the README names.
    let of_container = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,\
        +audit_write,+setfcap,+bpf,+perfmon,+sys_ptrace,+syslog";
    let ways = [
        [&of_user[..], &["--inh-caps", of_readme, "--ambient-caps", of_readme]].concat(),
        vec!["--inh-caps", of_container, "--bounding-set", of_container],
    ];
    for (number, way) in ways.iter().enumerate() {
        let path = dir.path().join(format!("{number}.icecore"));
        let mut run = Command::new("setpriv");
        run.args(way).arg(&recorder).args(["-F", "499", "-o"]).arg(&path).arg("--").arg(&compiled);
        let output = run.output().expect("util-linux");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{way:?}: {said}");
        report(&["verify".as_ref(), path.as_os_str()]);
        let functions = report(&["top".as_ref(), path.as_os_str()]);
        assert!(functions.contains("computes"), "{way:?}: {functions} {said}");
        let samples = json("info", &path)["receipt"]["samples"].as_u64().expect("a number");
        assert!(samples > 100, "{way:?}: {samples}");
    }
}

#[test]
fn root_a_recorder_saves_its_file_in_the_folder_of_another_user() {
    let dir = open_folder();
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).expect("root may");
    let path = dir.path().join("r.icecore");
    let mut recorder = record();
    recorder.args(["-a", "-o"]).arg(&path).stderr(Stdio::piped());
    let recorder = recorder.spawn().expect("it runs");
    wait_for_samples(&path);
    std::fs::remove_file(&path).expect("root may");
    send(libc::SIGINT, recorder.id());
    let output = recorder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    report(&["verify".as_ref(), path.as_os_str()]);
}
