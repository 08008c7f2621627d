//! Whose file a recording is that root makes for another user.
//!
//! `sudo icecore-record` leaves a file that only root may read, and then its user runs the report. So the file is given to the user who
//! called sudo, if it lies in a folder of this user. That gives the user nothing new: who owns a folder may replace all files in it, and
//! who may run the recorder as root may have the recording on stdout. In any other folder a file of the user would be something that
//! the user could not have made, and it stays root's.

use std::fs::{File, Metadata};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::sys::user;

/// A user and a group, by their numbers.
pub(super) type Owner = (u32, u32);

/// Returns the user who called sudo and the group of this user, if this process is root's.
pub(super) fn of_sudo() -> Option<Owner> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let owner = (number("SUDO_UID")?, number("SUDO_GID")?);
    (user::is_root() && owner.0 != 0).then_some(owner)
}

/// Returns true if a file belongs to this user, or to the one who called sudo.
pub(super) fn is_own(meta: &Metadata) -> bool {
    meta.uid() == user::own() || of_sudo().is_some_and(|(uid, _)| meta.uid() == uid)
}

/// Gives a new file to a user if it lies in a folder of this user; returns true if it did. Anything else leaves the file as it is: the
/// report says then how the user gets it.
pub(super) fn hand_over(file: &File, path: &Path, owner: Option<Owner>) -> bool {
    owner.is_some_and(|(uid, gid)| {
        lies_in_folder_of(file, path, uid).unwrap_or(false) && fchown(file, Some(uid), Some(gid)).is_ok()
    })
}

/// Returns true if a file lies in a folder of a user, and nowhere else. Whoever may rename folders could make the path lead elsewhere
/// meanwhile, so the file is looked up in the folder that was opened.
fn lies_in_folder_of(file: &File, path: &Path, uid: u32) -> Option<bool> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    let there = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(path.file_name()?);
    let (own, there, folder) =
        (file.metadata().ok()?, std::fs::symlink_metadata(there).ok()?, folder.metadata().ok()?);
    let is_same = (own.dev(), own.ino()) == (there.dev(), there.ino());
    Some(is_same && own.is_file() && own.nlink() == 1 && folder.is_dir() && folder.uid() == uid)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    const USER: u32 = 54_321;

    #[test]
    fn root_a_file_is_given_to_the_user_whose_folder_it_is_in() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let (own, other) = (dir.path().join("own"), dir.path().join("other"));
        for folder in [&own, &other] {
            std::fs::create_dir(folder).expect("room");
        }
        chown(&own, Some(USER), Some(USER)).expect("root may");
        symlink(&other, own.join("link")).expect("room");
        let owner_of = |path: &Path, twice: bool| {
            let file = File::create_new(path).expect("a new name");
            if twice {
                std::fs::hard_link(path, dir.path().join("second")).expect("one file system");
            }
            let is_given = hand_over(&file, path, Some((USER, USER)));
            let meta = file.metadata().expect("it is open");
            assert_eq!((meta.uid(), meta.gid()), if is_given { (USER, USER) } else { (0, meta.gid()) });
            is_given
        };
        assert!(owner_of(&own.join("a"), false));
        assert!(!owner_of(&other.join("a"), false), "a folder of root");
        assert!(!owner_of(&own.join("link/b"), false), "the path leads to a folder of root");
        assert!(!owner_of(&own.join("c"), true), "it has another name elsewhere");
        let moved = File::create_new(other.join("d")).expect("a new name");
        File::create_new(own.join("d")).expect("a new name");
        assert!(!hand_over(&moved, &own.join("d"), Some((USER, USER))), "another file has the name");
        assert!(!hand_over(&moved, &other.join("d"), None), "nobody called sudo");
    }
}
