//! Files of others that were found, and how they are read.

use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use super::devices::Whom;
use super::door::Door;
use super::request::{MAX_ANSWER, Meta, Request};
use crate::sys::rest;

/// The addresses at which a process has mapped a file, and the device that the kernel reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapped {
    pub(crate) tgid: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) dev: u64,
}

/// A file that was found. The recorder holds it, but cannot read it: only a reader can.
#[derive(Debug)]
pub(crate) struct ForeignFile {
    /// An `O_PATH` descriptor. It asks no file system anything, and closing it neither.
    at: OwnedFd,
    /// The device that is asked.
    dev: u64,
    meta: Meta,
    /// As whom it is opened: user and group.
    opener: (u32, u32),
}

impl Door {
    /// Finds the file that a process has mapped, by the kernel's own link to it.
    ///
    /// # Errors
    /// As the system calls say; [`io::ErrorKind::TimedOut`] if there was no answer in time, or none in an earlier case, so that nobody was asked.
    pub(crate) fn mapped(&self, at: Mapped) -> io::Result<ForeignFile> {
        let Mapped { tgid, start, end, dev } = at;
        self.found(Whom::Mapped(tgid, dev), &Request::Mapped { tgid, start, end }).map(ForeignFile::of)
    }

    /// Finds the regular file at a path below a folder, as a process with this root folder sees it. Links that lead to the file are followed with
    /// `links`.
    ///
    /// # Errors
    /// As [`Self::mapped`].
    pub(crate) fn below(&self, root: &Path, path: &[u8], links: bool) -> io::Result<ForeignFile> {
        let root = root.as_os_str().as_bytes();
        self.found(Whom::Path, &Request::Below { root, path, links }).map(ForeignFile::of)
    }
}

impl ForeignFile {
    fn of((at, dev, meta): (OwnedFd, u64, Meta)) -> Self {
        Self { at, dev, meta, opener: (0, 0) }
    }

    /// Lets it be read only as far as a user may read it.
    pub(crate) fn opened_as(self, uid: u32, gid: u32) -> Self {
        Self { opener: (uid, gid), ..self }
    }

    /// Returns what the file was when it was found.
    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    fn ask(&self, request: &Request<'_>, door: &Door) -> io::Result<Vec<u8>> {
        door.ask(Whom::Device(self.dev), request, Some(self.at.as_fd())).map(|(bytes, _)| bytes)
    }

    /// Reads all of it; `None` if it has more than `most` bytes, or cannot be read.
    pub(crate) fn bytes(&self, most: u64, door: &Door) -> Option<Vec<u8>> {
        let len = usize::try_from(self.meta.size_bytes).ok().filter(|len| *len as u64 <= most)?;
        let mut bytes = vec![0; len];
        self.read(door).read_exact_at(&mut bytes, 0).ok()?;
        Some(bytes)
    }

    /// Returns its path, as the kernel remembers it; no file system is asked.
    pub(crate) fn path(&self) -> Option<Vec<u8>> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", self.at.as_raw_fd())).ok()?;
        Some(link.into_os_string().into_encoded_bytes())
    }

    /// Returns another descriptor of the same file; `None` if there are too many.
    pub(crate) fn try_clone(&self) -> Option<Self> {
        let Self { dev, meta, opener, .. } = *self;
        Some(Self { at: self.at.try_clone().ok()?, dev, meta, opener })
    }

    /// Returns what the file is now.
    ///
    /// # Errors
    /// As [`Door::mapped`].
    pub(crate) fn meta_now(&self, door: &Door) -> io::Result<Meta> {
        let bytes = self.ask(&Request::Stat, door)?;
        Meta::decode(&bytes).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Begins to read it; it ends where it did when it was found.
    pub(crate) fn read<'a>(&'a self, door: &'a Door) -> Reading<'a> {
        self.read_to(self.meta.size_bytes, door)
    }

    /// Begins to read it up to an end.
    pub(crate) fn read_to<'a>(&'a self, len: u64, door: &'a Door) -> Reading<'a> {
        Reading { file: self, door, off: 0, len, ahead: (0, Vec::new()), until: None }
    }
}

/// A file that is read from the place that was reached. Reading a byte reads those after it, too: a request costs 16 to 30 µs.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    file: &'a ForeignFile,
    door: &'a Door,
    off: u64,
    /// The end, from which a place can be sought.
    len: u64,
    /// Where bytes begin that were read ahead, and these.
    ahead: (u64, Vec<u8>),
    until: Option<Instant>,
}

/// How much is read ahead, bytes.
const AHEAD: usize = 16 << 10;

impl Reading<'_> {
    /// Lets it fail from a time on, as [`rest::now`] tells it.
    pub(crate) fn until(self, at: Instant) -> Self {
        Self { until: Some(at), ..self }
    }

    /// Reads bytes at an offset; fewer at the end of the file.
    pub(crate) fn read_at(&mut self, into: &mut [u8], off: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            let at = off.checked_add(done as u64).ok_or(io::ErrorKind::InvalidInput)?;
            let (begin, bytes) = &self.ahead;
            let known = at.checked_sub(*begin).and_then(|skip| bytes.get(usize::try_from(skip).ok()?..));
            let known = known.filter(|known| !known.is_empty());
            let Some(known) = known else {
                rest::rest();
                // Who reads would try again after an interruption.
                if rest::must_end() || self.until.is_some_and(|until| rest::now() > until) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let len = (into.len() - done).clamp(AHEAD, MAX_ANSWER) as u64;
                let (uid, gid) = self.file.opener;
                let bytes = self.file.ask(&Request::Read { off: at, len, uid, gid }, self.door)?;
                if bytes.is_empty() {
                    break;
                }
                self.ahead = (at, bytes);
                continue;
            };
            let len = known.len().min(into.len() - done);
            into[done..done + len].copy_from_slice(&known[..len]);
            done += len;
        }
        Ok(done)
    }

    /// Reads all of these bytes.
    pub(crate) fn read_exact_at(&mut self, into: &mut [u8], off: u64) -> io::Result<()> {
        let read = self.read_at(into, off)?;
        if read == into.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Read for Reading<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(into, self.off)?;
        self.off += read as u64;
        Ok(read)
    }
}

impl Seek for Reading<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(off) => Some(off),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.off.checked_add_signed(by),
        };
        self.off = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.off)
    }
}
