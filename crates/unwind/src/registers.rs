//! Holds the registers of one frame by their DWARF numbers.

use icecore_elf::{Avma, Machine};

use super::Miss;

/// The number of registers that are tracked: aarch64 has x0 to x30, sp and pc.
const LEN: usize = 33;

/// Registers of one frame; each is known or unknown.
///
/// A register becomes unknown when the unwind tables declare it lost, or when it was saved in memory that was not copied. That is
/// an error only if a frame further out needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers {
    machine: Machine,
    /// Bit n: register n is known.
    known: u64,
    /// Bit n: register n is unknown because it was saved on the stack, beyond the copy.
    beyond: u64,
    /// Bit n: register n is unknown because it was saved in memory of no copied stack.
    elsewhere: u64,
    values: [u64; LEN],
}

impl Registers {
    /// Takes rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, rip: the DWARF order, which differs from that of the instruction
    /// set.
    pub fn x86_64(values: &[u64; 17]) -> Self {
        Self::of(Machine::X86_64, values)
    }

    /// Takes x0 to x30, sp, pc.
    pub fn aarch64(values: &[u64; 33]) -> Self {
        Self::of(Machine::Aarch64, values)
    }

    fn of(machine: Machine, from: &[u64]) -> Self {
        let mut values = [0; LEN];
        values[..from.len()].copy_from_slice(from);
        Self { machine, known: (1 << from.len()) - 1, beyond: 0, elsewhere: 0, values }
    }

    /// Takes the known registers by their DWARF numbers; the stack pointer and the program counter are always known.
    pub fn known(machine: Machine, sp: Avma, pc: Avma, mut value: impl FnMut(u8) -> Option<u64>) -> Self {
        let mut registers = Self { machine, known: 0, beyond: 0, elsewhere: 0, values: [0; LEN] };
        for number in 0..LEN as u8 {
            let known = match number {
                _ if number == machine.sp() => Some(sp.0),
                _ if number == machine.pc() => Some(pc.0),
                _ => value(number),
            };
            if let Some(value) = known {
                registers.set(number, value);
            }
        }
        registers
    }

    /// The instruction set.
    #[inline]
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// The program counter.
    #[inline]
    pub fn pc(&self) -> Avma {
        Avma(self.values[usize::from(self.machine.pc())])
    }

    /// The stack pointer.
    #[inline]
    pub fn sp(&self) -> Avma {
        Avma(self.values[usize::from(self.machine.sp())])
    }

    /// Returns a register by its DWARF number; `None` if it is unknown or not tracked.
    #[inline]
    pub fn value(&self, number: u8) -> Option<u64> {
        (number < 64 && self.known >> number & 1 == 1).then(|| self.values[usize::from(number)])
    }

    /// Returns which memory an unknown register was in; `None` if the tables declare it lost, or it held no address.
    pub(super) fn missing(&self, number: u8) -> Option<Miss> {
        let has = |bits: u64| number < 64 && bits >> number & 1 == 1;
        match (has(self.beyond), has(self.elsewhere)) {
            (true, _) => Some(Miss::Beyond),
            (_, true) => Some(Miss::Elsewhere),
            _ => None,
        }
    }

    /// Sets a register; ignores those that are not tracked.
    #[inline]
    pub(super) fn set(&mut self, number: u8, value: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(number)) {
            *slot = value;
            self.known |= 1 << number;
        }
    }

    /// Continues after a return address, which the caller has taken off the stack.
    #[inline]
    pub(super) fn return_to(&mut self, pc: Avma, sp: Avma) {
        self.set(self.machine.sp(), sp.0);
        self.set(self.machine.pc(), pc.0);
    }

    /// Makes a register unknown because of missing memory. A copied word that held no address does not count as missing: a longer
    /// copy would not help.
    pub(super) fn forget(&mut self, number: u8, missing: Option<Miss>) {
        if usize::from(number) < LEN {
            self.known &= !(1 << number);
            let bit = |is_it: bool| u64::from(is_it) << number;
            self.beyond = self.beyond & !(1 << number) | bit(missing == Some(Miss::Beyond));
            self.elsewhere = self.elsewhere & !(1 << number) | bit(missing == Some(Miss::Elsewhere));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_register_is_unknown_until_it_is_set() {
        let mut registers = Registers::x86_64(&std::array::from_fn(|i| i as u64));
        assert_eq!((registers.pc(), registers.sp(), registers.value(6)), (Avma(16), Avma(7), Some(6)));
        for missing in [Some(Miss::Beyond), Some(Miss::Elsewhere), None] {
            registers.forget(6, missing);
            assert_eq!((registers.value(6), registers.missing(6)), (None, missing));
        }
        registers.forget(6, Some(Miss::NoAddress));
        assert_eq!((registers.value(6), registers.missing(6)), (None, None));
        registers.set(6, 9);
        assert_eq!(registers.value(6), Some(9));
    }

    #[test]
    fn numbers_that_no_machine_has_are_unknown() {
        let mut registers = Registers::aarch64(&[1; 33]);
        for number in [33, 63, 64, 72, 255] {
            registers.set(number, 5);
            registers.forget(number, Some(Miss::Beyond));
            assert_eq!((registers.value(number), registers.missing(number)), (None, None));
        }
        assert_eq!(Registers::x86_64(&[1; 17]).value(17), None);
    }
}
