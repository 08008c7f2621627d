//! The tables: what a row is, and its columns. docs/FLEET.md explains them to those who query them.

use std::cmp::Ordering;
use std::collections::HashMap;

use parquet::errors::{ParquetError, Result};

use crate::column::{Column, boolean, int, list, map, maybe_float, maybe_int, maybe_text, text, time};
use crate::id::Id;
use crate::pool::{Pool, Text};
use crate::read::{Fields, Readable};
use crate::table::{GROUP, Row};

/// One session of a recording: what was recorded, and how good it is.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordingRow {
    /// The session: a hash of the identity of the file and of the position of the session in it.
    pub recording: Id,
    /// The identity of the file.
    pub uuid: Text,
    /// Host name.
    pub host: Text,
    /// Kernel release.
    pub kernel: Text,
    /// Machine.
    pub arch: Text,
    /// Version of the recorder.
    pub recorder: Text,
    /// What the user said of it.
    pub labels: Vec<(Text, Text)>,
    /// When sampling began and ended, µs since 1970-01-01 UTC.
    pub span_us: (i64, i64),
    /// The CPUs that were sampled.
    pub cpus: i64,
    /// Samples in it.
    pub samples: i64,
    /// Samples that were lost; `None` if the recorder was killed, and the file has several sessions.
    pub lost: Option<i64>,
    /// Whether the data of the file supports conclusions: `good`, `usable`, `misleading`.
    pub verdict: Text,
    /// Shares of the whole file, 0 to 1.
    pub shares: Shares,
    /// CPU time of the recorder, ns; `None` if it was killed.
    pub recorder_cpu_ns: Option<i64>,
    /// CPU time of its programs in the sampled ones, ns.
    pub sampler_cpu_ns: Option<i64>,
    /// Bytes of the file.
    pub file_bytes: i64,
}

impl RecordingRow {
    /// Returns the row with its texts in another pool.
    pub(crate) fn moved(mut self, from: &Pool, to: &mut Pool) -> Self {
        let labels = self.labels.iter_mut().flat_map(|(key, value)| [key, value]);
        let texts = [
            &mut self.uuid,
            &mut self.host,
            &mut self.kernel,
            &mut self.arch,
            &mut self.recorder,
            &mut self.verdict,
        ];
        texts.into_iter().chain(labels).for_each(|text| *text = to.add(from.text(*text)));
        self
    }
}

/// How good stacks and names are, 0 to 1; `None` where nothing says it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shares {
    /// Samples that were lost, of all.
    pub lost: Option<f64>,
    /// User stacks with a proven start.
    pub rooted: Option<f64>,
    /// User stacks that the depth limit has cut.
    pub cut: Option<f64>,
    /// User stacks with a guessed frame.
    pub guessed: Option<f64>,
    /// User stacks with an impossible call.
    pub impossible: Option<f64>,
    /// Frames with a name.
    pub named: Option<f64>,
}

impl Row for RecordingRow {
    const TABLE: &'static str = "recording";
    const SORTED_BY: &'static [&'static str] = &["start_time"];

    fn columns() -> Vec<Column<Self>> {
        vec![
            int("recording_id", |row: &Self| row.recording.get()),
            text("uuid", |row| row.uuid),
            text("host_name", |row| row.host),
            text("kernel_release", |row| row.kernel),
            text("arch", |row| row.arch),
            text("recorder", |row| row.recorder),
            time("start_time", |row| row.span_us.0),
            time("end_time", |row| row.span_us.1),
            int("cpus", |row| row.cpus),
            int("samples", |row| row.samples),
            maybe_int("lost", |row| row.lost),
            text("verdict", |row| row.verdict),
            maybe_float("lost_share", |row| row.shares.lost),
            maybe_float("rooted_share", |row| row.shares.rooted),
            maybe_float("cut_share", |row| row.shares.cut),
            maybe_float("guessed_share", |row| row.shares.guessed),
            maybe_float("impossible_share", |row| row.shares.impossible),
            maybe_float("named_share", |row| row.shares.named),
            maybe_int("recorder_cpu_ns", |row| row.recorder_cpu_ns),
            maybe_int("sampler_cpu_ns", |row| row.sampler_cpu_ns),
            int("file_bytes", |row| row.file_bytes),
            map("labels", |row| &row.labels),
        ]
    }

    fn order(&self, other: &Self, _: &Pool) -> Ordering {
        (self.span_us, self.recording).cmp(&(other.span_us, other.recording))
    }
}

