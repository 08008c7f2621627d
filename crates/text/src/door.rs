//! The writer through which all output to a terminal passes.

use std::io::{self, Write};

use crate::clean::steers;

/// The kind of text that passes a [`Door`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Lines of text without color: of the control characters, only line ends and tabs pass.
    Plain,
    /// Lines of text with styles: escape sequences that set a style of this program pass as well.
    Styled,
    /// JSON: control characters can only stand within a string, where they are escaped, so that the value of the string does not change.
    Json,
}

/// Passes on text without the characters that control a terminal.
#[derive(Debug)]
pub struct Door<W> {
    to: W,
    kind: Kind,
    /// The first bytes of a character whose other bytes have not arrived yet.
    begun: Vec<u8>,
}

/// The parameters of the styles that the programs use, clap included: none, bold, dim, underlined, and all colors but black
/// and white.
const STYLES: [&str; 12] = ["", "0", "1", "2", "4", "31", "32", "33", "34", "35", "36", "31;1"];

impl<W: Write> Door<W> {
    /// Makes a door to a writer.
    pub fn new(to: W, kind: Kind) -> Self {
        Self { to, kind, begun: Vec::new() }
    }

    fn pass(&mut self, mut text: &str) -> io::Result<()> {
        while let Some(at) = text.find(|c| steers(c) && !matches!(c, '\n' | '\t')) {
            let (before, rest) = text.split_at(at);
            self.to.write_all(before.as_bytes())?;
            let style = if self.kind == Kind::Styled { style(rest) } else { None };
            match (style, rest.chars().next()) {
                (Some(style), _) => {
                    self.to.write_all(style.as_bytes())?;
                    text = &rest[style.len()..];
                }
                (None, Some(c)) => {
                    match self.kind {
                        Kind::Json => c
                            .encode_utf16(&mut [0; 2])
                            .iter()
                            .try_for_each(|unit| write!(self.to, "\\u{unit:04x}"))?,
                        Kind::Plain | Kind::Styled => self.to.write_all("\u{fffd}".as_bytes())?,
                    }
                    text = &rest[c.len_utf8()..];
                }
                (None, None) => break,
            }
        }
        self.to.write_all(text.as_bytes())
    }
}

/// Returns the escape sequence at the beginning of a text if it sets one of the styles.
fn style(text: &str) -> Option<&str> {
    let parameters = text.strip_prefix("\x1b[")?;
    let end = parameters.find('m')?;
    STYLES.contains(&&parameters[..end]).then(|| &text[.."\x1b[".len() + end + 1])
}

impl<W: Write> Write for Door<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_harmless = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
        if self.begun.is_empty() && bytes.iter().all(is_harmless) {
            self.to.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let chunks: Vec<_> = all.utf8_chunks().collect();
        for (position, chunk) in chunks.iter().enumerate() {
            self.pass(chunk.valid())?;
            let may_go_on = position + 1 == chunks.len()
                && std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
            match chunk.invalid() {
                [] => {}
                begun if may_go_on => self.begun = begun.to_vec(),
                _ => self.to.write_all("\u{fffd}".as_bytes())?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(kind: Kind, pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut door = Door::new(&mut out, kind);
        pieces.iter().for_each(|piece| door.write_all(piece).expect("memory"));
        String::from_utf8(out).expect("text")
    }

    const HOSTILE: &str = "a\x1b]0;x\x07b\rc\u{9b}31md\u{202e}e\x1b[8mf\n\tg";

    #[test]
    fn only_text_passes() {
        let plain = "a\u{fffd}]0;x\u{fffd}b\u{fffd}c\u{fffd}31md\u{fffd}e\u{fffd}[8mf\n\tg";
        assert_eq!(through(Kind::Plain, &[HOSTILE.as_bytes()]), plain);
        assert_eq!(
            through(Kind::Styled, &[HOSTILE.as_bytes()]),
            plain,
            "to conceal text is no style of ours"
        );
        assert_eq!(through(Kind::Plain, &[b"\x1b[1mx\x1b[0m"]), "\u{fffd}[1mx\u{fffd}[0m");
        assert_eq!(through(Kind::Styled, &[b"\x1b[1mx\x1b[0m\x1b["]), "\x1b[1mx\x1b[0m\u{fffd}[");
    }

    #[test]
    fn characters_may_come_in_pieces_and_bytes_may_be_none() {
        let bytes = "ä\u{9b}€".as_bytes();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(through(Kind::Plain, &single), "ä\u{fffd}€");
        assert_eq!(through(Kind::Plain, &[b"a\x9bb\xff", b"c"]), "a\u{fffd}b\u{fffd}c");
        assert_eq!(through(Kind::Plain, &[b"\xe2\x82", b"x"]), "\u{fffd}x");
    }

    #[test]
    fn json_keeps_its_strings() {
        assert_eq!(
            through(Kind::Json, &["\"a\u{9b}b\u{202e}\u{7f}\"\n".as_bytes()]),
            "\"a\\u009bb\\u202e\\u007f\"\n"
        );
        assert_eq!(through(Kind::Json, &["\"a\u{e0001}\"".as_bytes()]), "\"a\\udb40\\udc01\"");
        assert_eq!(through(Kind::Plain, &["a\u{e0001}\u{200b}b".as_bytes()]), "a\u{fffd}\u{fffd}b");
    }
}
