//! What happens to a recording that is cut, flipped or foreign: every whole block stays readable, the
//! rest is named, nothing panics.

use icecore_format::block::{self, BlockHeader, Codec, Kind};
use icecore_format::header::{self, FileHeader, Mark};
use icecore_format::index::TAIL_LEN;
use icecore_format::read::Recording;
use icecore_format::records::{
    Change, Lifecycle, LifecycleV1, Node, Payload as _, ReceiptV1, Sample, SamplesV1, SessionV1, StacksV1,
    StringsV1, WalkEnd,
};
use icecore_format::write::Writer;
use icecore_format::{Error, limits};

fn sample(time_ns: u64, cpu: u16) -> Sample {
    Sample {
        time_ns,
        cpu,
        event: 0,
        user_end: WalkEnd::ROOT,
        kernel_end: WalkEnd::NONE,
        task: 1,
        user_stack: 2,
        kernel_stack: 0,
        weight: 1_000_000,
    }
}

/// Writes a recording of seven blocks and returns its bytes; `closed` decides whether it is finished.
fn recording(closed: bool) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r");
    let file = std::fs::File::create_new(&path).expect("new");
    let mut writer = Writer::create(file, [3; 16]).expect("writable");
    let mut strings = StringsV1::starting_at(1);
    (0..50).for_each(|n| strings.push(format!("string number {n}").as_bytes()));
    let mut stacks = StacksV1::starting_at(1);
    let root = stacks.push(Node { parent: 0, address: 0x1000 });
    stacks.push(Node { parent: root, address: 0x2000 });
    let fork = Lifecycle { time_ns: 5, change: Change::FORK, tgid: 1, tid: 2, parent_tgid: 3, comm: 4 };
    writer
        .append(&SessionV1 { host: "h".into(), events: vec![Default::default()], ..Default::default() })
        .expect("fits");
    writer.append(&strings).expect("fits");
    writer.append(&stacks).expect("fits");
    writer.append(&LifecycleV1::from_rows(&[fork])).expect("fits");
    for second in 0..2 {
        let rows: Vec<Sample> =
            (0..100).map(|n| sample(second * 1_000_000_000 + n * 10, (n % 2) as u16)).collect();
        writer.append(&SamplesV1::from_rows(&rows).expect("in order")).expect("fits");
    }
    writer
        .append(&ReceiptV1 { ended_by: vec!["duration".into()], samples: 200, ..Default::default() })
        .expect("fits");
    if closed {
        writer.finish().expect("writable");
    }
    std::fs::read(&path).expect("just written")
}

/// Reads all that can be read; returns the kinds of blocks whose payload is whole.
fn readable(file: &[u8]) -> Result<Vec<Kind>, Error> {
    let recording = Recording::from_bytes(file)?;
    Ok(recording
        .entries()
        .iter()
        .filter(|entry| recording.payload(entry).is_ok())
        .map(|entry| entry.header.kind)
        .collect())
}

const KINDS: [Kind; 7] = [
    Kind::SESSION,
    Kind::STRINGS,
    Kind::STACKS,
    Kind::LIFECYCLE,
    Kind::SAMPLES,
    Kind::SAMPLES,
    Kind::RECEIPT,
];

#[test]
fn a_closed_recording_says_so_and_opens_by_its_index() {
    let bytes = recording(true);
    let recording = Recording::from_bytes(&bytes).expect("own file");
    assert!(recording.is_closed());
    assert_eq!(recording.damage(), []);
    assert_eq!(readable(&bytes).expect("own file"), KINDS);
    let samples = &recording.entries()[5];
    let payload = recording.payload(samples).expect("whole");
    let rows: Vec<Sample> = payload.view::<SamplesV1>().expect("samples").rows().collect();
    assert_eq!(rows.len(), 100);
    assert_eq!(rows[99], sample(1_000_000_990, 1));
    assert_eq!((samples.header.first_ns, samples.header.last_ns), (1_000_000_000, 1_000_000_990));
}

#[test]
fn an_unfinished_recording_is_whole_and_says_that_it_is_open() {
    let bytes = recording(false);
    let recording = Recording::from_bytes(&bytes).expect("own file");
    assert!(!recording.is_closed());
    assert_eq!(recording.damage(), []);
    assert_eq!(readable(&bytes).expect("own file"), KINDS);
}

#[test]
fn torn_at_every_byte_keeps_whole_blocks() {
    let bytes = recording(true);
    let ends: Vec<u64> = Recording::from_bytes(&bytes)
        .expect("own file")
        .entries()
        .iter()
        .map(|entry| entry.header.end(entry.off))
        .collect();
    for len in 0..bytes.len() {
        let whole = ends.iter().filter(|end| **end <= len as u64).count();
        match readable(&bytes[..len]) {
            Ok(kinds) => assert_eq!(kinds, KINDS[..whole], "cut at {len}"),
            Err(_) => assert!(len < header::LEN, "cut at {len}"),
        }
    }
}

