//! Every version reads the recordings of all released versions: `tests/corpus/NAME.hex`, with the output of `info --json` and
//! `samples --json` at the time when it was written.
//!
//! Views may show more than they did then (docs/JSON.md), and may describe damage in other words.
//!
//! `ICECORE_REWRITE_CORPUS=1 cargo test -p icecore-tests --test sim -- corpus::` rewrites the recordings of this version and the
//! outputs. That is right only before they are released: those that `tests/corpus/released` lists are
//! never rewritten. When a released recording cannot be read any more, repair the reader. When the layout of a payload
//! changes after a release, it is a new version of its kind, and gets a recording with a new name.

use std::collections::BTreeSet;

use icecore_format::block::{BlockHeader, Kind};
use icecore_format::header::{EndMark, FileHeader};
use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{
    Basis, Cause, Change, CodeFrame, CodePlace, CodeReference, CodeStretch, Counter, CounterValue, EndReason,
    EventV1, Field, FieldKind, ImageKind, ImagePartsV1, JitCode, JitInlined, JitLine, KernelSymbol, Language,
    LeftOut, Location, Loss, NameTable, NamedFrame, NamedFunction, NamedPlace, Omission, Origin, Owner,
    Piece, RateCause, RateChange, ReceiptV1, SessionV1, SourceFile, SourceProof, Symbol, TriggerCause,
    TriggerV1, Wait, WaitFlags, WaitState, WalkEnd, WokenBy, Word,
};
use icecore_report::{Streams, run};
use icecore_tests::corpus::{folder, recordings, released, to_hex};
use icecore_tests::synthetic::{Builder, Copied, KERNEL, MOUNT_NS, PERIOD_NS, START_NS, meaning, session};
use serde_json::Value;

/// Returns the JSON of a view: one document, or one a line.
fn said(name: &str, bytes: &[u8], view: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("room");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams::plain(&mut out, &mut err);
    let path = path.display().to_string();
    let line = ["icecore-report", view, &path, "--json"];
    // Waits are not shown unless they are asked for.
    let all: &[&str] = if view == "samples" { &["--event", "*"] } else { &[] };
    let code = run(line.iter().chain(all), &mut streams);
    let err = String::from_utf8_lossy(&err);
    assert!(code == 0 && err.lines().all(|line| line.starts_with("warning: ")), "{name}: {view}: {err}");
    let text = String::from_utf8(out).expect("UTF-8");
    text.replace(&format!("{}/", dir.path().display()), "")
}

/// Returns true if a document contains everything that it contained before.
fn still_says(now: &Value, then: &Value) -> bool {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => then
            .iter()
            .all(|(key, then)| now.get(key).is_some_and(|now| key == "damage" || still_says(now, then))),
        (Value::Array(now), Value::Array(then)) => {
            now.len() == then.len() && now.iter().zip(then).all(|(now, then)| still_says(now, then))
        }
        _ => now == then,
    }
}

fn documents(text: &str) -> Vec<Value> {
    let documents = serde_json::Deserializer::from_str(text).into_iter();
    documents.map(|document| document.expect("JSON")).collect()
}

#[test]
fn every_recording_reads_as_it_did_when_it_was_written() {
    if std::env::var_os("ICECORE_REWRITE_CORPUS").is_some() {
        rewrite();
    }
    let recordings = recordings();
    assert!(recordings.len() >= 6, "the corpus is not whole");
    for (name, bytes) in &recordings {
        for view in ["info", "samples"] {
            let then =
                std::fs::read_to_string(folder().join(format!("{name}.{view}.json"))).expect("beside it");
            let (now, then) = (documents(&said(name, bytes, view)), documents(&then));
            assert_eq!(now.len(), then.len(), "{name}: documents of {view}");
            for (now, then) in now.iter().zip(&then) {
                assert!(
                    still_says(now, then),
                    "{name}: {view} said\n{then:#}\nand says\n{now:#}\n\
                     If no release has written this recording, ICECORE_REWRITE_CORPUS=1 writes it anew."
                );
            }
        }
    }
}