impl Readable for RecordingRow {
    fn recording(&self) -> Option<Id> {
        Some(self.recording)
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            recording: Id::read(fields.int()?),
            uuid: fields.text()?,
            host: fields.text()?,
            kernel: fields.text()?,
            arch: fields.text()?,
            recorder: fields.text()?,
            span_us: (fields.time()?, fields.time()?),
            cpus: fields.int()?,
            samples: fields.int()?,
            lost: fields.maybe_int()?,
            verdict: fields.text()?,
            shares: Shares {
                lost: fields.maybe_float()?,
                rooted: fields.maybe_float()?,
                cut: fields.maybe_float()?,
                guessed: fields.maybe_float()?,
                impossible: fields.maybe_float()?,
                named: fields.maybe_float()?,
            },
            recorder_cpu_ns: fields.maybe_int()?,
            sampler_cpu_ns: fields.maybe_int()?,
            file_bytes: fields.int()?,
            labels: fields.map()?,
        })
    }
}

/// A function of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code {
    /// Its name as views show it.
    pub function: Text,
    /// The path of its image; `[kernel]`.
    pub image: Option<Text>,
    /// The build-id of the image, in hexadecimal digits.
    pub build_id: Option<Text>,
    /// `native` or `kernel`.
    pub frame_type: Text,
}

impl Code {
    fn order(&self, other: &Self, pool: &Pool) -> Ordering {
        let key = |it: &Self| {
            let optional = |text: Option<Text>| text.map(|text| pool.bytes(text));
            (pool.bytes(it.function), optional(it.image), optional(it.build_id), pool.bytes(it.frame_type))
        };
        key(self).cmp(&key(other))
    }
}

/// What hit a function in one session by one event: the rows of `top`.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionRow {
    /// The session.
    pub recording: Id,
    /// The event and its unit.
    pub event: (Text, Text),
    /// The function.
    pub code: Code,
    /// The row is one of `top --by inlined`, else one of `top`.
    pub inlined: bool,
    /// The weight and the number of samples whose stacks end in it.
    pub own: (i64, i64),
    /// The weight and the number of samples that have it in their stacks, each counted once.
    pub total: (i64, i64),
}

impl Row for FunctionRow {
    const TABLE: &'static str = "function";
    const SORTED_BY: &'static [&'static str] = &["function_name"];

    fn columns() -> Vec<Column<Self>> {
        vec![
            int("recording_id", |row: &Self| row.recording.get()),
            text("event", |row| row.event.0),
            text("unit", |row| row.event.1),
            text("function_name", |row| row.code.function),
            maybe_text("image", |row| row.code.image),
            maybe_text("build_id", |row| row.code.build_id),
            text("frame_type", |row| row.code.frame_type),
            boolean("inlined", |row| row.inlined),
            int("self", |row| row.own.0),
            int("total", |row| row.total.0),
            int("self_samples", |row| row.own.1),
            int("samples", |row| row.total.1),
        ]
    }

    fn order(&self, other: &Self, pool: &Pool) -> Ordering {
        let rest = |it: &Self| (it.inlined, it.recording);
        let events = || pool.bytes(self.event.0).cmp(pool.bytes(other.event.0));
        self.code.order(&other.code, pool).then_with(|| rest(self).cmp(&rest(other))).then_with(events)
    }
}