#[test]
fn a_flipped_bit_costs_at_most_the_block_that_it_hits() {
    let bytes = recording(true);
    let entries = Recording::from_bytes(&bytes).expect("own file").entries().to_vec();
    for at in header::LEN..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        let hit = entries.iter().position(|e| (e.off..e.header.end(e.off)).contains(&(at as u64)));
        let mut expected = KINDS.to_vec();
        if let Some(hit) = hit {
            expected.remove(hit);
        }
        assert_eq!(readable(&bytes).expect("the file header is whole"), expected, "byte {at}");
    }
}

#[test]
fn a_block_of_another_recording_is_not_taken_for_one_of_this() {
    let mut bytes = recording(false);
    let other = FileHeader { mark: Mark::Open, incompatible: 0, compatible: 0, uuid: [4; 16] };
    bytes[..header::LEN].copy_from_slice(&other.encode());
    let recording = Recording::from_bytes(&bytes).expect("a header is there");
    assert!(recording.entries().is_empty());
    assert_eq!(recording.damage().len(), 1);
}

#[test]
fn an_index_that_points_elsewhere_is_not_followed() {
    let bytes = recording(true);
    let tail = bytes.len() - TAIL_LEN;
    // Without its tail the file is scanned and loses nothing.
    assert_eq!(readable(&bytes[..tail]).expect("own file"), KINDS);
    let doubled = [&bytes[..], &bytes[header::LEN..]].concat();
    let kinds = readable(&doubled).expect("own file");
    assert!(kinds.starts_with(&KINDS), "{kinds:?}");
}

#[test]
fn a_decompression_bomb_is_refused_before_it_is_inflated() {
    let mut bytes = recording(false);
    let seed = FileHeader::decode(&bytes).expect("own header").seed();
    let bomb = BlockHeader {
        kind: Kind::SAMPLES,
        version: 1,
        codec: Codec::Zstd,
        items: 1,
        sequence: 7,
        first_ns: 0,
        last_ns: 0,
        stored_len: 64,
        raw_len: limits::MAX_RAW_LEN,
        payload_crc: crc32fast::hash(&[0; 64]),
    };
    bytes.extend_from_slice(&bomb.encode(seed));
    bytes.extend_from_slice(&[0; 64]);
    let recording = Recording::from_bytes(&bytes).expect("own file");
    assert_eq!(recording.entries().len(), KINDS.len());
    assert!(recording.damage()[0].cause.contains("claim to hold"), "{}", recording.damage()[0]);
}

#[test]
fn a_payload_that_is_no_archive_is_an_error_with_its_kind() {
    let error = SamplesV1::view(&[0; 16]).map(|_| ()).expect_err("zeros are no archive of samples");
    assert!(matches!(error, Error::Payload { kind: Kind::SAMPLES, .. }), "{error}");
}

#[test]
fn a_full_disk_is_an_error_and_keeps_what_was_written() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("every Linux has it");
    let error = Writer::create(full, [0; 16]).expect_err("it is full");
    assert!(matches!(&error, Error::Io(io) if io.kind() == std::io::ErrorKind::StorageFull), "{error}");
}

#[test]
fn samples_that_cannot_follow_each_other_are_refused() {
    let out_of_order = SamplesV1::from_rows(&[sample(10, 0), sample(5, 0)]);
    assert!(matches!(out_of_order, Err(Error::Payload { .. })));
    let too_far = SamplesV1::from_rows(&[sample(0, 0), sample(u64::from(u32::MAX) + 1, 0)]);
    assert!(matches!(too_far, Err(Error::Payload { .. })));
}

#[test]
fn every_part_begins_at_a_multiple_of_the_alignment() {
    let bytes = recording(true);
    let recording = Recording::from_bytes(&bytes).expect("own file");
    for entry in recording.entries() {
        assert_eq!(entry.off % limits::ALIGN, 0);
        assert_eq!(bytes[entry.off as usize..][..4], block::MAGIC);
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_behind_a_good_header_make_it_panic(noise: Vec<u8>, at in 64_usize..2000) {
        let mut bytes = recording(true);
        let at = at.min(bytes.len());
        bytes.truncate(at);
        bytes.extend_from_slice(&noise);
        let _ = readable(&bytes);
    }

    #[test]
    fn samples_survive_a_round_trip(mut times in proptest::collection::vec((0_u64..4_000_000_000, 0_u16..70), 1..200)) {
        times.sort_unstable();
        let rows: Vec<Sample> = times.iter().map(|(time, cpu)| sample(7 + time, *cpu)).collect();
        let bytes = SamplesV1::from_rows(&rows).expect("in order").to_bytes().expect("fits");
        let back: Vec<Sample> = SamplesV1::view(&bytes).expect("own bytes").rows().collect();
        proptest::prop_assert_eq!(back, rows);
    }
}
