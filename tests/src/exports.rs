//! Files that `icecore-report export` writes, read by programs that others wrote (tests/exports/), against what our own views print.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::machine::{report, text};

/// The name of the frame of samples without any stack.
pub const NO_STACK: &str = "[no stack]";

/// Self and total by function.
pub type Sums = BTreeMap<String, (f64, f64)>;

/// What `top --by inlined` prints of one event.
#[derive(Debug)]
pub struct Ours {
    /// The weight of all samples.
    pub total: f64,
    /// The number of all samples.
    pub samples: f64,
    /// The sums of weights. Functions of one name are added up.
    pub weights: Sums,
    /// The sums of numbers of samples, likewise.
    pub counts: Sums,
    /// Names that several functions have: a stack may have two of these, so that the sum of totals is too large.
    pub shared: BTreeSet<String>,
}

impl Ours {
    /// Asks for the functions of one event.
    pub fn new(recording: &Path, event: &str, options: &[&str]) -> Self {
        let mut words: Vec<&OsStr> = vec!["top".as_ref(), recording.as_os_str()];
        words.extend(["--by", "inlined", "-n", "0", "--json", "--event", event].map(OsStr::new));
        words.extend(options.iter().map(OsStr::new));
        let top: Value = serde_json::from_str(&report(&words)).expect("JSON");
        let mut ours = Self {
            total: number(&top["total_weight"]),
            samples: number(&top["total_samples"]),
            weights: Sums::new(),
            counts: Sums::new(),
            shared: BTreeSet::new(),
        };
        for row in top["rows"].as_array().expect("rows") {
            let name = row["name"].as_str().expect("a name").to_owned();
            if ours.weights.contains_key(&name) {
                ours.shared.insert(name.clone());
            }
            for (sums, own, total) in
                [(&mut ours.weights, "self", "total"), (&mut ours.counts, "self_samples", "total_samples")]
            {
                let sum = sums.entry(name.clone()).or_default();
                *sum = (sum.0 + number(&row[own]), sum.1 + number(&row[total]));
            }
        }
        assert!(!ours.weights.is_empty(), "there are no functions of {event}");
        ours
    }

    /// Compares weights of one reader with ours; `unit` of theirs are one of ours. Names of ours pass `renamed` first.
    pub fn assert_equal(&self, what: &str, theirs: &Theirs, unit: f64, renamed: impl Fn(&str) -> String) {
        self.compare((&self.weights, self.total), what, theirs, unit, renamed);
    }

    /// Compares numbers of samples likewise.
    pub fn assert_counts(&self, what: &str, theirs: &Theirs, renamed: impl Fn(&str) -> String) {
        self.compare((&self.counts, self.samples), what, theirs, 1.0, renamed);
    }

    fn compare(
        &self,
        (sums, total): (&Sums, f64),
        what: &str,
        theirs: &Theirs,
        unit: f64,
        renamed: impl Fn(&str) -> String,
    ) {
        let mut ours = Sums::new();
        let mut shared = BTreeSet::new();
        for (name, (own, total)) in sums {
            let new = renamed(name);
            if self.shared.contains(name) || ours.contains_key(&new) {
                shared.insert(new.clone());
            }
            let sum = ours.entry(new).or_default();
            *sum = (sum.0 + own, sum.1 + total);
        }
        let is_near = |a: f64, b: f64| (a - b * unit).abs() <= 1e-6 * a.abs().max(1.0);
        let mut wrong = Vec::new();
        if !is_near(total, theirs.total) {
            wrong.push(format!("all: {total}, theirs {}", theirs.total * unit));
        }
        let names: BTreeSet<&String> = ours.keys().chain(theirs.functions.keys()).collect();
        for name in names.into_iter().filter(|name| *name != NO_STACK) {
            let (a, b) = (ours.get(name), theirs.functions.get(name));
            let (a_or_0, b_or_0) = (a.copied().unwrap_or_default(), b.copied().unwrap_or_default());
            let is_total_near = shared.contains(name) || is_near(a_or_0.1, b_or_0.1);
            if !is_near(a_or_0.0, b_or_0.0) || !is_total_near {
                wrong.push(format!("{name}: {a:?}, theirs {b:?}"));
            }
        }
        let count = wrong.len();
        wrong.truncate(20);
        assert!(
            wrong.is_empty(),
            "{what}: {count} of {} functions differ:\n{}",
            ours.len(),
            wrong.join("\n")
        );
    }
}

/// What a reader says of one event.
#[derive(Debug, Default)]
pub struct Theirs {
    /// The weight of all samples.
    pub total: f64,
    /// The sums of all functions.
    pub functions: Sums,
}

