//! Folders that nobody but this user and root can change: only what lies there is believed.

use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::way::{follow, is_open, own};

/// Why a folder is not believed.
#[derive(Debug, thiserror::Error)]
pub enum Unsafe {
    /// Another user owns the folder, one above it, or a link that leads to it.
    #[error("`{}` belongs to user {owner}, who can replace what is there", path.display())]
    Owner {
        /// The folder or the link.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Others may write to the folder, or to one above it that lets them replace what is theirs not.
    #[error("others may write to `{}`: forbid it with `chmod go-w`", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
    },
    /// The file system has an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Unsafe> for io::Error {
    fn from(error: Unsafe) -> Self {
        match error {
            Unsafe::Io(error) => error,
            other => Self::new(io::ErrorKind::PermissionDenied, other.to_string()),
        }
    }
}

/// Checks that only this user and root can change what lies in a folder: each folder on the way and each link belongs to one of them, and
/// others may write to none of these folders. To one above, such as `/tmp`, they may if it keeps them from replacing what belongs to
/// others. A folder that does not exist is safe if those above it are.
///
/// # Errors
/// [`Unsafe::Owner`] and [`Unsafe::Open`] with the path that is unsafe; [`Unsafe::Io`] if the way cannot be followed.
pub fn check(folder: &Path) -> Result<(), Unsafe> {
    // The last name that exists may be the folder itself.
    let mut last = None;
    let end = follow(folder, |step| {
        if !is_trusted(step.meta) {
            return Err(Unsafe::Owner { path: step.path.to_owned(), owner: step.meta.uid() });
        }
        let is_open = !step.meta.is_symlink() && is_open(step.meta);
        if is_open && step.meta.mode() & STICKY == 0 {
            return Err(Unsafe::Open { path: step.path.to_owned() });
        }
        last = is_open.then(|| step.path.to_owned());
        Ok(())
    })?;
    match last {
        Some(path) if path == end => Err(Unsafe::Open { path }),
        _ => Ok(()),
    }
}

/// Creates a folder, and those above it that do not exist, which only this user may enter.
///
/// # Errors
/// Those of [`check`], before and afterwards.
pub fn create(folder: &Path) -> Result<(), Unsafe> {
    check(folder)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check(folder)
}

/// Returns true if a file is a regular one that only this user and root can change, if the same is true of its folder.
pub fn is_own(file: &Metadata) -> bool {
    file.is_file() && is_trusted(file) && !is_open(file)
}

/// Only whoever owns a file, or the folder, may replace the file: `S_ISVTX` of stat(2).
const STICKY: u32 = 0o1000;

fn is_trusted(meta: &Metadata) -> bool {
    [0, own()].contains(&meta.uid())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }

    fn refused(folder: &Path) -> Option<PathBuf> {
        match check(folder) {
            Ok(()) => None,
            Err(Unsafe::Owner { path, .. } | Unsafe::Open { path }) => Some(path),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_folder_is_private_if_nobody_else_may_write_to_it_or_above() {
        let dir = tempfile::tempdir().expect("a folder");
        let dir = dir.path().canonicalize().expect("a real path");
        let [above, folder] = ["above", "above/cache"].map(|name| dir.join(name));
        create(&folder).expect("nothing is there");
        assert_eq!(fs::metadata(&above).expect("there").mode() & 0o777, 0o700);
        for mode in [0o702, 0o720, 0o1777] {
            allow(&folder, mode);
            assert_eq!(refused(&folder), Some(folder.clone()), "{mode:o}");
        }
        allow(&folder, 0o755);
        assert_eq!(refused(&folder), None, "others may read");
        allow(&above, 0o1777);
        assert_eq!(refused(&folder), None, "as in /tmp");
        assert_eq!(refused(&above.join("not/yet")), None);
        allow(&above, 0o777);
        assert_eq!(refused(&folder), Some(above.clone()), "others may replace the folder");
        assert!(create(&above.join("not/yet")).is_err() && !above.join("not").exists());
    }

    #[test]
    fn links_of_this_user_are_followed_and_what_they_lead_to_is_checked() {
        let dir = tempfile::tempdir().expect("a folder");
        let dir = dir.path().canonicalize().expect("a real path");
        let [real, link, chain] = ["real", "link", "chain"].map(|name| dir.join(name));
        fs::create_dir(&real).expect("ours");
        symlink("real", &link).expect("ours");
        symlink("./link/../link", &chain).expect("ours");
        assert_eq!(refused(&chain.join("cache")), None);
        allow(&real, 0o707);
        assert_eq!(refused(&chain), Some(real.clone()));
        assert_eq!(refused(&chain.join("cache")), Some(real));
        symlink("round", dir.join("round")).expect("ours");
        assert!(matches!(check(&dir.join("round")), Err(Unsafe::Io(_))), "a link to itself");
    }

    /// Only root can give files away.
    #[test]
    fn root_of_another_user_nothing_is_believed() {
        let dir = tempfile::tempdir().expect("a folder");
        let dir = dir.path().canonicalize().expect("a real path");
        let [home, link] = ["home", "link"].map(|name| dir.join(name));
        create(&home.join(".cache/icecore")).expect("nothing is there");
        symlink("home", &link).expect("ours");
        let cache = link.join(".cache/icecore");
        assert_eq!(refused(&cache), None);
        std::os::unix::fs::lchown(&link, Some(1), None).expect("root");
        assert_eq!(refused(&cache), Some(link.clone()), "a link of user 1");
        std::os::unix::fs::lchown(&link, Some(0), None).expect("root");
        chown(home.join(".cache"), Some(1), None).expect("root");
        assert_eq!(refused(&cache), Some(home.join(".cache")), "the folder above is theirs");
        fs::write(home.join("file"), "x").expect("room");
        let meta = |path: &Path| fs::symlink_metadata(path).expect("there");
        assert!(is_own(&meta(&home.join("file"))) && !is_own(&meta(&link)));
        chown(home.join("file"), Some(1), None).expect("root");
        assert!(!is_own(&meta(&home.join("file"))));
    }
}
