//! Where a compiled method has its frame, at each of its instructions: follows the code from its begin.
//!
//! ```text
//! compiled method     begin            push %rbp       sub $n, %rsp                      add, pop %rbp     ret
//! CFA                 rsp + 8          rsp + 16        rsp + 8 × words of the frame      rsp + 16          rsp + 8
//! ```
//!
//! Some of what the compiler writes out in place (the comparison of texts, for one) pushes words in between.
//!
//! # Source
//! OpenJDK `src/hotspot/cpu/x86/macroAssembler_x86.cpp`, `verified_entry`; `c1_MacroAssembler_x86.cpp`, `build_frame`

use std::collections::BTreeMap;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::frame::Frame;

/// The most code that is followed, bytes, and the most instructions, counted as often as they are looked at.
pub(super) const MAX_CODE: u64 = 256 << 10;
const MAX_STEPS: usize = 256 << 10;
/// What code may push on its frame, bytes.
const MAX_PUSHED: u64 = 4096;

/// What is known before an instruction; `None` if paths contradict each other, or the stack pointer is lost.
pub(super) type State = Option<Frame>;

/// Where a method has its frame: from an offset on, but for some stretches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) made_at: u64,
    /// Ascending.
    pub(super) exceptions: Vec<(Range<u64>, State)>,
}

/// Follows the code of a method whose frames have so many words; `None` if it never makes such a frame. What was not reached is entered by the
/// virtual machine, with the frame.
pub(super) fn follow(code: &[u8], words: u64) -> Option<Flow> {
    let whole = Some(Frame::Pushed(8 * words));
    // With the end of the instruction.
    let mut states: BTreeMap<u64, (u64, State)> = BTreeMap::new();
    let mut open = vec![(0, Some(Frame::Bare(8)))];
    let (mut steps, mut made_at) = (0, None::<u64>);
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while let Some((mut at, mut state)) = open.pop() {
        loop {
            match states.get(&at) {
                Some((_, known)) if *known == state || known.is_none() => break,
                Some(_) => state = None,
                None => {}
            }
            steps += 1;
            if steps > MAX_STEPS {
                return None;
            }
            if decoder.set_position(at as usize).is_err() || !decoder.can_decode() {
                break;
            }
            decoder.set_ip(at);
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                break;
            }
            if state == whole {
                made_at = Some(made_at.map_or(at, |first| first.min(at)));
            }
            states.insert(at, (instruction.next_ip(), state));
            state = state.and_then(|frame| after(&instruction, frame, words));
            let target = instruction.near_branch_target();
            let is_here = target < code.len() as u64;
            match instruction.flow_control() {
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {}
                FlowControl::ConditionalBranch if is_here => open.push((target, state)),
                FlowControl::ConditionalBranch => {}
                FlowControl::UnconditionalBranch if is_here => {
                    at = target;
                    continue;
                }
                _ => break,
            }
            at = instruction.next_ip();
        }
    }
    let made_at = made_at?;
    let mut exceptions: Vec<(Range<u64>, State)> = Vec::new();
    for (at, (end, state)) in states.into_iter().filter(|it| it.1.1 != whole) {
        match exceptions.last_mut() {
            Some((range, last)) if range.end == at && *last == state => range.end = end,
            _ => exceptions.push((at..end, state)),
        }
    }
    Some(Flow { made_at, exceptions })
}

/// How code gets from one offset to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// In one straight line, and from nowhere else.
    Straight,
    /// The same, if what is called before the first offset returns: the code at this distance from the begin.
    After(u64),
    Unknown,
}

