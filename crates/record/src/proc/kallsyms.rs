//! `/proc/kallsyms`: the names of the running kernel's functions.

use std::io::Read as _;
use std::ops::Range;

use icecore_elf::Avma;

/// All functions of the kernel: the text, and its lines by address.
#[derive(Debug, Default)]
pub struct Kallsyms {
    text: Vec<u8>,
    lines: Vec<(Avma, u32)>,
}

/// One function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelFunction<'a> {
    pub start: Avma,
    /// Where the next function begins.
    pub end: Avma,
    pub name: &'a [u8],
    /// Empty for the kernel proper.
    pub module: &'a [u8],
}

/// The assumed length of the last function, bytes.
const LAST_LEN: u64 = 4096;

const PATH: &str = "/proc/kallsyms";

/// Returns true if the kernel hides its addresses from this process (kernel.kptr_restrict, no
/// CAP_SYSLOG).
pub(crate) fn are_hidden() -> bool {
    let mut text = vec![0; 16 << 10];
    let len = std::fs::File::open(PATH).and_then(|mut file| file.read(&mut text)).unwrap_or(0);
    are_all_zero(&text[..len])
}

/// Returns true if all addresses are 0. The first symbols do not decide: they are offsets of per-CPU data, the very first of which is always 0.
fn are_all_zero(text: &[u8]) -> bool {
    let mut lines = text.split(|&b| b == b'\n');
    lines.all(|line| line.iter().take_while(|&&b| b != b' ').all(|&b| b == b'0'))
}

/// Code of the kernel that the programs for waits must tell from other code; empty if its place is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitCode {
    /// Where hard interrupts enter the kernel.
    pub(crate) hard: Range<Avma>,
    /// The function that runs soft interrupts.
    pub(crate) soft: Range<Avma>,
    /// The function that calls the programs at wake-ups, if there are several.
    pub(crate) caller: Range<Avma>,
    /// The function that threads call to leave their CPU.
    pub(crate) scheduler: Range<Avma>,
}

/// Reads where that code lies.
pub(crate) fn wait_code() -> WaitCode {
    wait_code_in(&std::fs::read(PATH).unwrap_or_default())
}

/// # Source
/// Linux `include/asm-generic/sections.h`. On x86 the section also has the entries of exceptions (`asm_exc_…`), which interrupt nothing;
/// `handle_softirqs` lies outside of its section (6.9)
fn wait_code_in(text: &[u8]) -> WaitCode {
    let symbols: Vec<(Avma, &[u8])> =
        text.split(|&b| b == b'\n').filter_map(parse_line).map(|(start, _, name, _)| (start, name)).collect();
    let starts = || symbols.iter().map(|(start, _)| *start);
    let symbol = |wanted: &[u8]| symbols.iter().find(|(_, name)| *name == wanted).map(|(start, _)| *start);
    let address = |name: &[u8]| symbol(name).unwrap_or(Avma(0));
    let function = |name: &[u8]| {
        let start = symbol(name).filter(|start| start.0 != 0)?;
        Some(start..starts().filter(|other| *other > start).min()?)
    };
    let caller = function(b"__traceiter_sched_waking").unwrap_or(Avma(0)..Avma(0));
    let scheduler = function(b"schedule").unwrap_or(Avma(0)..Avma(0));
    let soft = match function(b"handle_softirqs") {
        Some(soft) => soft,
        None => address(b"__softirqentry_text_start")..address(b"__softirqentry_text_end"),
    };
    let section = address(b"__irqentry_text_start")..address(b"__irqentry_text_end");
    let entries = |prefixes: &[&[u8]]| -> Vec<Avma> {
        let is_one = |name: &[u8]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let found = symbols.iter().filter(|(start, name)| section.contains(start) && is_one(name));
        found.map(|(start, _)| *start).collect()
    };
    let interrupts = entries(&[b"asm_common_interrupt", b"asm_spurious_interrupt", b"asm_sysvec_"]);
    let exceptions = entries(&[b"asm_exc_", b"asm_int80"]);
    let first = interrupts.iter().min().copied().unwrap_or(section.start);
    let hard = first..exceptions.into_iter().filter(|start| *start > first).min().unwrap_or(section.end);
    // An interrupt beyond an exception would pass for a thread.
    let is_whole = interrupts.iter().all(|start| hard.contains(start));
    WaitCode { hard: if is_whole { hard } else { Avma(0)..Avma(0) }, soft, caller, scheduler }
}

impl Kallsyms {
    /// Reads the running kernel's functions.
    ///
    /// # Errors
    /// The error of reading the file.
    pub(crate) fn read() -> std::io::Result<Self> {
        Ok(Self::parse(std::fs::read(PATH)?))
    }

