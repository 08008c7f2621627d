//! Finds what a misspelt word may be meant for.

use crate::glob::is_like;

/// A shorter part of a name suggests nothing.
const LEAST_PART: usize = 3;

/// Returns the name that a word is most likely meant for; of equally near names the first one. `None` if no name is near: one letter
/// in three may be wrong, missing, extra or swapped with its neighbour, or the word may be a part of the name. Case does not matter.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let word = word.to_lowercase();
    let near = names.into_iter().filter_map(|name| Some((far(&word, &name.to_lowercase())?, name)));
    near.min_by_key(|(far, _)| *far).map(|(_, name)| name)
}

/// Returns how far a name is from a word, both in lower case; `None` if it is too far.
fn far(word: &str, name: &str) -> Option<usize> {
    let len = word.chars().count();
    if is_like(word, name) {
        return Some(0);
    }
    let letters = strsim::osa_distance(word, name);
    if letters <= len / 3 {
        return Some(letters);
    }
    // Any misspelling is nearer than a part.
    (len >= LEAST_PART && name.contains(word)).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_near_and_other_words_are_not() {
        let commands = ["summary", "top", "tree", "flame", "folded", "cut"];
        for (word, name) in [
            ("flme", "flame"),
            ("TOP", "top"),
            ("tpo", "top"),
            ("topp", "top"),
            ("sumary", "summary"),
            ("old", "folded"),
        ] {
            assert_eq!(nearest(word, commands), Some(name), "{word}");
        }
        for word in ["", "x", "to", "frobnicate", "rust", "cat2"] {
            assert_eq!(nearest(word, commands), None, "{word}");
        }
    }

    #[test]
    fn the_nearest_name_wins_then_the_first() {
        assert_eq!(nearest("postgras", ["postgres-old", "postgres"]), Some("postgres"));
        assert_eq!(nearest("worker", ["worker-1", "worker-2"]), Some("worker-1"));
        assert_eq!(nearest("KWORKER/*", ["make", "kworker/0:1"]), Some("kworker/0:1"));
    }
}
