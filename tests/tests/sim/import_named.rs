//! Profiles of other tools become recordings, in which each function weighs as much as in programs that others wrote to read them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, SamplingInterval, Timestamp,
};
use icecore_tests::exports::{Ours, Theirs, export, read, tracks};
use icecore_tests::machine::{report, report_output, text};
use icecore_tests::synthetic::{Builder, busy, deep, hostile, wide};
use serde_json::Value;

/// Imports a file beside it; returns the recording and what the command said. The recording is well.
fn imported(file: &Path) -> (PathBuf, Value) {
    let out = file.with_extension("imported");
    let words = [
        "import".as_ref(),
        file.as_os_str(),
        "-o".as_ref(),
        out.as_os_str(),
        "--force".as_ref(),
        "--json".as_ref(),
    ];
    let said = serde_json::from_str(&report(&words)).expect("JSON");
    report(&["verify".as_ref(), out.as_os_str()]);
    (out, said)
}

/// Compares the functions of one event of an imported recording. Views shorten very long names, and once more if they were shortened
/// before: these are not compared.
fn assert_equal(recording: &Path, event: &str, what: &str, theirs: Theirs, unit: f64) {
    let is_long = |name: &str| name.len() > 1000;
    let mut ours = Ours { without_marks: true, ..Ours::new(recording, event, &[]) };
    ours.weights.retain(|name, _| !is_long(name));
    ours.assert_equal(&format!("{what} of {event}"), &theirs.without(is_long), unit, str::to_owned);
}

/// Compares all events of a file of pprof with what Go and another decoder say.
fn assert_pprof_equal(file: &Path) {
    let read = read("pprof", file.as_os_str(), &[]);
    let (recording, said) = imported(file);
    assert_eq!(said["format"], "pprof");
    let events = said["events"].as_array().expect("events");
    assert!(!events.is_empty());
    for event in events.iter().map(|event| event.as_str().expect("a name")) {
        let theirs = Theirs::of(&read, event);
        if theirs.total > 0.0 {
            assert_equal(&recording, event, "pprof", theirs, 1.0);
        }
    }
}

/// Compares the tracks of a profile of the Firefox Profiler with what its own command line says.
fn assert_firefox_equal(file: &Path, of_main: &str) {
    let read = read("firefox", file.as_os_str(), &[]);
    let (recording, said) = imported(file);
    assert_eq!(said["format"], "firefox");
    let events: Vec<&str> =
        said["events"].as_array().expect("events").iter().filter_map(Value::as_str).collect();
    // The first event of a track is that of tracks whose names say none.
    let mut names = vec![of_main];
    names.extend(events.iter().filter(|event| **event != of_main));
    for event in events {
        let top =
            ["top".as_ref(), recording.as_os_str(), "--event".as_ref(), event.as_ref(), "--json".as_ref()];
        let top: Value = serde_json::from_str(&report(&top)).expect("JSON");
        let unit = if top["unit"] == "ns" { 1e6 } else { 1.0 };
        assert_equal(&recording, event, "firefox", tracks(&names, event, &read), unit);
    }
}

/// Sums of folded stacks as viewers add them up: without marks.
fn folded(text: &str) -> Theirs {
    let mut theirs = Theirs::default();
    for line in text.lines() {
        let (stack, weight) = line.rsplit_once(' ').expect("a stack and a weight");
        let weight: f64 = weight.parse().expect("a number");
        let plain = |frame: &str| {
            let mark =
                ["_[j]", "_[i]", "_[k]", "_[0]", "_[1]"].iter().find_map(|mark| frame.strip_suffix(mark));
            mark.unwrap_or(frame).to_owned()
        };
        let frames: Vec<String> = stack.split(';').map(plain).collect();
        theirs.total += weight;
        for frame in frames.iter().collect::<BTreeSet<_>>() {
            theirs.functions.entry(frame.clone()).or_default().1 += weight;
        }
        theirs.functions.entry(frames[frames.len() - 1].clone()).or_default().0 += weight;
    }
    theirs
}

fn assert_folded_equal(file: &Path) {
    let theirs = folded(&std::fs::read_to_string(file).expect("UTF-8"));
    let (recording, said) = imported(file);
    assert_eq!((said["format"].as_str(), said["damage"].as_array().map(Vec::len)), (Some("folded"), Some(0)));
    assert_equal(&recording, "samples", "folded", theirs, 1.0);
}

