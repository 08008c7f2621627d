//! Tests every ending, every way to find a frame, and what must be rejected.

use gimli::Register;
use gimli::write::CallFrameInstruction::{
    Cfa, CfaExpression, CfaOffset, CfaRegister, Expression as At, Offset, SameValue, Undefined,
    ValExpression, ValOffset,
};
use gimli::write::Expression;

use icecore_elf::Avma;

use super::fixture::{Function, IMAGE, MADE, STACK, Thread, rules, sections};
use super::{By, CallersFp, End, Frame, Machine, Registers, Shape, UnwindTables};

const RBX: Register = Register(3);
const RBP: Register = Register(6);
const RSP: Register = Register(7);
const RIP: Register = Register(16);

/// A leaf at 0x100 that uses 3 words, a caller at 0x200 that uses 2, a beginning at 0x300.
fn chain() -> Vec<Function> {
    vec![Function::using(0x100, 24), Function::using(0x200, 16), Function::new(0x300, vec![Undefined(RIP)])]
}

const WORDS: [u64; 6] = [1, 2, IMAGE + 0x205, 4, IMAGE + 0x305, 6];

#[test]
fn a_stack_ends_at_a_root_where_rules_say_that_nobody_is_returned_to() {
    let (frames, end) = Thread::new(chain(), 0x104, &WORDS).unwind();
    let frame = |address, sp, by| Frame { address: Avma(IMAGE + address), sp: Avma(STACK + sp), by };
    let expected =
        vec![frame(0x104, 0, By::Registers), frame(0x205, 24, By::Tables), frame(0x305, 40, By::Tables)];
    assert_eq!((frames, end), (expected, End::Root));
}

#[test]
fn a_return_address_of_zero_is_a_root_too() {
    let thread = Thread::new(vec![Function::using(0x100, 8)], 0x100, &[0]);
    assert_eq!(thread.offsets(), (vec![0x100], End::Root));
}

#[test]
fn what_a_longer_copy_would_hold_is_told_from_what_none_would() {
    let mut thread = Thread::new(chain(), 0x104, &WORDS[..3]);
    assert_eq!(thread.offsets(), (vec![0x104, 0x205], End::LeftSnapshot));
    thread.end = 0;
    assert_eq!(thread.offsets(), (vec![0x104, 0x205], End::Unreadable));
}

#[test]
fn a_register_that_was_not_copied_matters_only_when_it_is_needed() {
    let by_rbp = Function::new(0x200, vec![Cfa(RBP, 16), Offset(RBP, -16)]);
    let far = Function::new(0x100, vec![CfaOffset(16), Offset(RBP, 800), Offset(RBX, 808)]);
    let thread = Thread::new(vec![far, by_rbp], 0x100, &[7, IMAGE + 0x205]);
    assert_eq!(thread.offsets(), (vec![0x100, 0x205], End::LeftSnapshot));
    // The caller of `lost` cannot be found with rbp, and can without.
    let lost = || Function::new(0x100, vec![CfaOffset(16), Undefined(RBP)]);
    let by_rbp = Function::new(0x200, vec![Cfa(RBP, 16)]);
    let thread = Thread::new(vec![lost(), by_rbp], 0x100, &[7, IMAGE + 0x205]);
    assert_eq!(thread.offsets(), (vec![0x100, 0x205], End::BadTables(Some(3))));
    let thread = Thread::new(vec![lost(), Function::using(0x200, 8)], 0x100, &[7, IMAGE + 0x205, 0]);
    assert_eq!(thread.offsets(), (vec![0x100, 0x205], End::Root));
}

#[test]
fn code_without_tables_ends_a_stack_if_nothing_leads_on() {
    let thread = Thread::new(chain(), 0x700, &[1, 2, 3]);
    assert_eq!(thread.offsets(), (vec![0x700], End::NoTables(Some(3))));
    let mut made = Thread::new(chain(), 0, &[1, 2, 3]);
    made.registers.set(16, MADE + 5);
    assert_eq!(made.unwind().1, End::NoTables(None));
}

#[test]
fn rules_that_cannot_be_read_are_not_taken_for_missing_ones() {
    let pop = Function::new(0x100, vec![CfaRegister(RBX), CfaExpression(Expression::raw(vec![0x22]))]);
    let thread = Thread::new(vec![pop], 0x100, &WORDS);
    assert_eq!(thread.offsets(), (vec![0x100], End::BadTables(Some(3))));
    let endless = Function::new(0x100, vec![CfaExpression(Expression::raw(vec![0x2f, 0xfd, 0xff]))]);
    assert_eq!(Thread::new(vec![endless], 0x100, &WORDS).offsets().1, End::BadTables(Some(3)));
}

