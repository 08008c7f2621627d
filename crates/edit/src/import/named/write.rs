//! Writes a profile as rows.
//!
//! A report must not look for a file to name code that the profile has named. So each such place has an offset that no file has, in an
//! image that is no file:
//!
//! | place | its image | its offset |
//! |---|---|---|
//! | with functions | special | 2⁶² + 2 × position |
//! | without functions, in a file with a build-id | that file | as in the file: a report names it by files with this build-id |
//! | without functions, else | special | as the profile tells it |
//! | of the kernel | none | an address of a symbol that the recording has |
//!
//! A stack of more frames than a recording keeps loses outermost ones. It begins at a depth that is a multiple of half as many frames, so
//! that deep stacks still share their callers.

use icecore_format::block::Processes;
use icecore_format::limits::MAX_FRAMES;
use icecore_format::records::{
    Basis, Cause, Change, EndReason, Image, ImageKind, ImagesV1, KernelSymbol, KernelSymbolsV1, Lifecycle,
    LifecycleV1, Location, Loss, LossesV1, NamesV1, Node, ReceiptV1, Sample, SamplesV1, SessionV1,
    StackRepair, StacksV1, StringsV1, Task, TasksV1, WalkEnd,
};
use icecore_format::write::Writer;
use icecore_profile::map::{Interned, Map};
use icecore_profile::named::found::Draft;
use icecore_symbolize::image::FileOff;
use icecore_symbolize::{Answer, Function, Origin};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::ids::{Ids, append};
use super::profile::{NamedFn, NamedPlace, NamedSample, Profile, Thread};
use crate::Error;

/// Rows per block.
const ROWS: usize = 32 << 10;
/// Bytes of text per block.
const TEXT_BYTES: usize = 1 << 20;
/// The longest time of one block.
const SPAN_NS: u64 = 2_000_000_000;
/// Where offsets of named places begin: no file is that large.
const NAMED: u64 = 1 << 62;
/// Where addresses of the kernel's named functions begin: none of them is real.
const KERNEL: u64 = 1 << 63;
/// The distance of two of them.
const KERNEL_STEP: u64 = 16;
/// The depth at which a stack that is too deep may begin, or a multiple of it.
const HALF: u32 = MAX_FRAMES / 2;

/// Writes a profile; reports progress to `tick`. `changed_unix_ns` is when its file was last changed.
pub(super) fn write(
    profile: &Profile,
    writer: &mut Writer,
    changed_unix_ns: u64,
    tick: &dyn Fn(u64),
) -> Result<(), Error> {
    let mut order: Vec<&NamedSample> = profile.samples.iter().collect();
    order.sort_by_key(|sample| sample.time_ns);
    let last_ns = order.last().map_or(0, |sample| sample.time_ns);
    let lasted_ns = profile.lasted_ns.unwrap_or(0).max(last_ns);
    let world = World::of(profile);
    append(writer, &session(profile, &world, lasted_ns, changed_unix_ns))?;
    world.write(profile, writer)?;
    let mut rows = Rows::new(profile, &world);
    rows.write(&order, writer, tick)?;
    let losses: &[Loss] = match profile.lost {
        0 => &[],
        lost => {
            &[Loss { time_ns: profile.start_ns, cpu: u32::MAX, ..Loss::of(Cause::RING_FULL_SAMPLE, lost) }]
        }
    };
    append(writer, &LossesV1::from_rows(losses))?;
    append(
        writer,
        &ReceiptV1 {
            end_ns: profile.start_ns.saturating_add(lasted_ns),
            end_reason: EndReason::IMPORTED,
            exit_code: -1,
            samples: order.len() as u64,
            lost: profile.lost,
            file_bytes: writer.len_bytes(),
            ..ReceiptV1::default()
        },
    )
}

fn session(profile: &Profile, world: &World<'_>, lasted_ns: u64, changed_unix_ns: u64) -> SessionV1 {
    let mut notes = profile.notes.clone();
    let start_unix_ns = profile.start_unix_ns.unwrap_or_else(|| {
        notes.push(
            "the time of day is from the last change of the file: its format does not tell it".to_owned(),
        );
        changed_unix_ns.saturating_sub(lasted_ns)
    });
    // Without code of the kernel, it is unknown whether the kernel was sampled.
    let has_kernel = !world.kernel.is_empty();
    SessionV1 {
        recorder: profile.recorder.clone(),
        start_ns: profile.start_ns,
        start_unix_ns,
        page_bytes: 4096,
        events: profile.events.clone(),
        maker: profile.maker,
        user: has_kernel,
        kernel: has_kernel,
        notes,
        ..SessionV1::default()
    }
}

