//! Opens the destination of the recording, a file or stdout. Names the file, and removes it if nothing was recorded.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use icecore_files::output;
use icecore_format::write::Writer;

use crate::settings::{Destination, Options};
use crate::sys::random;

mod owner;
mod rescue;
mod series;

pub(crate) use rescue::Settled;
pub(crate) use series::Series;

/// Where the recording goes.
#[derive(Debug)]
pub(crate) enum Output {
    /// A file that this process created.
    File(OwnFile),
    /// Stdout, a pipe or a file; the recorder only appends.
    Stdout(File),
    /// Nowhere yet: it is held in memory.
    Memory,
}

/// The file of a recording. Dropping it removes the file unless [`OwnFile::keep`] was called.
///
/// With `--force` the recording is first written under another name beside the old file, which is replaced only after
/// recording has begun. A symbolic link stays a link: the file that it leads to is replaced.
#[derive(Debug)]
pub(crate) struct OwnFile {
    /// The requested path.
    path: PathBuf,
    /// The requested path, or the file that it leads to if it is a symbolic link.
    target: PathBuf,
    /// The path of the file until it is kept.
    written: PathBuf,
    /// Locked, so that no other recorder takes the name.
    file: File,
    kept: AtomicBool,
}

impl Output {
    /// Opens stdout, or creates the file with mode 0600. It does not replace an existing file without `--force`.
    pub(crate) fn create(options: &Options) -> anyhow::Result<Self> {
        match &options.output {
            _ if options.flight.is_some() => Ok(Self::Memory),
            Destination::File(_) | Destination::NewFile if options.rotate.is_some() => {
                Series::of(options).create().map(Self::File)
            }
            Destination::File(path) => OwnFile::at(path, options.force).map(Self::File),
            Destination::NewFile => {
                let stem = format!("icecore-{}-{}", crate::cli::session::host(), time_now());
                OwnFile::create_named(&stem).map(Self::File)
            }
            Destination::Stdout => {
                let stdout = io::stdout().as_fd().try_clone_to_owned().context("cannot write to stdout")?;
                Ok(Self::Stdout(stdout.into()))
            }
        }
    }

    /// Returns the requested path; `None` for stdout.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(own) => Some(&own.path),
            Self::Stdout(_) | Self::Memory => None,
        }
    }

    /// Returns the name of the destination for messages.
    pub(crate) fn called(&self) -> String {
        match self {
            Self::File(own) => format!("`{}`", own.path.display()),
            Self::Stdout(_) => "stdout".to_owned(),
            Self::Memory => "memory".to_owned(),
        }
    }

    /// Finds out where the finished recording is, and copies it if its name was removed.
    pub(crate) fn settle(&self) -> Settled {
        match self {
            Self::File(own) => {
                let settled = own.settle();
                // A command that never started has the file open as well, and would keep the lock.
                let _ = own.file.unlock();
                settled
            }
            Self::Stdout(_) | Self::Memory => Settled::AsAsked,
        }
    }

    /// Begins the recording.
    pub(crate) fn writer(&self) -> anyhow::Result<Writer> {
        let uuid = random::bytes().context("cannot make a random identity for the recording")?;
        let writer = match self {
            Self::File(own) => Writer::create(own.file.try_clone()?, uuid),
            Self::Stdout(stdout) => Writer::stream(stdout.try_clone()?, uuid),
            Self::Memory => Writer::in_memory(uuid),
        };
        Ok(writer?)
    }

    /// Gives the file its final name, and does not remove it any more.
    pub(crate) fn keep(&self) -> anyhow::Result<()> {
        match self {
            Self::File(own) => own.keep(),
            Self::Stdout(_) | Self::Memory => Ok(()),
        }
    }
}

impl OwnFile {
    fn keep(&self) -> anyhow::Result<()> {
        if self.written != self.target {
            std::fs::rename(&self.written, &self.target).map_err(|error| explain(&error, &self.path))?;
        }
        self.kept.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn settle(&self) -> Settled {
        rescue::settle(&self.file, &self.path, &self.target)
    }

    fn at(path: &Path, force: bool) -> anyhow::Result<Self> {
        let is_there = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // A link, too, may lead to a file that this process may not read.
            there => Some(there.map_err(|error| explain(&error, path))?),
        };
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
        // A file cannot be renamed to the name of a descriptor.
        let what = match &is_there {
            None if is_link => {
                Some("it is a symbolic link that leads nowhere: remove it, or name another file with -o")
            }
            Some(meta) if meta.is_dir() => Some("it is a folder; name a file with -o"),
            Some(meta) if !meta.is_file() || is_descriptor(path) => {
                Some("it is not a regular file; name one with -o, or write to stdout with `-o -`")
            }
            _ => None,
        };
        if let Some(what) = what {
            bail!("cannot create `{}`: {what}", path.display());
        }
        // The folder may be a link, too.
        let followed = output::target(path).map_err(|error| explain(&error, path))?;
        let mut target = path.to_owned();
        let mut written = path.to_owned();
        if force && is_there.is_some() {
            if is_being_written(path) {
                bail!(
                    "cannot create `{}`: another recorder is writing it; name another file with -o",
                    path.display()
                );
            }
            if is_link {
                target = followed;
            }
            let name = target.file_name().unwrap_or_default().to_string_lossy();
            written = target.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        }
        let file = create_new(&written).map_err(|error| explain(&error, path))?;
        Ok(Self::new(path.to_owned(), target, written, file))
    }

