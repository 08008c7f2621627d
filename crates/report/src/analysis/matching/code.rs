//! Tells whether the machine code of a function is the same in two builds: then a change is not in this function.
//!
//! Bytes differ wherever code names an address, because everything lies elsewhere in another build. So instructions are
//! decoded, and what they name is compared by what it is:
//!
//! | an instruction names | it is compared by |
//! |---|---|
//! | a place in the same function | its offset; parts such as `.cold` belong to the function |
//! | another function, or a stub of the linker | the name, if both have one |
//! | a slot that the loader fills | the name that it is filled with, if both have one |
//! | a constant that it loads | the bytes |
//! | any other data | nothing |
//! | perhaps data: a number, in a program that has a fixed place | the number, or the text there; else nobody can tell |
//!
//! What is left out: tables of jumps and texts that are only pointed to.

mod aarch64;
mod opened;
mod x86;

use std::fmt;
use std::ops::Range;

use icecore_symbolize::Reason;
use icecore_symbolize::image::Identity;

pub use opened::Code;

/// Bytes of one function: more are not compared.
const MAX_LEN: u64 = 4 << 20;

/// Whether the code is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is, or both are one build.
    Identical,
    /// It is not.
    Different,
    /// Nobody can tell.
    Unknown(Cause),
}

/// Why nobody can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The file of an image is not at hand.
    Image(Reason),
    /// No symbol table of an image tells where the function is.
    NoSymbol,
    /// Several functions have this name, and not all are the same.
    Ambiguous,
    /// The code is for a processor whose instructions are not decoded here, or for two.
    Processor,
    /// The function is too long, or its bytes are not in the file.
    Bytes,
    /// Numbers in it differ that may be numbers, or addresses of data.
    Numbers,
}

impl fmt::Display for Cause {
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

/// Reports whether two images are one build, by their build-ids: then all of their code is the same.
pub fn is_same_build(before: &Identity, after: &Identity) -> bool {
    !before.build_id.is_empty() && before.build_id == after.build_id
}

/// Compares the code of one function, with all its parts. The names may differ as those of one
/// [`Group`](super::Group) do.
///
/// # Cost    decodes the function twice; opening the images costs more
pub fn compare(before: (&Code, &str), after: (&Code, &str)) -> Verdict {
    compared(before, after).unwrap_or_else(Verdict::Unknown)
}

fn compared((before, name): (&Code, &str), (after, other_name): (&Code, &str)) -> Result<Verdict, Cause> {
    if before.machine() != after.machine() {
        return Err(Cause::Processor);
    }
    let (parts, other_parts) = (before.parts(name), after.parts(other_name));
    if parts.places.is_empty() || other_parts.places.is_empty() {
        return Err(Cause::NoSymbol);
    }
    if parts.places.len() == other_parts.places.len() && are_equal((before, &parts), (after, &other_parts))? {
        return Ok(Verdict::Identical);
    }
    if parts.is_ambiguous || other_parts.is_ambiguous {
        Err(Cause::Ambiguous)
    } else {
        Ok(Verdict::Different)
    }
}

/// Where a function and its parts are.
#[derive(Debug, Default)]
struct Parts {
    places: Vec<Range<u64>>,
    /// Two of them have one name: nobody knows which of the other build they are.
    is_ambiguous: bool,
}

/// Compares parts one by one.
fn are_equal((before, parts): (&Code, &Parts), (after, others): (&Code, &Parts)) -> Result<bool, Cause> {
    let are_equal = |(part, other): (&Range<u64>, &Range<u64>)| {
        let (steps, others_steps) = (steps(before, part)?, steps(after, other)?);
        let mut is_unclear = false;
        let mut are_equal = |(a, b): (&Step, &Step)| {
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
        if are_equal && is_unclear { Err(Cause::Numbers) } else { Ok(are_equal) }
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
struct Step {
    /// Without what it names.
    masked: Masked,
    names: [Option<Named>; 2],
}

/// An instruction that names nothing.
#[derive(Debug)]
enum Masked {
    X86(iced_x86::Instruction),
    /// Bytes that are no instruction.
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
struct Named {
    at: u64,
    /// So many bytes are read there; 0 if only the address is taken, or it is gone to.
    read_len: usize,
    /// It may be a number that happens to be an address.
    is_number: bool,
}

/// What lies at an address.
#[derive(Debug, PartialEq, Eq)]
enum Thing {
    /// Part and offset in the same function.
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
fn steps(code: &Code, part: &Range<u64>) -> Result<Vec<Step>, Cause> {
    let len = part.end - part.start;
    let bytes = if len <= MAX_LEN { code.bytes(part.start, len) } else { None };
    let bytes = bytes.ok_or(Cause::Bytes)?;
    match code.machine() {
        object::elf::EM_X86_64 => Ok(x86::steps(&bytes, part.start, 64, code)),
        object::elf::EM_386 => Ok(x86::steps(&bytes, part.start, 32, code)),
        object::elf::EM_AARCH64 => Ok(aarch64::steps(&bytes, part.start)),
        _ => Err(Cause::Processor),
    }
}

#[cfg(test)]
mod tests;
