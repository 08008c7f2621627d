//! What rows of waits have in common: the kind of the waits, and what ended them.

use icecore_format::records::WokenBy;

use super::Thread;
use crate::map::{Interned, Map};
use crate::stacks::hits::{Key, Selection};
use crate::stacks::waits::kinds::{Kinds, WaitKind};
use crate::stacks::waits::{WaitFacts, WaitGroups};

/// What all waits of a row have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowWait {
    /// For what the thread waited.
    pub kind: WaitKind,
    /// What ended the waits.
    pub waker: Waker,
}

/// What ended a wait.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Waker {
    /// A thread.
    Thread(Thread),
    /// A hard interrupt: a device.
    HardInterrupt,
    /// A soft interrupt: a timer, the network.
    SoftInterrupt,
    /// Nothing: the thread could run all the time.
    Nobody,
    /// The wait had not ended when the recording ended.
    NotEnded,
    /// The recording does not say it.
    Unknown,
}

impl Waker {
    /// Returns what the rows of waits say, in words; `None` for a thread, which has a name of its own.
    pub fn words(&self) -> Option<&'static str> {
        match self {
            Self::Thread(_) => None,
            Self::HardInterrupt => Some("hard interrupt"),
            Self::SoftInterrupt => Some("soft interrupt"),
            Self::Nobody => Some("nobody"),
            Self::NotEnded => Some("not ended"),
            Self::Unknown => Some("unknown"),
        }
    }

    /// Finds out what ended the waits of a group.
    fn of(selection: Selection<'_>, facts: &WaitFacts) -> Self {
        match (facts.woken_by, facts.waker) {
            _ if facts.is_open => Self::NotEnded,
            (WokenBy::THREAD, Some((task, space))) => Self::Thread(Thread::new(selection, task, space, 0)),
            (WokenBy::HARD_INTERRUPT, _) => Self::HardInterrupt,
            (WokenBy::SOFT_INTERRUPT, _) => Self::SoftInterrupt,
            (WokenBy::NOBODY, _) => Self::Nobody,
            _ => Self::Unknown,
        }
    }
}

/// Collects what rows of waits have in common.
pub(super) struct RowWaits<'a> {
    selection: Selection<'a>,
    groups: &'a WaitGroups,
    kinds: Option<Kinds<'a>>,
    known: Map<(u32, u32), u32>,
    items: Interned<RowWait>,
}

impl<'a> RowWaits<'a> {
    pub(super) fn new(selection: Selection<'a>, groups: &'a WaitGroups) -> Self {
        Self { selection, groups, kinds: None, known: Map::default(), items: Interned::new() }
    }

    /// Returns the position of what the waits of a key have in common; `None` if they are no waits, or not counted apart.
    pub(super) fn of(&mut self, key: &Key) -> Option<u32> {
        let facts = self.groups.facts(key.wait)?;
        let kinds = self.kinds.get_or_insert_with(|| Kinds::new(self.selection.tables));
        let new = || {
            let kind = kinds.of(facts, key.kernel);
            self.items.intern(RowWait { kind, waker: Waker::of(self.selection, facts) })
        };
        Some(*self.known.entry((key.wait, key.kernel)).or_insert_with(new))
    }

    /// Returns what waits have in common, given its position.
    pub(super) fn get(&self, position: u32) -> Option<&RowWait> {
        self.items.get(position)
    }

    pub(super) fn into_items(self) -> Vec<RowWait> {
        self.items.into_items()
    }
}
