//! Adds up samples by groups of places: instructions, source lines, whatever a listing shows.

use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{Amount, Sum};
use icecore_profile::stacks::locate::Located;

/// The distinct stacks that the filters and patterns select, with their samples.
#[derive(Debug)]
pub struct CountedStacks<'a> {
    located: &'a Located,
    /// For each row of the hits the innermost spot that is not hidden; 0 if the row is not selected.
    shown: Vec<u32>,
    /// Innermost spots, and how often their stacks were hit.
    leaves: Vec<(u32, Amount)>,
}

impl<'a> CountedStacks<'a> {
    /// Counts the stacks of a report, whose patterns apply as everywhere: a sample whose innermost frames are hidden counts at the
    /// first one that is not.
    pub fn new(report: &Report<'_>, located: &'a Located) -> Self {
        let (names, patterns) = (&report.profile.names, &report.loaded.patterns);
        let matches = patterns.matches(names);
        let functions = |place: u32| {
            let frames = names.of_places.of(place as usize).iter();
            frames.map(|frame| names.frames[*frame as usize].function as usize)
        };
        // For each spot: is a function in focus, of the language, or ignored, and the innermost spot that is not hidden.
        let mut of_spot = vec![(patterns.focus.is_none(), patterns.language.is_none(), false, 0u32)];
        for (position, spot) in located.spots.iter().enumerate().skip(1) {
            let (in_focus, of_language, ignored, shown) = of_spot[spot.caller as usize];
            let is_hidden = functions(spot.place).all(|function| matches.hidden[function]);
            of_spot.push((
                in_focus || functions(spot.place).any(|function| matches.in_focus[function]),
                of_language || functions(spot.place).any(|function| matches.of_language[function]),
                ignored || functions(spot.place).any(|function| matches.ignored[function]),
                if is_hidden { shown } else { position as u32 },
            ));
        }
        let mut at = vec![Amount::default(); located.spots.len()];
        let mut innermost = Vec::with_capacity(report.loaded.hits.rows.len());
        for (hit, leaf) in report.loaded.hits.rows.iter().zip(&located.leaves) {
            let (in_focus, of_language, ignored, shown) = of_spot[*leaf as usize];
            let shown = if in_focus && of_language && !ignored { shown } else { 0 };
            at[shown as usize].add(Amount { samples: hit.samples, weight: hit.weight });
            innermost.push(shown);
        }
        let leaves = at.into_iter().enumerate().skip(1).filter(|(_, amount)| amount.samples > 0);
        let leaves = leaves.map(|(spot, amount)| (spot as u32, amount)).collect();
        Self { located, shown: innermost, leaves }
    }

    /// Finds the innermost place of the samples of a row of the hits, a position; `None` if they are not selected.
    pub fn innermost(&self, row: u32) -> Option<u32> {
        let spot = self.shown.get(row as usize).copied().filter(|spot| *spot != 0)?;
        Some(self.located.spots[spot as usize].place)
    }

    /// Adds up groups, numbers below `groups`, given those of each place. The leaf of a stack counts for self, its whole stack once for
    /// the total.
    ///
    /// # Cost    one step for each frame of each distinct stack
    pub fn sums<'g>(&self, groups: usize, of_place: impl Fn(u32) -> &'g [u32]) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); groups];
        // The last stack that was counted for a group, plus 1.
        let mut counted = vec![0usize; groups];
        for (number, (leaf, amount)) in self.leaves.iter().enumerate() {
            let mut spot = *leaf;
            while spot != 0 {
                let entry = self.located.spots[spot as usize];
                for group in of_place(entry.place) {
                    let group = *group as usize;
                    if spot == *leaf {
                        sums[group].own.add(*amount);
                    }
                    if std::mem::replace(&mut counted[group], number + 1) != number + 1 {
                        sums[group].total.add(*amount);
                    }
                }
                spot = entry.caller;
            }
        }
        sums
    }
}
