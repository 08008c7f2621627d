//! Cgroups, through real eBPF: of processes that live for a moment, of processes that move, and as targets.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use icecore_tests::machine::{Recorded, Sample, record, report_output, skip, target, text, wait_until};

const RATE: [&str; 3] = ["-q", "-F", "997"];

/// Returns where the hierarchy of cgroup2 is mounted.
fn mount() -> PathBuf {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("proc is mounted");
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = fields.find(|fields| fields[2] == "cgroup2").map(|fields| PathBuf::from(fields[1]));
    found.expect("these tests need cgroup2: mount -t cgroup2 none /sys/fs/cgroup")
}

/// A cgroup that is removed at the end, with those below it.
struct Group {
    folder: PathBuf,
    /// The path in the hierarchy.
    path: String,
}

impl Group {
    fn new(name: &str, below: &[&str]) -> Self {
        Self::at(&mount(), name, below)
    }

    fn at(mount: &Path, name: &str, below: &[&str]) -> Self {
        let name = format!("icecore-test-{}-{name}", std::process::id());
        let group = Self { folder: mount.join(&name), path: format!("/{name}") };
        std::fs::create_dir(&group.folder).expect("root may make cgroups");
        for below in below {
            std::fs::create_dir(group.folder.join(below)).expect("root may make cgroups");
        }
        group
    }

    /// Runs a name of the target program in a cgroup below this one, until it is dropped.
    fn run(&self, below: &str, name: &str) -> Running {
        let procs = self.folder.join(below).join("cgroup.procs");
        let script = format!("echo 0 > {} && exec \"$@\"", procs.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).arg(target()).args([name, "60000"]);
        let running = Running(shell.spawn().expect("sh is everywhere"));
        let exe = format!("/proc/{}/exe", running.0.id());
        wait_until("the program runs", || std::fs::read_link(&exe).is_ok_and(|exe| exe == target()));
        running
    }

    /// Returns a line of a shell that runs a name of the target program in a cgroup below this one, side by side.
    fn line(&self, below: &str, name: &str, milliseconds: u32) -> String {
        let procs = self.folder.join(below).join("cgroup.procs");
        format!("(echo 0 > {}; exec {} {name} {milliseconds}) &\n", procs.display(), target().display())
    }

    fn put(&self, below: &str, pid: u32) {
        let procs = self.folder.join(below).join("cgroup.procs");
        std::fs::write(procs, pid.to_string()).expect("root may move processes");
    }
}

/// A running program, killed at the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let below = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for folder in below.map(|entry| entry.path()).filter(|path| path.is_dir()) {
            let _ = std::fs::remove_dir(folder);
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Returns the distinct cgroups of samples.
fn cgroups<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> BTreeSet<String> {
    let text = |sample: &Sample| sample.0["cgroup"].as_str().unwrap_or("-").to_owned();
    samples.into_iter().map(text).collect()
}

#[test]
fn root_processes_of_five_milliseconds_have_their_cgroup_though_both_are_gone() {
    let group = Group::new("brief", &[]);
    let script = format!(
        "mkdir {0}/x; for i in 1 2 3 4 5 6 7 8 9; do sh -c 'echo 0 > {0}/x/cgroup.procs; exec {1} shares 5'; done; \
         while ! rmdir {0}/x 2>/dev/null; do :; done",
        group.folder.display(),
        target().display()
    );
    let brief = |recorded: &Recorded| recorded.samples(&["--focus", "^shares$"]);
    let tgids = |samples: &[Sample]| -> BTreeSet<u64> { samples.iter().map(|s| s.number("tgid")).collect() };
    let recorded = Recorded::until(
        |recorded| tgids(&brief(recorded)).len() >= 8,
        || Recorded::new(&RATE, &["sh", "-c", &script]),
    );
    assert!(recorded.output.status.success());
    let samples = brief(&recorded);
    assert_eq!(cgroups(&samples), BTreeSet::from([format!("{}/x", group.path)]));
    assert!(tgids(&samples).len() >= 8, "{:?}", tgids(&samples));
    let outside = recorded.samples(&["--comm", "rmdir"]);
    assert!(!cgroups(&outside).contains(&format!("{}/x", group.path)));
}

