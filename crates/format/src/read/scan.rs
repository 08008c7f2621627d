//! Finds the blocks of a file whose index is missing or wrong: from one whole block to the next, over damaged stretches
//! by looking for the magic of a block.

use super::damage::{Damage, Findings};
use crate::block::{self, BlockHeader};
use crate::error::Error;
use crate::index::{Entry, TAIL_LEN, Tail};
use crate::kind::Kind;
use crate::limits;

/// A block that the walk came by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scanned {
    pub(super) entry: Entry,
    /// Both its checksums hold.
    pub(super) whole: bool,
}

/// What the walk found.
#[derive(Debug)]
pub(super) struct Walked {
    /// In the order of the file.
    pub(super) seen: Vec<Scanned>,
    /// A whole index, and after it a tail that fits: the recording ends here, whatever follows.
    pub(super) has_end: bool,
}

/// Walks from the file header to `end`. `known` are the rows of an index that does not fit: they name what is gone.
///
/// # Cost
/// Every byte is read once for its checksum, and at most once more for checksums that do not hold.
pub(super) fn walk(file: &[u8], end: u64, seed: u32, known: &[Entry], found: &mut Findings) -> Walked {
    Walk { file, end, seed, known, found, seen: Vec::new(), bad: None, in_vain: 0 }.run()
}

struct Walk<'a> {
    file: &'a [u8],
    end: u64,
    seed: u32,
    known: &'a [Entry],
    found: &'a mut Findings,
    seen: Vec<Scanned>,
    /// The damaged stretch that is being passed over.
    bad: Option<Damage>,
    /// Bytes of payloads whose checksum did not hold.
    in_vain: u64,
}

impl Walk<'_> {
    fn run(mut self) -> Walked {
        let mut off = crate::header::LEN as u64;
        let mut has_end = false;
        while off < self.end && self.seen.len() <= limits::MAX_BLOCKS as usize {
            off = match BlockHeader::decode_alone(self.file, off, self.seed) {
                Ok(header) => match self.torn(off, &header) {
                    None => {
                        self.pass(off);
                        self.seen.push(Scanned { entry: Entry { off, header }, whole: true });
                        let next = header.next(off);
                        has_end = header.kind == Kind::INDEX
                            && Tail::decode_at(self.file, next, self.seed)
                                .is_ok_and(|tail| tail.index_off == off);
                        if has_end {
                            off = next + TAIL_LEN as u64;
                            break;
                        }
                        next
                    }
                    Some(cause) => self.broken(off, header, &cause),
                },
                // The rest of a tail holds no data, so its loss is not reported.
                Err(_) if self.is_behind_index() && self.end - off <= TAIL_LEN as u64 => self.end,
                Err(error) => self.no_block(off, &error),
            };
        }
        let at = off.min(self.end);
        self.pass(at);
        match self.end - at {
            0 => {}
            len if has_end => self.found.add(at, len, "these bytes follow the end of the recording".into()),
            len => self.found.add(at, len, format!("more than {} blocks", limits::MAX_BLOCKS)),
        }
        Walked { seen: self.seen, has_end }
    }

    /// Tells what is wrong with the payload of a block; `None` if the block is whole.
    fn torn(&self, off: u64, header: &BlockHeader) -> Option<String> {
        let missing = header.missing(off, self.file.len() as u64);
        if missing > 0 {
            return Some(format!("the file ends {missing} bytes before its payload does"));
        }
        let stored = &self.file[BlockHeader::payload_off(off) as usize..header.end(off) as usize];
        let (found, computed) = (header.payload_crc, crc32fast::hash(stored));
        let payload =
            Error::Checksum { what: "payload", off: BlockHeader::payload_off(off), found, computed };
        (found != computed).then(|| payload.to_string())
    }

    /// Notes a block whose payload is damaged; returns where to go on.
    fn broken(&mut self, off: u64, header: BlockHeader, cause: &str) -> u64 {
        self.pass(off);
        self.bad = Some(Damage { off, len: 0, cause: format!("{}: {cause}", header.called()) });
        self.seen.push(Scanned { entry: Entry { off, header }, whole: false });
        let inside = off + block::LEN as u64;
        if header.missing(off, self.file.len() as u64) > 0 {
            return self.magic(inside);
        }
        self.in_vain += u64::from(header.stored_len);
        // Its length is trusted if another block follows where it ends. A file that is made of lengths that lie costs
        // no more than reading it twice.
        let next = header.next(off);
        let follows = next >= self.end || BlockHeader::decode_alone(self.file, next, self.seed).is_ok();
        if follows || self.in_vain > self.end { next } else { self.magic(inside) }
    }

    /// Notes that no block begins here; returns where to look next.
    fn no_block(&mut self, off: u64, error: &Error) -> u64 {
        if self.bad.is_none() {
            let mut cause = error.to_string();
            if let Ok(row) = self.known.binary_search_by_key(&off, |row| row.off) {
                let entry = self.known[row];
                cause = format!("{}: {cause}", entry.header.called());
                self.seen.push(Scanned { entry, whole: false });
            }
            self.bad = Some(Damage { off, len: 0, cause });
        }
        self.magic(off + limits::ALIGN)
    }

    /// Ends the damaged stretch, if there is one, at `off`.
    fn pass(&mut self, off: u64) {
        if let Some(bad) = self.bad.take() {
            self.found.add(bad.off, off.min(self.end) - bad.off, bad.cause);
        }
    }

    fn is_behind_index(&self) -> bool {
        let is_whole_index = |last: &Scanned| last.whole && last.entry.header.kind == Kind::INDEX;
        self.bad.is_none() && self.seen.last().is_some_and(is_whole_index)
    }

    /// Finds the next position from `off` on where a block may begin.
    fn magic(&self, off: u64) -> u64 {
        const STEP: usize = limits::ALIGN as usize;
        let from = off.min(self.end) as usize;
        let steps = self.file[from..self.end as usize].chunks_exact(STEP);
        let at = steps.into_iter().position(|bytes| bytes[..block::MAGIC.len()] == block::MAGIC);
        at.map_or(self.end, |at| (from + at * STEP) as u64)
    }
}
