//! Files that were to be embedded and are missing from the recording, or are incomplete, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{payload, references};
use crate::kind::Kind;
use crate::numbers::numbers;

numbers! {
    /// Why a file is missing or incomplete; the numbers are on disk.
    Omission(u8), others "omission",
    /// The recording has nothing of the file, because it needs more bytes than were free.
    TOO_LARGE = 1,
    /// The recording has only sections of the file, because all of it needs more bytes than were free.
    REDUCED = 2,
    /// The recorder could not read the file, it was gone, or it is not an ELF file.
    UNREADABLE = 3,
    /// A signal ended the recorder before it had read the file.
    INTERRUPTED = 4,
    /// The disk refused the file, or a part of it.
    WRITE_FAILED = 5,
    /// The file system with the file did not answer in time, so that the recorder has nothing of it, and no names of its functions.
    NO_ANSWER = 6,
    /// For a while the sampler had no room for the unwind tables of the file, so that stacks through it were copied, not walked.
    TABLES_FULL = 7,
    /// Compiling the unwind tables of the file took too long, so that stacks through it were copied, not walked.
    TABLES_SLOW = 8,
    /// The file holds an interpreter of a version that the recorder does not know, so that stacks have none of its functions.
    INTERPRETER_VERSION = 9,
    /// The same of a build that keeps its frames in another way: with free threads, or for a machine that is not known.
    INTERPRETER_BUILD = 10,
}

impl Omission {
    /// Returns true if the sampler lacked unwind tables; of the file itself nothing is missing.
    pub fn is_of_tables(self) -> bool {
        matches!(self, Self::TABLES_FULL | Self::TABLES_SLOW)
    }

    /// Returns true if stacks lack the functions of an interpreter; of the file itself nothing is missing.
    pub fn is_of_interpreters(self) -> bool {
        matches!(self, Self::INTERPRETER_VERSION | Self::INTERPRETER_BUILD)
    }

    /// Returns true if something of the file itself is missing.
    pub fn is_of_file(self) -> bool {
        !self.is_of_tables() && !self.is_of_interpreters()
    }
}

/// A file that was requested and that the recording lacks, or has in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// The image, an image id.
    pub image: u32,
    /// Why.
    pub why: Omission,
    /// Bytes that it needs; 0 if they were not counted.
    pub needed_bytes: u64,
    /// Bytes that were free for it; 0 if that was not the cause.
    pub free_bytes: u64,
}

references!(LeftOut { image: id(Images), why: plain, needed_bytes: plain, free_bytes: plain });

/// Files that were left out.
#[derive(Debug, Default, Archive, Serialize)]
pub struct LeftOutV1 {
    /// Images, as differences from the row before; signs folded.
    pub image: Packed,
    /// Numbers of [`Omission`].
    pub why: Packed,
    /// What was requested, bytes.
    pub needed_bytes: Packed,
    /// What was free, bytes.
    pub free_bytes: Packed,
}

payload!(
    LeftOutV1, ArchivedLeftOutV1, Kind::LEFT_OUT, 1,
    count image, same why, same needed_bytes, same free_bytes
);

impl LeftOutV1 {
    /// Builds the columns.
    pub fn from_rows(rows: &[LeftOut]) -> Self {
        Self {
            image: Packed::steps(rows.iter().map(|row| u64::from(row.image))),
            why: rows.iter().map(|row| u64::from(row.why.0)).collect(),
            needed_bytes: rows.iter().map(|row| row.needed_bytes).collect(),
            free_bytes: rows.iter().map(|row| row.free_bytes).collect(),
        }
    }
}

impl ArchivedLeftOutV1 {
    /// Lists the rows in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = LeftOut> + '_ {
        let bytes = self.needed_bytes.values().into_iter().zip(self.free_bytes.values());
        let columns = self.image.sums().into_iter().zip(self.why.values()).zip(bytes);
        columns.map(|((image, why), (needed_bytes, free_bytes))| LeftOut {
            image: narrow(image),
            why: Omission(why as u8),
            needed_bytes,
            free_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    #[test]
    fn rows_survive_a_round_trip() {
        let row = |image, why, needed_bytes, free_bytes| LeftOut { image, why, needed_bytes, free_bytes };
        let rows = [
            row(7, Omission::TOO_LARGE, 3 << 30, 1 << 20),
            row(2, Omission::INTERRUPTED, 0, 0),
            row(u32::MAX, Omission(77), u64::MAX, 1),
        ];
        let bytes = LeftOutV1::from_rows(&rows).to_bytes().expect("fits");
        let view = LeftOutV1::view(&bytes).expect("own bytes");
        assert_eq!(view.rows().collect::<Vec<_>>(), rows);
    }
}
