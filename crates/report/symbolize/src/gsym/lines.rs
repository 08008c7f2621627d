//! The lines of a function: a small program, as in DWARF.

use gimli::Reader;

use super::{Broken, Guard, Slice};
use icecore_elf::Svma;

/// What a byte of the program does. All from the last one on advance address and line, and make a row.
const END: u8 = 0;
const SET_FILE: u8 = 1;
const ADVANCE_ADDRESS: u8 = 2;
const ADVANCE_LINE: u8 = 3;
const FIRST_SPECIAL: u8 = 4;

/// A file by its number, and a line in it; 0 if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) file: u64,
    pub(super) line: u32,
}

/// Runs the program of the function at `start`, and hands over the row of each asked address. A row counts up to the next,
/// the last one up to the end of the function.
///
/// # Errors  [`Broken`] where the program breaks; what came before it has been handed over
pub(super) fn run(
    mut program: Slice<'_>,
    start: Svma,
    asked: &[Svma],
    guard: &Guard,
    mut take: impl FnMut(usize, Row),
) -> Result<(), Broken> {
    let (lowest, highest) = (program.read_sleb128()?, program.read_sleb128()?);
    let lines = highest.checked_sub(lowest).and_then(|range| range.checked_add(1)).filter(|range| *range > 0);
    let mut line = i64::try_from(program.read_uleb128()?).map_err(|_| Broken)?;
    let (mut file, mut at) = (1, start.0);
    let mut last: Option<Row> = None;
    let mut done = 0;
    while !program.is_empty() {
        let makes_row = match program.read_u8()? {
            END => break,
            SET_FILE => {
                file = program.read_uleb128()?;
                false
            }
            ADVANCE_ADDRESS => {
                at = at.checked_add(program.read_uleb128()?).ok_or(Broken)?;
                true
            }
            ADVANCE_LINE => {
                line = line.checked_add(program.read_sleb128()?).ok_or(Broken)?;
                false
            }
            special => {
                let (steps, lines) = (i64::from(special - FIRST_SPECIAL), lines.ok_or(Broken)?);
                line = line
                    .checked_add(lowest)
                    .and_then(|line| line.checked_add(steps % lines))
                    .ok_or(Broken)?;
                at = at.checked_add((steps / lines) as u64).ok_or(Broken)?;
                true
            }
        };
        if makes_row {
            done = hand_over(last, asked, done, Svma(at), guard, &mut take)?;
            last = Some(Row { file, line: u32::try_from(line).unwrap_or(0) });
        }
    }
    if let Some(row) = last {
        guard.spend(asked.len() - done)?;
        (done..asked.len()).for_each(|position| take(position, row));
    }
    Ok(())
}

/// Hands over a row for the addresses before `end`, from `done` on; gives the position behind them.
fn hand_over(
    row: Option<Row>,
    asked: &[Svma],
    done: usize,
    end: Svma,
    guard: &Guard,
    take: &mut impl FnMut(usize, Row),
) -> Result<usize, Broken> {
    let mut next = done;
    while asked.get(next).is_some_and(|at| *at < end) {
        guard.spend(1)?;
        if let Some(row) = row {
            take(next, row);
        }
        next += 1;
    }
    Ok(next)
}
