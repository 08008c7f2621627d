//! Builds perf.data files for tests.

use super::attr::field::{CALLCHAIN, CPU, IP, PERIOD, REGS_USER, STACK_USER, TID, TIME};
use super::*;

/// An event whose samples have these fields.
pub(in super::super) fn attr(sample_type: u64) -> Attr {
    Attr { sample_type, ..Attr::default() }
}

/// An event whose records all end with process, thread and time.
pub(in super::super) fn attr_with_tail() -> Attr {
    Attr::decode(&attr_bytes(TID | TIME)).expect("long enough")
}

/// The attribute of a `cpu-clock` at 500 Hz that begins with the command.
fn attr_bytes(sample_type: u64) -> Vec<u8> {
    const FLAGS: u64 = 1 << 10 | 1 << 12 | 1 << 18;
    let words =
        [1 | 128 << 32, 0, 500, sample_type, 0, FLAGS, 0, 0, 0, 0, 0xff_0fff, 512, 0, 127 << 32, 0, 0];
    words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
}

/// The body of a mapping's record, with a tail.
pub(in super::super) fn mmap2(tgid: u32, start: u64, len: u64, off: u64, path: &[u8], prot: u32) -> Vec<u8> {
    let mut body = [tgid.to_le_bytes(), tgid.to_le_bytes()].concat();
    body.extend([start, len, off].iter().flat_map(|word| word.to_le_bytes()));
    body.extend([8_u32, 1].iter().flat_map(|word| word.to_le_bytes()));
    body.extend([99_u64, 7].iter().flat_map(|word| word.to_le_bytes()));
    body.extend([prot, 2].iter().flat_map(|word| word.to_le_bytes()));
    body.extend_from_slice(path);
    body.resize((body.len() + 1).next_multiple_of(8), 0);
    body.extend([[0; 8], [0; 8]].concat());
    body
}

/// A perf.data file under construction.
#[derive(Debug, Default)]
pub(in super::super) struct File {
    records: Vec<u8>,
    features: Vec<(u32, Vec<u8>)>,
}

/// Fields of the samples of [`File::dwarf`].
pub(in super::super) const DWARF: u64 = IP | TID | TIME | CALLCHAIN | CPU | PERIOD | REGS_USER | STACK_USER;

impl File {
    pub(in super::super) fn record(&mut self, kind: u32, misc: u16, body: &[u8]) -> &mut Self {
        let len = (body.len() + 8) as u16;
        self.records
            .extend([&kind.to_le_bytes()[..], &misc.to_le_bytes(), &len.to_le_bytes(), body].concat());
        self
    }

    /// A record of numbers of 4 bytes and a text, with a tail.
    pub(in super::super) fn event(
        &mut self,
        kind: u32,
        misc: u16,
        numbers: &[u32],
        text: &[u8],
        time_ns: u64,
    ) -> &mut Self {
        let mut body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        body.extend_from_slice(text);
        body.resize(body.len().next_multiple_of(8), 0);
        body.extend(tail(time_ns));
        self.record(kind, misc, &body)
    }

    pub(in super::super) fn mapping(&mut self, start: u64, path: &[u8], time_ns: u64) -> &mut Self {
        let mut body = mmap2(7, start, 0x1000, 0x2000, path, 4);
        body.truncate(body.len() - 16);
        body.extend(tail(time_ns));
        self.record(kind::MMAP2, 2, &body)
    }

    pub(in super::super) fn feature(&mut self, number: u32, bytes: &[u8]) -> &mut Self {
        self.features.push((number, bytes.to_vec()));
        self
    }

    /// A text in the form of features.
    pub(in super::super) fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u32 + 4).to_le_bytes()[..], text.as_bytes(), &[0; 4]].concat()
    }

    /// The whole file.
    pub(in super::super) fn bytes(&self) -> Vec<u8> {
        const HEADER_LEN: u64 = 104;
        let mut attr = attr_bytes(DWARF);
        attr.extend([HEADER_LEN, 0].iter().flat_map(|word| word.to_le_bytes()));
        let data_off = HEADER_LEN + attr.len() as u64;
        let bits = self.features.iter().fold(0_u64, |bits, (number, _)| bits | 1 << number);
        let header = [
            u64::from_le_bytes(*b"PERFILE2"),
            HEADER_LEN,
            attr.len() as u64,
            HEADER_LEN,
            attr.len() as u64,
            data_off,
            self.records.len() as u64,
            0,
            0,
            bits,
            0,
            0,
            0,
        ];
        let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(attr);
        bytes.extend(&self.records);
        let mut off = bytes.len() as u64 + 16 * self.features.len() as u64;
        for (_, feature) in &self.features {
            bytes.extend([off, feature.len() as u64].iter().flat_map(|word| word.to_le_bytes()));
            off += feature.len() as u64;
        }
        bytes.extend(self.features.iter().flat_map(|(_, feature)| feature));
        bytes
    }

    /// The same data as a stream.
    pub(in super::super) fn stream(&self) -> Vec<u8> {
        let mut stream = Self::default();
        stream.record(HEADER_ATTR, 0, &attr_bytes(DWARF));
        for (number, feature) in &self.features {
            stream.record(HEADER_FEATURE, 0, &[&u64::from(*number).to_le_bytes()[..], feature].concat());
        }
        [&b"PERFILE2\x10\0\0\0\0\0\0\0"[..], &stream.records, &self.records].concat()
    }

    /// The same data with compressed records.
    pub(in super::super) fn compressed(&self) -> Vec<u8> {
        let packed = zstd::encode_all(&self.records[..], 3).expect("it can be compressed");
        let mut file = Self { features: self.features.clone(), ..Self::default() };
        // Records do not end where the compressed ones do.
        let (first, second) = packed.split_at(packed.len() / 2);
        file.record(81, 0, first).record(81, 0, second);
        file.bytes()
    }
}

/// The end of every record that is no sample: process and thread, time, CPU.
fn tail(time_ns: u64) -> Vec<u8> {
    [7 | 7 << 32, time_ns, 0].iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
}

/// The body of a sample with the fields [`DWARF`], of thread 7 on CPU 1. Registers are as the kernel orders them, the stack
/// pointer the eighth, the address the ninth.
pub(in super::super) fn sample(
    time_ns: u64,
    ip: u64,
    chain: &[u64],
    registers: &[u64; 20],
    stack: &[u64],
) -> Vec<u8> {
    let mut words = vec![ip, 7 | 7 << 32, time_ns, 1, 2_000_000, chain.len() as u64];
    words.extend(chain);
    words.push(2);
    words.extend(registers);
    words.push(8 * stack.len() as u64);
    words.extend(stack);
    words.push(8 * stack.len() as u64);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
