//! Whether walks by unwind tables are right: the sampler copied some of the stacks that it walked, too, and the report unwound these
//! copies by the complete tables.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use icecore_format::records::{StackRepair, WalkEnd};
use icecore_symbolize::image::Finder;
use serde::Serialize;

use icecore_profile::map::Map;
use icecore_profile::named::names::{Names, name};
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::stacks::hits::{Hit, Key};
use icecore_profile::stacks::locate::{CodeLocation, Located, Locator, locate, machine_steps};
use icecore_profile::stacks::repair::Disagreement;
use icecore_text::quantity::ratio;
use icecore_text::quantity::{count, percent};
use icecore_text::shorten::fitted;

/// The most disagreements that are listed.
const LISTED: usize = 8;

/// How many walks by unwind tables were checked, and with which result. Counts are of samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// User stacks that the sampler walked by unwind tables.
    pub walked: u64,
    /// Those that were compared with an unwound copy: they agree or differ.
    pub checked: u64,
    /// Walks that have the frames of the unwound stack.
    pub agree: u64,
    /// Walks that have other ones.
    pub differ: u64,
    /// Walks with a copy from which unwinding came to no root, and which are equal up to there.
    pub unchecked: u64,
    /// The images of checked walks, those with most differences first.
    pub by_image: Vec<ImageAudit>,
    /// Walks that differ, and what was unwound instead; the eight most frequent ones.
    pub disagreements: Vec<DisagreementRow>,
}

/// The checked walks through one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageAudit {
    /// The path of the image; `None` for code in no file.
    pub image: Option<String>,
    /// Checked walks that pass through it.
    pub checked: u64,
    /// Those whose first wrong step starts in it.
    pub differ: u64,
}

/// A walk and an unwound stack that differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DisagreementRow {
    /// Samples.
    pub count: u64,
    /// The image of the last common frame, whose caller is in question.
    pub image: Option<String>,
    /// The number of common frames.
    pub common: u32,
    /// The frames of the walk, leaf first. From the last common frame on each has its image and the offset in it.
    pub walked: Vec<String>,
    /// The unwound frames, likewise.
    pub unwound: Vec<String>,
}

impl Audit {
    /// Counts the selected samples; `None` if no stack was walked by unwind tables.
    ///
    /// # Cost   one lookup for each frame of a checked stack; names the places of walks that differ
    pub(crate) fn new(loaded: &Loaded<'_>) -> Option<Self> {
        let mut audit = Self::default();
        let locator = Locator::new(&loaded.tables, &loaded.spaces);
        let mut images: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
        for Hit { key, samples, .. } in &loaded.hits.rows {
            let (is_walked, is_checked) = (key.end == WalkEnd::BY_TABLES, key.repair.is_audited());
            if !is_walked && !is_checked {
                continue;
            }
            audit.walked += samples;
            match key.repair.kind() {
                StackRepair::KEPT if is_checked => audit.agree += samples,
                _ if is_checked => audit.differ += samples,
                StackRepair::KEPT => audit.unchecked += samples,
                _ => {}
            }
            if is_checked {
                let of_stack: BTreeSet<_> = images_of(&locator, key).collect();
                of_stack.into_iter().for_each(|image| images.entry(image).or_default().0 += samples);
            }
        }
        if audit.walked == 0 {
            return None;
        }
        audit.checked = audit.agree + audit.differ;
        let disagreements = Disagreements::find(loaded, &locator);
        for position in 0..disagreements.of.len() {
            images.entry(disagreements.image(position)).or_default().1 += 1;
        }
        let path = |image: u32| locator.images[image as usize].path.clone();
        let row = |(image, (checked, differ)): (Option<u32>, _)| ImageAudit {
            image: image.map(path),
            checked,
            differ,
        };
        audit.by_image = images.into_iter().map(row).collect();
        audit.by_image.sort_by(|a, b| {
            (b.differ, b.checked).cmp(&(a.differ, a.checked)).then_with(|| a.image.cmp(&b.image))
        });
        audit.disagreements = disagreements.rows(loaded);
        Some(audit)
    }

    /// Returns the share of checked walks that differ.
    pub(crate) fn differ_share(&self) -> f64 {
        ratio(self.differ as f64, self.checked as f64)
    }

    /// Sums it up in a line.
    pub fn text(&self) -> String {
        let walked = format!("{} by unwind tables in the kernel", count(self.walked));
        let unchecked = match self.unchecked {
            0 => String::new(),
            some => format!("; {} could not be checked: unwinding reached no root", count(some)),
        };
        if self.checked == 0 {
            return format!("{walked}, none checked against a copy of the stack{unchecked}");
        }
        let [checked, agree] = [self.checked, self.agree].map(count);
        let share = percent(ratio(self.agree as f64, self.checked as f64));
        format!("{walked}, {checked} checked against a copy of the stack, {agree} agree ({share}){unchecked}")
    }
}

