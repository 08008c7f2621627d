//! Collects the code of the functions that samples hit, themselves or in what they call.

use std::collections::{BTreeMap, BTreeSet};

use icecore_elf::Machine;
use icecore_format::records::{CodeFrame, CodePlace, CodeReference, CodeStretch};
use icecore_format::write::Writer;
use icecore_listing::code::{Code, CodeFinder, FunctionCode, Stretch};
use icecore_profile::map::Interned;
use icecore_profile::recording::load::clean;
use icecore_profile::stacks::hits::Hits;
use icecore_profile::stacks::locate::{CodeLocation, Located};
use icecore_profile::watch::Watch;
use icecore_symbolize::Function;
use icecore_symbolize::image::FileOff;
use serde::Serialize;

use crate::Error;
use crate::blocks::CodeDraft;

/// The most bytes of code in one recording.
const MAX_BYTES: u64 = 64 << 20;
/// The bytes of code that are named at once, which bounds the memory.
const STEP_BYTES: u64 = 1 << 20;

/// A stretch: its image, a position; its offset and its length.
type Key = (u32, u64, u64);

/// Code of images, and the texts to which it refers.
#[derive(Debug, Default)]
pub(super) struct FoundCode {
    stretches: BTreeMap<Key, CodeStretch>,
    texts: Vec<Box<[u8]>>,
    pub(super) told: PackedCode,
}

/// What became of the code of functions.
#[derive(Debug, Default, Serialize)]
pub struct PackedCode {
    /// Functions whose code is stored; parts that lie elsewhere count by themselves.
    pub functions: u64,
    /// The size of their code, bytes.
    pub bytes: u64,
    /// What it takes in the file, with what is known of the instructions, bytes.
    pub file_bytes: u64,
    /// Code that is not stored.
    pub missing: Vec<MissingCode>,
}

/// Code of an image that is not stored.
#[derive(Debug, Serialize)]
pub struct MissingCode {
    /// The path of the image.
    pub image: String,
    /// The code of the reason.
    pub why: &'static str,
    /// The number of places on stacks in such code.
    pub places: u64,
}

/// A stretch of code to store.
#[derive(Debug)]
struct Asked {
    stretch: Stretch,
    /// The number of its places on stacks.
    places: u64,
    /// The weight of their stacks.
    weight: u64,
}

/// A search in progress.
struct Search<'a> {
    of: &'a CodeFinder<'a>,
    stretches: BTreeMap<Key, CodeStretch>,
    texts: Interned<Box<[u8]>>,
    /// The bytes of all stretches that are stored or chosen.
    bytes: u64,
    /// The number of places by image and reason.
    missing: BTreeMap<(u32, &'static str), u64>,
}

impl FoundCode {
    /// Finds the code of all places. What an earlier pack has stored stays, unless files say as much of it. If it is too much, the
    /// lightest functions are not stored.
    pub(super) fn find(hits: &Hits, located: &Located, of: &CodeFinder<'_>, watch: &dyn Watch) -> Self {
        let (stretches, texts, missing) = Default::default();
        let mut search = Search { of, stretches, texts, bytes: 0, missing };
        search.take_earlier();
        let (mut opened, asked) = search.ask(hits, located);
        let chosen = search.choose(&asked);
        watch.begin("reading code", chosen.values().map(|of| of.len() as u64).sum());
        for (image, wanted) in chosen {
            let Some(code) = opened.remove(&image) else { continue };
            for step in steps(wanted.iter().map(|asked| asked.stretch.clone())) {
                search.read(image, &code, &step, &asked);
                watch.tick(step.len() as u64);
            }
        }
        watch.end();
        search.end()
    }

    /// Writes the code that stacks of one session hold. `ids` are pairs of an image, a position, and its image id; `hit` has the places on
    /// the stacks: images, positions, and offsets.
    pub(super) fn append(
        &mut self,
        ids: &[(u32, u32)],
        hit: &BTreeSet<(u32, u64)>,
        writer: &mut Writer,
    ) -> Result<(), Error> {
        let before = writer.len_bytes();
        let mut draft = CodeDraft::default();
        for (image, id) in ids {
            for ((_, begin, len), stretch) in of_image(&self.stretches, *image) {
                if hit.range((*image, *begin)..(*image, begin + len)).next().is_some() {
                    draft.add(*id, stretch, &self.texts);
                    draft.append(writer, false)?;
                }
            }
        }
        draft.append(writer, true)?;
        self.told.file_bytes += writer.len_bytes() - before;
        Ok(())
    }
}

impl<'a> Search<'a> {
    /// Takes the code that an earlier pack has stored.
    fn take_earlier(&mut self) {
        for (image, stored) in self.of.stored.all() {
            let key = (image, stored.begin.0, stored.bytes.len() as u64);
            let Some(machine) = Machine::of_elf(stored.machine) else { continue };
            let Some(code) = FunctionCode::stored(&stored) else { continue };
            if self.stretches.insert(key, encoded(machine, &code, &mut self.texts)).is_none() {
                self.bytes += key.2;
            }
        }
    }

