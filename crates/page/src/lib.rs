//! Profiles as one page for a browser, which holds all of their samples and needs no network.
//!
//! | module | what lives there |
//! |---|---|
//! | `side` | one recording as columns |
//! | `listing` | source lines and instructions of functions, and which samples hit them |
//! | `moments` | its samples, thread by thread |
//! | `trie` | its stacks, in an order that compresses well |
//! | `columns` | how columns are stored |
//! | `page` | puts data, style and script into one document; the latter lie in `crates/page/browser/` |

mod columns;
mod listing;
mod moments;
mod page;
mod side;
mod trie;

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use columns::Columns;
use icecore_profile::named::pipeline::Report;
use icecore_profile::stacks::hits::{Apart, WaitsApart};
pub use listing::PageCode;
use moments::Moments;
pub use page::{escaped, plain};

/// A recording of a page.
pub struct PageSide<'a> {
    /// All of its samples, with everything apart that [`APART`] names.
    pub report: &'a Report<'a>,
    /// The document of its summary, whose samples may be fewer.
    pub summary: Value,
    /// The document of how good its data is.
    pub health: Value,
}

/// What a page needs.
pub const APART: Apart = Apart {
    threads: true,
    events: true,
    cpus: false,
    fields: false,
    waits: WaitsApart::Rows,
    wall: false,
    slices: None,
    spreads_waits: false,
    moments: true,
    no_stacks: false,
};

/// A page, and what of its recordings must be known to add to it later.
pub struct Page {
    /// The file.
    pub bytes: Vec<u8>,
    sides: Vec<Numbered>,
}

/// How a page numbers what a recording has.
struct Numbered {
    moments: Moments,
    /// Functions, positions among the names.
    functions: Vec<u32>,
}

/// Makes a page of one recording, or of two that are compared; `diff` is the document of the comparison. A page that is served asks
/// its server for the code of functions that it does not have.
///
/// # Errors
/// If memory for the compressed data cannot be written, which does not happen.
pub fn page(
    title: &str,
    sides: &[PageSide<'_>],
    diff: Option<Value>,
    code: &PageCode,
    is_served: bool,
) -> io::Result<Page> {
    let mut columns = Columns::default();
    let (documents, numbered): (Vec<Value>, Vec<Numbered>) =
        sides.iter().map(|it| side::side(it, code, &mut columns)).unzip();
    let document = json!({
        "schema": "icecore.page/1",
        "version": env!("CARGO_PKG_VERSION"),
        "title": title,
        "is_served": is_served,
        "sides": documents,
        "diff": diff,
    });
    let data = zipped(&columns.finish(&document))?;
    Ok(Page { bytes: page::with_data(title, &data, is_served), sides: numbered })
}

impl Page {
    /// Makes what a page asks for: the code of a function, as the page numbers it; `None` if there is no such function.
    ///
    /// # Errors
    /// As [`page()`].
    pub fn code(
        &self,
        sides: &[PageSide<'_>],
        (side, function): (usize, u32),
        code: &PageCode,
    ) -> io::Result<Option<Vec<u8>>> {
        let Some((numbered, side)) = self.sides.get(side).zip(sides.get(side)) else { return Ok(None) };
        let Some(known) = numbered.functions.get(function as usize) else { return Ok(None) };
        let Some(located) = side.report.located else { return Ok(None) };
        let mut columns = Columns::default();
        let functions = [(*known, function)];
        let listings =
            listing::listings((side.report, located), &numbered.moments, &functions, code, &mut columns);
        zipped(&columns.finish(&listings)).map(Some)
    }
}

/// The level of gzip: higher ones save a few percent, and take several times as long.
const LEVEL: u32 = 6;

/// Compresses data with gzip.
///
/// # Errors
/// If memory cannot be written, which does not happen.
pub fn zipped(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut zip = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    zip.write_all(data)?;
    zip.finish()
}
