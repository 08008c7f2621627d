//! The rows of one recording: what a report on all its samples says, for tables.

use std::collections::BTreeMap;

use icecore_analysis::counters::{Of, counted};
use icecore_analysis::quality::Quality;
use icecore_format::records::{Growth, LabelV1};
use icecore_profile::map::{Interned, Map};
use icecore_profile::named::names::{Frame, Side};
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{Amount, Profile, Sum, groups, sums_apart};
use icecore_profile::recording::load::parts::{Part, Parts};
use icecore_profile::stacks::hits::{Apart, WaitsApart};
use icecore_profile::stacks::locate::Locator;
use icecore_symbolize::image::hex;

use crate::id::Id;
use crate::partition::Partition;
use crate::pool::{Pool, Text};
use crate::schema::{
    Code, CounterRow, FrameItem, FunctionRow, ImageRow, RecordingRow, SampleRow, Shares, StackRow,
};

/// The rows of all tables.
#[derive(Debug, Default)]
pub struct Rows {
    /// Sessions.
    pub recordings: Vec<RecordingRow>,
    /// Functions.
    pub functions: Vec<FunctionRow>,
    /// Distinct stacks.
    pub stacks: Vec<StackRow>,
    /// Samples.
    pub samples: Vec<SampleRow>,
    /// Files that were mapped.
    pub images: Vec<ImageRow>,
    /// Readings of counters.
    pub counters: Vec<CounterRow>,
}

impl Rows {
    /// Adds the rows of others.
    pub fn append(&mut self, mut more: Self) {
        self.recordings.append(&mut more.recordings);
        self.functions.append(&mut more.functions);
        self.stacks.append(&mut more.stacks);
        self.samples.append(&mut more.samples);
        self.images.append(&mut more.images);
        self.counters.append(&mut more.counters);
    }
}

/// What must be counted apart of a recording whose rows are made.
pub fn needs() -> Apart {
    let waits = WaitsApart::Rows;
    Apart { threads: true, events: true, cpus: true, moments: true, waits, ..Apart::default() }
}

/// Makes the rows of each session of a recording, beside its partition. The report counts [`needs`] apart, and has no filter but that of all
/// events. `quality` is that of the file, as `summary` has it: of its usual events.
pub fn of_sessions(report: &Report<'_>, quality: &Quality, pool: &mut Pool) -> Vec<(Partition, Rows)> {
    let mut maker = Maker::new(report, pool);
    let mut sessions = maker.recordings(quality);
    let ids = maker.stacks(&mut sessions);
    maker.functions(&mut sessions);
    maker.images(&mut sessions);
    maker.samples(&ids, &mut sessions);
    maker.counters(&mut sessions);
    let parts = &report.loaded.tables.parts;
    parts.iter().map(|part| partition(parts, part)).zip(sessions).collect()
}

/// A moment on the common clock as µs since 1970-01-01 UTC.
fn unix_us(parts: &Parts, time_ns: u64) -> i64 {
    let unix_ns = i128::from(parts.start_unix_ns()) + i128::from(time_ns) - i128::from(parts.zero_ns());
    i64::try_from(unix_ns.div_euclid(1000)).unwrap_or(i64::MAX)
}

/// Returns the partition of a session of a recording.
pub fn partition(parts: &Parts, part: &Part) -> Partition {
    Partition::of(unix_us(parts, part.time_ns(part.start_ns())), &part.session.labels)
}

/// Makes rows; holds what all tables name.
struct Maker<'a, 'p> {
    report: &'a Report<'a>,
    pool: &'p mut Pool,
    /// The session of each part.
    ids: Vec<Id>,
    /// What is known of each function, without the kernel's build-id.
    codes: Vec<Code>,
    /// The build-id of the kernel of each part.
    kernels: Vec<Option<Text>>,
    /// The name and the unit of each event.
    events: Vec<(Text, Text)>,
    /// What rows are counted by: part and event.
    contexts: Vec<(u32, u8)>,
    /// The context of each row of the profile.
    context_of: Vec<u32>,
}

/// The image of frames that lie in none.
const NO_IMAGE: u32 = u32::MAX;

