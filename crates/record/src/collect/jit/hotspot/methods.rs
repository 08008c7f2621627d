//! What a Java method is: its name, the name of its source file, and its lines.
//!
//! ```text
//! Method ─► ConstMethod: bytecodes, lines ─► ConstantPool: names of the method and the source file ─► Klass: name of the class
//! ```
//!
//! # Source
//! OpenJDK `src/hotspot/share/oops/method.hpp`, `oops/constMethod.hpp`, `code/compressedStream.hpp`

use std::ops::Range;
use std::sync::Arc;

use super::compressed::Numbers;
use super::structs::{Field, Reader, Structs, in_bytes};
use icecore_jit::MAX_NAME_BYTES;

/// The flag of a method that has lines (`_has_linenumber_table`).
const HAS_LINES: u64 = 1;
/// The most bytes of a table of lines: bytecodes are at most 64 KiB.
const MAX_LINES_BYTES: u64 = 64 << 10;
/// In a table of lines, the last byte, and the one that two longer numbers follow.
const END: u8 = 0;
const LONG: u8 = 0xff;
/// The largest structure in front of bytecodes.
const MAX_STRUCT: u64 = 512;
/// How much of a structure is read at once.
const CONSTANT_AHEAD: usize = 512;
const POOL_AHEAD: usize = 2048;
const SYMBOL_AHEAD: usize = 64;

/// Where HotSpot has what is read of methods.
#[derive(Debug)]
pub(super) struct Methods {
    constant: Field,
    pool: Field,
    name: Field,
    holder: Field,
    class_name: Field,
    symbol_len: Field,
    symbol: Field,
    pool_bytes: u64,
    /// In the pool, or in JDK 8 (`Err`) in the class.
    source: Option<Result<Field, Field>>,
    lines: Option<LineFields>,
}

/// Where the table of lines is: behind the bytecodes, which lie behind the structure.
#[derive(Debug)]
struct LineFields {
    flags: Field,
    code_bytes: Field,
    words: Field,
    /// The bytes of the structure.
    constant_bytes: u64,
    zero: u8,
}

/// A method.
#[derive(Debug)]
pub(super) struct Method {
    /// `package.Class.method`.
    pub(super) name: Arc<[u8]>,
    /// Its package and its source file, `package/Class.java`; empty if unknown.
    pub(super) file: Arc<[u8]>,
    /// From which bytecode on which line holds, in the order of the table.
    lines: Vec<(i32, i32)>,
}

impl Method {
    /// Returns the line of a bytecode; 0 if it is unknown.
    pub(super) fn line(&self, bytecode: i32) -> u32 {
        // A method that is entered has none yet.
        let at = bytecode.max(0);
        let best = self.lines.iter().filter(|it| it.0 <= at).max_by_key(|it| it.0);
        best.map_or(0, |it| u32::try_from(it.1).unwrap_or(0))
    }
}

impl Method {
    /// Lists the lines, by the offset of the first instruction of each.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let mut lines: Vec<(u64, u32)> = Vec::new();
        for (off, line) in &self.lines {
            if let (Ok(off), Ok(line)) = (u64::try_from(*off), u32::try_from(*line)) {
                lines.push((off, line));
            }
        }
        lines.sort_by_key(|it| it.0);
        lines.dedup_by_key(|it| it.0);
        lines.into_iter()
    }
}

impl Methods {
    /// Finds the places in the structures. `zero` is the byte of compressed numbers that stands for 0.
    pub(super) fn new(structs: &Structs, zero: u8) -> Option<Self> {
        let field = |names: &[&str]| structs.field(names);
        let lines = || {
            Some(LineFields {
                flags: field(&["ConstMethod._flags", "ConstMethod._flags._flags"])?,
                code_bytes: field(&["ConstMethod._code_size"])?,
                words: field(&["ConstMethod._constMethod_size"])?,
                constant_bytes: structs.size("ConstMethod").filter(|bytes| *bytes <= MAX_STRUCT)?,
                zero,
            })
        };
        let source = || {
            let index = |name: &str| field(&[name]).filter(|it| it.width == 2);
            let in_class = || index("InstanceKlass._source_file_name_index").map(Err);
            index("ConstantPool._source_file_name_index").map(Ok).or_else(in_class)
        };
        Some(Self {
            constant: field(&["Method._constMethod"])?,
            pool: field(&["ConstMethod._constants"])?,
            name: field(&["ConstMethod._name_index"])?,
            holder: field(&["ConstantPool._pool_holder"])?,
            class_name: field(&["Klass._name"])?,
            symbol_len: field(&["Symbol._length"])?,
            symbol: field(&["Symbol._body"])?,
            pool_bytes: structs.size("ConstantPool")?,
            source: source(),
            lines: lines(),
        })
    }

