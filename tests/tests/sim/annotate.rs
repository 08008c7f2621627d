//! `annotate` of a program that the test compiles: which line and instruction has which samples, what was inlined, and how far a source
//! text is proven.

use icecore_format::records::{Change, ImagePartsV1, Location, Origin, Piece};
use icecore_tests::inside::{report, run_in};
use icecore_tests::listed::{Listed, SOURCE, objdump};
use icecore_tests::synthetic::Builder;
use serde_json::Value;

fn instruction(annotate: &Value, at: u64) -> &Value {
    let all = annotate["code"][0]["instructions"].as_array().expect("instructions");
    all.iter().find(|it| it["address"] == at).unwrap_or_else(|| panic!("{at:#x}: {annotate}"))
}

fn samples(row: &Value) -> [&Value; 2] {
    [&row["self_samples"], &row["total_samples"]]
}

#[test]
fn leaves_count_where_they_hit_and_callers_at_their_call() {
    let told = Listed::new("cc");
    let caller = told.json(&["caller"]);
    assert_eq!(samples(&caller["function"]), [2, 6], "{caller}");
    assert_eq!(samples(instruction(&caller, told.call)), [0, 4]);
    assert_eq!(
        samples(instruction(&caller, told.behind)),
        [0, 0],
        "the instruction after the call has not run"
    );
    let refers = &instruction(&caller, told.call)["refers"];
    assert_eq!((&refers["name"], &refers["address"]), (&"leaf".into(), &told.leaf.into()));
    let lines = caller["sources"][0]["lines"].as_array().expect("lines");
    let line = |number: u64| lines.iter().find(|line| line["line"] == number).expect("a line");
    assert_eq!(line(6)["text"], "  return inlined(x) + 2;");
    let inlined = &line(6)["inlined"][0];
    assert_eq!(
        (&inlined["functions"][0]["name"], &inlined["functions"][0]["line"]),
        (&"inlined".into(), &3.into())
    );
    assert_eq!(samples(inlined), [0, 4]);
    let leaf = told.json(&["leaf"]);
    assert_eq!(samples(instruction(&leaf, told.leaf)), [4, 4]);
    // The code of an inlined function lies in another: only its own instructions have samples there.
    let inlined = told.json(&["inlined"]);
    assert_eq!(inlined["code"][0]["name"], "caller");
    assert_eq!(samples(&inlined["sources"][0]["lines"][0]), [0, 4]);
}

#[test]
fn instructions_are_those_of_objdump() {
    let told = Listed::new("cc");
    let caller = told.json(&["caller"]);
    let ours = caller["code"][0]["instructions"].as_array().expect("instructions");
    let theirs = objdump(&told.program(), "caller");
    assert_eq!(ours.len(), theirs.len());
    for (ours, (at, text)) in ours.iter().zip(&theirs) {
        assert_eq!(ours["address"], *at);
        let mnemonic = |text: &str| text.split(' ').next().map(str::to_owned);
        assert_eq!(ours["text"].as_str().and_then(mnemonic), mnemonic(text), "{ours}");
    }
}

#[test]
fn addresses_are_rows_of_top() {
    let told = Listed::new("cc");
    let top = report(told.dir.path(), &["top", "DIR/r.icecore", "--by", "address", "--json"]);
    let top: Value = serde_json::from_str(&top).expect("JSON");
    let row = &top["rows"][0];
    assert_eq!(
        (&row["name"], &row["address"], samples(row)),
        (&"leaf".into(), &told.leaf.into(), [&4.into(); 2])
    );
    assert_eq!((&row["function_offset"], &row["line"]), (&0.into(), &1.into()));
    let (code, _, err) = run_in(told.dir.path(), &["top", "DIR/r.icecore", "--by", "address,comm"]);
    assert!(code == 2 && err.contains("cannot tell addresses apart by other keys"), "{err}");
    let call = top["rows"].as_array().expect("rows").iter().find(|row| row["total"] != row["self"]);
    let call = call.expect("a caller");
    assert_eq!(call["address"], told.behind - 1, "the last byte of the call: {call}");
}

