//! Joins functions that are gone and functions that are new, if they may only have been renamed.

use std::collections::BTreeMap;

use super::row::Sided;
use super::rows::Rows;
use crate::matching::{Left, renamed};
use icecore_profile::named::through;

/// Smaller shares are not examined.
const LEAST_SHARE: f64 = 0.001;
/// The most functions of each side that are examined.
const MOST: usize = 300;

/// A function without a partner, and its neighbours.
#[derive(Debug, Default)]
struct Lone {
    own: f64,
    total: f64,
    callers: BTreeMap<u32, f64>,
    callees: BTreeMap<u32, f64>,
}

/// An unmatched function with its neighbours as lists.
#[derive(Debug)]
struct Listed {
    row: u32,
    own: f64,
    total: f64,
    callers: Vec<(u32, f64)>,
    callees: Vec<(u32, f64)>,
}

/// Joins rows of functions that have the same callers and callees, and exist on one side each. Returns the similarity of each
/// joined pair, by row.
pub(super) fn join(rows: &mut Rows, reports: &[Sided<'_>]) -> BTreeMap<u32, f64> {
    let [gone, new] = [lone(rows, reports, 0), lone(rows, reports, 1)];
    let [old, other] = [&gone, &new].map(|side| side.iter().map(Listed::left).collect::<Vec<_>>());
    let found = renamed(&old, &other);
    let mut joined = BTreeMap::new();
    let mut becomes: BTreeMap<u32, u32> = BTreeMap::new();
    for proposal in found {
        let (old, new) = (gone[proposal.gone].row, new[proposal.new].row);
        let key = rows.keys[new as usize][1].take();
        rows.functions.keys[rows.function_of[old as usize] as usize][1].clone_from(&key);
        rows.keys[old as usize][1] = key;
        becomes.insert(new, old);
        joined.insert(old, proposal.likeness);
    }
    let all = rows.of.iter_mut().flat_map(|local| &mut local.row);
    all.for_each(|row| *row = becomes.get(row).copied().unwrap_or(*row));
    joined
}

/// Lists the rows that only one side has, heaviest first.
fn lone(rows: &Rows, reports: &[Sided<'_>], side: usize) -> Vec<Listed> {
    // A function of a build that both sides have would have the same name on both.
    let is_settled = |row: u32| rows.functions.is_settled[rows.function_of[row as usize] as usize];
    let is_lone = |row: u32| rows.keys[row as usize][1 - side].is_none() && !is_settled(row);
    let mut found: BTreeMap<u32, Lone> = BTreeMap::new();
    for (local, (report, _)) in rows.of.iter().zip(reports).filter(|(_, (_, of))| *of == side) {
        let profile = &report.profile;
        let whole = (profile.whole().weight as f64).max(1.0);
        let row_of = |stack: u32| match stack {
            0 => u32::MAX,
            _ => local.row[local.group[stack as usize] as usize],
        };
        let at = profile.at_stacks();
        let through = through(profile, at.clone());
        for (position, stack) in (0u32..).zip(&profile.stacks).skip(1) {
            let (row, caller) = (row_of(position), row_of(stack.caller));
            let share = through[position as usize].weight as f64 / whole;
            if caller != u32::MAX && caller != row && is_lone(caller) {
                *found.entry(caller).or_default().callees.entry(row).or_default() += share;
            }
            if !is_lone(row) {
                continue;
            }
            let lone = found.entry(row).or_default();
            lone.own += at[position as usize].weight as f64 / whole;
            if caller != row {
                lone.total += share;
                if caller != u32::MAX {
                    *lone.callers.entry(caller).or_default() += share;
                }
            }
        }
    }
    let heavy = found.into_iter().filter(|(_, lone)| lone.total >= LEAST_SHARE);
    let mut listed: Vec<Listed> = heavy
        .map(|(row, Lone { own, total, callers, callees })| {
            let (callers, callees) = (callers.into_iter().collect(), callees.into_iter().collect());
            Listed { row, own, total, callers, callees }
        })
        .collect();
    listed.sort_by(|a, b| b.total.total_cmp(&a.total).then(a.row.cmp(&b.row)));
    listed.truncate(MOST);
    listed
}

impl Listed {
    fn left(&self) -> Left<'_> {
        Left { total: self.total, own: self.own, callers: &self.callers, callees: &self.callees }
    }
}
