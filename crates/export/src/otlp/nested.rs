//! Messages inside others. The length of a message precedes it, so that what is too large for memory is written twice: once to measure it.

use std::io::{self, Write};

use crate::wire::encode_head;

/// Writes what precedes the bytes of a field: its tag, and how many bytes follow.
///
/// # Errors  If `out` cannot be written.
pub(super) fn head(tag: u32, len: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(16);
    encode_head(tag, len, &mut bytes);
    out.write_all(&bytes)
}

/// Writes a text as a field, also an empty one.
///
/// # Errors  If `out` cannot be written.
pub(super) fn text(tag: u32, text: &str, out: &mut dyn Write) -> io::Result<()> {
    head(tag, text.len() as u64, out)?;
    out.write_all(text.as_bytes())
}

/// Measures what a function writes, bytes.
pub(super) fn measured(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<u64> {
    let mut measured = Measured(0);
    write(&mut measured)?;
    Ok(measured.0)
}

/// Counts bytes, and drops them.
struct Measured(u64);

impl Write for Measured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a message that is too large for memory as a field.
///
/// # Errors  If `out` cannot be written.
pub(super) fn measured_message(
    tag: u32,
    out: &mut dyn Write,
    mut write: impl FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    head(tag, measured(&mut write)?, out)?;
    write(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_parts_has_its_length_before_it() {
        let mut bytes = Vec::new();
        measured_message(2, &mut bytes, |out| {
            text(5, "", out)?;
            text(5, "abc", out)
        })
        .expect("memory");
        assert_eq!(bytes, *b"\x12\x07\x2a\x00\x2a\x03abc");
    }
}
