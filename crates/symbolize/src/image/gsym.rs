//! Reads the header of GSYM, LLVM's format for names, inlined calls and lines: a section of the image, or a file beside it.

use super::{ElfFile, FileOff, Svma};

/// The name of the section, if the image contains it.
pub(super) const SECTION: &str = ".gsym";
/// The length of the header, bytes.
pub(crate) const HEADER_LEN: usize = 48;
/// `GSYM`, as a little-endian number: recorded machines have this byte order, and `llvm-gsymutil` writes that of the image.
const MAGIC: u32 = 0x4753_594d;
/// The only version that is read.
const VERSION: u16 = 1;
/// The bytes of the header that are reserved for a build-id.
const MAX_UUID_LEN: usize = 20;

/// The header.
///
/// | off | bytes | what |
/// |---|---|---|
/// | 0 | 4 | magic |
/// | 4 | 2 | version |
/// | 6 | 1 | bytes of an entry in the table of addresses: 1, 2, 4, 8 |
/// | 7 | 1 | bytes of the build-id |
/// | 8 | 8 | base of the addresses |
/// | 16 | 4 | how many addresses |
/// | 20 | 4 | offset of the strings |
/// | 24 | 4 | bytes of the strings |
/// | 28 | 20 | build-id, then zeros |
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) address_len: usize,
    pub(crate) base: Svma,
    pub(crate) count: u32,
    pub(crate) strings_off: u32,
    pub(crate) strings_len: u32,
    /// Empty if the file has none.
    pub(crate) build_id: Vec<u8>,
}

impl Header {
    /// Reads the header; `None` if this is not GSYM of the known version.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<HEADER_LEN>()?;
        let word = |off: usize| Some(u32::from_le_bytes(*bytes.get(off..)?.first_chunk()?));
        let (version, base) = (u16::from_le_bytes([bytes[4], bytes[5]]), *bytes.get(8..)?.first_chunk()?);
        let (address_len, uuid_len) = (usize::from(bytes[6]), usize::from(bytes[7]));
        if word(0) != Some(MAGIC)
            || version != VERSION
            || ![1, 2, 4, 8].contains(&address_len)
            || uuid_len > MAX_UUID_LEN
        {
            return None;
        }
        let (count, strings_off, strings_len) = (word(16)?, word(20)?, word(24)?);
        let build_id = bytes[28..28 + uuid_len].to_vec();
        Some(Self {
            address_len,
            base: Svma(u64::from_le_bytes(base)),
            count,
            strings_off,
            strings_len,
            build_id,
        })
    }
}

/// Reads the build-id of the image for which a GSYM file was made; `None` if the file is not GSYM, or has none.
pub(super) fn build_id(file: &ElfFile) -> Option<Vec<u8>> {
    let header = Header::parse(&file.bytes(FileOff(0), HEADER_LEN as u64)?)?;
    Some(header.build_id).filter(|build_id| !build_id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a header with these values: magic, version, bytes of an address, bytes of the build-id.
    fn header(magic: u32, version: u16, address_len: u8, uuid_len: u8) -> Vec<u8> {
        let mut bytes = [&magic.to_le_bytes()[..], &version.to_le_bytes(), &[address_len, uuid_len]].concat();
        bytes.extend(0x1000_u64.to_le_bytes());
        bytes.extend([3_u32, 0x40, 5].map(u32::to_le_bytes).concat());
        bytes.extend(1..=20);
        bytes
    }

    #[test]
    fn a_header_is_read_in_the_byte_order_of_the_machines() {
        let bytes = header(MAGIC, 1, 2, 4);
        let little = Header::parse(&bytes).expect("sound");
        let expected = (2, Svma(0x1000), 3, 0x40, 5, vec![1, 2, 3, 4]);
        let fields =
            |it: Header| (it.address_len, it.base, it.count, it.strings_off, it.strings_len, it.build_id);
        assert_eq!(fields(little), expected);
        assert_eq!(Header::parse(&header(MAGIC.swap_bytes(), 1, 2, 4)), None, "big-endian");
    }

    #[test]
    fn what_is_no_gsym_of_version_1_is_none() {
        let good = header(MAGIC, 1, 8, 20);
        assert!(Header::parse(&good).is_some());
        let bad =
            [header(1, 1, 8, 0), header(MAGIC, 2, 8, 0), header(MAGIC, 1, 3, 0), header(MAGIC, 1, 8, 21)];
        for bad in bad.iter().map(Vec::as_slice).chain([&good[..47], b""]) {
            assert_eq!(Header::parse(bad), None);
        }
    }
}
