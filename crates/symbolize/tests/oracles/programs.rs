//! Programs compiled on the spot, and what the report says of their code.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_symbolize::image::{FileOff, Finder, Identity, Kind, Search};
use icecore_symbolize::{Answer, Wanted, symbolize};
use object::{Object, ObjectSection, SectionKind};
use tempfile::TempDir;

const LIB_H: &str = "#pragma once
#include <string>
#include <vector>
struct Shape { virtual ~Shape() {} virtual double area(double scale) const; int id; };
template <class T> inline T twice(T v) { return v + v; }
int work(int n, const std::vector<std::string>& names);
";
const LIB: &str = r#"#include "lib.hh"
#include <algorithm>
#include <map>
double Shape::area(double scale) const { return twice(scale) * id; }
static int helper(int x) { volatile int y = twice(x); return y * 3; }
int work(int n, const std::vector<std::string>& names) {
  std::map<std::string, int> counts;
  for (auto& name : names) counts[name] += helper(n);
  std::vector<int> all;
  for (auto& pair : counts) all.push_back(pair.second);
  std::sort(all.begin(), all.end(), [n](int a, int b) { return (a ^ n) < (b ^ n); });
  if (n == 12345) throw std::string("cold");
  return all.empty() ? 0 : all[0];
}
"#;
const MAIN: &str = r#"#include "lib.hh"
struct Square : Shape { double area(double s) const override { return Shape::area(s) * twice(s); } };
int main(int argc, char** argv) {
  struct Local { int n; int method(int x) { return x * n; } } local{argc};
  std::vector<std::string> names(argv, argv + argc);
  Square square;
  square.id = argc;
  return work(argc, names) + int(square.area(argc)) + local.method(argc);
}
"#;

const GO: &str = r#"package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

type shape interface{ area(scale float64) float64 }
type square struct{ side float64 }

func (s square) area(scale float64) float64 { return twice(s.side) * scale }
func twice[T int | float64](v T) T          { return v + v }

func work(names []string) int {
	counts := map[string]int{}
	for _, name := range names {
		counts[strings.ToUpper(name)] += twice(len(name))
	}
	keys := make([]string, 0)
	for key := range counts {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool { return counts[keys[i]] < counts[keys[j]] })
	return len(keys)
}

func main() {
	var s shape = square{2}
	fmt.Println(work(os.Args), s.area(3))
}
"#;

/// A folder with the sources of a C++ program: templates, lambdas, exceptions, a class in a function, two units.
pub(crate) struct Workshop {
    dir: TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, source) in [("lib.hh", LIB_H), ("lib.cc", LIB), ("main.cc", MAIN), ("main.go", GO)] {
            std::fs::write(dir.path().join(name), source).expect("written");
        }
        Self { dir }
    }

    /// Compiles each unit, links them, and gives the program.
    pub(crate) fn compile(&self, compiler: &str, flags: &str, out: &str) -> PathBuf {
        for unit in ["lib", "main"] {
            let args = format!("{flags} -std=c++17 -fPIE -c {unit}.cc -o {out}-{unit}.o");
            self.run(compiler, &args);
        }
        self.run(compiler, &format!("{flags} -pie {out}-lib.o {out}-main.o -Wl,--build-id=sha1 -o {out}"));
        self.path(out)
    }

    /// Compiles a program of Go with its runtime.
    pub(crate) fn compile_go(&self, flags: &str, out: &str) -> PathBuf {
        // What is compiled of Go's library is kept for the next run.
        let cache = concat!(env!("CARGO_TARGET_TMPDIR"), "/go");
        let set = format!("GOCACHE={cache} GOFLAGS= GO111MODULE=off CGO_ENABLED=0");
        self.run("env", &format!("{set} go build {flags} -o {out} main.go"));
        self.path(out)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("a real path").join(name)
    }

    /// Runs a program there to its success.
    pub(crate) fn run(&self, program: &str, args: &str) {
        let out = Command::new(program).args(args.split_whitespace()).current_dir(self.dir.path()).output();
        let out = out.unwrap_or_else(|error| panic!("{program} must be installed: {error}"));
        assert!(out.status.success(), "{program} {args}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// A tool of LLVM: distributions install it with the version in its name.
pub(crate) fn tool(name: &str) -> String {
    let versioned = (14..=30).rev().map(|version| format!("{name}-{version}"));
    let mut names = std::iter::once(name.to_owned()).chain(versioned);
    let is_there = |name: &String| Command::new(name).arg("--version").output().is_ok();
    names.find(is_there).unwrap_or_else(|| panic!("{name} must be installed: run tests/setup.sh"))
}

/// A function at an address: name, file, line.
pub(crate) type Frame = (String, Option<String>, Option<u32>);

/// Addresses all over the code of a file, so many at most, with their file offsets.
pub(crate) fn places(path: &Path, count: u64) -> Vec<(FileOff, u64)> {
    let bytes = std::fs::read(path).expect("readable");
    let elf = object::File::parse(&*bytes).expect("ELF");
    let text = || elf.sections().filter(|section| section.kind() == SectionKind::Text);
    let total: u64 = text().map(|section| section.size()).sum();
    let step = usize::try_from(total.div_ceil(count)).expect("small");
    let places = text().filter_map(|section| Some((section.address(), section.file_range()?)));
    let mut places: Vec<_> = places
        .flat_map(|(at, (off, len))| (0..len).step_by(step).map(move |i| (FileOff(off + i), at + i)))
        .collect();
    places.sort_unstable();
    places
}

/// What the report says of them, innermost function first; nothing of those without a name.
pub(crate) fn ours(path: &Path, search: &Search, places: &[(FileOff, u64)]) -> Vec<Vec<Frame>> {
    let meta = std::fs::metadata(path).expect("there");
    let bytes = std::fs::read(path).expect("readable");
    let elf = object::File::parse(&*bytes).expect("ELF");
    let image = Identity {
        kind: Kind::File,
        path: path.to_str().expect("UTF-8").to_owned(),
        build_id: elf.build_id().expect("notes").unwrap_or_default().to_vec(),
        size_bytes: meta.len(),
        modified_unix_ns: (meta.mtime() * 1_000_000_000 + meta.mtime_nsec()) as u64,
        inode: None,
        has_double: false,
    };
    let offsets: Vec<FileOff> = places.iter().map(|place| place.0).collect();
    let wanted = [Wanted { image: &image, offsets: &offsets }];
    let answers = symbolize(&wanted, &Finder { search, embedded: None }, &|_| ()).pop().expect("one list");
    let frames = |answer: &Answer| match answer {
        Answer::Named(functions) => functions
            .iter()
            .map(|f| (f.name.to_string(), f.file.as_ref().map(ToString::to_string), f.line))
            .collect(),
        Answer::Unnamed { .. } => Vec::new(),
    };
    answers.iter().map(frames).collect()
}

/// Nothing but the file itself.
pub(crate) fn nowhere() -> Search {
    let mut search = Search::default();
    search.debug_dirs.clear();
    search
}

/// The offset in a file of an address in a section.
pub(crate) fn file_off(bytes: &[u8], at: u64) -> FileOff {
    let elf = object::File::parse(bytes).expect("ELF");
    let around = elf.sections().find(|section| at.wrapping_sub(section.address()) < section.size());
    let around = around.expect("objdump read it there");
    FileOff(around.file_range().expect("code is in the file").0 + (at - around.address()))
}