#[test]
fn released_recordings_are_never_rewritten() {
    let recordings = recordings();
    for (name, crc) in released() {
        let found = recordings.iter().find(|(found, _)| *found == name);
        let (_, bytes) = found.unwrap_or_else(|| panic!("the released recording {name} is gone"));
        assert_eq!(crc32fast::hash(bytes), crc, "the released recording {name} was changed");
    }
    let released = released();
    for (name, bytes) in recordings.iter().filter(|(name, _)| released.iter().all(|(found, _)| found != name))
    {
        println!("not released yet: {:08x} {name}", crc32fast::hash(bytes));
    }
}

#[test]
fn the_corpus_has_what_a_reader_must_stand() {
    let recordings = recordings();
    let documents_of = |name: &str, view: &str| {
        let (_, bytes) = recordings.iter().find(|(found, _)| found == name).expect("it is in the corpus");
        documents(&said(name, bytes, view))
    };
    for (name, is_closed, samples, is_damaged) in [
        ("v1-closed", true, 8, false),
        ("v1-open", false, 4, true),
        ("v1-damaged", true, 4, true),
        ("v1-newer", false, 4, false),
        ("v1-merged", true, 9, false),
        ("v1-paused", true, 4, false),
    ] {
        let summary = &documents_of(name, "summary")[0];
        assert_eq!(summary["closed"], is_closed, "{name}");
        assert_eq!(summary["damage"] != Value::from(Vec::<u8>::new()), is_damaged, "{name}");
        assert_eq!(documents_of(name, "samples").len(), samples, "{name}");
    }
    let unknown = documents_of("v1-newer", "info").swap_remove(0)["unknown"].take();
    let unknown: BTreeSet<_> = unknown.as_array().expect("a list").iter().map(kind_and_version).collect();
    assert_eq!(unknown, BTreeSet::from([("kind_900", 1), ("samples", 2)]));
}

#[test]
fn no_share_is_more_than_all() {
    for (name, bytes) in recordings() {
        for document in ["summary", "health"].map(|view| documents(&said(&name, &bytes, view)).swap_remove(0))
        {
            let fields = document.as_object().expect("an object");
            let shares: Vec<_> = fields.iter().filter(|(key, _)| key.ends_with("_share")).collect();
            assert!(shares.len() >= 3, "{name}: {shares:?}");
            for (key, share) in shares {
                assert!(
                    share.as_f64().is_none_or(|share| (0.0..=1.0).contains(&share)),
                    "{name}: {key} {share}"
                );
            }
        }
    }
}

fn kind_and_version(row: &Value) -> (&str, u64) {
    (row["kind"].as_str().expect("text"), row["version"].as_u64().expect("a number"))
}

/// Writes the recordings of this version, and the output of the views.
fn rewrite() {
    let released = released();
    for (name, bytes) in [
        ("v1-closed", written(true)),
        ("v1-open", torn()),
        ("v1-damaged", damaged()),
        ("v1-newer", newer()),
        ("v1-merged", merged()),
        ("v1-paused", paused()),
    ] {
        if released.iter().any(|(found, _)| found == name) {
            println!("{name} is released, and stays as it is");
            continue;
        }
        assert!(bytes.len() <= 8192, "{name}: {} bytes", bytes.len());
        let put = |end: &str, text: &str| {
            std::fs::write(folder().join(format!("{name}.{end}")), text).expect("the corpus can be written");
        };
        put("hex", &to_hex(&bytes));
        put("info.json", &said(name, &bytes, "info"));
        put("samples.json", &said(name, &bytes, "samples"));
    }
}

