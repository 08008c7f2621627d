//! The memory of another process, as far as it is there.
//!
//! A page that is not in memory is not read: for it the kernel would ask the file system, whose server may never answer (FUSE).

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::scan;

/// The size of a page.
pub(crate) const PAGE: u64 = 4096;
/// The bit of an entry of `/proc/PID/pagemap` that says that the page is in memory.
///
/// # Source
/// Linux `Documentation/admin-guide/mm/pagemap.rst`
const PRESENT: u64 = 1 << 63;

/// The memory of a process.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes: File,
    pages: File,
}

impl Memory {
    /// Opens the memory of a process; `None` if it is gone.
    pub(crate) fn of(tgid: u32) -> Option<Self> {
        let folder = scan::folder(tgid);
        Some(Self {
            bytes: File::open(folder.join("mem")).ok()?,
            pages: File::open(folder.join("pagemap")).ok()?,
        })
    }

    /// Reads bytes; returns false if one of their pages is not there.
    pub(crate) fn read(&self, at: u64, bytes: &mut [u8]) -> bool {
        let Some(last) = at.checked_add((bytes.len() as u64).saturating_sub(1)) else { return false };
        self.are_there(at / PAGE, last / PAGE) && self.bytes.read_exact_at(bytes, at).is_ok()
    }

    /// Reads bytes up to the first page that is not there.
    pub(crate) fn read_up_to(&self, at: u64, most: usize) -> Vec<u8> {
        let mut found = Vec::new();
        while found.len() < most {
            let Some(from) = at.checked_add(found.len() as u64) else { break };
            let len = (PAGE - from % PAGE).min((most - found.len()) as u64) as usize;
            let mut page = vec![0; len];
            if !self.read(from, &mut page) {
                break;
            }
            found.append(&mut page);
        }
        found
    }

    fn are_there(&self, first: u64, last: u64) -> bool {
        let mut entries = vec![0; ((last - first + 1) * 8) as usize];
        let Some(at) = first.checked_mul(8) else { return false };
        let is_there = |entry: &[u8; 8]| u64::from_le_bytes(*entry) & PRESENT != 0;
        self.pages.read_exact_at(&mut entries, at).is_ok() && entries.as_chunks().0.iter().all(is_there)
    }
}
