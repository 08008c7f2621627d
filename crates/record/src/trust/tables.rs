//! Gives the sampler the unwind tables of files whose code is often on stacks, so that it can walk there.
//!
//! ```text
//! sampler: no table ─► wanted: the file with most hits first ─► thread: unwind tables ─► rows ─► chunks ─► sampler
//! ```
//!
//! Nobody waits for the tables: until they are there, the sampler copies stacks.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;

use icecore_elf::Layout;
use icecore_elf::walk_rows::{Row, WalkRows};
use object::read::{ReadCache, ReadRef};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::sampler::{self, Chunk, MAX_CHUNKS, MAX_TABLES};
use crate::kernel::wire::{FileKey, NoTable};
use crate::machine::identity::open_regular;
use crate::proc::scan;

/// How often a file must be hit before its tables are compiled.
const ENOUGH_HITS: u32 = 2;
/// The number of files that may wait.
const MAX_WANTED: usize = 4096;
/// The number of those that are kept open.
const MAX_HELD: usize = 64;
/// The longest code of a file, from the first function to the last: four bytes for each 256 of it are kept.
const MAX_CODE_BYTES: u32 = 1 << 30;
/// The largest vDSO that is read.
const MAX_VDSO_BYTES: usize = 64 << 10;
/// `CHUNK_ROWS` of bpf/wire.h, and the positions of a chunk.
const ROWS: usize = size_of::<Chunk>() / size_of::<u64>();
const POSITIONS: usize = size_of::<Chunk>() / size_of::<u32>();
/// `CODE_BLOCK_BITS` of bpf/tables.h.
const BLOCK_BITS: u32 = 8;
/// `POSITION_COUNT_BITS` of bpf/wire.h.
const COUNT_BITS: u32 = 9;
/// A row that no place reaches.
const BEYOND: u64 = u32::MAX as u64;

/// The files whose tables are wanted, and the thread that compiles them.
pub(super) struct Tables {
    wanted: FxHashMap<FileKey, Wanted>,
    /// Files that are being compiled, were compiled, or have no tables.
    done: FxHashSet<FileKey>,
    is_busy: bool,
    asked: SyncSender<Wanted>,
    /// Files that were looked at; false if the file could not be opened, because its process had ended.
    answers: Receiver<(FileKey, bool)>,
}

/// A file whose tables are wanted.
struct Wanted {
    hits: u32,
    missed: NoTable,
    /// The file, if it was held open since it was mapped.
    held: Option<File>,
}

impl Tables {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the kernel makes no thread.
    pub(super) fn start(sampler: sampler::Tables) -> std::io::Result<Self> {
        let (asked, wanted) = sync_channel::<Wanted>(1);
        let (answer, answers) = channel();
        Builder::new().name("icecore-tables".to_owned()).spawn(move || {
            let mut filled = Filled { sampler, files: 0, chunks: 0 };
            for wanted in wanted {
                let key = wanted.missed.file;
                let rows = wanted.rows();
                let is_done = rows.is_some();
                rows.into_iter().for_each(|rows| filled.add(&key, rows));
                if answer.send((key, is_done)).is_err() {
                    break;
                }
            }
        })?;
        let (wanted, done) = Default::default();
        Ok(Self { wanted, done, is_busy: false, asked, answers })
    }

    /// Notes that a walk lacked the tables of a file. `held` opens the file that is said to be mapped there, if it can.
    pub(super) fn miss(&mut self, missed: &NoTable, held: impl FnOnce() -> Option<File>) {
        if self.done.contains(&missed.file) {
            return;
        }
        if self.wanted.len() >= MAX_WANTED {
            self.wanted.clear();
        }
        let may_hold = self.wanted.values().filter(|wanted| wanted.held.is_some()).count() < MAX_HELD;
        let new = || Wanted { hits: 0, missed: *missed, held: None };
        let wanted = self.wanted.entry(missed.file).or_insert_with(new);
        wanted.hits += 1;
        wanted.missed = *missed;
        if wanted.hits == ENOUGH_HITS && may_hold {
            wanted.held = held();
        }
        self.settle();
    }

