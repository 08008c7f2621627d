//! Paths as text for terminals, and as words for shells.

use std::path::Path;

use crate::clean::{clean, steers};

/// Returns a path as text that cannot control a terminal.
pub fn shown(path: &Path) -> String {
    clean(path.as_os_str().as_encoded_bytes()).into()
}

/// Returns a path as one word of a shell's command line.
pub fn quoted(path: &Path) -> String {
    let text = shown(path);
    // A path that begins with `-` would be an option.
    let here = if text.starts_with('-') { "./" } else { "" };
    word(&format!("{here}{text}"))
}

/// Returns a text as one word of a shell's command line. Characters that would end the line or control a terminal are escaped in
/// `$'…'`, which bash, zsh and POSIX.1-2024 read.
pub fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_./@%+=:,-".contains(c);
    if text.chars().all(is_plain) && !text.is_empty() {
        return text.into();
    }
    if !text.contains(|c: char| c.is_ascii_control()) {
        return format!("'{}'", clean(text.as_bytes()).replace('\'', r"'\''"));
    }
    let mut word = String::from("$'");
    for c in text.chars() {
        match c {
            '\n' => word.push_str("\\n"),
            '\t' => word.push_str("\\t"),
            '\'' | '\\' => word.extend(['\\', c]),
            // With three digits, a following digit is not part of the escape.
            _ if c.is_ascii_control() => word.push_str(&format!("\\{:03o}", c as u32)),
            _ if steers(c) => word.push(char::REPLACEMENT_CHARACTER),
            _ => word.push(c),
        }
    }
    word + "'"
}

/// Returns a command line of these words for a shell.
pub fn command(words: &[String]) -> String {
    words.iter().map(|text| word(text)).collect::<Vec<_>>().join(" ")
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
        assert_eq!(
            word("print(1)\n\tit's\x1b[31m1\\\u{202e}"),
            r"$'print(1)\n\tit\'s\033[31m1\\".to_owned() + "\u{fffd}'"
        );
        assert_eq!(command(&["sh".into(), "-c".into(), "a; b".into(), String::new()]), "sh -c 'a; b' ''");
        assert_eq!(shown(Path::new("a\x1b[31m\u{202e}b")), "a\u{fffd}[31m\u{fffd}b");
    }
}
