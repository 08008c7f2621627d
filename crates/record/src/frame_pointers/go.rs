//! Finds where the runtime of a Go program keeps its notes about goroutines. No symbol shows this, and it changes with the
//! version of Go, so it is read from the code of the runtime.
//!
//! ```text
//! systemstack   mov rcx, -8   mov rax, fs:[rcx]   mov rbx, [rax+m]   …   cmp rax, [rbx+curg]
//! gosave_systemstack_switch   mov [r14+pc], r9   lea r9, [rsp+8]   mov [r14+sp], r9   …   mov [r14+bp], rbp
//! ```

use std::ops::Range;

use object::elf::EM_X86_64;
use object::read::ReadRef;

use icecore_elf::go::{self, Function, Pclntab, SectionBytes};
use icecore_elf::{Avma, FileOff, Layout};

use crate::skeleton::types::limits;

/// Where Go's code lies, and where the runtime keeps its notes: `struct go_places` of bpf/go.h.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GoPlaces {
    pub(super) notes: GoOffsets,
    /// The offset of the code in the file.
    pub(super) code_off: FileOff,
    pub(super) code_len: u32,
    pub(super) functions: Functions,
}

/// Offsets: of `g` in a thread's own memory, and of fields in a `g` and in an `m`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GoOffsets {
    g: i32,
    m_of_g: u32,
    curg_of_m: u32,
    sp_of_g: u32,
    pc_of_g: u32,
    bp_of_g: u32,
}

/// Functions that the sampler must know, by their distance from the beginning of the code; the range of a missing one is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Functions {
    /// The functions that call the first function of a stack, in the order of [`TOPS`].
    tops: [(u32, u32); TOPS.len()],
    /// Functions without a frame that call others.
    bare: (u32, u32),
    cgocallback: (u32, u32),
    cgocall: (u32, u32),
    /// The depth of the stack in the last two functions, where they call.
    back_depth: u32,
    call_depth: u32,
    /// An address in the function that marks where a stack was left.
    mark: u32,
}

impl GoPlaces {
    /// Encodes the places in a process for the sampler.
    pub(super) fn bytes(&self, Avma(code): Avma) -> Vec<u8> {
        let GoOffsets { g, m_of_g, curg_of_m, sp_of_g, pc_of_g, bp_of_g } = self.notes;
        let Functions { tops, bare, cgocallback, cgocall, back_depth, call_depth, mark } = self.functions;
        let notes = [g.cast_unsigned(), m_of_g, curg_of_m, sp_of_g, pc_of_g, bp_of_g, back_depth, call_depth];
        let ranges = tops.into_iter().chain([bare, cgocallback, cgocall]).flat_map(|(low, high)| [low, high]);
        let code = [code as u32, (code >> 32) as u32, self.code_len];
        notes.into_iter().chain(code).chain(ranges).chain([mark]).flat_map(u32::to_le_bytes).collect()
    }
}

/// Go's code in a program, and where its runtime keeps its notes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Go {
    pub(super) code: Range<u64>,
    /// The share of Go's code in the section that contains it, 0 to 1.
    pub(super) share: f64,
    pub(super) places: Option<GoPlaces>,
}

const SWITCHES: &[u8] = b"runtime.systemstack";
const SAVES: &[u8] = b"gosave_systemstack_switch";
/// The first calls the first functions of threads; the others have given up their goroutine, which another thread may run by now.
const TOPS: [&[u8]; limits::GO_TOPS.0 as usize] = [b"mstart", b"mcall", b"gopreempt_m", b"preemptPark"];
/// The beginning of the names of functions that call `gcWriteBarrier`, until Go 1.20.
const BARRIERS: &[u8] = b"gcWriteBarrier";
/// The most code that is read of `systemstack` and `gosave_systemstack_switch`, which have a hundred bytes.
const MAX_CODE_BYTES: u64 = 512;
/// The largest offset that is accepted.
const MAX_OFF: u32 = 4096;

/// Reads the table and the code of Go; `None` if the file is not a Go program.
///
/// # Cost   reads the table and the code; a look at the name of each function: 0.1 µs
pub(super) fn go<'d>(file: impl ReadRef<'d>, layout: &Layout) -> Option<Go> {
    let file = go::Loaded::of(file, layout)?;
    let table = go::open(file, layout)?;
    let code = table.code();
    let text = layout.sections.iter().find(|section| {
        let end = section.at.0.checked_add(section.len);
        section.at.0 <= code.start && end.is_some_and(|end| code.end <= end)
    });
    let places = || {
        let text = text.filter(|_| layout.machine == EM_X86_64)?;
        let (mut functions, mut saves, mut switches) = (Functions::default(), None, None);
        for function in table.functions() {
            match function.name {
                SWITCHES => switches = Some(function),
                SAVES => saves = Some(function),
                _ => functions.meet(&table, &function),
            }
        }
        let bytes = |function: Option<Function<'d>>| {
            let Function { start, end, .. } = function?;
            let begin = text.off.0.checked_add(start.checked_sub(text.at.0)?)?;
            file.read_bytes_at(begin, (end - start).min(MAX_CODE_BYTES)).ok()
        };
        Some(GoPlaces {
            notes: notes(bytes(switches)?, bytes(saves)?)?,
            code_off: FileOff(text.off.0.checked_add(code.start.checked_sub(text.at.0)?)?),
            code_len: u32::try_from(code.end - code.start).ok()?,
            functions,
        })
    };
    let share = text.map_or(0.0, |text| (code.end - code.start) as f64 / text.len as f64);
    Some(Go { places: places(), share, code })
}

