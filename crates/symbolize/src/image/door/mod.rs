//! Opens files at paths that a recording names, so that no file system keeps the report waiting (FUSE, NFS).
//!
//! ```text
//! path ──► on a file system of this machine? ──yes──► opened here, and mapped
//!              │ no
//!              └──request──► reader (a process) ──► open, read all of it
//!                   ◄──copy──────┘
//!                   └─ no answer in time: the reader is killed, nobody waits for it, another one is started
//! ```
//!
//! A system call on such a file can wait for ever, and then its process cannot end, not even by SIGKILL, with however many threads it
//! waits. So another process makes these calls, and what the report maps is a copy. The kernel says in `/proc/self/mountinfo`, without
//! asking a file system, which ones are local, and ensures that a path leads to no other one. Who has not answered is not asked again.
//!
//! Paths that the user typed are opened without this: there the user decides whom to wait for.

mod mounts;
mod reader;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::ResolveFlags;

use super::ElfFile;
use crate::Reason;
use mounts::Mounts;
use reader::Reader;
pub use reader::{READER, answer_requests};

/// For how long one step of an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// For how long all answers of a door may take.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The most bytes that a door copies.
const MAX_COPIED: u64 = 4 << 30;

/// The way to files at paths that a recording names.
#[derive(Debug, Default)]
pub struct Door {
    /// `None`: every file is opened here, and may keep the report waiting.
    asks: Option<Asks>,
}

/// Who is asked for files that are not local.
#[derive(Debug)]
struct Asks {
    program: PathBuf,
    mounts: Mounts,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    reader: Option<Reader>,
    /// Mounts that have not answered.
    silent: HashSet<PathBuf>,
    wait_left: Duration,
    bytes_left: u64,
}

impl Door {
    /// Opens a way on which another process opens what is not local: `program`, which must call [`answer_requests`] if its own name is
    /// [`READER`].
    ///
    /// Without `/proc` nobody can tell what is local, and every file is opened here.
    pub fn asking(program: PathBuf) -> Self {
        let state =
            State { reader: None, silent: HashSet::new(), wait_left: MAX_WAIT, bytes_left: MAX_COPIED };
        Self { asks: Mounts::here().map(|mounts| Asks { program, mounts, state: Mutex::new(state) }) }
    }

    /// Opens a regular file. With `root`, as a process with this root folder would.
    ///
    /// # Errors
    /// [`Reason::NoAnswer`] if its file system does not answer in time, or has not before.
    ///
    /// # Cost   a file that is not local is copied whole
    pub fn open(&self, root: Option<&Path>, path: &Path) -> Result<ElfFile, Reason> {
        match (&self.asks, root) {
            (Some(_), None) if !path.is_absolute() => Err(Reason::ImageMissing),
            (Some(asks), _) => asks.near(root, path).unwrap_or_else(|| asks.far(root, path)),
            (None, Some(root)) => ElfFile::open_beneath(root, path),
            (None, None) => ElfFile::open(path),
        }
    }
}

impl Asks {
    /// Opens a file that is local; `None` if it may not be. The user chose the file system of a root folder.
    fn near(&self, root: Option<&Path>, path: &Path) -> Option<Result<ElfFile, Reason>> {
        if let Some(root) = root {
            return ElfFile::open_near(root, path, ResolveFlags::IN_ROOT);
        }
        let point = self.mounts.point(path);
        let rest = path.strip_prefix(point).ok().filter(|_| self.mounts.is_local(point))?;
        // From an absolute path the kernel follows absolute links as well, as long as they stay on its file system.
        let rest = if point == Path::new("/") { path } else { rest };
        let rest = if rest.as_os_str().is_empty() { Path::new(".") } else { rest };
        ElfFile::open_near(point, rest, ResolveFlags::empty())
    }

    /// Lets the reader open a file, and copies it.
    fn far(&self, root: Option<&Path>, path: &Path) -> Result<ElfFile, Reason> {
        let below = root.map(|root| root.join(path.strip_prefix("/").unwrap_or(path)));
        let point = self.mounts.point(below.as_deref().unwrap_or(path));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.wait_left.is_zero() || state.silent.contains(point) {
            return Err(Reason::NoAnswer);
        }
        let begun = Instant::now();
        let reader = state.reader.take().map_or_else(|| Reader::start(&self.program), Ok);
        let mut reader = reader.map_err(|_| Reason::ImageUnreadable)?;
        let answer = reader.ask((root, path), begun + state.wait_left, state.bytes_left);
        state.wait_left = state.wait_left.saturating_sub(begun.elapsed());
        match answer {
            Ok(opened) => {
                state.reader = Some(reader);
                state.bytes_left -= opened.as_ref().map_or(0, |file| file.len);
                opened
            }
            Err(error) => {
                reader.give_up();
                if !reader::is_late(&error) {
                    return Err(Reason::ImageUnreadable);
                }
                // A link can lead from a local file system to one that does not answer.
                if !self.mounts.is_local(point) {
                    state.silent.insert(point.to_owned());
                }
                Err(Reason::NoAnswer)
            }
        }
    }
}
