//! Tests a recording of two kilobytes that stands for gigabytes: stacks of thousands of frames with names of 64 KiB, sampled
//! everywhere.

use std::path::Path;

use icecore_format::limits::MAX_FRAMES;
use icecore_format::records::{Change, ImageKind, Origin, Symbol};
use icecore_tests::machine::program;
use icecore_tests::synthetic::Builder;

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
    let views: [&[&str]; 12] = [
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
    ];
    for view in views {
        let (kib, bytes) = peak(view, &path);
        println!("{view:?}: {kib} KiB, {bytes} bytes printed");
        assert!(bytes > 0 && kib < MOST_KIB, "{view:?}: {kib} KiB, {bytes} bytes printed");
    }
    let (kib, bytes) = peak(&["diff", "--by", "stack", "--all", path.to_str().expect("text")], &path);
    assert!(bytes > 0 && kib < MOST_KIB, "diff: {kib} KiB, {bytes} bytes printed");
}
