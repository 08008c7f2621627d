//! Processed profiles of the Firefox Profiler: JSON, as Firefox, samply and other converters write them.
//!
//! | versions | what differs |
//! |---|---|
//! | from 56 on | threads share their tables (`shared`); before that each thread has its own |
//! | from 70 on | a stack says how many rows above its caller is (`prefixOffset`); before that in which row (`prefix`) |
//! | old ones | a function has the name of its file (`fileName`); newer ones a row of `sources` |
//!
//! The parser looks for what is there, and not at the version.

mod document;

use icecore_format::records::{EventMeaning, Maker};
use icecore_profile::map::Map;

use super::READ;
use super::profile::{MAX_INLINED, NamedFn, NamedPlace, NamedSample, Profile, Thread, event, is_kernel};
use crate::Error;
use document::{Document, Number, Samples, Tables, TracedThread};

/// Nanoseconds of a millisecond, which is the format's unit of time.
const MS: f64 = 1e6;

/// Reads a profile.
///
/// # Errors
/// If the bytes are none, or tables refer to rows that are not there.
pub(super) fn parse(bytes: &[u8]) -> Result<Profile, Error> {
    let document: Document = serde_json::from_slice(bytes).map_err(|error| {
        let remedy = if error.is_eof() { "copy it here once more, as a whole" } else { READ };
        Error::input(format!("it is no processed profile of the Firefox Profiler: {error}; {remedy}"))
    })?;
    if document.meta.preprocessed_profile_version.is_none() {
        return Err(Error::input(
            "it is no processed profile of the Firefox Profiler: it has no meta.preprocessedProfileVersion; a raw profile of Firefox \
             becomes one if profiler.firefox.com loads and saves it",
        ));
    }
    let mut profile = Profile::new("firefox", Maker::FIREFOX);
    if let Some(program) = document.meta.program() {
        profile.recorder = program.to_owned();
    }
    profile.note("profiles of the Firefox Profiler do not tell CPUs, nor how walks of stacks ended");
    let mut reader = Reader { of: &document, profile, events: Map::default(), first_ns: document.first_ns() };
    let start_ns = document.meta.start_time.unwrap_or(0.0) * MS;
    reader.profile.start_unix_ns =
        (start_ns > 0.0).then_some(start_ns as u64).map(|ns| ns.saturating_add_signed(reader.first_ns));
    let shared = document.shared.as_ref().map(|tables| reader.stacks(tables)).transpose()?;
    for (number, thread) in document.threads.iter().enumerate() {
        let in_thread = |error| Error::input(format!("thread {number}: {error}"));
        let own = match shared {
            Some(_) => None,
            None => Some(reader.stacks(&thread.tables).map_err(in_thread)?),
        };
        let stacks = own.as_ref().or(shared.as_ref()).map_or(&[][..], |stacks| stacks);
        reader.thread(thread, stacks).map_err(in_thread)?;
    }
    reader.profile.count("counter", document.counters.len() as u64);
    if reader.profile.samples.is_empty() {
        return Err(Error::input("no thread has samples with stacks"));
    }
    Ok(reader.profile)
}

struct Reader<'a> {
    of: &'a Document,
    profile: Profile,
    /// Events by their names.
    events: Map<String, Option<u8>>,
    /// The earliest time of a sample, from the zero of the file; not after it.
    first_ns: i64,
}

