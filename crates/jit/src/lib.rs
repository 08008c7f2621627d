//! What processes tell of their JIT code: perf maps and jitdump files. Reads texts and bytes without trust; who opens them decides
//! whether they are those of a process.
//!
//! | file | what lives there |
//! |---|---|
//! | `piece` | a piece of JIT code |
//! | `perf_map` | `perf-PID.map`: one line for each piece |
//! | `dump`, `lines` | `jit-PID.dump`: records with times; their source lines |
//! | `scale` | converts the times of a dump |
//! | `read_at` | numbers and bytes at offsets |

pub mod dump;
mod lines;
pub mod perf_map;
mod piece;
mod read_at;
mod scale;

use std::ops::Range;

use icecore_elf::Avma;

pub use piece::{Inlined, Line, Piece};
pub use read_at::{ReadAt, u32_at, u64_at};
pub use scale::{DumpClock, Reading, Scale};

/// The longest name that is kept, bytes.
pub const MAX_NAME_BYTES: usize = 4 << 10;

/// The requested addresses: ascending, each once.
#[derive(Debug, Clone, Copy)]
pub struct Requested<'a>(&'a [Avma]);

impl<'a> Requested<'a> {
    /// Wraps addresses, which must ascend.
    pub fn new(ascending: &'a [Avma]) -> Self {
        Self(ascending)
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the positions of the addresses in a range.
    pub fn within(&self, start: Avma, end: Avma) -> Range<usize> {
        let from = self.0.partition_point(|address| *address < start);
        from..from + self.0[from..].partition_point(|address| *address < end)
    }

    /// Returns the addresses in a range.
    pub fn of(&self, start: Avma, end: Avma) -> &'a [Avma] {
        &self.0[self.within(start, end)]
    }
}
