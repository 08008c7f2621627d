//! `/symbolicate/v5`: names, files and lines of addresses.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map as Object, Value, json};

use super::Served;
use icecore_export::modules::{Module, Modules};
use icecore_profile::named::names::{Names, name};
use icecore_profile::stacks::locate::CodeLocation;
use icecore_symbolize::image::FileOff;

/// The most addresses of one request.
const MOST: usize = 1 << 20;
/// The longest answer, bytes: a short request may name one address many times.
const MOST_BYTES: usize = 64 << 20;

/// What is asked: several jobs, or one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Request {
    Jobs { jobs: Vec<Job> },
    One(Job),
}

#[derive(Deserialize)]
struct Job {
    /// Debug names and debug ids.
    #[serde(rename = "memoryMap")]
    modules: Vec<(String, String)>,
    /// Positions of modules, or -1, and addresses.
    stacks: Vec<Vec<(i64, i64)>>,
}

/// What is known of addresses: the fields of their frames as JSON, each with a comma before it.
type Known = BTreeMap<(usize, u32, FileOff), String>;

/// Answers a request.
///
/// # Errors  what is wrong with it
pub(super) fn symbolicate(
    recordings: &[Served<'_>],
    modules: &Modules,
    body: &[u8],
) -> Result<String, String> {
    let request: Request =
        serde_json::from_slice(body).map_err(|error| format!("this is no request for names: {error}"))?;
    let jobs = match request {
        Request::Jobs { jobs } => jobs,
        Request::One(job) => vec![job],
    };
    let frames = || jobs.iter().flat_map(|job| job.stacks.iter().flatten().map(move |frame| (job, *frame)));
    if frames().count() > MOST {
        return Err(format!("too many addresses: at most {MOST} in one request"));
    }
    let mut wanted: BTreeMap<(usize, u32), BTreeSet<FileOff>> = BTreeMap::new();
    for (job, frame) in frames() {
        if let Some((module, off)) = job.find(modules, frame) {
            wanted.entry((module.recording, module.image)).or_default().insert(off);
        }
    }
    let mut known = Known::new();
    let mut bytes = 0;
    for ((recording, image), offs) in wanted {
        let offs: Vec<FileOff> = offs.into_iter().collect();
        named(&recordings[recording], image, &offs, |off, fields| {
            let json = Value::Object(fields).to_string();
            let inner = &json[1..json.len() - 1];
            let fields = if inner.is_empty() { String::new() } else { format!(",{inner}") };
            bytes += fields.len();
            known.insert((recording, image, off), fields);
            if bytes > MOST_BYTES { Err(too_long()) } else { Ok(()) }
        })?;
    }
    let mut answer = "{\"results\":[".to_owned();
    for (number, job) in jobs.iter().enumerate() {
        answer.push_str(if number > 0 { "," } else { "" });
        job.answer(modules, &known, &mut answer)?;
    }
    answer.push_str("]}");
    Ok(answer)
}

fn too_long() -> String {
    format!("the answer is longer than {} MiB: ask for fewer addresses", MOST_BYTES >> 20)
}

/// Names offsets of an image, which ascend, and hands on the fields of each: those of many inlined calls are large.
fn named(
    served: &Served<'_>,
    image: u32,
    offs: &[FileOff],
    mut take: impl FnMut(FileOff, Object<String, Value>) -> Result<(), String>,
) -> Result<(), String> {
    let finder = served.finder();
    let places: Vec<CodeLocation> = offs.iter().map(|off| CodeLocation::Image(image, *off)).collect();
    let names = name(&places, &served.locator, &finder, &|_| ());
    let hidden = served.report.loaded.patterns.matches(&names).hidden;
    let extents = served.code(&finder).extents(image, offs);
    for (position, off) in offs.iter().enumerate() {
        let mut fields = frames(&names, &hidden, position);
        let extent = extents.get(position).cloned().flatten();
        if let Some((at, Some(extent))) = extent.filter(|_| fields.contains_key("function")) {
            fields.insert("function_offset".into(), hex(at.0.saturating_sub(extent.start.0)));
            fields.insert("function_size".into(), hex(extent.end.0.saturating_sub(extent.start.0)));
        } else if fields.contains_key("function") {
            // Nothing says where the function begins, and without an offset the Profiler shows no name.
            fields.insert("function_offset".into(), hex(0));
        }
        take(*off, fields)?;
    }
    Ok(())
}

/// Returns the function of a place with its file and line, and what was inlined there; code without a name has the name that other
/// views give it. The Profiler takes no `null`.
fn frames(names: &Names, hidden: &[bool], place: usize) -> Object<String, Value> {
    let fields = |frame: &u32| {
        let frame = &names.frames[*frame as usize];
        let mut fields = Object::new();
        fields.insert("function".into(), json!(names.functions[frame.function as usize].name));
        fields.extend(frame.file.map(|file| ("file".into(), json!(names.files[file as usize]))));
        fields.extend(frame.line.map(|line| ("line".into(), json!(line))));
        fields
    };
    let is_shown = |frame: &&u32| !hidden[names.frames[**frame as usize].function as usize];
    let shown: Vec<&u32> = names.of_places.of(place).iter().filter(is_shown).collect();
    let Some((outer, inlined)) = shown.split_last() else { return Object::new() };
    let mut function = fields(outer);
    if !inlined.is_empty() {
        function.insert("inlines".into(), inlined.iter().map(|frame| Value::Object(fields(frame))).collect());
    }
    function
}

impl Job {
    fn find<'m>(&self, modules: &'m Modules, (module, address): (i64, i64)) -> Option<(&'m Module, FileOff)> {
        let (name, id) = self.modules.get(usize::try_from(module).ok()?)?;
        let module = modules.find(name, id)?;
        Some((module, module.off(u64::try_from(address).ok()?)?))
    }

    /// Appends the answer.
    fn answer(&self, modules: &Modules, known: &Known, answer: &mut String) -> Result<(), String> {
        let names: Vec<String> = self.modules.iter().map(|(name, _)| json!(name).to_string()).collect();
        answer.push_str("{\"stacks\":[");
        for (number, stack) in self.stacks.iter().enumerate() {
            answer.push_str(if number > 0 { ",[" } else { "[" });
            for (number, at) in stack.iter().enumerate() {
                let name = usize::try_from(at.0).ok().and_then(|module| names.get(module));
                let fields = self
                    .find(modules, *at)
                    .and_then(|(module, off)| known.get(&(module.recording, module.image, off)));
                let (comma, offset) = (if number > 0 { "," } else { "" }, at.1.cast_unsigned());
                let (name, fields) = (name.map_or("\"\"", String::as_str), fields.map_or("", String::as_str));
                answer.push_str(&format!(
                    "{comma}{{\"frame\":{number},\"module\":{name},\"module_offset\":\"{offset:#x}\"{fields}}}"
                ));
                if answer.len() > MOST_BYTES {
                    return Err(too_long());
                }
            }
            answer.push(']');
        }
        let is_found =
            |(name, id): &(String, String)| (format!("{name}/{id}"), json!(modules.find(name, id).is_some()));
        let found: Object<String, Value> = self.modules.iter().map(is_found).collect();
        answer.push_str(&format!("],\"found_modules\":{}}}", Value::Object(found)));
        Ok(())
    }
}

fn hex(number: u64) -> Value {
    json!(format!("{number:#x}"))
}
