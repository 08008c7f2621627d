//! Opens files below the root folder of another process.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A handle of a file whose contents were not opened.
#[derive(Debug)]
pub(crate) struct PathHandle {
    /// An `O_PATH` descriptor. It cannot be read, and opening it never blocks.
    file: File,
    pub(crate) meta: Metadata,
}

impl PathHandle {
    /// Finds the regular file at a path below `root`, as a process with this root folder sees it: neither `..` nor a link leads out of
    /// `root`. The last part of the path may not be a link.
    pub(crate) fn below(root: &Path, path: &Path) -> Option<Self> {
        let mut options = OpenOptions::new();
        let root = options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(root).ok()?;
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: an all-zero open_how is a valid value.
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = (libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC) as u64;
        how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
        // SAFETY: the path ends with a zero, `how` is of the length given, both outlive the call; a non-negative result
        // is a descriptor that nobody else owns.
        let fd = unsafe {
            let (path, how, len) = (path.as_ptr(), &raw const how, size_of::<libc::open_how>());
            let fd = libc::syscall(libc::SYS_openat2, root.as_raw_fd(), path, how, len);
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd as i32))
        };
        let file = File::from(fd?);
        let meta = file.metadata().ok()?;
        meta.is_file().then_some(Self { file, meta })
    }

    /// Opens the file of this handle, even if its path now leads to another.
    pub(crate) fn open(&self) -> Option<File> {
        File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_below_the_root_are_seen() {
        let root = tempfile::tempdir().expect("a folder for temporary files");
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir_all(at("var/tmp")).expect("room");
        std::fs::write(at("var/tmp/map"), "inside").expect("room");
        symlink("/var/tmp", at("tmp")).expect("room");
        symlink("/etc", at("out")).expect("room");
        symlink("map", at("var/tmp/link")).expect("room");
        let text = |path: &str| {
            let mut text = String::new();
            PathHandle::below(root.path(), Path::new(path))?.open()?.read_to_string(&mut text).ok()?;
            Some(text)
        };
        assert_eq!(text("/tmp/map").as_deref(), Some("inside"));
        assert_eq!(text("../../../var/tmp/map").as_deref(), Some("inside"));
        for path in ["/out/passwd", "/tmp/link", "/tmp", "/nothing", "a\0b"] {
            assert_eq!(text(path), None, "{path:?}");
        }
    }
}