    /// Reads `package.Class.method`, given the address of a method.
    pub(super) fn name(&self, memory: Reader<'_>, method: u64) -> Option<Vec<u8>> {
        let (constant, class) = self.begin(memory, method)?;
        self.whole_name(memory, &constant, &class)
    }

    /// Returns what tells a method from others that lay at its address.
    pub(super) fn identity(&self, memory: Reader<'_>, method: u64) -> Option<[u64; 5]> {
        let constant = memory.number(method, self.constant)?;
        let part = Part::read(memory, constant, CONSTANT_AHEAD);
        let pool = part.number(memory, self.pool)?;
        let class = memory.number(memory.number(pool, self.holder)?, self.class_name)?;
        let words = self.lines.as_ref().and_then(|of| part.number(memory, of.words)).unwrap_or(0);
        Some([constant, pool, part.number(memory, self.name)?, words, class])
    }

    /// Returns where the instructions (bytecodes) of a method are.
    pub(super) fn instructions(&self, memory: Reader<'_>, method: u64) -> Option<Range<u64>> {
        let of = self.lines.as_ref()?;
        let constant = memory.number(method, self.constant)?;
        let start = constant.checked_add(of.constant_bytes)?;
        let len = memory.number(constant, of.code_bytes)?;
        (len > 0).then_some(start..start.checked_add(len)?)
    }

    /// Reads a method, given its address.
    pub(super) fn read(&self, memory: Reader<'_>, method: u64) -> Option<Method> {
        let (constant, class) = self.begin(memory, method)?;
        let name = self.whole_name(memory, &constant, &class)?;
        let file = self.file(memory, &class).unwrap_or_default();
        let lines = self.lines(memory, &constant).unwrap_or_default();
        Some(Method { name: name.into(), file: file.into(), lines })
    }

    fn begin(&self, memory: Reader<'_>, method: u64) -> Option<(Part, Class)> {
        let constant = Part::read(memory, memory.number(method, self.constant)?, CONSTANT_AHEAD);
        let pool = Part::read(memory, constant.number(memory, self.pool)?, POOL_AHEAD);
        let class = memory.number(pool.number(memory, self.holder)?, self.class_name)?;
        let name = self.symbol(memory, class)?;
        Some((constant, Class { pool, name }))
    }

