//! Walks by unwind tables, compared with copies of their stacks.

use icecore_format::records::UnwindRule;

use super::*;

/// Functions with a frame pointer.
const CODE: std::ops::Range<u64> = 0x10..0x800;
/// The function where stacks begin.
const START: std::ops::Range<u64> = 0x800..0x900;
/// The signal trampoline.
const TRAMPOLINE: std::ops::Range<u64> = 0x900..0xa00;

/// The CFA is rbp + 16; rbp and the return address lie below it.
const FRAME: [u8; 7] = [0x0c, 6, 16, 0x86, 2, 0x90, 1];
/// There is no return address.
const NO_CALLER: [u8; 2] = [0x07, 16];

/// Returns the unwind tables of image 0: pairs of a common part (CIE) and the entry of a function (FDE).
fn rules() -> Vec<UnwindRule> {
    let mut rules = Vec::new();
    let mut at = 0x10_0000;
    for (code, augmentation, instructions) in
        [(CODE, &b"\0"[..], &[][..]), (START, b"\0", &NO_CALLER), (TRAMPOLINE, b"zS\0", &[])]
    {
        // An augmentation with a `z` has a length, here 0.
        let len = &[0][..usize::from(augmentation.len() > 1)];
        let shared = entry(&[&[0; 4], &[1], augmentation, &[1, 0x78, 16], len, &FRAME]);
        let distance = shared.len() as u32 + 4;
        let [begin, bytes] = [code.start, code.end - code.start].map(u64::to_le_bytes);
        let function = entry(&[&distance.to_le_bytes(), &begin, &bytes, len, instructions]);
        for (bytes, start) in [(shared, 0), (function, code.start)] {
            let next = at + bytes.len() as u64;
            rules.push(UnwindRule { image: 0, at, start, bias: 0, bytes });
            at = next;
        }
    }
    rules
}

/// Puts parts after their length, and fills up with instructions that do nothing.
fn entry(parts: &[&[u8]]) -> Vec<u8> {
    let mut content = parts.concat();
    content.resize(content.len().next_multiple_of(4), 0);
    [&(content.len() as u32).to_le_bytes()[..], &content].concat()
}

/// Frames up to the start: their distances from the anchor, and the return address that each holds.
const STACK: [(u64, u32); 3] = [(0xd00, 0x20), (0x900, 0x30), (0x300, 0x810)];
/// The same stack, the outermost frame first.
const ROOT_FIRST: [u64; 4] = [0x810, 0x30, 0x20, 0x100];

/// Returns a recording of one sample with a copy of [`STACK`] that ends after `copied` bytes, and its walk.
fn audited(copied: u32, root_first: &[u64]) -> (Recorded, Sample) {
    let mut b = Builder::default();
    let id = b.frames(0xe00, copied, &STACK);
    let (mut recorded, leaf) = with_walk(b.recorded(), root_first);
    recorded.tables.unwind_rules = rules();
    (recorded, Sample { user_end: WalkEnd::BY_TABLES, ..sample(0, leaf, id) })
}

/// Returns what is told of the walk, and the stack that replaces it.
fn told((recorded, sample): (Recorded, Sample)) -> (StackRepair, Option<Vec<u64>>) {
    let (stacks, repairs) = recorded.repaired(&[sample]);
    let other = stacks.into_iter().next().map(|(_, frames, end)| {
        assert_eq!(end, WalkEnd::UNWOUND);
        frames
    });
    (repairs[0], other)
}

#[test]
fn a_walk_that_equals_its_copy_agrees() {
    assert_eq!(told(audited(0xe00, &ROOT_FIRST)), (StackRepair::KEPT.audited(), None));
}

#[test]
fn the_unwound_stack_replaces_a_walk_that_differs() {
    let unwound = (StackRepair::REPLACED.audited(), Some(vec![0x100, 0x20, 0x30, 0x810]));
    assert_eq!(told(audited(0xe00, &[0x810, 0x30, 0x40, 0x100])), unwound, "a frame is another one");
    assert_eq!(told(audited(0xe00, &[0x20, 0x100])), unwound, "it is too short");
    assert_eq!(told(audited(0xe00, &[0x850, 0x810, 0x30, 0x20, 0x100])), unwound, "it is too long");
}

#[test]
fn a_walk_stays_where_unwinding_reaches_no_root() {
    // The copy contains two frames.
    assert_eq!(told(audited(0x600, &ROOT_FIRST)), (StackRepair::KEPT, None));
    let differs = (StackRepair::REPLACED.audited(), None);
    assert_eq!(told(audited(0x600, &[0x810, 0x30, 0x40, 0x100])), differs, "what was copied differs");
}

#[test]
fn a_guess_is_no_evidence_of_a_walk() {
    // Without unwind tables, frame pointers lead on.
    let (mut recorded, sample) = audited(0xe00, &[0x810, 0x30, 0x40, 0x100]);
    recorded.tables.unwind_rules.clear();
    assert_eq!(told((recorded, sample)), (StackRepair::KEPT, None));
}

#[test]
fn a_walk_of_which_a_frame_has_no_address_is_not_compared() {
    let (mut recorded, sample) = audited(0xe00, &ROOT_FIRST);
    let mut nodes: Vec<Node> = recorded.tables.nodes.iter().map(|(_, node)| *node).collect();
    nodes[0].location = Location::Image { image: 5, file_off: 0x810 };
    recorded.tables.nodes = ById::from_blocks(vec![(1, nodes)]);
    assert_eq!(told((recorded, sample)), (StackRepair::KEPT, None));
}

#[test]
fn a_function_that_a_signal_interrupted_is_compared_as_such() {
    for (mark, repair) in [(Mark::INTERRUPTED, StackRepair::KEPT), (Mark::NONE, StackRepair::REPLACED)] {
        let mut b = Builder::default();
        // The trampoline is the caller of the leaf; its own frame holds the address that was interrupted.
        let id = b.frames(0xe00, 0xe00, &[(0xd00, 0x900), (0x900, 0x30), (0x300, 0x810)]);
        let (mut recorded, leaf) = with_walk(b.recorded(), &[0x810, 0x30, 0x900, 0x100]);
        recorded.tables.unwind_rules = rules();
        recorded.tables.marks.insert(2, mark);
        let sample = Sample { user_end: WalkEnd::BY_TABLES, ..sample(0, leaf, id) };
        assert_eq!(told((recorded, sample)).0, repair.audited(), "{mark:?}");
    }
}

#[test]
fn a_disagreement_has_the_walk_and_the_number_of_common_frames() {
    let (recorded, sample) = audited(0xe00, &[0x810, 0x30, 0x40, 0x100]);
    let other = Sample { user_stack: sample.user_stack - 1, ..sample };
    let done = recorded.done(&[sample, other]);
    let differs: Vec<_> = done.stacks.iter().filter_map(|stack| stack.differs.as_ref()).collect();
    let common: Vec<_> = differs.iter().map(|differs| (differs.sample.user_stack, differs.common)).collect();
    assert_eq!(common, [(sample.user_stack, 1), (other.user_stack, 1)]);
}