impl Functions {
    /// Notes a function if it is one of those.
    fn meet<'d, S: SectionBytes<'d>>(&mut self, table: &Pclntab<'d, S>, function: &Function<'d>) {
        let Some(name) = function.name.strip_prefix(b"runtime.") else { return };
        let begin = table.code().start;
        let range = || {
            let distance = |at: u64| u32::try_from(at.saturating_sub(begin)).unwrap_or(0);
            (distance(function.start), distance(function.end))
        };
        // In assembly the stack is deepest where it calls.
        let depths = || table.depths(function).unwrap_or_default();
        let depth = || depths().iter().map(|(_, depth)| *depth).max().unwrap_or(0);
        match name {
            b"cgocallback" => (self.cgocallback, self.back_depth) = (range(), depth()),
            b"cgocall" => (self.cgocall, self.call_depth) = (range(), depth()),
            // As a return address, which is looked up one byte earlier.
            b"systemstack_switch" => self.mark = range().0 + 1,
            // There is one for each register, and they lie side by side.
            name if name.starts_with(BARRIERS) && depth() == 0 => {
                let (low, high) = range();
                self.bare = if self.bare.1 == low { (self.bare.0, high) } else { (low, high) };
            }
            name => {
                if let Some(top) = TOPS.iter().position(|top| *top == name) {
                    self.tops[top] = range();
                }
            }
        }
    }
}

/// Reads the offsets from the code of the two functions.
fn notes(switches: &[u8], saves: &[u8]) -> Option<GoOffsets> {
    let own = after(switches, &[0x48, 0xc7, 0xc1]).filter(|own| {
        switches.get(own + 4..).is_some_and(|rest| rest.starts_with(&[0x64, 0x48, 0x8b, 0x01]))
    });
    let own = own.or_else(|| after(switches, &[0x64, 0x48, 0x8b, 0x04, 0x25]));
    let byte = |code: &[u8], at: usize| code.get(at).map(|byte| u32::from(*byte)).filter(|off| *off < 0x80);
    let word = |at: usize| Some(u32::from_le_bytes(*switches.get(at..)?.first_chunk()?));
    let r9 = [0x4d, 0x89, 0x4e];
    let pc = after(saves, &r9)?;
    let sp = pc + after(&saves[pc..], &r9)?;
    let notes = GoOffsets {
        g: word(own?)?.cast_signed(),
        m_of_g: byte(switches, after(switches, &[0x48, 0x8b, 0x58])?)?,
        curg_of_m: word(after(switches, &[0x48, 0x3b, 0x83])?)?,
        sp_of_g: byte(saves, sp)?,
        pc_of_g: byte(saves, pc)?,
        bp_of_g: byte(saves, after(saves, &[0x49, 0x89, 0x6e])?)?,
    };
    (notes.curg_of_m < MAX_OFF).then_some(notes)
}

/// Returns the end of the first occurrence of some bytes.
fn after(code: &[u8], bytes: &[u8]) -> Option<usize> {
    code.windows(bytes.len()).position(|window| window == bytes).map(|at| at + bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of Go 1.19.
    const SYSTEMSTACK: [u8; 43] = *b"\x48\x8b\x7c\x24\x08\x48\xc7\xc1\xf8\xff\xff\xff\x64\x48\x8b\x01\x48\x8b\x58\x30\x48\x3b\x43\x50\x74\x53\x48\x8b\x13\x48\x39\xd0\x74\x4b\x48\x3b\x83\xc0\x00\x00\x00\x75\x4a";
    const GOSAVE: [u8; 32] = *b"\x4c\x8d\x0d\xd9\x0d\x00\x00\x4d\x89\x4e\x40\x4c\x8d\x4c\x24\x08\x4d\x89\x4e\x38\x49\xc7\x46\x58\x00\x00\x00\x00\x49\x89\x6e\x68";

    #[test]
    fn the_code_of_the_runtime_tells_where_it_notes_what() {
        let expected =
            GoOffsets { g: -8, m_of_g: 0x30, curg_of_m: 0xc0, sp_of_g: 0x38, pc_of_g: 0x40, bp_of_g: 0x68 };
        assert_eq!(notes(&SYSTEMSTACK, &GOSAVE), Some(expected));
        let direct = [&b"\x64\x48\x8b\x04\x25\xf0\xff\xff\xff"[..], &SYSTEMSTACK[16..]].concat();
        assert_eq!(notes(&direct, &GOSAVE), Some(GoOffsets { g: -16, ..expected }));
    }

    #[test]
    fn the_sampler_has_the_places_as_its_struct_has_them() {
        let notes = GoOffsets { g: -8, m_of_g: 1, curg_of_m: 2, sp_of_g: 3, pc_of_g: 4, bp_of_g: 5 };
        let tops = [(10, 11), (12, 13), (14, 15), (16, 17)];
        let functions = Functions {
            tops,
            bare: (18, 19),
            cgocallback: (20, 21),
            cgocall: (22, 23),
            back_depth: 6,
            call_depth: 7,
            mark: 24,
        };
        let places = GoPlaces { notes, code_off: FileOff(99), code_len: 9, functions };
        let words: Vec<u32> =
            places.bytes(Avma(8)).as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let stored = [&[u32::MAX - 7][..], &[1, 2, 3, 4, 5, 6, 7, 8, 0, 9][..]].concat();
        assert_eq!(words, stored.into_iter().chain(10..25).collect::<Vec<u32>>());
    }

    #[test]
    fn code_that_is_none_of_the_runtime_s_tells_nothing() {
        for len in 0..SYSTEMSTACK.len() - 2 {
            assert_eq!(notes(&SYSTEMSTACK[..len], &GOSAVE), None);
        }
        for len in 0..GOSAVE.len() {
            assert_eq!(notes(&SYSTEMSTACK, &GOSAVE[..len]), None);
        }
    }
}
