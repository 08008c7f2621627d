//! Names the stubs by which code calls functions of other files: `memcpy@plt`, as objdump does.
//!
//! ```text
//! call memcpy@plt ─► stub: jump to what the slot says ─► slot, filled by the loader as a relocation tells ─► memcpy
//! ```
//!
//! No symbol covers a stub. The instructions in it tell the slot, the relocation of the slot tells the symbol.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::{Endianness, elf};

use super::mangled::STUB;
use super::relocations;
use super::strings::Strings;
use crate::image::{ElfFile, Layout, Section, Svma};

/// Sections of stubs, and bytes from one to the next; how instructions are counted on x86-64.
const SECTIONS: [(&str, u64); 4] = [(".plt", 16), (".plt.sec", 16), (".plt.bnd", 16), (".plt.got", 8)];
/// Relocations of slots: those that may be filled late, and those that are not.
const RELOCATIONS: [&str; 2] = [".rela.plt", ".rela.dyn"];
/// Bytes of a symbol; its name is in the first four.
const SYMBOL_LEN: usize = 24;

/// x86-64: `endbr64`; `bnd`, or `mov` of a number to r11, before `jmp *slot(%rip)`.
const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
const BND: &[u8] = &[0xf2];
const MOV_R11D: &[u8] = &[0x41, 0xbb];
const JMP_RIP: &[u8] = &[0xff, 0x25];
/// aarch64: `bti c`; then `adrp x16, page`, `ldr x17, [x16, #offset]`.
const BTI_C: u32 = 0xd503_245f;
const ADRP_X16: (u32, u32) = (0x9f00_001f, 0x9000_0010);
const LDR_X17_X16: (u32, u32) = (0xffc0_03ff, 0xf940_0211);
/// The longest stub of aarch64 has six instructions.
const MAX_STUB_LEN: u64 = 24;

/// Finds the names of the stubs around addresses, which ascend; of x86-64 and aarch64.
///
/// # Cost   nothing if no address is in such a section; else one pass over the relocations
pub(super) fn look_up(
    file: &ElfFile,
    layout: &Layout,
    at: &[Svma],
    strings: &Strings,
) -> Vec<Option<Arc<str>>> {
    let mut slots: Vec<Option<u64>> = vec![None; at.len()];
    for (name, step) in SECTIONS {
        let Some(section) = layout.section(name).filter(|section| section.is_executable) else { continue };
        let first = at.partition_point(|at| *at < section.at);
        let len = at[first..].partition_point(|at| at.0 - section.at.0 < section.len);
        if len == 0 {
            continue;
        }
        let Some(bytes) = file.section_bytes(section) else { continue };
        for position in first..first + len {
            slots[position] = slot(layout.machine, section, &bytes, step, at[position]);
        }
    }
    let mut names: BTreeMap<u64, Option<Arc<str>>> =
        slots.iter().flatten().map(|slot| (*slot, None)).collect();
    if !names.is_empty() {
        read_names(file, layout, strings, &mut names);
    }
    slots.into_iter().map(|slot| names.get(&slot?).cloned().flatten()).collect()
}

/// The slot of the stub around an address.
fn slot(machine: elf::Machine, section: &Section, bytes: &[u8], step: u64, at: Svma) -> Option<u64> {
    let off = at.0 - section.at.0;
    match machine {
        elf::EM_X86_64 => {
            let stub = |step: u64| {
                let begin = off - off % step;
                let stub = bytes.get(usize::try_from(begin).ok()?..)?;
                x86_64_slot(&stub[..stub.len().min(16)], section.at.0.wrapping_add(begin))
            };
            // With `endbr64`, stubs of 8 bytes have 16.
            stub(step).or_else(|| stub(16))
        }
        elf::EM_AARCH64 => {
            let off = off & !3;
            let word = |off: u64| {
                let word = bytes.get(usize::try_from(off).ok()?..)?.first_chunk()?;
                Some(u32::from_le_bytes(*word)) // code is little-endian, whatever data is
            };
            let is = |off: u64, (mask, value): (u32, u32)| word(off).is_some_and(|word| word & mask == value);
            let first = if word(off) == Some(BTI_C) { off + 4 } else { off };
            let oldest = first.saturating_sub(MAX_STUB_LEN - 4);
            let begin = (oldest..=first).rev().step_by(4).find(|begin| is(*begin, ADRP_X16))?;
            let load = word(begin + 4).filter(|_| is(begin + 4, LDR_X17_X16))?;
            Some(aarch64_slot(word(begin)?, load, section.at.0.wrapping_add(begin)))
        }
        _ => None,
    }
}

fn x86_64_slot(stub: &[u8], at: u64) -> Option<u64> {
    let mut rest = stub.strip_prefix(ENDBR64).unwrap_or(stub);
    rest = rest.strip_prefix(BND).unwrap_or(rest);
    if let Some(behind) = rest.strip_prefix(MOV_R11D) {
        rest = behind.get(4..)?;
    }
    let (distance, behind) = rest.strip_prefix(JMP_RIP)?.split_first_chunk()?;
    let next = at.wrapping_add((stub.len() - behind.len()) as u64);
    Some(next.wrapping_add_signed(i32::from_le_bytes(*distance).into()))
}

