//! Merges located stacks into a trie of places.

use icecore_format::records::{Location, Mark};
use rayon::prelude::*;

use super::{CodeLocation, Locator, Role, Step, steps};
use crate::stacks::hits::{Hit, Key};

/// Stacks as a trie of places, root first.
#[derive(Debug)]
pub struct Located {
    /// Distinct places, ascending.
    pub places: Vec<CodeLocation>,
    /// The trie. A spot has a caller (0 at the outermost frame, else the position of an earlier spot) and a place. A caller comes
    /// before its callees; entry 0 is the empty stack. Equal stacks of different processes may be two entries.
    pub spots: Vec<Spot>,
    /// For each spot, true if its frame was guessed and nothing proves it.
    pub guessed: Vec<bool>,
    /// The innermost frame of each row of the hits, a position in `spots`.
    pub leaves: Vec<u32>,
}

impl Located {
    /// Finds the position of a place in [`Located::places`].
    pub fn position(&self, place: CodeLocation) -> Option<usize> {
        self.places.binary_search(&place).ok()
    }

    /// Returns for each spot whether its stack holds a guessed frame.
    pub fn with_guesses(&self) -> Vec<bool> {
        let mut guessed = self.guessed.clone();
        for (spot, Spot { caller, .. }) in self.spots.iter().enumerate().skip(1) {
            guessed[spot] |= guessed[*caller as usize];
        }
        guessed
    }
}

/// One frame of the trie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spot {
    /// The caller, a position in [`Located::spots`].
    pub caller: u32,
    /// A position in [`Located::places`].
    pub place: u32,
}

/// Finds the places of all distinct stacks: kernel frames on top of the user frames that called them.
///
/// # Cost
/// Visits a node of the trie once for all address spaces together if its code is stored by image, else once for each; kernel stacks
/// once for each user stack below them.
pub fn locate(locator: &Locator<'_>, hits: &[Hit]) -> Located {
    let nodes = locator.tables.nodes.len();
    let (mut user_spots, mut kernel_spots) = (Spots::new(nodes, false), Spots::new(nodes, true));
    let most = FREE_SPOTS + SPOTS_PER_NODE * nodes;
    let mut trie = Trie { spots: vec![(u32::MAX, CodeLocation::Lost)], guessed: vec![false], most };
    let mut leaves: Vec<u32> = Vec::with_capacity(hits.len());
    let mut below = 0;
    let mut before: Option<Key> = None;
    for hit in hits {
        let Key { space, user, kernel, .. } = hit.key;
        let is_same_space = before.is_some_and(|before| before.space == space);
        let is_same_user = is_same_space && before.is_some_and(|before| before.user == user);
        if !is_same_space {
            user_spots.forget();
        }
        if !is_same_user {
            kernel_spots.forget();
            below = trie.descend(locator, user, 0, &mut user_spots, |step| locator.user(space, step));
        }
        leaves.push(trie.descend(locator, kernel, below, &mut kernel_spots, |step| locator.kernel(step)));
        before = Some(hit.key);
    }
    trie.located(leaves)
}

/// The spots of nodes, by the position of the node, for a leaf and for a caller.
struct Spots {
    of_leaf: Vec<(u32, u32)>,
    of_caller: Vec<(u32, u32)>,
    /// The current mark. Spots with an older mark are stale: they depend on another address space, or on another stack below.
    now: u32,
    /// No spot is the same everywhere.
    depends: bool,
}

/// The mark of spots that are the same everywhere.
const EVERYWHERE: u32 = 1;

impl Spots {
    fn new(nodes: usize, depends: bool) -> Self {
        Self { of_leaf: vec![(0, 0); nodes], of_caller: vec![(0, 0); nodes], now: EVERYWHERE + 1, depends }
    }

    fn forget(&mut self) {
        self.now += 1;
    }

    fn of(&mut self, step: &Step) -> Option<&mut (u32, u32)> {
        match step.role {
            Role::Leaf => self.of_leaf.get_mut(step.position?),
            Role::Return | Role::Interrupted => self.of_caller.get_mut(step.position?),
        }
    }

    /// Finds the spot of a step, and whether it is the same everywhere.
    fn find(&mut self, step: &Step) -> Option<(u32, bool)> {
        let now = self.now;
        let (mark, spot) = *self.of(step)?;
        (mark == now || mark == EVERYWHERE).then_some((spot, mark == EVERYWHERE))
    }

    fn learn(&mut self, step: &Step, spot: u32, is_everywhere: bool) {
        let mark = if is_everywhere { EVERYWHERE } else { self.now };
        if let Some(known) = self.of(step) {
            *known = (mark, spot);
        }
    }
}

/// The growing trie: caller and place.
struct Trie {
    spots: Vec<(u32, CodeLocation)>,
    guessed: Vec<bool>,
    /// The most spots that the trie may have.
    most: usize,
}

/// Any recording may have so many spots, and as many again for each node of its trie. Every kernel stack hangs below every user
/// stack from which it was called, so a hostile recording of a few kilobytes could ask for billions.
const FREE_SPOTS: usize = 4 << 20;
const SPOTS_PER_NODE: usize = 64;

impl Trie {
    /// Adds the stack that ends at the node `leaf` on top of the spot `base`, and returns its innermost spot. `spots` remembers the
    /// spots of earlier stacks on this base. If there are too many spots, the whole stack becomes one lost frame.
    fn descend(
        &mut self,
        locator: &Locator<'_>,
        leaf: u32,
        base: u32,
        spots: &mut Spots,
        place: impl Fn(Step) -> CodeLocation,
    ) -> u32 {
        // Whether the caller of a function of an interpreter is no frame that this replaces.
        let (mut fresh, mut is_in_run) = (Vec::new(), true);
        let (mut spot, mut is_everywhere) = (base, !spots.depends);
        for step in steps(locator.tables, leaf) {
            if let Some(known) = spots.find(&step) {
                (spot, is_everywhere) = known;
                is_in_run = step.is_interpreted() || locator.is_folded(&step);
                break;
            }
            fresh.push(step);
        }
        if self.spots.len() + fresh.len() > self.most {
            self.spots.push((base, CodeLocation::Lost));
            self.guessed.push(false);
            return (self.spots.len() - 1) as u32;
        }
        for step in fresh.into_iter().rev() {
            is_everywhere &= matches!(step.location, Some(Location::Image { .. }));
            // Functions of an interpreter are shown instead of the machine frame that runs them.
            if step.is_interpreted() && !is_in_run && !locator.tables.shows_evaluators {
                spot = self.spots[spot as usize].0;
            }
            let is_folded = locator.is_folded(&step);
            is_in_run = step.is_interpreted() || is_folded;
            if !is_folded {
                self.spots.push((spot, place(step)));
                self.guessed.push(step.mark.has(Mark::GUESSED));
                spot = (self.spots.len() - 1) as u32;
            }
            spots.learn(&step, spot, is_everywhere);
        }
        spot
    }

    /// Numbers the places.
    fn located(self, leaves: Vec<u32>) -> Located {
        let mut places: Vec<CodeLocation> = self.spots[1..].par_iter().map(|(_, place)| *place).collect();
        places.par_sort_unstable();
        places.dedup();
        let position = |place: &CodeLocation| places.binary_search(place).map_or(u32::MAX, |at| at as u32);
        let spots = self.spots.par_iter();
        let spots = spots.map(|(caller, place)| Spot { caller: *caller, place: position(place) }).collect();
        Located { places, spots, guessed: self.guessed, leaves }
    }
}
