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
    /// Names are compared without what tells functions of one name apart: that depends on the events that a view shows.
    pub without_marks: bool,
    /// Names that several functions have: a stack may have two of these, so that the sum of totals is too large.
    pub shared: BTreeSet<String>,
}

impl Ours {
    /// Asks for the functions of one event.
    pub fn new(recording: &Path, event: &str, options: &[&str]) -> Self {
        Self::of(recording, &[&["--event", event], options].concat())
    }

    /// Asks for the functions that options select.
    pub fn of(recording: &Path, options: &[&str]) -> Self {
        let mut words: Vec<&OsStr> = vec!["top".as_ref(), recording.as_os_str()];
        words.extend(["--by", "inlined", "-n", "0", "--json"].map(OsStr::new));
        words.extend(options.iter().map(OsStr::new));
        let top: Value = serde_json::from_str(&report(&words)).expect("JSON");
        let mut ours = Self {
            total: number(&top["total_weight"]),
            samples: number(&top["total_samples"]),
            weights: Sums::new(),
            counts: Sums::new(),
            without_marks: false,
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
        assert!(!ours.weights.is_empty(), "there are no functions: {options:?}");
        ours
    }

    /// Returns a name as it is compared.
    fn shown(&self, name: &str) -> String {
        let mark = name.rfind(" (").filter(|_| self.without_marks && name.ends_with(')'));
        name[..mark.unwrap_or(name.len())].to_owned()
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
        let mut shared: BTreeSet<String> =
            self.shared.iter().map(|name| self.shown(&renamed(name))).collect();
        let mut joined = |sums: &Sums, renamed: &dyn Fn(&str) -> String| {
            let mut all = Sums::new();
            for (name, (own, total)) in sums {
                let new = self.shown(&renamed(name));
                if all.contains_key(&new) {
                    shared.insert(new.clone());
                }
                let sum = all.entry(new).or_default();
                *sum = (sum.0 + own, sum.1 + total);
            }
            all
        };
        let (ours, functions) = (joined(sums, &renamed), joined(&theirs.functions, &unchanged));
        let is_near = |a: f64, b: f64| (a - b * unit).abs() <= 1e-6 * a.abs().max(1.0);
        let mut wrong = Vec::new();
        if !is_near(total, theirs.total) {
            wrong.push(format!("all: {total}, theirs {}", theirs.total * unit));
        }
        let names: BTreeSet<&String> = ours.keys().chain(functions.keys()).collect();
        for name in names.into_iter().filter(|name| *name != NO_STACK) {
            let (a, b) = (ours.get(name), functions.get(name));
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

    /// Leaves out functions.
    #[must_use]
    pub fn without(mut self, is_other: impl Fn(&str) -> bool) -> Self {
        self.functions.retain(|name, _| !is_other(name));
        self
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
    equal(recording, format, options, false);
}

/// As above, but without what tells functions of one name apart: two functions that views show may be one by a stack of a wait, which they do
/// not show and an export has.
pub fn assert_equal_without_marks(recording: &Path, format: &str, options: &[&str]) {
    equal(recording, format, options, true);
}

fn equal(recording: &Path, format: &str, options: &[&str], without_marks: bool) {
    let (file, said) = export(recording, format, options);
    let reader = if format == "csv-samples" { "csv" } else { format };
    let read = read(reader, file.as_os_str(), &[]);
    let facts = &read["facts"];
    for (facts, name) in [
        (facts, "differences"),
        (facts, "renamed_by_symbolizing"),
        (facts, "wrong"),
        (facts, "advice"),
        (facts, "orphans"),
        (facts, "said"),
        (facts, "odd_lines"),
        (facts, "warnings"),
        (&facts["file"], "broken"),
        (&facts["schema"], "errors"),
    ] {
        let complaints = facts.get(name).filter(|it| !matches!(it.as_array().map(Vec::len), Some(0)));
        let complaints = complaints.filter(|it| !matches!(it.as_object().map(|it| it.len()), Some(0)));
        assert!(complaints.is_none(), "{format}: {name}: {complaints:?}");
    }
    let events = said["events"].as_array().expect("events");
    assert!(!events.is_empty(), "{said}");
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().expect("a name")).collect();
    if format == "folded" {
        // It has one kind of number: weights of different units become numbers of samples, as in our views.
        return folded(recording, &names.join(","), options, &read);
    }
    for (name, event) in names.iter().zip(events) {
        // Our views show events that measure waits only on request. Names are those of the other events.
        let shown = Ours::of(recording, options);
        let is_shown = (shown.total, shown.samples) == (number(&event["weight"]), number(&event["samples"]));
        let ours = if is_shown && !without_marks {
            shown
        } else {
            Ours { without_marks: true, ..Ours::new(recording, name, options) }
        };
        assert_eq!(
            (number(&event["weight"]), number(&event["samples"])),
            (ours.total, ours.samples),
            "{name}"
        );
        let what = format!("{format} of {name}");
        let is_time = event["unit"] == "nanoseconds";
        match format {
            "pprof" => pprof(&ours, &what, name, &read),
            "firefox" => {
                let theirs = tracks(&names, name, &read);
                ours.assert_equal(&what, &theirs, if is_time { 1e6 } else { 1.0 }, unchanged);
            }
            "callgrind" => {
                let theirs = Theirs::of(&read, &word(name)).without(|name| name.starts_with("[process "));
                ours.assert_equal(&what, &theirs, 1.0, unchanged);
            }
            "speedscope" => ours.assert_equal(&what, &profiles(name, &read), 1.0, unchanged),
            "csv" => {
                // Its rows are functions: samples without a stack have none.
                let own = ours.weights.values().map(|(own, _)| own).sum();
                Ours { total: own, ..ours }.assert_equal(&what, &Theirs::of(&read, name), 1.0, unchanged);
            }
            "csv-samples" => ours.assert_equal(&what, &Theirs::of(&read, name), 1.0, in_line),
            "perf-script" => {
                let printed = name.replacen(':', "\n", 1).replace(':', "_").replace('\n', ":");
                ours.assert_equal(&what, &Theirs::of(&read, &printed), 1.0, unchanged);
                // inferno knows an event by what stands before the first colon.
                let begin = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
                if names.iter().filter(|other| begin(other) == begin(name)).count() == 1 {
                    inferno(&ours, &what, &begin(name), &file);
                }
            }
            "perfetto" | "otlp" => ours.assert_equal(&what, &Theirs::of(&read, name), 1.0, unchanged),
            _ => panic!("no test reads {format}"),
        }
    }
}

/// Returns a name as a line of frames has it.
fn in_line(name: &str) -> String {
    name.replace(';', ":")
}

/// Returns the name of an event as callgrind has it.
fn word(event: &str) -> String {
    event.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Adds up the profiles of an event: each thread has its own.
fn profiles(event: &str, read: &Value) -> Theirs {
    let mut theirs = Theirs::default();
    for (name, total) in read["totals"].as_object().expect("totals") {
        let (_, of) = name.rsplit_once(") ").expect("a thread and an event");
        if of.split(", ").next() == Some(event) {
            theirs.add(number(total), &read["functions"][name]);
        }
    }
    theirs
}

/// Folded stacks begin with the names of processes.
fn folded(recording: &Path, events: &str, options: &[&str], read: &Value) {
    let mut ours = Ours::new(recording, events, options);
    let mut words: Vec<&OsStr> = vec!["top".as_ref(), recording.as_os_str()];
    words.extend(["--by", "process", "-n", "0", "--json", "--event", events].map(OsStr::new));
    words.extend(options.iter().map(OsStr::new));
    let top: Value = serde_json::from_str(&report(&words)).expect("JSON");
    let rows = top["rows"].as_array().expect("rows").iter();
    let processes: BTreeSet<String> =
        rows.map(|row| in_line(row["name"].as_str().expect("a name"))).collect();
    ours.weights.retain(|name, _| !processes.contains(&in_line(name)));
    let theirs = Theirs::of(read, "folded").without(|name| processes.contains(name));
    ours.assert_equal("folded", &theirs, 1.0, in_line);
}

/// inferno reads the text of perf script, and shortens names that are no plain words.
fn inferno(ours: &Ours, what: &str, event: &str, file: &Path) {
    let mut options = inferno::collapse::perf::Options::default();
    options.nthreads = 1;
    options.event_filter = Some(event.to_owned());
    let mut folded = Vec::new();
    let mut folder = inferno::collapse::perf::Folder::from(options);
    inferno::collapse::Collapse::collapse_file(&mut folder, Some(file), &mut folded)
        .expect("it reads the text");
    let (mut theirs, folded) = (Theirs::default(), String::from_utf8(folded).expect("UTF-8"));
    for line in folded.lines() {
        let (stack, weight) = line.rsplit_once(' ').expect("a stack and a weight");
        let weight: f64 = weight.parse().expect("a number");
        // It cuts what tells functions of one name apart, and leaves the space before it.
        let frames: Vec<&str> = stack.split(';').skip(1).map(str::trim).collect();
        theirs.total += weight;
        for frame in frames.iter().copied().collect::<BTreeSet<&str>>() {
            theirs.functions.entry(frame.to_owned()).or_default().1 += weight;
        }
        if let Some(leaf) = frames.last() {
            theirs.functions.entry((*leaf).to_owned()).or_default().0 += weight;
        }
    }
    let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // It cuts names at the first bracket, whatever stands there.
    let cut = |name: &str| name.split('(').next().unwrap_or_default().trim_end().to_owned();
    let mut shared = ours.shared.clone();
    let mut weights = Sums::new();
    for (name, (own, total)) in &ours.weights {
        let new = cut(name);
        if weights.contains_key(&new) || ours.shared.contains(name) {
            shared.insert(new.clone());
        }
        let sum = weights.entry(new).or_default();
        *sum = (sum.0 + own, sum.1 + total);
    }
    weights.retain(|name, _| is_plain(name) && !name.is_empty());
    let counts = Sums::new();
    let ours = Ours { weights, counts, shared, ..*ours };
    assert!(!ours.weights.is_empty() || ours.shared.is_empty());
    let theirs = theirs.without(|name| !ours.weights.contains_key(name));
    ours.assert_equal(&format!("inferno reads {what}"), &theirs, 1.0, unchanged);
}

fn unchanged(name: &str) -> String {
    name.to_owned()
}

/// Both decoders agree, and Go leaves all names as they are.
fn pprof(ours: &Ours, what: &str, event: &str, read: &Value) {
    ours.assert_equal(what, &Theirs::of(read, event), 1.0, unchanged);
    let counts = format!("{event}-samples");
    if read["totals"].get(&counts).is_some() {
        ours.assert_counts(what, &Theirs::of(read, &counts), unchanged);
    }
}

/// Adds up the tracks of an event. Threads have a track for each; those of other events than the first say so in their names.
pub fn tracks(events: &[&str], event: &str, read: &Value) -> Theirs {
    let mut theirs = Theirs::default();
    for thread in read["facts"]["threads"].as_array().expect("threads") {
        let name = thread["name"].as_str().expect("a name");
        let of = events.iter().find(|event| name.ends_with(&format!(" ({event})")));
        if *of.unwrap_or(&events[0]) == event {
            theirs.add(number(&thread["total"]), &thread["functions"]);
        }
    }
    theirs
}
