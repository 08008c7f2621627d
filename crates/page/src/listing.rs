//! The source lines and the instructions of functions, and which samples hit them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::columns::Columns;
use super::moments::Moments;
use icecore_listing::code::{CodeFinder, Instruction};
use icecore_listing::lines::{FunctionLines, lines};
use icecore_listing::parts::{CodePart, CodeParts, InstructionsOfPlaces, parts};
use icecore_listing::rows::{SourceRow, missing, sources};
use icecore_listing::stacks::CountedStacks;
use icecore_profile::map::Interned;
use icecore_profile::named::names::{Names, Side};
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::source::{GIVE_ITS_FOLDER, SourceFinder};
use icecore_profile::named::{groups, sums};
use icecore_profile::recording::code::StoredCode;
use icecore_profile::recording::events::ChosenEvents;
use icecore_profile::recording::load::clean;
use icecore_profile::recording::sources::StoredSources;
use icecore_profile::stacks::locate::{Located, Locator};
use icecore_symbolize::Function;
use icecore_symbolize::image::Finder;

/// Which code a page shows.
#[derive(Debug, Clone)]
pub struct PageCode {
    /// The number of functions: the hottest ones.
    pub functions: usize,
    /// Where source files are searched first.
    pub source_dirs: Vec<PathBuf>,
    /// The page may be given to others. So it has only those texts that are in the recording, below a folder of the user, or proven
    /// to be what was compiled: a program could name any file of this machine as its source. Of long functions it has only the
    /// instructions around those that were hit.
    pub is_given_away: bool,
}

impl PageCode {
    /// Requests the code of the hottest functions for a page that may be given to others.
    pub fn given_away(functions: usize, source_dirs: &[PathBuf]) -> Self {
        Self { functions, source_dirs: source_dirs.to_vec(), is_given_away: true }
    }
}

/// The instructions around one that was hit, of which a page that is given away has so many before and behind.
const CONTEXT: usize = 16;
/// Functions of so many instructions are whole in every page.
const SHORT: usize = 256;

/// Lists the hottest functions, positions in the names: by the weight of their own samples of the chosen events, then by that of all
/// samples that pass through them.
pub(super) fn hottest(report: &Report<'_>, events: &ChosenEvents, most: usize) -> Vec<u32> {
    let profile = &report.profile;
    let names = &profile.names;
    let function_of = |stack: u32| names.frames[profile.stacks[stack as usize].frame as usize].function;
    let mut own = vec![0u64; names.functions.len()];
    for row in profile.rows.iter().filter(|row| row.stack != 0 && events.has(row.event)) {
        let own = &mut own[function_of(row.stack) as usize];
        *own = own.saturating_add(row.weight);
    }
    let of_frame: Vec<u32> = names.frames.iter().map(|frame| frame.function).collect();
    let total = sums(profile, &groups(profile, &of_frame, |_| true), names.functions.len());
    let weights = |function: usize| (own[function], total[function].total.weight);
    let has_code = |function: &usize| {
        let it = &names.functions[*function];
        weights(*function) != (0, 0) && it.side == Side::User && it.image.is_some() && !it.is_marker()
    };
    let mut hottest: Vec<usize> = (0..names.functions.len()).filter(has_code).collect();
    hottest.sort_by_key(|function| std::cmp::Reverse(weights(*function)));
    hottest.into_iter().take(most).map(|function| function as u32).collect()
}

