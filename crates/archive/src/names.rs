//! What recordings know of the functions of a build, and the file in which they share it.
//!
//! The file is one of blocks, as docs/FORMAT.md has them: `names` and `symbols`, all of the image 0.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use icecore_format::read::Recording;
use icecore_format::records::{Layout, NameTable, NamesV1, Symbol, SymbolsV1};
use icecore_format::write::Writer;
use icecore_profile::named::found::Draft;

use crate::id::Id;

/// The size of the texts at which a block of symbols is full, bytes.
const SYMBOL_BYTES: usize = 4 << 20;

/// What the system said, if that is the cause; else the bytes are wrong.
pub(crate) fn io_error(error: icecore_format::Error) -> io::Error {
    match error {
        icecore_format::Error::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}

/// A build-id.
pub(crate) type BuildId = Vec<u8>;

/// Names that were read, by the build and its lineage (`share`).
#[derive(Debug, Default)]
pub(crate) struct Kept(pub(crate) Mutex<BTreeMap<(BuildId, Id), Arc<Names>>>);

/// The names of one build, none of which contradicts another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// What is known of places, by their offsets in the file.
    places: BTreeMap<u64, Place>,
    /// Functions, by the offsets of their first bytes.
    symbols: BTreeMap<u64, Arc<Symbol>>,
}

/// A place in a table that others share.
#[derive(Debug, Clone)]
struct Place {
    table: Arc<NameTable>,
    position: usize,
}

impl Place {
    /// All that is known of it, as bytes that are equal only if that is.
    fn said(&self) -> Vec<u8> {
        let Self { table, position } = self;
        let place = &table.places[*position];
        let mut said = Said::default();
        let text = |position: u32| &*table.texts[position as usize];
        said.numbers(&[place.file_off, place.address, place.start]);
        said.optional(place.calls.map(text));
        said.number(place.frames.len() as u64);
        for frame in &table.frames[place.frames.clone()] {
            let function = &table.functions[frame.function as usize];
            said.optional(frame.file.map(text));
            said.text(text(function.name));
            for it in [function.symbol, function.declared_file, function.file] {
                said.optional(it.map(text));
            }
            let (unit, entry) = function.entry.map_or((0, 0), |(unit, entry)| (u64::from(unit) + 1, entry));
            let (line, declared) = (u64::from(frame.line), u64::from(function.declared_line));
            said.numbers(&[line, declared, unit, entry, function.start]);
            said.number(function.aliases.len() as u64);
            function.aliases.iter().for_each(|alias| said.text(text(*alias)));
        }
        said.0
    }

    fn is_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table) && self.position == other.position
            || self.said() == other.said()
    }
}

/// Numbers and texts, one after the other.
#[derive(Default)]
struct Said(Vec<u8>);

impl Said {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn numbers(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.number(*number));
    }

    fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.0.extend(text);
    }

    fn optional(&mut self, text: Option<&[u8]>) {
        self.number(u64::from(text.is_some()));
        self.text(text.unwrap_or_default());
    }
}

/// All that is known of a function, as bytes that are equal only if that is. The image is left out.
fn said(symbol: &Symbol) -> Vec<u8> {
    let mut said = Said::default();
    said.numbers(&[symbol.start, symbol.end, symbol.address, symbol.whole]);
    said.number(symbol.names.len() as u64);
    symbol.names.iter().for_each(|name| said.text(name));
    said.text(&symbol.file);
    said.0
}

impl Names {
    /// Adds what is known of a place; false if something else is known of it.
    pub(crate) fn add_place(&mut self, table: &Arc<NameTable>, position: usize) -> bool {
        let place = Place { table: table.clone(), position };
        match self.places.entry(table.places[position].file_off) {
            Entry::Occupied(there) => there.get().is_like(&place),
            Entry::Vacant(free) => {
                free.insert(place);
                true
            }
        }
    }

    /// Adds a function; false if another one begins where it does.
    pub(crate) fn add_symbol(&mut self, symbol: &Symbol) -> bool {
        match self.symbols.entry(symbol.start) {
            Entry::Occupied(there) => said(there.get()) == said(symbol),
            Entry::Vacant(free) => {
                free.insert(symbol.clone().into());
                true
            }
        }
    }

    /// Counts what is known.
    pub(crate) fn len(&self) -> usize {
        self.places.len() + self.symbols.len()
    }

