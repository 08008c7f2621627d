//! Opens a path from a recording without acting on what lies there.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::present::Present;
use super::{FileOff, Layout, Section, Svma};
use crate::symbolize::Reason;

// The numbers of uapi/asm-generic/fcntl.h, which x86_64, aarch64 and riscv64 use unchanged. std adds O_CLOEXEC.
const O_NOCTTY: i32 = 0o400;
const O_NONBLOCK: i32 = 0o4000;
const O_PATH: i32 = 0o10000000;

/// File systems whose "regular" files do something when they are read (`/proc/kmsg`, `trace_pipe`).
const PSEUDO: [&str; 2] = ["/proc", "/sys"];

/// The largest section that is read into memory at once, in bytes; the largest `.eh_frame` seen is 60 MB.
const MAX_SECTION_LEN: u64 = 1 << 30;

/// A regular file with sound ELF headers. Its identity is still unknown.
#[derive(Debug)]
pub(crate) struct ElfFile {
    file: File,
    /// Path with symbolic links resolved.
    pub(crate) real_path: PathBuf,
    pub(crate) len: u64,
    pub(crate) modified_unix_ns: u64,
    /// What of it is there, if it was put together from pieces.
    present: Option<Present>,
}

impl ElfFile {
    /// Opens a regular file; its contents are not looked at.
    ///
    /// First with O_PATH, which waits for no writer of a FIFO and wakes no device; then, when it is known to be
    /// a regular file, through `/proc/self/fd`, which leads to that same file whatever the path means by now.
    pub(crate) fn open(path: &Path) -> Result<Self, Reason> {
        // A relative path would mean something else in every directory that the report is started from.
        if !path.is_absolute() {
            return Err(Reason::ImageMissing);
        }
        let cause = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput => Reason::ImageMissing,
            _ => Reason::ImageUnreadable,
        };
        let place = OpenOptions::new().read(true).custom_flags(O_PATH).open(path).map_err(cause)?;
        let meta = place.metadata().map_err(cause)?;
        if !meta.is_file() {
            return Err(Reason::NotAFile);
        }
        let link = fd_path(&place);
        let real_path = std::fs::read_link(&link).map_err(cause)?;
        if PSEUDO.iter().any(|root| real_path.starts_with(root)) {
            return Err(Reason::NotAFile);
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(O_NONBLOCK | O_NOCTTY)
            .open(&link)
            .map_err(|_| Reason::ImageUnreadable)?;
        let modified = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        Ok(Self {
            file,
            real_path,
            len: meta.len(),
            modified_unix_ns: u64::try_from(modified).unwrap_or_default(),
            present: None,
        })
    }

    /// A file that was put together from pieces; `path` is where the image was.
    pub(super) fn of_pieces(file: File, len: u64, path: PathBuf, present: Present) -> Self {
        Self { file, real_path: path, len, modified_unix_ns: 0, present: Some(present) }
    }

    /// Tells whether all of its bytes are there.
    pub(crate) fn is_whole(&self) -> bool {
        self.present.as_ref().is_none_or(|present| present.bytes() == self.len)
    }

    /// Reads the ELF headers.
    pub(crate) fn layout(&self) -> Result<Layout, Reason> {
        let mut layout = Layout::read(&self.file).ok_or(Reason::ImageUnreadable)?;
        if let Some(present) = &self.present {
            layout.keep_only(|off, len| present.has(off.0, len));
        }
        Ok(layout)
    }

    /// The open file.
    pub(super) fn handle(&self) -> &File {
        &self.file
    }

    /// Reads the bytes of a section; `None` if it has none in the file, is compressed, too long, or torn.
    pub(crate) fn section_bytes(&self, section: &Section) -> Option<Vec<u8>> {
        if section.compressed_from.is_some() || section.is_nobits {
            return None;
        }
        self.bytes(section.off, section.len)
    }

    /// Reads `len` bytes; `None` if the file does not have them, or they are too many.
    pub(crate) fn bytes(&self, off: FileOff, len: u64) -> Option<Vec<u8>> {
        if len > MAX_SECTION_LEN || off.0.checked_add(len)? > self.len {
            return None;
        }
        if self.present.as_ref().is_some_and(|present| !present.has(off.0, len)) {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.file.read_exact_at(&mut bytes, off.0).ok()?;
        Some(bytes)
    }

    /// Reads from an address to the end of the segment that holds it.
    pub(crate) fn segment_bytes(&self, layout: &Layout, at: Svma) -> Option<Vec<u8>> {
        let (off, len) = layout.rest_of_segment(at)?;
        self.bytes(off, len)
    }
}

fn fd_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs");
        assert!(made.success());
        assert_eq!(ElfFile::open(&fifo).err(), Some(Reason::NotAFile));
    }

    #[test]
    fn directories_devices_and_pseudo_files_are_not_files() {
        for path in ["/", "/dev/null", "/dev/tty", "/proc/self/status", "/proc/self/exe/../status", "/sys"] {
            let reason = ElfFile::open(Path::new(path)).err();
            // /dev/tty and a path through a file may as well be absent.
            assert!(matches!(reason, Some(Reason::NotAFile | Reason::ImageMissing)), "{path}: {reason:?}");
        }
    }

    #[test]
    fn missing_and_relative_paths_are_missing() {
        for path in ["", "Cargo.toml", "./src", "/no/such/file", "/etc/passwd/x", "/nul\0byte"] {
            assert_eq!(ElfFile::open(Path::new(path)).err(), Some(Reason::ImageMissing), "{path:?}");
        }
    }

    #[test]
    fn a_symbolic_link_leads_to_the_real_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("a real path");
        std::fs::write(dir.join("real"), b"text").expect("written");
        std::os::unix::fs::symlink("real", dir.join("link")).expect("linked");
        let file = ElfFile::open(&dir.join("link")).expect("opens");
        assert_eq!((file.real_path.clone(), file.len), (dir.join("real"), 4));
        assert_eq!(file.layout().err(), Some(Reason::ImageUnreadable), "text is not ELF");
    }
}
