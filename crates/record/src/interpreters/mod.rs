//! The functions that interpreters run, in the stacks of samples.
//!
//! ```text
//! files of images ─► python: where frames are ─► sampler, which sends the frames of a thread before its sample
//! frames ─► code: reads code objects in the memory of the process ─► rows of code, which name them
//! stack of machine frames + frames ─► merged stack
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `found` | the interpreter that a file holds |
//! | `list` | what the sampler must know to find its frames |
//! | `python`, `php`, `v8` | where those lie |
//! | `symbols` | what a file exports |
//! | `code` | a function that was hit |
//! | `objects` | the code objects of CPython |
//! | `counted` | which machine frames run which functions, where only their number tells |
//!
//! In a merged stack, the address of a function that an interpreter runs is that of its instruction (bytecode), with
//! [`Location::INTERPRETED`]. It comes right behind the machine frame that runs it:
//!
//! ```text
//! machine     _PyObject_Malloc                 _PyEval_EvalFrameDefault              main
//! merged      _PyObject_Malloc  dispatch main  _PyEval_EvalFrameDefault              main
//! ```

mod code;
mod counted;
mod found;
mod list;
mod objects;
mod php;
mod python;
mod symbols;
mod v8;

use icecore_elf::Avma;
use icecore_format::records::Location;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::foreign::Door;
use crate::foreign::memory::Memory;
use crate::kernel::wire::{self, INTERRUPTED, InterpretedFrame, Sample};
use crate::sys::clock;
use crate::track::jit::Made;
use crate::track::tracker::kept_ns;
use code::Found;
pub(crate) use found::Interpreter;
use found::Kind;
use icecore_format::records::Language;
use icecore_jit::Piece;

/// The most processes, and the most bytes of functions of all of them, that are remembered.
const MAX_PROCESSES: usize = 16 << 10;
const MAX_BYTES: usize = 128 << 20;
/// How many functions of processes that have ended are remembered until their samples are settled.
const MAX_RECENT: usize = 64 << 10;
/// How many of a process are remembered that were gone.
const MAX_GONE: usize = 256;
/// What one takes besides its name and its lines, about.
const KNOWN_BYTES: usize = 256;
/// The part of the time of a recording that reading functions may take, and what it may take besides.
const PART: u32 = 5;
const AT_FIRST: Duration = Duration::from_secs(1);

/// The code that interpreters run, as far as samples hit it.
#[derive(Debug)]
pub(crate) struct Interpreters {
    /// The last frames from each buffer of the sampler.
    held: FxHashMap<u32, Held>,
    processes: FxHashMap<u32, Process>,
    /// Of all processes.
    bytes: usize,
    /// Rows of processes that were forgotten.
    rows: Vec<Made>,
    /// The same rows until all samples of these processes are settled, each with the time of the last one: the file may end before.
    recent: Vec<(u64, Made)>,
    /// How many files came before the one that is written.
    file: u32,
    started: Instant,
    took: Duration,
    scripts: v8::Scripts,
    /// The stack that was merged last, words as in a sample.
    merged: Vec<u8>,
}

/// What is shown of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// The function at this address, of a program or of the interpreter.
    Function(u64),
    Builtin(u64),
    /// A function whose code is gone.
    Gone,
    /// No function.
    Nothing,
}

impl Shown {
    /// Returns the address in a stack.
    fn address(self) -> Option<u64> {
        match self {
            Self::Function(address) | Self::Builtin(address) => Some(address | Location::INTERPRETED),
            Self::Gone => Some(Location::INTERPRETED),
            Self::Nothing => None,
        }
    }
}

#[derive(Debug, Default)]
struct Held {
    number: u64,
    /// They come to the outermost one.
    is_whole: bool,
    frames: Vec<InterpretedFrame>,
}

