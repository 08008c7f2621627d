//! `cut`, `compact` and `merge`: whatever they are given, what they write is whole, and can be reported on.

use std::path::Path;

use icecore_format::read::Recording;
use icecore_report::{Streams, run as report};

use crate::{draft, scratch};

/// The filters of `cut`. A byte of the recording's UUID chooses one.
const FILTERS: [&[&str]; 4] = [&[], &["--from", "0.5", "--to", "1.5"], &["--comm", "make"], &["--cpu", "1"]];
const UUID_OFF: usize = 32;

/// Merges a recording (or a [`draft`]) with a whole one, cuts it and makes it compact.
pub fn run(data: &[u8]) {
    let file = draft::finished(data);
    let filter = FILTERS[usize::from(file.get(UUID_OFF).copied().unwrap_or(0)) % FILTERS.len()];
    let [whole, ..] = super::recording::files();
    let folder = tempfile::tempdir_in(scratch::folder()).expect("a temporary folder");
    let [hostile, other, merged, piece] =
        ["hostile", "other", "merged", "piece"].map(|name| folder.path().join(name));
    std::fs::write(&hostile, &file).expect("room for one input");
    std::fs::write(&other, &whole).expect("room for one input");
    let path = |path: &Path| path.to_str().expect("bug: it is text").to_owned();
    let merge = ["merge".to_owned(), path(&hostile), path(&other), "-o".to_owned(), path(&merged)];
    if line(&merge) {
        is_whole(&merged);
        line(&["top".to_owned(), "--by".to_owned(), "process".to_owned(), path(&merged)]);
        line(&["samples".to_owned(), path(&merged)]);
    }
    for input in [&hostile, &merged].into_iter().filter(|input| input.exists()) {
        let cut = ["cut".to_owned(), path(input), "-o".to_owned(), path(&piece), "--force".to_owned()];
        let cut: Vec<String> = cut.into_iter().chain(filter.iter().map(|word| (*word).to_owned())).collect();
        if line(&cut) {
            is_whole(&piece);
            assert!(line(&["summary".to_owned(), path(&piece)]), "what was cut cannot be read");
        }
        let all = "args,paths,comm,labels,host".to_owned();
        let names = ["--redact".to_owned(), all, "--force".to_owned(), "--no-cache".to_owned()];
        let compact = ["compact".to_owned(), path(input), "-o".to_owned(), path(&piece)];
        if line(&[&compact[..], &names].concat()) {
            is_whole(&piece);
            assert!(line(&["summary".to_owned(), path(&piece)]), "what is compact cannot be read");
        }
    }
}

/// Runs a command line; tells whether it was done.
pub(super) fn line(line: &[String]) -> bool {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams::plain(&mut out, &mut err);
    let options = ["--threads".to_owned(), "1".to_owned()];
    let args = ["icecore-report".to_owned()].into_iter().chain(line.iter().cloned()).chain(options);
    let code = report(args, &mut streams);
    let err = String::from_utf8(err).expect("errors are text");
    let is_warned = err.is_empty() || err.starts_with("warning: ");
    assert!(code == 0 && is_warned || code == 2 && err.starts_with("error: "), "{line:?}: {code}: {err}");
    code == 0
}

fn is_whole(path: &Path) {
    let recording = Recording::open(path).expect("what was written opens");
    assert!(recording.is_closed() && recording.damage().is_empty());
    assert!(recording.entries().iter().all(|entry| recording.stored(entry).is_ok()));
}

/// Drafts of a recording with everything in it, one for each filter, and what `recording` begins with.
pub fn seeds() -> Vec<Vec<u8>> {
    let [everything, stacks, ..] = super::recording::files();
    let filters = (0..FILTERS.len()).flat_map(|filter| [(filter, &everything), (filter, &stacks)]);
    let filters = filters.map(|(filter, file)| {
        let mut draft = draft::of(file);
        draft[UUID_OFF] = filter as u8;
        draft
    });
    filters.chain(super::recording::seeds()).collect()
}
