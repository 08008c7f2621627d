//! Shortens long stacks by writing repetitions once.

/// The longest cycle that is recognized.
const LONGEST: usize = 32;

/// A sequence of functions, and how often it repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Positions in the names' functions, outermost first.
    pub functions: Vec<u32>,
    /// How often the sequence repeats; 1 for a single function that does not.
    pub times: u32,
}

/// Folds runs and cycles: `main a b a b a b leaf` is `main`, three times `a b`, `leaf`.
pub fn folded(path: &[u32]) -> Vec<Link> {
    let mut links = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.first() {
        let (len, times) = (1..=LONGEST)
            .map(|len| (len, times(rest, len)))
            .filter(|(_, times)| *times > 1)
            // Prefers the cycle that covers most frames; of equal ones the shortest.
            .max_by_key(|(len, times)| (len * times, std::cmp::Reverse(*len)))
            .unwrap_or((1, 1));
        let functions = if times > 1 { rest[..len].to_vec() } else { vec![*first] };
        // A stack has fewer frames than that.
        links.push(Link { functions, times: u32::try_from(times).unwrap_or(u32::MAX) });
        rest = &rest[len * times..];
    }
    links
}

/// Counts how often the first `len` items repeat.
fn times(path: &[u32], len: usize) -> usize {
    if path.len() < 2 * len {
        1
    } else {
        1 + path.iter().zip(&path[len..]).take_while(|(a, b)| a == b).count() / len
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(path: &str) -> String {
        let path: Vec<u32> = path.bytes().map(u32::from).collect();
        let links = folded(&path).into_iter().map(|link| {
            let names: String = link.functions.iter().filter_map(|f| char::from_u32(*f)).collect();
            if link.times > 1 { format!("[{names}×{}]", link.times) } else { names }
        });
        links.collect()
    }

    #[test]
    fn runs_and_cycles_are_written_once() {
        assert_eq!(text("maaaaal"), "m[a×5]l");
        assert_eq!(text("mabababal"), "m[ab×3]al");
        assert_eq!(text("maabaabaab"), "m[aab×3]");
        assert_eq!((text("abc"), text("")), ("abc".to_owned(), String::new()));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(path in prop::collection::vec(0u32..3, 0..200)) {
            let links = folded(&path);
            let unfolded: Vec<u32> = links.iter().flat_map(|link| link.functions.repeat(link.times as usize)).collect();
            prop_assert_eq!(unfolded, path);
        }
    }
}