impl Readable for FunctionRow {
    fn recording(&self) -> Option<Id> {
        Some(self.recording)
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let recording = Id::read(fields.int()?);
        let event = (fields.text()?, fields.text()?);
        let code = Code {
            function: fields.text()?,
            image: fields.maybe_text()?,
            build_id: fields.maybe_text()?,
            frame_type: fields.text()?,
        };
        let inlined = fields.boolean()?;
        let [own, total, own_samples, samples] = [fields.int()?, fields.int()?, fields.int()?, fields.int()?];
        let (own, total) = ((own, own_samples), (total, samples));
        Ok(Self { recording, event, code, inlined, own, total })
    }
}

/// A frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameItem {
    /// Its function.
    pub code: Code,
    /// Source file and line.
    pub source: (Option<Text>, Option<i64>),
    /// The function was inlined into the next one.
    pub inlined: bool,
    /// Nothing has proven this frame.
    pub guessed: bool,
}

/// A distinct stack.
#[derive(Debug, Clone, PartialEq)]
pub struct StackRow {
    /// A hash of its frames.
    pub stack: Id,
    /// The innermost function that was not inlined.
    pub leaf: Option<Code>,
    /// Frames, innermost first.
    pub frames: Vec<FrameItem>,
    /// Its functions, each once, the innermost first; true: it is there only as an inlined one.
    pub functions: Vec<(Code, bool)>,
}

impl StackRow {
    /// Makes the row of a stack of these frames, innermost first.
    pub fn of(stack: Id, frames: Vec<FrameItem>) -> Self {
        let outermost = frames.len().saturating_sub(1);
        // What lies outermost was inlined into nothing that is known.
        let is_part = |(position, frame): (usize, &FrameItem)| frame.inlined && position < outermost;
        let mut functions: Vec<(Code, bool)> = Vec::new();
        let mut positions: HashMap<Code, usize> = HashMap::new();
        for (position, frame) in frames.iter().enumerate() {
            let inlined = is_part((position, frame));
            match positions.get(&frame.code) {
                Some(known) => functions[*known].1 &= inlined,
                None => {
                    positions.insert(frame.code, functions.len());
                    functions.push((frame.code, inlined));
                }
            }
        }
        let leaf = frames.iter().enumerate().find(|it| !is_part(*it)).map(|(_, frame)| frame.code);
        Self { stack, leaf, frames, functions }
    }
}

impl Row for StackRow {
    const TABLE: &'static str = "stack";
    // About 16 MB before compression.
    const GROUP: usize = self::GROUP / 8;
    const SORTED_BY: &'static [&'static str] = &["stack_id"];

    fn columns() -> Vec<Column<Self>> {
        vec![
            int("stack_id", |row: &Self| row.stack.get()),
            int("depth", |row| row.frames.len() as i64),
            maybe_text("leaf_function", |row| row.leaf.map(|leaf| leaf.function)),
            maybe_text("leaf_image", |row| row.leaf.and_then(|leaf| leaf.image)),
            list(
                "functions",
                |row| &row.functions,
                vec![
                    text("function_name", |(code, _): &(Code, bool)| code.function),
                    maybe_text("image", |(code, _)| code.image),
                    maybe_text("build_id", |(code, _)| code.build_id),
                    boolean("inlined", |(_, inlined)| *inlined),
                ],
            ),
            list(
                "frames",
                |row| &row.frames,
                vec![
                    text("function_name", |frame: &FrameItem| frame.code.function),
                    maybe_text("image", |frame| frame.code.image),
                    maybe_text("build_id", |frame| frame.code.build_id),
                    text("frame_type", |frame| frame.code.frame_type),
                    maybe_text("file", |frame| frame.source.0),
                    maybe_int("line", |frame| frame.source.1),
                    boolean("inlined", |frame| frame.inlined),
                    boolean("guessed", |frame| frame.guessed),
                ],
            ),
        ]
    }

    fn order(&self, other: &Self, _: &Pool) -> Ordering {
        self.stack.cmp(&other.stack)
    }

    fn without_doubles(rows: &mut Vec<Self>) {
        rows.sort_unstable_by_key(|row| row.stack);
        rows.dedup_by_key(|row| row.stack);
    }
}