#[test]
fn a_source_text_is_proven_unchecked_newer_or_refused() {
    let proof = |told: &Listed| {
        let leaf = told.json(&["leaf"]);
        let source = &leaf["sources"][0];
        [source["proof"].clone(), source["newer"].clone(), source["why"].clone()]
    };
    let (clang, gcc) = (Listed::new("clang"), Listed::new("cc"));
    assert_eq!(proof(&clang), ["md5".into(), false.into(), Value::Null]);
    assert_eq!(proof(&gcc), ["unchecked".into(), false.into(), Value::Null]);
    for told in [&clang, &gcc] {
        std::fs::write(told.dir.path().join("p.c"), format!("{SOURCE}// changed\n")).expect("room");
    }
    assert_eq!(proof(&clang), [Value::Null, false.into(), "differs".into()]);
    assert_eq!(proof(&gcc), ["unchecked".into(), true.into(), Value::Null]);
    let page = report(gcc.dir.path(), &["annotate", "DIR/r.icecore", "leaf"]);
    assert!(page.contains("unchecked: it was modified after the program was linked"), "{page}");
    // Another folder may have the right version.
    let moved = clang.dir.path().join("tree");
    std::fs::create_dir(&moved).expect("room");
    std::fs::write(moved.join("p.c"), SOURCE).expect("room");
    let found = clang.json(&["leaf", "--source-dir", &moved.display().to_string()]);
    assert_eq!(found["sources"][0]["proof"], "md5");
    std::fs::remove_file(gcc.dir.path().join("p.c")).expect("there");
    assert_eq!(proof(&gcc), [Value::Null, false.into(), "missing".into()]);
}

#[test]
fn what_is_missing_is_said() {
    let told = Listed::new("cc");
    std::fs::remove_file(told.program()).expect("there");
    // Without the image there is no name either: functions are offsets in its file.
    let (code, out, _) = run_in(told.dir.path(), &["annotate", "DIR/r.icecore", "^p.0x1", "--quiet"]);
    assert!(code == 2 && out.contains("p+0x1"), "{out}");
    let name =
        out.lines().rev().find_map(|line| line.split_whitespace().find(|word| word.starts_with("p+0x")));
    let page = report(told.dir.path(), &["annotate", "DIR/r.icecore", name.expect("a row")]);
    assert!(page.contains("no source file: ") && page.contains("no instructions of "), "{page}");
    assert!(page.contains("icecore-report missing r.icecore") && page.contains("--embed all"), "{page}");
    assert!(page.contains("icecore-report pack --code"), "{page}");
}

#[test]
fn several_functions_are_listed_and_none_is_an_error() {
    let told = Listed::new("cc");
    let (code, out, err) = run_in(told.dir.path(), &["annotate", "DIR/r.icecore", "l"]);
    assert_eq!(code, 2);
    assert!(["leaf", "caller", "inlined"].iter().all(|name| out.contains(name)), "{out}");
    assert!(err.contains("cannot choose among 3 functions that match `l`"), "{err}");
    for line in [&["nope"][..], &["("], &["leaf", "--image", "other"]] {
        let (code, out, err) = run_in(told.dir.path(), &[&["annotate", "DIR/r.icecore"], line].concat());
        assert!(code == 2 && out.is_empty() && err.contains("error: no function with samples"), "{err}");
    }
    assert_eq!(told.json(&["leaf", "--image", "p"])["matches"].as_array().map(Vec::len), Some(1));
}

#[test]
fn source_texts_steer_no_terminal() {
    let told = Listed::new("cc");
    let hostile = SOURCE.replace("x * 3", "\u{1b}[31m\u{202e}x * 3");
    std::fs::write(told.dir.path().join("p.c"), hostile).expect("room");
    for line in [&["leaf"][..], &["leaf", "--json"]] {
        let out = report(told.dir.path(), &[&["annotate", "DIR/r.icecore"], line].concat());
        assert!(!out.contains(['\u{1b}', '\u{202e}']) && out.contains("x * 3"), "{out}");
    }
}

#[test]
fn gaps_are_counted_and_halves_can_be_left_out() {
    let told = Listed::new("cc");
    let page =
        |more: &[&str]| report(told.dir.path(), &[&["annotate", "DIR/r.icecore", "caller"], more].concat());
    let (narrow, whole) = (page(&["--context", "0"]), page(&["--whole"]));
    assert!(narrow.contains("left out") && !whole.contains("left out"), "{narrow}{whole}");
    assert!(!page(&["--only", "source"]).contains("ADDRESS") && !page(&["--only", "asm"]).contains("LINE"));
}

