//! The Firefox Profiler: its processed profile, as JSON. profiler.firefox.com shows it without any server of symbols, because it has names.
//!
//! | room | what lives there |
//! |---|---|
//! | `shared` | tables that all threads share: functions, frames, stacks |
//! | `threads` | samples and waits of each thread |
//! | `counters` | counters of processes and of the machine |
//!
//! Each thread has a track for every event of its samples. Waits are intervals on the first of these, too, with the stack that waited.
//! Of code in files the frames have addresses, so that a server of symbols (`serve`) can show their instructions and sources.

mod counters;
mod shared;
mod threads;

use std::io::{self, Write};

use icecore_profile::recording::load::parts::recorder;
use icecore_symbolize::image::Finder;
use serde::Serialize;
use serde_json::{Value, json};

use crate::exported::{Exported, ExportedEvent};
use crate::format::Format;
use crate::kept::Fact;
use crate::modules::Modules;
use counters::Counter;
use shared::{Category, Lib, Shared, SharedTables};
use threads::{Threads, Tracks};

/// The version of the format.
const VERSION: u32 = 70;
/// The version of the raw profiles of Firefox to which it belongs.
const RAW_VERSION: u32 = 36;

/// The format.
#[derive(Debug)]
pub struct Firefox;

impl Format for Firefox {
    fn name(&self) -> &'static str {
        "firefox"
    }

    fn version(&self) -> Option<&'static str> {
        Some("70")
    }

    fn is_text(&self) -> bool {
        true
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
            Fact::Threads,
            Fact::Processes,
            Fact::Hosts,
            Fact::Events,
            Fact::Units,
            Fact::Waits,
            Fact::Counters,
            Fact::Verdict,
        ]
    }

    fn write(&self, of: &Exported<'_>, out: &mut dyn Write) -> io::Result<()> {
        let loaded = of.report.loaded;
        let embedded = of.locator.embedded(loaded.recording);
        let finder = Finder { search: loaded.search, embedded: Some(&embedded) };
        let mut modules = Modules::default();
        modules.add_all(0, of.located, &of.locator, &finder);
        write(of, &modules, 0, out)
    }
}

/// Writes the profile of a recording, a position among those of the modules.
///
/// # Errors  If `out` cannot be written.
pub fn write(of: &Exported<'_>, modules: &Modules, recording: usize, out: &mut dyn Write) -> io::Result<()> {
    let tables = SharedTables::new(of, modules, recording);
    let tracks = Tracks::new(of);
    let counters = counters::of(of, &tracks);
    let profile = Profile {
        meta: meta(of, &tables.categories, &tracks),
        libs: &tables.libs,
        threads: Threads { of, tables: &tables, tracks: &tracks },
        counters,
        shared: &tables.shared,
        pages: [],
        profiler_overhead: [],
    };
    serde_json::to_writer(out, &profile).map_err(io::Error::from)
}

/// The document.
#[derive(Serialize)]
struct Profile<'a> {
    meta: Value,
    libs: &'a [Lib],
    threads: Threads<'a>,
    counters: Vec<Counter>,
    shared: &'a Shared,
    pages: [(); 0],
    #[serde(rename = "profilerOverhead")]
    profiler_overhead: [(); 0],
}

/// Returns ns as ms, which is the format's unit of time.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Returns true if weights of an event are times.
fn is_time(event: &ExportedEvent) -> bool {
    event.unit == "nanoseconds"
}

/// What weights of an event are; the format knows three kinds.
fn weight_type(event: &ExportedEvent) -> &'static str {
    match &*event.unit {
        "nanoseconds" => "tracing-ms",
        "bytes" => "bytes",
        _ => "samples",
    }
}

fn meta(of: &Exported<'_>, categories: &[Category], tracks: &Tracks) -> Value {
    let loaded = of.report.loaded;
    let parts = &loaded.tables.parts;
    let session = &parts.part(0).session;
    let interval = tracks.main.map(|event| &of.events[event]).filter(|event| is_time(event));
    let interval = interval.map_or(1.0, |event| ms(event.period.max(1)));
    let quality = of.quality;
    let entry = |label: &str, value: String| json!({ "label": label, "format": "string", "value": value });
    let verdict = [entry("Verdict", quality.said()), entry("Samples lost", quality.lost.samples.to_string())];
    let problems = quality.problems.iter().map(|problem| entry("Problem", problem.clone()));
    let restrictions = quality.restrictions.iter().map(|what| entry("Left out", what.clone()));
    let filter = of.report.filtered.iter().map(|filter| entry("Filter", filter.clone()));
    let guessed = of.report.profile.guessed().samples;
    let guessed = (guessed > 0).then(|| entry("Samples with a guessed frame", guessed.to_string()));
    let data: Vec<Value> =
        verdict.into_iter().chain(problems).chain(restrictions).chain(filter).chain(guessed).collect();
    let recorded = parts.iter().flat_map(|part| {
        let session = &part.session;
        let labels = session.labels.iter().map(|label| entry(&label.key, label.value.clone()));
        let host = entry("Host", format!("{}, Linux {}", session.host, session.kernel_release));
        let command = entry("Command", session.command_line.join(" "));
        [host, entry("Recorder", recorder(session.maker, &session.recorder)), command]
            .into_iter()
            .chain(labels)
    });
    let recorded: Vec<Value> = recorded.collect();
    json!({
        "version": RAW_VERSION,
        "preprocessedProfileVersion": VERSION,
        "interval": interval,
        "startTime": of.begin_unix_ns() as f64 / 1e6,
        "processType": 0,
        "product": loaded.path.file_name().unwrap_or_default().to_string_lossy(),
        "importedFrom": "icecore",
        "stackwalk": 1,
        "debug": false,
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "keepProfileThreadOrder": true,
        "initialSelectedThreads": tracks.heaviest.iter().collect::<Vec<_>>(),
        "oscpu": format!("Linux {} {}", session.kernel_release, session.arch),
        "logicalCPUs": session.cpus.len(),
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns" },
        "categories": categories,
        "markerSchema": [threads::schema()],
        "extra": [
            { "label": "How good the data is", "entries": data },
            { "label": "Recording", "entries": recorded },
        ],
    })
}
