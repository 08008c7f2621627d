use super::flow::{Flow, Way, follow, ways};
use std::sync::Arc;

use super::frame::Frame;
use super::*;
use crate::foreign::Door;
use icecore_jit::{Inlined, Line};

/// A virtual machine that is made of bytes, in the memory of this process.
struct Made {
    bytes: Box<[u8]>,
    used: usize,
    heap: usize,
    map: usize,
}

/// What `structs` reads of each field: the structure, the field, its type, and its offset.
const FIELDS: [(&str, &str, &str, u64); 39] = [
    ("GrowableArrayBase", "_len", "int", 0),
    ("GrowableArray<int>", "_data", "int*", 8),
    ("CodeHeap", "_memory", "VirtualSpace", 0),
    ("CodeHeap", "_segmap", "VirtualSpace", 16),
    ("CodeHeap", "_log2_segment_size", "int", 32),
    ("VirtualSpace", "_low", "char*", 0),
    ("VirtualSpace", "_high", "char*", 8),
    ("HeapBlock::Header", "_length", "uint32_t", 0),
    ("HeapBlock::Header", "_used", "bool", 4),
    ("CodeBlob", "_name", "const char*", 0),
    ("CodeBlob", "_frame_size", "int", 8),
    ("CodeBlob", "_frame_complete_offset", "int16_t", 12),
    ("CodeBlob", "_code_begin", "address", 16),
    ("CodeBlob", "_code_end", "address", 24),
    ("nmethod", "_method", "Method*", 32),
    ("nmethod", "_immutable_data", "address", 80),
    ("nmethod", "_immutable_data_size", "int", 88),
    ("nmethod", "_scopes_pcs_offset", "int", 92),
    ("nmethod", "_scopes_data_offset", "int", 96),
    ("CodeBlob", "_relocation_size", "int", 100),
    ("CodeBlob", "_mutable_data", "address", 104),
    ("CodeBlob", "_mutable_data_size", "int", 112),
    ("PcDesc", "_pc_offset", "int", 0),
    ("PcDesc", "_scope_decode_offset", "int", 4),
    ("ConstMethod", "_constMethod_size", "int", 20),
    ("ConstMethod", "_flags._flags", "u4", 24),
    ("ConstMethod", "_code_size", "u2", 28),
    ("ConstantPool", "_source_file_name_index", "u2", 8),
    ("Method", "_constMethod", "ConstMethod*", 8),
    ("ConstMethod", "_constants", "ConstantPool*", 8),
    ("ConstMethod", "_name_index", "u2", 16),
    ("ConstantPool", "_pool_holder", "InstanceKlass*", 24),
    ("Klass", "_name", "Symbol*", 16),
    ("Symbol", "_length", "u2", 0),
    ("Symbol", "_body[0]", "u1", 6),
    ("Symbol", "_body", "u1", 6),
    ("CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", 0),
    ("StubRoutines", "_call_stub_return_address", "address", 0),
    ("Thread", "_unused", "int", 0),
];
const HEAP_BYTES: usize = 4 << 7;
/// From the begin of a block to its code.
const CODE: usize = 16 + 48;

