//! Walks by unwind tables: what the report says of those that were copied, too.

use icecore_format::records::{Change, ImageKind, Location, Origin, Symbol, UnwindRule, WalkEnd};
use icecore_tests::inside;
use icecore_tests::synthetic::{Builder, Copied};
use serde_json::{Value, json};

/// Where stacks end.
const STACK: u64 = 0x7ffd_0000_1000;
/// The CFA is rbp + 16; rbp and the return address lie below it.
const FRAME: [u8; 7] = [0x0c, 6, 16, 0x86, 2, 0x90, 1];
/// There is no return address.
const NO_CALLER: [u8; 2] = [0x07, 16];

/// Returns the unwind tables of an image: a common part (CIE), the entry (FDE) of its code, and that of the function at 0x1800,
/// where stacks begin.
fn rules(image: u32) -> Vec<UnwindRule> {
    let entry = |parts: &[&[u8]]| {
        let mut content = parts.concat();
        content.resize(content.len().next_multiple_of(4), 0);
        [&(content.len() as u32).to_le_bytes()[..], &content].concat()
    };
    let shared = entry(&[&[0; 4], &[1, 0, 1, 0x78, 16], &FRAME]);
    let mut next = shared.len() as u64;
    let mut rules = vec![UnwindRule { image, at: 0x9000, start: 0, bias: 0, bytes: shared }];
    for (start, len, instructions) in [(0x1000_u64, 0x800_u64, &[][..]), (0x1800, 0x100, &NO_CALLER)] {
        let to_shared = next as u32 + 4;
        let bytes =
            entry(&[&to_shared.to_le_bytes(), &start.to_le_bytes(), &len.to_le_bytes(), instructions]);
        let at = 0x9000 + next;
        next += bytes.len() as u64;
        rules.push(UnwindRule { image, at, start, bias: 0, bytes });
    }
    rules
}

/// Makes a recording of `start → run → leaf`, walked by unwind tables:
///
/// | samples | copy | walk |
/// |---|---|---|
/// | 9 | none | |
/// | 4 | all of the stack | as the copy |
/// | 2 | all of the stack | `start → other → leaf` |
/// | 1 | only the frame of the leaf | as the copy |
fn recording() -> Builder {
    let mut b = Builder::default();
    let (bin, lib) = (b.image(ImageKind::FILE, "/no/such/bin"), b.image(ImageKind::FILE, "/no/such/lib.so"));
    b.change(1_000, Change::FOUND, 100, 1, "main");
    b.map(2_000, 100, 0x1_0000, bin, Origin::SCAN);
    b.map(2_000, 100, 0x5_0000, lib, Origin::SCAN);
    b.unwind_rules = [rules(bin), rules(lib)].concat();
    for (image, start, name) in
        [(bin, 0x1000, "run"), (bin, 0x1400, "other"), (bin, 0x1800, "start"), (lib, 0x1200, "leaf")]
    {
        b.symbols.push(Symbol::new(image, start..start + 0x100, name));
    }
    let task = b.task(100, 100, "main");
    let at = |file_off| Location::Image { image: bin, file_off };
    let whole = Copied { anchor: STACK, depth: 0x800, copied: 0x800 };
    let frames = [(STACK - 0x700, at(0x1040)), (STACK - 0x200, at(0x1840))];
    for i in 0..16_u64 {
        let leaf = Location::Image { image: lib, file_off: 0x1210 + i / 2 };
        let caller = at(if let 4 | 5 = i { 0x1440 } else { 0x1040 });
        let snapshot = match i {
            0..6 => b.held.frames(whole, &frames),
            6 => b.held.frames(Copied { copied: 0x200, ..whole }, &frames),
            _ => 0,
        };
        let stack = b.stack_at(&[leaf, caller, at(0x1840)]);
        let sample = b.sample(i * 1_000_000, 0, task, &[], &[]);
        (sample.user_stack, sample.user_end, sample.snapshot) = (stack, WalkEnd::BY_TABLES, snapshot);
    }
    b
}

fn told() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    recording().write(&dir.path().join("walks"), true).expect("written");
    dir
}

fn document(dir: &tempfile::TempDir, args: &[&str]) -> Value {
    let text = inside::report(dir.path(), &[args, &["--json"]].concat());
    serde_json::from_str(&text).expect("JSON")
}

fn row(image: &str, checked: u64, differ: u64) -> Value {
    json!({ "image": image, "checked": checked, "differ": differ })
}

#[test]
fn health_and_summary_tell_which_walks_agree_with_their_copies() {
    let dir = told();
    let image = "/no/such/lib.so";
    let expected = json!({
        "walked": 16, "checked": 6, "agree": 4, "differ": 2, "unchecked": 1,
        "by_image": [row(image, 6, 2), row("/no/such/bin", 6, 0)],
        "disagreements": [{
            "count": 2, "image": image, "common": 1,
            "walked": ["leaf (lib.so+0x1212)", "other (bin+0x143f)", "start (bin+0x183f)"],
            "unwound": ["leaf (lib.so+0x1212)", "run (bin+0x103f)", "start (bin+0x183f)"],
        }],
    });
    for view in ["health", "summary"] {
        let told = document(&dir, &[view, "DIR/walks"]);
        assert_eq!(told["audit"], expected, "{view}");
        let problem = "33.3% of the 6 walks by unwind tables in the kernel that were checked differ";
        let problems = told["problems"].to_string();
        assert!(problems.contains(problem) && problems.contains("in `/no/such/lib.so`"), "{problems}");
        assert_eq!(told["verdict"], "misleading");
        assert_eq!(told["rooted_share"], 1.0);
    }
    let health = document(&dir, &["health", "DIR/walks"]);
    assert_eq!((&health["unwound_share"], &health["repaired_share"]), (&json!(1.0), &json!(0.0)));
    assert_eq!(health["user_ends"], json!({ "by_tables": 14, "unwound": 2 }));
    // A filter counts what it keeps.
    let some = document(&dir, &["health", "DIR/walks", "--to", "4500us"]);
    assert_eq!((&some["audit"]["checked"], &some["audit"]["differ"]), (&json!(5), &json!(1)));
}

#[test]
fn a_compact_file_keeps_the_outcomes() {
    let dir = told();
    let compact = document(&dir, &["compact", "DIR/walks", "-o", "DIR/compact"]);
    assert_eq!((&compact["unwound"], &compact["repaired"]), (&json!(7), &json!(0)));
    let told = document(&dir, &["health", "DIR/compact"]);
    let expected = json!({
        "walked": 16, "checked": 6, "agree": 4, "differ": 2, "unchecked": 1,
        "by_image": [row("/no/such/bin", 6, 0), row("/no/such/lib.so", 6, 0)],
        "disagreements": [],
    });
    assert_eq!(told["audit"], expected);
}

#[test]
fn health_shows_both_stacks() {
    let dir = told();
    inside::golden(dir.path(), "health_audit", &["health", "DIR/walks"]);
    let summary = inside::report(dir.path(), &["summary", "DIR/walks"]);
    let line = "33.3% of the 6 walks by unwind tables in the kernel that were checked differ from a copy of the stack";
    assert!(summary.contains(line), "{summary}");
}
