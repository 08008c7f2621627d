//! Opens a path from a recording without effects on what lies there.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatfs, openat, openat2};
use rustix::io::Errno;

use super::present::Present;
use super::{FileOff, Inode, Layout, Section};
use crate::Reason;

/// File systems whose "regular" files do something when they are read (`/proc/kmsg`, `trace_pipe`).
const PSEUDO: [&str; 2] = ["/proc", "/sys"];
/// The same wherever they are mounted: proc, sysfs, debugfs, tracefs; uapi/linux/magic.h.
const PSEUDO_MAGIC: [u64; 4] = [0x9fa0, 0x6265_6572, 0x6462_6720, 0x7472_6163];
/// File systems whose layers or subvolumes have devices of their own for stat(2): overlayfs, btrfs.
const LAYERED_MAGIC: [u64; 2] = [0x794c_7630, 0x9123_683e];
/// Attempts to resolve a path while somebody moves its folders: the kernel gives up with EAGAIN rather than risk an escape.
const RACES: usize = 8;

/// The largest section that is read into memory at once, in bytes; the largest `.eh_frame` seen is 60 MB.
const MAX_SECTION_LEN: u64 = 1 << 30;
/// The bytes that are read at once for a checksum.
const CHECKSUM_STEP: u64 = 1 << 18;

/// A regular file. Its identity is not checked yet.
#[derive(Debug)]
pub struct ElfFile {
    pub(super) file: File,
    /// Path with symbolic links resolved.
    pub real_path: PathBuf,
    /// Its length, bytes.
    pub len: u64,
    /// Last modification, ns since 1970-01-01 UTC; 0 if unknown.
    pub modified_unix_ns: u64,
    /// The pieces that exist, if the file was composed of pieces.
    pub(super) present: Option<Present>,
    /// Which file it is; `None` if it has no path.
    pub inode: Option<Inode>,
    /// Last change of its contents or its names, ns since 1970-01-01 UTC; 0 if it has no path.
    pub changed_unix_ns: u64,
    /// Its device is that of a layer or a subvolume, not the one that the kernel's records of mappings have.
    pub is_layered: bool,
}

impl Inode {
    fn of(meta: &Metadata) -> Self {
        Self { device: meta.dev(), number: meta.ino() }
    }
}

fn unix_ns(seconds: i64, ns: i64) -> u64 {
    u64::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(ns)).unwrap_or_default()
}

impl ElfFile {
    /// Opens a regular file, without reading it.
    ///
    /// It first opens the path with O_PATH, which waits for no writer of a FIFO and wakes no device. If that is a regular file,
    /// it opens the file through `/proc/self/fd`, which leads to that same file whatever the path means by now.
    pub fn open(path: &Path) -> Result<Self, Reason> {
        // A relative path would mean something else in every directory in which the report is started.
        if !path.is_absolute() {
            return Err(Reason::ImageMissing);
        }
        let open =
            |flags: OFlags| OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
        Self::at(path, open)
    }

    /// Opens a regular file as a process would whose root directory is `root`: absolute links and `..` stay below it.
    pub(crate) fn open_beneath(root: &Path, path: &Path) -> Result<Self, Reason> {
        let below = root.join(path.strip_prefix("/").unwrap_or(path));
        let open = |flags| Ok(beneath(root, path, flags, ResolveFlags::IN_ROOT)?);
        Self::at(&below, open)
    }

    /// Opens a regular file below a folder, and on its file system; `None` if a link or a mount leads to another one, or the kernel
    /// cannot tell (before Linux 5.6).
    pub(super) fn open_near(folder: &Path, path: &Path, how: ResolveFlags) -> Option<Result<Self, Reason>> {
        let open = |flags: OFlags| beneath(folder, path, flags, how | ResolveFlags::NO_XDEV);
        let below = folder.join(path.strip_prefix("/").unwrap_or(path));
        match open(OFlags::PATH) {
            Err(Errno::XDEV | Errno::NOSYS) => None,
            place => Some(Self::of_place(place.map_err(io::Error::from), &below, |flags| Ok(open(flags)?))),
        }
    }

    /// Takes a file without a path, whose contents were made from those of another file.
    pub(crate) fn unlinked(file: File, made_from: &Path) -> Result<Self, Reason> {
        let len = file.metadata().map_err(cause)?.len();
        Ok(Self {
            file,
            real_path: made_from.to_owned(),
            len,
            modified_unix_ns: 0,
            present: None,
            inode: None,
            changed_unix_ns: 0,
            is_layered: false,
        })
    }

