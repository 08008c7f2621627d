//! Reads the sections that name other files: `.gnu_debuglink`, `.gnu_debugaltlink`, `.debug_sup`.
//!
//! A name is data: the readers take only the part that they need, and the file to which it leads must prove its identity.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Endianness;

use super::{ElfFile, Layout};

/// The longest path with its build-id or checksum, bytes.
const MAX_LEN: u64 = 8192;

/// The contents of `.gnu_debuglink`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Debuglink {
    /// A file name without folders.
    pub(super) name: PathBuf,
    /// CRC-32 of the whole file.
    pub(super) checksum: u32,
}

/// The contents of `.gnu_debugaltlink` or `.debug_sup`: the file to which dwz has moved common entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Altlink {
    /// Absolute, or relative to the file that contains the link.
    pub(crate) path: PathBuf,
    /// Its build-id.
    pub(crate) build_id: Vec<u8>,
}

/// Reads `.gnu_debuglink`.
pub(super) fn debuglink(file: &ElfFile, layout: &Layout) -> Option<Debuglink> {
    let bytes = section(file, layout, ".gnu_debuglink")?;
    let len = bytes.iter().position(|&byte| byte == 0)?;
    // The section has the name, zeros up to a multiple of four, and the checksum.
    let at = (len + 4) & !3;
    let checksum = bytes.get(at..at + 4)?.try_into().ok()?;
    let checksum = match layout.endian {
        Endianness::Little => u32::from_le_bytes(checksum),
        Endianness::Big => u32::from_be_bytes(checksum),
    };
    let name = Path::new(OsStr::from_bytes(&bytes[..len]));
    let name = name.file_name().filter(|file| *file == name.as_os_str())?;
    Some(Debuglink { name: name.into(), checksum })
}

/// Reads `.gnu_debugaltlink`, else `.debug_sup`.
pub(crate) fn altlink(file: &ElfFile, layout: &Layout) -> Option<Altlink> {
    let link = match section(file, layout, ".gnu_debugaltlink") {
        Some(bytes) => {
            let end = bytes.iter().position(|&byte| byte == 0)?;
            Altlink { path: OsStr::from_bytes(&bytes[..end]).into(), build_id: bytes[end + 1..].to_vec() }
        }
        None => sup(file, layout).filter(|(is_supplement, _)| !is_supplement)?.1,
    };
    (link.path != Path::new("") && !link.build_id.is_empty()).then_some(link)
}

/// Returns true if a file is the supplement that a link means. One of DWARF 5 has no build-id, but a `.debug_sup` of its own.
pub(super) fn is_supplement(file: &ElfFile, layout: &Layout, link: &Altlink) -> bool {
    layout.build_id == link.build_id
        || sup(file, layout)
            .is_some_and(|(is_supplement, own)| is_supplement && own.build_id == link.build_id)
}

/// Returns the id of a supplement of DWARF 5, which has no build-id.
pub(super) fn supplement_id(file: &ElfFile, layout: &Layout) -> Option<Vec<u8>> {
    sup(file, layout).filter(|(is_supplement, _)| *is_supplement).map(|(_, own)| own.build_id)
}

/// Reads `.debug_sup`, and whether the file is the supplement itself.
///
/// # Source  DWARF 5 §7.3.6: version, u16; is_supplementary, u8; name, 0; length, ULEB128; checksum
fn sup(file: &ElfFile, layout: &Layout) -> Option<(bool, Altlink)> {
    let bytes = section(file, layout, ".debug_sup")?;
    let (is_supplement, rest) = (*bytes.get(2)? == 1, &bytes[3..]);
    let end = rest.iter().position(|&byte| byte == 0)?;
    // One byte is enough for the length of every checksum.
    let len = usize::from(*rest.get(end + 1).filter(|&&len| len < 0x80)?);
    let build_id = rest.get(end + 2..end + 2 + len)?.to_vec();
    Some((is_supplement, Altlink { path: OsStr::from_bytes(&rest[..end]).into(), build_id }))
}

fn section(file: &ElfFile, layout: &Layout, name: &str) -> Option<Vec<u8>> {
    layout.section(name).filter(|section| section.len <= MAX_LEN).and_then(|it| file.section_bytes(it))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, run, text};
    use super::*;

    /// Compiles a library with a section of these bytes.
    fn with(section: &str, bytes: &[u8]) -> (tempfile::TempDir, ElfFile, Layout) {
        let dir = tempfile::tempdir().expect("a directory");
        let out = dir.path().join("linked.so");
        std::fs::write(dir.path().join("bytes"), bytes).expect("written");
        let add = format!("{section}={}", text(&dir.path().join("bytes")));
        let from = &Fixture::shared().stripped;
        run(dir.path(), "objcopy", &["--add-section", &add, text(from), text(&out)]);
        let file = ElfFile::open(&out).expect("opens");
        let layout = file.layout().expect("ELF");
        (dir, file, layout)
    }

    #[test]
    fn a_debuglink_is_a_bare_name_and_a_checksum() {
        let read = |bytes: &[u8]| {
            let (_dir, file, layout) = with(".gnu_debuglink", bytes);
            debuglink(&file, &layout).map(|link| (link.name.display().to_string(), link.checksum))
        };
        assert_eq!(read(b"abc\0\x04\x03\x02\x01"), Some(("abc".into(), 0x0102_0304)));
        assert_eq!(read(b"abcd\0\0\0\0\x01\0\0\0"), Some(("abcd".into(), 1)));
        for bad in [
            &b"abc\0\x04\x03\x02"[..],
            b"abc",
            b"\0\0\0\0\x01\0\0\0",
            b"../abc\0\0\x01\0\0\0",
            b"a/b\0\x01\0\0\0",
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_supplement_is_named_with_its_build_id_in_both_ways() {
        let expected = Altlink { path: "../x.debug".into(), build_id: vec![7, 8] };
        let (_dir, file, layout) = with(".gnu_debugaltlink", b"../x.debug\0\x07\x08");
        assert_eq!(altlink(&file, &layout), Some(expected.clone()));
        let (_dir, file, layout) = with(".debug_sup", b"\x05\0\0../x.debug\0\x02\x07\x08");
        assert_eq!(altlink(&file, &layout), Some(expected));
        let own = b"\x05\0\x01\0\x02\x07\x08";
        for bad in [&own[..], b"\x05", b"\x05\0\0\0\x02\x07\x08", b"\x05\0\0x\0\x03\x07\x08"] {
            let (_dir, file, layout) = with(".debug_sup", bad);
            assert_eq!(altlink(&file, &layout), None, "{bad:?}");
        }
        let link = |build_id| Altlink { path: "x".into(), build_id };
        let (_dir, file, layout) = with(".debug_sup", own);
        assert!(is_supplement(&file, &layout, &link(vec![7, 8])));
        assert!(!is_supplement(&file, &layout, &link(vec![7])));
        assert!(is_supplement(&file, &layout, &link(layout.build_id.clone())));
    }
}