    /// Finds the lines of functions in the text: `address type name [module]`, tabs before modules. Lines whose address is hidden (0)
    /// are skipped. The rest of a line is read when its function is requested: of 100,000 functions a recording hits hundreds.
    ///
    /// # Source
    /// proc(5) `/proc/kallsyms`; types are those of nm(1)
    pub fn parse(text: Vec<u8>) -> Self {
        let mut lines = Vec::with_capacity(text.len() / 48);
        let mut next = 0;
        for line in text.split(|&b| b == b'\n') {
            let Ok(off) = u32::try_from(next) else { break };
            next += line.len() + 1;
            if let Some((start, kind)) = parse_head(line)
                && start.0 != 0
                && is_function(kind)
            {
                lines.push((start, off));
            }
        }
        lines.sort_by_key(|(start, _)| *start);
        Self { text, lines }
    }

    /// Finds the function that an address lies in. Of several names for one address it takes the global one, else one that is not that
    /// of a system call for 32-bit programs, else the one with fewer leading underscores, else the first.
    pub fn find(&self, address: Avma) -> Option<KernelFunction<'_>> {
        let behind = self.lines.partition_point(|(start, _)| *start <= address);
        let start = self.lines.get(behind.checked_sub(1)?)?.0;
        let first = self.lines[..behind].partition_point(|(other, _)| *other < start);
        let line = |(_, off): &(Avma, u32)| {
            let line = &self.text[*off as usize..];
            parse_line(&line[..line.iter().position(|&b| b == b'\n').unwrap_or(line.len())])
        };
        let rank = |(_, kind, name, _): &Line<'_>| {
            let underscores = name.iter().take_while(|&&b| b == b'_').count();
            (!kind.is_ascii_uppercase(), name.starts_with(b"__ia32_sys_"), underscores)
        };
        let (_, _, name, module) = self.lines[first..behind].iter().filter_map(line).min_by_key(rank)?;
        let next = self.lines.get(behind).map(|(next, _)| *next);
        let end = next.unwrap_or(Avma(start.0.saturating_add(LAST_LEN)));
        (address < end).then_some(KernelFunction { start, end, name, module })
    }
}