impl Made {
    fn new() -> Self {
        let mut made = Self { bytes: vec![0; 32 << 10].into(), used: 0x400, heap: 0, map: 0 };
        let method = made.method("java/util/Known", "run");
        let inlined = made.method("java/util/Other", "step");
        // Where the method is at its bytecode 2, and at its bytecode 5, at which it calls what is inlined.
        let number = |off: i32, scope: u32| u64::from(off.cast_unsigned()) | u64::from(scope) << 32;
        let entries = [number(-1, 0), 0, number(5, 7), 0, number(10, 1), 0, number(i32::MAX, 0), 0];
        let entries = made.put_words(&entries);
        let scopes = made.put(&[0, 0, 1, 3, 0, 1, 6, 4, 2, 1]);
        let metadata = made.put_words(&[0, method, inlined]);
        let (scopes, metadata) = (made.at(scopes), made.at(metadata));
        made.heap = made.put(&[0; HEAP_BYTES]);
        // A method of two segments, the stubs, and nothing.
        made.map = made.put(&[0, 1, 0, 0xff]);
        let (blob, stubs) = (made.put(b"nmethod\0"), made.put(b"StubRoutines (1)\0"));
        let code = [0x55, 0x48, 0x83, 0xec, 0x10, 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3];
        made.block(0, 2, blob, method, &code);
        let (first, at) = (made.at(entries), made.heap + 16);
        let scopes = scopes - first;
        made.set(at + 80, &first.to_le_bytes());
        let numbers = [scopes as u32 + 10, 0, scopes as u32, 8];
        made.set(at + 88, &numbers.map(u32::to_le_bytes).concat());
        made.set(at + 104, &[metadata.to_le_bytes(), 24_u64.to_le_bytes()].concat());
        made.block(2, 1, stubs, 0, &[0x90; 16]);
        let entry = made.put_words(&[made.at(made.heap + 0x100 + CODE + 4)]);
        let [heap, map] =
            [(made.heap, HEAP_BYTES), (made.map, 4)].map(|(at, len)| [made.at(at), made.at(at + len)]);
        let heap = made.put_words(&[heap[0], heap[1], map[0], map[1], 7]);
        let data = made.put_words(&[made.at(heap)]);
        let array = made.put_words(&[1, made.at(data)]);
        let variable = made.put_words(&[made.at(array)]);
        let mut fields = Vec::new();
        for (of, field, kind, off) in FIELDS {
            let variable = [("_heaps", variable), ("_call_stub_return_address", entry)];
            let variable = variable.iter().find(|it| it.0 == field).map(|it| made.at(it.1));
            let texts = [of, field, kind].map(|text| made.text(text));
            fields.extend(texts.into_iter().chain([
                u64::from(variable.is_some()),
                off,
                variable.unwrap_or(0),
            ]));
        }
        let mut types = Vec::new();
        for (name, size) in [("HeapBlock", 16), ("ConstantPool", 32), ("PcDesc", 16), ("ConstMethod", 32)] {
            types.extend([made.text(name), size]);
        }
        let [fields, types] = [fields, types].map(|rows| made.put_words(&[&rows[..], &[0; 8]].concat()));
        let [structs, kinds] = [fields, types].map(|it| made.at(it));
        let variables = [
            ("gHotSpotVMStructs", structs),
            ("gHotSpotVMStructEntryArrayStride", 48),
            ("gHotSpotVMStructEntryTypeNameOffset", 0),
            ("gHotSpotVMStructEntryFieldNameOffset", 8),
            ("gHotSpotVMStructEntryTypeStringOffset", 16),
            ("gHotSpotVMStructEntryIsStaticOffset", 24),
            ("gHotSpotVMStructEntryOffsetOffset", 32),
            ("gHotSpotVMStructEntryAddressOffset", 40),
            ("gHotSpotVMTypes", kinds),
            ("gHotSpotVMTypeEntryArrayStride", 16),
            ("gHotSpotVMTypeEntryTypeNameOffset", 0),
            ("gHotSpotVMTypeEntrySizeOffset", 8),
        ];
        made.library(&variables);
        made
    }

    /// The address of an offset.
    fn at(&self, off: usize) -> u64 {
        self.bytes.as_ptr() as u64 + off as u64
    }

    fn put(&mut self, bytes: &[u8]) -> usize {
        let at = self.used.next_multiple_of(128);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.used = at + bytes.len();
        at
    }

    fn put_words(&mut self, words: &[u64]) -> usize {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(&bytes)
    }

    fn text(&mut self, text: &str) -> u64 {
        let at = self.put(&[text.as_bytes(), b"\0"].concat());
        self.at(at)
    }

    fn set(&mut self, off: usize, bytes: &[u8]) {
        self.bytes[off..off + bytes.len()].copy_from_slice(bytes);
    }

    fn symbol(&mut self, name: &str) -> u64 {
        let at = self.put(&[&(name.len() as u16).to_le_bytes()[..], &[0; 4], name.as_bytes()].concat());
        self.at(at)
    }

