//! Reads DWARF: functions, what was inlined into them, and source lines of the addresses of one file.
//!
//! ```text
//! sections ─► units ─► first entries ─► claims ─► units that claim anything, in parallel, largest first ─► answers
//!                      (sweep)                    (scopes, lines, origins)
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `sources` | gives the files of one image to gimli |
//! | `info`, `extent` | units, and where the code of an entry is |
//! | `asked`, `sweep` | which units may know which address |
//! | `context` | what the units of an image share |
//! | `unit` | everything about the addresses of one unit; keeps only the answers |
//! | `scopes`, `lines` | functions and inlined calls, source lines |
//! | `origin`, `parents` | which function an entry describes: its name, its declaration, the scopes around it |
//! | `checksums` | MD5 of source files |
//! | `split` | the other half of a unit, in a `.dwo` or `.dwp` file |
//!
//! Each unit that claims an address is read once, in one pass, whatever the number of its addresses. Nothing here recurses:
//! entries may be nested as deep as a file is long. This room opens no file by itself.

mod checksums;
mod context;
mod extent;
mod info;
mod lines;
mod origin;
mod parents;
mod requested;
mod scopes;
mod sources;
mod split;
mod sweep;
mod unit;

use std::cmp::Reverse;

use gimli::{EndianSlice, RunTimeEndian};
use rayon::prelude::*;

use super::Function;
use super::guard::{Broken, Guard};
use super::strings::Strings;
pub(crate) use checksums::checksums;
use context::Context;
use icecore_elf::Svma;
use info::Info;
use requested::Requested;
pub(crate) use sources::{OpenSplit, Sources, SplitName, is_read};
use sweep::Claim;

/// Bytes of a file.
type Slice<'d> = EndianSlice<'d, RunTimeEndian>;
/// Sections of a file.
type Dwarf<'d> = gimli::Dwarf<Slice<'d>>;

/// The answers of DWARF.
#[derive(Debug)]
pub(super) struct FoundFunctions {
    /// The functions at each address, innermost first. The last one has no name if only its line is known.
    pub(super) functions: Vec<Option<Vec<Function>>>,
    /// Part of the DWARF could not be read; the answers come from the rest.
    pub(super) is_broken: bool,
}

/// Finds the functions at addresses, which are ascending and distinct. `code` is the beginning of the executable segments.
/// `tick(n)` is called when `n` more addresses are done; addresses that no unit claims do not count.
///
/// # Shape   one answer per address, in the same order; the same for any number of threads
/// # Errors  [`Broken`] if the file asks for more work than its size and the addresses justify
/// # Cost    one pass over the first entries of all units, one over all entries of those that claim an address
pub(super) fn look_up(
    sources: &Sources<'_>,
    code: Svma,
    at: &[Svma],
    strings: &Strings,
    tick: &(dyn Fn(u64) + Sync),
) -> Result<FoundFunctions, Broken> {
    let guard = Guard::new(sources.len(), at.len());
    let (dwarf, supplement) = sources.load();
    let supplement = supplement.map(|dwarf| Info::new(dwarf, &guard)).transpose()?;
    let info = Info::new(dwarf, &guard)?;
    let asked = Requested { at, code };
    let claims = sweep::claims(&info, asked, &guard);

    let package = sources.package();
    let context = Context {
        info: &info,
        supplement: supplement.as_ref(),
        package: package.as_ref(),
        open_split: sources.open_split,
        asked,
        strings,
        guard: &guard,
    };
    let answers = name(&context, claims, tick);
    if guard.is_exhausted() {
        return Err(Broken);
    }
    Ok(FoundFunctions { functions: merge(answers, at.len()), is_broken: guard.is_broken() })
}

/// Asks all units that claim an address, and returns their answers in the order of the file.
fn name(
    context: &Context<'_, '_>,
    claims: Vec<Claim>,
    tick: &(dyn Fn(u64) + Sync),
) -> Vec<unit::UnitAnswers> {
    // An address counts as done when the first unit that claims it is done.
    let mut is_first = vec![true; context.asked.at.len()];
    let mut jobs: Vec<(Claim, u64)> = claims
        .into_iter()
        .map(|claim| {
            let new = claim.asked.iter().filter(|asked| std::mem::take(&mut is_first[**asked as usize]));
            let new = new.count() as u64;
            (claim, new)
        })
        .collect();
    jobs.sort_by_key(|(claim, _)| (Reverse(context.info.headers[claim.unit].unit_length()), claim.unit));
    // Taking one unit after the other from the list, largest first, keeps all threads busy to the end.
    let answers = jobs.into_iter().par_bridge().map(|(claim, new)| {
        let answers = unit::name(context, &claim);
        tick(new);
        (claim.unit, answers)
    });
    let mut answers: Vec<(usize, unit::UnitAnswers)> = answers.collect();
    answers.sort_unstable_by_key(|(unit, _)| *unit);
    answers.into_iter().map(|(_, answers)| answers).collect()
}

/// Takes the first answer with a function of the units that claim an address, otherwise the first with a line.
fn merge(answers: Vec<unit::UnitAnswers>, len: usize) -> Vec<Option<Vec<Function>>> {
    let mut merged: Vec<Option<Vec<Function>>> = vec![None; len];
    for (position, functions) in answers.into_iter().flatten() {
        let slot = &mut merged[position as usize];
        let knows =
            |functions: &[Function]| functions.last().is_some_and(|function| !function.name.is_empty());
        if slot.is_none() || (knows(&functions) && !slot.as_deref().is_some_and(knows)) {
            *slot = Some(functions);
        }
    }
    merged
}
