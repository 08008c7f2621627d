//! What a function of V8 is, the virtual machine of JavaScript in Node.js.
//!
//! Its frames are machine frames, which the sampler finds by itself (bpf/v8.h). The file exports where its objects have what (`v8dbg_…`, for
//! debuggers):
//!
//! ```text
//! function ─► shared: number in the script ─► script: number, file, source
//!                     name, or scope: name, position in the source
//! ```
//!
//! Objects move, and others come to where they were. A script keeps its number and gets no other one's, and a function its number in the script: so
//! these two prove it.

use std::sync::Arc;

use icecore_format::records::Omission;

use super::code::{Code, Found, MAX_NAME_BYTES, apart, half, word};
use super::list::List;
use super::symbols::{constant, exported};
use crate::foreign::memory::Memory;
use crate::track::jit::Line;

/// The name of a function without one, as V8 prints it. If it begins far behind the begin of a line, or in one that is not known, the character of
/// the script in which it begins is added.
const ANONYMOUS: &[u8] = b"(anonymous)";
const LONG_LINE: u32 = 500;
/// The line of a function's declaration is shown at its begin, and none at what runs.
const RUNNING: u64 = 1;
/// Pointers are one too high, and numbers in the upper half of a word.
const POINTER: u64 = 1;
const NUMBER_SHIFT: u64 = 32;
/// How many bits lie below a number, besides one that says that it is none of a pointer.
const SHIFT: u32 = 31;
/// Where frames have what they run, from the frame pointer on; the sampler knows it.
const FUNCTION: i32 = -16;
const CONTEXT: i32 = -8;
/// Behind the bits of what functions share comes their number in the script; behind the ends of its lines that of the script.
const NUMBER_BEHIND_BITS: u32 = 4;
const NUMBER_BEHIND_LINES: u32 = 8;
/// In a string: its length, and its characters or what it is made of.
const LEN: u64 = 12;
const CHARACTERS: u64 = 16;
const SECOND: u64 = 24;
/// The lowest bits of the type of a string tell its form, and whether its characters have one byte.
const FORMS: u16 = 7;
const WHOLE: u16 = 0;
const JOINED: u16 = 1;
const ELSEWHERE: u16 = 2;
const SLICE: u16 = 3;
const SAME: u16 = 5;
const ONE_BYTE: u16 = 8;
/// The most strings that one consists of.
const MAX_PARTS: usize = 64;
/// Where the bits of a scope tell that it has a name, and one that is inferred.
const NAME_BIT: u32 = 12;
const NAME_BITS: u32 = 3;
const INFERRED_BIT: u32 = 14;
/// A scope with so many variables has their names in an object of their own.
const NAMES_APART: u64 = 75;
/// Behind the name of the file of a script comes how many lines of it lie before the source.
const LINES_BEHIND_FILE: u64 = 8;
/// The most characters of a script in which lines are counted, how many are read at once, and the most lines that are remembered.
const MAX_SOURCE: u64 = 16 << 20;
const READ_AT_ONCE: u64 = 32 << 10;
const MAX_LINES: usize = 1 << 20;
/// What ends a line.
const LINE_FEED: u16 = 0x0a;
const CARRIAGE_RETURN: u16 = 0x0d;
const LINE_SEPARATOR: u16 = 0x2028;
const PARAGRAPH_SEPARATOR: u16 = 0x2029;
/// The scripts whose lines are remembered.
const MAX_SCRIPTS: usize = 8;

/// Offsets in bytes, and types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(super) list: List,
    shared_kind: u32,
    script_kind: u32,
    scope_kind: u32,
    /// Types below are those of strings.
    strings_end: u32,
    /// In a script.
    file: u32,
    source: u32,
    /// In a scope, words: how many variables it has, and the first one.
    variables: u32,
    first_variable: u32,
}

/// Finds V8 in a file; `None` if it is not there.
///
/// # Errors
/// If its objects are not known.
pub(super) fn find<'d>(file: impl object::ReadRef<'d>) -> Result<Option<Offsets>, Omission> {
    let found = exported(file, NAMES).unwrap_or_default();
    if found.iter().all(Option::is_none) {
        return Ok(None);
    }
    offsets(found.map(|at| constant(file, at?.start))).map(Some).ok_or(Omission::INTERPRETER_BUILD)
}

