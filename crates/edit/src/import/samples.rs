//! Converts samples with their stacks to rows, in the order of time.

use icecore_elf::{Avma, Machine};
use icecore_format::block::Processes;
use icecore_format::limits::MAX_FRAMES;
use icecore_format::records::{
    Basis, JitV1, KernelSymbolsV1, Location, Node, Sample, SamplesV1, StackRepair, StacksV1, StringsV1, Task,
    TasksV1, WaitsV1, WalkEnd,
};
use icecore_format::write::Writer;
use icecore_jit::DumpClock;
use icecore_symbolize::image::Door;

use super::code::Code;
use super::ids::{Ids, append};
use super::jit::{Dumps, Made, RecordedAt};
use super::kernel::{KernelFunctions, KernelHits};
use super::perf_data::{Attr, PerfData, PerfSample};
use super::registers;
use super::snapshots::Snapshots;
use super::switches::Switches;
use super::world::{ThreadNames, World};
use crate::Error;
use icecore_profile::map::Interned;
use icecore_profile::recording::spaces::SpaceId;

/// Samples per block.
const ROWS: usize = 32 << 10;
/// The longest time of one block: unwinding searches a few blocks for the rest of a stack that was not fully copied
/// (docs/UNWINDING.md).
const SPAN_NS: u64 = 2_000_000_000;
/// The most events; the last one represents all further ones.
pub(super) const MAX_EVENTS: usize = 256;

/// What became of the samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) samples: u64,
    /// Samples with registers and stack.
    pub(super) snapshots: u64,
    /// Samples whose records are too short.
    pub(super) too_short: u64,
    /// Samples that hit in a guest or a hypervisor.
    pub(super) guest: u64,
    /// Samples with the registers of a 32-bit program.
    pub(super) narrow: u64,
    /// Samples whose user side was to be recorded later, and was not.
    pub(super) unfinished: u64,
    /// Samples with branches that the CPU recorded.
    pub(super) branches: u64,
}

/// Converts samples to rows.
pub(super) struct Samples<'a> {
    data: &'a PerfData,
    world: &'a World,
    machine: Option<Machine>,
    names: ThreadNames<'a>,
    code: Code<'a>,
    tasks: Ids<Task>,
    nodes: Ids<Node>,
    /// `None`: the stacks of this machine cannot be unwound.
    snapshots: Option<Snapshots>,
    made: Made,
    waiting: Vec<Sample>,
    basis: Basis,
    /// Kernel code that perf recorded and that was hit, by position.
    kernel_hits: Vec<bool>,
    /// All addresses of the kernel, and the code that may lie there.
    hit: KernelHits,
    functions: &'a KernelFunctions,
    switches: Switches,
    kernel: Vec<Avma>,
    user: Vec<Avma>,
    counts: Counts,
}

