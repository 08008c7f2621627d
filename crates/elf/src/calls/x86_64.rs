//! Call instructions of x86-64.

use super::Before;

/// The length of the longest call through memory without its prefixes: `ff`, ModRM, SIB, 4 bytes of displacement.
const MAX_CALL_LEN: usize = 7;
/// The opcode of `call` with a distance of 4 bytes.
const CALL: u8 = 0xe8;
/// The opcode of `push`, `call` and `jmp` through a register or memory; the middle bits of the next byte say which.
const INDIRECT: u8 = 0xff;
const CALL_INDIRECT: u8 = 2;

/// Decodes the calls that may end where `code` ends, at the return address.
///
/// Instructions have no fixed length: the same bytes can end with a direct call and with an indirect one. Both are returned then.
pub fn before(code: &[u8], return_address: u64) -> Before {
    let direct = code.last_chunk::<5>().filter(|call| call[0] == CALL).map(|call| {
        let distance = i32::from_le_bytes([call[1], call[2], call[3], call[4]]);
        return_address.wrapping_add_signed(distance.into())
    });
    let is_indirect = (2..=MAX_CALL_LEN.min(code.len())).any(|len| {
        let call = &code[code.len() - len..];
        call[0] == INDIRECT && call[1] >> 3 & 7 == CALL_INDIRECT && indirect_len(call) == len
    });
    Before { direct, is_indirect }
}

/// Computes the length of an instruction with one opcode byte and a ModRM byte.
fn indirect_len(bytes: &[u8]) -> usize {
    let (mode, base) = (bytes[1] >> 6, bytes[1] & 7);
    let has_index = mode != 3 && base == 4;
    let base = if has_index { bytes.get(2).map_or(0, |index| index & 7) } else { base };
    let distance = match mode {
        0 if base == 5 => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    2 + usize::from(has_index) + distance
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Before {
        before(bytes, 0x1000)
    }

    #[test]
    fn a_direct_call_tells_whom_it_calls() {
        assert_eq!(of(&[0x90, 0xe8, 0x10, 0, 0, 0]).direct, Some(0x1010));
        assert_eq!(of(&[0x66, 0x66, 0x48, 0xe8, 0xf0, 0xff, 0xff, 0xff]).direct, Some(0xff0));
        assert_eq!(of(&[0xe8, 0x10, 0, 0]), Before { direct: None, is_indirect: false }, "torn");
    }

    #[test]
    fn calls_through_registers_and_memory_are_told_in_every_form() {
        for bytes in [
            &[0xff, 0xd0][..],                     // call *%rax
            &[0x41, 0xff, 0xd3],                   // call *%r11
            &[0xff, 0x10],                         // call *(%rax)
            &[0xff, 0x14, 0xd8],                   // call *(%rax,%rbx,8)
            &[0xff, 0x50, 0x18],                   // call *0x18(%rax)
            &[0xff, 0x54, 0x24, 0x08],             // call *8(%rsp)
            &[0xff, 0x15, 1, 2, 3, 4],             // call *(%rip)
            &[0xff, 0x90, 1, 2, 0, 0],             // call *0x201(%rax)
            &[0xff, 0x14, 0x25, 1, 2, 3, 4],       // call *0x4030201
            &[0x41, 0xff, 0x94, 0x24, 1, 2, 0, 0], // call *0x201(%r12)
            &[0x3e, 0xff, 0xd0],                   // notrack call *%rax
            &[0x67, 0xff, 0x13],                   // addr32 call *(%ebx)
        ] {
            let before = of(&[&[0x90; 7], bytes].concat());
            assert!(before.is_indirect, "{bytes:x?}");
        }
    }

    #[test]
    fn what_is_no_call_is_none() {
        for bytes in [
            &[0xff, 0xe0][..],         // jmp *%rax
            &[0xff, 0x25, 1, 2, 3, 4], // jmp *(%rip)
            &[0xff, 0x75, 0x10],       // push 0x10(%rbp)
            &[0xff, 0xd0, 0x90],       // a nop after a call
            &[0xff, 0x15, 1, 2, 3],    // torn
            &[0xc3],
            &[0x90; 8],
        ] {
            assert_eq!(of(bytes), Before { direct: None, is_indirect: false }, "{bytes:x?}");
        }
    }
}
