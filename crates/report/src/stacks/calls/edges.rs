//! Counts impossible edges of a profile: their share is a lower bound of the wrong stacks.

use std::collections::HashSet;

use icecore_format::records::{Location, Mark, StackRepair, WalkEnd};
use rayon::prelude::*;
use serde::Serialize;

use super::{Calls, Files, Judge as _, Moment};
use crate::base::map::Map;
use crate::stacks::hits::{Hit, Key};
use crate::stacks::locate::{CodeLocation, Located, Locator, Role, Step, steps};
use icecore_elf::Avma;
use icecore_symbolize::image::{self, Finder};
use icecore_unwind::Edge;

/// How frames were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundBy {
    /// By the walk along frame pointers.
    FramePointers,
    /// By unwind tables of the code.
    UnwindRules,
    /// Some frames come from another sample of the thread.
    Completed,
    /// The caller was guessed, as where there are no unwind tables.
    Guess,
}

/// The result of checking the edges of all user stacks, each counted once per sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Impossible {
    /// All edges.
    pub calls: u64,
    /// Edges whose caller's code is available.
    pub checked: u64,
    /// Checked edges that the code does not make.
    pub impossible: u64,
    /// Impossible edges as a share of the checked ones; 0 if none was checked.
    pub share: f64,
    /// Counts by the image of the callee, from which unwinding sought the caller, and by how it was found; most impossible edges
    /// first.
    pub images: Vec<ImpossibleRow>,
    /// Samples whose user stack has one or more impossible edges.
    #[serde(skip)]
    pub samples: u64,
}

/// The edges of one image that were found in one way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImpossibleRow {
    /// The path of the image; `None` for code in no file.
    pub image: Option<String>,
    /// How the stacks were found.
    pub by: FoundBy,
    /// Edges that were checked.
    pub checked: u64,
    /// Edges that the code does not make.
    pub impossible: u64,
    /// Impossible edges as a share of the checked ones.
    pub share: f64,
}

/// The places of a caller and of its callee, and whether the caller is the outermost frame.
type Pair = (u32, u32, bool);
/// Samples by how their stacks were found.
type Weights = [u64; 3];

/// The ways to find stacks, in the order of [`Weights`].
const WAYS: [FoundBy; 4] = [FoundBy::FramePointers, FoundBy::UnwindRules, FoundBy::Completed, FoundBy::Guess];
/// Guesses are counted by frame; the other ways by stack.
const GUESS: usize = 3;

/// Checks every distinct edge of the user stacks.
///
/// # Cost   0.3 µs for an edge whose call targets the callee; up to 0.2 ms for one whose path is followed. Opens files of images,
/// but does not read them
pub(crate) fn impossible(
    locator: &Locator<'_>,
    finder: &Finder<'_>,
    located: &Located,
    rows: &[Hit],
) -> Impossible {
    let spots = &located.spots;
    let mut through: Vec<Weights> = vec![[0; 3]; spots.len()];
    for (hit, leaf) in rows.iter().zip(&located.leaves) {
        through[*leaf as usize][way(&hit.key)] += hit.samples;
    }
    for position in (1..spots.len()).rev() {
        let inner = through[position];
        let outer = &mut through[spots[position].caller as usize];
        outer.iter_mut().zip(inner).for_each(|(outer, inner)| *outer += inner);
    }
    let pair = |position: usize| {
        let caller = spots[position].caller as usize;
        let is_edge = position > 0 && caller > 0 && through[position] != [0; 3];
        is_edge.then(|| (spots[caller].place, spots[position].place, spots[caller].caller == 0))
    };
    let mut pairs: Vec<Pair> = (0..spots.len()).into_par_iter().filter_map(pair).collect();
    pairs.par_sort_unstable();
    pairs.dedup();
    let files = Files::new(&locator.images, finder);
    let calls = files.calls();
    let edges: Vec<Edge> = pairs.par_iter().map(|pair| judge(&calls, located, *pair)).collect();

    let mut sums: Map<(Option<u32>, usize), (u64, u64)> = Map::default();
    let (mut calls_count, mut has_impossible) = (0, vec![false; spots.len()]);
    for position in 1..spots.len() {
        has_impossible[position] = has_impossible[spots[position].caller as usize];
        let Some(edge) = pair(position).and_then(|pair| pairs.binary_search(&pair).ok()).map(|at| edges[at])
        else {
            continue;
        };
        calls_count += through[position].iter().sum::<u64>();
        if edge == Edge::Unknown {
            continue;
        }
        has_impossible[position] |= edge == Edge::Impossible;
        let image = match located.places.get(spots[position].place as usize) {
            Some(CodeLocation::Image(image, _)) => Some(*image),
            _ => None,
        };
        let is_guessed = located.guessed[spots[position].caller as usize];
        for (way, samples) in through[position].iter().enumerate().filter(|(_, samples)| **samples > 0) {
            let (checked, impossible) =
                sums.entry((image, if is_guessed { GUESS } else { way })).or_default();
            *checked += samples;
            *impossible += if edge == Edge::Impossible { *samples } else { 0 };
        }
    }
    let made = made_edges(locator, rows, &calls);
    for ((image, way), (checked, impossible)) in &made.sums {
        let sum = sums.entry((*image, *way)).or_default();
        *sum = (sum.0 + checked, sum.1 + impossible);
    }
    let path = |image: u32| locator.images[image as usize].path.clone();
    let row = |((image, way), (checked, impossible)): ((Option<u32>, usize), (u64, u64))| ImpossibleRow {
        image: image.map(path),
        by: WAYS[way],
        checked,
        impossible,
        share: impossible as f64 / checked as f64,
    };
    let mut images: Vec<ImpossibleRow> = sums.into_iter().map(row).collect();
    images.sort_by(|a, b| {
        (b.impossible, b.checked)
            .cmp(&(a.impossible, a.checked))
            .then_with(|| (&a.image, a.by).cmp(&(&b.image, b.by)))
    });
    let checked = images.iter().map(|row| row.checked).sum();
    let impossible = images.iter().map(|row| row.impossible).sum();
    let has_any = |row: usize, leaf: u32| has_impossible[leaf as usize] || made.rows.contains(&row);
    let of_rows = rows.iter().zip(&located.leaves).enumerate();
    let of_rows = of_rows.filter(|(row, (_, leaf))| has_any(*row, **leaf)).map(|(_, (hit, _))| hit);
    Impossible {
        calls: calls_count,
        checked,
        impossible,
        share: if checked > 0 { impossible as f64 / checked as f64 } else { 0.0 },
        images,
        samples: of_rows.map(|hit| hit.samples).sum(),
    }
}

