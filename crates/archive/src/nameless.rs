//! Recordings without the names that they share with others, and with them again.
//!
//! ```text
//! icecore nameless 1 HASH OTHER     the hash of the lines below and of OTHER; OTHER is the hash of what follows the empty line
//! BUILD-ID LINEAGE DIGEST     for each build whose names are shared: where they are, and the hash of those that belong here
//!                             an empty line
//! the recording: of shared names, it has the offsets of the places and of the functions
//! ```
//!
//! What comes back is, block by block, what went in: [`Stripped::new`] proves that.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::sync::Arc;

use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{ImagesV1, Layout, NameTable, NamedPlace, NamesV1, Symbol, SymbolsV1};
use icecore_format::write::Writer;
use icecore_profile::named::found::Draft;
use icecore_profile::recording::load::Tables;
use icecore_profile::recording::load::outline::outline;
use icecore_symbolize::image::hex;

use crate::id::Id;
use crate::names::{BuildId, Found, Names, each, io_error};
use crate::store::no_temporary;

/// How the first line begins.
const HEAD: &str = "icecore nameless 1 ";
/// The longest head, bytes: four times as many builds as a recording has images.
const MAX_HEAD: u64 = 16 << 20;
/// Of builds of which it knows less, a recording keeps it: a file of its own would be larger.
const LEAST: usize = 8;
/// The longest build-id that is the name of a folder, bytes.
const MAX_BUILD_ID: usize = 64;

/// Where the names of a build are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Which of several files, if what recordings know of the build differs.
    pub(crate) lineage: Id,
    /// The hash of those that belong to the recording.
    pub(crate) digest: Id,
}

/// Where the names of a recording are.
pub(crate) type References = BTreeMap<BuildId, Reference>;

/// The build-ids of images, by the sessions and the ids that they have there.
struct Builds {
    outline: Tables,
    of: BTreeMap<(u32, u32), BuildId>,
}

impl Builds {
    fn new(recording: &Recording) -> io::Result<Self> {
        let outline = outline(recording);
        let mut of = BTreeMap::new();
        for entry in recording.entries() {
            if Layout::of(&entry.header) == Some(Layout::ImagesV1) {
                let payload = recording.payload(entry).map_err(io_error)?;
                let view = payload.view::<ImagesV1>().map_err(io_error)?;
                let (part, first) = (outline.parts.of(entry).number(), view.first_id.to_native());
                for (row, image) in (0..).zip(view.rows().map_err(io_error)?) {
                    if (1..=MAX_BUILD_ID).contains(&image.build_id.len()) {
                        of.insert((part, u32::wrapping_add(first, row)), image.build_id);
                    }
                }
            }
        }
        Ok(Self { outline, of })
    }

    fn find(&self, entry: &Entry, image: u32) -> Option<&BuildId> {
        self.of.get(&(self.outline.parts.of(entry).number(), image))
    }
}

/// Collects what a recording knows of builds, as far as it can be shared.
pub(crate) fn collect(recording: &Recording) -> io::Result<BTreeMap<BuildId, Names>> {
    let builds = Builds::new(recording)?;
    let mut all: BTreeMap<BuildId, Names> = BTreeMap::new();
    let mut kept = BTreeSet::new();
    each(recording, |found, entry| {
        let mut add = |image: u32, add: &dyn Fn(&mut Names) -> bool| {
            if let Some(build) = builds.find(entry, image)
                && !add(all.entry(build.clone()).or_default())
            {
                kept.insert(build.clone());
            }
        };
        match found {
            Found::Names(table) => {
                for (position, place) in table.places.iter().enumerate() {
                    // Without its names, it would not be told from one that has none.
                    let has_names = !is_blank(place);
                    add(place.image, &|names| has_names && names.add_place(&table, position));
                }
            }
            Found::Symbols(rows) => {
                rows.iter().for_each(|symbol| add(symbol.image, &|it| it.add_symbol(symbol)))
            }
        }
        Ok(())
    })?;
    all.retain(|build, names| names.len() >= LEAST && !kept.contains(build));
    Ok(all)
}

/// Returns true if nothing is known of a place.
fn is_blank(place: &NamedPlace) -> bool {
    place.frames.is_empty() && (place.address, place.start, place.calls) == (0, 0, None)
}

/// A recording, and where the names are that it has not.
#[derive(Debug)]
pub(crate) struct Nameless {
    pub(crate) references: References,
    recording: Recording,
}

