//! A sequence: packets that share numbers. What a sample refers to is in its packet if it is new.

use icecore_format::records::WalkEnd;
use icecore_profile::map::Interned;
use icecore_profile::recording::events::Meaning;
use icecore_profile::stacks::locate::CodeLocation;

use super::MONOTONIC;
use super::messages::{
    Callstack, Defaults, ExecutionContext, Frame, FrameKind, InternedData, InternedString, Mapping, Packet,
    SampleCounter, SampleUnit, StackSample, StackSampleDefaults, TaskContext,
};
use crate::exported::{Exported, ExportedEvent, ExportedSample, NO_STACK};

/// The first packet of a sequence, whose numbers begin anew.
const CLEARED: u32 = 1;
/// A packet that needs those before it.
const NEEDED: u32 = 2;

/// The modes of a CPU, as the format numbers them.
const USER: i32 = 1;
const KERNEL: i32 = 2;

/// A sequence.
pub(super) struct Sequence<'a> {
    of: &'a Exported<'a>,
    id: u32,
    machine: u32,
    /// What its first packet says.
    defaults: Option<Defaults>,
    names: Interned<&'a str>,
    /// Source files by their positions.
    sources: Interned<u32>,
    mappings: Interned<Mapped>,
    /// Frames by place, position of the frame, and whether it was guessed.
    frames: Interned<(u32, u32, bool)>,
    /// Stacks by their innermost sites.
    callstacks: Interned<u32>,
    /// Threads by process and id.
    tasks: Interned<(u32, u32)>,
    /// CPUs, and whether they were in the kernel.
    executions: Interned<(u16, bool)>,
}

/// The files of code that mappings show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mapped {
    /// A position in the locator's images.
    Image(u32),
    /// The kernel of a session, or a module of it: a position among the names of images.
    Kernel(u32, Option<u32>),
}

impl<'a> Sequence<'a> {
    /// Begins the sequence of an event of a machine, or that of all else.
    pub(super) fn new(of: &'a Exported<'a>, id: u32, machine: u32, event: Option<usize>) -> Self {
        let stack_sample = event.map(|event| StackSampleDefaults {
            source: "icecore".to_owned(),
            primary: Some(counter(&of.events[event])),
        });
        Self {
            of,
            id,
            machine,
            defaults: Some(Defaults { timestamp_clock: MONOTONIC, stack_sample }),
            names: Interned::new(),
            sources: Interned::new(),
            mappings: Interned::new(),
            frames: Interned::new(),
            callstacks: Interned::new(),
            tasks: Interned::new(),
            executions: Interned::new(),
        }
    }

    /// Makes the next packet.
    pub(super) fn packet(&mut self) -> Packet {
        let defaults = self.defaults.take();
        Packet {
            sequence: self.id,
            sequence_flags: if defaults.is_some() { CLEARED } else { NEEDED },
            defaults,
            machine: Some(self.machine).filter(|machine| *machine > 0),
            ..Packet::default()
        }
    }

    /// Makes the packet of a sample of an event.
    pub(super) fn sample(&mut self, sample: &ExportedSample<'_>, event: usize) -> Packet {
        let mut new = InternedData::default();
        let thread = self.of.thread(sample.row);
        let taken = sample.row.taken;
        // A thread that waits has no CPU.
        let is_wait = self.of.events[event].meaning == Meaning::Wait;
        let is_incomplete = taken.is_walked() && !taken.rooted;
        let message = StackSample {
            task: self.task((thread.tgid, thread.tid), &mut new),
            execution: if is_wait { 0 } else { self.execution(sample.moment.cpu, taken.in_kernel, &mut new) },
            callstack: self.callstack(sample.site, &mut new),
            unwind_error: if is_incomplete { incomplete(taken.end) } else { String::new() },
            weight: Some(sample.moment.weight),
        };
        Packet {
            timestamp: Some(sample.moment.time_ns),
            interned_data: (new != InternedData::default()).then_some(new),
            stack_sample: Some(message),
            ..self.packet()
        }
    }

    fn task(&mut self, (pid, tid): (u32, u32), new: &mut InternedData) -> u64 {
        let (iid, is_new) = interned(&mut self.tasks, (pid, tid));
        new.tasks.extend(is_new.then_some(TaskContext { iid, pid: Some(pid), tid: Some(tid) }));
        iid
    }

