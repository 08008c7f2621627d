//! What HotSpot says of its own data structures: the tables by which its serviceability agent reads a virtual machine from outside.
//!
//! # Source
//! OpenJDK `src/hotspot/share/runtime/vmStructs.hpp`, "vmStructs.hpp: This table encapsulates the debugging information required by the
//! serviceability agent".

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::foreign::memory::Memory;
use icecore_jit::{u32_at, u64_at};

/// The most rows of a table, and the most bytes of the texts that they point to, which lie together.
const MAX_ROWS: usize = 8192;
const MAX_TEXT: u64 = 4 << 20;
/// The longest text, bytes.
const MAX_WORD: usize = 256;
/// The most bytes of dynamic symbols and of their names.
const MAX_SYMBOLS: u64 = 4 << 20;

/// A field of a structure, or a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// Its offset; of a variable its address.
    pub(super) at: u64,
    /// Bytes.
    pub(super) width: u8,
}

/// The structures of a virtual machine.
#[derive(Debug, Default)]
pub(super) struct Structs {
    fields: FxHashMap<String, Field>,
    sizes: FxHashMap<String, u64>,
}

impl Structs {
    /// Reads the tables of the library that is mapped at an address.
    pub(super) fn read(memory: &Memory<'_>, base: u64) -> Option<Self> {
        // The texts of the tables were never read by the process.
        let memory = Reader::any(memory);
        let symbols = Symbols::read(memory, base)?;
        let value = |name: &str| memory.word(symbols.find(name)?);
        let mut structs = Self::default();
        let [of_type, of_field, kind, is_static, offset, address] =
            ["TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address"]
                .map(|it| value(&format!("gHotSpotVMStructEntry{it}Offset")));
        let [of_type, of_field, kind, is_static, offset, address] =
            [of_type?, of_field?, kind?, is_static?, offset?, address?];
        let table = Table {
            at: value("gHotSpotVMStructs")?,
            stride: value("gHotSpotVMStructEntryArrayStride")?,
            texts: &[of_type, of_field, kind],
        };
        table.rows(memory, |row, texts| {
            let number = |at: u64, width: u8| in_bytes(row, 0, Field { at, width });
            let is_static = number(is_static, 4);
            let (Some(is_static), Some(offset), Some(address)) =
                (is_static, number(offset, 8), number(address, 8))
            else {
                return;
            };
            let [of_type, of_field, kind] = texts else { return };
            let at = if is_static == 0 { offset } else { address };
            structs.fields.insert(format!("{of_type}.{of_field}"), Field { at, width: width(kind) });
        })?;
        let [name, size] = ["TypeName", "Size"].map(|it| value(&format!("gHotSpotVMTypeEntry{it}Offset")));
        let (name, size) = (name?, size?);
        let table = Table {
            at: value("gHotSpotVMTypes")?,
            stride: value("gHotSpotVMTypeEntryArrayStride")?,
            texts: &[name],
        };
        table.rows(memory, |row, texts| {
            if let (Some(size), [name]) = (in_bytes(row, 0, Field { at: size, width: 8 }), texts) {
                structs.sizes.insert(name.clone(), size);
            }
        })?;
        Some(structs)
    }

    /// Finds a field by one of its names, `TYPE.FIELD`: they differ between versions.
    pub(super) fn field(&self, names: &[&str]) -> Option<Field> {
        names.iter().find_map(|name| self.fields.get(*name).copied())
    }

    /// Returns the size of a structure.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        self.sizes.get(name).copied()
    }
}

/// The size of a number, by its type; that of a pointer if it is none.
fn width(kind: &str) -> u8 {
    match kind {
        "bool" | "char" | "u1" | "jbyte" | "uint8_t" => 1,
        "short" | "unsigned short" | "u2" | "jshort" | "int16_t" | "uint16_t" => 2,
        "int" | "u4" | "jint" | "int32_t" | "uint32_t" | "unsigned int" | "uint" => 4,
        _ => 8,
    }
}

/// Reads memory of a process: all of it, or only what is there, so that no file system is asked for it, which may not answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    memory: &'a Memory<'a>,
    brings: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn any(memory: &'a Memory<'a>) -> Self {
        Self { memory, brings: true }
    }

    pub(super) fn there(memory: &'a Memory<'a>) -> Self {
        Self { memory, brings: false }
    }

    /// Reads bytes; `None` if one of them cannot be read.
    pub(super) fn bytes(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        if self.brings {
            return self.memory.bring(at, len);
        }
        Some(self.memory.read_up_to(at, len)).filter(|bytes| bytes.len() == len)
    }

    /// Reads bytes up to the first that is not there.
    pub(super) fn ahead(&self, at: u64, most: usize) -> Vec<u8> {
        self.memory.read_up_to(at, most)
    }

    pub(super) fn word(&self, at: u64) -> Option<u64> {
        Some(u64_at(&self.bytes(at, 8)?, 0))
    }

    /// Reads a field of the structure at an address.
    pub(super) fn number(&self, at: u64, field: Field) -> Option<u64> {
        let bytes = self.bytes(at.checked_add(field.at)?, usize::from(field.width))?;
        in_bytes(&bytes, 0, Field { at: 0, ..field })
    }
}

