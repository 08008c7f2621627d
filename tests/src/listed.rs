//! A program that a test compiles, and a recording of it of which the lines and instructions of all samples are known.

use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_format::records::{Change, Location, Origin};
use serde_json::Value;

use crate::inside::report;
use crate::synthetic::Builder;

/// The program.
pub const SOURCE: &str = "\
__attribute__((noinline)) int leaf(int x) { return x * 3 + 1; }
static inline __attribute__((always_inline)) int inlined(int x) {
\treturn leaf(x) + 1;
}
__attribute__((noinline)) int caller(int x) {
  return inlined(x) + 2;
}
int main(int argc, char **argv) { return caller(argc); }
";

/// A program at fixed addresses, and a recording of it: `p.c`, `p` and `r.icecore` in a folder.
pub struct Listed {
    /// The folder.
    pub dir: tempfile::TempDir,
    /// The first instruction of `leaf`.
    pub leaf: u64,
    /// The call of `leaf` in `caller`.
    pub call: u64,
    /// The instruction after the call.
    pub behind: u64,
    /// The last instruction of `caller`.
    pub last: u64,
}

fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().expect("it is installed");
    assert!(out.status.success(), "{program} {args:?}");
    String::from_utf8(out.stdout).expect("UTF-8")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn hex(word: &str) -> u64 {
    u64::from_str_radix(word, 16).expect("a number")
}

/// Lists address and text of the instructions of a function, as objdump does.
pub fn objdump(program: &Path, function: &str) -> Vec<(u64, String)> {
    let option = format!("--disassemble={function}");
    let out = run("objdump", &[&option, "--no-show-raw-insn", text(program)]);
    let rows = out.lines().filter_map(|line| line.trim().split_once(":\t"));
    rows.map(|(at, text)| (hex(at), text.trim().to_owned())).collect()
}

impl Listed {
    /// Compiles the program with `cc` or `clang`. Four samples hit the first instruction of `leaf`, called from `caller`, one each 10 µs
    /// from 10 µs on; then two hit the last of `caller`.
    pub fn new(compiler: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let [leaf, call, behind, last] = Self::write(compiler, dir.path());
        Self { dir, leaf, call, behind, last }
    }

    /// Writes program and recording into a folder; returns the four addresses.
    pub fn write(compiler: &str, dir: &Path) -> [u64; 4] {
        Self::write_as(compiler, SOURCE, dir)
    }

    /// Writes a program with the functions of [`SOURCE`] and its recording into a folder; returns the four addresses.
    pub fn write_as(compiler: &str, text_of_source: &str, dir: &Path) -> [u64; 4] {
        let (source, program) = (dir.join("p.c"), dir.join("p"));
        std::fs::write(&source, text_of_source).expect("room");
        let flags = "-O1 -g -gdwarf-5 -no-pie -fno-optimize-sibling-calls -Wl,-Ttext-segment=0x400000";
        let flags: Vec<&str> = flags.split(' ').chain([text(&source), "-o", text(&program)]).collect();
        run(compiler, &flags);
        let (leaf, caller) = (objdump(&program, "leaf"), objdump(&program, "caller"));
        let call = caller.iter().position(|(_, text)| text.contains("<leaf>")).expect("a call");
        let (call, behind, last) = (caller[call].0, caller[call + 1].0, caller.last().expect("code").0);
        let mut b = Builder::default();
        let image = b.image_on_disk(&program).expect("the program");
        let task = b.task(9, 9, "p");
        b.change(0, Change::FOUND, 9, 1, "p");
        b.map(1, 9, 0x40_1000, image, Origin::SCAN);
        let at = |address: u64| Location::Image { image, file_off: address - 0x40_0000 };
        let called = b.stack_at(&[at(leaf[0].0), at(behind)]);
        let alone = b.stack_at(&[at(last)]);
        for (time, stack) in (1..).zip([called, called, called, called, alone, alone]) {
            b.sample(time * 10_000, 0, task, &[], &[]).user_stack = stack;
        }
        b.write(&dir.join("r.icecore"), true).expect("room");
        [leaf[0].0, call, behind, last]
    }

    /// Annotates; returns the document.
    pub fn json(&self, words: &[&str]) -> Value {
        let line = [&["annotate", "DIR/r.icecore", "--json"], words].concat();
        serde_json::from_str(&report(self.dir.path(), &line)).expect("JSON")
    }

    /// The path of the program.
    pub fn program(&self) -> PathBuf {
        self.dir.path().join("p")
    }
}