    fn whole_name(&self, memory: Reader<'_>, constant: &Part, class: &Class) -> Option<Vec<u8>> {
        let name = self.constant(memory, &class.pool, constant.number(memory, self.name)?)?;
        let mut whole = [&class.name[..], b".", &name].concat();
        let package = &mut whole[..class.name.len()];
        package.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b'.');
        whole.truncate(MAX_NAME_BYTES);
        (!whole.contains(&0)).then_some(whole)
    }

    /// Reads the path of the source file below the folder of all packages.
    fn file(&self, memory: Reader<'_>, class: &Class) -> Option<Vec<u8>> {
        let entry = match self.source? {
            Ok(field) => class.pool.number(memory, field)?,
            Err(field) => memory.number(class.pool.number(memory, self.holder)?, field)?,
        };
        (entry > 0).then_some(())?;
        let name = self.constant(memory, &class.pool, entry)?;
        let package = class.name.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let mut path = [&class.name[..package], &name].concat();
        path.truncate(MAX_NAME_BYTES);
        (!name.is_empty() && !path.contains(&0)).then_some(path)
    }

    /// Reads a text that a pool of constants has.
    fn constant(&self, memory: Reader<'_>, pool: &Part, entry: u64) -> Option<Vec<u8>> {
        let at = entry.checked_mul(8)?.checked_add(self.pool_bytes)?;
        self.symbol(memory, pool.number(memory, Field { at, width: 8 })?)
    }

    fn symbol(&self, memory: Reader<'_>, at: u64) -> Option<Vec<u8>> {
        let part = Part::read(memory, at, SYMBOL_AHEAD);
        let len = part.number(memory, self.symbol_len)?.min(MAX_NAME_BYTES as u64);
        part.slice(memory, self.symbol.at, len)
    }

    fn lines(&self, memory: Reader<'_>, constant: &Part) -> Option<Vec<(i32, i32)>> {
        let of = self.lines.as_ref()?;
        let number = |field: Field| constant.number(memory, field);
        (number(of.flags)? & HAS_LINES != 0).then_some(())?;
        let end = number(of.words)?.checked_mul(8)?;
        let start = of.constant_bytes.checked_add(number(of.code_bytes)?)?;
        let len = end.checked_sub(start)?.min(MAX_LINES_BYTES);
        Some(lines(&constant.slice(memory, start, len)?, of.zero))
    }
}

/// A pool of constants, and the name of its class as the class has it.
struct Class {
    pool: Part,
    name: Vec<u8>,
}

/// The beginning of a structure: each request takes its time, so much is read at once.
struct Part {
    at: u64,
    bytes: Vec<u8>,
}

impl Part {
    /// Reads what is there, up to a length.
    fn read(memory: Reader<'_>, at: u64, ahead: usize) -> Self {
        Self { at, bytes: memory.ahead(at, ahead) }
    }

    fn number(&self, memory: Reader<'_>, field: Field) -> Option<u64> {
        in_bytes(&self.bytes, 0, field).or_else(|| memory.number(self.at, field))
    }

    fn slice(&self, memory: Reader<'_>, from: u64, len: u64) -> Option<Vec<u8>> {
        let (from_byte, len) = (usize::try_from(from).ok()?, usize::try_from(len).ok()?);
        let known = self.bytes.get(from_byte..from_byte.checked_add(len)?);
        known.map(<[u8]>::to_vec).or_else(|| memory.bytes(self.at.checked_add(from)?, len))
    }
}

/// Reads a table of lines, up to its end.
fn lines(bytes: &[u8], zero: u8) -> Vec<(i32, i32)> {
    let (mut numbers, mut lines, mut bytecode, mut line) = (Numbers::new(bytes, zero), Vec::new(), 0, 0);
    let mut next = || {
        let (on, down) = match numbers.byte()? {
            END => return None,
            LONG => (numbers.signed()?, numbers.signed()?),
            byte => (i32::from(byte >> 3), i32::from(byte & 7)),
        };
        (bytecode, line) = (i32::wrapping_add(bytecode, on), i32::wrapping_add(line, down));
        Some((bytecode, line))
    };
    lines.extend(std::iter::from_fn(&mut next));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_lines_has_steps_of_one_byte_and_longer_ones() {
        // Bytecode 0: line 20; 5: line 22; 40: line 18.
        let table = [0xff, 0, 40, 5 << 3 | 2, 0xff, 70, 7, 0, 9];
        let lines = lines(&table, 0);
        assert_eq!(lines, [(0, 20), (5, 22), (40, 18)]);
        let method = Method { name: (*b"f").into(), file: (*b"").into(), lines };
        assert_eq!([-1, 0, 4, 5, 39, 40, 9999].map(|at| method.line(at)), [20, 20, 20, 22, 22, 18, 18]);
        let new = super::lines(&[0xff, 1, 41, 5 << 3 | 2, 0], 1);
        assert_eq!(new, [(0, 20), (5, 22)]);
        for cut in 0..table.len() {
            assert!(super::lines(&table[..cut], 0).len() <= 3);
        }
        assert_eq!(Method { lines: Vec::new(), ..method }.line(3), 0);
    }
}
