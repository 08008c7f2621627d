//! Finds the description of the function at an address in `.eh_frame` or `.debug_frame`.

use gimli::{BaseAddresses, EndianSlice, LittleEndian, UnwindSection};
use icecore_elf::{EhFrameHdr, Endianness, Svma, cfi};

/// Bytes of a section.
pub(super) type Slice<'d> = EndianSlice<'d, LittleEndian>;
type Fde<'d> = cfi::Fde<'d, LittleEndian>;

/// Functions by their first address.
#[derive(Debug)]
pub(super) enum Index<'d> {
    /// The rows of `.eh_frame_hdr`, in place.
    Header(EhFrameHdr<'d>),
    Own(Functions),
}

/// First addresses of functions, ascending, and offsets of their descriptions.
#[derive(Debug)]
pub(super) struct Functions(Vec<(Svma, u32)>);

impl<'d> Index<'d> {
    /// Checks and takes the rows of `.eh_frame_hdr`; `None` if they have another format, are truncated or unsorted, or refer to
    /// another `.eh_frame`.
    pub(super) fn of_header(header: &'d [u8], header_at: Svma, eh_frame: Svma) -> Option<Self> {
        let header = EhFrameHdr::parse(header, header_at, Endianness::Little)?;
        (header.eh_frame() == eh_frame && header.is_sorted()).then_some(Self::Header(header))
    }

    /// Finds the last function that begins at or before an address; returns the offset of its description in the section, which
    /// begins at `section_at`.
    #[inline]
    pub(super) fn find(&self, section_at: Svma, at: Svma) -> Option<usize> {
        match self {
            Self::Header(header) => usize::try_from(header.before(at)?.1.0.wrapping_sub(section_at.0)).ok(),
            Self::Own(functions) => functions.find(at),
        }
    }
}

impl Functions {
    /// Reads all descriptions of a section.
    ///
    /// # Cost  one pass over the section; 16 bytes per function, which takes at least 12 in the section
    pub(super) fn of<'d, S: UnwindSection<Slice<'d>>>(section: &S, bases: &BaseAddresses) -> Self {
        let described = cfi::fdes(section, bases).filter(|(_, fde)| is_64(fde) && fde.len() > 0);
        let function =
            |(off, fde): (usize, Fde<'_>)| Some((Svma(fde.initial_address()), u32::try_from(off).ok()?));
        let mut functions: Vec<_> = described.filter_map(function).collect();
        // Of several descriptions with one address, the first counts.
        functions.sort_by_key(|function| function.0);
        functions.dedup_by_key(|function| function.0);
        functions.shrink_to_fit();
        Self(functions)
    }

    /// Finds the offset of the description of the last function that begins at or before an address.
    #[inline]
    pub(super) fn find(&self, at: Svma) -> Option<usize> {
        let row = self.0[..self.0.partition_point(|function| function.0 <= at)].last()?;
        Some(row.1 as usize)
    }
}

/// 32-bit code is not supported.
fn is_64(fde: &Fde<'_>) -> bool {
    fde.cie().address_size() == 8
}

/// Reads the description at an offset; `cie` caches the last common part, which neighbours share.
pub(super) fn read<'d, S: UnwindSection<Slice<'d>>>(
    section: &S,
    bases: &BaseAddresses,
    off: usize,
    cie: &mut Option<(usize, cfi::Cie<'d, LittleEndian>)>,
) -> Option<Fde<'d>> {
    cfi::fde(section, bases, off, cie).filter(is_64)
}

#[cfg(test)]
mod tests {
    use gimli::EhFrame;
    use object::{Object, ObjectSection};

    use super::*;

    /// Returns sections of this test program: `.eh_frame_hdr`, `.eh_frame`, with their addresses.
    fn own() -> [(Vec<u8>, Svma); 2] {
        let bytes = std::fs::read("/proc/self/exe").expect("we are running");
        let file = object::File::parse(&*bytes).expect("ELF");
        [".eh_frame_hdr", ".eh_frame"].map(|name| {
            let section = file.section_by_name(name).expect("unwind tables");
            (section.data().expect("whole").to_vec(), Svma(section.address()))
        })
    }

    #[test]
    fn the_linker_s_index_and_our_own_lead_to_the_same_functions() {
        let [(header, header_at), (bytes, at)] = own();
        let index = Index::of_header(&header, header_at, at).expect("a linker made it");
        let section = EhFrame::new(&bytes, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(at.0);
        let functions = Functions::of(&section, &bases);
        assert!(functions.0.len() > 1000);
        for &(start, off) in &functions.0 {
            assert_eq!(
                (index.find(at, start), functions.find(start)),
                (Some(off as usize), Some(off as usize))
            );
            let fde = read(&section, &bases, off as usize, &mut None).expect("it was read before");
            let last = start.wrapping_add(fde.len() - 1);
            assert_eq!(
                (index.find(at, last), functions.find(last)),
                (Some(off as usize), Some(off as usize))
            );
        }
        let before = Svma(functions.0[0].0.0 - 1);
        assert_eq!((index.find(at, before), functions.find(before)), (None, None));
    }

    #[test]
    fn an_index_that_is_torn_unordered_or_of_another_section_is_not_believed() {
        let [(header, header_at), (_, at)] = own();
        let believed = |header: &[u8]| Index::of_header(header, header_at, at).is_some();
        assert!(believed(&header) && Index::of_header(&header, header_at, at.wrapping_add(4)).is_none());
        for len in [0, 3, 7, 11, 12, 19, header.len() - 1] {
            assert!(!believed(&header[..len]), "{len}");
        }
        let mut unordered = header.clone();
        unordered[12..16].copy_from_slice(&i32::MAX.to_le_bytes());
        let mut other = header.clone();
        other[3] = 0x1b;
        assert!(!believed(&unordered) && !believed(&other));
    }

    #[test]
    fn descriptions_that_are_too_long_are_passed_over() {
        let [_, (mut bytes, at)] = own();
        let bases = BaseAddresses::default().set_eh_frame(at.0);
        let count = |bytes: &[u8]| Functions::of(&EhFrame::new(bytes, LittleEndian), &bases).0.len();
        let whole = count(&bytes);
        // Makes a common part that is too long for any description.
        bytes[..4].copy_from_slice(&(cfi::MAX_CIE_BYTES + 4).to_le_bytes());
        assert!(count(&bytes) < whole);
        assert_eq!(count(&[0xff; 64]), 0);
    }
}
