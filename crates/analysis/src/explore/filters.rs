//! What is selected of the loaded samples.

use std::sync::Arc;

/// Which samples and frames are shown. All rules hold together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filters {
    /// Only from this moment on, and before that one, ns on the common clock. Of a wait the part in between counts.
    pub range_ns: Option<(u64, u64)>,
    /// Which events, by their positions.
    pub events: Vec<bool>,
    /// Inlined functions are functions of their own; else they count for the function around them.
    pub inlined_apart: bool,
    /// Everything else, in the order in which the user asked for it.
    pub rules: Vec<Rule>,
}

/// What becomes of the samples of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What becomes of them.
    pub verb: Verb,
    /// Of what.
    pub subject: Subject,
}

/// What becomes of samples or frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// No other samples are kept.
    Only,
    /// The samples are left out.
    Without,
    /// The frames are taken out of their stacks; only of code.
    Hide,
}

/// What samples can have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A process, a number that the caller has given it.
    Process(u32),
    /// A thread, likewise.
    Thread(u32),
    /// A kind of waits, a position in [`super::Explorer::kinds`].
    Wait(u32),
    /// A function anywhere in the stack, a position in the names' functions.
    Function(u32),
    /// A function of an image anywhere in the stack: a number of [`super::Explorer::image`].
    Image(u32),
    /// A function whose name matches a pattern anywhere in the stack.
    Matching(Matching),
}

/// The functions that match a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matching {
    /// The pattern, as it was typed.
    pub pattern: Arc<str>,
    /// For each of the names' functions whether it matches.
    pub is_in: Arc<[bool]>,
}

impl Subject {
    /// Returns true if this is code, so that it has frames.
    pub fn is_code(&self) -> bool {
        matches!(self, Self::Function(_) | Self::Image(_) | Self::Matching(_))
    }
}

impl Filters {
    /// Selects everything of these events.
    pub fn of(events: Vec<bool>) -> Self {
        Self { range_ns: None, events, inlined_apart: false, rules: Vec::new() }
    }

    /// Returns true if an event is selected.
    pub fn has_event(&self, event: u8) -> bool {
        self.events.get(usize::from(event)).copied().unwrap_or_default()
    }

    /// Returns these filters with one more rule; the same if they have it.
    #[must_use]
    pub fn with(&self, verb: Verb, subject: Subject) -> Self {
        let rule = Rule { verb, subject };
        let mut filters = self.clone();
        if !filters.rules.contains(&rule) {
            filters.rules.push(rule);
        }
        filters
    }
}
