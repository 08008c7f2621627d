//! Code objects of this process, made by hand.

use super::*;
use crate::kernel::wire::{Frames, Head, Interpreted};

/// Objects as words, which stay where they are.
#[derive(Default)]
struct Heap(Vec<Box<[u64]>>);

impl Heap {
    fn object(&mut self, words: &[(usize, u64)]) -> u64 {
        let mut object = vec![0; 64].into_boxed_slice();
        object[0] = 1;
        words.iter().for_each(|(at, word)| object[*at] = *word);
        let address = object.as_ptr() as u64;
        self.0.push(object);
        address
    }

    /// A string of 3.12, of characters of one byte.
    fn string(&mut self, latin: &[u8], is_ascii: bool) -> u64 {
        let begin = if is_ascii { 40 } else { 56 };
        let state = (1 | 8 | if is_ascii { 16 } else { 0 }) << 2;
        let mut bytes = vec![0; begin];
        bytes[16..24].copy_from_slice(&(latin.len() as u64).to_le_bytes());
        bytes[32..36].copy_from_slice(&u32::to_le_bytes(state));
        bytes.extend(latin);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        self.object(&words.into_iter().enumerate().collect::<Vec<_>>())
    }

    /// A type with a name.
    fn kind(&mut self, name: &[u8; 8]) -> u64 {
        let name = self.object(&[(0, u64::from_le_bytes(*name))]);
        self.object(&[(3, name)])
    }

    /// A code object of 3.12 with eight instructions, all in the line of its declaration.
    fn code(&mut self, kind: u64, name: u64, number: u64) -> u64 {
        let table = [(2, 3), (4, u64::from_le_bytes([0x80 | 10 << 3 | 7, 0, 0, 0, 0, 0, 0, 0]))];
        let (file, table) = (self.string(b"/a.py", true), self.object(&table));
        // The first line is the upper half of the word at 64, the number that of the word at 88.
        let fields = [(1, kind), (2, 8), (8, 7 << 32), (11, number << 32), (14, file), (15, name)];
        let rest = [(16, name), (17, table)];
        self.object(&[&fields[..], &rest].concat())
    }
}

/// The time of samples, in nanoseconds: long ago.
const LONG_AGO: u64 = 5_000_000;

fn head(time_ns: u64) -> Head<'static> {
    Head { time_ns, cpu: 0, tgid: std::process::id(), tid: 1, comm: b"t", cgroup_id: 0 }
}

/// Merges functions into a stack of machine frames, leaf first; each has code, instruction, number, machine frame, and whether it is the first
/// of its interpreter.
fn merged(all: &mut Interpreters, machine: &[u64], frames: &[(u64, u64, u32, u16, u16)]) -> Vec<u64> {
    merged_at(LONG_AGO, all, machine, frames)
}

fn merged_at(
    time_ns: u64,
    all: &mut Interpreters,
    machine: &[u64],
    frames: &[(u64, u64, u32, u16, u16)],
) -> Vec<u64> {
    let mut bytes = Vec::new();
    for (code, instruction, check, machine_frame, is_innermost) in frames {
        bytes.extend([*code, *instruction].map(u64::to_ne_bytes).concat());
        bytes.extend(check.to_ne_bytes());
        bytes.extend([*machine_frame, *is_innermost].map(u16::to_ne_bytes).concat());
    }
    all.hold(&Interpreted::of(9, &bytes));
    let user = machine.iter().flat_map(|address| address.to_ne_bytes()).collect::<Vec<u8>>();
    let nothing = Frames::from_bytes(&[]);
    let sample = Sample {
        head: head(time_ns),
        weight: 1,
        kernel_end: 0,
        user_end: 10,
        kernel: nothing,
        user: Frames::from_bytes(&user),
        snapshot: 0,
        interpreted: 9,
        event: 0,
        field: &[],
    };
    let sample = all.merge(&sample, &Interpreter::of_3_12(), &Door::of_test()).expect("it has functions");
    sample.user.leaf_first().map(|address| address.0).collect()
}

const TAG: u64 = Location::INTERPRETED;

