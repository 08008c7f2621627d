//! Changes bytes at random, the same way for the same seed.

/// Random numbers that are the same for ever (xorshift64*).
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Begins a sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as usize % end
    }
}

/// Numbers at which something may happen.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    7,
    63,
    64,
    255,
    4096,
    0x7fff,
    0xffff,
    1 << 20,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 62,
    i64::MAX as u64,
    u64::MAX,
];

/// Bytes that text is cut at.
const LETTERS: &[u8] = b"0123456789abcdefx -:,[]/\n\t\0\xff";

/// The longest input that is made, bytes.
const MAX_LEN: usize = 256 << 10;

/// Changes an input at one to four places; `others` lend pieces.
pub fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    for _ in 0..=dice.below(4) {
        let at = dice.below(input.len() + 1);
        let piece = at..at + dice.below((input.len() - at).min(200) + 1);
        match dice.below(8) {
            0 => input.truncate(at),
            1 => drop(input.drain(piece)),
            2 => {
                input.splice(at..at, vec![LETTERS[dice.below(LETTERS.len())]; dice.below(20)]).for_each(drop)
            }
            3 => {
                let copy = input[piece].repeat(1 + dice.below(4));
                input.splice(at..at, copy).for_each(drop);
            }
            4 => {
                let other = &others[dice.below(others.len())];
                let from = dice.below(other.len() + 1);
                let len = dice.below((other.len() - from).min(200) + 1);
                let end = (at + len).min(input.len());
                input.splice(at..end, other[from..from + len].iter().copied()).for_each(drop);
            }
            5 => {
                let number = NUMBERS[dice.below(NUMBERS.len())].wrapping_sub(dice.below(2) as u64);
                let width = 1 << dice.below(4);
                // Fields of binary formats are aligned.
                let at = at / width * width;
                if let Some(field) = input.get_mut(at..at + width) {
                    field.copy_from_slice(&number.to_le_bytes()[..width]);
                }
            }
            6 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = LETTERS[dice.below(LETTERS.len())];
                }
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
    input.truncate(MAX_LEN);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_they_differ() {
        let all = |seed| {
            let mut dice = Dice::new(seed);
            let inputs = (0..1000).map(|_| {
                let mut input = b"some text 12".to_vec();
                mutate(&mut input, &[vec![7; 50], vec![]], &mut dice);
                input
            });
            inputs.collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        let distinct: std::collections::HashSet<_> = all(1).into_iter().collect();
        assert!(distinct.len() > 700, "{}", distinct.len());
    }
}
