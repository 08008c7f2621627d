//! The programs of `tests/programs`, compiled when they are first asked for.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Two inlined functions in a loop. Tests assert the line numbers, so do not move a line. The compiler is told of `time.h`.
const INLINING: &str = "\
static volatile unsigned long sink;
static inline __attribute__((always_inline)) void innermost(unsigned long x) {
  for (unsigned long i = 0; i < x; i++) sink += i;
}
static inline __attribute__((always_inline)) void middle(unsigned long x) {
  innermost(x + 1);
}
__attribute__((noinline)) void outer(unsigned long x) {
  middle(x * 2);
  sink++;
}
int main(void) {
  for (clock_t end = clock() + CLOCKS_PER_SEC * 7 / 10; clock() < end;) outer(30000);
}
";

/// Compiles a program with debug information that spends its time in line 3 of `innermost`, inlined into `middle`, inlined
/// into `outer`.
pub fn inlining(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("inlined.c"), dir.join("inlined"));
    std::fs::write(&source, INLINING).expect("room");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-fno-omit-frame-pointer", "-include", "time.h", "-o"]);
    compiler.arg(&program).arg(&source);
    assert!(compiler.status().expect("a compiler is installed").success());
    program
}

/// Options of the compiler for a program whose stacks can be walked whole, by frame pointers.
const WITH_FRAMES: &[&str] = &[
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-mno-omit-leaf-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-pthread",
];
/// Those with which distributions compile programs.
const AS_DISTRIBUTED: &[&str] = &["-O2", "-g", "-fomit-frame-pointer", "-pthread"];
/// Those for a program that lies at the same addresses in every process.
const IN_PLACE: &[&str] = &["-O2", "-g", "-static", "-no-pie", "-Wl,--section-start=.replaced=0x10000000"];
/// Those for a program without libraries.
const WITHOUT_LIBRARIES: &[&str] = &["-nostdlib", "-static", "-fno-stack-protector", "-Wl,--eh-frame-hdr"];

/// Makes a function for each program: it compiles a file of `tests/programs` once, and returns the path of the program.
macro_rules! programs {
    ($($(#[$doc:meta])* $name:ident: $source:literal, $options:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> PathBuf {
            static MADE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
            MADE.get_or_init(|| compile($source, &$options.concat())).1.clone()
        }
    )*};
}

