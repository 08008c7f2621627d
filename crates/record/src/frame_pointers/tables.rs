//! Gives the sampler the unwind tables of files whose code is often on stacks, so that it can walk there.
//!
//! ```text
//! sampler: no table ─► requested: the file with most hits first ─► thread: unwind tables ─► rows ─► chunks ─► sampler
//!                                                                   kept from before ─┘
//! ```
//!
//! Nobody waits for the tables: until they are there, the sampler copies stacks.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;
use std::time::Instant;

use icecore_elf::Layout;
use icecore_elf::walk_rows::WalkRows;
use object::read::{ReadCache, ReadRef};
use rustc_hash::{FxHashMap, FxHashSet};

use super::kept::{self, Kept};
use crate::kernel::sampler::{self, Chunk, MAX_CHUNKS, MAX_TABLES};
use crate::kernel::wire::{FileKey, NoTable};
use crate::machine::identity::open_regular;
use crate::proc::scan;
use crate::skeleton::types::limits;

/// How often a file must be hit before its tables are compiled.
const ENOUGH_HITS: u32 = 2;
/// The number of files that are requested of the thread at a time, so that it has more to do while the recorder sleeps, for 100 ms at most.
const MAX_OPEN: usize = 4;
/// The number of files that may wait.
const MAX_REQUESTS: usize = 4096;
/// The number of those that are kept open.
const MAX_HELD: usize = 64;
/// The longest code of a file, from the first function to the last: four bytes for each 256 of it are kept.
const MAX_CODE_BYTES: u32 = 1 << 30;
/// The largest vDSO that is read.
const MAX_VDSO_BYTES: usize = 64 << 10;
/// The rows of a chunk, and the positions.
const ROWS: usize = size_of::<Chunk>() / size_of::<u64>();
const POSITIONS: usize = size_of::<Chunk>() / size_of::<u32>();
const BLOCK_BITS: u32 = limits::CODE_BLOCK_BITS.0;
const COUNT_BITS: u32 = limits::POSITION_COUNT_BITS.0;
/// A row that no place reaches.
const BEYOND: u64 = u32::MAX as u64;

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

/// Rows as the sampler gets them: chunks with the position of each block of code, then chunks with rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packed {
    /// The offset in the file from which places count, bytes.
    pub(super) begin: u64,
    /// How much code the rows cover, bytes.
    pub(super) len: u32,
    /// The number of chunks that have positions. These count from the first chunk on.
    pub(super) of_positions: u32,
    pub(super) chunks: Vec<Chunk>,
}

/// A file whose tables are requested.
struct Request {
    hits: u32,
    missed: NoTable,
    /// The file, if it was held open since it was mapped.
    held: Option<File>,
}

