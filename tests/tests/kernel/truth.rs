//! Recordings of programs whose call graph and time shares are known, through real eBPF.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use icecore_tests::machine::{
    Recorded, Sample, copy, json, probed, record, report, send, target, text, wait_for_samples,
    wait_for_session, wait_until,
};

/// Fast enough for a second to hold about a thousand samples; prime, so that nothing runs in lockstep.
const RATE: [&str; 2] = ["-F", "997"];

/// Returns the share of samples that have a function in their stack.
fn share(samples: &[Sample], function: &str) -> f64 {
    samples.iter().filter(|sample| sample.has(function)).count() as f64 / samples.len() as f64
}

/// Asserts that `found` of `n` draws is within five standard deviations of probability `p`.
fn assert_share(samples: &[Sample], function: &str, p: f64) {
    let n = samples.len() as f64;
    let bound = 5.0 * (p * (1.0 - p) / n).sqrt() + 1.0 / n;
    let found = share(samples, function);
    assert!((found - p).abs() <= bound, "{function}: {found:.4} of {n} samples, expected {p} ± {bound:.4}");
}

#[test]
fn root_functions_get_the_share_of_time_that_they_took() {
    let samples = Recorded::target(&RATE, "shares", 2000).samples(&["--focus", "^shares$"]);
    assert!(samples.len() > 800, "{} samples in two seconds at 997 Hz", samples.len());
    assert_share(&samples, "takes_half", 0.5);
    assert_share(&samples, "takes_three_tenths", 0.3);
    assert_share(&samples, "takes_a_fifth", 0.2);
}

#[test]
fn root_a_thread_shows_its_own_functions_alone() {
    let recorded = Recorded::target(&RATE, "threads", 500);
    for (comm, own, other) in
        [("first", "only_in_first", "only_in_second"), ("second", "only_in_second", "only_in_first")]
    {
        let samples: Vec<Sample> =
            recorded.samples(&[]).into_iter().filter(|s| s.text("comm") == comm).collect();
        assert!(samples.iter().filter(|s| s.has(own)).count() > 50, "{comm}");
        assert_eq!(samples.iter().filter(|s| s.has(other)).count(), 0, "{comm}");
    }
}

#[test]
fn root_a_system_call_shows_kernel_and_user_frames_in_one_stack() {
    let samples = Recorded::target(&RATE, "syscalls", 1000).samples(&[]);
    let in_kernel: Vec<&Sample> =
        samples.iter().filter(|s| s.has("asks_the_kernel") && !s.names("kernel").is_empty()).collect();
    assert!(in_kernel.len() > 150, "{} of {}", in_kernel.len(), samples.len());
    for sample in &in_kernel {
        assert!(sample.names("kernel").iter().all(|name| !name.is_empty()), "{:?}", sample.0);
    }
    let reads =
        in_kernel.iter().filter(|s| s.names("kernel").iter().any(|name| name.contains("read"))).count();
    assert!(reads * 10 > in_kernel.len() * 9, "{reads} of {} go through a read", in_kernel.len());
    let whole = in_kernel.iter().filter(|s| s.has("syscalls") && s.has("main")).count();
    assert!(whole * 10 > in_kernel.len() * 9, "{whole} of {} reach main", in_kernel.len());
}

#[test]
fn root_a_recursion_of_500_is_counted_exactly() {
    let samples = Recorded::target(&RATE, "recursion", 500).samples(&["--focus", "^at_the_bottom$"]);
    // In the first instructions of a function its caller's frame is not linked yet; those are few.
    let exact = samples
        .iter()
        .filter(|s| s.names("user").iter().filter(|n| **n == "goes_down").count() == 500)
        .count();
    assert!(samples.len() > 150 && exact * 100 >= samples.len() * 95, "{exact} of {}", samples.len());
    assert!(samples.iter().all(|s| s.has("main")));
}

#[test]
fn root_a_stack_deeper_than_the_limit_is_cut_and_says_so() {
    // This is the limit of the walk: unwound stacks are deeper.
    let recorded = Recorded::target(&["-F", "997", "--unwind", "fp"], "deeper", 300);
    let cut = recorded.samples(&["--focus", "^at_the_bottom$"]);
    assert!(!cut.is_empty());
    assert!(
        cut.iter().all(|s| s.text("ended") == "depth" && s.names("user").len() == 1024),
        "{:?}",
        cut[0].text("ended")
    );
    let whole = Recorded::target(&["-F", "997", "--max-depth", "4096"], "deeper", 300);
    let whole = whole.samples(&["--focus", "^at_the_bottom$"]);
    let exact = whole
        .iter()
        .filter(|s| s.names("user").iter().filter(|n| **n == "goes_deeper").count() == 3000)
        .count();
    assert!(exact * 100 >= whole.len() * 95 && exact > 50, "{exact} of {}", whole.len());
}

