//! Interned text, version 1.

use rkyv::{Archive, Serialize};

use super::{items, payload, push_item};
use crate::Error;
use crate::block::Kind;

/// Text that other records name by id. Ids count up over the whole file; 0 is the empty string and is
/// never written.
#[derive(Debug, Default, Archive, Serialize)]
pub struct StringsV1 {
    /// Id of the first string in this block.
    pub first_id: u32,
    /// All strings, one behind the other, UTF-8 where the source was.
    pub bytes: Vec<u8>,
    /// Offset behind each string in `bytes`.
    pub ends: Vec<u32>,
}

payload!(StringsV1, ArchivedStringsV1, Kind::STRINGS, 1, count ends);

impl StringsV1 {
    /// Begins a block at `first_id`.
    pub fn starting_at(first_id: u32) -> Self {
        Self { first_id, ..Self::default() }
    }

    /// Appends a string; its id is `first_id` plus its position.
    pub fn push(&mut self, text: &[u8]) {
        push_item(&mut self.bytes, &mut self.ends, text);
    }
}

impl ArchivedStringsV1 {
    /// Lists (id, text).
    ///
    /// # Errors
    /// [`Error::Payload`] if an end lies outside the bytes or ids run over.
    pub fn rows(&self) -> Result<Vec<(u32, &[u8])>, Error> {
        let texts = items(Kind::STRINGS, &self.bytes, &self.ends)?;
        let first = self.first_id.to_native();
        let last = u32::try_from(texts.len()).ok().and_then(|len| first.checked_add(len));
        if last.is_none() {
            return Err(Error::Payload { kind: Kind::STRINGS, cause: "ids run over".into() });
        }
        Ok((first..).zip(texts).collect())
    }
}
