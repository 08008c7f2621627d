//! Compiles the BPF programs, and each of their headers alone, for every machine that they are made for: a header includes what it
//! uses. Nothing is loaded.

use std::path::Path;
use std::process::Command;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

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

/// The programs that kernels before 5.12 load: one counter, and what is recorded with it.
const FOR_OLD_KERNELS: [&str; 10] = [
    "sample_by_helper",
    "on_every_task",
    "on_every_process_by_helper",
    "on_end_of_process",
    "on_fork",
    "on_exec",
    "on_rename",
    "on_exit",
    "on_free",
    "on_mkdir_cgroup",
];

#[test]
fn the_programs_for_old_kernels_have_no_new_atomic_operations() {
    let libbpf = libbpf();
    let compiled = libbpf.path().join("icecore.o");
    let path = compiled.to_str().expect("ASCII");
    assert_eq!(said("x86", libbpf.path(), &["-c", "icecore.bpf.c", "-o", path]), "");
    let bytes = std::fs::read(&compiled).expect("it is there");
    let file = object::File::parse(&*bytes).expect("ELF");
    for name in FOR_OLD_KERNELS {
        let symbol = file.symbol_by_name(name).unwrap_or_else(|| panic!("no program {name}"));
        let section = file.section_by_index(symbol.section_index().expect("defined")).expect("it is there");
        let (start, len) = (symbol.address() as usize, symbol.size() as usize);
        let code = &section.data().expect("readable")[start..start + len];
        let mut has_sum = false;
        for instruction in code.chunks_exact(8) {
            // linux/bpf.h: BPF_STX | BPF_ATOMIC of 4 and 8 bytes; operation 0 is an addition whose result nobody uses.
            if [0xc3, 0xdb].contains(&instruction[0]) {
                assert_eq!(instruction[4..], [0; 4], "{name}");
                has_sum = true;
            }
        }
        assert!(
            has_sum || !["sample_by_helper", "on_end_of_process"].contains(&name),
            "{name} counts losses"
        );
    }
}