/// Reads a field of the structure that begins at `from` in these bytes.
pub(super) fn in_bytes(bytes: &[u8], from: usize, field: Field) -> Option<u64> {
    let at = from.checked_add(usize::try_from(field.at).ok()?)?;
    let mut word = [0; 8];
    let width = usize::from(field.width);
    word[..width].copy_from_slice(bytes.get(at..at.checked_add(width)?)?);
    Some(u64_at(&word, 0))
}

/// A table of rows that point to texts.
struct Table<'a> {
    at: u64,
    stride: u64,
    /// The offsets of these pointers; in the last row the first is null.
    texts: &'a [u64],
}

impl Table<'_> {
    /// Hands over the rows with their texts.
    fn rows(&self, memory: Reader<'_>, mut each: impl FnMut(&[u8], &[String])) -> Option<()> {
        let stride = usize::try_from(self.stride).ok().filter(|it| (8..=256).contains(it))?;
        self.texts.iter().all(|off| *off <= self.stride - 8).then_some(())?;
        let pointer = |row: &[u8], off: u64| u64_at(row, off as usize);
        let (mut rows, mut texts): (Vec<u8>, Option<Range<u64>>) = (Vec::new(), None);
        for position in 0..MAX_ROWS {
            let row = match rows.get(position * stride..(position + 1) * stride) {
                Some(row) => row,
                None => {
                    let more = memory.bytes(self.at.checked_add(rows.len() as u64)?, 128 * stride);
                    rows.extend(more?);
                    rows.get(position * stride..(position + 1) * stride)?
                }
            };
            if pointer(row, self.texts[0]) == 0 {
                rows.truncate(position * stride);
                break;
            }
            for at in self.texts.iter().map(|off| pointer(row, *off)).filter(|at| *at > 0) {
                let all = texts.get_or_insert(at..at);
                *all = all.start.min(at)..all.end.max(at);
            }
        }
        let texts = texts?;
        let len = texts.end.checked_sub(texts.start).filter(|len| *len < MAX_TEXT)?;
        let bytes = memory.bytes(texts.start, len as usize + MAX_WORD)?;
        let text = |at: u64| {
            let from =
                at.checked_sub(texts.start).and_then(|off| bytes.get(off as usize..)).unwrap_or_default();
            let word = from.iter().take(MAX_WORD).take_while(|byte| **byte != 0).copied().collect();
            String::from_utf8(word).unwrap_or_default()
        };
        for row in rows.chunks_exact(stride) {
            let texts: Vec<String> = self.texts.iter().map(|off| text(pointer(row, *off))).collect();
            each(row, &texts);
        }
        Some(())
    }
}

/// The dynamic symbols of a library in memory.
struct Symbols {
    base: u64,
    entries: Vec<u8>,
    names: Vec<u8>,
}

/// What the ELF header, the segments and the dynamic section say, by their offsets and numbers.
///
/// # Source
/// System V ABI, "Object files"
const PHOFF: usize = 32;
const PHNUM: usize = 56;
const SEGMENT_BYTES: usize = 56;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const SYMBOL_BYTES: usize = 24;

impl Symbols {
    fn read(memory: Reader<'_>, base: u64) -> Option<Self> {
        let header = memory.bytes(base, 64).filter(|it| it.starts_with(b"\x7fELF\x02\x01"))?;
        let count = usize::from(u16::from_le_bytes([header[PHNUM], header[PHNUM + 1]]));
        let segments = memory.bytes(base.checked_add(u64_at(&header, PHOFF))?, count * SEGMENT_BYTES)?;
        let segment = |kind: u32| segments.chunks_exact(SEGMENT_BYTES).find(|it| u32_at(it, 0) == kind);
        // What addresses in the file count from.
        let bias = base.wrapping_sub(u64_at(segment(PT_LOAD)?, 16));
        let dynamic = segment(PT_DYNAMIC)?;
        let len = usize::try_from(u64_at(dynamic, 40)).ok().filter(|len| *len <= 1 << 16)?;
        let dynamic = memory.bytes(bias.wrapping_add(u64_at(dynamic, 16)), len)?;
        let value = |tag: u64| {
            let entry = dynamic.as_chunks::<16>().0.iter().find(|it| u64_at(*it, 0) == tag)?;
            Some(u64_at(entry, 8))
        };
        // The loader of glibc makes addresses of them, that of musl does not.
        let address = |tag| value(tag).map(|at| if at < base { bias.wrapping_add(at) } else { at });
        let (symbols, names) = (address(DT_SYMTAB)?, address(DT_STRTAB)?);
        // Linkers put the names behind the symbols; no entry has their number.
        let len = names.checked_sub(symbols).filter(|len| *len <= MAX_SYMBOLS)?;
        let entries = memory.bytes(symbols, len as usize)?;
        let names = memory.bytes(names, value(DT_STRSZ).filter(|len| *len <= MAX_SYMBOLS)? as usize)?;
        Some(Self { base: bias, entries, names })
    }

    fn find(&self, name: &str) -> Option<u64> {
        let is_it = |entry: &&[u8]| {
            let found = self.names.get(u32_at(entry, 0) as usize..).unwrap_or_default();
            found.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        };
        let entry = self.entries.chunks_exact(SYMBOL_BYTES).find(is_it)?;
        Some(self.base.wrapping_add(u64_at(entry, 8))).filter(|_| u64_at(entry, 8) > 0)
    }
}
