//! Finds where functions begin of which no symbol tells the end. A symbol without a size, as assembly has them, names the code
//! behind it only as far as no other function can begin.

use std::ops::Range;

use object::elf;
use object::read::ReadRef;

use crate::{Layout, Svma, relocations};

/// The most bytes of an image that are searched.
const MAX_SEARCHED_BYTES: u64 = 32 << 20;

/// Finds addresses in ranges, as [`referred`] does.
pub type Referred<'a> = dyn Fn(&[Range<Svma>]) -> Option<Vec<Svma>> + 'a;

/// What tells where functions begin, besides their symbols.
#[derive(Clone, Copy)]
pub struct Beginnings<'a> {
    /// Finds the first address of the function around an address, by its unwind tables.
    pub unwound: &'a dyn Fn(Svma) -> Option<Svma>,
    /// Finds the addresses in ranges that the image refers to.
    pub referred: &'a Referred<'a>,
}

impl Beginnings<'_> {
    /// Nothing is known: a symbol without a size names its own address alone.
    pub const UNKNOWN: Beginnings<'static> = Beginnings { unwound: &|_| None, referred: &|_| None };
}

/// Finds the addresses in ranges, which ascend and do not overlap, that direct calls lead to, or that code or data of the image
/// holds, in ascending order: where functions can begin. Bytes that only look like a call count, too.
///
/// `None` if the image cannot be read, has more than 32 MiB, or is of another machine than x86-64 and aarch64.
pub fn referred<'d>(file: impl ReadRef<'d>, layout: &Layout, wanted: &[Range<Svma>]) -> Option<Vec<Svma>> {
    type References = fn(&[u8], Svma, &mut dyn FnMut(u64));
    let (references, ends): (References, fn(&[u8]) -> bool) = match layout.machine {
        elf::EM_X86_64 => (x86_64, ends_x86_64),
        elf::EM_AARCH64 => (aarch64, ends_aarch64),
        _ => return None,
    };
    let mut found = Vec::new();
    let mut note = |target: u64| {
        let next = wanted.partition_point(|range| range.end.0 <= target);
        if wanted.get(next).is_some_and(|range| range.start.0 <= target) {
            found.push(target);
        }
    };
    let is_loaded = |section: &&crate::Section| section.at.0 > 0 && !section.is_nobits && section.len > 0;
    let sections = || layout.sections.iter().filter(is_loaded);
    let most = sections().try_fold(MAX_SEARCHED_BYTES, |left, section| left.checked_sub(section.len));
    if !layout.is_little_64() || most.is_none() {
        return None;
    }
    let mut code: Vec<(u64, &[u8])> = Vec::new();
    for section in sections() {
        let bytes = layout.bytes_of(section, file)?;
        if section.is_executable {
            code.push((section.at.0, bytes));
            references(bytes, section.at, &mut note);
        } else {
            bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes).for_each(&mut note);
        }
    }
    relocations::of(file, layout, ".rela.dyn").for_each(|relocation| note(relocation.addend));
    note(layout.entry.0);
    found.sort_unstable();
    found.dedup();
    code.sort_unstable_by_key(|(at, _)| *at);
    // A function begins where what is before does not run into it. Of the bytes that only look like a reference, few lead to such
    // places.
    found.retain(|target| {
        let around = code.partition_point(|(at, _)| at <= target).checked_sub(1);
        let inside = around.map(|at| (code[at].1, target - code[at].0));
        let before = inside.and_then(|(bytes, len)| bytes.get(..usize::try_from(len).ok()?));
        before.is_some_and(|before| before.is_empty() || ends(before))
    });
    Some(found.into_iter().map(Svma).collect())
}

/// Reports whether code does not go on behind these bytes: a return, a jump, a trap, the fillings between functions, or a call, which
/// may not return.
fn ends_x86_64(before: &[u8]) -> bool {
    // ret; int3; nop; hlt; ud2; the longer forms of nop
    const ENDS: [&[u8]; 9] = [
        &[0xc3],
        &[0xcc],
        &[0x90],
        &[0xf4],
        &[0x0f, 0x0b],
        &[0x0f, 0x1f, 0],
        &[0x0f, 0x1f, 0x40, 0],
        &[0x1f, 0x44, 0, 0],
        &[0, 0, 0, 0],
    ];
    // jmp; call; jmp with one byte; ret with a number; jmp through a register
    let ends_with =
        |len: usize, is: fn(&[u8]) -> bool| before.len().checked_sub(len).is_some_and(|at| is(&before[at..]));
    ENDS.iter().any(|end| before.ends_with(end))
        || ends_with(5, |end| matches!(end[0], 0xe8 | 0xe9))
        || ends_with(2, |end| end[0] == 0xeb || matches!(end, [0xff, 0xe0..=0xe7]))
        || ends_with(3, |end| end[0] == 0xc2)
}