    /// Opens the file to which `open` leads; `path` is its name if `/proc` does not show its real path.
    fn at(path: &Path, open: impl Fn(OFlags) -> io::Result<File>) -> Result<Self, Reason> {
        Self::of_place(open(OFlags::PATH), path, open)
    }

    /// Opens the file of a descriptor with O_PATH.
    fn of_place(
        place: io::Result<File>,
        path: &Path,
        open: impl Fn(OFlags) -> io::Result<File>,
    ) -> Result<Self, Reason> {
        let place = place.map_err(cause)?;
        let meta = place.metadata().map_err(cause)?;
        let link = fd_path(&place);
        let real_path = std::fs::read_link(&link);
        if !meta.is_file() || is_pseudo(&place, real_path.as_deref().unwrap_or(path)) {
            return Err(Reason::NotAFile);
        }
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match &real_path {
            Ok(_) => OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&link),
            // This root has no /proc. The path is resolved once more, and must lead to the same file.
            Err(_) => open(flags).and_then(|file| match file.metadata()? {
                again if Inode::of(&again) == Inode::of(&meta) => Ok(file),
                _ => Err(ErrorKind::NotFound.into()),
            }),
        };
        Ok(Self {
            file: file.map_err(cause)?,
            real_path: real_path.unwrap_or_else(|_| path.to_owned()),
            len: meta.len(),
            modified_unix_ns: unix_ns(meta.mtime(), meta.mtime_nsec()),
            present: None,
            inode: Some(Inode::of(&meta)),
            changed_unix_ns: unix_ns(meta.ctime(), meta.ctime_nsec()),
            is_layered: has_magic(&place, &LAYERED_MAGIC).unwrap_or(false),
        })
    }

    /// Takes a file that was composed of pieces; `path` is that of the image.
    pub fn of_pieces(file: File, len: u64, path: PathBuf, present: Present) -> Self {
        let (modified_unix_ns, inode, changed_unix_ns) = (0, None, 0);
        let (real_path, present, is_layered) = (path, Some(present), false);
        Self { file, real_path, len, modified_unix_ns, present, inode, changed_unix_ns, is_layered }
    }

    /// Reads the ELF headers.
    pub fn layout(&self) -> Result<Layout, Reason> {
        let mut layout = Layout::read(&ReadCache::new(&self.file)).ok_or(Reason::ImageUnreadable)?;
        if let Some(present) = &self.present {
            layout.keep_only(|off, len| present.has(off.0, len));
        }
        Ok(layout)
    }

    /// Returns the open file.
    pub(super) fn handle(&self) -> &File {
        &self.file
    }

    pub(super) fn present(&self) -> Option<&Present> {
        self.present.as_ref()
    }

    /// Reads the bytes of a section; `None` if it has no bytes in the file, is compressed, too long, or torn.
    pub fn section_bytes(&self, section: &Section) -> Option<Vec<u8>> {
        if section.compressed_from.is_some() || section.is_nobits {
            return None;
        }
        self.bytes(section.off, section.len)
    }

    /// Reads `len` bytes; `None` if the file does not have them, or they are too many.
    pub fn bytes(&self, off: FileOff, len: u64) -> Option<Vec<u8>> {
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

    /// Computes the CRC-32 of the whole file, as `.gnu_debuglink` has it.
    pub(crate) fn checksum(&self) -> Option<u32> {
        let mut sum = crc32fast::Hasher::new();
        let mut off = 0;
        while off < self.len {
            let bytes = self.bytes(FileOff(off), (self.len - off).min(CHECKSUM_STEP))?;
            sum.update(&bytes);
            off += bytes.len() as u64;
        }
        Some(sum.finalize())
    }
}

fn cause(error: io::Error) -> Reason {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput => Reason::ImageMissing,
        ErrorKind::PermissionDenied => Reason::ImageDenied,
        _ => Reason::ImageUnreadable,
    }
}

