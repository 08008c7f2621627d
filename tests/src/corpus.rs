//! The corpus: recordings of every released version, which must read for ever.
//!
//! `tests/corpus/` has each as text, 32 bytes a line in hexadecimal, so that a diff shows a change; `released` lists
//! those that a release has written, with their checksums.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Returns the folder of the corpus.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Reads all recordings, by name.
pub fn recordings() -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(folder()).expect("the corpus is there");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("readable").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "hex"));
    files.sort();
    let recording = |file: PathBuf| {
        let name = file.file_stem().expect("it has a name").to_string_lossy().into_owned();
        (name, from_hex(&std::fs::read_to_string(file).expect("text")))
    };
    files.into_iter().map(recording).collect()
}

/// Returns names and CRC-32 of the released recordings.
pub fn released() -> Vec<(String, u32)> {
    let text = std::fs::read_to_string(folder().join("released")).expect("the list is there");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (crc, name) = line.split_once(' ').expect("checksum and name");
        (name.to_owned(), u32::from_str_radix(crc, 16).expect("a checksum"))
    };
    lines.map(entry).collect()
}

/// Writes bytes as a text of the corpus.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        for byte in line {
            write!(text, "{byte:02x}").expect("memory takes all");
        }
        text.push('\n');
    }
    text
}

fn from_hex(text: &str) -> Vec<u8> {
    let line = |line: &str| -> Vec<u8> {
        let pair = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).expect("two digits");
        (0..line.len()).step_by(2).map(pair).collect()
    };
    text.lines().flat_map(line).collect()
}