/// What the file exports; the type of a member is part of its name, and was renamed.
const NAMES: [&str; 21] = [
    "v8dbg_off_fp_function",
    "v8dbg_off_fp_context",
    "v8dbg_SmiShiftSize",
    "v8dbg_class_JSFunction__shared__SharedFunctionInfo",
    "v8dbg_class_SharedFunctionInfo__flags__int",
    "v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject",
    "v8dbg_class_SharedFunctionInfo__script__Tagged_HeapObject_",
    "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object",
    "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
    "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
    "v8dbg_class_Script__line_ends__Object",
    "v8dbg_class_Map__instance_type__uint16_t",
    "v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE",
    "v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE",
    "v8dbg_type_Script__SCRIPT_TYPE",
    "v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE",
    "v8dbg_FirstNonstringType",
    "v8dbg_class_Script__name__Object",
    "v8dbg_class_Script__source__Object",
    "v8dbg_scopeinfo_idx_ncontextlocals",
    "v8dbg_scopeinfo_idx_first_vars",
];

/// Sorts the constants of [`NAMES`]; `None` if one is missing, or unlike all that are known.
fn offsets(known: [Option<u32>; NAMES.len()]) -> Option<Offsets> {
    let [function, context, shift, shared, bits, script_before, script, rest @ ..] = known;
    let [
        name_first,
        name_then,
        name_now,
        line_ends,
        kind,
        bytecode_kind,
        shared_kind,
        script_kind,
        scope_kind,
        strings_end,
        rest @ ..,
    ] = rest;
    let [file, source, variables, first_variable] = rest;
    // Where pointers are half a word, all of this is different.
    let is_known = function == Some(FUNCTION.cast_unsigned())
        && context == Some(CONTEXT.cast_unsigned())
        && shift == Some(SHIFT);
    let list = List {
        shared: shared?,
        number: bits?.checked_add(NUMBER_BEHIND_BITS)?,
        script: script_before.or(script)?,
        name: name_first.or(name_then).or(name_now)?,
        script_number: line_ends?.checked_add(NUMBER_BEHIND_LINES)?,
        kind: kind?,
        bytecode_kind: bytecode_kind?,
        ..List::default()
    };
    let offsets = Offsets {
        list,
        shared_kind: shared_kind?,
        script_kind: script_kind?,
        scope_kind: scope_kind?,
        strings_end: strings_end?,
        file: file?,
        source: source?,
        variables: variables?,
        first_variable: first_variable?,
    };
    is_known.then_some(offsets)
}

/// Reads the function whose shared part is at an address.
pub(super) fn read(memory: &Memory<'_>, of: &Offsets, scripts: &mut Scripts, at: u64, check: u32) -> Found {
    let heap = Heap { memory, of };
    // Objects may move meanwhile, and others may come to where they were.
    let both = (heap.function(at), heap.function(at));
    let (Some(known), Some(again)) = both else { return Found::Gone };
    let place_in_source = heap.line(&known, scripts);
    if known != again || known.check != check || heap.check(at) != Some(check) {
        return Found::Gone;
    }
    let Some(place) = apart(at, 1 + RUNNING) else { return Found::Gone };
    let (line, column) = place_in_source.unwrap_or_default();
    let name = match known.begin {
        _ if !known.name.is_empty() => known.name,
        // Many of them may begin in one line.
        Some(begin) if line == 0 || column > LONG_LINE => format!("(anonymous at {begin})").into_bytes(),
        _ => ANONYMOUS.to_vec(),
    };
    let file: Arc<[u8]> = Arc::from(known.file);
    let at = |(off, line)| Line { off, file: Arc::clone(&file), line, ..Line::default() };
    // Code that `eval` runs has no file.
    let lines = if file.is_empty() { Vec::new() } else { [(0, line), (RUNNING, 0)].map(at).to_vec() };
    Found::Function(Code { place, instructions: 0, name, lines, is_builtin: false })
}

/// Returns the address that is shown of a function: which of its instructions runs is not known.
pub(super) fn instruction(code: &Code) -> u64 {
    code.place.start + RUNNING
}

/// A function, as it is in memory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Function {
    check: u32,
    name: Vec<u8>,
    file: Vec<u8>,
    /// The address and the number of its script; 0 if it is part of V8.
    script: (u64, u32),
    /// Where in the source it begins.
    begin: Option<u64>,
}

/// Where lines end in the scripts that were used last.
#[derive(Debug, Default)]
pub(super) struct Scripts(Vec<(ScriptKey, Vec<u32>)>);

/// Process, address, and number.
type ScriptKey = (u32, u64, u32);

/// The memory of a process with V8.
struct Heap<'a> {
    memory: &'a Memory<'a>,
    of: &'a Offsets,
}

