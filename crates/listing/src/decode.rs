//! Decodes machine code into instructions as text. Bytes may be anything: what is no instruction is shown as bytes.
//!
//! | machine | decoder | syntax |
//! |---|---|---|
//! | x86-64 | iced-x86 | GAS (AT&T), as objdump and perf write it |
//! | aarch64 | yaxpeax-arm | Arm's, as objdump writes it; SVE and some newer extensions are shown as `.inst` |

mod aarch64;
mod x86_64;

use icecore_elf::{Machine, Svma};

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Its address.
    pub at: Svma,
    /// Its length, bytes.
    pub len: usize,
    /// Mnemonic and operands.
    pub text: String,
    /// The address to which it jumps or which it calls, if the instruction itself says it.
    pub target: Option<Svma>,
    /// It calls a function: callees return to the address after it.
    pub is_call: bool,
    /// The address of the data or code that it names relative to itself.
    pub names: Option<Svma>,
}

/// Decodes code that begins at an address.
///
/// # Shape   instructions follow each other without gaps, and cover all bytes
pub fn decode(machine: Machine, bytes: &[u8], at: Svma) -> Vec<Decoded> {
    match machine {
        Machine::X86_64 => x86_64::decode(bytes, at),
        Machine::Aarch64 => aarch64::decode(bytes, at),
    }
}

/// Writes bytes that are no instruction.
fn data(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
    format!(".byte {}", bytes.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_bytes_become_instructions_without_gaps(bytes: Vec<u8>, at: u64) {
            for machine in Machine::ALL {
                let mut next = Svma(at);
                for instruction in decode(machine, &bytes, Svma(at)) {
                    proptest::prop_assert_eq!(instruction.at, next);
                    proptest::prop_assert!(instruction.len > 0 && !instruction.text.is_empty());
                    proptest::prop_assert!(!instruction.text.contains(char::is_control));
                    next = next.wrapping_add(instruction.len as u64);
                }
                proptest::prop_assert_eq!(next, Svma(at).wrapping_add(bytes.len() as u64));
            }
        }
    }
}
