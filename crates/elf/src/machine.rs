//! Machines, and their registers.

/// A machine whose code is understood. Both are little-endian with addresses of 8 bytes. Registers have the numbers that DWARF gives
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Machine {
    /// 0 to 15 as the System V ABI numbers them (6 is rbp, 7 is rsp), 16 is rip.
    X86_64,
    /// 0 to 30 are x0 to x30 (29 the frame pointer, 30 the link register), 31 is sp, 32 is pc.
    Aarch64,
}

impl Machine {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The machine by the name that `uname -m` has for it; `None` if it is none of these.
    pub fn of_uname(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The machine by its number in ELF headers (`e_machine`); `None` if it is none of these.
    pub fn of_elf(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|machine| machine.elf() == number)
    }

    /// The number in ELF headers (`e_machine`).
    pub const fn elf(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
        }
    }

    /// The stack pointer.
    #[inline]
    pub const fn sp(self) -> u8 {
        match self {
            Self::X86_64 => 7,
            Self::Aarch64 => 31,
        }
    }

    /// The frame pointer.
    #[inline]
    pub const fn fp(self) -> u8 {
        match self {
            Self::X86_64 => 6,
            Self::Aarch64 => 29,
        }
    }

    /// The program counter.
    #[inline]
    pub const fn pc(self) -> u8 {
        match self {
            Self::X86_64 => 16,
            Self::Aarch64 => 32,
        }
    }

    /// The column of unwind tables in which the return address stands: rip, x30.
    #[inline]
    pub const fn return_column(self) -> u8 {
        match self {
            Self::X86_64 => 16,
            Self::Aarch64 => 30,
        }
    }

    /// What the CFA of a function that has done nothing yet is above the stack pointer, bytes: the return address that a call has pushed.
    #[inline]
    pub const fn cfa_at_entry(self) -> i64 {
        match self {
            Self::X86_64 => 8,
            Self::Aarch64 => 0,
        }
    }

    /// The register in which a call leaves the return address; `None` if a call pushes it.
    #[inline]
    pub const fn link_register(self) -> Option<u8> {
        match self {
            Self::X86_64 => None,
            Self::Aarch64 => Some(30),
        }
    }

    /// The bits of a return address that are no part of the address: aarch64 signs return addresses there (pointer
    /// authentication), and no address of user space reaches bit 48.
    #[inline]
    pub const fn signature_bits(self) -> u64 {
        match self {
            Self::X86_64 => 0,
            Self::Aarch64 => !0 << 48,
        }
    }

    /// Registers that a function gives back as it got them, in the order in which a compact row lists their places. The
    /// column of the return address is the last one.
    #[inline]
    pub const fn kept(self) -> &'static [u8] {
        match self {
            Self::X86_64 => &[3, 6, 12, 13, 14, 15, 16],
            Self::Aarch64 => &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_by_its_name_and_its_number() {
        let of = |machine: Machine| (Machine::of_elf(machine.elf()), machine.elf());
        assert_eq!(of(Machine::X86_64), (Machine::of_uname("x86_64"), 62));
        assert_eq!(of(Machine::Aarch64), (Machine::of_uname("aarch64"), 183));
        assert_eq!((Machine::of_uname("i686"), Machine::of_elf(3)), (None, None));
    }
}
