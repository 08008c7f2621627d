//! The functions of all recordings, matched across builds.

use std::collections::{HashMap, HashSet};

use super::rows::{Key, Sided};
use crate::locate::Locator;
use crate::map::Interned;
use crate::names::{Frame, Function, Names};
use crate::pipeline::Report;
use crate::same::{self, Group, Item};

/// The functions of all recordings, matched.
#[derive(Debug, Default)]
pub struct Functions {
    /// By recording: the number of each function.
    pub of: Vec<Vec<u32>>,
    /// By number: as it is called before and after.
    pub keys: Vec<[Option<Key>; 2]>,
    /// Images, by the key of [`same::image`], that have source lines on one side only.
    one_sided: HashSet<String>,
    /// Images that have names on one side only.
    nameless: HashSet<String>,
}

/// A function of some recordings, before it is matched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Named {
    name: Box<str>,
    image: Option<Box<str>>,
    build_id: Vec<u8>,
    file: Option<Box<str>>,
}

impl Functions {
    pub(super) fn new(reports: &[Sided<'_>]) -> Self {
        let nameless = one_sided(reports, named_ones);
        let mut sides: [Interned<Named>; 2] = Default::default();
        let positions: Vec<Vec<u32>> = reports
            .iter()
            .map(|(report, side)| {
                named(report, &nameless).into_iter().map(|named| sides[*side].intern(named)).collect()
            })
            .collect();
        let sides = sides.map(Interned::into_items);
        let [before, after] = sides.each_ref().map(|named| named.iter().map(Named::item).collect::<Vec<_>>());
        let matched = same::matched(&before, &after);
        let mut number_of = [vec![0u32; before.len()], vec![0u32; after.len()]];
        for (number, Group { before, after, .. }) in matched.iter().enumerate() {
            before.iter().for_each(|position| number_of[0][*position] = number as u32);
            after.iter().for_each(|position| number_of[1][*position] = number as u32);
        }
        let key = |side: usize, positions: &[usize]| Some(sides[side][*positions.first()?].key());
        let keys = matched.iter().map(|group| [key(0, &group.before), key(1, &group.after)]).collect();
        let of = positions.into_iter().zip(reports).map(|(positions, (_, side))| {
            positions.into_iter().map(|position| number_of[*side][position as usize]).collect()
        });
        Self { of: of.collect(), keys, one_sided: one_sided(reports, lines), nameless }
    }

    /// Tells whether an inlined function is compared as a row of its own.
    pub(super) fn is_apart(&self, names: &Names, frame: &Frame, physical: bool) -> bool {
        let is_known = || {
            !self
                .one_sided
                .contains(&*same::image(&image_of(names, &names.functions[frame.function as usize])))
        };
        !physical && (self.one_sided.is_empty() || is_known())
    }

    /// Tells whether the image of a frame is compared as a whole.
    pub(super) fn is_nameless(&self, names: &Names, frame: &Frame) -> bool {
        let image = || image_of(names, &names.functions[frame.function as usize]);
        !self.nameless.is_empty() && self.nameless.contains(&*same::image(&image()))
    }

    /// How a function is called on a side.
    pub(super) fn key(&self, function: u32, side: usize) -> Key {
        self.known(function, side).cloned().unwrap_or_default()
    }

    fn known(&self, function: u32, side: usize) -> Option<&Key> {
        let keys = &self.keys[function as usize];
        keys[side].as_ref().or(keys[1 - side].as_ref())
    }

    pub(super) fn name(&self, function: u32, side: usize) -> String {
        self.known(function, side).map_or_else(String::new, |key| key.name.clone())
    }

    pub(super) fn image(&self, function: u32, side: usize) -> Option<String> {
        self.known(function, side).and_then(|key| key.image.clone())
    }
}

impl Named {
    fn item(&self) -> Item<'_> {
        let Self { name, image, build_id, file } = self;
        Item { name, image: image.as_deref(), build_id, file: file.as_deref() }
    }

    fn key(&self) -> Key {
        Key { name: self.name.to_string(), image: self.image.as_deref().map(str::to_owned), ..Key::default() }
    }
}

/// The functions of a recording, by their positions. Images that are nameless on one side are taken as a whole: nothing in them
/// is new, or gone.
fn named(report: &Report<'_>, nameless: &HashSet<String>) -> Vec<Named> {
    let names = &report.profile.names;
    let mut files: Vec<Option<u32>> = vec![None; names.functions.len()];
    for frame in &names.frames {
        let known = &mut files[frame.function as usize];
        *known = known.or(frame.file);
    }
    let locator = Locator::new(&report.loaded.tables, &report.loaded.spaces);
    let mut builds: HashMap<&str, Option<&[u8]>> = HashMap::new();
    for image in &locator.images {
        // A path under which there were two builds tells none.
        let known = builds.entry(&image.path).or_insert(Some(&image.build_id));
        *known = known.filter(|known| *known == &image.build_id[..]);
    }
    let functions = names.functions.iter().zip(files);
    let named = functions.map(|(function, file)| {
        let image = names.image(function).map(|image| image.path.clone());
        let key = image.as_deref().map(same::image).filter(|key| nameless.contains(&**key));
        if let Some(key) = key {
            let name = format!("[all of {key}]").into();
            return Named { name, image, build_id: Vec::new(), file: None };
        }
        let build_id = image.as_deref().and_then(|path| *builds.get(path)?).unwrap_or_default().to_vec();
        Named {
            name: function.name.clone(),
            image,
            build_id,
            file: file.map(|file| names.files[file as usize].clone()),
        }
    });
    named.collect()
}

/// Images, by their keys, of which one side has something of a kind and the other, which has the image, does not.
fn one_sided(reports: &[Sided<'_>], has: impl Fn(&Names) -> Vec<(Option<u32>, bool)>) -> HashSet<String> {
    let mut known: HashMap<String, [(bool, bool); 2]> = HashMap::new();
    for (report, side) in reports {
        let names = &report.profile.names;
        for (image, has) in has(names) {
            let Some(image) = image else { continue };
            let key = same::image(&names.images[image as usize].path).into_owned();
            let of_side = &mut known.entry(key).or_default()[*side];
            *of_side = (true, of_side.1 | has);
        }
    }
    let differs =
        |sides: &[(bool, bool); 2]| sides.iter().all(|(is_there, _)| *is_there) && sides[0].1 != sides[1].1;
    known.into_iter().filter(|(_, sides)| differs(sides)).map(|(image, _)| image).collect()
}

/// Which images have source lines.
fn lines(names: &Names) -> Vec<(Option<u32>, bool)> {
    let mut has: HashMap<u32, bool> = HashMap::new();
    for frame in &names.frames {
        *has.entry(frame.function).or_default() |= frame.file.is_some();
    }
    has.into_iter().map(|(function, has)| (names.functions[function as usize].image, has)).collect()
}

/// Which images have functions with names.
fn named_ones(names: &Names) -> Vec<(Option<u32>, bool)> {
    names.functions.iter().map(|function| (function.image, function.reason.is_none())).collect()
}

/// The path of a function's image, or what stands for one.
pub(super) fn image_of(names: &Names, function: &Function) -> String {
    names.image(function).map_or_else(|| "[no image]".to_owned(), |image| image.path.to_string())
}
