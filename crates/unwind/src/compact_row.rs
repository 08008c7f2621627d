//! Stores the rules of one address in 32 bytes, if they have the common form.

use gimli::{CfaRule, RegisterRule};

use super::tables::{Broken, Full};
use icecore_elf::{Avma, Machine};

/// The most registers that a function restores: x19 to x30.
const MAX_KEPT: usize = 12;
const _: () = {
    let mut machine = 0;
    while machine < Machine::ALL.len() {
        assert!(
            Machine::ALL[machine].kept().len() <= MAX_KEPT,
            "a machine keeps more registers than a row holds"
        );
        machine += 1;
    }
};
/// Bytes of a register.
const WORD: i64 = 8;

/// What the unwind tables say of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The row holds all rules.
    Compact,
    /// Expressions, signal frames, or offsets that do not fit the row: read the tables again.
    Slow,
    /// The function has no caller.
    Root,
    /// The next address is the first of a signal trampoline, to which the kernel makes signal handlers return.
    Trampoline,
    /// The next address is the first of another function: a program may have put it on the stack to begin a stack there.
    Entry,
    /// No unwind tables cover the address.
    Absent,
    /// The unwind tables there are malformed.
    Broken,
}

/// Compact rules: `CFA = base + off`, and where registers were saved.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompactRow {
    pub(super) cfa_off: i32,
    pub(super) cfa_base: u8,
    pub(super) kind: Kind,
    /// Bit n: the nth register of [`Machine::kept`] was saved; the others are unchanged.
    pub(super) saved: u16,
    /// Where each was saved, in words from the CFA.
    pub(super) places: [i16; MAX_KEPT],
}

impl CompactRow {
    /// Makes a row that consists of its kind alone.
    pub(super) fn bare(kind: Kind) -> Self {
        Self { cfa_off: 0, cfa_base: 0, kind, saved: 0, places: [0; MAX_KEPT] }
    }

    /// Makes a row of the lookup at an address.
    pub(super) fn new(machine: Machine, found: &Result<Option<Full<'_, '_>>, Broken>) -> Self {
        match found {
            Ok(Some(full)) => {
                let rule = full.row.register(gimli::Register(full.return_column));
                if rule == Some(RegisterRule::Undefined) {
                    return Self::bare(Kind::Root);
                }
                Self::compact(machine, full).unwrap_or(Self::bare(Kind::Slow))
            }
            Ok(None) => Self::bare(Kind::Absent),
            Err(Broken) => Self::bare(Kind::Broken),
        }
    }

    /// Returns the address of the return address; `None` if it is still in its register. It is the last of [`Machine::kept`].
    #[inline]
    pub(super) fn return_at(&self, machine: Machine, cfa: Avma) -> Option<Avma> {
        let position = machine.kept().len() - 1;
        let is_saved = self.saved >> position & 1 == 1;
        is_saved.then(|| cfa.wrapping_add_signed(i64::from(self.places[position]) * WORD))
    }

    fn compact(machine: Machine, full: &Full<'_, '_>) -> Option<Self> {
        let CfaRule::RegisterAndOffset { register, offset } = *full.row.cfa() else { return None };
        let mut row = Self::bare(Kind::Compact);
        row.cfa_base = u8::try_from(register.0).ok()?;
        row.cfa_off = i32::try_from(offset).ok()?;
        if full.is_signal || full.return_column != u16::from(machine.return_column()) {
            return None;
        }
        for (register, rule) in full.row.registers() {
            match (machine.kept().iter().position(|kept| u16::from(*kept) == register.0), rule) {
                (Some(position), RegisterRule::Offset(offset)) if offset % WORD == 0 => {
                    row.places[position] = i16::try_from(offset / WORD).ok()?;
                    row.saved |= 1 << position;
                }
                (_, RegisterRule::SameValue) => {}
                // Vector registers, and the state of pointer authentication, are not tracked.
                (None, _) if register.0 > machine.pc().into() => {}
                _ => return None,
            }
        }
        // On x86-64 a return address is always in memory.
        let has_return =
            machine.link_register().is_some() || row.saved >> (machine.kept().len() - 1) & 1 == 1;
        has_return.then_some(row)
    }
}
