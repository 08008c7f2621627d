//! Names the stubs by which code calls functions of other files, as objdump does: `memcpy@plt`.
//!
//! ```text
//! call memcpy@plt ─► stub: jump to what the slot says ─► slot, filled by the loader as a relocation tells ─► memcpy
//! ```
//!
//! No symbol covers a stub. The instructions of a stub show its slot; the relocation of the slot names the symbol.

use std::borrow::Cow;
use std::collections::BTreeMap;

use object::Endian as _;
use object::read::ReadRef;

use crate::{Layout, Machine, Section, Svma, Symbol, relocations};

/// The suffix of the name of a PLT stub.
pub const SUFFIX: &str = "@plt";

/// The prefix of the names of sections that hold PLT stubs.
const SECTIONS: &[u8] = b".plt";
/// The section whose stubs are short, because they cannot be filled late.
const SHORT: &[u8] = b".plt.got";
/// Bytes of a short and of an ordinary stub of x86-64.
const LENS: [usize; 2] = [8, 16];
/// The largest section of stubs that is read, bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Relocations of slots: those that may be filled late, and those that are not.
const RELOCATIONS: [&str; 2] = [".rela.plt", ".rela.dyn"];
/// Bytes of a symbol; its name is in the first four.
const SYMBOL_LEN: u64 = 24;
/// The longest name that is kept, bytes.
const MAX_NAME_BYTES: usize = 4 << 10;

/// x86-64: `endbr64`; `bnd`, or `mov` of a number to r11, before `jmp *slot(%rip)`.
const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
const BND: &[u8] = &[0xf2];
const MOV_R11D: &[u8] = &[0x41, 0xbb];
const JMP_RIP: &[u8] = &[0xff, 0x25];
/// aarch64: `bti c`; then `adrp x16, page`, `ldr x17, [x16, #offset]`; the bits that are always so.
const BTI_C: u32 = 0xd503_245f;
const ADRP_X16: (u32, u32) = (0x9f00_001f, 0x9000_0010);
const LDR_X17_X16: (u32, u32) = (0xffc0_03ff, 0xf940_0211);
/// The longest stub of aarch64 has six instructions.
const MAX_STUB_WORDS: usize = 6;

/// A stub, and the address of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stub {
    /// Where it begins among the bytes of its section.
    off: usize,
    /// 0: not known.
    len: u64,
    slot: u64,
}

/// Reports whether a section holds stubs.
pub fn is_stubs(section: &Section) -> bool {
    section.is_executable && section.name.starts_with(SECTIONS)
}

/// Finds the stubs around addresses, which ascend; of x86-64 and aarch64. Their names are those of the functions that they call, without
/// [`SUFFIX`].
///
/// # Cost   nothing if no address is in a section of stubs; else one pass over the relocations
pub fn around<'d>(file: impl ReadRef<'d>, layout: &Layout, at: &[Svma]) -> Vec<Option<Symbol<'d>>> {
    let mut stubs: Vec<Option<(Svma, Stub)>> = vec![None; at.len()];
    for section in layout.sections.iter().filter(|section| is_stubs(section) && section.len <= MAX_BYTES) {
        let first = at.partition_point(|at| *at < section.at);
        let count = at[first..].partition_point(|at| at.0 - section.at.0 < section.len);
        let Some(bytes) = (count > 0).then(|| layout.bytes_of(section, file)).flatten() else { continue };
        for position in first..first + count {
            let off = (at[position].0 - section.at.0) as usize;
            let stub = match Machine::of_elf(layout.machine.0) {
                Some(Machine::X86_64) => x86_64(bytes, off, section.at.0, section.name == SHORT),
                Some(Machine::Aarch64) => aarch64(bytes, off, section.at.0),
                None => None,
            };
            stubs[position] = stub.map(|stub| (Svma(section.at.0.wrapping_add(stub.off as u64)), stub));
        }
    }
    let names = names(file, layout, stubs.iter().flatten().map(|(_, stub)| (stub.slot, None)).collect());
    let symbol = |(start, Stub { len, slot, .. })| {
        let name = names.get(&slot)?.clone()?;
        Some(Symbol::new(start, len, name))
    };
    stubs.into_iter().map(|stub| stub.and_then(symbol)).collect()
}

/// The stub around an offset; `at`: the address of the first byte.
fn x86_64(bytes: &[u8], off: usize, at: u64, is_short: bool) -> Option<Stub> {
    let [short, ordinary] = LENS;
    // With `endbr64`, short ones have 16 bytes as well.
    let lens = if is_short { [short, ordinary] } else { [ordinary, short] };
    lens.into_iter().find_map(|len| {
        let begin = off - off % len;
        let stub = bytes.get(begin..)?;
        let stub = &stub[..stub.len().min(len)];
        let mut rest = stub.strip_prefix(ENDBR64).unwrap_or(stub);
        rest = rest.strip_prefix(BND).unwrap_or(rest);
        if let Some(behind) = rest.strip_prefix(MOV_R11D) {
            rest = behind.get(4..)?;
        }
        let (distance, behind) = rest.strip_prefix(JMP_RIP)?.split_first_chunk()?;
        let next = at.wrapping_add((begin + stub.len() - behind.len()) as u64);
        let slot = next.wrapping_add_signed(i32::from_le_bytes(*distance).into());
        Some(Stub { off: begin, len: stub.len() as u64, slot })
    })
}

