//! `pack`: adds to a recording what this machine knows about its code: functions, inlined functions and source lines of exactly the
//! places on its stacks; if requested, also their source files and the code of their functions. Later readers need no image and no
//! debug file.
//!
//! Blocks are copied as they are stored; the names follow at the end of each session.

mod code;
mod sources;

use std::path::PathBuf;

use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::Damage;
use icecore_format::write::Writer;
use serde::Serialize;

use crate::Error;
use crate::blocks::append_names;
use code::FoundCode;
pub use code::{MissingCode, PackedCode};
use icecore_listing::code::CodeFinder;
use icecore_profile::map::Map;
use icecore_profile::named::found::{Draft, NameIndex};
use icecore_profile::named::names::find_out;
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::named::source::SourceFinder;
use icecore_profile::recording::code::StoredCode;
use icecore_profile::recording::load::Tables;
use icecore_profile::recording::sources::StoredSources;
use icecore_profile::stacks::hits::Hits;
use icecore_profile::stacks::locate::{CodeLocation, Located, Locator, locate};
use icecore_profile::watch::Watch;
use icecore_symbolize::Answer;
use icecore_symbolize::debuginfod::{Fetched, Settings};
use icecore_symbolize::image::Finder;
use sources::FoundSources;
pub use sources::{MissingSource, PackedSources, UNPROVEN};

/// What was packed.
#[derive(Debug, Serialize)]
pub struct Pack {
    /// The size of the names, bytes.
    pub names_bytes: u64,
    /// Distinct places in images on the stacks.
    pub places: u64,
    /// How many places have a name.
    pub named: u64,
    /// How many places have a source line.
    pub with_line: u64,
    /// What became of source files; absent unless they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<PackedSources>,
    /// What became of the code of functions; absent unless it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<PackedCode>,
}

/// What is packed besides names.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras<'a> {
    /// Source files, and the folders where they are searched first.
    pub source_dirs: Option<&'a [PathBuf]>,
    /// The code of the functions on the stacks.
    pub code: bool,
}

/// What this machine knows about the code of a recording.
pub struct Known<'a> {
    loaded: &'a Loaded<'a>,
    places: Vec<CodeLocation>,
    answers: Vec<Option<Answer>>,
    /// The image ids of each image of a place.
    images: Vec<Vec<u32>>,
    /// The positions of the places on the stacks of each part.
    of_parts: Vec<Vec<u32>>,
    /// Source files, if they were requested.
    sources: Option<FoundSources>,
    /// Code of functions, if it was requested.
    code: Option<FoundCode>,
    /// What was downloaded.
    pub fetched: Fetched,
}

impl<'a> Known<'a> {
    /// Finds the names of a recording that was loaded without filters. If there are servers, first downloads missing files.
    ///
    /// # Errors
    /// If the recording is damaged.
    pub fn find(
        loaded: &'a Loaded<'a>,
        servers: Option<&Settings>,
        extras: Extras<'_>,
        watch: &dyn Watch,
    ) -> Result<Self, Error> {
        let Loaded { recording, tables, hits, search, .. } = loaded;
        if let Some(Damage { off, cause, .. }) = tables.damage.first() {
            return Err(Error::input(format!("at byte {off}: {cause}; make a whole file of it with repair")));
        }
        let locator = Locator::new(tables, &loaded.spaces);
        let located = locate(&locator, &hits.rows);
        let files = locator.embedded(recording);
        let finder = Finder { search, embedded: Some(&files) };
        let fetched = servers.map(|servers| loaded.fetch(&locator, &located, finder, servers, watch));
        watch.begin("naming addresses", located.places.len() as u64);
        let tick = |done| watch.tick(done);
        let answers = find_out(&located.places, &locator, &finder, &tick, |_, _| true);
        watch.end();
        let answers = with_earlier(&located.places, &locator, answers);
        let sources = extras.source_dirs.map(|dirs| {
            let stored = StoredSources::new(recording, tables, |id| locator.image(id));
            let sources = SourceFinder { images: &locator.images, finder: &finder, stored: &stored, dirs };
            FoundSources::find(&located.places, &answers, &sources)
        });
        let code = extras.code.then(|| {
            let stored = StoredCode::new(recording, tables, |id| locator.image(id));
            let code = CodeFinder { images: &locator.images, finder: &finder, stored: &stored };
            FoundCode::find(hits, &located, &code, watch)
        });
        Ok(Self {
            loaded,
            images: images(&locator),
            of_parts: places_of_parts(tables, hits, &located),
            places: located.places,
            answers,
            sources,
            code,
            fetched: fetched.unwrap_or_default(),
        })
    }

    /// Writes the recording with the names.
    ///
    /// # Errors
    /// If it has too many sessions, or the output cannot be written.
    pub fn write(mut self, writer: &mut Writer) -> Result<Pack, Error> {
        let names_bytes = self.copy(writer)?;
        let in_images = self.places.iter().filter(|place| matches!(place, CodeLocation::Image(..))).count();
        let named = |answer: &&Option<Answer>| matches!(answer, Some(Answer::Named(_)));
        let with_line = |answer: &&Option<Answer>| match answer {
            Some(Answer::Named(functions)) => functions.iter().any(|function| function.line.is_some()),
            _ => false,
        };
        Ok(Pack {
            names_bytes,
            places: in_images as u64,
            named: self.answers.iter().filter(named).count() as u64,
            with_line: self.answers.iter().filter(with_line).count() as u64,
            sources: self.sources.map(|found| found.told),
            code: self.code.map(|found| found.told),
        })
    }

