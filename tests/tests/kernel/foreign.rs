//! Files and processes of others, through real eBPF: nobody can hold the recorder up, name another's code, or be harmed by a recording.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use icecore_tests::machine::{
    Recorded, Sample, Served, ServedTo, holds, needs_perf, python, record, report_output, send, text,
    wait_until,
};

/// Ends a program when it is dropped.
struct Running(Child);

impl Running {
    fn new(command: &mut Command) -> Self {
        Self(command.spawn().expect("it is there"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compiles a program that computes in one function for so many milliseconds.
fn compiled(dir: &Path, name: &str, function: &str, milliseconds: u32, flags: &[&str]) -> std::path::PathBuf {
    let source = format!(
        "#include <time.h>
volatile unsigned long sink;
static double now(void) {{ struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }}
__attribute__((noinline)) void {function}(void) {{
  unsigned long x = 1;
  for (int i = 0; i < 2000000; i++) x = x * 6364136223846793005ul + (x >> 3);
  sink += x;
}}
int main(void) {{ double end = now() + {milliseconds} / 1e3; do {function}(); while (now() < end); }}
"
    );
    let (from, to) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&from, source).expect("room");
    let made = Command::new("cc").args(["-O2"]).args(flags).arg(&from).arg("-o").arg(&to).status();
    assert!(made.expect("a compiler").success());
    to
}

/// Returns the samples of a process.
fn of(samples: &[Sample], pid: u32) -> Vec<&Sample> {
    samples.iter().filter(|sample| sample.number("tgid") == u64::from(pid)).collect()
}

/// Counts the samples with a function.
fn with(samples: &[&Sample], function: &str) -> usize {
    samples.iter().filter(|sample| sample.has(function)).count()
}

#[test]
fn root_a_file_system_that_does_not_answer_holds_nobody_up_and_the_recording_says_which_file() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = compiled(dir.path(), "compiled", "computes", 60_000, &[]);
    let served = Served::new(&dir.path().join("mount"), &program, ServedTo::All);
    let (silent, speaks) =
        (Running::new(&mut Command::new(&served.file)), Running::new(&mut Command::new(&program)));
    std::thread::sleep(Duration::from_millis(300));
    served.fall_silent();
    let begun = Instant::now();
    let recorded = Recorded::new(&["-a", "-F", "499", "-d", "2"], &[] as &[&str]);
    let took = begun.elapsed();
    // The report asks the file system itself.
    let left = recorded.path();
    drop(served);
    println!("{took:?}: {}", text(&recorded.output.stderr));
    assert!(took < Duration::from_secs(20), "{took:?} for 2 s");
    assert!(text(&recorded.output.stderr).contains("did not answer in time"), "the summary says it");
    let samples = recorded.samples(&[]);
    let (silent, speaks) = (of(&samples, silent.0.id()), of(&samples, speaks.0.id()));
    assert!(silent.len() > 100 && speaks.len() > 100, "{} {}", silent.len(), speaks.len());
    assert_eq!(with(&silent, "computes"), 0);
    assert!(
        with(&speaks, "computes") * 100 > speaks.len() * 95,
        "{} of {}",
        with(&speaks, "computes"),
        speaks.len()
    );
    let info = recorded.json("info", &[]);
    let rows = info["left_out"].as_array().expect("a list").clone();
    assert!(
        rows.iter().any(|row| row["why"] == "no_answer" && row["files"] == 1),
        "{}: {rows:?}",
        left.display()
    );
}

#[test]
fn root_a_lease_on_a_perf_map_holds_nobody_up() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut script = tempfile::NamedTempFile::new_in(dir.path()).expect("room");
    // Code that adds to a register and returns, in memory of no file; the map stays under the lease of its writer.
    let source = "import ctypes, fcntl, mmap, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
code = b'\\x31\\xc0\\xb9\\x00\\x00\\x00\\x08\\xff\\xc0\\xff\\xc9\\x75\\xfa\\xc3'
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
path = f'/tmp/perf-{os.getpid()}.map'
file = open(path, 'w')
file.write(f'{at:x} 1000 leased\\n'); file.flush()
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
end = time.monotonic() + 2
while time.monotonic() < end: ctypes.CFUNCTYPE(ctypes.c_int)(at)()
os.unlink(path)
";
    script.write_all(source.as_bytes()).expect("room");
    let begun = Instant::now();
    let python = python();
    let recorded = Recorded::new(&["-F", "499"], &[python.get_program(), script.path().as_os_str()]);
    let took = begun.elapsed();
    assert!(recorded.output.status.success(), "{}", text(&recorded.output.stderr));
    assert!(took < Duration::from_secs(20), "{took:?} for 2 s");
    assert!(recorded.samples(&[]).len() > 300);
}

#[test]
fn root_the_build_id_and_the_path_of_anothers_file_do_not_name_its_code() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let id = "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567";
    let evil = compiled(dir.path(), "evil", "lies_about", 700, &[id]);
    let honest = compiled(dir.path(), "honest", "is_honest_", 700, &[id]);
    let (evil, honest) = (evil.display(), honest.display());
    // First the other file, under the path of the honest one, in a mount namespace of its own.
    let run = format!("unshare -m sh -ec 'mount --bind {evil} {honest}; {honest}'; {honest}");
    for options in [&["--embed", "hits"][..], &["--embed", "all"], &["--unwind", "dwarf"]] {
        let recorded = Recorded::new(&[&["-F", "499", "-q"], options].concat(), &["sh", "-c", &run]);
        let samples = recorded.samples(&[]);
        let honest: Vec<&Sample> = samples.iter().filter(|sample| sample.has("is_honest_")).collect();
        let evil: Vec<&Sample> = samples.iter().filter(|sample| sample.has("lies_about")).collect();
        println!("{options:?}: {} and {}", honest.len(), evil.len());
        assert!(honest.len() > 100 && evil.len() > 100, "{options:?}: {} {}", honest.len(), evil.len());
        let pids = |samples: &[&Sample]| {
            let mut pids: Vec<u64> = samples.iter().map(|sample| sample.number("tgid")).collect();
            pids.dedup();
            pids
        };
        let (honest, evil) = (pids(&honest), pids(&evil));
        assert!(honest.len() == 1 && evil.len() == 1 && honest != evil, "{honest:?} {evil:?}");
    }
}

