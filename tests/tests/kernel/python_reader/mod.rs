//! Compares `tests/read_recording.py`, a reader that was written from docs/FORMAT.md alone, with `icecore-report`: so the
//! document is sufficient and right.

mod held;

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{
    Basis, CodeFrame, CodePlace, CodeReference, CodeStretch, CodeV1, Counter, CounterValue, CountersV1,
    CpuScope, CpuTime, CpuTimesV1, EmbedMode, Field, FieldKind, FieldsV1, ImagePartsV1, JitCode, JitInlined,
    JitLine, JitV1, Language, LeftOut, LeftOutV1, Location, MappingsV1, Mark, MissingFeature, NameTable,
    NamedFrame, NamedFunction, NamedPlace, NamesV1, Omission, Owner, Payload, Piece, RateCause, RateChange,
    RatesV1, ReceiptV1, SessionV1, SourceFile, SourcesV1, StackMarksV1, Symbol, SymbolsV1, TargetKind,
    TriggerCause, TriggerV1, UnwindMode, UnwindRule, UnwindRulesV1, Wait, WaitFlags, WaitState, WaitsV1,
    WokenBy,
};
use icecore_tests::corpus::recordings;
use icecore_tests::machine::{Recorded, python, report, target, text};
use icecore_tests::synthetic::{Builder, PERIOD_NS, START_NS, session, story};
use serde_json::{Value, json};

