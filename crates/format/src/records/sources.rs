//! Source files that a report found, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{items, payload, references};
use crate::error::Error;
use crate::kind::Kind;
use crate::limits;

/// How far a text was proven to be what was compiled, when it was stored; the numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceProof(pub u8);

impl SourceProof {
    /// Nothing proves it.
    pub const UNCHECKED: Self = Self(0);
    /// It has the MD5 that the debug information of the image states.
    pub const MD5: Self = Self(1);
}

/// Source files of images, and their texts. A text that several images share is kept once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceTable<T = Box<[u8]>> {
    /// The files.
    pub files: Vec<SourceFile>,
    /// Paths and contents of files.
    pub texts: Vec<T>,
}

references!(SourceTable<T> { files: within, texts: plain });

/// One source file of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceFile {
    /// The image, an image id.
    pub image: u32,
    /// Its path as the compiler wrote it, a position among the texts.
    pub path: u32,
    /// Its content, a position among the texts.
    pub text: u32,
    /// Whether the content is what was compiled.
    pub proof: SourceProof,
    /// Last modification of the file that was stored, ns since 1970-01-01 UTC; 0 if unknown.
    pub modified_unix_ns: u64,
}

references!(SourceFile {
    image: id(Images),
    path: plain,
    text: plain,
    proof: plain,
    modified_unix_ns: plain
});

/// Source files as columns.
#[derive(Debug, Default, Archive, Serialize)]
pub struct SourcesV1 {
    /// Images, as differences from the row before; signs folded.
    pub image: Packed,
    /// Position of each path among the texts.
    pub path: Packed,
    /// Position of each content among the texts.
    pub text: Packed,
    /// Numbers of [`SourceProof`].
    pub proof: Packed,
    /// Times of modification, as differences from the row before; signs folded.
    pub modified_unix_ns: Packed,
    /// The texts, one after the other.
    pub texts: Vec<u8>,
    /// Lengths of the texts in bytes.
    pub text_lens: Packed,
}

payload!(
    SourcesV1, ArchivedSourcesV1, Kind::SOURCES, 1,
    count image, same path, same text, same proof, same modified_unix_ns, other texts, other text_lens
);

impl SourcesV1 {
    /// Builds the columns. No text has more than [`limits::MAX_SOURCE_LEN`] bytes.
    pub fn from_table<T: AsRef<[u8]>>(table: &SourceTable<T>) -> Self {
        let files = || table.files.iter();
        Self {
            image: Packed::steps(files().map(|file| u64::from(file.image))),
            path: files().map(|file| file.path).collect(),
            text: files().map(|file| file.text).collect(),
            proof: files().map(|file| u64::from(file.proof.0)).collect(),
            modified_unix_ns: Packed::steps(files().map(|file| file.modified_unix_ns)),
            texts: table.texts.iter().flat_map(|text| text.as_ref()).copied().collect(),
            text_lens: table.texts.iter().map(|text| text.as_ref().len() as u64).collect(),
        }
    }
}

impl ArchivedSourcesV1 {
    /// Reads the table.
    ///
    /// # Errors
    /// [`Error::Payload`] if a text is too long, or a position among the texts is none.
    pub fn table(&self) -> Result<SourceTable<&[u8]>, Error> {
        let wrong = |cause: String| Error::Payload { kind: Kind::SOURCES, cause };
        let texts = items(Kind::SOURCES, &self.texts, &self.text_lens)?;
        if let Some(text) = texts.iter().find(|text| text.len() > limits::MAX_SOURCE_LEN) {
            let (len, limit) = (text.len(), limits::MAX_SOURCE_LEN);
            return Err(wrong(format!("a text of {len} bytes: the limit is {limit}")));
        }
        let position = |position: u64| {
            let is_there = position < texts.len() as u64;
            let none = || wrong(format!("text {position} of {}", texts.len()));
            is_there.then(|| narrow(position)).ok_or_else(none)
        };
        let columns = self.image.sums().into_iter().zip(self.path.values()).zip(self.text.values());
        let columns = columns.zip(self.proof.values()).zip(self.modified_unix_ns.sums());
        let file = |((((image, path), text), proof), modified_unix_ns)| {
            let (image, path, text) = (narrow(image), position(path)?, position(text)?);
            // A proof that does not fit is one that no reader knows.
            let proof = SourceProof(u8::try_from(proof).unwrap_or(u8::MAX));
            Ok(SourceFile { image, path, text, proof, modified_unix_ns })
        };
        let files = columns.map(file).collect::<Result<_, Error>>()?;
        Ok(SourceTable { files, texts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    fn table() -> SourceTable<&'static [u8]> {
        let file =
            |image, proof, modified_unix_ns| SourceFile { image, path: 0, text: 1, proof, modified_unix_ns };
        SourceTable {
            files: vec![file(1, SourceProof::MD5, 7), file(0, SourceProof::UNCHECKED, 0)],
            texts: vec![b"/src/a.c", b"int main() {}\n"],
        }
    }

    #[test]
    fn a_table_survives() {
        let bytes = SourcesV1::from_table(&table()).to_bytes().expect("fits");
        assert_eq!(SourcesV1::view(&bytes).expect("own bytes").table().expect("own rows"), table());
    }

    #[test]
    fn texts_that_are_not_there_or_too_long_are_errors() {
        let cause = |change: fn(&mut SourcesV1)| {
            let mut columns = SourcesV1::from_table(&table());
            change(&mut columns);
            let bytes = columns.to_bytes().expect("fits");
            SourcesV1::view(&bytes).expect("columns of one length").table().expect_err("refused").to_string()
        };
        assert!(cause(|c| c.path = [9_u64, 0].into_iter().collect()).contains("text 9 of 2"));
        assert!(cause(|c| c.text = [u64::MAX, 0].into_iter().collect()).contains("of 2"));
        assert!(cause(|c| c.text_lens = [99_u64, 0].into_iter().collect()).contains("item 0"));
        let long = SourceTable { files: vec![], texts: vec![vec![b'a'; limits::MAX_SOURCE_LEN + 1]] };
        let bytes = SourcesV1::from_table(&long).to_bytes().expect("fits");
        assert!(SourcesV1::view(&bytes).expect("an archive").table().is_err());
    }
}
