//! The file: its name, its mode, and its end if nothing was recorded.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::options::Options;

/// The file of a recording, just created and empty.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
}

impl Output {
    /// Creates the file: mode 0600, never over an existing one unless asked.
    pub(crate) fn create(options: &Options) -> anyhow::Result<Self> {
        match &options.output {
            Some(path) => {
                let file = open(path, options.force).map_err(|error| explain(error, path))?;
                Ok(Self { path: path.clone(), file })
            }
            None => Self::create_named(&format!("icecore-{}-{}", crate::session::host(), time_now())),
        }
    }

    /// Takes the file away again: nothing was recorded.
    pub(crate) fn discard(self) {
        drop(std::fs::remove_file(&self.path));
    }

    /// Adds a number to the name if another recording of this second has it.
    fn create_named(stem: &str) -> anyhow::Result<Self> {
        for number in 1..100 {
            let suffix = if number == 1 { String::new() } else { format!("-{number}") };
            let path = PathBuf::from(format!("{stem}{suffix}.icecore"));
            match open(&path, false) {
                Ok(file) => return Ok(Self { path, file }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(explain(error, &path)),
            }
        }
        bail!("cannot create `{stem}.icecore`: a hundred files of this name exist; name one with -o")
    }
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

fn open(path: &Path, force: bool) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.write(true).mode(0o600);
    if !force {
        return how.create_new(true).open(path);
    }
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    how.create(true).truncate(true).open(path)
}

fn explain(error: io::Error, path: &Path) -> anyhow::Error {
    let remedy = match error.kind() {
        io::ErrorKind::AlreadyExists => "; overwrite it with --force, or name another file with -o",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; name a file in another folder with -o"
        }
        io::ErrorKind::NotFound => "; its folder does not exist",
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
        let error =
            open(&path, false).map_err(|error| explain(error, &path).to_string()).expect_err("it exists");
        assert!(error.contains("--force"), "{error}");
        assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
        open(&path, true).expect("forced");
        assert_eq!(std::fs::metadata(&path).expect("still there").len(), 0);
    }

    #[test]
    fn only_the_owner_may_read_a_recording() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x.icecore");
        let file = open(&path, false).expect("new");
        assert_eq!(file.metadata().expect("open").mode() & 0o777, 0o600);
        assert!(open(dir.path(), true).is_err());
    }

    #[test]
    fn two_recordings_of_one_second_get_two_names() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let stem = dir.path().join("icecore-h-t").display().to_string();
        let first = Output::create_named(&stem).expect("free");
        let second = Output::create_named(&stem).expect("free with a number");
        assert_ne!(first.path, second.path);
        second.discard();
        assert!(first.path.exists());
    }
}