/// A recording without the names that it shares, which is not stored yet.
pub(crate) struct Stripped {
    /// All that it shares, by the build.
    pub(crate) names: BTreeMap<BuildId, Arc<Names>>,
    file: File,
}

impl Stripped {
    /// Takes names out of a recording; `None` if it has none to share, or would not come back as it is.
    pub(crate) fn new(recording: &Recording) -> io::Result<Option<Self>> {
        let names: BTreeMap<BuildId, Arc<Names>> =
            collect(recording)?.into_iter().map(|(build, names)| (build, names.into())).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let file = || tempfile::tempfile().map_err(no_temporary);
        let (file, restored) = (file()?, file()?);
        rewrite(recording, &file, &Way::Strip(&names)).map_err(if_full)?;
        rewrite(&reopened(&file)?, &restored, &Way::Restore(&names)).map_err(if_full)?;
        let is_back = is_same(recording, &reopened(&restored)?)?;
        Ok(is_back.then_some(Self { names, file }))
    }

    /// Writes the file that [`Nameless::open`] reads, given the lineages of its builds.
    pub(crate) fn write(&self, lineages: &BTreeMap<BuildId, Id>, to: &mut File) -> io::Result<()> {
        let mut rows = String::new();
        for (build, names) in &self.names {
            let (lineage, digest) = (lineages[build].get(), names.digest().get());
            rows += &format!("{} {lineage:x} {digest:x}\n", hex(build));
        }
        let mut file = &self.file;
        file.rewind()?;
        let rest = Id::of_all(file)?;
        let hash = Id::of(&[rows.as_bytes(), &rest.bytes()]);
        to.write_all(format!("{HEAD}{:x} {:x}\n{rows}\n", hash.get(), rest.get()).as_bytes())?;
        file.rewind()?;
        io::copy(&mut file, to).map(drop)
    }
}

/// Says that it is the folder for temporary files that is full.
fn if_full(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::StorageFull { no_temporary(error) } else { error }
}

fn reopened(file: &File) -> io::Result<Recording> {
    Recording::from_file(file).map_err(io_error)
}