#[test]
fn root_a_process_that_moves_is_in_two_cgroups_one_after_the_other() {
    let group = Group::new("moves", &["a", "b"]);
    let script = format!(
        "{}pid=$!; until grep -q $pid {}; do :; done; sleep 0.4; echo $pid > {}; wait",
        group.line("a", "shares", 1200),
        group.folder.join("a/cgroup.procs").display(),
        group.folder.join("b/cgroup.procs").display()
    );
    let [a, b] = ["a", "b"].map(|name| format!("{}/{name}", group.path));
    let in_cgroup = |recording: &Recorded, cgroup: &str| {
        recording.samples(&["--cgroup", cgroup, "--focus", "^shares$"]).len()
    };
    let recording = Recorded::until(
        |recording| in_cgroup(recording, &a) > 10 && in_cgroup(recording, &b) > 10,
        || Recorded::new(&RATE, &["sh", "-c", &script]),
    );
    let samples = recording.samples(&["--focus", "^shares$"]);
    let first_in_b = samples.iter().position(|sample| sample.text("cgroup") == b).expect("it moved");
    assert_eq!(cgroups(&samples[..first_in_b]), BTreeSet::from([a.clone()]));
    assert_eq!(cgroups(&samples[first_in_b..]), BTreeSet::from([b.clone()]));

    assert!(first_in_b > 10);
    let rows = recording.json("top", &["--by", "cgroup", "--focus", "^shares$"]);
    let names: BTreeSet<&str> =
        rows["rows"].as_array().expect("a list").iter().filter_map(|row| row["cgroup"].as_str()).collect();
    assert_eq!(names, BTreeSet::from([&*a, &*b]));
    let kept = |wanted: &str| in_cgroup(&recording, wanted);
    assert_eq!((kept(&a), kept(&b)), (first_in_b, samples.len() - first_in_b));
    assert_eq!((kept(&group.path), kept(&format!("{}/c", group.path))), (samples.len(), 0));
}

#[test]
fn root_only_what_runs_in_the_cgroup_or_below_it_is_sampled() {
    let group = Group::new("target", &["in", "out"]);
    std::fs::create_dir(group.folder.join("in/below")).expect("root may make cgroups");
    let path = |name: &str| format!("{}/{name}", group.path);
    let running = [group.run("out", "shares"), group.run("in/below", "recursion")];
    // One process starts after sampling has begun: its functions have names all the same.
    let late = group.run("out", "threads");
    let inside = path("in");
    let options = [&RATE[..], &["-d", "2.5", "--cgroup", &inside]].concat();
    let recorded = Recorded::meanwhile(&options, || group.put("in", late.0.id()));
    drop((running, late));
    std::fs::remove_dir(group.folder.join("in/below")).expect("nobody is left in it");

    let samples = recorded.samples(&[]);
    assert_eq!(cgroups(&samples), BTreeSet::from([path("in"), path("in/below")]));
    for function in ["goes_down", "only_in_first"] {
        assert!(samples.iter().filter(|sample| sample.has(function)).count() > 20, "{function}");
    }
    assert!(!samples.iter().any(|sample| sample.has("takes_half")));
    let summary = recorded.json("summary", &[]);
    assert_eq!(summary["target"], format!("cgroups {}", path("in")));
    assert_eq!(summary["cgroups"].as_array().expect("there are several").len(), 2);
}

#[test]
fn root_a_recording_of_a_cgroup_ends_when_the_cgroup_is_removed() {
    let group = Group::new("removed", &[]);
    let options = [&RATE[..], &["-d", "120", "--cgroup", &group.path]].concat();
    let remove = || std::fs::remove_dir(&group.folder).expect("it is empty");
    let recorded = Recorded::meanwhile(&options, remove);
    assert_eq!(recorded.json("info", &[])["receipt"]["ended_by"][0], "targets gone");
}