#[test]
fn a_return_address_outside_of_code_is_no_frame() {
    let thread = Thread::new(chain(), 0x104, &[1, 2, 3, 4]);
    assert_eq!(thread.offsets(), (vec![0x104], End::Unmapped));
    let mut nowhere = Thread::new(chain(), 0, &WORDS);
    nowhere.registers.set(16, 77);
    assert_eq!((nowhere.unwind().0.len(), nowhere.unwind().1), (1, End::Unmapped));
}

#[test]
fn a_stack_has_no_more_frames_than_were_asked_for() {
    let words: Vec<u64> = std::iter::repeat_n(IMAGE + 0x105, 5000).collect();
    let mut thread = Thread::new(vec![Function::using(0x100, 8)], 0x100, &words);
    assert_eq!((thread.unwind().0.len(), thread.unwind().1), (1024, End::Depth));
    thread.limits.frames = 3;
    assert_eq!((thread.unwind().0.len(), thread.unwind().1), (3, End::Depth));
}

#[test]
fn rules_that_lead_back_into_the_stack_end_it() {
    for rule in [CfaOffset(0), CfaOffset(-8), Cfa(RBX, 0)] {
        let mut thread = Thread::new(vec![Function::new(0x100, vec![rule])], 0x100, &WORDS);
        thread.registers.set(3, STACK);
        assert_eq!(thread.offsets(), (vec![0x100], End::NotGrowing));
    }
    // Two functions that send each other to and fro.
    let to = Function::new(0x100, vec![Cfa(RBX, 8), ValOffset(RBX, 64)]);
    let fro = Function::new(0x200, vec![Cfa(RBX, -64), ValOffset(RBX, -72)]);
    let mut words = WORDS;
    (words[0], words[1]) = (IMAGE + 0x205, IMAGE + 0x105);
    let mut thread = Thread::new(vec![to, fro], 0x100, &words);
    thread.registers.set(3, STACK);
    assert_ne!(thread.unwind().1, End::Depth);
}

#[test]
fn frames_that_broken_rules_repeat_are_no_recursion() {
    let address = |at: u64| Expression::raw([&[0x0e][..], &at.to_le_bytes()].concat());
    let up = || Expression::raw(vec![0x77, 8]);
    let signal = |rules| Function { is_signal: true, ..Function::new(0x100, rules) };
    let itself = IMAGE + 0x104;
    let broken = [
        // The stack pointer stays, as where a signal has interrupted a function of aarch64.
        signal(vec![CfaOffset(0)]),
        // It grows, and the return address is not read.
        Function::new(0x100, vec![SameValue(RIP), CfaOffset(8)]),
        Function::new(0x100, vec![ValExpression(RIP, address(itself)), CfaOffset(8)]),
        // It grows, and the return address is read where it was.
        Function::new(0x100, vec![Cfa(RBX, 16), ValExpression(RSP, up())]),
        Function::new(0x100, vec![At(RIP, address(STACK)), CfaOffset(8)]),
    ];
    for (number, function) in broken.into_iter().enumerate() {
        let mut thread = Thread::new(vec![function], 0x104, &[itself; 6000]);
        thread.registers.set(3, STACK);
        thread.words.insert(STACK - 8, itself);
        let (frames, end) = thread.unwind();
        assert!(frames.len() <= 2 && end == End::NotGrowing, "{number}: {} frames, {end:?}", frames.len());
    }
    // aarch64: the link register still holds what has led to this frame.
    let unsaved = Function::new(0x100, vec![CfaOffset(16)]);
    let mut thread = Thread::of(Machine::Aarch64, vec![unsaved], 0x104, &[0; 6000]);
    thread.registers.set(30, IMAGE + 0x108);
    let (frames, end) = thread.unwind();
    assert!(frames.len() <= 2 && end == End::NotGrowing, "{} frames, {end:?}", frames.len());
}

