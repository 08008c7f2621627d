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
    search.debug_dirs.iter().find_map(|dir| {
        let file = ElfFile::open(&place(dir, build_id)?).ok()?;
        let layout = file.layout().ok()?;
        (layout.build_id == build_id).then_some((file, layout))
    })
}

fn place(dir: &Path, build_id: &[u8]) -> Option<PathBuf> {
    if !LENGTHS.contains(&build_id.len()) {
        return None;
    }
    let hex = build_id.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // a String takes everything
        hex
    });
    let (first, rest) = hex.split_at(2);
    Some(dir.join(".build-id").join(first).join(format!("{rest}.debug")))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, identity};
    use super::*;

    #[test]
    fn the_place_is_two_digits_then_the_rest() {
        let dir = Path::new("/d");
        assert_eq!(place(dir, &[0xab, 0x01, 0xff]), Some(PathBuf::from("/d/.build-id/ab/01ff.debug")));
        assert_eq!(place(dir, &[0xab]), None);
        assert_eq!(place(dir, &[0; 65]), None);
    }

    #[test]
    fn only_a_file_with_the_same_build_id_is_taken() {
        let fixture = Fixture::shared();
        let wanted = identity(&fixture.stripped).build_id;
        let found = debug_file(&wanted, &fixture.search()).expect("the debug file is found");
        assert!(found.1.has(".debug_info"));

        let liar = tempfile::tempdir().expect("a directory");
        let path = place(liar.path(), &wanted).expect("a place");
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::copy(&fixture.without_build_id, &path).expect("copied");
        let search = Search { debug_dirs: vec![liar.path().to_owned()] };
        assert!(debug_file(&wanted, &search).is_none());
        let both = Search { debug_dirs: [search.debug_dirs, fixture.search().debug_dirs].concat() };
        assert!(debug_file(&wanted, &both).is_some(), "the search goes on behind a liar");
    }
}
