//! The file in which the recorder writes its process id while it records (`--pidfile`).

use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::bail;
use icecore_files::output;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::sys::{leftover, place};

/// The option, in messages.
const OPTION: &str = "--pidfile";
/// The longest content of a file that can be one with a process id, bytes.
const MAX_BYTES: u64 = 32;
/// How often the file is looked at again if another recorder has changed it meanwhile.
const TRIES: usize = 16;

/// A file that gets the process id, and is removed when this is dropped.
///
/// The file is locked as long as it is there, and appears with its content: it is written under another name, and then renamed. A recorder
/// that replaces a stale one holds its lock meanwhile, so that of two recorders one is refused.
#[derive(Debug)]
pub(crate) struct Pidfile {
    /// The requested path.
    path: PathBuf,
    /// Where it leads, without links.
    target: PathBuf,
    /// The locked file, if it has been written.
    written: Option<File>,
}

impl Pidfile {
    /// Checks that the file can be written later. Nothing is created.
    ///
    /// # Errors
    /// If a living recorder has the file, if it holds something else than a process id, or cannot be written.
    pub(crate) fn planned(path: &Path) -> anyhow::Result<Self> {
        let target = output::target_of(path, OPTION).map_err(|error| explain(&error, path))?;
        if target.file_name().is_none() {
            bail!("cannot write `{}`: it is a folder; name a file with {OPTION}", path.display());
        }
        let folder = target.parent().unwrap_or(Path::new("/"));
        if !folder.is_dir() {
            return Err(explain(&io::ErrorKind::NotFound.into(), path));
        }
        if !place::may_write(folder) {
            return Err(explain(&io::Error::from(Errno::ACCESS), path));
        }
        let planned = Self { path: path.to_owned(), target, written: None };
        planned.stale()?;
        Ok(planned)
    }

    /// Writes the file, with mode 0644.
    ///
    /// # Errors
    /// Those of [`planned`](Self::planned), and those of writing.
    pub(crate) fn write(&mut self) -> anyhow::Result<()> {
        let own = std::process::id();
        let name = self.target.file_name().unwrap_or_default().to_string_lossy();
        let beside = self.target.with_file_name(format!(".{name}.{own}.partial"));
        let written = written(&beside, own).and_then(|file| Ok(self.publish(&beside)?.map(|()| file)));
        let file = match written {
            Ok(Ok(file)) => file,
            Ok(Err(refused)) => {
                let _ = std::fs::remove_file(&beside);
                return Err(refused);
            }
            Err(error) => {
                let _ = std::fs::remove_file(&beside);
                return Err(explain(&error, &self.path));
            }
        };
        leftover::remember(&self.target);
        self.written = Some(file);
        Ok(())
    }

    /// Gives the file that is written its name.
    fn publish(&self, beside: &Path) -> io::Result<anyhow::Result<()>> {
        for _ in 0..TRIES {
            let old = match self.stale() {
                Ok(old) => old,
                Err(refused) => return Ok(Err(refused)),
            };
            let renamed = match &old {
                // The lock keeps other recorders away.
                Some(_) => std::fs::rename(beside, &self.target),
                None => rename_to_unused(beside, &self.target),
            };
            match renamed {
                Err(error) if old.is_none() && error.kind() == io::ErrorKind::AlreadyExists => {}
                renamed => return renamed.map(Ok),
            }
        }
        Err(io::Error::other("other recorders replace it all the time"))
    }

    /// Returns the file that is there, locked; `None` if there is none.
    ///
    /// # Errors
    /// If a living recorder has locked it, or it is not one with a process id.
    fn stale(&self) -> anyhow::Result<Option<File>> {
        let at = self.path.display();
        for _ in 0..TRIES {
            let there = match std::fs::symlink_metadata(&self.target) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                there => there.map_err(|error| explain(&error, &self.path))?,
            };
            if !there.is_file() {
                bail!("cannot write `{at}`: it is not a regular file; name another file with {OPTION}");
            }
            let file = match opened(&self.target) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(|error| explain(&error, &self.path))?,
            };
            let mut content = Vec::new();
            let locked = file.try_lock();
            let read = (&file).take(MAX_BYTES + 1).read_to_end(&mut content);
            read.map_err(|error| explain(&error, &self.path))?;
            let content = String::from_utf8_lossy(&content);
            let is_number = content.trim().bytes().all(|byte| byte.is_ascii_digit());
            if !is_number || content.len() as u64 > MAX_BYTES {
                bail!(
                    "cannot replace `{at}`: it holds something else than a process id; name another file with {OPTION}"
                );
            }
            // Other failures are ignored: some file systems have no locks.
            if matches!(locked, Err(TryLockError::WouldBlock)) {
                bail!(
                    "cannot write `{at}`: it belongs to the recorder with process id {}, which still runs; end that one, or name another file \
                     with {OPTION}",
                    content.trim()
                );
            }
            if leads_to(&self.target, &file) {
                return Ok(Some(file));
            }
        }
        bail!("cannot write `{at}`: other recorders replace it all the time; name another file with {OPTION}")
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        if let Some(file) = &self.written {
            leftover::forget();
            // Somebody may have put another file there.
            if leads_to(&self.target, file) {
                let _ = std::fs::remove_file(&self.target);
            }
        }
    }
}

