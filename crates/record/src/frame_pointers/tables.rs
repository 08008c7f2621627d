//! Gives the sampler the unwind tables of files whose code is often on stacks, so that it can walk there.
//!
//! ```text
//! sampler: no table ─► requested: the file with most hits first ─► thread: unwind tables ─► rows ─► chunks ─► sampler
//!                                                                   kept from before ─┘
//! ```
//!
//! Nobody waits for the tables: until they are there, the sampler copies stacks.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;
use std::time::Instant;

use icecore_elf::Layout;
use icecore_elf::walk_rows::WalkRows;
use object::read::{ReadCache, ReadRef};
use rustc_hash::{FxHashMap, FxHashSet};

use super::kept::{self, Kept};
use super::packed::{POSITIONS, Packed};
use crate::foreign::memory::Memory;
use crate::foreign::{Door, ForeignFile, Mapped};
use crate::kernel::sampler::{self, MAX_CHUNKS, MAX_TABLES};
use crate::kernel::wire::{FileKey, NoTable};

/// How often a file must be hit before its tables are compiled.
const ENOUGH_HITS: u32 = 2;
/// The number of files that are requested of the thread at a time, so that it has more to do while the recorder sleeps, for 100 ms at most.
const MAX_OPEN: usize = 4;
/// The number of files that may wait.
const MAX_REQUESTS: usize = 4096;
/// The number of those that are kept open.
const MAX_HELD: usize = 64;
/// The largest vDSO that is read.
const MAX_VDSO_BYTES: usize = 64 << 10;

/// The files whose tables are requested, and the thread that compiles them.
pub(super) struct Tables {
    requests: FxHashMap<FileKey, Request>,
    /// Files that are being compiled, were compiled, or have no tables.
    done: FxHashSet<FileKey>,
    /// How many files the thread has not looked at yet.
    open: usize,
    sender: SyncSender<Request>,
    /// Files that were looked at; false if the file could not be opened, because its process had ended.
    answers: Receiver<(FileKey, bool)>,
}

/// A file whose tables are requested.
struct Request {
    hits: u32,
    missed: NoTable,
    /// The file, if it was held open since it was mapped.
    held: Option<ForeignFile>,
}

impl Tables {
    /// Starts the thread. What it compiles goes to `kept`, and what is there it does not compile.
    ///
    /// # Errors
    /// If the kernel makes no thread.
    pub(super) fn start(sampler: sampler::Tables, kept: Option<Kept>, door: Door) -> std::io::Result<Self> {
        let (sender, received) = sync_channel::<Request>(MAX_OPEN);
        let (answer, answers) = channel();
        Builder::new().name("icecore-tables".to_owned()).spawn(move || {
            let mut filled = Filled { sampler, files: 0, chunks: 0 };
            for request in received {
                let key = request.missed.file;
                let kept = kept.as_ref().filter(|_| key.is_on_disk());
                let rows = match kept.and_then(|kept| kept.find(&key)) {
                    Some(rows) => Some(Some(rows)),
                    None => request.rows_to_keep(kept, &door),
                };
                let is_done = rows.is_some();
                rows.into_iter().for_each(|rows| filled.add(&key, rows));
                if answer.send((key, is_done)).is_err() {
                    break;
                }
            }
        })?;
        let (requests, done) = Default::default();
        Ok(Self { requests, done, open: 0, sender, answers })
    }

    /// Notes that a walk lacked the tables of a file. `held` opens the file that is said to be mapped there, if it can.
    pub(super) fn miss(&mut self, missed: &NoTable, held: impl FnOnce() -> Option<ForeignFile>) {
        if self.done.contains(&missed.file) {
            return;
        }
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.clear();
        }
        let may_hold = self.requests.values().filter(|request| request.held.is_some()).count() < MAX_HELD;
        let new = || Request { hits: 0, missed: *missed, held: None };
        let request = self.requests.entry(missed.file).or_insert_with(new);
        request.hits += 1;
        request.missed = *missed;
        if request.hits == ENOUGH_HITS && may_hold {
            request.held = held();
        }
        self.settle();
    }

    /// Has the tables of the files compiled that were hit most, if the thread has room for them.
    pub(super) fn settle(&mut self) {
        for (file, is_done) in self.answers.try_iter() {
            self.open -= 1;
            if !is_done {
                self.done.remove(&file);
            }
        }
        while self.open < MAX_OPEN {
            let most = self.requests.values().max_by_key(|request| request.hits);
            let most = most.filter(|most| most.hits >= ENOUGH_HITS).map(|most| most.missed.file);
            let Some(request) = most.and_then(|file| self.requests.remove(&file)) else { break };
            self.done.insert(request.missed.file);
            self.open += usize::from(self.sender.try_send(request).is_ok());
        }
    }
}

