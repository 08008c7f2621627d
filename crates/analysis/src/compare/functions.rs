//! Matches the functions of all recordings across builds.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::row::{RowKey, Sided};
use crate::matching::{self, Group, Item, Twins};
use icecore_profile::map::Interned;
use icecore_profile::named::names::{Frame, Names};
use icecore_profile::named::pipeline::Report;
use icecore_profile::stacks::locate::Locator;

/// The functions of all recordings, matched.
#[derive(Debug, Default)]
pub struct Functions {
    /// For each recording, the number of each function.
    pub of: Vec<Vec<u32>>,
    /// For each number, the function's key before and after.
    pub keys: Vec<[Option<RowKey>; 2]>,
    /// For each recording, the [`matching::image`] key of each image.
    images: Vec<Vec<String>>,
    /// The keys of images that have source lines on one side only.
    one_sided: HashSet<String>,
    /// The counts of [`Twins::told_apart`] and [`Twins::summed`].
    pub(super) told_apart: (u64, u64),
    /// The keys of images that have names on one side only.
    nameless: HashSet<String>,
    /// For each number, true if both sides have the build, so that a function has one name.
    pub(super) is_settled: Vec<bool>,
}

/// A function of some recordings, before matching.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Unmatched<'a> {
    name: Cow<'a, str>,
    image: Option<&'a str>,
    build_id: &'a [u8],
    file: Option<&'a str>,
    twin: Option<&'a str>,
    /// As views of its recording show it.
    shown: &'a str,
}

impl Functions {
    pub(super) fn new(reports: &[Sided<'_>]) -> Self {
        let builds: Vec<Vec<Vec<u8>>> = reports.iter().map(|(report, _)| builds(report)).collect();
        let images = image_keys(reports, &builds);
        let nameless = one_sided(reports, &images, named_ones);
        let names: Vec<&Names> = reports.iter().map(|(report, _)| &report.profile.names).collect();
        let twins = Twins::new(&names, &images, &builds);
        let mut sides: [Interned<Unmatched<'_>>; 2] = Default::default();
        let mut positions: Vec<Vec<u32>> = Vec::new();
        for (number, (report, side)) in reports.iter().enumerate() {
            let named = named(report, &builds[number], &images[number], &nameless);
            let named = named.enumerate().map(|(at, named)| Unmatched {
                twin: twins.mark(number, at).filter(|_| !named.shown.is_empty()),
                ..named
            });
            positions.push(named.map(|named| sides[*side].intern(named)).collect());
        }
        let sides = sides.map(Interned::into_items);
        let [before, after] =
            sides.each_ref().map(|named| named.iter().map(Unmatched::item).collect::<Vec<_>>());
        let matched = matching::matched(&before, &after);
        let mut number_of = [vec![0u32; before.len()], vec![0u32; after.len()]];
        for (number, Group { before, after, .. }) in matched.iter().enumerate() {
            before.iter().for_each(|position| number_of[0][*position] = number as u32);
            after.iter().for_each(|position| number_of[1][*position] = number as u32);
        }
        let known = [&before, &after].map(|side| side.iter().map(|it| it.build_id).collect::<HashSet<_>>());
        let is_both =
            |build_id: &[u8]| !build_id.is_empty() && known.iter().all(|known| known.contains(build_id));
        let is_settled = |group: &Group| {
            let of = |side: &[Item<'_>], positions: &[usize]| {
                positions.iter().any(|it| is_both(side[*it].build_id))
            };
            of(&before, &group.before) || of(&after, &group.after)
        };
        let is_settled = matched.iter().map(is_settled).collect();
        let key = |side: usize, positions: &[usize], are_many: bool| {
            let key = sides[side][*positions.first()?].key();
            // Functions without a name that are compared as one have the name of none of them.
            let name = matching::function(&key.name);
            let is_of_all = are_many && name.contains("+?");
            Some(if is_of_all { RowKey { name: name.into_owned(), ..key } } else { key })
        };
        let keys = |group: &Group| {
            let are_many = group.before.len() > 1 || group.after.len() > 1;
            [key(0, &group.before, are_many), key(1, &group.after, are_many)]
        };
        let keys = matched.iter().map(keys).collect();
        let of = positions.into_iter().zip(reports).map(|(positions, (_, side))| {
            positions.into_iter().map(|position| number_of[*side][position as usize]).collect()
        });
        let one_sided = one_sided(reports, &images, lines);
        let told_apart = (twins.told_apart, twins.summed);
        Self { of: of.collect(), keys, images, one_sided, told_apart, nameless, is_settled }
    }

    /// Returns true if an inlined function of a recording is compared as a row of its own.
    pub(super) fn is_apart(&self, number: usize, names: &Names, frame: &Frame, physical: bool) -> bool {
        !physical
            && (self.one_sided.is_empty() || !self.one_sided.contains(self.image_key(number, names, frame)))
    }

    /// Returns true if the image of a frame of a recording is compared as a whole.
    pub(super) fn is_nameless(&self, number: usize, names: &Names, frame: &Frame) -> bool {
        !self.nameless.is_empty() && self.nameless.contains(self.image_key(number, names, frame))
    }

    /// Returns the key of a frame's image, or a substitute.
    pub(super) fn image_key(&self, number: usize, names: &Names, frame: &Frame) -> &str {
        let image = names.functions[frame.function as usize].image;
        image.map_or(NO_IMAGE, |image| &self.images[number][image as usize])
    }

    /// Returns the key of a function on a side.
    pub(super) fn key(&self, function: u32, side: usize) -> RowKey {
        self.known(function, side).cloned().unwrap_or_default()
    }

    fn known(&self, function: u32, side: usize) -> Option<&RowKey> {
        let keys = &self.keys[function as usize];
        keys[side].as_ref().or(keys[1 - side].as_ref())
    }

    pub(super) fn name(&self, function: u32, side: usize) -> &str {
        self.known(function, side).map_or("", |key| &key.name)
    }

    pub(super) fn image(&self, function: u32, side: usize) -> Option<String> {
        self.known(function, side).and_then(|key| key.image.clone())
    }
}

impl Unmatched<'_> {
    fn item(&self) -> Item<'_> {
        let Self { name, image, build_id, file, twin, .. } = self;
        Item { name, image: *image, build_id, file: *file, twin: *twin }
    }

