//! Stacks that are believed because a walk along frame pointers came to a root, and that cannot be whole: they pass through a
//! function that keeps no frame pointer, and the walk has skipped its caller.

use std::collections::HashSet;

use icecore_format::records::{Location, Mark, StackRepair, WalkEnd};

use super::rules::{self, Rules};
use crate::base::map::Map;
use crate::recording::load::Tables;
use crate::recording::spaces::SpaceId;
use crate::stacks::hits::Hit;
use crate::stacks::locate::{Locator, Step, steps};
use icecore_symbolize::image::{FileOff, Finder};
use icecore_unwind::{Limits, Place, Unwinder};

/// Samples whose stacks are suspect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Suspects {
    /// Samples of which it could be told: there are unwind tables for some of their callers.
    pub(crate) judged: u64,
    pub(crate) samples: u64,
    /// The image that most of them pass through first, a position in [`Locator::images`].
    pub(crate) worst: Option<u32>,
    /// User stacks, each with its address space, all functions of which keep frame pointers where they were left.
    pub(crate) sound: HashSet<(Option<SpaceId>, u32)>,
    /// The same, but for the outermost frame.
    pub(crate) linked: HashSet<(Option<SpaceId>, u32)>,
}

/// What is known of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// No unwind tables tell.
    Untold,
    /// All its functions keep frame pointers where they were left.
    Sound,
    /// One does not; the innermost is in this image.
    Skips(Option<u32>),
}

/// Whether frame pointers are kept, by image and address in it; `None` if no rules tell.
#[derive(Debug, Default)]
pub(super) struct Known(Map<(u32, u64), Option<bool>>);

impl Known {
    /// Judges a walk by the places of its frames, the innermost first; `None` is one whose place is not known.
    pub(super) fn judge<'t>(
        &mut self,
        calls: impl Iterator<Item = Option<Place<'t>>>,
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

    pub(super) fn keeps(&mut self, place: &Place<'_>, unwinder: &mut Unwinder) -> Option<bool> {
        let key = (place.module?, place.at.0);
        *self.0.entry(key).or_insert_with(|| unwinder.keeps_frame_pointer(place))
    }
}

/// Judges the stacks of a recording without snapshots: nothing but walks is there. Suspects are counted among those that came to a
/// root; of others it is known that they are broken.
///
/// # Cost   the rules of each place once, and a look into a table for each frame of distinct stacks
pub(crate) fn suspects(locator: &Locator<'_>, finder: &Finder<'_>, rows: &[Hit]) -> Suspects {
    let mut suspects = Suspects::default();
    if rows.iter().all(|hit| hit.key.user == 0 || hit.key.repair != StackRepair::NONE) {
        return suspects;
    }
    let Some(rules) = Rules::find(locator, finder) else { return suspects };
    let rules = rules.tables();
    let (mut known, mut unwinder) = (Known::default(), Unwinder::new(Limits::new(rules.machine())));
    let mut images: Map<Option<u32>, u64> = Map::default();
    // Rows of one stack, in other slices of time or threads, are neighbours.
    let mut before = None;
    for hit in rows.iter().filter(|hit| hit.key.user != 0) {
        let stack = (hit.key.space, hit.key.user);
        let judged = match before {
            Some((known, judged)) if known == stack => judged,
            _ => {
                let places: Vec<_> = steps(locator.tables, hit.key.user)
                    .map(|step| place(locator, &rules, hit, step))
                    .collect();
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

/// Tells of a stack whether it passes a signal trampoline, and lacks what the signal has interrupted: a walk along frame
/// pointers goes on with the caller of that.
///
/// ```text
///   unwound   handler   trampoline (interrupted)   function (interrupted)   its caller
///   walked    handler   trampoline (interrupted)                            its caller
/// ```
pub(crate) fn skips_interrupted(tables: &Tables, stack: u32) -> bool {
    if tables.marks.is_empty() {
        return false;
    }
    let mut marks = steps(tables, stack).map(|step| step.mark.has(Mark::INTERRUPTED));
    while let Some(is_interrupted) = marks.next() {
        if is_interrupted && marks.next() != Some(true) {
            return true;
        }
    }
    false
}

/// Where the function of a frame is looked up.
fn place<'t>(
    locator: &Locator<'_>,
    rules: &'t rules::Tables<'_>,
    hit: &Hit,
    step: Step,
) -> Option<Place<'t>> {
    let location = step.location?;
    let image = match location {
        Location::Image { image, .. } => image,
        Location::Address(address) => locator.mapping(hit.key.space?, step.role.lookup(address))?.image,
    };
    let call = step.role.lookup(locator.file_off(hit.key.space, location)?.0);
    Some(rules.place(Some(locator.image(image)?), FileOff(call)))
}
