//! Writes files whole or not at all, and never over the recording that is their input.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use icecore_files::output;
use icecore_format::header;

/// Writes a file under another name beside `path`; when it is complete it takes that name, and replaces a file that had it. It gets
/// the mode of the replaced file, else `mode`, and in both cases at most what its `inputs` allow ([`output::allowed`]). A symbolic link
/// stays one, and is followed only if [`output::target`] allows it.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if `path` is an input, or leads where it must not; errors of `fill`; else those of the file system. On an
/// error nothing has changed.
pub(crate) fn replace<T, E: From<io::Error>>(
    path: &Path,
    inputs: &[&Path],
    mode: u32,
    fill: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let there = metadata(path)?;
    inputs.iter().try_for_each(|input| refuse_recording(there.as_ref(), input))?;
    let target = output::target(path)?;
    let is_link = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
    if is_link && metadata(&target)?.is_none() {
        let cause = "it is a symbolic link that leads nowhere: remove it, or name another file with -o";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, cause).into());
    }
    let inputs: Vec<fs::Metadata> =
        inputs.iter().map(|input| fs::metadata(opened(input))).collect::<Result<_, _>>()?;
    beside(&target, there.map(|there| there.mode()), mode, &inputs, fill)
}

/// Returns the path of an input that was typed.
fn opened(input: &Path) -> &Path {
    if input.as_os_str() == "-" { Path::new("/dev/stdin") } else { input }
}

/// Refuses to write over the recording, under any of its names.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] with the remedy.
fn refuse_recording(there: Option<&fs::Metadata>, recording: &Path) -> io::Result<()> {
    match (there, fs::metadata(opened(recording))) {
        (Some(there), Ok(this)) if (there.dev(), there.ino()) == (this.dev(), this.ino()) => {
            let cause = "this is the recording itself: name a file with -o";
            Err(io::Error::new(io::ErrorKind::InvalidInput, cause))
        }
        _ => Ok(()),
    }
}

/// Refuses to replace any recording: it cannot be made again, a view can.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] with the remedy.
fn refuse_any_recording(path: &Path) -> io::Result<()> {
    let mut magic = [0; header::MAGIC.len()];
    let begins = File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok();
    if begins && magic == header::MAGIC {
        let cause = "there is a recording: name another file with -o, or remove it";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, cause));
    }
    Ok(())
}

/// Refuses to write over one of the inputs or over anything but a regular file; without `force` over any file.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] or [`io::ErrorKind::AlreadyExists`] with the remedy; else those of the file system.
pub(crate) fn refuse(path: &Path, force: bool, inputs: &[&Path]) -> io::Result<()> {
    let there = metadata(path)?;
    inputs.iter().try_for_each(|input| refuse_recording(there.as_ref(), input))?;
    let no_file = |cause| Err(io::Error::new(io::ErrorKind::InvalidInput, cause));
    match there {
        Some(there) if there.is_dir() => no_file("it is a folder; name a file with -o"),
        Some(there) if !there.is_file() => no_file("it is not a regular file; name one with -o"),
        Some(_) if !force => {
            let cause = "File exists; overwrite it with --force, or name another file with -o";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, cause))
        }
        _ => Ok(()),
    }
}

/// Why a view was not written into a file.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file may not be written, or its folder takes no file.
    #[error("cannot create `{}`", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The reason, and the remedy.
        source: io::Error,
    },
    /// Not all bytes were written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Writes a view into a file as [`replace`] does, never over a recording. It writes directly into a pipe, a terminal or another
/// device.
///
/// # Errors
/// Those of [`refuse`]; if `path` holds a recording; else those of the file system.
pub(crate) fn write_view(path: &Path, force: bool, inputs: &[&Path], bytes: &[u8]) -> Result<(), WriteError> {
    write_by((path, force), inputs, |file| file.write_all(bytes))
}

/// Writes a view as [`write_view`] does; `fill` writes the content.
///
/// # Errors
/// As above, and those of `fill`.
pub(crate) fn write_by<T>(
    (path, force): (&Path, bool),
    inputs: &[&Path],
    fill: impl FnOnce(&mut File) -> io::Result<T>,
) -> Result<T, WriteError> {
    let is_device = refuse_view((path, force), inputs)?;
    let written = if is_device {
        File::options().write(true).open(path).and_then(|mut file| fill(&mut file))
    } else {
        replace(path, inputs, 0o666, fill)
    };
    written.map_err(|source| WriteError::Write { path: path.to_owned(), source })
}

/// Refuses a path where a view may not be written; returns true if it is a device or a pipe, into which a view is written directly.
///
/// # Errors
/// Those of [`refuse`]; if `path` holds a recording, or leads where it must not.
pub(crate) fn refuse_view((path, force): (&Path, bool), inputs: &[&Path]) -> Result<bool, WriteError> {
    let there = metadata(path).ok().flatten();
    let is_device = there.as_ref().is_some_and(|there| !there.is_file() && !there.is_dir());
    inputs
        .iter()
        .try_for_each(|input| refuse_recording(there.as_ref(), input))
        // If the file is a recording, the advice to use --force would be wrong.
        .and_then(|()| if is_device { Ok(()) } else { refuse_any_recording(path) })
        .and_then(|()| if is_device { Ok(()) } else { refuse(path, force, &[]) })
        .and_then(|()| output::target(path).map(drop))
        .map_err(|source| WriteError::Create { path: path.to_owned(), source })?;
    Ok(is_device)
}

