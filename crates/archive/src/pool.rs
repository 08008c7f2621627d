//! Texts of tables, each stored once.

use std::collections::HashMap;

use parquet::data_type::ByteArray;

/// A text, by its position in a [`Pool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text(u32);

/// Distinct texts.
#[derive(Debug, Default)]
pub struct Pool {
    texts: Vec<ByteArray>,
    positions: HashMap<Box<str>, Text>,
}

impl Pool {
    /// Stores a text.
    pub fn add(&mut self, text: &str) -> Text {
        if let Some(known) = self.positions.get(text) {
            return *known;
        }
        let new = Text(self.texts.len() as u32);
        self.texts.push(ByteArray::from(text));
        self.positions.insert(text.into(), new);
        new
    }

    /// Returns the bytes of a text; UTF-8.
    pub fn bytes(&self, text: Text) -> &[u8] {
        self.texts[text.0 as usize].data()
    }

    /// Returns a text.
    pub fn text(&self, text: Text) -> &str {
        std::str::from_utf8(self.bytes(text)).unwrap_or_default()
    }

    pub(crate) fn value(&self, text: Text) -> ByteArray {
        self.texts[text.0 as usize].clone()
    }
}
