//! An image, a stack and a process for tests: gimli writes the unwind tables, tests write the memory.

use std::collections::BTreeMap;

use gimli::write::{
    CallFrameInstruction, CommonInformationEntry, DebugFrame, EhFrame, EndianVec, FrameDescriptionEntry,
    FrameTable,
};
use gimli::{Encoding, Format, LittleEndian, Register};

use super::{
    Edge, End, Frame, Limits, Machine, Miss, ModuleAddress, Modules, Registers, Shape, StackMemory,
    UnwindSections, UnwindTables, Unwinder,
};
use icecore_elf::{Avma, Svma};

/// The address of the only image, which has 4 KiB of code.
pub(super) const IMAGE: u64 = 0x7f00_0000_0000;
/// The address of code that is in no file.
pub(super) const MADE: u64 = 0x7e00_0000_0000;
/// Where the stack begins.
pub(super) const STACK: u64 = 0x7fff_0000_0000;

/// A function: its offset in the image, its length, whether the kernel calls it for a signal, and its rules by offset in the
/// function.
pub(super) struct Function {
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) is_signal: bool,
    pub(super) rules: Vec<(u32, CallFrameInstruction)>,
}

impl Function {
    /// A function of 16 bytes.
    pub(super) fn new(start: u32, rules: Vec<CallFrameInstruction>) -> Self {
        Self { start, len: 16, is_signal: false, rules: rules.into_iter().map(|rule| (0, rule)).collect() }
    }

    /// A function that has moved the stack pointer by so many bytes, including its own return address.
    pub(super) fn using(start: u32, bytes: i32) -> Self {
        Self::new(start, vec![CallFrameInstruction::CfaOffset(bytes)])
    }
}

/// Writes unwind tables as a compiler does, for `.debug_frame` or `.eh_frame`.
pub(super) fn rules(machine: Machine, functions: Vec<Function>, is_debug: bool) -> &'static [u8] {
    let mut table = FrameTable::default();
    let encoding =
        Encoding { address_size: 8, format: Format::Dwarf32, version: if is_debug { 4 } else { 1 } };
    let return_column = Register(machine.return_column().into());
    for function in functions {
        let mut common = CommonInformationEntry::new(encoding, 1, -8, return_column);
        let at_entry =
            CallFrameInstruction::Cfa(Register(machine.sp().into()), machine.cfa_at_entry() as i32);
        common.add_instruction(at_entry);
        if machine == Machine::X86_64 {
            common.add_instruction(CallFrameInstruction::Offset(return_column, -8));
        }
        common.signal_trampoline = function.is_signal;
        let common = table.add_cie(common);
        let start = gimli::write::Address::Constant(function.start.into());
        let mut description = FrameDescriptionEntry::new(start, function.len);
        function.rules.into_iter().for_each(|(off, rule)| description.add_instruction(off, rule));
        table.add_fde(common, description);
    }
    let bytes = EndianVec::new(LittleEndian);
    let bytes = if is_debug {
        let mut section = DebugFrame::from(bytes);
        table.write_debug_frame(&mut section).expect("writable");
        section.0.into_vec()
    } else {
        let mut section = EhFrame::from(bytes);
        table.write_eh_frame(&mut section).expect("writable");
        section.0.into_vec()
    };
    bytes.leak()
}

/// Makes sections with these tables in `.eh_frame`, and stubs from an offset on.
pub(super) fn sections(machine: Machine, functions: Vec<Function>) -> UnwindSections<'static> {
    UnwindSections {
        machine,
        eh_frame: rules(machine, functions, false),
        eh_frame_at: Svma(0x8000),
        eh_frame_hdr: &[],
        eh_frame_hdr_at: Svma(0),
        debug_frame: &[],
        of_go: &[],
        text: None,
        got: None,
        stubs: vec![Svma(0xe00)..Svma(0xf00)],
    }
}

