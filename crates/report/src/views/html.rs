//! `html`: recordings as one page for a browser, which holds all of their samples and needs no network.
//!
//! | module | what lives there |
//! |---|---|
//! | `side` | one recording as columns |
//! | `moments` | its samples, thread by thread |
//! | `trie` | its stacks, in an order that compresses well |
//! | `columns` | how columns are stored |
//! | `page` | puts data, style and script into one document; the latter lie in `crates/report/page/` |

mod columns;
mod moments;
mod page;
mod side;
mod trie;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::profile::pipeline::Report;
use crate::stacks::hits::{Apart, WaitsApart};
use crate::views::Result;

/// A recording of a page.
pub struct PageSide<'a> {
    /// All of its samples, with everything apart that [`APART`] names.
    pub report: &'a Report<'a>,
    /// The samples that other views show, for the verdict.
    pub usual: &'a Report<'a>,
}

/// What a page needs.
pub const APART: Apart = Apart {
    threads: true,
    events: true,
    cpus: false,
    waits: WaitsApart::Rows,
    wall: false,
    slices: None,
    spreads_waits: false,
    moments: true,
    no_stacks: false,
};

/// Makes a page of one recording, or of two that are compared; `diff` is the document of the comparison.
///
/// # Errors
/// If memory for the compressed data cannot be written, which does not happen.
pub fn page(title: &str, sides: &[PageSide<'_>], diff: Option<Value>) -> Result<Vec<u8>> {
    let mut columns = columns::Columns::default();
    let sides: Vec<Value> = sides.iter().map(|it| side::side(it, &mut columns)).collect();
    let document = json!({
        "schema": "icecore.page/1",
        "version": env!("CARGO_PKG_VERSION"),
        "title": title,
        "sides": sides,
        "diff": diff,
    });
    let mut zip = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
    zip.write_all(&columns.finish(&document))?;
    Ok(page::with_data(title, &zip.finish()?))
}

/// The level of gzip: higher ones save a few percent, and take several times as long.
const LEVEL: u32 = 6;