#[test]
fn what_a_signal_interrupted_is_no_return_address() {
    // The kernel has put rsp and rip there; the interrupted instruction is the first one of its function, on another stack.
    let mut restorer = Function::new(
        0xa00,
        vec![
            CfaExpression(Expression::raw(vec![0x77, 8, 0x06])),
            ValExpression(RSP, Expression::raw(vec![0x77, 8, 0x06])),
            At(RIP, Expression::raw(vec![0x77, 16])),
        ],
    );
    restorer.is_signal = true;
    let handler = Function::using(0x500, 8);
    let other = STACK - 0x10000;
    let words = [IMAGE + 0xa01, 1, other, IMAGE + 0x200];
    let mut functions = chain();
    functions.extend([handler, restorer]);
    let mut thread = Thread::new(functions, 0x500, &words);
    thread.words.extend([(other, 9), (other + 8, IMAGE + 0x305)]);
    let (frames, end) = thread.unwind();
    let by: Vec<_> = frames.iter().map(|frame| (frame.address.0 - IMAGE, frame.by)).collect();
    let expected = [(0x500, By::Registers), (0xa01, By::Tables), (0x200, By::Signal), (0x305, By::Tables)];
    assert_eq!((by.as_slice(), end), (expected.as_slice(), End::Root));
    assert!(frames[2].is_interrupted() && frames[2].sp == Avma(other) && !frames[1].is_interrupted());
}

#[test]
fn a_stack_that_was_begun_by_hand_ends_there() {
    // The address of a function's first instruction is where a call can only return to if it is the last of another one.
    let mut thread =
        Thread::new(vec![Function::using(0x100, 8), Function::using(0x200, 8)], 0x100, &[IMAGE + 0x200]);
    thread.end = 0;
    for (is_behind_call, end) in
        [(Some(false), End::Root), (Some(true), End::NoTables(Some(3))), (None, End::NoTables(Some(3)))]
    {
        thread.is_behind_call = is_behind_call;
        assert_eq!(thread.offsets(), (vec![0x100, 0x200], end), "{is_behind_call:?}");
        let by = if end == End::Root { By::Begun } else { By::Tables };
        assert_eq!(thread.unwind().0[1].by, by);
    }
}

#[test]
fn a_return_address_without_a_call_and_without_rules_begins_a_stack_that_has_no_callers() {
    let mut thread = Thread::new(vec![Function::using(0x100, 8)], 0x100, &[IMAGE + 0x705, 7, 9]);
    (thread.end, thread.is_behind_call) = (0, Some(false));
    assert_eq!(thread.offsets(), (vec![0x100, 0x705], End::Root));
    assert_eq!(thread.unwind().0[1].by, By::Begun);
    // A call precedes it, nobody knows, the copy ends early, or a possible caller lies above.
    let none = End::NoTables(Some(3));
    for is_behind_call in [Some(true), None] {
        thread.is_behind_call = is_behind_call;
        assert_eq!(thread.offsets(), (vec![0x100, 0x705], none));
    }
    (thread.end, thread.is_behind_call) = (STACK + 24, Some(false));
    assert_eq!(thread.offsets(), (vec![0x100, 0x705], none));
    (thread.end, thread.called_at) = (0, Avma(IMAGE + 0x805));
    thread.words.insert(STACK + 16, IMAGE + 0x805);
    assert_eq!(thread.offsets(), (vec![0x100, 0x705], none));
    // A guess that leads there proves nothing.
    let mut thread = Thread::new(vec![], 0x600, &[IMAGE + 0x705, 7, 9]);
    (thread.end, thread.is_behind_call) = (0, Some(false));
    assert_eq!((thread.unwind().0[1].by, thread.unwind().1), (By::TopOfStack, End::NoTables(None)));
}

#[test]
fn the_address_of_a_function_below_other_callers_begins_no_stack() {
    let words = [1, 2, IMAGE + 0x200, 7, IMAGE + 0x205, IMAGE + 0x305];
    let mut thread = Thread::new(chain(), 0x101, &words);
    thread.is_behind_call = Some(false);
    assert_eq!(thread.offsets(), (vec![0x101], End::Unmapped), "the copy ends before anybody knows");
    thread.end = 0;
    assert_eq!(thread.offsets(), (vec![0x101, 0x200], End::Root), "nothing above was called");
    thread.called_at = Avma(IMAGE + 0x305);
    assert_eq!(thread.offsets(), (vec![0x101], End::Unmapped));
}

