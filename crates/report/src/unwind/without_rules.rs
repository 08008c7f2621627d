//! Finds the caller of code without unwind rules: stubs of linkers, assembly, code made at run time.

use super::registers::{Machine, Registers};
use super::{By, End, Limits, Miss, Modules, Place, StackMemory};

/// Words at the top of the stack among which a stub's return address is: above it there are at most the two that the stub
/// itself has pushed, a number and the address of data.
const STUB_WORDS: u64 = 3;
/// The same for assembly, which may have pushed the six registers that it has to give back.
const ASSEMBLY_WORDS: u64 = 7;

/// A frame without rules.
pub(super) struct Frame<'a, M, P> {
    pub(super) place: Place<'a>,
    pub(super) is_interrupted: bool,
    pub(super) memory: &'a M,
    pub(super) modules: &'a P,
    pub(super) limits: &'a Limits,
}

impl<M: StackMemory, P: Modules> Frame<'_, M, P> {
    /// Turns the registers into those of the caller, and says by what it was found.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn unwind(&self, registers: &mut Registers) -> Result<By, End> {
        let machine = registers.machine();
        match machine {
            Machine::X86_64 if self.is_interrupted && self.take_return_address(registers).is_some() => {
                Ok(By::TopOfStack)
            }
            Machine::Aarch64 if self.is_interrupted && self.take_link_register(registers).is_some() => {
                Ok(By::LinkRegister)
            }
            _ => match self.follow_frame_pointer(registers) {
                Ok(()) => Ok(By::FramePointer),
                Err(End::NoRules(_)) if self.is_interrupted && machine == Machine::X86_64 => {
                    self.search(registers).ok_or(End::NoRules(self.place.module)).map(|()| By::TopOfStack)
                }
                Err(end) => Err(end),
            },
        }
    }

    fn is_stub(&self) -> bool {
        self.place.tables.is_some_and(|tables| tables.is_stub(self.place.at.0))
    }

    /// x86-64: the return address is on top of the stack where a function begins, in the whole of one that makes no frame,
    /// and one below where the frame pointer has just been saved. In a frame there is hardly ever an address of code.
    fn take_return_address(&self, registers: &mut Registers) -> Option<()> {
        let words = if self.is_stub() { STUB_WORDS } else { 1 };
        let mut top = self.top(registers.sp(), words);
        let saves_fp = || {
            let mut top = self.top(registers.sp(), 2);
            let (_, saved) = top.next()?;
            (registers.value(Machine::X86_64.fp()) == Some(saved)).then(|| top.next())?
        };
        let (slot, return_address) = top
            .find(|(_, word)| self.is_code(*word))
            .or_else(|| saves_fp().filter(|(_, word)| self.is_code(*word)))?;
        leave(registers, slot, return_address);
        Some(())
    }

    /// x86-64: assembly that does not keep frame pointers has pushed nothing but registers that it will give back. Hardly
    /// ever one of them holds an address in a function with rules.
    fn search(&self, registers: &mut Registers) -> Option<()> {
        self.place.module?;
        let mut top = self.top(registers.sp(), ASSEMBLY_WORDS);
        let (slot, return_address) = top.find(|(_, word)| self.is_in_function(*word, registers.machine()))?;
        leave(registers, slot, return_address);
        Some(())
    }

    /// The first words on the stack, with their addresses.
    fn top(&self, sp: u64, words: u64) -> impl Iterator<Item = (u64, u64)> {
        let slots = (0..words).map(move |word| sp.wrapping_add(8 * word));
        slots.map_while(|slot| Some((slot, self.memory.read_u64(slot).ok()?)))
    }

    /// aarch64: a function that calls nobody leaves the return address where it is, and a stub does, though the first of a
    /// section pushes it as well.
    fn take_link_register(&self, registers: &mut Registers) -> Option<()> {
        let machine = registers.machine();
        let sp = registers.sp();
        let saved = registers.value(machine.return_column())?;
        let link = saved & !self.limits.not_address;
        if self.is_stub() {
            let has_pushed = self.memory.read_u64(sp.wrapping_add(8)) == Ok(saved);
            registers.set(machine.sp(), sp.wrapping_add(if has_pushed { 16 } else { 0 }));
        } else if registers
            .value(machine.fp())
            .and_then(|fp| self.pair(fp, sp).ok())
            .is_some_and(|pair| pair.1 == link)
        {
            // The function has made a frame, which says the same, and more.
            return None;
        }
        self.is_code(link).then(|| registers.set(machine.pc(), link))
    }

    /// ```text
    ///   fp ──► fp of the caller
    ///   +8     return address
    ///   +16    the caller's stack
    /// ```
    fn follow_frame_pointer(&self, registers: &mut Registers) -> Result<(), End> {
        let machine = registers.machine();
        let no_rules = End::NoRules(self.place.module);
        let missed = |miss| match miss {
            Miss::Beyond => End::LeftSnapshot,
            Miss::Elsewhere | Miss::NoAddress => no_rules,
        };
        let unknown = || registers.missing(machine.fp()).map_or(no_rules, missed);
        let fp = registers.value(machine.fp()).ok_or_else(unknown)?;
        // Where a program begins, the frame pointer is zero by the ABI; in the middle of a function it may be any number.
        if fp == 0 && !self.is_interrupted && self.place.module.is_some() {
            return Err(End::Root);
        }
        if fp < registers.sp() || !fp.is_multiple_of(8) {
            return Err(no_rules);
        }
        // The return address may be known without the word below it: a walk has read it, or that was no address, as where
        // the caller uses the register for a number.
        let outer = self.memory.read_u64(fp);
        if outer == Err(Miss::Elsewhere) {
            return Err(no_rules);
        }
        let return_address =
            self.memory.read_u64(fp.wrapping_add(8)).map_err(missed)? & !self.limits.not_address;
        if return_address != 0 && !self.is_code(return_address) {
            return Err(no_rules);
        }
        match outer {
            Ok(outer) => registers.set(machine.fp(), outer),
            Err(miss) => registers.forget(machine.fp(), Some(miss)),
        }
        registers.set(machine.sp(), fp.wrapping_add(16));
        registers.set(machine.pc(), return_address);
        Ok(())
    }

    /// Reads the two words of a frame.
    fn pair(&self, fp: u64, sp: u64) -> Result<(u64, u64), Miss> {
        if fp < sp {
            return Err(Miss::Elsewhere);
        }
        let outer = self.memory.read_u64(fp)?;
        let return_address = self.memory.read_u64(fp.wrapping_add(8))?;
        Ok((outer, return_address & !self.limits.not_address))
    }

    /// Tells whether a return address leads into an image, to code that calls: it has rules.
    fn is_in_function(&self, return_address: u64, machine: Machine) -> bool {
        let place = self.modules.find(return_address.wrapping_sub(1));
        let tables = place.and_then(|place| place.tables.map(|tables| (tables, place.at.0)));
        tables.is_some_and(|(tables, at)| tables.machine() == machine && tables.describes(at))
    }

    fn is_code(&self, return_address: u64) -> bool {
        self.modules.find(return_address.wrapping_sub(1)).is_some()
    }
}

/// Goes on behind a return address.
fn leave(registers: &mut Registers, slot: u64, return_address: u64) {
    let machine = registers.machine();
    registers.set(machine.sp(), slot.wrapping_add(8));
    registers.set(machine.pc(), return_address);
}
