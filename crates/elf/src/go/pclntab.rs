//! Reads Go's table of functions.
//!
//! ```text
//! header │ names │ … │ depths │ functions: (address, offset of its record)…, end │ records of functions: address, name, …
//! ```
//!
//! # Source   `runtime/symtab.go`, `cmd/link/internal/ld/pcln.go` of Go 1.2 to 1.26

/// The sections that may hold the table, each with the name of a section that the file must have, too. The linker of Go writes the first, and
/// the second in an executable that may lie anywhere (PIE). If a PIE contains C, the linker of C merges the table with other data into the third;
/// `beginnings` finds it there.
pub const SECTIONS: [(&str, &str); 3] = [
    (".gopclntab", ".gopclntab"),
    (".data.rel.ro.gopclntab", ".data.rel.ro.gopclntab"),
    (".data.rel.ro", ".go.buildinfo"),
];
/// The table begins at a multiple of this many bytes.
const ALIGNMENT: usize = 32;

/// The bytes before the numbers of the header: magic, two zeros, unit of code, bytes of an address.
const NUMBERS_OFF: u64 = 8;
/// The number that says where the code begins.
const TEXT: u64 = 2;
/// The largest list of functions that is read, bytes.
const MAX_LIST_BYTES: u64 = 64 << 20;
/// The longest name that is read, bytes.
const MAX_NAME_BYTES: u64 = 4 << 10;
/// The longest list of depths of a function that is read, bytes. The longest of the Go distribution has 500.
const MAX_DEPTHS_BYTES: u64 = 16 << 10;
/// The beginning of the name of the function with which a program begins.
const ENTRY: &[u8] = b"_rt0_";
/// The flags of a function, since Go 1.17.
const TOP_FRAME: u8 = 1;
const WRITES_SP: u8 = 2;

/// The number of possible beginnings that a reader tries at most. A hostile file may have any number of them.
pub(super) const MAX_BEGINNINGS: usize = 16;

/// Lists the offsets in `bytes` at which a table may begin; in a section of its own it begins at 0. `bytes` must begin at a multiple of 32
/// bytes from the beginning of the section.
pub(super) fn beginnings(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let is_head = |head: &[u8]| {
        let is_magic = MAGICS.iter().any(|(magic, _)| {
            head.starts_with(&magic.to_le_bytes()) || head.starts_with(&magic.to_be_bytes())
        });
        is_magic && head[4..6] == [0; 2] && matches!(head[6], 1 | 2 | 4) && matches!(head[7], 4 | 8)
    };
    let heads = bytes.chunks(ALIGNMENT).enumerate().filter(|(_, chunk)| chunk.len() >= NUMBERS_OFF as usize);
    heads.filter(move |(_, head)| is_head(head)).map(|(number, _)| (number * ALIGNMENT) as u64)
}

/// The bytes of a section.
pub trait SectionBytes<'d>: Copy {
    /// Reads bytes at an offset; `None` if the section ends before.
    fn bytes(self, off: u64, len: u64) -> Option<&'d [u8]>;
    /// Returns the length of the section.
    fn byte_len(self) -> u64;
}

impl<'d> SectionBytes<'d> for &'d [u8] {
    fn bytes(self, off: u64, len: u64) -> Option<&'d [u8]> {
        let off = usize::try_from(off).ok()?;
        self.get(off..off.checked_add(usize::try_from(len).ok()?)?)
    }

    fn byte_len(self) -> u64 {
        self.len() as u64
    }
}

/// The layout of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Go1_2,
    Go1_16,
    /// Addresses count from the beginning of the code.
    Go1_18,
    Go1_20,
}

/// The first four bytes of a table, by version.
const MAGICS: [(u32, Version); 4] = [
    (0xffff_fffb, Version::Go1_2),
    (0xffff_fffa, Version::Go1_16),
    (0xffff_fff0, Version::Go1_18),
    (0xffff_fff1, Version::Go1_20),
];

/// Facts about the file around the table.
#[derive(Debug, Clone, Copy)]
pub struct Where {
    /// The byte order of numbers.
    pub is_big_endian: bool,
    /// The bytes of an address.
    pub word_len: u8,
    /// The address of `.text`.
    pub text: Option<u64>,
    /// The address at which the program begins.
    pub entry: u64,
}

