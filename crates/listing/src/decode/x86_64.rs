//! Decodes x86-64 in the syntax of objdump.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction, OpKind};

use super::{Decoded, data};
use icecore_elf::Svma;

/// The column in which operands begin.
const OPERANDS: u32 = 7;

pub(super) fn decode(bytes: &[u8], at: Svma) -> Vec<Decoded> {
    let mut decoder = Decoder::with_ip(64, bytes, at.0, DecoderOptions::NONE);
    let mut formatter = formatter();
    let mut decoded = Vec::with_capacity(bytes.len() / 4);
    while decoder.can_decode() {
        let begin = decoder.position();
        let instruction = decoder.decode();
        let (at, len) = (at.wrapping_add(begin as u64), decoder.position() - begin);
        if instruction.is_invalid() {
            let text = data(&bytes[begin..begin + len]);
            decoded.push(Decoded { at, len, text, target: None, is_call: false, names: None });
            continue;
        }
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        let flow = instruction.flow_control();
        let is_call = matches!(flow, FlowControl::Call | FlowControl::IndirectCall);
        let text = text.trim_end().to_owned();
        decoded.push(Decoded {
            at,
            len,
            text,
            target: target(&instruction),
            is_call,
            names: names(&instruction),
        });
    }
    decoded
}

fn formatter() -> GasFormatter {
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_first_operand_char_index(OPERANDS);
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    formatter
}

fn target(instruction: &Instruction) -> Option<Svma> {
    let is_near =
        matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    is_near.then(|| Svma(instruction.near_branch_target()))
}

fn names(instruction: &Instruction) -> Option<Svma> {
    instruction.is_ip_rel_memory_operand().then(|| Svma(instruction.ip_rel_memory_address()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: &[u8]) -> Decoded {
        let mut all = decode(bytes, Svma(0x1000));
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn text_is_as_objdump_writes_it() {
        for (bytes, text) in [
            (&[0x48, 0x89, 0xe5][..], "mov    %rsp,%rbp"),
            (&[0x48, 0x83, 0xec, 0x08], "sub    $0x8,%rsp"),
            (&[0x8b, 0x04, 0x87], "mov    (%rdi,%rax,4),%eax"),
            (&[0xc3], "ret"),
            (&[0xe8, 0x2b, 0, 0, 0], "call   0x1030"),
            (&[0x75, 0xfe], "jne    0x1000"),
            (&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0], "mov    0x10(%rip),%rax"),
        ] {
            assert_eq!(one(bytes).text, text);
        }
    }

    #[test]
    fn calls_say_whom_they_call_and_bytes_that_are_no_instruction_are_shown() {
        let call = one(&[0xe8, 0x2b, 0, 0, 0]);
        assert_eq!((call.target, call.is_call), (Some(Svma(0x1030)), true));
        let through_slot = one(&[0xff, 0x15, 0x10, 0, 0, 0]);
        let found = (through_slot.target, through_slot.names, through_slot.is_call);
        assert_eq!(found, (None, Some(Svma(0x1016)), true));
        let jump = one(&[0xeb, 0x10]);
        assert_eq!((jump.target, jump.is_call), (Some(Svma(0x1012)), false));
        assert_eq!(one(&[0x06]).text, ".byte 0x06");
        assert_eq!(decode(&[0x90, 0xe8, 1], Svma(0)).len(), 2, "a torn call is bytes");
    }
}
