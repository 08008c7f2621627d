//! Interned text, version 1.

use rkyv::{Archive, Serialize};

use super::packed::Packed;
use super::{items, payload};
use crate::error::Error;
use crate::kind::Kind;

/// Text that other records name by id. Ids count up over the whole session; 0 is the empty string and is
/// never written.
#[derive(Debug, Default, Archive, Serialize)]
pub struct StringsV1 {
    /// Id of the first string in this block.
    pub first_id: u32,
    /// All strings, one after the other, UTF-8 where the source was.
    pub bytes: Vec<u8>,
    /// Length of each string, bytes.
    pub lens: Packed,
}

payload!(StringsV1, ArchivedStringsV1, Kind::STRINGS, 1, count lens, other bytes);

impl StringsV1 {
    /// Builds the columns; the first string has id `first_id`.
    pub fn from_rows(first_id: u32, rows: &[impl AsRef<[u8]>]) -> Self {
        let bytes = rows.iter().flat_map(|text| text.as_ref()).copied().collect();
        Self { first_id, bytes, lens: rows.iter().map(|text| text.as_ref().len() as u64).collect() }
    }
}

impl ArchivedStringsV1 {
    /// Lists (id, text).
    ///
    /// # Errors
    /// [`Error::Payload`] if the bytes do not suffice or ids run over.
    pub fn rows(&self) -> Result<Vec<(u32, &[u8])>, Error> {
        let texts = items(Kind::STRINGS, &self.bytes, &self.lens)?;
        let first = self.first_id.to_native();
        let last = u32::try_from(texts.len()).ok().and_then(|len| first.checked_add(len));
        if last.is_none() {
            return Err(Error::Payload { kind: Kind::STRINGS, cause: "ids run over".into() });
        }
        Ok((first..).zip(texts).collect())
    }
}
