//! Unwind tables, registers and stacks, as the report unwinds them.

use std::path::Path;
use std::process::Command;

use icecore_elf::{Avma, Endianness, Svma, eh_frame_at};
use icecore_unwind::{
    Limits, Machine, Miss, ModuleAddress, Modules, Registers, StackMemory, UnwindSections, UnwindTables,
    Unwinder,
};

use super::FREE_BYTES;
use crate::memory;

/// Where `.eh_frame_hdr` lies, behind the code.
const HEADER_AT: u64 = 0x10000;
/// Where the stack lies, and how many bytes it has.
const STACK: u64 = 0x7000_0000_0000;
const STACK_LEN: u64 = 1 << 16;
/// The most frames of a stack.
const FRAMES: usize = 64;

/// An input: flags, number of words, words, sections as they lie in a file.
struct Input<'d> {
    machine: Machine,
    /// Without `.eh_frame_hdr`; rules are in `.debug_frame`, too.
    is_bare: bool,
    words: Vec<u64>,
    sections: &'d [u8],
    tables: Option<UnwindTables<'d>>,
}

impl<'d> Input<'d> {
    fn new(data: &'d [u8]) -> Option<Self> {
        let [flags, count, rest @ ..] = data else { return None };
        let (words, sections) = rest.split_at_checked(8 * usize::from(*count))?;
        let words = words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let machine = if flags & 1 == 0 { Machine::X86_64 } else { Machine::Aarch64 };
        Some(Self { machine, is_bare: flags & 2 != 0, words, sections, tables: None })
    }

    fn open(&mut self) {
        let eh_frame =
            eh_frame_at(self.sections, Svma(HEADER_AT), Endianness::Little).map_or(HEADER_AT, |at| at.0);
        let off = usize::try_from(eh_frame.wrapping_sub(HEADER_AT)).unwrap_or(usize::MAX);
        let rules = self.sections.get(off..).unwrap_or_default();
        self.tables = Some(UnwindTables::new(UnwindSections {
            machine: self.machine,
            eh_frame: rules,
            eh_frame_at: Svma(eh_frame),
            eh_frame_hdr: if self.is_bare { &[] } else { self.sections },
            eh_frame_hdr_at: Svma(HEADER_AT),
            debug_frame: if self.is_bare { rules } else { &[] },
            of_go: &[],
            text: Some(Svma(0)),
            got: None,
            stubs: vec![Svma(HEADER_AT - 4096)..Svma(HEADER_AT - 4000)],
        }));
    }

    /// Registers are the words, in order, again and again.
    fn registers(&self, pc: u64) -> Registers {
        let value = |i: usize| self.words.get(i % self.words.len().max(1)).copied().unwrap_or(STACK);
        match self.machine {
            Machine::X86_64 => {
                let mut values: [u64; 17] = std::array::from_fn(value);
                (values[7], values[16]) = (STACK, pc);
                Registers::x86_64(&values)
            }
            Machine::Aarch64 => {
                let mut values: [u64; 33] = std::array::from_fn(value);
                (values[31], values[32]) = (STACK, pc);
                Registers::aarch64(&values)
            }
        }
    }
}

impl StackMemory for Input<'_> {
    fn read_u64(&self, Avma(address): Avma) -> Result<u64, Miss> {
        match address.wrapping_sub(STACK) {
            off @ 0..STACK_LEN if !self.words.is_empty() => {
                Ok(self.words[(off / 8) as usize % self.words.len()])
            }
            STACK_LEN.. => Err(Miss::Elsewhere),
            _ => Err(Miss::Beyond),
        }
    }
}

impl Modules for Input<'_> {
    fn find(&self, Avma(address): Avma) -> Option<ModuleAddress<'_>> {
        let place = ModuleAddress { module: Some(1), at: Svma(address), tables: self.tables.as_ref() };
        match address {
            0..HEADER_AT => Some(place),
            HEADER_AT..0x20000 => Some(ModuleAddress { module: None, tables: None, ..place }),
            _ => None,
        }
    }
}