/// Returns a recording with most kinds of blocks and rows, and two blocks of samples.
fn tiny() -> Builder {
    let basis = Basis { unit_ns: 1_000, period_ns: PERIOD_NS, ..Basis::default() };
    let mut b = Builder::default();
    (b.block_len, b.basis) = (4, basis);
    let bin = b.image(ImageKind::FILE, "/no/such/bin/tiny");
    let heap = b.image(ImageKind::ANONYMOUS, "//anon");
    b.trigger = Some(TriggerV1 {
        time_ns: START_NS + 1_900_000_000,
        asked_ns: 30_000_000_000,
        what: "rss(tiny)>4G: 4.1 GiB (process 100)".to_owned(),
        cause: TriggerCause::CONDITION,
        is_full: true,
    });
    b.change(1_000, Change::FOUND, 100, 1, "tiny");
    b.change(500_000_000, Change::FORK, 101, 100, "tiny");
    b.change(600_000_000, Change::EXEC, 101, 0, "child");
    b.change(900_000_000, Change::EXIT, 101, 0, "child");
    b.cgroup(1_500, 100, "/tiny.slice");
    b.cgroup(650_000_000, 101, "/tiny.slice/child");
    b.map(2_000, 100, 0x1_0000, bin, Origin::SCAN);
    b.map(3_000, 100, 0x9_0000, heap, Origin::EVENT);
    b.map(600_000_000, 101, 0x5_0000, bin, Origin::EVENT);
    for (mapping, mount_ns) in b.mappings.iter_mut().zip([MOUNT_NS, 0, MOUNT_NS + 366]) {
        mapping.mount_ns = mount_ns;
    }
    let name = b.string("vfs_read");
    b.kernel_symbols.push(KernelSymbol { start: KERNEL, end: KERNEL + 0x100, name, module: 0 });
    let (names, file) = (vec![b"_ZN4tiny4workEv".to_vec(), b"work_v1@@V1".to_vec()], b"tiny.cc".to_vec());
    let (start, end, address, whole) = (0x1200, 0x1280, 0x2200, 0x2100);
    b.symbols.push(Symbol { image: bin, start, end, address, whole, names, file });
    b.symbols.push(Symbol { names: Vec::new(), ..Symbol::new(bin, 0x1280..0x1290, "") });
    let pieces = [Piece { off: 0, bytes: &b"\x7fELF"[..] }, Piece { off: 0x2000, bytes: b".symtab" }];
    b.image_parts.push(ImagePartsV1::from_rows(bin, 0x3000, &pieces));
    let (start, since_ns) = (0x9_0000, START_NS + 3_000);
    let (end, until_ns, name) = (start + 0x80, START_NS + 900_000_000, b"JS:*tiny /tiny.js:1:2".to_vec());
    let [file, inlined] = ["/src/tiny.js", "JS:inlined /src/tiny.js:7:1"].map(|text| b.string(text));
    let line = |off, line| JitLine { off, file, line, inlined: Vec::new() };
    let inlined = vec![JitInlined { name: inlined, call_file: file, call_line: 5 }];
    let lines = vec![line(0, 3), JitLine { inlined, ..line(0x10, 8) }];
    let rules = b"\x0c\0\0\0\0\0\0\0rules of".to_vec();
    let language = Language::JAVA;
    b.jit.push(JitCode { tgid: 100, start, end, since_ns, until_ns, name, rules, lines, language });
    let (why, needed_bytes, free_bytes) = (Omission::REDUCED, 0x3000, 0x2800);
    b.left_out.push(LeftOut { image: bin, why, needed_bytes, free_bytes });
    let frame = |function, line| NamedFrame { function, file: Some(2), line };
    let inner = NamedFunction {
        symbol: Some(3),
        declared_file: Some(2),
        declared_line: 1,
        entry: Some((0, 0x2a)),
        ..NamedFunction::default()
    };
    let work =
        NamedFunction { name: 1, start: 0x2200, file: Some(4), aliases: vec![5], ..NamedFunction::default() };
    let texts = ["tiny::inner()", "tiny::work()", "/src/tiny.cc", "_ZN4tiny5innerEv", "tiny.cc", "work_v1"];
    let place = |file_off, address, start, frames| NamedPlace {
        image: bin,
        file_off,
        address,
        start,
        frames,
        calls: None,
    };
    b.names = NameTable {
        places: vec![
            NamedPlace { calls: Some(5), ..place(0x1210, 0x2210, 0, 0..2) },
            place(0x1310, 0x2310, 0x2300, 2..2),
        ],
        frames: vec![frame(0, 4), frame(1, 9)],
        functions: vec![inner, work],
        texts: texts.map(|text| text.as_bytes().into()).to_vec(),
    };
    let (path, text) =
        (b"/src/tiny.cc"[..].into(), b"int inner();\nint work() { return inner(); }\n"[..].into());
    let proof = SourceProof::MD5;
    b.sources.files.push(SourceFile { image: bin, path: 0, text: 1, proof, modified_unix_ns: 1_000_000_000 });
    b.sources.texts = vec![path, text];
    let frame = |name, line| CodeFrame { name, file: Some(2), line };
    let places = vec![
        CodePlace { begin: 0, frames: vec![frame(0, 2)] },
        CodePlace { begin: 4, frames: vec![frame(1, 1), frame(0, 2)] },
    ];
    b.code.stretches.push(CodeStretch {
        image: bin,
        file_off: 0x1230,
        address: 0x40_1230,
        machine: 62,
        name: Some(0),
        bytes: b"\x0f\x1f\x40\x00\xe8\x07\x00\x00\x00\xc3".to_vec(),
        places,
        refers: vec![CodeReference { at: 0x40_1240, name: 1, offset: 0 }],
    });
    b.code.texts = ["work()", "inner()", "/src/tiny.cc"].map(|text| text.as_bytes().into()).to_vec();
    let (main, child) = (b.task(100, 100, "tiny"), b.task(101, 101, "child"));
    let at = |file_off| Location::Image { image: bin, file_off };
    let stack = b.stack_at(&[at(0x1234), at(0x1050)]);
    let jit = b.stack_at(&[Location::Address(0x9_0010), at(0x1050)]);
    // The walk of the first sample has skipped a caller; of the second stack all but the top was not copied.
    let copied = Copied { anchor: 0x7ff0_0000_1000, depth: 0x900, copied: 0x900 };
    let whole = b.held.frames(copied, &[(0x7ff0_0000_0720, at(0x1144)), (0x7ff0_0000_0f00, at(0x1050))]);
    let words = [(0x7ff0_0000_0710, Word::Stack(-0x10)), (0x7ff0_0000_0778, Word::Code(0))];
    let registers = [(0, Word::Code(b.held.code(Location::Address(0x9_0020)))), (12, Word::Stack(0x80))];
    let cut = b.held.snapshot(Copied { copied: 0x80, ..copied }, &registers, &words);
    let sample = b.sample(10_000_000, 0, main, &[], &[]);
    (sample.user_stack, sample.snapshot) = (stack, whole);
    b.sample(10_250_000, 1, main, &[], &[KERNEL + 0x10]).user_stack = stack;
    let sample = b.sample(11_003_000, 0, main, &[], &[]);
    (sample.user_stack, sample.snapshot) = (jit, cut);
    b.sample(700_000_000, 0, child, &[], &[]).user_stack = stack;
    b.sample(701_000_000, 0, child, &[0x77, 0x5_0040], &[]).user_end = WalkEnd::NOT_MONOTONIC;
    b.sample(702_000_000, 0, main, &[], &[KERNEL + 0x10, KERNEL + 0x4000]).weight = 2 * PERIOD_NS;
    let time_ns = START_NS + 800_000_000;
    let losses =
        [(1, Cause::RING_FULL_SAMPLE, 5), (0, Cause::UNPAIRED, 2), (u32::MAX, Cause::MISSED_RUNS, 3)];
    b.losses.extend(losses.map(|(cpu, cause, count)| Loss { time_ns, cpu, ..Loss::of(cause, count) }));
    waits(&mut b, main, child, stack);
    b.rates = vec![
        rate(300_000_000, RateChange::WHOLE / 4, RateCause::CPU, 24_000, 10_000),
        rate(650_000_000, RateChange::WHOLE, RateCause::CONTROL, 4242, 0),
    ];
    fields(&mut b, main);
    counters(&mut b);
    b.receipt = Some(ReceiptV1 {
        end_ns: START_NS + 1_000_000_000,
        end_reason: EndReason::DURATION,
        exit_code: -1,
        samples: 8,
        lost: 7,
        ..ReceiptV1::default()
    });
    b
}

