//! Stores numbers and text as columns, in a form that gzip makes small and a browser reads into typed arrays.
//!
//! ```text
//! │ length of JSON, u32 │ JSON │ column │ column │ …
//! ```
//!
//! | encoding | a column of `count` values is |
//! |---|---|
//! | `u8` | one byte each |
//! | `u32` | all lowest bytes, then all second, third and highest bytes: equal high bytes are neighbours so |
//! | `steps` | as `u32`, but of each value the difference from the one before it, modulo 2³² |
//! | `text` | the lengths in bytes as `u32`, then all bytes, UTF-8 |

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Columns, and where each lies.
#[derive(Debug, Default)]
pub(super) struct Columns {
    bytes: Vec<u8>,
}

/// Says where a column lies: its encoding, its offset from the end of the JSON, the number of its values.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Place(&'static str, usize, usize);

/// The columns of one recording by name.
pub(super) type Places = Map<String, Value>;

impl Columns {
    pub(super) fn bytes_of(&mut self, values: impl Iterator<Item = u8>) -> Value {
        let off = self.bytes.len();
        self.bytes.extend(values);
        place("u8", off, self.bytes.len() - off)
    }

    pub(super) fn numbers(&mut self, values: &[u32]) -> Value {
        let off = self.bytes.len();
        self.planes(values.iter().copied());
        place("u32", off, values.len())
    }

    pub(super) fn steps(&mut self, values: &[u32]) -> Value {
        let off = self.bytes.len();
        let before = std::iter::once(0).chain(values.iter().copied());
        self.planes(values.iter().zip(before).map(|(value, before)| value.wrapping_sub(before)));
        place("steps", off, values.len())
    }

    pub(super) fn texts<'t>(&mut self, texts: impl Iterator<Item = &'t str> + Clone) -> Value {
        let off = self.bytes.len();
        self.planes(texts.clone().map(|text| text.len() as u32));
        let count = (self.bytes.len() - off) / 4;
        texts.for_each(|text| self.bytes.extend(text.as_bytes()));
        place("text", off, count)
    }

    fn planes(&mut self, values: impl Iterator<Item = u32> + Clone) {
        for byte in 0..4 {
            self.bytes.extend(values.clone().map(|value| value.to_le_bytes()[byte]));
        }
    }

    /// Puts the JSON before the columns.
    pub(super) fn finish(self, document: &Value) -> Vec<u8> {
        let json = document.to_string();
        let mut all = Vec::with_capacity(4 + json.len() + self.bytes.len());
        all.extend((json.len() as u32).to_le_bytes());
        all.extend(json.as_bytes());
        all.extend(self.bytes);
        all
    }
}

fn place(encoding: &'static str, off: usize, count: usize) -> Value {
    json!(Place(encoding, off, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_lie_where_their_places_say() {
        let mut columns = Columns::default();
        assert_eq!(columns.bytes_of([7, 8].into_iter()), json!(["u8", 0, 2]));
        assert_eq!(columns.numbers(&[1, 0x0203_0405]), json!(["u32", 2, 2]));
        assert_eq!(columns.steps(&[5, 7, 6]), json!(["steps", 10, 3]));
        assert_eq!(columns.texts(["é", "ab"].into_iter()), json!(["text", 22, 2]));
        let all = columns.finish(&json!({}));
        let (head, bytes) = all.split_at(6);
        assert_eq!(head, b"\x02\0\0\0{}");
        assert_eq!(&bytes[..10], [7, 8, 1, 5, 0, 4, 0, 3, 0, 2]);
        assert_eq!(&bytes[10..22], [5, 2, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255]);
        assert_eq!(&bytes[22..], [2, 2, 0, 0, 0, 0, 0, 0, 0xc3, 0xa9, b'a', b'b']);
    }
}