/// Returns the output of the Python reader for a file.
fn told_by_python(path: &Path, options: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("read_recording.py");
    let output = python().arg(script).arg(path).args(options).output().expect("Python runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

fn told_by_report(path: &Path, view: &str) -> String {
    report(&[view.as_ref(), path.as_os_str(), "--json".as_ref()])
}

/// Returns a sample of `samples --json` in the words of the Python reader.
fn as_python_says(sample: &Value) -> Value {
    let frames = || sample["frames"].as_array().expect("a list").iter();
    let kernel: Vec<&Value> = frames().filter(|f| f["side"] == "kernel").map(|f| &f["address"]).collect();
    // An inlined function has the address of the frame after it.
    let user: Vec<Value> = frames()
        .filter(|f| f["side"] == "user" && f["inlined"] == false)
        .map(|f| {
            if f["reason"] == "stack_lost" {
                json!({ "lost": true })
            } else {
                json!({ "image": f["image"], "offset": f["offset"], "address": f["address"] })
            }
        })
        .collect();
    let mut said = json!({ "kernel": kernel, "user": user });
    for key in ["time_ns", "tgid", "tid", "comm", "cgroup", "cpu", "event", "weight", "ended", "kernel_ended"]
    {
        said[key] = sample[key].clone();
    }
    said
}

/// Completes the frames of a Python sample: it has an address only if the recording has one, and an offset only if something is
/// mapped there.
fn completed(mut sample: Value, like: &Value) -> Value {
    let frames = sample["user"].as_array_mut().expect("a list");
    for (frame, like) in frames.iter_mut().zip(like["user"].as_array().expect("a list")) {
        let frame = frame.as_object_mut().expect("an object");
        if frame.contains_key("lost") {
            continue;
        }
        if !frame.contains_key("address") {
            frame.insert("address".into(), like["address"].clone());
        }
        // The reader does not choose the name of JIT code; it reads the rows that contain names.
        let is_jit = ["[jit]", "[python]", "[php]"].iter().any(|image| like["image"] == *image);
        for key in ["image", "offset"] {
            frame.entry(key).or_insert(Value::Null);
            if is_jit {
                frame.insert(key.into(), like[key].clone());
            }
        }
    }
    sample
}

/// Takes the report's frames for a user stack that the report has unwound, because this reader only walks. The leaf is the same.
fn repaired(mut sample: Value, like: &Value) -> Value {
    let has_snapshot = sample.as_object_mut().and_then(|sample| sample.remove("has_snapshot"));
    let frames = |sample: &Value| sample["user"].as_array().map_or(0, Vec::len);
    if has_snapshot == Some(json!(true)) && frames(&sample) < frames(like) {
        assert_eq!(sample["user"][0], like["user"][0]);
        (sample["user"], sample["ended"]) = (like["user"].clone(), like["ended"].clone());
    }
    sample
}

#[test]
fn python_has_every_kind() {
    let script = include_str!("../../../read_recording.py");
    let kinds = (1..).map(|number| Kind(number).name()).take_while(|name| !name.starts_with("kind_"));
    for kind in kinds {
        assert!(script.contains(&format!("\"{kind}\"")), "`KINDS` of read_recording.py lacks `{kind}`");
    }
}

/// Compares both readers; returns the number of samples.
fn agree(path: &Path, options: &[&str]) -> usize {
    let python = told_by_python(path, options);
    let info: Value = serde_json::from_str(&told_by_report(path, "info")).expect("JSON");
    // `info` trusts a whole index and does not look at the blocks.
    let believed = options.is_empty() && python["index"] != json!([]);
    let blocks = if believed { &python["index"] } else { &python["blocks"] };
    assert_eq!(*blocks, info["blocks"], "{}", path.display());
    assert_eq!(python["closed"], info["closed"], "{}", path.display());
    let unknown: u64 =
        info["unknown"].as_array().expect("a list").iter().filter_map(|row| row["blocks"].as_u64()).sum();
    assert_eq!(python["unknown_blocks"], unknown, "{}", path.display());
    let summary: Value = serde_json::from_str(&told_by_report(path, "summary")).expect("JSON");
    let (damage, nothing) = (&summary["damage"], json!([]));
    assert!(python["said"] != nothing || *damage == nothing, "{damage}");
    // A missing tail is no damage.
    let is_whole = info["closed"] == true && options.is_empty();
    assert!(python["said"] == nothing || *damage != nothing || !is_whole, "{}", python["said"]);
    let line = ["samples".as_ref(), path.as_os_str(), "--json".as_ref(), "--event".as_ref(), "*".as_ref()];
    let lines = report(&line);
    let expected: Vec<Value> =
        lines.lines().map(|line| as_python_says(&serde_json::from_str(line).expect("JSON"))).collect();
    let samples = python["samples"].as_array().expect("a list");
    assert_eq!(samples.len(), expected.len(), "{}", path.display());
    for (number, (sample, expected)) in samples.iter().zip(&expected).enumerate() {
        let sample = repaired(completed(sample.clone(), expected), expected);
        assert_eq!(sample, *expected, "sample {number} of {}", path.display());
    }
    assert_eq!(python["settings"], settings(path), "{}", path.display());
    assert_eq!(python["ends"], ends(path), "{}", path.display());
    assert_eq!(python["symbols"], symbols(path), "{}", path.display());
    assert_eq!(python["image_parts"], image_parts(path), "{}", path.display());
    assert_eq!(python["jit"], jit(path), "{}", path.display());
    assert_eq!(python["names"], names(path), "{}", path.display());
    assert_eq!(python["sources"], sources(path), "{}", path.display());
    assert_eq!(python["code"], code(path), "{}", path.display());
    assert_eq!(python["left_out"], left_out(path), "{}", path.display());
    assert_eq!(python["unwind_rules"], unwind_rules(path), "{}", path.display());
    assert_eq!(python["cpu_times"], cpu_times(path), "{}", path.display());
    assert_eq!(python["stack_marks"], stack_marks(path), "{}", path.display());
    assert_eq!(python["waits"], waits(path), "{}", path.display());
    assert_eq!(python["counters"], counters(path), "{}", path.display());
    assert_eq!(python["fields"], fields(path), "{}", path.display());
    assert_eq!(python["triggers"], triggers(path), "{}", path.display());
    assert_eq!(python["rates"], rates(path), "{}", path.display());
    assert_eq!(
        (python["snapshot_ids"].clone(), python["snapshots"].clone()),
        held::held(path),
        "{}",
        path.display()
    );
    let namespaces = python["mount_namespaces"].as_array().expect("a list").iter();
    let namespaces: Value = namespaces.flat_map(|of| of[1].as_array()).flatten().cloned().collect();
    assert_eq!(namespaces, mount_namespaces(path), "{}", path.display());
    assert_eq!(python["mount_namespaces"][0][0], info["session"]["mount_ns"], "{}", path.display());
    samples.len()
}

/// Returns the symbols of a file: image id, start, end, address, address of the whole function, names, source file.
fn symbols(path: &Path) -> Value {
    rows::<SymbolsV1>(path, |view| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let row = |row: Symbol<&[u8]>| {
            let names: Vec<String> = row.names.iter().map(|name| text(name)).collect();
            json!([row.image, row.start, row.end, row.address, row.whole, names, text(row.file)])
        };
        Some(view.rows().ok()?.into_iter().map(row).collect())
    })
}

/// Returns the named places of a file: image id, offset, address, start, frames of function, file and line.
fn names(path: &Path) -> Value {
    rows::<NamesV1>(path, |view| {
        let table = view.table().ok()?;
        let text = |position: u32| String::from_utf8_lossy(table.texts[position as usize]);
        let function = |it: &NamedFunction| {
            let aliases: Vec<_> = it.aliases.iter().copied().map(text).collect();
            let (symbol, declared, file) =
                (it.symbol.map(text), it.declared_file.map(text), it.file.map(text));
            json!([text(it.name), symbol, declared, it.declared_line, it.entry, it.start, file, aliases])
        };
        let frame = |frame: &NamedFrame| {
            let function = function(&table.functions[frame.function as usize]);
            json!([function, frame.file.map(text), frame.line])
        };
        let row = |place: &NamedPlace| {
            let frames: Vec<Value> = table.frames[place.frames.clone()].iter().map(frame).collect();
            json!([place.image, place.file_off, place.address, place.start, frames, place.calls.map(text)])
        };
        Some(table.places.iter().map(row).collect())
    })
}

/// Returns the source files: image id, path, content, proof, time of modification.
fn sources(path: &Path) -> Value {
    rows::<SourcesV1>(path, |view| {
        let table = view.table().ok()?;
        let text = |position: u32| String::from_utf8_lossy(table.texts[position as usize]);
        let row = |file: &SourceFile| {
            json!([file.image, text(file.path), text(file.text), file.proof.0, file.modified_unix_ns])
        };
        Some(table.files.iter().map(row).collect())
    })
}

/// Returns the code: image id, offset, address, processor, name, bytes in hexadecimal, places, references.
fn code(path: &Path) -> Value {
    rows::<CodeV1>(path, |view| {
        let table = view.table().ok()?;
        let text = |position: u32| String::from_utf8_lossy(table.texts[position as usize]);
        let frame = |it: &CodeFrame| json!([text(it.name), it.file.map(text), it.line]);
        let place = |it: &CodePlace| json!([it.begin, it.frames.iter().map(frame).collect::<Vec<_>>()]);
        let refers = |it: &CodeReference| json!([it.at, text(it.name), it.offset]);
        let row = |it: &CodeStretch| {
            let bytes: String = it.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let places: Vec<Value> = it.places.iter().map(place).collect();
            let refers: Vec<Value> = it.refers.iter().map(refers).collect();
            json!([it.image, it.file_off, it.address, it.machine, it.name.map(text), bytes, places, refers])
        };
        Some(table.stretches.iter().map(row).collect())
    })
}

/// Returns the rows of all whole blocks of a kind.
fn rows<P: Payload>(path: &Path, of_block: impl Fn(&P::View) -> Option<Vec<Value>>) -> Value {
    let recording = Recording::open(path).expect("it opens");
    let entries = recording.entries().iter().filter(|entry| entry.header.kind == P::KIND);
    entries.filter_map(|entry| of_block(recording.payload(entry).ok()?.view::<P>().ok()?)).flatten().collect()
}

/// Returns what sessions say of themselves in numbers.
fn settings(path: &Path) -> Value {
    rows::<SessionV1>(path, |view| {
        let session = view.to_owned_record().ok()?;
        let missing: Vec<u16> = session.missing_features.iter().map(|feature| feature.0).collect();
        let sides = [session.user, session.kernel, session.idle].map(u8::from);
        let meanings: Vec<u16> = session.events.iter().map(|event| event.meaning.0).collect();
        Some(vec![json!({
            "maker": session.maker.0, "target": session.target.0, "target_ids": session.target_ids,
            "target_cgroups": session.target_cgroups, "cpu_scope": session.cpu_scope.0, "cpus": session.cpus,
            "unwind": session.unwind.0, "max_depth": session.max_depth, "stack_bytes": session.stack_bytes,
            "embed": session.embed.0, "missing_features": missing, "meanings": meanings,
            "sides": sides,
        })])
    })
}

/// Returns how sessions ended, and what was cut off since.
fn ends(path: &Path) -> Value {
    rows::<ReceiptV1>(path, |view| {
        let ReceiptV1 { end_reason, cut_from_ns, cut_to_ns, kept_samples, .. } =
            view.to_owned_record().ok()?;
        Some(vec![json!({
            "end_reason": end_reason.0, "cut_from_ns": cut_from_ns, "cut_to_ns": cut_to_ns,
            "kept_samples": kept_samples,
        })])
    })
}

/// Returns the mount namespaces of mappings.
fn mount_namespaces(path: &Path) -> Value {
    rows::<MappingsV1>(path, |view| Some(view.rows().map(|row| json!(row.mount_ns)).collect()))
}

/// Returns what asked for a history: when, requested length, text, cause, whether its bytes were too many.
fn triggers(path: &Path) -> Value {
    rows::<TriggerV1>(path, |view| {
        let it = view.to_owned_record().ok()?;
        Some(vec![json!([it.time_ns, it.asked_ns, it.what, it.cause.0, it.is_full])])
    })
}

/// Returns the changes of the sampling rate: time, share, cause, what was measured, budget.
fn rates(path: &Path) -> Value {
    let row = |row: RateChange| json!([row.time_ns, row.share, row.cause.0, row.measured, row.limit]);
    rows::<RatesV1>(path, |view| Some(view.rows().map(row).collect()))
}

/// Returns the skipped files: image id, cause, needed bytes, free bytes.
fn left_out(path: &Path) -> Value {
    let row = |row: LeftOut| json!([row.image, row.why.0, row.needed_bytes, row.free_bytes]);
    rows::<LeftOutV1>(path, |view| Some(view.rows().map(row).collect()))
}

/// Returns the readings of the kernel's account: time, from when on, process, thread, CPU, user and kernel time.
fn cpu_times(path: &Path) -> Value {
    let row = |r: CpuTime| json!([r.time_ns, r.since_ns, r.tgid, r.tid, r.ran_ns, r.user_ns, r.kernel_ns]);
    rows::<CpuTimesV1>(path, |view| Some(view.rows().map(row).collect()))
}

/// Returns the unwind tables of a file: image id, address of the entry, first offset, bias, bytes in hexadecimal.
fn unwind_rules(path: &Path) -> Value {
    rows::<UnwindRulesV1>(path, |view| {
        let row = |UnwindRule { image, at, start, bias, bytes }: UnwindRule<&[u8]>| {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!([image, at, start, bias, hex])
        };
        Some(view.rows().ok()?.into_iter().map(row).collect())
    })
}

/// Returns the marks of nodes.
fn stack_marks(path: &Path) -> Value {
    rows::<StackMarksV1>(path, |view| Some(view.rows().map(|(node, mark)| json!([node, mark.0])).collect()))
}

/// Returns the JIT code of a file: process, start, end, since, until, name, unwind tables, lines, language.
fn jit(path: &Path) -> Value {
    rows::<JitV1>(path, |view| {
        let line = |line: &JitLine| {
            let call = |it: &JitInlined| json!([it.name, it.call_file, it.call_line]);
            json!([line.off, line.file, line.line, line.inlined.iter().map(call).collect::<Vec<_>>()])
        };
        let row = |row: JitCode<&[u8]>| {
            let name = String::from_utf8_lossy(row.name);
            let lines: Vec<Value> = row.lines.iter().map(line).collect();
            let rules: String = row.rules.iter().map(|byte| format!("{byte:02x}")).collect();
            json!([
                row.tgid,
                row.start,
                row.end,
                row.since_ns,
                row.until_ns,
                name,
                rules,
                lines,
                row.language.0
            ])
        };
        Some(view.rows().ok()?.into_iter().map(row).collect())
    })
}

/// Returns the waits of a file: sample (time, task, event), state, flags, kind of waker, begin, end, waker (task, time).
fn waits(path: &Path) -> Value {
    rows::<WaitsV1>(path, |view| {
        let row = |row: Wait| {
            let Wait { time_ns, task, event, began_ns, ended_ns, waker_task, waker_time_ns, .. } = row;
            let (state, flags, by) = (row.state.0, row.flags.0, row.woken_by.0);
            json!([time_ns, task, event, state, flags, by, began_ns, ended_ns, waker_task, waker_time_ns])
        };
        Some(view.rows().map(row).collect())
    })
}

/// Returns the fields of a file; integers as they are.
fn fields(path: &Path) -> Value {
    rows::<FieldsV1>(path, |view| {
        let row = |Field { time_ns, task, event, name, kind, number, text }| {
            let number = if kind == FieldKind::SIGNED { json!(number.cast_signed()) } else { json!(number) };
            json!([time_ns, task, event, name, kind.0, number, text])
        };
        Some(view.rows().map(row).collect())
    })
}

/// Returns the values of counters of a file: time, kind of owner, id of the owner, number of the counter, value.
fn counters(path: &Path) -> Value {
    rows::<CountersV1>(path, |view| {
        let row = |CounterValue { time_ns, owner, counter, value }| {
            let (kind, id) = match owner {
                Owner::Machine => (0, 0),
                Owner::Process(tgid) => (1, tgid),
                Owner::Cgroup(path) => (2, path),
                Owner::Other(kind, id) => (kind, id),
            };
            json!([time_ns, kind, id, counter.0, value])
        };
        Some(view.rows().map(row).collect())
    })
}

/// Returns the pieces of files: for each block image id, length of the file, and offset, length and checksum of each piece.
fn image_parts(path: &Path) -> Value {
    let recording = Recording::open(path).expect("it opens");
    let entries = recording.entries().iter().filter(|entry| entry.header.kind == Kind::IMAGE_PARTS);
    let of_block = |entry| {
        let payload = recording.payload(entry).ok()?;
        let view = payload.view::<ImagePartsV1>().ok()?;
        let piece = |row: Piece<&[u8]>| json!([row.off, row.bytes.len(), crc32fast::hash(row.bytes)]);
        let pieces: Vec<Value> = view.rows().ok()?.into_iter().map(piece).collect();
        Some(json!([view.image.to_native(), view.file_bytes.to_native(), pieces]))
    };
    entries.filter_map(of_block).collect()
}

/// Returns the story with one more process, whose code is stored by offsets in files, as by the recorder.
fn mixed() -> Builder {
    let mut b = story();
    b.session = Some(SessionV1 {
        target: TargetKind::CGROUPS,
        target_ids: vec![7, 1 << 22],
        target_cgroups: vec!["/a".into(), "/system.slice/a service".into()],
        cpu_scope: CpuScope::SOME,
        unwind: UnwindMode::DWARF,
        embed: EmbedMode::ALL,
        missing_features: vec![
            MissingFeature::TASK_WORK,
            MissingFeature::KERNEL_ADDRESSES,
            MissingFeature(900),
        ],
        idle: true,
        ..session()
    });
    if let Some(receipt) = &mut b.receipt {
        (receipt.cut_from_ns, receipt.cut_to_ns) = (Some(1), Some(1 << 40));
        receipt.kept_samples = Some(b.samples.len() as u64);
    }
    b.basis = Basis { unit_ns: 1_000, period_ns: PERIOD_NS, newest_stack: 20, ..Basis::default() };
    b.block_len = 77;
    b.symbols = (0..9)
        .map(|n| {
            let start = 0x9000 - 0x100 * u64::from(n);
            Symbol {
                address: 0x40_0000 + start * u64::from(n % 3),
                whole: 0x40_0000 + start * u64::from(n % 2),
                names: (0..n % 4).map(|name| vec![b'a'; (n + name) as usize]).collect(),
                file: vec![b'c'; n as usize % 3],
                ..Symbol::new(5 - n % 2, start..0x9050, "")
            }
        })
        .collect();
    for image in [3, 70_000] {
        let piece = |n: u64| Piece { off: n * n * 0x1_0000, bytes: vec![n as u8; 40 * n as usize] };
        let pieces: Vec<Piece> = (0..9).map(piece).collect();
        b.image_parts.push(ImagePartsV1::from_rows(image, 1 << 40, &pieces));
    }
    b.jit = (0..9)
        .map(|n| JitCode {
            tgid: 400 + n % 2,
            start: 0x7f00_0000_0000 - 0x100 * u64::from(n),
            end: 0x7f00_0000_1000,
            since_ns: u64::from(n % 3) << 40,
            until_ns: u64::from(n % 2) << 42,
            name: vec![b'j'; n as usize],
            rules: vec![n as u8; 3 * (n as usize % 4)],
            lines: (0..n % 4)
                .map(|l| JitLine {
                    off: u64::from(l * l),
                    file: l * 3 % 5,
                    line: l * 300,
                    inlined: (0..l)
                        .map(|i| JitInlined { name: i, call_file: n, call_line: 70 * l })
                        .collect(),
                })
                .collect(),
            language: Language(n as u8 % 3),
        })
        .collect();
    b.waits = (0..9)
        .map(|n| Wait {
            time_ns: START_NS + u64::from(n * n) * 1_000_000,
            task: 70_000 * n,
            event: n as u8 % 3,
            state: WaitState(n as u8),
            flags: WaitFlags(n as u8 % 4),
            woken_by: WokenBy(n as u8 % 6),
            began_ns: START_NS - 5_000 * u64::from(n),
            ended_ns: START_NS + u64::from(n * n) * 1_000_000 - 3_000 + 2_000 * u64::from(n),
            waker_task: n.checked_sub(4).map(|n| n << 29),
            waker_time_ns: START_NS * u64::from(n % 2) + 7_000 * u64::from(n % 2 * n),
        })
        .collect();
    b.counters = (0..40)
        .map(|n| CounterValue {
            time_ns: START_NS + u64::from(n / 7) * 1_000_000,
            owner: [Owner::Machine, Owner::Process(7 + n % 3), Owner::Cgroup(n % 2)][n as usize % 3],
            counter: Counter(1 + n as u8 % 30),
            value: (1 << 40) / u64::from(1 + n % 5),
        })
        .collect();
    b.trigger = Some(TriggerV1 {
        time_ns: START_NS + 77,
        asked_ns: 5,
        what: "longer than eight bytes".to_owned(),
        cause: TriggerCause::COMMAND,
        is_full: true,
    });
    b.rates = (0..9u16)
        .map(|n| RateChange {
            time_ns: START_NS + 1_000_000 * u64::from(n * n),
            share: RateChange::WHOLE >> n,
            cause: RateCause(n % 7),
            measured: 1 << (5 * n),
            limit: u64::from(n % 3) << 40,
        })
        .collect();
    b.left_out = (0..9)
        .map(|n| LeftOut {
            image: 5 - n % 2,
            why: Omission(n as u8),
            needed_bytes: 1 << (n * 5),
            free_bytes: u64::from(n),
        })
        .collect();
    for (number, mapping) in b.mappings.iter_mut().enumerate() {
        mapping.mount_ns = [0, 4_026_531_841, 4_026_532_207][number % 3];
    }
    let place = |n: usize| NamedPlace {
        calls: Some(n as u32 % 5).filter(|calls| *calls > 1),
        image: 5 - n as u32 % 2,
        file_off: 0x9000 - 0x100 * n as u64,
        address: 0x1_9000 - 0x100 * n as u64,
        start: if n % 3 == 1 { 0x1_8000 } else { 0 },
        // None, one, two, none, …
        frames: n / 3 * 3 + [0, 0, 1][n % 3]..n / 3 * 3 + [0, 1, 3][n % 3],
    };
    let frame = |n: u32| {
        let file = Some(n % 3).filter(|_| !n.is_multiple_of(4));
        NamedFrame { function: n % 5, file, line: n * 70 }
    };
    let function = |n: u32| NamedFunction {
        name: n,
        symbol: Some(n).filter(|n| n % 2 == 0),
        declared_file: Some(4 - n).filter(|n| *n > 1),
        declared_line: n * 1000,
        entry: Some((n, u64::from(n) << 33)).filter(|(n, _)| *n != 1),
        start: u64::from(n) * 0x1000,
        file: Some(n / 2).filter(|n| *n != 1),
        aliases: (0..n).collect(),
    };
    b.names = NameTable {
        places: (0..9).map(place).collect(),
        frames: (0..9).map(frame).collect(),
        functions: (0..5).map(function).collect(),
        texts: (0..5).map(|n| vec![b'f'; n].into()).collect(),
    };
    // Process 100 forks 200 twice; a thread of 100, and one of 400, are elsewhere for a while.
    for (at_ns, tgid, path) in [
        (5_000_000, 100, "/a"),
        (400_000_000, 400, "/b"),
        (600_000_000, 200, "/a/b"),
        (900_000_000, 100, ""),
        (1_200_000_000, 400, "/c"),
        (1_300_000_000, 100, "/a"),
    ] {
        b.cgroup(at_ns, tgid, path);
    }
    b.cgroup_of_thread(300_000_000, 100, 101, "/t");
    b.cgroup_of_thread(700_000_000, 400, 401, "/t/u");
    let image = b.image(icecore_format::records::ImageKind::FILE, "/no/such/bin/offsets");
    let task = b.task(400, 401, "a name of fourteen");
    for i in 0..300_u64 {
        let at = |file_off| Location::Image { image, file_off };
        let stack =
            b.stack_at(&[at(0x1000 + i % 7 * 0x10_0000), at(0x1234), Location::Address(0x77 + i % 3)]);
        b.sample(i * 5_000_000 + 700, (i % 3) as u16, task, &[1], &[]).user_stack = stack;
    }
    b.marks = (1..200).step_by(3).map(|node| (node, Mark(node as u8 % 4))).collect();
    held::add(&mut b);
    b
}

#[test]
fn python_agrees_on_synthetic_recordings() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("r");
    for (builder, close, samples) in [
        (story(), true, 530),
        (story(), false, 530),
        (mixed(), true, 830),
        (mixed(), false, 830),
        (Builder::default(), true, 0),
    ] {
        builder.write(&path, close).expect("written");
        assert_eq!(agree(&path, &[]), samples);
        if close {
            assert_eq!(agree(&path, &["--scan"]), samples, "without its index");
        }
    }
}

