//! Instructions of x86-64: calls in front of return addresses, and where an instruction goes on.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::{Before, Goes, Step};

/// The longest call through memory, without prefixes: `ff`, how memory is addressed, 4 bytes of distance.
const MAX_CALL_LEN: usize = 7;
/// `call` with a distance of 4 bytes.
const CALL: u8 = 0xe8;
/// `push`, `call` and `jmp` through a register or memory, by the middle bits of the next byte.
const INDIRECT: u8 = 0xff;
const CALL_INDIRECT: u8 = 2;
/// `mov $15, %rax; syscall`: how code comes back from a signal; 15 is `rt_sigreturn`.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// So many bytes of a function hold a `pushf` that stands at its beginning.
const BEGIN: usize = 8;

/// Finds the calls that may end where these bytes end, which is the return address.
///
/// Instructions have no fixed length, so that bytes can be read as several of them: both are told then.
pub(super) fn before(code: &[u8], return_address: u64) -> Before {
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

/// The length of an instruction of one opcode byte that takes a register or memory; 0 if it is torn.
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

/// Tells whether code is what signal handlers return to.
pub(super) fn is_signal_return(code: &[u8]) -> bool {
    code.starts_with(&SIGNAL_RETURN)
}

/// Tells whether a function keeps the flags first: it was not called, but put in the way of a thread that was interrupted.
pub(super) fn keeps_flags(code: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, &code[..code.len().min(BEGIN)], DecoderOptions::NONE);
    decoder.iter().any(|instruction| matches!(instruction.mnemonic(), Mnemonic::Pushfq | Mnemonic::Pushf))
}

/// Tells whether these bytes may end with a jump or return, behind which control does not go on.
pub(super) fn ends_block(code: &[u8]) -> bool {
    // Go puts the address behind a `nop` at the beginning of `goexit`.
    let code = code.strip_suffix(&[0x90]).unwrap_or(code);
    let at = |back: usize| code.len().checked_sub(back).map(|at| code[at]);
    let is_jump = at(2) == Some(INDIRECT) && at(1).is_some_and(|byte| byte >> 3 & 7 == 4);
    matches!(at(1), Some(0xc3 | 0xf4 | 0xcc)) || at(2) == Some(0xeb) || at(5) == Some(0xe9) || is_jump
}

/// Decodes the instruction at an address.
pub(super) fn decode(code: &[u8], at: u64) -> Option<Instruction> {
    let instruction = Decoder::with_ip(64, &code[..code.len().min(15)], at, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// Where it goes on behind an instruction; `last` is the one in front of it.
pub(super) fn step(instruction: &Instruction, last: Option<&Instruction>) -> Step {
    let target = || match instruction.op0_kind() {
        OpKind::NearBranch64 => Some(instruction.near_branch_target()),
        _ => None,
    };
    let goes = match instruction.flow_control() {
        FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => Goes::On,
        FlowControl::UnconditionalBranch => target().map_or(Goes::Anywhere, Goes::To),
        FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
            target().map_or(Goes::On, Goes::OnOrTo)
        }
        // What was just put on the stack is where it goes to.
        FlowControl::Return if last.is_some_and(writes_top) => Goes::Anywhere,
        FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int => Goes::On,
        FlowControl::Return | FlowControl::Exception | FlowControl::Interrupt => Goes::Nowhere,
        FlowControl::IndirectBranch => Goes::Anywhere,
    };
    Step { next: instruction.next_ip(), goes }
}

/// Tells whether a function first of all replaces its return address, or drops it: the call that leads to it is a jump.
pub(super) fn takes_return_address(code: &[u8]) -> bool {
    decode(code, 0).is_some_and(|first| match first.mnemonic() {
        Mnemonic::Push => false,
        Mnemonic::Pop => true,
        // `lea 8(%rsp), %rsp`
        Mnemonic::Lea => [first.op0_register(), first.memory_base()] == [Register::RSP; 2],
        Mnemonic::Add => first.op0_register() == Register::RSP,
        _ => writes_top(&first),
    })
}

fn writes_top(instruction: &Instruction) -> bool {
    let is_top = instruction.op0_kind() == OpKind::Memory
        && instruction.memory_base() == Register::RSP
        && instruction.memory_displacement64() == 0;
    instruction.mnemonic() == Mnemonic::Push
        || is_top && matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Xchg)
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
            &[0xff, 0xd0, 0x90],       // a nop behind a call
            &[0xff, 0x15, 1, 2, 3],    // torn
            &[0xc3],
            &[0x90; 8],
        ] {
            assert_eq!(of(bytes), Before { direct: None, is_indirect: false }, "{bytes:x?}");
        }
    }

    #[test]
    fn jumps_lead_on_and_returns_do_not() {
        let go = |bytes: &[u8]| step(&decode(bytes, 0x1000).expect("sound"), None).goes;
        assert_eq!(go(&[0xeb, 0x10]), Goes::To(0x1012));
        assert_eq!(go(&[0x0f, 0x84, 0, 1, 0, 0]), Goes::OnOrTo(0x1106));
        assert_eq!(go(&[0xff, 0xe0]), Goes::Anywhere);
        assert_eq!(go(&[0xe8, 0, 1, 0, 0]), Goes::On);
        assert_eq!(go(&[0x0f, 0x05]), Goes::On, "syscall");
        assert_eq!(go(&[0x0f, 0x0b]), Goes::Nowhere, "ud2");
        assert_eq!(go(&[0xc3]), Goes::Nowhere);
        let push = decode(&[0x50], 0x1000);
        assert_eq!(step(&decode(&[0xc3], 0x1001).expect("sound"), push.as_ref()).goes, Goes::Anywhere);
    }

    #[test]
    fn code_that_signals_run_through_is_known_by_its_bytes() {
        assert!(is_signal_return(&[&SIGNAL_RETURN[..], &[0x90; 4]].concat()) && !is_signal_return(&[0x48]));
        assert!(keeps_flags(&[0x55, 0x48, 0x89, 0xe5, 0x9c, 0x90, 0x90, 0x90]));
        assert!(!keeps_flags(&[0x55, 0x48, 0x89, 0xe5, 0x90, 0x90, 0x90, 0x90, 0x9c]));
    }
}