impl Reader<'_> {
    /// Converts a table of stacks: for each row its stack.
    fn stacks(&mut self, tables: &Tables) -> Result<Vec<u32>, Error> {
        let (stacks, frames) = (&tables.stack_table, &tables.frame_table);
        let mut done: Vec<u32> = Vec::with_capacity(stacks.frame.len());
        for row in 0..stacks.frame.len() {
            let frame = stacks.frame[row] as usize;
            let prefix = stacks.prefix(row)?.map_or(0, |prefix| done[prefix]);
            let place = self.place(tables, frame);
            let place = place.map_err(|error| Error::input(format!("row {row} of stackTable: {error}")))?;
            let depth = frames.inline_depth.get(frame).copied().flatten();
            let around = depth.filter(|depth| *depth > 0.0).and_then(|_| self.around(prefix, &place));
            let (caller, place) = around.unwrap_or((prefix, place));
            let place = self.profile.frames(place);
            done.push(self.profile.stack(caller, &place)?);
        }
        Ok(done)
    }

    /// Joins a place and the one that a stack ends with, into which it is inlined; also returns what called both. `None` if that one cannot
    /// hold it: code of the kernel has no inlined functions in a recording.
    fn around(&self, stack: u32, place: &NamedPlace) -> Option<(u32, NamedPlace)> {
        let (caller, around) = self.profile.stacks.get(stack.checked_sub(1)?)?;
        let around = self.profile.places.get(*around)?;
        let fits = !around.is_kernel && !place.is_kernel && around.frames.len() < MAX_INLINED;
        let frames = || [&place.frames[..], &around.frames].concat();
        fits.then(|| (*caller, NamedPlace { frames: frames(), ..around.clone() }))
    }

    fn place(&mut self, tables: &Tables, frame: usize) -> Result<NamedPlace, Error> {
        let frames = &tables.frame_table;
        let function = *row("frameTable", &frames.func, frame)? as usize;
        let functions = &tables.func_table;
        let text = |position: u32| row("stringArray", &tables.string_array.0, position as usize);
        let name = text(*row("funcTable", &functions.name, function)?)?;
        let optional =
            |column: &[Option<Number>], at: usize| column.get(at).copied().flatten().and_then(position);
        let file = match optional(&functions.source, function) {
            Some(source) => Some(*row("sources", &tables.sources.filename, source)?),
            None => optional(&functions.file_name, function).map(|text| text as u32),
        };
        let file = file.map_or(Ok(""), |file| text(file).map(|text| &**text))?;
        let library = optional(&functions.resource, function).and_then(|resource| {
            let library = optional(&tables.resource_table.lib, resource)?;
            let library = self.of.libs.get(library).or_else(|| tables.libs.get(library))?;
            Some(library.path.clone())
        });
        let resource = optional(&functions.resource, function)
            .and_then(|resource| tables.resource_table.name.get(resource).copied())
            .map(text)
            .transpose()?;
        let path = library.flatten().or_else(|| resource.map(|name| name.to_string())).unwrap_or_default();
        let category = optional(&frames.category, frame).and_then(|at| self.of.meta.categories.get(at));
        let is_kernel = category.is_some_and(|category| category.name == "Kernel") || is_kernel(&path);
        let line = |column: &[Option<Number>], at: usize| optional(column, at).map_or(0, |line| line as u32);
        let function = NamedFn {
            name: self.profile.text(if name.is_empty() { "[unknown]" } else { name }),
            symbol: 0,
            file: self.profile.text(file),
            line: line(&functions.line_number, function),
        };
        let function = self.profile.functions.intern(function);
        let image = (!path.is_empty()).then(|| self.profile.image(&path, Vec::new()));
        let frames = vec![(function, line(&frames.line, frame))];
        Ok(NamedPlace { image, address: 0, frames, is_kernel })
    }

    fn thread(&mut self, thread: &TracedThread, stacks: &[u32]) -> Result<(), Error> {
        let (name, process) = (thread.name.as_deref(), thread.process_name.as_deref());
        let (tid, of_track) = thread.track(self.of.meta.imported_from.as_deref() == Some("icecore"));
        let row = Thread {
            tgid: thread.pid.number(),
            tid,
            name: self.profile.text(name.unwrap_or_default()),
            process: self.profile.text(process.unwrap_or_default()),
        };
        let row = self.profile.threads.intern(row);
        self.profile.count("marker", thread.markers.rows());
        for (what, table) in
            [("js_allocation", &thread.js_allocations), ("native_allocation", &thread.native_allocations)]
        {
            self.profile.count(what, table.as_ref().map_or(0, Samples::rows));
        }
        let samples = &thread.samples;
        let (unit, kind) = match samples.weight_type.as_deref() {
            Some("tracing-ms") => ("ns", "time"),
            Some("bytes") => ("bytes", "bytes"),
            _ if samples.weight.is_some() => ("counts", "samples"),
            _ => ("samples", "samples"),
        };
        let called = of_track.unwrap_or(kind).to_owned();
        let profile = &mut self.profile;
        let number = *self
            .events
            .entry(format!("{called} {unit}"))
            .or_insert_with(|| profile.event(event(&called, unit, EventMeaning::UNKNOWN)));
        let Some(number) = number else { return Ok(()) };
        let mut times = samples.times();
        for (at, stack) in samples.stack.iter().enumerate() {
            let time_ns = times.next().unwrap_or(0);
            let Some(stack) = stack else {
                self.profile.count("sample_without_stack", 1);
                continue;
            };
            let stack = stacks.get(*stack as usize).ok_or_else(|| {
                Error::input(format!("sample {at} has the stack {stack} of {}", stacks.len()))
            })?;
            let weight = samples
                .weight
                .as_ref()
                .map_or(1.0, |weights| weights.get(at).copied().flatten().unwrap_or(0.0));
            let weight = if unit == "ns" { (weight * MS).round() } else { weight };
            if weight < 0.0 || weight.fract() != 0.0 {
                self.profile.count(if weight < 0.0 { "negative_weight" } else { "fractional_weight" }, 1);
                continue;
            }
            let time_ns = time_ns.saturating_sub(self.first_ns).unsigned_abs();
            let sample =
                NamedSample { time_ns, event: number, thread: row, stack: *stack, weight: weight as u64 };
            self.profile.samples.push(sample);
        }
        Ok(())
    }
}

/// Returns a row of a table.
fn row<'t, T>(table: &str, column: &'t [T], at: usize) -> Result<&'t T, Error> {
    column.get(at).ok_or_else(|| Error::input(format!("{table} has no row {at}: it has {}", column.len())))
}

