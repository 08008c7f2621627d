//! The process that opens and reads files and memory of others. Each of its system calls may wait for ever, and it does nothing else.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, fstatfs, open, openat2};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::request::{MAX_ANSWER, MAX_REQUEST, Meta, NOTHING, Request};
use crate::proc::scan;
use crate::sys::fork;

/// A bit of an entry of `/proc/PID/pagemap`: the page is in memory.
///
/// # Source
/// Linux `Documentation/admin-guide/mm/pagemap.rst`
const PRESENT: u64 = 1 << 63;
/// The size of a page.
const PAGE: u64 = 4096;
/// At most this many bytes of one process's list of mappings are read: 60,000 lines, the kernel's default limit of mappings.
const MAX_MAPS_BYTES: usize = 8 << 20;
/// How much memory is searched at once for pages that are there, bytes.
const MAX_SCANNED: u64 = 64 << 20;

/// Answers requests until the other end of the socket is closed.
pub(super) fn serve(socket: &OwnedFd) {
    let (mut request, mut maps) = ([0; MAX_REQUEST], Vec::new());
    while let Ok((len, file)) = receive(socket, &mut request)
        && len > 0
    {
        let answer = Request::decode(&request[..len]).map_or(Err(NOTHING.into()), |request| {
            carry_out(&request, file.as_ref().map(OwnedFd::as_fd), &mut maps)
        });
        let (status, bytes, found) = match answer {
            Ok(Answer { bytes, found }) => (0, bytes, found),
            Err(Errno(error)) => (error, Vec::new(), None),
        };
        let whole = [&status.to_ne_bytes()[..], &bytes].concat();
        if send(socket, &whole, found.as_ref().map(OwnedFd::as_fd)).is_err() {
            break;
        }
    }
}

struct Answer {
    bytes: Vec<u8>,
    found: Option<OwnedFd>,
}

/// An error number.
struct Errno(i32);

impl From<i32> for Errno {
    fn from(error: i32) -> Self {
        Self(error)
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(NOTHING))
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Self {
        Self(error.raw_os_error())
    }
}

fn carry_out(
    request: &Request<'_>,
    file: Option<BorrowedFd<'_>>,
    maps: &mut Vec<u8>,
) -> Result<Answer, Errno> {
    let file = || file.ok_or(Errno(NOTHING));
    match *request {
        Request::Mapped { tgid, start, end } => {
            let link = scan::folder(tgid).join(format!("map_files/{start:x}-{end:x}"));
            found(open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
        }
        Request::Below { root, path, links } => {
            let root = open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let mut resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            resolve.set(ResolveFlags::NO_SYMLINKS, !links);
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            found(openat2(root, path, flags, Mode::empty(), resolve)?)
        }
        Request::Stat => Ok(Answer { bytes: meta(file()?)?.encode(), found: None }),
        Request::Read { off, len, uid, gid } => {
            let mut bytes = vec![0; (len as usize).min(MAX_ANSWER)];
            let file = opened(file()?, uid, gid)?;
            let read = file.read_at(&mut bytes, off)?;
            bytes.truncate(read);
            Ok(Answer { bytes, found: None })
        }
        Request::Memory { tgid, at, len, present } => {
            Ok(Answer { bytes: memory(tgid, at, len, present)?, found: None })
        }
        Request::Maps { tgid, from } => {
            if from == 0 {
                *maps = all_maps(tgid)?;
            }
            let left = maps.get(from as usize..).unwrap_or_default();
            let bytes = left[..left.len().min(MAX_ANSWER)].to_vec();
            if bytes.len() == left.len() {
                *maps = Vec::new();
            }
            Ok(Answer { bytes, found: None })
        }
    }
}

/// Answers with a file, if it is a regular one.
fn found(file: OwnedFd) -> Result<Answer, Errno> {
    Ok(Answer { bytes: meta(file.as_fd())?.encode(), found: Some(file) })
}

fn meta(file: BorrowedFd<'_>) -> Result<Meta, Errno> {
    Meta::of(&fstat(file)?, &fstatfs(file)?).ok_or(Errno(NOTHING))
}

/// Opens the regular file of an `O_PATH` descriptor for reading, as a user. If somebody holds a lease on it, this fails at once, and the kernel
/// asks the holder to give the lease up.
fn opened(file: BorrowedFd<'_>, uid: u32, gid: u32) -> Result<File, Errno> {
    fork::open_as(uid, gid);
    let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = open(link, flags, Mode::empty());
    fork::open_as(0, 0);
    Ok(opened?.into())
}

/// Reads memory, and says how many bytes were skipped.
fn memory(tgid: u32, at: u64, len: u64, present: bool) -> Result<Vec<u8>, Errno> {
    let folder = scan::folder(tgid);
    let (skipped, len) = if present { first_present(&folder, at, len)? } else { (0, len) };
    let mut answer = skipped.to_ne_bytes().to_vec();
    // Whole pages, if the range begins with one.
    answer.resize(answer.len() + (len as usize).min(MAX_ANSWER - PAGE as usize), 0);
    File::open(folder.join("mem"))?.read_exact_at(&mut answer[8..], at + skipped)?;
    Ok(answer)
}

/// Reads the text of `/proc/PID/maps`, at most [`MAX_MAPS_BYTES`] of it. Whoever maps a file over one whose server does not answer holds the lock
/// that this needs.
fn all_maps(tgid: u32) -> Result<Vec<u8>, Errno> {
    let (file, mut text) = (File::open(scan::folder(tgid).join("maps"))?, Vec::new());
    loop {
        let begin = text.len();
        text.resize(MAX_MAPS_BYTES.min(begin + PAGE as usize), 0);
        let read = file.read_at(&mut text[begin..], begin as u64)?;
        text.truncate(begin + read);
        if read == 0 {
            return Ok(text);
        }
    }
}

/// Finds the first bytes of a range whose pages are in memory: how many come before them, and how many they are.
fn first_present(folder: &Path, at: u64, len: u64) -> Result<(u64, u64), Errno> {
    let end = at.checked_add(len.min(MAX_SCANNED)).ok_or(NOTHING)?;
    let mut entries = vec![0; ((end.div_ceil(PAGE) - at / PAGE) * 8) as usize];
    let from = (at / PAGE).checked_mul(8).ok_or(NOTHING)?;
    let read = File::open(folder.join("pagemap"))?.read_at(&mut entries, from)?;
    let is_there = |entry: &[u8; 8]| u64::from_le_bytes(*entry) & PRESENT != 0;
    let entries = &entries[..read].as_chunks::<8>().0;
    let missing = entries.iter().take_while(|entry| !is_there(entry)).count();
    let there = entries[missing..].iter().take_while(|entry| is_there(entry)).count();
    let page = |number: usize| ((at / PAGE + number as u64) * PAGE).clamp(at, end);
    Ok((page(missing) - at, page(missing + there) - page(missing)))
}

/// Sends a message, and a descriptor with it.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> rustix::io::Result<()> {
    let files = file.as_slice();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(files));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL).map(drop)
}

/// Receives a message, and the descriptor with it; 0 bytes if the other end is closed.
pub(super) fn receive(socket: &OwnedFd, into: &mut [u8]) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(into)], &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let files = beside.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    Ok((received.bytes, files.last()))
}
