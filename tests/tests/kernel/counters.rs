//! Counters: programs that use known amounts, recorded through real eBPF.

use std::collections::{BTreeMap, BTreeSet};

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{Counter, CounterValue, CountersV1, Owner};
use icecore_tests::machine::{Recorded, counted, text};
use serde_json::Value;

/// Returns all values in a recording, in the order of the file.
fn values(recorded: &Recorded) -> Vec<CounterValue> {
    let recording = Recording::open(&recorded.path()).expect("it opens");
    let blocks = recording.entries().iter().filter(|entry| entry.header.kind == Kind::COUNTERS);
    let of_block = |entry| {
        let payload = recording.payload(entry).expect("whole");
        payload.view::<CountersV1>().expect("an archive").rows().collect::<Vec<_>>()
    };
    blocks.flat_map(of_block).collect()
}

/// Returns the values of one counter, in the order of time.
fn of(values: &[CounterValue], owner: Owner, counter: Counter) -> Vec<u64> {
    let mut found: Vec<(u64, u64)> = values
        .iter()
        .filter(|row| row.owner == owner && row.counter == counter)
        .map(|row| (row.time_ns, row.value))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, value)| value).collect()
}

fn most(values: &[CounterValue], owner: Owner, counter: Counter) -> u64 {
    of(values, owner, counter).into_iter().max().unwrap_or_else(|| panic!("{} is there", counter.name()))
}

/// What the program printed: a figure behind each name.
fn told(recorded: &Recorded) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, figure) = line.split_once(' ').expect("a name and a figure");
        (name.to_owned(), figure.parse().expect("a number"))
    };
    text(&recorded.output.stdout).lines().map(line).collect()
}

fn record(options: &[&str], arguments: &[&str]) -> Recorded {
    let program = counted();
    let mut command = vec![program.to_str().expect("plain text")];
    command.extend(arguments);
    Recorded::new(&[&["-q", "--embed", "none"], options].concat(), &command)
}

/// The kernel counts resident pages per CPU, in batches: files, memory of programs, and shared memory.
fn batches() -> u64 {
    let cpus =
        std::fs::read_to_string("/proc/cpuinfo").expect("proc is mounted").matches("processor\t").count();
    3 * cpus as u64 * (2 * cpus as u64).max(32) * 4096
}

#[test]
fn root_counters_of_a_process_are_those_of_the_kernel() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let file = dir.path().join("written").display().to_string();
    let (mib, kib, threads, ms) = (96_u64, 700_u64, 5_u64, 300_u64);
    let arguments = ["use", &mib.to_string(), &kib.to_string(), &threads.to_string(), &ms.to_string(), &file];
    let recorded = record(&["--counters", "0.1"], &arguments);
    let (told, all) = (told(&recorded), values(&recorded));
    let owner = Owner::Process(told["pid"] as u32);
    let figure = |name: &str| told[name];
    let near = |what: &str, value: u64, expected: u64, bound: u64| {
        assert!(value.abs_diff(expected) <= bound, "{what}: {value}, and not {expected} ± {bound}");
    };
    near("memory", most(&all, owner, Counter::MEMORY), figure("resident_kib") << 10, batches());
    near("peak", most(&all, owner, Counter::MEMORY_PEAK), figure("peak_kib") << 10, batches());
    assert!(most(&all, owner, Counter::MEMORY_PEAK) + batches() >= mib << 20);
    // Printing and ending costs a few of each.
    for (what, counter, told, more) in [
        ("minor faults", Counter::MINOR_FAULTS, figure("minor"), 100),
        ("switches", Counter::SWITCHES, figure("switches"), 100),
        ("bytes of calls", Counter::CALLS_WRITTEN, figure("calls_written"), 4096),
    ] {
        let value = most(&all, owner, counter);
        assert!(
            (told..=told + more).contains(&value),
            "{what}: {value}, and not {told} and at most {more} more"
        );
    }
    assert!(most(&all, owner, Counter::MINOR_FAULTS) >= mib * 256, "a fault for each page");
    assert!(most(&all, owner, Counter::CALLS_WRITTEN) >= kib << 10);
    assert_eq!(most(&all, owner, Counter::THREADS), threads + 1);
    // The last reading may lack a tick, and the end of the program is CPU time, too.
    near("CPU time", most(&all, owner, Counter::CPU), figure("cpu_ns"), 30_000_000);
    assert!(most(&all, owner, Counter::CPU) + 10_000_000 >= ms * 1_000_000);
    for counter in [Counter::CPU, Counter::MINOR_FAULTS, Counter::SWITCHES, Counter::CALLS_WRITTEN] {
        assert!(of(&all, owner, counter).is_sorted(), "a sum does not shrink: {}", counter.name());
    }
    let readings = of(&all, Owner::Machine, Counter::CPU);
    assert!(readings.len() >= 5 && readings.is_sorted(), "{readings:?}");

    let summary = recorded.json("summary", &[]);
    let peak = &summary["peak_memory"][0];
    assert_eq!((&peak["tgid"], &peak["comm"]), (&told["pid"].into(), &"counted".into()), "{peak}");
    assert_eq!(peak["source"], "mark");
    near("peak of summary", peak["bytes"].as_u64().expect("a number"), figure("peak_kib") << 10, batches());

    let timeline = recorded.json("timeline", &["--buckets", "10"]);
    let series = |owner: &str, counter: &str| -> Value {
        let owners = timeline["counters"].as_array().expect("a list");
        let found = owners
            .iter()
            .find(|row| row["owner"] == owner && (owner == "machine" || row["tgid"] == told["pid"]));
        let series = found.expect("it is listed")["counters"].as_array().expect("a list").clone();
        series.into_iter().find(|row| row["counter"] == counter).expect("it is listed")
    };
    let cpu = series("process", "cpu");
    assert_eq!((cpu["unit"].as_str(), cpu["values"].as_array().map(Vec::len)), (Some("cpus"), Some(10)));
    near("CPU time of timeline", cpu["total"].as_u64().expect("a sum"), figure("cpu_ns"), 30_000_000);
    // Also what the command did at once: its process had a few faults before it became the program, and ends with a few.
    let faults = series("process", "minor_faults")["total"].as_u64().expect("a sum");
    assert!(
        (figure("minor") - 40..=figure("minor") + 40).contains(&faults),
        "{faults} of {}",
        figure("minor")
    );
    assert!(series("machine", "cpu")["total"].as_u64() >= cpu["total"].as_u64());
    assert_eq!(series("process", "memory")["unit"], "bytes");
    assert!(recorded.json("info", &[])["counters"].as_u64() == Some(all.len() as u64));
}

