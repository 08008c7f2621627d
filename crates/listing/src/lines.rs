//! The source lines of a function, with the code that was inlined at each, and the samples of both.

use std::collections::BTreeMap;

use super::stacks::CountedStacks;
use icecore_profile::map::Map;
use icecore_profile::named::Sum;
use icecore_profile::named::names::Names;
use icecore_profile::stacks::locate::{CodeLocation, Located};
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
    /// The image, a position in [`icecore_profile::stacks::locate::Locator::images`].
    pub image: u32,
    /// The offset by which it is looked up.
    pub off: FileOff,
    /// Its samples.
    pub sum: Sum,
}

/// Adds up the lines of functions, distinct positions in [`Names::functions`], wherever they were inlined.
///
/// # Cost    one step for each frame of each distinct stack, whatever the number of functions
pub fn lines(
    stacks: &CountedStacks<'_>,
    located: &Located,
    names: &Names,
    functions: &[u32],
) -> Vec<FunctionLines> {
    let mut groups = Groups::default();
    let mut of_place: Vec<Vec<u32>> = vec![Vec::new(); located.places.len()];
    let wanted: Map<u32, u32> = functions.iter().copied().zip(0..).collect();
    for (position, location) in located.places.iter().enumerate() {
        let frames = names.of_places.of(position);
        let function = |frame: &u32| wanted.get(&names.frames[*frame as usize].function).copied();
        for (own, frame) in frames.iter().enumerate() {
            let Some(number) = function(frame) else { continue };
            // Of a function that was inlined into itself, the outer one counts.
            if frames[own + 1..].iter().any(|outer| function(outer) == Some(number)) {
                continue;
            }
            let frame = &names.frames[*frame as usize];
            let line = (frame.file, frame.line);
            let place = match location {
                CodeLocation::Image(image, off) => Group::Place(*image, *off),
                _ => Group::Elsewhere,
            };
            let inlined = (own > 0).then(|| Group::Inlined(line, frames[..own].to_vec()));
            let of_function = [Group::All, Group::Line(line), place].into_iter().chain(inlined);
            of_place[position].extend(of_function.map(|group| groups.number((number, group))));
        }
    }
    let sums = stacks.sums(groups.0.len(), |place| &of_place[place as usize]);
    groups.into_lines(&sums, functions.len())
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    All,
    Elsewhere,
    Line((Option<u32>, Option<u32>)),
    Inlined((Option<u32>, Option<u32>), Vec<u32>),
    Place(u32, FileOff),
}

/// Numbers groups, each of a function.
#[derive(Debug, Default)]
struct Groups(BTreeMap<(u32, Group), u32>);

impl Groups {
    fn number(&mut self, group: (u32, Group)) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(group).or_insert(next)
    }

    /// Sorts the sums by what they are of; those without samples are left out.
    fn into_lines(self, sums: &[Sum], functions: usize) -> Vec<FunctionLines> {
        let mut all: Vec<FunctionLines> = (0..functions).map(|_| FunctionLines::default()).collect();
        for ((function, group), number) in self.0 {
            let (found, sum) = (&mut all[function as usize], sums[number as usize]);
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
        for line in all.iter_mut().flat_map(|found| &mut found.lines) {
            line.inlined.sort_by_key(|it| std::cmp::Reverse(weights(it)));
        }
        all
    }
}
