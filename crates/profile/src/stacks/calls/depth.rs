//! Computes how much stack a function uses at an instruction, and where it keeps its caller's frame pointer. Unwind tables would
//! say the same; this module reads it from the code itself. x86-64 only.
//!
//! It follows all paths from the first instruction to the requested one. If they disagree, it returns `None`.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::code::Code;
use super::{Goes, flow};
use crate::map::Map;
use icecore_elf::Svma;
use icecore_unwind::{CallersFp, Machine, Shape};

/// The most instructions that are followed: code without unwind tables is assembly, and short.
const MAX_STEPS: usize = 4096;

/// What is known of registers before an instruction. Distances are bytes below the return address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// Where the stack pointer points.
    sp: Option<i64>,
    rbp: Rbp,
    /// Where the caller's frame pointer was saved.
    saved: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rbp {
    Callers,
    /// It points into the frame.
    Frame(i64),
    Other,
}

/// Finds the shape of the frame at an instruction of the function that begins at `start`; `None` if the code does not determine it.
///
/// # Cost   100 ns for each of 4,096 instructions at most
pub(super) fn shape(code: &Code<'_>, start: Svma, wanted: Svma) -> Option<Shape> {
    match code.machine() {
        Machine::X86_64 => {}
        Machine::Aarch64 => return None,
    }
    let most = code.take_steps(MAX_STEPS);
    let (states, shape) = follow(code, start, wanted, most);
    code.return_steps(most - states);
    shape
}

/// Follows all paths; returns how many instructions they have, and the shape.
fn follow(code: &Code<'_>, start: Svma, wanted: Svma, most: usize) -> (usize, Option<Shape>) {
    let mut states: Map<Svma, State> = Map::default();
    let mut open = vec![(start, State { sp: Some(0), rbp: Rbp::Callers, saved: None })];
    let mut infos = InstructionInfoFactory::new();
    while let Some((mut at, mut state)) = open.pop() {
        loop {
            match states.get(&at) {
                // Paths that meet must agree on what they know.
                Some(known) if *known == state => break,
                Some(known) => {
                    let merged = merged(known, &state);
                    if merged == *known {
                        break;
                    }
                    state = merged;
                }
                None if states.len() >= most => return (most, None),
                None => {}
            }
            states.insert(at, state);
            // A jump after a push leads into the frame of another function.
            let Some((step, Some(instruction))) = flow::step(code, at, None) else { break };
            // A call has popped its arguments, and every distance behind it is wrong; or this is a jump.
            if instruction.mnemonic() == Mnemonic::Ret && state.sp.is_some_and(|sp| sp != 0) {
                return (states.len(), None);
            }
            state.pass(&instruction, &mut infos);
            match step.goes {
                Goes::On => {}
                Goes::OnOrTo(target) => open.push((target, state)),
                Goes::To(target) if !code.is_stub(target) => {
                    at = target;
                    continue;
                }
                Goes::To(_) | Goes::Anywhere | Goes::Nowhere => break,
            }
            let is_call = instruction.is_call_near() || instruction.is_call_near_indirect();
            if is_call && code.parts(at, step.next) && step.next != wanted {
                break;
            }
            at = step.next;
        }
    }
    (states.len(), states.get(&wanted).and_then(State::shape))
}

fn merged(a: &State, b: &State) -> State {
    State {
        sp: a.sp.filter(|_| a.sp == b.sp),
        rbp: if a.rbp == b.rbp { a.rbp } else { Rbp::Other },
        saved: a.saved.filter(|_| a.saved == b.saved),
    }
}

impl State {
    fn shape(&self) -> Option<Shape> {
        let from_sp = self.sp.and_then(|sp| u64::try_from(sp).ok());
        let from_fp = match self.rbp {
            Rbp::Frame(frame) => u64::try_from(frame).ok(),
            _ => None,
        };
        let fp = match (self.rbp, self.saved) {
            (Rbp::Callers, _) => CallersFp::Kept,
            (_, Some(saved)) => u64::try_from(saved).map_or(CallersFp::Lost, CallersFp::Saved),
            _ => CallersFp::Lost,
        };
        (from_sp.is_some() || from_fp.is_some()).then_some(Shape { from_sp, from_fp, fp })
    }

