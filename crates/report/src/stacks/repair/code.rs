//! What lies at an address of a process.

use std::cell::RefCell;

use icecore_format::records::{Location, Mark};

use super::choose::Walked;
use super::grown::Framed;
use super::rules::Tables;
use crate::stacks::calls::Moment;
use crate::stacks::locate::{Locator, Role, Step};
use icecore_symbolize::image::{FileOff, Kind};
use icecore_unwind::{By, Edge, Frame, Modules, Place, Shape};

/// How CPython calls the trampolines that it makes of Python functions with `-X perf`.
const PYTHON: &[u8] = b"py::";
/// They have one call, in front of which the stack is aligned: `sub $8, %rsp; call *%rcx`, or `push %rbp; mov %rsp, %rbp; call
/// *%rcx`. In both the return address of the trampoline lies in the second word behind it.
const TRAMPOLINE_CALL_BYTES: u64 = 6;

/// The code of one address space at the time of a sample.
pub(super) struct SpaceCode<'a> {
    locator: &'a Locator<'a>,
    at: Moment,
    rules: &'a Tables<'a>,
    /// What was looked at: address and location.
    seen: RefCell<Vec<(u64, Location)>>,
    /// Signal trampolines on the walk.
    trampolines: RefCell<Vec<u64>>,
}

impl<'a> SpaceCode<'a> {
    pub(super) fn new(locator: &'a Locator<'a>, at: Moment, rules: &'a Tables<'a>) -> Self {
        Self { locator, at, rules, seen: RefCell::default(), trampolines: RefCell::default() }
    }

    /// A frame of the walk; `None` if a block of it is missing, or it is nowhere.
    pub(super) fn walked(&self, step: Step) -> Option<Walked> {
        let (address, location) = (self.locator.address(Some(self.at.space), step)?, step.location?);
        self.seen.borrow_mut().push((address, location));
        if step.mark.has(Mark::INTERRUPTED) {
            self.trampolines.borrow_mut().push(address);
        }
        Some(Walked { address, location, mark: step.mark })
    }

    /// The address that a word of code stands for: most are return addresses.
    pub(super) fn of_word(&self, id: u32) -> Option<u64> {
        let location = *self.locator.tables.held.code.find(id)?;
        let step =
            Step { node: 0, position: None, location: Some(location), role: Role::Return, mark: Mark::NONE };
        let address = self.locator.address(Some(self.at.space), step)?;
        self.seen.borrow_mut().push((address, location));
        Some(address)
    }

    /// Counts the frames of a walk up to the first one that cannot have called the frame before it, by its machine code. The first
    /// `known` frames are not asked.
    pub(super) fn possible(&self, walked: &[Walked], known: usize) -> usize {
        let is_impossible = |position: usize| {
            let [callee, caller] = [walked[position - 1], walked[position]];
            let is_called = position > 1 && !callee.mark.has(Mark::INTERRUPTED);
            let may_begin = position + 1 == walked.len();
            let callee = callee.address.wrapping_sub(u64::from(is_called));
            !caller.mark.has(Mark::INTERRUPTED)
                && self.framed_edge(caller.address, callee, may_begin) == Edge::Impossible
        };
        (known.max(1)..walked.len()).find(|position| is_impossible(*position)).unwrap_or(walked.len())
    }

    /// The unwound frames as stacks have them, the leaf first.
    pub(super) fn framed(&self, frames: &[Frame]) -> Vec<Framed> {
        let by = |position: usize| frames.get(position).map(|frame| frame.by);
        let mark = |position: usize| {
            // Inside of what a signal has interrupted is the trampoline, of which no call lies in front, either.
            let is_trampoline = match by(position + 1) {
                Some(next) => next == By::Signal,
                None => self.is_trampoline(&frames[position]),
            };
            let is_interrupted = is_trampoline || matches!(by(position), Some(By::Signal | By::Begun));
            let mark = if is_interrupted { Mark::INTERRUPTED } else { Mark::NONE };
            if frames[position].by.is_guess() { mark.with(Mark::GUESSED) } else { mark }
        };
        frames.iter().enumerate().map(|(position, frame)| (self.location(frame), mark(position))).collect()
    }