fn rate(at_ns: u64, share: u32, cause: RateCause, measured: u64, limit: u64) -> RateChange {
    RateChange { time_ns: START_NS + at_ns, share, cause, measured, limit }
}

/// Adds a thread that waits until another one wakes it.
fn waits(b: &mut Builder, main: u32, child: u32, stack: u32) {
    let event = |name: &str, frequency_hz, period| EventV1 {
        name: name.into(),
        unit: "ns".into(),
        frequency_hz,
        period,
        meaning: meaning(name),
    };
    let events =
        vec![event("cpu-clock", 1000, 0), event("off-cpu", 0, PERIOD_NS), event("waker", 0, PERIOD_NS)];
    b.session = Some(SessionV1 { events, ..session() });
    for (at_ns, task, event, weight) in
        [(850_000_000, main, 1, 140_000_000), (849_980_000, child, 2, 140_000_000)]
    {
        let sample = b.sample(at_ns, 0, task, &[], &[KERNEL + 0x20]);
        (sample.event, sample.weight, sample.user_stack) = (event, weight, stack);
    }
    let time_ns = START_NS + 850_000_000;
    let wait = Wait {
        time_ns,
        task: main,
        event: 1,
        state: WaitState::SLEEPING,
        flags: WaitFlags::default(),
        woken_by: WokenBy::THREAD,
        began_ns: time_ns - 140_000_000,
        ended_ns: time_ns,
        waker_task: Some(child),
        waker_time_ns: time_ns - 20_000,
    };
    b.waits.push(wait);
}

