//! Programs built on the spot, and the functions in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_elf::demangled;
use object::{Object, ObjectSymbol, SymbolKind};
use tempfile::TempDir;

const RUST: &str = include_str!("sources/program.rs");
const RUST_OTHER: &str = include_str!("sources/other.rs");
const CPP: [(&str, &str); 3] = [
    ("lib.hh", include_str!("sources/lib.hh")),
    ("lib.cc", include_str!("sources/lib.cc")),
    ("main.cc", include_str!("sources/main.cc")),
];
const GO: &str = include_str!("sources/main.go");

/// A folder with sources and what is built of them.
pub(crate) struct Yard(TempDir);

impl Yard {
    pub(crate) fn new() -> Self {
        let yard = Self(tempfile::tempdir().expect("a directory"));
        let sources = [("program.rs", RUST), ("other.rs", RUST_OTHER), ("main.go", GO)];
        for (name, source) in sources.into_iter().chain(CPP) {
            yard.write(name, source);
        }
        yard
    }

    pub(crate) fn write(&self, name: &str, source: &str) {
        std::fs::write(self.path(name), source).expect("written");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().expect("a real path").join(name)
    }

    /// Builds the program of Rust; with `other`, a crate that it uses.
    pub(crate) fn rust(&self, flags: &str, other: bool, out: &str) -> PathBuf {
        let mut uses = String::new();
        if other {
            self.run(
                "rustc",
                &format!("{flags} --edition 2021 --crate-type rlib other.rs -o libother-{out}.rlib"),
            );
            uses = format!("--cfg other --extern other=libother-{out}.rlib");
        }
        self.run("rustc", &format!("{flags} {uses} --edition 2021 program.rs -o {out}"));
        self.path(out)
    }

    /// Builds the program of C++, each unit for itself.
    pub(crate) fn cpp(&self, compiler: &str, flags: &str, out: &str) -> PathBuf {
        for unit in ["lib", "main"] {
            self.run(compiler, &format!("{flags} -std=c++17 -fPIE -c {unit}.cc -o {out}-{unit}.o"));
        }
        self.run(compiler, &format!("{flags} -pie {out}-lib.o {out}-main.o -o {out}"));
        self.path(out)
    }

    /// Builds the program of Go.
    pub(crate) fn go(&self, flags: &str, out: &str) -> PathBuf {
        let cache = concat!(env!("CARGO_TARGET_TMPDIR"), "/go");
        let set = format!("GOCACHE={cache} GOFLAGS= GO111MODULE=off CGO_ENABLED=0");
        self.run("env", &format!("{set} go build {flags} -o {out} main.go"));
        self.path(out)
    }

    pub(crate) fn run(&self, program: &str, args: &str) {
        let out = Command::new(program).args(args.split_whitespace()).current_dir(self.0.path()).output();
        let out = out.unwrap_or_else(|error| panic!("{program} must be installed: {error}"));
        assert!(out.status.success(), "{program} {args}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// Names of all functions of a file, as a report shows them.
pub(crate) fn functions(path: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(path).expect("readable");
    let elf = object::File::parse(&*bytes).expect("ELF");
    let functions =
        elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    functions.map(|symbol| demangled(symbol.name().expect("text"))).collect()
}
