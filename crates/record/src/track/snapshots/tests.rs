use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use icecore_format::records::Payload;
use rustc_hash::FxBuildHasher;

use super::*;
use crate::kernel::wire::{Registers, Stack, StackPage};
use crate::track::jit::Interpreter;
use crate::track::spaces::{Region, Spaces};

const TGID: u32 = 10;
const CODE: u64 = 0x5555_0000_0000;
/// The address after the stack.
const ANCHOR: u64 = 0x7ffd_0000_8000;

/// Returns a process with code of image 1 at [`CODE`].
fn spaces() -> Spaces {
    let mut spaces = Spaces::default();
    map(&mut spaces, TGID, CODE);
    spaces
}

fn map(spaces: &mut Spaces, tgid: u32, start: u64) {
    let region = Region {
        end: Avma(start + 0x1_0000),
        image: Some(1),
        file_off: FileOff(0x4000),
        since_ns: 0,
        is_twice: false,
        ..Region::default()
    };
    spaces.map(tgid, Avma(start), region);
}

fn hash_of(page: &[u8; 4096]) -> u64 {
    FxBuildHasher.hash_one(page) | 1
}

/// Returns a snapshot of a stack whose words begin at the stack pointer.
fn taken(sp: u64, stack_end: u64, bytes: &[u8], registers: &[(usize, u64)]) -> Taken {
    let mut values = [0; REGISTER_COUNT];
    registers.iter().for_each(|(number, value)| values[*number] = *value);
    values[STACK_POINTER] = sp;
    let mut arriving = Arriving::default();
    let top = &bytes[..bytes.len().min(128)];
    arriving.registers(&Registers { snapshot: 1, values, stack_end: Avma(stack_end), top, is_outer: false });
    if !bytes.is_empty() {
        let first_page = sp & !0xfff;
        let memory = [&vec![0xee; (sp - first_page) as usize][..], bytes, &[0xee; 4096]].concat();
        let pages = memory.as_chunks::<4096>().0;
        for (page, address) in pages.iter().zip((first_page..).step_by(4096)) {
            let (address, hash) = (Avma(address), hash_of(page));
            arriving.page(&StackPage { snapshot: 1, tid: 1, address, hash, bytes: page });
        }
        let pages = &pages[..((sp + bytes.len() as u64 - first_page) as usize).div_ceil(4096)];
        let hashes: Vec<u8> = pages.iter().flat_map(|page| hash_of(page).to_ne_bytes()).collect();
        let (low, high) = (Avma(sp), Avma(sp + bytes.len() as u64));
        arriving.stack(&Stack { snapshot: 1, low, high, tid: 1, hashes: &hashes });
    }
    arriving.take(1).expect("it came")
}

fn of_words(sp: u64, words: &[u64]) -> Taken {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    taken(sp, ANCHOR, &bytes, &[])
}

/// All that was written, by id.
#[derive(Default)]
struct Written {
    code: Vec<Location>,
    pieces: Vec<StackPiece>,
    nodes: Vec<StackNode>,
    rows: Vec<Snapshot>,
}

impl Written {
    /// Takes the new items, encoded to bytes of the file and decoded again.
    fn add(&mut self, snapshots: &mut Snapshots) {
        let New { code, pieces, nodes, snapshots, .. } = snapshots.take_new(|location| location);
        let bytes = [code.to_bytes(), pieces.to_bytes(), nodes.to_bytes(), snapshots.to_bytes()];
        let [code, pieces, nodes, rows] = bytes.map(|bytes| bytes.expect("fits"));
        let code = StackCodeV1::view(&code).expect("own bytes");
        assert_eq!(code.first_id.to_native() as usize, self.code.len());
        self.code.extend(code.rows());
        let pieces = StackPiecesV1::view(&pieces).expect("own bytes");
        assert_eq!(pieces.first_id.to_native() as usize, self.pieces.len());
        self.pieces.extend(pieces.rows().expect("own bytes"));
        let nodes = StackNodesV1::view(&nodes).expect("own bytes");
        assert_eq!(nodes.first_id.to_native() as usize, self.nodes.len() + 1);
        self.nodes.extend(nodes.rows().expect("own bytes"));
        self.rows.extend(SnapshotsV1::view(&rows).expect("own bytes").rows().expect("own bytes"));
    }

