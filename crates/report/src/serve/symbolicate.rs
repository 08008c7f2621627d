//! `/symbolicate/v5`: names, files and lines of addresses.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map as Object, Value, json};

use super::Served;
use super::modules::{Module, Modules};
use crate::listing::code::Code;
use crate::profile::names::{Names, name};
use crate::stacks::locate::CodeLocation;
use icecore_symbolize::image::FileOff;

/// The most addresses of one request.
const MOST: usize = 1 << 20;

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

/// What is known of an address: the fields of its frame.
type Known = BTreeMap<(usize, u32, FileOff), Object<String, Value>>;

/// Answers a request.
///
/// # Errors  what is wrong with it
pub(super) fn symbolicate(
    recordings: &[Served<'_>],
    modules: &Modules,
    body: &[u8],
) -> Result<Value, String> {
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
    for ((recording, image), offs) in wanted {
        let offs: Vec<FileOff> = offs.into_iter().collect();
        for (off, fields) in offs.iter().zip(named(&recordings[recording], image, &offs)) {
            known.insert((recording, image, *off), fields);
        }
    }
    let results: Vec<Value> = jobs.iter().map(|job| job.answer(modules, &known)).collect();
    Ok(json!({ "results": results }))
}

/// Names offsets of an image, which ascend.
fn named(served: &Served<'_>, image: u32, offs: &[FileOff]) -> Vec<Object<String, Value>> {
    let finder = served.finder();
    let places: Vec<CodeLocation> = offs.iter().map(|off| CodeLocation::Image(image, *off)).collect();
    let names = name(&places, &served.locator, &finder, &|_| ());
    let identity = &served.locator.images[image as usize];
    let extents = Code::open(identity, &finder).map(|mut code| code.extents(offs)).unwrap_or_default();
    let fields = |position: usize| {
        let mut fields = frames(&names, position);
        let extent = extents.get(position).cloned().flatten();
        if let Some((at, Some(extent))) = extent.filter(|_| fields.contains_key("function")) {
            fields.insert("function_offset".into(), hex(at.0 - extent.start.0));
            fields.insert("function_size".into(), hex(extent.end.0 - extent.start.0));
        } else if fields.contains_key("function") {
            // Without an offset the Profiler shows no name.
            fields.insert("function_offset".into(), hex(0));
        }
        fields
    };
    (0..offs.len()).map(fields).collect()
}

/// Returns the function of a place with its file and line, and what was inlined there; nothing if it has no name. The Profiler takes
/// no `null`.
fn frames(names: &Names, place: usize) -> Object<String, Value> {
    let fields = |frame: &u32| {
        let frame = &names.frames[*frame as usize];
        let function = &names.functions[frame.function as usize];
        let mut fields = Object::new();
        if function.reason.is_none() {
            fields.insert("function".into(), json!(function.name));
            fields.extend(frame.file.map(|file| ("file".into(), json!(names.files[file as usize]))));
            fields.extend(frame.line.map(|line| ("line".into(), json!(line))));
        }
        fields
    };
    let Some((outer, inlined)) = names.of_places.of(place).split_last() else { return Object::new() };
    let mut function = fields(outer);
    if !inlined.is_empty() {
        function.insert("inlines".into(), inlined.iter().map(fields).map(Value::Object).collect());
    }
    function
}

impl Job {
    fn find<'m>(&self, modules: &'m Modules, (module, address): (i64, i64)) -> Option<(&'m Module, FileOff)> {
        let (name, id) = self.modules.get(usize::try_from(module).ok()?)?;
        let module = modules.find(name, id)?;
        Some((module, module.off(u64::try_from(address).ok()?)?))
    }

    fn answer(&self, modules: &Modules, known: &Known) -> Value {
        let frame = |(number, at): (usize, &(i64, i64))| {
            let name = usize::try_from(at.0).ok().and_then(|module| self.modules.get(module));
            let fields = self
                .find(modules, *at)
                .and_then(|(module, off)| known.get(&(module.recording, module.image, off)));
            let mut frame = fields.cloned().unwrap_or_default();
            frame.insert("frame".into(), json!(number));
            frame.insert("module".into(), json!(name.map_or("", |(name, _)| name)));
            frame.insert("module_offset".into(), hex(at.1.cast_unsigned()));
            Value::Object(frame)
        };
        let stack = |stack: &Vec<(i64, i64)>| stack.iter().enumerate().map(frame).collect::<Vec<Value>>();
        let is_found =
            |(name, id): &(String, String)| (format!("{name}/{id}"), json!(modules.find(name, id).is_some()));
        json!({
            "stacks": self.stacks.iter().map(stack).collect::<Vec<_>>(),
            "found_modules": self.modules.iter().map(is_found).collect::<Object<String, Value>>(),
        })
    }
}

fn hex(number: u64) -> Value {
    json!(format!("{number:#x}"))
}
