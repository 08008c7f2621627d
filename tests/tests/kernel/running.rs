//! How a recording begins, goes and ends: `--delay`, `--as`, the line on a terminal, Ctrl-C there.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use icecore_tests::machine::{
    Recorded, Served, ServedTo, copy, json, program, record, report, send, text, wait_for_session, wait_until,
};

const INTERRUPT: i32 = 2;
const TERMINATE: i32 = 15;

/// Moves to the beginning of the line and empties it.
const ERASE: &str = "\r\x1b[K";

fn assert_intact(path: &Path) {
    report(&["verify".as_ref(), path.as_os_str()]);
}

#[test]
fn root_a_delay_leaves_out_the_beginning_of_a_command_and_names_what_began_in_it() {
    let begun = Instant::now();
    let recorded = Recorded::target(&["--delay", "1", "--flush", "100ms"], "shares", 2200);
    let elapsed = begun.elapsed().as_secs_f64();
    assert_intact(&recorded.path());
    let said = text(&recorded.output.stderr);
    assert!(said.contains("sampling begins 1 s after the command starts (--delay)"), "{said}");
    let summary = recorded.json("summary", &[]);
    let seconds = summary["duration_s"].as_f64().expect("a number");
    assert!(seconds > 0.9 && seconds + 1.0 < elapsed, "the delay is not part of the recording: {summary}");
    let notes = recorded.json("info", &[])["session"]["notes"].to_string();
    assert!(notes.contains("sampling begins 1 s after"), "{notes}");
    // The program was executed and mapped before sampling began.
    let samples = recorded.samples(&[]);
    let named = samples.iter().filter(|sample| sample.has("takes_half") || sample.has("main")).count();
    assert!(named * 10 > samples.len() * 8, "{named} of {} samples", samples.len());
    assert!(
        samples.iter().all(|sample| (sample.number("time_ns") as f64) < seconds * 1e9),
        "times count from sampling"
    );
    // The account leaves out the delay, too: with it, the kernel would have twice the time of the samples.
    let agreement = recorded.json("health", &[])["cpu_time_agreement"].as_f64().expect("a number");
    assert!((0.8..1.25).contains(&agreement), "{agreement}");
}

#[test]
fn root_a_duration_counts_from_the_end_of_the_delay() {
    let begun = Instant::now();
    let recorded = Recorded::new(&["-a", "-D", "800ms", "-d", "400ms"], &[] as &[&str]);
    assert!(begun.elapsed() >= Duration::from_millis(1200), "{:?}", begun.elapsed());
    let said = text(&recorded.output.stderr);
    assert!(said.contains("sampling begins 0.8 s after the recorder is ready (--delay)"), "{said}");
    let seconds = recorded.json("summary", &[])["duration_s"].as_f64().expect("a number");
    assert!((0.35..1.0).contains(&seconds), "{seconds}");
    assert_intact(&recorded.path());
}

#[test]
fn root_recorders_that_start_at_different_times_begin_together() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let start = |number: u32| {
        let path = dir.path().join(format!("{number}.icecore"));
        let mut recorder = record();
        recorder.args(["-q", "-a", "-F", "997", "--at", "*/3s", "-d", "0.5", "-o"]).arg(&path);
        (path, recorder.spawn().expect("the recorder runs"))
    };
    // The first may begin while the second is being started; then both begin anew.
    let starts_of = || {
        let first = start(1);
        std::thread::sleep(Duration::from_millis(400));
        [first, start(2)].map(|(path, mut recorder)| {
            assert!(recorder.wait().expect("it ends").success());
            let session = json("info", &path)["session"].clone();
            let first_ns = json("summary", &path)["duration_s"].as_f64().expect("a number");
            std::fs::remove_file(&path).expect("ours");
            assert!((0.4..1.5).contains(&first_ns), "{first_ns}");
            session["start_unix_ns"].as_u64().expect("a number")
        })
    };
    let starts = (0..3).map(|_| starts_of()).find(|starts| starts[0] == starts[1]);
    let [at, _] = starts.expect("two of the same moment");
    assert_eq!(at % 3_000_000_000, 0, "{at}");
}

