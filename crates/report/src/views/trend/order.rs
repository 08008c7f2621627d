//! Orders recordings.

use crate::cli::Order;
use crate::views::{Error, Result};
use icecore_analysis::trend::Measured;

/// Puts recordings in order; returns the key of the label that decides.
///
/// # Errors
/// If no recording has that label.
pub(super) fn order(recorded: &mut [Measured], order: &Order) -> Result<Option<String>> {
    match order {
        Order::Given => Ok(None),
        Order::Time => {
            recorded.sort_by(|a, b| (a.start_unix_ns, &a.path).cmp(&(b.start_unix_ns, &b.path)));
            Ok(None)
        }
        Order::Label(key) => {
            if recorded.iter().all(|it| !it.labels.contains_key(key)) {
                return Err(Error::Refused(format!(
                    "cannot order by the label `{key}`: no recording has it (icecore-record --label {key}=VALUE)"
                )));
            }
            // Recordings without the label come first.
            recorded.sort_by_cached_key(|it| {
                (it.labels.get(key).map(|value| natural(value)), it.start_unix_ns, it.path.clone())
            });
            Ok(Some(key.clone()))
        }
    }
}

/// A piece of a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum LabelPiece {
    Number(u128),
    Text(String),
}

/// Returns a key that puts `1.10` after `1.9`.
fn natural(value: &str) -> Vec<LabelPiece> {
    let mut pieces: Vec<LabelPiece> = Vec::new();
    let characters: Vec<char> = value.chars().collect();
    for run in characters.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        let text: String = run.iter().collect();
        pieces.push(text.parse().map_or_else(|_| LabelPiece::Text(text.clone()), LabelPiece::Number));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn numbers_in_labels_count() {
        let mut labels = ["v1.10", "v1.9", "v1", "a", "v1.9-rc2", "10", "9"];
        labels.sort_by_key(|label| natural(label));
        assert_eq!(labels, ["9", "10", "a", "v1", "v1.9", "v1.9-rc2", "v1.10"]);
        assert!(natural(&"9".repeat(60)) > natural("9"), "too long for a number");
    }
}