/// Checks whether the kernel can keep paths below a directory.
///
/// # Errors
/// If it cannot, or the directory cannot be opened.
pub fn supports_sysroot(root: &Path) -> io::Result<()> {
    match beneath(root, Path::new("."), OFlags::PATH, ResolveFlags::IN_ROOT) {
        Ok(_) => Ok(()),
        Err(Errno::NOSYS) => Err(io::Error::other("needs Linux 5.6 or newer")),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a path below a directory; with O_PATH, without effects on what lies there.
///
/// # Errors
/// ENOSYS before Linux 5.6; else as open(2).
fn beneath(root: &Path, path: &Path, flags: OFlags, how: ResolveFlags) -> rustix::io::Result<File> {
    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let how = how | ResolveFlags::NO_MAGICLINKS;
    let open = || openat2(&root, path, flags | OFlags::CLOEXEC, Mode::empty(), how);
    let attempts = std::iter::repeat_with(open).take(RACES);
    let first = attempts.into_iter().find(|opened| !matches!(opened, Err(Errno::AGAIN)));
    first.unwrap_or(Err(Errno::AGAIN)).map(File::from)
}

fn is_pseudo(place: &File, real_path: &Path) -> bool {
    PSEUDO.iter().any(|root| real_path.starts_with(root))
        // A file system that cannot be queried is not on a disk.
        || has_magic(place, &PSEUDO_MAGIC).unwrap_or(true)
}

/// Returns whether a file is on one of these file systems; `None` if that cannot be queried.
fn has_magic(place: &File, magic: &[u64]) -> Option<bool> {
    fstatfs(place.as_fd()).ok().map(|fs| magic.contains(&(fs.f_type as u64)))
}

fn fd_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, identity};
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
            // /dev/tty, or a path through a file, may just as well be absent.
            assert!(matches!(reason, Some(Reason::NotAFile | Reason::ImageMissing)), "{path}: {reason:?}");
        }
    }

    #[test]
    fn what_may_not_be_opened_is_not_called_broken() {
        let of = |kind: ErrorKind| cause(kind.into());
        assert_eq!(
            [of(ErrorKind::PermissionDenied), of(ErrorKind::Other)],
            [Reason::ImageDenied, Reason::ImageUnreadable]
        );
    }

    #[test]
    fn missing_and_relative_paths_are_missing() {
        for path in ["", "Cargo.toml", "./src", "/no/such/file", "/etc/passwd/x", "/nul\0byte"] {
            assert_eq!(ElfFile::open(Path::new(path)).err(), Some(Reason::ImageMissing), "{path:?}");
        }
    }

    #[test]
    fn nothing_leads_out_of_a_root() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("a real path");
        let root = dir.join("root");
        std::fs::create_dir_all(root.join("etc")).expect("made");
        std::fs::write(dir.join("secret"), b"outside").expect("written");
        std::fs::write(root.join("etc/inside"), b"in").expect("written");
        for (to, link) in [
            (PathBuf::from("/etc/inside"), "absolute"),
            ("../../../../../etc/inside".into(), "etc/up"),
            (dir.join("secret"), "out"),
            ("../secret".into(), "relative"),
            ("/proc/self/exe".into(), "magic"),
        ] {
            std::os::unix::fs::symlink(to, root.join(link)).expect("linked");
        }
        for path in ["/etc/inside", "etc/inside", "/../etc/inside", "/absolute", "/etc/up"] {
            let file = ElfFile::open_beneath(&root, Path::new(path)).expect(path);
            assert_eq!(file.real_path, root.join("etc/inside"), "{path}");
        }
        for path in ["/out", "/relative", "/../secret", "/magic", "/secret", "/etc/inside/x", "/etc"] {
            let reason = ElfFile::open_beneath(&root, Path::new(path)).err();
            assert!(matches!(reason, Some(Reason::ImageMissing | Reason::NotAFile)), "{path}: {reason:?}");
        }
    }

    #[test]
    fn pseudo_files_are_refused_wherever_they_are_mounted() {
        // This is the path below a root that has a /proc of its own.
        let reason = ElfFile::open_beneath(Path::new("/"), Path::new("/proc/self/status")).err();
        assert_eq!(reason, Some(Reason::NotAFile));
        let place =
            beneath(Path::new("/proc"), Path::new("self/status"), OFlags::PATH, ResolveFlags::IN_ROOT)
                .expect("it is there");
        assert!(is_pseudo(&place, Path::new("/elsewhere/status")));
        let place = beneath(Path::new("/"), Path::new("/etc/passwd"), OFlags::PATH, ResolveFlags::IN_ROOT)
            .expect("it is there");
        assert!(!is_pseudo(&place, Path::new("/etc/passwd")));
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

    #[test]
    fn the_build_id_is_found_in_the_section_if_no_segment_has_it() {
        let fixture = Fixture::shared();
        let mut bytes = std::fs::read(&fixture.stripped).expect("read");
        let (table, count) = (64, usize::from(bytes[56]));
        for at in (0..count).map(|i| table + 56 * i) {
            if bytes[at..at + 4] == [4, 0, 0, 0] {
                bytes[at..at + 4].fill(0); // PT_NOTE becomes PT_NULL
            }
        }
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notes.so");
        std::fs::write(&path, bytes).expect("written");
        let layout = ElfFile::open(&path).and_then(|file| file.layout()).expect("ELF");
        assert_eq!(layout.build_id, identity(&fixture.stripped).build_id);
    }
}
