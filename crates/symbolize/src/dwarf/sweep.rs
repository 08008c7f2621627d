//! Finds the units that may know a requested address, by their first entries.

use gimli::{UnitType, constants as dw};
use rayon::prelude::*;

use super::info::{Info, Root};
use super::requested::Requested;
use super::{Broken, Guard, lines};

/// A unit, and the requested addresses that it claims.
#[derive(Debug)]
pub(super) struct Claim {
    /// Position of the unit.
    pub(super) unit: usize,
    /// Positions of the addresses, ascending.
    pub(super) asked: Vec<u32>,
}

/// Reads the first entry of every unit. Several units can claim one address: claims come in the order of the file.
///
/// `.debug_aranges` would be shorter to read, but compilers omit it or leave it incomplete.
pub(super) fn claims(info: &Info<'_>, asked: Requested<'_>, guard: &Guard) -> Vec<Claim> {
    let claim = |unit| {
        let claimed = claimed(info, unit, asked, guard).unwrap_or_else(|Broken| {
            guard.note();
            Vec::new()
        });
        (!claimed.is_empty()).then_some(Claim { unit, asked: claimed })
    };
    (0..info.headers.len()).into_par_iter().filter_map(claim).collect()
}

fn claimed(info: &Info<'_>, unit: usize, asked: Requested<'_>, guard: &Guard) -> Result<Vec<u32>, Broken> {
    if !matches!(info.headers[unit].type_(), UnitType::Compilation | UnitType::Skeleton(_)) {
        return Ok(Vec::new());
    }
    let root = info.root(unit)?;
    // Before DWARF 5 only the tag marks a partial unit; entries of other units refer to its functions.
    if root.tag != dw::DW_TAG_compile_unit && root.tag != dw::DW_TAG_skeleton_unit {
        return Ok(Vec::new());
    }
    let mut claimed = Vec::new();
    let mut take = |position: usize| claimed.push(position as u32);
    if root.extent.is_some() {
        root.extent.each(&info.dwarf, &root.unit, asked, guard, &mut take)?;
    } else {
        without_extent(info, &root, asked, guard, &mut take)?;
    }
    claimed.sort_unstable();
    claimed.dedup();
    Ok(claimed)
}

/// Some compilers and assemblers do not say where the code of a unit is; its line program does.
fn without_extent<'d>(
    info: &Info<'d>,
    root: &Root<'d>,
    asked: Requested<'_>,
    guard: &Guard,
    take: &mut impl FnMut(usize),
) -> Result<(), Broken> {
    let Some(lines) = lines::Lines::open(&info.dwarf, root, guard)? else { return Ok(()) };
    lines.run(asked, guard, |position, _| take(position))
}
