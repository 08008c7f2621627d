//! Files that were made to hurt: lengths that lie, indexes that lead astray, work without end.

use icecore_format::block::{BlockHeader, Codec, Kind, Processes};
use icecore_format::index::{Entry, encode_rows};
use icecore_format::read::Recording;
use icecore_format::{Error, limits};

use super::sample::{How, Parts, all_but, entries, read, recording};

/// A whole block header of samples, to be changed.
fn header(stored_len: u32, raw_len: u32) -> BlockHeader {
    BlockHeader {
        kind: Kind::SAMPLES,
        version: 1,
        codec: Codec::Zstd,
        items: 1,
        sequence: 7,
        first_ns: 0,
        last_ns: 0,
        stored_len,
        raw_len,
        payload_crc: crc32fast::hash(&vec![0; stored_len as usize]),
        processes: Processes::ANY,
    }
}

#[test]
fn a_block_that_claims_too_much_is_refused_before_it_is_inflated() {
    for (stored_len, raw_len, words) in [
        (64, limits::MAX_RAW_LEN, "claim to hold"),
        (64, limits::MAX_RAW_LEN + 1, "beyond the limits"),
        (limits::MAX_STORED_LEN + 8, 100, "beyond the limits"),
    ] {
        let mut parts = Parts::new(How::Open);
        let bomb = BlockHeader { payload_crc: 0, ..header(64, raw_len) };
        let bomb = BlockHeader { stored_len, ..bomb };
        parts.blocks.push([&bomb.encode(parts.seed())[..], &[0; 64]].concat());
        let read = read(&parts.joined()).expect("a header");
        assert_eq!(read.whole, all_but(&[]));
        assert!(read.says(words), "{:?}", read.said);
    }
}

#[test]
fn a_block_that_claims_more_items_than_its_bytes_can_hold_is_refused() {
    let mut parts = Parts::new(How::Open);
    let bomb = BlockHeader { items: 64 * 32 + 1, ..header(64, 1000) };
    parts.blocks.push([&bomb.encode(parts.seed())[..], &[0; 64]].concat());
    let read = read(&parts.joined()).expect("a header");
    assert_eq!(read.whole, all_but(&[]));
    assert!(read.says("64 bytes claim to hold 1000 bytes, 2049 items"), "{:?}", read.said);
}

#[test]
fn a_payload_that_inflates_to_another_length_is_an_error() {
    let stored = zstd::bulk::compress(&[0; 100_000], 3).expect("in memory");
    for raw_len in [99_999, 100_001] {
        let mut parts = Parts::new(How::Open);
        let header =
            BlockHeader { payload_crc: crc32fast::hash(&stored), ..header(stored.len() as u32, raw_len) };
        parts.blocks.push([&header.encode(parts.seed())[..], &stored].concat());
        let recording = Recording::from_bytes(&parts.joined()).expect("a header");
        let error = recording.payload(&recording.entries()[7]).expect_err("lies");
        assert!(matches!(error, Error::Malformed { what: "block payload", .. }), "{error}");
    }
}

/// Forges an index, and asserts that it is not followed, that nothing is lost and that these words are said.
fn assert_not_followed(parts: &Parts, words: &str) {
    let read = read(&parts.joined()).expect("a header");
    assert_eq!(read.whole, all_but(&[]), "{words}");
    assert!(read.says(words), "should say `{words}`: {:?}", read.said);
}

#[test]
fn an_index_that_leads_astray_is_not_followed() {
    let mut parts = Parts::new(How::Closed);
    let good = entries(&parts.joined());
    type Change = fn(&mut Vec<Entry>);
    let wrong: [(Change, &str); 7] = [
        (|rows| rows[3].off = rows[2].off, "a block at byte"),
        (|rows| rows[3].off -= 8, "a block at byte"),
        (|rows| rows[3].off += 4, "a block at byte"),
        (|rows| rows[6].off = u64::MAX - 7, "a block at byte"),
        (|rows| rows[6].header.stored_len = u32::MAX, "a block at byte"),
        (|rows| rows.swap(0, 1), "sequence 1"),
        (|rows| rows[2].header.sequence = 9, "sequence 9"),
    ];
    for (change, words) in wrong {
        let mut rows = good.clone();
        change(&mut rows);
        parts.forge(&rows, |_, _| {});
        assert_not_followed(&parts, words);
    }
    // Rows that are possible, and lie.
    let mut rows = good.clone();
    rows[5].header.items += 1;
    parts.forge(&rows, |_, _| {});
    assert_eq!(read(&parts.joined()).expect("a header").whole, all_but(&[]));
    rows.pop();
    parts.forge(&rows, |_, _| {});
    assert_eq!(read(&parts.joined()).expect("a header").whole, all_but(&[]));
}

#[test]
fn a_tail_that_points_elsewhere_is_not_followed() {
    let mut parts = Parts::new(How::Closed);
    let good = entries(&parts.joined());
    let index_off = good.last().map_or(0, |last| last.header.next(last.off));
    for off in [0, 8, 64, good[3].off, index_off - 8, index_off + 8, index_off + 64, u64::MAX, u64::MAX - 63]
    {
        parts.forge(&good, |_, tail| tail.index_off = off);
        let read = read(&parts.joined()).expect("a header");
        assert_eq!(read.whole, all_but(&[]), "index at {off}");
        assert!(!read.said.is_empty(), "index at {off}");
    }
    // Its own block as a row of itself.
    let mut rows = good.clone();
    rows.push(Entry { off: index_off, header: BlockHeader { kind: Kind::INDEX, ..rows[6].header } });
    parts.forge(&rows, |_, _| {});
    assert_not_followed(&parts, "a block at byte");
}