/// Exports made-up recordings in a format.
fn exported(format: &str, all: Vec<Builder>, check: impl Fn(&Path)) {
    for recording in all {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("r.icecore");
        recording.write(&path, true).expect("written");
        check(&export(&path, format, &[]).0);
    }
}

#[test]
fn our_pprof_comes_back() {
    exported("pprof", vec![busy(), deep(), wide(), hostile()], assert_pprof_equal);
}

#[test]
fn our_folded_stacks_come_back() {
    exported("folded", vec![busy(), wide(), hostile()], assert_folded_equal);
}

#[test]
fn our_profiles_of_the_firefox_profiler_come_back() {
    exported("firefox", vec![busy(), deep(), wide(), hostile()], |file| assert_firefox_equal(file, "time"));
}

#[test]
fn profiles_of_go_weigh_as_go_says_also_after_go_has_written_them_again() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let at = |name: &str| dir.path().join(name);
    let mut go = Command::new("go");
    go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/go"));
    go.env("GO111MODULE", "off").env("GOCACHE", at("cache"));
    let out = go.arg("build").arg("-o").arg(at("profiles")).arg("profiles.go").output();
    let out = out.expect("go is installed by tests/setup.sh");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let status = Command::new(at("profiles")).args([at("cpu.pb.gz"), at("heap.pb.gz")]).status();
    assert!(status.expect("it runs").success());
    let again = Command::new("go")
        .args(["tool", "pprof", "-proto"])
        .arg(at("cpu.pb.gz"))
        .env("HOME", dir.path())
        .output();
    std::fs::write(at("again.pb.gz"), again.expect("go runs").stdout).expect("written");
    let plain = Command::new("gunzip").arg("-c").arg(at("heap.pb.gz")).output().expect("gunzip runs").stdout;
    std::fs::write(at("plain.pb"), plain).expect("written");
    for name in ["cpu.pb.gz", "heap.pb.gz", "again.pb.gz", "plain.pb"] {
        assert_pprof_equal(&at(name));
    }
    let (recording, _) = imported(&at("cpu.pb.gz"));
    let lines = report(&[
        "top".as_ref(),
        recording.as_os_str(),
        "--by".as_ref(),
        "line".as_ref(),
        "--event".as_ref(),
        "cpu".as_ref(),
    ]);
    assert!(lines.contains("profiles.go:"), "{lines}");
}

#[test]
fn a_profile_that_samply_writes_comes_back() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let file = dir.path().join("samply.json");
    let zero = Timestamp::from_nanos_since_reference(0);
    let mut profile =
        Profile::new("prog", std::time::SystemTime::now().into(), SamplingInterval::from_millis(1));
    let kernel = profile.add_category("Kernel", CategoryColor::Orange);
    let user = profile.add_category("User", CategoryColor::Yellow);
    let process = profile.add_process("prog", 7, zero);
    for tid in [7, 8] {
        let thread = profile.add_thread(process, tid, zero, tid == 7);
        profile.set_thread_name(thread, "worker");
        for (at, names) in (1_u64..).zip([&["main", "f"][..], &["main", "f", "sys_read"], &["main"], &[]]) {
            let frame = |(position, name): (usize, &&str)| FrameInfo {
                frame: Frame::Label(profile.intern_string(name)),
                category_pair: if position == 2 { kernel.into() } else { user.into() },
                flags: FrameFlags::empty(),
            };
            let frames: Vec<FrameInfo> = names.iter().enumerate().map(frame).collect();
            let stack = profile.intern_stack_frames(thread, frames.into_iter());
            let time = Timestamp::from_nanos_since_reference(at * 1_000_000);
            profile.add_sample(thread, time, stack, CpuDelta::from_nanos(1), 1);
        }
    }
    serde_json::to_writer(std::fs::File::create(&file).expect("room"), &profile).expect("written");
    assert_firefox_equal(&file, "samples");
    let (recording, said) = imported(&file);
    assert_eq!(said["samples"], 6);
    assert_eq!(said["not_imported"][0]["what"], "sample_without_stack");
    let samples = report(&["samples".as_ref(), recording.as_os_str(), "--json".as_ref()]);
    let last: Value = serde_json::from_str(samples.lines().last().expect("samples")).expect("JSON");
    assert_eq!((last["tgid"].as_u64(), last["comm"].as_str()), (Some(7), Some("worker")), "{last}");
}

