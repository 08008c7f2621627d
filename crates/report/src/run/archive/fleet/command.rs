//! Selections and commands that are printed, to be typed.

use std::path::Path;

use icecore_archive::select::Moment;
use icecore_text::path::quoted;

/// Returns a term of a selection. What separates terms is matched by `?`.
pub(super) fn term(key: &str, compared: &str, value: &str) -> String {
    let value: String = value.chars().map(|it| if it.is_whitespace() { '?' } else { it }).collect();
    format!("{key}{compared}{value}")
}

/// Returns a moment as terms have it.
pub(in super::super) fn moment(unix_us: i64) -> String {
    Moment(unix_us).to_string().replace(' ', "T")
}

/// Returns the terms that were typed, and these.
pub(super) fn terms(typed: Option<&str>, more: &[String]) -> Vec<String> {
    let typed = typed.unwrap_or_default().split_whitespace().map(str::to_owned);
    typed.filter(|term| !more.contains(term)).chain(more.iter().cloned()).collect()
}

/// Returns the command that compares two selections.
pub(super) fn diff(archive: &str, before: &[String], after: &[String], options: &str) -> String {
    let selection = |terms: &[String]| format!("'{}'", terms.join(" ").replace('\'', "?"));
    let folder = quoted(Path::new(archive));
    format!("icecore-report archive {folder} diff {} {}{options}", selection(before), selection(after))
}
