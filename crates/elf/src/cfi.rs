//! Reads the descriptions of functions (FDEs) in `.eh_frame` and `.debug_frame`, one by one or one after the other.

use gimli::{
    BaseAddresses, CommonInformationEntry, EhFrame, EndianSlice, Endianity, FrameDescriptionEntry,
    Reader as _, RunTimeEndian, UnwindOffset, UnwindSection,
};
use object::Endianness;

use crate::Layout;

/// The longest entry of unwind tables that is read, bytes: it bounds the work for one function. Most have tens; the longest of some
/// hundred programs and libraries, in rustc, has 33 KiB.
pub const MAX_ENTRY_BYTES: u32 = 128 << 10;

/// The longest common part of descriptions (CIE) that is read, bytes. Compilers write 20 to 40.
pub const MAX_CIE_BYTES: u32 = 1 << 10;

/// A common part of descriptions.
pub type Cie<'d, E> = CommonInformationEntry<EndianSlice<'d, E>>;
/// A description of a function.
pub type Fde<'d, E> = FrameDescriptionEntry<EndianSlice<'d, E>>;

/// Takes bytes of the `.eh_frame` of a file, which lie at an address.
pub fn eh_frame<'d>(
    layout: &Layout,
    bytes: &'d [u8],
    at: u64,
) -> (EhFrame<EndianSlice<'d, RunTimeEndian>>, BaseAddresses) {
    let endian = match layout.endian {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    };
    let mut section = EhFrame::new(bytes, endian);
    section.set_address_size(layout.address_size);
    let text = layout.section(".text").map_or(0, |section| section.at.0);
    (section, BaseAddresses::default().set_eh_frame(at).set_text(text))
}

