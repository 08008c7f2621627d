//! Unwinds stacks, one frame after the other.

use icecore_elf::frame_pointers;
use icecore_elf::go;

use super::cache::{Key, RowCache};
use super::full;
use super::growth::{Growth, Return, Step};
use super::registers::Registers;
use super::row::{Kind, Row};
use super::tables::Context;
use super::{By, End, Frame, Limits, Miss, Modules, Place, StackMemory, without_rules};
use icecore_elf::Machine;

/// Words above a frame without rules among which the return address lies with which a stack begins.
const START_WORDS: u64 = 16;

/// How a call in code of Go goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoingOn {
    /// The stack begins there.
    Ends,
    /// The caller is on another stack, and nothing on this one leads there.
    Elsewhere,
    /// This is no call: it stands for the end of a stack that was left.
    Mark,
    /// There is no frame yet.
    Bare,
    /// In a frame.
    Frame,
}

/// Unwinds stacks, and remembers the rows that it used last: one for each thread. What it answers does not depend on
/// what it remembers.
#[derive(Debug)]
pub struct Unwinder {
    limits: Limits,
    rows: RowCache,
    context: Context,
    misses: u64,
}

impl Unwinder {
    /// Begins with nothing remembered.
    ///
    /// # Cost  0.7 MB of memory
    pub fn new(limits: Limits) -> Self {
        Self { limits, rows: RowCache::new(), context: Context::new_in(), misses: 0 }
    }

    /// How often rules were read because no row was remembered.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Unwinds one stack, and appends its frames to `out`, leaf first; the leaf itself is always there.
    ///
    /// # Shape   1 to [`Limits::frames`] frames
    /// # Cost    50 ns a frame if rows are remembered, 1 µs if not; no allocation but for `out`
    pub fn unwind(
        &mut self,
        mut registers: Registers,
        memory: &impl StackMemory,
        modules: &impl Modules,
        out: &mut Vec<Frame>,
    ) -> End {
        let begin = out.len();
        let mut growth = Growth::new(registers.sp());
        let mut frame = Frame { address: registers.pc(), sp: registers.sp(), by: By::Registers };
        out.push(frame);
        loop {
            let is_interrupted = frame.is_interrupted();
            let Some(place) = modules.find(frame.address.wrapping_sub(u64::from(!is_interrupted))) else {
                // Where no code is, nothing was called from.
                out.truncate(out.len().saturating_sub(1).max(begin + 1));
                return End::Unmapped;
            };
            if out.len() - begin >= self.limits.frames {
                return End::Depth;
            }
            let stack = Stack { memory, modules, place, is_interrupted };
            frame.by = match self.step(&mut registers, &mut growth, &stack) {
                Ok(By::Begun) => {
                    out.last_mut().expect("bug: the leaf is there").by = By::Begun;
                    return End::Root;
                }
                Ok(by) => by,
                Err(end) => return end,
            };
            let address = registers.pc() & !self.limits.not_address;
            if address == 0 {
                return End::Root;
            }
            (frame.address, frame.sp) = (address, registers.sp());
            out.push(frame);
        }
    }

    /// Tells whether the function at a place leads from its frame pointer to its caller's just there, or has no caller; `None`
    /// if it has no rules. A return address for which this is false shows that a walk along frame pointers has skipped
    /// callers.
    pub fn keeps_frame_pointer(&mut self, place: &Place<'_>) -> Option<bool> {
        let tables = place.tables?;
        let full = tables.find(place.at.0, &mut self.context).ok()??;
        let is_outermost =
            full.row.register(gimli::Register(full.return_column)) == Some(gimli::RegisterRule::Undefined);
        // Code of Go uses rbp for nothing else, so that it is enough if it was saved where a frame has it.
        let machine = tables.machine();
        let is_frame_of_go = || {
            let saved = full.row.register(gimli::Register(machine.fp().into()));
            full.of_go == Some(go::Kind::Frame) && saved == Some(gimli::RegisterRule::Offset(-16))
        };
        Some(is_outermost || frame_pointers::keeps(machine, full.row, full.section) || is_frame_of_go())
    }

