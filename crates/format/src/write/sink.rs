//! Where a recording is written to: a file, in which a torn block can be cut off, or a stream, in which it stays.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;

/// Takes the bytes of a recording.
pub(super) trait Sink: Send {
    /// Writes all bytes from `off` on, which is the end of what was written; in a file, `off` may also be before it.
    fn put(&mut self, off: u64, bytes: &[u8]) -> Result<(), Torn>;

    /// Truncates to `end`, if that is possible.
    fn cut_back_to(&mut self, end: u64);

    /// Returns once all that was written has reached the disk.
    fn sync(&mut self) -> io::Result<()>;

    /// Returns all that was written; `None` if it is not in memory.
    fn bytes(&self) -> Option<&[u8]> {
        None
    }
}

/// A write that failed in the middle.
#[derive(Debug)]
pub(super) struct Torn {
    pub(super) cause: io::Error,
    /// Bytes of it that can neither be taken back nor be written over.
    pub(super) stays: u64,
}

impl Sink for File {
    fn put(&mut self, off: u64, bytes: &[u8]) -> Result<(), Torn> {
        self.write_all_at(bytes, off).map_err(|cause| {
            if off > 0 {
                self.cut_back_to(off);
            }
            Torn { cause, stays: 0 }
        })
    }

    fn cut_back_to(&mut self, end: u64) {
        // If this fails as well, the next block is written over the torn one, or the reader passes over it.
        let _ = self.set_len(end);
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Memory is taken for so many more bytes than are needed.
const ROOM: usize = 256 << 10;

/// Memory.
#[derive(Debug, Default)]
pub(super) struct Held(Vec<u8>);

impl Sink for Held {
    fn put(&mut self, off: u64, bytes: &[u8]) -> Result<(), Torn> {
        let off = off as usize;
        let end = self.0.len().max(off + bytes.len());
        if end > self.0.capacity() {
            // Not twice as much, as a vector by itself would.
            self.0.reserve_exact(end - self.0.len() + ROOM);
        }
        self.0.resize(end, 0);
        self.0[off..off + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn cut_back_to(&mut self, end: u64) {
        self.0.truncate(end as usize);
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}

/// Something that takes bytes one after the other.
pub(super) struct Stream<W>(pub(super) W);

impl<W: Write + Send> Sink for Stream<W> {
    fn put(&mut self, _off: u64, mut bytes: &[u8]) -> Result<(), Torn> {
        let mut stays = 0;
        while !bytes.is_empty() {
            let cause = match self.0.write(bytes) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(taken) => {
                    stays += taken as u64;
                    bytes = &bytes[taken..];
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Somebody made the pipe non-blocking, and its reader is slow.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    continue;
                }
                Err(error) => error,
            };
            return Err(Torn { cause, stays });
        }
        self.0.flush().map_err(|cause| Torn { cause, stays })
    }

    fn cut_back_to(&mut self, _end: u64) {}

    fn sync(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
