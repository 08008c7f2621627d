//! Code of functions that travels with the recording.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{CodeFrame, CodeTable, CodeV1};
use icecore_symbolize::Function;
use icecore_symbolize::image::{FileOff, Svma};

use super::load::Tables;
use crate::map::Map;

/// The most bytes of blocks that are looked through: a small hostile recording may have blocks of zeros without end.
const MAX_BYTES: u64 = 1 << 30;
/// How many stretches that begin before an offset may hold it: functions hardly ever overlap.
const LOOKED_BACK: usize = 16;

/// A stretch of code of the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredStretch {
    /// Where it begins in the file of its image.
    pub begin: FileOff,
    /// The address of its first byte.
    pub address: Svma,
    /// The processor, as ELF headers number it.
    pub machine: u16,
    /// The name of the function.
    pub name: Option<Arc<str>>,
    /// The code.
    pub bytes: Vec<u8>,
    /// The functions of instructions, innermost first, by the distance of the first of these instructions from the beginning.
    pub places: BTreeMap<u32, Vec<Function>>,
    /// The names of what instructions refer to, and the distances from where it begins, by address.
    pub refers: BTreeMap<Svma, (Arc<str>, u64)>,
}

/// Where a stretch is.
#[derive(Debug, Clone, Copy)]
struct Listed {
    begin: u64,
    end: u64,
    address: u64,
    /// A position among the blocks, and one in the block.
    place: (usize, usize),
}

/// Where the code of a recording is. It stays in its blocks.
#[derive(Debug)]
pub struct StoredCode<'a> {
    recording: &'a Recording,
    /// By image, a position: ordered by begin and end.
    of_image: Map<u32, Vec<Listed>>,
    blocks: Vec<Entry>,
}

impl<'a> StoredCode<'a> {
    /// Lists the stretches; `image_of` maps an image id to a position. Of several rows for a stretch the last counts. Blocks that are
    /// damaged have no code: `verify` lists them. A stretch beyond the end of the numbers is none.
    ///
    /// # Cost    decompresses all blocks of code, one at a time
    pub fn new(recording: &'a Recording, tables: &Tables, image_of: impl Fn(u32) -> Option<u32>) -> Self {
        let mut known = Self { recording, of_image: Map::default(), blocks: Vec::new() };
        let mut bytes = 0;
        for (part, entry) in &tables.code_blocks {
            bytes += u64::from(entry.header.raw_len);
            if bytes > MAX_BYTES {
                break;
            }
            let Some(stretches) = opened(recording, entry, |table| table.stretches) else { continue };
            for (position, stretch) in stretches.into_iter().enumerate() {
                let (begin, address) = (stretch.file_off, stretch.address);
                let len = stretch.bytes.len() as u64;
                let Some(end) = begin.checked_add(len).filter(|_| address.checked_add(len).is_some()) else {
                    continue;
                };
                let Some(image) = image_of(tables.parts.part(*part).row(stretch).image) else { continue };
                let row = Listed { begin, end, address, place: (known.blocks.len(), position) };
                known.of_image.entry(image).or_default().push(row);
            }
            known.blocks.push(*entry);
        }
        known.of_image.values_mut().for_each(|rows| {
            rows.sort_unstable_by_key(|row| (row.begin, Reverse(row.end), row.place));
        });
        known
    }

    /// Opens all stretches, each with its image, a position; of several of one stretch the one that counts comes last.
    ///
    /// # Cost    decompresses all blocks
    pub fn all(&self) -> Vec<(u32, StoredStretch)> {
        let rows = self.of_image.iter().flat_map(|(image, rows)| rows.iter().map(move |row| (*image, *row)));
        let mut of_blocks: Vec<Vec<(u32, usize)>> = vec![Vec::new(); self.blocks.len()];
        rows.for_each(|(image, row)| of_blocks[row.place.0].push((image, row.place.1)));
        let mut all = Vec::new();
        for (entry, mut rows) in self.blocks.iter().zip(of_blocks) {
            rows.sort_unstable_by_key(|(_, position)| *position);
            let open = |table: CodeTable<&[u8]>| {
                let stretch = |(image, position)| Some((image, StoredStretch::new(&table, position)?));
                rows.into_iter().filter_map(stretch).collect::<Vec<_>>()
            };
            all.extend(opened(self.recording, entry, open).into_iter().flatten());
        }
        all
    }

    /// Finds the innermost stretch that holds an offset of an image, a position.
    ///
    /// # Cost    decompresses a block
    pub fn find(&self, image: u32, off: FileOff) -> Option<StoredStretch> {
        let (block, position) = self.listed(image, off)?.place;
        opened(self.recording, self.blocks.get(block)?, |table| StoredStretch::new(&table, position))?
    }

    /// Finds the address of an offset of an image, a position, and the addresses of the innermost stretch that holds it.
    pub fn extent(&self, image: u32, off: FileOff) -> Option<(Svma, Range<Svma>)> {
        let Listed { begin, end, address, .. } = *self.listed(image, off)?;
        let at = |off: u64| Svma(address.wrapping_add(off.wrapping_sub(begin)));
        Some((at(off.0), at(begin)..at(end)))
    }

    fn listed(&self, image: u32, off: FileOff) -> Option<&Listed> {
        let rows = self.of_image.get(&image)?;
        let after = rows.partition_point(|row| row.begin <= off.0);
        rows[..after].iter().rev().take(LOOKED_BACK).find(|row| off.0 < row.end)
    }
}

/// Opens a block; `None` if it is damaged.
fn opened<R>(recording: &Recording, entry: &Entry, then: impl FnOnce(CodeTable<&[u8]>) -> R) -> Option<R> {
    let payload = recording.payload(entry).ok()?;
    Some(then(payload.view::<CodeV1>().ok()?.table().ok()?))
}

impl StoredStretch {
    fn new(table: &CodeTable<&[u8]>, position: usize) -> Option<Self> {
        let mut texts: Map<u32, Arc<str>> = Map::default();
        let mut text = |position: u32| {
            let text = || String::from_utf8_lossy(table.texts[position as usize]).into();
            texts.entry(position).or_insert_with(text).clone()
        };
        let stretch = table.stretches.get(position)?;
        let mut function = |frame: &CodeFrame| Function {
            file: frame.file.map(&mut text),
            line: Some(frame.line).filter(|line| *line > 0),
            ..Function::new(text(frame.name))
        };
        let places = stretch.places.iter();
        let places = places.map(|place| (place.begin, place.frames.iter().map(&mut function).collect()));
        let places = places.collect();
        let refers = stretch.refers.iter().map(|it| (Svma(it.at), (text(it.name), it.offset)));
        let refers = refers.collect();
        Some(Self {
            begin: FileOff(stretch.file_off),
            address: Svma(stretch.address),
            machine: stretch.machine,
            name: stretch.name.map(text),
            bytes: stretch.bytes.clone(),
            places,
            refers,
        })
    }
}

#[cfg(test)]
mod tests;
