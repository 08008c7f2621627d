//! Where a program of Go keeps what its runtime notes of its goroutines, as the code of the runtime has it: no symbol tells it, and
//! it changes with the version of Go.
//!
//! ```text
//! systemstack   mov rcx, -8   mov rax, fs:[rcx]   mov rbx, [rax+m]   …   cmp rax, [rbx+curg]
//! gosave_systemstack_switch   mov [r14+pc], r9   lea r9, [rsp+8]   mov [r14+sp], r9   …   mov [r14+bp], rbp
//! ```

use std::ops::Range;

use object::elf::EM_X86_64;
use object::read::ReadRef;
use object::read::elf::SectionHeader as _;

use crate::evidence::elf_file::ElfFile;
use crate::evidence::go;

/// Offsets: of `g` in a thread's own memory, in a `g`, in an `m`. `struct go_places` of bpf/walk.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoPlaces {
    pub(crate) g: i32,
    pub(crate) m_of_g: u32,
    pub(crate) curg_of_m: u32,
    pub(crate) sp_of_g: u32,
    pub(crate) pc_of_g: u32,
    pub(crate) bp_of_g: u32,
}

/// The code of a program that is Go's, and where it keeps what.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Go {
    pub(super) code: Range<u64>,
    /// The share of it in the section that it is in, 0 to 1: what is not Go's is nobody's.
    pub(super) share: f64,
    pub(super) places: Option<GoPlaces>,
}

const SWITCHES: &[u8] = b"runtime.systemstack";
const SAVES: &[u8] = b"gosave_systemstack_switch";
/// The most code of these two that is looked at; they have a hundred bytes.
const MAX_CODE_BYTES: u64 = 512;
/// The largest offset that is believed.
const MAX_OFF: u32 = 4096;

/// Reads it; `None` if this is no program of Go.
///
/// # Cost   a look at the name of each function: 1 µs
pub(super) fn go<'d>(file: impl ReadRef<'d>) -> Option<Go> {
    let elf = ElfFile::read(file)?;
    let table = go::table(&elf)?;
    let text = elf.sections.iter().find_map(|section| {
        let (at, len) = (section.sh_addr(elf.endian), section.sh_size(elf.endian));
        let code = table.code();
        let is_in = at <= code.start && code.end <= at.checked_add(len)?;
        is_in.then(|| (at, section.sh_offset(elf.endian), len))
    });
    let places = || {
        let (at, off, _) = text.filter(|_| elf.machine == EM_X86_64)?;
        let code = |name: &[u8]| {
            let function = table.functions().find(|function| function.name == name)?;
            let begin = off.checked_add(function.start.checked_sub(at)?)?;
            file.read_bytes_at(begin, (function.end - function.start).min(MAX_CODE_BYTES)).ok()
        };
        places(code(SWITCHES)?, code(SAVES)?)
    };
    let code = table.code();
    let share = text.map_or(0.0, |(_, _, len)| (code.end - code.start) as f64 / len as f64);
    Some(Go { places: places(), share, code })
}

/// Reads the places from the code of the two functions.
fn places(switches: &[u8], saves: &[u8]) -> Option<GoPlaces> {
    let own = after(switches, &[0x48, 0xc7, 0xc1]).filter(|own| {
        switches.get(own + 4..).is_some_and(|rest| rest.starts_with(&[0x64, 0x48, 0x8b, 0x01]))
    });
    let own = own.or_else(|| after(switches, &[0x64, 0x48, 0x8b, 0x04, 0x25]));
    let byte = |code: &[u8], at: usize| code.get(at).map(|byte| u32::from(*byte)).filter(|off| *off < 0x80);
    let word = |at: usize| Some(u32::from_le_bytes(*switches.get(at..)?.first_chunk()?));
    let r9 = [0x4d, 0x89, 0x4e];
    let pc = after(saves, &r9)?;
    let sp = pc + after(&saves[pc..], &r9)?;
    let places = GoPlaces {
        g: word(own?)?.cast_signed(),
        m_of_g: byte(switches, after(switches, &[0x48, 0x8b, 0x58])?)?,
        curg_of_m: word(after(switches, &[0x48, 0x3b, 0x83])?)?,
        sp_of_g: byte(saves, sp)?,
        pc_of_g: byte(saves, pc)?,
        bp_of_g: byte(saves, after(saves, &[0x49, 0x89, 0x6e])?)?,
    };
    (places.curg_of_m < MAX_OFF).then_some(places)
}

/// Where some bytes end for the first time.
fn after(code: &[u8], bytes: &[u8]) -> Option<usize> {
    code.windows(bytes.len()).position(|window| window == bytes).map(|at| at + bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go 1.19 has them.
    const SYSTEMSTACK: [u8; 43] = *b"\x48\x8b\x7c\x24\x08\x48\xc7\xc1\xf8\xff\xff\xff\x64\x48\x8b\x01\x48\x8b\x58\x30\x48\x3b\x43\x50\x74\x53\x48\x8b\x13\x48\x39\xd0\x74\x4b\x48\x3b\x83\xc0\x00\x00\x00\x75\x4a";
    const GOSAVE: [u8; 32] = *b"\x4c\x8d\x0d\xd9\x0d\x00\x00\x4d\x89\x4e\x40\x4c\x8d\x4c\x24\x08\x4d\x89\x4e\x38\x49\xc7\x46\x58\x00\x00\x00\x00\x49\x89\x6e\x68";

    #[test]
    fn the_code_of_the_runtime_tells_where_it_notes_what() {
        let expected =
            GoPlaces { g: -8, m_of_g: 0x30, curg_of_m: 0xc0, sp_of_g: 0x38, pc_of_g: 0x40, bp_of_g: 0x68 };
        assert_eq!(places(&SYSTEMSTACK, &GOSAVE), Some(expected));
        let direct = [&b"\x64\x48\x8b\x04\x25\xf0\xff\xff\xff"[..], &SYSTEMSTACK[16..]].concat();
        assert_eq!(places(&direct, &GOSAVE), Some(GoPlaces { g: -16, ..expected }));
    }

    #[test]
    fn code_that_is_none_of_the_runtime_s_tells_nothing() {
        for len in 0..SYSTEMSTACK.len() - 2 {
            assert_eq!(places(&SYSTEMSTACK[..len], &GOSAVE), None);
        }
        for len in 0..GOSAVE.len() {
            assert_eq!(places(&SYSTEMSTACK, &GOSAVE[..len]), None);
        }
    }
}