#[derive(Debug, Default)]
struct Process {
    language: Language,
    /// How long reading its code took.
    took: Duration,
    /// Code that was gone, by its address and check, and when that was seen: for samples from before it is gone.
    gone: FxHashMap<(u64, u32), u64>,
    /// The type of its code objects.
    code_type: Option<u64>,
    codes: FxHashMap<u64, Known>,
    /// Their addresses by that of their first instruction: they lie apart.
    by_start: BTreeMap<u64, u64>,
    /// The addresses of code objects whose rows were not taken yet, and the rows of those that others have replaced since.
    new: Vec<u64>,
    replaced: Vec<Piece>,
    /// The size of all that, and of `replaced` alone.
    bytes: usize,
    replaced_bytes: usize,
}

/// What lies at the address of a code object.
#[derive(Debug)]
struct Known {
    check: u32,
    since_ns: u64,
    /// The time of the last sample that hit it.
    seen_ns: u64,
    /// The file that has its row, or will have.
    file: u32,
    /// Its row was not taken yet.
    is_new: bool,
    /// `None` if programs have no such function.
    code: Option<code::Code>,
}

impl Interpreters {
    pub(crate) fn new() -> Self {
        let (held, processes, bytes, rows, recent, file, scripts, merged) = Default::default();
        let (started, took) = (Instant::now(), Duration::ZERO);
        Self { held, processes, bytes, rows, recent, file, started, took, scripts, merged }
    }

    /// Keeps the frames of the next sample of a buffer.
    pub(crate) fn hold(&mut self, taken: &wire::Interpreted<'_>) {
        let held = self.held.entry(wire::buffer_of(taken.number)).or_default();
        held.number = taken.number;
        held.frames.clear();
        held.frames.extend(taken.frames());
        held.is_whole = taken.is_whole;
    }

    /// Forgets the code of a process that runs another program from now on, or has ended.
    pub(crate) fn forget(&mut self, tgid: u32) {
        if let Some(mut process) = self.processes.remove(&tgid) {
            self.bytes -= process.bytes;
            self.rows.extend(process.rows(tgid));
            for known in process.codes.into_values() {
                let row = known.row(process.language).map(|piece| (known.seen_ns, Made { tgid, piece }));
                self.recent.extend(row.filter(|_| self.recent.len() < MAX_RECENT));
            }
        }
        self.scripts.forget(tgid);
    }

    /// Begins another file, which has no sample from before a moment. Samples after that moment may have been merged already: the file gets
    /// the rows of their functions again.
    pub(crate) fn turn(&mut self, settled_ns: u64) {
        self.file += 1;
        let ended = self.recent.iter().filter(|(seen_ns, _)| *seen_ns > settled_ns);
        self.rows.extend(ended.map(|(_, made)| made.clone()));
        for process in self.processes.values_mut() {
            for (address, known) in &mut process.codes {
                if known.seen_ns > settled_ns {
                    known.tell(self.file, *address, &mut process.new);
                }
            }
        }
    }

