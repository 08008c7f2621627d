//! Identifies files that are unchanged on this machine.
//!
//! `perf record` stores build-ids only for files that samples hit with their leaf, and a copied stack has only a leaf. For other
//! files it stores path, device and inode. If these are the same here, and the file has not changed since the recording began, it
//! is the file that ran. Its build-id, or without one its size and time of change, then identify it as in any recording.
//!
//! Two file systems number their devices for stat(2) otherwise than for the kernel: overlayfs, as in containers, and btrfs. There the
//! inode counts alone. `perf inject --jit` writes the files of JIT code after the recording, and puts their inodes into its own output:
//! these are the same if they have not changed since that output was written.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use icecore_format::records::{Image, ImageKind};

use icecore_symbolize::image::{Door, ElfFile, Inode};

/// When the paths of a perf.data file led to what it says, ns since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    /// When the recording began.
    pub(super) began: u64,
    /// When the perf.data file was last written; 0 if unknown.
    pub(super) ended: u64,
}

impl Written {
    /// `start_unix_ns` is when the recording began by the last change of its file, or by a clock that perf noted; `start_ns` the time of its
    /// first record since boot.
    ///
    /// A file that was copied says a later time. If it is more than a minute after the time since this boot, that time counts.
    pub(super) fn new((start_unix_ns, start_ns): (u64, u64), ended: u64) -> Self {
        /// The clock of samples deviates from that of the day.
        const CLOCKS_APART_NS: u64 = 60_000_000_000;
        let by_boot = booted_unix_ns().map_or(u64::MAX, |booted| booted.saturating_add(start_ns));
        let is_late = start_unix_ns > by_boot.saturating_add(CLOCKS_APART_NS);
        Self { began: if is_late { by_boot } else { start_unix_ns }, ended }
    }
}

/// Returns when this machine was booted, ns since 1970-01-01 UTC, to the second; `None` if it does not tell.
///
/// # Source   proc(5) `/proc/stat`, `btime`
pub(super) fn booted_unix_ns() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?.parse::<u64>().ok()?;
    seconds.checked_mul(1_000_000_000)
}

/// Identifies images without a build-id by the files here, if these are the same.
pub(super) fn identify(images: &mut [Image], strings: &[Vec<u8>], written: Written, door: &Door) {
    for image in images.iter_mut().filter(|image| image.kind == ImageKind::FILE && image.build_id.is_empty())
    {
        let Some(path) = path_of(image, strings) else { continue };
        let before = if is_injected(path) { written.ended } else { written.began };
        let file = door.open(None, path).ok().filter(|file| is_same(file, image, before));
        let Some(file) = file else { continue };
        image.dev = file.inode.map_or(image.dev, |inode| inode.device);
        image.size_bytes = file.len;
        image.modified_unix_ns = file.modified_unix_ns;
        image.build_id = file.layout().map(|layout| layout.build_id).unwrap_or_default();
    }
}

/// Returns the path of an image.
pub(super) fn path_of<'a>(image: &Image, strings: &'a [Vec<u8>]) -> Option<&'a Path> {
    let path = (image.path as usize).checked_sub(1).and_then(|position| strings.get(position));
    path.map(|path| Path::new(OsStr::from_bytes(path)))
}

fn is_same(file: &ElfFile, image: &Image, before_unix_ns: u64) -> bool {
    is_inode(file, image) && file.changed_unix_ns < before_unix_ns
}

/// Returns true if a file has the inode of an image. It may have changed since.
pub(super) fn is_inode(file: &ElfFile, image: &Image) -> bool {
    let recorded = Inode { device: image.dev, number: image.inode };
    let is_it = |found: Inode| found == recorded || found.number == recorded.number && file.is_layered;
    image.inode != 0 && file.inode.is_some_and(is_it)
}

/// Returns true if `perf inject --jit` made the file.
///
/// # Source   Linux `tools/perf/util/jitdump.c`: `jitted-PID-NUMBER.so`
fn is_injected(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let numbers = name.and_then(|name| name.strip_prefix("jitted-")?.strip_suffix(".so")?.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(pid, number)| is_number(pid) && is_number(number))
}

#[cfg(test)]
mod tests {
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
            let written = Written { began, ended: began + 1_000_000_000 };
            identify(&mut images, &strings, written, &Door::default());
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
    fn a_copy_of_a_recording_does_not_make_it_younger() {
        let hour = 3_600_000_000_000;
        let booted = booted_unix_ns().expect("it runs");
        assert_eq!(Written::new((booted + 2 * hour, hour), 0).began, booted + hour);
        assert_eq!(Written::new((booted + hour, hour), 0).began, booted + hour);
        assert_eq!(Written::new((booted, hour), 0).began, booted, "another boot");
    }

    #[test]
    fn what_perf_inject_wrote_is_older_than_its_output() {
        let dir = tempfile::tempdir().expect("room");
        let known = |name: &str, until| {
            let path = dir.path().join(name);
            fs::write(&path, "code").expect("room");
            let there = fs::metadata(&path).expect("there");
            let strings = [path.as_os_str().as_bytes().to_vec()];
            let mut images = [Image {
                kind: ImageKind::FILE,
                path: 1,
                build_id: vec![],
                dev: there.dev(),
                inode: there.ino(),
                size_bytes: 0,
                modified_unix_ns: 0,
            }];
            let changed = unix_ns(there.ctime(), there.ctime_nsec());
            let written = Written { began: changed - 1_000, ended: changed.saturating_add_signed(until) };
            identify(&mut images, &strings, written, &Door::default());
            images[0].size_bytes > 0
        };
        assert!(known("jitted-12-3.so", 1));
        assert!(!known("jitted-12-3.so", -1), "it was changed later");
        for other in ["jitted-12.so", "jitted-12-x.so", "jitted--3.so", "libx.so", "jitted-12-3.so.1"] {
            assert!(!known(other, 1), "{other}");
        }
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
            let began = unix_ns(there.ctime(), there.ctime_nsec()) + 1;
            let written = Written { began, ended: 0 };
            identify(&mut images, &strings, written, &Door::default());
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