#[test]
fn root_a_cgroup_that_is_removed_and_made_again_is_sampled_again() {
    let group = Group::new("restarts", &[]);
    let options = [&RATE[..], &["-d", "6", "--cgroup", &group.path]].concat();
    let first = group.run("", "shares");
    let pids = std::cell::RefCell::new(vec![first.0.id()]);
    let restart = || {
        drop(first);
        for _ in 0..3 {
            wait_until("nobody is in it", || std::fs::remove_dir(&group.folder).is_ok());
            std::thread::sleep(std::time::Duration::from_millis(300));
            std::fs::create_dir(&group.folder).expect("root may make cgroups");
            let next = group.run("", "shares");
            pids.borrow_mut().push(next.0.id());
            std::thread::sleep(std::time::Duration::from_millis(800));
        }
    };
    let recorded = Recorded::meanwhile(&options, restart);
    for pid in &pids.borrow()[1..] {
        let samples = recorded.samples(&["--pid", &pid.to_string()]);
        // It ran for 0.8 s.
        assert!(samples.len() > 300, "{} samples", samples.len());
        assert_eq!(cgroups(&samples), BTreeSet::from([group.path.clone()]));
    }
    assert_eq!(recorded.json("info", &[])["receipt"]["ended_by"][0], "duration");
}

#[test]
fn root_a_cgroup_that_does_not_exist_is_refused_with_those_that_look_like_it() {
    let group = Group::new("alike", &["x"]);
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let name = group.path.trim_start_matches('/');
    let run = |path: &str| {
        record()
            .args(["--cgroup", path, "-d", "1"])
            .current_dir(dir.path())
            .output()
            .expect("the recorder runs")
    };
    for wrong in [format!("/system.slice/{name}"), format!("/../{name}")] {
        let output = run(&wrong);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("cannot sample the cgroup `{wrong}`")), "{said}");
        assert!(said.contains(&format!("there is `{}`", group.path)), "{said}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("ours").count(), 0, "it left a file");
}

#[test]
fn root_version_1_tells_where_a_process_is_that_is_in_the_root_of_version_2() {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("proc is mounted");
    let mounts: Vec<Vec<&str>> = mounts.lines().map(|line| line.split(' ').collect()).collect();
    let with = |option: &&str| {
        let has = |mount: &&Vec<&str>| mount[2] == "cgroup" && mount[3].split(',').any(|has| has == *option);
        mounts.iter().find(has).map(|mount| Path::new(mount[1]))
    };
    let Some(mount) = ["name=systemd", "memory", "cpu", "pids"].iter().find_map(with) else {
        skip("this machine has no hierarchies of version 1");
    };
    let group = Group::at(mount, "v1", &[]);
    let script = format!("{}wait", group.line("", "shares", 300));
    let samples = Recorded::new(&RATE, &["sh", "-c", &script]).samples(&["--focus", "^shares$"]);
    let own = std::fs::read_to_string("/proc/self/cgroup").expect("proc is mounted");
    let unified = own.lines().find_map(|line| line.strip_prefix("0::")).filter(|path| *path != "/");
    assert_eq!(cgroups(&samples), BTreeSet::from([unified.unwrap_or(&group.path).to_owned()]));
}

#[test]
fn root_what_is_cut_and_merged_keeps_its_cgroups() {
    let group = Group::new("cut", &["a", "b"]);
    let script =
        [group.line("a", "shares", 500), group.line("b", "recursion", 500), "wait".to_owned()].concat();
    let options = [&RATE[..], &["--cgroup", &group.path]].concat();
    let recorded = Recorded::new(&options, &["sh", "-c", &script]);
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let [piece, other, both] =
        ["piece", "other", "both"].map(|name| dir.path().join(name).display().to_string());
    let (path, a) = (recorded.path().display().to_string(), format!("{}/a", group.path));
    let run = |args: &[&str]| {
        let output = report_output(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    run(&["cut", &path, "--cgroup", &a, "-o", &piece]);
    run(&["verify", &piece]);
    let listed = |file: &str, options: &[&str]| run(&[&["samples", file, "--json"], options].concat());
    assert_eq!(listed(&piece, &[]), listed(&path, &["--cgroup", &a]));
    assert!(listed(&piece, &[]).lines().count() > 100);
    run(&["cut", &path, "--comm", "target", "-o", &other]);
    run(&["merge", &piece, &other, "-o", &both]);
    run(&["verify", &both]);
    let of = |file: &str| listed(file, &["--cgroup", &a]).lines().count();
    assert_eq!(of(&both), of(&piece) + of(&other));
    assert!(of(&other) > 100);
}