    /// Returns a sample with the functions of the interpreter in its stack; `None` if it has none.
    pub(crate) fn merge<'a>(
        &'a mut self,
        sample: &Sample<'a>,
        interpreter: &Interpreter,
        door: &Door,
    ) -> Option<Sample<'a>> {
        let held = self.held.get_mut(&wire::buffer_of(sample.interpreted))?;
        if sample.interpreted == 0 || held.number != sample.interpreted {
            return None;
        }
        let is_whole = held.is_whole;
        let mut frames = std::mem::take(&mut held.frames);
        let (tgid, time_ns) = (sample.head.tgid, kept_ns(sample.head.time_ns));
        let machine = || sample.user.leaf_first().map(|address| address.0 & !INTERRUPTED);
        let eval = interpreter.eval();
        let shown: Vec<Shown> =
            frames.iter().map(|frame| self.shown(tgid, time_ns, frame, interpreter, door)).collect();
        if let Some(eval) = eval.filter(|_| is_whole) {
            counted::place(&mut frames, &shown, machine(), &eval);
        }
        let mut runs: Vec<(usize, &[Shown])> = Vec::new();
        let mut begin = 0;
        for (at, frame) in frames.iter().enumerate() {
            if frame.is_innermost {
                begin = at;
            }
            if frame.machine_frame > 0 {
                runs.push((frame.machine_frame, &shown[begin..=at]));
                begin = at + 1;
            }
        }
        // A thread may be in several interpreters.
        runs.sort_by_key(|(machine_frame, _)| *machine_frame);
        let mut runs = runs.into_iter().peekable();
        self.merged.clear();
        for (position, address) in (1..).zip(sample.user.leaf_first()) {
            let mut address = address.0;
            while let Some((_, functions)) = runs.next_if(|run| run.0 == position) {
                let addresses = functions.iter().filter_map(|shown| shown.address());
                addresses.for_each(|it| self.merged.extend(it.to_ne_bytes()));
                // It is not the leaf any more.
                if position == 1 && !self.merged.is_empty() {
                    address |= INTERRUPTED;
                }
            }
            self.merged.extend(address.to_ne_bytes());
        }
        Some(Sample { user: wire::Frames::from_bytes(&self.merged), ..*sample })
    }

    fn shown(
        &mut self,
        tgid: u32,
        time_ns: u64,
        frame: &InterpretedFrame,
        interpreter: &Interpreter,
        door: &Door,
    ) -> Shown {
        if frame.code == 0 {
            // A generator that delegates to others has no function where they stand.
            return if matches!(interpreter.kind, Kind::Php(_)) { Shown::Gone } else { Shown::Nothing };
        }
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&tgid) {
            return Shown::Gone;
        }
        let process = self.processes.entry(tgid).or_default();
        process.language = interpreter.language();
        let agrees =
            |code: &code::Code| !matches!(interpreter.kind, Kind::Php(_)) || php::agrees(code, frame);
        let known = process.codes.get(&frame.code).filter(|known| known.check == frame.check);
        let is_known = known.is_some_and(|known| known.code.as_ref().is_none_or(agrees));
        if !is_known {
            let seen = (frame.code, frame.check);
            if process.gone.get(&seen).is_some_and(|gone_ns| time_ns < *gone_ns) {
                return Shown::Gone;
            }
            let time = self.started.elapsed() / PART + AT_FIRST;
            let has_time = has_room(process.took.as_nanos(), self.took.as_nanos(), time.as_nanos());
            if !has_time || !has_room(process.bytes as u128, self.bytes as u128, MAX_BYTES as u128) {
                return Shown::Gone;
            }
            let (begun, begun_ns) = (Instant::now(), clock::monotonic_ns());
            let memory = Memory::of(tgid, door);
            let (at, check) = (frame.code, frame.check);
            let found = match &interpreter.kind {
                Kind::Python(offsets) => objects::read(&memory, offsets, at, check, &mut process.code_type),
                Kind::Php(offsets) => php::read(&memory, offsets, at, check),
                Kind::V8(offsets) => v8::read(&memory, offsets, &mut self.scripts, at, check),
            };
            let took = begun.elapsed();
            self.took += took;
            process.took += took;
            let code = match found {
                Found::Function(code) if agrees(&code) => Some(code),
                Found::Machinery => None,
                Found::Function(_) | Found::Gone => {
                    if process.gone.len() >= MAX_GONE {
                        process.gone.clear();
                    }
                    process.gone.insert(seen, begun_ns);
                    return Shown::Gone;
                }
            };
            let (check, file) = (frame.check, self.file);
            let known = Known { check, since_ns: time_ns, seen_ns: time_ns, file, is_new: true, code };
            self.bytes -= process.bytes;
            process.replace(frame.code, known);
            self.bytes += process.bytes;
        }
        let Some(known) = process.codes.get_mut(&frame.code) else { return Shown::Gone };
        known.seen_ns = known.seen_ns.max(time_ns);
        if time_ns < known.since_ns || known.file != self.file {
            // Samples of different CPUs do not come in the order of time.
            known.since_ns = known.since_ns.min(time_ns);
            known.tell(self.file, frame.code, &mut process.new);
        }
        let Some(code) = &known.code else { return Shown::Nothing };
        let instruction = match &interpreter.kind {
            Kind::Python(offsets) => objects::instruction(offsets, code, frame.instruction),
            Kind::Php(_) => php::instruction(code, frame),
            Kind::V8(_) => v8::instruction(code),
        };
        let address = instruction.clamp(code.place.start, code.place.end - 1);
        if code.is_builtin { Shown::Builtin(address) } else { Shown::Function(address) }
    }

    /// Takes rows of the code that was found since the last call. All samples up to a moment are settled.
    pub(crate) fn take_rows(&mut self, settled_ns: u64) -> Vec<Made> {
        self.recent.retain(|(seen_ns, _)| *seen_ns > settled_ns);
        let mut rows = std::mem::take(&mut self.rows);
        for (tgid, process) in &mut self.processes {
            self.bytes -= process.bytes;
            rows.extend(process.rows(*tgid));
            self.bytes += process.bytes;
        }
        rows
    }
}