    fn new(path: PathBuf, target: PathBuf, written: PathBuf, file: File) -> Self {
        // A failure is ignored: some file systems have no locks.
        let _ = file.try_lock();
        Self { path, target, written, file, kept: false.into() }
    }

    /// Adds a number to the name if another recording of this second has it.
    fn create_named(stem: &str) -> anyhow::Result<Self> {
        let named = |number| match number {
            1 => PathBuf::from(format!("{stem}.icecore")),
            number => PathBuf::from(format!("{stem}-{number}.icecore")),
        };
        match create_free((1..100).map(named)) {
            Some(Ok((path, file))) => Ok(Self::new(path.clone(), path.clone(), path, file)),
            Some(Err((path, error))) => Err(explain(&error, &path)),
            None => {
                bail!("cannot create `{stem}.icecore`: a hundred files of this name exist; name one with -o")
            }
        }
    }
}

/// Creates the first of these files that does not exist; `None` if all do.
///
/// # Errors
/// The error of the file system, with the path.
fn create_free(
    paths: impl IntoIterator<Item = PathBuf>,
) -> Option<Result<(PathBuf, File), (PathBuf, io::Error)>> {
    // Creating the file shows whether the name is unused: another recorder could take it after a look.
    paths.into_iter().find_map(|path| match create_new(&path) {
        Ok(file) => Some(Ok((path, file))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
        Err(error) => Some(Err((path, error))),
    })
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Relaxed) {
            let _ = std::fs::remove_file(&self.written);
        }
    }
}

/// Returns true if a path names an open descriptor of a process, such as `/dev/fd/3`.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"].iter().any(|names| path.starts_with(names))
}

/// Returns true if another recorder holds the lock of an existing file.
fn is_being_written(path: &Path) -> bool {
    File::open(path).is_ok_and(|old| matches!(old.try_lock(), Err(TryLockError::WouldBlock)))
}

fn create_new(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    owner::hand_over(&file, path, owner::of_sudo());
    Ok(file)
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
        let error = OwnFile::at(&path, false).expect_err("it exists").to_string();
        assert!(error.contains("--force"), "{error}");

        drop(OwnFile::at(&path, true).expect("forced"));
        assert_eq!(std::fs::read(&path).expect("nothing was recorded"), b"precious");
        OwnFile::at(&path, true).expect("forced").keep().expect("same folder");
        assert_eq!(std::fs::metadata(&path).expect("still there").len(), 0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("ours").count(), 1);
    }

    #[test]
    fn only_the_owner_may_read_a_recording_whatever_was_there_before() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x.icecore");
        std::fs::write(&path, "readable by all").expect("writable");
        OwnFile::at(&path, true).expect("forced").keep().expect("same folder");
        assert_eq!(std::fs::metadata(&path).expect("kept").mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_file_is_refused_and_so_is_one_that_is_being_written() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let said = |path: &Path| OwnFile::at(path, true).expect_err("cannot be").to_string();
        assert!(said(dir.path()).contains("it is a folder"));
        assert!(said(Path::new("/dev/null")).contains("`-o -`"));
        assert!(said(Path::new("/dev/stdout")).contains("`-o -`"));
        assert!(said(Path::new("/proc/self/exe")).contains("`-o -`"));
        let path = dir.path().join("x.icecore");
        let first = OwnFile::at(&path, false).expect("free");
        first.keep().expect("same name");
        assert!(said(&path).contains("another recorder"), "{}", said(&path));
    }

    /// Only root can give links away.
    #[test]
    fn root_a_link_that_a_stranger_has_laid_is_not_followed() {
        use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let [shared, precious] = ["shared", "precious"].map(|name| dir.path().join(name));
        for folder in [&shared, &precious] {
            std::fs::create_dir(folder).expect("room");
        }
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).expect("ours");
        std::fs::write(precious.join("x"), "precious").expect("room");
        let [link, folder] = ["link", "folder"].map(|name| shared.join(name));
        symlink(precious.join("x"), &link).expect("room");
        symlink(&precious, &folder).expect("room");
        OwnFile::at(&link, true).expect("a link of this user");
        for link in [&link, &folder] {
            lchown(link, Some(54_321), None).expect("root may");
        }
        for path in [link, folder.join("x"), folder.join("new")] {
            let error = OwnFile::at(&path, true).expect_err("refused").to_string();
            assert!(error.contains("user 54321 has laid the symbolic link"), "{error}");
        }
        assert_eq!(std::fs::read(precious.join("x")).expect("there"), b"precious");
        assert_eq!(std::fs::read_dir(&precious).expect("ours").count(), 1);
    }

    #[test]
    fn recordings_of_one_second_get_names_of_their_own() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let stem = dir.path().join("icecore-h-t").display().to_string();
        // All at once: none may take a name that another has just taken.
        let create = || OwnFile::create_named(&stem).expect("free, perhaps with a number");
        let outputs: Vec<OwnFile> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let names: std::collections::HashSet<_> = outputs.iter().map(|output| &output.path).collect();
        assert_eq!(names.len(), outputs.len());
    }
}
