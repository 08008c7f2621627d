//! `--duty`, `--budget`, `icecore-record ctl rate|stop|start`: however often the recorder samples, samples weigh what they stand for, what happened
//! in a pause is known after it, and the recorder uses no more than it may, whatever others do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{
    Change, CpuTime, CpuTimesV1, LifecycleV1, Payload, RateCause, RateChange, RatesV1, ReceiptV1,
};
use icecore_tests::machine::{
    Recorded, Sample, json, own, ping_pong, probed, record, send, stacks_without_frames, storm, target, text,
    wait_until, waits,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::control::Asked;
use crate::python::at_hand;
use crate::rotation::{Running, samples};

const TERMINATE: i32 = 15;
const WHOLE: u32 = RateChange::WHOLE;
const S: u64 = 1_000_000_000;

fn rows<P: Payload, R>(path: &Path, of_block: impl Fn(&P::View) -> Vec<R>) -> Vec<R> {
    let recording = Recording::open(path).expect("it opens");
    let entries = recording.entries().iter().filter(|entry| entry.header.kind == P::KIND);
    let payloads = entries.map(|entry| recording.payload(entry).expect("it is whole"));
    payloads.flat_map(|payload| of_block(payload.view::<P>().expect("it is one"))).collect()
}

fn rates(path: &Path) -> Vec<RateChange> {
    rows::<RatesV1, _>(path, |view| view.rows().collect())
}

/// Returns the stretches that were sampled, and their shares; times are ns since the session began.
pub(crate) fn stretches(path: &Path) -> Vec<(u64, u64, u32)> {
    let info = json("info", path);
    let ns = |part: &str, key: &str| info[part][key].as_u64().expect("a closed file has an end");
    let (begin, end) = (ns("session", "start_ns"), ns("receipt", "end_ns"));
    let mut found = Vec::new();
    let (mut since, mut share) = (begin, WHOLE);
    for row in rates(path) {
        found.push((since - begin, row.time_ns - begin, share));
        (since, share) = (row.time_ns, row.share);
    }
    found.push((since - begin, end - begin, share));
    found.retain(|(from, to, share)| *share > 0 && to > from);
    found
}

pub(crate) fn assert_none_in_a_pause(samples: &[Sample], stretches: &[(u64, u64, u32)]) {
    for sample in samples {
        let at = sample.number("time_ns");
        // Times of samples are rounded down to a microsecond.
        let is_in = |(from, to, _): &(u64, u64, u32)| (from.saturating_sub(1_000)..=*to).contains(&at);
        assert!(stretches.iter().any(is_in), "a sample in a pause, at {at}: {stretches:?}");
    }
}

fn sampled_ns(path: &Path) -> u64 {
    stretches(path).iter().map(|(from, to, _)| to - from).sum()
}

pub(crate) fn weight<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> u64 {
    samples.into_iter().map(|sample| sample.number("weight")).sum()
}

/// Returns the CPU time of a process by the kernel's account, as far as the recording has it.
fn account(path: &Path, tgid: u32) -> u64 {
    let all: Vec<CpuTime> = rows::<CpuTimesV1, _>(path, |view| view.rows().collect());
    all.iter().filter(|row| row.tgid == tgid).map(|row| row.ran_ns).sum()
}

fn assert_near(found: u64, expected: u64, off_by: f64, what: &str) {
    let ratio = found as f64 / expected as f64;
    eprintln!("{what}: {:.3} s of {:.3} s", found as f64 / 1e9, expected as f64 / 1e9);
    assert!((ratio - 1.0).abs() < off_by, "{what}: {found} of {expected}");
}

#[test]
fn root_the_first_part_of_each_period_is_sampled_and_weighs_what_was_sampled() {
    let recorded = Recorded::target(&["-F", "499", "--duty", "500ms/1500ms"], "shares", 7_500);
    let path = recorded.path();
    let rows = rates(&path);
    assert!(rows.iter().all(|row| row.cause == RateCause::DUTY), "{rows:?}");
    let stretches = stretches(&path);
    assert!(stretches.len() >= 5, "{stretches:?}");
    for (number, (from, to, share)) in (0..).zip(&stretches[..5]) {
        let (begin, late) = (number * 3 * S / 2, S / 5);
        assert!(
            (begin..begin + late).contains(from) && (begin + S / 2..begin + S / 2 + late).contains(to),
            "{stretches:?}"
        );
        assert_eq!(*share, WHOLE);
    }
    let samples = recorded.samples(&[]);
    assert_none_in_a_pause(&samples, &stretches);
    let tgid = samples[0].number("tgid") as u32;
    assert_near(weight(&samples), account(&path, tgid), 0.06, "weight of samples");
    let (ran, sampled) = (account(&path, tgid), sampled_ns(&path));
    assert!(
        ran > sampled / 4 && ran < sampled + sampled / 50,
        "{ran} of {sampled}: the account is of the sampled time"
    );
}

#[test]
fn root_samples_weigh_what_they_stand_for_at_every_rate() {
    let asked = Asked::new(&[]);
    // A thread that moves between CPUs meets their timers by chance.
    let pinned = Command::new("taskset")
        .args(["-cp", "0", &asked.target()])
        .output()
        .expect("util-linux is everywhere");
    assert!(pinned.status.success());
    let begun = Instant::now();
    for (request, hz) in
        [("999", Some(999.0)), ("99", Some(99.0)), ("50%", Some(249.5)), ("100%", Some(499.0))]
    {
        let told = asked.json(&format!("rate {request}"));
        assert_eq!(told["rate"]["hz"].as_f64().map(|hz| hz.round()), hz.map(f64::round), "{told}");
        std::thread::sleep(Duration::from_secs(2));
    }
    let took = begun.elapsed();
    let status = asked.status();
    assert_eq!((&status["state"], &status["rate"]["share"]), (&"recording".into(), &1.0.into()), "{status}");
    for (wrong, why) in [
        ("x", "is no rate"),
        ("0", "is too far"),
        ("100000000", "is too far"),
        ("200000", "kernel.perf_event_max_sample_rate"),
    ] {
        assert!(asked.refused(&format!("rate {wrong}")).contains(why), "{wrong}");
    }
    let (_, files, _dir) = asked.end();
    let changes = rates(&files[0]);
    let shares: Vec<u32> = changes.iter().map(|row| row.share / 1_000).collect();
    assert_eq!(shares, [2_002, 198, 500, 1_000]);
    assert!(changes.iter().all(|row| row.cause == RateCause::CONTROL && row.measured > 0), "{changes:?}");
    let samples = samples(&files[0], &[]);
    let tgid = samples[0].number("tgid") as u32;
    // By chance some of 2,700 samples more or less, those at 99 Hz of 10 ms each.
    assert_near(weight(&samples), account(&files[0], tgid), 0.08, "all samples");
    for (from, to, share) in stretches(&files[0]) {
        let period = 1e9 / 499.0 / (f64::from(share) / f64::from(WHOLE));
        let is_within = |sample: &&Sample| (from + S / 10..to).contains(&sample.number("time_ns"));
        let weights: Vec<u64> =
            samples.iter().filter(is_within).map(|sample| sample.number("weight")).collect();
        assert!(weights.len() > 20, "{} samples at {share}", weights.len());
        assert!(weights.iter().all(|it| (*it as f64 / period - 1.0).abs() < 0.01), "{weights:?}, {period}");
    }
    assert!(took > Duration::from_secs(8));
}

/// A recorder of the whole machine that is asked by its socket.
struct Steered {
    dir: TempDir,
    recorder: Child,
}

impl Steered {
    /// Begins to record, as on a kernel without a feature; options for `record` come first.
    fn new(options: &[&str], without: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let mut recorder = record();
        recorder
            .env("ICECORE_WITHOUT", without)
            .args(["-a", "-q", "--no-cache", "--flush", "100ms"])
            .args(options);
        recorder.arg("--control").arg(dir.path().join("socket")).arg("-o").arg(dir.path().join("r.icecore"));
        let steered = Self { recorder: recorder.spawn().expect("it runs"), dir };
        let records =
            || ["recording", "paused"].iter().any(|it| steered.ctl("status").contains(&format!("\"{it}\"")));
        wait_until("it records", records);
        steered
    }

    /// Returns the answer to a request.
    fn ctl(&self, request: &str) -> String {
        let mut ctl = record();
        ctl.args(["ctl", request, "--json", "--socket"]).arg(self.dir.path().join("socket"));
        text(&ctl.output().expect("it runs").stdout)
    }

    /// Ends it; returns its file.
    fn end(mut self) -> (PathBuf, TempDir) {
        send(TERMINATE, self.recorder.id());
        assert_eq!(self.recorder.wait().expect("it ends").code(), Some(0));
        (self.dir.path().join("r.icecore"), self.dir)
    }
}

#[test]
fn root_what_has_happened_in_a_pause_is_known_after_it() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let go = dir.path().join("go");
    let program = stacks_without_frames();
    // They run another program as soon as the file is there: the second one is of a language that the sampler knows.
    let (is_there, other) = (go.display(), program.display());
    let changes = format!("while [ ! -e '{is_there}' ]; do :; done; exec '{other}' chain 60000");
    let changed = Running::new("sh".as_ref(), &["-c", &changes]);
    let changes = format!(
        "import os\ndef waits():\n  while not os.path.exists('{is_there}'): pass\nwaits()\nos.execv('{other}', ['{other}', 'chain', '60000'])"
    );
    let python = at_hand().swap_remove(0);
    let second = Running::new(&python.path, &["-c", &changes]);
    let spins = Running::new(&python.path, &["-c", "def spins():\n  while True: pass\nspins()"]);
    let ended = Running::new(&target(), &["shares", "60000"]);
    let ended_id: u32 = ended.id().parse().expect("a number");
    let steered = Steered::new(&["-F", "499"], "");
    let ctl = |request: &str| steered.ctl(request);
    std::thread::sleep(Duration::from_secs(1));
    assert!(ctl("stop").contains("paused"));
    std::fs::write(&go, "").expect("room");
    drop(ended);
    let new = Running::new(&own(), &["shares", "60000"]);
    for changed in [&changed, &second] {
        let is_there =
            || fs::read(format!("/proc/{}/comm", changed.id())).is_ok_and(|comm| comm == b"stacks\n");
        wait_until("the other program runs", is_there);
    }
    std::thread::sleep(Duration::from_secs(1));
    assert!(ctl("status").contains("\"paused\""));
    assert!(ctl("start").contains("as often as was asked for"));
    std::thread::sleep(Duration::from_secs(2));
    let (file, _dir) = steered.end();
    let rows = rates(&file);
    let [pause, start] = rows[..] else { panic!("{rows:?}") };
    assert_eq!((pause.share, start.share), (0, WHOLE));
    let all = samples(&file, &[]);
    let begin = json("info", &file)["session"]["start_ns"].as_u64().expect("a number");
    let (from, to) = (pause.time_ns - begin, start.time_ns - begin);
    // Times of samples are rounded down to a microsecond.
    let in_pause = all.iter().filter(|sample| (from..to - 1_000).contains(&sample.number("time_ns")));
    assert_eq!(in_pause.count(), 0);
    let of = |tgid: u32| {
        let of_process = all.iter().filter(move |sample| sample.number("tgid") == u64::from(tgid));
        of_process.partition::<Vec<_>, _>(|sample| sample.number("time_ns") <= to)
    };
    let [changed, second, new, spins] =
        [changed, second, new, spins].map(|process| process.id().parse::<u32>().expect("a number"));
    let in_python = |samples: &[&Sample], function: &str| {
        let is_it = |frame: &Value| frame["name"].as_str().is_some_and(|name| name.contains(function));
        samples.iter().filter(|sample| sample.of_language("python").any(is_it)).count()
    };
    // A recorder that has just begun takes a moment to find an interpreter; one that goes on knows it.
    for (process, function) in [(spins, "spins"), (second, "waits")] {
        let before = of(process).0;
        let found = in_python(&before, function);
        assert!(found > 50 && found * 2 > before.len(), "{found} of {} in Python", before.len());
    }
    let after = of(spins).1;
    let found = in_python(&after, "spins");
    eprintln!("{found} of {} in Python", after.len());
    assert!(after.len() > 50 && found * 100 >= after.len() * 95, "{found} of {}", after.len());
    let after = of(second).1;
    assert_eq!(in_python(&after, ""), 0);
    for (tgid, comm) in [(changed, "stacks"), (second, "stacks"), (new, "own")] {
        let samples = of(tgid).1;
        let whole = samples.iter().filter(|sample| sample.names("user").last() == Some(&"_start")).count();
        eprintln!("{comm}: {whole} of {} whole", samples.len());
        assert!(samples.iter().all(|sample| sample.text("comm") == comm));
        assert!(
            samples.len() > 100 && whole * 100 >= samples.len() * 97,
            "{comm}: {whole} of {}",
            samples.len()
        );
    }
    assert_eq!(of(ended_id).1.len(), 0);
    let changes = self::rows::<LifecycleV1, _>(&file, |view| view.rows().collect());
    let told = |tgid: u32| {
        let rows = changes.iter().filter(|row| row.tgid == tgid && row.time_ns > pause.time_ns);
        rows.map(|row| row.change).collect::<Vec<_>>()
    };
    assert_eq!(told(ended_id), [Change::EXIT]);
    assert_eq!(told(changed)[0], Change::EXEC);
    assert_eq!(told(second)[0], Change::EXEC);
    assert_eq!(told(new)[0], Change::FOUND);
}

