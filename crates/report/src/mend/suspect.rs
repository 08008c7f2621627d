//! Stacks that are believed because a walk along frame pointers came to a root, and that cannot be whole: they pass through a
//! function that keeps no frame pointer, and the walk has skipped its caller.

use icecore_format::records::{Location, WalkEnd};

use super::rules::{Rules, Tables};
use crate::hits::Hit;
use crate::image::{FileOff, Finder};
use crate::locate::{Locator, Role, Step, steps};
use crate::map::Map;
use crate::unwind::{Limits, Place, Unwinder};

/// Samples whose stacks are suspect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Suspects {
    /// Samples of which it could be told: there are unwind rules for some of their callers.
    pub(crate) judged: u64,
    pub(crate) samples: u64,
    /// How many of them pass through an image first, by its position in [`Locator::images`].
    pub(crate) images: Map<u32, u64>,
}

impl Suspects {
    /// Counts samples of one stack; `callers` are the places of its calls, the innermost first.
    pub(super) fn count<'t>(
        &mut self,
        samples: u64,
        callers: impl Iterator<Item = Place<'t>>,
        known: &mut Known,
        unwinder: &mut Unwinder,
    ) {
        let mut is_judged = false;
        for place in callers {
            let Some(keeps) = known.keeps(&place, unwinder) else { continue };
            is_judged = true;
            if !keeps {
                self.samples += samples;
                *self.images.entry(place.module.unwrap_or(u32::MAX)).or_default() += samples;
                break;
            }
        }
        self.judged += if is_judged { samples } else { 0 };
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.judged += other.judged;
        self.samples += other.samples;
        other.images.iter().for_each(|(image, samples)| *self.images.entry(*image).or_default() += samples);
    }

    /// The image that most of them pass through.
    pub(crate) fn worst(&self) -> Option<u32> {
        let worst = self.images.iter().max_by_key(|(image, samples)| (**samples, std::cmp::Reverse(**image)));
        worst.map(|(image, _)| *image)
    }
}

/// Whether frame pointers are kept, by image and address in it; `None` if no rules tell.
#[derive(Debug, Default)]
pub(super) struct Known(Map<(u32, u64), Option<bool>>);

impl Known {
    fn keeps(&mut self, place: &Place<'_>, unwinder: &mut Unwinder) -> Option<bool> {
        let key = (place.module?, place.at.0);
        *self.0.entry(key).or_insert_with(|| unwinder.keeps_frame_pointer(place))
    }
}

/// Counts suspects in a recording without snapshots: nothing but walks is there. A walk that did not come to a root is known to
/// be broken.
///
/// # Cost   the rules of each call once, and a look into a table for each frame of distinct stacks
pub(crate) fn suspects(locator: &Locator<'_>, finder: &Finder<'_>, rows: &[Hit]) -> Suspects {
    let is_believed =
        |hit: &&Hit| hit.key.user != 0 && [WalkEnd::ROOT, WalkEnd::UNSAID].contains(&hit.key.end);
    let mut suspects = Suspects::default();
    if !rows.iter().any(|hit| is_believed(&hit)) {
        return suspects;
    }
    let rules = Rules::find(locator, finder);
    let rules = rules.tables();
    let (mut known, mut unwinder) = (Known::default(), Unwinder::new(Limits::new(rules.machine())));
    for hit in rows.iter().filter(is_believed) {
        let callers = steps(locator.tables, hit.key.user).filter(|step| step.role == Role::Return);
        let places = callers.filter_map(|step| place(locator, &rules, hit, step));
        suspects.count(hit.samples, places, &mut known, &mut unwinder);
    }
    suspects
}

/// The place of a call.
fn place<'t>(locator: &Locator<'_>, rules: &'t Tables<'_>, hit: &Hit, step: Step) -> Option<Place<'t>> {
    let location = step.location?;
    let image = match location {
        Location::Image { image, .. } => image,
        Location::Address(address) => locator.mapping(hit.key.space?, address.checked_sub(1)?)?.image,
    };
    let call = locator.file_off(hit.key.space, location)?.0.checked_sub(1)?;
    Some(rules.place(Some(locator.image(image)?), FileOff(call)))
}
