//! Finds the unwind tables for offsets of an ELF file: entries of `.eh_frame`, by the sorted index in `.eh_frame_hdr`. It copies
//! the entries and does not interpret them.

use std::collections::BTreeSet;

use icecore_elf::{EhFrameHdr, Entries, Layout, Svma};
use object::read::ReadRef;

use super::functions::{Requested, capped};

/// An entry of the unwind tables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Its address, by the headers of the file.
    pub(crate) at: u64,
    /// The offset of its function in the file; 0 if several functions share the entry.
    pub(crate) start: u64,
    /// The address of its function minus that offset; 0 if several functions share the entry.
    pub(crate) bias: u64,
    pub bytes: Vec<u8>,
}

/// Finds the entries for code, each once, in the order of their addresses. Skips invalid ones: anyone may have written the file.
pub(super) fn rules<'d>(file: impl ReadRef<'d>, layout: &Layout, requested: &[Requested]) -> Vec<Rule> {
    let Some(table) = EhFrameHdr::of_file(capped(file), layout) else { return Vec::new() };
    let entries = requested.iter().filter_map(|requested| {
        let (function, fde_at) = table.before(requested.at)?;
        let bias = requested.at.0.wrapping_sub(requested.off.0);
        Some((fde_at, function.0.wrapping_sub(bias), bias))
    });
    let entries: BTreeSet<(Svma, u64, u64)> = entries.collect();
    let mut rules = BTreeSet::new();
    for (Svma(at), start, bias) in entries {
        let Some(entries) = Entries::read(file, layout, Svma(at)) else { continue };
        rules.insert(Rule { at: entries.cie_at.0, start: 0, bias: 0, bytes: entries.cie.to_vec() });
        rules.insert(Rule { at, start, bias, bytes: entries.fde.to_vec() });
    }
    rules.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::functions::{addresses, layout};

    fn found(file: &[u8], offsets: &[u64]) -> Vec<Rule> {
        let Some(layout) = layout(file) else { return Vec::new() };
        rules(file, &layout, &addresses(&layout, offsets.iter().copied()))
    }

    #[inline(never)]
    fn here() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn the_own_program_has_rules_for_its_code_and_what_they_share() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        let maps = std::fs::read("/proc/self/maps").expect("we are running");
        let address = here as fn() -> u64 as usize as u64;
        assert_eq!(here(), 7);
        let line =
            crate::proc::maps::executable(&maps).find(|line| (line.start..line.end).contains(&address));
        let line = line.expect("our code is mapped");
        let off = address - line.start + line.file_off;
        let found = found(&elf, &[off, off + 1]);
        assert_eq!(found.len(), 2, "one function and what it shares with others: {found:?}");
        let id = |rule: &Rule| u32::from_le_bytes(*rule.bytes[4..].first_chunk().expect("an entry"));
        assert_eq!(found.iter().filter(|rule| id(rule) == 0).count(), 1);
        let function = found.iter().find(|rule| id(rule) != 0).expect("not shared");
        let shared = found.iter().find(|rule| id(rule) == 0).expect("shared");
        assert_eq!(function.at + 4 - u64::from(id(function)), shared.at);
        assert!(found.iter().all(|rule| rule.bytes.len() < 200), "{found:?}");
    }

    #[test]
    fn what_is_no_program_has_no_rules() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        for bytes in [&[][..], &elf[..64], &[0; 4096]] {
            assert_eq!(found(bytes, &[0, 64, u64::MAX]), []);
        }
    }
}
