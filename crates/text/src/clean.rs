//! Removes the characters that control a terminal from text that others wrote.

/// Characters of Unicode 16 above U+00A0 that control how other text is shown, or that nobody sees: those of the categories Cf (format), Zl
/// and Zp (separators of lines and paragraphs), and all that are `Default_Ignorable_Code_Point`. Ascending.
const INVISIBLE: [(char, char); 25] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Returns true for characters that control a terminal (C0, DEL, C1), the direction or the lines of text, and for those that nobody sees:
/// two names that look the same must be the same. So joined emoji and a few scripts, which need such characters, come out in pieces.
pub fn steers(c: char) -> bool {
    if c < '\u{ad}' {
        return c.is_control();
    }
    let after = INVISIBLE.partition_point(|(first, _)| *first <= c);
    INVISIBLE[..after].last().is_some_and(|(_, last)| c <= *last)
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
        assert_eq!(
            &*clean("root\u{e0041}\u{e0001}\u{200b}\u{ad}\u{fe0f}\u{e0101}\u{3164}".as_bytes()),
            format!("root{}", "\u{fffd}".repeat(7))
        );
    }

    #[test]
    fn what_steers_is_what_unicode_calls_so() {
        let class = regex::Regex::new(r"^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]$")
            .expect("a class");
        let differ = |c: &char| steers(*c) != class.is_match(c.encode_utf8(&mut [0; 4]));
        let differ: Vec<char> = ('\0'..=char::MAX).filter(differ).collect();
        assert!(differ.is_empty(), "{differ:?}");
    }
}
