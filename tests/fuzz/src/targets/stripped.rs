//! What names code where there is neither DWARF nor a symbol table: GSYM, Go's table, stubs of the linker.

use std::path::Path;
use std::process::Command;

use super::dwarf;

/// Names every address of the code, which lies in the first page of the seeds.
pub fn run(data: &[u8]) {
    dwarf::run(data);
}

/// A stripped library with stubs; with GSYM; with a table as Go writes it.
pub fn seeds() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    dwarf::write_sources(dir.path());
    dwarf::compile(dir.path(), "c++", "-g -O2");
    succeed(dir.path(), &gsymutil(), "--convert=x.so --out-file=x.gsym");
    std::fs::write(dir.path().join("go"), go_table()).expect("writable");
    succeed(dir.path(), "strip", "x.so");
    let mut seeds = vec![std::fs::read(dir.path().join("x.so")).expect("just made")];
    for section in [".gsym=x.gsym", ".gopclntab=go"] {
        succeed(dir.path(), "objcopy", &format!("--add-section {section} x.so y.so"));
        seeds.push(std::fs::read(dir.path().join("y.so")).expect("just made"));
    }
    seeds
}

/// A table of Go 1.20: code from address 1 on, a function every 256 bytes.
fn go_table() -> Vec<u8> {
    let names = b"\0main.main\0main.F[...]\0";
    let (names_off, count) = (8 + 8 * 8, 16_u32);
    let functions_off = names_off + names.len() as u64;
    let numbers = [count.into(), 0, 1, names_off, 0, 0, 0, functions_off];
    let mut table = [&0xffff_fff1_u32.to_le_bytes()[..], &[0, 0, 1, 8]].concat();
    table.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
    table.extend(names);
    let known_off = (2 * count + 1) * 4;
    table.extend((0..count).flat_map(|i| [256 * i, known_off + 8 * i]).flat_map(u32::to_le_bytes));
    table.extend((256 * count).to_le_bytes());
    table.extend((0..count).flat_map(|i| [256 * i, [1, 11][i as usize % 2]]).flat_map(u32::to_le_bytes));
    table
}

/// Distributions install it with the version in its name.
fn gsymutil() -> String {
    let versioned = (14..=30).rev().map(|version| format!("llvm-gsymutil-{version}"));
    let mut names = std::iter::once("llvm-gsymutil".to_owned()).chain(versioned);
    let is_there = |name: &String| Command::new(name).arg("--version").output().is_ok();
    names.find(is_there).expect("tests/setup.sh has installed it")
}

fn succeed(dir: &Path, program: &str, args: &str) {
    let status = Command::new(program).args(args.split(' ')).current_dir(dir).output();
    assert!(status.is_ok_and(|out| out.status.success()), "{program} {args} must succeed");
}

#[cfg(test)]
mod tests {
    use icecore_symbolize::Answer;
    use icecore_symbolize::image::FileOff;

    use super::super::{FREE_BYTES, image};
    use super::*;

    #[test]
    fn every_seed_is_named_by_what_it_is_for() {
        let offsets: Vec<FileOff> = (0..4096).map(FileOff).collect();
        for (seed, expected) in seeds().iter().zip(["far(int)@plt", "secret", "main.main"]) {
            let answers = image::named(seed, &offsets, 64 * FREE_BYTES);
            let is_named = |answer: &Answer| match answer {
                Answer::Named(functions) => functions.iter().any(|function| &*function.name == expected),
                Answer::Unnamed { .. } => false,
            };
            assert!(answers.iter().any(is_named), "{expected}");
        }
    }
}
