//! Compiles the BPF programs, and each of their headers alone, for every machine that they are made for: a header includes what it
//! uses. Nothing is loaded.

use std::path::Path;
use std::process::Command;

const MACHINES: [&str; 2] = ["x86", "arm64"];
/// What crates/record/build.rs passes; names without use are errors, too.
const FLAGS: [&str; 7] = ["-O2", "-g", "-Wall", "-Werror", "-mcpu=v3", "-target", "bpf"];

/// Returns the compiler that crates/record/build.rs takes.
fn clang() -> Command {
    let named = std::env::var("CLANG").into_iter();
    let known =
        std::iter::once("clang".to_owned()).chain((14..=19).rev().map(|version| format!("clang-{version}")));
    let works =
        |name: &String| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    Command::new(named.chain(known).find(works).expect("clang is installed"))
}

/// Runs clang for one machine; returns what it says, which is nothing if all is well.
fn said(machine: &str, libbpf: &Path, arguments: &[&str]) -> String {
    let out = clang()
        .args(FLAGS)
        .arg(format!("-D__TARGET_ARCH_{machine}"))
        .arg("-I")
        .arg(libbpf)
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../bpf"))
        .output()
        .expect("clang runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.success(), said.is_empty(), "{said}");
    said
}

/// Writes the headers of libbpf into a folder, where `#include <bpf/…>` finds them.
fn libbpf() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("bpf")).expect("a folder");
    for (name, text) in libbpf_sys::API_HEADERS {
        std::fs::write(folder.path().join("bpf").join(name), text).expect("writable");
    }
    folder
}

#[test]
fn each_header_of_the_programs_compiles_alone() {
    let libbpf = libbpf();
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bpf");
    let entries =
        std::fs::read_dir(bpf).expect("it is there").map(|entry| entry.expect("readable").file_name());
    let headers: Vec<String> =
        entries.map(|name| name.into_string().expect("ASCII")).filter(|name| name.ends_with(".h")).collect();
    assert!(headers.len() > 20, "{headers:?}");
    for header in &headers {
        for machine in MACHINES {
            let said =
                said(machine, libbpf.path(), &["-fsyntax-only", "-include", header, "-x", "c", "/dev/null"]);
            assert!(said.is_empty(), "bpf/{header} does not compile alone for {machine}:\n{said}");
        }
    }
}

#[test]
fn the_programs_compile_for_each_machine() {
    let libbpf = libbpf();
    for machine in MACHINES {
        let said = said(machine, libbpf.path(), &["-c", "icecore.bpf.c", "-o", "/dev/null"]);
        assert!(said.is_empty(), "for {machine}:\n{said}");
    }
}
