//! Functions of images that samples need, version 1.

use std::ops::Range;

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{items, payload, references};
use crate::error::Error;
use crate::kind::Kind;

/// One function of an image that was hit, as the tables of that image tell it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol<N = Vec<u8>> {
    /// The image, an image id.
    pub image: u32,
    /// Offset of its first byte in the file of the image.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
    /// Address of its first byte in the ELF file.
    pub address: u64,
    /// Address of the first byte of the function of which this is a part; `address` if it is whole.
    pub whole: u64,
    /// Names as the tables have them, mangled, with versions, the best one first; any bytes but zero. Empty if the image has none:
    /// then unwind tables tell where the function begins and ends.
    pub names: Vec<N>,
    /// The source file of a local function, as the symbol table has it; empty if it is unknown or the function is global.
    pub file: N,
}

references!(Symbol<N> {
    image: id(Images), start: plain, end: plain, address: plain, whole: plain, names: plain, file: plain
});

impl Symbol {
    /// Makes a whole function with one name, in a file whose addresses are its offsets.
    pub fn new(image: u32, Range { start, end }: Range<u64>, name: impl Into<Vec<u8>>) -> Self {
        let names = vec![name.into()];
        Self { image, start, end, address: start, whole: start, names, file: Vec::new() }
    }
}

impl<'a> Symbol<&'a [u8]> {
    /// Converts the texts.
    pub fn convert<N: From<&'a [u8]>>(self) -> Symbol<N> {
        let Self { image, start, end, address, whole, names, file } = self;
        let names = names.into_iter().map(N::from).collect();
        Symbol { image, start, end, address, whole, names, file: file.into() }
    }
}

/// Functions of images, each written once. Names are kept here and not among the strings: a reader that has the images
/// needs none of them.
#[derive(Debug, Default, Archive, Serialize)]
pub struct SymbolsV1 {
    /// Images, as differences from the row before; signs folded.
    pub image: Packed,
    /// First offsets, as differences from the row before; signs folded.
    pub start: Packed,
    /// Lengths in bytes.
    pub len: Packed,
    /// What is to be added to an offset for the address, as differences from the row before; signs folded.
    pub bias: Packed,
    /// Addresses of the whole functions, as differences from the address, modulo 2^64; 0 if the function is whole.
    pub whole: Packed,
    /// Number of names of each function.
    pub name_count: Packed,
    /// Names, one after the other.
    pub names: Vec<u8>,
    /// Lengths of the names in bytes.
    pub name_lens: Packed,
    /// Source file of each function, as a position among the files, plus 1; 0 for none.
    pub file: Packed,
    /// Source files, one after the other.
    pub files: Vec<u8>,
    /// Lengths of the source files in bytes.
    pub file_lens: Packed,
}

payload!(
    SymbolsV1, ArchivedSymbolsV1, Kind::SYMBOLS, 1,
    count start, same image, same len, same bias, same whole, same name_count, same file,
    other names, other name_lens, other files, other file_lens
);

impl SymbolsV1 {
    /// Builds the columns.
    pub fn from_rows<N: AsRef<[u8]>>(rows: &[Symbol<N>]) -> Self {
        let mut files: Vec<&[u8]> = rows.iter().map(|row| row.file.as_ref()).collect();
        files.retain(|file| !file.is_empty());
        files.sort_unstable();
        files.dedup();
        let file = |row: &Symbol<N>| files.binary_search(&row.file.as_ref()).map_or(0, |at| at as u64 + 1);
        let names = || rows.iter().flat_map(|row| &row.names).map(N::as_ref);
        Self {
            image: Packed::steps(rows.iter().map(|row| u64::from(row.image))),
            start: Packed::steps(rows.iter().map(|row| row.start)),
            len: rows.iter().map(|row| row.end.saturating_sub(row.start)).collect(),
            bias: Packed::steps(rows.iter().map(|row| row.address.wrapping_sub(row.start))),
            whole: rows.iter().map(|row| row.whole.wrapping_sub(row.address)).collect(),
            name_count: rows.iter().map(|row| row.names.len() as u64).collect(),
            names: names().flatten().copied().collect(),
            name_lens: names().map(|name| name.len() as u64).collect(),
            file: rows.iter().map(file).collect(),
            files: files.concat(),
            file_lens: files.iter().map(|file| file.len() as u64).collect(),
        }
    }
}

