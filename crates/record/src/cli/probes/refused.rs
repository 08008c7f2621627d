//! Instructions on which there must be no probe, because the kernel cannot execute them away from their place.
//!
//! Most of them it refuses. Others it executes wrongly: it takes vector instructions for the jumps, calls and NOPs that have the same
//! opcodes without a prefix, and skips them, so that a probe on `vpor` or `vpbroadcastb` changes the results of the program.
//!
//! The kernel refuses such a probe at once if a process has the file in memory. Otherwise it refuses when a process maps the file, and
//! reports this to nobody: the probe is never hit. So the recorder decodes the instructions before.

use std::ops::RangeInclusive;

/// The longest instruction, bytes.
pub(super) const MAX_BYTES: u64 = 15;

/// Operands have 16 bits.
const SHORT: u8 = 0x66;
/// `lock`, and the segments that mean nothing in 64-bit code.
const REFUSED_PREFIXES: [u8; 5] = [0x26, 0x2e, 0x36, 0x3e, 0xf0];
/// FS, GS, operands, addresses, repetitions.
const OTHER_PREFIXES: [u8; 6] = [0x64, 0x65, SHORT, 0x67, 0xf2, 0xf3];
/// Opcodes of one byte: those that 64-bit code does not have, and those that only the kernel may use. The kernel also looks up the
/// opcodes after VEX and EVEX prefixes here: it refuses `vmovdqu` (6f) as if it were `outs`.
const REFUSED: [RangeInclusive<u8>; 21] = [
    0x06..=0x07,
    0x0e..=0x0e,
    0x16..=0x17,
    0x1e..=0x1f,
    0x27..=0x27,
    0x2f..=0x2f,
    0x37..=0x37,
    0x3f..=0x3f,
    0x60..=0x62,
    0x6c..=0x6f,
    0x82..=0x82,
    0x9a..=0x9a,
    0xcc..=0xcf,
    0xd4..=0xd4,
    0xd6..=0xd6,
    0xe4..=0xe7,
    0xea..=0xea,
    0xec..=0xef,
    0xf1..=0xf1,
    0xf4..=0xf4,
    0xfa..=0xfb,
];

/// Returns true for opcodes after VEX and EVEX prefixes that the kernel takes for a jump, a call or a NOP.
fn is_mistaken(opcode: u8) -> bool {
    matches!(opcode, 0x70..=0x7f | 0x90 | 0xe8 | 0xe9 | 0xeb)
}

/// Returns true if there must be no probe on the instruction with which `code` begins. Instructions that the kernel cannot decode are
/// not all known here: it refuses those when the probe is attached.
///
/// # Source   Linux, arch/x86/kernel/uprobes.c; the answers of Linux 6.18 to 7,433 instructions, and what programs compute with probes
/// on vector instructions (tests/programs/locked.c)
pub(super) fn is_refused(code: &[u8]) -> bool {
    let is_prefix = |byte: &u8| REFUSED_PREFIXES.contains(byte) || OTHER_PREFIXES.contains(byte);
    let opcode_at = code.iter().position(|byte| !is_prefix(byte)).unwrap_or(code.len());
    let (prefixes, code) = code.split_at(opcode_at);
    let is_short = prefixes.contains(&SHORT);
    let is_in_table = |opcode: &u8| REFUSED.iter().any(|range| range.contains(opcode));
    prefixes.iter().any(|prefix| REFUSED_PREFIXES.contains(prefix))
        || match code {
            // VEX of two and three bytes, EVEX
            [0xc5, _, opcode, ..] | [0xc4, _, _, opcode, ..] | [0x62, _, _, _, opcode, ..] => {
                is_in_table(opcode) || is_mistaken(*opcode)
            }
            // REX stands before the opcode.
            [0x40..=0x4f, rest @ ..] => {
                is_refused_opcode(rest, is_short) || rest.first().is_some_and(is_in_table)
            }
            rest => is_refused_opcode(rest, is_short) || rest.first().is_some_and(is_in_table),
        }
}

/// Returns true for jumps and calls over distances of 16 bits, which processors understand differently, and for what loads SS: no
/// interrupt comes after it.
fn is_refused_opcode(code: &[u8], is_short: bool) -> bool {
    match code {
        [0x70..=0x7f | 0xe8 | 0xe9 | 0xeb, ..] | [0x0f, 0x80..=0x8f, ..] => is_short,
        [0x8e, operands, ..] => operands >> 3 & 7 == 2,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_instructions_are_judged_as_the_kernel_does() {
        for (code, expected) in [
            (&[0xf0, 0x83, 0x07, 0x01][..], true), // lock addl $1,(%rdi)
            (&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], true), // cs nopw 0(%rax,%rax,1)
            (&[0x3e, 0xff, 0xe0], true),           // notrack jmp *%rax
            (&[0xf4], true),                       // hlt
            (&[0xcc], true),                       // int3
            (&[0x48, 0xcf], true),                 // iretq
            (&[0xc5, 0xfe, 0x6f, 0x06], true),     // vmovdqu (%rsi),%ymm0
            (&[0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x06], true), // vmovdqu64 (%rsi),%zmm0
            (&[0xc4, 0xe2, 0x7d, 0x17, 0xc0], true), // vptest %ymm0,%ymm0
            (&[0x8e, 0xd0], true),                 // mov %eax,%ss
            (&[0x66, 0xe8, 0, 0], true),           // callw
            (&[0x66, 0x48, 0x0f, 0x84, 0, 0, 0, 0], true), // data16 rex.W je
            (&[0xf3, 0x0f, 0x1e, 0xfa], false),    // endbr64
            (&[0x0f, 0x05], false),                // syscall
            (&[0x66, 0x90], false),                // xchg %ax,%ax
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], false), // mov %fs:0x28,%rax
            (&[0xc5, 0xf8, 0x77], true),           // vzeroupper
            (&[0xc5, 0xf9, 0x74, 0x06], true),     // vpcmpeqb (%rsi),%xmm0,%xmm0
            (&[0xc5, 0xf9, 0xeb, 0xc1], true),     // vpor %xmm1,%xmm0,%xmm0
            (&[0x62, 0xe2, 0x7d, 0x28, 0x7a, 0xc6], true), // vpbroadcastb %esi,%ymm16
            (&[0xc5, 0xf8, 0x57, 0xc0], false),    // vxorps %xmm0,%xmm0,%xmm0
            (&[0x66, 0x0f, 0xeb, 0xc1], false),    // por %xmm1,%xmm0
            (&[0x55], false),                      // push %rbp
            (&[0x41, 0x57], false),                // push %r15
            (&[0x8e, 0xd8], false),                // mov %eax,%ds
            (&[0xe8, 0, 0, 0, 0], false),          // call
            (&[0x66], false),                      // torn
            (&[], false),
        ] {
            assert_eq!(is_refused(code), expected, "{code:x?}");
        }
    }
}
