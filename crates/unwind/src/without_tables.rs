//! Finds the caller of code without unwind tables: PLT stubs, assembly, JIT code.

use super::registers::Registers;
use super::{By, CallersFp, Edge, End, Limits, Miss, ModuleAddress, Modules, Shape, StackMemory, lookup};
use icecore_elf::{Avma, Machine};

/// How many words at the top of the stack may hold the return address of a PLT stub: the stub itself has pushed at most two, a
/// number and the address of data.
const STUB_WORDS: u64 = 3;
/// The same for assembly, which may have pushed the six registers that it must restore.
const ASSEMBLY_WORDS: u64 = 7;

/// How many words are searched for a return address that the code proves, at its exact slot: assembly may keep tables and blocks of
/// data on the stack.
const PROVEN_WORDS: u64 = 64;

/// A frame without unwind tables.
pub(super) struct Frame<'a, M, P> {
    pub(super) place: ModuleAddress<'a>,
    pub(super) is_interrupted: bool,
    pub(super) memory: &'a M,
    pub(super) modules: &'a P,
    pub(super) limits: &'a Limits,
}

/// Returns true if the code of this machine is decoded: only then it shows where a return address lies.
fn reads_code(machine: Machine) -> bool {
    match machine {
        Machine::X86_64 => true,
        Machine::Aarch64 => false,
    }
}

