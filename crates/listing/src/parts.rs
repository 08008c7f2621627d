//! Finds the stretches of code in which a function was hit, and the instructions of places.

use std::cmp::Reverse;

use super::code::{Code, CodeFinder, FunctionCode, NoCode};
use super::lines::PlaceSum;
use super::stacks::CountedStacks;
use icecore_profile::named::Sum;
use icecore_profile::stacks::locate::{CodeLocation, Located};
use icecore_symbolize::image::FileOff;

/// The most stretches that are listed: a function may be inlined into thousands of others.
pub const MAX_PARTS: usize = 16;

/// A stretch of code.
#[derive(Debug)]
pub struct CodePart {
    /// The image, a position among the images.
    pub image: u32,
    /// The instructions.
    pub code: FunctionCode,
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

/// Lists the code around places of a function: that of the recording, else that of the files of images.
pub fn parts(places: &[PlaceSum], of: &CodeFinder<'_>) -> CodeParts {
    let CodeFinder { images, finder, stored } = *of;
    let mut heaviest: Vec<&PlaceSum> = places.iter().collect();
    heaviest.sort_by_key(|place| {
        (Reverse(place.sum.own.weight.max(place.sum.total.weight)), place.image, place.off)
    });
    let mut found = CodeParts::default();
    let mut opened: Vec<(u32, Result<Code<'_>, NoCode>)> = Vec::new();
    for place in heaviest {
        let PlaceSum { image, off, .. } = *place;
        if found.parts.iter().any(|part| part.image == image && part.position(off).is_some()) {
            continue;
        }
        if found.parts.len() >= MAX_PARTS {
            found.places_left_out += 1;
            continue;
        }
        if let Some(code) = stored.find(image, off).and_then(|stored| FunctionCode::stored(&stored)) {
            found.parts.push(CodePart { image, code });
            continue;
        }
        let position = opened.iter().position(|(known, _)| *known == image).unwrap_or_else(|| {
            opened.push((image, Code::open(&images[image as usize], finder)));
            opened.len() - 1
        });
        let code = opened[position].1.as_mut().map_err(|why| *why);
        match code.and_then(|code| code.function(off)) {
            Ok(code) => found.parts.push(CodePart { image, code }),
            Err(why) if found.missing.contains(&(image, why)) => {}
            Err(why) => found.missing.push((image, why)),
        }
    }
    found
}

/// The instructions of each place: those of one place have neighbouring numbers, and a place of no part has none.
#[derive(Debug)]
pub struct InstructionsOfPlaces {
    /// For each place, where its pairs begin.
    begins: Vec<u32>,
    /// A position among the parts, and one among the instructions of the part.
    pairs: Vec<(u32, u32)>,
}

impl InstructionsOfPlaces {
    /// Finds the instructions at all places. Several parts may hold one instruction.
    ///
    /// # Cost    O(places + places within the parts)
    pub fn new<'p>(parts: impl Iterator<Item = &'p CodePart>, located: &Located) -> Self {
        let mut found: Vec<(u32, (u32, u32))> = Vec::new();
        for (number, part) in (0..).zip(parts) {
            let instructions = &part.code.instructions;
            let Some((first, last)) = instructions.first().zip(instructions.last()) else { continue };
            let end = FileOff(last.off.0 + last.bytes.len() as u64);
            let position =
                |off| located.places.partition_point(|place| *place < CodeLocation::Image(part.image, off));
            for place in position(first.off)..position(end) {
                let CodeLocation::Image(_, off) = located.places[place] else { continue };
                found.extend(part.position(off).map(|at| (place as u32, (number, at as u32))));
            }
        }
        found.sort_unstable();
        let mut begins = vec![0u32; located.places.len() + 1];
        found.iter().for_each(|(place, _)| begins[*place as usize + 1] += 1);
        for place in 1..begins.len() {
            begins[place] += begins[place - 1];
        }
        Self { begins, pairs: found.into_iter().map(|(_, pair)| pair).collect() }
    }

    /// Returns the instructions at a place: the position of a part, and one in it.
    pub fn at(&self, place: u32) -> &[(u32, u32)] {
        let [begin, end] = [place, place + 1].map(|place| self.begins[place as usize] as usize);
        &self.pairs[begin..end]
    }
}

/// Counts the samples of each instruction of a part: hits of the instruction itself for self, and calls that it makes for the total.
pub fn instruction_sums(stacks: &CountedStacks<'_>, located: &Located, part: &CodePart) -> Vec<Sum> {
    let places = InstructionsOfPlaces::new([part].into_iter(), located);
    let of_places: Vec<u32> = places.pairs.iter().map(|(_, at)| *at).collect();
    stacks.sums(part.code.instructions.len(), |place| {
        let [begin, end] = [place, place + 1].map(|place| places.begins[place as usize] as usize);
        &of_places[begin..end]
    })
}

impl CodePart {
    /// Finds the instruction that holds an offset: a return address is looked up by the last byte of its call.
    fn position(&self, off: FileOff) -> Option<usize> {
        let instructions = &self.code.instructions;
        let position = instructions.partition_point(|it| it.off <= off).checked_sub(1)?;
        let it = &instructions[position];
        (off.0 - it.off.0 < it.bytes.len() as u64).then_some(position)
    }
}
