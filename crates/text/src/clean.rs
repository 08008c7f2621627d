//! Removes the characters that control a terminal from text that others wrote.

/// Returns true for characters that control a terminal (C0, DEL, C1) or the direction of text (U+202A to U+202E, U+2066 to
/// U+2069), and for the separators of lines and paragraphs (U+2028, U+2029).
pub fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Turns bytes into one line of text. U+FFFD replaces bytes that are not UTF-8, and every character that [`steers`].
pub fn clean(bytes: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(steers) {
        return text.into();
    }
    text.chars().map(|c| if steers(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_steer_a_terminal_or_break_a_line() {
        assert_eq!(&*clean(b"a\x1b[31mb\nc\xff"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}");
        assert_eq!(&*clean("gr\u{fc}n".as_bytes()), "grün");
        assert_eq!(
            &*clean("a\u{202e}b\u{2066}c\u{9b}d\u{2028}".as_bytes()),
            "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}"
        );
    }
}
