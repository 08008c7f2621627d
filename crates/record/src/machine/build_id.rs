//! Reads the build-ids of ELF files and of the running kernel.

use std::fs::File;
use std::path::Path;

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, NoteIterator, ProgramHeader as _};
use object::read::{ReadCache, ReadRef};

/// Limits to the segments and notes of a file: one with more has no build-id. Real files have a dozen segments and notes of 100 bytes.
const MAX_SEGMENTS: u16 = 1024;
const MAX_NOTE_BYTES: u64 = 64 << 10;

/// Reads the build-id of an ELF file of this machine's word size and byte order. It reads only headers and notes, within limits,
/// because any user may have written the file.
pub(super) fn of_file(path: &Path) -> Option<Vec<u8>> {
    of_elf(&ReadCache::new(File::open(path).ok()?))
}

pub(crate) fn of_elf<'d>(file: impl ReadRef<'d>) -> Option<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    if header.e_phnum(endian) > MAX_SEGMENTS {
        return None;
    }
    let notes = header.program_headers(endian, file).ok()?.iter().filter(|segment| {
        segment.p_type(endian) == object::elf::PT_NOTE && segment.p_filesz(endian) <= MAX_NOTE_BYTES
    });
    notes.filter_map(|segment| segment.notes(endian, file).ok()?).find_map(|notes| find(notes, endian))
}

/// # Source
/// ELF notes: the build-id is note type 3 of owner `GNU`
fn find(mut notes: NoteIterator<'_, FileHeader64<Endianness>>, endian: Endianness) -> Option<Vec<u8>> {
    while let Ok(Some(note)) = notes.next() {
        if note.name() == object::elf::ELF_NOTE_GNU && note.n_type(endian) == object::elf::NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec());
        }
    }
    None
}

/// Returns the build-id of the running kernel.
///
/// # Source
/// `/sys/kernel/notes`: ELF notes, 4-aligned
pub(crate) fn of_kernel() -> Option<Vec<u8>> {
    of_notes(&std::fs::read("/sys/kernel/notes").ok()?)
}

pub(crate) fn of_notes(notes: &[u8]) -> Option<Vec<u8>> {
    let endian = Endianness::default();
    find(NoteIterator::new(endian, 4, notes).ok()?, endian)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_note_is_not_read() {
        let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        let mut elf = std::fs::read("/proc/self/exe").expect("our program");
        let (headers, count) =
            (u64_at(&elf, 32) as usize, usize::from(u16::from_le_bytes([elf[56], elf[57]])));
        for header in (0..count).map(|n| headers + n * 56) {
            if elf[header] == 4
            /* PT_NOTE */
            {
                elf[header + 32..header + 40].copy_from_slice(&(6_u64 << 30).to_le_bytes());
            }
        }
        std::fs::write(file.path(), &elf[..4096]).expect("writable");
        file.as_file().set_len(8 << 30).expect("sparse");
        assert_eq!(of_file(file.path()), None);
    }

    fn u64_at(bytes: &[u8], off: usize) -> u64 {
        u64::from_le_bytes(bytes[off..off + 8].try_into().expect("eight bytes"))
    }

    #[test]
    fn the_kernel_has_a_build_id() {
        if Path::new("/sys/kernel/notes").exists() {
            assert!(of_kernel().is_some_and(|id| !id.is_empty()));
        }
    }
}
