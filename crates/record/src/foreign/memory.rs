//! The memory of another process, and what it has mapped there.
//!
//! Most of it is read only as far as it is there: for a page that is not, the kernel would ask the file system, whose server may never answer
//! (FUSE), and the page would be brought into memory for the process.

use std::cell::RefCell;
use std::io;
use std::ops::Range;

use super::devices::Whom;
use super::door::Door;
use super::request::{MAX_ANSWER, Request};

/// The size of a page.
pub(crate) const PAGE: u64 = 4096;

/// The memory of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory<'a> {
    door: &'a Door,
    tgid: u32,
    pages: Option<&'a Pages>,
}

/// Pages that were read, the oldest first: to read small objects, of which many lie in a page.
#[derive(Debug, Default)]
pub(crate) struct Pages(RefCell<Vec<(u64, Vec<u8>)>>);

/// How many pages are kept.
const MAX_PAGES: usize = 64;

impl<'a> Memory<'a> {
    pub(crate) fn of(tgid: u32, door: &'a Door) -> Self {
        Self { door, tgid, pages: None }
    }

    /// Reads each page once, and remembers it: what is read again is as it was.
    pub(crate) fn through(self, pages: &'a Pages) -> Self {
        Self { pages: Some(pages), ..self }
    }

    /// Returns the id of the process.
    pub(crate) fn tgid(&self) -> u32 {
        self.tgid
    }

    /// Reads the text of `/proc/PID/maps`, at most 8 MiB of it; empty for threads of the kernel.
    ///
    /// # Errors
    /// If the recorder may not read it, or `TimedOut` if the process lets nobody read it: it maps memory, and waits for the server of a file.
    pub(crate) fn maps(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        loop {
            let request = Request::Maps { tgid: self.tgid, from: text.len() as u64 };
            let (bytes, _) = self.door.ask(Whom::Process(self.tgid), &request, None)?;
            text.extend_from_slice(&bytes);
            if bytes.len() < MAX_ANSWER {
                return Ok(text);
            }
        }
    }

    /// Reads bytes; returns false if one of their pages is not there.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> bool {
        if let Some(pages) = self.pages {
            return pages.read(self, at, into);
        }
        let bytes = self.read_up_to(at, into.len());
        let is_whole = bytes.len() == into.len();
        if is_whole {
            into.copy_from_slice(&bytes);
        }
        is_whole
    }

    /// Reads bytes up to the first page that is not there.
    pub(crate) fn read_up_to(&self, at: u64, most: usize) -> Vec<u8> {
        let mut found = Vec::new();
        while found.len() < most {
            let Some(from) = at.checked_add(found.len() as u64) else { break };
            let left = (most - found.len()) as u64;
            match self.door.memory(self.tgid, from, left, true) {
                Ok((0, bytes)) if !bytes.is_empty() => found.extend(bytes),
                _ => break,
            }
        }
        found
    }

    /// Hands over the bytes of a range that are there, in parts, with the address of each.
    pub(crate) fn parts(&self, range: Range<u64>, mut each: impl FnMut(u64, &[u8])) {
        let mut at = range.start;
        while at < range.end
            && let Ok((skipped, bytes)) = self.door.memory(self.tgid, at, range.end - at, true)
            && (skipped > 0 || !bytes.is_empty())
        {
            each(at + skipped, &bytes);
            at += skipped + bytes.len() as u64;
        }
    }

    /// Reads bytes, whether they are there or must be brought into memory; `None` if they cannot be read.
    pub(crate) fn bring(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        let mut found = Vec::with_capacity(len);
        while found.len() < len {
            let from = at.checked_add(found.len() as u64)?;
            found.extend(self.door.memory(self.tgid, from, (len - found.len()) as u64, false).ok()?.1);
        }
        Some(found)
    }
}

impl Pages {
    fn read(&self, memory: &Memory<'_>, at: u64, into: &mut [u8]) -> bool {
        let mut at = at;
        let mut rest = into;
        while !rest.is_empty() {
            let off = (at % PAGE) as usize;
            let len = rest.len().min(PAGE as usize - off);
            let (part, behind) = rest.split_at_mut(len);
            let is_read = self.page(memory, at - at % PAGE, |page| part.copy_from_slice(&page[off..][..len]));
            let (true, Some(next)) = (is_read, at.checked_add(len as u64)) else { return false };
            (at, rest) = (next, behind);
        }
        true
    }

    /// Hands over a page; returns false if it is not there.
    fn page(&self, memory: &Memory<'_>, begin: u64, take: impl FnOnce(&[u8])) -> bool {
        let mut pages = self.0.borrow_mut();
        if let Some((_, page)) = pages.iter().find(|page| page.0 == begin) {
            take(page);
            return true;
        }
        let page = Memory { pages: None, ..*memory }.read_up_to(begin, PAGE as usize);
        if page.len() < PAGE as usize {
            return false;
        }
        take(&page);
        if pages.len() >= MAX_PAGES {
            pages.remove(0);
        }
        pages.push((begin, page));
        true
    }
}