impl Readable for StackRow {
    fn recording(&self) -> Option<Id> {
        None
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let (stack, _depth) = (Id::read(fields.int()?), fields.int()?);
        let (_leaf_function, _leaf_image) = (fields.maybe_text()?, fields.maybe_text()?);
        let functions = fields.list(|fields| {
            let (function, image, build_id) = (fields.text()?, fields.maybe_text()?, fields.maybe_text()?);
            Ok((function, image, build_id, fields.boolean()?))
        })?;
        let frames = fields.list(|fields| {
            let code = Code {
                function: fields.text()?,
                image: fields.maybe_text()?,
                build_id: fields.maybe_text()?,
                frame_type: fields.text()?,
            };
            let source = (fields.maybe_text()?, fields.maybe_int()?);
            Ok(FrameItem { code, source, inlined: fields.boolean()?, guessed: fields.boolean()? })
        })?;
        let row = Self::of(stack, frames);
        let told =
            row.functions.iter().map(|(code, inlined)| (code.function, code.image, code.build_id, *inlined));
        if !told.eq(functions) {
            return Err(ParquetError::General(
                "the functions of a stack are not those of its frames".to_owned(),
            ));
        }
        Ok(row)
    }
}

/// A sample.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRow {
    /// The session.
    pub recording: Id,
    /// When it was taken; a wait: when the thread ran again. µs since 1970-01-01 UTC.
    pub time_us: i64,
    /// The event.
    pub event: Text,
    /// Process and thread, by their numbers.
    pub ids: (i64, i64),
    /// Process and thread, by their names.
    pub names: (Text, Text),
    /// The cgroup of the thread, if it is known.
    pub cgroup: Option<Text>,
    /// The CPU.
    pub cpu: i64,
    /// What it stands for, in the unit of the event.
    pub weight: i64,
    /// For what the thread waited, if this is a wait.
    pub wait: Option<Text>,
    /// Its stack: kernel frames, then user frames.
    pub stack: Id,
    /// The mode in which the sample hit: `native` or `kernel`.
    pub frame_type: Text,
    /// The outermost user frame is a proven start.
    pub rooted: bool,
    /// How the walk of the user stack ended.
    pub end: Text,
}

impl Row for SampleRow {
    const TABLE: &'static str = "sample";
    const SORTED_BY: &'static [&'static str] = &["time"];

    fn columns() -> Vec<Column<Self>> {
        vec![
            int("recording_id", |row: &Self| row.recording.get()),
            time("time", |row| row.time_us),
            text("event", |row| row.event),
            int("pid", |row| row.ids.0),
            int("tid", |row| row.ids.1),
            text("process_name", |row| row.names.0),
            text("thread_name", |row| row.names.1),
            maybe_text("cgroup", |row| row.cgroup),
            int("cpu", |row| row.cpu),
            int("weight", |row| row.weight),
            maybe_text("wait_kind", |row| row.wait),
            int("stack_id", |row| row.stack.get()),
            text("frame_type", |row| row.frame_type),
            boolean("rooted", |row| row.rooted),
            text("walk_end", |row| row.end),
        ]
    }

    fn order(&self, other: &Self, _: &Pool) -> Ordering {
        let key = |it: &Self| (it.time_us, it.recording, it.ids, it.cpu, it.stack);
        key(self).cmp(&key(other))
    }
}

impl Readable for SampleRow {
    fn recording(&self) -> Option<Id> {
        Some(self.recording)
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            recording: Id::read(fields.int()?),
            time_us: fields.time()?,
            event: fields.text()?,
            ids: (fields.int()?, fields.int()?),
            names: (fields.text()?, fields.text()?),
            cgroup: fields.maybe_text()?,
            cpu: fields.int()?,
            weight: fields.int()?,
            wait: fields.maybe_text()?,
            stack: Id::read(fields.int()?),
            frame_type: fields.text()?,
            rooted: fields.boolean()?,
            end: fields.text()?,
        })
    }
}

