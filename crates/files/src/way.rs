//! Follows a path as the kernel does, and shows every folder and every link on the way.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// The most links on one way, as in the kernel.
const MAX_LINKS: usize = 40;

/// One name on the way.
pub(crate) struct Step<'a> {
    pub(crate) path: &'a Path,
    pub(crate) meta: &'a Metadata,
    /// The folder that has the name; that of `/` is `/`.
    pub(crate) folder: &'a Metadata,
}

/// Follows a path; `judge` sees each name, those of links and of their targets, too. Returns where the path leads, without links. What
/// does not exist is nobody's: there the way ends, and the rest of the path is returned as it is.
///
/// # Errors
/// Those of `judge`, and of the file system.
pub(crate) fn follow<E: From<io::Error>>(
    path: &Path,
    mut judge: impl FnMut(&Step<'_>) -> Result<(), E>,
) -> Result<PathBuf, E> {
    let root = || Ok::<_, io::Error>((PathBuf::from("/"), fs::symlink_metadata("/")?));
    let (mut at, mut folder) = root()?;
    judge(&Step { path: &at, meta: &folder, folder: &folder })?;
    let (mut rest, mut links) = (reversed(&std::path::absolute(path)?), 0);
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            folder = fs::symlink_metadata(&at)?;
            continue;
        }
        let next = at.join(name);
        let meta = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(rest.iter().rev().fold(next, |path, name| path.join(name)));
            }
            meta => meta?,
        };
        judge(&Step { path: &next, meta: &meta, folder: &folder })?;
        if !meta.is_symlink() {
            (at, folder) = (next, meta);
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::from(rustix::io::Errno::LOOP).into());
        }
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            (at, folder) = root()?;
        }
        rest.extend(reversed(&target));
    }
    Ok(at)
}

/// Returns the names of a path, the last one first.
fn reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev();
    let names = names.filter(|name| matches!(name, Component::Normal(_) | Component::ParentDir));
    names.map(|name| name.as_os_str().to_owned()).collect()
}

/// Returns true if others than the owner may write.
pub(crate) fn is_open(meta: &Metadata) -> bool {
    meta.mode() & 0o022 != 0
}

/// The user of this process.
pub(crate) fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}