#[test]
fn what_inferno_makes_of_the_text_of_perf_script_weighs_the_same() {
    exported("perf-script", vec![busy()], |file| {
        let mut options = inferno::collapse::perf::Options::default();
        (options.nthreads, options.annotate_kernel, options.annotate_jit) = (1, true, true);
        let mut folder = inferno::collapse::perf::Folder::from(options);
        let folded = file.with_extension("folded");
        let out = std::fs::File::create(&folded).expect("room");
        inferno::collapse::Collapse::collapse_file(&mut folder, Some(file), out).expect("it reads the text");
        assert_folded_equal(&folded);
    });
}

#[test]
fn marks_of_async_profiler_are_sides_and_inlined_functions() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let file = dir.path().join("java.collapsed");
    let lines = "Thread.run_[j];App.work_[i];App.sum_[i] 5\nThread.run_[0];read_[1];do_syscall_64_[k];vfs_read_[k] \
                 1000000000000000000\n";
    std::fs::write(&file, lines).expect("written");
    assert_folded_equal(&file);
    let (recording, said) = imported(&file);
    assert_eq!(said["not_imported"][0]["what"], "mark_of_compiled_code");
    let top =
        report(&["top".as_ref(), recording.as_os_str(), "--json".as_ref(), "-n".as_ref(), "0".as_ref()]);
    let top: Value = serde_json::from_str(&top).expect("JSON");
    let rows = top["rows"].as_array().expect("rows");
    let row = |name: &str| rows.iter().find(|row| row["name"] == name);
    assert!(row("App.sum").is_none() && row("Thread.run").is_some(), "{top:#}");
    assert_eq!(row("vfs_read").expect("it is there")["side"], "kernel", "{top:#}");
}

/// Encodes a field of a message.
fn field(tag: u8, value: &[u8]) -> Vec<u8> {
    [&[tag << 3 | 2, value.len() as u8][..], value].concat()
}

#[test]
fn simpleperf_comes_back_with_threads_times_and_losses() {
    let record = |body: Vec<u8>| [&(body.len() as u32).to_le_bytes()[..], &body].concat();
    let text = |tag: u8, text: &str| field(tag, text.as_bytes());
    // Numbers below 128 are one byte.
    let number = |tag: u8, value: u8| vec![tag << 3, value];
    let entry =
        |file: u8, symbol: u8| field(3, &[number(1, 16), number(2, file), number(3, symbol)].concat());
    let sample = |time: u8, entries: &[Vec<u8>], count: u8| {
        record(field(
            1,
            &[number(1, time), number(2, 9), entries.concat(), number(4, count), number(5, 0)].concat(),
        ))
    };
    let names = [
        number(1, 0),
        text(2, "/data/lib.so"),
        text(3, "f"),
        text(3, "main"),
        text(4, "_Zf"),
        text(4, "main"),
    ];
    let kernel = [number(1, 1), text(2, "[kernel.kallsyms]"), text(3, "sys_read")];
    let records = [
        sample(50, &[entry(0, 0), entry(0, 1)], 5),
        sample(40, &[entry(1, 0), entry(0, 0), entry(0, 1)], 7),
        record(field(2, &[number(1, 2), number(2, 3)].concat())),
        record(field(3, &names.concat())),
        record(field(3, &kernel.concat())),
        record(field(4, &[number(1, 9), number(2, 8), text(3, "RenderThread")].concat())),
        record(field(5, &text(1, "cpu-cycles"))),
    ];
    let all = [&b"SIMPLEPERF\x01\0"[..], &records.concat(), &[0; 4]].concat();
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let file = dir.path().join("report_sample.trace");
    std::fs::write(&file, &all).expect("written");
    let (recording, said) = imported(&file);
    let facts = ["format", "samples", "lost"].map(|key| said[key].clone());
    assert_eq!(facts, ["simpleperf".into(), 2.into(), Value::from(3)]);
    let theirs = folded("main;f 5\nmain;f;sys_read 7");
    assert_equal(&recording, "cpu-cycles", "simpleperf", theirs, 1.0);
    let processes = report(&["top".as_ref(), recording.as_os_str(), "--by".as_ref(), "thread".as_ref()]);
    assert!(processes.contains("RenderThread"), "{processes}");
    std::fs::write(&file, &all[..all.len() - 7]).expect("written");
    assert_eq!(imported(&file).1["damage"][0]["offset"], all.len() - 4 - records[6].len());
}