/// `adrp` has a distance of 21 bits in pages, the lowest two of them apart; `ldr` an offset of 12 bits in units of 8.
fn aarch64_slot(adrp: u32, ldr: u32, at: u64) -> u64 {
    let pages = (adrp >> 5 & 0x7_ffff) << 2 | adrp >> 29 & 3;
    let distance = i64::from((pages << 11) as i32 >> 11) << 12;
    let page = (at & !0xfff).wrapping_add_signed(distance);
    page.wrapping_add(u64::from(ldr >> 10 & 0xfff) * 8)
}

/// Reads the relocations, and the names of the symbols that they lead to.
fn read_names(
    file: &ElfFile,
    layout: &Layout,
    strings: &Strings,
    names: &mut BTreeMap<u64, Option<Arc<str>>>,
) {
    let section = |name: &str| layout.section(name).and_then(|section| file.section_bytes(section));
    let (symbols, texts) = (section(".dynsym").unwrap_or_default(), section(".dynstr").unwrap_or_default());
    let symbol = |index: u32| {
        let at = usize::try_from(index).ok()?.checked_mul(SYMBOL_LEN)?;
        let off = symbols.get(at..)?.first_chunk::<4>()?;
        let off = match layout.endian {
            Endianness::Little => u32::from_le_bytes(*off),
            Endianness::Big => u32::from_be_bytes(*off),
        };
        let text = texts.get(off as usize..)?;
        Some(&text[..text.iter().position(|byte| *byte == 0)?]).filter(|name| !name.is_empty())
    };
    for section in RELOCATIONS {
        let mut open = names.values().filter(|name| name.is_none()).count();
        relocations::each(file, layout, section, |relocation| {
            if let Some(known @ None) = names.get_mut(&relocation.place) {
                *known = match relocation.symbol {
                    // A function that is chosen when the program is loaded.
                    0 => Some(format!("*ABS*+{:#x}{STUB}", relocation.addend).into()),
                    index => symbol(index).map(|raw| format!("{}{STUB}", strings.name(raw)).into()),
                };
                open -= usize::from(known.is_some());
            }
            (open == 0).then_some(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot_at(machine: elf::Machine, name: &str, at: u64, bytes: &[u8], asked: u64) -> Option<u64> {
        let (_, step) = SECTIONS.into_iter().find(|(known, _)| *known == name).expect("known");
        let section = Section {
            name: name.into(),
            at: Svma(at),
            off: crate::image::FileOff(0),
            len: bytes.len() as u64,
            compressed_from: None,
            is_nobits: false,
            is_executable: true,
        };
        slot(machine, &section, bytes, step, Svma(asked))
    }

    #[test]
    fn stubs_of_x86_64_are_read_whatever_linker_made_them() {
        let jump = [0xff, 0x25, 0x00, 0x01, 0, 0];
        let lazy = [&jump[..], &[0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0]].concat();
        let branch_tracked = [ENDBR64, BND, &jump, &[0; 5]].concat();
        let numbered = [ENDBR64, MOV_R11D, &[7, 0, 0, 0], &jump].concat();
        for (stub, jump_len) in [(lazy, 6), (branch_tracked, 11), (numbered, 16)] {
            assert_eq!(stub.len(), 16);
            let two = stub.repeat(2);
            for off in 0..32 {
                let expected = 0x1000 + off / 16 * 16 + jump_len + 0x100;
                let found = slot_at(elf::EM_X86_64, ".plt", 0x1000, &two, 0x1000 + off);
                assert_eq!(found, Some(expected), "{stub:x?} {off}");
            }
        }
        let short = [&jump[..], &[0x66, 0x90]].concat().repeat(2);
        let second = slot_at(elf::EM_X86_64, ".plt.got", 0x1000, &short, 0x100f);
        assert_eq!(second, Some(0x1008 + 6 + 0x100));
        assert_eq!(slot_at(elf::EM_X86_64, ".plt", 0x1000, &[0xff; 32], 0x1004), None);
        assert_eq!(slot_at(elf::EM_X86_64, ".plt", 0x1000, &[0xff, 0x25, 1], 0x1000), None, "torn");
    }

    #[test]
    fn stubs_of_aarch64_are_read_with_and_without_branch_protection() {
        let code = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        // adrp x16, +0x1f000; ldr x17, [x16, #0xfa8]; add x16, x16, #0xfa8; br x17
        let plain = [0xf000_00f0, 0xf947_d611, 0x913e_a210, 0xd61f_0220];
        let expected = 0x1_0000 + 0x1_f000 + 0xfa8;
        let all = code(&[plain, plain].concat());
        for off in 0..32 {
            assert_eq!(
                slot_at(elf::EM_AARCH64, ".plt", 0x1_0200, &all, 0x1_0200 + off),
                Some(expected),
                "{off}"
            );
        }
        let marked = code(&[&[BTI_C][..], &plain, &[0xd503_201f]].concat().repeat(2));
        for off in 0..48 {
            let found = slot_at(elf::EM_AARCH64, ".plt", 0x1_0200, &marked, 0x1_0200 + off);
            assert_eq!(found, Some(expected), "{off}");
        }
        assert_eq!(aarch64_slot(0x90ff_fff0, 0xf940_0211, 0x5008), 0x1000, "backwards");
        assert_eq!(slot_at(elf::EM_AARCH64, ".plt", 0, &code(&[0; 8]), 16), None);
    }
}
