//! Unwinds one sample after the other, each from its own registers and its own copy of the stack, never from those of another
//! sample.

use icecore_format::records::{Mark, Sample, StackRepair, WalkEnd};

use super::OWN;
use super::audit::{Compared, compare};
use super::carried::Carried;
use super::choose::{Choice, Walked, choose, ended, joined};
use super::code::SpaceCode;
use super::grown::{Framed, Grown};
use super::interpreted::functions;
use super::memory::Memory;
use super::over::Walk;
use super::suspect::Known;
use super::tables::TableLookup;
use super::work::Work;
use crate::map::Map;
use crate::recording::spaces::SpaceId;
use crate::stacks::hits::Selection;
use crate::stacks::locate::{Locator, machine_steps};
use icecore_elf::Avma;
use icecore_unwind::{By, Edge, End, Frame, GoingOn, Modules as _, Registers, Unwinder};

/// A call in an address space: the callee, the return address, and whether it is the outermost one.
type Call = (SpaceId, Avma, Avma, bool);

/// Unwinds samples.
pub(super) struct Batch<'a> {
    selection: Selection<'a>,
    locator: &'a Locator<'a>,
    tables: &'a TableLookup<'a>,
    unwinder: &'a mut Unwinder,
    work: &'a Work,
    done: Done,
    /// Calls whose functions keep frame pointers.
    kept: Known,
    /// Calls that were judged: true if possible.
    checked: Map<Call, bool>,
    frames: Vec<Frame>,
    path: Vec<u32>,
}

/// The result of a batch.
#[derive(Default)]
pub(super) struct Done {
    pub(super) grown: Grown,
    pub(super) stacks: Vec<Stack>,
    pub(super) cut: Vec<CutWalk>,
}

/// A walk by unwind tables that cannot be right from some frame on.
pub(super) struct CutWalk {
    /// The stack id of the walk.
    pub(super) of: u32,
    /// The leaf of what is left, in [`Done::grown`], or [`OWN`], and how it ended.
    pub(super) left: (u32, WalkEnd),
}

/// The stack of one snapshot.
pub(super) struct Stack {
    pub(super) snapshot: u32,
    /// The leaf of the repaired stack in [`Done::grown`], or [`OWN`], and how it ended; `None` if the walk is kept.
    pub(super) other: Option<(u32, WalkEnd)>,
    pub(super) repair: StackRepair,
    /// The walk was made by unwind tables, and differs from the unwound stack.
    pub(super) differs: Option<Differs>,
}

/// How a walk by unwind tables differs from the unwound stack.
pub(super) struct Differs {
    pub(super) sample: Sample,
    /// The leaf of the unwound stack in [`Done::grown`].
    pub(super) unwound: u32,
    /// The number of frames that both have, from the leaf on.
    pub(super) common: usize,
}

