//! Lists where files lie by convention: `.build-id` folders, debug directories, beside each other.

use std::path::{Path, PathBuf};

use super::hex;

/// The lengths of build-ids that are searched: SHA-1 has 20 bytes, xxhash 8, `--build-id=0x…` any.
const LENGTHS: std::ops::RangeInclusive<usize> = 2..=64;

/// Returns the path of a file by its build-id, below a debug directory: with `.debug` for its debug file, without for the file
/// itself; with `/elf` and `/debug` below the folder that perf makes for both (`~/.debug`, `perf archive`).
pub(super) fn by_build_id(build_id: &[u8], suffix: &str) -> Option<PathBuf> {
    if !LENGTHS.contains(&build_id.len()) {
        return None;
    }
    let hex = hex(build_id);
    let (first, rest) = hex.split_at(2);
    Some(Path::new(".build-id").join(first).join(format!("{rest}{suffix}")))
}

/// Returns the path of a download, below the folder of downloads.
pub(crate) fn download(downloads: &Path, build_id: &[u8], what: &str) -> Option<PathBuf> {
    LENGTHS.contains(&build_id.len()).then(|| downloads.join(hex(build_id)).join(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_two_digits_then_the_rest() {
        let place = |build_id: &[u8], suffix| by_build_id(build_id, suffix);
        assert_eq!(place(&[0xab, 0x01, 0xff], ".debug"), Some(PathBuf::from(".build-id/ab/01ff.debug")));
        assert_eq!(place(&[0xab], ""), None);
        assert_eq!(place(&[0; 65], ""), None);
        let path = download(Path::new("/c"), &[0xab, 1], "debuginfo");
        assert_eq!(path, Some(PathBuf::from("/c/ab01/debuginfo")));
        assert_eq!(download(Path::new("/c"), &[], "debuginfo"), None);
    }
}
