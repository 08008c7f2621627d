//! `pack`: adds to a recording what this machine knows about its code: functions, inlined functions and source lines of exactly the
//! places on its stacks. Later readers need no image and no debug file.
//!
//! Blocks are copied as they are stored; the names follow at the end of each session.

mod sources;

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::write::Writer;
use serde::Serialize;

use super::append_names;
use crate::cli;
use crate::input;
use crate::listing::source::SourceFinder;
use icecore_profile::map::Map;
use icecore_profile::named::found::{Draft, NameIndex};
use icecore_profile::named::names::find_out;
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::recording::load::Tables;
use icecore_profile::recording::sources::StoredSources;
use icecore_profile::stacks::hits::Hits;
use icecore_profile::stacks::locate::{CodeLocation, Located, Locator, locate};
use icecore_profile::watch::Watch;
use icecore_symbolize::Answer;
use icecore_symbolize::debuginfod::{Fetched, Settings};
use icecore_symbolize::image::{Finder, Search};
use icecore_text::Page;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, count, percent, things};
use sources::{FoundSources, SourcesTold};

/// The result, for people and `--json`.
#[derive(Debug, Serialize)]
pub struct Pack {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    /// The size of the names, bytes.
    names_bytes: u64,
    /// Distinct places in images on the stacks.
    places: u64,
    /// How many places have a name, and how many a source line.
    named: u64,
    with_line: u64,
    /// What became of source files; absent unless they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<SourcesTold>,
}

/// Packs the file of a command line. If there are servers, first downloads missing files.
///
/// # Errors
/// If the file cannot be opened or is damaged, or the output cannot be written.
pub fn pack(
    options: &cli::Pack,
    search: &Search,
    servers: Option<&Settings>,
    watch: &dyn Watch,
) -> anyhow::Result<(Pack, Fetched)> {
    let recording = input::open(&options.file)?;
    let cannot = || format!("cannot pack `{}`", options.file.display());
    let loaded = Loaded::whole(&options.file, &recording, search);
    let (tables, hits) = (&loaded.tables, &loaded.hits);
    if let Some(Damage { off, cause, .. }) = tables.damage.first() {
        let cause = anyhow!("at byte {off}: {cause}; make a whole file of it with repair");
        return Err(cause).with_context(cannot);
    }
    let locator = Locator::new(tables, &loaded.spaces);
    let located = locate(&locator, &hits.rows);
    let files = locator.embedded(&recording);
    let finder = Finder { search, embedded: Some(&files) };
    let fetched = servers.map(|servers| loaded.fetch(&locator, &located, finder, servers, watch));
    watch.begin("naming addresses", located.places.len() as u64);
    let tick = |done| watch.tick(done);
    let answers = find_out(&located.places, &locator, &finder, &tick, |_, _| true);
    watch.end();
    let answers = with_earlier(&located.places, &locator, answers);
    let found = options.source.then(|| {
        let stored = StoredSources::new(&recording, tables, |id| locator.image(id));
        let (images, dirs) = (&locator.images[..], &options.source_dir[..]);
        let sources = SourceFinder { images, finder: &finder, stored: &stored, dirs };
        FoundSources::find(&located.places, &answers, &sources)
    });
    let images = images(&locator);
    let of_parts = places_of_parts(tables, hits, &located);
    let (names_bytes, file_bytes) = super::write(&options.output, &[&options.file], |writer| {
        let known = KnownNames {
            places: &located.places,
            answers: &answers,
            images: &images,
            of_parts: &of_parts,
            sources: found.as_ref(),
        };
        known.copy(&recording, tables, writer).with_context(cannot)
    })?;
    let in_images = located.places.iter().filter(|place| matches!(place, CodeLocation::Image(..))).count();
    let named = |answer: &&Option<Answer>| matches!(answer, Some(Answer::Named(_)));
    let with_line = |answer: &&Option<Answer>| match answer {
        Some(Answer::Named(functions)) => functions.iter().any(|function| function.line.is_some()),
        _ => false,
    };
    let pack = Pack {
        schema: "icecore.pack/1",
        file: options.output.output.display().to_string(),
        file_bytes,
        names_bytes,
        places: in_images as u64,
        named: answers.iter().filter(named).count() as u64,
        with_line: answers.iter().filter(with_line).count() as u64,
        sources: found.map(|found| found.told),
    };
    Ok((pack, fetched.unwrap_or_default()))
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

/// All names that were found.
struct KnownNames<'a> {
    places: &'a [CodeLocation],
    answers: &'a [Option<Answer>],
    images: &'a [Vec<u32>],
    of_parts: &'a [Vec<u32>],
    /// Source files, if they were requested.
    sources: Option<&'a FoundSources>,
}

impl KnownNames<'_> {
    /// Copies a recording, and adds to each session its names before its end. Returns the size of the names.
    fn copy(&self, recording: &Recording, tables: &Tables, writer: &mut Writer) -> anyhow::Result<u64> {
        let (mut open, mut names_bytes) = (None, 0);
        for entry in recording.entries().iter().filter(|entry| self.is_copied(entry)) {
            let part = tables.parts.of(entry).number();
            if !tables.parts.holds(entry) {
                bail!("it has more sessions than a file can have");
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

    fn append(&self, tables: &Tables, part: u32, writer: &mut Writer) -> anyhow::Result<u64> {
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
        if let Some(sources) = self.sources {
            let ids = self.images.iter().enumerate();
            let ids = ids.flat_map(|(image, ids)| {
                ids.iter().map(move |id| (image as u32, tables.parts.of_image(*id)))
            });
            let own: Vec<(u32, u32)> =
                ids.filter(|(_, (of, _))| *of == part).map(|(image, (_, own))| (image, own)).collect();
            sources.append(&own, writer)?;
        }
        Ok(names_bytes)
    }

    /// Returns false for names and sources of an earlier pack, which the new ones include.
    fn is_copied(&self, entry: &Entry) -> bool {
        match entry.header.kind {
            Kind::NAMES | Kind::INDEX => false,
            Kind::SOURCES => self.sources.is_none(),
            _ => true,
        }
    }
}

impl Pack {
    /// Describes the result for people.
    pub fn text(&self, page: &mut Page) {
        let of = |part: u64| percent(part as f64 / self.places.max(1) as f64);
        let (file, places) = (shown(Path::new(&self.file)), things(self.places, "place"));
        page.line(&format!(
            "wrote {file} ({}, {} of it names)",
            bytes(self.file_bytes),
            bytes(self.names_bytes)
        ));
        page.line(&format!(
            "{places} in images: {} have a name ({}), {} a source line ({})",
            count(self.named),
            of(self.named),
            count(self.with_line),
            of(self.with_line)
        ));
        if let Some(sources) = &self.sources {
            sources.text(page);
        }
    }
}
