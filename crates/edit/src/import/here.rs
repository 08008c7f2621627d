//! Identifies files that are unchanged on this machine.
//!
//! `perf record` stores build-ids only for files that samples hit with their leaf, and a copied stack has only a leaf. For other
//! files it stores path, device and inode. If these are the same here, and the file has not changed since the recording began, it
//! is the file that ran. Its build-id, or without one its size and time of change, then identify it as in any recording.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use icecore_format::records::{Image, ImageKind};

use icecore_symbolize::image::{Door, ElfFile, Inode};

/// Identifies images without a build-id by the files here, if these are the same.
pub(super) fn identify(images: &mut [Image], strings: &[Vec<u8>], began_unix_ns: u64, door: &Door) {
    for image in images.iter_mut().filter(|image| image.kind == ImageKind::FILE && image.build_id.is_empty())
    {
        let path = (image.path as usize).checked_sub(1).and_then(|position| strings.get(position));
        let Some(path) = path.map(|path| Path::new(OsStr::from_bytes(path))) else { continue };
        let file = door.open(None, path).ok().filter(|file| is_same(file, image, began_unix_ns));
        let Some(file) = file else { continue };
        image.size_bytes = file.len;
        image.modified_unix_ns = file.modified_unix_ns;
        image.build_id = file.layout().map(|layout| layout.build_id).unwrap_or_default();
    }
}

fn is_same(file: &ElfFile, image: &Image, began_unix_ns: u64) -> bool {
    let recorded = Inode { device: image.dev, number: image.inode };
    image.inode != 0 && file.inode == Some(recorded) && file.changed_unix_ns < began_unix_ns
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn unix_ns(seconds: i64, ns: i64) -> u64 {
        seconds as u64 * 1_000_000_000 + ns as u64
    }

    #[test]
    fn a_file_is_the_one_that_ran_only_if_nothing_has_changed() {
        let file = tempfile::NamedTempFile::new().expect("room");
        fs::write(file.path(), "it ran").expect("room");
        let there = fs::metadata(file.path()).expect("there");
        let strings = [file.path().as_os_str().as_bytes().to_vec(), b"/no/such".to_vec()];
        let after = unix_ns(there.ctime(), there.ctime_nsec()) + 1;
        let good = Image {
            kind: ImageKind::FILE,
            path: 1,
            build_id: vec![],
            dev: there.dev(),
            inode: there.ino(),
            size_bytes: 0,
            modified_unix_ns: 0,
        };
        let identified = |image: &Image, began| {
            let mut images = [image.clone()];
            identify(&mut images, &strings, began, &Door::default());
            let [image] = images;
            (image.size_bytes, image.modified_unix_ns)
        };
        let known = (6, unix_ns(there.mtime(), there.mtime_nsec()));
        assert_eq!(identified(&good, after), known);
        for other in [
            Image { inode: good.inode + 1, ..good.clone() },
            Image { dev: good.dev + 1, ..good.clone() },
            Image { path: 2, ..good.clone() },
            Image { path: 0, ..good.clone() },
            Image { build_id: vec![1; 20], ..good.clone() },
            Image { kind: ImageKind::ANONYMOUS, ..good.clone() },
        ] {
            assert_eq!(identified(&other, after), (0, 0), "{other:?}");
        }
        assert_eq!(identified(&good, after - 1), (0, 0), "it was changed later");
    }

    #[test]
    fn the_build_id_of_the_file_that_ran_identifies_it_anywhere() {
        let fixture = icecore_symbolize::image::fixture::Fixture::shared(); // the files live as long as this
        let identified = |path: &Path| {
            let there = fs::metadata(path).expect("there");
            let strings = [path.as_os_str().as_bytes().to_vec()];
            let (dev, inode) = (there.dev(), there.ino());
            let (build_id, size_bytes, modified_unix_ns) = (vec![], 0, 0);
            let kind = ImageKind::FILE;
            let mut images = [Image { kind, path: 1, build_id, dev, inode, size_bytes, modified_unix_ns }];
            identify(&mut images, &strings, unix_ns(there.ctime(), there.ctime_nsec()) + 1, &Door::default());
            let [image] = images;
            (image.build_id, image.size_bytes)
        };
        let (build_id, size) = identified(&fixture.with_debug);
        assert_eq!(
            (build_id, size > 0),
            (icecore_symbolize::image::fixture::identity(&fixture.with_debug).build_id, true)
        );
        let (build_id, size) = identified(&fixture.without_build_id);
        assert!(build_id.is_empty() && size > 0);
    }
}
