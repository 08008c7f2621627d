//! Unpacks `.gnu_debugdata`: an ELF file with a symbol table, compressed by xz, inside a stripped image.

use std::fs::File;
use std::io::{Read, copy};

use liblzma::read::XzDecoder;
use liblzma::stream::Stream;

use super::{ElfFile, Layout};

/// The largest section that is unpacked, in bytes; those of distributions are below 4 MiB.
const MAX_PACKED_LEN: u64 = 64 << 20;
/// The largest symbol table that is unpacked, bytes.
const MAX_UNPACKED_LEN: u64 = 512 << 20;
/// The largest ratio that is accepted: symbol tables shrink to a fourth to a tenth.
const MAX_RATIO: u64 = 64;
/// This many bytes are unpacked at any ratio.
const FREE_LEN: u64 = 1 << 20;
/// Memory that the decoder may take, in bytes; `xz -9` needs 65 MiB.
const MAX_MEMORY_BYTES: u64 = 128 << 20;

/// Unpacks the section into an unnamed file; `None` if there is none, or it is broken or absurdly large.
pub(super) fn unpack(file: &ElfFile, layout: &Layout) -> Option<(ElfFile, Layout)> {
    let section = layout.section(".gnu_debugdata").filter(|section| section.len <= MAX_PACKED_LEN)?;
    let unpacked = ElfFile::unlinked(decode(&file.section_bytes(section)?)?, &file.real_path).ok()?;
    let layout = unpacked.layout().ok()?;
    layout.has(".symtab").then_some((unpacked, layout))
}

fn decode(packed: &[u8]) -> Option<File> {
    let stream = Stream::new_stream_decoder(MAX_MEMORY_BYTES, 0).ok()?;
    let most = (packed.len() as u64 * MAX_RATIO + FREE_LEN).min(MAX_UNPACKED_LEN);
    let mut unpacked = XzDecoder::new_stream(packed, stream).take(most + 1);
    let mut file = tempfile::tempfile().ok()?;
    let len = copy(&mut unpacked, &mut file).ok()?;
    (len <= most).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, run, text};
    use super::*;
    use crate::image::FileOff;

    /// A stripped library with a section that holds these bytes.
    fn with(packed: &[u8]) -> (tempfile::TempDir, ElfFile) {
        let dir = tempfile::tempdir().expect("a directory");
        let out = dir.path().join("mini.so");
        std::fs::write(dir.path().join("packed"), packed).expect("written");
        let add = format!(".gnu_debugdata={}", text(&dir.path().join("packed")));
        let from = &Fixture::shared().stripped;
        run(dir.path(), "objcopy", &["--add-section", &add, text(from), text(&out)]);
        (dir, ElfFile::open(&out).expect("opens"))
    }

    fn packed(raw: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        liblzma::read::XzEncoder::new(raw, 1).read_to_end(&mut packed).expect("memory");
        packed
    }

    #[test]
    fn a_packed_symbol_table_becomes_a_file() {
        let raw = std::fs::read(&Fixture::shared().with_symbols).expect("read");
        let (_dir, file) = with(&packed(&raw));
        let (unpacked, layout) = unpack(&file, &file.layout().expect("ELF")).expect("sound");
        assert_eq!((unpacked.len, layout.has(".symtab")), (raw.len() as u64, true));
        assert_eq!(unpacked.bytes(FileOff(0), unpacked.len).expect("it is open"), raw);
    }

    #[test]
    fn broken_truncated_and_bloated_tables_are_none() {
        let raw = std::fs::read(&Fixture::shared().with_symbols).expect("read");
        let good = packed(&raw);
        let bomb = packed(&vec![0; 1 << 20]);
        for bad in [&b"no xz"[..], &good[..good.len() / 2], &bomb, &packed(&raw[..100])] {
            let (_dir, file) = with(bad);
            assert!(unpack(&file, &file.layout().expect("ELF")).is_none());
        }
        let file = ElfFile::open(&Fixture::shared().stripped).expect("opens");
        assert!(unpack(&file, &file.layout().expect("ELF")).is_none(), "there is no such section");
    }

    #[test]
    fn what_unpacks_to_more_than_the_limit_is_given_up() {
        let zeros = std::io::repeat(0).take(MAX_UNPACKED_LEN + 1);
        let mut bomb = Vec::new();
        liblzma::read::XzEncoder::new(zeros, 0).read_to_end(&mut bomb).expect("memory");
        assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
        assert!(decode(&bomb).is_none());
    }
}
