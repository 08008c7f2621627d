//! Finds the code at an address of a process.

use std::cell::RefCell;

use icecore_format::records::{Language, Location, Mark};

use super::choose::Walked;
use super::grown::Framed;
use super::tables::TableLookup;
use super::work::Work;
use crate::map::Map;
use crate::recording::spaces::SpaceId;
use crate::stacks::locate::{Locator, Role, Step};
use icecore_elf::Avma;
use icecore_symbolize::image::{FileOff, Kind, Svma};
use icecore_unwind::{By, Edge, Frame, ModuleAddress, Modules, Shape, Unwinder, lookup};

/// The prefix of the trampolines that CPython makes of Python functions with `-X perf`.
const PYTHON: &[u8] = b"py::";
/// A trampoline has one call, before which it aligns the stack: `sub $8, %rsp; call *%rcx`, or `push %rbp; mov %rsp, %rbp; call
/// *%rcx`. In both cases its own return address lies in the second word above the one that this call pushes.
const TRAMPOLINE_CALL_BYTES: u64 = 6;

/// How HotSpot calls the code to which the innermost frames of a virtual thread return that are on the stack of its carrier. The frames that
/// called them lie in the heap.
const CONTINUATION: &[u8] = b"StubRoutines (continuation";

/// How HotSpot calls its interpreter.
const INTERPRETER: &[u8] = b"Interpreter";

/// The code of one address space at the time of a sample.
pub(super) struct SpaceCode<'a> {
    locator: &'a Locator<'a>,
    space: SpaceId,
    tables: &'a TableLookup<'a>,
    /// The last location of each address.
    seen: RefCell<Map<Avma, Location>>,
    /// Signal trampolines on the walk.
    trampolines: RefCell<Vec<Avma>>,
    /// What is done with this code.
    work: &'a Work,
}

impl<'a> SpaceCode<'a> {
    pub(super) fn new(
        locator: &'a Locator<'a>,
        space: SpaceId,
        tables: &'a TableLookup<'a>,
        work: &'a Work,
    ) -> Self {
        let (seen, trampolines) = Default::default();
        Self { locator, space, tables, seen, trampolines, work }
    }

    /// Takes steps of work; returns false if there were not so many left.
    pub(super) fn take(&self, steps: u64) -> bool {
        self.work.take(steps)
    }

    pub(super) fn space(&self) -> SpaceId {
        self.space
    }

    /// Converts a step to a frame of the walk; `None` if a block of it is missing, or it has no address.
    pub(super) fn walked(&self, step: Step) -> Option<Walked> {
        self.take(1).then_some(())?;
        let (address, location) = (Avma(self.locator.address(Some(self.space), step)?), step.location?);
        self.seen.borrow_mut().insert(address, location);
        if step.mark.has(Mark::INTERRUPTED) {
            self.trampolines.borrow_mut().push(address);
        }
        Some(Walked { address, location, mark: step.mark })
    }

    /// Returns the address for which a word of code stands; most are return addresses.
    pub(super) fn of_word(&self, id: u32) -> Option<Avma> {
        let location = *self.locator.tables.held.code.find(id)?;
        let step =
            Step { node: 0, position: None, location: Some(location), role: Role::Return, mark: Mark::NONE };
        let address = Avma(self.locator.address(Some(self.space), step)?);
        self.seen.borrow_mut().insert(address, location);
        Some(address)
    }

    /// Counts the frames of a walk before the first one that, by its machine code, cannot have called the frame before it. The
    /// first `known` frames are not checked.
    pub(super) fn possible(&self, walked: &[Walked], known: usize, unwinder: &mut Unwinder) -> usize {
        let mut is_impossible = |position: usize| {
            let [callee, caller] = [walked[position - 1], walked[position]];
            if self.goes_to_handler(&callee.frame(position == 1), unwinder) {
                return true;
            }
            let is_called = position > 1 && !callee.mark.has(Mark::INTERRUPTED);
            let may_begin = position + 1 == walked.len();
            let callee = callee.address.wrapping_sub(u64::from(is_called));
            !caller.mark.has(Mark::INTERRUPTED)
                && self.edge(caller.address, callee, may_begin) == Edge::Impossible
        };
        (known.max(1)..walked.len()).find(|position| is_impossible(*position)).unwrap_or(walked.len())
    }

