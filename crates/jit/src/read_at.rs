//! Reads numbers and bytes at offsets of jitdump files.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// A file, or bytes.
pub trait ReadAt {
    /// Reads bytes at an offset; returns how many there are.
    fn read(&self, off: u64, bytes: &mut [u8]) -> usize;
}

impl ReadAt for File {
    fn read(&self, off: u64, bytes: &mut [u8]) -> usize {
        let mut read = 0;
        while read < bytes.len() {
            match self.read_at(&mut bytes[read..], off.saturating_add(read as u64)) {
                Ok(len @ 1..) => read += len,
                Ok(0) | Err(_) => break,
            }
        }
        read
    }
}

impl ReadAt for [u8] {
    fn read(&self, off: u64, bytes: &mut [u8]) -> usize {
        let rest = usize::try_from(off).ok().and_then(|off| self.get(off..)).unwrap_or_default();
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        len
    }
}

/// Returns the number of 4 bytes at an offset, in the byte order of this machine.
pub fn u32_at(bytes: &[u8], off: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[off..off + 4]);
    u32::from_ne_bytes(value)
}

/// The same, of 8 bytes.
pub fn u64_at(bytes: &[u8], off: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[off..off + 8]);
    u64::from_ne_bytes(value)
}
