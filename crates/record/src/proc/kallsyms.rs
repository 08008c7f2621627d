//! `/proc/kallsyms`: the names of the running kernel's functions.

use std::io::Read as _;

use icecore_elf::Avma;

/// All functions of the kernel, sorted by address; names in one arena.
#[derive(Debug, Default)]
pub(crate) struct Kallsyms {
    rows: Vec<Symbol>,
    names: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Symbol {
    start: Avma,
    name_off: u32,
    name_len: u16,
    module_len: u16,
}

/// One function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelFunction<'a> {
    pub(crate) start: Avma,
    /// Where the next function begins.
    pub(crate) end: Avma,
    pub(crate) name: &'a [u8],
    /// Empty for the kernel proper.
    pub(crate) module: &'a [u8],
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

impl Kallsyms {
    /// Reads the running kernel's functions.
    ///
    /// # Errors
    /// The error of reading the file.
    pub(crate) fn read() -> std::io::Result<Self> {
        Ok(Self::parse(&std::fs::read(PATH)?))
    }

    /// Parses the text: `address type name [module]`, tabs before modules.
    ///
    /// Of several names for one address the global one is kept, else the one with fewer leading
    /// underscores, else the first. Lines whose address is hidden (0) are skipped.
    ///
    /// # Source
    /// proc(5) `/proc/kallsyms`; types are those of nm(1)
    pub(crate) fn parse(text: &[u8]) -> Self {
        let mut out = Self::default();
        let mut ranked: Vec<(Symbol, (u8, usize))> = Vec::with_capacity(text.len() / 48);
        for line in text.split(|&b| b == b'\n') {
            let Some((start, kind, name, module)) = parse_line(line) else { continue };
            let Ok(name_off) = u32::try_from(out.names.len()) else { break };
            let underscores = name.iter().take_while(|&&b| b == b'_').count();
            let row =
                Symbol { start, name_off, name_len: name.len() as u16, module_len: module.len() as u16 };
            ranked.push((row, (u8::from(!kind.is_ascii_uppercase()), underscores)));
            out.names.extend_from_slice(name);
            out.names.extend_from_slice(module);
        }
        // Stable: equal ranks keep the order of the text.
        ranked.sort_by_key(|(row, rank)| (row.start, *rank));
        ranked.dedup_by_key(|(row, _)| row.start);
        out.rows = ranked.into_iter().map(|(row, _)| row).collect();
        out
    }

    /// Finds the function that an address lies in.
    pub(crate) fn find(&self, address: Avma) -> Option<KernelFunction<'_>> {
        let behind = self.rows.partition_point(|row| row.start <= address);
        let row = self.rows.get(behind.checked_sub(1)?)?;
        let end = self.rows.get(behind).map_or(Avma(row.start.0.saturating_add(LAST_LEN)), |next| next.start);
        let name_off = row.name_off as usize;
        let module_off = name_off + usize::from(row.name_len);
        (address < end).then(|| KernelFunction {
            start: row.start,
            end,
            name: &self.names[name_off..module_off],
            module: &self.names[module_off..module_off + usize::from(row.module_len)],
        })
    }
}

type Line<'a> = (Avma, u8, &'a [u8], &'a [u8]);

fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let mut words = line.split(|&b| b == b' ' || b == b'\t').filter(|word| !word.is_empty());
    let start = Avma(u64::from_str_radix(std::str::from_utf8(words.next()?).ok()?, 16).ok()?);
    let &[kind] = words.next()? else { return None };
    let name = words.next()?;
    let module =
        words.next().and_then(|word| word.strip_prefix(b"[")?.strip_suffix(b"]")).unwrap_or_default();
    let is_function = matches!(kind, b't' | b'T' | b'w' | b'W');
    let fits = name.len() <= usize::from(u16::MAX) && module.len() <= usize::from(u16::MAX);
    (start.0 != 0 && is_function && fits).then_some((start, kind, name, module))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
ffffffff81000000 t __alias\n\
ffffffff81000000 T _text\n\
ffffffff81000100 t second\n\
ffffffff81000180 d data_is_no_function\n\
ffffffffc0000000 t probe\t[ext4]\n\
0000000000000000 T hidden\n";

    #[test]
    fn functions_are_found_between_their_start_and_the_next() {
        let table = Kallsyms::parse(TEXT);
        let first = table.find(Avma(0xffff_ffff_8100_00ff)).expect("inside");
        assert_eq!((first.name, first.end.0), (&b"_text"[..], 0xffff_ffff_8100_0100));
        assert_eq!(table.find(Avma(0xffff_ffff_8100_0100)).map(|f| f.name), Some(&b"second"[..]));
        let module = table.find(Avma(0xffff_ffff_c000_0010)).expect("inside");
        assert_eq!((module.name, module.module), (&b"probe"[..], &b"ext4"[..]));
        assert_eq!(table.find(Avma(0xffff_ffff_c000_0000 + LAST_LEN)), None);
        assert_eq!(table.find(Avma(5)), None);
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let hidden = Kallsyms::parse(b"0000000000000000 T _text\n0000000000000000 t x\t[m]\n");
        assert_eq!(hidden.find(Avma(5)), None);
        assert_eq!(Kallsyms::parse(b"").find(Avma(5)), None);
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
            let _ = Kallsyms::parse(&text).find(Avma(address));
        }
    }
}