#[test]
fn root_what_ends_during_the_delay_is_a_recording_without_samples() {
    let assert_empty = |path: &Path, output: &Output, code: i32| {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(
            said.contains("no samples: the recording ended before sampling began (--delay, --at)"),
            "{said}"
        );
        assert_intact(path);
        let summary = json("summary", path);
        assert_eq!(
            (summary["samples"].as_u64(), summary["closed"].as_bool()),
            (Some(0), Some(true)),
            "{summary}"
        );
    };
    let ended = Recorded::new(&["--delay", "60"], &["sh", "-c", "exit 7"]);
    assert_empty(&ended.path(), &ended.output, 7);

    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let mut recorder = record();
    recorder.args(["-a", "--delay", "60", "-o"]).arg(&path).stderr(Stdio::piped());
    let recorder = recorder.spawn().expect("the recorder runs");
    // The first block is written before the delay.
    wait_for_session(&path);
    send(INTERRUPT, recorder.id());
    assert_empty(&path, &recorder.wait_with_output().expect("it ends"), 0);
}

/// Runs a shell command on a terminal of its own.
fn on_terminal(line: &str) -> Command {
    let mut script = Command::new("script");
    // `script` takes the shell of the user: dash knows no `read -t`, does not replace itself by the last command, and ends at Ctrl-C.
    script.args(["-q", "-e", "-c", line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/bash");
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    script
}

/// Returns what a shell command writes to its terminal.
fn written(line: &str) -> String {
    let terminal = on_terminal(line).spawn().expect("util-linux is everywhere");
    let output = terminal.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stdout));
    text(&output.stdout)
}

#[test]
fn root_a_terminal_shows_how_the_recording_goes_in_one_line() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let recorder = program("icecore-record").display().to_string();
    let run = |before: &str, options: &str, command: &str| {
        let path = dir.path().join("r.icecore").display().to_string();
        written(&format!("{before} exec {recorder} --force -o {path} {options} {command}"))
    };
    let shown = run("", "-a -d 1.6", "");
    let lines: Vec<&str> = shown.split(ERASE).collect();
    let live: Vec<&&str> = lines.iter().filter(|line| line.starts_with("recording ")).collect();
    // Four times a second at most. If something is lost, the end of the line is cut off.
    assert!((3..=8).contains(&live.len()), "{shown:?}");
    assert!(live.iter().all(|line| line.contains("; Ctrl-C") && line.contains(" sample")), "{live:?}");
    assert!(
        live.last().is_some_and(|line| line.starts_with("recording 1.") && line.contains("iB")),
        "{live:?}"
    );
    // It is gone before the summary.
    let summary = lines.last().expect("there is one");
    assert!(summary.starts_with("recorded ") && summary.contains("1.6 s"), "{shown:?}");

    let narrow = run("stty cols 20;", "-a --delay 0.4 -d 0.4", "");
    let lines: Vec<&str> = narrow.split(ERASE).collect();
    for beginning in ["sampling begins in ", "recording 0."] {
        let line = lines.iter().find(|line| line.contains(beginning)).expect("shown");
        let line = line.rsplit('\n').next().expect("the last line");
        assert_eq!(line.chars().count(), 19, "{narrow:?}");
    }
    for quiet in
        [run("", "-a -q -d 0.4", ""), run("TERM=dumb", "-a -d 0.4", ""), run("", "-a", "-- sleep 0.4")]
    {
        assert!(!quiet.contains("Ctrl-C") && !quiet.contains(ERASE), "{quiet:?}");
    }
    let piped = Recorded::new(&["-a", "-d", "0.4"], &[] as &[&str]);
    assert!(text(&piped.output.stderr).starts_with("recorded "), "{}", text(&piped.output.stderr));
}

/// A program that takes a while to end at SIGINT, and notes the signals that it gets.
fn graceful(dir: &Path) -> String {
    let dir = dir.display();
    let script = format!(
        "trap 'echo INT >> {dir}/signals; sleep 0.7; exit 7' INT
         trap 'echo TERM >> {dir}/signals; exit 8' TERM
         touch {dir}/ready
         while :; do sleep 0.05; done"
    );
    let path = format!("{dir}/graceful.sh");
    std::fs::write(&path, script).expect("room");
    path
}

/// Starts something that records such a program, does something to it, and returns its exit code and the signals of the program.
fn signals(dir: &Path, recorder: &mut Command, act: impl FnOnce(&mut Child)) -> (Option<i32>, String) {
    let _ = ["signals", "ready"].map(|name| std::fs::remove_file(dir.join(name)));
    let mut child = recorder.spawn().expect("it runs");
    wait_until("the program handles signals", || dir.join("ready").exists());
    act(&mut child);
    let code = child.wait().expect("it ends").code();
    (code, std::fs::read_to_string(dir.join("signals")).unwrap_or_default())
}