    fn method(&mut self, class: &str, name: &str) -> u64 {
        let file = self.symbol(&format!("{}.java", class.rsplit('/').next().unwrap_or(class)));
        let (class, name) = (self.symbol(class), self.symbol(name));
        let class = self.put_words(&[0, 0, class]);
        // The name is the second entry behind the pool, the file the third.
        let pool = self.put_words(&[0, 2, 0, self.at(class), 0, name, file]);
        // Eight bytes of bytecodes, then lines: bytecode 0 is in line 4, bytecode 4 in line 7.
        let (words, has_lines, code_bytes) = (6, 1, 8);
        let lines = u64::from_le_bytes([4, 4 << 3 | 3, 0, 0, 0, 0, 0, 0]);
        let constant = [0, self.at(pool), 1 | words << 32, has_lines | code_bytes << 32, 0, lines];
        let constant = self.put_words(&constant);
        let method = self.put_words(&[0, self.at(constant)]);
        self.at(method)
    }

    fn block(&mut self, segment: usize, segments: u32, called: usize, method: u64, code: &[u8]) {
        let block = self.heap + (segment << 7);
        let begin = self.at(block + CODE);
        self.set(block, &[&segments.to_le_bytes()[..], &[1]].concat());
        let words = [self.at(called), 4 | 5 << 32, begin, begin + code.len() as u64, method];
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.set(block + 16, &words);
        self.set(block + CODE, code);
    }

    /// Writes the headers of a library and its dynamic symbols.
    fn library(&mut self, variables: &[(&str, u64)]) {
        let mut names = vec![0];
        let mut symbols = Vec::new();
        for (name, value) in variables {
            let at = self.put_words(&[*value]) as u64;
            symbols.extend([names.len() as u64, at, 8]);
            names.extend(name.as_bytes());
            names.push(0);
        }
        let symbols = self.put_words(&symbols);
        let names_at = self.put(&names);
        let header = [&b"\x7fELF\x02\x01"[..], &[0; 26], &64_u64.to_le_bytes(), &[0; 16], &[2, 0]].concat();
        self.set(0, &header);
        self.set(64, &1_u32.to_le_bytes());
        self.set(120, &2_u32.to_le_bytes());
        self.set(120 + 16, &0x100_u64.to_le_bytes());
        self.set(120 + 40, &64_u64.to_le_bytes());
        for (at, word) in [5, names_at as u64, 6, symbols as u64, 10, names.len() as u64].iter().enumerate() {
            self.set(0x100 + 8 * at, &word.to_le_bytes());
        }
    }

    fn hits(&self) -> Vec<Avma> {
        [CODE + 5, CODE + 10, CODE + 11, 0x100 + CODE + 4, 0x180]
            .map(|off| Avma(self.at(self.heap + off)))
            .to_vec()
    }

    /// What is found of these.
    fn found(&self) -> HotSpot {
        let door = Door::of_test();
        let memory = Memory::of(std::process::id(), &door);
        let cache = Structs::read(&memory, self.at(0))
            .and_then(|structs| Cache::new(Reader::there(&memory), &structs));
        let mut found = HotSpot { cache, ..HotSpot::default() };
        let until = Instant::now() + std::time::Duration::from_secs(5);
        let left = found.look_up(&memory, 7, Requested::new(&self.hits()), until);
        // Whatever words of stacks the interpreter seems to have left there.
        for at in (0..self.used).step_by(512) {
            found.runs(Runs { method: self.at(at), instruction: self.at(at) + 40 });
        }
        found.look_up(&memory, 7, Requested::new(&left), until);
        found.check_interpreted(&memory, 8, until);
        assert!(Instant::now() < until, "it takes too long");
        found
    }
}

