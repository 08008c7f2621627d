//! File systems that are mounted for a test.

use std::path::Path;
use std::process::Command;

/// A file system in a folder of its own, unmounted when this is dropped.
#[derive(Debug)]
pub struct Mounted(tempfile::TempDir);

impl Mounted {
    /// Mounts a file system with these arguments of `mount`; the folder follows them.
    pub fn new(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let mounted = Command::new("mount").args(options).arg(dir.path()).output().expect("mount exists");
        assert!(mounted.status.success(), "{}", super::text(&mounted.stderr));
        Self(dir)
    }

    /// Makes a file system in memory that holds this many bytes.
    pub fn small(bytes: u64) -> Self {
        Self::new(&["-t", "tmpfs", "-o", &format!("size={bytes}"), "icecore"])
    }

    /// Mounts the kernel's list of probes.
    pub fn tracefs() -> Self {
        Self::new(&["-t", "tracefs", "tracefs"])
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}