#[test]
fn code_without_functions_is_named_by_files_with_the_build_id_and_other_code_by_none() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let [source, program, file] = ["x.c", "x", "x.pb"].map(|name| dir.path().join(name));
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("written");
    let mut cc = Command::new("cc");
    cc.args(["-no-pie", "-Wl,--build-id=0x0a0b0c0d0e0f", "-o"]).arg(&program).arg(&source);
    assert!(cc.status().expect("there is a compiler").success());
    let symbols = Command::new("nm").arg(&program).output().expect("nm runs").stdout;
    let symbols = text(&symbols);
    let main = symbols.lines().find_map(|line| line.strip_suffix(" T main")).expect("it has a symbol");
    // Without -pie a program begins at 4 MiB.
    let main = u64::from_str_radix(main, 16).expect("hexadecimal") - 0x40_0000;
    let path = program.to_str().expect("UTF-8");
    let number = |tag: u8, value: u8| vec![tag << 3, value];
    let address = [3 << 3, main as u8 | 0x80, (main >> 7) as u8 | 0x80, (main >> 14) as u8];
    let profile = |build_id: &str, lines: &[u8]| {
        let texts = ["", "cpu", "count", path, build_id, "other"].map(|text| field(6, text.as_bytes()));
        [
            field(1, &[number(1, 1), number(2, 2)].concat()),
            field(2, &[field(1, &[1]), field(2, &[7])].concat()),
            field(3, &[number(1, 1), number(5, 3), number(6, 4)].concat()),
            field(4, &[&number(1, 1)[..], &number(2, 1), &address, lines].concat()),
            field(5, &[number(1, 1), number(2, 5)].concat()),
            texts.concat(),
        ]
        .concat()
    };
    let line = field(4, &number(1, 1));
    for (build_id, lines, name) in [
        ("0a0b0c0d0e0f", &[][..], "main"),
        ("0a0b0c0d0e0f", &line, "other"),
        ("0a0b0c0d0e00", &[], "x+0x"),
        ("", &[], path),
        ("", &line, "other"),
    ] {
        std::fs::write(&file, profile(build_id, lines)).expect("written");
        let top = report(&[
            "top".as_ref(),
            imported(&file).0.as_os_str(),
            "--no-cache".as_ref(),
            "--json".as_ref(),
        ]);
        let top: Value = serde_json::from_str(&top).expect("JSON");
        let named = top["rows"][0]["name"].as_str().expect("a name");
        assert!(named.starts_with(name), "{build_id}: {named}");
    }
}

#[test]
fn what_is_no_profile_is_refused_with_all_that_import_reads() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (file, out) = (dir.path().join("x"), dir.path().join("r.icecore"));
    let said = |bytes: &[u8], by_pipe: bool| {
        std::fs::write(&file, bytes).expect("written");
        let words: [&OsStr; 5] = [
            "import".as_ref(),
            if by_pipe { "-".as_ref() } else { file.as_os_str() },
            "-o".as_ref(),
            out.as_os_str(),
            "--force".as_ref(),
        ];
        let run = if by_pipe { piped(&words, bytes) } else { report_output(&words) };
        (run.status.code(), text(&run.stderr))
    };
    let program = std::fs::read("/proc/self/exe").expect("it runs");
    for other in [&b""[..], b"hello\n", &program[..4096], b"{\"a\": 1}", b"y\ny\n"] {
        for by_pipe in [false, true] {
            let (code, said) = said(other, by_pipe);
            assert!(code == Some(2) && said.contains("import reads perf.data, pprof, folded"), "{said}");
        }
    }
    assert!(!out.exists());
    assert_eq!(said(b"main;f 12\n", true).0, Some(0));
    let (_, cut) = said(b"{\"meta\": {\"preprocessedProfileVersion\": 55}, \"threads\": [", false);
    assert!(cut.contains("EOF") && cut.contains("copy it here once more"), "{cut}");
    let (_, cut) = said(b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x20cpu", false);
    assert!(cut.contains("byte "), "{cut}");
}

/// Runs the report with bytes on its stdin.
fn piped(words: &[&OsStr], bytes: &[u8]) -> std::process::Output {
    let mut command = Command::new(icecore_tests::machine::program("icecore-report"));
    let child =
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it runs");
    // It may refuse the bytes before it has read them all.
    let _ = child.stdin.take().expect("piped").write_all(bytes);
    child.wait_with_output().expect("it ends")
}
