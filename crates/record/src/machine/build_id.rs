//! Reads the build-ids of ELF files and of the running kernel.

use icecore_elf::build_id_of_notes;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::ReadRef;

/// Reads the build-id of an ELF file of this machine's word size and byte order. It reads only headers and notes, within limits,
/// because any user may have written the file.
pub fn of_elf<'d>(file: impl ReadRef<'d>) -> Option<Vec<u8>> {
    icecore_elf::build_id::<FileHeader64<Endianness>>(file)
}

/// Returns the build-id of the running kernel.
///
/// # Source
/// `/sys/kernel/notes`: ELF notes, 4-aligned
pub(crate) fn of_kernel() -> Option<Vec<u8>> {
    build_id_of_notes(&std::fs::read("/sys/kernel/notes").ok()?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use object::read::ReadCache;

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
        assert_eq!(of_elf(&ReadCache::new(File::open(file.path()).expect("ours"))), None);
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