/// Adds values of all kinds to samples that are there.
fn fields(b: &mut Builder, task: u32) {
    let (name, text) = (b.string("ret"), b.string("/tiny/tar"));
    for (at_ns, event, kind, number, text) in [
        (10_250_000, 0, FieldKind::SIGNED, (-2_i64).cast_unsigned(), 0),
        (11_003_000, 0, FieldKind::UNSIGNED, u64::MAX, 0),
        (702_000_000, 0, FieldKind::TEXT_CUT, 0, text),
        (850_000_000, 1, FieldKind::TEXT, 0, text),
    ] {
        b.fields.push(Field { time_ns: START_NS + at_ns, task, event, name, kind, number, text });
    }
}

/// Adds two readings of the machine, of a process and of its cgroup.
fn counters(b: &mut Builder) {
    let path = b.string("/tiny.slice");
    for (n, at_ns) in [(1, 10_000_000), (2, 800_000_000)] {
        for (owner, counter, value) in [
            (Owner::Machine, Counter::CPU, 5_000_000_000 * n),
            (Owner::Machine, Counter::MEMORY, 7 << 30),
            (Owner::Process(100), Counter::CPU, 3_000_000 * n),
            (Owner::Process(100), Counter::MEMORY_PEAK, (9 << 20) * n),
            (Owner::Cgroup(path), Counter::THREADS, 3 - n),
        ] {
            b.counters.push(CounterValue { time_ns: START_NS + at_ns, owner, counter, value });
        }
    }
}

fn written(close: bool) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("r");
    tiny().write(&path, close).expect("room");
    std::fs::read(path).expect("just written")
}

fn blocks(bytes: &[u8], kind: Kind) -> Vec<Entry> {
    let recording = Recording::from_bytes(bytes).expect("own file");
    recording.entries().iter().copied().filter(|entry| entry.header.kind == kind).collect()
}

/// Returns a recording whose recorder was killed while it wrote its second block of samples.
fn torn() -> Vec<u8> {
    let mut bytes = written(false);
    bytes.truncate(blocks(&bytes, Kind::SAMPLES)[1].off as usize + 100);
    bytes
}