/// Returns true if two recordings have the same blocks.
fn is_same(a: &Recording, b: &Recording) -> io::Result<bool> {
    let (a_blocks, b_blocks) = (a.entries(), b.entries());
    if a_blocks.len() != b_blocks.len() || a.header().uuid != b.header().uuid {
        return Ok(false);
    }
    for (one, other) in a_blocks.iter().zip(b_blocks) {
        let label = |entry: &Entry| {
            let it = entry.header;
            (it.kind, it.version, it.items, it.sequence, it.first_ns, it.last_ns, it.processes)
        };
        let payload = |of: &Recording, entry| of.payload(entry).map(|it| it.as_bytes().to_vec());
        let payloads = (payload(a, one).map_err(io_error)?, payload(b, other).map_err(io_error)?);
        if label(one) != label(other) || payloads.0 != payloads.1 {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Nameless {
    /// Opens a file.
    pub(crate) fn open(file: File) -> io::Result<Self> {
        let mut input = BufReader::new(file);
        let (references, hash) = head(&mut input)?;
        let mut rest = tempfile::tempfile().map_err(no_temporary)?;
        io::copy(&mut input, &mut rest).map_err(if_full)?;
        rest.rewind()?;
        if Id::of_all(&rest)? != hash {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is damaged, or not all of it is there",
            ));
        }
        Ok(Self { references, recording: reopened(&rest)? })
    }

    /// Writes the recording with the names, given those of its builds; an error if they are not those that belong here.
    pub(crate) fn restore(&self, names: &BTreeMap<BuildId, Arc<Names>>, file: &File) -> io::Result<()> {
        rewrite(&self.recording, file, &Way::Restore(names)).map_err(if_full)?;
        let found = collect(&reopened(file)?)?;
        let is_own = |(build, reference): &(&BuildId, &Reference)| {
            found.get(*build).is_some_and(|names| names.digest() == reference.digest)
        };
        match self.references.iter().find(|it| !is_own(it)) {
            None => Ok(()),
            Some((build, _)) => {
                let cause = format!("the names of the build {} are not those that belong to it", hex(build));
                Err(io::Error::new(io::ErrorKind::InvalidData, cause))
            }
        }
    }
}

/// Reads the head of a file; also returns the hash of what follows it.
pub(crate) fn head(input: &mut impl io::BufRead) -> io::Result<(References, Id)> {
    let wrong =
        || io::Error::new(io::ErrorKind::InvalidData, "it does not begin as a recording without names");
    let mut head = input.take(MAX_HEAD);
    let (mut line, mut rows) = (String::new(), String::new());
    head.read_line(&mut line)?;
    let hashes = line.strip_prefix(HEAD).and_then(|line| line.strip_suffix('\n')?.split_once(' '));
    let (hash, rest) =
        hashes.and_then(|(hash, rest)| Some((id_of(hash)?, id_of(rest)?))).ok_or_else(wrong)?;
    let mut references = References::new();
    loop {
        line.clear();
        head.read_line(&mut line)?;
        match line.strip_suffix('\n').ok_or_else(wrong)? {
            "" => break,
            row => references.extend([row_of(row).ok_or_else(wrong)?]),
        }
        rows += &line;
    }
    if Id::of(&[rows.as_bytes(), &rest.bytes()]) != hash {
        return Err(wrong());
    }
    Ok((references, rest))
}

fn id_of(word: &str) -> Option<Id> {
    i64::from_str_radix(word, 16).ok().map(Id::read)
}

fn row_of(row: &str) -> Option<(BuildId, Reference)> {
    let mut words = row.split(' ');
    let (build, lineage, digest) = (words.next()?, words.next()?, words.next()?);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let build = build.as_bytes().chunks(2).map(byte).collect::<Option<BuildId>>()?;
    let (lineage, digest) = (id_of(lineage)?, id_of(digest)?);
    (words.next().is_none() && (1..=MAX_BUILD_ID).contains(&build.len()))
        .then_some((build, Reference { lineage, digest }))
}

/// What becomes of names that are shared.
enum Way<'a> {
    Strip(&'a BTreeMap<BuildId, Arc<Names>>),
    Restore(&'a BTreeMap<BuildId, Arc<Names>>),
}

/// Copies a recording, all of it but names that are shared.
fn rewrite(recording: &Recording, file: &File, way: &Way<'_>) -> io::Result<()> {
    let builds = Builds::new(recording)?;
    let write = || -> Result<(), icecore_format::Error> {
        let mut writer = Writer::create(file.try_clone()?, recording.header().uuid)?;
        for entry in recording.entries() {
            let names = |image| way.names(builds.find(entry, image));
            match Found::read(recording, entry)? {
                Some(Found::Names(table)) if table.places.iter().any(|it| names(it.image).is_some()) => {
                    let mut draft = Draft::default();
                    for place in &table.places {
                        if !names(place.image).is_some_and(|names| way.place(names, place, &mut draft)) {
                            draft.copy(place.image, place, &table);
                        }
                    }
                    draft.take().map_or(Ok(0), |table| writer.append(&NamesV1::from_table(&table)))?;
                }
                Some(Found::Symbols(mut rows)) if rows.iter().any(|it| names(it.image).is_some()) => {
                    for symbol in &mut rows {
                        if let Some(new) = names(symbol.image).and_then(|names| way.symbol(names, symbol)) {
                            *symbol = new;
                        }
                    }
                    writer.append(&SymbolsV1::from_rows(&rows))?;
                }
                _ => writer.append_stored(&entry.header, recording.stored(entry)?).map(|_| ())?,
            }
        }
        writer.finish().map(drop)
    };
    write().map_err(io_error)
}

impl Way<'_> {
    /// The names of a build, if they are shared.
    fn names(&self, build: Option<&BuildId>) -> Option<&Names> {
        let (Self::Strip(names) | Self::Restore(names)) = self;
        names.get(build?).map(|names| &**names)
    }

    /// Writes a place of a build; false if nothing is known of it.
    fn place(&self, names: &Names, place: &NamedPlace, draft: &mut Draft) -> bool {
        match self {
            Self::Restore(_) => names.copy_place(place.file_off, place.image, draft),
            Self::Strip(_) => {
                let blank = NamedPlace { address: 0, start: 0, frames: 0..0, calls: None, ..*place };
                draft.copy(place.image, &blank, &NameTable::<Box<[u8]>>::default());
                true
            }
        }
    }

    /// Returns what becomes of a function of a build; `None` if it is not known.
    fn symbol(&self, names: &Names, symbol: &Symbol) -> Option<Symbol> {
        let Symbol { image, start, .. } = *symbol;
        match self {
            Self::Restore(_) => names.symbol(start).map(|known| Symbol { image, ..known.clone() }),
            Self::Strip(_) => {
                let (end, address, whole, names, file) = (start, start, start, Vec::new(), Vec::new());
                Some(Symbol { image, start, end, address, whole, names, file })
            }
        }
    }
}