#[test]
fn root_ctrl_c_reaches_the_command_once_and_its_exit_code_is_passed_on() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (graceful, path) = (graceful(dir.path()), dir.path().join("r.icecore"));
    let recorder = program("icecore-record").display().to_string();
    let line = format!("exec {recorder} --force -o {} -- sh {graceful}", path.display());
    let pressed = |terminal: &mut Child| {
        let mut keys = terminal.stdin.take().expect("a pipe");
        keys.write_all(b"\x03").expect("script reads it");
        // The end of its input would end the terminal.
        let _ = terminal.wait();
    };
    assert_eq!(signals(dir.path(), &mut on_terminal(&line), pressed), (Some(7), "INT\n".to_owned()));
    assert_intact(&path);
    let receipt = json("info", &path)["receipt"].clone();
    assert_eq!(receipt["ended_by"][0], "signal", "{receipt}");
}

#[test]
fn root_a_signal_for_the_recorder_alone_ends_the_command() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (graceful, path) = (graceful(dir.path()), dir.path().join("r.icecore"));
    for signal in [TERMINATE, INTERRUPT] {
        let mut recorder = record();
        recorder.args(["--force", "-o"]).arg(&path).args(["--", "sh", &graceful]).stderr(Stdio::piped());
        let ended = signals(dir.path(), &mut recorder, |child| send(signal, child.id()));
        assert_eq!(ended, (Some(8), "TERM\n".to_owned()), "signal {signal}");
        assert_intact(&path);
    }
}

#[test]
fn root_a_command_runs_as_another_user_with_all_that_belongs_to_it() {
    let id = |args: &[&str]| text(&Command::new("id").args(args).output().expect("coreutils").stdout);
    let uid = id(&["-u", "nobody"]);
    let entry = text(&Command::new("getent").args(["passwd", "nobody"]).output().expect("libc-bin").stdout);
    let fields: Vec<&str> = entry.trim().split(':').collect();
    let expected = format!(
        "nobody\n{}{}{} nobody nobody {}\n",
        id(&["-g", "nobody"]),
        id(&["-G", "nobody"]),
        fields[5],
        fields[6]
    );
    // The last one is the folder that `ls` reads.
    let inherited = "\n0\n1\n2\n3\n";
    let script = "id -u -n; id -g; id -G; echo $HOME $USER $LOGNAME $SHELL
        cat /proc/self/status; ls /proc/self/fd";
    for user in ["nobody", uid.trim()] {
        let recorded = Recorded::new(&["--as", user], &["sh", "-c", script]);
        let said = text(&recorded.output.stdout);
        assert!(said.starts_with(&expected), "{said}\n{expected}");
        let value = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel says it");
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let ids = format!("{0} {0} {0} {0}", uid.trim());
        assert_eq!(value("Uid:"), ids);
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(value(set), "0000000000000000", "{set}");
        }
        // A program with the set-user-id bit still gets its rights.
        assert_eq!(value("NoNewPrivs:"), "0");
        assert!(said.ends_with(inherited), "no other file is open: {said}");
        assert_eq!(recorded.output.status.code(), Some(0));
        let line = recorded.json("info", &[])["session"]["command_line"].to_string();
        assert!(line.contains("--as"), "{line}");
    }
    // The groups of the recorder are left, and those in which the database lists the user are joined.
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let groups = dir.path().join("group");
    let listed = std::fs::read_to_string("/etc/group").expect("every Linux has it");
    std::fs::write(&groups, format!("{listed}icecore-test:x:54321:nobody\n")).expect("room");
    let run = format!(
        "mount --bind {} /etc/group && exec setpriv --groups 54322 {} -q -o {} --as nobody id -G",
        groups.display(),
        program("icecore-record").display(),
        dir.path().join("r.icecore").display()
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &run]).output().expect("util-linux");
    let said = text(&output.stdout);
    assert_eq!(said, format!("{} 54321\n", id(&["-G", "nobody"]).trim()), "{}", text(&output.stderr));

    let refused = |args: &[&str], words: &str| {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let output = record().args(args).current_dir(dir.path()).output().expect("the recorder runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("ours").count(), 0, "{args:?} left a file");
    };
    refused(&["--as", "nobody-here", "true"], "cannot run a command as `nobody-here`: there is no such user");
    refused(&["-a", "--as", "nobody", "-d", "0.1"], "cannot run a command as `nobody`: there is no command");
    // Only root may run this program.
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let of_root = dir.path().join("true");
    copy(Path::new("/bin/true"), &of_root);
    std::fs::set_permissions(&of_root, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("ours");
    refused(&["--as", "nobody", of_root.to_str().expect("ASCII")], "Permission denied");
}

#[test]
fn root_another_user_needs_root() {
    let dir = tempfile::Builder::new()
        .prefix("icecore")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir_in("/tmp")
        .expect("/tmp");
    let recorder = dir.path().join("icecore-record");
    copy(&program("icecore-record"), &recorder);
    let mut recorder = Command::new(&recorder);
    recorder.args(["--as", "root", "true"]);
    recorder.uid(65534).gid(65534);
    let output = recorder.output().expect("it runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot run a command as `root`: only root may"), "{said}");
}