#[test]
fn root_processes_that_live_twenty_milliseconds_are_named() {
    let samples = |recorded: &Recorded| recorded.samples(&["--focus", "^lives_briefly$"]);
    let count = |samples: &[Sample]| {
        let mut tgids: Vec<u64> = samples.iter().map(|s| s.number("tgid")).collect();
        tgids.dedup();
        tgids.len()
    };
    let recorded =
        Recorded::until(|recorded| count(&samples(recorded)) == 10, || Recorded::target(&RATE, "brief", 0));
    let samples = samples(&recorded);
    assert_eq!(count(&samples), 10, "each of ten processes has named samples");
    assert!(samples.iter().all(|s| s.text("comm") == "target" && s.has("main")));
}

#[test]
fn root_fork_and_exec_keep_processes_and_programs_apart() {
    let samples = Recorded::target(&RATE, "family", 300).samples(&[]);
    let tgids = |function: &str| {
        let mut tgids: Vec<u64> =
            samples.iter().filter(|s| s.has(function)).map(|s| s.number("tgid")).collect();
        tgids.sort_unstable();
        tgids.dedup();
        tgids
    };
    let (parent, forked, execed) = (tgids("in_parent"), tgids("in_forked_child"), tgids("after_exec"));
    assert_eq!((parent.len(), forked.len()), (1, 1));
    assert_ne!(parent, forked);
    assert_eq!(forked, execed, "exec keeps the process id");
    assert!(samples.iter().all(|s| !(s.has("in_forked_child") && s.has("after_exec"))));
}

/// A running instance of the target program; killed at the end.
struct Running(std::process::Child);

impl Running {
    fn start(name: &str) -> Self {
        Self(
            Command::new(target())
                .args([name, "60000"])
                .stdout(Stdio::null())
                .spawn()
                .expect("it was just compiled"),
        )
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Records the program, or one of its threads, for a second with enough samples.
    fn recorded(&self, who: &[&str]) -> Recorded {
        let none: [&str; 0] = [];
        let options = [&["-F", "997", "-d", "1"], who].concat();
        Recorded::until(|recorded| recorded.samples(&[]).len() > 100, || Recorded::new(&options, &none))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn root_a_process_filter_keeps_others_out() {
    let (wanted, other) = (Running::start("shares"), Running::start("shares"));
    let pid = wanted.pid().to_string();
    let samples = wanted.recorded(&["-p", &pid]).samples(&[]);
    assert!(samples.len() > 100, "{}", samples.len());
    assert!(samples.iter().all(|s| s.number("tgid") == u64::from(wanted.pid())));
    assert!(
        share(&samples, "shares") > 0.95,
        "mappings of a running process are known: {}",
        share(&samples, "shares")
    );
    drop(other);
}

#[test]
fn root_a_thread_filter_keeps_other_threads_out() {
    let running = Running::start("threads");
    let second = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", running.pid())).expect("it runs");
        let mut tasks = tasks.filter_map(|task| Some(task.ok()?.path()));
        let is_it =
            |task: &PathBuf| std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm == "second\n");
        tasks.find(is_it).and_then(|task| Some(task.file_name()?.to_str()?.to_owned()))
    };
    wait_until("a thread names itself", || second().is_some());
    let tid = second().expect("it runs");
    let samples = running.recorded(&["-t", &tid]).samples(&[]);
    assert!(samples.len() > 100, "{}", samples.len());
    assert!(samples.iter().all(|s| s.number("tid").to_string() == tid && s.text("comm") == "second"));
    assert!(share(&samples, "only_in_second") > 0.95);
}

#[test]
fn root_user_only_and_kernel_only_keep_the_other_side_out() {
    let user = Recorded::target(&["-F", "997", "-U"], "syscalls", 500).samples(&[]);
    assert!(user.iter().all(|s| s.names("kernel").is_empty()));
    let kernel = Recorded::target(&["-F", "997", "-K"], "syscalls", 500).samples(&[]);
    assert!(kernel.len() > 50, "{}", kernel.len());
    assert!(kernel.iter().all(|s| s.names("user").is_empty() && !s.names("kernel").is_empty()));
}

#[test]
fn root_cpu_filter_and_period_are_kept() {
    let running = Running::start("shares");
    let none: [&str; 0] = [];
    let recorded = Recorded::new(&["-a", "-C", "0", "-c", "2000000", "-d", "1"], &none);
    let samples = recorded.samples(&[]);
    assert!(samples.iter().all(|s| s.number("cpu") == 0 && s.number("weight") == 2_000_000));
    let seconds = recorded.json("summary", &[])["duration_s"].as_f64().expect("a number");
    assert!(
        samples.len() as f64 <= seconds * 500.0 + 5.0,
        "{} samples of 2 ms in {seconds} s",
        samples.len()
    );
    drop(running);
}

#[test]
fn root_the_whole_machine_is_recorded_without_loss_and_without_idle() {
    let running = Running::start("shares");
    let none: [&str; 0] = [];
    let recorded = Recorded::until(
        |recorded| recorded.json("summary", &[])["lost"] == 0,
        || Recorded::new(&["-a", "-d", "1", "-F", "997", "--label", "test=yes"], &none),
    );
    let summary = recorded.json("summary", &[]);
    assert_eq!((summary["lost"].as_u64(), summary["closed"].as_bool()), (Some(0), Some(true)));
    assert_eq!(summary["labels"]["test"], "yes");
    assert!(recorded.samples(&[]).iter().all(|s| s.number("tid") != 0));
    drop(running);
}

#[test]
fn root_idle_time_is_sampled_when_asked_for() {
    let none: [&str; 0] = [];
    let begun = Instant::now();
    let idle_before = idle_s();
    let recorded = Recorded::new(&["-a", "-C", "0", "-d", "2", "-F", "97", "--include-idle"], &none);
    let (idle, around) = (idle_s() - idle_before, begun.elapsed().as_secs_f64() - 2.0);
    let samples = recorded.samples(&[]);
    let samples = samples.iter().filter(|sample| sample.number("tid") == 0);
    assert!(samples.clone().all(|sample| sample.text("comm").starts_with("swapper")));
    // The recorder begins and ends in the time around its samples. The kernel counts ticks of 10 ms.
    let (n, least, most) = (samples.count() as f64, 97.0 * (idle - around), 97.0 * idle.min(2.0));
    println!("{n} samples in {idle} s without work, {around} s of them around the recording");
    assert!(
        (0.8 * least - 10.0..1.2 * most + 10.0).contains(&n),
        "{n} samples in {idle} s; {around} s around"
    );
}

/// Returns for how long CPU 0 has been idle.
fn idle_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("readable");
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu0 ")).expect("it is there");
    let ticks: Vec<f64> = line.split(' ').map(|ticks| ticks.parse().expect("a number")).collect();
    // Idle, and idle while something waits for a disk.
    (ticks[3] + ticks[4]) / 100.0
}

