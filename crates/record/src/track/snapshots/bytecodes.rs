//! Finds the frames of an interpreter on a copied stack: the words that say which method each runs, and where in it.
//!
//! ```text
//!   p          return address      in the code of the interpreter
//!   p − 8      frame pointer  ──┐  that the callee has saved
//!   …                           │
//!   fp − 24    method           │
//!   fp − 64    instruction      │
//!   fp       ◄──────────────────┘
//! ```
//!
//! Whether such words are what they seem is for others to prove.
//!
//! # Source
//! OpenJDK `src/hotspot/cpu/x86/frame_x86.hpp`

use icecore_elf::Avma;

use crate::track::jit::Interpreter;

/// The most frames of a stack.
const MAX_FRAMES: usize = 4096;
/// No address of a user is above this.
const USER_END: u64 = 1 << 47;

/// A frame of an interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Running {
    /// Where the stack says which instruction (bytecode) runs.
    pub(super) at: Avma,
    pub(crate) method: u64,
    /// The address of the instruction; of a method without any, that of the method.
    pub(crate) instruction: u64,
}

/// Finds the frames on a stack whose first byte is at `low`, innermost first.
pub(super) fn running(of: &Interpreter, low: Avma, bytes: &[u8]) -> Vec<Running> {
    let skipped = low.0.wrapping_neg() % 8;
    let words = bytes.get(skipped as usize..).unwrap_or_default().as_chunks::<8>().0;
    let first = low.0.wrapping_add(skipped);
    let is_return = |word: u64| word > of.code.start && word <= of.code.end;
    let mut found: Vec<Running> = Vec::new();
    for (number, pair) in words.windows(2).enumerate() {
        let [saved, returns] = [pair[0], pair[1]].map(u64::from_ne_bytes);
        if !is_return(returns) || found.len() >= MAX_FRAMES {
            continue;
        }
        // The frame lies further out than the word that leads there.
        let is_outer = |fp: &u64| *fp > first.saturating_add(8 * number as u64);
        found.extend(Some(saved).filter(is_outer).and_then(|fp| frame(of, fp, first, words, None)));
    }
    found
}

/// Reads the frame at a frame pointer; the innermost frame has its instruction in a register.
pub(super) fn frame(
    of: &Interpreter,
    fp: u64,
    first: u64,
    words: &[[u8; 8]],
    instruction: Option<u64>,
) -> Option<Running> {
    let word = |at: u64| {
        let off = at.checked_sub(first).filter(|off| off.is_multiple_of(8))?;
        words.get(usize::try_from(off / 8).ok()?).map(|word| u64::from_ne_bytes(*word))
    };
    let at = fp.checked_sub(of.instruction_below)?;
    let method = word(fp.checked_sub(of.method_below)?)?;
    let instruction = match instruction {
        Some(instruction) => instruction,
        None => word(at).map(|it| if it == 0 { method } else { it })?,
    };
    let is_address = |it: u64| (4096..USER_END).contains(&it);
    (is_address(method) && is_address(instruction)).then_some(Running { at: Avma(at), method, instruction })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: u64 = 0x7f00_0000_1000;

    fn interpreter() -> Interpreter {
        Interpreter { code: 0x1000..0x2000, method_below: 24, instruction_below: 64, methods: Vec::new() }
    }

    /// A stack of 64 words, of which some are given by their numbers.
    fn stack(words: &[(usize, u64)]) -> Vec<u8> {
        let mut all = [0_u64; 64];
        words.iter().for_each(|(at, word)| all[*at] = *word);
        all.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn at(number: u64) -> u64 {
        LOW + 8 * number
    }

    #[test]
    fn frames_of_the_interpreter_are_found_by_what_their_callees_have_saved() {
        // Two frames, at words 20 and 40; the second runs a native method.
        let words = [
            (2, at(20)),
            (3, 0x1234),
            (12, 0x5_0008),
            (17, 0x6_0000),
            (20, at(40)),
            (21, 0x2000),
            (37, 0x7_0000),
        ];
        let found = running(&interpreter(), Avma(LOW), &stack(&words));
        let of = |number, method, instruction| Running { at: Avma(at(number)), method, instruction };
        assert_eq!(found, [of(12, 0x6_0000, 0x5_0008), of(32, 0x7_0000, 0x7_0000)]);
        // The same stack, three bytes of which are missing.
        let bytes = stack(&words);
        assert_eq!(running(&interpreter(), Avma(LOW - 3), &[&[0; 3][..], &bytes].concat()), found);
    }

    #[test]
    fn words_that_lead_to_no_frame_are_none() {
        for (saved, returns, method, instruction) in [
            (at(20), 0x1000, 0x6_0000, 0x5_0000),
            (at(20), 0x2001, 0x6_0000, 0x5_0000),
            (at(20) + 1, 0x1234, 0x6_0000, 0x5_0000),
            (at(20), 0x1234, 1, 0x5_0000),
            (at(20), 0x1234, 0x6_0000, u64::MAX),
            (at(1), 0x1234, 0x6_0000, 0x5_0000),
            (u64::MAX, 0x1234, 0x6_0000, 0x5_0000),
            (7, 0x1234, 0x6_0000, 0x5_0000),
        ] {
            let words = [(2, saved), (3, returns), (12, instruction), (17, method)];
            assert_eq!(running(&interpreter(), Avma(LOW), &stack(&words)), [], "{words:x?}");
        }
        assert_eq!(running(&interpreter(), Avma(u64::MAX - 3), &[0x12; 4096]), []);
        assert_eq!(running(&interpreter(), Avma(LOW), &[]), []);
    }
}
