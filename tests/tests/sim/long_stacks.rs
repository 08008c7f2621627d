//! Tests a recording of two kilobytes that stands for gigabytes: stacks of thousands of frames with names of 64 KiB, sampled
//! everywhere; and one of twenty kilobytes that holds the same deep stack very often.

use std::path::Path;

use icecore_format::limits::MAX_FRAMES;
use icecore_format::records::{Change, ImageKind, Location, Origin, Snapshot, Symbol, WalkEnd, Word};
use icecore_tests::inside::json;
use icecore_tests::machine::program;
use icecore_tests::synthetic::{Builder, Copied};

/// The most memory of a view, KiB: the bounds of docs/DECISIONS.md, and the memory of any program.
const MOST_KIB: u64 = 1 << 20;

/// One function that calls itself, sampled at every eighth depth.
fn write(path: &Path) {
    let mut b = Builder::default();
    let image = b.image(ImageKind::FILE, "/no/such/bin/deep");
    let task = b.task(100, 100, "deep");
    b.change(1_000, Change::FOUND, 100, 1, "deep");
    b.map(2_000, 100, 0x1_0000, image, Origin::SCAN);
    let name = vec![b'n'; 60 << 10];
    for number in 0..16 {
        let name = [&name[..], &[b'a' + number as u8]].concat();
        b.symbols.push(Symbol::new(image, 0x1000 + number * 0x100..0x1100 + number * 0x100, name));
    }
    let frames: Vec<u64> = (0..u64::from(MAX_FRAMES)).map(|depth| 0x1_0010 + depth % 16 * 0x100).collect();
    // Children follow their callers: each stack continues the one before.
    for depth in (8..=frames.len()).step_by(8) {
        b.sample(depth as u64 * 1_000_000, 0, task, &frames[frames.len() - depth..], &[]);
    }
    b.write(path, true).expect("written");
}

/// Runs a view; returns the largest resident set, KiB, and how many bytes it printed.
fn peak(line: &[&str], path: &Path) -> (u64, u64) {
    let script = "ulimit -v 6000000; \"$@\" | wc -c";
    let mut shell = std::process::Command::new("python3");
    shell.args([
        "-c",
        "import resource, subprocess, sys
out = subprocess.run(['sh', '-c', sys.argv[1], 'sh', *sys.argv[2:]], stdout=subprocess.PIPE, text=True)
print(out.stdout.strip() or 0, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
    ]);
    shell.arg(script).arg(program("icecore-report")).args(["--quiet", "--threads", "2"]).args(line).arg(path);
    let out = shell.output().expect("python3 runs");
    let text = String::from_utf8(out.stdout).expect("numbers");
    let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    assert!(numbers.len() == 2, "{line:?}: {text} {}", String::from_utf8_lossy(&out.stderr));
    (numbers[1], numbers[0])
}

#[test]
fn no_view_takes_memory_out_of_proportion_for_long_names_in_deep_stacks() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r");
    write(&path);
    assert!(path.metadata().expect("written").len() < 64 << 10, "names and stacks compress well");
    let views: [&[&str]; 21] = [
        &["folded"],
        &["folded", "--json"],
        &["flame", "-o", "-"],
        &["samples"],
        &["samples", "--json"],
        &["top"],
        &["top", "--json"],
        &["tree"],
        &["tree", "--callers", "--min-percent", "0"],
        &["depth", "--json"],
        &["timeline", "--json"],
        &["summary"],
        &["export", "--to", "firefox", "-o", "-"],
        &["export", "--to", "callgrind", "-o", "-"],
        &["export", "--to", "csv", "-o", "-"],
        &["export", "--to", "csv-samples", "-o", "-"],
        &["export", "--to", "folded", "-o", "-"],
        &["export", "--to", "perf-script", "-o", "-"],
        &["export", "--to", "speedscope", "-o", "-"],
        &["export", "--to", "pprof", "-o", "/dev/stdout"],
        &["export", "--to", "perfetto", "-o", "/dev/stdout"],
    ];
    for view in views {
        let (kib, bytes) = peak(view, &path);
        println!("{view:?}: {kib} KiB, {bytes} bytes printed");
        assert!(bytes > 0 && kib < MOST_KIB, "{view:?}: {kib} KiB, {bytes} bytes printed");
    }
    let (kib, bytes) = peak(&["diff", "--by", "stack", "--all", path.to_str().expect("text")], &path);
    assert!(bytes > 0 && kib < MOST_KIB, "diff: {kib} KiB, {bytes} bytes printed");
}