    /// Tells of the outermost frame whether it is a signal trampoline: what that returns to was not found.
    pub(super) fn is_trampoline(&self, frame: &Frame) -> bool {
        let by_rules = || {
            self.find(frame.address)
                .is_some_and(|place| place.tables.is_some_and(|of| of.is_trampoline(place.at.0)))
        };
        self.trampolines.borrow().contains(&frame.address) || by_rules()
    }

    /// The image at an address, and the offset in it.
    fn file_off(&self, address: u64) -> Option<(u32, FileOff)> {
        let mapping = self.locator.mapping(self.at.space, address)?;
        let off = FileOff((address - mapping.start).wrapping_add(mapping.file_off));
        Some((self.locator.image(mapping.image)?, off))
    }

    /// Judges a call that a walk along frame pointers or unwind tables show.
    pub(super) fn framed_edge(&self, return_address: u64, callee: u64, may_begin: bool) -> Edge {
        // Where these lead there may be the first byte of a function that was put there.
        self.edge(return_address, callee, may_begin || self.is_made(return_address))
    }

    /// Tells whether the call in front of an address is in code that no file backs.
    pub(super) fn is_made(&self, return_address: u64) -> bool {
        let call = return_address.wrapping_sub(1);
        let image =
            self.locator.mapping(self.at.space, call).map(|mapping| self.locator.image(mapping.image));
        let image = image.flatten().and_then(|image| self.locator.images.get(image as usize));
        image.is_none_or(|image| image.kind == Kind::Anonymous)
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
        let mapping = self.locator.mapping(self.at.space, address)?;
        let off = FileOff((address - mapping.start).wrapping_add(mapping.file_off));
        Some(self.rules.place(self.locator.image(mapping.image), off))
    }

    fn is_behind_call(&self, address: u64) -> Option<bool> {
        if self.is_made(address) {
            return self.locator.is_behind_made_call(self.at, address);
        }
        let (image, off) = self.file_off(address)?;
        self.rules.is_behind_call(image, off)
    }

    fn known_frame(&self, return_address: u64) -> Option<u64> {
        let made = self.locator.made(self.at.space, return_address)?;
        let is_trampoline =
            made.name.starts_with(PYTHON) && return_address - made.start == TRAMPOLINE_CALL_BYTES;
        is_trampoline.then_some(8)
    }

    fn is_start(&self, return_address: u64) -> bool {
        let place = return_address.checked_sub(1).and_then(|call| self.file_off(call));
        place.is_some_and(|(image, call)| self.rules.is_start(image, FileOff(call.0 + 1)))
    }

    fn edge(&self, return_address: u64, callee: u64, may_begin: bool) -> Edge {
        if self.is_made(return_address) {
            return self.locator.made_edge(self.at, return_address, callee, may_begin, self.rules.calls());
        }
        let caller = return_address.checked_sub(1).and_then(|call| self.file_off(call));
        let Some((calls, caller)) = self.rules.calls().zip(caller) else { return Edge::Unknown };
        calls.edge(caller, self.file_off(callee), may_begin)
    }

    fn shape(&self, pc: u64, is_interrupted: bool) -> Option<Shape> {
        self.rules.calls()?.shape(self.file_off(pc.checked_sub(u64::from(!is_interrupted))?)?, is_interrupted)
    }

    fn shape_behind(&self, return_address: u64, pc: u64, is_interrupted: bool) -> Option<Shape> {
        let at = self.file_off(pc.checked_sub(u64::from(!is_interrupted))?)?;
        let caller = self.file_off(return_address.checked_sub(1)?).filter(|caller| caller.0 == at.0)?;
        self.rules.calls()?.shape_behind(caller, at.1, is_interrupted)
    }
}