#[test]
fn code_is_found_in_its_cache_with_its_name_and_its_frames() {
    let mut made = Made::new();
    let found = made.found();
    let pieces = found.pieces();
    let heap = made.at(made.heap + CODE);
    let code = |off: u64| heap + off;
    let known: Vec<(u64, &[u8])> = pieces.iter().map(|it| (it.start.0, &it.name[..])).collect();
    assert_eq!(known, [(code(0), &b"java.util.Known.run"[..]), (code(0x100), b"StubRoutines (1)")]);
    assert!(pieces.iter().all(|it| (it.since_ns, it.until_ns) == (7, 0)));
    assert!(pieces.iter().all(|it| it.rules.is_empty() == cfg!(not(target_arch = "x86_64"))));
    let frames = |at: u64| described(&found.found[&at][0].frames, 12);
    // Of a method, where it has its frame and at what was hit before; of the stubs, where Java is called.
    assert_eq!((frames(code(0)), frames(code(0x100))), (vec![(4, 12)], vec![(3, 5)]));
    // At bytecode 5 and what it calls there, then in both; and where the call of bytecode 2 returns, then nothing more.
    let inlined = Inlined { name: (*b"java.util.Other.step").into(), ..call("java/util/Known.java", 7) };
    let [own, other] = ["java/util/Known.java", "java/util/Other.java"];
    let lines =
        [line(4, other, 4, &[inlined]), line(5, own, 0, &[]), line(9, own, 4, &[]), line(10, own, 0, &[])];
    assert_eq!(pieces[0].lines, lines);
    // A part of the piece that the process names otherwise has its tables.
    assert!(
        found.tables(&(code(0) + 1..code(0) + 3)).is_some()
            && found.tables(&(code(0)..code(0x100))).is_none()
    );
    // Other code comes to its place.
    let (door, now) = (Door::of_test(), Instant::now());
    let memory = Memory::of(std::process::id(), &door);
    let (mut found, until) = (found, now + std::time::Duration::from_secs(5));
    assert_eq!(found.check(&memory, 8, until), []);
    let other = made.method("Other", "run");
    made.set(made.heap + 16 + 32, &other.to_le_bytes());
    let gone = found.check(&memory, 9, until);
    assert_eq!(gone.iter().map(|it| (it.start, it.end)).collect::<Vec<_>>(), [(code(0), code(12))]);
    found.look_up(&memory, 9, Requested::new(&made.hits()), until);
    let of_method: Vec<(Vec<u8>, u64, u64)> = found
        .pieces()
        .into_iter()
        .filter(|it| it.start.0 == code(0))
        .map(|it| (it.name, it.since_ns, it.until_ns))
        .collect();
    assert_eq!(of_method, [(b"java.util.Known.run".to_vec(), 7, 8), (b"Other.run".to_vec(), 9, 10)]);
    // No time is left.
    assert_eq!(found.look_up(&memory, 9, Requested::new(&made.hits()), now), made.hits());
}

fn call(file: &str, line: u32) -> Inlined {
    Inlined { name: Arc::default(), call_file: file.as_bytes().into(), call_line: line }
}

fn line(off: u64, file: &str, line: u32, inlined: &[Inlined]) -> Line {
    Line { off, file: file.as_bytes().into(), line, inlined: inlined.to_vec() }
}

#[test]
fn methods_that_the_interpreter_runs_have_their_lines_until_others_come() {
    let mut made = Made::new();
    let (door, until) = (Door::of_test(), Instant::now() + std::time::Duration::from_secs(5));
    let memory = Memory::of(std::process::id(), &door);
    let mut found = made.found();
    let word = |at: u64| Reader::any(&memory).word(at).expect("it is there");
    let method = word(made.at(made.heap + 16 + 32));
    let constant = word(method + 8);
    let code = constant + 32;
    // In its instructions, behind them, at no method, and as if it were native.
    for (method, instruction) in [(method, code + 4), (method, code + 8), (code, code), (method, method)] {
        found.runs(Runs { method, instruction });
    }
    assert!(found.has_unread());
    found.look_up(&memory, 8, Requested::new(&[]), until);
    assert!(!found.has_unread());
    let mut pieces: Vec<Piece> = found.pieces().into_iter().filter(|it| it.since_ns == 0).collect();
    pieces.sort_by_key(|it| it.end.0 - it.start.0);
    let [native, own] = &pieces[..] else { panic!("{pieces:?}") };
    assert_eq!((native.start.0, native.end.0), (method, method + 1));
    assert_eq!((own.start.0, own.end.0, own.until_ns), (code, code + 8, 0));
    assert_eq!((&own.name[..], own.language), (&b"java.util.Known.run"[..], Language::JAVA));
    let file = "java/util/Known.java";
    assert_eq!(own.lines, [line(0, file, 4, &[]), line(4, file, 7, &[])]);
    // A class of another name is there.
    let other = made.method("java/util/Other", "run");
    let pool = word(word(other + 8) + 8);
    let at = (constant + 8 - made.at(0)) as usize;
    made.set(at, &pool.to_le_bytes());
    found.check_interpreted(&memory, 9, until);
    let ends = found.pieces().into_iter().filter(|it| it.since_ns == 0).map(|it| it.until_ns);
    assert_eq!(ends.collect::<Vec<_>>(), [8, 8]);
}

