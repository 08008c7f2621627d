//! Reassembles the unwind tables of an image from the entries of its `.eh_frame` that the recording has.

use icecore_elf::go;
use icecore_format::records::UnwindRule;

use icecore_symbolize::image::{FileOff, Svma};
use icecore_unwind::{Machine, UnwindSections, UnwindTables};

/// The longest section that is assembled, bytes; gaps take most of it, and cost nothing.
const MAX_SECTION_BYTES: u64 = 64 << 20;
/// The shortest gap that a filler entry can bridge: the length field and some content.
const LEAST_GAP: usize = 8;

/// The unwind tables of one image.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// The address of the first entry.
    at: Svma,
    /// Entries at their distances from the first. A filler entry that describes nothing bridges each gap.
    section: Vec<u8>,
    /// Entries made from Go's tables, after their common part.
    of_go: Vec<u8>,
    /// Each pair holds an offset in the file, and what is added to offsets from there on to get an address. Linkers and optimizers
    /// may make several segments of code.
    biases: Vec<(FileOff, u64)>,
}

impl Recorded {
    /// Assembles entries; `None` if they are too far apart or inconsistent. Of overlapping entries the first counts.
    pub(in crate::stacks::repair) fn new(rules: &[&UnwindRule], machine: Machine) -> Option<Self> {
        let (of_go, mut rules): (Vec<&UnwindRule>, Vec<&UnwindRule>) =
            rules.iter().partition(|rule| rule.at >= go::FDE_AT);
        rules.sort_by_key(|rule| rule.at);
        let functions = rules.iter().filter(|rule| is_function(&rule.bytes)).chain(&of_go);
        let mut biases: Vec<_> = functions.map(|rule| (FileOff(rule.start), rule.bias)).collect();
        biases.sort_unstable();
        biases.dedup_by_key(|(_, bias)| *bias);
        let first = rules.first().map_or(0, |rule| rule.at);
        let section = together(&rules, first)?;
        let is_any = !biases.is_empty();
        is_any.then(|| Self { at: Svma(first), section, of_go: made(&of_go, machine), biases })
    }

    pub(in crate::stacks::repair) fn sections(&self, machine: Machine) -> UnwindSections<'_> {
        let entries = UnwindSections::of_entries(machine, &self.section);
        UnwindSections { eh_frame_at: self.at, of_go: &self.of_go, ..entries }
    }

    /// Returns true if the tables do not cover some of the code at these offsets, which may be return addresses.
    pub(super) fn lacks(&self, machine: Machine, offsets: &[u64]) -> bool {
        let tables = UnwindTables::new(self.sections(machine));
        let has = |off: u64| tables.describes(self.svma(FileOff(off)));
        offsets.iter().any(|off| !has(off.saturating_sub(1)) && !has(*off))
    }

    pub(in crate::stacks::repair) fn svma(&self, off: FileOff) -> Svma {
        let after = self.biases.partition_point(|(start, _)| *start <= off);
        Svma(off.0.wrapping_add(self.biases[after.saturating_sub(1)].1))
    }
}

/// Puts entries at their original distances from the first; `None` if they are too far apart.
fn together(rules: &[&UnwindRule], first: u64) -> Option<Vec<u8>> {
    let Some(last) = rules.last() else { return Some(Vec::new()) };
    let len = last.at.checked_sub(first)?.checked_add(last.bytes.len() as u64)?;
    if len > MAX_SECTION_BYTES {
        return None;
    }
    let mut section = vec![0; usize::try_from(len).ok()?];
    let mut end = 0;
    for rule in rules {
        let begin = (rule.at - first) as usize;
        let gap = begin.checked_sub(end).filter(|gap| *gap == 0 || *gap >= LEAST_GAP);
        let (Some(gap), true) = (gap, has_own_len(&rule.bytes)) else { continue };
        if gap > 0 {
            section[end..end + 4].copy_from_slice(&(gap as u32 - 4).to_le_bytes());
        }
        end = begin + rule.bytes.len();
        section.get_mut(begin..end)?.copy_from_slice(&rule.bytes);
    }
    section.truncate(end);
    Some(section)
}

/// Puts entries made from Go's tables after their common part.
fn made(rules: &[&UnwindRule], machine: Machine) -> Vec<u8> {
    if rules.is_empty() {
        return Vec::new();
    }
    let mut section = go::shared(machine).to_vec();
    for rule in rules.iter().filter(|rule| has_own_len(&rule.bytes)) {
        section.extend_from_slice(&rule.bytes);
    }
    section
}

/// Returns true if an entry is as long as its length field says.
fn has_own_len(entry: &[u8]) -> bool {
    let len = entry.first_chunk().map(|len| u32::from_le_bytes(*len));
    len.is_some_and(|len| len > 0 && u64::from(len) + 4 == entry.len() as u64)
}

/// Returns true for an entry of one function (FDE), false for a common part (CIE).
fn is_function(entry: &[u8]) -> bool {
    entry.get(4..8).is_some_and(|id| id != [0; 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(at: u64, bias: u64, id: u32, words: usize) -> UnwindRule {
        let mut bytes = vec![7; words * 4 + 8];
        bytes[..4].copy_from_slice(&(words as u32 * 4 + 4).to_le_bytes());
        bytes[4..8].copy_from_slice(&id.to_le_bytes());
        UnwindRule { image: 0, at, start: at, bias, bytes }
    }

    #[test]
    fn entries_lie_where_they_were_and_gaps_are_entries_of_nothing() {
        let (shared, function) = (rule(0x100, 0, 0, 3), rule(0x140, 0x1000, 0x44, 2));
        let recorded = Recorded::new(&[&function, &shared], Machine::X86_64).expect("they fit");
        assert_eq!((recorded.at, recorded.svma(FileOff(5))), (Svma(0x100), Svma(0x1005)));
        assert_eq!(recorded.section[..20], shared.bytes);
        assert_eq!(recorded.section[20..24], (0x140_u32 - 0x100 - 20 - 4).to_le_bytes());
        assert_eq!(recorded.section[0x40..], function.bytes);
    }

    #[test]
    fn code_in_two_segments_has_two_biases() {
        let recorded =
            Recorded::new(&[&rule(0x140, 0x1000, 0x44, 2), &rule(0x200, 0x2000, 1, 2)], Machine::X86_64)
                .expect("sound");
        assert_eq!(
            [0x141, 0x1ff, 0x200, 0].map(|off| recorded.svma(FileOff(off)).0),
            [0x1141, 0x11ff, 0x2200, 0x1000]
        );
    }

    #[test]
    fn hostile_entries_are_left_out_or_refused() {
        let function = rule(0x140, 0x1000, 0x44, 2);
        let torn = UnwindRule { bytes: vec![200, 0, 0, 0, 1], ..rule(0x200, 0x1000, 1, 0) };
        let overlapping = rule(0x144, 0x1000, 0x44, 2);
        let recorded =
            Recorded::new(&[&function, &torn, &overlapping], Machine::X86_64).expect("one of them is sound");
        assert_eq!(recorded.section, function.bytes);
        assert!(
            Recorded::new(&[&function, &rule(go::FDE_AT - 64, 0x1000, 1, 2)], Machine::X86_64).is_none(),
            "too far"
        );
        assert!(
            Recorded::new(&[], Machine::X86_64).is_none()
                && Recorded::new(&[&rule(0, 0, 0, 2)], Machine::X86_64).is_none()
        );
    }
}