/// Returns true if one of many may take more: half of what the others leave, so that there is room for each that comes.
fn has_room(own: u128, all: u128, most: u128) -> bool {
    own.saturating_mul(2) < most.saturating_sub(all.saturating_sub(own))
}

impl Process {
    /// Takes rows of the code that was found since the last call.
    fn rows(&mut self, tgid: u32) -> Vec<Made> {
        let mut pieces = std::mem::take(&mut self.replaced);
        self.bytes -= std::mem::take(&mut self.replaced_bytes);
        for address in std::mem::take(&mut self.new) {
            pieces.extend(self.codes.get_mut(&address).and_then(|known| known.take_row(self.language)));
        }
        pieces.into_iter().map(|piece| Made { tgid, piece }).collect()
    }

    /// Notes what lies at the address of a code object from now on; whatever it covers is no more.
    fn replace(&mut self, address: u64, known: Known) {
        self.remove(address);
        if let Some(code) = &known.code {
            while let Some((start, other)) =
                self.by_start.range(..code.place.end).next_back().map(|it| (*it.0, *it.1))
                && self.end_of(other).is_some_and(|end| end > code.place.start)
            {
                self.by_start.remove(&start);
                self.remove(other);
            }
            self.by_start.insert(code.place.start, address);
        }
        self.new.push(address);
        self.bytes += known.bytes();
        self.codes.insert(address, known);
    }

    fn end_of(&self, address: u64) -> Option<u64> {
        self.codes.get(&address)?.code.as_ref().map(|code| code.place.end)
    }

    fn remove(&mut self, address: u64) {
        let Some(mut known) = self.codes.remove(&address) else { return };
        if let Some(code) = &known.code {
            self.by_start.remove(&code.place.start);
        }
        match known.take_row(self.language) {
            Some(row) => {
                self.replaced.push(row);
                self.replaced_bytes += known.bytes();
            }
            None => self.bytes -= known.bytes(),
        }
    }
}

impl Known {
    /// How much memory it takes.
    fn bytes(&self) -> usize {
        let of_code = |code: &code::Code| {
            let file = code.lines.first().map_or(0, |line| line.file.len());
            code.name.len() + file + size_of_val(&code.lines[..])
        };
        KNOWN_BYTES + self.code.as_ref().map_or(0, of_code)
    }

    /// Has its row written into a file. It is the function at an address; `new` has those whose rows wait.
    fn tell(&mut self, file: u32, address: u64, new: &mut Vec<u64>) {
        (self.file, self.is_new) = (file, true);
        new.push(address);
    }

    /// Makes a row of it, if it is a function whose row was not taken.
    fn take_row(&mut self, language: Language) -> Option<Piece> {
        std::mem::take(&mut self.is_new).then(|| self.row(language)).flatten()
    }

    /// Makes a row of it, if it is a function.
    fn row(&self, language: Language) -> Option<Piece> {
        let code = self.code.as_ref()?;
        Some(Piece {
            start: Avma(code.place.start),
            end: Avma(code.place.end),
            since_ns: self.since_ns,
            name: code.name.clone(),
            lines: code.lines.clone(),
            language,
            ..Piece::default()
        })
    }
}

#[cfg(test)]
mod tests;
