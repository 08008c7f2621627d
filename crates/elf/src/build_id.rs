//! Finds the build-id of an ELF file among its notes.

use object::Endianness;
use object::elf;
use object::read::ReadRef;
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader, SectionTable};

use crate::Capped;

/// The largest table of segments that is read, bytes; real ones have a thousand.
const MAX_HEADERS_BYTES: u64 = 16 << 20;
/// The largest segment or section of notes that is searched, in bytes.
const MAX_NOTES_BYTES: u64 = 1 << 20;
/// The most segments, and the most sections, of notes that are searched.
const MAX_NOTES: usize = 16;

/// Reads the build-id of an ELF file of the word size of `E` by its program headers; `None` if it has none. Only headers and notes
/// are read.
pub fn build_id<'d, E: FileHeader<Endian = Endianness>>(file: impl ReadRef<'d>) -> Option<Vec<u8>> {
    let data = Capped { file, most_bytes: MAX_HEADERS_BYTES };
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    of_segments(header.program_headers(endian, data).ok()?, endian, data)
}

/// Finds the build-id among notes of this machine's byte order, aligned to 4 bytes, as `/sys/kernel/notes` has them.
pub fn build_id_of_notes(notes: &[u8]) -> Option<Vec<u8>> {
    let endian = Endianness::default();
    find::<elf::FileHeader64<Endianness>>(NoteIterator::new(endian, 4, notes).ok()?, endian)
}

/// Finds the build-id by segments, which survive every kind of stripping.
pub(crate) fn of_segments<'d, P: ProgramHeader<Endian = Endianness>>(
    segments: &[P],
    endian: Endianness,
    file: impl ReadRef<'d>,
) -> Option<Vec<u8>> {
    let is_read = |segment: &&P| {
        segment.p_type(endian) == elf::PT_NOTE && segment.p_filesz(endian).into() <= MAX_NOTES_BYTES
    };
    let notes = segments.iter().filter(is_read).take(MAX_NOTES);
    notes.filter_map(|segment| segment.notes(endian, file).ok()?).find_map(|notes| find(notes, endian))
}

/// Finds the build-id by sections: a debug file may have no segment of notes.
pub(crate) fn of_sections<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    sections: &SectionTable<'d, E, R>,
    endian: Endianness,
    file: R,
) -> Option<Vec<u8>> {
    let is_read = |section: &&E::SectionHeader| {
        section.sh_type(endian) == elf::SHT_NOTE && section.sh_size(endian).into() <= MAX_NOTES_BYTES
    };
    let notes = sections.iter().filter(is_read).take(MAX_NOTES);
    notes.filter_map(|section| section.notes(endian, file).ok()?).find_map(|notes| find(notes, endian))
}

/// # Source
/// ELF notes: the build-id is note type 3 of owner `GNU`
fn find<E: FileHeader<Endian = Endianness>>(
    mut notes: NoteIterator<'_, E>,
    endian: Endianness,
) -> Option<Vec<u8>> {
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec()).filter(|id| !id.is_empty());
        }
    }
    None
}
