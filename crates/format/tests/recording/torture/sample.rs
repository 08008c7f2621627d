//! A small recording whose every block is known, in parts that can be put together wrongly.

use std::io::Write;
use std::sync::{Arc, Mutex};

use icecore_format::Error;
use icecore_format::block::{BlockHeader, Codec, Kind, Processes};
use icecore_format::header::{self, FileHeader};
use icecore_format::index::{Entry, TAIL_LEN, Tail, encode_rows};
use icecore_format::read::Recording;
use icecore_format::records::Payload;
use icecore_format::write::Writer;
use rkyv::util::AlignedVec;

/// Bytes as a payload of any kind.
pub(crate) struct Plain<const KIND: u16>(pub(crate) Vec<u8>);

impl<const KIND: u16> Payload for Plain<KIND> {
    const KIND: Kind = Kind(KIND);
    const VERSION: u16 = 1;
    type View = ();

    fn items(&self) -> usize {
        self.0.len()
    }

    fn span_ns(&self) -> (u64, u64) {
        (1000, 2000)
    }

    fn processes(&self) -> Processes {
        Processes::NONE.with(7)
    }

    fn to_bytes(&self) -> Result<AlignedVec<16>, Error> {
        let mut bytes = AlignedVec::new();
        bytes.extend_from_slice(&self.0);
        Ok(bytes)
    }

    fn view(_bytes: &[u8]) -> Result<&(), Error> {
        Ok(&())
    }
}

/// How a recording is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// To a file, and not finished.
    Open,
    /// To a file.
    Closed,
    /// To a pipe.
    Streamed,
}

/// What the blocks hold: short and long, what shrinks and what does not, nothing at all.
pub(crate) fn payloads() -> Vec<Vec<u8>> {
    let noise = |len: u32| (0..len).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    vec![b"session".to_vec(), vec![7; 300], noise(100), Vec::new(), noise(64), vec![9; 1000], b"end".to_vec()]
}

/// Takes bytes like a pipe.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Never more than a few bytes at once.
        let taken = &bytes[..bytes.len().min(33)];
        self.0.lock().expect("no panic").extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes the recording and returns its bytes.
pub(crate) fn recording(how: How) -> Vec<u8> {
    let fill = |mut writer: Writer| {
        let mut payloads = payloads().into_iter();
        let mut next = || payloads.next().expect("seven");
        writer.append(&Plain::<1>(next())).expect("room");
        writer.append(&Plain::<2>(next())).expect("room");
        writer.append(&Plain::<900>(next())).expect("room");
        for _ in 0..3 {
            writer.append(&Plain::<8>(next())).expect("room");
        }
        writer.append(&Plain::<11>(next())).expect("room");
        if how != How::Open {
            writer.finish().expect("room");
        }
    };
    if how == How::Streamed {
        let pipe = Pipe::default();
        fill(Writer::stream(pipe.clone(), [3; 16]).expect("room"));
        return pipe.0.lock().expect("no panic").clone();
    }
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r");
    fill(Writer::create(std::fs::File::create_new(&path).expect("new"), [3; 16]).expect("room"));
    std::fs::read(&path).expect("just written")
}

/// A recording in parts.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) header: Vec<u8>,
    /// Every block with its padding.
    pub(crate) blocks: Vec<Vec<u8>>,
    pub(crate) index: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

impl Parts {
    pub(crate) fn new(how: How) -> Self {
        let bytes = recording(how);
        let entries = entries(&bytes);
        let blocks: Vec<Vec<u8>> = entries
            .iter()
            .map(|entry| bytes[entry.off as usize..entry.header.next(entry.off) as usize].to_vec())
            .collect();
        let end = entries.last().map_or(0, |entry| entry.header.next(entry.off) as usize);
        let tail = if how == How::Open { bytes.len() } else { bytes.len() - TAIL_LEN };
        Self {
            header: bytes[..header::LEN].to_vec(),
            blocks,
            index: bytes[end..tail].to_vec(),
            tail: bytes[tail..].to_vec(),
        }
    }

    pub(crate) fn joined(&self) -> Vec<u8> {
        [&self.header[..], &self.blocks.concat(), &self.index, &self.tail].concat()
    }

    pub(crate) fn seed(&self) -> u32 {
        FileHeader::decode(&self.header).expect("own header").seed()
    }

    /// Gives it another index: these rows, and a header and a tail that agree with them unless changed.
    pub(crate) fn forge(&mut self, rows: &[Entry], change: impl Fn(&mut BlockHeader, &mut Tail)) {
        let planes = encode_rows(rows);
        self.forge_planes(planes, rows.len() as u32, change);
    }

    /// The same, of any payload.
    pub(crate) fn forge_planes(
        &mut self,
        planes: Vec<u8>,
        rows: u32,
        change: impl Fn(&mut BlockHeader, &mut Tail),
    ) {
        let off = (self.header.len() + self.blocks.concat().len()) as u64;
        let mut header = BlockHeader {
            kind: Kind::INDEX,
            version: 1,
            codec: Codec::Raw,
            items: rows,
            sequence: u64::from(rows),
            first_ns: 0,
            last_ns: 0,
            stored_len: planes.len() as u32,
            raw_len: planes.len() as u32,
            payload_crc: crc32fast::hash(&planes),
            processes: Processes::ANY,
        };
        let padded = planes.len().next_multiple_of(8);
        let file_len = off + 64 + padded as u64 + TAIL_LEN as u64;
        let mut tail = Tail { index_off: off, file_len, rows };
        change(&mut header, &mut tail);
        self.index = [&header.encode(self.seed())[..], &planes, &vec![0; padded - planes.len()]].concat();
        self.tail = tail.encode(self.seed()).to_vec();
    }
}

pub(crate) fn entries(bytes: &[u8]) -> Vec<Entry> {
    Recording::from_bytes(bytes).expect("the file header is whole").entries().to_vec()
}

/// What a reader gets out of bytes.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) closed: bool,
    /// Sequence numbers of the whole blocks, in the order of the reader.
    pub(crate) whole: Vec<u64>,
    /// Damage, and payloads that could not be read.
    pub(crate) said: Vec<String>,
}

impl Read {
    pub(crate) fn says(&self, words: &str) -> bool {
        self.said.iter().any(|said| said.contains(words))
    }
}

/// Reads all that can be read, and checks that whatever is readable is what was written.
pub(crate) fn read(bytes: &[u8]) -> Result<Read, Error> {
    let recording = Recording::from_bytes(bytes)?;
    let mut said: Vec<String> = recording.damage().iter().map(ToString::to_string).collect();
    let payloads = payloads();
    let mut whole = Vec::new();
    for entry in recording.entries() {
        match recording.payload(entry) {
            Ok(payload) => {
                let sequence = entry.header.sequence;
                assert_eq!(payload.as_bytes(), payloads[sequence as usize], "block {sequence}");
                whole.push(sequence);
            }
            Err(error) => said.push(format!("{}: {error}", entry.header.sequence)),
        }
    }
    Ok(Read { closed: recording.is_closed(), whole, said })
}

/// All blocks but some.
pub(crate) fn all_but(left_out: &[usize]) -> Vec<u64> {
    (0..payloads().len()).filter(|number| !left_out.contains(number)).map(|number| number as u64).collect()
}
