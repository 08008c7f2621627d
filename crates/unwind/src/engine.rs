//! Unwinds stacks, frame by frame.

use icecore_elf::{Avma, Machine, Svma, frame_pointers, go};

use super::cache::{Key, RowCache};
use super::compact_row::{CompactRow, Kind};
use super::full;
use super::growth::{Growth, Return, Step};
use super::registers::Registers;
use super::tables::{Context, Full};
use super::{By, End, Frame, Limits, Miss, ModuleAddress, Modules, StackMemory, without_tables};

/// How many words above a frame without unwind tables are searched for the return address with which a stack begins.
const START_WORDS: u64 = 16;
/// How far above the first address of a stack that a program began by hand no other return address lies, words.
const BEGUN_WORDS: u64 = 512;

/// How a stack continues after a function of Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoingOn {
    /// The stack begins with this function.
    Ends,
    /// The caller is on another stack, and this stack does not lead there.
    Elsewhere,
    /// The address is no call: it marks the end of a stack that was left.
    Mark,
    /// The function has not made its frame yet.
    Bare,
    /// The function has a frame.
    Frame,
}

/// Unwinds stacks, and caches recently used rows. Use one unwinder for each thread. The cache does not change results.
#[derive(Debug)]
pub struct Unwinder {
    limits: Limits,
    rows: RowCache,
    context: Context,
    misses: u64,
}

impl Unwinder {
    /// Creates an unwinder with an empty cache.
    ///
    /// # Cost  0.7 MB of memory
    pub fn new(limits: Limits) -> Self {
        Self { limits, rows: RowCache::new(), context: Context::new_in(), misses: 0 }
    }

