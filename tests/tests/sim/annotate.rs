//! `annotate` of a program that the test compiles: which line and instruction has which samples, what was inlined, and how far a source
//! text is proven.

use icecore_format::records::{Change, ImagePartsV1, Origin, Piece};
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
            &["pack", "DIR/r.icecore", "-o", "DIR/packed.icecore", "--source", "--json"],
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
    report(dir, &["pack", "DIR/r.icecore", "-o", "DIR/packed", "--source"]);
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

#[test]
fn no_page_has_a_text_outside_the_folders_of_the_user() {
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
    for named in ["secret", "src/../secret", "src/link", "src/x/../../secret", "../../../../../etc/passwd"] {
        let page = html(named);
        assert!(!page.contains("secret line") && !page.contains("root:x:"), "{named}");
        assert!(page.contains("give --source-dir") || page.contains("not found here"), "{named}: {page}");
    }
    std::fs::write(path("src/own"), "a line of the user\n".repeat(9)).expect("room");
    assert!(html("src/own").contains("a line of the user"));
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
