//! Evaluates DWARF expressions of unwind tables over registers and captured memory.

use gimli::{Encoding, EndianSlice, Evaluation, EvaluationResult, Expression, LittleEndian, Value};

use icecore_elf::Avma;

use super::registers::Registers;
use super::{Miss, StackMemory};

/// The most operations of one expression; linkers write 8 for a stub, compilers 2.
const MAX_OPERATIONS: u32 = 256;

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoValue {
    /// The expression needs a register or memory that was not captured.
    Missing(Miss),
    /// The expression needs a lost register, or is not valid here.
    Broken,
}

/// Reads a register to which rules refer.
pub(super) fn register(registers: &Registers, number: u16) -> Result<u64, NoValue> {
    let number = u8::try_from(number).map_err(|_| NoValue::Broken)?;
    registers.value(number).ok_or(registers.missing(number).map_or(NoValue::Broken, NoValue::Missing))
}

/// Evaluates an expression; its stack begins with the CFA, if given.
pub(super) fn evaluate(
    expression: &[u8],
    encoding: Encoding,
    cfa: Option<Avma>,
    registers: &Registers,
    memory: &impl StackMemory,
) -> Result<u64, NoValue> {
    let expression = Expression(EndianSlice::new(expression, LittleEndian));
    let mut evaluation: Evaluation<EndianSlice<'_, LittleEndian>> = expression.evaluation(encoding);
    evaluation.set_max_iterations(MAX_OPERATIONS);
    if let Some(cfa) = cfa {
        evaluation.set_initial_value(cfa.0);
    }
    let mut state = evaluation.evaluate().map_err(|_| NoValue::Broken)?;
    loop {
        let next = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register: number, base_type } if base_type.0 == 0 => {
                evaluation.resume_with_register(Value::Generic(register(registers, number.0)?))
            }
            EvaluationResult::RequiresMemory { address, size, space: None, base_type }
                if base_type.0 == 0 =>
            {
                let word = memory.read_u64(Avma(address)).map_err(NoValue::Missing)?;
                evaluation.resume_with_memory(Value::Generic(low_bytes(word, size)))
            }
            _ => return Err(NoValue::Broken),
        };
        state = next.map_err(|_| NoValue::Broken)?;
    }
    match evaluation.value_result() {
        Some(Value::Generic(value)) => Ok(value),
        _ => Err(NoValue::Broken),
    }
}

fn low_bytes(word: u64, size: u8) -> u64 {
    match size {
        0 => 0,
        1..8 => word & ((1 << (8 * size)) - 1),
        _ => word,
    }
}