    /// Has the tables of the file compiled that was hit most, if the thread has nothing to do.
    pub(super) fn settle(&mut self) {
        for (file, is_done) in self.answers.try_iter() {
            self.is_busy = false;
            if !is_done {
                self.done.remove(&file);
            }
        }
        let most = self.wanted.values().max_by_key(|wanted| wanted.hits);
        let most = most.filter(|most| !self.is_busy && most.hits >= ENOUGH_HITS).map(|most| most.missed.file);
        if let Some(wanted) = most.and_then(|file| self.wanted.remove(&file)) {
            self.done.insert(wanted.missed.file);
            // There is room for one, and the thread has none.
            self.is_busy = self.asked.try_send(wanted).is_ok();
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
    fn add(&mut self, key: &FileKey, rows: Option<WalkRows>) {
        if self.files >= MAX_TABLES {
            return;
        }
        let put = rows.and_then(|rows| self.put(key, &rows));
        let told = put.unwrap_or_else(|| self.sampler.publish(key, 0, 0, 0));
        self.files += usize::from(told.is_ok());
    }

    /// Gives the sampler rows; `None` if there are none, or there is no room for them.
    fn put(&mut self, key: &FileKey, rows: &WalkRows) -> Option<anyhow::Result<()>> {
        let last = rows.rows.last().filter(|last| last.at <= MAX_CODE_BYTES)?;
        let chunks = chunks(&rows.rows, self.chunks);
        let end =
            self.chunks.checked_add(u32::try_from(chunks.len()).ok()?).filter(|end| *end <= MAX_CHUNKS)?;
        let first_position = self.chunks * POSITIONS as u32;
        let put = self.sampler.put(self.chunks, &chunks);
        // What an error has left there is not used.
        self.chunks = end;
        Some(put.and_then(|()| self.sampler.publish(key, rows.begin, last.at, first_position)))
    }
}

impl Wanted {
    /// Compiles the tables, `Some(None)` if there are none; `None` if the code cannot be read.
    fn rows(self) -> Option<Option<WalkRows>> {
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

fn rows<'d>(file: impl ReadRef<'d>) -> Option<WalkRows> {
    WalkRows::of_file(file, &Layout::read(file)?)
}

/// Compiles the tables of a file as the sampler gets them, and looks up places all over it. For fuzzing: what is found must be the row that
/// holds there.
pub(crate) fn check_tables(file: &[u8]) {
    let Some(rows) = rows(file) else { return };
    assert!(rows.rows.is_sorted_by(|before, after| before.at < after.at), "rows ascend");
    let Some(last) = rows.rows.last().filter(|last| last.at <= MAX_CODE_BYTES) else { return };
    let chunks = chunks(&rows.rows, 3);
    for place in (0..last.at).step_by(last.at as usize / 1024 + 1) {
        let holds = rows.rows[..rows.rows.partition_point(|row| row.at <= place)].last();
        assert_eq!(row_at(&chunks, 3, place), holds.map(|row| row.bits()), "{place}");
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

/// Puts rows into chunks, the first of which has a number: first those with a position for each block of code, then the rows.
fn chunks(rows: &[Row], first: u32) -> Vec<Chunk> {
    let blocks = rows.last().map_or(0, |last| (last.at >> BLOCK_BITS) as usize + 1);
    let of_positions = blocks.div_ceil(POSITIONS);
    let first_row = (first as usize + of_positions) * ROWS;
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
    let positions =
        positions.as_chunks::<2>().0.iter().map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32);
    let words: Vec<u64> = positions.chain(placed).collect();
    words.as_chunks::<ROWS>().0.to_vec()
}

#[cfg(test)]
mod tests {
    use icecore_elf::walk_rows::RowKind;

    use super::*;

    #[test]
    fn the_row_of_each_place_is_found() {
        let row = |at| Row { at, cfa: (at % 1000) as u16, fp: 0, kind: RowKind::Sp, is_start: at % 3 == 0 };
        // Blocks with a row for each byte, with some, and with none; from the first byte on and later.
        let sparse = (0..4000).map(|at| at * 61);
        let dense = (0..1500).map(|at| 300_000 + at);
        let rare = (0..300).map(|at| 400_000 + at * 5001);
        for begin in [0, 1, 255, 256, 70_000] {
            let rows: Vec<Row> =
                sparse.clone().chain(dense.clone()).chain(rare.clone()).map(|at| row(begin + at)).collect();
            let end = rows.last().expect("rows").at;
            let chunks = chunks(&rows, 7);
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
    fn no_rows_are_no_chunks_of_positions() {
        assert_eq!(chunks(&[], 0), [[BEYOND; ROWS]]);
    }
}
