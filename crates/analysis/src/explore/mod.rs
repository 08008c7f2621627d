//! Explores a profile in memory: filters over rows and moments, and what functions, trees, processes and moments they leave.
//!
//! ```text
//!             filters
//!                │
//! profile ─► Explorer ─► Selected ─► rows of functions, images, processes, threads, events, waits
//!            (once)          ├─────► CallTree: callees or callers, opened node by node
//!                            ├─────► Found: what matches a pattern
//!                            └─────► Lanes: weight over time
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | `trie` | stacks in depth-first order; which frames are shown |
//! | [`filters`] | what is selected |
//! | [`selected`] | amounts of rows, stacks and everything that is made of them |
//! | [`call_tree`] | trees of callees and callers |
//! | [`lanes`] | weight over time |
//! | [`found`] | what matches a pattern |

pub mod call_tree;
pub mod filters;
pub mod found;
pub mod lanes;
pub mod selected;
mod trie;

use filters::Subject;
use icecore_profile::map::Interned;
use icecore_profile::named::{Amount, Profile};
use icecore_profile::stacks::waits::kinds::WaitKind;
use trie::Trie;

/// A profile whose threads, events, waits and moments are apart, prepared for any number of filters.
#[derive(Debug)]
pub struct Explorer<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The kinds of all waits.
    pub kinds: Vec<WaitKind>,
    owners: Owners,
    trie: Trie,
    /// The position of the stack of each row.
    stack_of_row: Vec<u32>,
    /// The event of each row: rows are large, and every moment asks for its event.
    event_of_row: Vec<u8>,
    /// The kind of each of the profile's waits.
    kind_of_wait: Vec<u32>,
    /// The number of the image of each function.
    image_of: Vec<u32>,
    /// A moment stands for a wait.
    has_waits: bool,
}

/// Who owns the samples, and what their events are. The caller knows the names.
#[derive(Debug, Default)]
pub struct Owners {
    /// The process of each of the profile's threads, a number below `processes`.
    pub process_of_thread: Vec<u32>,
    /// The thread of each of the profile's threads (one thread may have several cgroups), a number below `threads`.
    pub thread_of_thread: Vec<u32>,
    /// The number of processes.
    pub processes: usize,
    /// The number of threads.
    pub threads: usize,
    /// The unit of each event's weights; empty if it has none.
    pub units: Vec<Box<str>>,
}

impl<'a> Explorer<'a> {
    /// Prepares a profile.
    ///
    /// # Cost
    /// O(stacks + rows)
    pub fn new(profile: &'a Profile, owners: Owners) -> Self {
        let (trie, position_of) = Trie::new(profile);
        let mut kinds = Interned::new();
        let kind_of_wait = profile.waits.iter().map(|wait| kinds.intern(wait.kind.clone())).collect();
        let image = |image: Option<u32>| image.unwrap_or(profile.names.images.len() as u32);
        Self {
            stack_of_row: profile.rows.iter().map(|row| position_of[row.stack as usize]).collect(),
            event_of_row: profile.rows.iter().map(|row| row.event).collect(),
            image_of: profile.names.functions.iter().map(|function| image(function.image)).collect(),
            has_waits: profile.moments.iter().any(|moment| moment.lasted_ns > 0),
            kinds: kinds.into_items(),
            profile,
            owners,
            trie,
            kind_of_wait,
        }
    }

    /// Returns the path of an image; `None` for the number that stands for code without an image.
    pub fn image(&self, number: u32) -> Option<&'a str> {
        self.profile.names.images.get(number as usize).map(|image| &*image.path)
    }

    /// Returns the name of a function.
    pub fn name(&self, function: u32) -> &'a str {
        &self.profile.names.functions[function as usize].name
    }

    /// Returns from the first sample to after the last, ns on the common clock.
    pub fn span_ns(&self) -> (u64, u64) {
        let moments = &self.profile.moments;
        let begins = moments.iter().map(|moment| moment.time_ns.saturating_sub(moment.lasted_ns));
        let last_ns = moments.last().map_or(0, |moment| moment.time_ns.saturating_add(1));
        (begins.min().unwrap_or_default(), last_ns)
    }

    /// Returns for each function whether it belongs to a subject of code.
    fn functions_of(&self, subject: &Subject) -> Vec<bool> {
        let number = self.profile.names.functions.len();
        match subject {
            Subject::Function(function) => (0..number as u32).map(|other| other == *function).collect(),
            Subject::Image(image) => self.image_of.iter().map(|other| other == image).collect(),
            Subject::Matching(matching) => matching.is_in.to_vec(),
            Subject::Process(_) | Subject::Thread(_) | Subject::Wait(_) => vec![false; number],
        }
    }

    /// Adds up amounts of rows by a number of each row.
    fn by_number(&self, amounts: &[Amount], numbers: usize, number_of: impl Fn(usize) -> u32) -> Vec<Amount> {
        let mut sums = vec![Amount::default(); numbers];
        for (row, amount) in amounts.iter().enumerate().filter(|(_, amount)| amount.samples > 0) {
            sums[number_of(row) as usize].add(*amount);
        }
        sums
    }
}

#[cfg(test)]
mod tests;
