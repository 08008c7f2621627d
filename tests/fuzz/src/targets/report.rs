//! The whole report: one command line over a recording.

use super::{FREE_BYTES, lines};
use lines::HOSTILE;

/// The command lines.
pub(super) const LINES: [&[&str]; 30] = [
    &["summary", HOSTILE],
    &["summary", "--json", HOSTILE],
    &["summary", "--json", "--focus", "^(ext4|vfs)", "--from", "0.5", HOSTILE],
    &["top", HOSTILE],
    &["top", "--json", "--by", "line", HOSTILE],
    &["top", "--by", "process", "--comm", "make", HOSTILE],
    &["top", "--by", "image", "--pid", "100", HOSTILE],
    &["top", "--by", "wait", HOSTILE],
    &["top", "--json", "--by", "waker-thread", "--event", "*", HOSTILE],
    &["folded", "--wakers", HOSTILE],
    &["tree", "--callers", "--wakers", "--ignore", "^vfs", HOSTILE],
    &["tree", HOSTILE],
    &["tree", "--callers", "--min-percent", "0", HOSTILE],
    &["tree", "--json", HOSTILE],
    &["flame", "-o", "-", HOSTILE],
    &["html", "-o", "-", HOSTILE],
    &["folded", HOSTILE],
    &["folded", "--json", "--weight", "period", HOSTILE],
    &["samples", HOSTILE],
    &["samples", "--json", "--kernel", HOSTILE],
    &["info", HOSTILE],
    &["info", "--blocks", HOSTILE],
    &["info", "--json", HOSTILE],
    &["depth", HOSTILE],
    &["depth", "--json", "--by", "thread", "-n", "0", HOSTILE],
    &["timeline", "--by", "function", "--sort", "total", HOSTILE],
    &["timeline", "--json", HOSTILE],
    &["top", "--json", "--by", "address", "-n", "0", HOSTILE],
    &["annotate", HOSTILE, "."],
    &["annotate", HOSTILE, "vfs_read", "--json"],
];

/// Named stacks hold at most so many bytes for one of a payload, on top of the tables.
const TIMES_THE_TABLES: usize = 4;

/// Reports on a recording.
pub fn run(data: &[u8]) {
    lines::run(data, &LINES, TIMES_THE_TABLES, 4 * FREE_BYTES);
}

/// One for each command line, and what `recording` begins with.
pub fn seeds() -> Vec<Vec<u8>> {
    lines::seeds(&LINES)
}