#[test]
fn python_agrees_on_torn_and_damaged_recordings() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("r");
    mixed().write(&path, true).expect("written");
    let bytes = std::fs::read(&path).expect("just written");
    let recording = Recording::from_bytes(&bytes).expect("own file");
    let blocks = |kind| recording.entries().iter().filter(move |entry| entry.header.kind == kind);
    let mut damaged: Vec<Vec<u8>> = Vec::new();
    for kind in [Kind::STRINGS, Kind::TASKS, Kind::IMAGES, Kind::MAPPINGS, Kind::STACKS, Kind::SAMPLES] {
        let entry = blocks(kind).next_back().expect("one of each");
        // This damages its header, and its payload: a scan finds that, or the report when it opens the block.
        for at in [20, 70] {
            let mut bytes = bytes.clone();
            bytes[entry.off as usize + at] ^= 1;
            damaged.push(bytes);
        }
    }
    let samples: Vec<u64> = blocks(Kind::SAMPLES).map(|entry| entry.off).collect();
    for cut in [samples[0], samples[1] + 8, samples[2] + 64, samples[3] + 100, bytes.len() as u64 - 8] {
        damaged.push(bytes[..cut as usize].to_vec());
    }
    damaged.push([&bytes[..], b"what follows is not part of it..."].concat());
    for bytes in damaged {
        std::fs::write(&path, bytes).expect("room");
        agree(&path, &[]);
    }
}