/// A thread that was interrupted.
pub(super) struct Thread {
    pub(super) tables: UnwindTables<'static>,
    pub(super) registers: Registers,
    pub(super) words: BTreeMap<u64, u64>,
    /// Where the copy of the stack ends.
    pub(super) end: u64,
    pub(super) limits: Limits,
    /// Whether a call precedes every address but one, which it precedes in any case.
    pub(super) is_behind_call: Option<bool>,
    pub(super) called_at: Avma,
    /// The return address with which the stack begins.
    pub(super) start: Avma,
    /// A return address into code whose own return address is the second word on the stack.
    pub(super) known: Avma,
    /// Return addresses that no call of the callee precedes, as offsets in the image.
    pub(super) impossible: Vec<u64>,
    /// The frames that the code shows, by the program counter as an offset in the image.
    pub(super) shapes: BTreeMap<u64, Shape>,
}

impl Thread {
    /// A thread at an offset in the image, with these words on the stack. Among them only the return addresses are addresses of
    /// code.
    pub(super) fn new(functions: Vec<Function>, pc: u64, words: &[u64]) -> Self {
        Self::of(Machine::X86_64, functions, pc, words)
    }

    /// A thread of another machine.
    pub(super) fn of(machine: Machine, functions: Vec<Function>, pc: u64, words: &[u64]) -> Self {
        let mut registers = match machine {
            Machine::X86_64 => Registers::x86_64(&[5; 17]),
            Machine::Aarch64 => Registers::aarch64(&[5; 33]),
        };
        registers.set(machine.pc(), IMAGE + pc);
        registers.set(machine.sp(), STACK);
        let words: BTreeMap<u64, u64> = (STACK..).step_by(8).zip(words.iter().copied()).collect();
        Self {
            tables: UnwindTables::new(sections(machine, functions)),
            registers,
            end: STACK + 8 * words.len() as u64,
            words,
            limits: Limits::new(machine),
            is_behind_call: None,
            called_at: Avma(0),
            start: Avma(0),
            known: Avma(0),
            impossible: Vec::new(),
            shapes: BTreeMap::new(),
        }
    }

    /// Returns all frames, and why there are no more.
    pub(super) fn unwind(&self) -> (Vec<Frame>, End) {
        let mut frames = Vec::new();
        let end = Unwinder::new(self.limits).unwind(self.registers.clone(), self, self, &mut frames);
        (frames, end)
    }

    /// Returns the offsets of the frames in the image, and why there are no more.
    pub(super) fn offsets(&self) -> (Vec<u64>, End) {
        let (frames, end) = self.unwind();
        (frames.iter().map(|frame| frame.address.wrapping_sub(IMAGE).0).collect(), end)
    }
}

impl StackMemory for Thread {
    fn read_u64(&self, Avma(address): Avma) -> Result<u64, Miss> {
        let miss =
            if (self.end..self.end + 4096).contains(&address) { Miss::Beyond } else { Miss::Elsewhere };
        self.words.get(&address).copied().ok_or(miss)
    }
}

impl Modules for Thread {
    fn is_behind_call(&self, address: Avma) -> Option<bool> {
        if address == self.called_at { Some(true) } else { self.is_behind_call }
    }

    fn known_frame(&self, return_address: Avma) -> Option<u64> {
        (return_address == self.known).then_some(8)
    }

    fn is_start(&self, return_address: Avma) -> bool {
        return_address == self.start
    }

    fn find(&self, Avma(address): Avma) -> Option<ModuleAddress<'_>> {
        if let off @ 0..4096 = address.wrapping_sub(IMAGE) {
            return Some(ModuleAddress { module: Some(3), at: Svma(off), tables: Some(&self.tables) });
        }
        let is_made = (MADE..MADE + 4096).contains(&address);
        is_made.then_some(ModuleAddress { module: None, at: Svma(address), tables: None })
    }

    fn edge(&self, return_address: Avma, _callee: Avma, _may_begin: bool) -> Edge {
        let is_impossible = self.impossible.contains(&return_address.wrapping_sub(IMAGE).0);
        if is_impossible { Edge::Impossible } else { Edge::Unknown }
    }

    fn shape(&self, pc: Avma, _is_interrupted: bool) -> Option<Shape> {
        self.shapes.get(&pc.wrapping_sub(IMAGE).0).copied()
    }
}
