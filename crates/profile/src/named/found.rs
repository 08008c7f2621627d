//! Stores the names that a report found for code, so that the next report can read them.

use std::ops::Deref;
use std::sync::Arc;

use icecore_format::records::{NameTable, NamedFrame, NamedFunction, NamedPlace};

use crate::map::{Interned, Map};
use icecore_symbolize::image::{FileOff, Svma};
use icecore_symbolize::{Answer, EntryId, Function, Origin, Reason};

/// The size at which a table is full, bytes, so that its block is neither huge nor tiny.
const TABLE_BYTES: usize = 4 << 20;
/// The size of a place or a frame in a table, bytes.
const ROW_BYTES: usize = 24;

/// A table under construction.
#[derive(Debug, Default)]
pub struct Draft {
    places: Vec<NamedPlace>,
    frames: Vec<NamedFrame>,
    functions: Interned<NamedFunction>,
    texts: Interned<Box<[u8]>>,
    text_bytes: usize,
}

impl Draft {
    /// Adds the answer for an offset in an image (an image id). Reasons are not stored, because a later report knows better why a
    /// name is missing. An answer without names is skipped.
    pub fn answer(&mut self, image: u32, off: FileOff, answer: &Answer) {
        if let Answer::Unnamed { start: None, at: None, .. } = answer {
            return;
        }
        let (at, start, functions) = match answer {
            Answer::Named(functions) => (None, None, &functions[..]),
            Answer::Unnamed { at, start, .. } => (*at, *start, &[][..]),
        };
        let [Svma(address), Svma(start)] = [at, start].map(Option::unwrap_or_default);
        let calls = functions.first().and_then(|function| function.calls.as_ref());
        let calls = calls.map(|name| self.text(name.as_bytes()));
        let place = NamedPlace { image, file_off: off.0, address, start, frames: 0..0, calls };
        self.place(place, functions, |draft, function| {
            let named = draft.origin(&function.name, &function.origin);
            let file = function.file.as_ref().map(|file| draft.text(file.as_bytes()));
            NamedFrame { function: draft.functions.intern(named), file, line: function.line.unwrap_or(0) }
        });
    }

    fn origin(&mut self, name: &str, origin: &Origin) -> NamedFunction {
        let mut text = |text: &Arc<str>| self.text(text.as_bytes());
        NamedFunction {
            symbol: origin.symbol.as_ref().map(&mut text),
            declared_file: origin.declared.as_ref().map(|(file, _)| text(file)),
            declared_line: origin.declared.as_ref().map_or(0, |(_, line)| *line),
            entry: origin.entry.map(|entry| (entry.unit, entry.off)),
            start: origin.start.map_or(0, |start| start.0),
            file: origin.file.as_ref().map(&mut text),
            aliases: origin.aliases.iter().map(&mut text).collect(),
            name: self.text(name.as_bytes()),
        }
    }

    /// Copies a place from another table, under an image id of this one.
    pub fn copy<T: Deref<Target: AsRef<[u8]>>>(&mut self, image: u32, place: &NamedPlace, of: &NameTable<T>) {
        let frames = &of.frames[place.frames.clone()];
        let calls = place.calls.map(|position| self.text(of.texts[position as usize].as_ref()));
        self.place(NamedPlace { image, calls, ..place.clone() }, frames, |draft, frame| {
            let mut text = |position: u32| draft.text(of.texts[position as usize].as_ref());
            let it = &of.functions[frame.function as usize];
            let function = NamedFunction {
                name: text(it.name),
                symbol: it.symbol.map(&mut text),
                declared_file: it.declared_file.map(&mut text),
                file: it.file.map(&mut text),
                aliases: it.aliases.iter().copied().map(&mut text).collect(),
                ..*it
            };
            let file = frame.file.map(text);
            NamedFrame { function: draft.functions.intern(function), file, line: frame.line }
        });
    }

    fn place<F>(
        &mut self,
        place: NamedPlace,
        frames: &[F],
        mut frame: impl FnMut(&mut Self, &F) -> NamedFrame,
    ) {
        let from = self.frames.len();
        for it in frames {
            let it = frame(self, it);
            self.frames.push(it);
        }
        self.places.push(NamedPlace { frames: from..self.frames.len(), ..place });
    }

    fn text(&mut self, text: &[u8]) -> u32 {
        let before = self.texts.len();
        let position = self.texts.intern(text.into());
        self.text_bytes += if self.texts.len() > before { text.len() } else { 0 };
        position
    }

    /// Returns true if the table should be written as a block.
    pub fn is_full(&self) -> bool {
        let rows = self.places.len() + self.frames.len() + self.functions.len();
        self.text_bytes + ROW_BYTES * rows >= TABLE_BYTES
    }

    /// Takes the table; `None` if it is empty.
    pub fn take(&mut self) -> Option<NameTable> {
        let Self { places, frames, functions, texts, .. } = std::mem::take(self);
        let (functions, texts) = (functions.into_items(), texts.into_items());
        (!places.is_empty()).then_some(NameTable { places, frames, functions, texts })
    }
}

/// Finds places in tables of names.
#[derive(Debug, Default)]
pub struct NameIndex<'a> {
    tables: &'a [NameTable<Arc<str>>],
    /// Position of the table and of the place in it, by image and offset.
    of: Map<(u32, FileOff), (u32, u32)>,
}

/// A place in one of the tables.
#[derive(Debug, Clone, Copy)]
pub struct StoredPlace<'a> {
    /// The position of its table.
    pub(crate) number: u32,
    pub(crate) table: &'a NameTable<Arc<str>>,
    pub(crate) place: &'a NamedPlace,
}

