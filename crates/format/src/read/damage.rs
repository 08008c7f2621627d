//! What is missing from a recording, as a bounded list of sentences.

use std::fmt;

use crate::limits;

/// Something that is missing from a file, though the rest can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where, bytes from the start of the file.
    pub off: u64,
    /// Bytes that could not be used; 0 if the file has no bytes where something is missing.
    pub len: u64,
    /// What is wrong, one sentence.
    pub cause: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            0 => write!(f, "at byte {}: {}", self.off, self.cause),
            len => write!(f, "{len} bytes at byte {}: {}", self.off, self.cause),
        }
    }
}

/// Collects damage; beyond [`limits::MAX_DAMAGE`] it only counts.
#[derive(Debug, Default)]
pub(super) struct Findings {
    listed: Vec<Damage>,
    /// The places that are not listed: their number, and the first of them with the bytes of all.
    more: Option<(u64, Damage)>,
}

impl Findings {
    pub(super) fn add(&mut self, off: u64, len: u64, cause: String) {
        if self.listed.len() < limits::MAX_DAMAGE {
            self.listed.push(Damage { off, len, cause });
            return;
        }
        let (count, rest) = self.more.get_or_insert((0, Damage { off, len: 0, cause: String::new() }));
        *count += 1;
        rest.off = rest.off.min(off);
        rest.len = rest.len.saturating_add(len);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Lists what was found, the number of the rest last.
    pub(super) fn into_list(self) -> Vec<Damage> {
        let mut list = self.listed;
        list.extend(self.more.map(|(count, rest)| Damage {
            cause: format!("damage in {count} more places, not listed"),
            ..rest
        }));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_damage_is_bounded_and_says_how_much_it_leaves_out() {
        let mut findings = Findings::default();
        (0..1000).for_each(|n| findings.add(n * 8, 8, "noise".into()));
        let list = findings.into_list();
        assert_eq!(list.len(), limits::MAX_DAMAGE + 1);
        assert_eq!(
            list[limits::MAX_DAMAGE].to_string(),
            "7200 bytes at byte 800: damage in 900 more places, not listed"
        );
    }

    #[test]
    fn what_is_missing_where_nothing_stands_has_no_length() {
        let damage = Damage { off: 64, len: 0, cause: "block 0 is missing".into() };
        assert_eq!(damage.to_string(), "at byte 64: block 0 is missing");
    }
}
