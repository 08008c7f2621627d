//! Prints one sample as text or as a JSON object.

use std::borrow::Cow;
use std::io::Write;

use icecore_format::records::{Mark, Sample, Task, WaitFlags, WalkEnd, WokenBy};
use serde::Serialize;

use icecore_profile::named::Matches;
use icecore_profile::named::entry::Entry;
use icecore_profile::named::names::{Names, Side};
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::recording::spaces::SpaceId;
use icecore_profile::stacks::fields::{Field, Fields};
use icecore_profile::stacks::hits::Key;
use icecore_profile::stacks::locate::{CodeLocation, Located, Locator, Role, Step, steps};
use icecore_profile::stacks::waits::WaitRows;
use icecore_profile::stacks::waits::kinds::Kinds;
use icecore_text::shorten::{MAX_LINE_BYTES, MAX_NAME_BYTES, gap, shorten};

/// Prints samples.
pub(super) struct Lister<'a> {
    pub(super) loaded: &'a Loaded<'a>,
    pub(super) located: &'a Located,
    pub(super) names: &'a Names,
    pub(super) locator: Locator<'a>,
    pub(super) matches: Matches,
    pub(super) waits: WaitRows,
    pub(super) kinds: Kinds<'a>,
    pub(super) fields: Fields,
    /// For each function, whether it is an entry point.
    pub(super) entries: Vec<Entry>,
}

/// The JSON object of a sample.
#[derive(Serialize)]
struct SampleRow<'a> {
    schema: &'static str,
    time_ns: i64,
    host: &'a str,
    tgid: u32,
    tid: u32,
    comm: Cow<'a, str>,
    cgroup: Option<Cow<'a, str>>,
    cpu: u16,
    event: &'a str,
    weight: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a Field>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<WaitOf<'a>>,
    ended: &'static str,
    kernel_ended: &'static str,
    #[serde(skip_serializing_if = "is_false")]
    incomplete: bool,
    frames: Vec<FrameRow<'a>>,
    /// The number of outermost frames that are not listed, because the list would be too long.
    #[serde(skip_serializing_if = "is_zero")]
    frames_left_out: usize,
}

/// What is known of a wait besides its stack.
#[derive(Serialize)]
struct WaitOf<'a> {
    kind: String,
    state: String,
    began_ns: i64,
    ended_ns: i64,
    #[serde(skip_serializing_if = "is_false")]
    began_before: bool,
    #[serde(skip_serializing_if = "is_false")]
    not_ended: bool,
    woken_by: String,
    waker: Option<WakerOf<'a>>,
}

/// The thread that ended a wait.
#[derive(Serialize)]
struct WakerOf<'a> {
    tgid: u32,
    tid: u32,
    comm: Cow<'a, str>,
    /// The time of the sample with its stack.
    sample_time_ns: Option<i64>,
}

/// A frame, leaf first.
#[derive(Serialize)]
struct FrameRow<'a> {
    name: Option<&'a str>,
    image: Option<&'a str>,
    offset: Option<u64>,
    address: Option<u64>,
    side: &'static str,
    inlined: bool,
    #[serde(skip_serializing_if = "is_false")]
    interrupted: bool,
    #[serde(skip_serializing_if = "is_false")]
    guessed: bool,
    #[serde(skip_serializing_if = "is_false")]
    moved: bool,
    file: Option<&'a str>,
    line: Option<u32>,
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    /// The text that stands for a missing name.
    #[serde(skip)]
    shown: &'a str,
}

/// The frames of a sample.
struct ListedFrames<'a> {
    frames: Vec<FrameRow<'a>>,
    /// The number of outer frames that would make the row too long.
    left_out: usize,
    /// The outermost frame of user space is an entry point by its name.
    begins: bool,
}

