//! Patterns with wildcards, as users type them for names.

/// Returns true if `text` matches `pattern`: `*` stands for any characters or none, `?` for one, everything else for itself.
///
/// # Cost   at most one comparison for each pair of a character of the text and one of the pattern, and no memory
pub fn is_like(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // The pattern after the last `*`, and the text that the rest of the pattern was last tried on.
    let mut retry = None;
    loop {
        let here = text.clone();
        match (pattern.next(), text.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                retry = Some((pattern.clone(), here.clone()));
                text = here;
            }
            (Some('?'), Some(_)) => {}
            (Some(wanted), Some(found)) if wanted == found => {}
            // Only `*` matches nothing.
            (Some(_), None) => return false,
            _ => {
                let Some((after, tried)) = &mut retry else { return false };
                // The `*` stands for one more character.
                tried.next();
                (pattern, text) = (after.clone(), tried.clone());
            }
        }
    }
}

/// Returns true if a text has wildcards.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::{is_like, is_pattern};

    #[test]
    fn a_pattern_is_the_whole_text() {
        for (pattern, text) in [
            ("cpu-clock", "cpu-clock"),
            ("*", ""),
            ("*", "anything"),
            ("uprobe:*", "uprobe:/lib/x.so:malloc"),
            ("*:malloc", "uprobe:/lib/x.so:malloc"),
            ("u*:m*c", "uprobe:/lib/x.so:malloc"),
            ("**a**", "bab"),
            ("?", "é"),
            ("a?c", "abc"),
            ("*aab", "aaaaab"),
            ("", ""),
        ] {
            assert!(is_like(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("cpu", "cpu-clock"),
            ("clock", "cpu-clock"),
            ("", "a"),
            ("?", ""),
            ("?", "ab"),
            ("*b", "ba"),
            ("a*b*c", "acb"),
            ("[a]", "a"),
        ] {
            assert!(!is_like(pattern, text), "{pattern} {text}");
        }
        assert!(is_pattern("a*") && is_pattern("?") && !is_pattern("f(int)"));
    }

    #[test]
    fn many_stars_take_no_time() {
        let text = "a".repeat(10_000);
        let pattern = "*a".repeat(100);
        assert!(is_like(&pattern, &text) && !is_like(&format!("{pattern}b"), &text));
    }
}
