//! Unwind rows as the sampler gets them.

use icecore_elf::Layout;
use icecore_elf::walk_rows::WalkRows;

use crate::kernel::sampler::Chunk;
use crate::skeleton::types::limits;

/// The longest code of a file, from the first function to the last: four bytes for each 256 of it are kept.
const MAX_CODE_BYTES: u32 = 1 << 30;
/// The rows of a chunk, and the positions.
const ROWS: usize = size_of::<Chunk>() / size_of::<u64>();
pub(super) const POSITIONS: usize = size_of::<Chunk>() / size_of::<u32>();
const BLOCK_BITS: u32 = limits::CODE_BLOCK_BITS.0;
const COUNT_BITS: u32 = limits::POSITION_COUNT_BITS.0;
/// A row that no place reaches.
const BEYOND: u64 = u32::MAX as u64;

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

/// Compiles the tables of a file as the sampler gets them, and looks up places all over it. For fuzzing: what is found must be the row that
/// holds there.
pub fn check_tables(file: &[u8]) {
    let Some(rows) = Layout::read(file).and_then(|layout| WalkRows::of_file(file, &layout, &mut || true))
    else {
        return;
    };
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
    pub(super) fn of(rows: &WalkRows) -> Option<Self> {
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
    pub(super) fn move_to(&mut self, first: u32) {
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