/// What places are in the recording.
struct World<'a> {
    places: Vec<&'a NamedPlace>,
    strings: Interned<Box<str>>,
    images: Interned<Image>,
    /// Functions of the kernel: their name and their image, texts.
    kernel: Interned<(u32, u32)>,
    /// By place: an image id, and an offset; `None` if only an address is known.
    spots: Vec<Option<(u32, u64)>>,
    /// By place of the kernel: an address.
    addresses: Map<u32, u64>,
}

impl<'a> World<'a> {
    fn of(profile: &'a Profile) -> Self {
        let mut world = Self {
            places: profile.places.iter().collect(),
            strings: Interned::new(),
            images: Interned::new(),
            kernel: Interned::new(),
            spots: Vec::new(),
            addresses: Map::default(),
        };
        let texts: Vec<&str> = profile.texts.iter().map(|text| &**text).collect();
        let images: Vec<_> = profile.images.iter().collect();
        let functions: Vec<&NamedFn> = profile.functions.iter().collect();
        for (position, place) in (0..).zip(profile.places.iter()) {
            let image = place.image.map(|image| images[image as usize]);
            let path = image.map_or(0, |image| image.path);
            let build_id = image.map_or(&[][..], |image| &image.build_id);
            if place.is_kernel {
                let address = match place.frames.first() {
                    Some((function, _)) => {
                        let key = (functions[*function as usize].name, path);
                        KERNEL + KERNEL_STEP * u64::from(world.kernel.intern(key))
                    }
                    None => place.address,
                };
                world.addresses.insert(position, address);
            }
            let spot = match place.frames.is_empty() {
                false => Some((ImageKind::SPECIAL, &[][..], NAMED + 2 * u64::from(position))),
                true if image.is_none() || place.address >= NAMED => None,
                true if build_id.is_empty() => Some((ImageKind::SPECIAL, build_id, place.address)),
                true => Some((ImageKind::FILE, build_id, place.address)),
            };
            let spot = spot.map(|(kind, build_id, off)| {
                let (path, build_id) = (world.string(texts[path as usize]), build_id.to_vec());
                let image =
                    Image { kind, path, build_id, dev: 0, inode: 0, size_bytes: 0, modified_unix_ns: 0 };
                (world.images.intern(image), off)
            });
            world.spots.push(spot);
        }
        for (name, path) in world.kernel.iter().copied().collect::<Vec<_>>() {
            for text in [name, path] {
                world.string(texts[text as usize]);
            }
        }
        for thread in profile.threads.iter() {
            for text in [thread.name, thread.process] {
                world.string(texts[text as usize]);
            }
        }
        world
    }