    /// Updates what is known after an instruction.
    fn pass(&mut self, it: &Instruction, infos: &mut InstructionInfoFactory) {
        let before = *self;
        let is_register = |op: u32, register: Register| {
            it.op_kind(op) == OpKind::Register && it.op_register(op) == register
        };
        match it.mnemonic() {
            Mnemonic::Call if it.is_call_near() && it.near_branch_target() == it.next_ip() => {
                // 32-bit code reads the program counter this way: the pushed word stays.
                self.sp = before.sp.map(|sp| sp + 8);
            }
            Mnemonic::Call | Mnemonic::Syscall => {}
            Mnemonic::Push => {
                self.sp = before.sp.map(|sp| sp - i64::from(it.stack_pointer_increment()));
                if is_register(0, Register::RBP) && before.rbp == Rbp::Callers {
                    self.saved = self.sp;
                }
            }
            Mnemonic::Pop if is_register(0, Register::RSP) => self.sp = None,
            Mnemonic::Leave => {
                let Rbp::Frame(frame) = before.rbp else {
                    (self.sp, self.rbp) = (None, Rbp::Other);
                    return;
                };
                self.sp = Some(frame - 8);
                self.rbp = if before.saved == Some(frame) { Rbp::Callers } else { Rbp::Other };
            }
            Mnemonic::Mov if is_register(0, Register::RBP) => {
                self.rbp = match (is_register(1, Register::RSP), before.sp) {
                    (true, Some(sp)) => Rbp::Frame(sp),
                    _ if self.place(it).is_some_and(|place| before.saved == Some(place)) => Rbp::Callers,
                    _ => Rbp::Other,
                };
            }
            Mnemonic::Mov if is_register(0, Register::RSP) => {
                self.sp = match before.rbp {
                    Rbp::Frame(frame) if is_register(1, Register::RBP) => Some(frame),
                    _ => None,
                };
            }
            Mnemonic::Mov if is_register(1, Register::RBP) && before.rbp == Rbp::Callers => {
                self.saved = self.place(it).or(before.saved);
            }
            Mnemonic::Lea if is_register(0, Register::RSP) => self.sp = self.place(it),
            Mnemonic::Lea if is_register(0, Register::RBP) => {
                self.rbp = self.place(it).map_or(Rbp::Other, Rbp::Frame);
            }
            Mnemonic::Add | Mnemonic::Sub
                if is_register(0, Register::RSP) && it.op_kind(1) != OpKind::Register =>
            {
                let bytes = match it.op_kind(1) {
                    OpKind::Memory => None,
                    _ => Some(it.immediate(1).cast_signed()),
                };
                let bytes = if it.mnemonic() == Mnemonic::Add { bytes.map(|bytes| -bytes) } else { bytes };
                self.sp = before.sp.zip(bytes).and_then(|(sp, bytes)| sp.checked_add(bytes));
            }
            Mnemonic::Pop if is_register(0, Register::RBP) => {
                self.rbp = if before.saved.is_some() && before.saved == before.sp {
                    Rbp::Callers
                } else {
                    Rbp::Other
                };
                self.sp = before.sp.map(|sp| sp - 8);
            }
            _ => self.pass_any(it, infos),
        }
    }

    /// Updates what is known after any other instruction, by the registers that it writes.
    fn pass_any(&mut self, it: &Instruction, infos: &mut InstructionInfoFactory) {
        let moved = i64::from(it.stack_pointer_increment());
        let is_write = |access| {
            matches!(
                access,
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            )
        };
        let written = infos.info(it).used_registers().iter().filter(|used| is_write(used.access()));
        for used in written {
            match used.register().full_register() {
                Register::RBP => self.rbp = Rbp::Other,
                Register::RSP if moved == 0 || !it.is_stack_instruction() => self.sp = None,
                _ => {}
            }
        }
        if it.is_stack_instruction() {
            self.sp = self.sp.map(|sp| sp - moved);
        }
    }

    /// Finds the location in the frame that a memory operand names.
    fn place(&self, it: &Instruction) -> Option<i64> {
        let has_memory = (0..it.op_count()).any(|op| it.op_kind(op) == OpKind::Memory);
        if !has_memory || it.memory_index() != Register::None {
            return None;
        }
        let base = match (it.memory_base(), self.rbp) {
            (Register::RSP, _) => self.sp?,
            (Register::RBP, Rbp::Frame(frame)) => frame,
            _ => return None,
        };
        base.checked_sub(it.memory_displacement64().cast_signed())
    }
}
