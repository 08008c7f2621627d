//! The source lines of a function, with the code that was inlined at each, and the samples of both.

use std::collections::BTreeMap;

use super::stacks::CountedStacks;
use crate::profile::Sum;
use crate::profile::names::Names;
use crate::stacks::locate::{CodeLocation, Located};
use icecore_symbolize::image::FileOff;

/// A function, its lines and places that samples hit.
#[derive(Debug, Default)]
pub struct FunctionLines {
    /// Samples of the whole function, inlined code included.
    pub sum: Sum,
    /// Ordered by file and line; unknown ones first.
    pub lines: Vec<LineSum>,
    /// Where its code was hit, ordered by image and offset; inlined code of it lies in other functions, too.
    pub places: Vec<PlaceSum>,
    /// Samples of code of the function that lies in no image: of the kernel, or of a JIT compiler.
    pub elsewhere: Sum,
}

/// A line of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSum {
    /// A position in [`Names::files`].
    pub file: Option<u32>,
    /// The number of the line.
    pub line: Option<u32>,
    /// Its samples: what was inlined there included.
    pub sum: Sum,
    /// Code that was inlined there, heaviest first.
    pub inlined: Vec<InlinedSum>,
}

/// Code that was inlined at a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlinedSum {
    /// Positions in [`Names::frames`], innermost first: each was inlined into the next, and the last at the line.
    pub frames: Vec<u32>,
    /// Its samples.
    pub sum: Sum,
}

/// Code of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceSum {
    /// The image, a position in [`crate::stacks::locate::Locator::images`].
    pub image: u32,
    /// The offset by which it is looked up.
    pub off: FileOff,
    /// Its samples.
    pub sum: Sum,
}

/// Adds up the lines of a function, a position in [`Names::functions`], wherever it was inlined.
pub fn lines(stacks: &CountedStacks<'_>, located: &Located, names: &Names, function: u32) -> FunctionLines {
    let mut groups = Groups::default();
    let all = groups.number(Group::All);
    let elsewhere = groups.number(Group::Elsewhere);
    let mut of_place: Vec<Vec<u32>> = vec![Vec::new(); located.places.len()];
    for (place, location) in located.places.iter().enumerate() {
        let frames = names.of_places.of(place);
        // Of a function that was inlined into itself, the outer one counts.
        let own = frames.iter().rposition(|frame| names.frames[*frame as usize].function == function);
        let Some(own) = own else { continue };
        let frame = &names.frames[frames[own] as usize];
        let line = (frame.file, frame.line);
        let of_place = &mut of_place[place];
        of_place.extend([all, groups.number(Group::Line(line))]);
        if own > 0 {
            of_place.push(groups.number(Group::Inlined(line, frames[..own].to_vec())));
        }
        of_place.push(match location {
            CodeLocation::Image(image, off) => groups.number(Group::Place(*image, *off)),
            _ => elsewhere,
        });
    }
    let sums = stacks.sums(groups.0.len(), |place| &of_place[place as usize]);
    groups.into_lines(&sums)
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    All,
    Elsewhere,
    Line((Option<u32>, Option<u32>)),
    Inlined((Option<u32>, Option<u32>), Vec<u32>),
    Place(u32, FileOff),
}

/// Numbers groups.
#[derive(Debug, Default)]
struct Groups(BTreeMap<Group, u32>);

impl Groups {
    fn number(&mut self, group: Group) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(group).or_insert(next)
    }

    /// Sorts the sums by what they are of; those without samples are left out.
    fn into_lines(self, sums: &[Sum]) -> FunctionLines {
        let mut found = FunctionLines::default();
        for (group, number) in self.0 {
            let sum = sums[number as usize];
            if sum.total.samples == 0 {
                continue;
            }
            match group {
                Group::All => found.sum = sum,
                Group::Elsewhere => found.elsewhere = sum,
                Group::Line((file, line)) => {
                    found.lines.push(LineSum { file, line, sum, inlined: Vec::new() });
                }
                // Lines come first.
                Group::Inlined((file, line), frames) => {
                    let at = found.lines.iter_mut().find(|it| (it.file, it.line) == (file, line));
                    at.into_iter().for_each(|at| at.inlined.push(InlinedSum { frames: frames.clone(), sum }));
                }
                Group::Place(image, off) => found.places.push(PlaceSum { image, off, sum }),
            }
        }
        let weights = |it: &InlinedSum| (it.sum.own.weight, it.sum.total.weight);
        found.lines.iter_mut().for_each(|line| line.inlined.sort_by_key(|it| std::cmp::Reverse(weights(it))));
        found
    }
}
