//! Reads little-endian fields from the front of a slice.

/// The remaining bytes of something that is read field by field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    /// Takes so many bytes; if there are fewer, returns `None` and takes nothing.
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.number(2).map(|value| value as u16)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.number(4).map(|value| value as u32)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.number(8)
    }

    fn number(&mut self, len: usize) -> Option<u64> {
        let bytes = self.take(len)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Takes a number of words of 8 bytes.
    pub(super) fn words(&mut self, count: u64) -> Option<Words<'a>> {
        let len = usize::try_from(count).ok()?.checked_mul(8)?;
        self.take(len).map(Words)
    }

    /// Takes a text up to its first zero, or all remaining bytes.
    pub(super) fn text(&mut self) -> &'a [u8] {
        let len = self.0.iter().position(|byte| *byte == 0);
        let text = &self.0[..len.unwrap_or(self.0.len())];
        self.0 = &self.0[len.map_or(self.0.len(), |len| len + 1)..];
        text
    }

    /// Takes a text of `perf_header_string`: a length, and so many bytes padded with zeros.
    pub(super) fn header_text(&mut self) -> Option<String> {
        let len = self.u32()? as usize;
        let text = Bytes(self.take(len)?).text();
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

/// Words of 8 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    pub(in super::super) fn iter(self) -> impl Iterator<Item = u64> + 'a {
        self.0.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_taken() {
        let mut bytes = Bytes(&[1, 2, 3]);
        assert_eq!((bytes.u32(), bytes.u64(), bytes.u16()), (None, None, Some(0x201)));
        assert_eq!((bytes.words(u64::MAX), bytes.words(1 << 61), bytes.words(1)), (None, None, None));
        assert_eq!(bytes.take(1), Some(&[3][..]));
    }

    #[test]
    fn text_ends_at_its_zero_or_with_the_bytes() {
        let mut bytes = Bytes(b"ab\0cd");
        assert_eq!((bytes.text(), bytes.text(), bytes.text()), (&b"ab"[..], &b"cd"[..], &b""[..]));
        let mut bytes = Bytes(b"\x04\0\0\0ab\0\0\xff\0\0\0");
        assert_eq!((bytes.header_text().as_deref(), bytes.header_text()), (Some("ab"), None));
    }
}
