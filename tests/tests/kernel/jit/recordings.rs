//! Tests names of JIT code in synthetic recordings that are packed, cut and merged.

use std::collections::BTreeSet;
use std::path::Path;

use icecore_format::records::{Change, ImageKind, JitCode, Location, Origin};
use icecore_tests::machine::{Sample, report};
use icecore_tests::synthetic::{Builder, START_NS};
use serde_json::Value;

/// Returns a recording of two processes with JIT code at one address; one of them later makes other code there.
fn story(prefix: &str) -> Builder {
    let mut b = Builder::default();
    let memory = b.image(ImageKind::ANONYMOUS, "[anon]");
    for (tgid, comm) in [(100, "one"), (200, "two")] {
        b.change(0, Change::FOUND, tgid, 1, comm);
        b.map(1_000, tgid, 0x9_0000, memory, Origin::SCAN);
        let task = b.task(tgid, tgid, comm);
        let stack = b.stack_at(&[Location::Address(0x9_0010), Location::Address(0x9_0100)]);
        for at_ns in [10_000_000, 20_000_000, 30_000_000] {
            b.sample(at_ns, 0, task, &[], &[]).user_stack = stack;
        }
    }
    let row = |tgid, start, since_ns, name: &str| {
        let name = format!("{prefix}{name}").into_bytes();
        JitCode { tgid, start, end: start + 0x100, since_ns, name, ..JitCode::default() }
    };
    b.jit = vec![
        row(100, 0x9_0000, 0, "before"),
        row(100, 0x9_0000, START_NS + 15_000_000, "after"),
        row(200, 0x9_0000, START_NS + 5_000_000, "other"),
        row(200, 0x8_f800, 0, "elsewhere"),
    ];
    b
}

#[test]
fn why_code_has_no_name_is_the_same_in_a_packed_recording_and_in_a_piece_of_it() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let [plain, packed, piece] = ["plain", "packed", "piece"].map(|name| folder.path().join(name));
    let mut b = story("");
    b.jit.clear();
    let images = [(ImageKind::SPECIAL, "/dev/dri/card0"), (ImageKind::FILE, "/gone/lib.so")];
    let stack = images.map(|(kind, path)| Location::Image { image: b.image(kind, path), file_off: 0x1234 });
    let task = b.task(100, 100, "one");
    let stack = b.stack_at(&[&stack[..], &[Location::Address(0x9_0010), Location::Address(0x77)]].concat());
    b.sample(40_000_000, 0, task, &[], &[]).user_stack = stack;
    b.write(&plain, true).expect("room");
    report(&["pack".as_ref(), plain.as_os_str(), "-o".as_ref(), packed.as_os_str()]);
    report(
        &["cut", "--pid", "100", "-o"]
            .map(AsRef::as_ref)
            .into_iter()
            .chain([piece.as_os_str(), packed.as_os_str()])
            .collect::<Vec<&std::ffi::OsStr>>(),
    );
    let reasons = |path: &Path| {
        let out = report(&[
            "samples".as_ref(),
            path.as_os_str(),
            "--pid".as_ref(),
            "100".as_ref(),
            "--json".as_ref(),
        ]);
        let samples = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let frames = samples.flat_map(|sample| sample["frames"].as_array().expect("a list").clone());
        frames.map(|frame| frame["reason"].as_str().unwrap_or("named").to_owned()).collect::<Vec<_>>()
    };
    let told = reasons(&plain);
    let distinct: BTreeSet<&str> = told.iter().map(String::as_str).collect();
    assert_eq!(distinct, BTreeSet::from(["image_missing", "jit", "special", "unmapped"]));
    assert_eq!(reasons(&packed), told);
    assert_eq!(reasons(&piece), told);
}

/// Returns process and frame names of each sample, sorted.
fn told(path: &Path, options: &[&str]) -> Vec<String> {
    let args = ["samples", &path.display().to_string(), "--json"].map(str::to_owned);
    let options = options.iter().map(|option| (*option).to_owned());
    let out = report(&args.into_iter().chain(options).collect::<Vec<_>>());
    let line = |line: &str| {
        let sample = Sample(serde_json::from_str(line).expect("JSON"));
        format!("{} {}", sample.number("tgid"), sample.names("user").join(";"))
    };
    let mut lines: Vec<String> = out.lines().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn jit_code_is_named_by_process_and_moment_in_pieces_and_in_merged_recordings() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let at = |name: &str| folder.path().join(name);
    story("").write(&at("a"), true).expect("room");
    let mut second = story("second-");
    second.uuid = Some([7; 16]);
    second.write(&at("b"), true).expect("room");
    // The return address lies after the piece to which it belongs, and 0x9_0100 - 1 in it.
    let of = |p: &str| {
        let name = |tgid, name: &str| format!("{tgid} {p}{name};{p}{name}");
        vec![
            name(100, "after"),
            name(100, "after"),
            name(100, "before"),
            name(200, "other"),
            name(200, "other"),
            name(200, "other"),
        ]
    };
    assert_eq!(told(&at("a"), &[]), of(""));
    let run = |args: &[&str]| {
        let path = |word: &&str| {
            if word.len() == 1 || word.contains('.') { at(word).into_os_string() } else { word.into() }
        };
        report(&args.iter().map(path).collect::<Vec<_>>());
    };
    run(&["merge", "a", "b", "-o", "c.both"]);
    run(&["verify", "c.both"]);
    let mut both = [of(""), of("second-")].concat();
    both.sort();
    assert_eq!(told(&at("c.both"), &[]), both);
    run(&["cut", "c.both", "--pid", "100", "-o", "d.piece"]);
    run(&["verify", "d.piece"]);
    assert_eq!(told(&at("d.piece"), &[]), told(&at("c.both"), &["--pid", "100"]));
    let info: Value =
        serde_json::from_str(&report(&["info".as_ref(), at("d.piece").as_os_str(), "--json".as_ref()]))
            .expect("JSON");
    assert_eq!(info["jit"], 4, "only what is needed is kept");
}
