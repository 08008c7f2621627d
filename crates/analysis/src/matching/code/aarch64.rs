//! Decodes instructions of aarch64, without the addresses that they name.
//!
//! Two instructions compute an address of data: `adrp` makes its page, `add`, `ldr` or `str` adds the rest. Both are masked, and
//! the address is not compared.

use super::{Masked, MaskedInstruction, NamedAddress};

/// So many instructions after an `adrp`, its register counts as a page.
const NEAR: usize = 32;

/// Splits code that begins at an address into words; a trailing word may be shorter than four bytes.
pub(super) fn steps(bytes: &[u8], at: u64) -> Vec<MaskedInstruction> {
    // For each register, the last instruction that made a page in it.
    let mut pages = [None; 32];
    let words = bytes.chunks(4).enumerate().map(|(position, word)| {
        let Ok(word) = <[u8; 4]>::try_from(word) else {
            return MaskedInstruction { masked: Masked::Bytes(word.to_vec()), names: [None; 2] };
        };
        let word = u32::from_le_bytes(word);
        let at = at.wrapping_add(4 * position as u64);
        let (masked, named) = match target(word) {
            Some((mask, offset)) => (
                word & !mask,
                Some(NamedAddress { at: at.wrapping_add_signed(offset), read_len: 0, is_number: false }),
            ),
            None => (without_data(word, position, &mut pages), None),
        };
        MaskedInstruction { masked: Masked::Word(masked), names: [named, None] }
    });
    words.collect()
}

/// Returns the bits of a branch that hold the distance, and the distance.
fn target(word: u32) -> Option<(u32, i64)> {
    const B: (u32, u32) = (0x7c00_0000, 0x1400_0000);
    const B_COND: (u32, u32) = (0xff00_0000, 0x5400_0000);
    const CBZ: (u32, u32) = (0x7e00_0000, 0x3400_0000);
    const TBZ: (u32, u32) = (0x7e00_0000, 0x3600_0000);
    let is = |(mask, bits): (u32, u32)| word & mask == bits;
    let (low, len) = match () {
        () if is(B) => (0, 26),
        () if is(B_COND) || is(CBZ) => (5, 19),
        () if is(TBZ) => (5, 14),
        () => return None,
    };
    let mask = ((1 << len) - 1) << low;
    // The sign is the highest bit of the field; distances count words.
    let field = (word & mask) << (32 - len - low);
    Some((mask, i64::from(field.cast_signed() >> (32 - len)) * 4))
}

/// Masks the bits of an instruction that depend on the location of data.
fn without_data(word: u32, position: usize, pages: &mut [Option<usize>; 32]) -> u32 {
    const ADR: (u32, u32) = (0x1f00_0000, 0x1000_0000);
    const ADRP_BIT: u32 = 0x8000_0000;
    const LITERAL: (u32, u32) = (0x3b00_0000, 0x1800_0000);
    const ADD: (u32, u32) = (0xffc0_0000, 0x9100_0000);
    const LOAD_STORE: (u32, u32) = (0x3b00_0000, 0x3900_0000);
    const FIELD_12: u32 = 0xfff << 10;
    let is = |(mask, bits): (u32, u32)| word & mask == bits;
    let (made, base) = ((word & 31) as usize, (word >> 5 & 31) as usize);
    let is_page = pages[base].is_some_and(|made| position - made <= NEAR);
    if is(ADR) {
        if word & ADRP_BIT != 0 {
            pages[made] = Some(position);
        }
        return word & !0x60ff_ffe0;
    }
    match () {
        () if is(LITERAL) => word & !0x00ff_ffe0,
        () if is_page && (is(ADD) || is(LOAD_STORE)) => word & !FIELD_12,
        () => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32], at: u64) -> (Vec<u32>, Vec<Option<u64>>) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let word = |step: &MaskedInstruction| match step.masked {
            Masked::Word(word) => word,
            _ => 0,
        };
        let steps = steps(&bytes, at);
        (steps.iter().map(word).collect(), steps.iter().map(|step| step.names[0].map(|it| it.at)).collect())
    }

    #[test]
    fn branches_tell_where_they_go() {
        for (word, masked, target) in [
            (0x9400_0001, 0x9400_0000, 0x1004), // bl .+4
            (0x97ff_ffff, 0x9400_0000, 0x0ffc), // bl .-4
            (0x1400_0000, 0x1400_0000, 0x1000), // b .
            (0x5400_0041, 0x5400_0001, 0x1008), // b.ne .+8
            (0xb5ff_ffc0, 0xb500_0000, 0x0ff8), // cbnz x0, .-8
            (0x3717_ffe1, 0x3710_0001, 0x0ffc), // tbnz w1, #2, .-4
        ] {
            assert_eq!(words(&[word], 0x1000), (vec![masked], vec![Some(target)]), "{word:#x}");
        }
    }

    #[test]
    fn addresses_of_data_are_masked_and_other_numbers_are_not() {
        // adrp x0, page; add x0, x0, #0x123; ldr w1, [x2, #4]; adrp x3; ldr x4, [x3, #0x18]
        let (before, _) = words(&[0xb000_0000, 0x9104_8c00, 0xb940_0441, 0x9000_0003, 0xf940_0c64], 0);
        let (after, _) = words(&[0xd000_0020, 0x9110_0000, 0xb940_0441, 0xf000_0003, 0xf940_1064], 0);
        assert_eq!(before, after);
        assert_eq!(before[2], 0xb940_0441);
        // add x5, x6, #1: no page is in x6.
        assert_ne!(words(&[0x9100_04c5], 0).0, words(&[0x9100_08c5], 0).0);
        // ldr x0, literal
        assert_eq!(words(&[0x5800_0040], 0).0, words(&[0x5800_0080], 0).0);
    }

    #[test]
    fn a_torn_word_is_bytes() {
        assert!(matches!(&steps(&[1, 2], 0)[0].masked, Masked::Bytes(bytes) if bytes == &[1, 2]));
    }
}