#[test]
fn packed_sources_need_no_file_and_keep_their_proof() {
    for (compiler, proof) in [("clang", "md5"), ("cc", "unchecked")] {
        let told = Listed::new(compiler);
        let dir = told.dir.path();
        let packed: Value = serde_json::from_str(&report(
            dir,
            &[
                "pack",
                "DIR/r.icecore",
                "-o",
                "DIR/packed.icecore",
                "--source",
                "--source-dir",
                "DIR",
                "--json",
            ],
        ))
        .expect("JSON");
        assert_eq!(packed["sources"]["files"], 1, "{packed}");
        assert_eq!(packed["sources"]["proven"], u64::from(proof == "md5"), "{packed}");
        assert_eq!(
            packed["sources"]["unchecked"].as_array().map(Vec::len),
            Some(usize::from(proof != "md5"))
        );
        std::fs::remove_file(dir.join("p.c")).expect("there");
        std::fs::remove_file(told.program()).expect("there");
        report(dir, &["pack", "DIR/packed.icecore", "-o", "DIR/again.icecore"]);
        report(dir, &["pack", "DIR/packed.icecore", "-o", "DIR/resourced.icecore", "--source"]);
        report(dir, &["cut", "DIR/packed.icecore", "-o", "DIR/cut.icecore", "--to", "1"]);
        report(dir, &["compact", "DIR/packed.icecore", "-o", "DIR/compact.icecore"]);
        let merge = ["merge", "DIR/cut.icecore", "DIR/compact.icecore", "-o", "DIR/merged.icecore"];
        report(dir, &merge);
        for name in ["packed", "again", "resourced", "cut", "compact", "merged"] {
            let file = format!("DIR/{name}.icecore");
            assert!(report(dir, &["verify", &file]).contains("all is well"), "{name}");
            let leaf: Value =
                serde_json::from_str(&report(dir, &["annotate", &file, "leaf", "--json"])).expect("JSON");
            let source = &leaf["sources"][0];
            assert_eq!((&source["origin"], &source["proof"]), (&"recording".into(), &proof.into()), "{name}");
            assert_eq!(source["lines"][0]["text"], SOURCE.lines().next().expect("a line"), "{name}");
            assert_eq!(leaf["code"].as_array().map(Vec::len), Some(0), "the program is gone");
        }
        let page = report(dir, &["annotate", "DIR/packed.icecore", "leaf"]);
        assert!(page.contains("in the recording, "), "{page}");
    }
}

#[test]
fn a_source_file_that_no_kept_line_needs_is_cut_and_redaction_leaves_none() {
    let told = Listed::new("cc");
    let dir = told.dir.path();
    let sources = |name: &str| -> Value {
        let info = report(dir, &["info", &format!("DIR/{name}"), "--json"]);
        serde_json::from_str::<Value>(&info).expect("JSON")["source_files"].clone()
    };
    report(dir, &["pack", "DIR/r.icecore", "-o", "DIR/packed", "--source", "--source-dir", "DIR"]);
    report(dir, &["cut", "DIR/packed", "-o", "DIR/cut", "--pid", "1"]);
    report(dir, &["compact", "DIR/packed", "-o", "DIR/kept"]);
    let page = report(dir, &["compact", "DIR/packed", "-o", "DIR/redacted", "--redact", "comm"]);
    assert_eq!(["packed", "cut", "kept", "redacted"].map(sources), [1, 0, 1, 0]);
    assert!(page.contains("1 block") && page.contains("source files skipped"), "{page}");
    let bytes = std::fs::read(dir.join("redacted")).expect("there");
    assert!(!bytes.windows(9).any(|window| window == b"noinline)"));
}

#[test]
fn a_missing_source_file_is_listed() {
    let told = Listed::new("cc");
    std::fs::remove_file(told.dir.path().join("p.c")).expect("there");
    let page = report(told.dir.path(), &["pack", "DIR/r.icecore", "-o", "DIR/packed", "--source"]);
    assert!(page.contains("0 source files stored") && page.contains("not stored, missing: "), "{page}");
}