    fn key(&self) -> RowKey {
        let name = if self.shown.is_empty() { &self.name } else { self.shown };
        RowKey { name: name.to_string(), image: self.image.map(str::to_owned), ..RowKey::default() }
    }
}

/// Returns the build-id of each image; empty if unknown.
fn builds(report: &Report<'_>) -> Vec<Vec<u8>> {
    let names = &report.profile.names;
    let locator = Locator::new(&report.loaded.tables, &report.loaded.spaces);
    let mut of_paths: HashMap<&str, Option<&[u8]>> = HashMap::new();
    for image in &locator.images {
        // A path with two builds does not determine the build.
        let known = of_paths.entry(&image.path).or_insert(Some(&image.build_id));
        *known = known.filter(|known| *known == &image.build_id[..]);
    }
    let mut kernels = report.loaded.tables.parts.iter().map(|part| &part.session.kernel_build_id[..]);
    let kernel = kernels.next().filter(|first| kernels.all(|other| other == *first)).unwrap_or_default();
    let of_image = |(position, path): (usize, &str)| match position < locator.images.len() {
        true => of_paths.get(path).copied().flatten().unwrap_or_default().to_vec(),
        // The kernel and its modules are identified by their names.
        false if !kernel.is_empty() => [kernel, path.as_bytes()].concat(),
        false => Vec::new(),
    };
    names.images.iter().map(|image| &*image.path).enumerate().map(of_image).collect()
}