impl<'a> Samples<'a> {
    pub(super) fn new(
        data: &'a PerfData,
        world: &'a World,
        functions: &'a KernelFunctions,
        switches: Switches,
    ) -> Self {
        let machine = registers::machine(&data.features.arch);
        let attr = data.attrs.first();
        let period_ns = attr.filter(|attr| attr.unit() == "ns").map_or(0, Attr::usual_weight);
        Self {
            data,
            world,
            machine,
            names: ThreadNames::new(world),
            code: Code::new(&world.spaces, &world.images),
            tasks: Ids::from(0),
            nodes: Ids::from(1),
            snapshots: machine.map(Snapshots::new),
            made: Made::default(),
            waiting: Vec::new(),
            basis: Basis {
                unit_ns: switches.unit_ns(),
                period_ns,
                processes: Processes::NONE,
                ..Basis::default()
            },
            kernel_hits: vec![false; world.kernel_symbols.len()],
            hit: KernelHits::default(),
            functions,
            switches,
            kernel: Vec::new(),
            user: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Writes all samples and the rows that they need; reports progress to `tick`.
    ///
    /// # Errors
    /// If reading or writing fails, or no ids are left.
    pub(super) fn write(
        mut self,
        writer: &mut Writer,
        when: RecordedAt<'_>,
        door: &Door,
        tick: &dyn Fn(u64),
    ) -> Result<Counts, Error> {
        let (mut buffer, mut later, mut told) = (Vec::new(), Vec::new(), 0_u64);
        for (done, at) in (0..).zip(&self.data.samples) {
            let time_ns = at.time_ns.max(self.world.span_ns.0);
            let is_full = self.waiting.first().is_some_and(|first| time_ns - first.time_ns > SPAN_NS);
            if is_full || self.waiting.len() >= ROWS {
                self.flush(writer)?;
                tick(done - std::mem::replace(&mut told, done));
            }
            match self.data.sample(*at, &mut buffer)? {
                Some(sample) => self.sample(time_ns, at.attr, &sample, &mut later)?,
                None => self.counts.too_short += 1,
            }
        }
        for (tgid, waited) in self.switches.close(self.world.span_ns.1) {
            if self.waiting.len() >= ROWS {
                self.flush(writer)?;
            }
            self.basis.processes = self.basis.processes.with(tgid);
            self.counts.samples += 1;
            self.waiting.push(waited);
        }
        self.flush(writer)?;
        let symbols = self.world.kernel_symbols.iter().zip(&self.kernel_hits);
        let symbols: Vec<_> = symbols.filter_map(|(symbol, is_hit)| is_hit.then_some(*symbol)).collect();
        let mut texts: Interned<Vec<u8>> = Interned::new();
        let first = self.world.strings.len() as u32 + 1;
        let mut string = |text: &[u8]| if text.is_empty() { 0 } else { first + texts.intern(text.to_vec()) };
        let named = self.functions.rows(&self.hit, &self.world.kernel_symbols, &mut string);
        let is_monotonic = self.data.events().all(Attr::is_monotonic);
        let clock = DumpClock { ahead_ns: is_monotonic.then_some(0), ..DumpClock::SHARED };
        let made = self.made.pieces(when, &Dumps::new(self.world, door, clock));
        let made: Vec<_> = made.iter().map(|(tgid, piece)| piece.row(*tgid, &mut string)).collect();
        append(writer, &StringsV1::from_rows(first, &texts.into_items()))?;
        append(writer, &KernelSymbolsV1::from_rows(&[symbols, named].concat()))?;
        append(writer, &JitV1::from_rows(&made))?;
        Ok(self.counts)
    }

    fn sample(
        &mut self,
        time_ns: u64,
        number: u32,
        sample: &PerfSample<'_>,
        later: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let attr = &self.data.attrs[number as usize];
        let (mut kernel, mut user) = (std::mem::take(&mut self.kernel), std::mem::take(&mut self.user));
        let deferred = sample.sides(&mut kernel, &mut user);
        let came = deferred.map(|cookie| self.data.deferred(sample.tid, cookie, later)).transpose()?;
        let is_all = !matches!(came, Some(None));
        came.flatten().into_iter().for_each(|came| came.side(&mut user));
        let pc = sample
            .registers
            .zip(self.machine)
            .and_then(|(registers, machine)| registers::program_counter(machine, registers));
        let is_chain = attr.has_chains() && !user.is_empty() && sample.stack.is_empty();
        if let Some(pc) = pc.filter(|_| user.is_empty()) {
            user.push(pc);
        }
        if kernel.is_empty() && user.is_empty() {
            self.counts.guest += 1;
        } else {
            let space = self.world.spaces.space(sample.tgid, time_ns);
            let kernel_end = self.kernel_end(attr, &kernel);
            let kernel_stack = self.stack(&kernel, |_, address, _| Location::Address(address.0))?;
            let user_stack =
                self.stack(&user, |code, address, is_leaf| located(code, space, address, is_leaf))?;
            // The kernel does not say why its walk ended; a copied stack is not unwound yet.
            let is_unsaid = !user.is_empty() && (is_chain || attr.stack_bytes > 0);
            let user_end = match () {
                () if is_too_long(&user) => WalkEnd::DEPTH,
                () if !is_all => WalkEnd::UNREADABLE,
                () if is_unsaid => WalkEnd::UNSAID,
                () => WalkEnd::NONE,
            };
            let snapshots = self.snapshots.as_mut().filter(|_| user_stack != 0);
            let snapshot =
                snapshots.zip(space).and_then(|(to, space)| to.note(sample, space, &mut self.code));
            self.made.note(sample.tgid, self.code.take_nameless());
            self.count(sample, snapshot, is_all);
            let task = Task { tgid: sample.tgid, tid: sample.tid, comm: self.names.at(sample.tid, time_ns) };
            self.basis.processes = self.basis.processes.with(task.tgid);
            let row = Sample {
                time_ns,
                cpu: sample.cpu.unwrap_or(0).min(u32::from(u16::MAX)) as u16,
                event: self.data.event(number).min(MAX_EVENTS - 1) as u8,
                user_end,
                kernel_end,
                task: self.tasks.id(task).ok_or_else(no_ids)?,
                user_stack,
                kernel_stack,
                weight: sample.period.unwrap_or_else(|| attr.usual_weight()),
                snapshot: snapshot.unwrap_or(0),
                repair: StackRepair::NONE,
            };
            self.waiting.push(row);
            let switch = self.switches.switch(self.data, number, sample);
            let waited =
                switch.and_then(|switch| self.switches.note(switch, (sample.tgid, sample.tid), &row));
            if let Some((tgid, waited)) = waited {
                self.basis.processes = self.basis.processes.with(tgid);
                self.counts.samples += 1;
                self.waiting.push(waited);
            }
        }
        (self.kernel, self.user) = (kernel, user);
        Ok(())
    }

    fn count(&mut self, sample: &PerfSample<'_>, snapshot: Option<u32>, is_all: bool) {
        self.counts.samples += 1;
        self.counts.snapshots += u64::from(snapshot.is_some());
        self.counts.unfinished += u64::from(!is_all);
        self.counts.branches += u64::from(sample.branches > 0);
        self.counts.narrow += u64::from(sample.registers.is_some_and(|registers| !registers.is_64));
    }

    /// Returns the end of a kernel walk, which the kernel does not state. Notes which of its code was hit.
    fn kernel_end(&mut self, attr: &Attr, leaf_first: &[Avma]) -> WalkEnd {
        self.hit.note(leaf_first);
        for Avma(address) in leaf_first {
            let symbols = &self.world.kernel_symbols;
            let position = symbols.partition_point(|symbol| symbol.start <= *address);
            if let Some(hit) = position.checked_sub(1).filter(|at| *address <= symbols[*at].end) {
                self.kernel_hits[hit] = true;
            }
        }
        match () {
            () if is_too_long(leaf_first) => WalkEnd::DEPTH,
            () if leaf_first.is_empty() || !attr.has_chains() => WalkEnd::NONE,
            () => WalkEnd::UNSAID,
        }
    }

    /// Returns the id of a stack, 0 if it is empty. Of one that is too long, the outermost frames are left out.
    fn stack(
        &mut self,
        leaf_first: &[Avma],
        locate: impl Fn(&mut Code<'_>, Avma, bool) -> Location,
    ) -> Result<u32, Error> {
        let mut parent = 0;
        for (at, address) in leaf_first.iter().enumerate().take(MAX_FRAMES as usize).rev() {
            let location = locate(&mut self.code, *address, at == 0);
            parent = self.nodes.id(Node { parent, location }).ok_or_else(no_ids)?;
        }
        Ok(parent)
    }

    fn flush(&mut self, writer: &mut Writer) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.waiting);
        let (first, tasks) = self.tasks.take_new();
        append(writer, &TasksV1::from_rows(first, &tasks))?;
        let (first, nodes) = self.nodes.take_new();
        append(writer, &StacksV1::from_rows(first, &nodes)?)?;
        if let Some(snapshots) = &mut self.snapshots {
            snapshots.write(writer)?;
        }
        append(writer, &SamplesV1::from_rows(&rows, &self.basis)?)?;
        append(writer, &WaitsV1::from_rows(&self.switches.take()))?;
        self.basis = Basis { newest_stack: self.nodes.newest(), processes: Processes::NONE, ..self.basis };
        Ok(())
    }
}

/// Returns true if a stack has more frames than a recording keeps.
fn is_too_long(leaf_first: &[Avma]) -> bool {
    leaf_first.len() > MAX_FRAMES as usize
}

/// Finds the code of a frame. An unmapped address stays as it is, because some mappings may be unknown.
fn located(code: &mut Code<'_>, space: Option<SpaceId>, address: Avma, is_leaf: bool) -> Location {
    let found =
        space.and_then(|space| if is_leaf { code.at(space, address) } else { code.before(space, address) });
    found.unwrap_or(Location::Address(address.0))
}

fn no_ids() -> Error {
    Error::input("there are more distinct stacks than a recording has numbers for")
}
