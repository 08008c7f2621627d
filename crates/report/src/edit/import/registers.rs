//! Registers: as the kernel numbers them for samples, and as DWARF does.

use super::perf_data::UserRegisters;

/// The registers of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registers {
    X86_64,
    Aarch64,
}

/// DWARF's numbers of ax, bx, cx, dx, si, di and bp, which the kernel numbers from 0.
const X86_64: [u8; 7] = [0, 3, 2, 1, 4, 5, 6];

impl Registers {
    /// The registers of a machine as `uname -m` has it; `None` if its stacks cannot be unwound.
    pub(super) fn of(arch: &str) -> Option<Self> {
        match arch {
            "x86_64" | "" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    pub(super) fn program_counter(self, registers: UserRegisters<'_>) -> Option<u64> {
        registers.find(if self == Self::X86_64 { 8 } else { 32 })
    }

    pub(super) fn stack_pointer(self, registers: UserRegisters<'_>) -> Option<u64> {
        registers.find(if self == Self::X86_64 { 7 } else { 31 })
    }

    /// DWARF's number; `None` of the stack pointer, the program counter, and those that unwinding does not need.
    ///
    /// # Source   arch/x86/include/uapi/asm/perf_regs.h, arch/arm64/include/uapi/asm/perf_regs.h · the ABIs' DWARF numbers
    pub(super) fn dwarf_number(self, kernel: u8) -> Option<u8> {
        match (self, kernel) {
            (Self::X86_64, 0..=6) => Some(X86_64[usize::from(kernel)]),
            (Self::X86_64, 16..=23) => Some(kernel - 8),
            (Self::Aarch64, 0..=30) => Some(kernel),
            _ => None,
        }
    }

    /// The address of code that a word stands for: a signed return address of aarch64 has its signature in the upper bits.
    pub(super) fn code_address(self, word: u64) -> u64 {
        match self {
            Self::X86_64 => word,
            Self::Aarch64 => word & ((1 << 48) - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_the_numbers_of_dwarf() {
        let numbers: Vec<Option<u8>> = (0..24).map(|kernel| Registers::X86_64.dwarf_number(kernel)).collect();
        let of = |known: &[u8]| known.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(numbers[..7], of(&[0, 3, 2, 1, 4, 5, 6]));
        assert!(numbers[7..16].iter().all(Option::is_none), "sp, ip, flags and segments");
        assert_eq!(numbers[16..], of(&[8, 9, 10, 11, 12, 13, 14, 15]));
        let arm = |kernel| Registers::Aarch64.dwarf_number(kernel);
        assert_eq!([arm(0), arm(29), arm(30), arm(31), arm(32)], [Some(0), Some(29), Some(30), None, None]);
        assert_eq!(Registers::of("ppc64le"), None);
    }

    #[test]
    fn signatures_of_return_addresses_are_no_part_of_the_address() {
        assert_eq!(Registers::Aarch64.code_address(0x00aa_ffff_8000_1234), 0xffff_8000_1234);
        assert_eq!(Registers::X86_64.code_address(0x00aa_ffff_8000_1234), 0x00aa_ffff_8000_1234);
    }
}
