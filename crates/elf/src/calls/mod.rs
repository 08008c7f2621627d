//! Decodes the call instruction that ends at a return address. This is no part of the file format: the recorder uses it to decide
//! whether it must read an address again, the report to check calls.

pub mod aarch64;
pub mod x86_64;

/// The call instructions that the bytes before a return address may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    /// The target, if they may be a direct call.
    pub direct: Option<u64>,
    /// They may be a call through a register or memory.
    pub is_indirect: bool,
}

impl Before {
    /// They are no call.
    pub const NONE: Self = Self { direct: None, is_indirect: false };

    /// Returns true if they may be a call.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}
