//! Calls in front of return addresses. They are nothing of the recording: the recorder asks whether it has to look again, and the
//! report what the code says.

pub mod aarch64;
pub mod x86_64;

/// The calls that may stand in front of a return address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    /// The target of a direct one.
    pub direct: Option<u64>,
    /// There may be one through a register or memory.
    pub is_indirect: bool,
}

impl Before {
    /// No call.
    pub const NONE: Self = Self { direct: None, is_indirect: false };

    /// Returns true if there may be a call.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}
