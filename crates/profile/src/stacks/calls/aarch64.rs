//! Decodes instructions of aarch64: calls before return addresses, and where control goes after an instruction.

use icecore_elf::Svma;

use super::{Goes, Step};

/// `b`: a distance of 26 bits.
const B: (u32, u32) = (0xfc00_0000, 0x1400_0000);
/// `br`, also those that check signatures (`braa`).
const BR: (u32, u32) = (0xfeff_f000, 0xd61f_0000);
const RET: (u32, u32) = (0xfeff_f000, 0xd65f_0000);
/// `b.cond`, `cbz`, `cbnz`: a distance of 19 bits; `tbz`, `tbnz`: of 14.
const B_COND: (u32, u32) = (0xff00_0000, 0x5400_0000);
const CBZ: (u32, u32) = (0x7e00_0000, 0x3400_0000);
const TBZ: (u32, u32) = (0x7e00_0000, 0x3600_0000);
/// `brk`, and words that are no instruction.
const BRK: (u32, u32) = (0xffe0_0000, 0xd420_0000);
const UDF: (u32, u32) = (0xffff_0000, 0);
/// `mov x8, #139; svc #0`: how code comes back from a signal; 139 is `rt_sigreturn`.
const SIGNAL_RETURN: [u32; 2] = [0xd280_1168, 0xd400_0001];

/// Returns true if these bytes end with a jump or return, so that control does not run on after them.
pub(super) fn ends_block(code: &[u8]) -> bool {
    let word = code.last_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    [B, BR, RET, BRK].into_iter().any(|known| is(word, known))
}

/// Returns true if signal handlers return to this code.
pub(super) fn is_signal_return(code: &[u8]) -> bool {
    let words = code.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
    words.take(2).eq(SIGNAL_RETURN)
}

/// Finds where control goes after the instruction at an address; `None` if the instruction is truncated.
pub(super) fn step(code: &[u8], at: Svma) -> Option<Step> {
    let word = u32::from_le_bytes(*code.first_chunk()?);
    let goes = match () {
        () if is(word, B) => Goes::To(target(word, at, 0, 26)),
        () if is(word, B_COND) || is(word, CBZ) => Goes::OnOrTo(target(word, at, 5, 19)),
        () if is(word, TBZ) => Goes::OnOrTo(target(word, at, 5, 14)),
        () if is(word, BR) => Goes::Anywhere,
        () if is(word, RET) || is(word, BRK) || is(word, UDF) => Goes::Nowhere,
        () => Goes::On,
    };
    Some(Step { next: at.wrapping_add(4), goes })
}

fn is(word: u32, (mask, bits): (u32, u32)) -> bool {
    word & mask == bits
}

/// Computes the target of a branch. The sign is the highest bit of the field; distances count words.
fn target(word: u32, at: Svma, low: u32, len: u32) -> Svma {
    let distance = (word << (32 - len - low)).cast_signed() >> (32 - len);
    Svma(at.0.wrapping_add_signed(i64::from(distance) * 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_lead_on() {
        let go = |word: u32| step(&word.to_le_bytes(), Svma(0x1000)).expect("whole").goes;
        for (word, goes) in [
            (0x1400_0000, Goes::To(Svma(0x1000))),
            (0x17ff_ffff, Goes::To(Svma(0xffc))),
            (0x5400_0041, Goes::OnOrTo(Svma(0x1008))),
            (0xb5ff_ffc0, Goes::OnOrTo(Svma(0xff8))),
            (0x3717_ffe1, Goes::OnOrTo(Svma(0xffc))),
            (0xd61f_0220, Goes::Anywhere),
            (0xd71f_0a11, Goes::Anywhere),
            (0xd65f_03c0, Goes::Nowhere),
            (0x9400_0001, Goes::On),
            (0xd503_201f, Goes::On),
        ] {
            assert_eq!(go(word), goes, "{word:#x}");
        }
        assert_eq!(step(&[1, 2], Svma(0)), None);
        assert!(is_signal_return(&SIGNAL_RETURN.map(u32::to_le_bytes).concat()) && !is_signal_return(&[]));
    }
}