#[test]
fn functions_stand_behind_the_machine_frame_that_runs_them() {
    let (mut heap, mut all) = (Heap::default(), Interpreters::new());
    let (kind, none) = (heap.kind(b"code\0\0\0\0"), heap.kind(b"NoneType"));
    let (name, umlaut) = (heap.string(b"Leaf.run", true), heap.string(b"gr\xf6\xdfe", false));
    let (leaf, outer) = (heap.code(kind, name, 41), heap.code(kind, umlaut, 42));
    let entry = heap.object(&[(1, none)]);
    let first = |code: u64| code + 192;
    let frames = [
        (leaf, first(leaf) + 4, 41, 0, 1),
        (entry, 0, 0, 1, 0),
        // Before its first instruction.
        (outer, first(outer) - 2, 42, 0, 0),
        (entry, 0, 0, 3, 0),
    ];
    let stack = merged(&mut all, &[0x10, 0x20, 0x30, 0x40], &frames);
    let expected = [(first(leaf) + 4) | TAG, 0x10 | INTERRUPTED, 0x20, (first(outer) - 2) | TAG, 0x30, 0x40];
    assert_eq!(stack, expected);
    let mut rows = all.take_rows(u64::MAX);
    rows.sort_by_key(|made| made.piece.name.len());
    let row = |made: &Made| {
        let lines: Vec<u32> = made.piece.lines.iter().map(|line| line.line).collect();
        (made.piece.name.clone(), made.piece.start.0, made.piece.end.0, lines)
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    let of =
        |code: u64, name: &str| (name.as_bytes().to_vec(), first(code) - 2, first(code) + 16, vec![7, 7]);
    assert_eq!(rows, [of(outer, "größe"), of(leaf, "Leaf.run")]);
    assert!(all.take_rows(u64::MAX).is_empty());
    // The sample is in the next file, and then in none that follows.
    all.turn(0);
    assert_eq!(all.take_rows(u64::MAX).len(), 2);
    all.turn(u64::MAX);
    assert!(all.take_rows(u64::MAX).is_empty());
    merged(&mut all, &[0x10, 0x20, 0x30, 0x40], &frames);
    assert_eq!(all.take_rows(u64::MAX).len(), 2, "each file has the functions of its samples");
}

#[test]
fn code_that_another_one_has_replaced_is_gone_and_what_is_no_code_too() {
    let (mut heap, mut all) = (Heap::default(), Interpreters::new());
    let kind = heap.kind(b"code\0\0\0\0");
    let name = heap.string(b"f", true);
    let code = heap.code(kind, name, 41);
    let no_code = heap.object(&[(1, 8)]);
    let frames =
        [(code, code + 192, 40, 0, 1), (no_code, 7, 41, 0, 0), (8, 8, 41, 0, 0), (code, 0, 41, 1, 0)];
    assert_eq!(merged(&mut all, &[0x10], &frames), [TAG, TAG, TAG, (code + 190) | TAG, 0x10 | INTERRUPTED]);
}

#[test]
fn code_that_was_gone_is_not_read_again_for_samples_from_before() {
    let (mut heap, mut all) = (Heap::default(), Interpreters::new());
    let kind = heap.kind(b"code\0\0\0\0");
    let name = heap.string(b"f", true);
    let code = heap.code(kind, name, 41);
    let frames = [(code, code + 192, 42, 1, 1)];
    assert_eq!(merged(&mut all, &[0x10], &frames), [TAG, 0x10 | INTERRUPTED]);
    let words = heap.0.iter_mut().find(|words| words.as_ptr() as u64 == code).expect("it is there");
    words[11] = 42 << 32;
    assert_eq!(merged(&mut all, &[0x10], &frames), [TAG, 0x10 | INTERRUPTED], "another one has come there");
    let now = merged_at(clock::monotonic_ns(), &mut all, &[0x10], &frames);
    assert_eq!(now, [(code + 192) | TAG, 0x10 | INTERRUPTED]);
}

#[test]
fn each_interpreter_has_its_own_functions_and_what_has_no_place_is_left_out() {
    let (mut heap, mut all) = (Heap::default(), Interpreters::new());
    let kind = heap.kind(b"code\0\0\0\0");
    let name = heap.string(b"f", true);
    let code = heap.code(kind, name, 41);
    let at = |off: u64| code + 192 + off;
    // The outer interpreter comes first, and its last function has no place.
    let frames = [(code, at(0), 41, 3, 1), (code, at(2), 41, 0, 0), (code, at(4), 41, 1, 1)];
    let stack = merged(&mut all, &[0x10, 0x20, 0x30], &frames);
    assert_eq!(stack, [at(4) | TAG, 0x10 | INTERRUPTED, 0x20, at(0) | TAG, 0x30]);
}

#[test]
fn one_that_takes_all_that_it_may_leaves_room_for_others() {
    let mut taken = [0_u128; 4];
    for turn in 0..4000 {
        let own = turn % taken.len();
        let all: u128 = taken.iter().sum();
        taken[own] += u128::from(has_room(taken[own], all, 1000));
    }
    // Each has as much, and as much is left.
    assert_eq!(taken, [200; 4]);
    assert!(has_room(0, taken.iter().sum(), 1000));
    assert!(!has_room(500, 500, 1000) && has_room(499, 499, 1000));
}
