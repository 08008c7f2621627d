//! The code cache of a virtual machine: which piece of code an address lies in, and what that piece is.
//!
//! ```text
//! CodeCache ─► heaps: memory, map of segments ─► block ─► CodeBlob: name, code, size of the frame ─► Method: class and name
//! ```
//!
//! # Source
//! OpenJDK `src/hotspot/share/memory/heap.hpp`, `code/codeBlob.hpp`, `oops/method.hpp`

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::flow::MAX_CODE;
use super::methods::Methods;
use super::scopes::{Places, ScopeFields, Scopes};
use super::structs::{Field, Reader, Structs, in_bytes};
use crate::foreign::memory::Memory;
use crate::track::jit::Interpreter;

/// The most heaps of a code cache; there are three.
const MAX_HEAPS: u64 = 16;
/// The largest code cache, as HotSpot has it.
const MAX_CACHE: u64 = 2 << 30;
/// The most steps back in a map of segments: each is at most 254 segments long.
const MAX_STEPS: usize = 1 << 7;
/// The segments before that of an address which are read with it.
const MAP_AHEAD: u64 = 1023;
/// A segment that belongs to no block.
const FREE: u8 = 0xff;
/// The most bytes of the head of a blob, and of the name of one that is no method.
const MAX_HEAD: usize = 512;
const MAX_BLOB_NAME: usize = 128;
/// The largest frame, words: as large as a stack of 8 MiB.
const MAX_FRAME_WORDS: i64 = 1 << 20;
/// The version since when no byte of a compressed number is 0.
const NO_ZERO_SINCE: u64 = 20;
/// The most different pieces of code that are looked up which a method calls.
const MAX_CALLED: usize = 64;
/// Parts of the names of code that never returns to its caller.
const FINAL: [&[u8]; 5] = [b"uncommon", b"deopt", b"throw", b"exception", b"unwind"];
/// The least bytes of a head, and the bytes of the cache that are read at once.
const MIN_HEAD: usize = 64;
const WINDOW: usize = 128 << 10;

/// Where HotSpot has what is read.
#[derive(Debug)]
pub(super) struct Cache {
    /// The variable that points to the heaps, or in JDK 8 to the only one.
    heaps: Result<u64, u64>,
    heap: Heap,
    blob: Blob,
    pub(super) methods: Option<Methods>,
    scopes: Option<ScopeFields>,
    /// The variable with the return address of the code that calls Java methods, and that address.
    call_stub_at: Option<u64>,
    call_stub: Option<u64>,
}

#[derive(Debug)]
struct Heap {
    len: Option<Field>,
    data: Option<Field>,
    memory: Field,
    segments: Field,
    shift: Field,
    low: Field,
    high: Field,
    block_len: Field,
    block_used: Field,
    block_bytes: u64,
}

#[derive(Debug)]
struct Blob {
    name: Field,
    code: Field,
    code_end: Field,
    /// `code` and `code_end` are addresses, not offsets.
    has_addresses: bool,
    frame_size: Field,
    frame_complete: Field,
    method: Field,
    compilation: Option<Field>,
}

/// A heap of the cache.
#[derive(Debug)]
pub(super) struct Segments {
    pub(super) memory: Range<u64>,
    /// Where its map is, and the binary logarithm of the bytes of a segment.
    map: u64,
    shift: u32,
}

/// A piece of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// The block in which it lies, and the binary logarithm of its unit.
    block: Range<u64>,
    shift: u32,
    pub(super) code: Range<u64>,
    /// The addresses of what HotSpot calls it, and, of compiled code, of its method.
    called: u64,
    pub(super) method: u64,
    /// Where its debug information is.
    debug: Option<Places>,
    /// The number of its compilation: another method may come to all these places.
    compilation: Option<u64>,
    /// Words of a frame, with the return address; at most 0 if it has none of its own.
    pub(super) frame_words: i64,
    /// Where in the code the frame is complete; negative if nowhere.
    pub(super) frame_complete: i64,
}

