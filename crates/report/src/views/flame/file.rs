//! Where the graph is written, and how: whole or not at all, and never over the recording.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names the graph of a recording, in the current directory: `app-1.2.icecore` gives `app-1.2.svg`.
pub(crate) fn default_name(recording: &Path) -> PathBuf {
    let mut name = recording.file_stem().unwrap_or_else(|| "flame".as_ref()).to_owned();
    name.push(".svg");
    name.into()
}

/// Writes a file: a new one beside it first, which then takes its name. What is there and is no regular file (a
/// terminal, a pipe) is written into.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is the recording; else as the file system says.
pub(super) fn write(path: &Path, bytes: &[u8], recording: &Path) -> io::Result<()> {
    let there = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        there => Some(there?),
    };
    let same = |a: &fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    match there {
        Some(there) if fs::metadata(recording).is_ok_and(|recording| same(&there, recording)) => Err(
            io::Error::new(io::ErrorKind::InvalidInput, "this is the recording itself: name a file with -o"),
        ),
        Some(there) if !there.is_file() => OpenOptions::new().write(true).open(path)?.write_all(bytes),
        // A symbolic link stays one: what it leads to is replaced.
        Some(there) => replace(&path.canonicalize()?, bytes, Some(there.permissions())),
        None => replace(path, bytes, None),
    }
}

fn replace(path: &Path, bytes: &[u8], mode: Option<fs::Permissions>) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(beside);
    File::create_new(&beside).and_then(|mut file| {
        let written =
            file.write_all(bytes).and_then(|()| mode.map_or(Ok(()), |mode| file.set_permissions(mode)));
        let written = written.and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // The first error is the one to tell.
            drop(fs::remove_file(&beside));
        }
        written
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_last_extension_is_replaced() {
        for (recording, name) in [
            ("/x/app-1.2.icecore", "app-1.2.svg"),
            ("app", "app.svg"),
            ("a.svg", "a.svg"),
            ("..", "flame.svg"),
        ] {
            assert_eq!(default_name(Path::new(recording)), Path::new(name), "{recording}");
        }
    }

    #[test]
    fn the_recording_is_never_written_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let [recording, link, hard] = ["r.svg", "link", "hard"].map(|name| dir.path().join(name));
        fs::write(&recording, "precious").expect("written");
        std::os::unix::fs::symlink("r.svg", &link).expect("linked");
        fs::hard_link(&recording, &hard).expect("linked");
        for path in [&recording, &link, &hard] {
            let error = write(path, b"graph", &recording).expect_err("refused");
            assert!(error.to_string().starts_with("this is the recording itself"), "{error}");
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
        write(&link, b"graph", Path::new("/no/recording")).expect("written");
        write(&new, b"graph", Path::new("/no/recording")).expect("written");
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
    fn what_is_no_regular_file_is_written_into() {
        write(Path::new("/dev/null"), b"graph", Path::new("/no/recording")).expect("written");
        assert!(!fs::metadata("/dev/null").expect("there").is_file());
    }
}
