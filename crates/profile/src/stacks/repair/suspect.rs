//! Finds suspect stacks: a walk along frame pointers came to a root, but passed a function that keeps no frame pointer, so it
//! skipped that function's caller.

use std::collections::HashSet;

use icecore_format::records::{Location, Mark, StackRepair, WalkEnd};

use super::tables::{TableLookup, TableSources};
use super::work::Work;
use crate::map::Map;
use crate::recording::load::Tables;
use crate::recording::spaces::SpaceId;
use crate::stacks::hits::Hit;
use crate::stacks::locate::{Locator, Step, machine_steps};
use icecore_elf::Avma;
use icecore_symbolize::image::{Finder, Svma};
use icecore_unwind::{Limits, ModuleAddress, Unwinder};

/// Counts of samples whose stacks are suspect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Suspects {
    /// Samples that could be judged: unwind tables cover some of their callers.
    pub judged: u64,
    /// Samples whose stacks are suspect.
    pub samples: u64,
    /// The image that most suspect stacks pass through first, a position in [`Locator::images`].
    pub(crate) worst: Option<u32>,
    /// User stacks, each with its address space, whose functions all keep frame pointers at their calls.
    pub(crate) sound: HashSet<(Option<SpaceId>, u32)>,
    /// User stacks for which that is true except for the outermost frame.
    pub(crate) linked: HashSet<(Option<SpaceId>, u32)>,
}

/// The judgement of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// Unwind tables cover none of its functions.
    Untold,
    /// All its functions keep frame pointers at their calls.
    Sound,
    /// One function does not; the innermost such function is in this image.
    Skips(Option<u32>),
}

/// Whether functions keep frame pointers, by image and address in it; `None` if no tables cover the address.
#[derive(Debug, Default)]
pub(super) struct Known(Map<(u32, Svma), Option<bool>>);

impl Known {
    /// Judges a walk by the places of its frames, the innermost first; `None` is a frame whose place is unknown.
    pub(super) fn judge<'t>(
        &mut self,
        calls: impl Iterator<Item = Option<ModuleAddress<'t>>>,
        unwinder: &mut Unwinder,
    ) -> Judged {
        let (mut all, mut told) = (0, 0);
        for place in calls {
            all += 1;
            match place.and_then(|place| Some((place, self.keeps(&place, unwinder)?))) {
                Some((_, true)) => told += 1,
                Some((place, false)) => return Judged::Skips(place.module),
                None => {}
            }
        }
        if told == all { Judged::Sound } else { Judged::Untold }
    }

    pub(super) fn keeps(&mut self, place: &ModuleAddress<'_>, unwinder: &mut Unwinder) -> Option<bool> {
        let key = (place.module?, place.at);
        *self.0.entry(key).or_insert_with(|| unwinder.keeps_frame_pointer(place))
    }
}

/// Judges the stacks of a recording without snapshots, which has only walks. Suspects are counted among the walks that came to a
/// root; the others are known to be broken.
///
/// # Cost   reads the unwind tables once per place; one table lookup per frame of each distinct stack, as far as the size of the file
/// admits: others are neither suspect nor sound
pub fn suspects(locator: &Locator<'_>, finder: &Finder<'_>, rows: &[Hit], recording_len: u64) -> Suspects {
    let mut suspects = Suspects::default();
    // A walk by unwind tables skips nothing.
    let is_walk = |hit: &&Hit| hit.key.user != 0 && hit.key.end != WalkEnd::BY_TABLES;
    if rows.iter().filter(is_walk).all(|hit| hit.key.repair != StackRepair::NONE) {
        return suspects;
    }
    let Some(tables) = TableSources::find(locator, finder) else { return suspects };
    let tables = tables.tables();
    let (mut known, mut unwinder) = (Known::default(), Unwinder::new(Limits::new(tables.machine())));
    let mut images: Map<Option<u32>, u64> = Map::default();
    // Rows of one stack in other slices of time or threads are neighbours.
    let mut before = None;
    let work = Work::of(recording_len, 1, 1);
    for hit in rows.iter().filter(is_walk) {
        let stack = (hit.key.space, hit.key.user);
        let judged = match before {
            Some((known, judged)) if known == stack => judged,
            _ => {
                let places: Vec<_> = machine_steps(locator.tables, hit.key.user)
                    .take_while(|_| work.take(1))
                    .map(|step| place(locator, &tables, hit, step))
                    .collect();
                if work.is_spent() {
                    break;
                }
                let Some((outermost, inner)) = places.split_last() else { continue };
                let linked = if skips_interrupted(locator.tables, hit.key.user) {
                    Judged::Skips(None)
                } else {
                    known.judge(inner.iter().copied(), &mut unwinder)
                };
                let judged = match linked {
                    Judged::Sound => known.judge([*outermost].into_iter(), &mut unwinder),
                    other => other,
                };
                suspects.linked.extend((linked == Judged::Sound).then_some(stack));
                suspects.sound.extend((judged == Judged::Sound).then_some(stack));
                judged
            }
        };
        before = Some((stack, judged));
        if ![WalkEnd::ROOT, WalkEnd::UNSAID].contains(&hit.key.end) {
            continue;
        }
        suspects.judged += if judged == Judged::Untold { 0 } else { hit.samples };
        if let Judged::Skips(image) = judged {
            suspects.samples += hit.samples;
            *images.entry(image).or_default() += hit.samples;
        }
    }
    let worst = images.into_iter().max_by_key(|(image, samples)| (*samples, std::cmp::Reverse(*image)));
    suspects.worst = worst.and_then(|(image, _)| image);
    suspects
}

/// Returns true if a stack passes a signal trampoline and lacks the interrupted function: a walk along frame pointers continues
/// with the caller of that function.
///
/// ```text
///   unwound   handler   trampoline (interrupted)   function (interrupted)   its caller
///   walked    handler   trampoline (interrupted)                            its caller
/// ```
pub fn skips_interrupted(tables: &Tables, stack: u32) -> bool {
    if tables.marks.is_empty() {
        return false;
    }
    let mut marks = machine_steps(tables, stack).map(|step| step.mark.has(Mark::INTERRUPTED));
    while let Some(is_interrupted) = marks.next() {
        if is_interrupted && marks.next() != Some(true) {
            return true;
        }
    }
    false
}

/// Finds the place by which the function of a frame is looked up.
fn place<'t>(
    locator: &Locator<'_>,
    tables: &'t TableLookup<'_>,
    hit: &Hit,
    step: Step,
) -> Option<ModuleAddress<'t>> {
    let space = hit.key.space;
    let location = step.location?;
    let image = match location {
        Location::Image { image, .. } => locator.image(image),
        Location::Address(address) => locator.mapped(space?, step.role.lookup(Avma(address)))?.0,
    };
    let call = step.role.lookup_off(locator.file_off(space, location)?);
    Some(tables.place(Some(image?), call))
}