#[test]
fn a_stack_begins_with_the_return_address_into_the_entry_point() {
    // The code at 0x705 has no rules, and its frame pointer is a number.
    let words = [IMAGE + 0x705, 1, 2, 3, IMAGE + 0x805, 5];
    let mut thread = Thread::new(vec![Function::using(0x100, 8)], 0x100, &words);
    assert_eq!(thread.offsets(), (vec![0x100, 0x705], End::NoTables(Some(3))));
    thread.start = Avma(IMAGE + 0x805);
    assert_eq!(thread.offsets(), (vec![0x100, 0x705, 0x805], End::Root));
    assert_eq!((thread.unwind().0[2].by, thread.unwind().0[2].by.is_guess()), (By::Start, false));
}

#[test]
fn code_that_is_known_needs_no_rules() {
    // Before its return address lies an unset word, which holds another address.
    let mut thread = Thread::new(chain(), 0x104, &[1, 2, MADE + 6, IMAGE + 0x205, IMAGE + 0x305, 5]);
    thread.known = Avma(MADE + 6);
    thread.registers.set(6, 7777);
    let (frames, end) = thread.unwind();
    let found: Vec<u64> = frames.iter().map(|frame| frame.address.0).collect();
    assert_eq!((found, end), (vec![IMAGE + 0x104, MADE + 6, IMAGE + 0x305], End::Root));
}

#[test]
fn a_trampoline_is_one_whatever_lies_in_front_of_it() {
    // After the last instruction of a function with another row, and after none.
    for at in [0x210_u32, 0xa00] {
        let mut restorer = Function::new(at, vec![At(RIP, Expression::raw(vec![0x77, 16]))]);
        restorer.is_signal = true;
        let mut functions = chain();
        functions.extend([Function::using(0x500, 8), restorer]);
        let words = [IMAGE + u64::from(at), 1, 2, IMAGE + 0x300];
        let (frames, end) = Thread::new(functions, 0x500, &words).unwind();
        let by: Vec<_> = frames.iter().map(|frame| (frame.address.0 - IMAGE, frame.by)).collect();
        let expected = [(0x500, By::Registers), (u64::from(at), By::Tables), (0x300, By::Signal)];
        assert_eq!((by.as_slice(), end), (expected.as_slice(), End::Root));
    }
}

#[test]
fn rules_that_were_added_are_asked_where_the_first_have_none() {
    let mut thread = Thread::new(vec![], 0x104, &WORDS);
    let mut rest = chain();
    rest.truncate(2);
    let more = UnwindTables::new(sections(Machine::X86_64, rest));
    thread.tables = UnwindTables::new(sections(Machine::X86_64, chain().split_off(2))).with_more(more);
    assert_eq!(thread.offsets(), (vec![0x104, 0x205, 0x305], End::Root));
}

#[test]
fn the_cfa_may_be_in_memory() {
    // Dynamic alignment: rbp - 8 holds the address after the return address.
    let aligned = Function::new(0x100, vec![CfaExpression(Expression::raw(vec![0x76, 0x78, 0x06]))]);
    let mut functions = chain();
    functions[0] = aligned;
    let words = [1, STACK + 40, 3, 4, IMAGE + 0x205, 6, IMAGE + 0x305];
    let mut thread = Thread::new(functions, 0x100, &words);
    thread.registers.set(6, STACK + 16);
    assert_eq!(thread.offsets(), (vec![0x100, 0x205, 0x305], End::Root));
}

#[test]
fn frame_pointers_lead_through_code_without_tables() {
    let mut thread = Thread::new(chain(), 0, &[1, 2, STACK + 32, MADE + 7, 5, IMAGE + 0x305]);
    thread.registers.set(16, MADE + 1);
    thread.registers.set(6, STACK + 16);
    let (frames, end) = thread.unwind();
    assert_eq!((frames[1].address.0, frames[1].by, frames[1].sp.0), (MADE + 7, By::FramePointer, STACK + 32));
    assert_eq!((frames[2].address.0, frames.len(), end), (IMAGE + 0x305, 3, End::Root));
    // A frame pointer must not point below the stack pointer, or to something other than a frame.
    for bad in [STACK - 8, STACK + 4, STACK + 8, 0] {
        thread.registers.set(6, bad);
        let (frames, end) = thread.unwind();
        assert_eq!((frames[1].by, frames.len(), end), (By::TopOfStack, 2, End::NoTables(None)), "{bad:#x}");
    }
}

