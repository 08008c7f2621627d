//! Compares readable names of C++ with those of `c++filt`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use icecore_elf::demangled;
use object::{Object as _, ObjectSymbol as _};

/// What `c++filt` prints, without details of the standard library: `std::string`, as `nm -C` does.
fn filtered(names: &BTreeSet<String>) -> Vec<String> {
    let mut filter = Command::new("c++filt")
        .arg("-i")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("c++filt runs");
    let mut input = filter.stdin.take().expect("a pipe");
    let text: String = names.iter().fold(String::new(), |mut text, name| {
        let _ = writeln!(text, "{name}");
        text
    });
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = filter.wait_with_output().expect("c++filt ends");
    writer.join().expect("a thread").expect("written");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

/// Returns the libraries of C++ that Debian's clang is made of.
fn libraries() -> Vec<PathBuf> {
    let names = ["clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"];
    let path = std::env::var_os("PATH").expect("a path");
    let clang = names
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)))
        .find(|file| file.exists())
        .expect("clang is installed: tests/setup.sh build");
    let output = Command::new("ldd").arg(clang.canonicalize().expect("a file")).output().expect("ldd runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let is_wanted = |line: &&str| ["libclang", "libLLVM", "libstdc++"].iter().any(|name| line.contains(name));
    let paths = text.lines().filter(is_wanted).filter_map(|line| line.split_whitespace().nth(2));
    paths.map(PathBuf::from).collect()
}

/// Writes a name without the differences that we have chosen. Behind an empty pack, `c++filt` leaves a comma between two others and
/// no blank between two brackets.
fn without_chosen_differences(name: &str) -> String {
    name.replace("> >", ">>")
        .replace("> >", ">>")
        .replace(", , ", ", ")
        .replace("<, ", "<")
        .replace("(, ", "(")
}

#[test]
fn every_name_of_clang_is_written_as_cppfilt_writes_it() {
    let mut names = BTreeSet::new();
    for path in libraries() {
        let bytes = std::fs::read(&path).expect("a library");
        let file = object::File::parse(&bytes[..]).expect("an ELF file");
        let symbols = file.dynamic_symbols().filter_map(|symbol| symbol.name().ok());
        names.extend(symbols.filter(|name| name.starts_with("_Z")).map(str::to_owned));
    }
    assert!(names.len() > 50_000, "{} names: is this clang of shared libraries?", names.len());
    let wanted = filtered(&names);
    assert_eq!(wanted.len(), names.len());
    let mut others = Vec::new();
    for (raw, wanted) in names.iter().zip(&wanted) {
        let name = demangled(raw);
        let is_chosen =
            raw.contains("JE") && without_chosen_differences(&name) == without_chosen_differences(wanted);
        if name != *wanted && !is_chosen {
            others.push(format!("{raw}\n  c++filt {wanted}\n  we      {name}"));
        }
    }
    assert!(
        others.is_empty(),
        "{} names differ, such as\n{}",
        others.len(),
        others[..others.len().min(5)].join("\n")
    );
}
