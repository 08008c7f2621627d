//! Writes comma-separated values.

/// Quotes a text field if necessary, and doubles its quotes. An apostrophe precedes text that a spreadsheet would take for a
/// formula.
///
/// # Source   RFC 4180; OWASP "CSV Injection"
pub fn quoted(field: &str) -> String {
    let formula = if field.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{formula}{}\"", field.replace('"', "\"\""))
    } else {
        format!("{formula}{field}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_quotes_and_line_ends_are_quoted() {
        assert_eq!(quoted("std::map<int, int>::find"), "\"std::map<int, int>::find\"");
        assert_eq!(quoted("=HYPERLINK(\"x\",y)"), "\"'=HYPERLINK(\"\"x\"\",y)\"");
        assert_eq!(["+1", "-x", "@y", "a=b"].map(quoted), ["'+1", "'-x", "'@y", "a=b"]);
        assert_eq!((quoted("a\"b"), quoted("plain;x")), ("\"a\"\"b\"".into(), "plain;x".into()));
    }
}
