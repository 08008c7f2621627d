//! Drafts: recordings that a mutation does not break at the first checksum.
//!
//! A draft looks like a recording, but its checksums and stored lengths mean nothing and its payloads are plain.
//! [`finished`] makes a recording of it: compresses, counts, computes the checksums. So a changed byte of a
//! payload, a header or an index arrives behind the checks that would refuse it in a recording.
//!
//! | codec byte of a draft's block | the recording's block |
//! |---|---|
//! | 0 | stored raw |
//! | 1 | compressed |
//! | 2 | compressed, but it declares the raw length that the draft says: a bomb, or too little |
//! | 3 | the draft's payload *is* the compressed one; raw length as the draft says |
//! | other | as it is: a codec that nobody knows |
//!
//! Written from docs/FORMAT.md §2 to §4 on its own, byte offsets included; only rows of the index and the tail
//! come from the format crate.

use icecore_format::block::{self, BlockHeader};
use icecore_format::index::{self, Entry, Tail};
use icecore_format::read::Recording;
use icecore_format::{header, limits};

/// What a draft begins with instead of the magic number.
pub const MAGIC: [u8; 8] = *b"DRAFT\r\n\n";

const MARK_OFF: usize = 12;
const UUID_OFF: usize = 32;
const CODEC_OFF: usize = 8;
const ITEMS_OFF: usize = 12;
const SEQUENCE_OFF: usize = 16;
const STORED_LEN_OFF: usize = 40;
const RAW_LEN_OFF: usize = 44;
const PAYLOAD_CRC_OFF: usize = 48;
const CRC_OFF: usize = 60;
const INDEX: [u8; 2] = 12_u16.to_le_bytes();
const CLOSED: [u8; 4] = 2_u32.to_le_bytes();

/// Makes a draft of a recording; the index is left out, and made anew by [`finished`].
///
/// # Panics
/// If the recording is not whole.
pub fn of(file: &[u8]) -> Vec<u8> {
    let recording = Recording::from_bytes(file).expect("a whole recording");
    let mut draft = file[..header::LEN].to_vec();
    draft[..8].copy_from_slice(&MAGIC);
    for entry in recording.entries() {
        let payload = recording.payload(entry).expect("a whole block");
        let mut header = header_at(file, entry.off as usize);
        set(&mut header, STORED_LEN_OFF, payload.as_bytes().len());
        push_block(&mut draft, &header, payload.as_bytes());
    }
    draft
}

/// Changes how all blocks of a draft are stored.
pub fn with_codec(draft: &[u8], codec: u8) -> Vec<u8> {
    let mut out = draft.to_vec();
    let mut off = header::LEN;
    while off + block::LEN <= out.len() {
        out[off + CODEC_OFF] = codec;
        off = next(&out, off);
    }
    out
}

/// Makes a recording of a draft, and leaves anything else as it is.
///
/// Index and tail are added if the header is marked closed; if the draft has an index of its own, that is kept, and
/// the tail leads to it.
pub fn finished(data: &[u8]) -> Vec<u8> {
    if !data.starts_with(&MAGIC) || data.len() < header::LEN {
        return data.to_vec();
    }
    let mut out = header_at(data, 0).to_vec();
    out[..8].copy_from_slice(&header::MAGIC);
    let crc = crc32fast::hash(&out[..CRC_OFF]);
    set(&mut out, CRC_OFF, crc as usize);
    let seed = crc32fast::hash(&out[UUID_OFF..UUID_OFF + 16]);
    let mut tail = None;
    let mut entries = Vec::new();
    let mut off = header::LEN;
    while off + block::LEN <= data.len() {
        let header = header_at(data, off);
        let payload = &data[off + block::LEN..][..payload_len(data, off)];
        let at = out.len();
        finish_block(&mut out, header, payload, seed);
        // What no reader takes for a block is not listed.
        if let Ok(header) = BlockHeader::decode(&out, at as u64, seed) {
            entries.push(Entry { off: at as u64, header });
        }
        if header[4..6] == INDEX {
            tail = Some((at, payload.len() / index::ROW_LEN));
        }
        off = next(data, off);
    }
    if tail.is_none() && out[MARK_OFF..MARK_OFF + 4] == CLOSED {
        let mut header = [0; block::LEN];
        header[4..6].copy_from_slice(&INDEX);
        header[6] = 1;
        set(&mut header, ITEMS_OFF, entries.len());
        set(&mut header, SEQUENCE_OFF, entries.len());
        tail = Some((out.len(), entries.len()));
        finish_block(&mut out, header, &index::encode_rows(&entries), seed);
    }
    if let Some((index_off, rows)) = tail {
        let file_len = (out.len() + index::TAIL_LEN) as u64;
        let tail = Tail { index_off: index_off as u64, file_len, rows: rows as u32 };
        out.extend(tail.encode(seed));
    }
    out
}

