//! What lies at an address of a process.

use std::cell::RefCell;

use icecore_format::records::{Location, Mark};

use super::choose::Walked;
use super::grown::Framed;
use super::rules::Tables;
use crate::image::FileOff;
use crate::locate::{Locator, Role, Step};
use crate::spaces::SpaceId;
use crate::unwind::{By, Frame, Modules, Place};

/// The code of one address space.
pub(super) struct SpaceCode<'a> {
    locator: &'a Locator<'a>,
    space: SpaceId,
    rules: &'a Tables<'a>,
    /// What was looked at: address and location.
    seen: RefCell<Vec<(u64, Location)>>,
}

impl<'a> SpaceCode<'a> {
    pub(super) fn new(locator: &'a Locator<'a>, space: SpaceId, rules: &'a Tables<'a>) -> Self {
        Self { locator, space, rules, seen: RefCell::default() }
    }

    /// A frame of the walk; `None` if a block of it is missing, or it is nowhere.
    pub(super) fn walked(&self, step: Step) -> Option<Walked> {
        let (address, location) = (self.locator.address(Some(self.space), step)?, step.location?);
        self.seen.borrow_mut().push((address, location));
        Some(Walked { address, location, mark: step.mark })
    }

    /// The address that a word of code stands for: most are return addresses.
    pub(super) fn of_word(&self, id: u32) -> Option<u64> {
        let location = *self.locator.tables.held.code.find(id)?;
        let step =
            Step { node: 0, position: None, location: Some(location), role: Role::Return, mark: Mark::NONE };
        let address = self.locator.address(Some(self.space), step)?;
        self.seen.borrow_mut().push((address, location));
        Some(address)
    }

    /// The unwound frames as stacks have them, the leaf first.
    pub(super) fn framed(&self, frames: &[Frame]) -> Vec<Framed> {
        let by = |position: usize| frames.get(position).map(|frame| frame.by);
        let mark = |position: usize| {
            // Inside of what a signal has interrupted is the trampoline, of which no call lies in front, either.
            let is_interrupted = by(position) == Some(By::Signal) || by(position + 1) == Some(By::Signal);
            let mark = if is_interrupted { Mark::INTERRUPTED } else { Mark::NONE };
            if frames[position].by.is_guess() { mark.with(Mark::GUESSED) } else { mark }
        };
        frames.iter().enumerate().map(|(position, frame)| (self.location(frame), mark(position))).collect()
    }

    /// Where the code of an unwound frame lies, as a stack has it.
    fn location(&self, frame: &Frame) -> Location {
        let known = self.seen.borrow().iter().rev().find(|(address, _)| *address == frame.address).copied();
        match known {
            Some((_, location)) => location,
            None => Location::Address(frame.address),
        }
    }
}

impl Modules for SpaceCode<'_> {
    fn find(&self, address: u64) -> Option<Place<'_>> {
        let mapping = self.locator.mapping(self.space, address)?;
        let off = FileOff((address - mapping.start).wrapping_add(mapping.file_off));
        Some(self.rules.place(self.locator.image(mapping.image), off))
    }
}