/// Whatever else it is, a method that is inlined lies in the method of the piece.
#[test]
fn debug_information_that_does_not_lead_to_its_method_counts_for_nothing() {
    let mut made = Made::new();
    let other = made.method("java/util/Known", "other");
    made.set(made.heap + 16 + 32, &other.to_le_bytes());
    let pieces = made.found().pieces();
    assert_eq!(pieces[0].name, b"java.util.Known.other");
    assert_eq!(pieces[0].lines, [line(0, "java/util/Known.java", 0, &[])]);
}

#[test]
fn whatever_the_structures_say_it_ends() {
    let mut made = Made::new();
    // A map that leads back for ever; a block as long as can be; texts anywhere.
    for (off, bytes) in [(made.map, vec![1, 0, 2, 3]), (made.heap, vec![0xff; 4]), (0x100, vec![0xff; 48])] {
        let before = made.bytes[off..off + bytes.len()].to_vec();
        made.set(off, &bytes);
        made.found();
        made.set(off, &before);
    }
    for at in (0..made.used).step_by(17) {
        let before = made.bytes[at];
        made.bytes[at] ^= 1 << (at % 8);
        let found = made.found();
        assert!(found.pieces().len() <= 5);
        made.bytes[at] = before;
    }
    // Each number as large as can be, and each text none.
    for at in (0..made.used).step_by(8) {
        let before: [u8; 8] = made.bytes[at..at + 8].try_into().expect("8 bytes");
        for word in [u64::MAX, u64::MAX - 7, i64::MAX as u64] {
            made.set(at, &word.to_le_bytes());
            if before != [0; 8] {
                assert!(made.found().pieces().len() <= 5);
            }
        }
        made.set(at, &before);
    }
    assert_eq!(made.found().pieces().len(), 2);
}

/// The stretches of code, of some bytes, that tables describe.
fn described(frames: &Frames, len: u64) -> Vec<(u64, u64)> {
    frames.tables(len).into_iter().map(|(range, _)| (range.start, range.end)).collect()
}

fn piece(words: i64, complete: i64) -> cache::Piece {
    cache::Piece::of_test(words, complete)
}

/// What is known at some addresses of a method of `words` words, and at its others.
fn known(code: &[u8], words: u64, at: &[u64]) -> Vec<Option<Frame>> {
    let Flow { exceptions, .. } = follow(code, words).expect("it makes its frame");
    let of = |at: &u64| {
        exceptions.iter().find(|it| it.0.contains(at)).map_or(Some(Frame::Pushed(8 * words)), |it| it.1)
    };
    at.iter().map(of).collect()
}