/// As [`ends_x86_64`].
fn ends_aarch64(before: &[u8]) -> bool {
    let word = before.last_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    // b, bl; br, ret; brk; nop; udf
    word & 0x7c00_0000 == 0x1400_0000
        || word & 0xfe3f_0000 == 0xd61f_0000
        || word & 0xffe0_001f == 0xd420_0000
        || word == 0xd503_201f
        || word < 0x1_0000
}

/// `call` with a distance, and `lea` from an address beside the instruction.
fn x86_64(code: &[u8], at: Svma, note: &mut dyn FnMut(u64)) {
    for (off, bytes) in code.windows(5).enumerate() {
        let len = match bytes {
            [0xe8, ..] => 5,
            [0x48 | 0x4c, 0x8d, mode, ..] if mode & 0xc7 == 5 => 7,
            _ => continue,
        };
        let Some(distance) = code.get(off + len - 4..off + len) else { continue };
        let distance = i32::from_le_bytes(distance.try_into().expect("bug: not 4 bytes"));
        note(at.0.wrapping_add((off + len) as u64).wrapping_add_signed(distance.into()));
    }
}

/// `bl`, and `adrp` with the `add` behind it.
fn aarch64(code: &[u8], at: Svma, note: &mut dyn FnMut(u64)) {
    let words = code.as_chunks().0.iter().copied().map(u32::from_le_bytes);
    let mut page: Option<(u64, u32)> = None;
    for (number, word) in words.enumerate() {
        let at = at.0.wrapping_add(4 * number as u64);
        let signed = |field: u32, bits: u32| i64::from((field << (32 - bits)).cast_signed() >> (32 - bits));
        let (into, from) = (word & 31, word >> 5 & 31);
        if word & 0xfc00_0000 == 0x9400_0000 {
            note(at.wrapping_add_signed(signed(word, 26) * 4));
        } else if let Some((page, _)) =
            page.filter(|(_, of)| word & 0xffc0_0000 == 0x9100_0000 && from == *of)
        {
            note(page.wrapping_add(u64::from(word >> 10 & 0xfff)));
        }
        let pages = (word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3;
        let is_page = word & 0x9f00_0000 == 0x9000_0000;
        page = is_page.then(|| ((at & !0xfff).wrapping_add_signed(signed(pages, 21) << 12), into));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::assembled;

    #[test]
    fn calls_and_held_addresses_are_where_functions_can_begin() {
        let source = "
            .globl _start
            _start: call called; lea taken(%rip), %r9; lea before(%rip), %rax; jmp jumped
            called: .fill 16, 1, 0x90
            taken: .fill 16, 1, 0x90
            jumped: .fill 16, 1, 0x90
            held: .fill 16, 1, 0x90
            before: .fill 16, 1, 0x90
            .data; .quad held
        ";
        let file = assembled(source);
        let layout = Layout::read(&file[..]).expect("a program");
        let end = Svma(layout.code_segments().next().expect("code").end);
        let all = referred(&file[..], &layout, &[layout.entry..end]).expect("readable");
        let from = |at: &Svma| at.0 - layout.entry.0;
        let begin = from(&all[1]);
        let places: Vec<u64> = all.iter().map(from).collect();
        assert_eq!(places, [0, begin, begin + 16, begin + 48, begin + 64]);
        let held = layout.entry.0 + begin + 48;
        let parts = [layout.entry..Svma(held), Svma(held)..Svma(held + 1)];
        assert_eq!(referred(&file[..], &layout, &parts).expect("readable").len(), 4, "the end is outside");
    }

    #[test]
    fn calls_and_pages_of_aarch64_are_told() {
        let mut found = Vec::new();
        // bl .-4; adrp x1, .+0x2000; add x1, x1, #0x18; adrp x1, .; add x1, x2, #8
        let words: [u32; 5] = [0x97ff_ffff, 0xd000_0001, 0x9100_6021, 0x9000_0001, 0x9100_2041];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        aarch64(&code, Svma(0x1_0004), &mut |at| found.push(at));
        assert_eq!(found, [0x1_0000, 0x1_2018]);
    }

    #[test]
    fn what_cannot_be_read_tells_nothing() {
        let file = assembled(".globl _start\n_start: call _start");
        let layout = Layout::read(&file[..]).expect("a program");
        assert_eq!(referred(&file[..64], &layout, &[]), None);
    }
}
