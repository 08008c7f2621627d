//! Columns of integers as byte planes, the form in which numbers compress.
//!
//! ```text
//! values   0x0102  0x0103  0x0204
//! planes   02 03 04 │ 01 01 02          the lowest bytes of all, then the next, …
//! ```
//!
//! The high bytes of neighbours are mostly equal, the low ones mostly noise; side by side, one does not spoil
//! the other. A column has as many planes as its largest value needs, and at least one, so that memory is in
//! proportion to the bytes that are read.

use rkyv::{Archive, Serialize};

/// A column of integers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Archive, Serialize)]
pub struct Packed {
    /// Number of values.
    len: u32,
    /// One plane after the other, each of `len` bytes.
    planes: Vec<u8>,
}

impl Packed {
    /// Counts the values.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Unpacks what [`Packed::steps`] packed.
    pub(super) fn sums(&self) -> Vec<u64> {
        summed(unpacked(self.len(), &self.planes))
    }

    /// Unpacks the values.
    pub(super) fn values(&self) -> Vec<u64> {
        unpacked(self.len(), &self.planes)
    }

    /// Claims more values than it has.
    #[cfg(test)]
    pub(super) fn lying() -> Self {
        Self { len: u32::MAX, planes: vec![0; 100] }
    }

    /// Packs the differences between neighbours, the first from 0, signs folded.
    pub fn steps(values: impl IntoIterator<Item = u64>) -> Self {
        let mut before = 0;
        values
            .into_iter()
            .map(|value| fold(value.wrapping_sub(std::mem::replace(&mut before, value))))
            .collect()
    }
}

impl FromIterator<u64> for Packed {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let values: Vec<u64> = values.into_iter().collect();
        let bits = values.iter().fold(1, |all, value| all | value);
        let width = 8 - bits.leading_zeros() as usize / 8;
        let plane = |k: usize| values.iter().map(move |value| (value >> (8 * k)) as u8);
        Self { len: values.len() as u32, planes: (0..width).flat_map(plane).collect() }
    }
}

impl FromIterator<u32> for Packed {
    fn from_iter<I: IntoIterator<Item = u32>>(values: I) -> Self {
        values.into_iter().map(u64::from).collect()
    }
}

impl ArchivedPacked {
    /// Unpacks the values.
    ///
    /// # Cost
    /// One pass over the planes; eight bytes of memory for each value, however few planes there are.
    pub fn values(&self) -> Vec<u64> {
        unpacked(self.len.to_native() as usize, &self.planes)
    }

    /// Unpacks the values; larger ones than 2³² − 1 become that.
    pub fn values_u32(&self) -> impl Iterator<Item = u32> {
        self.values().into_iter().map(narrow)
    }

    /// Unpacks what [`Packed::steps`] packed.
    pub fn sums(&self) -> Vec<u64> {
        summed(self.values())
    }
}

fn unpacked(len: usize, planes: &[u8]) -> Vec<u64> {
    let mut values = vec![0; len];
    for (plane, shift) in planes.chunks_exact(len.max(1)).zip((0..64).step_by(8)) {
        for (value, byte) in values.iter_mut().zip(plane) {
            *value |= u64::from(*byte) << shift;
        }
    }
    values
}

fn summed(mut steps: Vec<u64>) -> Vec<u64> {
    let mut sum = 0_u64;
    for value in &mut steps {
        sum = sum.wrapping_add(unfold(*value));
        *value = sum;
    }
    steps
}

/// A column, of which a payload has several of equal length.
pub(super) trait Column {
    /// Counts the rows; `Err` is what is wrong with it.
    fn rows(&self) -> Result<usize, String>;

    /// Its bytes in the payload; none if its rows are no plain numbers.
    fn as_bytes(&self) -> &[u8] {
        &[]
    }
}

impl Column for ArchivedPacked {
    fn rows(&self) -> Result<usize, String> {
        let (len, bytes) = (self.len.to_native() as usize, self.planes.len());
        let planes = bytes.checked_div(len).unwrap_or(0);
        if planes * len == bytes && planes <= 8 && (planes > 0) == (len > 0) {
            Ok(len)
        } else {
            Err(format!("{bytes} bytes are no planes of {len} values"))
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.planes
    }
}

impl Column for rkyv::vec::ArchivedVec<u8> {
    fn rows(&self) -> Result<usize, String> {
        Ok(self.len())
    }

    fn as_bytes(&self) -> &[u8] {
        self
    }
}

/// What is no plain number: text, records.
pub(super) trait Nested {}

impl Nested for rkyv::string::ArchivedString {}
impl Nested for super::session::ArchivedEventV1 {}

impl<T: Nested> Column for rkyv::vec::ArchivedVec<T> {
    fn rows(&self) -> Result<usize, String> {
        Ok(self.len())
    }
}

/// Makes the largest value of what does not fit.
pub(super) fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Folds the sign of a difference into the lowest bit: 0, −1, 1, −2, … become 0, 1, 2, 3, …
pub(super) fn fold(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

/// Undoes [`fold`].
pub(super) fn unfold(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T>(packed: &Packed, read: impl Fn(&ArchivedPacked) -> T) -> T {
        let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(packed).expect("fits");
        let view = rkyv::access::<ArchivedPacked, rkyv::rancor::Error>(&bytes).expect("own bytes");
        assert_eq!(view.rows(), Ok(packed.len()));
        read(view)
    }

    #[test]
    fn a_column_has_as_many_planes_as_its_largest_value_needs() {
        let packed: Packed = [0x0102_u64, 0x0103, 0x0204].into_iter().collect();
        assert_eq!(packed.planes, [2, 3, 4, 1, 1, 2]);
        assert_eq!([0_u64, 0].into_iter().collect::<Packed>().planes, [0, 0]);
        assert_eq!([u64::MAX].into_iter().collect::<Packed>().planes, [255; 8]);
        assert_eq!(Packed::default(), std::iter::empty::<u64>().collect());
    }

    #[test]
    fn planes_that_do_not_fit_their_length_are_refused() {
        for (len, bytes) in [(0, 1), (1, 0), (2, 3), (1, 9), (u32::MAX, 0), (u32::MAX, 100)] {
            let wrong = Packed { len, planes: vec![0; bytes] };
            let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&wrong).expect("fits");
            let view = rkyv::access::<ArchivedPacked, rkyv::rancor::Error>(&bytes).expect("an archive");
            assert!(view.rows().is_err(), "{wrong:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn values_survive_a_round_trip(values: Vec<u64>) {
            let packed: Packed = values.iter().copied().collect();
            proptest::prop_assert_eq!(read(&packed, ArchivedPacked::values), values.clone());
            let steps = Packed::steps(values.iter().copied());
            proptest::prop_assert_eq!(read(&steps, ArchivedPacked::sums), values);
        }
    }
}
