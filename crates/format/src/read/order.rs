//! Puts blocks into the order of writing, and says which are missing, doubled or out of place.

use super::damage::Findings;
use super::scan::Scanned;
use crate::index::Entry;
use crate::kind::Kind;

/// Blocks in the order of writing.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    /// Those that are whole.
    pub(super) entries: Vec<Entry>,
    /// Blocks that are not usable, of which a header or a row of an index is known.
    pub(super) lost: Vec<Entry>,
}

/// Orders by sequence, takes one block of each number and leaves out what is not whole. `blocks` is the number of blocks
/// before the index, if something that is whole tells it; `end` is where blocks end.
pub(super) fn order(
    mut seen: Vec<Scanned>,
    blocks: Option<u64>,
    known: &[Entry],
    end: u64,
    found: &mut Findings,
) -> Ordered {
    let mut gone = Vec::new();
    seen.sort_by_key(|seen| (seen.entry.header.sequence, !seen.whole, seen.entry.off));
    let mut kept: Vec<Scanned> = Vec::with_capacity(seen.len());
    for this in seen {
        let Entry { off, header } = this.entry;
        let behind = kept.last().map(|last| last.entry);
        match behind {
            Some(last) if last.header.sequence == header.sequence => {
                if this.whole {
                    let len = header.next(off) - off;
                    found.add(off, len, format!("{} stands here again and is ignored", header.called()));
                }
                continue;
            }
            _ => gone.extend(missing(behind, header.sequence, known, end, found)),
        }
        kept.push(this);
    }
    if let Some(blocks) = blocks {
        gone.extend(missing(kept.last().map(|last| last.entry), blocks, known, end, found));
    }
    kept.retain(|seen| seen.entry.header.kind != Kind::INDEX);
    let (whole, torn): (Vec<Scanned>, Vec<Scanned>) = kept.into_iter().partition(|seen| seen.whole);
    let entries: Vec<Entry> = whole.iter().map(|seen| seen.entry).collect();
    gone.extend(torn.iter().map(|seen| seen.entry));
    gone.sort_by_key(|entry| entry.header.sequence);
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].off > pair[1].off) {
        let (late, early) = (pair[0], pair[1].header.called());
        let cause = format!(
            "{} stands after {early}: read in the order of writing, nothing is lost",
            late.header.called()
        );
        found.add(late.off, 0, cause);
    }
    Ordered { entries, lost: gone }
}

/// Says which blocks between one and the sequence number of the next are not there, and returns those that the index
/// knows.
fn missing<'a>(
    behind: Option<Entry>,
    next: u64,
    known: &'a [Entry],
    end: u64,
    found: &mut Findings,
) -> &'a [Entry] {
    let (first, off) = match behind {
        Some(last) => (last.header.sequence.saturating_add(1), last.header.next(last.off).min(end)),
        None => (0, crate::header::LEN as u64),
    };
    if first >= next {
        return &[];
    }
    let cause = match (next - first, known.get(first as usize)) {
        (1, Some(row)) => format!("{} is missing", row.header.called()),
        (1, None) => format!("block {first} is missing"),
        _ => format!("blocks {first} to {} are missing", next - 1),
    };
    found.add(off, 0, cause);
    let rows = known.len() as u64;
    &known[first.min(rows) as usize..next.min(rows) as usize]
}