#[test]
fn code_in_the_recording_is_used_and_sections_alone_have_none() {
    let told = Listed::new("cc");
    let bytes = std::fs::read(told.program()).expect("there");
    let write = |pieces: &[Piece], name: &str| {
        let mut b = Builder::default();
        let image = b.image_on_disk(&told.program()).expect("the program");
        b.image_parts.push(ImagePartsV1::from_rows(image, bytes.len() as u64, pieces));
        let task = b.task(9, 9, "p");
        b.change(0, Change::FOUND, 9, 1, "p");
        b.map(1, 9, 0x40_1000, image, Origin::SCAN);
        b.sample(10, 0, task, &[told.leaf], &[]);
        b.write(&told.dir.path().join(name), true).expect("room");
    };
    write(&[Piece { off: 0, bytes: bytes.clone() }], "whole.icecore");
    std::fs::rename(told.program(), told.dir.path().join("gone")).expect("renamed");
    let out = report(told.dir.path(), &["annotate", "DIR/whole.icecore", "leaf", "--json"]);
    let annotate: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(annotate["code"][0]["source"], "embedded");
    assert_eq!(samples(instruction(&annotate, told.leaf)), [1, 1]);
}

/// Returns a document without where its code and its texts were found.
fn without_places(mut annotate: Value) -> Value {
    for (rows, keys) in [("code", &["source"][..]), ("sources", &["origin", "path"])] {
        for row in annotate[rows].as_array_mut().expect("rows") {
            keys.iter().for_each(|key| row[key] = Value::Null);
        }
    }
    annotate
}

#[test]
fn packed_code_is_listed_where_no_file_is() {
    for compiler in ["clang", "cc"] {
        let told = Listed::new(compiler);
        let dir = told.dir.path();
        let functions = ["leaf", "caller", "inlined"];
        let here = functions.map(|function| without_places(told.json(&[function])));
        let theirs = objdump(&told.program(), "caller");
        let pack = |file: &str, out: &str, more: &[&str]| -> Value {
            let (file, out) = (format!("DIR/{file}.icecore"), format!("DIR/{out}.icecore"));
            let line = [&["pack", &file, "-o", &out, "--json"], more].concat();
            serde_json::from_str(&report(dir, &line)).expect("JSON")
        };
        let packed = pack("r", "packed", &["--code", "--source", "--source-dir", &dir.display().to_string()]);
        let bytes: u64 = ["leaf", "caller"].map(|name| length(&objdump(&told.program(), name))).iter().sum();
        assert_eq!(
            (&packed["code"]["functions"], &packed["code"]["missing"]),
            (&2.into(), &Value::Array(vec![]))
        );
        assert!(
            packed["code"]["bytes"].as_u64().is_some_and(|stored| stored >= bytes && stored < bytes + 32)
        );
        let grown =
            pack("r", "names", &["--source", "--source-dir", &dir.display().to_string()])["file_bytes"]
                .as_u64()
                .expect("bytes");
        let added = packed["file_bytes"].as_u64().expect("bytes") - grown;
        assert!(added < packed["code"]["file_bytes"].as_u64().expect("bytes") + 256, "{packed}");
        let address = |file: &str| -> Value {
            let top = report(dir, &["top", &format!("DIR/{file}.icecore"), "--by", "address", "--json"]);
            serde_json::from_str(&top).expect("JSON")
        };
        let rows = address("packed");
        std::fs::remove_file(dir.join("p.c")).expect("there");
        std::fs::remove_file(told.program()).expect("there");
        assert_eq!(address("packed")["rows"], rows["rows"]);

        // Recordings made of it have the same code, also after packing where no file is.
        pack("packed", "again", &[]);
        let again = pack("packed", "recoded", &["--code"]);
        assert_eq!(again["code"]["functions"], 2, "{again}");
        report(dir, &["cut", "DIR/packed.icecore", "-o", "DIR/cut.icecore", "--to", "1"]);
        report(dir, &["compact", "DIR/packed.icecore", "-o", "DIR/compact.icecore"]);
        let merge = ["merge", "DIR/cut.icecore", "DIR/compact.icecore", "-o", "DIR/merged.icecore"];
        report(dir, &merge);
        for name in ["packed", "again", "recoded", "cut", "compact", "merged"] {
            let file = format!("DIR/{name}.icecore");
            assert!(report(dir, &["verify", &file]).contains("all is well"), "{name}");
            for (function, here) in functions.iter().zip(&here) {
                let line = ["annotate", &file, function, "--json"];
                let there: Value = serde_json::from_str(&report(dir, &line)).expect("JSON");
                assert_eq!(there["code"][0]["source"], "embedded", "{name}: {there}");
                if name == "merged" {
                    // It has every sample twice.
                    let instructions = |of: &Value| of["code"][0]["instructions"].as_array().map(Vec::len);
                    assert_eq!(instructions(&there), instructions(here));
                } else {
                    assert_eq!(&without_places(there), here, "{name}");
                }
            }
        }
        let line = ["annotate", "DIR/packed.icecore", "caller", "--json"];
        let caller: Value = serde_json::from_str(&report(dir, &line)).expect("JSON");
        let ours = caller["code"][0]["instructions"].as_array().expect("instructions");
        assert_eq!(ours.len(), theirs.len());
        for (ours, (at, text)) in ours.iter().zip(&theirs) {
            let mnemonic = |text: &str| text.split(' ').next().map(str::to_owned);
            assert_eq!(
                (&ours["address"], ours["text"].as_str().and_then(mnemonic)),
                (&(*at).into(), mnemonic(text))
            );
        }
        report(dir, &["html", "DIR/packed.icecore", "--force", "-o", "DIR/x.html"]);
        let page = text_of(&dir.join("x.html"));
        assert!(page.contains("<leaf>") && !page.contains("no instructions of"), "{page}");
        // Nothing else takes stored code for the file of an image.
        for view in ["missing", "samples", "health", "top"] {
            let said = |name: &str| {
                let (code, out, _) = run_in(dir, &[view, &format!("DIR/{name}.icecore"), "--json"]);
                (code, out.replace(&format!("{name}.icecore"), "FILE"))
            };
            assert_eq!(said("packed"), said("names"), "{view}");
        }
        // Without it nothing is known of the code.
        let page = report(dir, &["annotate", "DIR/names.icecore", "leaf"]);
        assert!(page.contains("no instructions of ") && page.contains("pack --code"), "{page}");
    }
}