    fn execution(&mut self, cpu: u16, in_kernel: bool, new: &mut InternedData) -> u64 {
        let (iid, is_new) = interned(&mut self.executions, (cpu, in_kernel));
        let mode = if in_kernel { KERNEL } else { USER };
        new.executions.extend(is_new.then_some(ExecutionContext { iid, cpu: Some(cpu.into()), mode }));
        iid
    }

    fn callstack(&mut self, site: u32, new: &mut InternedData) -> u64 {
        let (iid, is_new) = interned(&mut self.callstacks, site);
        if is_new {
            let of = self.of;
            let mut frames: Vec<u64> = Vec::new();
            for (_, site) in of.walk(site) {
                let inlined = of.frames(site.place).iter();
                frames.extend(inlined.map(|frame| self.frame(site.place, *frame, site.guessed, new)));
            }
            if site == 0 {
                frames.push(self.no_stack(new));
            }
            frames.reverse();
            new.callstacks.push(Callstack { iid, frames });
        }
        iid
    }

    /// Returns the number of the frame of samples without a stack. Viewers drop samples without frames.
    fn no_stack(&mut self, new: &mut InternedData) -> u64 {
        let (iid, _) = interned(&mut self.frames, (u32::MAX, u32::MAX, false));
        let function_name = self.name(NO_STACK, new);
        new.frames.push(Frame { iid, function_name, ..Frame::default() });
        iid
    }

    fn frame(&mut self, place: u32, position: u32, guessed: bool, new: &mut InternedData) -> u64 {
        let (iid, is_new) = interned(&mut self.frames, (place, position, guessed));
        if !is_new {
            return iid;
        }
        let of = self.of;
        let (frame, function) = (of.frame(position), of.function(position));
        let (mapping, rel_pc) = match of.location(place) {
            CodeLocation::Image(image, off) => (self.mapping(Mapped::Image(image), new), Some(off.0)),
            CodeLocation::Kernel(part, address) => {
                (self.mapping(Mapped::Kernel(part, function.image), new), Some(address.0))
            }
            _ => (0, None),
        };
        let message = Frame {
            iid,
            function_name: self.name(&function.name, new),
            mapping,
            rel_pc,
            source_path: frame.file.map_or(0, |file| self.source(file, new)),
            line: frame.line.unwrap_or(0),
            kind: kind(family(of, place, position), frame.inlined, guessed),
        };
        new.frames.push(message);
        iid
    }

    fn name(&mut self, name: &'a str, new: &mut InternedData) -> u64 {
        let (iid, is_new) = interned(&mut self.names, name);
        new.function_names.extend(is_new.then(|| InternedString { iid, bytes: name.into() }));
        iid
    }

    fn source(&mut self, file: u32, new: &mut InternedData) -> u64 {
        let (iid, is_new) = interned(&mut self.sources, file);
        let path = &self.of.names().files[file as usize];
        new.source_paths.extend(is_new.then(|| InternedString { iid, bytes: path.as_bytes().into() }));
        iid
    }

    /// Returns the number of a mapping. Its path and build-id have the same one.
    fn mapping(&mut self, mapped: Mapped, new: &mut InternedData) -> u64 {
        let (iid, is_new) = interned(&mut self.mappings, mapped);
        if !is_new {
            return iid;
        }
        let of = self.of;
        let (path, build_id, end) = match mapped {
            Mapped::Image(image) => {
                let identity = &of.locator.images[image as usize];
                (&*identity.path, &identity.build_id[..], identity.size_bytes)
            }
            Mapped::Kernel(part, image) => {
                let path = image.map_or("[kernel]", |image| &of.names().images[image as usize].path);
                let session = &of.report.loaded.tables.parts.part(part).session;
                // A module has a build-id of its own.
                let build_id = if path == "[kernel]" { &session.kernel_build_id[..] } else { &[] };
                (path, build_id, u64::MAX)
            }
        };
        new.mapping_paths.push(InternedString { iid, bytes: path.into() });
        let has_build_id = !build_id.is_empty();
        new.build_ids.extend(has_build_id.then(|| InternedString { iid, bytes: build_id.into() }));
        new.mappings.push(Mapping {
            iid,
            build_id: if has_build_id { iid } else { 0 },
            end,
            path: vec![iid],
        });
        iid
    }
}

