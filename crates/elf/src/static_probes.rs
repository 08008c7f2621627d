//! Static probes: instructions that the author of a program named for tracers (`<sys/sdt.h>`), listed in its notes.

use object::elf;
use object::read::ReadRef;
use object::read::elf::NoteIterator;

use crate::{Capped, FileOff, Layout, Svma};

/// The largest section of notes that is read, bytes; that of glibc has 900.
const MAX_NOTES_BYTES: u64 = 16 << 20;
/// The most probes of a file that are read.
const MAX_PROBES: usize = 1 << 16;
const SECTION: &str = ".note.stapsdt";
const OWNER: &[u8] = b"stapsdt";
const TYPE: u32 = 3;
/// Three addresses stand before the names.
const ADDRESSES_LEN: usize = 24;

/// One place of a static probe. Compilers copy code, so a probe may have several places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticProbe<'d> {
    /// Who named it: a program or library.
    pub provider: &'d [u8],
    /// Its name.
    pub name: &'d [u8],
    /// The instruction.
    pub at: FileOff,
    /// A counter of two bytes that tracers increment while they listen: the program skips the probe if it is zero.
    pub counter: Option<FileOff>,
}

/// Lists the static probes of a file in the order of its notes; `None` if it has no readable list. A probe that lies in no code of the
/// file is left out.
///
/// ```text
/// desc    0   address of the instruction
///         8   address of .stapsdt.base when the file was linked; prelink may have moved the file since, and leaves notes alone
///        16   address of the counter; 0 if there is none
///        24   provider, name and arguments, each ended by NUL
/// ```
///
/// # Source   systemtap, `User Space Probe Implementation`; `<sys/sdt.h>`
pub fn static_probes<'d>(
    layout: &Layout,
    file: impl ReadRef<'d>,
) -> Option<impl Iterator<Item = StaticProbe<'d>>> {
    let notes = layout.section(SECTION).filter(|_| layout.is_little_64())?;
    let bytes = layout.bytes_of(notes, Capped { file, most_bytes: MAX_NOTES_BYTES })?;
    let notes = NoteIterator::<elf::FileHeader64<_>>::new(layout.endian, 4, bytes).ok()?;
    let is_ours =
        |note: &object::read::elf::Note<'_, _>| note.name() == OWNER && note.n_type(layout.endian).0 == TYPE;
    let base = layout.section(".stapsdt.base").map(|base| base.at);
    let notes = notes.take(MAX_PROBES).map_while(Result::ok).filter(is_ours);
    let probes: Vec<_> = notes.filter_map(|note| probe(layout, base, note.desc())).collect();
    Some(probes.into_iter())
}

fn probe<'d>(layout: &Layout, base: Option<Svma>, desc: &'d [u8]) -> Option<StaticProbe<'d>> {
    let (addresses, texts) = desc.split_at_checked(ADDRESSES_LEN)?;
    let mut addresses = addresses.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
    let (at, linked_base, counter) = (addresses.next()?, addresses.next()?, addresses.next()?);
    let moved = base.map_or(0, |base| base.0.wrapping_sub(linked_base));
    let off = |at: u64| Some(layout.rest_of_segment(Svma(at.wrapping_add(moved)))?.0);
    let mut texts = texts.split(|byte| *byte == 0);
    let (provider, name) = (texts.next()?, texts.next()?);
    let at = off(at).filter(|at| layout.code(*at).is_some())?;
    let counter = if counter == 0 { None } else { Some(off(counter)?) };
    Some(StaticProbe { provider, name, at, counter })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::assembled;

    /// Writes a note as `<sys/sdt.h>` does: of a probe before the instruction `at`, of this owner, and with a counter or 0.
    fn note(at: &str, base: &str, counter: &str, owner: &str, texts: &str) -> String {
        format!(
            ".pushsection .note.stapsdt,\"?\",\"note\"; .balign 4; .4byte 992f-991f, 994f-993f, 3
             991: .asciz \"{owner}\"; 992: .balign 4
             993: .8byte {at}, {base}, {counter}; .ascii \"{texts}\"; 994: .balign 4; .popsection\n"
        )
    }

    fn listed(notes: &[String]) -> Option<Vec<(String, String, u64, bool)>> {
        let code = "
            .globl _start; _start: .fill 16; here: nop
            .pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat; base: .space 1; .popsection
            .pushsection .probes,\"aw\",\"progbits\"; counter: .2byte 0; .popsection\n";
        let file = assembled(&(code.to_owned() + &notes.concat()));
        let layout = Layout::read(&file[..]).expect("ELF");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let probes = static_probes(&layout, &file[..])?;
        let probes = probes.map(|probe| {
            let at = layout.code(probe.at).expect("code").0 - 0x10000;
            if let Some(counter) = probe.counter {
                assert_eq!(file[counter.0 as usize..][..2], [0, 0]);
                assert_eq!(layout.svma(counter), Some(layout.section(".probes").expect("made above").at));
            }
            (text(probe.provider), text(probe.name), at, probe.counter.is_some())
        });
        Some(probes.collect())
    }

    fn row(provider: &str, name: &str, at: u64, has_counter: bool) -> (String, String, u64, bool) {
        (provider.to_owned(), name.to_owned(), at, has_counter)
    }

    #[test]
    fn probes_lie_where_their_notes_say() {
        let notes = [
            note("here", "base", "0", "stapsdt", "p\\0first\\0008@%rdi\\0"),
            note("here", "base", "counter", "stapsdt", "p\\0second\\0\\0"),
            note("here", "base", "0", "other", "p\\0third\\0\\0"),
            // The file was moved by 0x1000 since it was linked.
            note("_start - 0x1000", "base - 0x1000", "counter - 0x1000", "stapsdt", "q\\0moved\\0\\0"),
        ];
        let expected =
            vec![row("p", "first", 16, false), row("p", "second", 16, true), row("q", "moved", 0, true)];
        assert_eq!(listed(&notes), Some(expected));
        assert_eq!(listed(&[]), None);
    }

    #[test]
    fn notes_that_lie_give_no_probes() {
        let notes = [
            note("counter", "base", "0", "stapsdt", "p\\0data\\0\\0"),
            note("-1", "base", "0", "stapsdt", "p\\0nowhere\\0\\0"),
            note("here", "base", "-1", "stapsdt", "p\\0counter\\0\\0"),
            note("here", "base", "0", "stapsdt", "p"),
            note("here", "base", "0", "stapsdt", "p\\0last"),
        ];
        assert_eq!(listed(&notes), Some(vec![row("p", "last", 16, false)]));
        let torn =
            ".pushsection .note.stapsdt,\"\",\"note\"; .4byte 8, -1, 3; .asciz \"stapsdt\"; .popsection\n";
        assert_eq!(listed(&[torn.to_owned()]), Some(Vec::new()));
    }
}