fn finish_block(out: &mut Vec<u8>, mut header: [u8; block::LEN], payload: &[u8], seed: u32) {
    let compressed;
    let stored = match header[CODEC_OFF] {
        1 | 2 => {
            compressed = zstd::bulk::compress(payload, 1).expect("bug: memory is enough");
            &compressed[..]
        }
        _ => payload,
    };
    match header[CODEC_OFF] {
        0 | 1 => set(&mut header, RAW_LEN_OFF, payload.len()),
        2 | 3 => header[CODEC_OFF] = 1,
        _ => {}
    }
    header[..4].copy_from_slice(&block::MAGIC);
    set(&mut header, STORED_LEN_OFF, stored.len());
    set(&mut header, PAYLOAD_CRC_OFF, crc32fast::hash(stored) as usize);
    let mut crc = crc32fast::Hasher::new_with_initial(seed);
    crc.update(&header[..CRC_OFF]);
    set(&mut header, CRC_OFF, crc.finalize() as usize);
    push_block(out, &header, stored);
}

fn push_block(out: &mut Vec<u8>, header: &[u8], payload: &[u8]) {
    out.extend_from_slice(header);
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(limits::ALIGN as usize), 0);
}

/// Where the next block of a draft begins.
fn next(draft: &[u8], off: usize) -> usize {
    (off + block::LEN + payload_len(draft, off)).next_multiple_of(limits::ALIGN as usize)
}

/// The payload of a draft's block ends with the draft at the latest.
fn payload_len(draft: &[u8], off: usize) -> usize {
    let field = &header_at(draft, off)[STORED_LEN_OFF..][..4];
    let len = field.iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte));
    len.min(draft.len() - off - block::LEN)
}

fn header_at(bytes: &[u8], off: usize) -> [u8; 64] {
    let mut header = [0; 64];
    header.copy_from_slice(&bytes[off..off + 64]);
    header
}

fn set(header: &mut [u8], off: usize, value: usize) {
    header[off..off + 4].copy_from_slice(&(value as u32).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::recording;

    #[test]
    fn a_draft_becomes_the_recording_that_it_was_made_of() {
        for file in recording::files() {
            let (was, is) = (open(&file), open(&finished(&of(&file))));
            assert_eq!((is.damage().len(), is.is_closed()), (0, was.is_closed()));
            assert_eq!(is.entries().len(), was.entries().len());
            for (a, b) in was.entries().iter().zip(is.entries()) {
                let payloads = (was.payload(a).expect("whole"), is.payload(b).expect("whole"));
                assert_eq!(payloads.0.as_bytes(), payloads.1.as_bytes());
            }
        }
    }

    #[test]
    fn a_changed_payload_and_a_changed_index_arrive_behind_the_checksums() {
        let [closed, ..] = recording::files();
        let mut draft = of(&closed);
        let last = draft.len() - 65;
        draft[last] ^= 1;
        assert_eq!(open(&finished(&draft)).damage(), []);
        // A recording that stores everything raw, index included, differs from its draft in checksums alone.
        let mut draft = finished(&with_codec(&of(&closed), 0));
        draft[..8].copy_from_slice(&MAGIC);
        let rows = open(&finished(&draft)).entries().len();
        assert_eq!(open(&finished(&draft)).damage(), []);
        let first_row = draft.len() - index::TAIL_LEN - rows * index::ROW_LEN;
        draft[first_row] ^= 1;
        let damage = format!("{:?}", open(&finished(&draft)).damage());
        assert!(damage.contains("cannot be"), "{damage}");
    }

    fn open(file: &[u8]) -> Recording {
        Recording::from_bytes(file).expect("opens")
    }
}
