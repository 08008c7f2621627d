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
        let mut sides: [Interned<Named>; 2] = Default::default();
        let positions: Vec<Vec<u32>> = reports
            .iter()
            .map(|(report, side)| named(report).into_iter().map(|named| sides[*side].intern(named)).collect())
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
        Self { of: of.collect(), keys, one_sided: one_sided(reports) }
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

/// The functions of a recording, by their positions.
fn named(report: &Report<'_>) -> Vec<Named> {
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

/// Images of which one side knows source lines, and with them inlined functions, and the other does not.
fn one_sided(reports: &[Sided<'_>]) -> HashSet<String> {
    let mut known: HashMap<String, [(bool, bool); 2]> = HashMap::new();
    for (report, side) in reports {
        let names = &report.profile.names;
        let mut of_image: HashMap<Option<u32>, bool> = HashMap::new();
        for frame in &names.frames {
            let function = &names.functions[frame.function as usize];
            *of_image.entry(function.image).or_default() |= frame.file.is_some();
        }
        for (image, has_lines) in of_image {
            let Some(image) = image else { continue };
            let of_sides =
                known.entry(same::image(&names.images[image as usize].path).into_owned()).or_default();
            of_sides[*side].0 = true;
            of_sides[*side].1 |= has_lines;
        }
    }
    let differs =
        |sides: &[(bool, bool); 2]| sides.iter().all(|(is_there, _)| *is_there) && sides[0].1 != sides[1].1;
    known.into_iter().filter(|(_, sides)| differs(sides)).map(|(image, _)| image).collect()
}

/// The path of a function's image, or what stands for one.
pub(super) fn image_of(names: &Names, function: &Function) -> String {
    names.image(function).map_or_else(|| "[no image]".to_owned(), |image| image.path.to_string())
}