programs! {
    /// Has functions with known shares of its time.
    target: "target.c", [WITH_FRAMES];
    /// Never ends by itself; its stacks hardly repeat.
    churn: "churn.c", [WITH_FRAMES];
    /// Maps executable memory all the time.
    mapper: "mapper.c", [["-O1"]];
    /// Loads the recorder as hard as it can.
    storm: "storm.c", [["-O2", "-pthread"]];
    /// Has functions to be probed.
    probed: "probed.c", [AS_DISTRIBUTED];
    /// The same with frame pointers.
    probed_with_frames: "probed.c", [WITH_FRAMES];
    /// Calls a function in processes that are just made.
    forks: "forks.c", [AS_DISTRIBUTED];
    /// Has functions in which the kernel makes no probe.
    locked: "locked.c", [AS_DISTRIBUTED];
    /// Has functions whose returns are probed.
    returns: "returns.c", [AS_DISTRIBUTED];
    /// Has static probes.
    statics: "statics.c", [["-O2", "-g", "-fomit-frame-pointer"]];
    /// Waits for events, timers, signals, changes of files, locks and messages.
    waits_in_files: "waits_in_files.c", [["-O1", "-g", "-pthread"]];
    /// Has threads that wait for known times.
    waits: "waits.c", [["-O1", "-g", "-fomit-frame-pointer", "-pthread"]];
    /// Two processes that take turns on one CPU.
    ping_pong: "ping_pong.c", [["-O1"]];
    /// Has threads that wait for a CPU.
    queues: "queues.c", [["-O2", "-g", "-pthread"]];
    /// Uses known amounts of what the kernel counts.
    counted: "counted.c", [["-O1", "-pthread"]];
    /// Four processes that work in turns of ten milliseconds.
    in_step: "in_step.c", [WITH_FRAMES];
    /// Two functions take turns by the clock.
    alternates: "alternates.c", [WITH_FRAMES];
    /// Executes a program in a thread that is not the first one.
    executes: "executes.c", [WITH_FRAMES];
    /// Runs a program that is in no file.
    in_memory: "in_memory.c", [["-O1"]];
    /// A library to be preloaded.
    failing_disk: "failing_disk.c", [["-O1", "-shared", "-fPIC", "-pthread"]];
    /// Makes code, without libraries, so that it runs in any root.
    jit: "jit.c", [WITH_FRAMES, &["-static"]];
    /// Has a fiber that begins in the middle of a function.
    fibers: "fibers.c", [AS_DISTRIBUTED];
    /// Makes code that keeps no frame pointers.
    unframed: "unframed.c", [AS_DISTRIBUTED];
    /// Has known stacks.
    stacks_with_frames: "stacks.c", [WITH_FRAMES];
    /// The same as distributions compile it.
    stacks_without_frames: "stacks.c", [AS_DISTRIBUTED];
    /// Has a deep function under several callers.
    callers: "callers.c", [["-O2", "-g", "-fomit-frame-pointer"]];
    /// The same with frame pointers.
    callers_with_frames: "callers.c", [WITH_FRAMES];
    /// Does what a user without privileges records.
    own: "own.c", [AS_DISTRIBUTED];
    /// Has callers that walks along frame pointers skip.
    skips: "skips.c", [AS_DISTRIBUTED];
    /// Calls functions that count their calls.
    profiled: "profiled.c", [["-O2", "-g", "-pg"]];
    /// Has two libraries that take turns at the same addresses.
    swapped: "swapped.c", [AS_DISTRIBUTED];
    /// The first of them.
    swapped_small: "swapped.c", [AS_DISTRIBUTED, &["-shared", "-fPIC", "-DFUNCTION=small", "-DROOM=256"]];
    /// The second one.
    swapped_large: "swapped.c", [AS_DISTRIBUTED, &["-shared", "-fPIC", "-DFUNCTION=large", "-DROOM=4000"]];
    /// Moves its code onto memory without a file.
    moved: "moved.c", [AS_DISTRIBUTED];
    /// Two processes with one address space, which load the two libraries.
    shares_memory: "shares_memory.c", [AS_DISTRIBUTED];
    /// Has children that execute a program.
    replaced: "replaced.c", [IN_PLACE];
    /// The program that they execute, whose function is where that of the other one was.
    replaced_second: "replaced.c", [IN_PLACE, &["-DFUNCTION=second"]];
    /// Lets nobody read what it has mapped.
    holds: "holds.c", [AS_DISTRIBUTED];
    /// Lets children of `vfork` execute programs.
    vforks: "vforks.c", [AS_DISTRIBUTED];
    /// Has assembly without unwind tables, and a frame pointer in every function of C.
    guesses: "guesses.c", [WITH_FRAMES];
    /// The same without symbols.
    guesses_without_symbols: "guesses.c", [WITH_FRAMES, &["-s"]];
    /// Has secrets in every kind of memory.
    secrets: "secrets.c", [AS_DISTRIBUTED];
    /// The same with frame pointers.
    secrets_with_frames: "secrets.c", [WITH_FRAMES];
    /// Has JIT code, and stale addresses of it on its stack.
    made: "made.c", [WITH_FRAMES, &["-static"]];
    /// Pretends to be CPython, and does harm.
    pretends: "pretends.c", [AS_DISTRIBUTED];
    /// Exports what CPython exports, but no version.
    unknown_python: "unknown_interpreter.c", [AS_DISTRIBUTED, &["-rdynamic"]];
    /// Exports what PHP with threads exports.
    unknown_php: "unknown_interpreter.c", [AS_DISTRIBUTED, &["-rdynamic", "-DPHP"]];
    /// Exports what V8 exports whose pointers are half a word.
    unknown_v8: "unknown_interpreter.c", [AS_DISTRIBUTED, &["-rdynamic", "-DV8"]];
    /// Has no libraries, and a frame pointer in every function.
    alone: "alone.c", [WITH_FRAMES, WITHOUT_LIBRARIES];
    /// The same, but its function `outer` keeps no frame pointer.
    alone_with_a_gap: "alone.c",
        [WITH_FRAMES, WITHOUT_LIBRARIES, &["-DOUTER=__attribute__((optimize(\"omit-frame-pointer\")))"]];
}

/// Compiles `tests/programs/work.c` with more options into a folder, under a name, and returns its path.
pub fn work(dir: &Path, name: &str, options: &[&str]) -> PathBuf {
    let (source, program) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/work.c"), dir.join(name));
    let mut compiler = Command::new("cc");
    compiler.args(WITH_FRAMES).args(options).arg("-o").arg(&program).arg(source);
    assert!(compiler.status().expect("a compiler is installed").success());
    program
}

/// Compiles a file of `tests/programs` into a folder of its own.
fn compile(source: &str, options: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join(source.trim_end_matches(".c"));
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(source);
    let cc = Command::new("cc").args(options).arg(from).arg("-o").arg(&path).arg("-ldl").status();
    assert!(cc.expect("a C compiler").success(), "tests/programs/{source} does not compile");
    (dir, path)
}