/// Returns a stream in which a byte of the first block of samples was damaged, and one of the header of the losses.
fn damaged() -> Vec<u8> {
    let mut bytes = written(true);
    let header = FileHeader::decode(&bytes).expect("own file");
    let at = [blocks(&bytes, Kind::SAMPLES)[0].off + 70, blocks(&bytes, Kind::LOSSES)[0].off + 20];
    at.into_iter().for_each(|at| bytes[at as usize] ^= 1);
    bytes[..64].copy_from_slice(&FileHeader { mark: EndMark::Streamed, ..header }.encode());
    bytes
}

/// Returns what a later version may write: a compatible feature, another kind, a newer version of a kind.
fn newer() -> Vec<u8> {
    let mut bytes = written(false);
    let header = FileHeader { compatible: 1 << 40, ..FileHeader::decode(&bytes).expect("own file") };
    let (losses, samples) = (blocks(&bytes, Kind::LOSSES)[0], blocks(&bytes, Kind::SAMPLES)[1]);
    for (at, changed) in [
        (losses.off, BlockHeader { kind: Kind(900), ..losses.header }),
        (samples.off, BlockHeader { version: 2, ..samples.header }),
    ] {
        bytes[at as usize..at as usize + 64].copy_from_slice(&changed.encode(header.seed()));
    }
    bytes[..64].copy_from_slice(&header.encode());
    bytes
}

/// Returns two sessions of two hosts; the second has a single sample.
fn merged() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let [one, other, both] = ["one", "other", "both"].map(|name| dir.path().join(name));
    tiny().write(&one, true).expect("room");
    let mut brief = Builder::default();
    brief.uuid = Some([2; 16]);
    brief.session = Some(SessionV1 { host: "other".into(), notes: vec![], ..session() });
    let task = brief.task(100, 100, "brief");
    brief.sample(10_100_000, 0, task, &[0x1234], &[]);
    brief.write(&other, true).expect("room");
    let files = [&one, &other, &both].map(|path| path.display().to_string());
    let line = ["icecore-report", "merge", &files[0], &files[1], "-o", &files[2]];
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams::plain(&mut out, &mut err);
    assert_eq!(run(line.map(String::from), &mut streams), 0, "{}", String::from_utf8_lossy(&err));
    std::fs::read(both).expect("just written")
}

/// Returns a recording that samples, pauses, samples at half the rate, and pauses until it ends.
fn paused() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("r");
    let mut b = Builder::default();
    let task = b.task(100, 100, "paused");
    let (s, ms, samples) = (1_000_000_000, 1_000_000, [(100, 1), (101, 1), (3_100, 2), (3_102, 2)]);
    for (at_ms, periods) in samples {
        b.sample(at_ms * ms, 0, task, &[0x1234], &[]).weight = periods * PERIOD_NS;
    }
    b.rates = vec![
        rate(s, 0, RateCause::DUTY, 0, 0),
        rate(3 * s, RateChange::WHOLE / 2, RateCause::DISK, 3 << 20, 1 << 20),
        rate(4 * s, 0, RateCause::DISK, 2 << 20, 1 << 20),
    ];
    let (end_ns, end_reason, exit_code, samples) = (START_NS + 6 * s, EndReason::SIGNAL, -1, 4);
    b.receipt = Some(ReceiptV1 { end_ns, end_reason, exit_code, samples, ..ReceiptV1::default() });
    b.write(&path, true).expect("room");
    std::fs::read(path).expect("just written")
}

#[test]
fn what_is_said_may_grow_and_not_shrink() {
    let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let then = value(r#"{"a": [1, {"damage": "x"}], "b": null}"#);
    assert!(still_says(&value(r#"{"a": [1, {"damage": "y", "new": 1}], "b": null, "c": 2}"#), &then));
    assert!(!still_says(&value(r#"{"a": [1, {}], "b": null}"#), &then));
    assert!(!still_says(&value(r#"{"a": [1, {"damage": "x"}, 2], "b": null}"#), &then));
}
