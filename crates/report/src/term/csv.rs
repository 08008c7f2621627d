//! Comma-separated values.

/// A field: within quotes if it needs them, its own quotes doubled.
///
/// # Source   RFC 4180
pub fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_quotes_and_line_ends_are_quoted() {
        assert_eq!(quoted("std::map<int, int>::find"), "\"std::map<int, int>::find\"");
        assert_eq!((quoted("a\"b"), quoted("plain;x")), ("\"a\"\"b\"".into(), "plain;x".into()));
    }
}