    /// Tells how a call at a place goes on, by what Go says of its function; `None` if Go does not.
    pub fn going_on(&mut self, place: &Place<'_>) -> Option<GoingOn> {
        let tables = place.tables?;
        let full = tables.find(place.at.0, &mut self.context).ok()??;
        let kind = full.of_go?;
        let is_outermost =
            full.row.register(gimli::Register(full.return_column)) == Some(gimli::RegisterRule::Undefined);
        let is_bare = matches!(full.row.cfa(), gimli::CfaRule::RegisterAndOffset { register, offset: 0 | 8 }
            if register.0 == u16::from(tables.machine().sp()));
        Some(match kind {
            _ if is_outermost => GoingOn::Ends,
            go::Kind::Switch if matches!(full.row.cfa(), gimli::CfaRule::Expression(_)) => GoingOn::Elsewhere,
            go::Kind::Mark => GoingOn::Mark,
            _ if is_bare => GoingOn::Bare,
            _ => GoingOn::Frame,
        })
    }

    /// Turns registers into those of the caller.
    fn step<M: StackMemory, P: Modules>(
        &mut self,
        registers: &mut Registers,
        growth: &mut Growth,
        stack: &Stack<'_, M, P>,
    ) -> Result<By, End> {
        let machine = registers.machine();
        let row = self.row(machine, &stack.place);
        match row.kind {
            Kind::Compact => stack.compact(&row, registers, growth),
            Kind::Slow => self.slow(stack.place.at.0, registers, growth, stack),
            Kind::Root => Err(End::Root),
            Kind::Broken => Err(End::BadRules(stack.place.module)),
            Kind::Absent => self.without_rules(registers, growth, stack),
            // The kernel has put its address there; what lies in front of it is another function.
            Kind::Trampoline if !stack.is_interrupted => {
                self.slow(stack.place.at.0.wrapping_add(1), registers, growth, stack)
            }
            // Behind a call that never returns lies the next function, too.
            Kind::Entry
                if !stack.is_interrupted && stack.modules.is_behind_call(registers.pc()) == Some(false) =>
            {
                Ok(By::Begun)
            }
            Kind::Trampoline | Kind::Entry => match self.found(&stack.place) {
                Row { kind: Kind::Compact | Kind::Slow, .. } => {
                    self.slow(stack.place.at.0, registers, growth, stack)
                }
                row if row.kind == Kind::Root => Err(End::Root),
                row if row.kind == Kind::Broken => Err(End::BadRules(stack.place.module)),
                _ => self.without_rules(registers, growth, stack),
            },
        }
    }

    #[inline]
    fn row(&mut self, machine: Machine, place: &Place<'_>) -> Row {
        let key = place.module.and_then(|module| Key::new(module, place.at.0));
        if let Some(row) = key.and_then(|key| self.rows.find(key)) {
            return *row;
        }
        self.misses += 1;
        let Some(tables) = place.tables.filter(|tables| tables.machine() == machine) else {
            return Row::bare(Kind::Absent);
        };
        let next = place.at.0.wrapping_add(1);
        let row = match () {
            () if tables.begins_trampoline(next) => Row::bare(Kind::Trampoline),
            () if tables.begins_function(next) => Row::bare(Kind::Entry),
            () => Row::new(machine, &tables.find(place.at.0, &mut self.context)),
        };
        if let Some(key) = key {
            self.rows.keep(key, row);
        }
        row
    }

    /// The row of an address, whatever lies behind it.
    fn found(&mut self, place: &Place<'_>) -> Row {
        place.tables.map_or(Row::bare(Kind::Absent), |tables| {
            Row::new(tables.machine(), &tables.find(place.at.0, &mut self.context))
        })
    }

    /// Applies the rules of an address as they are written.
    fn slow<M: StackMemory, P: Modules>(
        &mut self,
        at: u64,
        registers: &mut Registers,
        growth: &mut Growth,
        stack: &Stack<'_, M, P>,
    ) -> Result<By, End> {
        let module = stack.place.module;
        let bad = End::BadRules(module);
        let found = stack.place.tables.map(|tables| tables.find(at, &mut self.context));
        let Some(Ok(Some(full))) = found else { return Err(bad) };
        let caller = full::caller(&full, registers, stack.memory, module)?;
        let step = Step { may_stay: stack.is_interrupted, may_leave: caller.is_free };
        if !growth.returns(caller.returns) || !growth.admits(registers.sp(), caller.registers.sp(), step) {
            return Err(End::NotGrowing);
        }
        *registers = caller.registers;
        Ok(if caller.is_signal { By::Signal } else { By::Rules })
    }