/// Unwinds from addresses all over the page of code before the rules, twice.
pub fn run(data: &[u8]) {
    let Some(mut input) = Input::new(data) else { return };
    memory::within(FREE_BYTES + 16 * data.len(), || {
        input.open();
        let limits = Limits { frames: FRAMES, ..Limits::new(input.machine) };
        let mut unwinder = Unwinder::new(limits);
        let mut first = Vec::new();
        let mut again = Vec::new();
        for pc in (HEADER_AT - 4096..HEADER_AT + 8).step_by(24) {
            let end = unwinder.unwind(input.registers(pc), &input, &input, &mut first);
            assert!((1..=FRAMES).contains(&first.len()) && first[0].address == Avma(pc));
            // What is remembered changes nothing.
            assert_eq!(unwinder.unwind(input.registers(pc), &input, &input, &mut again), end);
            assert_eq!(first, again);
            first.clear();
            again.clear();
            let place = input.find(Avma(pc)).expect("code");
            unwinder.keeps_frame_pointer(&place);
        }
    });
}

/// Rules of small programs of two compilers, with stacks that they may have had.
pub fn seeds() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    std::fs::write(dir.path().join("x.c"), SOURCE).expect("writable");
    let variants = [("cc", "-O0"), ("cc", "-O2"), ("cc", "-O2 -fno-omit-frame-pointer"), ("clang", "-O2")];
    let rules: Vec<_> =
        variants.iter().map(|(compiler, flags)| compile(dir.path(), compiler, flags)).collect();
    let flags = [0_u8, 2, 1, 0];
    let seed = |(flags, rules): (&u8, Vec<u8>)| [&[*flags, WORDS], &words(&rules)[..], &rules].concat();
    flags.iter().zip(rules).map(seed).collect()
}

/// Words of a stack.
const WORDS: u8 = 40;

/// A stack of return addresses into the functions that `.eh_frame_hdr` lists, and of addresses in the stack.
fn words(rules: &[u8]) -> Vec<u8> {
    let starts = rules[12..].chunks_exact(8).take(usize::from(rules[8]));
    let starts = starts.map(|row| {
        HEADER_AT.wrapping_add_signed(i32::from_le_bytes([row[0], row[1], row[2], row[3]]).into())
    });
    let starts: Vec<u64> = starts.collect();
    let word = |i: u64| match i % 4 {
        0 => STACK + 8 * (i + 2),
        _ => starts[i as usize % starts.len()] + 1 + i % 11,
    };
    (0..WORDS.into()).flat_map(|i| word(i).to_le_bytes()).collect()
}

const SOURCE: &str = "volatile long sink;
__attribute__((noinline)) void leaf(long x) { sink += x; }
__attribute__((noinline)) void saves(long a, long b, long c) { leaf(a); leaf(b); leaf(c); leaf(a + b + c); }
__attribute__((noinline)) void aligned(long x) {
  _Alignas(64) volatile long line[8]; line[x & 7] = x; leaf((long)line); saves(x, line[1], 3);
}
void dynamic(long x) { volatile char *p = __builtin_alloca(x); p[0] = 1; aligned(p[x / 2]); }
";

fn compile(dir: &Path, compiler: &str, flags: &str) -> Vec<u8> {
    let fixed = "-fPIC -shared -nostdlib -Wl,-z,noseparate-code -Wl,--eh-frame-hdr -o x.so x.c";
    succeed(Command::new(compiler).args(flags.split(' ').chain(fixed.split(' '))).current_dir(dir));
    let cut = "-O binary -j .eh_frame_hdr -j .eh_frame x.so x.rules";
    succeed(Command::new("objcopy").args(cut.split(' ')).current_dir(dir));
    std::fs::read(dir.join("x.rules")).expect("just made")
}

fn succeed(command: &mut Command) {
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?} must succeed");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_have_stacks_of_several_frames() {
        for seed in seeds() {
            let mut input = Input::new(&seed).expect("whole");
            input.open();
            let mut unwinder = Unwinder::new(Limits::new(input.machine));
            let deepest = (HEADER_AT - 4096..HEADER_AT).step_by(8).map(|pc| {
                let mut frames = Vec::new();
                unwinder.unwind(input.registers(pc), &input, &input, &mut frames);
                frames.len()
            });
            // Rules of x86-64 are read as such of aarch64 as well, which makes little sense and no long stacks.
            let least = if input.machine == Machine::X86_64 { 5 } else { 2 };
            assert!(deepest.max() >= Some(least));
        }
    }
}