#[test]
fn root_waits_count_as_far_as_they_are_sampled() {
    let program = waits();
    let command = [program.to_str().expect("plain text"), "50", "200"];
    let options = ["-F", "99", "--off-cpu=1us", "--duty", "300ms/1s", "-d", "6"];
    let recorded = Recorded::new(&options, &command);
    let (path, samples) = (recorded.path(), recorded.samples(&["--event", "cpu-clock,off-cpu,run-delay"]));
    let mut threads: BTreeMap<u64, u64> = BTreeMap::new();
    for sample in &samples {
        *threads.entry(sample.number("tid")).or_default() += sample.number("weight");
    }
    // A thread computes, waits for a CPU, or sleeps: all that adds up to the time that was sampled.
    let most = threads.values().max().expect("a thread");
    assert_near(*most, sampled_ns(&path), 0.08, "all that one thread did");
}

#[test]
fn root_a_wait_over_the_begin_or_the_end_of_a_pause_counts_as_far_as_it_was_sampled() {
    ["", "task_work"].iter().for_each(|without| waits_over_pauses_count_as_far_as_they_were_sampled(without));
}

fn waits_over_pauses_count_as_far_as_they_were_sampled(without: &str) {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (go, fifo) = (dir.path().join("go"), dir.path().join("fifo"));
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("coreutils").success());
    let [go_text, fifo_text] = [&go, &fifo].map(|path| path.display().to_string());
    // One thread waits all the time, one until the pause, and one from then on.
    let sleeps = Running::new(&waits(), &["60000", "1", "idle"]);
    let wakes = Running::new("sh".as_ref(), &["-c", &format!("read x < '{fifo_text}'; while :; do :; done")]);
    let waits = format!("while [ ! -e '{go_text}' ]; do :; done; read x < '{fifo_text}'");
    let waits = Running::new("sh".as_ref(), &["-c", &waits]);
    let steered = Steered::new(&["-F", "99", "--off-cpu"], without);
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(steered.ctl("stop").contains("paused"));
    let is_in = |process: &Running, state: &str| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(state))
    };
    drop(fs::OpenOptions::new().write(true).open(&fifo).expect("one waits for it"));
    wait_until("one computes", || is_in(&wakes, "R"));
    fs::write(&go, "").expect("room");
    wait_until("one waits", || is_in(&waits, "S"));
    std::thread::sleep(Duration::from_millis(700));
    assert!(steered.ctl("start").contains("as often as was asked for"));
    std::thread::sleep(Duration::from_millis(2_500));
    let (file, _dir) = steered.end();
    let stretches = stretches(&file);
    let [(from, pause, _), (start, end, _)] = stretches[..] else { panic!("{stretches:?}") };
    let all = samples(&file, &["--event", "off-cpu"]);
    // A wait that has not ended when the recording does is looked at a little later.
    let in_pause = |sample: &&Sample| (pause + 1..start - 1_000).contains(&sample.number("time_ns"));
    assert_eq!(all.iter().filter(in_pause).count(), 0);
    for (process, comm, [before, after]) in [
        (&sleeps, "idler", [pause - from, end - start]),
        (&wakes, "sh", [pause - from, 0]),
        (&waits, "sh", [0, end - start]),
    ] {
        let of_thread: Vec<&Sample> = all
            .iter()
            .filter(|it| it.number("tgid").to_string() == process.id() && it.text("comm") == comm)
            .collect();
        let weigh = |is_before: bool| {
            weight(of_thread.iter().copied().filter(|it| (it.number("time_ns") <= pause) == is_before))
        };
        for (expected, found) in [(before, weigh(true)), (after, weigh(false))] {
            eprintln!("{comm}: {found} of {expected} ns");
            let off_by = found.abs_diff(expected);
            assert!(off_by < 30_000_000, "{comm}: {found} of {expected} ns");
        }
        if comm == "idler" {
            for sample in of_thread {
                let (user, kernel) = (sample.names("user"), sample.names("kernel"));
                assert!(user.contains(&"idler") && sample.is_unwound(), "{}", sample.0);
                assert!(kernel.iter().any(|name| name.contains("pause")), "{kernel:?}");
            }
        }
    }
}