#[test]
fn root_a_process_between_two_readings_has_its_peak() {
    let recorded = record(&["--counters", "30"], &["child", "40"]);
    let (told, all) = (told(&recorded), values(&recorded));
    let owner = Owner::Process(told["child"] as u32);
    let peak = most(&all, owner, Counter::MEMORY_PEAK);
    assert!((peak + batches()) >= 40 << 20 && peak <= (44 << 20) + batches(), "{peak}");
    assert!(most(&all, owner, Counter::MINOR_FAULTS) >= 40 * 256);
    let peaks = recorded.json("summary", &[])["peak_memory"].take();
    assert_eq!(peaks[0]["tgid"], told["child"], "{peaks}");
}

#[test]
fn root_of_too_many_processes_some_are_left_out_and_counted() {
    // All end between the first reading and the last, however busy the machine is: 300 children, and the program itself.
    let recorded = record(&["--counters", "30", "-F", "49"], &["many", "300", "10"]);
    let all = values(&recorded);
    let processes: BTreeSet<Owner> =
        all.iter().map(|row| row.owner).filter(|owner| matches!(owner, Owner::Process(_))).collect();
    // The first reading has others, too: those that ran at its time.
    assert!(processes.len() >= 256, "{}", processes.len());
    let left_out: u64 = of(&all, Owner::Machine, Counter::PROCESSES_LEFT_OUT).iter().sum();
    // Fewer, if some ended before the first reading.
    assert!((1..=301 - 256).contains(&left_out), "{left_out}");
    assert!(processes.len() as u64 + left_out >= 301, "{} and {left_out}", processes.len());
    let text = icecore_tests::machine::report(&["timeline".as_ref(), recorded.path().as_os_str()]);
    assert!(text.contains("processes of one reading have no counters"), "{text}");
    assert!(text.contains("context switches per second"), "{text}");
}

/// A cgroup that is removed at the end.
struct Group(std::path::PathBuf);

impl Group {
    fn new() -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("proc is mounted");
        let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mount = fields.find(|fields| fields[2] == "cgroup2").expect("this test needs cgroup2");
        let folder = std::path::Path::new(mount[1]).join(format!("icecore-counted-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("root may make cgroups");
        Self(folder)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn root_a_cgroup_has_counters_and_only_its_processes_have() {
    let (group, dir) = (Group::new(), tempfile::tempdir().expect("a folder for temporary files"));
    let folder = group.0.display().to_string();
    let script = format!(
        "echo 0 > {folder}/cgroup.procs && exec {} use 8 16 1 600 {}",
        counted().display(),
        dir.path().join("written").display()
    );
    let options = ["-q", "--embed", "none", "--counters", "0.1", "-F", "199", "--cgroup", &folder];
    let recorded = Recorded::new(&options, &["sh", "-c", &script]);
    let (told, all) = (told(&recorded), values(&recorded));
    let processes: BTreeSet<Owner> =
        all.iter().map(|row| row.owner).filter(|owner| matches!(owner, Owner::Process(_))).collect();
    assert_eq!(processes, BTreeSet::from([Owner::Process(told["pid"] as u32)]));
    let cgroups: BTreeSet<Owner> =
        all.iter().map(|row| row.owner).filter(|owner| matches!(owner, Owner::Cgroup(_))).collect();
    assert_eq!(cgroups.len(), 1, "{cgroups:?}");
    let cpu_ns = cgroups.iter().map(|owner| most(&all, *owner, Counter::CPU)).max().unwrap_or(0);
    // What it ran after its last sample is not in the reading; the shell that moved into the cgroup is.
    assert!(cpu_ns >= 550_000_000 && cpu_ns <= told["cpu_ns"] + 50_000_000, "{cpu_ns}: {told:?}");
    let timeline = recorded.json("timeline", &["--buckets", "4"]);
    let owners = timeline["counters"].as_array().expect("a list");
    let paths: Vec<&str> = owners.iter().filter_map(|row| row["cgroup"].as_str()).collect();
    assert!(matches!(paths[..], [path] if folder.ends_with(path)), "{paths:?}");
}

#[test]
fn root_without_counters_there_is_no_block() {
    let recorded = record(&["--counters", "off"], &["child", "1"]);
    assert!(values(&recorded).is_empty());
    assert_eq!(recorded.json("info", &[])["counters"], 0);
    assert!(recorded.json("timeline", &[]).get("counters").is_none());
}