#[test]
fn python_agrees_on_several_sessions_in_one_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let [first, second, merged] = ["first", "second", "merged"].map(|name| dir.path().join(name));
    story().write(&first, true).expect("written");
    let mut later = mixed();
    later.uuid = Some([2; 16]);
    let start = session();
    let (host, start_unix_ns) = ("other".into(), start.start_unix_ns + 1_500_000_000);
    later.session = Some(SessionV1 { host, start_unix_ns, ..start });
    later.write(&second, true).expect("written");
    report(&["merge".as_ref(), first.as_os_str(), second.as_os_str(), "-o".as_ref(), merged.as_os_str()]);
    assert_eq!(agree(&merged, &[]), 530 + 830);
}

#[test]
fn python_agrees_on_the_corpus() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("r");
    for (_, bytes) in recordings() {
        std::fs::write(&path, bytes).expect("room");
        agree(&path, &[]);
    }
}

#[test]
fn root_python_reads_the_registers_and_stacks_of_a_real_recording() {
    let script = "import time\nwhile time.process_time() < 0.4: sorted(range(30000))";
    let recorded = Recorded::new(&["-F", "997", "--unwind", "dwarf"], &["python3", "-c", script]);
    let python = told_by_python(&recorded.path(), &[]);
    let (ids, snapshots) = held::held(&recorded.path());
    assert!(snapshots.as_array().is_some_and(|rows| rows.len() > 20), "{snapshots}");
    let rules = python["unwind_rules"].as_array().map_or(0, Vec::len);
    assert!(rules > 20, "{rules} entries of unwind tables");
    assert!((&python["snapshot_ids"], &python["snapshots"]) == (&ids, &snapshots), "the two readers differ");
}

#[test]
fn root_python_agrees_on_a_real_recording() {
    let target = target();
    let command = format!("{0} recursion 300; ls / >&2; {0} threads 300", target.display());
    // The reader does not unwind.
    let recorded =
        Recorded::new(&["-a", "-F", "997", "--flush", "0.3", "--unwind", "fp"], &["sh", "-c", &command]);
    let samples = agree(&recorded.path(), &[]);
    assert!(samples > 100, "{samples}");
}
