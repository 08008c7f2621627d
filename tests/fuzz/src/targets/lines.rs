//! Command lines over recordings: their output must be text that steers no terminal, or JSON.
//!
//! Each target has some, and a byte of the recording's UUID chooses one, because it means nothing else.

use std::sync::OnceLock;

use icecore_report::{Streams, run as report};
use serde::de::IgnoredAny;
use tempfile::NamedTempFile;

use super::{FREE_BYTES, recording};
use crate::{draft, memory, scratch};

/// Stands for the recording in a command line.
pub(super) const HOSTILE: &str = "HOSTILE";
/// Stands for one that is whole.
pub(super) const WHOLE: &str = "WHOLE";
/// Stands for a file that may be written.
pub(super) const OUT: &str = "OUT";

const UUID_OFF: usize = 32;

/// Runs one of the command lines over a recording (or a [`draft`]), which may hold so many bytes for one of its tables.
pub(super) fn run(data: &[u8], lines: &[&[&str]], times_the_tables: usize, free_bytes: usize) {
    let file = draft::finished(data);
    let line = lines[usize::from(file.get(UUID_OFF).copied().unwrap_or(0)) % lines.len()];
    let limit = free_bytes + times_the_tables * recording::limit_bytes(&file);
    let whole = whole();
    scratch::as_file(&file, |path| {
        let hostile = path.to_str().expect("bug: it is text");
        memory::within(limit, || one(line, hostile, whole));
    });
}

/// Drafts of recordings with everything in them for each command line, and what [`recording`] begins with.
pub(super) fn seeds(lines: &[&[&str]]) -> Vec<Vec<u8>> {
    let [everything, stacks, ..] = recording::files();
    let each = (0..lines.len()).flat_map(|line| [(line, &everything), (line, &stacks)]);
    let each = each.map(|(line, file)| {
        let mut draft = draft::of(file);
        draft[UUID_OFF] = line as u8;
        draft
    });
    each.chain(recording::seeds()).collect()
}

/// A recording with everything in it, written once.
fn whole() -> &'static str {
    static FILE: OnceLock<NamedTempFile> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let [everything, ..] = recording::files();
        let file = NamedTempFile::new_in(scratch::folder()).expect("a temporary file");
        std::fs::write(file.path(), everything).expect("room for one input");
        file
    });
    file.path().to_str().expect("bug: it is text")
}

/// Runs a command line over one recording; what it prints must be as promised.
pub(super) fn one(line: &[&str], hostile: &str, whole: &str) {
    let (mut stdout, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams::plain(&mut stdout, &mut err);
    let out = scratch::folder().join(format!("icecore-fuzz-out-{}.svg", std::process::id()));
    let word = |word: &&str| match *word {
        HOSTILE => hostile.to_owned(),
        WHOLE => whole.to_owned(),
        OUT => out.display().to_string(),
        word => word.to_owned(),
    };
    let args = ["icecore-report", "--threads", "1"].iter().chain(line).map(word);
    let code = report(args, &mut streams);
    drop(std::fs::remove_file(&out));
    let err = String::from_utf8(err).expect("errors are text");
    let is_warned = err.is_empty() || err.starts_with("warning: ") || err.starts_with("wrote ");
    assert!(code == 0 && is_warned || code == 2 && err.contains("error: "), "{line:?}: {code}: {err}");
    let out = String::from_utf8(stdout).expect("output is text");
    let steers = |c: char| {
        c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    match line {
        // serde_json reads no tree that is deeper than 128.
        ["tree", "--json", ..] => {}
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

/// Memory of views that keep a few numbers for each row and slice of time, whatever the recording.
pub(super) const SLICED_BYTES: usize = 32 * FREE_BYTES;