/// Lists the names of the running kernel's functions, also if their addresses are hidden; empty if the kernel shows none.
pub(crate) fn names() -> Vec<String> {
    let text = std::fs::read(PATH).unwrap_or_default();
    let lines = text.split(|&b| b == b'\n').filter_map(parse_line);
    lines.map(|(.., name, _)| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Reads what the kernel prints for an address: `address name+0xDISTANCE/0xLENGTH [module]`; `None` if it knows no function there.
///
/// # Source
/// Linux `Documentation/core-api/printk-formats.rst`, `%pS`
pub(crate) fn parse_place(line: &[u8]) -> Option<KernelFunction<'_>> {
    let mut words = line.split(|&b| b == b' ');
    let (address, place) = (hex(words.next()?)?, words.next()?);
    let module =
        words.next().and_then(|word| word.strip_prefix(b"[")?.strip_suffix(b"]")).unwrap_or_default();
    let plus = place.windows(3).rposition(|bytes| bytes == b"+0x")?;
    let (name, rest) = (&place[..plus], &place[plus + 3..]);
    let slash = rest.windows(3).position(|bytes| bytes == b"/0x")?;
    let start = address.checked_sub(hex(&rest[..slash])?)?;
    let end = start.checked_add(hex(&rest[slash + 3..])?)?;
    Some(KernelFunction { start: Avma(start), end: Avma(end), name, module })
}

fn hex(digits: &[u8]) -> Option<u64> {
    let add = |number: u64, digit: &u8| Some(number << 4 | u64::from(char::from(*digit).to_digit(16)?));
    digits.iter().try_fold(0, add).filter(|_| (1..=16).contains(&digits.len()))
}

type Line<'a> = (Avma, u8, &'a [u8], &'a [u8]);

fn is_function(kind: u8) -> bool {
    matches!(kind, b't' | b'T' | b'w' | b'W')
}

/// Reads address and type.
fn parse_head(line: &[u8]) -> Option<(Avma, u8)> {
    let digits = line.iter().position(|&b| b == b' ')?;
    let address = hex(&line[..digits])?;
    Some((Avma(address), *line.get(digits + 1)?))
}

fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let (start, kind) = parse_head(line)?;
    let mut words = line.split(|&b| b == b' ' || b == b'\t').filter(|word| !word.is_empty()).skip(2);
    let name = words.next()?;
    let module =
        words.next().and_then(|word| word.strip_prefix(b"[")?.strip_suffix(b"]")).unwrap_or_default();
    is_function(kind).then_some((start, kind, name, module))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
ffffffff81000000 t __alias\n\
ffffffff81000000 T _text\n\
ffffffff81000100 t second\n\
ffffffff81000180 d data_is_no_function\n\
ffffffff81000200 T __ia32_sys_both\n\
ffffffff81000200 T __x64_sys_both\n\
ffffffffc0000000 t probe\t[ext4]\n\
0000000000000000 T hidden\n";

    #[test]
    fn functions_are_found_between_their_start_and_the_next() {
        let table = Kallsyms::parse(TEXT.to_vec());
        let first = table.find(Avma(0xffff_ffff_8100_00ff)).expect("inside");
        assert_eq!((first.name, first.end.0), (&b"_text"[..], 0xffff_ffff_8100_0100));
        assert_eq!(table.find(Avma(0xffff_ffff_8100_0100)).map(|f| f.name), Some(&b"second"[..]));
        assert_eq!(table.find(Avma(0xffff_ffff_8100_0200)).map(|f| f.name), Some(&b"__x64_sys_both"[..]));
        let module = table.find(Avma(0xffff_ffff_c000_0010)).expect("inside");
        assert_eq!((module.name, module.module), (&b"probe"[..], &b"ext4"[..]));
        assert_eq!(table.find(Avma(0xffff_ffff_c000_0000 + LAST_LEN)), None);
        assert_eq!(table.find(Avma(5)), None);
    }

    #[test]
    fn what_the_kernel_prints_for_an_address_is_its_function() {
        let found = parse_place(b"ffffffffc0000010 probe+one+0x10/0x5a [ext4]").expect("a function");
        assert_eq!((found.start.0, found.end.0), (0xffff_ffff_c000_0000, 0xffff_ffff_c000_005a));
        assert_eq!((found.name, found.module), (&b"probe+one"[..], &b"ext4"[..]));
        assert_eq!(parse_place(b"ffffffff81000010 a+0x0/0x8").map(|found| found.module), Some(&b""[..]));
        for none in ["ffffffff81000010 0xffffffff81000010", "1 a+0x2/0x3", "", "5", "zz a+0x1/0x1"] {
            assert_eq!(parse_place(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let hidden = Kallsyms::parse(b"0000000000000000 T _text\n0000000000000000 t x\t[m]\n".to_vec());
        assert_eq!(hidden.find(Avma(5)), None);
        assert_eq!(Kallsyms::parse(Vec::new()).find(Avma(5)), None);
    }

    #[test]
    fn the_code_of_interrupts_lies_between_its_labels() {
        let text = b"\
ffffffff81000300 T __irqentry_text_start\n\
ffffffff81000c60 T asm_exc_page_fault\n\
ffffffff81000d40 T asm_common_interrupt\n\
ffffffff81000df0 T asm_sysvec_apic_timer_interrupt\n\
ffffffff81000f70 T __irqentry_text_end\n\
ffffffff82000000 t handle_softirqs\n\
ffffffff82000200 t __traceiter_sched_waking\n\
ffffffff82000280 T schedule\n\
ffffffff820003a0 t next\n\
ffffffff82202a10 T __softirqentry_text_start\n\
ffffffff82202a2c T __softirqentry_text_end\n";
        let code = wait_code_in(text);
        assert_eq!((code.hard.start.0, code.hard.end.0), (0xffff_ffff_8100_0d40, 0xffff_ffff_8100_0f70));
        assert_eq!((code.soft.start.0, code.soft.end.0), (0xffff_ffff_8200_0000, 0xffff_ffff_8200_0200));
        assert_eq!((code.caller.start.0, code.caller.end.0), (0xffff_ffff_8200_0200, 0xffff_ffff_8200_0280));
        assert_eq!(
            (code.scheduler.start.0, code.scheduler.end.0),
            (0xffff_ffff_8200_0280, 0xffff_ffff_8200_03a0)
        );
        let older = wait_code_in(&text[text.len() - 2 * 47..]);
        assert_eq!(older.soft, Avma(0xffff_ffff_8220_2a10)..Avma(0xffff_ffff_8220_2a2c));
        assert_eq!((older.hard, older.caller), (Avma(0)..Avma(0), Avma(0)..Avma(0)));
    }

    #[test]
    fn a_hidden_table_is_told_from_one_that_begins_with_zero() {
        assert!(are_all_zero(b"0000000000000000 A fixed_percpu_data\n0000000000000000 T _text\n"));
        assert!(!are_all_zero(b"0000000000000000 A fixed_percpu_data\n0000000000001000 A cpu_debug_store\n"));
        assert!(are_all_zero(b""), "what cannot be read is hidden");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text: Vec<u8>, address: u64) {
            let _ = parse_place(&text);
            let _ = Kallsyms::parse(text).find(Avma(address));
        }
    }
}