#[test]
fn absurd_counts_are_refused_before_anything_is_allocated() {
    let mut parts = Parts::new(How::Closed);
    let good = entries(&parts.joined());
    parts.forge(&good, |header, _| header.items = u32::MAX);
    assert_not_followed(&parts, "are not 4294967295 rows");
    parts.forge(&good, |_, tail| tail.rows = u32::MAX);
    assert_not_followed(&parts, "which are not those of the tail");
    parts.forge(&good, |header, _| header.raw_len = u32::MAX);
    assert_not_followed(&parts, "beyond the limits");
    parts.forge_planes(vec![0; 100], 1, |_, _| {});
    assert_not_followed(&parts, "are not 1 rows");
}

#[test]
fn a_bomb_in_the_index_is_refused_before_it_is_inflated() {
    let mut parts = Parts::new(How::Closed);
    let rows = 1 << 20;
    let bomb = zstd::bulk::compress(&vec![0; rows * 64], 3).expect("in memory");
    let claim = |header: &mut BlockHeader| {
        header.codec = Codec::Zstd;
        header.raw_len = header.items * 64;
    };
    parts.forge_planes(bomb.clone(), rows as u32, |header, _| claim(header));
    assert_not_followed(&parts, if bomb.len() * 4096 < rows * 64 { "claim to hold" } else { "do not fit" });
    // Few enough to be believed: the room before the index bounds them.
    let some = zstd::bulk::compress(&vec![0; 1000 * 64], 3).expect("in memory");
    parts.forge_planes(some, 1000, |header, _| claim(header));
    assert_not_followed(&parts, "1000 blocks do not fit before it");
    // The header is modest, the payload is not.
    parts.forge_planes(bomb, 7, |header, _| claim(header));
    assert_not_followed(&parts, "block payload");
    // What is compressed rightly is followed.
    let good = entries(&parts.joined());
    let planes = encode_rows(&good);
    let small = zstd::bulk::compress(&planes, 3).expect("in memory");
    parts.forge_planes(small, 7, |header, _| claim(header));
    assert_eq!(read(&parts.joined()).expect("a header").said, [""; 0]);
}

#[test]
fn lengths_that_lie_cost_time_in_proportion_to_the_file() {
    // Every 64 bytes a block begins that goes on to the end of the file, and is none: checking each is quadratic.
    let parts = Parts::new(How::Open);
    let len = 16 << 20;
    let mut bytes = parts.header.clone();
    while bytes.len() + 64 < len {
        let stored_len = (len - bytes.len() - 64) as u32;
        let header = BlockHeader {
            sequence: bytes.len() as u64,
            payload_crc: 1,
            stored_len,
            raw_len: stored_len,
            codec: Codec::Raw,
            ..header(0, 0)
        };
        bytes.extend_from_slice(&header.encode(parts.seed()));
    }
    bytes.resize(len + 64, 0);
    let recording = Recording::from_bytes(&bytes).expect("a header");
    assert!(recording.entries().is_empty());
    assert!(recording.damage().len() <= limits::MAX_DAMAGE + 1);
}

#[test]
fn the_list_of_damage_does_not_grow_with_the_file() {
    let parts = Parts::new(How::Open);
    let mut bytes = parts.header.clone();
    for number in 0..5000 {
        let header = BlockHeader { sequence: number * 3, codec: Codec::Raw, ..header(0, 0) };
        bytes.extend_from_slice(&header.encode(parts.seed()));
        bytes.extend_from_slice(b"garbage!");
    }
    let recording = Recording::from_bytes(&bytes).expect("a header");
    assert_eq!((recording.entries().len(), recording.damage().len()), (5000, limits::MAX_DAMAGE + 1));
    let last = recording.damage()[limits::MAX_DAMAGE].to_string();
    assert!(last.contains("more places, not listed"), "{last}");
}

#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("every Linux has it");
    let error = icecore_format::write::Writer::create(full, [0; 16]).expect_err("it is full");
    assert!(matches!(&error, Error::Io(io) if io.kind() == std::io::ErrorKind::StorageFull), "{error}");
}

/// Opens bytes and looks at everything, whatever it is.
fn look(bytes: &[u8]) {
    if let Ok(recording) = Recording::from_bytes(bytes) {
        recording.entries().iter().for_each(|entry| drop(recording.payload(entry)));
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_behind_a_good_header_make_it_panic(noise: Vec<u8>, at in 64_usize..2000) {
        let mut bytes = recording(How::Closed);
        bytes.truncate(at);
        bytes.extend_from_slice(&noise);
        look(&bytes);
    }

    #[test]
    fn no_index_makes_it_panic(planes in proptest::collection::vec(0_u8..4, 64 * 7), off: u64, rows: u32) {
        let mut parts = Parts::new(How::Closed);
        parts.forge_planes(planes, 7, |_, tail| {
            if off % 3 == 0 {
                (tail.index_off, tail.rows) = (off, rows);
            }
        });
        look(&parts.joined());
    }

    #[test]
    fn no_block_header_makes_it_panic(
        kind in 0_u16..24, items: u32, sequence: u64, stored_len: u32, raw_len: u32, payload_crc: u32,
    ) {
        let mut parts = Parts::new(How::Open);
        let forged = BlockHeader { kind: Kind(kind), items, sequence, stored_len, raw_len, payload_crc, ..header(0, 0) };
        let forged = BlockHeader { stored_len: stored_len >> (items % 32), ..forged };
        parts.blocks.insert(3, forged.encode(parts.seed()).to_vec());
        look(&parts.joined());
    }
}