    /// Copies a recording, and adds to each session its names before its end. Returns the size of the names.
    fn copy(&mut self, writer: &mut Writer) -> Result<u64, Error> {
        let Loaded { recording, tables, .. } = self.loaded;
        let (mut open, mut names_bytes) = (None, 0);
        for entry in recording.entries() {
            if !self.is_copied(entry) {
                continue;
            }
            let part = tables.parts.of(entry).number();
            if !tables.parts.holds(entry) {
                return Err(Error::input("it has more sessions than a file can have"));
            }
            if let Some(before) = open.filter(|before| *before != part) {
                names_bytes += self.append(tables, before, writer)?;
            }
            open = Some(part);
            if entry.header.kind == Kind::RECEIPT {
                names_bytes += self.append(tables, part, writer)?;
                open = None;
            }
            writer.append_stored(&entry.header, recording.stored(entry)?)?;
        }
        if let Some(part) = open {
            names_bytes += self.append(tables, part, writer)?;
        }
        Ok(names_bytes)
    }

    fn append(&mut self, tables: &Tables, part: u32, writer: &mut Writer) -> Result<u64, Error> {
        let before = writer.len_bytes();
        let mut draft = Draft::default();
        for position in &self.of_parts[part as usize] {
            let place = self.places[*position as usize];
            let (CodeLocation::Image(image, off), Some(answer)) = (place, &self.answers[*position as usize])
            else {
                continue;
            };
            let own = self.images[image as usize].iter().map(|id| tables.parts.of_image(*id));
            for (_, image) in own.filter(|(of, _)| *of == part) {
                draft.answer(image, off, answer);
                append_names(writer, &mut draft, false)?;
            }
        }
        append_names(writer, &mut draft, true)?;
        let names_bytes = writer.len_bytes() - before;
        let ids = self.images.iter().enumerate();
        let ids =
            ids.flat_map(|(image, ids)| ids.iter().map(move |id| (image as u32, tables.parts.of_image(*id))));
        let own: Vec<(u32, u32)> =
            ids.filter(|(_, (of, _))| *of == part).map(|(image, (_, own))| (image, own)).collect();
        if let Some(sources) = &self.sources {
            sources.append(&own, writer)?;
        }
        if let Some(code) = &mut self.code {
            let hit = self.of_parts[part as usize].iter().filter_map(|position| {
                match self.places[*position as usize] {
                    CodeLocation::Image(image, off) => Some((image, off.0)),
                    _ => None,
                }
            });
            code.append(&own, &hit.collect(), writer)?;
        }
        Ok(names_bytes)
    }

    /// Returns false for names, sources and code of an earlier pack, which the new ones include.
    fn is_copied(&self, entry: &Entry) -> bool {
        match entry.header.kind {
            Kind::NAMES | Kind::INDEX => false,
            Kind::SOURCES => self.sources.is_none(),
            Kind::CODE => self.code.is_none(),
            _ => true,
        }
    }
}

/// Prefers the answer of an earlier pack if it says more.
fn with_earlier(
    places: &[CodeLocation],
    locator: &Locator<'_>,
    answers: Vec<Option<Answer>>,
) -> Vec<Option<Answer>> {
    let found = NameIndex::new(&locator.tables.names, |image| locator.image(image));
    let worth = |answer: &Answer| match answer {
        Answer::Named(functions) => {
            (2, functions.iter().filter(|function| function.line.is_some()).count(), functions.len())
        }
        Answer::Unnamed { start, at, .. } => (usize::from(start.is_some()), usize::from(at.is_some()), 0),
    };
    let better = |(place, answer): (&CodeLocation, Option<Answer>)| {
        let CodeLocation::Image(image, off) = place else { return answer };
        let earlier = found.find(*image, *off).map(|place| place.to_answer());
        [answer, earlier].into_iter().flatten().reduce(|a, b| if worth(&b) > worth(&a) { b } else { a })
    };
    places.iter().zip(answers).map(better).collect()
}

/// Lists image ids by position in the locator's images: a file has one id in each session that mapped it.
fn images(locator: &Locator<'_>) -> Vec<Vec<u32>> {
    let mut ids = vec![Vec::new(); locator.images.len()];
    for (id, _) in locator.tables.images.iter() {
        if let Some(position) = locator.image(id) {
            ids[position as usize].push(id);
        }
    }
    ids
}

/// Lists the positions of the places on the stacks of each part, ascending.
fn places_of_parts(tables: &Tables, hits: &Hits, located: &Located) -> Vec<Vec<u32>> {
    let mut seen: Vec<Map<u32, ()>> = vec![Map::default(); tables.parts.len()];
    let mut places: Vec<Vec<u32>> = vec![Vec::new(); tables.parts.len()];
    for (hit, leaf) in hits.rows.iter().zip(&located.leaves) {
        let part = tables.parts.of_task(hit.key.task) as usize;
        let mut spot = *leaf;
        while spot != 0 && seen[part].insert(spot, ()).is_none() {
            places[part].push(located.spots[spot as usize].place);
            spot = located.spots[spot as usize].caller;
        }
    }
    for places in &mut places {
        places.sort_unstable();
        places.dedup();
    }
    places
}