    /// Finds the functions around all places; also returns the files of their images.
    fn ask(&mut self, hits: &Hits, located: &Located) -> (BTreeMap<u32, Code<'a>>, BTreeMap<Key, Asked>) {
        let CodeFinder { images, finder, .. } = *self.of;
        let mut places: BTreeMap<u32, Vec<(FileOff, u64)>> = BTreeMap::new();
        for (place, weight) in located.places.iter().zip(weights(hits, located)) {
            if let CodeLocation::Image(image, off) = place {
                places.entry(*image).or_default().push((*off, weight));
            }
        }
        let (mut opened, mut asked) = (BTreeMap::new(), BTreeMap::new());
        for (image, places) in places {
            let offs: Vec<FileOff> = places.iter().map(|(off, _)| *off).collect();
            let mut code = Code::open(&images[image as usize], finder);
            let found = match &mut code {
                Ok(code) => code.stretches(&offs),
                Err(why) => vec![Err(*why); offs.len()],
            };
            opened.extend(code.ok().map(|code| (image, code)));
            for ((off, weight), found) in places.into_iter().zip(found) {
                match found {
                    Ok(stretch) => {
                        let key = (image, stretch.begin.0, stretch.len);
                        let row = asked.entry(key).or_insert(Asked { stretch, places: 0, weight: 0 });
                        row.places += 1;
                        row.weight = row.weight.saturating_add(weight);
                    }
                    Err(_) if self.has(image, off) => {}
                    Err(why) => self.lacks(image, why.code(), 1),
                }
            }
        }
        (opened, asked)
    }

    /// Returns true if a stretch holds an offset of an image.
    fn has(&self, image: u32, off: FileOff) -> bool {
        let of_image = of_image(&self.stretches, image).map(|((_, begin, len), _)| *begin..begin + len);
        of_image.into_iter().any(|range| range.contains(&off.0))
    }

    fn lacks(&mut self, image: u32, why: &'static str, places: u64) {
        *self.missing.entry((image, why)).or_default() += places;
    }

    /// Chooses what is stored, by image.
    fn choose<'s>(&mut self, asked: &'s BTreeMap<Key, Asked>) -> BTreeMap<u32, Vec<&'s Asked>> {
        let weights = asked.iter().map(|(key, asked)| (*key, asked.weight)).collect();
        let is_known = |key: &Key| self.stretches.contains_key(key);
        let (chosen, bytes) = heaviest(weights, is_known, MAX_BYTES.saturating_sub(self.bytes));
        self.bytes += bytes;
        let mut wanted: BTreeMap<u32, Vec<&Asked>> = BTreeMap::new();
        for (key, row) in asked {
            if chosen.contains(key) {
                wanted.entry(key.0).or_default().push(row);
            } else {
                self.lacks(key.0, "too_much", row.places);
            }
        }
        wanted
    }

    /// Reads stretches of an image.
    fn read(&mut self, image: u32, code: &Code<'_>, step: &[Stretch], asked: &BTreeMap<Key, Asked>) {
        for (stretch, listed) in step.iter().zip(code.listed(step)) {
            let key = (image, stretch.begin.0, stretch.len);
            let earlier = self.stretches.get(&key).map(lines);
            match listed {
                Ok(listed) => {
                    let new = encoded(code.machine(), &listed, &mut self.texts);
                    if earlier.is_none_or(|earlier| earlier <= lines(&new)) {
                        self.stretches.insert(key, new);
                    }
                }
                Err(_) if earlier.is_some() => {}
                Err(why) => {
                    self.bytes -= stretch.len;
                    self.lacks(image, why.code(), asked.get(&key).map_or(0, |asked| asked.places));
                }
            }
        }
    }

    fn end(self) -> FoundCode {
        let Self { of, stretches, texts, bytes, missing } = self;
        let row = |((image, why), places): ((u32, &'static str), u64)| MissingCode {
            image: clean(of.images[image as usize].path.as_bytes()).into(),
            why,
            places,
        };
        let (functions, missing) = (stretches.len() as u64, missing.into_iter().map(row).collect());
        let told = PackedCode { functions, bytes, file_bytes: 0, missing };
        FoundCode { stretches, texts: texts.into_items(), told }
    }
}

/// Lists the stretches of an image, ascending.
fn of_image(
    stretches: &BTreeMap<Key, CodeStretch>,
    image: u32,
) -> impl Iterator<Item = (&Key, &CodeStretch)> {
    stretches.range((image, 0, 0)..=(image, u64::MAX, u64::MAX))
}

/// Adds up for each place the weight of the stacks that hold it; a stack that holds it twice counts twice.
fn weights(hits: &Hits, located: &Located) -> Vec<u64> {
    let mut of_spots = vec![0_u64; located.spots.len()];
    for (hit, leaf) in hits.rows.iter().zip(&located.leaves) {
        let weight = &mut of_spots[*leaf as usize];
        *weight = weight.saturating_add(hit.weight);
    }
    let mut of_places = vec![0_u64; located.places.len()];
    // Callers have lower positions.
    for (position, spot) in located.spots.iter().enumerate().skip(1).rev() {
        let weight = of_spots[position];
        for sum in [&mut of_spots[spot.caller as usize], &mut of_places[spot.place as usize]] {
            *sum = sum.saturating_add(weight);
        }
    }
    of_places
}