/// A stretch of memory that was read.
#[derive(Debug, Default)]
pub(super) struct Window {
    at: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns the first bytes of a block; `None` if they cannot be read.
    fn head(&mut self, memory: &Memory<'_>, block: u64) -> Option<&[u8]> {
        let within = |it: &Self| {
            let off = usize::try_from(block.checked_sub(it.at)?).ok()?;
            (off + MAX_HEAD <= it.bytes.len()).then_some(off)
        };
        let off = match within(self) {
            Some(off) => off,
            None => {
                (self.at, self.bytes) = (block, memory.read_up_to(block, WINDOW));
                0
            }
        };
        let head = &self.bytes[off..self.bytes.len().min(off + MAX_HEAD)];
        (head.len() >= MIN_HEAD).then_some(head)
    }
}

#[cfg(test)]
impl Piece {
    pub(super) fn of_test(frame_words: i64, frame_complete: i64) -> Self {
        let (block, code) = (0..4096, 64..4096);
        Self {
            block,
            shift: 7,
            code,
            called: 0,
            method: 0,
            debug: None,
            compilation: None,
            frame_words,
            frame_complete,
        }
    }
}

/// What a piece of code is, as far as frames differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of a Java method, compiled, or the wrapper of a native one.
    Method,
    Interpreter,
    /// Stubs, of which each has a frame of its own, or none.
    Stubs,
    /// It jumps to a method, and has no frame.
    Frameless,
    /// For the virtual machine itself, and between the interpreter and compiled code.
    Other,
}

impl Cache {
    /// Finds the places in the structures; `None` if some are missing.
    pub(super) fn new(there: Reader<'_>, structs: &Structs) -> Option<Self> {
        let field = |names: &[&str]| structs.field(names);
        let variable = |name: &str| Some(field(&[name])?.at);
        let heaps = variable("CodeCache._heaps").map(Ok).or_else(|| variable("CodeCache._heap").map(Err))?;
        let heap = Heap {
            len: field(&["GrowableArrayBase._len", "GenericGrowableArray._len"]),
            data: field(&["GrowableArray<int>._data"]),
            memory: field(&["CodeHeap._memory"])?,
            segments: field(&["CodeHeap._segmap"])?,
            shift: field(&["CodeHeap._log2_segment_size"])?,
            low: field(&["VirtualSpace._low"])?,
            high: field(&["VirtualSpace._high"])?,
            block_len: field(&["HeapBlock::Header._length"])?,
            block_used: field(&["HeapBlock::Header._used"])?,
            block_bytes: structs.size("HeapBlock").filter(|bytes| (1..=64).contains(bytes))?,
        };
        let addresses = field(&["CodeBlob._code_begin"]).zip(field(&["CodeBlob._code_end"]));
        let offsets = || field(&["CodeBlob._code_offset"]).zip(field(&["CodeBlob._data_offset"]));
        let (code, code_end) = addresses.or_else(offsets)?;
        let blob = Blob {
            name: field(&["CodeBlob._name"])?,
            code,
            code_end,
            has_addresses: addresses.is_some(),
            frame_size: field(&["CodeBlob._frame_size"])?,
            frame_complete: field(&["CodeBlob._frame_complete_offset"])?,
            method: field(&["nmethod._method", "CompiledMethod._method"])?,
            compilation: field(&["nmethod._compile_id"]),
        };
        // Since JDK 20 no byte of a compressed number is 0. What JDK 8 calls its version is another number.
        let version = variable("Abstract_VM_Version._vm_major_version").filter(|_| heaps.is_ok());
        let call_stub_at = variable("StubRoutines._call_stub_return_address");
        let zero =
            u8::from(version.and_then(|at| there.number(0, Field { at, width: 4 })) >= Some(NO_ZERO_SINCE));
        let (methods, scopes) = (Methods::new(structs, zero), ScopeFields::new(structs, zero));
        Some(Self { heaps, heap, blob, methods, scopes, call_stub_at, call_stub: None })
    }

    /// Returns true if an address is the one to which the first Java method of a thread returns.
    pub(super) fn is_entry(&self, address: u64) -> bool {
        self.call_stub == Some(address)
    }