impl<'a, 'p> Maker<'a, 'p> {
    fn new(report: &'a Report<'a>, pool: &'p mut Pool) -> Self {
        let (loaded, profile) = (report.loaded, &report.profile);
        let (parts, names) = (&loaded.tables.parts, &profile.names);
        let uuid = loaded.recording.header().uuid;
        let ids = (0..parts.len() as u32).map(|part| Id::of_session(&uuid, part)).collect();
        let locator = Locator::new(&loaded.tables, &loaded.spaces);
        let mut digits = |bytes: &[u8]| (!bytes.is_empty()).then(|| pool.add(&hex(bytes)));
        let build_ids: Vec<Option<Text>> = locator.images.iter().map(|it| digits(&it.build_id)).collect();
        let kernels = parts.iter().map(|part| digits(&part.session.kernel_build_id)).collect();
        let code = |function: &icecore_profile::named::names::Function| Code {
            function: pool.add(&function.name),
            image: function.image.map(|image| pool.add(&names.images[image as usize].path)),
            build_id: function.image.and_then(|image| *build_ids.get(image as usize)?),
            frame_type: pool.add(frame_type(function.side)),
        };
        let codes = names.functions.iter().map(code).collect();
        let unit = |event: &icecore_format::records::EventV1| {
            let unit = if event.unit.is_empty() { "samples" } else { &event.unit };
            (pool.add(&event.name), pool.add(&loaded.hits.seen.unit_of_weights(unit)))
        };
        let events = parts.events().iter().map(unit).collect();
        let mut contexts = Interned::new();
        let part_of = |thread: u32| profile.threads[thread as usize].part;
        let context_of = profile.rows.iter().map(|row| contexts.intern((part_of(row.thread), row.event)));
        let context_of = context_of.collect();
        Self { report, pool, ids, codes, kernels, events, contexts: contexts.into_items(), context_of }
    }