/// The tables that the sampler has.
struct Filled {
    sampler: sampler::Tables,
    files: usize,
    chunks: u32,
}

impl Filled {
    /// Gives the sampler the tables of a file, or tells it that there are none or no room for them: then it goes on copying stacks, and
    /// does not ask again.
    fn add(&mut self, key: &FileKey, rows: Option<Packed>) {
        if self.files >= MAX_TABLES {
            return;
        }
        let put = rows.and_then(|rows| self.put(key, rows));
        let published = put.unwrap_or_else(|| self.sampler.publish(key, 0, 0, 0));
        self.files += usize::from(published.is_ok());
    }

    /// Gives the sampler rows; `None` if there is no room for them.
    fn put(&mut self, key: &FileKey, mut rows: Packed) -> Option<anyhow::Result<()>> {
        let first = self.chunks;
        let end =
            first.checked_add(u32::try_from(rows.chunks.len()).ok()?).filter(|end| *end <= MAX_CHUNKS)?;
        rows.move_to(first);
        let put = self.sampler.put(first, &rows.chunks);
        // What an error has left there is not used.
        self.chunks = end;
        Some(put.and_then(|()| self.sampler.publish(key, rows.begin, rows.len, first * POSITIONS as u32)))
    }
}

impl Request {
    /// Compiles the tables as [`Self::rows`] does, and keeps them if that takes long.
    fn rows_to_keep(self, kept: Option<&Kept>, door: &Door) -> Option<Option<Packed>> {
        let (key, begun) = (self.missed.file, Instant::now());
        let rows = self.rows(door)?;
        let is_long = begun.elapsed() >= kept::LONG;
        if let (Some(kept), Some(rows), true) = (kept, &rows, is_long) {
            kept.keep(&key, rows);
        }
        Some(rows)
    }

    /// Compiles the tables, `Some(None)` if there are none; `None` if the code cannot be read.
    fn rows(self, door: &Door) -> Option<Option<Packed>> {
        let key = self.missed.file;
        if key.is_vdso() {
            return Some(rows(&self.memory(door)?[..]));
        }
        // Another file may be mapped there meanwhile, or somebody may overwrite this one.
        let is_it = |file: &ForeignFile| file.meta_now(door).is_ok_and(|meta| key.is_of(&meta));
        let file = self.open(is_it, door)?;
        // It may have been held since it was shorter.
        let len = file.meta_now(door).ok()?.size_bytes;
        let rows = rows(&ReadCache::new(file.read_to(len, door)));
        is_it(&file).then_some(rows)
    }

    /// Opens the file: that which was held, or by the kernel's own link to what a process has mapped, while the process lives.
    fn open(self, is_it: impl Fn(&ForeignFile) -> bool, door: &Door) -> Option<ForeignFile> {
        let NoTable { tgid, start, end, file } = self.missed;
        let at = Mapped { tgid, start: start.0, end: end.0, dev: file.dev() };
        self.held.filter(&is_it).or_else(|| door.mapped(at).ok().filter(is_it))
    }

    /// Reads the code from the memory of the process, while it lives.
    fn memory(&self, door: &Door) -> Option<Vec<u8>> {
        let NoTable { tgid, start, end, .. } = self.missed;
        let len = usize::try_from(end.0.checked_sub(start.0)?).ok().filter(|len| *len <= MAX_VDSO_BYTES)?;
        Memory::of(tgid, door).bring(start.0, len)
    }
}

fn rows<'d>(file: impl ReadRef<'d>) -> Option<Packed> {
    Packed::of(&WalkRows::of_file(file, &Layout::read(file)?)?)
}