    /// Returns the address that a word stands for, where code is mapped at `code_start`.
    fn value(&self, word: Word, at: u64, code_start: u64) -> u64 {
        match word {
            Word::Stack(distance) => at.wrapping_add_signed(distance),
            Word::Code(id) => match self.code[id as usize] {
                Location::Image { file_off, .. } => file_off - 0x4000 + code_start,
                Location::Address(address) => address,
            },
        }
    }

    /// Returns the words of a stack, by address.
    fn words(&self, id: u32, code_start: u64) -> BTreeMap<u64, u64> {
        let row = &self.rows[id as usize - 1];
        let (mut chain, mut next) = (Vec::new(), row.memory);
        while next != 0 {
            chain.push(&self.nodes[next as usize - 1]);
            next = chain[chain.len() - 1].outer;
        }
        let (mut words, mut end) = (BTreeMap::new(), row.anchor);
        for node in chain.into_iter().rev() {
            end -= PIECE_BYTES * u64::from(node.gap);
            let piece = &self.pieces[node.piece as usize];
            let bits = (0..64).filter(|bit| piece.mask >> bit & 1 == 1);
            for (bit, word) in bits.zip(&piece.words) {
                // Of a misaligned anchor, words lie at the multiples of eight below.
                let at = (end - PIECE_BYTES + 8 * bit + 7) & !7;
                words.insert(at, self.value(*word, at, code_start));
            }
            end -= PIECE_BYTES;
        }
        words
    }
}

#[test]
fn registers_that_hold_addresses_are_told_and_others_are_not() {
    let (spaces, mut snapshots) = (spaces(), Snapshots::default());
    let sp = ANCHOR - 64;
    let secret = 0x1122_3344_5566_7788;
    let registers =
        [(0, secret), (3, CODE + 0x40), (6, sp + 16), (12, sp - 8), (13, ANCHOR), (14, ANCHOR + 8)];
    let id = snapshots.note(1, spaces.of(TGID).expect("mapped"), &taken(sp, ANCHOR, &[0; 64], &registers));
    let mut written = Written::default();
    written.add(&mut snapshots);
    let row = &written.rows[id as usize - 1];
    assert_eq!((row.anchor, row.depth, row.copied, row.memory), (ANCHOR, 64, 64, 0));
    assert_eq!(
        row.mask,
        1 << 3 | 1 << 6 | 1 << 13,
        "neither data, nor what is below or behind the stack, nor sp"
    );
    let values: Vec<u64> = row.registers.iter().map(|word| written.value(*word, sp, CODE)).collect();
    assert_eq!(values, [CODE + 0x40, sp + 16, ANCHOR]);
}

#[test]
fn a_return_address_behind_the_last_byte_of_code_is_one() {
    let (spaces, mut snapshots) = (spaces(), Snapshots::default());
    let sp = ANCHOR - 32;
    let words = [CODE + 0x1_0000, CODE, CODE + 0x1_0001, CODE + 1];
    let id = snapshots.note(1, spaces.of(TGID).expect("mapped"), &of_words(sp, &words));
    let mut written = Written::default();
    written.add(&mut snapshots);
    assert_eq!(written.words(id, CODE), BTreeMap::from([(sp, CODE + 0x1_0000), (sp + 24, CODE + 1)]));
}

/// Returns a stack of `parts` pieces, each of which holds a return address and a frame pointer.
fn deep(parts: u64, code: u64) -> (u64, Vec<u64>) {
    let mut words = vec![0; (parts * 64) as usize];
    let sp = ANCHOR - parts * PIECE_BYTES;
    for part in 0..parts {
        let at = (part * 64 + part % 64) as usize;
        words[at] = code + 8 * part + 8;
        let next = (at + 5) % words.len();
        words[next] = sp + 8 * part;
    }
    (sp, words)
}