#[test]
fn a_method_has_its_frame_from_the_instruction_on_that_makes_it() {
    let (bare, pushed) = (|cfa| Some(Frame::Bare(cfa)), |cfa| Some(Frame::Pushed(cfa)));
    // mov %eax, -0x14000(%rsp); push %rbp; sub $32, %rsp; nop; add $32, %rsp; pop %rbp; cmp 0x28(%r15), %rsp; ja; ret
    let bang = [0x89, 0x84, 0x24, 0, 0xc0, 0xfe, 0xff];
    let end = [0x90, 0x48, 0x83, 0xc4, 0x20, 0x5d, 0x49, 0x3b, 0x67, 0x28, 0x77, 1, 0xc3, 0xc3];
    let method = [&bang[..], &[0x55, 0x48, 0x83, 0xec, 0x20], &end].concat();
    let at = [0, 7, 8, 12, 13, 17, 18, 22, 24, 25];
    let found = [
        bare(8),
        bare(8),
        pushed(16),
        pushed(48),
        pushed(48),
        pushed(16),
        bare(8),
        bare(8),
        bare(8),
        bare(8),
    ];
    assert_eq!(known(&method, 6, &at), found);
    assert_eq!(follow(&method, 6).map(|it| it.made_at), Some(12));
    assert_eq!(follow(&method, 7), None, "HotSpot says otherwise");
    // With a frame pointer, and a large frame.
    let large = [0x55, 0x48, 0x8b, 0xec, 0x48, 0x81, 0xec, 0, 1, 0, 0, 0x90, 0xc9, 0xc3];
    assert_eq!(
        known(&large, 34, &[0, 1, 4, 11, 12, 13]),
        [bare(8), pushed(16), pushed(16), pushed(272), pushed(272), bare(8)]
    );
    // sub $24, %rsp; mov %rbp, 16(%rsp): the frame pointer is stored after the frame was made.
    let stored = [0x48, 0x81, 0xec, 0x18, 0, 0, 0, 0x48, 0x89, 0x6c, 0x24, 0x10, 0x90];
    assert_eq!(known(&stored, 4, &[0, 7, 12]), [bare(8), bare(32), pushed(32)]);
    assert_eq!(
        known(&[0x55, 0x90, 0x5d, 0xc3], 2, &[0, 1, 2, 3]),
        [bare(8), pushed(16), pushed(16), bare(8)]
    );
    // push %rcx; je over a jump; pop %rax; and behind the jump, the end of the same piece: pop %rdx; hlt
    let begin = [0x55, 0x48, 0x83, 0xec, 0x10];
    let middle = [0x51, 0x74, 0x02, 0xeb, 0x02, 0x58, 0x90, 0x5a, 0xf4];
    let pushes = [&begin[..], &middle].concat();
    // The last part is reached with and without the word: nobody knows.
    assert_eq!(
        known(&pushes, 4, &[6, 8, 10, 11, 12]),
        [pushed(40), pushed(40), pushed(40), pushed(32), None]
    );
    // The stack pointer is lost; then nothing is known of what follows, and what is never reached has the frame.
    let aligned = [&begin[..], &[0x48, 0x83, 0xe4, 0xf0, 0x90, 0xc3, 0x90]].concat();
    assert_eq!(known(&aligned, 4, &[5, 9, 10, 11]), [pushed(32), None, None, pushed(32)]);
    for code in [&[0x90; 20][..], &[0xff; 20], &[]] {
        assert_eq!(follow(code, 6), None);
    }
    let mut seed = 1_u64;
    for _ in 0..4_000 {
        let random = std::array::from_fn::<u8, 64, _>(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        });
        assert!(follow(&[&begin[..], &random].concat(), 4).is_none_or(|flow| flow.made_at <= 5));
    }
    // It ends: a jump to itself, and one back that pushes more each time.
    assert!(follow(&[&begin[..], &[0xeb, 0xfe]].concat(), 4).is_some());
    assert_eq!(known(&[&begin[..], &[0x51, 0xeb, 0xfd]].concat(), 4, &[5, 6]), [None, None]);
}

#[test]
fn code_between_two_offsets_is_a_straight_line_or_unknown() {
    let [nop, call, jump] = [&[0x90][..], &[0xe8, 0xfb, 0, 0, 0], &[0xeb, 0x00]];
    let of = |parts: &[&[u8]], offs: &[u64]| ways(&parts.concat(), offs);
    assert_eq!(of(&[nop; 8], &[1, 3, 8]), [Way::Straight, Way::Straight, Way::Straight]);
    // It ends with a call, which the next one follows.
    assert_eq!(of(&[nop, nop, call, nop, nop], &[1, 7, 8])[..2], [Way::Straight, Way::After(0x102)]);
    // Something else comes behind a call, a jump and a stop, or the instructions do not meet the offset.
    assert_eq!(of(&[nop, call, nop, nop], &[0, 7])[0], Way::Unknown);
    for stop in [jump, &[0x74, 0], &[0xc3], &[0xf4], &[0xcc], &[0x0f, 0x0b], &[0x06]] {
        assert_eq!(of(&[nop, nop, stop, nop], &[1, 2 + stop.len() as u64])[0], Way::Unknown, "{stop:?}");
    }
    assert_eq!(of(&[nop, call, nop], &[0, 3, 6])[..2], [Way::Unknown; 2]);
    // What follows a jump is entered elsewhere: at its begin, or inside.
    assert_eq!(of(&[nop, jump, nop, nop, nop], &[3, 5])[0], Way::Straight);
    assert_eq!(of(&[nop, &[0xeb, 0x01], nop, nop, nop], &[3, 5])[0], Way::Unknown);
    assert_eq!(of(&[nop, nop, &[0xeb, 0xfd]], &[1, 2])[0], Way::Straight);
    // Behind a call nothing else may come.
    assert_eq!(of(&[call, nop, nop, &[0xeb, 0xfc]], &[5, 7])[0], Way::Unknown);
    // jmp *(%rax,%rbx)
    assert_eq!(of(&[nop, nop, nop, &[0xff, 0x24, 0x18]], &[0, 2]), []);
    // Offsets outside.
    assert_eq!(of(&[nop], &[1, 2, 9]), []);
}