/// Reads all descriptions of a section and their offsets. It skips what is too long or cannot be read, and ends where the section is
/// torn. A length of zero is no end: BOLT leaves such terminators between its descriptions and the older ones.
///
/// # Cost  one pass over the section, as far as it is read
pub fn fdes<'s, 'd: 's, E: Endianity + 's, S: UnwindSection<EndianSlice<'d, E>>>(
    section: &'s S,
    bases: &'s BaseAddresses,
) -> impl Iterator<Item = (usize, Fde<'d, E>)> + 's {
    let (mut next, mut cie) = (0, None);
    std::iter::from_fn(move || {
        loop {
            let off = next;
            let len = word(section, off)?;
            // A description of the 64-bit format ends the pass: its length is taken for one of 4 GiB. Nobody writes them.
            next = off.checked_add(4)?.checked_add(len as usize)?;
            if let Some(fde) = fde(section, bases, off, &mut cie) {
                return Some((off, fde));
            }
        }
    })
}

/// Reads the description at an offset; `None` if it is too long or cannot be read. `cie` caches the last common part, which
/// neighbours share, and its offset.
pub fn fde<'d, E: Endianity, S: UnwindSection<EndianSlice<'d, E>>>(
    section: &S,
    bases: &BaseAddresses,
    off: usize,
    cie: &mut Option<(usize, Cie<'d, E>)>,
) -> Option<Fde<'d, E>> {
    word(section, off).filter(|len| *len <= MAX_ENTRY_BYTES)?;
    let fde = section.partial_fde_from_offset(bases, off.into()).ok()?;
    let of = UnwindOffset::into(fde.cie_offset());
    if cie.as_ref().is_none_or(|known| known.0 != of) {
        word(section, of).filter(|len| *len <= MAX_CIE_BYTES)?;
        *cie = Some((of, section.cie_from_offset(bases, of.into()).ok()?));
    }
    let (_, cie) = cie.as_ref()?;
    fde.parse(|_, _, _| Ok(cie.clone())).ok()
}

/// Takes pointers that are not there (encoding 0xff) out of the common parts of entries, as V8 writes them for language-specific data:
/// gimli refuses such descriptions. No entry changes its length.
pub fn drop_omitted(entries: &mut [u8]) {
    let mut rest = entries;
    while let Some(len) = rest.first_chunk().map(|len| u32::from_le_bytes(*len) as usize) {
        let Some((entry, behind)) = rest.split_at_mut_checked(len.saturating_add(4)) else { return };
        if let Some((letter, number, encoding)) = omitted(entry) {
            // What follows moves up, and the end becomes two instructions that do nothing.
            entry[number] -= 1;
            for gone in [encoding, letter] {
                entry[gone..].rotate_left(1);
                *entry.last_mut().expect("bug: an entry has a length") = 0;
            }
        }
        rest = behind;
    }
}

/// Finds in a common part where its augmentation has the `L` of a pointer that is not there, the length of its data, and the encoding
/// of the pointer.
fn omitted(entry: &[u8]) -> Option<(usize, usize, usize)> {
    const TEXT: usize = 9;
    if entry.get(4..8)? != [0; 4] {
        return None;
    }
    let text = entry.get(TEXT..)?.split(|byte| *byte == 0).next()?;
    let letter = text.iter().position(|byte| *byte == b'L').filter(|_| text[0] == b'z')?;
    // Two factors and the register of the return address, which is one byte in version 1; only letters that have one byte of data, or
    // none, come before this one.
    let mut at = TEXT + text.len() + 1;
    let is_first_version = entry[8] == 1;
    for _ in 0..if is_first_version { 2 } else { 3 } {
        at += 1 + entry.get(at..)?.iter().position(|byte| byte & 0x80 == 0)?;
    }
    at += usize::from(is_first_version);
    let before = text[1..letter].iter().filter(|byte| **byte == b'R').count();
    let is_simple = text[1..letter].iter().all(|byte| b"RSB".contains(byte));
    let encoding = at + 1 + before;
    let is_omitted = is_simple && (1..0x80).contains(entry.get(at)?) && *entry.get(encoding)? == 0xff;
    is_omitted.then_some((TEXT + letter, at, encoding))
}

fn word<'d, E: Endianity, S: UnwindSection<EndianSlice<'d, E>>>(section: &S, off: usize) -> Option<u32> {
    let bytes = *section.section();
    Some(bytes.endian().read_u32(bytes.slice().get(off..off.checked_add(4)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EhFrameHdr, Svma};

    #[test]
    fn pointers_that_are_not_there_are_taken_out() {
        // What V8 writes, and the same with the register of version 1 and other letters.
        for (version, before, after) in [
            (
                3,
                &b"zLR\0\x01\x78\x10\x02\xff\x1b\x0c\x07\x08"[..],
                &b"zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\0\0"[..],
            ),
            (1, b"zRL\0\x81\x01\x78\x90\x02\x1b\xff\x0c", b"zR\0\x81\x01\x78\x90\x01\x1b\x0c\0\0"),
        ] {
            let entry = |text: &[u8]| [&[5 + text.len() as u8, 0, 0, 0, 0, 0, 0, 0, version], text].concat();
            let fde = [8, 0, 0, 0, 9, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
            let mut entries = [&fde[..], &entry(before), &fde, &[0; 4], &entry(before)].concat();
            drop_omitted(&mut entries);
            assert_eq!(entries, [&fde[..], &entry(after), &fde, &[0; 4], &entry(after)].concat());
            let changed = entries.clone();
            drop_omitted(&mut entries);
            assert_eq!(entries, changed);
            for len in 0..entry(before).len() {
                drop_omitted(&mut entry(before)[..len]);
            }
        }
        for other in [
            &b"zLR\0\x01\x78\x10\x02\x1b\x1b"[..],
            b"zPL\0\x01\x78\x10\x06\x1b\x01\x01\x01\x01\xff",
            b"LR\0\x01",
            b"z\0",
        ] {
            let mut entry = [&[5 + other.len() as u8, 0, 0, 0, 0, 0, 0, 0, 1], other].concat();
            let before = entry.clone();
            drop_omitted(&mut entry);
            assert_eq!(entry, before);
        }
    }

    #[test]
    fn all_descriptions_of_the_own_program_are_read_and_torn_ones_end_the_pass() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        let layout = Layout::read(&elf[..]).expect("ELF");
        let table = EhFrameHdr::of_file(&elf[..], &layout).expect("a linker made it");
        let at = table.eh_frame().0;
        let bytes =
            layout.bytes_of(layout.section(".eh_frame").expect("unwind tables"), &elf[..]).expect("whole");
        let (section, bases) = eh_frame(&layout, bytes, at);
        let mut found: Vec<(u64, u64)> =
            fdes(&section, &bases).map(|(off, fde)| (fde.initial_address(), at + off as u64)).collect();
        found.sort_unstable();
        let rows = (0..found.len()).map_while(|number| table.row(number));
        assert!(
            rows.map(|(Svma(start), Svma(fde))| (start, fde)).eq(found.iter().copied()) && found.len() > 1000
        );
        let twice = [bytes, &[0; 4], bytes].concat();
        let (section, bases) = eh_frame(&layout, &twice, at);
        assert_eq!(fdes(&section, &bases).count(), 2 * found.len(), "a terminator is no end");
        for len in (0..bytes.len()).step_by(997) {
            let (section, bases) = eh_frame(&layout, &bytes[..len], at);
            assert!(fdes(&section, &bases).count() < found.len());
        }
    }
}