    fn without_rules<M: StackMemory, P: Modules>(
        &mut self,
        registers: &mut Registers,
        growth: &mut Growth,
        stack: &Stack<'_, M, P>,
    ) -> Result<By, End> {
        let machine = registers.machine();
        let Stack { place, is_interrupted, memory, modules } = *stack;
        if !is_interrupted && modules.is_start(registers.pc()) {
            return Err(End::Root);
        }
        let sp = registers.sp();
        if !is_interrupted
            && let Some(bytes) = modules.known_frame(registers.pc())
            && let slot = sp.wrapping_add(bytes)
            && let Ok(return_address) = memory.read_u64(slot)
            && modules.find(return_address.wrapping_sub(1)).is_some()
        {
            // Of two kinds of such frames the one with a frame pointer shows it.
            if registers.value(machine.fp()) == Some(sp) {
                match memory.read_u64(sp) {
                    Ok(fp) => registers.set(machine.fp(), fp),
                    Err(miss) => registers.forget(machine.fp(), Some(miss)),
                }
            }
            registers.set(machine.sp(), slot.wrapping_add(8));
            registers.set(machine.pc(), return_address);
            return Ok(By::Rules);
        }
        let frame = without_rules::Frame { place, is_interrupted, memory, modules, limits: &self.limits };
        let found = frame.unwind(registers);
        let by = match found {
            // Where programs and threads begin, C libraries have neither rules nor frame pointers, and pushed some registers.
            Err(End::NoRules(_)) if !is_interrupted => {
                let (slot, start) = start_above(sp, memory, modules).ok_or(End::NoRules(place.module))?;
                registers.set(machine.sp(), slot.wrapping_add(8));
                registers.set(machine.pc(), start);
                By::Start
            }
            found => found?,
        };
        let may_stay = matches!(by, By::LinkRegister);
        if !growth.admits(sp, registers.sp(), Step { may_stay, may_leave: false }) {
            return Err(End::NotGrowing);
        }
        Ok(by)
    }
}

/// Finds the return address with which the stack of a program or thread begins, and where it lies. No other word that may be a return
/// address lies below it: so no other frame does.
fn start_above(sp: u64, memory: &impl StackMemory, modules: &impl Modules) -> Option<(u64, u64)> {
    for slot in (0..START_WORDS).map(|word| sp.wrapping_add(8 * word)) {
        match memory.read_u64(slot) {
            Ok(word) if modules.is_start(word) => return Some((slot, word)),
            Ok(word) if may_return_to(word, modules) => return None,
            Ok(_) | Err(Miss::NoAddress) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Tells whether a word may be a return address.
fn may_return_to(word: u64, modules: &impl Modules) -> bool {
    modules.find(word.wrapping_sub(1)).is_some() && modules.is_behind_call(word) != Some(false)
}

/// What surrounds a frame.
struct Stack<'a, M, P> {
    memory: &'a M,
    modules: &'a P,
    place: Place<'a>,
    is_interrupted: bool,
}

impl<M: StackMemory, P: Modules> Stack<'_, M, P> {
    #[inline]
    fn compact(&self, row: &Row, registers: &mut Registers, growth: &mut Growth) -> Result<By, End> {
        let machine = registers.machine();
        let unknown = |number| registers.missing(number).map_or(End::BadRules(self.place.module), End::from);
        let base = registers.value(row.cfa_base).ok_or_else(|| unknown(row.cfa_base))?;
        let cfa = base.wrapping_add_signed(row.cfa_off.into());
        let may_stay = machine.cfa_at_entry() == 0 && self.is_interrupted;
        let step = Step { may_stay, may_leave: row.cfa_base != machine.sp() };
        let again = || registers.value(machine.return_column()) == Some(registers.pc());
        let returns =
            row.return_at(machine, cfa).map_or_else(|| Return::InRegister { again: again() }, Return::At);
        if !growth.returns(returns) || !growth.admits(registers.sp(), cfa, step) {
            return Err(End::NotGrowing);
        }
        full::apply(row, cfa, registers, self.memory)?;
        if let Some(link) = machine.link_register() {
            let link = registers.value(link).ok_or(End::BadRules(self.place.module))?;
            registers.set(machine.pc(), link);
        }
        Ok(By::Rules)
    }
}