/// Two children that use CPU time, one of which has a child that does, too; all end with their input.
const FAMILY: &str = "
    spin='while kill -0 $0 2>/dev/null; do :; done'
    sh -c \"$spin\" $$ &
    sh -c \"sh -c '$spin' $$; :\" $$ &
    read end";

#[test]
fn root_children_that_exist_already_are_recorded_if_wanted_and_otherwise_reported() {
    let mut master = Command::new("sh");
    let mut master = master.args(["-c", FAMILY]).stdin(Stdio::piped()).spawn().expect("a shell");
    let of = |tgid: u32| -> Vec<u32> {
        let list =
            Command::new("pgrep").args(["-P", &tgid.to_string()]).output().expect("procps is installed");
        text(&list.stdout).lines().filter_map(|line| line.parse().ok()).collect()
    };
    let mut family = Vec::new();
    wait_until("a child of a child", || {
        family = of(master.id());
        family.extend(family.clone().into_iter().flat_map(of));
        family.len() == 3
    });
    let pid = master.id().to_string();
    let record = |options: &[&str]| {
        let target = ["-p", &pid, "-F", "499", "-d", "1"];
        Recorded::new::<&str>(&[&target[..], options].concat(), &[])
    };
    let (alone, with) = (record(&[]), record(&["--children"]));
    drop(master.stdin.take());
    let _ = master.wait();
    let said = text(&alone.output.stderr);
    assert_eq!(alone.samples(&[]).len(), 0, "{said}");
    let remedy = "3 descendants of the target existed already and were not recorded: give --children";
    assert!(said.contains(remedy), "{said}");
    let notes = with.json("info", &[])["session"]["notes"].to_string();
    assert!(notes.contains("3 descendants of the targets existed already and are recorded, too"), "{notes}");
    let samples = with.samples(&[]);
    for tgid in [family[0], family[2]] {
        let own = samples.iter().filter(|sample| sample.number("tgid") == u64::from(tgid)).count();
        assert!(own > 50, "{own} of {} samples are of {tgid}", samples.len());
    }
}

/// Types into every terminal that it reaches, and never fails.
const TYPES: &str = "
import fcntl, os, termios
def opened(name):
    try:
        return [os.open(name, os.O_RDWR | os.O_NOCTTY)]
    except OSError:
        return []
for terminal in [0, 1, 2] + opened('/dev/tty') + opened('/proc/self/fd/0'):
    for byte in b'typed\\n':
        try:
            fcntl.ioctl(terminal, termios.TIOCSTI, bytes([byte]))
        except OSError:
            pass
";

#[test]
fn root_a_command_of_another_user_types_into_its_own_terminal_alone() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let recorder = program("icecore-record").display().to_string();
    let recorded = format!("{recorder} -q --force -o {} --as nobody --", dir.path().join("r").display());
    let python = |before: &str| format!("{before} python3 -c \"$TYPES\" < /dev/tty");
    let got = |run: &str| {
        let mut terminal = on_terminal(&format!("{run}; read -t 1 got; echo \"got=[$got]\""));
        terminal.env("TYPES", TYPES).env("SHELL", "/bin/bash");
        let mut terminal = terminal.spawn().expect("util-linux");
        // The end of its input would be typed, too.
        let _keys = terminal.stdin.take();
        let output = terminal.wait_with_output().expect("it ends");
        text(&output.stdout).rsplit("got=").next().expect("it says it").trim().to_owned()
    };
    assert_eq!(got(&python(&recorded)), "[]");
    // No descriptor is a terminal; the session has one still.
    assert_eq!(got(&format!("{recorded} python3 -c \"$TYPES\" < /dev/null > /dev/null 2>&1")), "[]");
    // Where the kernel allows it, a program that holds the terminal of its session can.
    let may =
        std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").is_ok_and(|text| text.trim() == "1");
    if may {
        assert_eq!(got(&python("")), "[typed]");
    }
}

