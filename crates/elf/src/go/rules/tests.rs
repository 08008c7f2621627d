use super::super::fixture::{MAGICS, TEXT, open, table};
use super::*;

/// 0 for 4 bytes, 24 for 11, 0 for the last.
const DEPTHS: [u8; 7] = [2, 4, 48, 11, 47, 1, 0];
/// `sub rsp, 24`, `mov [rsp+16], rbp`, `lea rbp, [rsp+16]`.
const FRAME: [u8; 16] =
    [0x48, 0x83, 0xec, 24, 0x48, 0x89, 0x6c, 0x24, 16, 0x48, 0x8d, 0x6c, 0x24, 16, 0x90, 0xc3];

fn made(machine: Machine, flags: u8, code: &'static [u8]) -> (Kind, Vec<u8>) {
    let bytes = table(MAGICS[3], TEXT, &DEPTHS, flags);
    let table = open(&bytes).expect("sound");
    let function = table.function(TEXT + 0x10).expect("one is there");
    let read = |at: u64, len: u64| code.get((at - function.start) as usize..)?.get(..len as usize);
    let rule = rule(machine, &table, &function, read).expect("its depths are sound");
    assert_eq!(rule.start, function.start);
    let word = |off: usize| u32::from_le_bytes(rule.bytes[off..off + 4].try_into().expect("four"));
    assert_eq!(word(0) as usize + 4, rule.bytes.len());
    assert_eq!(rule.bytes[8..24], [&function.start.to_le_bytes()[..], &[16, 0, 0, 0, 0, 0, 0, 0]].concat());
    (Kind::at(word(4) as usize).expect("one of the kinds"), rule.bytes[24..].to_vec())
}

#[test]
fn a_frame_is_where_depth_and_code_say() {
    let (kind, rules) = made(Machine::X86_64, 0, &FRAME);
    assert_eq!(kind, Kind::Frame);
    let expected: &[&[u8]] = &[
        &[DEF_CFA, 7, 8, SAME, 6],
        &[ADVANCE | 4, DEF_CFA, 7, 32],
        &[ADVANCE | 5, OFFSET | 6, 2],
        &[ADVANCE | 6, DEF_CFA, 7, 8, SAME, 6],
    ];
    assert_eq!(rules, expected.concat());
    // Code that saves it nowhere may use it for anything.
    let (_, rules) = made(Machine::X86_64, 0, &[0x90; 16]);
    assert!(rules.ends_with(&[UNDEFINED, 6, ADVANCE | 11, DEF_CFA, 7, 8, SAME, 6]), "{rules:x?}");
    let (_, rules) = made(Machine::Aarch64, 0, &[]);
    let frame = [ADVANCE | 4, DEF_CFA, 31, 24, OFFSET | 30, 3, OFFSET | 29, 4];
    assert_eq!(rules[7..15], frame, "{rules:x?}");
}

#[test]
fn what_writes_the_stack_pointer_is_followed_by_its_frame_or_not_at_all() {
    let (kind, rules) = made(Machine::X86_64, 2, &FRAME);
    assert_eq!(kind, Kind::Frame);
    let by_fp = [OFFSET | 6, 2, ADVANCE | 5, DEF_CFA, 6, 16];
    assert!(rules.windows(by_fp.len()).any(|window| window == by_fp), "{rules:x?}");
    assert_eq!(made(Machine::X86_64, 2, &[0x90; 16]), (Kind::Switch, vec![]));
    assert_eq!(made(Machine::Aarch64, 2, &[]), (Kind::Switch, vec![]));
    assert_eq!(made(Machine::X86_64, 1, &FRAME), (Kind::Top, vec![]));
}

#[test]
fn the_stack_is_as_deep_as_told_until_the_stack_pointer_is_written() {
    // `nop` five times, `mov rsp, [rdx+56]`.
    let code =
        [0x90, 0x90, 0x90, 0x90, 0x90, 0x48, 0x8b, 0x62, 0x38, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3];
    let code: &'static [u8; 16] = Box::leak(Box::new(code));
    let expected: &[&[u8]] =
        &[&[DEF_CFA, 7, 8], &[ADVANCE | 4, DEF_CFA, 7, 32], &[ADVANCE | 2, DEF_CFA_EXPRESSION, 1, DROP]];
    assert_eq!(made(Machine::X86_64, 2, code), (Kind::Switch, expected.concat()));
}

#[test]
fn what_gives_a_frame_back_has_its_caller_s_frame_pointer_before_its_caller_s_stack() {
    let code = [0x90, 0x48, 0x8b, 0x6c, 0x24, 16, 0x48, 0x83, 0xc4, 24];
    let read = |at: u64, len: u64| code.get(at as usize..)?.get(..len as usize);
    assert_eq!(gives_back(10, 24, &read), Some(6));
    for (end, depth) in [(10, 32), (9, 24), (10, 0), (3, 24)] {
        assert_eq!(gives_back(end, depth, &read), None, "{end} {depth}");
    }
}

#[test]
fn whatever_may_write_the_stack_pointer_counts_as_that() {
    let writes: [&[u8]; 6] = [
        &[0x48, 0x8b, 0x62, 0x38],
        &[0x4c, 0x89, 0xe4],
        &[0x49, 0x8b, 0x66, 0x38],
        &[0x48, 0x89, 0xfc],
        &[0x48, 0x83, 0xe4, 0xf0],
        &[0x48, 0x8d, 0x64, 0x24, 0xf8],
    ];
    assert!(writes.into_iter().all(writes_stack_pointer));
    let others: [&[u8]; 4] =
        [&[0x48, 0x8b, 0x5a, 0x38], &[0x48, 0x89, 0x24, 0x24], &[0x48, 0x83, 0xec, 8], &[0x48]];
    assert!(!others.into_iter().any(writes_stack_pointer));
}

#[test]
fn what_entries_share_tells_their_kind() {
    for machine in [Machine::X86_64, Machine::Aarch64] {
        let shared = shared(machine);
        assert_eq!(shared.len(), SHARED_LEN);
        assert!(shared.as_chunks::<KIND_LEN>().0.iter().all(|kind| kind[..4] == [20, 0, 0, 0]));
    }
    assert_eq!(Kind::at(2 * KIND_LEN), Some(Kind::Switch));
    assert_eq!((Kind::at(1), Kind::at(SHARED_LEN)), (None, None));
}
