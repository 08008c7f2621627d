//! Applies rules that do not fit a compact row: any register, expressions, signal frames.

use gimli::{CfaRule, RegisterRule, UnwindExpression};
use icecore_elf::Avma;

use super::compact_row::{CompactRow, Kind};
use super::expression::{NoValue, evaluate, register};
use super::growth::Return;
use super::registers::Registers;
use super::tables::Full;
use super::{End, StackMemory};

/// The registers of the caller, and facts about the step.
pub(super) struct Caller {
    /// The program counter is the return address; the stack pointer is the CFA unless a rule says otherwise.
    pub(super) registers: Registers,
    /// The kernel made the frame.
    pub(super) is_signal: bool,
    /// The CFA is not computed from the stack pointer.
    pub(super) is_free: bool,
    /// Where the return address was.
    pub(super) returns: Return,
}

/// Applies all rules of a frame at once, each to the registers of that frame.
///
/// # Errors
/// Why the stack ends here. An unknown register is no reason, unless it holds the return address.
pub(super) fn caller(
    full: &Full<'_, '_>,
    registers: &Registers,
    memory: &impl StackMemory,
    module: Option<u32>,
) -> Result<Caller, End> {
    let machine = registers.machine();
    let ended = |cause| match cause {
        NoValue::Missing(miss) => miss.into(),
        NoValue::Broken => End::BadTables(module),
    };
    let cfa = cfa(full, registers, memory).map_err(ended)?;
    let mut caller = registers.clone();
    caller.set(machine.sp(), cfa.0);
    let mut return_address = register(registers, full.return_column);
    let mut slot = None;
    for (number, rule) in full.row.registers() {
        let (value, at) = value(full, rule, number.0, cfa, registers, memory);
        if number.0 == full.return_column {
            (return_address, slot) = (value, at);
        }
        let Ok(number) = u8::try_from(number.0) else { continue };
        match value {
            Ok(value) => caller.set(number, value),
            Err(NoValue::Missing(miss)) => caller.forget(number, Some(miss)),
            Err(NoValue::Broken) => caller.forget(number, None),
        }
    }
    if caller.value(machine.sp()).is_none() {
        return Err(End::BadTables(module));
    }
    let return_address = return_address.map_err(ended)?;
    caller.set(machine.pc(), return_address);
    let again = return_address == registers.pc().0;
    let returns = slot.map_or(Return::InRegister { again }, Return::At);
    let from_sp = matches!(full.row.cfa(),
        CfaRule::RegisterAndOffset { register, .. } if register.0 == u16::from(machine.sp()));
    Ok(Caller { registers: caller, is_signal: full.is_signal, is_free: full.is_signal || !from_sp, returns })
}

