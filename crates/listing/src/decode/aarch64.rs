//! Decodes aarch64 in the syntax of objdump.

use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Opcode, Operand};

use super::{Decoded, data};
use icecore_elf::Svma;

/// The length of an instruction, bytes.
const LEN: usize = 4;
/// The mask of the address within a page.
const IN_PAGE: u64 = 0xfff;

pub(super) fn decode(bytes: &[u8], at: Svma) -> Vec<Decoded> {
    let decoder = InstDecoder::default();
    let words = bytes.chunks(LEN).enumerate();
    let decoded = words.map(|(position, word)| one(&decoder, word, at.wrapping_add((LEN * position) as u64)));
    decoded.collect()
}

fn one(decoder: &InstDecoder, bytes: &[u8], at: Svma) -> Decoded {
    let plain = |text| Decoded { at, len: bytes.len(), text, target: None, is_call: false, names: None };
    let Ok(word) = <[u8; LEN]>::try_from(bytes) else { return plain(data(bytes)) };
    let found = decoder.decode(&mut U8Reader::new(bytes)).ok().filter(|it| it.opcode != Opcode::Invalid);
    let Some(instruction) = found else {
        return plain(format!(".inst  {:#010x}", u32::from_le_bytes(word)));
    };
    let address = address(&instruction, at);
    let text = instruction.to_string();
    // The decoder does not know where the instruction is, and writes addresses as distances: `$+0x48`.
    let text = match (text.split_once('$'), address) {
        (Some((before, _)), Some(address)) => format!("{before}{:#x}", address.0),
        _ => text,
    };
    let is_call = matches!(
        instruction.opcode,
        Opcode::BL | Opcode::BLR | Opcode::BLRAA | Opcode::BLRAAZ | Opcode::BLRAB | Opcode::BLRABZ
    );
    let is_data =
        matches!(instruction.opcode, Opcode::ADR | Opcode::ADRP | Opcode::LDR | Opcode::LDRSW | Opcode::PRFM);
    let text = match text.split_once(' ') {
        Some((mnemonic, operands)) => format!("{mnemonic:<6} {operands}"),
        None => text,
    };
    let (target, names) = if is_data { (None, address) } else { (address, None) };
    Decoded { target, is_call, names, ..plain(text) }
}

/// Returns the address that an instruction names as a distance; of `adrp`, the page.
fn address(instruction: &Instruction, at: Svma) -> Option<Svma> {
    let distance = instruction.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(distance) => Some(*distance),
        _ => None,
    })?;
    let from = if instruction.opcode == Opcode::ADRP { at.0 & !IN_PAGE } else { at.0 };
    Some(Svma(from.wrapping_add_signed(distance)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of(word: u32) -> Decoded {
        decode(&word.to_le_bytes(), Svma(0x1010)).remove(0)
    }

    #[test]
    fn text_is_as_objdump_writes_it() {
        for (word, text) in [
            (0x2a01_03e8, "mov    w8, w1"),
            (0xf100_083f, "cmp    x1, #0x2"),
            (0xd65f_03c0, "ret"),
            (0x9400_0009, "bl     0x1034"),
            (0x5400_0041, "b.ne   0x1018"),
            (0x3717_ffe1, "tbnz   w1, #0x2, 0x100c"),
            (0xb000_0009, "adrp   x9, 0x2000"),
            (0x1000_0029, "adr    x9, 0x1014"),
            (0x8540_0000, ".inst  0x85400000"),
        ] {
            assert_eq!(one_of(word).text, text, "{word:#x}");
        }
    }

    #[test]
    fn calls_and_jumps_have_targets_and_data_has_none() {
        let of = |word| {
            let Decoded { target, is_call, names, .. } = one_of(word);
            (target, is_call, names)
        };
        assert_eq!(of(0x9400_0009), (Some(Svma(0x1034)), true, None));
        assert_eq!(of(0xd63f_0100), (None, true, None), "blr x8");
        assert_eq!(of(0x5400_0041), (Some(Svma(0x1018)), false, None));
        assert_eq!(of(0xb000_0009), (None, false, Some(Svma(0x2000))));
        assert_eq!(decode(&[1, 2], Svma(0))[0].text, ".byte 0x01,0x02");
    }
}
