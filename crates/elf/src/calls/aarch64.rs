//! Call instructions of aarch64.

use super::Before;

/// Mask and bits of `bl`, which holds a distance of 26 bits.
const BL: (u32, u32) = (0xfc00_0000, 0x9400_0000);
/// Mask and bits of `blr` and of its forms that check a signature (`blraa`).
const BLR: (u32, u32) = (0xfeff_f000, 0xd63f_0000);

/// Decodes the call that ends where `code` ends, at the return address.
pub fn before(code: &[u8], return_address: u64) -> Before {
    let word = code.last_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    let is = |(mask, bits): (u32, u32)| word & mask == bits;
    // The sign is the highest bit of the field; distances count words.
    let distance = i64::from((word << 6).cast_signed() >> 6) * 4;
    let target = return_address.wrapping_sub(4).wrapping_add_signed(distance);
    Before { direct: is(BL).then_some(target), is_indirect: is(BLR) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_what_is_none() {
        let of = |word: u32| before(&word.to_le_bytes(), 0x1004);
        assert_eq!(of(0x9400_0001), Before { direct: Some(0x1004), is_indirect: false }, "bl .+4");
        assert_eq!(of(0x97ff_ffff).direct, Some(0xffc), "bl .-4");
        for indirect in [0xd63f_0100, 0xd73f_0911, 0xd63f_081f] {
            assert_eq!(of(indirect), Before { direct: None, is_indirect: true }, "{indirect:#x}");
        }
        for other in [0x1400_0001, 0xd61f_0220, 0xd65f_03c0, 0xd503_201f, 0] {
            assert_eq!(of(other), Before { direct: None, is_indirect: false }, "{other:#x}");
        }
    }
}
