//! Files of other versions: what is ignored, what is skipped, what is refused, and with which words.

use icecore_format::Error;
use icecore_format::block::{BlockHeader, Kind};
use icecore_format::header::{self, EndMark, FileHeader};
use icecore_format::read::Recording;

use super::sample::{How, Parts, all_but, entries, read, recording};

/// The recording under another file header.
fn under(header: FileHeader) -> Vec<u8> {
    let mut bytes = recording(How::Closed);
    bytes[..header::LEN].copy_from_slice(&header.encode());
    bytes
}

const HEADER: FileHeader =
    FileHeader { mark: EndMark::Closed, incompatible: 0, compatible: 0, uuid: [3; 16] };

#[test]
fn compatible_features_that_are_unknown_are_ignored() {
    let bytes = under(FileHeader { compatible: u64::MAX, ..HEADER });
    assert_eq!(read(&bytes).expect("nothing of it matters").whole, all_but(&[]));
    assert_eq!(Recording::from_bytes(&bytes).expect("read above").header().compatible, u64::MAX);
}

#[test]
fn incompatible_features_that_are_unknown_are_refused_by_number_with_the_remedy() {
    let bits = 1 << 4 | 1 << 63;
    let error = read(&under(FileHeader { incompatible: bits, ..HEADER })).expect_err("unknown");
    assert!(matches!(error, Error::Features { bits: found } if found == bits));
    let said = error.to_string();
    assert!(said.contains("bits 4, 63") && said.contains("newer icecore-report"), "{said}");
}

#[test]
fn a_newer_envelope_is_refused_whatever_its_checksum_says() {
    let mut bytes = recording(How::Closed);
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    let error = read(&bytes).expect_err("newer");
    assert!(matches!(error, Error::Version { found: 2 }));
    assert!(error.to_string().contains("newer icecore-report"), "{error}");
}

#[test]
fn a_mark_that_is_unknown_is_refused() {
    let mut bytes = recording(How::Closed);
    bytes[12] = 4;
    let crc = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(read(&bytes), Err(Error::Malformed { what: "file header", off: 0, .. })));
}

#[test]
fn kinds_and_versions_that_are_unknown_are_listed_and_their_payloads_readable() {
    let mut parts = Parts::new(How::Open);
    let block = &mut parts.blocks[4];
    let header = BlockHeader::decode(block, 0, FileHeader::seed(&HEADER)).expect("own block");
    let newer = BlockHeader { kind: Kind(60_000), version: 7, ..header };
    block[..64].copy_from_slice(&newer.encode(HEADER.seed()));
    let bytes = parts.joined();
    assert_eq!(read(&bytes).expect("own file").whole, all_but(&[]));
    assert_eq!((entries(&bytes)[4].header.kind, entries(&bytes)[4].header.version), (Kind(60_000), 7));
}

#[test]
fn a_newer_index_is_not_followed_and_nothing_is_lost() {
    let mut parts = Parts::new(How::Closed);
    let rows = entries(&parts.joined());
    parts.forge(&rows, |header, _| header.version = 2);
    let read = read(&parts.joined()).expect("own file");
    assert_eq!((&read.whole, read.closed), (&all_but(&[]), true));
    assert!(read.says("version 2 is no index"), "{:?}", read.said);
}

#[test]
fn a_block_of_another_recording_is_not_taken_for_one_of_this() {
    let bytes = under(FileHeader { mark: EndMark::Open, uuid: [4; 16], ..HEADER });
    let recording = Recording::from_bytes(&bytes).expect("a header is there");
    assert!(recording.entries().is_empty());
    assert_eq!(recording.damage().len(), 1);
}