/// One program, whose code keeps frame pointers, whatever its stacks.
fn deep() -> (Builder, u32, u32) {
    let mut b = Builder::default();
    b.block_len = 1_000;
    let image = b.image(ImageKind::FILE, "/no/such/bin/deep");
    b.change(1_000, Change::FOUND, 100, 1, "deep");
    b.map(2_000, 100, 0x1_0000, image, Origin::SCAN);
    b.symbols.push(Symbol::new(image, 0x1000..0x2000, "deep"));
    let task = b.task(100, 100, "deep");
    (b, image, task)
}

/// Copies of one stack of 1,024 frames, none of which is like another: a register that nothing changes differs.
fn write_copies(path: &Path, count: u32) {
    const STACK: u64 = 0x7ffd_0000_0000;
    let (mut b, image, task) = deep();
    let at = |file_off| Location::Image { image, file_off };
    let depth = 1_025 * 64;
    let frames: Vec<(u64, Location)> = (0..1_024)
        .map(|frame| (STACK - u64::from(depth) + 64 + frame * 64, at(0x1010 + frame % 64 * 4)))
        .collect();
    b.held.frames(Copied { anchor: STACK, depth, copied: depth }, &frames);
    let [snapshot] = &b.held.snapshots[..] else { panic!("one") };
    let snapshot = Snapshot { mask: snapshot.mask | 1 << 3, ..snapshot.clone() };
    let of = |number: u32| {
        let registers = [Word::Stack(i64::from(number)), snapshot.registers[0]].into();
        Snapshot { registers, ..snapshot.clone() }
    };
    b.held.snapshots = (0..count).map(of).collect();
    let stack = b.stack_at(&[at(0x1010)]);
    for number in 0..count {
        let sample = b.sample(u64::from(number) * 1_000_000, 0, task, &[], &[]);
        (sample.user_stack, sample.user_end, sample.snapshot) = (stack, WalkEnd::NOT_MONOTONIC, number + 1);
    }
    b.write(path, true).expect("written");
}

/// Walks of 4,096 frames by unwind tables, which differ by their leaves.
fn write_walks(path: &Path, count: u32) {
    let (mut b, image, task) = deep();
    let at = |file_off| Location::Image { image, file_off };
    let mut frames: Vec<Location> = (0..4_096).map(|frame| at(0x1010 + frame % 64 * 4)).collect();
    for number in 0..count {
        frames[0] = at(0x1000 + u64::from(number) % 0x1000);
        frames[1] = at(0x1000 + u64::from(number) / 0x1000);
        let stack = b.stack_at(&frames);
        let sample = b.sample(u64::from(number) * 1_000_000, 0, task, &[], &[]);
        (sample.user_stack, sample.user_end) = (stack, WalkEnd::BY_TABLES);
    }
    b.write(path, true).expect("written");
}

/// Counts samples by the ends of their user stacks.
fn ends(dir: &Path, options: &str) -> Vec<(String, u64)> {
    let health = json(dir, &format!("health DIR/r{options}"));
    let ends = health["user_ends"].as_object().expect("counts").iter();
    ends.map(|(end, samples)| (end.clone(), samples.as_u64().expect("a count"))).collect()
}

/// Examines many stacks, of which not all are worth it, and few.
fn examines(write: impl Fn(&Path, u32), end: &str) {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r");
    write(&path, 8_000);
    let len = path.metadata().expect("written").len();
    let all = ends(dir.path(), "");
    let [(first, examined), (second, others)] = &all[..] else { panic!("{all:?}") };
    assert!(len < 20 << 10 && (&first[..], &second[..]) == (end, "not_examined"), "{len} {all:?}");
    assert!(*examined > 1_000 && *others > 1_000, "{all:?}");
    // A part of the recording may take as much.
    assert_eq!(ends(dir.path(), " --to 1s"), [(end.to_owned(), 1_000)]);
    write(&path, 1_000);
    assert_eq!(ends(dir.path(), ""), [(end.to_owned(), 1_000)]);
}

#[test]
fn stacks_are_examined_as_far_as_the_size_of_the_file_is_worth() {
    examines(write_copies, "no_rules");
    examines(write_walks, "by_tables");
}
