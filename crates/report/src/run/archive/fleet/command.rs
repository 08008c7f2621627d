//! Selections and commands that are printed, to be typed.

use std::path::Path;

use icecore_archive::select::Moment;
use icecore_text::path::quoted;
use serde::Serialize;

/// Returns a term of a selection. What separates terms is matched by `?`.
pub(in super::super) fn term(key: &str, compared: &str, value: &str) -> String {
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

/// What shows a difference; nothing does if recordings of one side were pruned.
#[derive(Debug, Default, Serialize)]
pub(super) struct Difference {
    /// The command.
    pub(super) command: Option<String>,
    /// The two selections in it.
    before_selection: Option<String>,
    after_selection: Option<String>,
}

impl Difference {
    /// Compares two selections.
    pub(super) fn new(archive: &str, before: &[String], after: &[String], options: &str) -> Self {
        let [before, after] = [before, after].map(|terms| terms.join(" ").replace('\'', "?"));
        let folder = quoted(Path::new(archive));
        let command = format!("icecore-report archive {folder} diff '{before}' '{after}'{options}");
        Self { command: Some(command), before_selection: Some(before), after_selection: Some(after) }
    }
}