impl<'a> NameIndex<'a> {
    /// Indexes the places; `image_of` maps an image id to a position. Of several rows for a place the last counts. Rows without
    /// names are skipped: a later report knows better why there is no name.
    pub fn new(tables: &'a [NameTable<Arc<str>>], image_of: impl Fn(u32) -> Option<u32>) -> Self {
        let mut of = Map::default();
        for (number, table) in tables.iter().enumerate() {
            let says_nothing =
                |place: &NamedPlace| place.frames.is_empty() && (place.address, place.start) == (0, 0);
            let places = table.places.iter().enumerate().filter(|(_, place)| !says_nothing(place));
            for (position, place) in places {
                if let Some(image) = image_of(place.image) {
                    of.insert((image, FileOff(place.file_off)), (number as u32, position as u32));
                }
            }
        }
        Self { tables, of }
    }

    /// Lists the images of all places; each as often as it has places.
    pub fn images(&self) -> impl Iterator<Item = u32> + '_ {
        self.of.keys().map(|(image, _)| *image)
    }

    /// Finds the place of an offset in an image.
    pub fn find(&self, image: u32, off: FileOff) -> Option<StoredPlace<'a>> {
        let (number, place) = *self.of.get(&(image, off))?;
        let table = &self.tables[number as usize];
        Some(StoredPlace { number, table, place: &table.places[place as usize] })
    }
}

impl<'a> StoredPlace<'a> {
    /// Returns the frames, innermost first.
    pub(crate) fn frames(&self) -> &'a [NamedFrame] {
        &self.table.frames[self.place.frames.clone()]
    }

    /// Returns the name of the function that is called there, if it is known.
    pub(crate) fn calls(&self) -> Option<&'a Arc<str>> {
        self.place.calls.map(|position| &self.table.texts[position as usize])
    }

    /// Converts a function of the table; the text is its name.
    pub(crate) fn origin(&self, function: u32) -> (Arc<str>, Origin) {
        let text = |position: u32| self.table.texts[position as usize].clone();
        let it = &self.table.functions[function as usize];
        let origin = Origin {
            entry: it.entry.map(|(unit, off)| EntryId { unit, off }),
            symbol: it.symbol.map(text),
            declared: it.declared_file.map(|file| (text(file), it.declared_line)),
            start: Some(Svma(it.start)).filter(|start| start.0 > 0),
            file: it.file.map(text),
            aliases: it.aliases.iter().copied().map(text).collect(),
        };
        (text(it.name), origin)
    }

    /// Converts the place to an answer. Code without a name gets no reason.
    pub fn to_answer(self) -> Answer {
        let text = |position: u32| self.table.texts[position as usize].clone();
        let function = |frame: &NamedFrame| {
            let (name, origin) = self.origin(frame.function);
            let line = Some(frame.line).filter(|line| *line > 0);
            Function { name, origin: origin.into(), file: frame.file.map(text), line, calls: None }
        };
        match self.frames() {
            [] => {
                let known = |at: Svma| Some(at).filter(|at| at.0 > 0);
                let (start, at) = (known(Svma(self.place.start)), known(Svma(self.place.address)));
                Answer::Unnamed { reason: Reason::NoSymbol, start, at }
            }
            frames => {
                let mut functions: Vec<Function> = frames.iter().map(function).collect();
                functions[0].calls = self.calls().cloned();
                Answer::Named(functions)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, line: Option<u32>) -> Function {
        let origin = Origin {
            entry: line.map(|_| EntryId { unit: 3, off: 77 }),
            symbol: Some(format!("_Z{name}").into()),
            declared: line.map(|line| ("/src/a.h".into(), line)),
            start: Some(Svma(0x1000)),
            file: Some("a.c".into()),
            aliases: vec!["other".into()],
        };
        let (file, calls) =
            (line.map(|_| "/src/a.c".into()), line.filter(|line| *line == 3).map(|_| "called".into()));
        Function { name: name.into(), origin: origin.into(), file, line, calls }
    }

    fn text(bytes: &[u8]) -> Arc<str> {
        String::from_utf8_lossy(bytes).into()
    }

    #[test]
    fn answers_come_back_and_texts_are_kept_once() {
        let named = Answer::Named(vec![function("inner", Some(3)), function("outer", Some(9))]);
        let bare = Answer::Named(vec![function("outer", None)]);
        let unnamed = Answer::Unnamed { reason: Reason::NoSymbol, start: Some(Svma(8)), at: Some(Svma(9)) };
        let mut draft = Draft::default();
        let made = Answer::Unnamed { reason: Reason::Jit, start: None, at: None };
        for (off, answer) in [(1, &bare), (1, &named), (2, &bare), (3, &unnamed), (4, &made)] {
            draft.answer(7, FileOff(off), answer);
        }
        let table = draft.take().expect("places");
        assert_eq!(table.texts.len(), 9);
        let mut copy = Draft::default();
        table.places.iter().for_each(|place| copy.copy(5, place, &table));
        let copy = copy.take().expect("places");
        let tables = [NameTable {
            places: copy.places,
            frames: copy.frames,
            functions: copy.functions,
            texts: copy.texts.iter().map(|bytes| text(bytes)).collect(),
        }];
        let found = NameIndex::new(&tables, |image| (image == 5).then_some(0));
        let answer = |off| found.find(0, FileOff(off)).map(StoredPlace::to_answer);
        assert_eq!([1, 2, 3, 4].map(answer), [Some(named), Some(bare), Some(unnamed), None]);
        assert!(draft.take().is_none());
    }
}