/// Converts a number of JSON to the position of a row; `None` if it is none: -1 stands for nothing.
fn position(number: Number) -> Option<usize> {
    (number >= 0.0 && number <= f64::from(u32::MAX)).then_some(number as usize)
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;
    use super::*;

    const SHARED: &str = r#"{"meta":{"preprocessedProfileVersion":70,"startTime":1000,"categories":[{"name":"User"},{"name":"Kernel"}]},
        "libs":[{"path":"/bin/x"}],"threads":[THREAD],"counters":[{}],"shared":{"stackTable":{"frame":[0,1,2],"prefixOffset":[0,1,1]},TABLES}}"#;
    const OWN: &str = r#"{"meta":{"preprocessedProfileVersion":40,"startTime":1000,"categories":[{"name":"User"},{"name":"Kernel"}]},
        "libs":[{"path":"/bin/x"}],"counters":[{}],"threads":[THREAD,"stackTable":{"frame":[0,1,2],"prefix":[null,0,1]},TABLES}]}"#;
    const TABLES: &str = r#""frameTable":{"func":[0,1,2],"line":[3,null,4],"category":[0,0,1],"inlineDepth":[0,1,0]},
        "funcTable":{"name":[0,1,2],"resource":[0,0,-1],"fileName":[3,null,null],"lineNumber":[1,2,null]},
        "resourceTable":{"lib":[0],"name":[0]},"stringArray":["main","f","read","a.c"]"#;
    const THREAD: &str = r#"{"name":"a","processName":"p","pid":"7-1","tid":8,"markers":{"name":[0,0]},"samples":{"weightType":"tracing-ms",
        "stack":[2,1,null,0,0],"time":[-1,2,3,4.5,5],"weight":[1,2,3,0.25,-1]}"#;

    fn text(of: &str) -> String {
        let thread = if of == SHARED { format!("{THREAD}}}") } else { THREAD.to_owned() };
        of.replace("THREAD", &thread).replace("TABLES", TABLES)
    }

    #[test]
    fn shared_tables_and_tables_of_threads_are_the_same() {
        for of in [SHARED, OWN] {
            let profile = parse(text(of).as_bytes()).expect("whole");
            let stacks = [("main:f;read!", 1_000_000), ("main:f", 2_000_000), ("main", 250_000)];
            assert_eq!(shown(&profile), stacks.map(|(stack, weight)| (stack.to_owned(), weight)));
            let times: Vec<u64> = profile.samples.iter().map(|sample| sample.time_ns).collect();
            assert_eq!(times, [0, 3_000_000, 5_500_000]);
            assert_eq!(profile.start_unix_ns, Some(999_000_000));
            let counts: Vec<_> = profile.not_imported.iter().map(|(what, count)| (*what, *count)).collect();
            assert_eq!(
                counts,
                [("counter", 1), ("marker", 2), ("negative_weight", 1), ("sample_without_stack", 1)]
            );
            let thread = profile.threads.get(0).expect("one");
            assert_eq!((thread.tgid, thread.tid), (7, 8));
        }
    }

    #[test]
    fn tables_that_refer_to_nothing_or_in_a_circle_are_errors_that_name_the_row() {
        let cause = |of: &str, from: &str, to: &str| {
            let text = text(of);
            assert!(text.contains(from), "{from}");
            parse(text.replace(from, to).as_bytes()).expect_err("refused").to_string()
        };
        assert_eq!(cause(SHARED, "[0,1,1]}", "[0,2,1]}"), "row 1 of stackTable has no caller above it");
        assert_eq!(
            cause(OWN, "[null,0,1]", "[null,1,1]"),
            "thread 0: row 1 of stackTable has no caller above it"
        );
        assert!(
            cause(SHARED, r#""frame":[0,1,2]"#, r#""frame":[0,1,9]"#)
                .contains("row 2 of stackTable: frameTable has no row 9")
        );
        assert!(cause(SHARED, r#""name":[0,1,2]"#, r#""name":[0,1,9]"#).contains("stringArray has no row 9"));
        assert!(cause(SHARED, r#""stack":[2,"#, r#""stack":[3,"#).contains("sample 0 has the stack 3 of 3"));
        assert!(cause(SHARED, r#""preprocessedProfileVersion":70,"#, "").contains("loads and saves it"));
        let whole = text(SHARED);
        let error = parse(&whole.as_bytes()[..whole.len() / 2]).expect_err("cut").to_string();
        assert!(error.contains("line ") && error.contains("as a whole"), "{error}");
    }

    #[test]
    fn json_that_goes_deeper_than_any_profile_ends() {
        let deep = "[".repeat(1 << 20);
        let error = parse(format!("{{\"meta\": {deep}").as_bytes()).expect_err("refused").to_string();
        assert!(error.contains("processed profile"), "{error}");
    }
}