#[test]
fn root_hits_are_counted_in_each_sampled_part_and_nowhere_else() {
    const CALLS: usize = 4_000;
    let program = probed();
    let event = format!("uprobe:{}:sized", program.display());
    let weighed = format!("{event},weight=arg1");
    let options = [
        "--duty",
        "300ms/1s",
        "--max-event-rate",
        "0",
        "-e",
        &weighed,
        "-e",
        "syscalls:sys_enter_clock_nanosleep",
    ];
    let calls = CALLS.to_string();
    let recorded = Recorded::new(&options, &[program.to_str().expect("plain text"), "paced", &calls]);
    let stretches = stretches(&recorded.path());
    assert!(stretches.len() > 3, "{stretches:?}");
    let calls = recorded.samples(&["--event", &event]);
    let slept = recorded.samples(&["--event", "syscalls:sys_enter_clock_nanosleep"]);
    for samples in [&calls, &slept] {
        assert_none_in_a_pause(samples, &stretches);
    }
    let mut found = 0;
    for (from, to, _) in stretches {
        let is_in = |sample: &&Sample| (from.saturating_sub(1_000)..=to).contains(&sample.number("time_ns"));
        let numbers: Vec<u64> = calls.iter().filter(is_in).map(|call| call.number("weight")).collect();
        let slept = slept.iter().filter(is_in).count();
        eprintln!("{} calls, slept {slept} times, in {} ms", numbers.len(), (to - from) / 1_000_000);
        assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "none is missing: {numbers:?}");
        assert!(numbers.len().abs_diff(slept) <= 2, "{} and {slept}", numbers.len());
        found += numbers.len();
    }
    assert!(found > CALLS / 6 && found < CALLS / 2, "{found} of {CALLS}");
}

