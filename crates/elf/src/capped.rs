//! Bounds what a file may make its reader hold.

use std::ops::Range;

use object::read::ReadRef;

/// A file of which no single read may be longer than `most_bytes`. A [`ReadCache`](object::read::ReadCache) keeps all that it has
/// read, so its reader caps what headers may ask for.
#[derive(Debug, Clone, Copy)]
pub struct Capped<R> {
    /// The file.
    pub file: R,
    /// The longest read, bytes.
    pub most_bytes: u64,
}

impl<'d, R: ReadRef<'d>> ReadRef<'d> for Capped<R> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        if size > self.most_bytes { Err(()) } else { self.file.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        self.file.read_bytes_at_until(range, delimiter)
    }
}
