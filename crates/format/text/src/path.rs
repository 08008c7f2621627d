//! Paths that were typed, as text for terminals and shells.

use std::path::Path;

use crate::clean::clean;

/// A path as text that cannot steer a terminal.
pub fn shown(path: &Path) -> String {
    clean(path.as_os_str().as_encoded_bytes()).into()
}

/// A path as one word of a shell's command line.
pub fn quoted(path: &Path) -> String {
    let text = shown(path);
    // A path that begins with `-` would be an option.
    let here = if text.starts_with('-') { "./" } else { "" };
    word(&format!("{here}{text}"))
}

/// A text as one word of a shell's command line.
pub fn word(text: &str) -> String {
    let text = clean(text.as_bytes());
    let is_plain = |c: char| c.is_alphanumeric() || "_./@%+=:,-".contains(c);
    match text.chars().all(is_plain) && !text.is_empty() {
        true => text.into(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_one_word_and_steer_no_terminal() {
        let text = |path: &str| quoted(Path::new(path));
        assert_eq!(text("/x/app-1.2.icecore"), "/x/app-1.2.icecore");
        assert_eq!(text("my file's.icecore"), r"'my file'\''s.icecore'");
        assert_eq!((text("-x"), word("^a|b$")), ("./-x".into(), "'^a|b$'".into()));
        assert_eq!(shown(Path::new("a\x1b[31m\u{202e}b")), "a\u{fffd}[31m\u{fffd}b");
    }
}
