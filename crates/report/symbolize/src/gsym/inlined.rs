//! What was inlined into a function: a tree, written as it is walked.
//!
//! ```text
//! node      count of ranges, (begin, size)…, has children, name, file and line of the call, children…, 0
//!           begin counts from that of the node around it; the root is the function itself
//! ```

use gimli::Reader;

use super::lines::Row;
use super::{Broken, Guard, Slice};
use icecore_elf::Svma;

/// A call that was inlined.
#[derive(Debug)]
pub(super) struct Call {
    /// The call around it; `None` if that is the function itself.
    pub(super) caller: Option<u32>,
    /// Offset of its name.
    pub(super) name: u32,
    /// Where it is called.
    pub(super) place: Row,
}

/// The calls around asked addresses.
#[derive(Debug)]
pub(super) struct Inlined {
    pub(super) calls: Vec<Call>,
    /// Of each asked address the innermost.
    pub(super) innermost: Vec<Option<u32>>,
}

/// A node whose children are being read.
struct Open {
    /// What their ranges count from.
    base: u64,
    /// It is this call; `None` for the root.
    call: Option<u32>,
    /// It holds an asked address; else none of its children does.
    is_wanted: bool,
}

impl Inlined {
    /// Nothing was inlined, or nobody says so.
    pub(super) fn none(len: usize) -> Self {
        Self { calls: Vec::new(), innermost: vec![None; len] }
    }

    /// Reads the tree up to where it breaks, which is noted.
    pub(super) fn read(tree: Slice<'_>, start: Svma, asked: &[Svma], guard: &Guard) -> Self {
        let mut inlined = Self::none(asked.len());
        inlined.walk(tree, start, asked, guard).unwrap_or_else(|Broken| guard.note());
        inlined
    }

    fn walk(
        &mut self,
        mut tree: Slice<'_>,
        start: Svma,
        asked: &[Svma],
        guard: &Guard,
    ) -> Result<(), Broken> {
        let mut open: Vec<Open> = Vec::new();
        let mut inside = Vec::new();
        loop {
            let (base, is_wanted) = open.last().map_or((start.0, true), |node| (node.base, node.is_wanted));
            let ranges = tree.read_uleb128()?;
            if ranges == 0 {
                open.pop();
                if open.is_empty() {
                    return Ok(());
                }
                continue;
            }
            inside.clear();
            let mut first = None;
            for _ in 0..ranges {
                let begin = base.checked_add(tree.read_uleb128()?).ok_or(Broken)?;
                let end = begin.checked_add(tree.read_uleb128()?).ok_or(Broken)?;
                first.get_or_insert(begin);
                if is_wanted {
                    let span =
                        asked.partition_point(|at| at.0 < begin)..asked.partition_point(|at| at.0 < end);
                    guard.spend(span.len())?;
                    inside.extend(span);
                }
            }
            let has_children = tree.read_u8()? != 0;
            let name = tree.read_u32()?;
            let (file, line) = (tree.read_uleb128()?, tree.read_uleb128()?);
            let place = Row { file, line: u32::try_from(line).unwrap_or(0) };
            let (call, is_wanted) = match open.last() {
                // The function itself.
                None => (None, !inside.is_empty()),
                Some(around) => self.add(Call { caller: around.call, name, place }, &inside)?,
            };
            if has_children {
                open.push(Open { base: first.unwrap_or(base), call, is_wanted });
            } else if open.is_empty() {
                return Ok(());
            }
        }
    }

    /// Adds a call if addresses are in it, and in the node around it, and in none beside it.
    fn add(&mut self, call: Call, inside: &[usize]) -> Result<(Option<u32>, bool), Broken> {
        let number = u32::try_from(self.calls.len()).map_err(|_| Broken)?;
        let mut is_wanted = false;
        for position in inside {
            let slot = &mut self.innermost[*position];
            if *slot == call.caller {
                *slot = Some(number);
                is_wanted = true;
            }
        }
        if is_wanted {
            self.calls.push(call);
        }
        Ok((Some(number).filter(|_| is_wanted), is_wanted))
    }
}