#[test]
fn root_the_exit_code_of_the_command_is_passed_on() {
    let target = target();
    for code in ["0", "1", "7"] {
        let recorded = Recorded::new(&[], &[target.as_os_str(), "exit".as_ref(), code.as_ref()]);
        assert_eq!(recorded.output.status.code().map(|c| c.to_string()).as_deref(), Some(code));
    }
    let killed = Recorded::new(&[], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.output.status.code(), Some(128 + 9));
}

#[test]
fn root_an_interrupt_finishes_the_file() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let _ = std::fs::remove_file(&path);
        let mut recorder = record();
        recorder.args(["-a", "--force", "-o"]).arg(&path).stderr(Stdio::piped());
        let child = recorder.spawn().expect("the recorder runs");
        wait_for_session(&path);
        send(signal, child.id());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let summary = report(&["summary".as_ref(), path.as_os_str(), "--json".as_ref()]);
        assert!(summary.contains("\"closed\": true") || summary.contains("\"closed\":true"), "{summary}");
    }
}

#[test]
fn root_a_killed_recorder_leaves_a_file_that_says_so() {
    let running = Running::start("shares");
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let mut child = record().args(["-a", "-F", "997", "-o"]).arg(&path).spawn().expect("the recorder runs");
    let summary = || -> serde_json::Value {
        let text = report(&["summary".as_ref(), path.as_os_str(), "--json".as_ref()]);
        serde_json::from_str(&text).expect("JSON")
    };
    let samples = |summary: &serde_json::Value| summary["samples"].as_u64().expect("a number");
    wait_for_samples(&path);
    wait_until("samples of two seconds", || samples(&summary()) > 1000);
    let seen = samples(&summary());
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    let text = report(&["summary".as_ref(), path.as_os_str()]);
    assert!(text.contains("not closed") || text.contains("stopped before"), "{text}");
    let json = summary();
    assert_eq!(json["closed"], false);
    assert!(samples(&json) >= seen, "what was there is gone: {seen}, {json}");
    assert!(report(&["top".as_ref(), path.as_os_str()]).contains("takes_half"));
    drop(running);
}

#[test]
fn root_the_time_that_processes_take_to_end_is_recorded() {
    // Two hundred processes that do nothing but begin and end.
    let script = "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done";
    let samples = Recorded::new(&["-F", "4999"], &["sh", "-c", script]).samples(&[]);
    let ending = samples.iter().filter(|s| s.has("do_exit")).count();
    assert!(ending * 50 > samples.len(), "{ending} of {} samples are in do_exit", samples.len());
}