/// The CPU time of a recorder and of the processes that it has started, and its memory, as the kernel tells them.
struct Watched {
    steered: Steered,
    began: Instant,
    of_process: BTreeMap<u32, u64>,
    /// When, ms CPU, bytes.
    seen: Vec<(Duration, u64, u64)>,
}

impl Watched {
    fn new(steered: Steered) -> Self {
        Self { steered, began: Instant::now(), of_process: BTreeMap::new(), seen: Vec::new() }
    }

    fn look(&mut self) {
        let mut all = vec![self.steered.recorder.id()];
        let mut at = 0;
        while at < all.len() {
            for task in fs::read_dir(format!("/proc/{}/task", all[at])).into_iter().flatten().flatten() {
                let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
                all.extend(children.split(' ').filter_map(|pid| pid.parse::<u32>().ok()));
            }
            at += 1;
        }
        for pid in all {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let Some((_, rest)) = stat.rsplit_once(')') else { continue };
            let fields: Vec<u64> = rest.split(' ').map(|field| field.parse().unwrap_or(0)).collect();
            // Ticks of 10 ms.
            let ms = (fields[12] + fields[13]) * 10;
            let known = self.of_process.entry(pid).or_default();
            *known = ms.max(*known);
        }
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.steered.recorder.id())).unwrap_or_default();
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let cpu = self.of_process.values().sum();
        self.seen.push((self.began.elapsed(), cpu, kib.unwrap_or(0) << 10));
    }

    /// Watches for some time; returns the most CPU time of any ten seconds, ms, and the most memory, bytes.
    fn watch(&mut self, lasts: Duration) -> (u64, u64) {
        self.seen.clear();
        let until = Instant::now() + lasts;
        while Instant::now() < until {
            self.look();
            std::thread::sleep(Duration::from_millis(100));
        }
        let of_window = |(at, cpu, _): &(Duration, u64, u64)| {
            let first = self.seen.iter().rev().find(|(before, ..)| *before + Duration::from_secs(10) <= *at);
            cpu - first.or(self.seen.first()).expect("it looked").1
        };
        let cpu = self.seen.iter().map(of_window).max().expect("it looked");
        (cpu, self.seen.iter().map(|(.., memory)| *memory).max().expect("it looked"))
    }
}