#[test]
fn what_lies_outside_is_stored_once_for_all_samples_of_a_thread() {
    let (spaces, mut snapshots) = (spaces(), Snapshots::default());
    let (sp, mut words) = deep(40, CODE);
    let space = spaces.of(TGID).expect("mapped");
    let mut written = Written::default();
    let first = snapshots.note(1, space, &of_words(sp, &words));
    written.add(&mut snapshots);
    let (pieces, nodes) = (written.pieces.len(), written.nodes.len());
    assert_eq!(nodes, 40);
    // The innermost part changes; then the stack shrinks; then it has its first contents again.
    words[0] = CODE + 0x99;
    let second = snapshots.note(1, space, &of_words(sp, &words));
    let third = snapshots.note(1, space, &of_words(sp + 4096, &words[512..]));
    let fourth = snapshots.note(1, space, &of_words(sp, &words));
    written.add(&mut snapshots);
    assert_eq!((written.pieces.len(), written.nodes.len()), (pieces + 1, nodes + 1));
    let memory = |id: u32| written.rows[id as usize - 1].memory;
    assert_eq!(memory(second), memory(fourth));
    assert_ne!(memory(first), memory(second));
    assert_eq!(memory(third) + 8, memory(first), "eight parts further out");
    assert_eq!(written.words(third, CODE), written.words(second, CODE).split_off(&(sp + 4096)));
}

#[test]
fn equal_stacks_of_two_processes_are_stored_once_wherever_they_lie() {
    let (mut spaces, mut snapshots) = (spaces(), Snapshots::default());
    let elsewhere = CODE + 0x100_0000_0000;
    map(&mut spaces, 20, elsewhere);
    let mut written = Written::default();
    let (sp, words) = deep(10, CODE);
    let first = snapshots.note(1, spaces.of(TGID).expect("mapped"), &of_words(sp, &words));
    written.add(&mut snapshots);
    let (nodes, pieces, code) = (written.nodes.len(), written.pieces.len(), written.code.len());
    // Stack and code lie elsewhere, and are the same.
    let moved = |word: &u64| match *word {
        0 => 0,
        word if word >= sp => word - 0x10_0000,
        word => word - CODE + elsewhere,
    };
    let bytes: Vec<u8> = words.iter().map(moved).flat_map(u64::to_ne_bytes).collect();
    let other = taken(sp - 0x10_0000, ANCHOR - 0x10_0000, &bytes, &[]);
    let second = snapshots.note(2, spaces.of(20).expect("mapped"), &other);
    written.add(&mut snapshots);
    assert_eq!((written.nodes.len(), written.pieces.len(), written.code.len()), (nodes, pieces, code));
    assert_eq!(written.rows[0].memory, written.rows[1].memory);
    assert_eq!(written.words(second, elsewhere).len(), written.words(first, CODE).len());
}

#[test]
fn what_was_mapped_meanwhile_is_seen_in_parts_that_did_not_change() {
    let (mut spaces, mut snapshots) = (spaces(), Snapshots::default());
    let (sp, plugin) = (ANCHOR - 16, CODE + 0x50_0000);
    let words = [plugin + 8, CODE + 8];
    let mut written = Written::default();
    let before = snapshots.note(1, spaces.of(TGID).expect("mapped"), &of_words(sp, &words));
    let region = Region {
        end: Avma(plugin + 0x1000),
        image: None,
        file_off: FileOff(0),
        since_ns: 0,
        is_twice: false,
        ..Region::default()
    };
    spaces.map(TGID, Avma(plugin), region);
    let after = snapshots.note(1, spaces.of(TGID).expect("mapped"), &of_words(sp, &words));
    written.add(&mut snapshots);
    assert_eq!(written.words(before, CODE), BTreeMap::from([(sp + 8, CODE + 8)]));
    assert_eq!(written.words(after, CODE), BTreeMap::from([(sp, plugin + 8), (sp + 8, CODE + 8)]));
}

#[test]
fn the_outer_part_that_was_not_copied_is_a_gap() {
    let (spaces, mut snapshots) = (spaces(), Snapshots::default());
    let (sp, words) = deep(40, CODE);
    let space = spaces.of(TGID).expect("mapped");
    // A whole one before it must not show through, nor what was not copied after it.
    let whole = snapshots.note(1, space, &of_words(sp, &words));
    let cut = snapshots.note(1, space, &of_words(sp, &words[..100]));
    let again = snapshots.note(1, space, &of_words(sp, &words));
    let mut written = Written::default();
    written.add(&mut snapshots);
    let row = &written.rows[cut as usize - 1];
    assert_eq!((row.anchor, row.depth, row.copied), (ANCHOR, 40 * 512, 800));
    let mut known = written.words(whole, CODE);
    assert_eq!(written.words(again, CODE), known);
    known.split_off(&(sp + 800));
    assert_eq!(written.words(cut, CODE), known);
}