#[test]
fn a_function_without_tables_that_has_no_frame_yet_does_not_swallow_its_caller() {
    let saved = STACK + 24;
    for (words, found) in [
        ([IMAGE + 0x305, 2, 3, 4, 5], Some(1)),     // at its first instruction
        ([saved, IMAGE + 0x305, 3, 4, 5], Some(2)), // it has just pushed rbp
        ([9, 8, IMAGE + 0x305, 7, 5], Some(3)),     // it has pushed two registers
        ([9, 8, 7, 6, 5], None),
    ] {
        let mut thread = Thread::new(chain(), 0x700, &words);
        thread.registers.set(6, saved);
        let (frames, end) = thread.unwind();
        let expected = found.map_or(End::NoTables(Some(3)), |_| End::Root);
        assert_eq!((frames.get(1).map(|frame| (frame.sp.0 - STACK) / 8), end), (found, expected));
    }
}

#[test]
fn code_that_has_pushed_a_register_does_not_pass_over_a_caller_in_made_code() {
    // A stale return address lies above that of the caller, which is in no file.
    let words = [9, MADE + 0x105, IMAGE + 0x205, 7, IMAGE + 0x305];
    for pc in [MADE + 0x200, IMAGE + 0x700] {
        let mut thread = Thread::new(chain(), 0x700, &words);
        thread.registers.set(16, pc);
        let (frames, end) = thread.unwind();
        let found: Vec<(u64, By)> = frames[1..].iter().map(|frame| (frame.address.0, frame.by)).collect();
        assert_eq!((found, end), (vec![(MADE + 0x105, By::TopOfStack)], End::NoTables(None)), "{pc:#x}");
    }
    // Made code that a function of a file has called.
    let mut thread = Thread::new(chain(), 0x700, &[9, 8, IMAGE + 0x305]);
    thread.registers.set(16, MADE + 0x200);
    assert_eq!((thread.unwind().0[1].address, thread.unwind().1), (Avma(IMAGE + 0x305), End::Root));
}

#[test]
fn a_stub_leaves_at_most_two_words_above_its_return_address() {
    for words in [&[IMAGE + 0x305, 9, 9][..], &[7, IMAGE + 0x305, 9], &[STACK, 7, IMAGE + 0x305]] {
        let (frames, end) = Thread::new(chain(), 0xe10, words).unwind();
        assert_eq!((frames[1].address.0, frames[1].by, end), (IMAGE + 0x305, By::TopOfStack, End::Root));
    }
    assert_eq!(Thread::new(chain(), 0xe10, &[7, 7, 7, MADE]).unwind().1, End::NoTables(Some(3)));
}

#[test]
fn debug_frame_is_asked_where_eh_frame_has_nothing() {
    let mut thread = Thread::new(vec![], 0x104, &WORDS);
    assert_eq!(thread.offsets(), (vec![0x104], End::NoTables(Some(3))));
    let mut sections = sections(Machine::X86_64, chain().split_off(1));
    sections.debug_frame = rules(Machine::X86_64, chain(), true);
    thread.tables = UnwindTables::new(sections);
    assert_eq!(thread.offsets(), (vec![0x104, 0x205, 0x305], End::Root));
}

#[test]
fn rules_of_another_machine_are_none() {
    let mut thread = Thread::new(chain(), 0x104, &WORDS);
    thread.tables = UnwindTables::new(sections(Machine::Aarch64, chain()));
    assert_eq!(thread.offsets(), (vec![0x104], End::NoTables(Some(3))));
}

/// Signs a return address, as aarch64 does. Frames there save x29 and x30.
fn signed(address: u64) -> u64 {
    (IMAGE + address) | 0x002a_0000_0000_0000
}

#[test]
fn aarch64_return_addresses_lose_their_signature() {
    let (fp, link) = (Register(29), Register(30));
    let frame = |start| {
        let rules = [
            gimli::write::CallFrameInstruction::NegateRaState,
            CfaOffset(32),
            Offset(fp, -32),
            Offset(link, -24),
        ];
        Function::new(start, rules.into())
    };
    let root = Function::new(0x300, vec![Undefined(link)]);
    let words = [STACK + 32, signed(0x205), 3, 4, 0, signed(0x305), 7, 8];
    let thread = Thread::of(Machine::Aarch64, vec![frame(0x100), frame(0x200), root], 0x100, &words);
    assert_eq!(thread.offsets(), (vec![0x100, 0x205, 0x305], End::Root));
}