/// Returns the bytes from the first to the last instruction.
fn length(instructions: &[(u64, String)]) -> u64 {
    let (first, last) = instructions.first().zip(instructions.last()).expect("instructions");
    last.0 - first.0 + 1
}

#[test]
fn code_that_no_kept_stack_needs_is_cut_and_redacted_paths_leave_none() {
    let told = Listed::new("cc");
    let dir = told.dir.path();
    let functions = |name: &str| -> Value {
        let info = report(dir, &["info", &format!("DIR/{name}"), "--json"]);
        serde_json::from_str::<Value>(&info).expect("JSON")["code_functions"].clone()
    };
    report(dir, &["pack", "DIR/r.icecore", "-o", "DIR/packed", "--code"]);
    report(dir, &["pack", "DIR/packed", "-o", "DIR/twice", "--code"]);
    // The last two samples hit `caller` alone.
    report(dir, &["cut", "DIR/packed", "-o", "DIR/late", "--from", "0.000045"]);
    report(dir, &["cut", "DIR/packed", "-o", "DIR/none", "--pid", "1"]);
    report(dir, &["compact", "DIR/packed", "-o", "DIR/kept", "--redact", "comm"]);
    let page = report(dir, &["compact", "DIR/packed", "-o", "DIR/redacted", "--redact", "paths"]);
    let all = ["packed", "twice", "late", "none", "kept", "redacted"].map(functions);
    assert_eq!(all, [2, 2, 1, 0, 2, 0]);
    assert!(page.contains("1 block") && page.contains("with code, "), "{page}");
    let bytes = std::fs::read(dir.join("redacted")).expect("there");
    assert!(!bytes.windows(4).any(|window| window == b"/p.c"));
}