/// An unwound stack, and the part of the walk that belongs to it.
struct Believed<'w> {
    /// The unwound frames, the leaf first.
    frames: &'w [Frame],
    /// The functions that these run, if they are an interpreter's.
    runs: Vec<Option<Framed>>,
    end: End,
    walk: &'w Walk,
    walk_end: WalkEnd,
    choice: Choice<'w>,
    /// The walk continues where Go noted that it left the stack, and not where a frame pointer leads.
    is_behind_mark: bool,
    /// The part of the walk that comes next.
    next: Option<usize>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        selection: Selection<'a>,
        locator: &'a Locator<'a>,
        tables: &'a TableLookup<'a>,
        (unwinder, work): (&'a mut Unwinder, &'a Work),
    ) -> Self {
        let (done, kept, checked, frames, path) = Default::default();
        Self { selection, locator, tables, unwinder, work, done, kept, checked, frames, path }
    }

    /// Unwinds the stack of a sample, if its snapshot is complete; without a snapshot, checks its walk. If no work is left for that, the
    /// stack stays as it is, and its end says so.
    pub(super) fn sample(&mut self, sample: &Sample) {
        let known = (self.done.stacks.len(), self.done.cut.len());
        if !self.work.is_spent() {
            self.examine(sample);
        }
        if !self.work.is_spent() {
            return;
        }
        self.done.stacks.truncate(known.0);
        self.done.cut.truncate(known.1);
        let own = (OWN, WalkEnd::NOT_EXAMINED);
        match sample.snapshot {
            0 => self.done.cut.push(CutWalk { of: sample.user_stack, left: own }),
            snapshot => {
                let (other, repair) = (Some(own), StackRepair::NONE);
                self.done.stacks.push(Stack { snapshot, other, repair, differs: None });
            }
        }
    }

    fn examine(&mut self, sample: &Sample) -> Option<()> {
        if sample.snapshot == 0 {
            return self.walk(sample);
        }
        let tables = self.selection.tables;
        let task = tables.task(sample.task);
        let space = self.selection.spaces.space(task.tgid, sample.time_ns)?;
        let snapshot = tables.held.snapshots.find(sample.snapshot)?;
        let code = SpaceCode::new(self.locator, space, self.tables, self.work);
        let walked: Vec<Walked> =
            machine_steps(tables, sample.user_stack).map_while(|step| code.walked(step)).collect();
        let leaf = walked.first()?.address;
        if sample.user_end == WalkEnd::BY_TABLES {
            let memory = Memory::new(&tables.held, snapshot, &code)?;
            return self.audit(sample, &code, &memory, &walked);
        }
        let mut walk = Walk::new(walked, sample.user_end, &code, self.unwinder);
        let mut memory = Memory::new(&tables.held, snapshot, &code)?;
        let registers =
            memory.registers(self.tables.machine(), leaf, walk.is_of_go && !walk.steps.is_empty());
        memory.add_steps(&registers, &walk.steps);
        let (frames, end) = self.unwound(sample, &code, registers, &memory)?;
        // A frame that did not call the one before it is no caller, and the frames after it are unproven. Where copies end early,
        // walks can be trusted, and checking each would cost as much as unwinding.
        let joined = joined(&frames, &walk.frames);
        let possible = match end {
            End::Root | End::Depth | End::LeftSnapshot => walk.frames.len(),
            // The unwound frames replace the walk up to the frame that both have.
            _ => code.possible(&walk.frames, joined.map_or(1, |joined| joined + 1), self.unwinder),
        };
        let is_cut = possible < walk.frames.len();
        let walk_end = if is_cut { WalkEnd::NO_RULES } else { walk.end };
        walk.frames.truncate(possible);
        let mut choice = match choose(&frames, end, &walk.frames, walk_end) {
            Choice::Walk if is_cut => {
                let unwound = frames.len().min(walk.frames.len());
                Choice::Other { unwound, walked: &walk.frames[unwound..], end: walk_end }
            }
            choice => choice,
        };
        let mut is_behind_mark = false;
        // The part of the walk that comes next.
        let mut next = joined.filter(|_| !is_cut).map(|_| walk.next_part);
        let behind = frames.last().filter(|last| self.goes_over(&code, last)).and_then(|_| walk.part(1));
        if let Some(behind) = &behind {
            choice = Choice::Other { unwound: frames.len(), walked: &behind.frames, end: behind.end };
            next = Some(behind.next_part);
            is_behind_mark = true;
        } else if walk.is_other() && choice == Choice::Walk {
            choice = Choice::Other { unwound: 1, walked: &walk.frames[1..], end: walk.end };
        }
        // A leaf of Go whose frame does not lie where its frame pointer says: the frame is incomplete, or does not belong to the
        // walk.
        let is_leaf_alone = frames.len() == 1 && end != End::Root && !walk.is_proven(leaf);
        if is_leaf_alone && code.find(leaf).is_some_and(|place| self.unwinder.going_on(&place).is_some()) {
            choice = Choice::Other { unwound: 1, walked: &[], end: WalkEnd::NOT_COPIED };
            next = None;
        }
        let runs = functions(&frames, &memory, &code);
        let believed =
            Believed { frames: &frames, runs, end, walk: &walk, walk_end, choice, is_behind_mark, next };
        let kept = self.keep(sample, &code, believed);
        self.frames = frames;
        kept
    }

    /// Unwinds the copy of a stack, and that of the stack on which a signal interrupted other code.
    fn unwound(
        &mut self,
        sample: &Sample,
        code: &SpaceCode<'_>,
        registers: Registers,
        memory: &Memory<'_>,
    ) -> Option<(Vec<Frame>, End)> {
        let held = &self.selection.tables.held;
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let mut end = self.unwinder.unwind(registers, memory, code, &mut frames);
        // The signal handler ran on a stack of its own: the next snapshot holds the interrupted code, on another stack.
        let outer = held.snapshots.find(sample.snapshot + 1).filter(|outer| outer.is_outer());
        if let Some(outer) =
            outer.filter(|_| end != End::Root && frames.last().is_some_and(|last| code.is_trampoline(last)))
        {
            let memory = Memory::new(held, outer, code)?;
            let registers = memory.registers(self.tables.machine(), memory.program_counter()?, false);
            let interrupted = frames.len();
            end = self.unwinder.unwind(registers, &memory, code, &mut frames);
            frames[interrupted].by = By::Signal;
        }
        // Unwind tables may be wrong, too: those of assembly, or of code that throws an exception.
        let called = self.called(code, &frames);
        if called < frames.len() {
            frames.truncate(called);
            end = End::BadTables(None);
        }
        Some((frames, end))
    }

    /// Cuts a walk by unwind tables in front of a frame that, by its machine code, cannot have called the frame before it: unwind tables
    /// may be wrong.
    fn walk(&mut self, sample: &Sample) -> Option<()> {
        let tables = self.selection.tables;
        let space = self.selection.spaces.space(tables.task(sample.task).tgid, sample.time_ns)?;
        let code = SpaceCode::new(self.locator, space, self.tables, self.work);
        let walked: Vec<Walked> =
            machine_steps(tables, sample.user_stack).map_while(|step| code.walked(step)).collect();
        let left = self.cut(&code, &walked)?;
        self.done.cut.push(CutWalk { of: sample.user_stack, left });
        Some(())
    }

    /// Returns what is left of a walk by unwind tables; `None` if all of it can be right.
    fn cut(&mut self, code: &SpaceCode<'_>, walked: &[Walked]) -> Option<(u32, WalkEnd)> {
        let frames: Vec<Frame> =
            walked.iter().enumerate().map(|(at, walked)| walked.frame(at == 0)).collect();
        let called = self.called(code, &frames);
        if called == walked.len() {
            return None;
        }
        let left = walked[..called].iter().rev().map(|walked| (walked.location, walked.mark));
        self.done.grown.add(0, left, &mut self.path);
        Some((*self.path.last()?, ended(End::BadTables(None))))
    }

    /// Unwinds the copy of a stack that the sampler walked by unwind tables, and compares the two.
    fn audit(
        &mut self,
        sample: &Sample,
        code: &SpaceCode<'_>,
        memory: &Memory<'_>,
        walked: &[Walked],
    ) -> Option<()> {
        let registers = memory.registers(self.tables.machine(), walked.first()?.address, false);
        let (mut frames, end) = self.unwound(sample, code, registers, memory)?;
        // A guess is no evidence.
        let proven = frames.iter().position(|frame| frame.by.is_guess()).unwrap_or(frames.len());
        let is_root = end == End::Root && proven == frames.len();
        frames.truncate(proven);
        let framed = code.framed(&frames);
        let is_located = machine_steps(self.selection.tables, sample.user_stack).nth(walked.len()).is_none();
        let compared = match compare(walked, &frames, &framed, is_root) {
            _ if !is_located => Compared::Unchecked,
            compared => compared,
        };
        self.frames = frames;
        let cut = if compared == Compared::Unchecked { self.cut(code, walked) } else { None };
        let differs = match compared {
            Compared::Differs { common } => {
                self.done.grown.add(0, framed.into_iter().rev(), &mut self.path);
                self.path.last().map(|leaf| Differs { sample: *sample, unwound: *leaf, common })
            }
            Compared::Agrees | Compared::Unchecked => None,
        };
        self.done.stacks.push(Stack {
            snapshot: sample.snapshot,
            // The unwound stack comes from the complete tables, but only to a root does it show as much as the walk.
            other: match &differs {
                Some(differs) => is_root.then_some((differs.unwound, WalkEnd::UNWOUND)),
                None => cut,
            },
            repair: match compared {
                Compared::Agrees => StackRepair::KEPT.audited(),
                Compared::Differs { .. } => StackRepair::REPLACED.audited(),
                Compared::Unchecked => StackRepair::KEPT,
            },
            differs,
        });
        Some(())
    }

    /// Counts the frames before the first one that, by its machine code, cannot have called the frame before it, or is not known to:
    /// unwinders overwrite their frames.
    ///
    /// # Cost   one table lookup for each frame; judges each call once per address space and batch
    fn called(&mut self, code: &SpaceCode<'_>, frames: &[Frame]) -> usize {
        let space = code.space();
        let (checked, unwinder) = (&mut self.checked, &mut *self.unwinder);
        let mut is_called = |position: usize| {
            let [callee, caller] = [frames[position - 1], frames[position]];
            // Guesses were checked when they were made.
            let is_judged = matches!(caller.by, By::Tables | By::Start | By::Proven);
            let begins = position + 1 == frames.len();
            let callee = callee.lookup();
            let call = (space, callee, caller.address, begins);
            if !is_judged {
                return true;
            }
            if let Some(known) = checked.get(&call) {
                return *known;
            }
            let is_possible = code.edge(caller.address, callee, begins) != Edge::Impossible
                && !code.goes_to_handler(&frames[position - 1], unwinder);
            checked.insert(call, is_possible);
            is_possible
        };
        (1..frames.len()).find(|position| !is_called(*position)).unwrap_or(frames.len())
    }

    /// Stores a repaired stack, as far as its part of the walk is known to be right.
    fn keep(&mut self, sample: &Sample, code: &SpaceCode<'_>, believed: Believed<'_>) -> Option<()> {
        let Believed { frames, runs, end, walk, walk_end, choice, is_behind_mark, next } = believed;
        let (unwound, rest, stack_end) = match choice {
            Choice::Walk if end == End::Root => (frames.len(), &[][..], WalkEnd::UNWOUND),
            Choice::Walk => (frames.len(), &walk.frames[frames.len().min(walk.frames.len())..], walk_end),
            Choice::Other { unwound, walked, end } => (unwound, walked, end),
        };
        let is_marked = is_behind_mark && !rest.is_empty();
        let last = frames[..unwound].last()?;
        let mut carried = Carried::from(last, is_marked, code);
        carried.follow(rest, stack_end, walk, &mut self.kept, self.unwinder);
        let Carried { count, is_linked, passes_signal, guesses, has_begun, .. } = carried;
        let is_cut = count < rest.len() || !has_begun;
        let mut stack_end = if is_cut { ended(end) } else { stack_end };
        let mut callers = Vec::new();
        if !is_cut
            && stack_end == WalkEnd::NOT_MONOTONIC
            && let Some(end) = next.and_then(|next| self.callbacks(sample, (code, walk, next), &mut callers))
        {
            stack_end = end;
        }
        let is_suspect = match choice {
            // Unwinding confirms the walk.
            Choice::Walk if end == End::Root => Some(false),
            Choice::Other { .. } if end == End::Root => None,
            // No walk shows the function that a signal interrupted.
            _ if passes_signal && count > 0 => Some(true),
            _ => is_linked.then_some(false),
        };
        let runs = &runs[..unwound];
        let is_kept = choice == Choice::Walk
            && !is_cut
            && guesses.is_empty()
            && callers.is_empty()
            && runs.iter().all(Option::is_none);
        let other = (!is_kept).then(|| {
            let outer = rest[..count].iter().enumerate().rev().map(|(position, frame)| {
                let is_guess = guesses.contains(&position);
                (frame.location, if is_guess { frame.mark.with(Mark::GUESSED) } else { frame.mark })
            });
            let framed = code.framed(frames);
            // What a frame runs comes right behind it.
            let inner = framed[..unwound].iter().zip(runs).rev();
            let inner = inner.flat_map(|(frame, runs)| [Some(*frame), *runs]).flatten();
            let callers = callers.into_iter().rev();
            self.done.grown.add(0, callers.chain(outer).chain(inner), &mut self.path);
            self.path.last().map(|node| (*node, stack_end))
        });
        let repair = if is_kept { StackRepair::KEPT } else { StackRepair::REPLACED }.judged(is_suspect);
        let (snapshot, other) = (sample.snapshot, other.flatten());
        self.done.stacks.push(Stack { snapshot, other, repair, differs: None });
        Some(())
    }

    /// Continues a stack where C has called Go. The sampler took each stack of C as a snapshot of its own: this unwinds it, and appends
    /// the part of the walk that follows. Returns how the stack ends; `None` if it found no caller.
    fn callbacks(
        &mut self,
        sample: &Sample,
        (code, walk, mut next): (&SpaceCode<'_>, &Walk, usize),
        callers: &mut Vec<Framed>,
    ) -> Option<WalkEnd> {
        let (held, mut found) = (&self.selection.tables.held, None);
        while let Some(number) = walk.callback(next) {
            let id = sample.snapshot.checked_add(1 + number as u32)?;
            let Some(snapshot) = held.snapshots.find(id).filter(|outer| outer.is_outer()) else { break };
            let memory = Memory::new(held, snapshot, code)?;
            let registers = memory.registers(self.tables.machine(), memory.program_counter()?, false);
            let mut frames = Vec::new();
            let end = self.unwinder.unwind(registers, &memory, code, &mut frames);
            callers.extend(code.framed(&frames));
            found = Some(ended(end));
            let Some(part) =
                frames.last().filter(|last| self.goes_over(code, last)).and_then(|_| walk.part(next))
            else {
                break;
            };
            callers.extend(part.frames.iter().map(|frame| (frame.location, frame.mark)));
            (found, next) = (Some(part.end), part.next_part);
        }
        found
    }

    /// Returns true if a function switches to another stack at this point.
    fn goes_over(&mut self, code: &SpaceCode<'_>, frame: &Frame) -> bool {
        code.find(frame.lookup())
            .is_some_and(|place| self.unwinder.going_on(&place) == Some(GoingOn::Elsewhere))
    }

    /// Returns the result for all samples.
    pub(super) fn done(self) -> Done {
        self.done
    }
}