#[test]
fn memory_is_bounded_and_what_was_forgotten_is_written_again() {
    let (spaces, mut snapshots) = (spaces(), Snapshots::default());
    let space = spaces.of(TGID).expect("mapped");
    let mut written = Written::default();
    let (sp, words) = deep(60, CODE);
    let first = snapshots.note(0, space, &of_words(sp, &words));
    for tid in 1..2 * (COMPARED_PARTS / 60) as u32 {
        snapshots.note(tid, space, &of_words(sp, &words));
        assert!(snapshots.before_parts <= COMPARED_PARTS);
    }
    assert_eq!(
        snapshots.before_parts,
        snapshots.before.values().map(|before| before.held.len()).sum::<usize>()
    );
    let last = snapshots.note(0, space, &of_words(sp, &words));
    assert!(snapshots.waiting_bytes() > 0);
    written.add(&mut snapshots);
    assert_eq!(written.nodes.len(), 60, "stacks are compared with fewer, and are the same");
    assert_eq!(written.words(first, CODE), written.words(last, CODE));

    // More different pieces than are remembered: the first ones come again under new ids.
    for number in 0..REMEMBERED as u64 + 10 {
        let spread = [number / 0x100, number % 0x100, 0].map(|n| CODE + 1 + n);
        snapshots.note(1, space, &of_words(ANCHOR - 24, &spread));
    }
    let again = snapshots.note(9, space, &of_words(sp, &words));
    written.add(&mut snapshots);
    assert!(written.rows[again as usize - 1].memory > REMEMBERED as u32);
    assert_eq!(written.words(again, CODE), written.words(first, CODE));
}

/// Returns a word of a stack: an address of the stack, of code, around them, or data.
fn word() -> impl proptest::strategy::Strategy<Value = u64> {
    proptest::prop_oneof![
        3 => proptest::strategy::Just(0),
        3 => proptest::num::u64::ANY,
        2 => CODE - 4..CODE + 0x1_0004,
        2 => ANCHOR - 0x2000..ANCHOR + 16,
        1 => (1_u64 << 47)..u64::MAX,
    ]
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn exactly_the_addresses_of_a_stack_are_written(
        stacks in proptest::collection::vec(
            (proptest::collection::vec(word(), 0..400), 0_u64..8, proptest::bool::ANY, 0_u32..2), 1..6),
    ) {
        let (spaces, mut snapshots) = (spaces(), Snapshots::default());
        let space = spaces.of(TGID).expect("mapped");
        let mut noted = Vec::new();
        for (words, skew, is_known, tid) in &stacks {
            // Now and then the stack pointer is no multiple of eight, and the end of the stack unknown.
            let sp = ANCHOR - 0x1000 - if *skew < 6 { 0 } else { *skew };
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let taken = taken(sp, if *is_known { ANCHOR } else { 0 }, &bytes, &[]);
            let Avma(anchor) = taken.anchor();
            let id = snapshots.note(*tid, space, &taken);
            noted.push((id, sp, anchor, bytes));
        }
        let mut written = Written::default();
        written.add(&mut snapshots);
        for (id, sp, anchor, bytes) in noted {
            let told = written.words(id, CODE);
            let is_address = |value: u64| {
                (sp..=anchor).contains(&value) || (CODE + 1..=CODE + 0x1_0000).contains(&value)
            };
            for (at, value) in &told {
                let into = (at - sp) as usize;
                let held = bytes.get(into..into + 8).expect("inside of the copy");
                assert_eq!(value.to_ne_bytes(), held, "{at:#x}");
                assert!(is_address(*value), "{value:#x} is data");
            }
            if anchor.is_multiple_of(8) {
                let skipped = sp.wrapping_neg() % 8;
                let words = bytes.get(skipped as usize..).unwrap_or_default().as_chunks().0;
                let held = (sp + skipped..).step_by(8).zip(words).map(|(at, word)| (at, u64::from_ne_bytes(*word)));
                let expected: BTreeMap<u64, u64> = held.filter(|(_, value)| is_address(*value)).collect();
                assert_eq!(told, expected);
            }
        }
    }
}

/// Returns an address of a stack, or one that no stack has.
fn hostile() -> impl proptest::strategy::Strategy<Value = u64> {
    proptest::prop_oneof![
        3 => ANCHOR - 0x2000..ANCHOR + 0x2000,
        1 => u64::MAX - 0x3000..=u64::MAX,
        1 => 0..0x3000_u64,
        1 => proptest::num::u64::ANY,
    ]
}