impl<'a> Lister<'a> {
    /// Prints a sample, unless a pattern excludes it or nothing of its stack is left.
    pub(super) fn print(&'a self, sample: &Sample, key: &Key, json: bool, out: &mut Vec<u8>) {
        let Some(ListedFrames { frames, left_out, begins }) = self.frames(key) else { return };
        let is_walked = key.end != WalkEnd::NONE && key.end != WalkEnd::UNSAID;
        let tables = &self.loaded.tables;
        let parts = &tables.parts;
        let task = tables.task(sample.task);
        let event = parts.events().get(usize::from(sample.event));
        let row = SampleRow {
            schema: "icecore.samples/1",
            time_ns: signed(sample.time_ns).saturating_sub(signed(parts.zero_ns())),
            host: &parts.part(parts.of_task(sample.task)).session.host,
            tgid: parts.pid(task.tgid),
            tid: parts.pid(task.tid),
            comm: shorten(tables.text(task.comm), MAX_NAME_BYTES),
            cgroup: self.loaded.cgroups.path(key.cgroup).map(|path| shorten(path, MAX_NAME_BYTES)),
            cpu: sample.cpu,
            event: event.map_or("?", |event| &event.name),
            weight: sample.weight,
            field: self.fields.get(self.fields.of(sample)),
            wait: self.wait(sample),
            ended: sample.user_end.name(),
            kernel_ended: sample.kernel_end.name(),
            incomplete: is_walked && !self.loaded.is_rooted(key, begins),
            frames,
            frames_left_out: left_out,
        };
        // Writing to memory does not fail.
        drop(if json {
            serde_json::to_writer(&mut *out, &row).map(|()| out.push(b'\n')).map_err(Into::into)
        } else {
            row.text(event.map_or("", |event| &event.unit), parts.hosts().len() > 1, out)
        });
    }

