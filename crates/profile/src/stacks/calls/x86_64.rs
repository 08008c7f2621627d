//! Decodes instructions of x86-64: calls before return addresses, and where control goes after an instruction.

use icecore_elf::Svma;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::{Goes, Step};

/// `push`, `call` and `jmp` through a register or memory, by the middle bits of the next byte.
const INDIRECT: u8 = 0xff;
/// `mov $15, %rax; syscall`: how code comes back from a signal; 15 is `rt_sigreturn`.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// A `pushf` counts as the beginning of a function within so many bytes.
const BEGIN: usize = 8;

/// Returns true if signal handlers return to this code.
pub(super) fn is_signal_return(code: &[u8]) -> bool {
    code.starts_with(&SIGNAL_RETURN)
}

/// Returns true if a function saves the flags first: nobody calls such a function, it was injected into an interrupted thread.
pub(super) fn keeps_flags(code: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, &code[..code.len().min(BEGIN)], DecoderOptions::NONE);
    decoder.iter().any(|instruction| matches!(instruction.mnemonic(), Mnemonic::Pushfq | Mnemonic::Pushf))
}

/// Returns true if these bytes may end with a jump or return, so that control does not run on after them.
pub(super) fn ends_block(code: &[u8]) -> bool {
    // Go puts the address after a `nop` at the beginning of `goexit`.
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

/// Finds where control goes after an instruction; `last` is the instruction before it.
pub(super) fn step(instruction: &Instruction, last: Option<&Instruction>) -> Step {
    let target = || match instruction.op0_kind() {
        OpKind::NearBranch64 => Some(Svma(instruction.near_branch_target())),
        _ => None,
    };
    let goes = match instruction.flow_control() {
        FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => Goes::On,
        FlowControl::UnconditionalBranch => target().map_or(Goes::Anywhere, Goes::To),
        FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
            target().map_or(Goes::On, Goes::OnOrTo)
        }
        // The return goes to the address that was just pushed.
        FlowControl::Return if last.is_some_and(writes_top) => Goes::Anywhere,
        FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int => Goes::On,
        FlowControl::Return | FlowControl::Exception | FlowControl::Interrupt => Goes::Nowhere,
        FlowControl::IndirectBranch => Goes::Anywhere,
    };
    Step { next: Svma(instruction.next_ip()), goes }
}

/// Returns true if a function begins by replacing or dropping its return address: the call of such a function is a jump.
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

    #[test]
    fn jumps_lead_on_and_returns_do_not() {
        let go = |bytes: &[u8]| step(&decode(bytes, 0x1000).expect("sound"), None).goes;
        assert_eq!(go(&[0xeb, 0x10]), Goes::To(Svma(0x1012)));
        assert_eq!(go(&[0x0f, 0x84, 0, 1, 0, 0]), Goes::OnOrTo(Svma(0x1106)));
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
