//! Divides the bytes of a file among kinds of blocks and columns.

use std::collections::BTreeMap;

use icecore_format::Error;
use icecore_format::block::Codec;
use icecore_format::index::{Entry, TAIL_LEN};
use icecore_format::read::Recording;
use icecore_format::records::Layout;
use icecore_format::write::Measure;
use icecore_format::{block, header};
use rayon::prelude::*;
use serde::Serialize;

use icecore_text::quantity::ratio;
use icecore_text::quantity::{bytes, count, percent};
use icecore_text::{Align, Page, Style, Table};

/// The bytes that belong to no payload.
const ENVELOPE: &str = "envelope";

/// Explains how the shares of columns are computed.
const EXPLAINED: &str = "the columns of a block are compressed together: each is charged what it takes when compressed \
                         alone, scaled so that they add up to what is stored";

/// The bytes of one column in all blocks of a kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SizeRow {
    kind: String,
    /// `None` if the payload could not be divided.
    column: Option<&'static str>,
    bytes: u64,
    share: f64,
}

impl SizeRow {
    /// Measures a recording; the rows add up to the length of the file. Kinds by size, their columns by size, the
    /// envelope last.
    ///
    /// # Errors
    /// If there is no memory for compression.
    pub(crate) fn list(recording: &Recording) -> Result<Vec<Self>, Error> {
        let measured = |measure: &mut Option<Measure>, entry: &Entry| {
            let measure = match measure {
                Some(measure) => measure,
                None => measure.insert(Measure::new()?),
            };
            divide(recording, entry, measure)
        };
        let blocks: Result<Vec<_>, Error> =
            recording.entries().par_iter().map_init(|| None, measured).collect();
        let mut kinds: BTreeMap<String, BTreeMap<Option<&'static str>, u64>> = BTreeMap::new();
        for (entry, columns) in recording.entries().iter().zip(blocks?) {
            let kind = kinds.entry(entry.header.kind.name()).or_default();
            for (column, bytes) in columns {
                *kind.entry(column).or_default() += bytes;
            }
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(name, columns)| (std::cmp::Reverse(columns.values().sum::<u64>()), name.clone()));
        kinds.push((ENVELOPE.to_owned(), envelope(recording)));
        let file_bytes = recording.len_bytes() as f64;
        Ok(kinds.into_iter().flat_map(|(kind, columns)| Self::of_kind(&kind, columns, file_bytes)).collect())
    }

    fn of_kind(kind: &str, columns: BTreeMap<Option<&'static str>, u64>, file_bytes: f64) -> Vec<Self> {
        let mut columns: Vec<_> = columns.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        columns.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), *name));
        let row = |(column, bytes)| {
            let share = ratio(bytes as f64, file_bytes);
            Self { kind: kind.to_owned(), column, bytes, share }
        };
        columns.into_iter().map(row).collect()
    }
}

/// Divides the stored bytes of a block among its columns.
fn divide(
    recording: &Recording,
    entry: &Entry,
    measure: &mut Measure,
) -> Result<Vec<(Option<&'static str>, u64)>, Error> {
    let stored = u64::from(entry.header.stored_len);
    let whole = vec![(None, stored)];
    let Ok(payload) = recording.payload(entry) else { return Ok(whole) };
    let columns = Layout::of(&entry.header).map(|layout| layout.columns(payload.as_bytes()));
    let Some(Ok(columns)) = columns else {
        return Ok(whole);
    };
    let mut alone = Vec::with_capacity(columns.len());
    for (_, bytes) in &columns {
        alone.push(match entry.header.codec {
            Codec::Raw => bytes.len() as u64,
            Codec::Zstd => measure.stored_len(bytes)? as u64,
        });
    }
    let names = columns.iter().map(|(name, _)| Some(*name));
    Ok(names.zip(apportion(stored, &alone)).collect())
}

/// Divides a number in the ratio of some parts, without a rest. Numbers are lengths of blocks: below 2³².
fn apportion(whole: u64, parts: &[u64]) -> Vec<u64> {
    let sum = parts.iter().sum::<u64>().max(1);
    let mut before = 0;
    let share = |part: &u64| {
        let from = whole * before / sum;
        before += part;
        whole * before / sum - from
    };
    parts.iter().map(share).collect()
}

fn envelope(recording: &Recording) -> BTreeMap<Option<&'static str>, u64> {
    let entries = recording.entries().iter();
    let headers = (entries.len() * block::LEN) as u64;
    let payloads: u64 = entries.clone().map(|entry| u64::from(entry.header.stored_len)).sum();
    let padding: u64 =
        entries.chain(recording.index()).map(|entry| recording.padding(entry).len() as u64).sum();
    let (index, tail) = match recording.index() {
        Some(entry) => ((block::LEN as u64) + u64::from(entry.header.stored_len), TAIL_LEN as u64),
        None => (0, 0),
    };
    let used = header::LEN as u64 + headers + payloads + padding + index + tail;
    let rows = [
        ("file_header", header::LEN as u64),
        ("block_headers", headers),
        ("index", index),
        ("tail", tail),
        ("padding", padding),
        ("unused", recording.len_bytes().saturating_sub(used)),
    ];
    rows.into_iter().map(|(name, bytes)| (Some(name), bytes)).collect()
}

/// Writes the rows as text.
pub(super) fn text(rows: &[SizeRow], samples: u64, page: &mut Page) {
    let columns = [
        ("BYTES", Align::Right),
        ("OF FILE", Align::Right),
        ("PER SAMPLE", Align::Right),
        ("KIND", Align::Left),
        ("COLUMN", Align::Left),
    ];
    let mut table = Table::new(0, &columns);
    for row in rows {
        table.row(vec![
            count(row.bytes),
            percent(row.share),
            format!("{:.2} B", ratio(row.bytes as f64, samples as f64)),
            row.kind.clone(),
            row.column.unwrap_or("-").to_owned(),
        ]);
    }
    page.table(&table);
    let sum: u64 = rows.iter().map(|row| row.bytes).sum();
    page.styled(Style::Dim, &format!("{} in all; {EXPLAINED}", bytes(sum)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_whatever_the_parts_are() {
        assert_eq!(apportion(10, &[1, 1, 1]), [3, 3, 4]);
        assert_eq!(apportion(0, &[5, 5]), [0, 0]);
        let most = u64::from(icecore_format::limits::MAX_RAW_LEN);
        assert_eq!(apportion(most, &[most / 2, most / 3, most / 7]).iter().sum::<u64>(), most);
        assert_eq!(apportion(7, &[0, 3, 0, 4]), [0, 3, 0, 4]);
    }
}
