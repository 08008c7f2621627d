//! The bytes of a file from which its unwind tables were compiled, so that the tables count only for these bytes.
//!
//! Whoever compiles reads the file through [`Noted`], which notes each read. So nothing can be used that is not in the digest.

use std::cell::RefCell;
use std::io;
use std::ops::Range;

use object::read::ReadRef;
use ring::digest::{Context, SHA256};

use crate::foreign::Reading;

/// The most reads that are noted. rustc and its libraries take 48 to 52.
pub(super) const MAX_PARTS: usize = 4096;
/// How much is read at a time, bytes.
const PIECE: usize = 64 << 10;

/// A digest: SHA-256.
pub(super) type Digest = [u8; 32];

/// The parts of a file that were read, in this order, and what was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) parts: Vec<Range<u64>>,
    pub(super) digest: Digest,
}

/// What was read so far; `None` if there were too many reads.
pub(super) struct Notes(RefCell<Option<(Vec<Range<u64>>, Context)>>);

/// A file, each read of which is noted.
#[derive(Clone, Copy)]
pub(super) struct Noted<'n, R> {
    pub(super) file: R,
    pub(super) notes: &'n Notes,
}

impl Source {
    /// Reads these parts of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is shorter.
    pub(super) fn of(parts: &[Range<u64>], file: &mut Reading<'_>) -> io::Result<Self> {
        let (mut digest, mut bytes) = (Context::new(&SHA256), vec![0; PIECE]);
        for part in parts {
            let mut at = part.start;
            while at < part.end {
                let piece = &mut bytes[..PIECE.min(usize::try_from(part.end - at).unwrap_or(PIECE))];
                file.read_exact_at(piece, at)?;
                digest.update(piece);
                at += piece.len() as u64;
            }
        }
        Ok(Self { parts: parts.to_vec(), digest: finished(digest) })
    }
}

fn finished(digest: Context) -> Digest {
    *digest.finish().as_ref().first_chunk().expect("bug: SHA-256 has 32 bytes")
}

impl Notes {
    pub(super) fn new() -> Self {
        Self(RefCell::new(Some((Vec::new(), Context::new(&SHA256)))))
    }

    fn add(&self, off: u64, pieces: [&[u8]; 2]) {
        let mut notes = self.0.borrow_mut();
        let Some((parts, digest)) = &mut *notes else { return };
        let part = off..off + pieces[0].len() as u64 + pieces[1].len() as u64;
        if parts.contains(&part) {
            return;
        }
        pieces.iter().for_each(|piece| digest.update(piece));
        parts.push(part);
        if parts.len() > MAX_PARTS {
            *notes = None;
        }
    }

    /// Returns what was read; `None` if there were more than [`MAX_PARTS`] reads.
    pub(super) fn end(self) -> Option<Source> {
        self.0.into_inner().map(|(parts, digest)| Source { parts, digest: finished(digest) })
    }
}

impl<'d, R: ReadRef<'d>> ReadRef<'d> for Noted<'_, R> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, off: u64, len: u64) -> Result<&'d [u8], ()> {
        let bytes = self.file.read_bytes_at(off, len)?;
        self.notes.add(off, [bytes, &[]]);
        Ok(bytes)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        let bytes = self.file.read_bytes_at_until(range.clone(), delimiter);
        match bytes {
            Ok(bytes) => self.notes.add(range.start, [bytes, &[delimiter]]),
            // There is none: all of the range was read.
            Err(()) => _ = self.read_bytes_at(range.start, range.end.saturating_sub(range.start)),
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::FileExt as _;
    use std::path::Path;

    use icecore_elf::Layout;
    use icecore_elf::walk_rows::WalkRows;
    use object::read::ReadCache;

    use super::*;
    use crate::foreign::{Door, ForeignFile};

    fn compiled(file: &mut Reading<'_>) -> (Option<WalkRows>, Source) {
        let (file, notes) = (ReadCache::new(file), Notes::new());
        let noted = Noted { file: &file, notes: &notes };
        let rows = Layout::read(noted).and_then(|layout| WalkRows::of_file(noted, &layout, &mut || true));
        (rows, notes.end().expect("few reads"))
    }

    #[test]
    fn whatever_changes_the_rows_changes_the_source() {
        let door = Door::of_test();
        let copy = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        std::fs::copy("/bin/true", copy.path()).expect("it is there");
        let len = copy.as_file().metadata().expect("own").len();
        let path = copy.path().as_os_str().as_bytes();
        let found = || -> ForeignFile { door.below(Path::new("/"), path, true).expect("it is there") };
        let source = |parts: &[Range<u64>]| Source::of(parts, &mut found().read(&door)).expect("it is there");
        let (rows, first) = compiled(&mut found().read(&door));
        assert!(rows.is_some() && first.parts.len() > 10 && first.parts.len() < MAX_PARTS / 8);
        assert_eq!(source(&first.parts), first);
        let (mut seen, mut byte) = (0, [0]);
        for off in (0..len).step_by(211) {
            copy.as_file().read_exact_at(&mut byte, off).expect("within");
            copy.as_file().write_all_at(&[byte[0] ^ 0x11], off).expect("own");
            let other = compiled(&mut found().read(&door)).0;
            let is_in = first.parts.iter().any(|part| part.contains(&off));
            assert_eq!(source(&first.parts) != first, is_in, "{off}");
            assert!(is_in || other == rows, "the byte at {off} was not read, and changes the rows");
            seen += u32::from(other != rows);
            copy.as_file().write_all_at(&byte, off).expect("own");
        }
        assert!(seen > 5, "{seen} bytes of many change the rows");
    }
}
