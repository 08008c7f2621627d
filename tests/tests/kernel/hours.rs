//! Eight hours of a recorder that is left running, 300 times as fast: what takes ten minutes takes two seconds. Its memory, its descriptors, its
//! threads, the kernel's memory for its programs, and what it keeps on disk stay as they are.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use icecore_tests::machine::{program, record, send, text};

use crate::rotation::files;

const TERMINATE: i32 = 15;
/// How many times as fast everything is.
const SCALE: u32 = 300;
const HOURS: u32 = 8;
/// The real options: 19 Hz, files of ten minutes, the newest six stay.
const HZ: u32 = 19;
const FILE_S: u32 = 600;
const KEPT: usize = 6;
/// Looks an hour.
const LOOKS: u32 = 4;

/// What a recorder has at a moment.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    memory_kib: u64,
    descriptors: u64,
    threads: u64,
    kernel_kib: u64,
    kept_kib: u64,
    files: u64,
}

fn folder_kib(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                folder_kib(&path)
            } else {
                entry.metadata().map_or(0, |meta| meta.len() >> 10)
            }
        })
        .sum()
}

fn held(pid: u32, out: &Path, kept: &Path) -> Held {
    let process = Path::new("/proc").join(pid.to_string());
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        value.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0)
    };
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let (mut count, mut kernel) = (0, 0);
    for descriptor in descriptors {
        count += 1;
        // Maps and programs say how much memory the kernel takes for them.
        let info =
            fs::read_to_string(process.join("fdinfo").join(descriptor.file_name())).unwrap_or_default();
        kernel += field(&info, "memlock:");
    }
    Held {
        memory_kib: field(&status, "VmRSS:"),
        descriptors: count,
        threads: field(&status, "Threads:"),
        kernel_kib: kernel >> 10,
        kept_kib: folder_kib(kept),
        files: files(out).len() as u64,
    }
}

/// Returns the median of each in some looks.
fn median(looks: &[Held]) -> Held {
    let of = |value: fn(&Held) -> u64| {
        let mut values: Vec<u64> = looks.iter().map(value).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    Held {
        memory_kib: of(|held| held.memory_kib),
        descriptors: of(|held| held.descriptors),
        threads: of(|held| held.threads),
        kernel_kib: of(|held| held.kernel_kib),
        kept_kib: of(|held| held.kept_kib),
        files: of(|held| held.files),
    }
}

#[test]
fn root_after_eight_hours_it_holds_as_much_as_after_two() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let [out, kept, programs] = ["out", "kept", "programs"].map(|name| dir.path().join(name));
    [&out, &kept, &programs].iter().for_each(|folder| fs::create_dir(folder).expect("room"));
    // Programs begin and end, half of them from files that nobody has seen before; others compute, and are started again.
    let (own, count) = (program("icecore-report"), programs.join("count"));
    let load = format!(
        "while :; do cp /bin/true '{0}/a'; '{0}/a'; /bin/true; rm '{0}/a'; echo . >> '{1}'; done",
        programs.display(),
        count.display()
    );
    let works = format!(
        "while :; do '{}' --help > /dev/null; python3 -c 'sum(i * i for i in range(300000))'; done",
        own.display()
    );
    let loads = [load, works];
    let mut loads: Vec<_> = loads
        .iter()
        .map(|script| {
            let mut command = Command::new("setsid");
            command
                .args(["sh", "-c", script])
                .stdout(Stdio::null())
                .spawn()
                .expect("util-linux is everywhere")
        })
        .collect();
    let mut recorder = record();
    recorder.env("XDG_CACHE_HOME", &kept);
    let (rate, file_s) = ((HZ * SCALE).to_string(), format!("{}ms", FILE_S * 1_000 / SCALE));
    recorder.args(["-a", "-q", "-F", &rate, "--rotate", &file_s, "--keep", &KEPT.to_string()]);
    recorder.args(["--counters", "0.1", "--flush", "0.1", "-o"]).arg(out.join("h.icecore"));
    let recorder = recorder.stderr(Stdio::piped()).spawn().expect("it runs");
    let begun = Instant::now();
    let each = Duration::from_secs(3_600) / SCALE / LOOKS;
    let mut looks = Vec::new();
    eprintln!("hours  memory MiB  descriptors  threads  kernel MiB  kept MiB  files");
    for number in 1..=HOURS * LOOKS {
        std::thread::sleep((begun + each * number).saturating_duration_since(Instant::now()));
        let held = held(recorder.id(), &out, &kept);
        if number % LOOKS == 0 {
            let mib = |kib: u64| kib as f64 / 1024.0;
            eprintln!(
                "{:5}  {:10.1}  {:11}  {:7}  {:10.1}  {:8.1}  {:5}",
                number / LOOKS,
                mib(held.memory_kib),
                held.descriptors,
                held.threads,
                mib(held.kernel_kib),
                mib(held.kept_kib),
                held.files
            );
        }
        looks.push(held);
    }
    send(TERMINATE, recorder.id());
    let output = recorder.wait_with_output().expect("it ends");
    for load in &mut loads {
        // Each leads a group of its own.
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", load.id())]).status();
        let _ = load.wait();
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rounds = fs::read(&count).expect("it ran").len() / 2;
    eprintln!("{rounds} new program files");
    let quarter = looks.len() / 4;
    let (early, late) = (median(&looks[quarter..2 * quarter]), median(&looks[3 * quarter..]));
    let told = format!("{early:?}, then {late:?}");
    assert!(rounds > 1_000, "{rounds}");
    // Tables that forget everything at a fixed size are still filling up.
    assert!(late.memory_kib <= early.memory_kib * 112 / 100, "memory: {told}");
    // Files are held open while their samples may come.
    assert!(late.descriptors <= early.descriptors * 5 / 4 + 32, "descriptors: {told}");
    assert!(late.threads <= early.threads + 2, "threads: {told}");
    assert!(late.kernel_kib <= early.kernel_kib * 105 / 100, "memory of the kernel: {told}");
    assert!(late.kept_kib <= early.kept_kib + 1_024, "kept on disk: {told}");
    assert!((KEPT as u64 - 1..=KEPT as u64 + 3).contains(&late.files), "{told}");
}