/// Runs a program of hundreds of megabytes again and again, which has code that nobody has seen.
fn compiles(folder: &Path) -> Running {
    fs::write(folder.join("m.rs"), "fn main() { println!(\"{:?}\", std::env::args()) }").expect("room");
    let script = format!("cd '{}' && while :; do rustc m.rs; done", folder.display());
    Running::new("sh".as_ref(), &["-c", &script])
}

/// Records the machine beside storms; returns what the recorder used in any ten seconds, and its file.
fn beside(mut storms: Vec<Running>, options: &[&str], lasts: Duration) -> (u64, u64, (PathBuf, TempDir)) {
    let mut watched = Watched::new(Steered::new(options, ""));
    let (cpu, memory) = watched.watch(lasts);
    let ended = watched.steered.end();
    storms.clear();
    (cpu, memory, ended)
}

#[test]
fn root_a_budget_is_kept_beside_storms() {
    let sources = tempfile::tempdir().expect("a folder for temporary files");
    // The first is about what a recorder may use that is left running.
    for (name, hz, percent, mib) in [
        ("forks-fast", "99", 1_u64, 64_u64),
        ("forks-fast", "999", 5, 128),
        ("maps-fast", "999", 5, 128),
        ("deep", "999", 5, 128),
        ("rustc", "99", 1, 128),
    ] {
        let budget = format!("cpu={percent}%,memory={mib}M,disk=1M/s");
        let options = ["-F", hz, "--budget", &budget];
        let storms = vec![if name == "rustc" {
            compiles(sources.path())
        } else {
            Running::new(&storm(), &[name, "120"])
        }];
        let (cpu, memory, (file, _dir)) = beside(storms, &options, Duration::from_secs(25));
        let (changes, samples) = (rates(&file), samples(&file, &[]).len());
        let of_cpu = changes.iter().filter(|row| row.cause == RateCause::CPU).count();
        let part = sampled_ns(&file) as f64 / 25e9;
        eprintln!(
            "{name}: {cpu} ms in ten seconds, {} MiB, {samples} samples, {} changes, sampled {:.1} % of the time",
            memory >> 20,
            changes.len(),
            part * 100.0
        );
        assert!(cpu <= percent * 100, "{name}: {cpu} ms in ten seconds");
        assert!(memory <= mib << 20, "{name}: {memory} bytes");
        assert!(of_cpu > 0 && changes.iter().all(|row| row.limit > 0), "{name}: {changes:?}");
        assert!(samples > 10, "{name}: {samples} samples");
    }
}

