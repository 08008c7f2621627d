//! Perfetto: a trace of packets, each of which says one thing. ui.perfetto.dev and its trace processor read stack samples since v58.
//!
//! | room | what lives there |
//! |---|---|
//! | `sequence` | samples of one event, and the code they refer to |
//! | `tracks` | processes, threads and counters |
//! | `marks` | waits and values of counters, in the order of time |
//!
//! Packets are in the order of time, on the monotonic clock of the recording; a snapshot says which time of day its begin was. A *sequence* is a
//! row of packets that share numbers for names and frames. There is one for the samples of each event of a host, and one for all else of it:
//!
//! ```text
//! packet     1 clocks   2 tracks   3 sample of cpu-clock: names, frames, stack 1   4 sample: stack 1   5 a wait begins …
//! sequence   1          1          2                                               2                   1
//! ```

mod marks;
mod messages;
mod sequence;
mod tracks;

use std::io::{self, Write};

use icecore_analysis::counters::counted;
use icecore_profile::map::Interned;
use icecore_profile::named::Amount;

use crate::exported::Exported;
use crate::format::Format;
use crate::identity::identity;
use crate::kept::Fact;
use crate::wire;
use marks::{Mark, marks};
use messages::{
    Annotation, AnnotationValue, Clock, ClockSnapshot, PACKET, Packet, SystemInfo, TraceUuid, TrackEvent,
    Utsname,
};
use sequence::Sequence;
use tracks::{Track, Tracks};

/// The format.
#[derive(Debug)]
pub struct Perfetto;

impl Format for Perfetto {
    fn name(&self) -> &'static str {
        "perfetto"
    }

    fn version(&self) -> Option<&'static str> {
        Some("v58")
    }

    fn is_text(&self) -> bool {
        false
    }

    fn keeps(&self) -> &'static [Fact] {
        &[
            Fact::Inlined,
            Fact::Lines,
            Fact::Images,
            Fact::BuildIds,
            Fact::Addresses,
            Fact::Sides,
            Fact::Times,
            Fact::Cpus,
            Fact::Threads,
            Fact::Processes,
            Fact::Cgroups,
            Fact::Hosts,
            Fact::Events,
            Fact::Units,
            Fact::Samples,
            Fact::Waits,
            Fact::Counters,
            Fact::Verdict,
            Fact::Incomplete,
            Fact::Guesses,
        ]
    }

    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        let owners = counted(&of.report.loaded.selection());
        let tracks = Tracks::new(of, &owners);
        let mut writer = Writer { of, out, tracks: &tracks, ids: Interned::new(), sequences: Vec::new() };
        writer.head()?;
        for (machine, descriptor) in tracks.descriptors(of, &owners) {
            writer.packet(machine, |packet| packet.track_descriptor = Some(descriptor))?;
        }
        let mut marks = marks(of, &tracks, &owners).into_iter().peekable();
        for (position, sample) in (0u32..).zip(of.samples()) {
            while let Some((time_ns, mark)) = marks.next_if(|(time_ns, _)| *time_ns <= sample.moment.time_ns)
            {
                writer.mark(time_ns, mark)?;
            }
            writer.sample(position)?;
        }
        marks.try_for_each(|(time_ns, mark)| writer.mark(time_ns, mark))
    }
}

/// The clocks of Linux, as the format numbers them.
const REALTIME: u32 = 1;
const MONOTONIC: u32 = 3;

/// The kinds of events on tracks, as the format numbers them.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;

/// The growing trace.
struct Writer<'a, 'o> {
    of: &'a Exported<'a>,
    out: &'o mut dyn Write,
    tracks: &'a Tracks,
    /// Sequences by machine and position of the event; their ids are one more than their positions.
    ids: Interned<(u32, Option<usize>)>,
    sequences: Vec<Sequence<'a>>,
}