impl Theirs {
    /// Takes an event of what [`read`] returns.
    pub fn of(read: &Value, event: &str) -> Self {
        let functions = read["functions"].get(event).and_then(Value::as_object);
        let functions = functions.unwrap_or_else(|| panic!("no event {event} in {}", read["totals"]));
        let sum = |(name, sums): (&String, &Value)| (name.clone(), (number(&sums[0]), number(&sums[1])));
        Self { total: number(&read["totals"][event]), functions: functions.iter().map(sum).collect() }
    }

    /// Adds the sums of others: of other threads.
    pub fn add(&mut self, total: f64, functions: &Value) {
        self.total += total;
        for (name, sums) in functions.as_object().expect("functions") {
            let sum = self.functions.entry(name.clone()).or_default();
            *sum = (sum.0 + number(&sums[0]), sum.1 + number(&sums[1]));
        }
    }
}

/// Reads a number, whose digits may stand in a text.
pub fn number(value: &Value) -> f64 {
    let text = value.as_str().and_then(|text| text.parse().ok());
    value.as_f64().or(text).unwrap_or_else(|| panic!("no number: {value}"))
}

/// Exports a recording into a file beside it; returns its path and what the command said.
pub fn export(recording: &Path, format: &str, options: &[&str]) -> (PathBuf, Value) {
    let out = recording.with_extension(format);
    let mut words: Vec<&OsStr> =
        vec!["export".as_ref(), recording.as_os_str(), "--to".as_ref(), format.as_ref()];
    words.extend(["-o".as_ref(), out.as_os_str(), "--force".as_ref(), "--json".as_ref()]);
    words.extend(options.iter().map(OsStr::new));
    let said = serde_json::from_str(&report(&words)).expect("JSON");
    (out, said)
}

/// Lets the programs of a format read a file.
pub fn read(format: &str, file: &OsStr, options: &[&str]) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = Command::new(root.join("../target/engines/test/bin/python"));
    python.arg(root.join("exports/read.py")).arg(format).arg(file).args(options);
    let out = python.output().expect("there is no venv: run tests/setup.sh test");
    assert!(out.status.success(), "{format}: {}{}", text(&out.stdout), text(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// Exports a recording in all formats, and compares what their readers say with what our views print; `options` select samples.
pub fn assert_all_equal(recording: &Path, options: &[&str]) {
    for format in icecore_export::ALL {
        assert_equal(recording, format.name(), options);
    }
}

/// Exports a recording in one format, and compares what its readers say.
pub fn assert_equal(recording: &Path, format: &str, options: &[&str]) {
    let (file, said) = export(recording, format, options);
    let read = read(format, file.as_os_str(), &[]);
    let events = said["events"].as_array().expect("events");
    assert!(!events.is_empty(), "{said}");
    for event in events {
        let name = event["event"].as_str().expect("a name");
        let ours = Ours::new(recording, name, options);
        assert_eq!(
            (number(&event["weight"]), number(&event["samples"])),
            (ours.total, ours.samples),
            "{name}"
        );
        let what = format!("{format} of {name}");
        match format {
            "pprof" => pprof(&ours, &what, name, &read),
            "firefox" => firefox(&ours, &what, (name, event), events, &read),
            _ => panic!("no test reads {format}"),
        }
    }
}

fn unchanged(name: &str) -> String {
    name.to_owned()
}

/// Both decoders agree, and Go leaves all names as they are.
fn pprof(ours: &Ours, what: &str, event: &str, read: &Value) {
    let facts = &read["facts"];
    for empty in ["differences", "renamed_by_symbolizing"] {
        assert_eq!(facts[empty], serde_json::json!([]), "{what}: {empty}");
    }
    ours.assert_equal(what, &Theirs::of(read, event), 1.0, unchanged);
    let counts = format!("{event}-samples");
    if read["totals"].get(&counts).is_some() {
        ours.assert_counts(what, &Theirs::of(read, &counts), unchanged);
    }
}

/// Threads have a track for every event; those of other events than the first say so in their names.
fn firefox(ours: &Ours, what: &str, (event, told): (&str, &Value), events: &[Value], read: &Value) {
    assert_eq!(read["facts"]["file"]["broken"], serde_json::json!([]), "{what}");
    let is_of = |name: &str, event: &Value| {
        name.ends_with(&format!(" ({})", event["event"].as_str().expect("a name")))
    };
    let mut theirs = Theirs::default();
    for thread in read["facts"]["threads"].as_array().expect("threads") {
        let name = thread["name"].as_str().expect("a name");
        let is_wanted = match events.iter().find(|event| is_of(name, event)) {
            Some(of) => of["event"] == event,
            None => told == &events[0],
        };
        if is_wanted {
            theirs.add(number(&thread["total"]), &thread["functions"]);
        }
    }
    let unit = if told["unit"] == "nanoseconds" { 1e6 } else { 1.0 };
    ours.assert_equal(what, &theirs, unit, unchanged);
}
