//! Symbols of images that samples need, version 1.

use rkyv::{Archive, Serialize};

use super::packed::Packed;
use super::{items, payload, references};
use crate::error::Error;
use crate::kind::Kind;

/// One function of an image that was hit, as a symbol table of that image tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol<N = Vec<u8>> {
    /// The image, an image id.
    pub image: u32,
    /// Offset of its first byte in the file of the image.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
    /// Name as the table has it, mangled; any bytes but zero.
    pub name: N,
}

references!(Symbol<N> { image: id(Images), start: plain, end: plain, name: plain });

impl<'a> Symbol<&'a [u8]> {
    /// Converts the name.
    pub fn convert<N: From<&'a [u8]>>(self) -> Symbol<N> {
        let Self { image, start, end, name } = self;
        Symbol { image, start, end, name: name.into() }
    }
}

/// Symbols of images, each written once. Names are kept here and not among the strings: a reader that has the images
/// needs none of them.
#[derive(Debug, Default, Archive, Serialize)]
pub struct SymbolsV1 {
    /// Images, as differences from the row before; signs folded.
    pub image: Packed,
    /// First offsets, as differences from the row before; signs folded.
    pub start: Packed,
    /// Lengths in bytes.
    pub len: Packed,
    /// Names, one after the other.
    pub names: Vec<u8>,
    /// Lengths of the names in bytes.
    pub name_lens: Packed,
}

payload!(
    SymbolsV1, ArchivedSymbolsV1, Kind::SYMBOLS, 1,
    count start, same image, same len, same name_lens, other names
);

impl SymbolsV1 {
    /// Builds the columns.
    pub fn from_rows<N: AsRef<[u8]>>(rows: &[Symbol<N>]) -> Self {
        Self {
            image: Packed::steps(rows.iter().map(|row| u64::from(row.image))),
            start: Packed::steps(rows.iter().map(|row| row.start)),
            len: rows.iter().map(|row| row.end.saturating_sub(row.start)).collect(),
            names: rows.iter().flat_map(|row| row.name.as_ref()).copied().collect(),
            name_lens: rows.iter().map(|row| row.name.as_ref().len() as u64).collect(),
        }
    }
}

impl ArchivedSymbolsV1 {
    /// Lists the symbols in the order of the block.
    ///
    /// # Errors
    /// [`Error::Payload`] if a name lies outside of the arena.
    pub fn rows(&self) -> Result<Vec<Symbol<&[u8]>>, Error> {
        let names = items(Kind::SYMBOLS, &self.names, &self.name_lens)?;
        let columns = self.image.sums().into_iter().zip(self.start.sums()).zip(self.len.values());
        let row = |(((image, start), len), name): (((u64, u64), u64), _)| Symbol {
            image: super::packed::narrow(image),
            start,
            end: start.saturating_add(len),
            name,
        };
        Ok(columns.zip(names).map(row).collect())
    }
}