/// Returns the key of each image: one build has one key, whatever the names of its files.
fn image_keys<'a>(reports: &'a [Sided<'a>], builds: &'a [Vec<Vec<u8>>]) -> Vec<Vec<String>> {
    let images = || {
        let of_report = |((report, _), builds): (&Sided<'a>, &'a Vec<Vec<u8>>)| {
            let paths = report.profile.names.images.iter().map(|image| &*image.path);
            paths.zip(builds.iter().map(Vec::as_slice))
        };
        reports.iter().zip(builds).map(of_report)
    };
    let keys = matching::ImageKeys::of(images().flatten());
    let key = |(path, _)| keys.key(path).unwrap_or_default().to_owned();
    images().map(|images| images.map(key).collect()).collect()
}

/// Lists the functions of a recording by position. If one side has no names for an image, the image is compared as a whole: nothing
/// in it is new or gone.
fn named<'a>(
    report: &'a Report<'_>,
    builds: &'a [Vec<u8>],
    images: &[String],
    nameless: &HashSet<String>,
) -> impl Iterator<Item = Unmatched<'a>> {
    let names = &report.profile.names;
    let mut files: Vec<Option<u32>> = vec![None; names.functions.len()];
    for frame in &names.frames {
        let known = &mut files[frame.function as usize];
        *known = known.or(frame.file);
    }
    names.functions.iter().zip(files).map(move |(function, file)| {
        let image = names.image(function).map(|image| &*image.path);
        let key = function.image.map(|image| &images[image as usize]);
        if let Some(key) = key.filter(|key| nameless.contains(*key)) {
            let name = format!("{WHOLE_IMAGE}{key}]").into();
            return Unmatched { name, image, build_id: &[], file: None, twin: None, shown: "" };
        }
        let build_id = function.image.map_or(&[][..], |image| &builds[image as usize]);
        let file = file.map(|file| &*names.files[file as usize]);
        let (name, shown) = (Cow::Borrowed(function.own_name()), &*function.name);
        Unmatched { name, image, build_id, file, twin: None, shown }
    })
}

/// Returns the keys of images that both sides have, but for which only one side has a property.
fn one_sided(
    reports: &[Sided<'_>],
    images: &[Vec<String>],
    has: impl Fn(&Names) -> Vec<(Option<u32>, bool)>,
) -> HashSet<String> {
    let mut known: HashMap<&str, [(bool, bool); 2]> = HashMap::new();
    for (images, (report, side)) in images.iter().zip(reports) {
        let names = &report.profile.names;
        for (image, has) in has(names) {
            let Some(image) = image else { continue };
            let of_side = &mut known.entry(&images[image as usize]).or_default()[*side];
            *of_side = (true, of_side.1 | has);
        }
    }
    let differs =
        |sides: &[(bool, bool); 2]| sides.iter().all(|(is_there, _)| *is_there) && sides[0].1 != sides[1].1;
    known.into_iter().filter(|(_, sides)| differs(sides)).map(|(image, _)| image.to_owned()).collect()
}

/// Returns which images have source lines.
fn lines(names: &Names) -> Vec<(Option<u32>, bool)> {
    let mut has: HashMap<u32, bool> = HashMap::new();
    for frame in &names.frames {
        *has.entry(frame.function).or_default() |= frame.file.is_some();
    }
    has.into_iter().map(|(function, has)| (names.functions[function as usize].image, has)).collect()
}

/// Returns which images have named functions.
fn named_ones(names: &Names) -> Vec<(Option<u32>, bool)> {
    names.functions.iter().map(|function| (function.image, function.reason.is_none())).collect()
}

/// The prefix of a row that covers a whole image.
const WHOLE_IMAGE: &str = "[all of ";

/// Returns the image key from the name of a row that covers a whole image.
pub(super) fn whole_image(row: &str) -> Option<&str> {
    row.strip_prefix(WHOLE_IMAGE)?.strip_suffix(']')
}

/// The substitute for an unknown image.
pub(super) const NO_IMAGE: &str = "[no image]";