/// Returns how code gets from each of these offsets of instructions, ascending, to the next one. The last instruction may call.
pub(super) fn ways(code: &[u8], offs: &[u64]) -> Vec<Way> {
    let (mut ways, mut targets, mut before) = (Vec::new(), Vec::new(), Way::Unknown);
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    // The first stretch lies before the first offset, and the last one behind all: they only have targets.
    let (starts, ends) = ([0].into_iter().chain(offs.iter().copied()), offs.iter().copied());
    for (start, end) in starts.zip(ends.chain([code.len() as u64])) {
        if decoder.set_position(start as usize).is_err() {
            return Vec::new();
        }
        decoder.set_ip(start);
        let (mut at, mut last, mut is_straight) = (start, Way::Straight, true);
        while at < end && decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            is_straight &= last == Way::Straight;
            last = match instruction.flow_control() {
                FlowControl::Next if instruction.mnemonic() != Mnemonic::Hlt => Way::Straight,
                FlowControl::Call => Way::After(instruction.near_branch_target()),
                // What is called so is a method, or its adapter: it returns.
                FlowControl::IndirectCall => Way::After(0),
                // The table of a `switch`: nobody knows to where.
                FlowControl::IndirectBranch if instruction.op0_kind() == OpKind::Memory => return Vec::new(),
                _ => Way::Unknown,
            };
            if last == Way::Unknown {
                targets.push(instruction.near_branch_target());
            }
            at = instruction.next_ip();
        }
        let is_straight = is_straight && at == end && last != Way::Unknown;
        ways.push((start, end, if is_straight { before } else { Way::Unknown }));
        before = match last {
            // Instructions do not meet the offset.
            _ if at != end => Way::Unknown,
            Way::After(target) => Way::After(target),
            Way::Straight | Way::Unknown => Way::Straight,
        };
    }
    targets.sort_unstable();
    let is_entered = |(start, end, way): &(u64, u64, Way)| {
        // What jumps to the first instruction runs it; what jumps behind a call was not in the call.
        let from = start + u64::from(*way == Way::Straight);
        let first = targets.partition_point(|target| *target < from);
        targets.get(first).is_some_and(|target| target < end)
    };
    ways.iter().skip(1).map(|it| if is_entered(it) { Way::Unknown } else { it.2 }).collect()
}

/// Returns the frame after an instruction.
fn after(instruction: &Instruction, frame: Frame, words: u64) -> State {
    let (cfa, is_saved) = match frame {
        Frame::Bare(cfa) => (cfa, false),
        Frame::Pushed(cfa) => (cfa, true),
        Frame::AtRbp | Frame::Interpreted => return None,
    };
    let is_rbp = |operand: u32| {
        instruction.op_kind(operand) == OpKind::Register && instruction.op_register(operand) == Register::RBP
    };
    let is_rsp = instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP;
    let number = || match instruction.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => Some(instruction.immediate(1)),
        _ => None,
    };
    let (cfa, is_saved) = match instruction.mnemonic() {
        Mnemonic::Push => (cfa + 8, is_saved || is_rbp(0) && cfa == 8),
        Mnemonic::Pushfq => (cfa + 8, is_saved),
        Mnemonic::Pop if is_rbp(0) && is_saved => (cfa.checked_sub(8).filter(|cfa| *cfa == 8)?, false),
        Mnemonic::Pop | Mnemonic::Popfq if !is_rsp => (cfa.checked_sub(8)?, is_saved),
        Mnemonic::Sub if is_rsp => (cfa.checked_add(number()?)?, is_saved),
        Mnemonic::Add if is_rsp => (cfa.checked_sub(number()?)?, is_saved),
        Mnemonic::Leave => (8, false),
        // The caller's frame pointer comes to its place after the frame was made.
        Mnemonic::Mov if is_rbp(1) && is_below(instruction, cfa) => (cfa, true),
        _ if is_rsp && !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) => return None,
        _ => (cfa, is_saved),
    };
    let is_right = (8..=8 * words + MAX_PUSHED).contains(&cfa) && (!is_saved || cfa >= 16);
    is_right.then_some(if is_saved && cfa > 8 { Frame::Pushed(cfa) } else { Frame::Bare(cfa) })
}

/// Returns true if an instruction writes below the return address.
fn is_below(instruction: &Instruction, cfa: u64) -> bool {
    instruction.op0_kind() == OpKind::Memory
        && instruction.memory_base() == Register::RSP
        && instruction.memory_index() == Register::None
        && Some(instruction.memory_displacement64()) == cfa.checked_sub(16)
}
