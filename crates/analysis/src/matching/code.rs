//! Compares the machine code of a function in two builds: if it is the same, a change has its cause elsewhere.
//!
//! Bytes differ wherever code names an address, because another build has another layout. So instructions are decoded, and the
//! targets of their addresses are compared:
//!
//! | an instruction names | compared by |
//! |---|---|
//! | a location in the same function | its offset; parts such as `.cold` belong to the function |
//! | another function, or a PLT stub | the name, if both have one |
//! | a slot that the loader fills | the name of its content, if both have one |
//! | a constant that it loads | the bytes |
//! | any other data | nothing |
//! | a number that may be an address of data, in a program at a fixed address | the number, or the text there; else undecided |
//!
//! The comparison ignores jump tables, and texts behind pointers.

mod aarch64;
mod opened;
mod x86;

use std::fmt;
use std::ops::Range;

use icecore_elf::Machine;
use icecore_symbolize::Reason;
use icecore_symbolize::image::Identity;

pub use opened::Code;

/// The longest function that is compared, bytes.
const MAX_LEN: u64 = 4 << 20;

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeVerdict {
    /// The code is identical, or both belong to one build.
    Identical,
    /// The code differs.
    Different,
    /// The comparison is undecided.
    Unknown(Doubt),
}

/// Why a comparison is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The file of an image is not available.
    Image(Reason),
    /// No symbol table of an image has the function.
    NoSymbol,
    /// Several functions have this name, and not all are equal.
    Ambiguous,
    /// The code is for a processor that is not supported, or the processors differ.
    Processor,
    /// The function is too long, or the file does not have its bytes.
    Bytes,
    /// The functions differ in numbers that may be addresses of data.
    Numbers,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(reason) => write!(f, "{reason}"),
            Self::NoSymbol => f.write_str("no symbol tells where it is"),
            Self::Ambiguous => f.write_str("several functions have this name"),
            Self::Processor => f.write_str("code of this processor is not decoded"),
            Self::Bytes => f.write_str("its bytes cannot be read"),
            Self::Numbers => f.write_str("numbers in it may be addresses"),
        }
    }
}

/// Returns true if two images are one build, by their build-ids: then all of their code is identical.
pub fn is_same_build(before: &Identity, after: &Identity) -> bool {
    !before.build_id.is_empty() && before.build_id == after.build_id
}

/// Compares the code of one function, with all its parts. The names may differ as within one [`Group`](super::Group).
///
/// # Cost    decodes the function twice; opening the images costs more
pub fn compare(before: (&Code, &str), after: (&Code, &str)) -> CodeVerdict {
    compared(before, after).unwrap_or_else(CodeVerdict::Unknown)
}

fn compared((before, name): (&Code, &str), (after, other_name): (&Code, &str)) -> Result<CodeVerdict, Doubt> {
    if before.machine() != after.machine() {
        return Err(Doubt::Processor);
    }
    let (parts, other_parts) = (before.parts(name), after.parts(other_name));
    if parts.places.is_empty() || other_parts.places.is_empty() {
        return Err(Doubt::NoSymbol);
    }
    if parts.places.len() == other_parts.places.len() && are_equal((before, &parts), (after, &other_parts))? {
        return Ok(CodeVerdict::Identical);
    }
    if parts.is_ambiguous || other_parts.is_ambiguous {
        Err(Doubt::Ambiguous)
    } else {
        Ok(CodeVerdict::Different)
    }
}

/// The address ranges of a function and its parts.
#[derive(Debug, Default)]
struct Parts {
    places: Vec<Range<u64>>,
    /// Two parts have one name: their counterparts in the other build are unknown.
    is_ambiguous: bool,
}

/// Compares parts one by one.
fn are_equal((before, parts): (&Code, &Parts), (after, others): (&Code, &Parts)) -> Result<bool, Doubt> {
    let are_equal = |(part, other): (&Range<u64>, &Range<u64>)| {
        let (steps, others_steps) = (steps(before, part)?, steps(after, other)?);
        let mut is_unclear = false;
        let mut are_equal = |(a, b): (&MaskedInstruction, &MaskedInstruction)| {
            is_equal(&a.masked, &b.masked)
                && a.names.iter().zip(&b.names).all(|(a, b)| match (a, b) {
                    (Some(a), Some(b)) => {
                        let things = [before.thing(*a, &parts.places), after.thing(*b, &others.places)];
                        is_unclear |= a.is_number && a.at != b.at && things.contains(&Thing::Unknown);
                        are_same(&things[0], &things[1])
                    }
                    (a, b) => a == b,
                })
        };
        let are_equal =
            steps.len() == others_steps.len() && steps.iter().zip(&others_steps).all(&mut are_equal);
        if are_equal && is_unclear { Err(Doubt::Numbers) } else { Ok(are_equal) }
    };
    for pair in parts.places.iter().zip(&others.places) {
        if !are_equal(pair)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An instruction.
#[derive(Debug)]
struct MaskedInstruction {
    /// The instruction without the address that it names.
    masked: Masked,
    names: [Option<NamedAddress>; 2],
}

/// An instruction that names nothing.
#[derive(Debug)]
enum Masked {
    X86(iced_x86::Instruction),
    /// Bytes that are not an instruction.
    Bytes(Vec<u8>),
    Word(u32),
}

fn is_equal(a: &Masked, b: &Masked) -> bool {
    match (a, b) {
        (Masked::X86(a), Masked::X86(b)) => a.eq_all_bits(b),
        (Masked::Bytes(a), Masked::Bytes(b)) => a == b,
        (Masked::Word(a), Masked::Word(b)) => a == b,
        _ => false,
    }
}

/// An address that an instruction names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NamedAddress {
    at: u64,
    /// The instruction reads so many bytes there; 0 if it takes the address or jumps to it.
    read_len: usize,
    /// It may be a number that equals an address by chance.
    is_number: bool,
}

/// The target of an address.
#[derive(Debug, PartialEq, Eq)]
enum Thing {
    /// Part of the same function, and offset in it.
    Own(usize, u64),
    /// Key of a function, and the offset in it.
    Function(String, u64),
    Constant(Vec<u8>),
    Unknown,
}

fn are_same(a: &Thing, b: &Thing) -> bool {
    match (a, b) {
        (Thing::Own(..), _) | (_, Thing::Own(..)) => a == b,
        (Thing::Unknown, _) | (_, Thing::Unknown) => true,
        _ => a == b,
    }
}

/// Decodes a part of a function.
fn steps(code: &Code, part: &Range<u64>) -> Result<Vec<MaskedInstruction>, Doubt> {
    let len = part.end - part.start;
    let bytes = if len <= MAX_LEN { code.bytes(part.start, len) } else { None };
    let bytes = bytes.ok_or(Doubt::Bytes)?;
    match Machine::of_elf(code.machine().0) {
        Some(Machine::X86_64) => Ok(x86::steps(&bytes, part.start, 64, code)),
        Some(Machine::Aarch64) => Ok(aarch64::steps(&bytes, part.start)),
        None if code.machine() == object::elf::EM_386 => Ok(x86::steps(&bytes, part.start, 32, code)),
        None => Err(Doubt::Processor),
    }
}

#[cfg(test)]
mod tests;