#[test]
fn root_a_command_of_another_user_has_a_terminal_like_that_of_the_recorder() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let recorder = program("icecore-record").display().to_string();
    let recorded = format!("{recorder} -q --force -o {} --as nobody --", dir.path().join("r").display());
    let said = |line: &str, keys: &[u8]| {
        let mut terminal = on_terminal(line).env("SECRET", "of root").spawn().expect("util-linux");
        let mut to = terminal.stdin.take().expect("a pipe");
        let mut from = BufReader::new(terminal.stdout.take().expect("a pipe"));
        let mut shown = String::new();
        // Keys are typed when the command says that it runs.
        while !keys.is_empty() && !shown.contains("ready") {
            assert!(from.read_line(&mut shown).expect("text") > 0, "{shown}");
        }
        to.write_all(keys).expect("script reads it");
        from.read_to_string(&mut shown).expect("text");
        (terminal.wait().expect("it ends").code(), shown.replace('\r', ""))
    };
    let (code, size) = said(&format!("stty cols 33 rows 7; {recorded} sh -c 'stty size; tty; exit 7'"), b"");
    assert_eq!((code, size.lines().next()), (Some(7), Some("7 33")), "{size}");
    assert!(size.lines().nth(1).is_some_and(|tty| tty.starts_with("/dev/pts/")), "{size}");
    // What is typed arrives once, and the recorder's terminal is as it was.
    let line = format!(
        "before=$(stty -g); {recorded} sh -c 'echo ready; read line; echo \"<$line>\"'; test $before = $(stty -g)"
    );
    let (code, typed) = said(&line, b"some words\n");
    assert!(code == Some(0) && typed.contains("<some words>"), "{code:?} {typed}");
    // Pipes pass unchanged.
    let (_, piped) = said(&format!("printf 'a\\tb' | {recorded} od -c | tr -d ' '"), b"");
    assert_eq!(piped, "0000000a\\tb\n0000003\n");
    let (_, variables) = said(&format!("{recorded} env"), b"");
    assert!(variables.contains("USER=nobody") && !variables.contains("SECRET"), "{variables}");
    // Ctrl-C reaches it, as a signal of its terminal.
    let script = "trap 'echo INT; exit 3' INT; echo ready; while :; do sleep 0.05; done";
    assert_eq!(said(&format!("exec {recorded} sh -c \"{script}\""), b"\x03").0, Some(3));
}

#[test]
fn root_a_recording_ends_in_time_while_its_program_does_not_start() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let served = Served::new(&dir.path().join("mount"), Path::new("/bin/true"), ServedTo::NobodyOpens);
    for delay in [&[][..], &["--delay", "0.5"]] {
        let mut recorder = record();
        // The command, which ends only with its file system, has stderr as well.
        recorder
            .args(["--force", "-F", "499", "-d", "3"])
            .args(delay)
            .arg("-o")
            .arg(&path)
            .arg("--")
            .arg(&served.file);
        recorder.stderr(std::fs::File::create(dir.path().join("stderr")).expect("room"));
        let begun = Instant::now();
        let code = recorder.status().expect("it runs").code();
        let took = begun.elapsed();
        let said = std::fs::read_to_string(dir.path().join("stderr")).expect("its messages");
        assert!(took > Duration::from_secs(3) && took < Duration::from_secs(30), "{took:?}");
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("the command did not start"), "{said}");
        assert_intact(&path);
        let receipt = json("info", &path)["receipt"].clone();
        assert_eq!(receipt["ended_by"][0], "duration", "{receipt}");
    }
}

#[test]
fn root_a_program_that_does_not_start_does_not_keep_the_recorder() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let served = Served::new(&dir.path().join("mount"), Path::new("/bin/true"), ServedTo::NobodyOpens);
    for signal in [INTERRUPT, TERMINATE] {
        // A file of its own shows when recording has begun.
        let path = dir.path().join(format!("{signal}.icecore"));
        let mut recorder = record();
        // The command, which ends only with its file system, has stderr as well.
        recorder
            .arg("-o")
            .arg(&path)
            .arg("--")
            .arg(&served.file)
            .stderr(std::fs::File::create(dir.path().join("stderr")).expect("room"));
        let mut recorder = recorder.spawn().expect("it runs");
        wait_for_session(&path);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let asked = std::time::Instant::now();
        send(signal, recorder.id());
        let code = recorder.wait().expect("it ends").code();
        let took = asked.elapsed();
        let said = std::fs::read_to_string(dir.path().join("stderr")).expect("its messages");
        assert!(took.as_secs() < 10, "{took:?}");
        assert_eq!(code, Some(128 + signal), "{said}");
        assert!(said.contains("the command did not start") && said.contains("does not answer"), "{said}");
        assert_intact(&path);
        let receipt = json("info", &path)["receipt"].clone();
        assert_eq!(receipt["ended_by"][0], "signal", "{receipt}");
    }
}