    /// Returns how many rows were read because they were not cached.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Unwinds one stack, and appends its frames to `out`, leaf first. The leaf itself is always appended.
    ///
    /// # Shape   1 to [`Limits::frames`] frames
    /// # Cost    50 ns a frame if rows are cached, 1 µs if not; allocates only in `out`
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
            let Some(place) = modules.find(frame.lookup()) else {
                // The outermost address is not code, so nothing returns there.
                out.truncate(out.len().saturating_sub(1).max(begin + 1));
                return End::Unmapped;
            };
            if out.len() - begin >= self.limits.frames {
                return End::Depth;
            }
            let stack = Stack { memory, modules, place, is_interrupted: frame.is_interrupted() };
            frame.by = match self.step(&mut registers, &mut growth, &stack) {
                Ok(By::Begun) if has_callers_above(registers.sp(), memory, modules) => {
                    out.truncate(out.len().saturating_sub(1).max(begin + 1));
                    return End::Unmapped;
                }
                // A guess proves no beginning.
                Ok(By::Begun) if out.last().is_some_and(|last| last.by.is_guess()) => {
                    return End::NoTables(None);
                }
                Ok(By::Begun) => {
                    out.last_mut().expect("bug: the leaf is there").by = By::Begun;
                    return End::Root;
                }
                Ok(by) => by,
                Err(end) => return end,
            };
            let address = self.limits.address(registers.pc().0);
            if address.0 == 0 {
                return End::Root;
            }
            (frame.address, frame.sp) = (address, registers.sp());
            out.push(frame);
        }
    }

    /// Returns true if, at this place, the function's frame pointer leads to its caller's, or the function has no caller; `None` if
    /// no unwind tables cover it. False for a return address shows that a walk along frame pointers has skipped callers.
    pub fn keeps_frame_pointer(&mut self, place: &ModuleAddress<'_>) -> Option<bool> {
        let tables = place.tables?;
        let full = tables.find(place.at, &mut self.context).ok()??;
        let is_outermost =
            full.row.register(gimli::Register(full.return_column)) == Some(gimli::RegisterRule::Undefined);
        // Go code uses rbp for nothing else, so it suffices that the frame has saved it.
        let machine = tables.machine();
        let is_frame_of_go = || {
            let saved = full.row.register(gimli::Register(machine.fp().into()));
            full.of_go == Some(go::Kind::Frame) && saved == Some(gimli::RegisterRule::Offset(-16))
        };
        Some(is_outermost || frame_pointers::keeps(machine, full.row, full.section) || is_frame_of_go())
    }

    /// Returns true if the function at a place returns what it likes in the registers for results, because its unwind tables say where it
    /// has saved them. Unwinders do so, to go to the handler of an exception; before that they overwrite what they have saved. A function
    /// that has saved rcx as well keeps the arguments of its caller (`_mcount`, `__fentry__`).
    pub fn goes_to_handlers(&mut self, place: &ModuleAddress<'_>) -> bool {
        let full = place.tables.and_then(|tables| tables.find(place.at, &mut self.context).ok()?);
        let is_saved = |full: &Full<'_, '_>, number| {
            matches!(full.row.register(gimli::Register(number)), Some(gimli::RegisterRule::Offset(_)))
        };
        full.is_some_and(|full| (is_saved(&full, 0) || is_saved(&full, 1)) && !is_saved(&full, 2))
    }

    /// Returns how the stack continues at a place, by what Go's tables say of its function; `None` if they say nothing.
    pub fn going_on(&mut self, place: &ModuleAddress<'_>) -> Option<GoingOn> {
        let tables = place.tables?;
        let full = tables.find(place.at, &mut self.context).ok()??;
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

    /// Replaces the registers by those of the caller.
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
            Kind::Slow => self.slow(stack.place.at, registers, growth, stack),
            Kind::Root => Err(End::Root),
            Kind::Broken => Err(End::BadTables(stack.place.module)),
            Kind::Absent => self.without_tables(registers, growth, stack),
            // The kernel has put this address on the stack; the byte before it belongs to another function.
            Kind::Trampoline if !stack.is_interrupted => {
                self.slow(stack.place.at.wrapping_add(1), registers, growth, stack)
            }
            // The next function also follows a call that never returns.
            Kind::Entry
                if !stack.is_interrupted && stack.modules.is_behind_call(registers.pc()) == Some(false) =>
            {
                Ok(By::Begun)
            }
            Kind::Trampoline | Kind::Entry => match self.found(&stack.place) {
                CompactRow { kind: Kind::Compact | Kind::Slow, .. } => {
                    self.slow(stack.place.at, registers, growth, stack)
                }
                row if row.kind == Kind::Root => Err(End::Root),
                row if row.kind == Kind::Broken => Err(End::BadTables(stack.place.module)),
                _ => self.without_tables(registers, growth, stack),
            },
        }
    }

    #[inline]
    fn row(&mut self, machine: Machine, place: &ModuleAddress<'_>) -> CompactRow {
        let key = place.module.and_then(|module| Key::new(module, place.at));
        if let Some(row) = key.and_then(|key| self.rows.find(key)) {
            return *row;
        }
        self.misses += 1;
        let Some(tables) = place.tables.filter(|tables| tables.machine() == machine) else {
            return CompactRow::bare(Kind::Absent);
        };
        let next = place.at.wrapping_add(1);
        let row = match () {
            () if tables.begins_trampoline(next) => CompactRow::bare(Kind::Trampoline),
            () if tables.begins_function(next) => CompactRow::bare(Kind::Entry),
            () => CompactRow::new(machine, &tables.find(place.at, &mut self.context)),
        };
        if let Some(key) = key {
            self.rows.keep(key, row);
        }
        row
    }

    /// Returns the row of an address, whether or not the next address begins a function.
    fn found(&mut self, place: &ModuleAddress<'_>) -> CompactRow {
        place.tables.map_or(CompactRow::bare(Kind::Absent), |tables| {
            CompactRow::new(tables.machine(), &tables.find(place.at, &mut self.context))
        })
    }

    /// Applies the rules of an address as the tables have them.
    fn slow<M: StackMemory, P: Modules>(
        &mut self,
        at: Svma,
        registers: &mut Registers,
        growth: &mut Growth,
        stack: &Stack<'_, M, P>,
    ) -> Result<By, End> {
        let module = stack.place.module;
        let bad = End::BadTables(module);
        let found = stack.place.tables.map(|tables| tables.find(at, &mut self.context));
        let Some(Ok(Some(full))) = found else { return Err(bad) };
        let caller = full::caller(&full, registers, stack.memory, module)?;
        let step = Step { may_stay: stack.is_interrupted, may_leave: caller.is_free };
        if !growth.returns(caller.returns) || !growth.admits(registers.sp(), caller.registers.sp(), step) {
            return Err(End::NotGrowing);
        }
        *registers = caller.registers;
        Ok(if caller.is_signal { By::Signal } else { By::Tables })
    }

    fn without_tables<M: StackMemory, P: Modules>(
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
        // Nothing returns to an address that no call precedes: a program put it there to begin a stack, as libraries of fibers do.
        if !is_interrupted
            && modules.is_behind_call(registers.pc()) == Some(false)
            && !has_callers_above(sp, memory, modules)
        {
            return Ok(By::Begun);
        }
        if !is_interrupted
            && let Some(bytes) = modules.known_frame(registers.pc())
            && let slot = sp.wrapping_add(bytes)
            && let Ok(return_address) = memory.read_u64(slot).map(Avma)
            && modules.find(return_address.wrapping_sub(1)).is_some()
        {
            // Of the two kinds of such frames, the one with a frame pointer is recognized by it.
            if registers.value(machine.fp()) == Some(sp.0) {
                match memory.read_u64(sp) {
                    Ok(fp) => registers.set(machine.fp(), fp),
                    Err(miss) => registers.forget(machine.fp(), Some(miss)),
                }
            }
            registers.return_to(return_address, slot.wrapping_add(8));
            return Ok(By::Tables);
        }
        let frame = without_tables::Frame { place, is_interrupted, memory, modules, limits: &self.limits };
        let found = frame.unwind(registers);
        let by = match found {
            // Where programs and threads begin, C libraries have neither unwind tables nor frame pointers, and have pushed some
            // registers.
            Err(End::NoTables(_)) if !is_interrupted => {
                let (slot, start) = start_above(sp, memory, modules).ok_or(End::NoTables(place.module))?;
                registers.return_to(start, slot.wrapping_add(8));
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

/// Finds the return address with which the stack of a program or thread begins, and where it lies. No other possible return address
/// lies below it, so no other frame can.
fn start_above(sp: Avma, memory: &impl StackMemory, modules: &impl Modules) -> Option<(Avma, Avma)> {
    for slot in (0..START_WORDS).map(|word| sp.wrapping_add(8 * word)) {
        match memory.read_u64(slot).map(Avma) {
            Ok(word) if modules.is_start(word) => return Some((slot, word)),
            Ok(word) if may_return_to(word, modules) => return None,
            Ok(_) | Err(Miss::NoAddress) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Returns true if a possible return address lies above: whoever put the address of a function there did not begin a stack with it. A
/// stack that was begun by hand ends there.
fn has_callers_above(sp: Avma, memory: &impl StackMemory, modules: &impl Modules) -> bool {
    for slot in (0..BEGUN_WORDS).map(|word| sp.wrapping_add(8 * word)) {
        match memory.read_u64(slot).map(Avma) {
            Ok(word) if may_return_to(word, modules) => return true,
            Ok(_) | Err(Miss::NoAddress) => {}
            Err(Miss::Beyond) => return true,
            Err(Miss::Elsewhere) => return false,
        }
    }
    false
}

/// Returns true if a word may be a return address.
fn may_return_to(word: Avma, modules: &impl Modules) -> bool {
    modules.find(word.wrapping_sub(1)).is_some() && modules.is_behind_call(word) != Some(false)
}

/// The context of a frame.
struct Stack<'a, M, P> {
    memory: &'a M,
    modules: &'a P,
    place: ModuleAddress<'a>,
    is_interrupted: bool,
}

impl<M: StackMemory, P: Modules> Stack<'_, M, P> {
    #[inline]
    fn compact(&self, row: &CompactRow, registers: &mut Registers, growth: &mut Growth) -> Result<By, End> {
        let machine = registers.machine();
        let unknown = |number| registers.missing(number).map_or(End::BadTables(self.place.module), End::from);
        let base = registers.value(row.cfa_base).ok_or_else(|| unknown(row.cfa_base))?;
        let cfa = Avma(base).wrapping_add_signed(row.cfa_off.into());
        let may_stay = machine.cfa_at_entry() == 0 && self.is_interrupted;
        let step = Step { may_stay, may_leave: row.cfa_base != machine.sp() };
        let again = || registers.value(machine.return_column()) == Some(registers.pc().0);
        let returns =
            row.return_at(machine, cfa).map_or_else(|| Return::InRegister { again: again() }, Return::At);
        if !growth.returns(returns) || !growth.admits(registers.sp(), cfa, step) {
            return Err(End::NotGrowing);
        }
        full::apply(row, cfa, registers, self.memory)?;
        if let Some(link) = machine.link_register() {
            let link = registers.value(link).ok_or(End::BadTables(self.place.module))?;
            registers.set(machine.pc(), link);
        }
        Ok(By::Tables)
    }
}