impl<M: StackMemory, P: Modules> Frame<'_, M, P> {
    /// Replaces the registers by those of the caller, and returns how it was found.
    ///
    /// # Errors
    /// Why the caller was not found.
    pub(super) fn unwind(&self, registers: &mut Registers) -> Result<By, End> {
        match registers.machine() {
            Machine::X86_64 => match self.follow_code(registers).or_else(|| self.find_call(registers)) {
                Some(found) => found,
                None if self.is_interrupted => self.guess(registers),
                None => self.follow_frame_pointer(registers),
            },
            Machine::Aarch64 if self.is_interrupted && self.take_link_register(registers).is_some() => {
                Ok(By::LinkRegister)
            }
            Machine::Aarch64 => self.follow_frame_pointer(registers),
        }
    }

    fn is_stub(&self) -> bool {
        self.place.tables.is_some_and(|tables| tables.is_stub(self.place.at))
    }

    /// Returns the address by which the function is looked up.
    fn at(&self, registers: &Registers) -> Avma {
        lookup(registers.pc(), self.is_interrupted)
    }

    /// x86-64: the instructions of the function show where its return address is, if a symbol shows where the function begins.
    fn follow_code(&self, registers: &mut Registers) -> Option<Result<By, End>> {
        let shape = self.modules.shape(registers.pc(), self.is_interrupted)?;
        let slot = slot_of(&shape, registers)?;
        match self.memory.read_u64(slot).map(Avma) {
            Err(Miss::Beyond) => Some(Err(End::LeftSnapshot)),
            Ok(word) if self.admits(word, registers, false) => {
                self.leave_by(shape, registers, slot, word);
                Some(Ok(By::Proven))
            }
            _ => None,
        }
    }

    /// x86-64: finds a word further up that follows a direct call of this function, and that lies exactly where the instructions of
    /// the function left it.
    fn find_call(&self, registers: &mut Registers) -> Option<Result<By, End>> {
        if !self.modules.has_code(self.at(registers)) {
            return None;
        }
        let sp = registers.sp();
        let (shape, slot, word) = self.top(sp, PROVEN_WORDS).find_map(|(slot, word)| {
            let shape = self.shape_behind(word, registers)?;
            let is_there = slot_of(&shape, registers) == Some(slot) && self.admits(word, registers, false);
            is_there.then_some((shape, slot, word))
        })?;
        self.leave_by(shape, registers, slot, word);
        Some(Ok(By::Proven))
    }

    /// x86-64: guesses the return address. It is on top of the stack where a function begins, and everywhere in one that makes no
    /// frame; one word higher where the frame pointer has just been saved. Otherwise the frame pointer leads to it, or it lies
    /// further up among pushed registers. The code must not contradict the guess.
    fn guess(&self, registers: &mut Registers) -> Result<By, End> {
        let sp = registers.sp();
        let words = if self.is_stub() { STUB_WORDS } else { 1 };
        let on_top = self.top(sp, words).find(|(_, word)| self.is_code(*word));
        let saves_fp = || {
            let mut top = self.top(sp, 2);
            let (_, saved) = top.next()?;
            (registers.value(Machine::X86_64.fp()) == Some(saved.0)).then(|| top.next())?
        };
        let first =
            on_top.or_else(saves_fp).filter(|(slot, word)| self.may_be(*slot, *word, registers, false));
        if let Some((slot, word)) = first {
            registers.return_to(word, slot.wrapping_add(8));
            return Ok(By::TopOfStack);
        }
        match self.follow_frame_pointer(registers) {
            Err(End::NoTables(module)) => {
                let (slot, word) = self.search(registers).ok_or(End::NoTables(module))?;
                registers.return_to(word, slot.wrapping_add(8));
                Ok(By::TopOfStack)
            }
            found => found,
        }
    }

    /// x86-64: finds the nearest word that may be the return address of code that does not keep frame pointers, and has only pushed
    /// registers that it restores. Of assembly in a file these rarely hold an address in a function with unwind tables. JIT code
    /// has none, and so have its callers: a word that leads there counts as well, or the search would pass over them.
    fn search(&self, registers: &Registers) -> Option<(Avma, Avma)> {
        let is_made =
            |word: Avma| self.modules.find(word.wrapping_sub(1)).is_some_and(|place| place.module.is_none());
        let leads = |word: Avma| match self.place.module {
            Some(_) => !self.is_stub() && is_made(word) || self.is_in_function(word, registers.machine()),
            None => self.is_code(word),
        };
        let mut top = self.top(registers.sp(), ASSEMBLY_WORDS);
        top.find(|(slot, word)| leads(*word) && self.may_be(*slot, *word, registers, false))
    }

    /// Returns the first addresses on the stack, and where they lie; skips words that are no addresses.
    fn top(&self, sp: Avma, words: u64) -> impl Iterator<Item = (Avma, Avma)> {
        let slots = (0..words).map(move |word| sp.wrapping_add(8 * word));
        let read = slots.map(|slot| (slot, self.memory.read_u64(slot).map(Avma)));
        let copied = read.take_while(|(_, word)| *word != Err(Miss::Beyond));
        copied.filter_map(|(slot, word)| Some((slot, word.ok()?)))
    }

    /// Returns true if a word leads into code that may have called this function or, with `may_begin`, to where a stack may begin.
    fn admits(&self, word: Avma, registers: &Registers, may_begin: bool) -> bool {
        self.is_code(word) && self.modules.edge(word, self.at(registers), may_begin) != Edge::Impossible
    }

    /// Derives the frame of this function, if a word follows a direct call of it.
    fn shape_behind(&self, word: Avma, registers: &Registers) -> Option<Shape> {
        if !reads_code(registers.machine()) || self.place.module.is_none() {
            return None;
        }
        self.modules.shape_behind(word, registers.pc(), self.is_interrupted)
    }

    /// Returns true if a word may be the return address: the code contradicts neither the word nor its slot.
    fn may_be(&self, slot: Avma, word: Avma, registers: &Registers, may_begin: bool) -> bool {
        let shape = self.shape_behind(word, registers);
        let is_there = shape.is_none_or(|shape| slot_of(&shape, registers) == Some(slot));
        is_there && self.admits(word, registers, may_begin)
    }

    /// Continues after a return address, with the frame pointer of the caller.
    fn leave_by(&self, shape: Shape, registers: &mut Registers, slot: Avma, return_address: Avma) {
        let fp = registers.machine().fp();
        match shape.fp {
            CallersFp::Kept => {}
            CallersFp::Lost => registers.forget(fp, None),
            CallersFp::Saved(below) => match self.memory.read_u64(slot.wrapping_sub(below)) {
                Ok(saved) => registers.set(fp, saved),
                Err(miss) => registers.forget(fp, Some(miss)),
            },
        }
        registers.return_to(return_address, slot.wrapping_add(8));
    }

    /// aarch64: a function that calls nobody leaves the return address where it is, and a stub does, though the first of a
    /// section pushes it as well.
    fn take_link_register(&self, registers: &mut Registers) -> Option<()> {
        let machine = registers.machine();
        let sp = registers.sp();
        let saved = registers.value(machine.return_column())?;
        let link = self.limits.address(saved);
        if self.is_stub() {
            let has_pushed = self.memory.read_u64(sp.wrapping_add(8)) == Ok(saved);
            registers.set(machine.sp(), sp.wrapping_add(if has_pushed { 16 } else { 0 }).0);
        } else if registers
            .value(machine.fp())
            .and_then(|fp| self.pair(Avma(fp), sp).ok())
            .is_some_and(|pair| pair.1 == link)
        {
            // The function has made a frame, which says the same, and more.
            return None;
        }
        self.admits(link, registers, true).then(|| registers.set(machine.pc(), link.0))
    }

    /// ```text
    ///   fp ──► fp of the caller
    ///   +8     return address
    ///   +16    the caller's stack
    /// ```
    fn follow_frame_pointer(&self, registers: &mut Registers) -> Result<By, End> {
        let machine = registers.machine();
        let no_rules = End::NoTables(self.place.module);
        let missed = |miss| match miss {
            Miss::Beyond => End::LeftSnapshot,
            Miss::Elsewhere | Miss::NoAddress => no_rules,
        };
        let unknown = || registers.missing(machine.fp()).map_or(no_rules, missed);
        let fp = Avma(registers.value(machine.fp()).ok_or_else(unknown)?);
        // A frame pointer of zero proves no root: to code that keeps none it is a number.
        if fp < registers.sp() || !fp.0.is_multiple_of(8) {
            return Err(no_rules);
        }
        // The return address may be known without the word below it: a walk has read it, or that was no address, as where
        // the caller uses the register for a number.
        let outer = self.memory.read_u64(fp);
        if outer == Err(Miss::Elsewhere) {
            return Err(no_rules);
        }
        let slot = fp.wrapping_add(8);
        let return_address = self.limits.address(self.memory.read_u64(slot).map_err(missed)?);
        if return_address.0 != 0 && !self.may_be(slot, return_address, registers, true) {
            return Err(no_rules);
        }
        let is_proven = self.shape_behind(return_address, registers).is_some();
        match outer {
            Ok(outer) => registers.set(machine.fp(), outer),
            Err(miss) => registers.forget(machine.fp(), Some(miss)),
        }
        registers.return_to(return_address, slot.wrapping_add(8));
        Ok(if is_proven { By::Proven } else { By::FramePointer })
    }

    /// Reads the two words of a frame.
    fn pair(&self, fp: Avma, sp: Avma) -> Result<(u64, Avma), Miss> {
        if fp < sp {
            return Err(Miss::Elsewhere);
        }
        let outer = self.memory.read_u64(fp)?;
        let return_address = self.memory.read_u64(fp.wrapping_add(8))?;
        Ok((outer, self.limits.address(return_address)))
    }

    /// Returns true if a return address leads into an image, to code that has unwind tables.
    fn is_in_function(&self, return_address: Avma, machine: Machine) -> bool {
        let place = self.modules.find(return_address.wrapping_sub(1));
        let tables = place.and_then(|place| place.tables.map(|tables| (tables, place.at)));
        tables.is_some_and(|(tables, at)| tables.machine() == machine && tables.describes(at))
    }

    fn is_code(&self, return_address: Avma) -> bool {
        self.modules.find(return_address.wrapping_sub(1)).is_some()
    }
}

/// Returns where the return address lies in a frame.
fn slot_of(shape: &Shape, registers: &Registers) -> Option<Avma> {
    shape.slot(registers.sp(), registers.value(registers.machine().fp()))
}