    /// Lists the heaps of the cache.
    pub(super) fn heaps(&mut self, memory: &Memory<'_>) -> Option<Vec<Segments>> {
        let there = Reader::there(memory);
        // It is set after the first heap was made.
        self.call_stub = self.call_stub_at.and_then(|at| there.word(at));
        let heaps = match self.heaps {
            Err(at) => vec![there.word(at)?],
            Ok(at) => {
                let array = there.word(at)?;
                let len = there.number(array, self.heap.len?)?.min(MAX_HEAPS);
                let data = there.word(array.checked_add(self.heap.data?.at)?)?;
                (0..len).map(|it| there.word(data.checked_add(8 * it)?)).collect::<Option<_>>()?
            }
        };
        let segments = |heap: u64| {
            let space = heap.checked_add(self.heap.memory.at)?;
            let range = there.number(space, self.heap.low)?..there.number(space, self.heap.high)?;
            let map = there.number(heap.checked_add(self.heap.segments.at)?, self.heap.low)?;
            let shift = u32::try_from(there.number(heap, self.heap.shift)?).ok()?;
            let is_right = range.start < range.end && range.end - range.start <= MAX_CACHE && shift < 32;
            is_right.then_some(Segments { memory: range, map, shift })
        };
        Some(heaps.into_iter().filter_map(segments).collect())
    }

    /// Finds the piece of code at an address in a heap; `None` if there is none.
    pub(super) fn find(&self, memory: &Memory<'_>, heap: &Segments, address: u64) -> Option<Piece> {
        let mut segment = address.checked_sub(heap.memory.start)? >> heap.shift;
        // Most blocks are shorter than what is read at once.
        let first = segment.saturating_sub(MAP_AHEAD);
        let map = memory.read_up_to(heap.map.checked_add(first)?, (segment - first + 1) as usize);
        for _ in 0..MAX_STEPS {
            let back = match segment.checked_sub(first).and_then(|at| map.get(at as usize)) {
                Some(back) => *back,
                None => *memory.read_up_to(heap.map.checked_add(segment)?, 1).first()?,
            };
            match back {
                FREE => return None,
                0 => {
                    let block = heap.memory.start + (segment << heap.shift);
                    let head = memory.read_up_to(block, MAX_HEAD);
                    return self.piece(&head, block, heap.shift).filter(|it| it.block.contains(&address));
                }
                back => segment = segment.checked_sub(u64::from(back))?,
            }
        }
        None
    }

    /// Reads the piece of code in a block, given the first bytes of the block.
    fn piece(&self, head: &[u8], block: u64, shift: u32) -> Option<Piece> {
        let len = in_bytes(head, 0, self.heap.block_len)?;
        let len = len.checked_mul(1 << shift).filter(|len| *len <= MAX_CACHE)?;
        (in_bytes(head, 0, self.heap.block_used)? & 0xff != 0).then_some(())?;
        // What lies behind the block belongs to another one.
        let head = &head[..head.len().min(len as usize)];
        let block = block..block.checked_add(len)?;
        let blob = block.start + self.heap.block_bytes;
        let value = |field: Field| in_bytes(head, self.heap.block_bytes as usize, field);
        let place = |field: Field| match self.blob.has_addresses {
            true => value(field),
            false => blob.checked_add(value(field)?),
        };
        let code = place(self.blob.code)?..place(self.blob.code_end)?;
        (block.start < code.start && code.start < code.end && code.end <= block.end).then_some(())?;
        let structure = head.get(self.heap.block_bytes as usize..);
        let signed = |field: Field| value(field).map(|it| signed(it, field.width));
        let frame_words = signed(self.blob.frame_size).filter(|words| *words <= MAX_FRAME_WORDS)?;
        Some(Piece {
            block,
            shift,
            code,
            called: value(self.blob.name)?,
            method: value(self.blob.method).unwrap_or(0),
            debug: self.scopes.as_ref().zip(structure).and_then(|(it, head)| it.places(head, blob)),
            compilation: self.blob.compilation.and_then(value),
            frame_words,
            frame_complete: signed(self.blob.frame_complete)?,
        })
    }

