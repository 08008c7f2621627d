//! Other programs on the machine do not cost the recorded processes samples or frames, and a recording does not cost others time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use icecore_tests::machine::{
    Mounted, Recorded, forks, mapper, record, send, stacks_without_frames, text, wait_until,
};

/// Programs that run beside a recording, and are killed after it.
struct Neighbours(Vec<Child>);

impl Neighbours {
    /// Starts programs that map executable memory all the time.
    fn mapping(number: usize) -> Self {
        let run = |_| Command::new(mapper()).arg("60").spawn().expect("it was compiled");
        Self((0..number).map(run).collect())
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Counts samples with the leaf `leaf` by how their stacks ended; `whole` counts those with all callers.
fn ends(recorded: &Recorded) -> BTreeMap<String, usize> {
    let mut ends = BTreeMap::new();
    let samples = recorded.samples(&["--comm", "stacks"]);
    for sample in samples.iter().filter(|sample| sample.names("user").first() == Some(&"leaf")) {
        let names = sample.names("user");
        let is_whole =
            names.starts_with(&["leaf", "b", "a", "chain", "main"]) && names.last() == Some(&"_start");
        *ends.entry(if is_whole { "whole" } else { sample.text("ended") }.to_owned()).or_default() += 1;
    }
    ends
}

#[test]
fn root_a_neighbour_that_maps_code_all_the_time_takes_no_callers_away() {
    let program = stacks_without_frames();
    let _neighbours = Neighbours::mapping(2);
    for options in [&["-F", "499", "-q"][..], &["-F", "499", "-q", "-a"]] {
        let all = |recorded: &Recorded| ends(recorded).values().sum::<usize>();
        let recorded = Recorded::until(
            |recorded| all(recorded) > 100 && recorded.lost()["stack_shortened"].is_null(),
            || Recorded::new(options, &[program.as_os_str(), "chain".as_ref(), "700".as_ref()]),
        );
        let (all, ends, lost) = (all(&recorded), ends(&recorded), recorded.lost());
        eprintln!("{options:?}: {ends:?}; lost {lost}");
        // If the recorder gets no CPU, it copies no stacks, or the program has ended before the recorder looks at it: then the
        // recording says so.
        let left_out = lost["stack_shortened"].as_u64().unwrap_or(0) as usize;
        let of = |end: &str| ends.get(end).copied().unwrap_or(0);
        let (whole, is_told) = (of("whole"), left_out + of("mappings_lost"));
        assert!(all > 100 && whole * 2 > all && (whole + is_told) * 100 >= all * 97, "{ends:?}; lost {lost}");
    }
}

/// Records while a program that is no target calls the probed function all the time, and returns the first bytes of the function that
/// this program has read meanwhile.
fn bytes_of_neighbour(record: impl FnOnce(u32)) -> BTreeSet<String> {
    let mut spins = Command::new(forks());
    let mut neighbour = Neighbours(vec![spins.arg("spin").stdout(Stdio::piped()).spawn().expect("compiled")]);
    let pid = neighbour.0[0].id();
    record(pid);
    // It says a line every tenth of a second, of the moment before.
    std::thread::sleep(std::time::Duration::from_millis(150));
    let mut said = neighbour.0[0].stdout.take().expect("a pipe");
    drop(neighbour);
    let mut lines = String::new();
    said.read_to_string(&mut lines).expect("text");
    lines.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
}

const BREAKPOINT: &str = "cc";

#[test]
fn root_a_probe_of_a_target_is_in_no_other_process() {
    let (program, event) = (forks(), format!("uprobe:{}:hit", forks().display()));
    let spinning = || Command::new(&program).arg("spin").stdout(Stdio::null()).spawn().expect("compiled");
    let spin = ["timeout".as_ref(), "0.5".as_ref(), program.as_os_str(), "spin".as_ref()];
    let options = ["-q", "--max-event-rate", "1000", "-e", &event];
    // A command, and processes that run already.
    let of_command = bytes_of_neighbour(|_| {
        assert!(Recorded::new(&options, &spin).samples(&[]).len() > 100);
    });
    let of_process = bytes_of_neighbour(|_| {
        let target = Neighbours(vec![spinning()]);
        let pid = target.0[0].id().to_string();
        let recorded = Recorded::new::<&str>(&[&options[..], &["-p", &pid, "-d", "0.5"]].concat(), &[]);
        let samples = recorded.samples(&[]);
        assert!(samples.len() > 100 && samples.iter().all(|sample| sample.number("tgid").to_string() == pid));
    });
    for bytes in [of_command, of_process] {
        assert!(!bytes.is_empty() && !bytes.contains(BREAKPOINT), "{bytes:?}");
    }
    // The machine is the target.
    let of_all = bytes_of_neighbour(|pid| {
        let recorded = Recorded::new::<&str>(&[&options[..], &["-a", "-d", "0.5"]].concat(), &[]);
        assert!(recorded.samples(&[]).iter().any(|sample| sample.number("tgid") == u64::from(pid)));
    });
    assert!(of_all.contains(BREAKPOINT), "{of_all:?}");
    // Where the recorder cannot do that, it says so.
    let of_old = bytes_of_neighbour(|_| {
        let recorded = Recorded::without("probes_in_targets", &options[1..], &spin);
        let said = text(&recorded.output.stderr);
        assert!(said.contains("every process that runs the probed code pays"), "{said}");
        let notes = recorded.json("info", &[])["session"]["notes"].to_string();
        assert!(notes.contains("every process that runs the probed code pays"), "{notes}");
    });
    assert!(of_old.contains(BREAKPOINT), "{of_old:?}");
}

#[test]
fn root_processes_that_targets_make_are_probed_before_they_run() {
    let event = format!("uprobe:{}:hit", forks().display());
    let options = ["-q", "--max-event-rate", "0", "-e", &event];
    for (what, number, hits) in [
        ("fork", "100", 1100),
        ("deep", "50", 500),
        ("thread", "50", 2000),
        ("leave", "50", 1000),
        ("vfork", "50", 500),
        ("exec", "60", 600),
    ] {
        let recorded = Recorded::new(&options, &[forks().as_os_str(), what.as_ref(), number.as_ref()]);
        assert_eq!(recorded.samples(&[]).len(), hits, "{what}: lost {}", recorded.lost());
    }
}

#[test]
fn root_probes_of_a_killed_recorder_are_removed_by_the_next_one() {
    let tracefs = Mounted::tracefs();
    let listed = |pid: u32| {
        let list = fs::read_to_string(tracefs.path().join("uprobe_events")).expect("root may read");
        list.lines().filter(|line| line.contains("icecore_") && line.contains(&format!("_{pid}_"))).count()
    };
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let event = format!("uprobe:{}:hit", forks().display());
    let mut recorder = record();
    recorder.args(["-q", "-e", &event, "-o"]).arg(dir.path().join("killed.icecore")).arg("--");
    let mut recorder = recorder.arg(forks()).arg("spin").stdout(Stdio::null()).spawn().expect("it runs");
    let pid = recorder.id();
    wait_until("a probe in tracefs", || listed(pid) > 0);
    // The command would spin for ever; any thread of the recorder may have started it.
    let commands = || {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
        let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let children = lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let is_command = |child: &String| {
            fs::read_link(format!("/proc/{child}/exe")).is_ok_and(|program| program == forks())
        };
        children.filter(is_command).collect::<Vec<String>>()
    };
    wait_until("the command", || !commands().is_empty());
    let commands = commands();
    send(libc::SIGKILL, pid);
    let _ = recorder.wait();
    // Those that open its files end by themselves.
    let killed = Command::new("kill").arg("-KILL").args(commands).status();
    assert!(killed.expect("it runs").success(), "the command is gone");
    assert_eq!(listed(pid), 1, "nobody removes it");
    let next = Recorded::new(&["-q", "-e", &event], &[forks().as_os_str(), "fork".as_ref(), "1".as_ref()]);
    assert_eq!((next.samples(&[]).len(), listed(pid)), (11, 0));
}