/// A file that was mapped, and what hit it by one event.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageRow {
    /// The session.
    pub recording: Id,
    /// Its path; `[kernel]`.
    pub image: Text,
    /// Its build-id, in hexadecimal digits.
    pub build_id: Option<Text>,
    /// The event and its unit; `None` if no sample hit it.
    pub event: Option<(Text, Text)>,
    /// The weight and the number of samples whose stacks end in it.
    pub own: (i64, i64),
    /// The weight and the number of samples that have it in their stacks, each counted once.
    pub total: (i64, i64),
    /// Samples that have a frame in it without a name.
    pub unnamed: i64,
    /// Samples whose user stacks end in it, and its outermost frame is no proven start: callers may be missing.
    pub incomplete: i64,
}

impl Row for ImageRow {
    const TABLE: &'static str = "image";
    const SORTED_BY: &'static [&'static str] = &["image"];

    fn columns() -> Vec<Column<Self>> {
        vec![
            int("recording_id", |row: &Self| row.recording.get()),
            text("image", |row| row.image),
            maybe_text("build_id", |row| row.build_id),
            maybe_text("event", |row| row.event.map(|event| event.0)),
            maybe_text("unit", |row| row.event.map(|event| event.1)),
            int("self", |row| row.own.0),
            int("total", |row| row.total.0),
            int("self_samples", |row| row.own.1),
            int("samples", |row| row.total.1),
            int("unnamed_samples", |row| row.unnamed),
            int("incomplete_samples", |row| row.incomplete),
        ]
    }

    fn order(&self, other: &Self, pool: &Pool) -> Ordering {
        let text = |text: Text| pool.bytes(text);
        let key = |it: &Self| {
            let event = it.event.map(|event| text(event.0));
            (text(it.image), it.build_id.map(text), it.recording, event)
        };
        key(self).cmp(&key(other))
    }
}

impl Readable for ImageRow {
    fn recording(&self) -> Option<Id> {
        Some(self.recording)
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let (recording, image, build_id) = (Id::read(fields.int()?), fields.text()?, fields.maybe_text()?);
        let event = (fields.maybe_text()?, fields.maybe_text()?);
        let event = event.0.zip(event.1);
        let [own, total, own_samples, samples] = [fields.int()?, fields.int()?, fields.int()?, fields.int()?];
        let (own, total) = ((own, own_samples), (total, samples));
        let (unnamed, incomplete) = (fields.int()?, fields.int()?);
        Ok(Self { recording, image, build_id, event, own, total, unnamed, incomplete })
    }
}

/// A reading of a counter of the machine, a process or a cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterRow {
    /// The session.
    pub recording: Id,
    /// When it was read, µs since 1970-01-01 UTC.
    pub time_us: i64,
    /// What is counted, and its unit.
    pub counter: (Text, Text),
    /// `sum`: it grows, and differences between readings count; `level`: it holds until the next reading.
    pub growth: Text,
    /// `machine`, `process` or `cgroup`.
    pub owner: Text,
    /// The process, if it is one's.
    pub pid: Option<i64>,
    /// The name of the process, or the path of the cgroup.
    pub name: Option<Text>,
    /// The value.
    pub value: i64,
}

impl Row for CounterRow {
    const TABLE: &'static str = "counter";
    const SORTED_BY: &'static [&'static str] = &["counter", "time"];

    fn columns() -> Vec<Column<Self>> {
        vec![
            int("recording_id", |row: &Self| row.recording.get()),
            text("counter", |row| row.counter.0),
            text("unit", |row| row.counter.1),
            text("growth", |row| row.growth),
            time("time", |row| row.time_us),
            text("owner", |row| row.owner),
            maybe_int("pid", |row| row.pid),
            maybe_text("name", |row| row.name),
            int("value", |row| row.value),
        ]
    }

    fn order(&self, other: &Self, pool: &Pool) -> Ordering {
        let key = |it: &Self| {
            let name = it.name.map(|name| pool.bytes(name));
            (pool.bytes(it.counter.0), it.time_us, it.recording, pool.bytes(it.owner), it.pid, name)
        };
        key(self).cmp(&key(other))
    }
}