fn cfa(full: &Full<'_, '_>, registers: &Registers, memory: &impl StackMemory) -> Result<Avma, NoValue> {
    let cfa = match full.row.cfa() {
        CfaRule::RegisterAndOffset { register: base, offset } => {
            register(registers, base.0)?.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => {
            evaluate(bytes(full, expression)?, full.encoding, None, registers, memory)?
        }
    };
    Ok(Avma(cfa))
}

/// Computes the value that a register had in the caller, and where in memory it was.
fn value(
    full: &Full<'_, '_>,
    rule: &RegisterRule<usize>,
    number: u16,
    cfa: Avma,
    registers: &Registers,
    memory: &impl StackMemory,
) -> (Result<u64, NoValue>, Option<Avma>) {
    let read = |address| (memory.read_u64(address).map_err(NoValue::Missing), Some(address));
    let evaluate =
        |expression| evaluate(bytes(full, expression)?, full.encoding, Some(cfa), registers, memory);
    let value = match rule {
        RegisterRule::Offset(offset) => return read(cfa.wrapping_add_signed(*offset)),
        RegisterRule::Expression(expression) => match evaluate(expression) {
            Ok(address) => return read(Avma(address)),
            Err(why) => Err(why),
        },
        RegisterRule::SameValue => register(registers, number),
        RegisterRule::ValOffset(offset) => Ok(cfa.wrapping_add_signed(*offset).0),
        RegisterRule::Register(other) => register(registers, other.0),
        RegisterRule::ValExpression(expression) => evaluate(expression),
        RegisterRule::Constant(value) => Ok(*value),
        _ => Err(NoValue::Broken),
    };
    (value, None)
}

/// Returns the bytes of an expression, which lie in the section.
fn bytes<'d>(full: &Full<'_, 'd>, expression: &UnwindExpression<usize>) -> Result<&'d [u8], NoValue> {
    let rest = full.section.get(expression.offset..).ok_or(NoValue::Broken)?;
    rest.get(..expression.length).ok_or(NoValue::Broken)
}

/// Applies a compact row in place.
///
/// # Errors
/// As [`caller`].
#[inline]
pub(super) fn apply(
    row: &CompactRow,
    cfa: Avma,
    registers: &mut Registers,
    memory: &impl StackMemory,
) -> Result<(), End> {
    debug_assert_eq!(row.kind, Kind::Compact);
    let machine = registers.machine();
    let kept = machine.kept();
    let mut saved = row.saved;
    while saved != 0 {
        let position = saved.trailing_zeros() as usize;
        saved &= saved - 1;
        let number = kept[position];
        match memory.read_u64(cfa.wrapping_add_signed(i64::from(row.places[position]) * 8)) {
            Ok(value) => registers.set(number, value),
            Err(miss) if number == machine.return_column() => return Err(miss.into()),
            Err(miss) => registers.forget(number, Some(miss)),
        }
    }
    registers.set(machine.sp(), cfa.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSection};

    use super::super::tables::Context;
    use super::super::{Machine, Miss, UnwindSections, UnwindTables};
    use super::*;
    use icecore_elf::Svma;

    /// Memory that is everywhere, and different everywhere.
    struct Everywhere;

    impl StackMemory for Everywhere {
        fn read_u64(&self, address: Avma) -> Result<u64, Miss> {
            Ok(address.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234)
        }
    }

    #[test]
    fn a_compact_row_says_what_the_rules_say() {
        let bytes = std::fs::read("/proc/self/exe").expect("we are running");
        let file = object::File::parse(&*bytes).expect("ELF");
        let section = |name| file.section_by_name(name).expect("every program has it");
        let data = |name| section(name).data().expect("whole");
        let tables = UnwindTables::new(UnwindSections {
            machine: Machine::X86_64,
            eh_frame: data(".eh_frame"),
            eh_frame_at: Svma(section(".eh_frame").address()),
            eh_frame_hdr: data(".eh_frame_hdr"),
            eh_frame_hdr_at: Svma(section(".eh_frame_hdr").address()),
            debug_frame: &[],
            of_go: &[],
            text: None,
            got: None,
            stubs: Vec::new(),
        });
        let registers = Registers::x86_64(&std::array::from_fn(|i| 0x1000 * (i as u64 + 1)));
        let mut context = Context::new_in();
        let text = section(".text");
        let mut compact = 0;
        for at in (text.address()..text.address() + text.size()).step_by(67).take(50_000) {
            let found = tables.find(Svma(at), &mut context);
            let row = CompactRow::new(Machine::X86_64, &found);
            let (Kind::Compact, Ok(Some(full))) = (row.kind, found) else { continue };
            let expected = caller(&full, &registers, &Everywhere, None).expect("all memory is there");
            let mut applied = registers.clone();
            let base = registers.value(row.cfa_base).expect("all are known");
            let cfa = Avma(base).wrapping_add_signed(row.cfa_off.into());
            apply(&row, cfa, &mut applied, &Everywhere).expect("all memory is there");
            assert_eq!(applied, expected.registers, "{at:#x}");
            compact += 1;
        }
        assert!(compact > 10_000, "{compact}");
    }
}