#[test]
fn root_a_budget_is_kept_beside_programs_that_switch_and_are_hit_all_the_time() {
    let mut storms = vec![Running::new(&ping_pong(), &["120000"])];
    // Reads and writes one byte at a time.
    storms.push(Running::new("dd".as_ref(), &["if=/dev/zero", "of=/dev/null", "bs=1"]));
    let events = ["-e", "cpu-clock", "-e", "syscalls:sys_enter_read", "-e", "syscalls:sys_enter_write"];
    let options = [&["-F", "99", "--off-cpu", "--wakers", "--budget", "cpu=2%"], &events[..]].concat();
    let (cpu, _, (file, _dir)) = beside(storms, &options, Duration::from_secs(25));
    let (changes, lasted) = (rates(&file), sampled_ns(&file));
    eprintln!("{cpu} ms in ten seconds, {} changes, sampled {lasted} ns", changes.len());
    assert!(cpu <= 200, "{cpu} ms in ten seconds");
    assert!(changes.iter().filter(|row| row.share > 0).count() >= 2, "it goes on: {changes:?}");
    let all = samples(&file, &["--event", "cpu-clock,off-cpu,run-delay,waker,syscalls:sys_enter_write"]);
    assert!(all.len() > 50, "{} samples", all.len());
    assert_none_in_a_pause(&all, &stretches(&file));
}