/// Returns the number of an item, from 1, and whether it is new.
fn interned<T: Eq + std::hash::Hash>(items: &mut Interned<T>, item: T) -> (u64, bool) {
    let before = items.len();
    let position = items.intern(item);
    (u64::from(position) + 1, items.len() > before)
}

/// Says that a stack is incomplete, and how its walk ended: `root` is a frame pointer of 0 that proves nothing.
fn incomplete(end: WalkEnd) -> String {
    format!("incomplete: the walk ended with {}", end.name())
}

/// Describes the weights of an event.
fn counter(event: &ExportedEvent) -> SampleCounter {
    let known = match &*event.unit {
        "nanoseconds" => 1,
        "cycles" => 2,
        "instructions" => 3,
        "bytes" => 4,
        "page-faults" => 5,
        "cache-misses" => 6,
        "cache-references" => 7,
        "branch-misses" => 8,
        "count" => 9,
        _ => 0,
    };
    let text = || SampleUnit::Text(event.unit.clone());
    let unit = if known > 0 { SampleUnit::Known(known) } else { text() };
    SampleCounter { name: event.name.clone(), unit: Some(unit) }
}

/// The kinds of frames, as the format numbers and names them.
const FAMILIES: [(i32, &str); 4] = [(1, "native"), (2, "kernel"), (3, "interpreted"), (4, "jit")];

/// Returns the kind of a frame, a position in [`FAMILIES`]; `None` if it is unknown.
fn family(of: &Exported<'_>, place: u32, position: u32) -> Option<usize> {
    match of.location(place) {
        CodeLocation::Kernel(..) => Some(1),
        _ if of.function(position).language.is_interpreted() => Some(2),
        CodeLocation::Jit(..) => Some(3),
        CodeLocation::Image(..) => Some(0),
        CodeLocation::Gone | CodeLocation::Unmapped | CodeLocation::Lost => None,
    }
}

/// Describes the kind of a frame. The format has no other place for what is special about it.
fn kind(family: Option<usize>, inlined: bool, guessed: bool) -> Option<FrameKind> {
    let family = family.map(|family| FAMILIES[family]);
    if !inlined && !guessed {
        return family.map(|(number, _)| FrameKind::Known(number));
    }
    let words = [guessed.then_some("guessed"), inlined.then_some("inlined"), family.map(|(_, name)| name)];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    Some(FrameKind::Text(words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::Amount;

    #[test]
    fn numbers_begin_at_1_and_stay() {
        let mut items = Interned::new();
        let numbers = ["a", "b", "a"].map(|item| interned(&mut items, item));
        assert_eq!(numbers, [(1, true), (2, true), (1, false)]);
    }

    #[test]
    fn what_is_special_about_a_frame_is_in_its_kind() {
        let text = |text: &str| Some(FrameKind::Text(text.to_owned()));
        assert_eq!(kind(Some(0), false, false), Some(FrameKind::Known(1)));
        assert_eq!(kind(None, false, false), None);
        assert_eq!(kind(Some(1), true, false), text("inlined kernel"));
        assert_eq!(kind(Some(0), true, true), text("guessed inlined native"));
        assert_eq!(kind(None, false, true), text("guessed"));
    }

    #[test]
    fn a_unit_that_the_format_does_not_know_stays_a_text() {
        let unit = |unit: &str| {
            let event = ExportedEvent {
                event: 0,
                name: "event".to_owned(),
                unit: unit.to_owned(),
                meaning: Meaning::Other,
                is_usual: true,
                period: 0,
                amount: Amount::default(),
            };
            counter(&event).unit
        };
        let known = ["nanoseconds", "cycles", "page-faults", "count"].map(unit);
        assert_eq!(known, [1, 2, 5, 9].map(|number| Some(SampleUnit::Known(number))));
        let texts = ["2^3 bytes", "branches"];
        assert_eq!(texts.map(unit), texts.map(|text| Some(SampleUnit::Text(text.to_owned()))));
    }
}