/// A table, its parts found.
#[derive(Debug, Clone, Copy)]
pub struct Pclntab<'d, S> {
    section: S,
    version: Version,
    is_big_endian: bool,
    /// The address from which addresses count.
    text: u64,
    /// The length of the smallest instruction, bytes.
    unit: u64,
    /// The bytes of an address in the list of functions, and in a record of one.
    address_len: usize,
    count: usize,
    /// Rows of an address and an offset; the last row is an address alone.
    functions: &'d [u8],
    /// Offsets in the section, from which the offsets of records, of names, and of depths count.
    known_off: u64,
    names_off: u64,
    depths_off: u64,
}

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function<'d> {
    /// Its first address.
    pub start: u64,
    /// The address after it, where the next function begins.
    pub end: u64,
    /// Its name as Go writes it: `main.(*T).method`.
    pub name: &'d [u8],
    /// The offset of its record in the section.
    known_off: u64,
}

impl<'d, S: SectionBytes<'d>> Pclntab<'d, S> {
    /// Finds the parts of the table; `None` if its version is unknown, or it is torn. `told_text` returns the address that a
    /// loader must write at an offset of the section: there the table has the beginning of the code.
    pub fn open(section: S, place: Where, told_text: impl FnOnce(u64) -> Option<u64>) -> Option<Self> {
        let Where { is_big_endian, word_len, .. } = place;
        let head = section.bytes(0, NUMBERS_OFF)?;
        let magic = number(head, 0, 4, is_big_endian)?;
        let (_, version) = MAGICS.into_iter().find(|(known, _)| u64::from(*known) == magic)?;
        let (unit, own_word_len) = (head[6], head[7]);
        if own_word_len != word_len || !matches!(word_len, 4 | 8) || !matches!(unit, 1 | 2 | 4) {
            return None;
        }
        let word_bytes = u64::from(word_len);
        let word = |position: u64| {
            let bytes = section.bytes(NUMBERS_OFF + position * word_bytes, word_bytes)?;
            number(bytes, 0, bytes.len(), is_big_endian)
        };
        let word_len = usize::from(word_len);
        let (address_len, names_off, depths_off, list_off, known_off) = match version {
            Version::Go1_2 => (word_len, 0, 0, NUMBERS_OFF + word_bytes, 0),
            Version::Go1_16 => (word_len, word(2)?, word(5)?, word(6)?, word(6)?),
            Version::Go1_18 | Version::Go1_20 => (4, word(3)?, word(6)?, word(7)?, word(7)?),
        };
        let count = word(0)?;
        let len = count.checked_mul(2)?.checked_add(1)?.checked_mul(address_len as u64)?;
        if len > MAX_LIST_BYTES {
            return None;
        }
        let (functions, count) = (section.bytes(list_off, len)?, usize::try_from(count).ok()?);
        let unit = unit.into();
        let mut table = Self {
            section,
            version,
            is_big_endian,
            text: 0,
            unit,
            address_len,
            count,
            functions,
            known_off,
            names_off,
            depths_off,
        };
        if version >= Version::Go1_18 {
            table.text = match word(TEXT)? {
                0 => told_text(NUMBERS_OFF + TEXT * word_bytes).or_else(|| table.text_by_entry(place))?,
                text => text,
            };
        }
        Some(table)
    }

    /// Go 1.26 no longer writes where its code begins. In a program without C the code begins with `.text` and contains the entry
    /// point: this checks that the table names it.
    fn text_by_entry(&mut self, place: Where) -> Option<u64> {
        self.text = place.text?;
        let first = self.function(place.entry)?;
        (first.start == place.entry && first.name.starts_with(ENTRY)).then_some(self.text)
    }

    /// Finds the function around an address.
    pub fn function(&self, at: u64) -> Option<Function<'d>> {
        let (mut low, mut high) = (0, self.count + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.address(middle)? <= at { low = middle + 1 } else { high = middle }
        }
        // After the last function there is an address, but no record.
        self.function_at(low.checked_sub(1)?)
    }

    /// Lists all functions, by their addresses.
    pub fn functions(&self) -> impl Iterator<Item = Function<'d>> + '_ {
        (0..self.count).filter_map(|position| self.function_at(position))
    }

    /// Returns the range from the first function to the end of the last.
    pub fn code(&self) -> std::ops::Range<u64> {
        let end = self.address(self.count).unwrap_or(0);
        self.address(0).unwrap_or(0).min(end)..end
    }

    fn function_at(&self, position: usize) -> Option<Function<'d>> {
        let position = Some(position).filter(|position| *position < self.count)?;
        let (start, end) = (self.address(position)?, self.address(position + 1)?);
        let off = (2 * position + 1) * self.address_len;
        let off = number(self.functions, off, self.address_len, self.is_big_endian)?;
        let known_off = self.known_off.checked_add(off)?;
        let name = self.names_off.checked_add(self.field(known_off, 0)?.into())?;
        let name = self.name(name).filter(|name| !name.is_empty() && start < end)?;
        Some(Function { start, end, name, known_off })
    }

    fn name(&self, off: u64) -> Option<&'d [u8]> {
        [64, MAX_NAME_BYTES].into_iter().find_map(|len| {
            let name = self.section.bytes(off, len.min(self.section.byte_len().checked_sub(off)?))?;
            Some(&name[..name.iter().position(|byte| *byte == 0)?])
        })
    }

    /// Returns whether a stack begins with a function, and whether it writes the stack pointer itself; `None` if this version of
    /// Go does not record that.
    pub fn is_top_or_writes_sp(&self, function: &Function<'_>) -> Option<(bool, bool)> {
        let field = match self.version {
            Version::Go1_2 => return None,
            Version::Go1_16 | Version::Go1_18 => 8,
            Version::Go1_20 => 9,
        };
        let flags = self.section.bytes(self.field_off(function.known_off, field)?.checked_add(1)?, 1)?[0];
        // Go 1.16 has the same layout, with a zero there.
        let is_said = self.version > Version::Go1_16 || flags != 0;
        is_said.then_some((flags & TOP_FRAME != 0, flags & WRITES_SP != 0))
    }

    /// Lists the stack depths of a function: the end address of each range, and the bytes from the stack pointer to where it was when
    /// the function began. `None` if the list is torn, too long, or belongs to other code.
    pub fn depths(&self, function: &Function<'_>) -> Option<Vec<(u64, u32)>> {
        let off = self.depths_off.checked_add(self.field(function.known_off, 3)?.into())?;
        let rest = self.section.byte_len().checked_sub(off)?;
        let lens = [64, 1 << 10, MAX_DEPTHS_BYTES].into_iter().map(|len| rest.min(len));
        lens.into_iter().find_map(|len| self.listed(function, self.section.bytes(off, len)?))
    }

    fn listed(&self, function: &Function<'_>, mut bytes: &[u8]) -> Option<Vec<(u64, u32)>> {
        let (mut depth, mut at, mut rows) = (-1_i64, function.start, Vec::new());
        loop {
            let step = varint(&mut bytes)?;
            if step == 0 && !rows.is_empty() {
                return Some(rows);
            }
            depth = depth.checked_add(i64::from(step >> 1) ^ -i64::from(step & 1))?;
            at = at.checked_add(u64::from(varint(&mut bytes)?).checked_mul(self.unit)?)?;
            if at > function.end {
                return None;
            }
            rows.push((at, u32::try_from(depth).ok()?));
        }
    }

    fn address(&self, position: usize) -> Option<u64> {
        let relative =
            number(self.functions, 2 * position * self.address_len, self.address_len, self.is_big_endian)?;
        self.text.checked_add(relative)
    }

    /// Reads a number of four bytes from the record of a function, after its address.
    fn field(&self, known_off: u64, field: u64) -> Option<u32> {
        let bytes = self.section.bytes(self.field_off(known_off, field)?, 4)?;
        number(bytes, 0, 4, self.is_big_endian).map(|number| number as u32)
    }

    fn field_off(&self, known_off: u64, field: u64) -> Option<u64> {
        known_off.checked_add(self.address_len as u64)?.checked_add(4 * field)
    }
}