    /// Returns true if a piece of code is still there, and leaves the memory around it in the window; `None` if its memory cannot be read.
    pub(super) fn has(&self, window: &mut Window, memory: &Memory<'_>, piece: &Piece) -> Option<bool> {
        let head = window.head(memory, piece.block.start)?;
        Some(self.piece(head, piece.block.start, piece.shift).as_ref() == Some(piece))
    }

    /// Returns true if a piece of code is still there.
    pub(super) fn is_there(&self, memory: &Memory<'_>, piece: &Piece) -> bool {
        let head = memory.read_up_to(piece.block.start, MAX_HEAD);
        self.piece(&head, piece.block.start, piece.shift).as_ref() == Some(piece)
    }

    /// Reads the debug information of a method, and between which of its entries the code is a straight line.
    pub(super) fn scopes(&self, memory: &Memory<'_>, heaps: &[Segments], piece: &Piece) -> Option<Scopes> {
        let mut scopes =
            self.scopes.as_ref()?.read(Reader::any(memory), piece.debug.as_ref()?, piece.method)?;
        let len = piece.code.end - piece.code.start;
        if cfg!(target_arch = "x86_64") && len <= MAX_CODE {
            let code = memory.read_up_to(piece.code.start, len as usize);
            let mut known = FxHashMap::default();
            scopes.follow(&code, |off| {
                let target = piece.code.start.wrapping_add(off);
                let is_known = known.len() < MAX_CALLED || known.contains_key(&target);
                let mut returns = || piece.code.contains(&target) || self.returns(memory, heaps, target);
                is_known && *known.entry(target).or_insert_with(&mut returns)
            });
        }
        Some(scopes)
    }

    /// Returns true if code that a method calls returns to it, as all does but what throws the method away.
    fn returns(&self, memory: &Memory<'_>, heaps: &[Segments], address: u64) -> bool {
        let heap = heaps.iter().find(|heap| heap.memory.contains(&address));
        let Some(piece) = heap.and_then(|heap| self.find(memory, heap, address)) else { return false };
        let called = Reader::any(memory).bytes(piece.called, MAX_BLOB_NAME);
        called.is_some_and(|called| {
            let name = called.split(|byte| *byte == 0).next().unwrap_or_default();
            !FINAL.iter().any(|part| name.windows(part.len()).any(|it| it.eq_ignore_ascii_case(part)))
        })
    }

    /// Returns where the frames of the interpreter have what they run.
    pub(super) fn interpreter(&self, code: Range<u64>) -> Interpreter {
        // Since JDK 9 frames hold the class of the method, too.
        let instruction_below = if self.heaps.is_ok() { 64 } else { 56 };
        Interpreter { code, method_below: 24, instruction_below, methods: Vec::new() }
    }

    /// Reads what a piece of code is, and its name: `Class.method`, or what HotSpot calls it.
    pub(super) fn describe(&self, memory: &Memory<'_>, piece: &Piece) -> Option<(Kind, Vec<u8>)> {
        let called = Reader::any(memory).bytes(piece.called, MAX_BLOB_NAME)?;
        let called: Vec<u8> = called.into_iter().take_while(|byte| *byte != 0).collect();
        let kind = match &called[..] {
            b"nmethod" | b"native nmethod" => Kind::Method,
            b"Interpreter" => Kind::Interpreter,
            b"vtable chunks" => Kind::Frameless,
            it if it.starts_with(b"StubRoutines") => Kind::Stubs,
            _ => Kind::Other,
        };
        let methods = self.methods.as_ref().filter(|_| kind == Kind::Method);
        let method = methods.and_then(|it| it.name(Reader::any(memory), piece.method));
        Some((kind, method.unwrap_or(called)))
    }
}

fn signed(value: u64, width: u8) -> i64 {
    let unused = 64 - 8 * u32::from(width);
    (value << unused).cast_signed() >> unused
}
