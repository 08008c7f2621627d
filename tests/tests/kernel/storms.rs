//! Whatever other programs do, the recorder ends in time, its memory is bounded, and it records all other programs.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use icecore_tests::machine::{Recorded, stacks_without_frames, storm, text};

/// A storm beside a recording, and what it says; killed after it.
struct Storm(Child, BufReader<ChildStdout>);

impl Storm {
    /// Starts a storm, and waits until it runs.
    fn new(name: &str) -> Self {
        let mut storm = Command::new(storm());
        let mut child = storm.args([name, "120"]).stdout(Stdio::piped()).spawn().expect("it was compiled");
        let mut said = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        stdout.read_line(&mut said).expect("it says something");
        assert_eq!(said, "there\n", "storm {name}");
        Self(child, stdout)
    }

    /// Ends it; returns how often it did in a second what it does.
    fn rate(mut self) -> f64 {
        self.0.kill().expect("it runs");
        let mut said = String::new();
        self.1.read_to_string(&mut said).expect("plain text");
        let last = said.lines().last().and_then(|line| line.split_once(' ')).expect("it says it often");
        last.0.parse::<f64>().expect("a number") / last.1.parse::<f64>().expect("seconds")
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Storms run one at a time, because they take the machine from each other.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns the recorded time, seconds.
fn seconds(recorded: &Recorded) -> f64 {
    let info = recorded.json("info", &[]);
    let ns = |part: &str, key: &str| info[part][key].as_u64().expect("a closed file has an end");
    (ns("receipt", "end_ns") - ns("session", "start_ns")) as f64 / 1e9
}

#[test]
fn root_a_recording_ends_in_time_however_much_is_copied() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _storm = Storm::new("deep");
    let recorded = Recorded::new(&["-a", "-F", "999", "-d", "2", "-q"], &[] as &[&str]);
    let peak = recorded.json("info", &[])["receipt"]["peak_rss_bytes"].as_u64().expect("it is told");
    let (seconds, samples) = (seconds(&recorded), recorded.samples(&[]).len());
    eprintln!("{seconds:.2} s, {samples} samples, {} MiB", peak >> 20);
    // Between the end and the moment when the recorder sees it, there is at most one pass over the ring.
    assert!((1.9..4.0).contains(&seconds), "{seconds} s");
    assert!(samples > 100 && peak < 512 << 20, "{samples} samples, {peak} bytes");
}

#[test]
fn root_a_process_that_maps_too_much_is_named_and_others_keep_their_callers() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let storm = Storm::new("maps");
    let program = stacks_without_frames();
    let chain = [program.as_os_str(), "chain".as_ref(), "1500".as_ref()];
    let recorded = Recorded::new(&["-a", "-F", "499", "-q"], &chain);
    let health = recorded.json("health", &[]);
    let named = health["mappings_refused_of"].to_string();
    assert!(named.contains("`storm` (process"), "{health:#}");
    assert!(!named.contains("stacks"), "{named}");
    let lost = recorded.lost();
    let samples = recorded.samples(&["--comm", "stacks"]);
    let in_leaf: Vec<_> = samples.iter().filter(|sample| sample.has("leaf")).collect();
    let whole = in_leaf.iter().filter(|sample| sample.names("user").last() == Some(&"_start")).count();
    let is_told = lost["stack_shortened"].as_u64().unwrap_or(0) as usize;
    eprintln!("{whole} of {} whole, lost {lost}", in_leaf.len());
    assert!(
        whole > 50 && (whole + is_told) * 100 >= in_leaf.len() * 97,
        "{whole} of {}; {lost}",
        in_leaf.len()
    );
    let of_storm = recorded.samples(&["--pid", &storm.0.id().to_string()]);
    let ends =
        of_storm.iter().filter(|sample| !sample.names("user").is_empty()).map(|sample| sample.text("ended"));
    let ends: BTreeSet<&str> = ends.collect();
    assert_eq!(ends, BTreeSet::from(["mappings_lost"]), "nobody can tell what is code");
}

#[test]
fn root_storms_in_other_processes_leave_walks_as_they_are() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = stacks_without_frames();
    let chain = [program.as_os_str(), "chain".as_ref(), "2500".as_ref()];
    for (name, least) in [("forks-fast", 1000.0), ("maps-fast", 10_000.0)] {
        let storm = Storm::new(name);
        let recorded = Recorded::new(&["-a", "-F", "499", "-q"], &chain);
        let rate = storm.rate();
        let samples = recorded.samples(&["--comm", "stacks"]);
        let in_leaf: Vec<_> = samples.iter().filter(|sample| sample.has("leaf")).collect();
        let whole = in_leaf.iter().filter(|sample| sample.names("user").last() == Some(&"_start"));
        let walked = whole.clone().filter(|sample| sample.text("ended") == "by_tables").count();
        let (all, whole) = (in_leaf.len(), whole.count());
        eprintln!("{name}, {rate:.0} a second: {all} samples, {whole} whole, {walked} by tables");
        assert!(rate > least, "{name}: {rate}");
        // Behind other work the sampler gets its tables later: until then the report unwinds.
        assert!(all > 300 && whole * 1000 >= all * 995 && walked * 4 > all * 3, "{name}: {whole} of {all}");
    }
}

#[test]
fn root_few_open_files_lose_no_names_or_it_is_said() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let record = |limit: &str| {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let file = dir.path().join("r.icecore");
        let mut shell = Command::new("sh");
        let line = format!(
            "ulimit {limit}; exec \"$0\" -F 999 -o \"$1\" -- sh -c 'ulimit -n; ls -R /usr /etc > /dev/null'"
        );
        let program = icecore_tests::machine::program("icecore-record");
        let output = shell.args(["-c", &line]).arg(program).arg(&file).output().expect("a shell");
        let health =
            icecore_tests::machine::report(&["health".as_ref(), file.as_os_str(), "--json".as_ref()]);
        let health: serde_json::Value = serde_json::from_str(&health).expect("JSON");
        (
            text(&output.stdout),
            text(&output.stderr),
            health["unnamed"]["kernel_symbol_missing"].as_f64().unwrap_or(0.0),
        )
    };
    // The command has the limit that it was given, and the recorder the one that it may have.
    let (stdout, stderr, unnamed) = record("-S -n 90");
    assert_eq!(stdout, "90\n");
    assert!(unnamed < 0.05 && !stderr.contains("may be open"), "{unnamed}: {stderr}");
    // The files that are held open for names leave room for sampling, whoever is faster.
    for _ in 0..8 {
        let (stdout, stderr, _) = record("-n 90");
        assert_eq!(stdout, "90\n", "{stderr}");
        assert!(stderr.contains("more files may be open here") && stderr.contains("ulimit -n"), "{stderr}");
    }
}