/// Edges whose callers are JIT code.
#[derive(Default)]
struct MadeEdges {
    /// Checked and impossible edges, by the image of the callee and the way.
    sums: Map<(Option<u32>, usize), (u64, u64)>,
    /// Positions of the rows that have an impossible edge.
    rows: HashSet<usize>,
}

/// Checks the edges whose callers are JIT code, sample by sample: the code at an address depends on the time.
fn made_edges(locator: &Locator<'_>, rows: &[Hit], calls: &Calls<'_>) -> MadeEdges {
    let mut found = MadeEdges::default();
    if locator.tables.call_sites.is_empty() {
        return found;
    }
    for (row, hit) in rows.iter().enumerate() {
        let Some(space) = hit.key.space else { continue };
        let at = Moment { space, span_ns: hit.span_ns };
        let mut callee: Option<Step> = None;
        for step in steps(locator.tables, hit.key.user) {
            let callee = callee.replace(step);
            let (Some(callee), Some(Location::Address(address))) = (callee, step.location) else { continue };
            let is_made = match locator.user(Some(space), step) {
                CodeLocation::Image(image, _) => {
                    locator.images[image as usize].kind == image::Kind::Anonymous
                }
                place => matches!(place, CodeLocation::Jit(..)),
            };
            // The function that a signal interrupted did not call anything.
            if !is_made || step.role != Role::Return || callee.role == Role::Interrupted {
                continue;
            }
            let Some(of) = locator.address(Some(space), callee) else { continue };
            // The target of a frame pointer may be the first byte of a function.
            let called = callee.role.lookup(Avma(of));
            let edge = locator.made_edge(at, Avma(address), called, true, Some(calls));
            if edge == Edge::Unknown {
                continue;
            }
            let image = match locator.user(Some(space), callee) {
                CodeLocation::Image(image, _) => Some(image),
                _ => None,
            };
            let way = if step.mark.has(Mark::GUESSED) { GUESS } else { way(&hit.key) };
            let sum = found.sums.entry((image, way)).or_default();
            sum.0 += hit.samples;
            if edge == Edge::Impossible {
                sum.1 += hit.samples;
                found.rows.insert(row);
            }
        }
    }
    found
}

fn way(key: &Key) -> usize {
    match key.repair.kind() {
        _ if key.end == WalkEnd::BY_TABLES => 1,
        StackRepair::COMPLETED => 2,
        StackRepair::REPLACED => 1,
        _ => 0,
    }
}

/// Judges one edge. A caller's place is one byte before its return address: the last byte of the call.
fn judge(calls: &Calls<'_>, located: &Located, (caller, callee, is_outermost): Pair) -> Edge {
    let place = |place: u32| located.places.get(place as usize).copied();
    let image = |place: Option<CodeLocation>| match place {
        Some(CodeLocation::Image(image, off)) => Some((image, off)),
        _ => None,
    };
    let (Some(caller), callee) = (image(place(caller)), place(callee)) else { return Edge::Unknown };
    match callee {
        Some(CodeLocation::Image(..) | CodeLocation::Jit(..)) => {
            calls.edge(caller, image(callee), is_outermost)
        }
        _ => Edge::Unknown,
    }
}