    /// Adds all that others know; returns whether that was more. `None`, and nothing is added, if something contradicts what is known.
    pub(crate) fn absorb(&mut self, other: &Self) -> Option<bool> {
        let place = |(off, place): (&u64, &Place)| self.places.get(off).is_none_or(|it| it.is_like(place));
        let symbol = |(start, symbol): (&u64, &Arc<Symbol>)| {
            self.symbols.get(start).is_none_or(|it| said(it) == said(symbol))
        };
        if !other.places.iter().all(place) || !other.symbols.iter().all(symbol) {
            return None;
        }
        let before = self.len();
        for (off, place) in &other.places {
            self.places.entry(*off).or_insert_with(|| place.clone());
        }
        for (start, symbol) in &other.symbols {
            self.symbols.entry(*start).or_insert_with(|| symbol.clone());
        }
        Some(self.len() > before)
    }

    /// Hashes all that is known.
    pub(crate) fn digest(&self) -> Id {
        let places: Vec<Vec<u8>> = self.places.values().map(Place::said).collect();
        let symbols: Vec<Vec<u8>> = self.symbols.values().map(|symbol| said(symbol)).collect();
        let count = (places.len() as u64).to_le_bytes();
        let parts: Vec<&[u8]> =
            std::iter::once(&count[..]).chain(places.iter().chain(&symbols).map(|said| &said[..])).collect();
        Id::of(&parts)
    }

    /// Writes into a draft what is known of a place, as one of an image; false if nothing is.
    pub(crate) fn copy_place(&self, off: u64, image: u32, draft: &mut Draft) -> bool {
        let place = self.places.get(&off);
        let copy = |place: &Place| draft.copy(image, &place.table.places[place.position], &place.table);
        place.map(copy).is_some()
    }

    /// Returns the function that begins at an offset.
    pub(crate) fn symbol(&self, start: u64) -> Option<&Symbol> {
        self.symbols.get(&start).map(|symbol| &**symbol)
    }

    /// Writes the file.
    pub(crate) fn write(&self, file: File, uuid: [u8; 16]) -> Result<(), icecore_format::Error> {
        let mut writer = Writer::create(file, uuid)?;
        let mut draft = Draft::default();
        for place in self.places.values() {
            draft.copy(0, &place.table.places[place.position], &place.table);
            if draft.is_full() {
                draft.take().map_or(Ok(0), |table| writer.append(&NamesV1::from_table(&table)))?;
            }
        }
        draft.take().map_or(Ok(0), |table| writer.append(&NamesV1::from_table(&table)))?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for symbol in self.symbols.values() {
            bytes += symbol.names.iter().map(Vec::len).sum::<usize>() + symbol.file.len();
            rows.push(Symbol { image: 0, ..(**symbol).clone() });
            if bytes >= SYMBOL_BYTES {
                writer.append(&SymbolsV1::from_rows(&std::mem::take(&mut rows)))?;
                bytes = 0;
            }
        }
        if !rows.is_empty() {
            writer.append(&SymbolsV1::from_rows(&rows))?;
        }
        writer.finish().map(drop)
    }

    /// Reads the file.
    pub(crate) fn read(bytes: &[u8]) -> io::Result<Self> {
        let recording = Recording::from_bytes(bytes).map_err(io_error)?;
        if let Some(damage) = recording.damage().first() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("at byte {}: {}", damage.off, damage.cause),
            ));
        }
        let mut names = Self::default();
        each(&recording, |found, _| {
            let agrees = match found {
                Found::Names(table) => (0..table.places.len()).all(|it| names.add_place(&table, it)),
                Found::Symbols(rows) => rows.iter().all(|symbol| names.add_symbol(symbol)),
            };
            if agrees {
                Ok(())
            } else {
                Err(io::Error::new(io::ErrorKind::InvalidData, "it contradicts itself"))
            }
        })?;
        Ok(names)
    }
}

/// A block that has names.
pub(crate) enum Found {
    Names(Arc<NameTable>),
    Symbols(Vec<Symbol>),
}

/// Reads the blocks that have names, one after the other.
pub(crate) fn each(
    recording: &Recording,
    mut take: impl FnMut(Found, &icecore_format::index::Entry) -> io::Result<()>,
) -> io::Result<()> {
    for entry in recording.entries() {
        if let Some(found) = Found::read(recording, entry).map_err(io_error)? {
            take(found, entry)?;
        }
    }
    Ok(())
}

impl Found {
    /// Reads a block; `None` if it has no names.
    pub(crate) fn read(
        recording: &Recording,
        entry: &icecore_format::index::Entry,
    ) -> Result<Option<Self>, icecore_format::Error> {
        Ok(match Layout::of(&entry.header) {
            Some(Layout::NamesV1) => {
                let payload = recording.payload(entry)?;
                Some(Self::Names(Arc::new(payload.view::<NamesV1>()?.table()?.map(Box::from))))
            }
            Some(Layout::SymbolsV1) => {
                let payload = recording.payload(entry)?;
                let rows = payload.view::<SymbolsV1>()?.rows()?;
                Some(Self::Symbols(rows.into_iter().map(Symbol::convert).collect()))
            }
            _ => None,
        })
    }
}
