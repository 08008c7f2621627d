//! Samples and waits of each thread.

use icecore_profile::map::{Interned, Map};
use icecore_profile::named::waits::Waker;
use icecore_profile::recording::events::Meaning;
use icecore_profile::recording::spans::unrecorded;
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::shared::{NATIVE, SharedTables};
use super::{is_time, ms, weight_type};
use crate::exported::{Exported, ExportedSample};

/// The type of the markers of waits.
const WAIT: &str = "wait";

/// Describes markers of waits to the Profiler.
pub(super) fn schema() -> Value {
    let field = |key: &str, label: &str| json!({ "key": key, "label": label, "format": "string" });
    json!({
        "name": WAIT,
        "tooltipLabel": "{marker.name}: {marker.data.event}",
        "tableLabel": "{marker.name}: {marker.data.event}, ended by {marker.data.waker}",
        "chartLabel": "{marker.name}",
        "display": ["marker-chart", "marker-table", "timeline-overview"],
        "fields": [field("event", "Event"), field("waker", "Ended by")],
    })
}

/// What a track shows: a thread under all of its names, and an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TrackKey {
    part: u32,
    tgid: u32,
    tid: u32,
    event: usize,
}

/// A row of samples.
#[derive(Debug)]
pub(super) struct Track {
    key: TrackKey,
    /// The last position of its thread in the profile: it is called what it was called last.
    thread: u32,
    /// Its samples, positions in the profile's moments.
    moments: Vec<u32>,
    /// Waits of the thread that are shown here as intervals, likewise.
    waits: Vec<u32>,
    /// The first track of its process.
    is_main: bool,
}

/// All tracks, those of one process and of one thread side by side.
#[derive(Debug)]
pub(super) struct Tracks {
    pub(super) all: Vec<Track>,
    /// The event of the tracks that have only the names of their threads, a position in the events.
    pub(super) main: Option<usize>,
    /// The track with most weight of that event.
    pub(super) heaviest: Option<usize>,
}

impl Tracks {
    /// Divides the samples.
    pub(super) fn new(of: &Exported<'_>) -> Self {
        let main = of.events.iter().position(|event| event.is_usual);
        let mut keys: Interned<TrackKey> = Interned::new();
        let mut all: Vec<Track> = Vec::new();
        let mut weights: Vec<u64> = Vec::new();
        for (position, sample) in (0..).zip(of.samples()) {
            let Some(event) = of.event(sample.row) else { continue };
            let thread = of.thread(sample.row);
            let key = TrackKey { part: thread.part, tgid: thread.tgid, tid: thread.tid, event };
            let at = keys.intern(key.clone()) as usize;
            if at == all.len() {
                let (moments, waits) = (Vec::new(), Vec::new());
                all.push(Track { key, thread: sample.row.thread, moments, waits, is_main: false });
                weights.push(0);
            }
            all[at].moments.push(position);
            all[at].thread = sample.row.thread;
            let weight = if main == Some(event) { sample.moment.weight } else { 0 };
            weights[at] = weights[at].saturating_add(weight);
        }
        let heaviest = (0..weights.len()).rev().max_by_key(|at| weights[*at]).filter(|at| weights[*at] > 0);
        let heaviest = heaviest.map(|at| all[at].key.clone());
        // The main thread of a process first, and of a thread its main event.
        all.sort_by_key(|Track { key, .. }| {
            let is_other = main != Some(key.event);
            (key.part, key.tgid, key.tid != key.tgid, key.tid, is_other, key.event)
        });
        let heaviest = heaviest.and_then(|key| all.iter().position(|track| track.key == key));
        let mut tracks = Self { all, main, heaviest };
        tracks.settle(of);
        tracks
    }

    /// Puts the waits of each thread on its first track, and marks the first track of each process.
    fn settle(&mut self, of: &Exported<'_>) {
        let mut first: Map<(u32, u32, u32), usize> = Map::default();
        let mut processes: Map<(u32, u32), ()> = Map::default();
        for at in 0..self.all.len() {
            let TrackKey { part, tgid, tid, event } = self.all[at].key;
            self.all[at].is_main = processes.insert((part, tgid), ()).is_none();
            let first = *first.entry((part, tgid, tid)).or_insert(at);
            if of.events[event].meaning == Meaning::Wait {
                let waits = self.all[at].moments.clone();
                self.all[first].waits.extend(waits);
            }
        }
        self.all.iter_mut().for_each(|track| track.waits.sort_unstable());
    }

    /// Returns the first track.
    pub(super) fn first(&self) -> Option<usize> {
        (!self.all.is_empty()).then_some(0)
    }

    /// Returns the session and the number of a track's process.
    pub(super) fn process(&self, track: usize) -> (u32, u32) {
        (self.all[track].key.part, self.all[track].key.tgid)
    }

    /// Finds the first track of a process.
    pub(super) fn of_process(&self, part: u32, tgid: u32) -> Option<usize> {
        self.all.iter().position(|it| it.is_main && it.key.part == part && it.key.tgid == tgid)
    }
}

