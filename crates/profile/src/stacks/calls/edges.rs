//! Counts impossible edges of a profile: their share is a lower bound of the wrong stacks.

use icecore_format::records::{StackRepair, WalkEnd};
use rayon::prelude::*;
use serde::Serialize;

use super::{Calls, Files, Judge as _};
use crate::map::Map;
use crate::stacks::hits::{Hit, Key};
use crate::stacks::locate::{CodeLocation, Located, Locator};
use icecore_symbolize::image::Finder;
use icecore_unwind::Edge;

/// How frames were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundBy {
    /// By the walk along frame pointers.
    FramePointers,
    /// By unwind tables of the code.
    UnwindRules,
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
type Weights = [u64; 2];
/// Checked and impossible edges, by the image of the callee, a position in the locator's images, and the way.
type Sums = Map<(Option<u32>, usize), (u64, u64)>;

/// The ways to find stacks, in the order of [`Weights`].
const WAYS: [FoundBy; 3] = [FoundBy::FramePointers, FoundBy::UnwindRules, FoundBy::Guess];
/// Guesses are counted by frame; the other ways by stack.
const GUESS: usize = 2;

/// The numbers of an [`Impossible`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    calls: u64,
    samples: u64,
    sums: Sums,
}

impl Counts {
    /// Checks every distinct edge of the user stacks.
    ///
    /// # Cost   0.3 µs for an edge whose call targets the callee; up to 0.2 ms for one whose path is followed. Opens files of images,
    /// but does not read them
    pub(crate) fn find(locator: &Locator<'_>, finder: &Finder<'_>, located: &Located, rows: &[Hit]) -> Self {
        let spots = &located.spots;
        let mut through: Vec<Weights> = vec![[0; 2]; spots.len()];
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
            let is_edge = position > 0 && caller > 0 && through[position] != [0; 2];
            is_edge.then(|| (spots[caller].place, spots[position].place, spots[caller].caller == 0))
        };
        let mut pairs: Vec<Pair> = (0..spots.len()).into_par_iter().filter_map(pair).collect();
        pairs.par_sort_unstable();
        pairs.dedup();
        let files = Files::new(&locator.images, finder);
        let calls = files.calls();
        let edges: Vec<Edge> = pairs.par_iter().map(|pair| judge(&calls, located, *pair)).collect();

        let mut found = Self::default();
        let mut has_impossible = vec![false; spots.len()];
        for position in 1..spots.len() {
            has_impossible[position] = has_impossible[spots[position].caller as usize];
            let Some(edge) =
                pair(position).and_then(|pair| pairs.binary_search(&pair).ok()).map(|at| edges[at])
            else {
                continue;
            };
            found.calls += through[position].iter().sum::<u64>();
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
                    found.sums.entry((image, if is_guessed { GUESS } else { way })).or_default();
                *checked += samples;
                *impossible += if edge == Edge::Impossible { *samples } else { 0 };
            }
        }
        let of_rows = rows.iter().zip(&located.leaves).filter(|(_, leaf)| has_impossible[**leaf as usize]);
        found.samples = of_rows.map(|(hit, _)| hit.samples).sum();
        found
    }

    /// Names the images.
    pub(crate) fn named(&self, locator: &Locator<'_>) -> Impossible {
        let path = |image: u32| Some(locator.images.get(image as usize)?.path.clone());
        let row =
            |((image, way), (checked, impossible)): (&(Option<u32>, usize), &(u64, u64))| ImpossibleRow {
                image: image.and_then(path),
                by: WAYS[*way],
                checked: *checked,
                impossible: *impossible,
                share: *impossible as f64 / *checked as f64,
            };
        let mut images: Vec<ImpossibleRow> = self.sums.iter().map(row).collect();
        images.sort_by(|a, b| {
            (b.impossible, b.checked)
                .cmp(&(a.impossible, a.checked))
                .then_with(|| (&a.image, a.by).cmp(&(&b.image, b.by)))
        });
        let checked = images.iter().map(|row| row.checked).sum();
        let impossible = images.iter().map(|row| row.impossible).sum();
        Impossible {
            calls: self.calls,
            checked,
            impossible,
            share: if checked > 0 { impossible as f64 / checked as f64 } else { 0.0 },
            images,
            samples: self.samples,
        }
    }

    /// Writes the numbers as text.
    pub(crate) fn to_text(&self) -> String {
        let sum = |((image, way), (checked, impossible)): (&(Option<u32>, usize), &(u64, u64))| {
            // Images count from 1 here; 0 is none.
            let image = image.map_or(0, |image| u64::from(image) + 1);
            format!("{image} {way} {checked} {impossible}")
        };
        let all = [format!("{} {}", self.calls, self.samples)].into_iter().chain(self.sums.iter().map(sum));
        all.collect::<Vec<_>>().join("\n")
    }

    /// Reads such a text.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let numbers =
            |line: &str| line.split(' ').map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>();
        let mut lines = text.split('\n').map(numbers);
        let [calls, samples] = lines.next()??[..] else { return None };
        let sum = |numbers: Option<Vec<u64>>| {
            let [image, way, checked, impossible] = numbers?[..] else { return None };
            let image = image.checked_sub(1).map(u32::try_from).transpose().ok()?;
            let way = usize::try_from(way).ok().filter(|way| *way < WAYS.len())?;
            (0 < checked && impossible <= checked).then_some(((image, way), (checked, impossible)))
        };
        Some(Self { calls, samples, sums: lines.map(sum).collect::<Option<_>>()? })
    }
}

fn way(key: &Key) -> usize {
    match key.repair.kind() {
        _ if key.end == WalkEnd::BY_TABLES => 1,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_they_were_written() {
        let sums = [((None, 0), (7, 0)), ((Some(0), GUESS), (5, 5)), ((Some(u32::MAX), 1), (u64::MAX, 1))];
        for sums in [Sums::default(), Sums::from_iter(sums)] {
            let counts = Counts { calls: u64::MAX, samples: 3, sums };
            assert_eq!(Counts::of_text(&counts.to_text()), Some(counts));
        }
    }

    #[test]
    fn counts_that_cannot_be_are_not_read() {
        let sums =
            ["", "0 0 0 0", "0 3 1 0", "0 0 1 2", "4294967297 0 1 0", "0 0 1", "0 0 1 0 0", "-1 0 1 0"];
        for text in
            sums.map(|sum| format!("1 1\n{sum}")).into_iter().chain(["", "1", "1 1 1"].map(Into::into))
        {
            assert_eq!(Counts::of_text(&text), None, "{text}");
        }
    }
}
