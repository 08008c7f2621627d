//! Converts between the kernel's and DWARF's numbers of registers.

use icecore_elf::{Avma, Machine};

use super::perf_data::UserRegisters;

/// DWARF's numbers of ax, bx, cx, dx, si, di and bp, which the kernel numbers from 0.
const X86_64: [u8; 7] = [0, 3, 2, 1, 4, 5, 6];

/// The machine by the name that a perf.data file has for it; `None` if its stacks cannot be unwound. Files of old versions of perf name none.
pub(super) fn machine(arch: &str) -> Option<Machine> {
    if arch.is_empty() { Some(Machine::X86_64) } else { Machine::of_uname(arch) }
}

/// The program counter of a sample.
pub(super) fn program_counter(machine: Machine, registers: UserRegisters<'_>) -> Option<Avma> {
    let number = match machine {
        Machine::X86_64 => 8,
        Machine::Aarch64 => 32,
    };
    registers.find(number).map(Avma)
}

/// The stack pointer of a sample.
pub(super) fn stack_pointer(machine: Machine, registers: UserRegisters<'_>) -> Option<Avma> {
    let number = match machine {
        Machine::X86_64 => 7,
        Machine::Aarch64 => 31,
    };
    registers.find(number).map(Avma)
}

/// Returns DWARF's number; `None` for the stack pointer, the program counter, and those that unwinding does not need.
///
/// # Source   arch/x86/include/uapi/asm/perf_regs.h, arch/arm64/include/uapi/asm/perf_regs.h · the ABIs' DWARF numbers
pub(super) fn dwarf_number(machine: Machine, kernel: u8) -> Option<u8> {
    match (machine, kernel) {
        (Machine::X86_64, 0..=6) => Some(X86_64[usize::from(kernel)]),
        (Machine::X86_64, 16..=23) => Some(kernel - 8),
        (Machine::Aarch64, 0..=30) => Some(kernel),
        (Machine::X86_64 | Machine::Aarch64, _) => None,
    }
}

/// The address of code that a word stands for, without the signature of a return address.
pub(super) fn code_address(machine: Machine, word: u64) -> Avma {
    Avma(word & !machine.signature_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_the_numbers_of_dwarf() {
        let numbers: Vec<Option<u8>> = (0..24).map(|kernel| dwarf_number(Machine::X86_64, kernel)).collect();
        let of = |known: &[u8]| known.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(numbers[..7], of(&[0, 3, 2, 1, 4, 5, 6]));
        assert!(numbers[7..16].iter().all(Option::is_none), "sp, ip, flags and segments");
        assert_eq!(numbers[16..], of(&[8, 9, 10, 11, 12, 13, 14, 15]));
        let arm = |kernel| dwarf_number(Machine::Aarch64, kernel);
        assert_eq!([arm(0), arm(29), arm(30), arm(31), arm(32)], [Some(0), Some(29), Some(30), None, None]);
        assert_eq!((machine(""), machine("ppc64le")), (Some(Machine::X86_64), None));
    }

    #[test]
    fn signatures_of_return_addresses_are_no_part_of_the_address() {
        assert_eq!(code_address(Machine::Aarch64, 0x00aa_ffff_8000_1234), Avma(0xffff_8000_1234));
        assert_eq!(code_address(Machine::X86_64, 0x00aa_ffff_8000_1234), Avma(0x00aa_ffff_8000_1234));
    }
}
