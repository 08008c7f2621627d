//! `import`: whatever a perf.data file says, what is written is whole, and can be reported on.

use std::path::Path;

use icecore_format::read::Recording;

use super::FREE_BYTES;
use super::edit::line;
use crate::{memory, scratch};

/// What the import of one byte may hold: records of 8 bytes become rows of a hundred and more.
const BYTES_OF_BYTE: usize = 256;
/// What the tables of an import take, however small the file is.
const TABLE_BYTES: usize = 16 << 20;

/// Imports a file, and shows every sample of what was written.
pub fn run(data: &[u8]) {
    within(data, BYTES_OF_BYTE);
}

/// As [`run`]; an import holds as many bytes of each byte at most.
pub(super) fn within(data: &[u8], bytes_of_byte: usize) {
    let folder = tempfile::tempdir_in(scratch::folder()).expect("a temporary folder");
    let [from, to] = ["perf.data", "r.icecore"].map(|name| folder.path().join(name));
    std::fs::write(&from, data).expect("room for one input");
    let path = |path: &Path| path.to_str().expect("bug: it is text").to_owned();
    let bound = FREE_BYTES + TABLE_BYTES + data.len() * bytes_of_byte;
    let import = ["import".to_owned(), path(&from), "-o".to_owned(), path(&to)];
    let is_done = memory::within(bound, || line(&import));
    if is_done {
        let recording = Recording::open(&to).expect("what was written opens");
        assert!(recording.is_closed() && recording.damage().is_empty());
        assert!(line(&["verify".to_owned(), path(&to)]), "what was written is not well");
        assert!(line(&["samples".to_owned(), path(&to)]), "what was written cannot be read");
    }
}

/// Events, tasks, a mapping and samples with call chain, registers and stack: as a file, as a stream, compressed.
pub fn seeds() -> Vec<Vec<u8>> {
    let records = records();
    let stream = [&b"PERFILE2\x10\0\0\0\0\0\0\0"[..], &record(64, 0, &words(&ATTR)), &records].concat();
    let packed = zstd::encode_all(&records[..], 3).expect("it can be compressed");
    let (first, second) = packed.split_at(packed.len() / 2);
    vec![file(&records), stream, file(&[record(81, 0, first), record(81, 0, second)].concat())]
}

/// A `cpu-clock` at 500 Hz; samples have address, thread, time, call chain, CPU, period, registers and stack.
const ATTR: [u64; 16] =
    [1 | 128 << 32, 0, 500, 0x31a7, 0, 1 << 10 | 1 << 18, 0, 0, 0, 0, 0xff_0fff, 512, 0, 127 << 32, 0, 0];

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let len = (body.len() + 8) as u16;
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &len.to_le_bytes(), body].concat()
}

fn records() -> Vec<u8> {
    let text = |text: &[u8; 8]| u64::from_le_bytes(*text);
    // Process and thread, time, CPU.
    let tail = |time_ns: u64| [7 | 7 << 32, time_ns, 0];
    let comm = [&[7 | 7 << 32, text(b"program\0")][..], &tail(0)].concat();
    let mapping =
        [7 | 7 << 32, 0x40_0000, 0x1000, 0x2000, 8 | 1 << 32, 99, 0, 5 | 2 << 32, text(b"/bin/x\0\0")];
    let fork = [7 | 7 << 32, 8 | 7 << 32, 0];
    let mut registers = [0_u64; 20];
    (registers[6], registers[7], registers[8]) = (0x7ff0_0020, 0x7ff0_0008, 0x40_0010);
    let chain = [0x40_0010, 7 | 7 << 32, 250, 1, 2_000_000, 3, -512_i64 as u64, 0x40_0010, 0x40_0500, 2];
    let stack = [24, 0x40_0300, 0x7ff0_0040, 0x1234, 24];
    let sample = [&chain[..], &registers, &stack].concat();
    [
        record(3, 0, &words(&comm)),
        record(10, 2, &words(&[&mapping[..], &tail(200)].concat())),
        record(7, 0, &words(&[&fork[..], &tail(210)].concat())),
        record(9, 2, &words(&sample)),
        record(2, 0, &words(&[&[1, 3][..], &tail(260)].concat())),
        record(4, 0, &words(&[&fork[..], &tail(300)].concat())),
    ]
    .concat()
}

/// A file of records, with the host's name behind them.
fn file(records: &[u8]) -> Vec<u8> {
    const HEADER_LEN: u64 = 104;
    let attr = [&ATTR[..], &[HEADER_LEN, 0]].concat();
    let attr_len = 8 * attr.len() as u64;
    let data = [HEADER_LEN + attr_len, records.len() as u64];
    let header =
        [[u64::from_le_bytes(*b"PERFILE2"), HEADER_LEN, attr_len], [HEADER_LEN, attr_len, data[0]]].concat();
    let features = [data[1], 0, 0, 1 << 3, 0, 0, 0];
    let host_off = data[0] + data[1] + 16;
    let host = [&8_u32.to_le_bytes()[..], b"host\0\0\0\0"].concat();
    [&words(&header), &words(&features), &words(&attr), records, &words(&[host_off, 12]), &host[..]].concat()
}
