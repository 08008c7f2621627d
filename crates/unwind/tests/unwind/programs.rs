//! Compiles programs that make stacks in all ways.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compilers, sources, and options; each set of options makes a program.
const MATRIX: [(&str, &str, &[&str]); 5] = [
    (
        "gcc",
        "ways.c",
        &[
            "-O0",
            "-O1",
            "-O2",
            "-O3",
            "-Os",
            "-O2 -fno-omit-frame-pointer",
            "-O2 -fcf-protection=none -Wl,-z,now",
            "-O2 -static -DSWITCHES",
        ],
    ),
    ("clang", "ways.c", &["-O0", "-O2", "-O3", "-O2 -fno-omit-frame-pointer"]),
    ("g++", "ways.cc", &["-O0", "-O2", "-O3 -fno-omit-frame-pointer"]),
    ("clang++", "ways.cc", &["-O2", "-O2 -fno-omit-frame-pointer"]),
    ("rustc", "ways.rs", &["-Copt-level=0", "-Copt-level=3", "-Copt-level=3 -Cforce-frame-pointers=yes"]),
];

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Program {
    /// Compiler and options.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Compiles all of them into a folder.
pub(crate) fn compile(dir: &Path) -> Vec<Program> {
    let mut programs = Vec::new();
    for (compiler, source, variants) in MATRIX {
        for options in variants {
            let path = dir.join(format!("ways-{}", programs.len()));
            run(compiler, options, source, &path);
            programs.push(Program { name: format!("{compiler} {options}"), path });
        }
    }
    programs
}

/// Compiles the program in C with an option of one's own.
pub(crate) fn one(dir: &Path, compiler: &str, option: &str) -> PathBuf {
    let path = dir.join("one");
    run(compiler, &format!("-O2 {option}"), "ways.c", &path);
    path
}

fn run(compiler: &str, options: &str, source: &str, path: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unwind/programs").join(source);
    let mut command = Command::new(compiler);
    command.args(options.split(' ')).arg("-o").arg(path).arg(source);
    let status = command.status().unwrap_or_else(|error| panic!("{compiler} must be installed: {error}"));
    assert!(status.success(), "{command:?}");
}