/// Identifies a process: processes of several sessions may have one number.
pub(super) fn pid(of: &Exported<'_>, part: u32, tgid: u32) -> String {
    if of.report.loaded.tables.parts.len() == 1 { tgid.to_string() } else { format!("{tgid}-{part}") }
}

/// The tracks as JSON: each is made when it is written.
pub(super) struct Threads<'a> {
    pub(super) of: &'a Exported<'a>,
    pub(super) tables: &'a SharedTables,
    pub(super) tracks: &'a Tracks,
}

impl Serialize for Threads<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        self.tracks.all.iter().try_for_each(|track| list.serialize_element(&self.thread(track)))?;
        list.end()
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    process_type: &'static str,
    process_name: String,
    process_startup_time: f64,
    process_shutdown_time: Option<f64>,
    register_time: f64,
    unregister_time: Option<f64>,
    paused_ranges: Vec<Value>,
    name: String,
    is_main_thread: bool,
    pid: String,
    tid: Value,
    samples: Samples,
    markers: Markers,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    length: usize,
    stack: Vec<u32>,
    time: Vec<f64>,
    weight: Vec<f64>,
    weight_type: &'static str,
    #[serde(rename = "threadCPUDelta", skip_serializing_if = "Vec::is_empty")]
    cpu_delta: Vec<u64>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Markers {
    length: usize,
    name: Vec<u32>,
    start_time: Vec<f64>,
    end_time: Vec<f64>,
    phase: Vec<u8>,
    category: Vec<u32>,
    data: Vec<Value>,
}

/// The phase of a marker that has a begin and an end.
const INTERVAL: u8 = 1;

impl Threads<'_> {
    fn thread(&self, track: &Track) -> Thread {
        let of = self.of;
        let thread = &of.report.profile.threads[track.thread as usize];
        let event = &of.events[track.key.event];
        let is_main_event = self.tracks.main == Some(track.key.event);
        let host = of.host(thread).map(|host| format!(" on {host}")).unwrap_or_default();
        let (name, tid) = if is_main_event {
            (thread.comm.to_string(), json!(thread.tid))
        } else {
            // Another track of the same thread must have another number.
            (format!("{} ({})", thread.comm, event.name), json!(format!("{} {}", thread.tid, event.name)))
        };
        Thread {
            process_type: "default",
            process_name: format!("{}{host}", thread.process),
            process_startup_time: 0.0,
            process_shutdown_time: None,
            register_time: 0.0,
            unregister_time: None,
            paused_ranges: self.pauses(),
            name,
            is_main_thread: track.is_main,
            pid: pid(of, track.key.part, track.key.tgid),
            tid,
            samples: self.samples(track),
            markers: self.markers(track),
        }
    }

    fn pauses(&self) -> Vec<Value> {
        let loaded = self.of.report.loaded;
        let gaps = unrecorded(&loaded.tables, &loaded.filter).into_iter();
        let time = |at_ns| ms(self.of.after_begin_ns(at_ns));
        let pause = |(begin_ns, end_ns): (u64, u64)| json!({ "startTime": time(begin_ns), "endTime": time(end_ns), "reason": "profiler-paused" });
        gaps.filter(|gap| gap.paused.is_some()).map(|gap| pause(gap.span_ns)).collect()
    }

    fn samples(&self, track: &Track) -> Samples {
        let of = self.of;
        let event = &of.events[track.key.event];
        let mut samples = Samples { weight_type: weight_type(event), ..Samples::default() };
        let is_cpu_time = event.meaning == Meaning::CpuTime && is_time(event);
        for position in &track.moments {
            let ExportedSample { moment, site, .. } = of.sample(*position);
            samples.stack.push(self.tables.stack(site));
            samples.time.push(ms(of.after_begin_ns(moment.time_ns)));
            samples.weight.push(if is_time(event) { ms(moment.weight) } else { moment.weight as f64 });
            if is_cpu_time {
                samples.cpu_delta.push(moment.weight);
            }
        }
        samples.length = samples.stack.len();
        samples
    }

    fn markers(&self, track: &Track) -> Markers {
        let of = self.of;
        let profile = &of.report.profile;
        let mut markers = Markers::default();
        for position in &track.waits {
            let ExportedSample { moment, row, site } = of.sample(*position);
            let (Some(event), Some(position)) = (of.event(row), row.wait) else { continue };
            let wait = &profile.waits[position as usize];
            let end_ns = of.after_begin_ns(moment.time_ns.saturating_sub(moment.late_ns));
            let end = ms(end_ns);
            let waker = match &wait.waker {
                Waker::Thread(waker) => format!("{} ({})", waker.comm, waker.tid),
                other => other.words().unwrap_or_default().to_owned(),
            };
            let stack = self.tables.stack(site);
            let data = json!({
                "type": WAIT, "event": of.events[event].name, "waker": waker, "cause": { "time": end, "stack": stack },
            });
            markers.name.push(self.tables.wait_kinds[position as usize]);
            markers.start_time.push(ms(end_ns.saturating_sub(moment.lasted_ns)));
            markers.end_time.push(end);
            markers.phase.push(INTERVAL);
            markers.category.push(NATIVE);
            markers.data.push(data);
        }
        markers.length = markers.name.len();
        markers
    }
}
