//! What matches a pattern: which functions, how much of the selection, and where in a tree.

use super::Explorer;
use super::filters::Matching;
use super::selected::Selected;
use icecore_profile::named::Amount;

/// The functions that match a pattern, and the samples that have one of them.
#[derive(Debug)]
pub struct Found {
    /// The functions.
    pub matching: Matching,
    /// How many of them the selection has.
    pub functions: u64,
    /// The selected samples that have one of them, each counted once.
    pub amount: Amount,
    /// For each stack whether it is called by one of them.
    pub(super) called: Vec<bool>,
    /// For each stack whether it leads to one of them, and the selection has that.
    pub(super) leads: Vec<bool>,
}

impl Explorer<'_> {
    /// Finds the functions that match in what is selected.
    ///
    /// # Cost
    /// O(stacks + rows)
    pub fn find(&self, selected: &Selected, matching: Matching) -> Found {
        let trie = &self.trie;
        let (mut called, mut leads) = (vec![false; trie.len()], vec![false; trie.len()]);
        let mut is_seen = vec![false; matching.is_in.len()];
        let mut has = vec![false; trie.len()];
        let mut amount = Amount::default();
        for position in 1..trie.len() {
            let (caller, function) = (trie.caller[position] as usize, trie.function[position] as usize);
            called[position] = has[caller];
            let is_hit = selected.shape.has(position as u32) && matching.is_in[function];
            has[position] = has[caller] || is_hit;
            if is_hit && selected.through[position].samples > 0 {
                is_seen[function] = true;
                if !has[caller] {
                    amount.add(selected.through[position]);
                }
            }
        }
        for position in (1..trie.len()).rev() {
            let is_hit = selected.shape.has(position as u32)
                && matching.is_in[trie.function[position] as usize]
                && selected.through[position].samples > 0;
            leads[trie.caller[position] as usize] |= is_hit || leads[position];
        }
        let functions = is_seen.iter().filter(|is_seen| **is_seen).count() as u64;
        Found { matching, functions, amount, called, leads }
    }
}