#[test]
fn aarch64_leaves_return_by_the_link_register() {
    let root = || Function::new(0x300, vec![Undefined(Register(30))]);
    // With rules that say so, and without any.
    for (pc, by) in [(0x100, By::Tables), (0x700, By::LinkRegister)] {
        let functions = vec![Function::new(0x100, vec![]), root()];
        let mut thread = Thread::of(Machine::Aarch64, functions, pc, &[1, 2]);
        thread.registers.set(30, signed(0x305));
        let (frames, end) = thread.unwind();
        let caller = Frame { address: Avma(IMAGE + 0x305), sp: Avma(STACK), by };
        assert_eq!((frames[1], end), (caller, End::Root));
    }
    // If a frame contradicts the register, the frame counts; if the register is no address of code, nothing does.
    let mut thread = Thread::of(Machine::Aarch64, vec![root()], 0x700, &[0, signed(0x305)]);
    thread.registers.set(30, signed(0x305));
    thread.registers.set(29, STACK);
    assert_eq!(thread.unwind().0[1].by, By::FramePointer);
    thread.registers.set(29, 5);
    thread.registers.set(30, 77);
    assert_eq!(thread.offsets(), (vec![0x700], End::NoTables(Some(3))));
}

#[test]
fn aarch64_does_not_return_to_itself_for_ever() {
    // A function that calls, without a rule for its return address.
    let functions = vec![Function::new(0x100, vec![])];
    let mut thread = Thread::of(Machine::Aarch64, functions, 0x100, &[1, 2]);
    thread.registers.set(30, IMAGE + 0x105);
    assert_eq!(thread.offsets(), (vec![0x100, 0x105], End::NotGrowing));
}

#[test]
fn registers_at_the_end_of_the_numbers_do_no_harm() {
    for value in [0, 7, u64::MAX, u64::MAX - 7, 1 << 63] {
        for functions in [chain(), vec![Function::new(0x100, vec![Cfa(RBX, i32::MAX)])]] {
            let mut thread = Thread::new(functions, 0x100, &WORDS);
            thread.registers = Registers::x86_64(&[value; 17]);
            thread.unwind();
            thread.registers.set(16, IMAGE + 0x100);
            thread.unwind();
        }
    }
}

#[test]
fn a_guess_that_the_code_speaks_against_is_none() {
    // A stale return address is on top, the right one is where rbp leads.
    let words = [IMAGE + 0x205, 2, 0, IMAGE + 0x305];
    let mut thread = Thread::new(chain(), 0x804, &words);
    thread.registers.set(6, STACK + 16);
    assert_eq!((thread.offsets().0[1], thread.unwind().0[1].by), (0x205, By::TopOfStack));
    thread.impossible = vec![0x205];
    assert_eq!(thread.offsets(), (vec![0x804, 0x305], End::Root));
    let by = thread.unwind().0[1].by;
    assert!(by == By::FramePointer && by.is_guess());
    // If nobody called it, the stack ends.
    thread.impossible = vec![0x205, 0x305];
    assert_eq!(thread.offsets(), (vec![0x804], End::NoTables(Some(3))));
}

#[test]
fn where_the_code_says_what_a_frame_is_nothing_is_guessed() {
    // Two frames without rules; the outer one has saved the frame pointer of its caller.
    let words = [IMAGE + 0x205, 2, IMAGE + 0x905, STACK + 64, 5, IMAGE + 0x205, IMAGE + 0x305];
    let mut thread = Thread::new(chain(), 0x804, &words);
    let shape = |from_sp, fp| Shape { from_sp: Some(from_sp), from_fp: None, fp };
    thread.shapes.insert(0x804, shape(16, CallersFp::Kept));
    thread.shapes.insert(0x905, shape(16, CallersFp::Saved(16)));
    let (frames, end) = thread.unwind();
    let found: Vec<(u64, By)> = frames.iter().map(|frame| (frame.address.0 - IMAGE, frame.by)).collect();
    let expected = [(0x804, By::Registers), (0x905, By::Proven), (0x205, By::Proven)];
    assert_eq!((&found[..3], frames[2].sp.0), (&expected[..], STACK + 48));
    assert!(!By::Proven.is_guess() && end != End::Depth);
    // The shape leads to no return address: a guess remains.
    thread.shapes.insert(0x804, shape(8, CallersFp::Kept));
    assert_eq!(thread.unwind().0[1].by, By::TopOfStack);
    // The shape leads to memory that was not copied.
    thread.shapes.insert(0x804, shape(8 * 7, CallersFp::Kept));
    assert_eq!(thread.offsets(), (vec![0x804], End::LeftSnapshot));
}
