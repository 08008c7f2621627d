//! The whole report: one command line over a recording. Its output must be text that steers no terminal, or JSON.

use std::path::Path;

use icecore_report::{Streams, run as report};
use serde::de::IgnoredAny;

use super::{FREE_BYTES, recording};
use crate::{draft, memory, scratch};

/// The command lines. A byte of the recording's UUID chooses one, because it means nothing else.
const LINES: [&[&str]; 22] = [
    &["summary"],
    &["summary", "--json"],
    &["summary", "--json", "--focus", "^(ext4|vfs)", "--from", "0.5"],
    &["top"],
    &["top", "--json", "--by", "line"],
    &["top", "--by", "process", "--comm", "make"],
    &["top", "--by", "image", "--pid", "100"],
    &["tree"],
    &["tree", "--callers", "--min-percent", "0"],
    &["tree", "--json"],
    &["flame", "-o", "-"],
    &["folded"],
    &["folded", "--json", "--weight", "period"],
    &["samples"],
    &["samples", "--json", "--kernel"],
    &["info"],
    &["info", "--blocks"],
    &["info", "--json"],
    &["depth"],
    &["depth", "--json", "--by", "thread", "-n", "0"],
    &["timeline", "--by", "function", "--sort", "total"],
    &["timeline", "--json"],
];
const UUID_OFF: usize = 32;

/// Named stacks hold at most so many bytes for one of a payload, on top of the tables.
const TIMES_THE_TABLES: usize = 4;

/// Reports on a recording (or a [`draft`]).
pub fn run(data: &[u8]) {
    let file = draft::finished(data);
    let line = LINES[usize::from(file.get(UUID_OFF).copied().unwrap_or(0)) % LINES.len()];
    let limit = 4 * FREE_BYTES + TIMES_THE_TABLES * recording::limit_bytes(&file);
    scratch::as_file(&file, |path| memory::within(limit, || one(line, path)));
}

fn one(line: &[&str], path: &Path) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams { out: &mut out, err: &mut err, color: false, progress: false, cache: None };
    let file = path.to_str().expect("bug: it is text");
    let args = [&["icecore-report"], line, &["--threads", "1", file]].concat();
    let code = report(args, &mut streams);
    let err = String::from_utf8(err).expect("errors are text");
    let is_warned = err.is_empty() || err.starts_with("warning: ");
    assert!(code == 0 && is_warned || code == 2 && err.starts_with("error: "), "{code}: {err}");
    let out = String::from_utf8(out).expect("output is text");
    let steers = |c: char| {
        c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    match line {
        // serde_json reads no tree that is deeper than 128.
        ["tree", "--json"] => {}
        ["samples", "--json", ..] => out.lines().for_each(is_json),
        _ if line.contains(&"--json") && code == 0 => is_json(&out),
        _ => assert!(!err.contains(steers) && !out.contains(steers), "{line:?} steers a terminal"),
    }
}

fn is_json(text: &str) {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        panic!("no JSON: {error}: {text}");
    }
}

/// Drafts of recordings with everything in them for each command line, and what [`recording`] begins with.
pub fn seeds() -> Vec<Vec<u8>> {
    let [everything, stacks, ..] = recording::files();
    let lines = (0..LINES.len()).flat_map(|line| [(line, &everything), (line, &stacks)]);
    let lines = lines.map(|(line, file)| {
        let mut draft = draft::of(file);
        draft[UUID_OFF] = line as u8;
        draft
    });
    lines.chain(recording::seeds()).collect()
}
