//! Finds the separate debug file of an image by its build-id.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::{ElfFile, Layout, Search};

/// Lengths of build-ids that are looked for: SHA-1 has 20 bytes, xxhash 8, `--build-id=0x…` any.
const LENGTHS: std::ops::RangeInclusive<usize> = 2..=64;

/// Opens the first `.build-id/xx/rest.debug` whose own build-id is equal.
///
/// Its addresses are those of the image, its file offsets mean nothing: sections without debug information are
/// empty in it.
pub(crate) fn debug_file(build_id: &[u8], search: &Search) -> Option<(ElfFile, Layout)> {
    search.debug_dirs.iter().find_map(|dir| open(&place(dir, build_id, ".debug")?, build_id))
}

/// Opens a file that can stand in for an image that is not here: the image itself as `.build-id/xx/rest`, or its
/// debug file if that still tells where the image has its code.
///
/// ```text
///                                 executable segment    offset   address  in file  in memory
/// the image                                             0x1000   0x1000   0x13d    0x13d
/// eu-strip -f                     headers are copied    0x1000   0x1000   0x13d    0x13d      ✓
/// objcopy --only-keep-debug       headers are changed   0        0x1000   0        0x13d      ✗
/// ```
pub(crate) fn stand_in(build_id: &[u8], search: &Search) -> Option<(ElfFile, Layout)> {
    search.debug_dirs.iter().find_map(|dir| {
        open(&place(dir, build_id, "")?, build_id)
            .into_iter()
            .chain(open(&place(dir, build_id, ".debug")?, build_id))
            .find(|(_, layout)| layout.has_code_offsets())
    })
}

fn open(path: &Path, build_id: &[u8]) -> Option<(ElfFile, Layout)> {
    let file = ElfFile::open(path).ok()?;
    let mut layout = file.layout().ok()?;
    if layout.section(".eh_frame_hdr").is_some_and(|section| section.is_nobits) {
        // The program headers may say where it was in the image; other bytes are there now.
        layout.unwind_table = None;
    }
    (layout.build_id == build_id).then_some((file, layout))
}

fn place(dir: &Path, build_id: &[u8], suffix: &str) -> Option<PathBuf> {
    if !LENGTHS.contains(&build_id.len()) {
        return None;
    }
    let hex = build_id.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // a String takes everything
        hex
    });
    let (first, rest) = hex.split_at(2);
    Some(dir.join(".build-id").join(first).join(format!("{rest}{suffix}")))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, identity};
    use super::*;

    #[test]
    fn the_place_is_two_digits_then_the_rest() {
        let dir = Path::new("/d");
        assert_eq!(
            place(dir, &[0xab, 0x01, 0xff], ".debug"),
            Some(PathBuf::from("/d/.build-id/ab/01ff.debug"))
        );
        assert_eq!(place(dir, &[0xab], ""), None);
        assert_eq!(place(dir, &[0; 65], ""), None);
    }

    #[test]
    fn only_a_file_with_the_same_build_id_is_taken() {
        let fixture = Fixture::shared();
        let wanted = identity(&fixture.stripped).build_id;
        let found = debug_file(&wanted, &fixture.search()).expect("the debug file is found");
        assert!(found.1.has(".debug_info"));

        let liar = tempfile::tempdir().expect("a directory");
        let path = place(liar.path(), &wanted, ".debug").expect("a place");
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::copy(&fixture.without_build_id, &path).expect("copied");
        let search = Search { debug_dirs: vec![liar.path().to_owned()] };
        assert!(debug_file(&wanted, &search).is_none());
        let both = Search { debug_dirs: [search.debug_dirs, fixture.search().debug_dirs].concat() };
        assert!(debug_file(&wanted, &both).is_some(), "the search goes on behind a liar");
    }

    #[test]
    fn a_stand_in_must_tell_where_the_code_was() {
        let fixture = Fixture::shared();
        let wanted = identity(&fixture.stripped).build_id;
        assert!(stand_in(&wanted, &fixture.search()).is_none(), "objcopy changes the offsets");

        let dir = tempfile::tempdir().expect("a directory");
        let search = Search { debug_dirs: vec![dir.path().to_owned()] };
        let [image, debug] =
            ["", ".debug"].map(|suffix| place(dir.path(), &wanted, suffix).expect("a place"));
        std::fs::create_dir_all(image.parent().expect("a parent")).expect("made");
        // eu-strip copies the program headers: put those of the image into what objcopy made.
        let (of_objcopy, _) = debug_file(&wanted, &fixture.search()).expect("it is there");
        let (original, mut bytes) = (
            std::fs::read(&fixture.with_debug).expect("read"),
            std::fs::read(&of_objcopy.real_path).expect("read"),
        );
        assert_eq!(
            (original[56], original[32]),
            (bytes[56], bytes[32]),
            "as many headers, at the same place"
        );
        let headers = 64..64 + 56 * usize::from(bytes[56]);
        bytes[headers.clone()].copy_from_slice(&original[headers]);
        std::fs::write(&debug, &bytes).expect("written");
        let (_, layout) = stand_in(&wanted, &search).expect("offsets are the image's");
        assert_eq!(layout.unwind_table, None, "its bytes are not in the debug file");

        std::fs::copy(&fixture.with_symbols, &image).expect("copied");
        let (file, _) = stand_in(&wanted, &search).expect("the image itself");
        assert!(file.real_path.extension().is_none(), "is preferred");
    }
}