#[test]
fn root_a_perf_map_of_another_user_names_nothing_not_even_that_of_root() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut script = tempfile::NamedTempFile::new_in("/tmp").expect("room");
    let source = "import ctypes, mmap, os, sys, time
code = b'\\x31\\xc0\\xb9\\x00\\x00\\x00\\x08\\xff\\xc0\\xff\\xc9\\x75\\xfa\\xc3'
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
path = f'/tmp/perf-{os.getpid()}.map'
with open(path, 'w') as file: file.write(f'{at:x} 1000 {sys.argv[1]}\\n')
os.chown(path, int(sys.argv[2]), 0)
os.chmod(path, 0o644)
os.setuid(int(sys.argv[3]))
end = time.monotonic() + 1.5
while time.monotonic() < end: ctypes.CFUNCTYPE(ctypes.c_int)(at)()
";
    script.write_all(source.as_bytes()).expect("room");
    let python = python();
    let run = |name: &str, owner: &str, user: &str| {
        let command = [
            python.get_program().to_str().expect("text"),
            script.path().to_str().expect("text"),
            name,
            owner,
            user,
        ];
        let recorded = Recorded::new(&["-F", "499", "-q"], &command);
        let samples = recorded.samples(&[]);
        assert!(samples.len() > 300, "{}", samples.len());
        with(&samples.iter().collect::<Vec<_>>(), name)
    };
    assert_eq!(run("of_root", "0", "65534"), 0, "the process is not root's");
    assert_eq!(run("of_other", "1", "65534"), 0);
    assert!(run("of_its_user", "65534", "65534") > 200);
    drop(dir);
}

#[test]
fn root_a_file_system_can_be_unmounted_soon_after_its_programs_have_ended() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = compiled(dir.path(), "compiled", "computes", 700, &[]);
    let mount = dir.path().join("mount");
    std::fs::create_dir(&mount).expect("room");
    let (program, mount) = (program.display(), mount.display());
    let run = format!(
        "mount -t tmpfs none {mount}; cp {program} {mount}/gone; {mount}/gone
         for i in $(seq 200); do umount {mount} 2>/dev/null && exit 0; sleep 0.1; done; umount -l {mount}; exit 9"
    );
    let recorded = Recorded::new(&["-F", "499", "-q"], &["sh", "-c", &run]);
    assert_eq!(recorded.output.status.code(), Some(0), "it could not be unmounted for 20 s");
    let samples = recorded.samples(&[]);
    let named = with(&samples.iter().collect::<Vec<_>>(), "computes");
    assert!(named > 100, "{named} samples have names, although the file is gone");
}