impl Tables {
    /// Starts the thread. What it compiles goes to `kept`, and what is there it does not compile.
    ///
    /// # Errors
    /// If the kernel makes no thread.
    pub(super) fn start(sampler: sampler::Tables, kept: Option<Kept>) -> std::io::Result<Self> {
        let (sender, received) = sync_channel::<Request>(MAX_OPEN);
        let (answer, answers) = channel();
        Builder::new().name("icecore-tables".to_owned()).spawn(move || {
            let mut filled = Filled { sampler, files: 0, chunks: 0 };
            for request in received {
                let key = request.missed.file;
                let kept = kept.as_ref().filter(|_| key.is_on_disk());
                let rows = match kept.and_then(|kept| kept.find(&key)) {
                    Some(rows) => Some(Some(rows)),
                    None => request.rows_to_keep(kept),
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
    pub(super) fn miss(&mut self, missed: &NoTable, held: impl FnOnce() -> Option<File>) {
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
    fn rows_to_keep(self, kept: Option<&Kept>) -> Option<Option<Packed>> {
        let (key, begun) = (self.missed.file, Instant::now());
        let rows = self.rows()?;
        let is_long = begun.elapsed() >= kept::LONG;
        if let (Some(kept), Some(rows), true) = (kept, &rows, is_long) {
            kept.keep(&key, rows);
        }
        Some(rows)
    }

    /// Compiles the tables, `Some(None)` if there are none; `None` if the code cannot be read.
    fn rows(self) -> Option<Option<Packed>> {
        let key = self.missed.file;
        if key.is_vdso() {
            return Some(rows(&self.memory()?[..]));
        }
        // Another file may be mapped there meanwhile, or somebody may overwrite this one.
        let is_it = |file: &File| file.metadata().is_ok_and(|meta| key.is_of(&meta));
        let file = self.open(is_it)?;
        let rows = rows(&ReadCache::new(&file));
        is_it(&file).then_some(rows)
    }

    /// Opens the file: that which was held, or by the kernel's own link to what a process has mapped, while the process lives.
    fn open(self, is_it: impl Fn(&File) -> bool) -> Option<File> {
        let link = format!("map_files/{:x}-{:x}", self.missed.start.0, self.missed.end.0);
        let mapped = || open_regular(&scan::folder(self.missed.tgid).join(link));
        self.held.filter(&is_it).or_else(|| mapped().filter(is_it))
    }

    /// Reads the code from the memory of the process, while it lives.
    fn memory(&self) -> Option<Vec<u8>> {
        let NoTable { tgid, start, end, .. } = self.missed;
        let len = usize::try_from(end.0.checked_sub(start.0)?).ok().filter(|len| *len <= MAX_VDSO_BYTES)?;
        let mut bytes = vec![0; len];
        File::open(scan::folder(tgid).join("mem")).ok()?.read_exact_at(&mut bytes, start.0).ok()?;
        Some(bytes)
    }
}

fn rows<'d>(file: impl ReadRef<'d>) -> Option<Packed> {
    Packed::of(&WalkRows::of_file(file, &Layout::read(file)?)?)
}

/// Compiles the tables of a file as the sampler gets them, and looks up places all over it. For fuzzing: what is found must be the row that
/// holds there.
pub fn check_tables(file: &[u8]) {
    let Some(rows) = Layout::read(file).and_then(|layout| WalkRows::of_file(file, &layout)) else { return };
    assert!(rows.rows.is_sorted_by(|before, after| before.at < after.at), "rows ascend");
    let Some(mut packed) = Packed::of(&rows) else { return };
    packed.move_to(3);
    for place in (0..packed.len).step_by(packed.len as usize / 1024 + 1) {
        let holds = rows.rows[..rows.rows.partition_point(|row| row.at <= place)].last();
        assert_eq!(row_at(&packed.chunks, 3, place), holds.map(|row| row.bits()), "{place}");
    }
}

/// Returns what `find_row` of bpf/tables.h returns.
fn row_at(chunks: &[Chunk], first: u32, place: u32) -> Option<u64> {
    let words = chunks.as_flattened();
    let block = (place >> BLOCK_BITS) as usize;
    let position = (words[block / 2] >> (block % 2 * 32)) as u32;
    let at = (position >> COUNT_BITS) as usize;
    if position == 0 {
        return None;
    }
    let at = at - first as usize * ROWS;
    let rows = &words[at..=at + (position & ((1 << COUNT_BITS) - 1)) as usize];
    assert_eq!(
        at / ROWS,
        (at + rows.len()) / ROWS,
        "the rows of a block, and the one after them, are in one chunk"
    );
    let next = rows.partition_point(|row| *row as u32 <= place);
    assert!(words[at + next] as u32 > place);
    next.checked_sub(1).map(|at| rows[at])
}

impl Packed {
    /// Puts rows into chunks; `None` if there are none, or they cover too much code.
    fn of(rows: &WalkRows) -> Option<Self> {
        let (begin, rows) = (rows.begin, &rows.rows);
        let len = rows.last().map(|last| last.at).filter(|len| *len <= MAX_CODE_BYTES)?;
        let blocks = (len >> BLOCK_BITS) as usize + 1;
        let of_positions = blocks.div_ceil(POSITIONS);
        let first_row = of_positions * ROWS;
        let mut positions = vec![0_u32; of_positions * POSITIONS];
        let mut placed: Vec<u64> = Vec::with_capacity(rows.len() + rows.len() / ROWS * 4 + ROWS);
        // The first row of the block, or of a later one.
        let mut next = 0;
        for (block, position) in (0_u32..).zip(&mut positions[..blocks]) {
            let own = rows[next..].iter().take_while(|row| row.at >> BLOCK_BITS == block).count();
            let own = &rows[next..next + own];
            let before = next.checked_sub(1).map(|before| rows[before]);
            // The last row of a chunk is that of the next one.
            if placed.len() % ROWS + own.len() + 2 > ROWS {
                placed.extend(rows.get(next).map(|row| row.bits()));
                placed.resize(placed.len().next_multiple_of(ROWS), BEYOND);
                placed.extend(before.map(|row| row.bits()));
            }
            let begins = own.first().is_some_and(|row| row.at == block << BLOCK_BITS);
            let holds = if begins { None } else { placed.len().checked_sub(1) };
            let at = holds.unwrap_or(placed.len());
            placed.extend(own.iter().map(|row| row.bits()));
            if at < placed.len() {
                *position = ((first_row + at) << COUNT_BITS | (placed.len() - 1 - at)) as u32;
            }
            next += own.len();
        }
        placed.resize((placed.len() + 1).next_multiple_of(ROWS), BEYOND);
        let words = positions.as_chunks::<2>().0.iter().map(|pair| joined(*pair));
        let mut chunks = Vec::with_capacity(of_positions + placed.len() / ROWS);
        chunks.extend(words.collect::<Vec<u64>>().as_chunks::<ROWS>().0);
        chunks.extend(placed.as_chunks::<ROWS>().0);
        Some(Self { begin, len, of_positions: of_positions as u32, chunks })
    }

    /// Makes positions count from where the first chunk has a number.
    fn move_to(&mut self, first: u32) {
        let by =
            |position: u32| if position == 0 { 0 } else { position + ((first * ROWS as u32) << COUNT_BITS) };
        for word in self.chunks[..self.of_positions as usize].as_flattened_mut() {
            *word = joined([by(*word as u32), by((*word >> 32) as u32)]);
        }
    }
}

/// Returns two positions as a word of the sampler.
fn joined([first, second]: [u32; 2]) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

#[cfg(test)]
mod tests {
    use icecore_elf::walk_rows::{Row, RowKind};

    use super::*;

    #[test]
    fn the_row_of_each_place_is_found() {
        let row = |at| Row { at, cfa: at % 1000, fp: 0, kind: RowKind::Sp, is_start: at % 3 == 0 };
        // Blocks with a row for each byte, with some, and with none; from the first byte on and later.
        let sparse = (0..4000).map(|at| at * 61);
        let dense = (0..1500).map(|at| 300_000 + at);
        let rare = (0..300).map(|at| 400_000 + at * 5001);
        for begin in [0, 1, 255, 256, 70_000] {
            let rows: Vec<Row> =
                sparse.clone().chain(dense.clone()).chain(rare.clone()).map(|at| row(begin + at)).collect();
            let rows = WalkRows { begin: 0, rows };
            let mut packed = Packed::of(&rows).expect("rows");
            packed.move_to(7);
            let Packed { len: end, chunks, .. } = packed;
            let rows = rows.rows;
            for place in
                (0..=end).step_by(17).chain(begin + 299_990..begin + 301_510).chain([0, end - 1, end])
            {
                let expected = rows[..rows.partition_point(|row| row.at <= place)].last();
                assert_eq!(row_at(&chunks, 7, place), expected.map(|row| row.bits()), "{place}");
            }
            // 16 bytes a row at most (8 where blocks have few), 4 for each block of code, and chunks that are not full.
            let most = rows.len() * 16 + (end as usize >> BLOCK_BITS) * 4 + 3 * size_of::<Chunk>();
            assert!(size_of_val(&chunks[..]) < most, "{} chunks for {} rows", chunks.len(), rows.len());
        }
    }

    #[test]
    fn no_rows_and_those_of_too_much_code_are_not_packed() {
        let row = |at| Row { at, cfa: 1, fp: 0, kind: RowKind::Sp, is_start: true };
        for rows in [vec![], vec![row(MAX_CODE_BYTES + 1)]] {
            assert_eq!(Packed::of(&WalkRows { begin: 0, rows }), None);
        }
    }
}
