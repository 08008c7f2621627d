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
    /// The image that most of them pass through first, a position in [`Locator::images`].
    pub(crate) worst: Option<u32>,
}

/// What is known of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    /// No unwind rules tell.
    Untold,
    /// All its calls keep frame pointers, as far as rules tell.
    Sound,
    /// One does not; the innermost is in this image.
    Skips(Option<u32>),
}

impl Judged {
    /// As samples tell it.
    pub(super) fn is_suspect(self) -> Option<bool> {
        match self {
            Self::Untold => None,
            Self::Sound => Some(false),
            Self::Skips(_) => Some(true),
        }
    }
}

/// Whether frame pointers are kept, by image and address in it; `None` if no rules tell.
#[derive(Debug, Default)]
pub(super) struct Known(Map<(u32, u64), Option<bool>>);

impl Known {
    /// Judges a walk by the places of its calls, the innermost first.
    pub(super) fn judge<'t>(
        &mut self,
        calls: impl Iterator<Item = Place<'t>>,
        unwinder: &mut Unwinder,
    ) -> Judged {
        let mut judged = Judged::Untold;
        for place in calls {
            match self.keeps(&place, unwinder) {
                Some(true) => judged = Judged::Sound,
                Some(false) => return Judged::Skips(place.module),
                None => {}
            }
        }
        judged
    }

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
    let mut images: Map<Option<u32>, u64> = Map::default();
    for hit in rows.iter().filter(is_believed) {
        let callers = steps(locator.tables, hit.key.user).filter(|step| step.role != Role::Leaf);
        let places = callers.filter_map(|step| place(locator, &rules, hit, step));
        let judged = known.judge(places, &mut unwinder);
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

/// The place of a call.
fn place<'t>(locator: &Locator<'_>, rules: &'t Tables<'_>, hit: &Hit, step: Step) -> Option<Place<'t>> {
    let location = step.location?;
    let image = match location {
        Location::Image { image, .. } => image,
        Location::Address(address) => locator.mapping(hit.key.space?, step.role.lookup(address))?.image,
    };
    let call = step.role.lookup(locator.file_off(hit.key.space, location)?.0);
    Some(rules.place(Some(locator.image(image)?), FileOff(call)))
}
