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
use crate::foreign::memory::{Memory, Pages};
use icecore_jit::Line;

/// The name that V8 prints for a function without one. It is followed by the position of the function in its script, in characters, if the line
/// alone would not tell it from others: a long line, or one that is not known.
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
/// How far behind fields that V8 exports those lie that it does not: in a `SharedFunctionInfo`, the function's number in its script lies behind
/// the flags; in a `Script`, its number lies behind the ends of its lines.
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
    let (first, second) = (Pages::default(), Pages::default());
    let heap = Heap { memory: &memory.through(&first), of };
    let Some(known) = heap.function(at).filter(|known| known.check == check) else { return Found::Gone };
    let place_in_source = heap.line(&known, scripts);
    // Objects may have moved meanwhile, and others come to where they were.
    let again = Heap { memory: &memory.through(&second), of };
    if again.function(at).as_ref() != Some(&known) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::Door;

    const STRING: u64 = 8;
    const SHARED: u64 = 262;
    const SCRIPT: u64 = 167;
    const SCOPE: u64 = 261;
    const UNDEFINED: u64 = 131;
    const NUMBER: u64 = 5;
    const HAS_BOTH_NAMES: u64 = 0x7000;

    /// Objects of this process, as V8 11 has them.
    #[derive(Default)]
    struct Objects(Vec<Box<[u64]>>);

    impl Objects {
        fn words(&mut self, words: &[(usize, u64)]) -> u64 {
            let mut object = vec![0; 128].into_boxed_slice();
            words.iter().for_each(|(at, word)| object[*at] = *word);
            let pointer = object.as_ptr() as u64 + POINTER;
            self.0.push(object);
            pointer
        }

        /// Makes an object of a type, and returns a pointer to it.
        fn object(&mut self, kind: u64, words: &[(usize, u64)]) -> u64 {
            let map = self.words(&[(1, kind << 32)]);
            self.words(&[&[(0, map)], words].concat())
        }

        fn text(&mut self, kind: u64, bytes: &[u8], len: usize) -> u64 {
            let mut bytes = bytes.to_vec();
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            let words: Vec<(usize, u64)> = (2..).zip(words).collect();
            self.object(kind, &[&[(1, (len as u64) << 32)], &words[..]].concat())
        }

        fn latin(&mut self, text: &str) -> u64 {
            self.text(STRING, text.as_bytes(), text.len())
        }

        fn wide(&mut self, text: &str) -> u64 {
            let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            self.text(0, &units, units.len() / 2)
        }

        fn joined(&mut self, first: u64, second: u64) -> u64 {
            self.object(STRING | u64::from(JOINED), &[(1, 9 << 32), (2, first), (3, second)])
        }

        /// Makes a scope with so many variables, whose function begins at a character of the source.
        fn scope(&mut self, variables: usize, own: u64, inferred: u64, begin: u64) -> u64 {
            let behind = 4 + if variables < 75 { 2 * variables } else { 1 + variables };
            let fields = [(1, HAS_BOTH_NAMES << 32), (3, (variables as u64) << 32), (behind, own)];
            let rest = [(behind + 1, u64::MAX << 32), (behind + 2, inferred), (behind + 3, begin << 32)];
            self.object(SCOPE, &[&fields[..], &rest].concat())
        }

        fn function(&mut self, name: u64, source: u64) -> u64 {
            let file = self.latin("/a.js");
            let fields = [(1, source), (2, file), (3, 100 << 32), (8, 77 << 32)];
            let script = self.object(SCRIPT, &fields);
            self.object(SHARED, &[(2, name), (4, script), (6, NUMBER << 32)])
        }
    }

    fn of_11() -> Offsets {
        let fields = [24, 48, 32, 0, 16, 0, 0, 56, 12, 191].map(Some);
        let [shared, bits, before, now, first, then, last, ends, kind, bytecode] = fields;
        let rest = [SHARED as u32, SCRIPT as u32, SCOPE as u32, 128, 16, 8, 2, 3].map(Some);
        let [shared_kind, script_kind, scope_kind, strings, file, source, variables, first_variable] = rest;
        let frame = [Some(FUNCTION.cast_unsigned()), Some(CONTEXT.cast_unsigned()), Some(SHIFT)];
        let [function, context, shift] = frame;
        offsets([
            function,
            context,
            shift,
            shared,
            bits,
            before,
            now,
            first,
            then,
            last,
            ends,
            kind,
            bytecode,
            shared_kind,
            script_kind,
            scope_kind,
            strings,
            file,
            source,
            variables,
            first_variable,
        ])
        .expect("all are known")
    }

    /// Reads a function with the check of the script and the number that it should have: name, file, line of the declaration.
    fn read_of(function: u64, script: u64) -> Option<(String, String, u32)> {
        let door = Door::of_test();
        let memory = Memory::of(std::process::id(), &door);
        let check = (NUMBER as u32).wrapping_mul(0x9e37_79b1).wrapping_add(script as u32);
        match read(&memory, &of_11(), &mut Scripts::default(), function - POINTER, check) {
            Found::Function(code) => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
                let line = &code.lines[0];
                Some((text(&code.name), text(&line.file), line.line))
            }
            _ => None,
        }
    }

    fn shown(name: &str, line: u32) -> Option<(String, String, u32)> {
        Some((name.to_owned(), "/a.js".to_owned(), line))
    }

    #[test]
    fn functions_have_their_names_or_those_that_are_inferred() {
        let mut all = Objects::default();
        let (undefined, empty) = (all.object(UNDEFINED, &[]), all.latin(""));
        let source = all.latin("one\ntwo\r\nthree\rfour");
        let (own, inferred) = (all.latin("own"), all.wide("größe.名"));
        let of = |all: &mut Objects, variables, own, inferred, begin| {
            let scope = all.scope(variables, own, inferred, begin);
            read_of(all.function(scope, source), 77)
        };
        // 100 lines of the file lie before the source.
        assert_eq!(of(&mut all, 0, own, undefined, 0), shown("own", 101));
        assert_eq!(of(&mut all, 3, empty, inferred, 4), shown("größe.名", 102));
        assert_eq!(of(&mut all, 80, own, undefined, 9), shown("own", 103));
        // A class without a name has none at all.
        assert_eq!(of(&mut all, 0, 0, undefined, 15), shown("(anonymous)", 104));
        let (a, dot) = (all.latin("a"), all.latin("."));
        let path = (0..9).fold(a, |path, _| {
            let path = all.joined(path, dot);
            all.joined(path, a)
        });
        assert_eq!(of(&mut all, 0, empty, path, 0), shown("a.a.a.a.a.a.a.a.a.a", 101));
        let slice = all.object(STRING | u64::from(SLICE), &[(1, 2 << 32), (2, own), (3, 1 << 32)]);
        assert_eq!(of(&mut all, 0, slice, undefined, 0), shown("wn", 101));
        // It was not compiled yet.
        let uncompiled = all.function(own, source);
        assert_eq!(read_of(uncompiled, 77), shown("own", 0));
    }

    #[test]
    fn lines_are_those_of_the_source_or_unknown() {
        let mut all = Objects::default();
        let (undefined, empty) = (all.object(UNDEFINED, &[]), all.latin(""));
        let whole = all.wide("one\u{2028}two\nthree");
        let joined = all.joined(whole, empty);
        let parts = all.joined(whole, whole);
        let slice = all.object(STRING | u64::from(SLICE), &[(1, 9 << 32), (2, whole), (3, 4 << 32)]);
        let long = all.latin(&"x".repeat(600));
        let of = |all: &mut Objects, source, begin| {
            let scope = all.scope(0, empty, undefined, begin);
            read_of(all.function(scope, source), 77)
        };
        for (source, begin, name, line) in [
            (whole, 4, "(anonymous)", 102),
            (joined, 8, "(anonymous)", 103),
            (slice, 4, "(anonymous)", 102),
            (parts, 4, "(anonymous at 4)", 0),
            (long, 550, "(anonymous at 550)", 101),
        ] {
            assert_eq!(of(&mut all, source, begin), shown(name, line), "{begin}");
        }
    }

    #[test]
    fn what_is_another_function_or_none_is_gone() {
        let mut all = Objects::default();
        let (name, source) = (all.latin("f"), all.latin(""));
        let function = all.function(name, source);
        assert_eq!((read_of(function, 77), read_of(function, 78)), (shown("f", 0), None));
        // No function, no object, and a name that never ends.
        assert_eq!((read_of(name, 77), read_of(9, 77)), (None, None));
        let circle = all.joined(name, name);
        let object = all.0.last_mut().expect("it was made");
        (object[2], object[3]) = (circle, circle);
        assert_eq!(read_of(all.function(circle, source), 77), None);
    }

    #[test]
    fn builds_with_other_pointers_are_refused() {
        let mut known = [Some(1); NAMES.len()];
        [known[0], known[1]] = [FUNCTION, CONTEXT].map(|off| Some(off.cast_unsigned()));
        assert_eq!(offsets(known), None);
        known[2] = Some(SHIFT);
        assert!(offsets(known).is_some());
        known[NAMES.len() - 1] = None;
        assert_eq!(offsets(known), None);
    }
}