/// Lists the images of the frames of a user stack.
fn images_of<'l>(locator: &'l Locator<'_>, key: &Key) -> impl Iterator<Item = Option<u32>> + 'l {
    let space = key.space;
    machine_steps(locator.tables, key.user).map(move |step| image_of(locator.user(space, step)))
}

fn image_of(place: CodeLocation) -> Option<u32> {
    match place {
        CodeLocation::Image(image, _) => Some(image),
        _ => None,
    }
}

/// The selected walks that differ, as places.
struct Disagreements<'a> {
    locator: &'a Locator<'a>,
    of: Vec<(&'a Disagreement, Key)>,
    /// The walk and the unwound stack of each, one after the other.
    located: Located,
}

impl<'a> Disagreements<'a> {
    fn find(loaded: &'a Loaded<'_>, locator: &'a Locator<'a>) -> Self {
        let selection = loaded.selection();
        let all = loaded.repaired.disagreements().iter();
        let of = all.filter_map(|it| Some((it, selection.key(&it.sample)?))).collect();
        Self::located(of, locator)
    }

    fn located(of: Vec<(&'a Disagreement, Key)>, locator: &'a Locator<'a>) -> Self {
        let pairs = of.iter().flat_map(|(it, key)| [(key, it.sample.user_stack), (key, it.unwound)]);
        let hit = |(key, user): (&Key, u32)| {
            let key = Key { user, kernel: 0, ..*key };
            Hit { key, samples: 1, weight: 1, span_ns: (0, 0) }
        };
        let stacks: Vec<Hit> = pairs.map(hit).collect();
        let located = locate(locator, &stacks);
        Self { locator, of, located }
    }

    /// Lists the spots of a stack, leaf first.
    fn spots(&self, stack: usize) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.located.leaves[stack];
        std::iter::from_fn(move || {
            let spot = next;
            next = self.located.spots.get(spot as usize).filter(|_| spot != 0)?.caller;
            Some(spot)
        })
    }

    fn place(&self, spot: u32) -> usize {
        self.located.spots[spot as usize].place as usize
    }

    /// Returns the spot of the last common frame on each stack; `None` if a block of the stack is missing.
    fn steps(&self, position: usize) -> Option<(u32, u32)> {
        let last = (self.of[position].0.common as usize).checked_sub(1)?;
        Some((self.spots(2 * position).nth(last)?, self.spots(2 * position + 1).nth(last)?))
    }

    /// Returns the image of the last common frame.
    fn image(&self, position: usize) -> Option<u32> {
        let (spot, _) = self.steps(position)?;
        image_of(self.located.places[self.place(spot)])
    }

    /// Lists those that occur most often. Stacks that differ in the same step and outside of it in the same way count as one.
    fn rows(&self, loaded: &Loaded<'_>) -> Vec<DisagreementRow> {
        let mut counts: Map<Option<(u32, u32)>, (u64, usize)> = Map::default();
        for position in 0..self.of.len() {
            counts.entry(self.steps(position)).or_insert((0, position)).0 += 1;
        }
        let mut counts: Vec<(u64, usize)> = counts.into_values().collect();
        counts.sort_by_key(|(count, first)| (Reverse(*count), *first));
        counts.truncate(LISTED);
        let listed = counts.iter().map(|(_, first)| self.of[*first]).collect();
        Disagreements::located(listed, self.locator).named(loaded, counts.iter().map(|(count, _)| *count))
    }

    fn named(&self, loaded: &Loaded<'_>, counts: impl Iterator<Item = u64>) -> Vec<DisagreementRow> {
        let embedded = self.locator.embedded(loaded.recording);
        let finder = Finder { search: loaded.search, embedded: Some(&embedded) };
        let names = name(&self.located.places, self.locator, &finder, &|_| {});
        let row = |(position, count): (usize, u64)| DisagreementRow {
            count,
            image: self.image(position).map(|image| self.locator.images[image as usize].path.clone()),
            common: self.of[position].0.common,
            walked: self.frames(&names, 2 * position),
            unwound: self.frames(&names, 2 * position + 1),
        };
        counts.enumerate().map(row).collect()
    }

    /// Names the frames of a stack; those from the last common one on with their images and offsets.
    fn frames(&self, names: &Names, stack: usize) -> Vec<String> {
        let common = self.of[stack / 2].0.common as usize;
        let frame = |(position, spot): (usize, u32)| {
            let place = self.place(spot);
            // The others are inlined into the outermost function of a place.
            let function = names.of_places.of(place).last().map(|frame| names.function(*frame));
            let function = function.map_or("?", |function| &function.name);
            match self.located.places[place] {
                CodeLocation::Image(image, off) if position + 1 >= common => {
                    let path = &self.locator.images[image as usize].path;
                    format!("{function} ({}+{:#x})", path.rsplit('/').next().unwrap_or(path), off.0)
                }
                _ => function.to_owned(),
            }
        };
        let frames: Vec<String> = self.spots(stack).enumerate().map(frame).collect();
        let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
        fitted(&frames).into_iter().map(Cow::into_owned).collect()
    }
}
