//! Decodes instructions of x86, without the addresses that they name.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

use super::{Code, Masked, MaskedInstruction, NamedAddress};

/// Decodes code that begins at an address.
pub(super) fn steps(bytes: &[u8], at: u64, bits: u32, code: &Code) -> Vec<MaskedInstruction> {
    let mut decoder = Decoder::with_ip(bits, bytes, at, DecoderOptions::NONE);
    let mut steps = Vec::with_capacity(bytes.len() / 4);
    while decoder.can_decode() {
        let begin = decoder.position();
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            let bytes = bytes[begin..decoder.position()].to_vec();
            steps.push(MaskedInstruction { masked: Masked::Bytes(bytes), names: [None; 2] });
        } else {
            steps.push(masked(instruction, |at| code.is_fixed_address(at)));
        }
    }
    steps
}

/// Masks the parts that name an address: targets, memory relative to the instruction, and numbers that are addresses in a program
/// at a fixed address.
fn masked(mut it: Instruction, is_address: impl Fn(u64) -> bool) -> MaskedInstruction {
    let mut names = [None; 2];
    if matches!(it.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64) {
        names[0] = Some(NamedAddress { at: it.near_branch_target(), read_len: 0, is_number: false });
        it.set_near_branch64(0);
    } else {
        let has_memory = (0..it.op_count()).any(|op| it.op_kind(op) == OpKind::Memory);
        if has_memory && (it.is_ip_rel_memory_operand() || is_address(it.memory_displacement64())) {
            let read_len = if it.mnemonic() == Mnemonic::Lea || !it.is_ip_rel_memory_operand() {
                0
            } else {
                it.memory_size().size()
            };
            // `lea` adds numbers as well as it takes addresses.
            let is_number = it.mnemonic() == Mnemonic::Lea && !it.is_ip_rel_memory_operand();
            names[0] = Some(NamedAddress { at: it.memory_displacement64(), read_len, is_number });
            it.set_memory_displacement64(0);
        }
        for op in 0..it.op_count() {
            let is_wide =
                matches!(it.op_kind(op), OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64);
            if is_wide && is_address(it.immediate(op)) {
                names[1] = Some(NamedAddress { at: it.immediate(op), read_len: 0, is_number: true });
                // A sign-extended number was positive; masking does not change its width.
                match it.op_kind(op) {
                    OpKind::Immediate64 => it.set_immediate64(0),
                    OpKind::Immediate32to64 => it.set_immediate32to64(0),
                    _ => it.set_immediate32(0),
                }
            }
        }
    }
    it.set_next_ip(0);
    MaskedInstruction { masked: Masked::X86(it), names }
}
