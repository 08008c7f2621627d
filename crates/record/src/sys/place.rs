//! What file systems and limits leave to this process.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags, accessat, statvfs};
use rustix::process::{Resource, getrlimit};

/// Returns how many bytes this user may still write into a folder; `None` if the file system does not tell.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let told = statvfs(folder).ok()?;
    told.f_bavail.checked_mul(told.f_frsize)
}

/// Returns true if this process may make files in a folder.
pub(crate) fn may_write(folder: &Path) -> bool {
    accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Returns true if the file system of a path can be changed by nobody here.
pub(crate) fn is_read_only(path: &Path) -> bool {
    has(path, StatVfsMountFlags::RDONLY)
}

/// Returns true if programs of this file system gain no rights by what is written in their files.
pub(crate) fn grants_nothing(path: &Path) -> bool {
    has(path, StatVfsMountFlags::NOSUID)
}

fn has(path: &Path, flag: StatVfsMountFlags) -> bool {
    statvfs(path).is_ok_and(|told| told.f_flag.contains(flag))
}

/// Returns how much memory this process may lock, bytes; `None` for any amount.
pub(crate) fn max_locked_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Returns how many files this process may allow itself to have open; `None` for any number.
pub(crate) fn most_files() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_room_and_the_kernels_files_have_none() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        assert!(may_write(dir.path()) && !is_read_only(dir.path()));
        assert!(free_bytes(dir.path()).is_some_and(|bytes| bytes > 0));
        assert!(!may_write(&dir.path().join("none")));
        assert_eq!(free_bytes(&dir.path().join("none")), None);
    }
}
