//! Addresses and offsets. Each kind has a type of its own, so that none stands for another.

/// An offset in a file, as a mapping has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOff(pub u64);

/// An address as the ELF file has it (stated virtual memory address), before any relocation by a loader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Svma(pub u64);

/// An address in a process, or in the kernel (actual virtual memory address).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Avma(pub u64);

/// Implements steps up and down for a kind of address.
macro_rules! steps {
    ($($address:ident),+) => {$(
        impl $address {
            /// Returns the address so many bytes further up; the numbers wrap around.
            #[inline]
            pub fn wrapping_add(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }

            /// Returns the address so many bytes further down; the numbers wrap around.
            #[inline]
            pub fn wrapping_sub(self, bytes: u64) -> Self {
                Self(self.0.wrapping_sub(bytes))
            }
        }
    )+};
}
steps!(Svma, Avma);

impl Avma {
    /// Returns the address so many bytes further up or down; the numbers wrap around.
    #[inline]
    pub fn wrapping_add_signed(self, bytes: i64) -> Self {
        Self(self.0.wrapping_add_signed(bytes))
    }
}
