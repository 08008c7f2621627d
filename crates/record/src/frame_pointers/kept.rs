//! Keeps unwind tables on disk that took long to compile, so that the next recording has them at once.
//!
//! ```text
//! <folder>/<file in hex>.rows   off  size
//!                                 0     8  "ICEROWS" and the version, 2
//!                                 8    32  the file, as the kernel knows it
//!                                40    32  the recorder that wrote this: device, inode, size, time of the last change
//!                                72     8  the offset from which places count
//!                                80     8  how many bytes they cover, and the number of chunks with positions
//!                                88    32  SHA-256 of the parts of the file from which the rows were compiled
//!                               120     4  the number of these parts
//!                               124     4  CRC-32 of these 124 bytes and all that follows
//!                               128    16  a part: its begin and its end in the file; then the others
//!                                    4096  a chunk, as the sampler has it if it is the first one; then the others
//! ```
//!
//! A wrong row is a wrong stack. So only this user and root may be able to change the folder and a file in it, and rows count only for
//! the very bytes of which they were made ([`Source`]), and for the very recorder that wrote them. Whatever is wrong is compiled anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use icecore_files::private;

use super::packed::Packed;
use super::source::{MAX_PARTS, Source};
use crate::kernel::sampler::{Chunk, MAX_CHUNKS, bytes_of};
use crate::kernel::wire::FileKey;
use crate::sys::user;

/// Rows that are compiled in less are not kept.
pub(super) const LONG: Duration = Duration::from_millis(10);
/// The most that is kept in all, bytes; those that were used least recently go first.
pub(crate) const MAX_BYTES: u64 = 256 << 20;
/// A file that nobody has written for so long was left by a recorder that was killed.
const LEFT: Duration = Duration::from_secs(60);
const MAGIC: [u8; 8] = *b"ICEROWS\x02";
const HEAD_LEN: usize = 128;
const PART_LEN: usize = 16;
const CHUNK_LEN: usize = size_of::<Chunk>();
const SUFFIX: &str = ".rows";
/// How names of files begin that are being written.
const NEW: &str = ".new-";

/// The folder.
pub(crate) struct Kept {
    folder: PathBuf,
    maker: [u8; 32],
    max_bytes: u64,
}