/// Lists the code of functions, given as positions in the names with what the page calls each; appends which samples hit it.
///
/// # Cost    annotates each; one step for each sample
pub(super) fn listings(
    (report, located): (&Report<'_>, &Located),
    moments: &Moments,
    functions: &[(u32, u32)],
    code: &PageCode,
    columns: &mut Columns,
) -> Value {
    let (loaded, names) = (report.loaded, &report.profile.names);
    let locator = Locator::new(&loaded.tables, &loaded.spaces);
    let embedded = locator.embedded(loaded.recording);
    let finder = Finder { search: loaded.search, embedded: Some(&embedded) };
    let stored = StoredSources::new(loaded.recording, &loaded.tables, |id| locator.image(id));
    let stored_code = StoredCode::new(loaded.recording, &loaded.tables, |id| locator.image(id));
    let (images, dirs) = (&locator.images[..], &code.source_dirs[..]);
    let instructions = CodeFinder { images, finder: &finder, stored: &stored_code };
    let texts = SourceFinder { images, finder: &finder, stored: &stored, dirs };
    let stacks = CountedStacks::new(report, located);
    let wanted: Vec<u32> = functions.iter().map(|(function, _)| *function).collect();
    let mut shared = SharedParts::default();
    let mut rows = Vec::new();
    for ((function, own), lines) in functions.iter().zip(lines(&stacks, located, names, &wanted)) {
        let found = parts(&lines.places, &instructions);
        let name = &names.functions[*function as usize].name;
        let sources = self::texts(code, name, &lines, &found, names, &texts);
        let missing: Vec<String> = missing(&found, images, loaded).into_iter().map(|it| it.text).collect();
        let left_out = found.places_left_out;
        rows.push(json!({
            "function": own,
            "sources": sources,
            "parts": found.parts.into_iter().map(|part| shared.add(part)).collect::<Vec<u32>>(),
            "missing": missing,
            "left_out": left_out,
        }));
    }
    let parts = shared.parts;
    let places = InstructionsOfPlaces::new(parts.iter(), located);
    let kept: Vec<Vec<usize>> = kept(&parts, &places, located, code.is_given_away);
    let hits = (!moments.resolution.is_rounded).then(|| hits(&kept, &parts, &places, &stacks, moments));
    let mut parts: Vec<Value> = parts
        .iter()
        .zip(&kept)
        .map(|(part, kept)| self::part(part, kept, &images[part.image as usize].path))
        .collect();
    for (part, (samples, at)) in parts.iter_mut().zip(hits.into_iter().flatten()) {
        part["hits"] = json!({ "sample": columns.steps(&samples), "at": columns.numbers(&at) });
    }
    json!({ "functions": rows, "parts": parts })
}

/// Stretches of code, each once.
#[derive(Default)]
struct SharedParts {
    parts: Vec<CodePart>,
    known: BTreeMap<(u32, u64), u32>,
}

impl SharedParts {
    fn add(&mut self, part: CodePart) -> u32 {
        let Self { parts, known } = self;
        *known.entry((part.image, part.code.range.start.0)).or_insert_with(|| {
            parts.push(part);
            parts.len() as u32 - 1
        })
    }
}

/// The source texts of a function, with the numbers of their lines.
fn texts(
    code: &PageCode,
    name: &str,
    lines: &FunctionLines,
    found: &CodeParts,
    names: &Names,
    finder: &SourceFinder<'_>,
) -> Vec<Value> {
    let row = |row: SourceRow| {
        let is_shown = !code.is_given_away || !row.is_private;
        let numbered = row.lines.into_iter().filter_map(|line| Some((line.line?, line.text?)));
        let lines: Vec<(u32, String)> = if is_shown { numbered.collect() } else { Vec::new() };
        let why = match (is_shown, row.file.is_some()) {
            (false, _) => GIVE_ITS_FOLDER.to_owned(),
            (true, true) => row.why_text,
            (true, false) => String::new(),
        };
        json!({
            "file": row.file,
            "proof": row.proof,
            "origin": row.origin,
            "is_newer": row.newer,
            "why": why,
            "lines": lines,
        })
    };
    sources(names, name, lines, found, finder).into_iter().map(row).collect()
}

/// Lists the instructions of each part that the page has.
fn kept(
    parts: &[CodePart],
    places: &InstructionsOfPlaces,
    located: &Located,
    only_near: bool,
) -> Vec<Vec<usize>> {
    let mut near: Vec<Vec<bool>> = parts
        .iter()
        .map(|part| vec![!only_near || part.code.instructions.len() <= SHORT; part.code.instructions.len()])
        .collect();
    for (part, at) in (0..located.places.len() as u32).flat_map(|place| places.at(place)) {
        let near = &mut near[*part as usize];
        let (first, end) =
            ((*at as usize).saturating_sub(CONTEXT), (*at as usize + CONTEXT + 1).min(near.len()));
        near[first..end].fill(true);
    }
    near.iter().map(|near| (0..near.len()).filter(|at| near[*at]).collect()).collect()
}

/// Lists for each part the samples that hit it, positions among the moments, and where each did.
fn hits(
    kept: &[Vec<usize>],
    parts: &[CodePart],
    places: &InstructionsOfPlaces,
    stacks: &CountedStacks<'_>,
    moments: &Moments,
) -> Vec<(Vec<u32>, Vec<u32>)> {
    let mut hits: Vec<(Vec<u32>, Vec<u32>)> = parts.iter().map(|_| Default::default()).collect();
    for (number, sample) in (0..).zip(&moments.samples) {
        let Some(place) = stacks.innermost(sample.hit) else { continue };
        for (part, at) in places.at(place) {
            let Ok(at) = kept[*part as usize].binary_search(&(*at as usize)) else { continue };
            let (samples, instructions) = &mut hits[*part as usize];
            samples.push(number);
            instructions.push(at as u32);
        }
    }
    hits
}

/// A stretch of code: some of its instructions, with what was inlined at each.
fn part(part: &CodePart, kept: &[usize], image: &str) -> Value {
    let code = &part.code;
    let mut chains: Interned<Vec<(String, Option<String>, u32)>> = Interned::new();
    let mut chain = |it: &Instruction| {
        let frame = |function: &Function| {
            let text = |text: &str| clean(text.as_bytes()).into_string();
            (text(&function.name), function.file.as_deref().map(text), function.line.unwrap_or(0))
        };
        chains.intern(it.functions.iter().map(frame).collect())
    };
    let kept: Vec<&Instruction> = kept.iter().map(|at| &code.instructions[*at]).collect();
    let chain: Vec<u32> = kept.iter().map(|it| chain(it)).collect();
    json!({
        "name": code.name.as_ref().map(|name| clean(name.as_bytes())),
        "image": clean(image.as_bytes()),
        "from": code.source.code(),
        "begin": format!("{:x}", code.range.start.0),
        "bytes": code.range.end.0 - code.range.start.0,
        "instructions": code.instructions.len(),
        "at": kept.iter().map(|it| it.at.0.saturating_sub(code.range.start.0)).collect::<Vec<u64>>(),
        "length": kept.iter().map(|it| it.bytes.len()).collect::<Vec<usize>>(),
        "text": kept.iter().map(|it| it.shown()).collect::<Vec<String>>(),
        "chain": chain,
        "chains": chains.into_items(),
    })
}