#[test]
fn what_is_known_counts_at_the_addresses_that_were_hit() {
    let code = [0x55, 0x48, 0x83, 0xec, 0x10, 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3];
    let mut frames = Frames::new(Kind::Method, &piece(4, 5), &code);
    for off in [1, 5, 10, 11] {
        frames.hit(Kind::Method, &Hit { off, before: &[], from: &[] });
    }
    let marks = frames.marks();
    let at = |off: u64| marks.range(..=off).next_back().and_then(|it| *it.1);
    let found: Vec<Option<Frame>> = (0..13).map(at).collect();
    let [bare, saved, whole] = [Frame::Bare(8), Frame::Pushed(16), Frame::Pushed(32)].map(Some);
    let from_5 = [whole, whole, whole, whole, whole, saved, bare, whole];
    assert_eq!(found, [&[bare, saved, None, None, saved][..], &from_5].concat());
    // One table up to what is unknown, and one from there on.
    assert_eq!(described(&frames, 12), [(0, 2), (4, 12)]);
    // Without its code, it has the frame from where HotSpot says; without that, nowhere.
    assert_eq!(described(&Frames::new(Kind::Method, &piece(4, 5), &[]), 12), [(5, 12)]);
    assert_eq!(described(&Frames::new(Kind::Method, &piece(4, -1), &[]), 12), []);
    assert_eq!(described(&Frames::new(Kind::Method, &piece(0, 12), &[]), 12), [(0, 12)]);
    // The interpreter: before it has its frame, and after it.
    let mut frames = Frames::new(Kind::Interpreter, &piece(0, -1), &[]);
    let enters = [0x90, 0x50, 0x55, 0x48, 0x8b, 0xec];
    frames.hit(Kind::Interpreter, &Hit { off: 100, before: &[0x90; 8], from: &enters });
    frames.hit(Kind::Interpreter, &Hit { off: 104, before: &enters, from: &[0x90; 8] });
    frames.hit(Kind::Interpreter, &Hit { off: 200, before: &[0xc9, 0x5e], from: &[0x90; 8] });
    frames.hit(Kind::Interpreter, &Hit { off: 300, before: &[0x90; 8], from: &[0x90; 8] });
    assert_eq!(described(&frames, 400), [(0, 99), (101, 103), (105, 199), (201, 400)]);
    // It calls without its frame, to find the handler of an exception; and it has returned.
    let without =
        [0xc9, 0x5e, 0x48, 0x8b, 0xe3, 0x50, 0x52, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90];
    let returned =
        [0xc9, 0x5e, 0x48, 0x8b, 0xe3, 0xff, 0xe6, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90];
    for (before, frame) in [(without, None), (returned, Some(Frame::Interpreted))] {
        let mut frames = Frames::new(Kind::Interpreter, &piece(0, -1), &[]);
        frames.hit(Kind::Interpreter, &Hit { off: 100, before: &before, from: &[0x90; 8] });
        let marks = frames.marks();
        assert!([99, 100].iter().all(|off| *marks.range(..=*off).next_back().expect("a row").1 == frame));
    }
    // A stub of the virtual machine: only where it calls.
    let mut frames = Frames::new(Kind::Other, &piece(4, -1), &[]);
    frames.hit(Kind::Other, &Hit { off: 30, before: &[], from: &[] });
    assert_eq!(described(&frames, 40), [(0, 30), (31, 40)]);
    assert_eq!(described(&Frames::new(Kind::Stubs, &piece(0, -1), &[]), 40), []);
}