#[test]
fn root_perf_beside_a_recording_reads_its_own_file() {
    needs_perf();
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = compiled(dir.path(), "compiled", "computes", 300, &[]);
    let recording = dir.path().join("x.icecore");
    let mut recorder = record();
    let _recorder = Running::new(recorder.args(["-a", "-q", "-F", "99", "-d", "60", "-o"]).arg(&recording));
    wait_until("the recording begins", || recording.metadata().is_ok_and(|meta| meta.len() > 0));
    for run in 0..3 {
        let data = dir.path().join(format!("{run}.data"));
        let perf = |args: &[&str]| {
            let mut perf = Command::new("perf");
            perf.args(args).current_dir(dir.path()).process_group(0).output().expect("perf")
        };
        let (data, program) = (data.to_str().expect("text"), program.to_str().expect("text"));
        let made = perf(&["record", "-q", "-e", "cpu-clock:u", "-F", "499", "-o", data, program]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        let read = perf(&["report", "--stdio", "-i", data]);
        assert!(read.status.success() && text(&read.stdout).contains("computes"), "{}", text(&read.stderr));
    }
}

/// Starts a program of another user that lets nobody read what it has mapped until the file system ends, which is dropped first.
fn holding(mount: &Path, program: &Path) -> (Served, Running) {
    let served = Served::new(mount, program, ServedTo::NobodyWrites);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    let mut holding = Running::new(command.args([program, &served.file]).stdout(Stdio::piped()));
    let mut said = [0; 5];
    holding.0.stdout.take().expect("piped").read_exact(&mut said).expect("it maps");
    std::thread::sleep(Duration::from_millis(200));
    (served, holding)
}

#[test]
fn root_processes_that_let_nobody_read_their_mappings_hold_nobody_up() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = compiled(dir.path(), "compiled", "computes", 60_000, &[]);
    // Others must be able to run it.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("ours");
    let holds_here = dir.path().join("holds");
    std::fs::copy(holds(), &holds_here).expect("room");
    let silent: Vec<(Served, Running)> =
        (0..3).map(|n| holding(&dir.path().join(format!("mount{n}")), &holds_here)).collect();
    let speaks = Running::new(&mut Command::new(&program));
    let begun = Instant::now();
    let recorded = Recorded::new(&["-a", "-F", "499", "-d", "2"], &[] as &[&str]);
    let took = begun.elapsed();
    let ids: Vec<u32> = silent.iter().map(|(_, silent)| silent.0.id()).collect();
    let pid = ids[0].to_string();
    let begun = Instant::now();
    let alone = Recorded::new(&["-p", &pid, "-F", "499", "-d", "1"], &[] as &[&str]);
    let alone_took = begun.elapsed();
    let probe = format!("uprobe:{}:computes", program.display());
    let mut probed = record();
    probed.args(["-a", "-e", &probe, "-d", "1", "-o"]).arg(dir.path().join("probed.icecore"));
    let probed = probed.output().expect("it runs");
    drop(silent);
    println!("{took:?}, {alone_took:?}: {}", text(&recorded.output.stderr));
    // Two of the same user are asked.
    assert!(took < Duration::from_secs(2 + 4) && alone_took < Duration::from_secs(1 + 3));
    let samples = recorded.samples(&[]);
    let speaks = of(&samples, speaks.0.id());
    assert!(speaks.len() > 50 && with(&speaks, "computes") * 10 > speaks.len() * 9, "{}", speaks.len());
    for samples in ids.iter().map(|id| of(&samples, *id)).chain([of(&alone.samples(&[]), ids[0])]) {
        assert!(samples.len() > 50 && with(&samples, "computes") == 0, "{}", samples.len());
        assert!(samples.iter().all(|sample| sample.0["incomplete"] == true));
    }
    let said = text(&probed.stderr);
    assert!(probed.status.code() == Some(2) && said.contains("(`holds`) lets nobody read"), "{said}");
    let health = recorded.json("health", &[]);
    assert!(health["advice"].to_string().contains("`holds`"), "{health:#}");
    assert!(!text(&recorded.output.stderr).contains("no names"), "{}", text(&recorded.output.stderr));
}

/// Runs a report with 30 seconds to end; a process that waits for a file system cannot be killed.
fn reported(args: &[&str]) -> serde_json::Value {
    let (sender, receiver) = std::sync::mpsc::channel();
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let begun = Instant::now();
    std::thread::spawn(move || drop(sender.send(report_output(&args))));
    let output = receiver.recv_timeout(Duration::from_secs(30)).expect("the report ends");
    println!("{:?}", begun.elapsed());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn root_a_report_ends_without_the_names_of_files_whose_file_system_does_not_answer() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = compiled(dir.path(), "compiled", "computes", 1000, &[]);
    let mount = dir.path().join("mount");
    let served = Served::new(&mount, &program, ServedTo::All);
    let recorded = Recorded::new(&["-F", "499", "-q", "--embed", "none"], &[&served.file]);
    let recording = recorded.path().display().to_string();
    let names = |view: &str| reported(&[view, &recording, "--json", "--no-cache"]);
    let named = |top: &serde_json::Value| {
        top["rows"].as_array().expect("rows").iter().any(|row| row["name"] == "computes")
    };
    assert!(named(&names("top")), "a file system that answers");
    served.fall_silent();
    let asks = |served: Served, what: &str| {
        assert!(!named(&names("top")), "{what}");
        let missing = names("missing");
        let rows = missing["names"].as_array().expect("a list");
        assert!(rows.iter().any(|row| row["reason"] == "no_answer"), "{what}: {missing:#}");
        let mut waits = Command::new(icecore_tests::machine::program("icecore-report"));
        let mut waits = Running::new(waits.args(["top", &recording, "--no-cache"]).stdout(Stdio::null()));
        std::thread::sleep(Duration::from_millis(500));
        send(libc::SIGINT, waits.0.id());
        wait_until("Ctrl-C ends the report", || waits.0.try_wait().expect("a child").is_some());
        drop(served);
        std::fs::remove_dir(&mount).expect("unmounted");
    };
    asks(served, "silent");
    asks(Served::new(&mount, &program, ServedTo::NobodyOpens), "unopened");
    asks(Served::new(&mount, &program, ServedTo::NobodyReads), "unread");
    let served = Served::new(&mount, &program, ServedTo::All);
    assert!(named(&names("top")), "it answers again");
    drop(served);
}
