//! Finds the stretches of code in which a function was hit, and counts samples by instruction.

use std::cmp::Reverse;

use super::code::{Code, FunctionCode, Instruction, NoCode};
use super::lines::PlaceSum;
use super::stacks::CountedStacks;
use crate::profile::Sum;
use crate::stacks::locate::{CodeLocation, Located};
use icecore_symbolize::image::{FileOff, Finder, Identity};

/// The most stretches that are listed: a function may be inlined into thousands of others.
pub const MAX_PARTS: usize = 16;

/// A stretch of code, and its samples.
#[derive(Debug)]
pub struct CodePart {
    /// The image, a position among the images.
    pub image: u32,
    /// The instructions.
    pub code: FunctionCode,
    /// Samples of each instruction: hits of the instruction itself for self, and calls that it makes for the total.
    pub sums: Vec<Sum>,
}

/// The code of a function.
#[derive(Debug, Default)]
pub struct CodeParts {
    /// Heaviest first.
    pub parts: Vec<CodePart>,
    /// Why instructions of an image are missing, and the heaviest place that has none.
    pub missing: Vec<(u32, NoCode)>,
    /// The number of places in further stretches that are not listed.
    pub places_left_out: usize,
}

/// Lists the code around places of a function.
pub fn parts(
    places: &[PlaceSum],
    images: &[Identity],
    finder: &Finder<'_>,
    stacks: &CountedStacks<'_>,
    located: &Located,
) -> CodeParts {
    let mut heaviest: Vec<&PlaceSum> = places.iter().collect();
    heaviest.sort_by_key(|place| {
        (Reverse(place.sum.own.weight.max(place.sum.total.weight)), place.image, place.off)
    });
    let mut found = CodeParts::default();
    let mut opened: Vec<(u32, Result<Code<'_>, NoCode>)> = Vec::new();
    for place in heaviest {
        let PlaceSum { image, off, .. } = *place;
        if found.parts.iter().any(|part| part.image == image && part.holds(off)) {
            continue;
        }
        if found.parts.len() >= MAX_PARTS {
            found.places_left_out += 1;
            continue;
        }
        let position = opened.iter().position(|(known, _)| *known == image).unwrap_or_else(|| {
            opened.push((image, Code::open(&images[image as usize], finder)));
            opened.len() - 1
        });
        let code = opened[position].1.as_mut().map_err(|why| *why);
        match code.and_then(|code| code.function(off)) {
            Ok(code) => {
                let sums = instruction_sums(stacks, located, image, &code);
                found.parts.push(CodePart { image, code, sums });
            }
            Err(why) if found.missing.contains(&(image, why)) => {}
            Err(why) => found.missing.push((image, why)),
        }
    }
    found
}

/// Counts the samples of each instruction of an image, a position among the images.
pub fn instruction_sums(
    stacks: &CountedStacks<'_>,
    located: &Located,
    image: u32,
    code: &FunctionCode,
) -> Vec<Sum> {
    let instructions = &code.instructions;
    let mut of_place: Vec<Option<u32>> = vec![None; located.places.len()];
    for (of_place, place) in of_place.iter_mut().zip(&located.places) {
        if let CodeLocation::Image(of, off) = place
            && *of == image
        {
            *of_place = position(instructions, *off).map(|position| position as u32);
        }
    }
    stacks.sums(instructions.len(), |place| of_place[place as usize].as_slice())
}

impl CodePart {
    fn holds(&self, off: FileOff) -> bool {
        position(&self.code.instructions, off).is_some()
    }
}

/// Finds the instruction that holds an offset: a return address is looked up by the last byte of its call.
fn position(instructions: &[Instruction], off: FileOff) -> Option<usize> {
    let position = instructions.partition_point(|it| it.off <= off).checked_sub(1)?;
    let it = &instructions[position];
    (off.0 - it.off.0 < it.bytes.len() as u64).then_some(position)
}