/// Chooses the heaviest stretches that fit into `room` bytes, and all that are known; also returns the bytes of those that are not.
fn heaviest(
    mut weights: Vec<(Key, u64)>,
    is_known: impl Fn(&Key) -> bool,
    room: u64,
) -> (BTreeSet<Key>, u64) {
    weights.sort_by_key(|(key, weight)| (std::cmp::Reverse(*weight), *key));
    let (mut chosen, mut bytes) = (BTreeSet::new(), 0);
    for (key, _) in weights {
        let new = if is_known(&key) { 0 } else { key.2 };
        if bytes + new <= room {
            bytes += new;
            chosen.insert(key);
        }
    }
    (chosen, bytes)
}

/// Divides stretches into lists of few bytes; a longer stretch is alone.
fn steps(stretches: impl Iterator<Item = Stretch>) -> Vec<Vec<Stretch>> {
    let mut steps: Vec<Vec<Stretch>> = Vec::new();
    let mut room = 0;
    for stretch in stretches {
        let len = stretch.len;
        match steps.last_mut().filter(|_| len <= room) {
            Some(step) => step.push(stretch),
            None => {
                room = STEP_BYTES;
                steps.push(vec![stretch]);
            }
        }
        room = room.saturating_sub(len);
    }
    steps
}

/// Counts the frames with a source line.
fn lines(stretch: &CodeStretch) -> usize {
    stretch.places.iter().flat_map(|place| &place.frames).filter(|frame| frame.line > 0).count()
}

/// Makes a row of a function, of an image that its writer will fill in.
fn encoded(machine: Machine, code: &FunctionCode, texts: &mut Interned<Box<[u8]>>) -> CodeStretch {
    let mut text = |text: &str| texts.intern(text.as_bytes().into());
    let (begin, range) = (code.instructions.first().map_or(0, |it| it.off.0), &code.range);
    let mut stretch = CodeStretch {
        file_off: begin,
        address: range.start.0,
        machine: machine.elf(),
        name: code.name.as_deref().map(&mut text),
        ..CodeStretch::default()
    };
    let mut frame = |function: &Function| CodeFrame {
        name: text(&function.name),
        file: function.file.as_deref().map(&mut text),
        line: function.line.unwrap_or(0),
    };
    for it in &code.instructions {
        stretch.bytes.extend_from_slice(&it.bytes);
        let frames: Vec<CodeFrame> = it.functions.iter().map(&mut frame).collect();
        if stretch.places.last().map_or(&[][..], |place| &place.frames) != frames {
            stretch.places.push(CodePlace { begin: (it.off.0 - begin) as u32, frames });
        }
    }
    let referred = code.instructions.iter().filter_map(|it| it.refers.as_ref());
    let outside = referred.filter(|it| !range.contains(&it.at));
    let named: BTreeMap<u64, (&str, u64)> =
        outside.filter_map(|it| Some((it.at.0, (it.name.as_deref()?, it.offset)))).collect();
    let row = |(at, (name, offset)): (u64, (&str, u64))| CodeReference { at, name: text(name), offset };
    stretch.refers = named.into_iter().map(row).collect();
    stretch
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_symbolize::image::Svma;

    #[test]
    fn the_heaviest_functions_are_stored_and_those_that_are_known_stay() {
        let weights =
            vec![((0, 10, 60), 1), ((0, 90, 50), 9), ((1, 0, 50), 9), ((1, 70, 1), 0), ((2, 5, 40), 8)];
        let keys = |known: Key, room| {
            let (chosen, bytes) = heaviest(weights.clone(), |key| *key == known, room);
            (chosen.into_iter().map(|(image, begin, _)| (image, begin)).collect::<Vec<_>>(), bytes)
        };
        let none = (9, 9, 9);
        assert_eq!(keys(none, 90), (vec![(0, 90), (2, 5)], 90));
        assert_eq!(keys(none, 91), (vec![(0, 90), (1, 70), (2, 5)], 91));
        assert_eq!(keys((0, 10, 60), 0), (vec![(0, 10)], 0));
        assert_eq!(keys(none, 999).1, 201);
    }

    #[test]
    fn steps_hold_few_bytes_and_every_stretch_once() {
        let stretch = |len: u64| Stretch { range: Svma(0)..Svma(len), begin: FileOff(0), len };
        let lens = [10, STEP_BYTES - 10, 1, STEP_BYTES, 5, 5];
        let steps = steps(lens.into_iter().map(stretch));
        let lens: Vec<Vec<u64>> = steps.iter().map(|step| step.iter().map(|it| it.len).collect()).collect();
        assert_eq!(lens, [vec![10, STEP_BYTES - 10], vec![1], vec![STEP_BYTES], vec![5, 5]]);
    }
}
