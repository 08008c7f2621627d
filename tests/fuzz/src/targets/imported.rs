//! What an import wrote, in every view: whatever a perf.data file says, each view ends, and prints what it promises.

use super::edit::line;
use super::{import, lines, report};
use crate::scratch;

/// Imports a file. Its last byte chooses what shows it.
pub fn run(data: &[u8]) {
    let folder = tempfile::tempdir_in(scratch::folder()).expect("a temporary folder");
    let [from, to] = ["perf.data", "r.icecore"].map(|name| folder.path().join(name));
    std::fs::write(&from, data).expect("room for one input");
    let path = |path: &std::path::Path| path.to_str().expect("bug: it is text").to_owned();
    if !line(&["import".to_owned(), path(&from), "-o".to_owned(), path(&to)]) {
        return;
    }
    assert!(line(&["verify".to_owned(), path(&to)]), "what was written is not well");
    let view = report::LINES[usize::from(data.last().copied().unwrap_or(0)) % report::LINES.len()];
    for view in [view, &["health", lines::HOSTILE], &["diff", lines::HOSTILE, lines::HOSTILE, "--all"]] {
        lines::one(view, &path(&to), "");
    }
}

/// The files of `import`, for each view.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = import::seeds();
    let with = |file: &Vec<u8>, view: usize| [&file[..], &[view as u8]].concat();
    (0..report::LINES.len()).flat_map(|view| files.iter().map(move |file| with(file, view))).collect()
}