impl Heap<'_> {
    fn word(&self, at: u64, off: u64) -> Option<u64> {
        word(self.memory, at.checked_add(off)?)
    }

    /// Returns the address to which a field leads.
    fn object(&self, at: u64, off: u64) -> Option<u64> {
        pointer(self.word(at, off)?)
    }

    /// Returns the type of an object.
    fn kind(&self, at: u64) -> Option<u32> {
        let kind = self.word(self.object(at, 0)?, self.of.list.kind.into())?;
        Some(u32::from(kind as u16))
    }

    /// Returns what tells the function at an address from others, as the sampler mixes it (bpf/v8.h).
    fn check(&self, at: u64) -> Option<u32> {
        let list = &self.of.list;
        let number = half(self.memory, at.checked_add(list.number.into())?)?;
        let which = if number.cast_signed() < 0 {
            self.word(at, list.name.into())?
        } else {
            self.word(self.object(at, list.script.into())?, list.script_number.into())?
        };
        let mixed = number.wrapping_mul(0x9e37_79b1).wrapping_add((which >> NUMBER_SHIFT) as u32);
        Some(mixed.wrapping_add((which as u32).wrapping_mul(3)))
    }

    fn function(&self, at: u64) -> Option<Function> {
        let (of, list) = (self.of, &self.of.list);
        (self.kind(at)? == of.shared_kind).then_some(())?;
        let mut function = Function { check: self.check(at)?, ..Function::default() };
        if let Some(name) = self.object(at, list.name.into()) {
            (function.name, function.begin) = match self.kind(name)? {
                kind if kind == of.scope_kind => self.scope(name)?,
                _ => (self.name(name | POINTER)?, None),
            };
        }
        if half(self.memory, at.checked_add(list.number.into())?)?.cast_signed() >= 0 {
            let script = self.object(at, list.script.into())?;
            (self.kind(script)? == of.script_kind).then_some(())?;
            function.file = self.name(self.word(script, of.file.into())?)?;
            function.script =
                (script, (self.word(script, list.script_number.into())? >> NUMBER_SHIFT) as u32);
        }
        Some(function)
    }

    /// Reads the name of the function of a scope, and where it begins in the source.
    ///
    /// # Source
    /// V8 `src/objects/scope-info.tq`
    fn scope(&self, at: u64) -> Option<(Vec<u8>, Option<u64>)> {
        let word = |index: u64| self.word(at, index.checked_add(1)?.checked_mul(8)?);
        let number = |word: u64| (word & POINTER == 0).then_some(word >> NUMBER_SHIFT);
        let flags = word(0)?;
        let flags = flags as u32 | (flags >> NUMBER_SHIFT) as u32;
        let (before, first) = (u64::from(self.of.variables), u64::from(self.of.first_variable));
        let variables = number(word(before)?)?;
        let mut behind = first + if variables < NAMES_APART { 2 * variables } else { 1 + variables };
        let mut name = Vec::new();
        // Its name, and the variable of that name.
        if flags >> NAME_BIT & NAME_BITS != 0 {
            name = self.name(word(behind)?)?;
            behind += 2;
        }
        if flags >> INFERRED_BIT & 1 != 0 {
            name = if name.is_empty() { self.name(word(behind)?)? } else { name };
            behind += 1;
        }
        // Later versions have the place in the source in front of the variables.
        let begin = if first > before + 1 { before + 1 } else { behind };
        Some((name, number(word(begin)?)))
    }

    /// Reads a name, if it is one.
    fn name(&self, word: u64) -> Option<Vec<u8>> {
        match pointer(word) {
            Some(at) if self.kind(at)? < self.of.strings_end => self.text(at),
            _ => Some(Vec::new()),
        }
    }

    /// Reads a text, at most its first [`MAX_NAME_BYTES`].
    fn text(&self, at: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let mut parts = vec![(at, 0, u64::MAX)];
        for _ in 0..MAX_PARTS {
            let Some((at, from, most)) = parts.pop() else { break };
            let left = (MAX_NAME_BYTES - text.len()) as u64;
            match self.string(at)? {
                Text::Characters { at, len, width } => {
                    let len = len.saturating_sub(from).min(most).min(left);
                    let at = at.checked_add(from.checked_mul(width)?)?;
                    let bytes = self.memory.read_up_to(at, (len * width) as usize);
                    (bytes.len() as u64 == len * width).then_some(())?;
                    let units = bytes.chunks_exact(width as usize).map(unit);
                    let read = char::decode_utf16(units).map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER));
                    text.extend(read.collect::<String>().into_bytes());
                    text.truncate(MAX_NAME_BYTES);
                }
                Text::Joined(first, second) => parts.extend([(second, 0, u64::MAX), (first, from, most)]),
                Text::Slice { of, from: first, len } => {
                    parts.push((of, first.checked_add(from)?, len.min(most)))
                }
                Text::Same(other) => parts.push((other, from, most)),
            }
        }
        (parts.is_empty() || text.len() == MAX_NAME_BYTES).then_some(text)
    }

    fn string(&self, at: u64) -> Option<Text> {
        let kind = self.kind(at).filter(|kind| *kind < self.of.strings_end)? as u16;
        let len = u64::from(half(self.memory, at.checked_add(LEN)?)?);
        let width = if kind & ONE_BYTE == 0 { 2 } else { 1 };
        let field = |off| self.object(at, off);
        Some(match kind & FORMS {
            WHOLE => Text::Characters { at: at.checked_add(CHARACTERS)?, len, width },
            ELSEWHERE => Text::Characters { at: self.word(at, SECOND)?, len, width },
            JOINED => Text::Joined(field(CHARACTERS)?, field(SECOND)?),
            SLICE => {
                Text::Slice { of: field(CHARACTERS)?, from: self.word(at, SECOND)? >> NUMBER_SHIFT, len }
            }
            SAME => Text::Same(field(CHARACTERS)?),
            _ => return None,
        })
    }

    /// Finds the line in which a function begins, and the character of that line, both from 1.
    fn line(&self, of: &Function, scripts: &mut Scripts) -> Option<(u32, u32)> {
        let (script, number) = of.script;
        let key = (self.memory.tgid(), script, number);
        let begin = u32::try_from(of.begin?).ok()?;
        // The source may be a part of a file.
        let before = (self.word(script, u64::from(self.of.file) + LINES_BEHIND_FILE)? >> NUMBER_SHIFT) as u32;
        let ends =
            scripts.get_or_read(key, || self.line_ends(self.object(script, self.of.source.into())?))?;
        let line = ends.partition_point(|end| *end < begin);
        let column = begin - line.checked_sub(1).map_or(0, |last| ends[last] + 1);
        Some((u32::try_from(line).ok()?.checked_add(1)?.checked_add(before)?, column + 1))
    }

    /// Lists where the lines of a source end, characters.
    fn line_ends(&self, mut source: u64) -> Option<Vec<u32>> {
        let (mut from, mut most) = (0, u64::MAX);
        for _ in 0..MAX_PARTS {
            match self.string(source)? {
                Text::Characters { at, len, width } => {
                    let len = len.saturating_sub(from).min(most);
                    let at = at.checked_add(from.checked_mul(width)?)?;
                    return if len <= MAX_SOURCE { self.line_ends_of(at, len, width) } else { None };
                }
                Text::Slice { of, from: first, len } => {
                    (source, from, most) = (of, first.checked_add(from)?, len.min(most));
                }
                Text::Same(other) => source = other,
                // What was joined has become one string, and nothing.
                Text::Joined(whole, rest) => {
                    matches!(self.string(rest)?, Text::Characters { len: 0, .. }).then_some(())?;
                    source = whole;
                }
            }
        }
        None
    }

    fn line_ends_of(&self, at: u64, len: u64, width: u64) -> Option<Vec<u32>> {
        let (mut ends, mut last) = (Vec::new(), 0);
        for from in (0..len).step_by(READ_AT_ONCE as usize) {
            let bytes = READ_AT_ONCE.min(len - from) * width;
            let found = self.memory.read_up_to(at.checked_add(from * width)?, bytes as usize);
            (found.len() as u64 == bytes).then_some(())?;
            for (unit, at) in found.chunks_exact(width as usize).map(unit).zip(from as u32..) {
                // A carriage return ends one if no line feed follows.
                if last == CARRIAGE_RETURN && unit != LINE_FEED {
                    ends.push(at - 1);
                }
                if [LINE_FEED, LINE_SEPARATOR, PARAGRAPH_SEPARATOR].contains(&unit) {
                    ends.push(at);
                }
                last = unit;
            }
            (ends.len() <= MAX_LINES).then_some(())?;
        }
        Some(ends)
    }
}

impl Scripts {
    /// Returns where the lines of a script end.
    fn get_or_read(&mut self, key: ScriptKey, read: impl FnOnce() -> Option<Vec<u32>>) -> Option<&[u32]> {
        if let Some(known) = self.0.iter().position(|known| known.0 == key) {
            return Some(&self.0[known].1);
        }
        self.0.push((key, read()?));
        while self.0.len() > MAX_SCRIPTS || self.0.iter().map(|it| it.1.len()).sum::<usize>() > MAX_LINES {
            self.0.remove(0);
        }
        self.0.last().map(|last| &last.1[..])
    }

    /// Forgets the scripts of a process that has ended.
    pub(super) fn forget(&mut self, tgid: u32) {
        self.0.retain(|known| known.0.0 != tgid);
    }
}

/// What a string consists of: units of so many bytes, or other strings.
enum Text {
    Characters { at: u64, len: u64, width: u64 },
    Joined(u64, u64),
    Slice { of: u64, from: u64, len: u64 },
    Same(u64),
}

fn pointer(word: u64) -> Option<u64> {
    (word & 7 == POINTER).then(|| word - POINTER)
}

/// Returns a character of a string.
fn unit(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes.get(1).copied().unwrap_or(0)])
}