impl Kept {
    /// Takes the folder of this user: `$XDG_CACHE_HOME/icecore-record`, or that in `/var/cache` for root and in `~/.cache` for others;
    /// `None` if there is none. Creates nothing before the first rows.
    pub(crate) fn of_user() -> Option<Self> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let of_user = || {
            if user::is_root() { Some("/var/cache".into()) } else { Some(absolute("HOME")?.join(".cache")) }
        };
        let base = absolute("XDG_CACHE_HOME").or_else(of_user)?;
        let maker = maker(&fs::metadata("/proc/self/exe").ok()?);
        Some(Self { folder: base.join("icecore-record"), maker, max_bytes: MAX_BYTES })
    }

    /// Returns the rows of a file and from which of its bytes they were compiled, if they are there and nothing is wrong with them. The
    /// caller compares the bytes.
    pub(super) fn find(&self, of: &FileKey) -> Option<(Packed, Source)> {
        let file = self.open(&self.place(of)).ok()?;
        let mut bytes = Vec::new();
        let most = (HEAD_LEN + MAX_PARTS * PART_LEN + MAX_CHUNKS as usize * CHUNK_LEN) as u64;
        (&file).take(most + 1).read_to_end(&mut bytes).ok()?;
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>()?;
        let u32_at = |at: usize| Some(u32::from_le_bytes(*head[at..].first_chunk()?));
        let [len, of_positions, parts] = [u32_at(80)?, u32_at(84)?, u32_at(120)?];
        let (parts, chunks) = rest.split_at_checked((parts as usize).checked_mul(PART_LEN)?)?;
        let parts = parts.as_chunks::<8>().0.as_chunks::<2>().0.iter().map(|part| {
            let [start, end] = part.map(u64::from_le_bytes);
            start..end
        });
        let (chunks, []) = chunks.as_chunks::<CHUNK_LEN>() else { return None };
        let word = |chunk: &[u8; CHUNK_LEN], at: usize| u64::from_ne_bytes(chunk.as_chunks::<8>().0[at]);
        let chunks: Vec<Chunk> =
            chunks.iter().map(|chunk| std::array::from_fn(|at| word(chunk, at))).collect();
        let begin = u64::from_le_bytes(*head[72..].first_chunk()?);
        let rows = Packed { begin, len, of_positions, chunks };
        let source = Source { parts: parts.collect(), digest: *head[88..].first_chunk()? };
        if *head != self.head(of, &rows, &source) {
            return None;
        }
        // It is used: others go first.
        drop(file.set_modified(SystemTime::now()));
        Some((rows, source))
    }

    /// Keeps the rows of a file. An error has no consequence: they are compiled again.
    pub(super) fn keep(&self, of: &FileKey, rows: &Packed, source: &Source) {
        drop(self.write(of, rows, source).and_then(|()| self.trim()));
    }

    fn write(&self, of: &FileKey, rows: &Packed, source: &Source) -> io::Result<()> {
        private::create(&self.folder)?;
        let mut file = tempfile::Builder::new().prefix(NEW).tempfile_in(&self.folder)?;
        file.write_all(&self.head(of, rows, source))?;
        file.write_all(&bytes_of_parts(&source.parts))?;
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

    fn head(&self, of: &FileKey, rows: &Packed, source: &Source) -> [u8; HEAD_LEN] {
        let mut head = [0; HEAD_LEN];
        head[..8].copy_from_slice(&MAGIC);
        head[8..40].copy_from_slice(&of.0);
        head[40..72].copy_from_slice(&self.maker);
        head[72..80].copy_from_slice(&rows.begin.to_le_bytes());
        head[80..84].copy_from_slice(&rows.len.to_le_bytes());
        head[84..88].copy_from_slice(&rows.of_positions.to_le_bytes());
        head[88..120].copy_from_slice(&source.digest);
        head[120..124].copy_from_slice(&(source.parts.len() as u32).to_le_bytes());
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&head[..124]);
        checksum.update(&bytes_of_parts(&source.parts));
        rows.chunks.iter().for_each(|chunk| checksum.update(&bytes_of(chunk)));
        head[124..].copy_from_slice(&checksum.finalize().to_le_bytes());
        head
    }

    /// Where the rows lie.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns how many files have rows, and the size of all that lies there, bytes.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub(crate) fn size(&self) -> io::Result<(usize, u64)> {
        let files = self.files()?;
        let whole = files.iter().filter(|file| file.is_whole).count();
        Ok((whole, files.iter().map(|file| file.bytes).sum()))
    }

    /// Removes all rows.
    ///
    /// # Errors
    /// If one of them cannot be removed.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.files()?.into_iter().try_for_each(|file| fs::remove_file(file.path))
    }

    /// Lists what is in the folder: nobody but recorders of this user puts anything there.
    fn files(&self) -> io::Result<Vec<KeptFile>> {
        let mut files = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            entries => entries?,
        };
        private::check(&self.folder)?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let is_whole = name.ends_with(SUFFIX.as_bytes());
            if is_whole || name.starts_with(NEW.as_bytes()) {
                let meta = match fs::symlink_metadata(&path) {
                    // Another recorder has removed it, or has renamed what it had written.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    meta => meta?,
                };
                files.push(KeptFile { used: meta.modified()?, bytes: meta.len(), is_whole, path });
            }
        }
        Ok(files)
    }

    /// Removes what killed recorders have left, and the rows that were used least recently if there are too many.
    ///
    /// # Errors
    /// If the folder cannot be listed, or a file cannot be removed.
    pub(super) fn trim(&self) -> io::Result<()> {
        let mut files = self.files()?;
        files.sort_unstable();
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            let is_left = !file.is_whole && file.used.elapsed().is_ok_and(|age| age > LEFT);
            if is_left || bytes > self.max_bytes {
                fs::remove_file(file.path)?;
                bytes -= file.bytes;
            }
        }
        Ok(())
    }
}

/// A file in the folder; ordered by its last use.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeptFile {
    used: SystemTime,
    bytes: u64,
    /// It is not one that is being written, or that a killed recorder has left.
    is_whole: bool,
    path: PathBuf,
}

