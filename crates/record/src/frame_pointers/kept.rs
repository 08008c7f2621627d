//! Keeps unwind tables on disk that took long to compile, so that the next recording has them at once.
//!
//! ```text
//! <folder>/<file in hex>.rows   off  size
//!                                 0     8  "ICEROWS" and the version, 1
//!                                 8    32  the file, as the kernel knows it
//!                                40    32  the recorder that wrote this: device, inode, size, time of the last change
//!                                72     8  the offset from which places count
//!                                80     8  how many bytes they cover, and the number of chunks with positions
//!                                88     4  CRC-32 of these 88 bytes and the chunks; 4 bytes of 0
//!                                96  4096  a chunk, as the sampler has it if it is the first one; then the others
//! ```
//!
//! A wrong row is a wrong stack. So only this user and root may be able to change the folder and a file in it, and rows count only for
//! the very file, by the time of its last change, and for the very recorder that wrote them. Whatever is wrong is compiled anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use icecore_files::private;

use super::packed::Packed;
use crate::kernel::sampler::{Chunk, MAX_CHUNKS, bytes_of};
use crate::kernel::wire::FileKey;
use crate::sys::user;

/// Rows that are compiled in less are not kept.
pub(super) const LONG: Duration = Duration::from_millis(10);
/// The most that is kept in all, bytes; those that were used least recently go first.
const MAX_BYTES: u64 = 256 << 20;
const MAGIC: [u8; 8] = *b"ICEROWS\x01";
const HEAD_LEN: usize = 96;
const CHUNK_LEN: usize = size_of::<Chunk>();
const SUFFIX: &str = ".rows";

/// The folder.
pub(super) struct Kept {
    folder: PathBuf,
    maker: [u8; 32],
    max_bytes: u64,
}

impl Kept {
    /// Takes the folder of this user: `$XDG_CACHE_HOME/icecore-record`, or that in `/var/cache` for root and in `~/.cache` for others;
    /// `None` if there is none. Creates nothing before the first rows.
    pub(super) fn of_user() -> Option<Self> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let of_user = || {
            if user::is_root() { Some("/var/cache".into()) } else { Some(absolute("HOME")?.join(".cache")) }
        };
        let base = absolute("XDG_CACHE_HOME").or_else(of_user)?;
        let maker = maker(&fs::metadata("/proc/self/exe").ok()?);
        Some(Self { folder: base.join("icecore-record"), maker, max_bytes: MAX_BYTES })
    }

    /// Returns the rows of a file, if they are there and nothing is wrong with them.
    pub(super) fn find(&self, of: &FileKey) -> Option<Packed> {
        let mut file = self.open(&self.place(of)).ok()?;
        let mut head = [0; HEAD_LEN];
        file.read_exact(&mut head).ok()?;
        let len = file.metadata().ok()?.len().checked_sub(HEAD_LEN as u64)?;
        let count = len / CHUNK_LEN as u64;
        if len % CHUNK_LEN as u64 > 0 || count > u64::from(MAX_CHUNKS) {
            return None;
        }
        let mut chunks: Vec<Chunk> = Vec::with_capacity(count as usize);
        let mut bytes = [0; CHUNK_LEN];
        for _ in 0..count {
            file.read_exact(&mut bytes).ok()?;
            let words = bytes.as_chunks::<8>().0;
            chunks.push(std::array::from_fn(|at| u64::from_ne_bytes(words[at])));
        }
        let begin = u64::from_le_bytes(*head[72..].first_chunk()?);
        let [len, of_positions] =
            [80, 84].map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        let rows = Packed { begin, len, of_positions, chunks };
        if head != self.head(of, &rows) {
            return None;
        }
        // It is used: others go first.
        drop(file.set_modified(SystemTime::now()));
        Some(rows)
    }

    /// Keeps the rows of a file. An error has no consequence: they are compiled again.
    pub(super) fn keep(&self, of: &FileKey, rows: &Packed) {
        drop(self.write(of, rows).and_then(|()| self.trim()));
    }

    fn write(&self, of: &FileKey, rows: &Packed) -> io::Result<()> {
        private::create(&self.folder)?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.folder)?;
        file.write_all(&self.head(of, rows))?;
        for chunk in &rows.chunks {
            file.write_all(&bytes_of(chunk))?;
        }
        file.persist(self.place(of)).map(drop).map_err(|error| error.error)
    }

    /// Opens rows that this user has written.
    fn open(&self, path: &Path) -> io::Result<File> {
        private::check(&self.folder)?;
        let file =
            OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
        if private::is_own(&file.metadata()?) {
            Ok(file)
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    fn place(&self, of: &FileKey) -> PathBuf {
        let name: String = of.0.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name + SUFFIX)
    }

    fn head(&self, of: &FileKey, rows: &Packed) -> [u8; HEAD_LEN] {
        let mut head = [0; HEAD_LEN];
        head[..8].copy_from_slice(&MAGIC);
        head[8..40].copy_from_slice(&of.0);
        head[40..72].copy_from_slice(&self.maker);
        head[72..80].copy_from_slice(&rows.begin.to_le_bytes());
        head[80..84].copy_from_slice(&rows.len.to_le_bytes());
        head[84..88].copy_from_slice(&rows.of_positions.to_le_bytes());
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&head[..88]);
        rows.chunks.iter().for_each(|chunk| checksum.update(&bytes_of(chunk)));
        head[88..92].copy_from_slice(&checksum.finalize().to_le_bytes());
        head
    }

    /// Removes the rows that were used least recently if there are too many.
    fn trim(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.as_os_str().as_encoded_bytes().ends_with(SUFFIX.as_bytes()) {
                let meta = fs::symlink_metadata(&path)?;
                files.push((meta.modified()?, meta.len(), path));
            }
        }
        files.sort_unstable();
        let mut bytes: u64 = files.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in files {
            if bytes <= self.max_bytes {
                break;
            }
            fs::remove_file(path)?;
            bytes -= len;
        }
        Ok(())
    }
}

