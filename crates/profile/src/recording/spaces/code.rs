//! JIT code: which piece of it was at an address of one address space at a moment.
//!
//! ```text
//! time   3        ├──C──┤
//!        2  ├─────B─────┤             at x:  A from the beginning, B from 2 on
//!        1  ├───────A────────┤        at y:  A
//!                 x        y
//! ```
//!
//! Times matter only where a piece was made over another, or has ended: a piece that was the first at its addresses is taken
//! to have been there always, so that a process that makes a million pieces side by side has one picture of them.

use std::collections::BTreeMap;

use icecore_elf::Avma;
use icecore_format::records::JitCode;

use super::layers::Layers;

/// How many ended pieces a lookup passes before it gives up.
const LOOKED_UNDER: usize = 64;

/// The pieces of one address space.
#[derive(Debug, Default)]
pub(super) struct Code {
    layers: Layers,
    /// In the order of time.
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    /// Position in the rows of the recording.
    row: usize,
    since_ns: u64,
    /// 0 if nobody told its end.
    until_ns: u64,
}

impl Code {
    /// Lays pieces over each other; `rows` with their positions, in the order of the file.
    pub(super) fn new(mut rows: Vec<(usize, &JitCode)>) -> Self {
        rows.sort_by_key(|(_, code)| code.since_ns);
        let mut covered = Covered::default();
        let mut laid: Vec<(Piece, (Avma, Avma))> = Vec::with_capacity(rows.len());
        for (row, code) in rows {
            let (start, end) = (Avma(code.start), Avma(code.end));
            let is_first = covered.add(start, end);
            let since_ns = if is_first { 0 } else { code.since_ns };
            laid.push((Piece { row, since_ns, until_ns: code.until_ns }, (start, end)));
        }
        laid.sort_by_key(|(piece, _)| piece.since_ns);
        let (pieces, bounds): (_, Vec<_>) = laid.into_iter().unzip();
        Self { layers: Layers::new(&bounds), pieces }
    }

    /// The moments at which an address may begin to show something else.
    pub(super) fn turns(&self) -> impl Iterator<Item = u64> + '_ {
        self.pieces.iter().flat_map(|piece| [piece.since_ns, piece.until_ns]).filter(|ns| *ns > 0)
    }

    /// Finds the row of the piece that was at an address.
    pub(super) fn find(&self, address: Avma, time_ns: u64) -> Option<usize> {
        let mut above = self.pieces.partition_point(|piece| piece.since_ns <= time_ns) as u32;
        for _ in 0..LOOKED_UNDER {
            above = self.layers.find(address, above)?;
            let piece = self.pieces.get(above as usize)?;
            if piece.until_ns == 0 || time_ns < piece.until_ns {
                return Some(piece.row);
            }
        }
        None
    }
}

/// Addresses that are covered: intervals that neither overlap nor touch, end by start.
#[derive(Debug, Default)]
struct Covered(BTreeMap<Avma, Avma>);

impl Covered {
    /// Adds an interval; tells whether nothing of it was covered.
    fn add(&mut self, mut start: Avma, mut end: Avma) -> bool {
        let mut is_first = true;
        while let Some((old, old_end)) = self.0.range(..=end).next_back().map(|(old, end)| (*old, *end)) {
            if old_end < start {
                break;
            }
            is_first &= old_end == start || old == end;
            (start, end) = (start.min(old), end.max(old_end));
            self.0.remove(&old);
        }
        self.0.insert(start, end);
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u64, len: u64, since_ns: u64, until_ns: u64) -> JitCode {
        JitCode { tgid: 7, start, end: start + len, since_ns, until_ns, ..JitCode::default() }
    }

    fn code(rows: &[JitCode]) -> Code {
        Code::new(rows.iter().enumerate().collect())
    }

    #[test]
    fn the_piece_that_was_there_at_the_moment_counts() {
        let code = code(&[piece(0x100, 0x80, 10, 0), piece(0x100, 0x40, 30, 0), piece(0x100, 0x20, 20, 0)]);
        let at = |address| [5, 10, 20, 29, 30, 99].map(|ns| code.find(Avma(address), ns));
        assert_eq!(at(0x110), [Some(0), Some(0), Some(2), Some(2), Some(1), Some(1)]);
        assert_eq!(at(0x130), [Some(0), Some(0), Some(0), Some(0), Some(1), Some(1)]);
        assert_eq!(at(0x150), [Some(0); 6]);
        assert_eq!(at(0x180), [None; 6]);
        assert_eq!(code.turns().collect::<Vec<_>>(), [20, 30]);
    }

    #[test]
    fn of_two_pieces_of_one_moment_the_second_counts() {
        let code = code(&[piece(0x100, 0x80, 0, 0), piece(0x140, 0x10, 0, 0), piece(0x200, 8, 0, 0)]);
        assert_eq!(
            [0x13f, 0x140, 0x150, 0x200].map(|x| code.find(Avma(x), 1)),
            [Some(0), Some(1), Some(0), Some(2)]
        );
        assert_eq!(code.turns().count(), 0);
    }

    #[test]
    fn a_piece_that_ended_leaves_what_is_under_it_or_nothing() {
        // Made at 10, over it another from 20 to 30; and one that moved away at 40 and back at 60.
        let rows = [piece(0, 8, 10, 0), piece(0, 8, 20, 30), piece(0x50, 8, 10, 40), piece(0x50, 8, 60, 0)];
        let code = code(&rows);
        assert_eq!([15, 20, 30].map(|ns| code.find(Avma(4), ns)), [Some(0), Some(1), Some(0)]);
        assert_eq!([39, 40, 59, 60].map(|ns| code.find(Avma(0x54), ns)), [Some(2), None, None, Some(3)]);
    }

    #[test]
    fn pieces_side_by_side_have_no_times() {
        let code = code(&[piece(0, 8, 10, 0), piece(8, 8, 20, 0), piece(24, 8, 30, 0), piece(16, 8, 40, 0)]);
        assert_eq!(code.turns().count(), 0);
        assert_eq!([0, 8, 16, 24].map(|x| code.find(Avma(x), 0)), [Some(0), Some(1), Some(3), Some(2)]);
    }
}
