//! Finds unwind tables without an index: in an `.eh_frame` without `.eh_frame_hdr`, as static programs of glibc have it, and in
//! `.debug_frame`. It reads the whole section once.

use std::collections::BTreeSet;

use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindSection};
use icecore_elf::{EhFrameHdr, Layout, MAX_ENTRY_BYTES, cfi};
use object::read::ReadRef;

use super::functions::{Requested, capped};
use super::rules::Rule;

/// The offset of the version in a shared entry (CIE). A text that says how to read the entry follows, up to a zero.
const VERSION_AT: usize = 8;
/// Version 4 also states the bytes of an address and of a segment: only 8 and 0 are accepted.
const SIZES: [u8; 2] = [8, 0];

/// Finds the entries for code, each once, in the order of their addresses. Converts those of `.debug_frame` to the form of
/// `.eh_frame`, and places them after that section.
pub(super) fn rules<'d>(
    file: impl ReadRef<'d>,
    layout: &Layout,
    mut requested: Vec<Requested>,
) -> Option<Vec<Rule>> {
    requested.sort_unstable_by_key(|requested| requested.at);
    requested.dedup_by_key(|requested| requested.at);
    let eh_frame = Section::read(file, layout, ".eh_frame");
    let behind = eh_frame.at.checked_add(eh_frame.bytes.len() as u64)?.checked_next_multiple_of(16)?;
    let debug_frame = Section { at: behind, ..Section::read(file, layout, ".debug_frame") };
    let mut rules = BTreeSet::new();
    match EhFrameHdr::of_file(capped(file), layout) {
        Some(table) => {
            requested.retain(|requested| table.start(capped(file), layout, requested.at).is_none())
        }
        None => {
            let entries = EhFrame::new(eh_frame.bytes, LittleEndian);
            let bases = BaseAddresses::default().set_eh_frame(eh_frame.at);
            let copied = |off| eh_frame.entry(off).map(<[u8]>::to_vec);
            for found in take(entries, &bases, &mut requested) {
                let bytes = copied(found.shared).zip(copied(found.own));
                rules.extend(bytes.into_iter().flat_map(|bytes| eh_frame.rules(&found, bytes)));
            }
        }
    }
    let entries = DebugFrame::new(debug_frame.bytes, LittleEndian);
    for found in take(entries, &BaseAddresses::default(), &mut requested) {
        let bytes = debug_frame.shared(found.shared).zip(debug_frame.own(&found));
        rules.extend(bytes.into_iter().flat_map(|bytes| debug_frame.rules(&found, bytes)));
    }
    Some(rules.into_iter().collect())
}

/// A section of unwind tables, and its address.
struct Section<'d> {
    at: u64,
    bytes: &'d [u8],
}

/// An entry that covers code, and what it shares with others; offsets in the section.
struct Covering {
    own: usize,
    shared: usize,
    /// The first address of the function.
    begin: u64,
    requested: Requested,
}

impl<'d> Section<'d> {
    /// Reads a section; returns an empty one if it is missing, compressed or too long.
    fn read(file: impl ReadRef<'d>, layout: &Layout, name: &str) -> Self {
        let section = layout.section(name);
        let bytes = section.and_then(|section| layout.bytes_of(section, capped(file))).unwrap_or_default();
        Self { at: section.map_or(0, |section| section.at.0), bytes }
    }

    /// Returns an entry, which begins with its length.
    fn entry(&self, off: usize) -> Option<&'d [u8]> {
        let len = entry_len(self.bytes, off).filter(|len| (8..=MAX_ENTRY_BYTES as usize).contains(len))?;
        self.bytes.get(off..)?.get(..4 + len)
    }

    /// Returns a shared entry of `.debug_frame` in the form of `.eh_frame`: with another identifier, and without sizes.
    fn shared(&self, off: usize) -> Option<Vec<u8>> {
        let mut bytes = self.entry(off)?.to_vec();
        bytes[4..8].fill(0);
        let [version, text, rest @ ..] = bytes.get_mut(VERSION_AT..)? else { return None };
        match (*version, *text) {
            (1 | 3, 0) => {}
            (4, 0) if rest.starts_with(&SIZES) => {
                *version = 3;
                // Zeros at the end are instructions that do nothing.
                rest.rotate_left(SIZES.len());
                let end = rest.len() - SIZES.len();
                rest[end..].fill(0);
            }
            _ => return None,
        }
        Some(bytes)
    }

    /// Returns an entry of `.debug_frame` in the form of `.eh_frame`, which states the distance back to the shared entry.
    fn own(&self, found: &Covering) -> Option<Vec<u8>> {
        let mut bytes = self.entry(found.own)?.to_vec();
        let back = u32::try_from((found.own + 4).checked_sub(found.shared)?).ok()?;
        bytes.get_mut(4..8)?.copy_from_slice(&back.to_le_bytes());
        Some(bytes)
    }

    /// Returns both entries as a recording has them.
    fn rules(&self, found: &Covering, (shared, own): (Vec<u8>, Vec<u8>)) -> [Rule; 2] {
        let bias = found.requested.at.0.wrapping_sub(found.requested.off.0);
        let at = |off: usize| self.at.wrapping_add(off as u64);
        [
            Rule { at: at(found.shared), start: 0, bias: 0, bytes: shared },
            Rule { at: at(found.own), start: found.begin.wrapping_sub(bias), bias, bytes: own },
        ]
    }
}

