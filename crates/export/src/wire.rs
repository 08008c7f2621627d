//! Messages of protocol buffers, one after the other: a file of many fields is never in memory as a whole.

use std::io::{self, Write};

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

/// Writes a message as a field.
///
/// # Errors  If `out` cannot be written.
pub(crate) fn message(tag: u32, message: &impl Message, out: &mut dyn Write) -> io::Result<()> {
    let len = message.encoded_len();
    let mut bytes = Vec::with_capacity(len + 16);
    encode_head(tag, len as u64, &mut bytes);
    message.encode_raw(&mut bytes);
    out.write_all(&bytes)
}

/// Encodes what precedes the bytes of a field: its tag, and how many bytes follow.
pub(crate) fn encode_head(tag: u32, len: u64, bytes: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, bytes);
    encode_varint(len, bytes);
}

/// A number as a signed field has it; above 2⁶³ the largest.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Message)]
    struct Texts {
        #[prost(string, repeated, tag = "1")]
        texts: Vec<String>,
        #[prost(message, repeated, tag = "300")]
        inner: Vec<Self>,
    }

    #[test]
    fn messages_that_are_written_one_by_one_make_the_whole() {
        let inner = |text: &str| Texts { texts: vec![text.to_owned()], inner: Vec::new() };
        let inner = vec![inner("a"), inner(&"\u{e9}".repeat(100)), inner("")];
        let mut bytes = Vec::new();
        inner.iter().try_for_each(|it| message(300, it, &mut bytes)).expect("memory");
        assert_eq!(bytes, Texts { texts: Vec::new(), inner }.encode_to_vec());
    }

    #[test]
    fn a_number_that_does_not_fit_is_the_largest() {
        assert_eq!([signed(0), signed(u64::MAX)], [0, i64::MAX]);
    }
}
