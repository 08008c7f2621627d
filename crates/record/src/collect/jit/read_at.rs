//! Reads numbers and bytes at offsets of jitdump files.

use std::cell::RefCell;

use crate::foreign::Reading;

/// A file, or bytes.
pub trait ReadAt {
    /// Reads bytes at an offset; returns how many there are.
    fn read(&self, off: u64, bytes: &mut [u8]) -> usize;
}

impl ReadAt for RefCell<Reading<'_>> {
    fn read(&self, off: u64, bytes: &mut [u8]) -> usize {
        self.borrow_mut().read_at(bytes, off).unwrap_or(0)
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

pub(super) fn u32_at(bytes: &[u8], off: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[off..off + 4]);
    u32::from_ne_bytes(value)
}

pub(super) fn u64_at(bytes: &[u8], off: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[off..off + 8]);
    u64::from_ne_bytes(value)
}