    /// Returns what the row of a wait says; `None` if the sample is no wait, or has no row.
    fn wait(&'a self, sample: &Sample) -> Option<WaitOf<'a>> {
        let tables = &self.loaded.tables;
        let parts = &tables.parts;
        let row = tables.waits.get(self.waits.position(sample)?)?;
        let after = |ns: u64| signed(ns).saturating_sub(signed(parts.zero_ns()));
        let waker = row.waker_task.filter(|_| row.woken_by == WokenBy::THREAD).map(|task| {
            let Task { tgid, tid, comm } = tables.task(task);
            WakerOf {
                tgid: parts.pid(tgid),
                tid: parts.pid(tid),
                comm: shorten(tables.text(comm), MAX_NAME_BYTES),
                sample_time_ns: (row.waker_time_ns != 0).then(|| after(row.waker_time_ns)),
            }
        });
        Some(WaitOf {
            kind: self.kinds.kind(row.event, row.state, sample.kernel_stack).name(),
            state: row.state.name(),
            began_ns: after(row.began_ns),
            ended_ns: after(row.ended_ns),
            began_before: row.flags.has(WaitFlags::BEGAN_BEFORE),
            not_ended: row.flags.has(WaitFlags::NOT_ENDED),
            woken_by: row.woken_by.name(),
            waker,
        })
    }

    /// Returns the name and the image of the innermost function, or of that into which it was inlined; `None` if the sample is not
    /// printed, or has no stack.
    pub(super) fn leaf(&'a self, key: &Key, physical: bool) -> Option<(&'a str, Option<&'a str>)> {
        let frames = self.frames(key)?.frames;
        let leaf = frames.iter().find(|frame| !(physical && frame.inlined))?;
        Some((leaf.shown, leaf.image))
    }

    fn frames(&'a self, key: &Key) -> Option<ListedFrames<'a>> {
        let tables = &self.loaded.tables;
        let mut frames = Vec::new();
        let mut focused = self.loaded.patterns.focus.is_none();
        let mut of_language = self.loaded.patterns.language.is_none();
        let mut ignored = false;
        let (mut hidden, mut begins, mut user_frames) = (false, false, 0);
        let (mut bytes, mut left_out) = (0, 0);
        let kernel = steps(tables, key.kernel).map(|step| (self.locator.kernel(step), step, Side::Kernel));
        let user =
            self.locator.shown(key.user).map(|step| (self.locator.user(key.space, step), step, Side::User));
        for (place, step, side) in kernel.chain(user) {
            let position =
                self.located.position(place).or_else(|| self.located.position(CodeLocation::Lost))?;
            for frame in self.names.of_places.of(position) {
                let function = self.names.frames[*frame as usize].function as usize;
                begins = self.entries[function].begins(user_frames > 0);
                user_frames += usize::from(side == Side::User);
                focused |= self.matches.in_focus[function];
                of_language |= self.matches.of_language[function];
                ignored |= self.matches.ignored[function];
                if self.matches.hidden[function] {
                    hidden = true;
                    continue;
                }
                bytes += self.bytes(*frame);
                if bytes <= MAX_LINE_BYTES {
                    frames.push(self.frame(*frame, place, step, side, key.space))
                } else {
                    left_out += 1
                }
            }
        }
        (focused && of_language && !ignored && !(hidden && frames.is_empty())).then_some(ListedFrames {
            frames,
            left_out,
            begins,
        })
    }

    /// Estimates how many bytes it takes to name a frame.
    pub(super) fn bytes(&self, id: u32) -> usize {
        let frame = &self.names.frames[id as usize];
        let function = &self.names.functions[frame.function as usize];
        let image = self.names.image(function).map_or(0, |image| image.path.len());
        function.name.len() + image + frame.file.map_or(0, |file| self.names.files[file as usize].len())
    }

    fn frame(
        &'a self,
        id: u32,
        place: CodeLocation,
        step: Step,
        side: Side,
        space: Option<SpaceId>,
    ) -> FrameRow<'a> {
        let names = self.names;
        let frame = &names.frames[id as usize];
        let function = &names.functions[frame.function as usize];
        let in_image = matches!(place, CodeLocation::Image(..));
        let offset = step.location.filter(|_| in_image).and_then(|l| self.locator.file_off(space, l));
        FrameRow {
            name: function.reason.is_none().then_some(&*function.name),
            image: names.image(function).map(|image| &*image.path),
            offset: offset.map(|off| off.0),
            address: self.locator.address(space, step),
            side: if side == Side::User { "user" } else { "kernel" },
            inlined: frame.inlined,
            interrupted: step.role == Role::Interrupted && !step.is_interpreted(),
            guessed: step.mark.has(Mark::GUESSED),
            moved: in_image && self.locator.is_moved(space, step),
            file: frame.file.map(|file| &*names.files[file as usize]),
            line: frame.line,
            reason: function.reason.map(|reason| reason.code()),
            language: function.language_name(),
            shown: &function.name,
        }
    }
}

impl SampleRow<'_> {
    fn text(&self, unit: &str, names_host: bool, out: &mut Vec<u8>) -> std::io::Result<()> {
        let seconds = self.time_ns as f64 / 1e9;
        if names_host {
            write!(out, "{} ", self.host)?;
        }
        let Self { comm, tgid, tid, cpu, event, weight, .. } = self;
        write!(out, "{comm} {tgid}/{tid} [{cpu:03}] {seconds:.9}: {weight} {unit} {event}")?;
        if let Some(field) = self.field {
            write!(out, " {field}")?;
        }
        writeln!(out)?;
        for frame in &self.frames {
            match frame.address {
                Some(address) => write!(out, "    {address:>16x} {}", frame.shown)?,
                None => write!(out, "    {:>16} {}", "?", frame.shown)?,
            }
            if let Some(image) = frame.image {
                write!(out, " ({image})")?;
            }
            if let (Some(file), Some(line)) = (frame.file, frame.line) {
                write!(out, " {file}:{line}")?;
            }
            let remarks = [
                (frame.inlined, " inlined"),
                (frame.interrupted, " interrupted"),
                (frame.guessed, " guessed"),
                (frame.moved, " moved"),
            ];
            remarks.iter().filter(|(holds, _)| *holds).try_for_each(|(_, remark)| write!(out, "{remark}"))?;
            writeln!(out)?;
        }
        if self.frames_left_out > 0 {
            writeln!(out, "    {:>16} {}", "", gap(self.frames_left_out))?;
        }
        let incomplete = if self.incomplete { ", incomplete" } else { "" };
        writeln!(
            out,
            "    user stack ended: {}{incomplete}; kernel stack ended: {}\n",
            self.ended, self.kernel_ended
        )
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