    /// Returns the id of a string.
    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() { 0 } else { self.strings.intern(text.into()) + 1 }
    }

    /// Writes what samples refer to.
    fn write(&self, profile: &Profile, writer: &mut Writer) -> Result<(), Error> {
        let (mut first, mut block, mut bytes) = (1, Vec::new(), 0);
        for text in self.strings.iter() {
            if bytes + text.len() > TEXT_BYTES || block.len() == ROWS {
                append(writer, &StringsV1::from_rows(first, &block))?;
                (first, bytes) = (first + block.len() as u32, 0);
                block.clear();
            }
            bytes += text.len();
            block.push(text.as_bytes());
        }
        append(writer, &StringsV1::from_rows(first, &block))?;
        let images: Vec<Image> = self.images.iter().cloned().collect();
        for (number, rows) in (0..).zip(images.chunks(ROWS)) {
            append(writer, &ImagesV1::from_rows(number * ROWS as u32, rows))?;
        }
        let texts: Vec<&str> = profile.texts.iter().map(|text| &**text).collect();
        let id = |text: u32| match texts[text as usize] {
            "" => 0,
            text => self.strings.find(&Box::from(text)).map_or(0, |position| position + 1),
        };
        let processes = profile.threads.iter().filter(|thread| thread.process != 0 && thread.tgid != 0);
        let processes: BTreeMap<u32, u32> =
            processes.map(|thread| (thread.tgid, id(thread.process))).collect();
        let found = |(tgid, comm): (u32, u32)| Lifecycle {
            time_ns: profile.start_ns,
            change: Change::FOUND,
            tgid,
            tid: tgid,
            parent_tgid: 0,
            comm,
        };
        let found: Vec<Lifecycle> = processes.into_iter().map(found).collect();
        found.chunks(ROWS).try_for_each(|rows| append(writer, &LifecycleV1::from_rows(rows)))?;
        let symbol = |(at, (name, path)): (u64, &(u32, u32))| {
            let start = KERNEL + KERNEL_STEP * at;
            let is_module = !texts[*path as usize].starts_with("[kernel");
            let module = if is_module { id(*path) } else { 0 };
            KernelSymbol { start, end: start + KERNEL_STEP, name: id(*name), module }
        };
        let symbols: Vec<KernelSymbol> = (0..).zip(self.kernel.iter()).map(symbol).collect();
        symbols.chunks(ROWS).try_for_each(|rows| append(writer, &KernelSymbolsV1::from_rows(rows)))?;
        self.names(profile, writer)
    }

    /// Writes the functions of all places that have some.
    fn names(&self, profile: &Profile, writer: &mut Writer) -> Result<(), Error> {
        let texts: Vec<Arc<str>> = profile.texts.iter().map(|text| Arc::from(&**text)).collect();
        let text = |text: u32| (text > 0).then(|| texts[text as usize].clone());
        let function = |it: &NamedFn| {
            let declared = text(it.file).map(|file| (file, it.line));
            let origin = Arc::new(Origin { symbol: text(it.symbol), declared, ..Origin::default() });
            Function { origin, file: text(it.file), ..Function::new(texts[it.name as usize].clone()) }
        };
        let functions: Vec<Function> = profile.functions.iter().map(function).collect();
        let mut draft = Draft::default();
        let mut flush = |draft: &mut Draft| match draft.take() {
            Some(table) => append(writer, &NamesV1::from_table(&table)),
            None => Ok(()),
        };
        for (place, spot) in self.places.iter().zip(&self.spots) {
            let Some((image, off)) = spot.filter(|_| !place.frames.is_empty()) else { continue };
            let frame = |(function, line): &(u32, u32)| {
                let line = Some(*line).filter(|line| *line > 0);
                Function { line, ..functions[*function as usize].clone() }
            };
            draft.answer(image, FileOff(off), &Answer::Named(place.frames.iter().map(frame).collect()));
            if draft.is_full() {
                flush(&mut draft)?;
            }
        }
        flush(&mut draft)
    }
}

/// The side of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    User,
    Kernel,
}

/// Converts samples to rows.
struct Rows<'a> {
    world: &'a World<'a>,
    profile: &'a Profile,
    /// The caller of each stack, a position + 1, and its place.
    stacks: Vec<(u32, u32)>,
    /// The number of frames of each stack.
    depths: Vec<u32>,
    /// The user stack of each stack, a position + 1: without the kernel's frames at its leaf.
    users: Vec<u32>,
    /// Nodes of callers, by stack, depth at which they begin, and side.
    callers: Map<(u32, u32, Side), u32>,
    nodes: Ids<Node>,
    tasks: Ids<Task>,
}

impl<'a> Rows<'a> {
    fn new(profile: &'a Profile, world: &'a World<'a>) -> Self {
        let stacks: Vec<(u32, u32)> = profile.stacks.iter().copied().collect();
        let (mut depths, mut users): (Vec<u32>, Vec<u32>) = Default::default();
        for (at, (caller, place)) in (1..).zip(&stacks) {
            let before = caller.checked_sub(1).map(|before| before as usize);
            depths.push(before.map_or(1, |before| depths[before] + 1));
            let is_kernel = world.places[*place as usize].is_kernel;
            users.push(if is_kernel { before.map_or(0, |before| users[before]) } else { at });
        }
        let (nodes, tasks) = (Ids::from(1), Ids::from(0));
        Self { world, profile, stacks, depths, users, callers: Map::default(), nodes, tasks }
    }

