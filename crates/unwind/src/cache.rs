//! Caches rows by image and address.

use icecore_elf::Svma;

use super::compact_row::CompactRow;

/// The number of slots. Half a second of cc1 needs 3,400 rows; with 8,192 slots and one slot for each row, a third of the rows
/// drove out each other again and again.
const SLOTS_LOG2: u32 = 14;
/// Addresses below this bound can be cached.
const ADDRESS_BITS: u32 = 40;

/// A table of fixed size. A row has two adjacent slots; the first holds the newer row.
#[derive(Debug)]
pub(super) struct RowCache {
    slots: Box<[(u64, CompactRow)]>,
}

/// An image and an address in it, as one unique number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    /// `None` for images without a number and addresses above the bound: such rows are not cached.
    #[inline]
    pub(super) fn new(module: u32, at: Svma) -> Option<Self> {
        let fits = at.0 >> ADDRESS_BITS == 0 && module >> (63 - ADDRESS_BITS) == 0;
        fits.then_some(Self(u64::from(module) << ADDRESS_BITS | at.0))
    }

    #[inline]
    fn slot(self) -> usize {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS_LOG2)) as usize & !1
    }
}

impl RowCache {
    pub(super) fn new() -> Self {
        Self {
            slots: vec![(u64::MAX, CompactRow::bare(super::compact_row::Kind::Absent)); 1 << SLOTS_LOG2]
                .into(),
        }
    }

    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<&CompactRow> {
        let slots = &self.slots[key.slot()..][..2];
        slots.iter().find(|slot| slot.0 == key.0).map(|slot| &slot.1)
    }

    pub(super) fn keep(&mut self, key: Key, row: CompactRow) {
        let slots = &mut self.slots[key.slot()..][..2];
        slots[1] = slots[0];
        slots[0] = (key.0, row);
    }
}

#[cfg(test)]
mod tests {
    use super::super::compact_row::Kind;
    use super::*;

    #[test]
    fn a_row_is_found_under_its_image_and_address_alone() {
        let mut cache = RowCache::new();
        let key = |module, at| Key::new(module, Svma(at)).expect("it fits");
        cache.keep(key(1, 0x1000), CompactRow::bare(Kind::Root));
        assert_eq!(cache.find(key(1, 0x1000)).map(|row| row.kind), Some(Kind::Root));
        for other in [key(0, 0x1000), key(2, 0x1000), key(1, 0x1001), key(0, 0)] {
            assert!(cache.find(other).is_none());
        }
    }

    #[test]
    fn what_does_not_fit_is_no_key() {
        assert_eq!(Key::new(0, Svma(1 << ADDRESS_BITS)), None);
        assert_eq!(Key::new(1 << 23, Svma(0)), None);
        assert_ne!(Key::new((1 << 23) - 1, Svma((1 << ADDRESS_BITS) - 1)), Some(Key(u64::MAX)));
    }
}
