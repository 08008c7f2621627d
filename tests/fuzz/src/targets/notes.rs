//! Build-ids, as the recorder reads them: ELF headers, then notes.

use super::FREE_BYTES;
use crate::{memory, recorder};

/// Looks for a build-id in bytes as an ELF file, and in bytes as notes.
pub fn run(data: &[u8]) {
    memory::within(FREE_BYTES + data.len(), || {
        recorder::elf(data);
        recorder::notes(data);
    });
}

/// Notes; an ELF file of two segments of notes; the same of the other byte order.
pub fn seeds() -> Vec<Vec<u8>> {
    let little = elf(|bytes| bytes.to_vec(), 1);
    let big = elf(|bytes| bytes.iter().rev().copied().collect(), 2);
    vec![little[HEADERS..].to_vec(), little, big]
}

/// File header and two program headers, bytes.
const HEADERS: usize = 64 + 2 * 56;

/// Writes the smallest file with notes; `order` turns little-endian numbers into those of the file.
fn elf(order: fn(&[u8]) -> Vec<u8>, encoding: u8) -> Vec<u8> {
    let half = |n: u16| order(&n.to_le_bytes());
    let word = |n: u32| order(&n.to_le_bytes());
    let long = |n: u64| order(&n.to_le_bytes());
    let note = |kind: u32, name: &[u8; 4], text: &[u8]| {
        [word(4), word(text.len() as u32), word(kind), name.to_vec(), text.to_vec()].concat()
    };
    let notes = [note(1, b"GNU\0", &[0; 16]), note(3, b"GNU\0", &[0xab; 20])].concat();
    let other = note(4, b"Go\0\0", b"abcdefgh");
    let segment = |off: usize, len: usize| {
        let (off, len) = (long(off as u64), long(len as u64));
        [word(4), word(4), off.clone(), off.clone(), off, len.clone(), len, long(4)].concat()
    };
    let identification = [&b"\x7fELF"[..], &[2, encoding, 1], &[0; 9]].concat();
    let rest = [
        [half(3), half(62), word(1), long(0), long(64), long(0), word(0)].concat(),
        [half(64), half(56), half(2), half(64), half(0), half(0)].concat(),
        segment(HEADERS, notes.len()),
        segment(HEADERS + notes.len(), other.len()),
    ];
    [identification, rest.concat(), notes, other].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_have_a_build_id() {
        let [notes, little, big] = seeds().try_into().expect("three");
        assert_eq!(recorder::notes(&notes), Some(vec![0xab; 20]));
        assert_eq!(recorder::elf(&little), Some(vec![0xab; 20]));
        assert_eq!(recorder::elf(&big), Some(vec![0xab; 20]));
    }
}