#[test]
fn root_no_more_is_written_than_the_budget_allows() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let file = dir.path().join("r.icecore");
    let mut recorder = record();
    recorder
        .args(["-q", "-F", "4999", "--unwind", "dwarf", "--budget", "disk=2K/s", "-d", "25", "-o"])
        .arg(&file);
    let program = stacks_without_frames();
    let mut recorder = recorder.arg("--").arg(&program).args(["chain", "30000"]).spawn().expect("it runs");
    let begun = Instant::now();
    let mut seen = Vec::new();
    while recorder.try_wait().expect("ours").is_none() {
        let bytes = fs::metadata(&file).map_or(0, |meta| meta.len());
        // What comes at the end, after the last sample, is no part of it.
        if begun.elapsed() < Duration::from_secs(24) {
            seen.push((begun.elapsed(), bytes));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let of_window = |(at, bytes): &(Duration, u64)| {
        let first = seen.iter().rev().find(|(before, _)| *before + Duration::from_secs(10) <= *at);
        bytes - first.map_or(0, |(_, bytes)| *bytes)
    };
    let most = seen.iter().map(of_window).max().expect("it looked");
    let changes = rates(&file);
    let samples: Vec<Sample> =
        samples(&file, &[]).into_iter().filter(|sample| sample.text("comm") == "stacks").collect();
    eprintln!("{most} bytes in ten seconds, {} samples, {} changes", samples.len(), changes.len());
    assert!(most <= 10 * (2 << 10), "{most} bytes");
    assert!(changes.iter().any(|row| row.cause == RateCause::DISK && row.limit == 2 << 10), "{changes:?}");
    assert_near(weight(&samples), account(&file, samples[0].number("tgid") as u32), 0.1, "weight of samples");
}

#[test]
fn root_a_recording_that_ends_in_a_pause_is_whole() {
    let recorded = Recorded::target(&["-F", "499", "--duty", "300ms/10s", "-d", "1"], "shares", 3_000);
    let path = recorded.path();
    let rows = rates(&path);
    assert_eq!(rows.iter().map(|row| row.share).collect::<Vec<_>>(), [0]);
    let receipts = self::rows::<ReceiptV1, _>(&path, |view| view.to_owned_record().into_iter().collect());
    assert_eq!(receipts.len(), 1);
    assert!(receipts[0].end_ns > rows[0].time_ns + S / 2);
    let samples = recorded.samples(&[]);
    assert_near(
        weight(&samples),
        account(&path, samples[0].number("tgid") as u32),
        0.15,
        "weight of samples",
    );
    assert!(
        Recording::open(&path)
            .is_ok_and(|it| it.entries().iter().any(|entry| entry.header.kind == Kind::RATES))
    );
}