impl ArchivedSymbolsV1 {
    /// Lists the functions in the order of the block.
    ///
    /// # Errors
    /// [`Error::Payload`] if a text lies outside of its arena, or a function has a name or file that is not there.
    pub fn rows(&self) -> Result<Vec<Symbol<&[u8]>>, Error> {
        let names = items(Kind::SYMBOLS, &self.names, &self.name_lens)?;
        let files = items(Kind::SYMBOLS, &self.files, &self.file_lens)?;
        let mut left = &names[..];
        let places = self.image.sums().into_iter().zip(self.start.sums()).zip(self.len.values());
        let places = places.zip(self.bias.sums()).zip(self.whole.values());
        let texts = self.name_count.values().into_iter().zip(self.file.values());
        let row = |(((((image, start), len), bias), whole), (count, file))| {
            let split = usize::try_from(count).ok().and_then(|count| left.split_at_checked(count));
            let (own, rest) =
                split.ok_or_else(|| wrong(format!("{count} names: {} are left", left.len())))?;
            left = rest;
            let file = match usize::try_from(file) {
                Ok(0) => &[],
                Ok(at) if at <= files.len() => files[at - 1],
                _ => return Err(wrong(format!("source file {file} of {}", files.len()))),
            };
            let address = u64::wrapping_add(start, bias);
            Ok(Symbol {
                image: narrow(image),
                start,
                end: start.saturating_add(len),
                address,
                whole: address.wrapping_add(whole),
                names: own.to_vec(),
                file,
            })
        };
        let rows = places.zip(texts).map(row).collect::<Result<Vec<_>, Error>>()?;
        match left.len() {
            0 => Ok(rows),
            left => Err(wrong(format!("{left} names belong to no function"))),
        }
    }
}

fn wrong(cause: String) -> Error {
    Error::Payload { kind: Kind::SYMBOLS, cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    fn rows() -> Vec<Symbol<&'static [u8]>> {
        let row = |image, start, address, names: &[&'static [u8]], file| {
            let end = start + 16;
            Symbol { image, start, end, address, whole: address, names: names.to_vec(), file }
        };
        vec![
            row(1, 0x1000, 0x2000, &[b"api@@V2", b"alias"], b""),
            Symbol { whole: 0x2000, ..row(1, 0x1800, 0x2800, &[b"run.cold"], b"a.c") },
            row(2, 7, 7, &[], b""),
            row(2, 99, 99, &[b"f"], b"a.c"),
        ]
    }

    #[test]
    fn rows_survive() {
        let bytes = SymbolsV1::from_rows(&rows()).to_bytes().expect("fits");
        assert_eq!(SymbolsV1::view(&bytes).expect("own bytes").rows().expect("own rows"), rows());
    }

    #[test]
    fn names_and_files_that_are_not_there_are_errors() {
        let cause = |change: fn(&mut SymbolsV1)| {
            let mut columns = SymbolsV1::from_rows(&rows());
            change(&mut columns);
            let bytes = columns.to_bytes().expect("fits");
            SymbolsV1::view(&bytes).expect("columns of one length").rows().expect_err("refused").to_string()
        };
        assert!(cause(|c| c.name_count = [2_u64, 1, 0, 9].into_iter().collect()).contains("1 are left"));
        assert!(
            cause(|c| c.name_count = [2_u64, 1, 0, 0].into_iter().collect()).contains("1 names belong to")
        );
        assert!(cause(|c| c.name_count = [u64::MAX, 0, 0, 0].into_iter().collect()).contains("4 are left"));
        assert!(cause(|c| c.file = [0_u64, 9, 0, 0].into_iter().collect()).contains("source file 9 of 1"));
        assert!(cause(|c| c.name_lens = [99_u64, 0, 0, 0].into_iter().collect()).contains("item 0"));
        assert!(cause(|c| c.file_lens = [99_u64].into_iter().collect()).contains("item 0"));
    }

    #[test]
    fn columns_that_claim_more_than_they_have_are_refused_before_they_are_unpacked() -> Result<(), Error> {
        let whole = || SymbolsV1::from_rows(&rows());
        for lying in [
            SymbolsV1 { name_lens: Packed::lying(), ..whole() },
            SymbolsV1 { file_lens: Packed::lying(), ..whole() },
            SymbolsV1 { name_count: Packed::lying(), ..whole() },
        ] {
            assert!(SymbolsV1::view(&lying.to_bytes()?).is_err());
        }
        Ok(())
    }
}
