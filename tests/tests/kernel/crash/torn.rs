//! Tests machines that lose power: the part of the file that had not reached the disk is cut off, or zero.

use std::path::Path;

use icecore_format::index::Entry;
use icecore_format::read::Recording;

use super::remains::{Left, left_in};
use super::{Churn, Random, Trying, alone, record_often};

const SEED: u64 = 0x7042;
const PAGE_BYTES: usize = 4096;

/// Returns a real recording with many blocks, and the positions of these.
fn recording() -> (Vec<u8>, Vec<Entry>) {
    let churn = Churn::start("crowd");
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let status = record_often("997", &churn, &path).args(["-d", "2"]).status().expect("the recorder runs");
    assert!(status.success());
    let remains = left_in(&path).some();
    assert!(remains.recording.is_closed());
    let bytes = std::fs::read(&path).expect("just written");
    assert!(bytes.len() > 4 * PAGE_BYTES, "{} bytes", bytes.len());
    (bytes, remains.recording.entries().to_vec())
}

/// Returns the blocks without a changed byte.
fn whole<'a>(entries: &'a [Entry], before: &[u8], after: &[u8]) -> Vec<&'a Entry> {
    let is_same = |entry: &&Entry| {
        let range = entry.off as usize..entry.header.end(entry.off) as usize;
        after.get(range.clone()) == Some(&before[range])
    };
    entries.iter().filter(is_same).collect()
}

/// Asserts that a torn recording has all of its whole blocks, and says that it was not closed.
fn assert_keeps_whole_blocks(path: &Path, bytes: &[u8], wanted: &[&Entry]) {
    std::fs::write(path, bytes).expect("room for a copy");
    match left_in(path) {
        Left::Some(remains) => {
            let kept: Vec<&Entry> = remains.recording.entries().iter().collect();
            assert_eq!(kept, wanted);
            assert!(!remains.recording.is_closed());
        }
        Left::NoHeader => assert!(bytes.len() < 64, "{} bytes have a header", bytes.len()),
        Left::NoFile => panic!("it was just written"),
    }
}

#[test]
fn root_cut_off_anywhere_a_real_recording_keeps_its_whole_blocks() {
    let _alone = alone();
    let (bytes, entries) = recording();
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut random = Random::new(SEED, 1);
    let random = std::iter::from_fn(|| Some(random.below(bytes.len() as u64) as usize));
    for cut in [0, 1, 63, 64, 65, bytes.len() - 1].into_iter().chain(random.take(100)) {
        let _trying = Trying(format!("cut at {cut} of {} bytes, seed {SEED:#x}", bytes.len()));
        let torn = &bytes[..cut];
        assert_keeps_whole_blocks(&dir.path().join("x.icecore"), torn, &whole(&entries, &bytes, torn));
    }
}

#[test]
fn root_pages_of_zeros_at_its_end_cost_a_real_recording_only_the_blocks_in_them() {
    let _alone = alone();
    let (bytes, entries) = recording();
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("x.icecore");
    // A file system may have stored the length of the file already, but not all of its contents.
    for pages in 1..bytes.len() / PAGE_BYTES {
        let _trying = Trying(format!("{pages} pages of zeros at the end of {} bytes", bytes.len()));
        let from = bytes.len().next_multiple_of(PAGE_BYTES) - pages * PAGE_BYTES;
        let mut torn = bytes.clone();
        torn[from..].fill(0);
        let wanted = whole(&entries, &bytes, &torn);
        assert_keeps_whole_blocks(&path, &torn, &wanted);
        // Another may have reserved more space than was written.
        torn.truncate(from);
        torn.resize(from + pages * PAGE_BYTES, 0);
        assert_keeps_whole_blocks(&path, &torn, &wanted);
    }
}

#[test]
fn root_a_page_of_zeros_in_its_middle_costs_a_real_recording_only_the_blocks_in_it() {
    let _alone = alone();
    let (bytes, entries) = recording();
    for page in 1..bytes.len() / PAGE_BYTES {
        let mut torn = bytes.clone();
        torn[page * PAGE_BYTES..][..PAGE_BYTES].fill(0);
        // The index may be lost, too: this tests both.
        for len in [bytes.len(), bytes.len() - 1] {
            let recording = Recording::from_bytes(&torn[..len]).expect("the header is in the first page");
            let wanted = whole(&entries, &bytes, &torn);
            let usable = |entry: &&Entry| recording.payload(entry).is_ok();
            let kept: Vec<&Entry> = recording.entries().iter().filter(usable).collect();
            assert_eq!(kept, wanted, "page {page} of {} bytes", bytes.len());
        }
    }
}