impl Readable for CounterRow {
    fn recording(&self) -> Option<Id> {
        Some(self.recording)
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            recording: Id::read(fields.int()?),
            counter: (fields.text()?, fields.text()?),
            growth: fields.text()?,
            time_us: fields.time()?,
            owner: fields.text()?,
            pid: fields.maybe_int()?,
            name: fields.maybe_text()?,
            value: fields.int()?,
        })
    }
}

/// What hit a function by one event in all recordings of a day, a service, a release and a kernel that were pruned: it stays when they go.
#[derive(Debug, Clone, PartialEq)]
pub struct DailyRow {
    /// The sessions.
    pub of: DailyOf,
    /// How many of them it hit.
    pub sessions: i64,
    /// The event and its unit.
    pub event: (Text, Text),
    /// The function.
    pub code: Code,
    /// The row is one of `top --by inlined`, else one of `top`.
    pub inlined: bool,
    /// The weight and the number of samples whose stacks end in it.
    pub own: (i64, i64),
    /// The weight and the number of samples that have it in their stacks, each counted once.
    pub total: (i64, i64),
}

/// The sessions of a row of `daily`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DailyOf {
    /// The label `service`.
    pub service: Option<Text>,
    /// The label `release`.
    pub release: Option<Text>,
    /// Kernel release.
    pub kernel: Text,
}

impl Row for DailyRow {
    const TABLE: &'static str = "daily";
    const SORTED_BY: &'static [&'static str] = &["function_name"];

    fn columns() -> Vec<Column<Self>> {
        vec![
            maybe_text("service_name", |row: &Self| row.of.service),
            maybe_text("release", |row| row.of.release),
            text("kernel_release", |row| row.of.kernel),
            int("sessions", |row| row.sessions),
            text("event", |row| row.event.0),
            text("unit", |row| row.event.1),
            text("function_name", |row| row.code.function),
            maybe_text("image", |row| row.code.image),
            maybe_text("build_id", |row| row.code.build_id),
            text("frame_type", |row| row.code.frame_type),
            boolean("inlined", |row| row.inlined),
            int("self", |row| row.own.0),
            int("total", |row| row.total.0),
            int("self_samples", |row| row.own.1),
            int("samples", |row| row.total.1),
        ]
    }

    fn order(&self, other: &Self, pool: &Pool) -> Ordering {
        let optional = |text: Option<Text>| text.map(|text| pool.bytes(text));
        let rest = |it: &Self| {
            let DailyOf { service, release, kernel } = it.of;
            let of = (optional(service), optional(release), pool.bytes(kernel));
            (it.inlined, of, pool.bytes(it.event.0), pool.bytes(it.event.1))
        };
        self.code.order(&other.code, pool).then_with(|| rest(self).cmp(&rest(other)))
    }
}

impl Readable for DailyRow {
    fn recording(&self) -> Option<Id> {
        None
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let (service, release) = (fields.maybe_text()?, fields.maybe_text()?);
        let of = DailyOf { service, release, kernel: fields.text()? };
        let sessions = fields.int()?;
        let event = (fields.text()?, fields.text()?);
        let code = Code {
            function: fields.text()?,
            image: fields.maybe_text()?,
            build_id: fields.maybe_text()?,
            frame_type: fields.text()?,
        };
        let inlined = fields.boolean()?;
        let [own, total, own_samples, samples] = [fields.int()?, fields.int()?, fields.int()?, fields.int()?];
        let (own, total) = ((own, own_samples), (total, samples));
        Ok(Self { of, sessions, event, code, inlined, own, total })
    }
}
