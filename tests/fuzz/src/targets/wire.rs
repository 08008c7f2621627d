//! What the kernel hands over: records of the ring, mapping reports.

use super::FREE_BYTES;
use crate::{memory, recorder};

/// Decodes bytes as one record, and as a queue of mapping reports.
pub fn run(data: &[u8]) {
    memory::within(FREE_BYTES, || {
        recorder::record(data);
        recorder::reports(data);
    });
}

/// A sample, a fork, an exit; mapping reports with a build-id, with an inode, and of loss.
pub fn seeds() -> Vec<Vec<u8>> {
    let reports = [mapping(true), mapping(false), lost()];
    recorder::records().into_iter().chain([reports.concat()]).chain(reports).collect()
}

const MMAP2: u32 = 10;
const LOST: u32 = 2;
const BY_BUILD_ID: u16 = 1 << 14;
const EXECUTABLE: u32 = 4;

fn mapping(by_build_id: bool) -> Vec<u8> {
    let file = if by_build_id {
        [&[20, 0, 0, 0][..], &[0xab; 20]].concat()
    } else {
        [0xfe_u64.to_ne_bytes(), 131_u64.to_ne_bytes(), [0; 8]].concat()
    };
    let rest = [
        &[7_u32.to_ne_bytes(), 8_u32.to_ne_bytes()].concat(),
        &[0x5000_u64, 0x1000, 0x2000].map(u64::to_ne_bytes).concat(),
        &file,
        &[EXECUTABLE.to_ne_bytes(), 2_u32.to_ne_bytes()].concat(),
        &b"/usr/bin/true\0\0\0"[..],
        &77_u64.to_ne_bytes(),
    ];
    report(MMAP2, if by_build_id { BY_BUILD_ID } else { 0 }, &rest.concat())
}

fn lost() -> Vec<u8> {
    report(LOST, 0, &[1_u64, 5, 78].map(u64::to_ne_bytes).concat())
}

/// # Source
/// uapi/linux/perf_event.h `struct perf_event_header`
fn report(kind: u32, misc: u16, rest: &[u8]) -> Vec<u8> {
    let len = 8 + rest.len() as u16;
    [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &len.to_ne_bytes(), rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_understood() {
        assert!(recorder::records().iter().all(|record| recorder::record(record)));
        assert_eq!([mapping(true), mapping(false), lost()].map(|report| recorder::reports(&report)), [1; 3]);
    }
}