/// A number of 4 or 8 bytes.
fn number(bytes: &[u8], off: usize, len: usize, is_big_endian: bool) -> Option<u64> {
    let bytes = bytes.get(off..off.checked_add(len)?)?;
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    Some(if is_big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
}

/// A number in bytes of seven bits, the lowest first.
fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in [0, 7, 14, 21, 28] {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{MAGICS, TEXT, open, place, table};
    use super::*;

    /// 0 for 4 bytes, 24 for 11, 0 for the last.
    const DEPTHS: [u8; 7] = [2, 4, 48, 11, 47, 1, 0];
    const AT: [u64; 9] = [0, 0xf, 0x10, 0x1f, 0x20, 0x30, 0x3f, 0x40, 0x1000];
    const NAMES: [&str; 9] =
        ["", "", "main.main", "main.main", "_rt0_amd64_linux", "main.F[...]", "main.F[...]", "", ""];

    fn names(table: &Pclntab<'_, &[u8]>) -> Vec<String> {
        let name = |at| table.function(table.text.max(TEXT) + at).map_or(&b""[..], |function| function.name);
        AT.into_iter().map(|at| String::from_utf8_lossy(name(at)).into_owned()).collect()
    }

    #[test]
    fn all_versions_tell_names_depths_and_kinds_of_functions() {
        for magic in MAGICS {
            let bytes = table(magic, TEXT, &DEPTHS, 3);
            let table = open(&bytes).expect("sound");
            assert_eq!(names(&table), NAMES, "{magic:#x}");
            let function = table.function(TEXT + 0x25).expect("one is there");
            assert_eq!((function.start, function.end), (TEXT + 0x20, TEXT + 0x30));
            let begin = function.start;
            let rows = vec![(begin + 4, 0), (begin + 15, 24), (begin + 16, 0)];
            assert_eq!(table.depths(&function), Some(rows), "{magic:#x}");
            let flags = (magic != MAGICS[0]).then_some((true, true));
            assert_eq!(table.is_top_or_writes_sp(&function), flags, "{magic:#x}");
            assert_eq!((table.functions().count(), table.code()), (3, TEXT + 0x10..TEXT + 0x40));
        }
    }

    #[test]
    fn a_table_among_other_data_is_found_by_its_head() {
        let other = [&[0xff; 40][..], &[0; 24]].concat();
        for magic in MAGICS {
            let data = [&other[..], &table(magic, TEXT, &DEPTHS, 3)].concat();
            assert_eq!(beginnings(&data).collect::<Vec<_>>(), [64], "{magic:#x}");
            assert_eq!(names(&open(&data[64..]).expect("sound")), NAMES, "{magic:#x}");
        }
        assert_eq!(beginnings(&other).count() + beginnings(&[0xf1, 0xff, 0xff, 0xff]).count(), 0);
    }

    #[test]
    fn where_the_code_begins_is_told_by_the_loader_or_proven_by_the_entry() {
        let bytes = table(MAGICS[3], 0, &DEPTHS, 0);
        let moved = Pclntab::open(&bytes[..], place(), |off| (off == 24).then_some(0x7000)).expect("sound");
        assert_eq!((moved.text, names(&moved)), (0x7000, NAMES.map(str::to_owned).to_vec()));
        let entered = |entry| Pclntab::open(&bytes[..], Where { entry, ..place() }, |_| None);
        assert_eq!(entered(TEXT + 0x20).expect("proven").text, TEXT);
        for wrong in [0x10, 0x21, 0x30, 0x100] {
            assert!(entered(TEXT + wrong).is_none(), "{wrong:#x}");
        }
    }

    #[test]
    fn depths_that_make_no_sense_are_none() {
        for depths in [
            &[][..],
            &[2, 4],
            // Below nothing; after the function; a number without end.
            &[1, 4, 0],
            &[2, 0x11, 0],
            &[2, 0x80, 0x80, 0x80, 0x80, 0x80, 0],
        ] {
            let bytes = table(MAGICS[0], TEXT, depths, 0);
            let table = open(&bytes).expect("sound");
            let last = table.function(TEXT + 0x30).expect("one is there");
            assert_eq!(table.depths(&last), None, "{depths:?}");
        }
    }

    #[test]
    fn cut_and_flipped_tables_are_no_panic() {
        let read = |bytes: &[u8]| {
            if let Some(table) = open(bytes) {
                names(&table);
                table.functions().for_each(|it| drop((table.depths(&it), table.is_top_or_writes_sp(&it))));
            }
        };
        for magic in MAGICS {
            let whole = table(magic, TEXT, &DEPTHS, 0);
            (0..whole.len()).for_each(|len| read(&whole[..len]));
            for off in 0..whole.len() {
                for value in [0, 0x7f, 0x80, 0xff] {
                    let mut bytes = whole.clone();
                    bytes[off] = value;
                    read(&bytes);
                }
            }
        }
    }
}
