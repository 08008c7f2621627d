//! Compiles `bpf/icecore.bpf.c` and generates its Rust skeleton into `OUT_DIR`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    println!("cargo:rerun-if-changed={}", bpf.display());
    println!("cargo:rerun-if-env-changed=CLANG");

    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        other => panic!("icecore-record knows x86_64 and aarch64, not {other:?}"),
    };
    let out = env::var_os("OUT_DIR").expect("bug: cargo sets OUT_DIR");
    let built = SkeletonBuilder::new()
        .source(bpf.join("icecore.bpf.c"))
        .clang(clang())
        .clang_args([format!("-D__TARGET_ARCH_{arch}"), "-mcpu=v3".into(), "-Wall".into(), "-Werror".into()])
        .build_and_generate(Path::new(&out).join("icecore.skel.rs"));
    if let Err(error) = built {
        panic!("cannot compile bpf/icecore.bpf.c: {error:?}");
    }
}

/// Finds a compiler for BPF: `$CLANG`, then `clang`, then the numbered ones of Debian and Ubuntu.
fn clang() -> PathBuf {
    if let Some(clang) = env::var_os("CLANG") {
        return clang.into();
    }
    let numbered = (14..=19).rev().map(|version| format!("clang-{version}"));
    std::iter::once("clang".to_owned())
        .chain(numbered)
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success()))
        .map_or_else(
            || panic!("cannot find clang (14 or newer): install package `clang` or set CLANG"),
            PathBuf::from,
        )
}
