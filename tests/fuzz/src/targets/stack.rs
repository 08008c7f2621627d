//! An image, and stacks of a process that maps it: whatever is in the ELF file, copied stacks are unwound by its rules.

use std::path::Path;

use icecore_format::limits::MAX_FRAMES;
use icecore_format::records::{ImagePartsV1, Piece};
use icecore_report::{Streams, run as report};
use icecore_tests::synthetic::broken_walks;
use serde_json::Value;

use super::{FREE_BYTES, image};
use crate::{memory, scratch};

/// The longest file that is believed to be one, bytes: a block has room for no more pieces.
const MOST: usize = 1 << 20;

/// Unwinds stacks by the rules of a file, and names what is found.
pub fn run(data: &[u8]) {
    let data = &data[..data.len().min(MOST)];
    if data.is_empty() {
        return;
    }
    let mut recording = broken_walks();
    recording.samples.truncate(40);
    let whole = [Piece { off: 0, bytes: data }];
    for image in [0, 1] {
        recording.image_parts.push(ImagePartsV1::from_rows(image, data.len() as u64, &whole));
    }
    let file = tempfile::NamedTempFile::new_in(scratch::folder()).expect("a temporary file");
    recording.write(file.path(), true).expect("room for one input");
    memory::within(32 * FREE_BYTES + 256 * data.len(), || samples(file.path()));
}

fn samples(path: &Path) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams::plain(&mut out, &mut err);
    let file = path.to_str().expect("bug: it is text");
    let code = report(["icecore-report", "samples", "--json", "--threads", "1", file], &mut streams);
    assert_eq!(code, 0, "{}", String::from_utf8_lossy(&err));
    let out = String::from_utf8(out).expect("output is text");
    for line in out.lines() {
        let sample: Value = serde_json::from_str(line).expect("JSON");
        let frames = sample["frames"].as_array().expect("a list");
        let real = frames.iter().filter(|frame| frame["inlined"] == false).count();
        assert!(real <= 2 * MAX_FRAMES as usize, "{real} frames");
    }
}

/// Files as `image` has them, with and without rules.
pub fn seeds() -> Vec<Vec<u8>> {
    image::seeds()
}
