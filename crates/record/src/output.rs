//! The file: its name, its mode, and its end if nothing was recorded.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::options::Options;

/// The file of a recording. Until [`Output::keep`] it is taken away again when it is dropped.
///
/// With `--force` it is written under another name beside the old file, which stays as it is until something is
/// recorded.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    /// The name that it has until it is kept.
    written: PathBuf,
    /// Locked, so that no other recorder takes the name.
    file: File,
    kept: bool,
}

impl Output {
    /// Creates the file: mode 0600, never over an existing one unless asked.
    pub(crate) fn create(options: &Options) -> anyhow::Result<Self> {
        match &options.output {
            Some(path) => Self::at(path, options.force),
            None => Self::create_named(&format!("icecore-{}-{}", crate::session::host(), time_now())),
        }
    }

    /// The name that was asked for.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file, to be written to.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its name for good.
    pub(crate) fn keep(&mut self) -> anyhow::Result<()> {
        if self.written != self.path {
            std::fs::rename(&self.written, &self.path).map_err(|error| explain(&error, &self.path))?;
        }
        self.kept = true;
        Ok(())
    }

    fn at(path: &Path, force: bool) -> anyhow::Result<Self> {
        let is_there = std::fs::metadata(path);
        if let Ok(meta) = &is_there
            && !meta.is_file()
        {
            let what = if meta.is_dir() { "it is a folder" } else { "it is not a regular file" };
            bail!("cannot create `{}`: {what}; name a file with -o", path.display());
        }
        let mut written = path.to_owned();
        if force && is_there.is_ok() {
            if is_being_written(path) {
                bail!(
                    "cannot create `{}`: another recorder is writing it; name another file with -o",
                    path.display()
                );
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            written.set_file_name(format!(".{name}.{}.partial", std::process::id()));
        }
        let file = create_new(&written).map_err(|error| explain(&error, path))?;
        Ok(Self::new(path.to_owned(), written, file))
    }

    fn new(path: PathBuf, written: PathBuf, file: File) -> Self {
        // Best effort: some file systems know no locks.
        let _ = file.try_lock();
        Self { path, written, file, kept: false }
    }

    /// Adds a number to the name if another recording of this second has it.
    fn create_named(stem: &str) -> anyhow::Result<Self> {
        for number in 1..100 {
            let suffix = if number == 1 { String::new() } else { format!("-{number}") };
            let path = PathBuf::from(format!("{stem}{suffix}.icecore"));
            // Tried, not looked for: another recorder may take the name in between.
            match create_new(&path) {
                Ok(file) => return Ok(Self::new(path.clone(), path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(explain(&error, &path)),
            }
        }
        bail!("cannot create `{stem}.icecore`: a hundred files of this name exist; name one with -o")
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.written);
        }
    }
}

/// Tells whether another recorder holds the lock of an existing file.
fn is_being_written(path: &Path) -> bool {
    File::open(path).is_ok_and(|old| matches!(old.try_lock(), Err(TryLockError::WouldBlock)))
}

/// A random identity for the recording.
pub(crate) fn random_uuid() -> anyhow::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    let source = "/dev/urandom";
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut uuid))
        .with_context(|| format!("cannot read `{source}`"))?;
    Ok(uuid)
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn explain(error: &io::Error, path: &Path) -> anyhow::Error {
    let remedy = match error.kind() {
        io::ErrorKind::AlreadyExists => "; overwrite it with --force, or name another file with -o",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; name a file in another folder with -o"
        }
        io::ErrorKind::NotFound => "; its folder does not exist",
        _ if error.raw_os_error() == Some(libc::EMFILE) => "; raise the limit with `ulimit -n`",
        _ => "",
    };
    anyhow::anyhow!("cannot create `{}`: {error}{remedy}", path.display())
}

fn time_now() -> String {
    jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn an_existing_file_is_kept_unless_forced() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x.icecore");
        std::fs::write(&path, "precious").expect("writable");
        let error = Output::at(&path, false).expect_err("it exists").to_string();
        assert!(error.contains("--force"), "{error}");

        drop(Output::at(&path, true).expect("forced"));
        assert_eq!(std::fs::read(&path).expect("nothing was recorded"), b"precious");
        Output::at(&path, true).expect("forced").keep().expect("same folder");
        assert_eq!(std::fs::metadata(&path).expect("still there").len(), 0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("ours").count(), 1);
    }

    #[test]
    fn only_the_owner_may_read_a_recording_whatever_was_there_before() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x.icecore");
        std::fs::write(&path, "readable by all").expect("writable");
        Output::at(&path, true).expect("forced").keep().expect("same folder");
        assert_eq!(std::fs::metadata(&path).expect("kept").mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_file_is_refused_and_so_is_one_that_is_being_written() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let said = |path: &Path| Output::at(path, true).expect_err("cannot be").to_string();
        assert!(said(dir.path()).contains("it is a folder"));
        assert!(said(Path::new("/dev/null")).contains("not a regular file"));
        let path = dir.path().join("x.icecore");
        let mut first = Output::at(&path, false).expect("free");
        first.keep().expect("same name");
        assert!(said(&path).contains("another recorder"), "{}", said(&path));
    }

    #[test]
    fn recordings_of_one_second_get_names_of_their_own() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let stem = dir.path().join("icecore-h-t").display().to_string();
        // All at once: none may take a name that another has just taken.
        let create = || Output::create_named(&stem).expect("free, perhaps with a number");
        let outputs: Vec<Output> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let names: std::collections::HashSet<_> = outputs.iter().map(|output| &output.path).collect();
        assert_eq!(names.len(), outputs.len());
    }
}
