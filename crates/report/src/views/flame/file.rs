//! Where the graph is written, and how: whole or not at all, and never over the recording.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::output;

/// Names the graph of a recording, in the current directory: `app-1.2.icecore` gives `app-1.2.svg`, a pipe `flame.svg`.
pub(crate) fn default_name(recording: &Path) -> PathBuf {
    if crate::input::is_nameless(recording) {
        return "flame.svg".into();
    }
    let mut name = recording.file_stem().unwrap_or_else(|| "flame".as_ref()).to_owned();
    name.push(".svg");
    name.into()
}

/// Writes a file as [`output::replace`] does. What is there and is no regular file (a terminal, a pipe) is written into.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is the recording; else as the file system says.
pub(super) fn write(path: &Path, bytes: &[u8], recording: &Path) -> io::Result<()> {
    match output::metadata(path)? {
        Some(there) if !there.is_file() => {
            output::refuse_recording(Some(&there), recording)?;
            OpenOptions::new().write(true).open(path)?.write_all(bytes)
        }
        _ => {
            output::refuse_recording(output::metadata(path)?.as_ref(), recording)?;
            output::refuse_any_recording(path)?;
            output::replace(path, recording, None, |file| file.write_all(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn only_the_last_extension_is_replaced() {
        for (recording, name) in [
            ("/x/app-1.2.icecore", "app-1.2.svg"),
            ("app", "app.svg"),
            ("a.svg", "a.svg"),
            ("..", "flame.svg"),
            ("-", "flame.svg"),
            ("/dev/fd/63", "flame.svg"),
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