    fn profile(&self) -> &'a Profile {
        &self.report.profile
    }

    /// Returns a function as a session has it: all sessions share its row here, but not their kernels.
    fn code(&self, function: u32, part: usize) -> Code {
        let code = self.codes[function as usize];
        let is_kernel = self.profile().names.functions[function as usize].side == Side::Kernel;
        if is_kernel { Code { build_id: self.kernels[part], ..code } } else { code }
    }

    fn unix_us(&self, time_ns: u64) -> i64 {
        unix_us(&self.report.loaded.tables.parts, time_ns)
    }

    fn recordings(&mut self, quality: &Quality) -> Vec<Rows> {
        let loaded = self.report.loaded;
        let shares = Shares {
            lost: Some(quality.lost.share),
            rooted: quality.rooted_share,
            cut: quality.cut_share,
            guessed: quality.guessed_share,
            impossible: quality.impossible_share,
            named: quality.named_share,
        };
        let parts = &loaded.tables.parts;
        let uuid: String = hex(&loaded.recording.header().uuid);
        let mut counted = vec![(Amount::default(), 0u64); parts.len()];
        for row in &self.profile().rows {
            let (amount, last_ns) = &mut counted[self.profile().threads[row.thread as usize].part as usize];
            amount.add(row.amount());
            *last_ns = row.span_ns.1.max(*last_ns);
        }
        let row = |(part, (amount, last_ns)): (&Part, (Amount, u64))| {
            let (session, receipt) = (&part.session, part.receipt.as_ref());
            let begin_ns = part.time_ns(part.start_ns());
            let end_ns = receipt.map_or(last_ns, |receipt| part.time_ns(receipt.end_ns));
            let lost = match receipt {
                _ if parts.len() == 1 => Some(quality.lost.samples),
                receipt => receipt.map(|receipt| receipt.lost),
            };
            let recording = RecordingRow {
                recording: self.ids[part.number() as usize],
                uuid: self.pool.add(&uuid),
                host: self.pool.add(&session.host),
                kernel: self.pool.add(&session.kernel_release),
                arch: self.pool.add(&session.arch),
                recorder: self.pool.add(&session.recorder),
                labels: Self::labels(self.pool, &session.labels),
                span_us: (self.unix_us(begin_ns), self.unix_us(end_ns.max(begin_ns))),
                cpus: session.cpus.len() as i64,
                samples: signed(amount.samples),
                lost: lost.map(signed),
                verdict: self.pool.add(quality.verdict.name()),
                shares,
                recorder_cpu_ns: receipt.map(|it| signed(it.user_cpu_ns.saturating_add(it.kernel_cpu_ns))),
                sampler_cpu_ns: receipt.map(|receipt| signed(receipt.bpf_ns)),
                file_bytes: signed(loaded.recording.len_bytes()),
            };
            Rows { recordings: vec![recording], ..Rows::default() }
        };
        parts.iter().zip(counted).map(row).collect()
    }

    /// Each label once, with its last value: engines refuse a map that has a key twice.
    fn labels(pool: &mut Pool, labels: &[LabelV1]) -> Vec<(Text, Text)> {
        let labels: BTreeMap<&str, &str> = labels.iter().map(|label| (&*label.key, &*label.value)).collect();
        labels.into_iter().map(|(key, value)| (pool.add(key), pool.add(value))).collect()
    }

    /// Adds to every session the distinct stacks of its samples; returns their ids.
    fn stacks(&mut self, sessions: &mut [Rows]) -> Vec<Map<u32, Id>> {
        let profile = self.profile();
        let mut used = vec![Vec::new(); sessions.len()];
        for row in &profile.rows {
            used[profile.threads[row.thread as usize].part as usize].push(row.stack);
        }
        let mut of_parts = Vec::with_capacity(sessions.len());
        for (part, (rows, mut used)) in sessions.iter_mut().zip(used).enumerate() {
            used.sort_unstable();
            used.dedup();
            let mut ids: Map<u32, Id> = Map::default();
            ids.insert(0, Id::of(&[]));
            for stack in used {
                let frames: Vec<FrameItem> =
                    profile.walk(stack).map(|stack| self.frame(stack.frame, part)).collect();
                let id = self.stack_id(stack, &frames, &mut ids);
                rows.stacks.push(StackRow::of(id, frames));
            }
            of_parts.push(ids);
        }
        of_parts
    }

    fn frame(&mut self, frame: u32, part: usize) -> FrameItem {
        let names = &self.profile().names;
        let Frame { function, file, line, inlined } = names.frames[frame as usize];
        FrameItem {
            code: self.code(function, part),
            source: (file.map(|file| self.pool.add(&names.files[file as usize])), line.map(i64::from)),
            inlined,
            guessed: names.is_guessed(frame),
        }
    }

    /// Hashes a stack: the id of the caller's stack and what its innermost frame is, for each frame from the outermost on.
    fn stack_id(&self, stack: u32, frames: &[FrameItem], ids: &mut Map<u32, Id>) -> Id {
        let mut path = Vec::new();
        let mut next = stack;
        let mut id = loop {
            match ids.get(&next) {
                Some(known) => break *known,
                None => path.push(next),
            }
            next = self.profile().stacks[next as usize].caller;
        };
        for (position, stack) in path.iter().enumerate().rev() {
            id = self.frame_id(id, &frames[position]);
            ids.insert(*stack, id);
        }
        id
    }

    fn frame_id(&self, caller: Id, frame: &FrameItem) -> Id {
        let optional = |text: Option<Text>| text.map_or(&[][..], |text| self.pool.bytes(text));
        let Code { function, image, build_id, frame_type } = frame.code;
        Id::of(&[
            &caller.bytes(),
            self.pool.bytes(function),
            optional(image),
            optional(build_id),
            self.pool.bytes(frame_type),
            optional(frame.source.0),
            &frame.source.1.unwrap_or(0).to_le_bytes(),
            &[frame.inlined.into(), frame.guessed.into()],
        ])
    }

    fn functions(&mut self, sessions: &mut [Rows]) {
        let profile = self.profile();
        let of_frame: Vec<u32> = profile.names.frames.iter().map(|frame| frame.function).collect();
        for inlined in [false, true] {
            let of_stack = groups(profile, &of_frame, |_| inlined);
            for (context, function, sum) in self.sums(&of_stack) {
                let (part, event) = self.contexts[context as usize];
                sessions[part as usize].functions.push(FunctionRow {
                    recording: self.ids[part as usize],
                    event: self.events[usize::from(event)],
                    code: self.code(function, part as usize),
                    inlined,
                    own: pair(sum.own),
                    total: pair(sum.total),
                });
            }
        }
    }

    /// Adds up groups of frames apart for each context.
    fn sums(&self, of_stack: &[u32]) -> Vec<(u32, u32, Sum)> {
        let (pairs, sums) = sums_apart(self.profile(), &self.context_of, of_stack);
        pairs.into_iter().zip(sums).map(|((context, group), sum)| (context, group, sum)).collect()
    }

    fn images(&mut self, sessions: &mut [Rows]) {
        let (loaded, profile) = (self.report.loaded, self.profile());
        let names = &profile.names;
        let function = |frame: &Frame| &names.functions[frame.function as usize];
        let of_frame: Vec<u32> =
            names.frames.iter().map(|frame| function(frame).image.unwrap_or(NO_IMAGE)).collect();
        let nameless = names.frames.iter().zip(&of_frame);
        let nameless = nameless.map(|(frame, image)| match function(frame).reason {
            Some(_) => *image,
            None => NO_IMAGE,
        });
        let nameless: Vec<u32> = nameless.collect();
        let (of_stack, unnamed) =
            (groups(profile, &of_frame, |_| false), groups(profile, &nameless, |_| false));
        let unnamed = self.sums(&unnamed).into_iter();
        let unnamed: Map<(u32, u32), u64> =
            unnamed.map(|(context, image, sum)| ((context, image), sum.total.samples)).collect();
        let mut incomplete: Map<(u32, u32), u64> = Map::default();
        for (row, context) in profile.rows.iter().zip(&self.context_of) {
            if row.taken.is_walked() && !row.taken.rooted {
                let outermost = profile.walk(row.stack).last();
                let image = outermost.map_or(NO_IMAGE, |stack| of_frame[stack.frame as usize]);
                *incomplete.entry((*context, image)).or_default() += row.samples;
            }
        }
        // The path and the build-id of each image that was hit, by part.
        let mut hit: Map<(u32, Text, Option<Text>), ()> = Map::default();
        let code_of: Map<u32, u32> =
            names.frames.iter().zip(&of_frame).map(|(frame, image)| (*image, frame.function)).collect();
        for (context, image, sum) in self.sums(&of_stack) {
            let (part, event) = self.contexts[context as usize];
            let Some(function) = code_of.get(&image).filter(|_| image != NO_IMAGE) else { continue };
            let code = self.code(*function, part as usize);
            let Some(path) = code.image else { continue };
            hit.insert((part, path, code.build_id), ());
            let at = (context, image);
            sessions[part as usize].images.push(ImageRow {
                recording: self.ids[part as usize],
                image: path,
                build_id: code.build_id,
                event: Some(self.events[usize::from(event)]),
                own: pair(sum.own),
                total: pair(sum.total),
                unnamed: signed(unnamed.get(&at).copied().unwrap_or(0)),
                incomplete: signed(incomplete.get(&at).copied().unwrap_or(0)),
            });
        }
        for (id, image) in loaded.tables.images.iter() {
            let (part, _) = loaded.tables.parts.of_image(id);
            let path = self.pool.add(loaded.tables.text(image.path));
            let build_id = (!image.build_id.is_empty()).then(|| self.pool.add(&hex(&image.build_id)));
            if hit.insert((part, path, build_id), ()).is_none() {
                let recording = self.ids[part as usize];
                let (event, none) = (None, (0, 0));
                let (own, total, unnamed, incomplete) = (none, none, 0, 0);
                let row =
                    ImageRow { recording, image: path, build_id, event, own, total, unnamed, incomplete };
                sessions[part as usize].images.push(row);
            }
        }
    }

    fn samples(&mut self, ids: &[Map<u32, Id>], sessions: &mut [Rows]) {
        let (loaded, profile) = (self.report.loaded, self.profile());
        for moment in &profile.moments {
            let row = &profile.rows[moment.row as usize];
            let thread = &profile.threads[row.thread as usize];
            let part = thread.part as usize;
            let side = if row.taken.in_kernel { Side::Kernel } else { Side::User };
            let sample = SampleRow {
                recording: self.ids[part],
                time_us: self.unix_us(moment.time_ns),
                event: self.events[usize::from(row.event)].0,
                ids: (thread.tgid.into(), thread.tid.into()),
                names: (self.pool.add(&thread.process), self.pool.add(&thread.comm)),
                cgroup: loaded.cgroups.path(thread.cgroup).map(|path| self.pool.add(path)),
                cpu: moment.cpu.into(),
                weight: signed(moment.weight),
                wait: row.wait.map(|wait| self.pool.add(&profile.waits[wait as usize].kind.name())),
                stack: ids[part][&row.stack],
                frame_type: self.pool.add(frame_type(side)),
                rooted: row.taken.rooted,
                end: self.pool.add(row.taken.end.name()),
            };
            sessions[part].samples.push(sample);
        }
    }

    fn counters(&mut self, sessions: &mut [Rows]) {
        for owner in counted(&self.report.loaded.selection()) {
            let (kind, pid, name) = match &owner.of {
                Of::Machine => ("machine", None, None),
                Of::Process { tgid, comm } => ("process", Some(i64::from(*tgid)), Some(comm)),
                Of::Cgroup { path } => ("cgroup", None, Some(path)),
            };
            let (kind, name) = (self.pool.add(kind), name.map(|name| self.pool.add(name)));
            for (counter, values) in &owner.values {
                // Others are of a newer recorder: nothing says what they mean.
                let (Some(unit), Some(growth)) = (counter.unit(), counter.growth()) else { continue };
                let growth = if growth == Growth::Sum { "sum" } else { "level" };
                let (counter, growth) =
                    ((self.pool.add(&counter.name()), self.pool.add(unit)), self.pool.add(growth));
                let recording = self.ids[owner.part as usize];
                let rows = values.iter().map(|(time_ns, value)| CounterRow {
                    recording,
                    time_us: self.unix_us(*time_ns),
                    counter,
                    growth,
                    owner: kind,
                    pid,
                    name,
                    value: signed(*value),
                });
                sessions[owner.part as usize].counters.extend(rows);
            }
        }
    }
}

fn frame_type(side: Side) -> &'static str {
    if side == Side::User { "native" } else { "kernel" }
}

/// The weight and the number of samples.
fn pair(amount: Amount) -> (i64, i64) {
    (signed(amount.weight), signed(amount.samples))
}

/// A number as query engines have it; above 2⁶³ the largest.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