/// Tells a recorder from every other one.
fn maker(program: &fs::Metadata) -> [u8; 32] {
    let changed_ns = program.ctime().wrapping_mul(1_000_000_000).wrapping_add(program.ctime_nsec());
    let words = [program.dev(), program.ino(), program.size(), changed_ns.cast_unsigned()];
    let mut bytes = [0; 32];
    bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn kept() -> (tempfile::TempDir, Kept) {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let folder = dir.path().join("not/yet/there");
        (dir, Kept { folder, maker: [3; 32], max_bytes: MAX_BYTES })
    }

    fn file(number: u8) -> FileKey {
        let mut key = FileKey([0; _]);
        key.0[0] = number;
        key
    }

    fn rows(count: u32) -> Packed {
        let chunk = |number| std::array::from_fn(|at| u64::from(number) << 40 | at as u64);
        Packed { begin: 4096, len: 7000, of_positions: 1, chunks: (0..count).map(chunk).collect() }
    }

    #[test]
    fn rows_are_found_for_the_same_file_and_recorder_alone() {
        let (_dir, kept) = kept();
        assert_eq!(kept.find(&file(1)), None);
        kept.keep(&file(1), &rows(30));
        assert_eq!(kept.find(&file(1)), Some(rows(30)));
        assert_eq!(kept.find(&file(2)), None);
        // Moved to the place of another file.
        fs::copy(kept.place(&file(1)), kept.place(&file(2))).expect("room");
        assert_eq!(kept.find(&file(2)), None);
        let other = Kept { maker: [4; 32], folder: kept.folder.clone(), max_bytes: MAX_BYTES };
        assert_eq!(other.find(&file(1)), None);
        let left = fs::read_dir(&kept.folder).expect("it is there").count();
        assert_eq!(left, 2, "nothing is left beside them");
    }

    #[test]
    fn rows_that_are_torn_or_changed_do_not_count() {
        let (_dir, kept) = kept();
        kept.keep(&file(1), &rows(2));
        let path = kept.place(&file(1));
        let whole = fs::read(&path).expect("it is there");
        for len in (0..whole.len()).filter(|len| *len < HEAD_LEN + 20 || len % 101 == 0) {
            fs::write(&path, &whole[..len]).expect("room");
            assert_eq!(kept.find(&file(1)), None, "{len} bytes");
            let mut changed = whole.clone();
            changed[len] ^= 1;
            fs::write(&path, changed).expect("room");
            assert_eq!(kept.find(&file(1)), None, "byte {len} is another one");
        }
        fs::write(&path, &whole).expect("room");
        assert_eq!(kept.find(&file(1)), Some(rows(2)));
    }

    #[test]
    fn what_others_may_write_does_not_count() {
        let (_dir, kept) = kept();
        kept.keep(&file(1), &rows(10));
        let allow = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("own");
        for (path, mode) in [(&kept.folder, 0o770), (&kept.folder, 0o702), (&kept.place(&file(1)), 0o620)] {
            allow(path, mode);
            assert_eq!(kept.find(&file(1)), None, "{mode:o}");
            allow(path, 0o700);
            assert_eq!(kept.find(&file(1)), Some(rows(10)));
        }
        fs::rename(kept.place(&file(1)), kept.folder.join("elsewhere")).expect("own");
        std::os::unix::fs::symlink("elsewhere", kept.place(&file(1))).expect("own");
        assert_eq!(kept.find(&file(1)), None, "a link");
    }

    #[test]
    fn the_rows_that_were_used_least_recently_go_first() {
        let (_dir, mut kept) = kept();
        kept.max_bytes = 3 * (HEAD_LEN as u64 + 10 * CHUNK_LEN as u64);
        let age = |kept: &Kept, number, seconds| {
            let file = File::options().write(true).open(kept.place(&file(number))).expect("it is there");
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("own");
        };
        for number in 1..=3 {
            kept.keep(&file(number), &rows(10));
            age(&kept, number, 100 - u64::from(number));
        }
        assert!(kept.find(&file(1)).is_some());
        kept.keep(&file(4), &rows(10));
        let there: Vec<bool> = (1..=4).map(|number| kept.find(&file(number)).is_some()).collect();
        assert_eq!(there, [true, false, true, true]);
    }
}