#[test]
fn functions_that_are_too_long_to_be_stored_are_listed() {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, program) = (dir.path().join("x.s"), dir.path().join("x.so"));
    let function = |name: &str, bytes: u32| {
        format!(
            ".globl {name}\n.type {name},@function\n{name}: .skip {bytes}, 0x90\nret\n.size {name}, .-{name}\n"
        )
    };
    std::fs::write(&source, function("short", 8) + &function("long", 1 << 20)).expect("room");
    let cc = ["-shared", "-nostdlib", "-o"];
    let cc = std::process::Command::new("cc").args(cc).arg(&program).arg(&source).status();
    assert!(cc.expect("cc runs").success());
    let mut b = Builder::default();
    let image = b.image_on_disk(&program).expect("the library");
    let task = b.task(9, 9, "x");
    b.change(0, Change::FOUND, 9, 1, "x");
    b.map(1, 9, 0x40_1000, image, Origin::SCAN);
    for (time, file_off) in (1..).zip([0x1002, 0x1040, 0x2000]) {
        b.sample(time * 10_000, 0, task, &[], &[]).user_stack =
            b.stack_at(&[Location::Image { image, file_off }]);
    }
    b.write(&dir.path().join("r"), true).expect("room");
    let pack = |more: &[&str]| {
        report(dir.path(), &[&["pack", "DIR/r", "-o", "DIR/packed", "--code"], more].concat())
    };
    let packed: Value = serde_json::from_str(&pack(&["--json"])).expect("JSON");
    let missing = &packed["code"]["missing"][0];
    assert_eq!((&packed["code"]["functions"], &packed["code"]["bytes"]), (&1.into(), &9.into()), "{packed}");
    assert_eq!((&missing["why"], &missing["places"]), (&"too_long".into(), &2.into()), "{packed}");
    let page = pack(&["--force"]);
    assert!(page.contains("code of 1 function stored (9 B,"), "{page}");
    assert!(page.contains("no code of 2 places stored, too long: "), "{page}");
}

#[test]
fn no_page_and_no_packed_recording_has_a_text_outside_the_folders_of_the_user() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("src")).expect("room");
    std::fs::write(path("secret"), "the secret line\n".repeat(9)).expect("room");
    std::os::unix::fs::symlink(path("secret"), path("src/link")).expect("a link");
    let html = |named: &str| {
        // The program names a file of its choice as its source.
        let source = format!("#line 1 \"{}\"\n{SOURCE}", path(named).display());
        Listed::write_as("cc", &source, dir.path());
        let options = ["--source-dir", "DIR/src", "--force", "-o", "DIR/x.html"];
        report(dir.path(), &[&["html", "DIR/r.icecore"][..], &options].concat());
        text_of(&path("x.html"))
    };
    // Sources of a packed recording are shown by every page.
    let packed = || {
        let options = ["--source", "--source-dir", "DIR/src", "--force", "-o", "DIR/x.icecore"];
        let told = report(dir.path(), &[&["pack", "DIR/r.icecore"][..], &options].concat());
        report(dir.path(), &["html", "DIR/x.icecore", "--force", "-o", "DIR/x.html"]);
        (told, text_of(&path("x.html")))
    };
    for named in ["secret", "src/../secret", "src/link", "src/x/../../secret", "../../../../../etc/passwd"] {
        let page = html(named);
        assert!(!page.contains("secret line") && !page.contains("root:x:"), "{named}");
        assert!(page.contains("with --source-dir") || page.contains("not found here"), "{named}: {page}");
        let (told, page) = packed();
        assert!(!page.contains("secret line") && !page.contains("root:x:"), "{named}");
        let is_told =
            told.contains("not stored, unproven: ") && told.contains("give its folder with --source-dir");
        assert!(is_told || told.contains("not stored, missing: "), "{named}: {told}");
    }
    std::fs::write(path("src/own"), "a line of the user\n".repeat(9)).expect("room");
    assert!(html("src/own").contains("a line of the user"));
    let (told, page) = packed();
    assert!(page.contains("a line of the user") && told.contains("unchecked: "), "{told}");
}

/// The data of a page as text.
fn text_of(page: &std::path::Path) -> String {
    let text = std::fs::read_to_string(page).expect("a page");
    let (_, data) = text.split_once("id=\"data\">").expect("data");
    let packed = page.with_extension("base64");
    std::fs::write(&packed, data.split_once('<').expect("an end").0).expect("room");
    let decode =
        std::process::Command::new("sh").args(["-c", "base64 -d \"$0\" | gunzip"]).arg(packed).output();
    String::from_utf8_lossy(&decode.expect("sh").stdout).into_owned()
}
