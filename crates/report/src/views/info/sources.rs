//! Finds the sources of each image's names: the recording itself, and files that exist now.

use std::collections::BTreeMap;

use icecore_format::read::Recording;
use icecore_format::records::Location;
use rayon::prelude::*;
use serde::Serialize;

use icecore_profile::map::Map;
use icecore_profile::named::found::NameIndex;
use icecore_profile::recording::load::{Tables, clean, load};
use icecore_profile::recording::spaces::Spaces;
use icecore_profile::stacks::locate::Locator;
use icecore_profile::stacks::mounts::Elsewhere;
use icecore_symbolize::image::{Finder, Identity, Knowledge, Search, hex};
use icecore_text::path::shown;
use icecore_text::quantity::{count, things};
use icecore_text::{Align, Page, Style, Table};

/// Explains the columns.
const EXPLAINED: &str = "NAMES: of functions that were hit, in the recording; PACKED: places whose functions and lines are in \
                         it; FILE: where the best file is found now, and TELLS: lines, symbols (its symbol table) or \
                         exports";

/// Follows a path that is not a path of the recorded machine itself.
const OTHER_MOUNTS: &str = " (in another mount namespace)";

/// One image whose code is on stacks.
#[derive(Debug, Serialize)]
pub(crate) struct SourceRow {
    image: String,
    build_id: String,
    /// The number of functions that the recording names.
    names: u64,
    /// The number of locations whose functions and lines an earlier report has written into the recording.
    packed: u64,
    /// The source of the file that names most.
    source: Option<&'static str>,
    path: Option<String>,
    /// What that file has: lines, symbols, exports.
    tells: Option<&'static str>,
    /// Why there is no such file.
    reason: Option<&'static str>,
    /// Only processes in other mount namespaces than the recorder's had mapped it.
    other_mounts: bool,
    #[serde(skip)]
    why: String,
}

impl SourceRow {
    /// Searches the files of all images whose code is on stacks; orders the images by path, then build-id.
    pub(crate) fn list(recording: &Recording, search: &Search) -> Vec<Self> {
        let tables = load(recording);
        let spaces = Spaces::replay(&tables.lifecycle, &tables.mappings);
        let locator = Locator::new(&tables, &spaces);
        let embedded = locator.embedded(recording);
        let finder = Finder { search, embedded: Some(&embedded) };
        let counts = OfImages::new(&tables, &locator);
        let elsewhere = Elsewhere::new(&tables, &locator);
        let row = |(image, counted): (&u32, &OfImage)| {
            let other_mounts = elsewhere.process(*image, &tables).is_some();
            Self { other_mounts, ..Self::new(&locator.images[*image as usize], counted, &finder) }
        };
        let mut rows: Vec<Self> = counts.of_image.par_iter().map(row).collect();
        rows.sort_by(|a, b| (&a.image, &a.build_id).cmp(&(&b.image, &b.build_id)));
        rows
    }

    fn new(image: &Identity, counted: &OfImage, finder: &Finder<'_>) -> Self {
        let files = finder.look(image).files;
        let found = files.as_ref().ok();
        let best = found.map(|files| files.debug.as_ref().unwrap_or(&files.image));
        let tells = found.map(|files| match files.knowledge() {
            Knowledge::Exports => "exports",
            Knowledge::Symbols => "symbols",
            Knowledge::Dwarf => "lines",
        });
        let path = best.map(|best| clean(best.file.real_path.to_string_lossy().as_bytes()).into());
        let reason = files.as_ref().err();
        Self {
            image: image.path.clone(),
            build_id: hex(&image.build_id),
            names: counted.names,
            packed: counted.packed,
            source: found.map(|files| files.source().code()),
            path,
            tells,
            reason: reason.map(|reason| reason.code()),
            other_mounts: false,
            why: reason.map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// The names that the recording has for an image.
#[derive(Debug, Default)]
struct OfImage {
    names: u64,
    packed: u64,
}

/// Collects these for all images whose code is on stacks, by position among the locator's images.
struct OfImages {
    of_image: BTreeMap<u32, OfImage>,
}

impl OfImages {
    fn new(tables: &Tables, locator: &Locator<'_>) -> Self {
        let mut seen: Map<u32, ()> = Map::default();
        for (_, node) in tables.nodes.iter() {
            if let Location::Image { image, .. } = node.location {
                seen.insert(image, ());
            }
        }
        let images = seen.keys().filter_map(|id| locator.image(*id));
        let mut of_image: BTreeMap<u32, OfImage> = images.map(|image| (image, OfImage::default())).collect();
        for symbol in &tables.symbols {
            if let Some(image) = locator.image(symbol.image) {
                of_image.entry(image).or_default().names += 1;
            }
        }
        let found = NameIndex::new(&tables.names, |id| locator.image(id));
        for image in found.images() {
            of_image.entry(image).or_default().packed += 1;
        }
        Self { of_image }
    }
}

/// Writes the rows as text.
pub(super) fn text(rows: &[SourceRow], page: &mut Page) {
    let columns = [
        ("NAMES", Align::Right),
        ("PACKED", Align::Right),
        ("FILE", Align::Left),
        ("TELLS", Align::Left),
        ("BUILD-ID", Align::Left),
        ("IMAGE", Align::Left),
    ];
    let mut table = Table::new(0, &columns);
    for row in rows {
        let short = row.build_id.get(..8).unwrap_or(&row.build_id);
        table.row(vec![
            count(row.names),
            count(row.packed),
            row.source.unwrap_or("-").to_owned(),
            row.tells.map_or_else(|| row.why.clone(), str::to_owned),
            if short.is_empty() { "-".to_owned() } else { short.to_owned() },
            shown(std::path::Path::new(&row.image)) + if row.other_mounts { OTHER_MOUNTS } else { "" },
        ]);
    }
    page.table(&table);
    page.styled(Style::Dim, &format!("{}; {EXPLAINED}", things(rows.len() as u64, "image")));
}