fn bytes_of_parts(parts: &[Range<u64>]) -> Vec<u8> {
    parts.iter().flat_map(|part| [part.start, part.end]).flat_map(u64::to_le_bytes).collect()
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

    fn source() -> Source {
        Source { parts: vec![0..64, 4096..9000], digest: [7; 32] }
    }

    fn found(kept: &Kept, number: u8) -> Option<Packed> {
        let (rows, told) = kept.find(&file(number))?;
        assert_eq!(told, source());
        Some(rows)
    }

    fn keep(kept: &Kept, number: u8, chunks: u32) {
        kept.keep(&file(number), &rows(chunks), &source());
    }

    #[test]
    fn rows_are_found_for_the_same_file_and_recorder_alone() {
        let (_dir, kept) = kept();
        assert_eq!(found(&kept, 1), None);
        keep(&kept, 1, 30);
        assert_eq!(found(&kept, 1), Some(rows(30)));
        assert_eq!(found(&kept, 2), None);
        // Moved to the place of another file.
        fs::copy(kept.place(&file(1)), kept.place(&file(2))).expect("room");
        assert_eq!(found(&kept, 2), None);
        let other = Kept { maker: [4; 32], folder: kept.folder.clone(), max_bytes: MAX_BYTES };
        assert_eq!(found(&other, 1), None);
        let left = fs::read_dir(&kept.folder).expect("it is there").count();
        assert_eq!(left, 2, "nothing is left beside them");
    }

    #[test]
    fn rows_that_are_torn_or_changed_do_not_count() {
        let (_dir, kept) = kept();
        keep(&kept, 1, 2);
        let path = kept.place(&file(1));
        let whole = fs::read(&path).expect("it is there");
        for len in (0..whole.len()).filter(|len| *len < HEAD_LEN + 20 || len % 101 == 0) {
            fs::write(&path, &whole[..len]).expect("room");
            assert_eq!(found(&kept, 1), None, "{len} bytes");
            let mut changed = whole.clone();
            changed[len] ^= 1;
            fs::write(&path, changed).expect("room");
            assert_eq!(found(&kept, 1), None, "byte {len} is another one");
        }
        fs::write(&path, &whole).expect("room");
        assert_eq!(found(&kept, 1), Some(rows(2)));
    }

    #[test]
    fn what_others_may_write_does_not_count() {
        let (_dir, kept) = kept();
        keep(&kept, 1, 10);
        let allow = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("own");
        for (path, mode) in [(&kept.folder, 0o770), (&kept.folder, 0o702), (&kept.place(&file(1)), 0o620)] {
            allow(path, mode);
            assert_eq!(found(&kept, 1), None, "{mode:o}");
            allow(path, 0o700);
            assert_eq!(found(&kept, 1), Some(rows(10)));
        }
        fs::rename(kept.place(&file(1)), kept.folder.join("elsewhere")).expect("own");
        std::os::unix::fs::symlink("elsewhere", kept.place(&file(1))).expect("own");
        assert_eq!(found(&kept, 1), None, "a link");
    }

    #[test]
    fn the_rows_that_were_used_least_recently_go_first() {
        let (_dir, mut kept) = kept();
        kept.max_bytes = 3 * (HEAD_LEN + 2 * PART_LEN + 10 * CHUNK_LEN) as u64;
        let age = |kept: &Kept, number, seconds| {
            let file = File::options().write(true).open(kept.place(&file(number))).expect("it is there");
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("own");
        };
        for number in 1..=3 {
            keep(&kept, number, 10);
            age(&kept, number, 100 - u64::from(number));
        }
        assert!(found(&kept, 1).is_some());
        keep(&kept, 4, 10);
        let there: Vec<bool> = (1..=4).map(|number| found(&kept, number).is_some()).collect();
        assert_eq!(there, [true, false, true, true]);
    }

    #[test]
    fn what_killed_recorders_have_left_goes_and_what_others_are_writing_stays() {
        let (_dir, kept) = kept();
        keep(&kept, 1, 1);
        let new = |name: &str, seconds| {
            let file = File::create(kept.folder.join(name)).expect("own");
            file.set_len(1000).expect("room");
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("own");
        };
        new(".new-left", 61);
        new(".new-written", 1);
        let own = fs::metadata(kept.place(&file(1))).expect("it is there").len();
        assert_eq!(kept.size().expect("a folder"), (1, own + 2000));
        kept.trim().expect("own");
        let there = |name: &str| kept.folder.join(name).exists();
        assert!(found(&kept, 1).is_some() && !there(".new-left") && there(".new-written"));
        kept.clear().expect("own");
        assert_eq!(kept.size().expect("a folder"), (0, 0));
        fs::remove_dir(&kept.folder).expect("nothing is left");
        assert_eq!(kept.size().expect("no folder"), (0, 0));
    }
}