/// Writes a process id into a new file, which is locked.
fn written(path: &Path, id: u32) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    // Whoever is to send a signal must be able to read it, whatever the umask is.
    file.set_permissions(Permissions::from_mode(0o644))?;
    let _ = file.try_lock();
    file.write_all(format!("{id}\n").as_bytes())?;
    Ok(file)
}

/// Opens a file for reading; follows no link, and waits for nobody.
fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Renames a file if the name is not used.
fn rename_to_unused(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems of networks cannot.
        Err(Errno::INVAL) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        renamed => Ok(renamed?),
    }
}

/// Returns true if a path leads to this file.
fn leads_to(path: &Path, file: &File) -> bool {
    let identity = |meta: &Metadata| (meta.dev(), meta.ino());
    let there = std::fs::symlink_metadata(path).map(|meta| identity(&meta));
    matches!((there, file.metadata()), (Ok(there), Ok(own)) if there == identity(&own))
}

fn explain(error: &io::Error, path: &Path) -> anyhow::Error {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; name a file in another folder with --pidfile"
        }
        io::ErrorKind::NotFound => "; create its folder, or name a file in another one with --pidfile",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free space there, or name a file in another folder with --pidfile"
        }
        _ => "",
    };
    anyhow::anyhow!("cannot write `{}`: {error}{remedy}", path.display())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn content(path: &Path) -> String {
        fs::read_to_string(path).expect("it is there")
    }

    fn refused(path: &Path) -> String {
        Pidfile::planned(path).expect_err("refused").to_string()
    }

    #[test]
    fn the_file_is_there_while_its_recorder_is_and_nobody_else_gets_it() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x.pid");
        let (mut first, mut second) =
            (Pidfile::planned(&path).expect("free"), Pidfile::planned(&path).expect("free"));
        assert!(!path.exists(), "recording has not begun");
        first.write().expect("free");
        assert_eq!(content(&path), format!("{}\n", std::process::id()));
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o644);
        let said = second.write().expect_err("another has been faster").to_string();
        assert!(said.contains(&format!("process id {}, which", std::process::id())), "{said}");
        assert!(refused(&path).contains("end that one, or name another file with --pidfile"));
        drop(second);
        drop(first);
        assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 0);
    }

    #[test]
    fn a_stale_file_is_replaced_and_anything_else_is_not() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x.pid");
        for stale in ["", "4194304\n", " 12 "] {
            fs::write(&path, stale).expect("room");
            let mut pidfile = Pidfile::planned(&path).expect("stale");
            assert_eq!(content(&path), stale, "recording has not begun");
            pidfile.write().expect("stale");
            assert_eq!(content(&path), format!("{}\n", std::process::id()));
        }
        assert!(!path.exists());
        for precious in ["root:x:0:0\n", &"1".repeat(100), "-1"] {
            fs::write(&path, precious).expect("room");
            assert!(refused(&path).contains("something else than a process id"), "{}", refused(&path));
            assert_eq!(content(&path), precious);
        }
    }

    #[test]
    fn what_is_no_file_is_refused_and_an_own_link_is_followed() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let [link, file] = ["link", "file"].map(|name| dir.path().join(name));
        assert!(refused(dir.path()).contains("not a regular file"));
        assert!(refused(Path::new("/")).contains("name a file"));
        assert!(refused(Path::new("/dev/null")).contains("not a regular file"));
        assert!(refused(&dir.path().join("none/x")).contains("create its folder"));
        symlink(&file, &link).expect("room");
        let mut pidfile = Pidfile::planned(&link).expect("a link of this user");
        pidfile.write().expect("free");
        assert!(link.is_symlink() && file.is_file());
        drop(pidfile);
        assert!(link.is_symlink() && !file.exists());
    }

    #[test]
    fn a_file_that_somebody_has_put_in_its_place_stays() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x.pid");
        let mut pidfile = Pidfile::planned(&path).expect("free");
        pidfile.write().expect("free");
        fs::remove_file(&path).expect("ours");
        fs::write(&path, "another").expect("room");
        drop(pidfile);
        assert_eq!(content(&path), "another");
    }

    /// Only root can give links away.
    #[test]
    fn root_a_link_that_a_stranger_has_laid_is_not_followed() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let [shared, precious] = ["shared", "precious"].map(|name| dir.path().join(name));
        fs::create_dir(&shared).expect("room");
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("ours");
        fs::write(&precious, "12\n").expect("room");
        let link = shared.join("x.pid");
        symlink(&precious, &link).expect("room");
        std::os::unix::fs::lchown(&link, Some(54_321), None).expect("root may");
        let said = refused(&link);
        assert!(said.contains("user 54321 has laid") && said.contains("with --pidfile"), "{said}");
        assert_eq!(content(&precious), "12\n");
    }
}
