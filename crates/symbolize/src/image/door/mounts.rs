//! Knows which file systems are on this machine and ask nobody for an answer.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::map::Map;

/// The file systems that ask nobody for an answer, as the kernel names them. The overlay is none: its layers can lie anywhere.
const LOCAL: [&str; 20] = [
    "bcachefs",
    "btrfs",
    "erofs",
    "exfat",
    "ext2",
    "ext3",
    "ext4",
    "f2fs",
    "hugetlbfs",
    "iso9660",
    "jfs",
    "ntfs3",
    "ramfs",
    "reiserfs",
    "squashfs",
    "tmpfs",
    "udf",
    "vfat",
    "xfs",
    "zfs",
];
/// The file system of the report itself: were it silent, the report would not have begun.
const ROOT: &str = "/";

/// The mounts that this process sees.
#[derive(Debug)]
pub(super) struct Mounts {
    /// By the folder on which they are mounted: whether they are local.
    points: Map<PathBuf, bool>,
}

impl Mounts {
    /// Lists the mounts; `None` without `/proc`.
    pub(super) fn here() -> Option<Self> {
        let text = std::fs::read("/proc/self/mountinfo").ok()?;
        Some(Self::of(&text))
    }

    /// Reads a list of mounts.
    ///
    /// # Source
    /// proc_pid_mountinfo(5): the fifth field is the folder; the type of the file system follows a field `-`.
    fn of(text: &[u8]) -> Self {
        let mount = |line: &[u8]| {
            let mut fields = line.split(|byte| *byte == b' ');
            let point = unescaped(fields.nth(4)?);
            let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
            let is_local = point == Path::new(ROOT) || LOCAL.iter().any(|local| local.as_bytes() == kind);
            Some((point, is_local))
        };
        // The last one that was mounted on a folder hides the others.
        Self { points: text.split(|byte| *byte == b'\n').filter_map(mount).collect() }
    }

    /// Returns the folder of the mount on which an absolute path lies by its name.
    pub(super) fn point<'p>(&self, path: &'p Path) -> &'p Path {
        path.ancestors().find(|folder| self.points.contains_key(*folder)).unwrap_or(Path::new(ROOT))
    }

    /// Returns true if a mount is local, and all on the way to it are.
    pub(super) fn is_local(&self, point: &Path) -> bool {
        point.ancestors().all(|folder| self.points.get(folder).copied().unwrap_or(true))
    }
}

/// Reads a path in which three octal digits after a backslash stand for a byte.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, others @ ..] = rest {
        let digits = others.first_chunk::<3>().filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = &others[if byte.is_some() { 3 } else { 0 }..];
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_on_the_innermost_mount_which_is_local_if_all_around_it_are() {
        let mounts = Mounts::of(
            b"1 0 0:1 / / rw - overlay overlay rw\n2 1 8:1 / /home rw shared:1 - ext4 /dev/x rw\n\
              3 2 0:9 / /home/me/my\\040share rw,nosuid - fuse.sshfs host: rw\n4 3 8:2 / /home/me/my\\040share/disk rw - xfs /dev/y rw\n\
              5 1 8:3 / /srv rw - ext4 /dev/z rw\n6 5 0:10 / /srv rw - nfs4 host:/ rw\nbroken\n\n",
        );
        let cases = [
            ("/usr/bin/x", "/", true),
            ("/homeless/x", "/", true),
            ("/home/me/x", "/home", true),
            ("/home/me/my share/x", "/home/me/my share", false),
            ("/home/me/my share/disk/x", "/home/me/my share/disk", false),
            ("/srv/x", "/srv", false),
        ];
        for (path, point, is_local) in cases {
            let found = mounts.point(Path::new(path));
            assert_eq!((found, mounts.is_local(found)), (Path::new(point), is_local), "{path}");
        }
    }

    #[test]
    fn bytes_of_paths_are_read_back() {
        assert_eq!(unescaped(br"/a\040b\134\011"), Path::new("/a b\\\t"));
        assert_eq!(unescaped(br"/a\9x\1"), Path::new(r"/a\9x\1"));
    }
}