    /// Converts unwound frames to frames of stacks, the leaf first.
    pub(super) fn framed(&self, frames: &[Frame]) -> Vec<Framed> {
        let by = |position: usize| frames.get(position).map(|frame| frame.by);
        let mark = |position: usize| {
            // The frame before an interrupted one is the signal trampoline; no call precedes its address, either.
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

    /// Returns true if the outermost frame is a signal trampoline: unwinding did not find the interrupted frame.
    pub(super) fn is_trampoline(&self, frame: &Frame) -> bool {
        let by_rules = || {
            self.find(frame.address)
                .is_some_and(|place| place.tables.is_some_and(|of| of.is_trampoline(place.at)))
        };
        self.trampolines.borrow().contains(&frame.address) || by_rules()
    }

    /// Finds the image at an address, and the offset in it.
    fn file_off(&self, address: Avma) -> Option<(u32, FileOff)> {
        let (image, off) = self.locator.mapped(self.space, address)?;
        Some((image?, off))
    }

    /// Returns true if an unwinder may have overwritten what its frame has saved, by its unwind tables and its code: it calls at most
    /// one more function, the hook of debuggers, before it goes to the handler of an exception.
    pub(super) fn goes_to_handler(&self, frame: &Frame, unwinder: &mut Unwinder) -> bool {
        let calls = || self.tables.calls()?.calls_from(self.file_off(frame.address)?);
        self.find(frame.lookup()).is_some_and(|place| unwinder.goes_to_handlers(&place))
            && calls().is_none_or(|calls| calls <= 1)
    }

    /// Returns true if a frame is one of HotSpot's interpreter.
    pub(super) fn is_interpreter(&self, frame: &Frame) -> bool {
        self.tables.has_made()
            && self.take(1)
            && self.locator.made(self.space, frame.lookup()).is_some_and(|(_, made)| made.name == INTERPRETER)
    }

    /// Returns true if an instruction is one of a Java method.
    pub(super) fn runs(&self, instruction: Avma) -> bool {
        let made = self.locator.made(self.space, instruction);
        self.take(1) && made.is_some_and(|(_, made)| made.language == Language::JAVA && !made.name.is_empty())
    }

    /// Returns the address of the instruction (bytecode) for which a word of code stands; `None` of other words.
    pub(super) fn instruction(&self, id: u32) -> Option<u64> {
        self.locator.tables.held.code.find(id)?.interpreted()
    }

    /// Finds the code of an unwound frame, as stacks store it.
    fn location(&self, frame: &Frame) -> Location {
        let known = self.seen.borrow().get(&frame.address).copied();
        known.unwrap_or(Location::Address(frame.address.0))
    }
}

impl Modules for SpaceCode<'_> {
    fn find(&self, address: Avma) -> Option<ModuleAddress<'_>> {
        self.take(1).then_some(())?;
        let (image, off) = self.locator.mapped(self.space, address)?;
        let is_file = |image: &u32| self.locator.images[*image as usize].kind != Kind::Anonymous;
        let file = image.filter(is_file);
        let made = || {
            let (position, code) = self.locator.made(self.space, address)?;
            self.tables.made(position, Svma(address.0.checked_sub(code.start)?))
        };
        let made = if file.is_none() && self.tables.has_made() { made() } else { None };
        Some(made.unwrap_or_else(|| self.tables.place(file, off)))
    }

    fn is_behind_call(&self, address: Avma) -> Option<bool> {
        let (image, off) = self.file_off(address)?;
        self.tables.is_behind_call(image, off)
    }

    fn known_frame(&self, return_address: Avma) -> Option<u64> {
        let (_, made) = self.locator.made(self.space, return_address)?;
        let is_trampoline =
            made.name.starts_with(PYTHON) && return_address.0 - made.start == TRAMPOLINE_CALL_BYTES;
        is_trampoline.then_some(8)
    }

    fn is_start(&self, return_address: Avma) -> bool {
        let place = self.file_off(return_address.wrapping_sub(1));
        place.is_some_and(|(image, call)| self.tables.is_start(image, FileOff(call.0 + 1)))
    }

    fn edge(&self, return_address: Avma, callee: Avma, may_begin: bool) -> Edge {
        let made = || self.locator.made(self.space, callee);
        if self.tables.has_made() && made().is_some_and(|(_, made)| made.name.starts_with(CONTINUATION)) {
            return Edge::Impossible;
        }
        let caller = self.file_off(return_address.wrapping_sub(1));
        let Some((calls, caller)) = self.tables.calls().zip(caller) else { return Edge::Unknown };
        calls.edge(caller, self.file_off(callee), may_begin)
    }

    fn shape(&self, pc: Avma, is_interrupted: bool) -> Option<Shape> {
        let at = self.file_off(lookup(pc, is_interrupted))?;
        self.tables.calls()?.shape(at, is_interrupted)
    }

    fn has_code(&self, address: Avma) -> bool {
        let at = self.file_off(address);
        at.zip(self.tables.calls()).is_some_and(|((image, _), calls)| calls.has_code(image))
    }

    fn shape_behind(&self, return_address: Avma, pc: Avma, is_interrupted: bool) -> Option<Shape> {
        let at = self.file_off(lookup(pc, is_interrupted))?;
        let caller = self.file_off(return_address.wrapping_sub(1)).filter(|caller| caller.0 == at.0)?;
        self.tables.calls()?.shape_behind(caller, at.1, is_interrupted)
    }
}