    fn write(
        &mut self,
        order: &[&NamedSample],
        writer: &mut Writer,
        tick: &dyn Fn(u64),
    ) -> Result<(), Error> {
        let mut basis = Basis { processes: Processes::NONE, ..Basis::default() };
        let texts: Vec<&str> = self.profile.texts.iter().map(|text| &**text).collect();
        let comm =
            |name: u32| self.world.strings.find(&Box::from(texts[name as usize])).map_or(0, |at| at + 1);
        let task = |it: &Thread| Task { tgid: it.tgid, tid: it.tid, comm: comm(it.name) };
        let threads: Vec<Task> = self.profile.threads.iter().map(task).collect();
        let is_near = |a: &&NamedSample, b: &&NamedSample| b.time_ns / SPAN_NS == a.time_ns / SPAN_NS;
        for near in order.chunk_by(is_near) {
            for chunk in near.chunks(ROWS) {
                let mut rows = Vec::with_capacity(chunk.len());
                for sample in chunk {
                    let task = threads[sample.thread as usize];
                    basis.processes = basis.processes.with(task.tgid);
                    let task = self.tasks.id(task).ok_or_else(no_ids)?;
                    rows.push(self.row(sample, task)?);
                }
                let (first, tasks) = self.tasks.take_new();
                append(writer, &TasksV1::from_rows(first, &tasks))?;
                let (first, nodes) = self.nodes.take_new();
                append(writer, &StacksV1::from_rows(first, &nodes)?)?;
                append(writer, &SamplesV1::from_rows(&rows, &basis)?)?;
                basis = Basis { newest_stack: self.nodes.newest(), processes: Processes::NONE, ..basis };
                tick(chunk.len() as u64);
            }
        }
        Ok(())
    }

    fn row(&mut self, sample: &NamedSample, task: u32) -> Result<Sample, Error> {
        let leaf = sample.stack;
        let user = leaf.checked_sub(1).map_or(0, |at| self.users[at as usize]);
        let begin = leaf
            .checked_sub(1)
            .map_or(0, |at| ((self.depths[at as usize] - 1) / HALF).saturating_sub(1) * HALF);
        let kernel_stack = if leaf == user { 0 } else { self.leaf(leaf, begin, Side::Kernel)? };
        let user_stack = self.leaf(user, begin, Side::User)?;
        let end = |stack| match stack {
            0 => WalkEnd::NONE,
            _ if begin > 0 => WalkEnd::DEPTH,
            _ => WalkEnd::UNSAID,
        };
        Ok(Sample {
            time_ns: self.profile.start_ns.saturating_add(sample.time_ns),
            cpu: 0,
            event: sample.event,
            user_end: end(user_stack),
            kernel_end: end(kernel_stack),
            task,
            user_stack,
            kernel_stack,
            weight: sample.weight,
            snapshot: 0,
            repair: StackRepair::NONE,
        })
    }

    /// Returns the node of a stack's innermost frame, 0 if no frame is deeper than `begin`.
    fn leaf(&mut self, stack: u32, begin: u32, side: Side) -> Result<u32, Error> {
        let Some((caller, place)) = self.frame(stack, begin, side) else { return Ok(0) };
        let parent = self.caller(caller, begin, side)?;
        let location = self.location(place, side, 0);
        self.nodes.id(Node { parent, location }).ok_or_else(no_ids)
    }

    /// Returns the node of a stack that has called another one.
    fn caller(&mut self, stack: u32, begin: u32, side: Side) -> Result<u32, Error> {
        let (mut at, mut todo, mut parent) = (stack, Vec::new(), 0);
        while let Some((caller, place)) = self.frame(at, begin, side) {
            if let Some(known) = self.callers.get(&(at, begin, side)) {
                parent = *known;
                break;
            }
            todo.push((at, place));
            at = caller;
        }
        for (at, place) in todo.into_iter().rev() {
            // A return address is the byte after the call.
            let location = self.location(place, side, 1);
            parent = self.nodes.id(Node { parent, location }).ok_or_else(no_ids)?;
            self.callers.insert((at, begin, side), parent);
        }
        Ok(parent)
    }

    /// Returns the caller and the place of a stack; `None` behind the outermost frame that is kept of this side.
    fn frame(&self, stack: u32, begin: u32, side: Side) -> Option<(u32, u32)> {
        let at = stack.checked_sub(1)? as usize;
        let (caller, place) = self.stacks[at];
        let is_other = side == Side::Kernel && !self.world.places[place as usize].is_kernel;
        (self.depths[at] > begin && !is_other).then_some((caller, place))
    }

    fn location(&self, place: u32, side: Side, add: u64) -> Location {
        let address = self.world.places[place as usize].address;
        match (side, self.world.spots[place as usize]) {
            (Side::Kernel, _) => {
                let address = self.world.addresses.get(&place).copied().unwrap_or(address);
                Location::Address(address.saturating_add(add))
            }
            (Side::User, Some((image, off))) => Location::Image { image, file_off: off + add },
            // Bit 62 marks functions that interpreters run.
            (Side::User, None) => Location::Address((address & !NAMED).saturating_add(add)),
        }
    }
}

fn no_ids() -> Error {
    Error::input("there are more distinct stacks than a recording has numbers for")
}
