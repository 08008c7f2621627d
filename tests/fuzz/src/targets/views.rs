//! Views of time, depth and differences, each a target: a command line over a recording, or over it and a whole one.

use super::lines::{self, HOSTILE, OUT, SLICED_BYTES, WHOLE};

/// `diff`: the recording before, after, on both sides, against a stretch of itself; every kind of row, every output.
const DIFF: [&[&str]; 14] = [
    &["diff", WHOLE, HOSTILE],
    &["diff", HOSTILE, WHOLE, "--all"],
    &["diff", HOSTILE, HOSTILE, "--json", "--by", "line"],
    &["diff", HOSTILE, WHOLE, "--by", "image", "--physical"],
    &["diff", WHOLE, HOSTILE, "--by", "process", "--sort", "total"],
    &["diff", HOSTILE, WHOLE, "--by", "thread", "--json"],
    &["diff", WHOLE, HOSTILE, "--by", "stack", "--all"],
    &["diff", WHOLE, HOSTILE, "--markdown"],
    &["diff", WHOLE, HOSTILE, "-o", OUT],
    &["diff", HOSTILE, HOSTILE, "--unit", "cpu", "--kernel"],
    &["diff", HOSTILE, "--slice", "0..0.2", "--against", "0.2..2", "--json"],
    &["diff", "--before", HOSTILE, "--before", WHOLE, "--after", WHOLE, "--all"],
    &["diff", WHOLE, HOSTILE, "--focus", "^(main|vfs)"],
    &["diff", WHOLE, HOSTILE, "--work-before", "3", "--work-after", "4"],
];

const TIMELINE: [&[&str]; 8] = [
    &["timeline", HOSTILE],
    &["timeline", HOSTILE, "--json", "--by", "function"],
    &["timeline", HOSTILE, "--by", "thread", "--sort", "total"],
    &["timeline", HOSTILE, "--by", "process", "--json"],
    &["timeline", HOSTILE, "--csv"],
    &["timeline", HOSTILE, "--heatmap"],
    &["timeline", HOSTILE, "--heatmap", "--json"],
    &["timeline", HOSTILE, "--from", "0.1", "--to", "0.9", "--focus", "vfs"],
];

const TREND: [&[&str]; 6] = [
    &["trend", WHOLE, HOSTILE],
    &["trend", HOSTILE, WHOLE, HOSTILE, "--order", "given", "--json"],
    &["trend", HOSTILE, WHOLE, "--by", "image", "--sort", "total"],
    &["trend", HOSTILE, WHOLE, "--by", "process", "--csv"],
    &["trend", WHOLE, HOSTILE, "--by", "thread", "-n", "0", "--json"],
    &["trend", HOSTILE, "--function", "main", "--order", "label:build"],
];

const DEPTH: [&[&str]; 6] = [
    &["depth", HOSTILE],
    &["depth", HOSTILE, "--json", "-n", "0"],
    &["depth", HOSTILE, "--json", "--by", "thread"],
    &["depth", HOSTILE, "--kernel"],
    &["depth", HOSTILE, "--user", "--hide", "rec"],
    &["depth", HOSTILE, "--by", "process", "--from", "0.1"],
];

/// Rows of a comparison have their weight in each of some hundred slices, several times over.
const TIMES_THE_TABLES: usize = 16;

macro_rules! targets {
    ($($name:ident, $seeds:ident, $lines:ident;)*) => {
        $(
            /// Runs one command line.
            pub fn $name(data: &[u8]) {
                lines::run(data, &$lines, TIMES_THE_TABLES, SLICED_BYTES);
            }

            /// One recording for each command line, and others.
            pub fn $seeds() -> Vec<Vec<u8>> {
                lines::seeds(&$lines)
            }
        )*
    };
}

targets! {
    diff, diff_seeds, DIFF;
    timeline, timeline_seeds, TIMELINE;
    trend, trend_seeds, TREND;
    depth, depth_seeds, DEPTH;
}