impl<'a> Writer<'a, '_> {
    /// Returns a sequence of a machine: of the samples of an event, or of all else.
    fn sequence(&mut self, machine: u32, event: Option<usize>) -> &mut Sequence<'a> {
        let position = self.ids.intern((machine, event)) as usize;
        if position == self.sequences.len() {
            self.sequences.push(Sequence::new(self.of, position as u32 + 1, machine, event));
        }
        &mut self.sequences[position]
    }

    /// Writes a packet that is no sample.
    fn packet(&mut self, machine: u32, fill: impl FnOnce(&mut Packet)) -> io::Result<()> {
        let mut packet = self.sequence(machine, None).packet();
        fill(&mut packet);
        wire::message(PACKET, &packet, self.out)
    }

    fn event(&mut self, machine: u32, time_ns: u64, event: TrackEvent) -> io::Result<()> {
        self.packet(machine, |packet| {
            packet.timestamp = Some(time_ns);
            packet.track_event = Some(event);
        })
    }

    /// Writes what holds for the whole trace: clocks and machines.
    fn head(&mut self) -> io::Result<()> {
        let parts = &self.of.report.loaded.tables.parts;
        let begin_unix_ns = self.of.begin_unix_ns();
        let mut clocks = vec![Clock { id: MONOTONIC, timestamp: Some(parts.zero_ns()) }];
        if begin_unix_ns > 0 {
            clocks.push(Clock { id: REALTIME, timestamp: Some(begin_unix_ns) });
        }
        for (machine, host) in (0u32..).zip(parts.hosts()) {
            let snapshot = ClockSnapshot { clocks: clocks.clone(), primary: MONOTONIC as i32 };
            self.packet(machine, |packet| packet.clock_snapshot = Some(snapshot))?;
            let Some(part) = parts.iter().find(|part| part.host as u32 == machine) else { continue };
            let utsname = Utsname {
                sysname: "Linux".to_owned(),
                version: part.session.kernel_version.clone(),
                release: part.session.kernel_release.clone(),
                machine: part.session.arch.clone(),
            };
            let info = SystemInfo { utsname: Some(utsname), machine_name: host.clone() };
            self.packet(machine, |packet| packet.system_info = Some(info))?;
        }
        let mut amount = Amount::default();
        self.of.events.iter().for_each(|event| amount.add(event.amount));
        let uuid = u128::from_be_bytes(identity(self.of, None, "", amount));
        let (msb, lsb) = (((uuid >> 64) as u64).cast_signed(), (uuid as u64).cast_signed());
        self.packet(0, |packet| packet.trace_uuid = Some(TraceUuid { msb, lsb }))
    }

    fn sample(&mut self, position: u32) -> io::Result<()> {
        let sample = self.of.sample(position);
        let Some(event) = self.of.event(sample.row) else { return Ok(()) };
        let machine = self.of.part(self.of.thread(sample.row)).host as u32;
        let packet = self.sequence(machine, Some(event)).sample(&sample, event);
        wire::message(PACKET, &packet, self.out)
    }

    fn mark(&mut self, time_ns: u64, mark: Mark) -> io::Result<()> {
        match mark {
            Mark::Remarks => self.event(0, time_ns, self.remarks()),
            Mark::End { machine, track } => {
                let event = TrackEvent { r#type: SLICE_END, track, ..TrackEvent::default() };
                self.event(machine, time_ns, event)
            }
            Mark::Value { machine, track, value } => {
                let counter_value = Some(wire::signed(value));
                let event = TrackEvent { r#type: COUNTER, track, counter_value, ..TrackEvent::default() };
                self.event(machine, time_ns, event)
            }
            Mark::Begin { machine, track, moment, .. } => {
                let event = TrackEvent { r#type: SLICE_BEGIN, track, ..self.wait(moment) };
                self.event(machine, time_ns, event)
            }
        }
    }

    /// Makes the event that says how good the data is.
    fn remarks(&self) -> TrackEvent {
        let mut remarks = self.of.remarks();
        let name = remarks.remove(0);
        let array = remarks.iter().map(|remark| Annotation { value: text(remark), ..Annotation::default() });
        let remarks = Annotation { name: "remarks".to_owned(), array: array.collect(), value: None };
        TrackEvent {
            r#type: INSTANT,
            track: self.tracks.uuid(Track::Recording),
            name,
            annotations: vec![remarks],
            ..TrackEvent::default()
        }
    }

    /// Makes the event of a wait.
    fn wait(&self, position: u32) -> TrackEvent {
        let of = self.of;
        let sample = of.sample(position);
        let annotation = |name: &str, value| Annotation { name: name.to_owned(), array: Vec::new(), value };
        let number = |number: u64| Some(AnnotationValue::Number(number));
        let mut annotations = Vec::new();
        annotations
            .extend(of.event(sample.row).map(|event| annotation("event", text(&of.events[event].name))));
        let wait = sample.row.wait.map(|wait| &of.report.profile.waits[wait as usize]);
        if let Some(wait) = wait {
            annotations.extend(marks::waker(&wait.waker).map(|name| annotation("waker", text(name))));
            annotations
                .extend(marks::waker_tid(&wait.waker).map(|tid| annotation("waker tid", number(tid.into()))));
        }
        annotations.push(annotation("cpu", number(sample.moment.cpu.into())));
        let name = wait.map_or_else(|| "unknown".to_owned(), |wait| wait.kind.name());
        TrackEvent { annotations, categories: vec!["wait".to_owned()], name, ..TrackEvent::default() }
    }
}

fn text(text: &str) -> Option<AnnotationValue> {
    Some(AnnotationValue::Text(text.to_owned()))
}
