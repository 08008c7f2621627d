//! Numbers as HotSpot compresses them: one to five bytes each.
//!
//! # Source
//! OpenJDK `src/hotspot/share/utilities/unsigned5.hpp`, `code/compressedStream.hpp`

/// The least byte after which no other follows is below this.
const MORE: u8 = 192;
const MAX_BYTES: u32 = 5;
const BITS: u32 = 6;

/// Reads numbers one after the other.
#[derive(Debug, Clone)]
pub(super) struct Numbers<'a> {
    bytes: &'a [u8],
    /// The byte that stands for 0: since JDK 20 no byte is 0.
    zero: u8,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(bytes: &'a [u8], zero: u8) -> Self {
        Self { bytes, zero }
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    /// Reads a number; `None` if it is not whole.
    pub(super) fn unsigned(&mut self) -> Option<u32> {
        let mut sum = 0_u32;
        for position in 0..MAX_BYTES {
            let byte = self.byte()?;
            let part = u32::from(byte.checked_sub(self.zero)?);
            sum = sum.wrapping_add(part.wrapping_shl(position * BITS));
            if byte < MORE {
                break;
            }
        }
        Some(sum)
    }

    /// Reads a number whose lowest bit is its sign.
    pub(super) fn signed(&mut self) -> Option<i32> {
        let folded = self.unsigned()?;
        Some(((folded >> 1) ^ (folded & 1).wrapping_neg()).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_one_to_five_bytes() {
        let old = [0, 191, 192, 0, 193, 1, 255, 255, 255, 255, 255, 9];
        let mut numbers = Numbers::new(&old, 0);
        let read: Vec<u32> = std::iter::from_fn(|| numbers.unsigned()).collect();
        let longest = (0..5).fold(0_u32, |sum, at| sum.wrapping_add(255_u32.wrapping_shl(6 * at)));
        assert_eq!(read, [0, 191, 192, 193 + 64, longest, 9]);
        let mut numbers = Numbers::new(&[1, 191, 192, 1, 193, 2, 3, 4, 192], 1);
        assert_eq!([(); 3].map(|()| numbers.unsigned()), [Some(0), Some(190), Some(191)]);
        assert_eq!([(); 2].map(|()| numbers.signed()), [Some((192 + 64) / 2), Some(1)]);
        assert_eq!([(); 2].map(|()| numbers.signed()), [Some(-2), None]);
        assert_eq!(Numbers::new(&[0], 1).unsigned(), None, "no byte is 0");
    }
}