proptest::proptest! {
    #[test]
    fn records_that_contradict_each_other_do_no_harm(
        (sp, low, high, stack_end) in (hostile(), hostile(), hostile(), hostile()),
        top in proptest::collection::vec(proptest::num::u8::ANY, 0..=128),
        hashes in proptest::collection::vec(proptest::num::u8::ANY, 0..48),
        sent in proptest::collection::vec(hostile(), 0..3),
        is_low_true in proptest::bool::ANY,
    ) {
        let (spaces, mut snapshots, mut arriving) = (spaces(), Snapshots::default(), Arriving::default());
        let mut values = [0; REGISTER_COUNT];
        values[STACK_POINTER] = sp;
        arriving.registers(&Registers { snapshot: 1, values, stack_end: Avma(stack_end), top: &top, is_outer: false });
        for address in sent {
            let address = Avma(address & !0xfff);
            arriving.page(&StackPage { snapshot: 1, tid: 1, address, hash: 1, bytes: &[1; 4096] });
        }
        let low = Avma(if is_low_true { sp } else { low });
        arriving.stack(&Stack { snapshot: 1, low, high: Avma(high), tid: 1, hashes: &hashes });
        let taken = arriving.take(1).expect("it came");
        proptest::prop_assert!(taken.copied.low == Avma(sp) && taken.copied.high >= Avma(sp));
        snapshots.note(TGID, spaces.of(TGID).expect("mapped"), &taken);
        Written::default().add(&mut snapshots);
    }
}

#[test]
fn code_at_addresses_is_handed_over_to_each_process_that_holds_it() {
    let (mut spaces, mut snapshots) = (spaces(), Snapshots::default());
    const MADE: u64 = 0x1000_0000;
    let made = Region {
        end: Avma(MADE + 0x1000),
        image: None,
        file_off: FileOff(0),
        since_ns: 0,
        is_twice: false,
        ..Region::default()
    };
    spaces.map(TGID, Avma(MADE), made);
    // Two pages, of which the inner one changes.
    let sp = ANCHOR - 8192;
    let mut words = vec![0; 1024];
    (words[3], words[900], words[901]) = (MADE + 0x10, MADE + 0x20, CODE + 0x30);
    let mut noted = |spaces: &Spaces, tid: u32, tgid: u32, words: &[u64]| {
        snapshots.note(tid, spaces.of(tgid).expect("mapped"), &of_words(sp, words));
        snapshots.at_addresses().to_vec()
    };
    // The outer part comes first.
    assert_eq!(noted(&spaces, TGID, TGID, &words), [MADE + 0x20, MADE + 0x10].map(Avma));
    words[3] = MADE + 0x40;
    assert_eq!(noted(&spaces, TGID, TGID, &words), [Avma(MADE + 0x40)], "the rest is as it was");
    spaces.fork(TGID, 20, 5);
    assert_eq!(noted(&spaces, 20, 20, &words), [MADE + 0x20, MADE + 0x40].map(Avma));
}

#[test]
fn of_the_words_of_an_interpreter_only_known_instructions_are_written() {
    let (mut spaces, mut snapshots) = (spaces(), Snapshots::default());
    let sp = ANCHOR - 64 * 8;
    let mut words = [0; 64];
    for (at, word) in [(2, sp + 20 * 8), (3, CODE + 0x10), (12, 0x5_0008), (17, 0x6_0000)] {
        words[at] = word;
    }
    let (code, methods) = (CODE..CODE + 0x100, Vec::new());
    let mut interpreter = Interpreter { code, method_below: 24, instruction_below: 64, methods };
    let tagged = Location::Address(0x5_0008 | Location::INTERPRETED);
    let mut written = Written::default();
    for knows in [false, true] {
        if knows {
            interpreter.methods = vec![0x4_0000..0x4_0010, 0x5_0000..0x5_0010];
        }
        spaces.interpreter(TGID, interpreter.clone());
        snapshots.note(1, spaces.of(TGID).expect("mapped"), &of_words(sp, &words));
        let found: Vec<(u64, u64)> =
            snapshots.running().iter().map(|it| (it.method, it.instruction)).collect();
        assert_eq!(found, [(0x6_0000, 0x5_0008)], "what it may be is asked for");
        written.add(&mut snapshots);
        assert_eq!(written.code.contains(&tagged), knows);
    }
}