/// The same of aarch64, where stubs of several lengths may stand in one section. Code is little-endian, whatever data is.
fn aarch64(bytes: &[u8], off: usize, at: u64) -> Option<Stub> {
    let (words, _) = bytes.as_chunks::<4>();
    let word = |position: usize| words.get(position).map(|word| u32::from_le_bytes(*word));
    let is = |position, (mask, bits): (u32, u32)| word(position).is_some_and(|word| word & mask == bits);
    let asked = off / 4;
    let first = if word(asked) == Some(BTI_C) { asked + 1 } else { asked };
    let mut before = (first.saturating_sub(MAX_STUB_WORDS - 1)..=first).rev();
    let adrp = before.find(|position| is(*position, ADRP_X16)).filter(|adrp| is(adrp + 1, LDR_X17_X16))?;
    // A distance of 21 bits in pages, the lowest two apart; then an offset of 12 bits in units of 8.
    let (page, offset) = (word(adrp)?, word(adrp + 1)? >> 10 & 0xfff);
    let pages = (page >> 5 & 0x7_ffff) << 2 | page >> 29 & 3;
    let distance = i64::from((pages << 11) as i32 >> 11) << 12;
    let from = at.wrapping_add(4 * adrp as u64) & !0xfff;
    let slot = from.wrapping_add_signed(distance).wrapping_add(u64::from(offset) * 8);
    let is_marked = adrp.checked_sub(1).and_then(word) == Some(BTI_C);
    Some(Stub { off: 4 * (adrp - usize::from(is_marked)), len: 0, slot })
}

type Names<'d> = BTreeMap<u64, Option<Cow<'d, [u8]>>>;

/// Reads the names of functions by the slots that the loader writes their addresses to.
fn names<'d>(file: impl ReadRef<'d>, layout: &Layout, mut names: Names<'d>) -> Names<'d> {
    let symbols = layout.section(".dynsym").and_then(|section| layout.bytes_of(section, file));
    let texts = layout.section(".dynstr").filter(|texts| !texts.is_nobits);
    let name = |index: u32| {
        let at = usize::try_from(u64::from(index) * SYMBOL_LEN).ok()?;
        let off = layout.endian.read_u32(*symbols?.get(at..)?.first_chunk()?);
        let begin = texts?.off.0.checked_add(off.into())?;
        let end = texts?.off.0.checked_add(texts?.len)?;
        let name = file.read_bytes_at_until(begin..end.max(begin), 0).ok()?;
        (1..=MAX_NAME_BYTES).contains(&name.len()).then_some(Cow::Borrowed(name))
    };
    let mut open = names.len();
    for section in RELOCATIONS {
        for relocation in relocations::of(file, layout, section) {
            if open == 0 {
                return names;
            }
            if let Some(known @ None) = names.get_mut(&relocation.place.0) {
                *known = match relocation.symbol {
                    // A function that is chosen when the program is loaded.
                    0 => Some(format!("*ABS*+{:#x}", relocation.addend).into_bytes().into()),
                    index => name(index),
                };
                open -= usize::from(known.is_some());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_of_x86_64_are_read_whatever_linker_made_them() {
        let jump = [0xff, 0x25, 0x00, 0x01, 0, 0];
        let lazy = [&jump[..], &[0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0]].concat();
        let branch_tracked = [ENDBR64, BND, &jump, &[0; 5]].concat();
        let numbered = [ENDBR64, MOV_R11D, &[7, 0, 0, 0], &jump].concat();
        let short = [&jump[..], &[0x66, 0x90]].concat();
        for (stub, jump_len) in [(lazy, 6), (branch_tracked, 11), (numbered, 16), (short, 6)] {
            let two = stub.repeat(2);
            for off in 0..two.len() {
                let begin = off - off % stub.len();
                let slot = 0x1000 + begin as u64 + jump_len + 0x100;
                let expected = Some(Stub { off: begin, len: stub.len() as u64, slot });
                assert_eq!(x86_64(&two, off, 0x1000, stub.len() == 8), expected, "{stub:x?} {off}");
            }
        }
        assert_eq!(x86_64(&[0xff; 32], 4, 0x1000, false), None);
        assert_eq!(x86_64(&[0xff, 0x25, 1], 0, 0x1000, false), None, "torn");
    }

    #[test]
    fn short_stubs_of_branch_protection_are_as_long_as_others() {
        let stub = [ENDBR64, JMP_RIP, &[0, 1, 0, 0], &[0x66, 0x0f, 0x1f, 0x44, 0, 0]].concat();
        let two = stub.repeat(2);
        for off in 0..two.len() {
            let begin = off / 16 * 16;
            let expected = Stub { off: begin, len: 16, slot: 0x1000 + begin as u64 + 10 + 0x100 };
            assert_eq!(x86_64(&two, off, 0x1000, true), Some(expected), "{off}");
        }
    }

    #[test]
    fn stubs_of_aarch64_are_read_with_and_without_branch_protection() {
        let code = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        // adrp x16, +0x1f000; ldr x17, [x16, #0xfa8]; add x16, x16, #0xfa8; br x17
        let plain = [0xf000_00f0, 0xf947_d611, 0x913e_a210, 0xd61f_0220];
        let slot = 0x1_0000 + 0x1_f000 + 0xfa8;
        let marked = [&[BTI_C][..], &plain, &[0xd503_201f]].concat();
        for stub in [code(&plain), code(&marked)] {
            let two = stub.repeat(2);
            for off in 0..two.len() {
                let expected = Stub { off: off - off % stub.len(), len: 0, slot };
                assert_eq!(aarch64(&two, off, 0x1_0200), Some(expected), "{off}");
            }
        }
        assert_eq!(aarch64(&code(&[0x90ff_fff0, 0xf940_0211]), 0, 0x5008).map(|it| it.slot), Some(0x1000));
        assert_eq!(aarch64(&code(&[0; 8]), 16, 0), None);
    }
}
