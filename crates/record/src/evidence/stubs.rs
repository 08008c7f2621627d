//! Names the stubs by which code calls functions of other files: `memcpy@plt`.
//!
//! ```text
//! call memcpy@plt ─► stub: jump to what the slot says ─► slot, filled by the loader as a relocation tells ─► memcpy
//! ```

use object::Endianness;
use object::elf::{self, Rela64};
use object::read::ReadRef;
use object::read::elf::{Rela as _, SectionHeader as _};
use rustc_hash::FxHashMap;

use icecore_elf::{Svma, Symbol};

use super::elf_file::{ElfFile, MAX_NAME_BYTES};
use super::functions::Found;

/// What is behind each name of a stub.
const SUFFIX: &[u8] = b"@plt";
/// Sections of relocations of slots: those that may be filled late, and those that are not.
const RELOCATIONS: [&str; 2] = [".rela.plt", ".rela.dyn"];
/// The largest section of stubs that is read, bytes.
const MAX_STUBS_BYTES: u64 = 4 << 20;
/// Bytes of a stub of x86-64; the shorter ones have no way to be filled late.
const STUB_LENS: [usize; 2] = [8, 16];
/// What may be in front of the jump: `endbr64`, then `bnd`, or a number for r11d.
const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
const BND: &[u8] = &[0xf2];
const MOV_R11D: &[u8] = &[0x41, 0xbb];
/// `jmp *slot(%rip)`.
const JMP_RIP: &[u8] = &[0xff, 0x25];
/// aarch64: `adrp x16, page`, `ldr x17, [x16, #offset]`; the bits that are always so.
const ADRP_X16: (u32, u32) = (0x9f00_001f, 0x9000_0010);
const LDR_X17_X16: (u32, u32) = (0xffc0_03ff, 0xf940_0211);
/// What begins a stub of aarch64 if branches are protected, and how many instructions the longest has.
const BTI_C: u32 = 0xd503_245f;
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

/// Finds the stubs around addresses, which ascend; of x86-64 and aarch64.
pub(super) fn around<'d>(file: impl ReadRef<'d>, at: &[Svma]) -> Found<'d> {
    let elf = ElfFile::read(file)?;
    let endian = elf.endian;
    let mut stubs: Vec<Option<(u64, Stub)>> = vec![None; at.len()];
    for section in elf.sections.iter() {
        let (begin, len) = (section.sh_addr(endian), section.sh_size(endian));
        let is_code = section.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 != 0;
        let name = elf.sections.section_name(endian, section).unwrap_or_default();
        if !is_code || !name.starts_with(b".plt") || len > MAX_STUBS_BYTES {
            continue;
        }
        let first = at.partition_point(|at| at.0 < begin);
        let count = at[first..].partition_point(|at| at.0 - begin < len);
        if count == 0 {
            continue;
        }
        let Ok(bytes) = section.data(endian, file) else { continue };
        for position in first..first + count {
            let off = (at[position].0 - begin) as usize;
            let stub = match elf.machine {
                elf::EM_X86_64 => x86_64(bytes, off, begin),
                elf::EM_AARCH64 => aarch64(bytes, off, begin),
                _ => None,
            };
            stubs[position] = stub.map(|stub| (begin.wrapping_add(stub.off as u64), stub));
        }
    }
    let slots: FxHashMap<u64, Vec<u8>> =
        stubs.iter().flatten().map(|(_, stub)| (stub.slot, Vec::new())).collect();
    let names = names(&elf, slots);
    let around = stubs.into_iter().map(|stub| {
        let (start, Stub { len, slot, .. }) = stub?;
        let name = names.get(&slot).filter(|name| !name.is_empty())?.clone();
        Some(Symbol { start: Svma(start), len, name: name.into() })
    });
    Some(around.collect())
}

/// The stub around an offset; `at`: the address of the first byte.
fn x86_64(bytes: &[u8], off: usize, at: u64) -> Option<Stub> {
    STUB_LENS.into_iter().find_map(|len| {
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

/// The same of aarch64, where stubs of several lengths may stand in one section.
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

/// Reads the names of functions by the slots that the loader writes their addresses to.
fn names<'d, R: ReadRef<'d>>(
    elf: &ElfFile<'d, R>,
    mut names: FxHashMap<u64, Vec<u8>>,
) -> FxHashMap<u64, Vec<u8>> {
    let symbols = elf.symbols(elf::SHT_DYNSYM).unwrap_or_default();
    let name = |row: &Rela64<Endianness>| match row.symbol(elf.endian, false) {
        // A function that is chosen when the program is loaded.
        None => Some(format!("*ABS*+{:#x}", row.r_addend(elf.endian)).into_bytes()),
        Some(index) => {
            let name = symbols.symbol(index).and_then(|row| symbols.symbol_name(elf.endian, row)).ok()?;
            (1..=MAX_NAME_BYTES).contains(&name.len()).then(|| name.to_vec())
        }
    };
    let mut open = names.len();
    for section in RELOCATIONS {
        if open == 0 {
            break;
        }
        for row in elf.relocations(section) {
            if let Some(known) = names.get_mut(&row.r_offset(elf.endian)).filter(|known| known.is_empty())
                && let Some(name) = name(row)
            {
                *known = [&name[..], SUFFIX].concat();
                open -= 1;
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
                // Of a stub that is longer than its jump, the second half may look like nothing at all.
                let expected = Some(Stub { off: begin, len: stub.len() as u64, slot });
                assert_eq!(
                    x86_64(&two, off, 0x1000).map(|it| (it.off, it.slot)),
                    Some((begin, slot)),
                    "{stub:x?} {off}"
                );
                assert!(x86_64(&two, off, 0x1000).is_some_and(|it| Some(it) == expected || it.len == 8));
            }
        }
        assert_eq!(x86_64(&[0xff; 32], 4, 0x1000), None);
        assert_eq!(x86_64(&[0xff, 0x25, 1], 0, 0x1000), None, "torn");
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
