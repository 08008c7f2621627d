//! Assigns ids to rows that repeat.

use std::hash::Hash;

use icecore_format::records::Payload;
use icecore_format::write::Writer;

use crate::Error;
use icecore_profile::map::Map;

/// Gives every distinct row an id, and returns each new row once, for writing.
///
/// Memory is bounded: when too many rows are cached, all are forgotten. Ids continue, so a repeated row then gets a second id.
#[derive(Debug)]
pub(super) struct Ids<T> {
    known: Map<T, u32>,
    new: Vec<T>,
    next: u32,
}

/// The most cached rows.
const REMEMBERED: usize = 256 << 10;

impl<T: Hash + Eq + Clone> Ids<T> {
    pub(super) fn from(first_id: u32) -> Self {
        Self { known: Map::default(), new: Vec::new(), next: first_id }
    }

    /// Returns the id of a row; `None` if no ids are left.
    pub(super) fn id(&mut self, row: T) -> Option<u32> {
        if let Some(id) = self.known.get(&row) {
            return Some(*id);
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let id = self.next;
        self.next = id.checked_add(1)?;
        self.new.push(row.clone());
        self.known.insert(row, id);
        Some(id)
    }

    /// Returns the newest id.
    pub(super) fn newest(&self) -> u32 {
        self.next - 1
    }

    /// Takes the rows that are new since the last call, and the id of the first.
    pub(super) fn take_new(&mut self) -> (u32, Vec<T>) {
        let new = std::mem::take(&mut self.new);
        (self.next - new.len() as u32, new)
    }
}

/// Writes a block unless it is empty.
pub(super) fn append(writer: &mut Writer, payload: &impl Payload) -> Result<(), Error> {
    if payload.items() > 0 {
        writer.append(payload)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_keeps_its_id_and_is_handed_over_once() {
        let mut ids = Ids::from(1);
        assert_eq!([5, 6, 5].map(|row| ids.id(row)), [Some(1), Some(2), Some(1)]);
        assert_eq!((ids.newest(), ids.take_new(), ids.take_new()), (2, (1, vec![5, 6]), (3, vec![])));
        assert_eq!((ids.id(7), ids.take_new()), (Some(3), (3, vec![7])));
    }

    #[test]
    fn memory_is_bounded_and_ids_never_mean_two_things() {
        let mut ids = Ids::from(0);
        for row in 0..=REMEMBERED {
            assert_eq!(ids.id(row), Some(row as u32));
        }
        assert_eq!((ids.known.len(), ids.id(0)), (1, Some(REMEMBERED as u32 + 1)));
    }
}