#[test]
fn root_a_process_whose_name_is_cut_inside_a_character_is_recorded() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    // The kernel keeps 15 bytes of a name: the last é is half.
    let path = dir.path().join("spiné".to_owned() + &"é".repeat(8));
    copy(&target(), &path);
    let running =
        Running(Command::new(&path).args(["shares", "60000"]).spawn().expect("it was just compiled"));
    let pid = running.pid().to_string();
    let samples = running.recorded(&["-p", &pid]).samples(&[]);
    assert!(samples.len() > 100 && share(&samples, "shares") > 0.95, "{} samples", samples.len());
}

#[test]
fn root_a_target_that_ends_while_the_recorder_arms_ends_the_recording() {
    for delay in ["0.005", "0.01", "0.02", "0.03", "0.04"] {
        let mut target = Command::new("sleep").arg(delay).spawn().expect("sleep exists");
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let mut recorder = Command::new("timeout");
        recorder.arg("20").arg(icecore_tests::machine::program("icecore-record"));
        recorder.args(["-q", "-p", &target.id().to_string(), "-o"]).arg(dir.path().join("r.icecore"));
        let output = recorder.output().expect("the recorder runs");
        target.wait().expect("it ended");
        // It ended before, or the recording ended with it; it never runs for ever.
        assert!(matches!(output.status.code(), Some(0 | 2)), "{delay}: {}", text(&output.stderr));
    }
}

#[test]
fn root_a_recorder_that_cannot_keep_up_loses_samples_and_counts_every_one() {
    let running = Running::start("shares");
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let mut recorder = record();
    recorder.args(["-q", "-F", "9973", "--ring", "256K", "-p", &running.pid().to_string(), "-o"]).arg(&path);
    let mut child = recorder.spawn().expect("the recorder runs");
    wait_for_samples(&path);
    // This imitates a slow disk: nobody empties the ring.
    send(libc::SIGSTOP, child.id());
    std::thread::sleep(Duration::from_millis(4000));
    send(libc::SIGCONT, child.id());
    std::thread::sleep(Duration::from_millis(300));
    send(libc::SIGINT, child.id());
    assert!(child.wait().expect("it ends").success());

    let json = |view: &str| -> serde_json::Value {
        let text = report(&[view.as_ref(), path.as_os_str(), "--json".as_ref()]);
        serde_json::from_str(&text).expect("JSON")
    };
    let (summary, info) = (json("summary"), json("info"));
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_else(|| panic!("a number: {value}"));
    let (taken, lost) = (number(&summary["samples"]), number(&summary["lost"]));
    assert!(lost > 100, "{lost} lost, {taken} taken");
    assert_eq!(number(&info["lost_by_cause"]["ring_full_sample"]), lost);
    // Every run of the sampler that took or lost a sample counts as one of the two; runs for other processes count as neither.
    assert!(taken + lost <= number(&info["receipt"]["bpf_runs"]), "{taken} + {lost}: {}", info["receipt"]);
    assert!(report(&["summary".as_ref(), path.as_os_str()]).contains("lost"));
}

#[test]
fn root_lost_samples_are_counted_by_what_they_weigh() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    // Nobody else runs this copy.
    let program = dir.path().join("probed");
    copy(&probed(), &program);
    let event = format!("uprobe:{}:sized,weight=arg1,unit=bytes", program.display());
    let mut recorder = record();
    recorder.args(["-q", "-a", "--max-event-rate", "0", "--ring", "256K", "-e", &event, "-o"]).arg(&path);
    let mut child = recorder.spawn().expect("the recorder runs");
    wait_for_session(&path);
    let call = |calls: &str| {
        assert!(Command::new(&program).args(["sized", calls]).status().expect("it runs").success())
    };
    send(libc::SIGSTOP, child.id());
    call("20000");
    send(libc::SIGCONT, child.id());
    std::thread::sleep(Duration::from_millis(300));
    send(libc::SIGINT, child.id());
    assert!(child.wait().expect("it ends").success());
    let weighs = json("top", &path)["total_weight"].as_u64().expect("a number");
    let (health, summary) = (json("health", &path), json("summary", &path));
    let lost = &health["lost_by_event"][0];
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    assert_eq!(number(&summary["samples"]) + number(&lost["samples"]), 20_000);
    assert_eq!(weighs + number(&lost["weight"]), (1..=20_000).sum::<u64>(), "{lost}");
    assert_eq!((&lost["unit"], number(&lost["unweighed"])), (&"bytes".into(), 0));
    // The first hits fit into the ring, and they are light.
    let share = |key: &str| health[key].as_f64().expect("a share");
    assert!(share("lost_weight_share") > share("lost_share"), "{health}");
    assert!(share("lost_weight_share") > 0.9, "{health}");
}
