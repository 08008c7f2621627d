//! Tests names of a real program: a synthetic recording of functions that the test compiles.

use std::path::Path;
use std::process::Command;

use icecore_format::records::{Change, Origin};
use icecore_report::{Streams, run};
use icecore_tests::synthetic::Builder;
use serde_json::Value;

const SOURCE: &str = "\
__attribute__((noinline)) int leaf(int x) { return x * 3 + 1; }
static inline __attribute__((always_inline)) int inlined(int x) { return leaf(x) + 1; }
__attribute__((noinline)) int caller(int x) { return inlined(x) + 2; }
int main(int argc, char **argv) { return caller(argc); }
";

/// Compiles a program without position independence, so that its addresses are known from `nm`.
fn compile(dir: &Path) -> std::path::PathBuf {
    let (source, program) = (dir.join("p.c"), dir.join("p"));
    std::fs::write(&source, SOURCE).expect("written");
    let args = ["-O1", "-g", "-no-pie", "-fno-optimize-sibling-calls", "-Wl,-Ttext-segment=0x400000"];
    let cc = Command::new("cc").args(args).arg(&source).arg("-o").arg(&program).status();
    assert!(cc.expect("a C compiler").success());
    program
}

/// Returns address and size of a function.
fn symbol(program: &Path, name: &str) -> (u64, u64) {
    let out = Command::new("nm").arg("-S").arg(program).output().expect("nm");
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    let line = text.lines().find(|line| line.split(' ').nth(3) == Some(name)).expect("a symbol");
    let hex = |field: usize| u64::from_str_radix(line.split(' ').nth(field).expect("a field"), 16);
    (hex(0).expect("hex"), hex(1).expect("hex"))
}

fn json(file: &Path, args: &[&str]) -> Value {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams::plain(&mut out, &mut err);
    let file = file.display().to_string();
    let args = ["icecore-report"].into_iter().chain(args.iter().copied()).chain([file.as_str(), "--json"]);
    assert_eq!(run(args, &mut streams), 0, "{}", String::from_utf8_lossy(&err));
    serde_json::from_slice(&out).expect("JSON")
}

#[test]
fn functions_of_a_compiled_program_are_named_with_their_inlined_callers_and_lines() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = compile(dir.path());
    let (leaf, leaf_len) = symbol(&program, "leaf");
    let (caller, caller_len) = symbol(&program, "caller");
    let mut b = Builder::default();
    let image = b.image_on_disk(&program).expect("the program");
    let task = b.task(9, 9, "p");
    b.change(0, Change::FOUND, 9, 1, "p");
    // The mapping begins at 0x400000 with offset 0x1000 of the file: move it back by as much.
    b.map(1, 9, 0x40_1000, image, Origin::SCAN);
    // A leaf at the first byte of a function is exact. A return address after the last byte of a function belongs to that
    // function: this is the −1 of return addresses.
    b.sample(10, 0, task, &[leaf, caller + caller_len], &[]);
    b.sample(20, 0, task, &[leaf, leaf + leaf_len], &[]);
    // The call of `leaf` stands in the inlined function: find an address inside it.
    let mut inside = Vec::new();
    for offset in 1..caller_len {
        b.sample(100 + offset, 0, task, &[caller + offset], &[]);
        inside.push(offset);
    }
    let file = dir.path().join("p.icecore");
    b.write(&file, true).expect("written");

    let first = json(&file, &["samples", "--to", "15ns"]);
    let names = |sample: &Value| -> Vec<String> {
        let frames = sample["frames"].as_array().expect("frames");
        frames.iter().map(|f| f["name"].as_str().unwrap_or("?").to_owned()).collect()
    };
    assert_eq!(names(&first), ["leaf", "caller"]);
    assert_eq!(first["frames"][0]["line"], 1);
    assert!(first["frames"][0]["file"].as_str().expect("a file").ends_with("p.c"));
    let second = json(&file, &["samples", "--from", "15ns", "--to", "25ns"]);
    assert_eq!(names(&second), ["leaf", "leaf"]);

    let tree = json(&file, &["tree", "--from", "50ns", "--root", "none"]);
    let outer = &tree["children"][0];
    assert_eq!((&outer["name"], tree["children"].as_array().map(Vec::len)), (&"caller".into(), Some(1)));
    assert_eq!(outer["children"][0]["name"], "inlined");
    let top = json(&file, &["top", "--by", "line", "--from", "50ns", "--focus", "^inlined$"]);
    assert_eq!((&top["rows"][0]["name"], &top["rows"][0]["line"]), (&"inlined".into(), &2.into()));

    // Inlined functions are frames as well: the summary counts what `samples` lists.
    let summary = json(&file, &["summary"]);
    assert_eq!(summary["named_share"], 1.0);
    let before = json(&file, &["summary", "--from", "50ns", "--hide", "^inlined$"]);
    assert_eq!(before["user_ends"]["root"], caller_len - 1);
}