/// Returns the metadata of a path; `None` if it does not exist.
fn metadata(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        there => there.map(Some),
    }
}

/// Writes a file beside `path`, and renames it. It gets the mode `kept` exactly, or `mode` as far as the umask allows it; `inputs` may allow
/// less.
fn beside<T, E: From<io::Error>>(
    path: &Path,
    kept: Option<u32>,
    mode: u32,
    inputs: &[fs::Metadata],
    fill: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let name = path.file_name().ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(format!(".{}.tmp", std::process::id()));
    let partial = path.with_file_name(partial);
    let groups = output::groups(&fs::metadata(path.parent().unwrap_or(Path::new("/")))?);
    let mode = mode & output::allowed(inputs, &groups);
    let mut file = File::options().read(true).write(true).create_new(true).mode(mode).open(&partial)?;
    let keep = |kept: u32| {
        let allowed = output::allowed(inputs, &[file.metadata()?.gid()]);
        file.set_permissions(Permissions::from_mode(kept & 0o777 & allowed))
    };
    let written = kept.map_or(Ok(()), keep).map_err(E::from);
    let written = written.and_then(|()| fill(&mut file));
    let written = written.and_then(|told| Ok(fs::rename(&partial, path).map(|()| told)?));
    if written.is_err() {
        // Only the first error is reported.
        drop(fs::remove_file(&partial));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error and its causes, as a command says them.
    fn said(error: WriteError) -> String {
        format!("{:#}", anyhow::Error::from(error))
    }

    #[test]
    fn the_recording_is_never_written_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let [recording, link, hard] = ["r.svg", "link", "hard"].map(|name| dir.path().join(name));
        fs::write(&recording, "precious").expect("written");
        std::os::unix::fs::symlink("r.svg", &link).expect("linked");
        fs::hard_link(&recording, &hard).expect("linked");
        for path in [&recording, &link, &hard] {
            let error = write_view(path, true, &[&recording], b"graph").expect_err("refused");
            let text = said(error);
            assert!(text.contains(": this is the recording itself"), "{text}");
        }
        assert_eq!(fs::read(&recording).expect("there"), b"precious");
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 3);
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode_and_its_links() {
        let dir = tempfile::tempdir().expect("a directory");
        let [old, link, new] = ["old.svg", "link.svg", "new.svg"].map(|name| dir.path().join(name));
        fs::write(&old, "old").expect("written");
        fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).expect("set");
        std::os::unix::fs::symlink("old.svg", &link).expect("linked");
        let reader = File::open(&old).expect("opens");
        write_view(&link, true, &[], b"graph").expect("written");
        write_view(&new, false, &[], b"graph").expect("written");
        assert_eq!(
            (fs::read(&old).expect("there"), fs::read(&new).expect("there")),
            (b"graph".into(), b"graph".into())
        );
        assert_eq!(fs::metadata(&old).expect("there").mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(
            io::read_to_string(reader).expect("read"),
            "old",
            "who reads the old one is not disturbed"
        );
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 3, "nothing is left behind");
    }

    #[test]
    fn a_view_replaces_a_file_only_if_forced_and_a_recording_never() {
        let dir = tempfile::tempdir().expect("a directory");
        let [old, other] = ["old.svg", "other.icecore"].map(|name| dir.path().join(name));
        fs::write(&old, "old").expect("written");
        fs::write(&other, header::MAGIC).expect("written");
        let refusal = |path, force| said(write_view(path, force, &[], b"graph").expect_err("refused"));
        let text = refusal(&old, false);
        assert!(text.starts_with("cannot create `/") && text.contains("overwrite it with --force"), "{text}");
        assert_eq!(fs::read(&old).expect("there"), b"old");
        assert!(refusal(&other, true).contains("there is a recording"), "no view is worth one");
        write_view(&old, true, &[], b"graph").expect("forced");
        assert_eq!(fs::read(&old).expect("there"), b"graph");
    }

    #[test]
    fn who_may_not_read_the_recording_may_not_read_what_is_made_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let [recording, open, new, old] = ["r", "o", "new.svg", "old.svg"].map(|name| dir.path().join(name));
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
        for (path, mode) in [(&recording, 0o600), (&open, 0o666), (&old, 0o644)] {
            fs::write(path, "x").expect("written");
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
        }
        write_view(&new, true, &[&open], b"graph").expect("written");
        let usual = mode(&new);
        fs::remove_file(&new).expect("there");
        fs::write(&new, "as any file").expect("written");
        assert_eq!(usual, mode(&new), "the umask decides, if the inputs allow everything");
        for (inputs, path) in
            [(&[&*recording][..], &old), (&[&open, &recording], &new), (&[Path::new("/dev/null")], &new)]
        {
            fs::set_permissions(path, Permissions::from_mode(0o664)).expect("set");
            write_view(path, true, inputs, b"graph").expect("written");
            assert_eq!(mode(path), 0o600, "{inputs:?}: replaced");
            fs::remove_file(path).expect("there");
            write_view(path, false, inputs, b"graph").expect("written");
            assert_eq!(mode(path), 0o600, "{inputs:?}: new");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_written_into() {
        write_view(Path::new("/dev/null"), false, &[], b"graph").expect("written");
        assert!(!fs::metadata("/dev/null").expect("there").is_file());
    }
}