/// Goes through a section, and takes from the ascending addresses those that its entries cover.
fn take<'d, S>(section: S, bases: &BaseAddresses, requested: &mut Vec<Requested>) -> Vec<Covering>
where
    S: UnwindSection<EndianSlice<'d, LittleEndian>>,
{
    let mut found = Vec::new();
    for (own, fde) in cfi::fdes(&section, bases) {
        let (begin, shared) = (fde.initial_address(), fde.cie().offset());
        let first = requested.partition_point(|requested| requested.at.0 < begin);
        let count = requested[first..].partition_point(|requested| requested.at.0 - begin < fde.len());
        let covered = requested.drain(first..first + count).next();
        found.extend(covered.map(|requested| Covering { own, shared, begin, requested }));
        if requested.is_empty() {
            break;
        }
    }
    found
}

/// Returns the length of the entry at an offset, without the four bytes of the length itself.
fn entry_len(bytes: &[u8], off: usize) -> Option<usize> {
    let len = bytes.get(off..)?.first_chunk().map(|len| u32::from_le_bytes(*len))?;
    usize::try_from(len).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::functions::fixture::{assembled, requested};
    use crate::collect::functions::layout;

    /// Returns a program with one function of eight bytes at 0x10010; `shared` begins its shared entry in `.debug_frame`, up to
    /// the factors.
    fn program(shared: &str) -> Vec<u8> {
        assembled(&format!(
            ".globl _start; _start: .fill 64
             .section .debug_frame,\"\"
             shared: .long shared_end - . - 4; .long 0xffffffff; {shared}
             .byte 1, 0x78, 16, 12, 7, 8, 0x90, 1; .balign 8; shared_end:
             .long end - . - 4; .long 0; .quad 0x10010, 8; .byte 0x44, 14, 16; .balign 8; end:\n"
        ))
    }

    fn rules_of(file: &[u8], code: &[Requested]) -> Option<Vec<Rule>> {
        rules(file, &layout(file)?, code.to_vec())
    }

    #[test]
    fn rules_of_debug_frame_are_written_as_those_of_eh_frame() {
        let code = requested(&[0x1000f, 0x10010, 0x10017, 0x10018]);
        for shared in [".byte 1, 0", ".byte 3, 0", ".byte 4, 0, 8, 0"] {
            let rules = rules_of(&program(shared), &code).expect("a program");
            let [shared, own] = &rules[..] else { panic!("{rules:?}") };
            let section = [&shared.bytes[..], &own.bytes].concat();
            assert_eq!((shared.at, own.at, own.start + own.bias), (0, shared.bytes.len() as u64, 0x10010));
            let (section, bases) = (EhFrame::new(&section, LittleEndian), BaseAddresses::default());
            let (mut context, parsed) = (gimli::UnwindContext::new(), EhFrame::cie_from_offset);
            let row = section.unwind_info_for_address(&bases, &mut context, 0x10014, parsed).expect("whole");
            assert!(matches!(row.cfa(), gimli::CfaRule::RegisterAndOffset { offset: 16, .. }), "{row:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let code = requested(&[0x10010]);
        for shared in [".byte 2, 0", ".byte 1; .asciz \"z\"", ".byte 4, 0, 4, 0", ".byte 4, 0, 8, 1"] {
            assert_eq!(rules_of(&program(shared), &code), Some(Vec::new()), "{shared}");
        }
        let sound = program(".byte 1, 0");
        for cut in 0..sound.len() {
            rules_of(&sound[..cut], &code);
        }
    }
}
