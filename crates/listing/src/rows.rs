//! Source lines as rows of documents, and why lines or instructions are missing.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::code::NoCode;
use crate::lines::{FunctionLines, InlinedSum, LineSum};
use crate::parts::CodeParts;
use icecore_profile::named::Sum;
use icecore_profile::named::names::Names;
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::named::source::{Origin, Source, SourceFinder};
use icecore_profile::recording::load::clean;
use icecore_symbolize::Function;
use icecore_symbolize::image::{FileOff, Identity};
use icecore_symbolize::source::NoSource;
use icecore_text::path::word;

/// Weights and samples.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Weights {
    #[serde(rename = "self")]
    /// Of the code itself.
    pub own: u64,
    /// Of the code and what it calls.
    pub total: u64,
    /// Samples of the code itself.
    pub self_samples: u64,
    /// Samples of the code and what it calls.
    pub total_samples: u64,
}

impl From<Sum> for Weights {
    fn from(sum: Sum) -> Self {
        let Sum { own, total } = sum;
        Self { own: own.weight, total: total.weight, self_samples: own.samples, total_samples: total.samples }
    }
}

/// A source file of the function.
#[derive(Debug, Serialize)]
pub struct SourceRow {
    /// As the compiler wrote it; `None` if the debug information says no file.
    pub file: Option<String>,
    /// Where its text was found.
    pub path: Option<String>,
    /// The code of the place where it was found.
    pub origin: Option<&'static str>,
    /// The code of its proof.
    pub proof: Option<&'static str>,
    /// The text was modified after the image was linked.
    pub newer: bool,
    /// Why there is no text.
    pub why: Option<&'static str>,
    /// Why there is no text, for people.
    #[serde(skip)]
    pub why_text: String,
    /// The text may not be given away: [`SourceFinder::may_give_away`].
    #[serde(skip)]
    pub is_private: bool,
    /// Its lines.
    pub lines: Vec<LineRow>,
}

/// A line.
#[derive(Debug, Serialize)]
pub struct LineRow {
    /// `None` if the debug information says no line.
    pub line: Option<u32>,
    /// Its text, if there is one.
    pub text: Option<String>,
    /// Its weights.
    #[serde(flatten)]
    pub weights: Weights,
    /// What was inlined at it.
    pub inlined: Vec<InlinedRow>,
}

/// Code that was inlined at the line.
#[derive(Debug, Serialize)]
pub struct InlinedRow {
    /// Innermost first.
    pub functions: Vec<FrameRow>,
    /// Its weights.
    #[serde(flatten)]
    pub weights: Weights,
}

/// A function, and the line in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FrameRow {
    /// Its name.
    pub name: String,
    /// The source file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

impl FrameRow {
    /// Makes the row of a function.
    pub fn of(function: &Function) -> Self {
        Self {
            name: clean(function.name.as_bytes()).into(),
            file: function.file.as_ref().map(|file| clean(file.as_bytes()).into()),
            line: function.line,
        }
    }
}

/// Makes the rows of all source files of a function.
pub fn sources(
    names: &Names,
    function: &str,
    lines: &FunctionLines,
    code: &CodeParts,
    finder: &SourceFinder<'_>,
) -> Vec<SourceRow> {
    let mut files: BTreeMap<Option<&str>, BTreeMap<Option<u32>, Option<&LineSum>>> = BTreeMap::new();
    for line in &lines.lines {
        let file = line.file.map(|file| &*names.files[file as usize]);
        files.entry(file).or_default().insert(line.line, Some(line));
    }
    // Lines without samples that have code show where the function begins and ends.
    let own = instructions_of(code, function);
    for (file, line) in &own {
        if let Some(lines) = files.get_mut(&Some(file.as_str())) {
            lines.entry(Some(*line)).or_insert(None);
        }
    }
    let offsets = offsets(lines);
    let row = |(file, lines): (Option<&str>, BTreeMap<Option<u32>, Option<&LineSum>>)| {
        let found = file.map(|file| find(file, &offsets, finder));
        let is_private = matches!(&found, Some(Ok(source)) if !finder.may_give_away(source));
        SourceRow { is_private, ..SourceRow::new(names, file, &lines, found) }
    };
    files.into_iter().map(row).collect()
}

/// Lists the lines of the instructions of a function.
fn instructions_of(code: &CodeParts, function: &str) -> BTreeSet<(String, u32)> {
    let functions = code.parts.iter().flat_map(|part| &part.code.instructions).flat_map(|it| &it.functions);
    let own = functions.filter(|it| *clean(it.name.as_bytes()) == *function);
    own.filter_map(|it| Some((clean(it.file.as_ref()?.as_bytes()).into(), it.line?))).collect()
}

/// Lists the offsets of the function in each image, ascending.
fn offsets(lines: &FunctionLines) -> BTreeMap<u32, Vec<FileOff>> {
    let mut offsets: BTreeMap<u32, Vec<FileOff>> = BTreeMap::new();
    lines.places.iter().for_each(|place| offsets.entry(place.image).or_default().push(place.off));
    offsets
}

/// Finds a text. If several images have the function, all of them must agree with it.
fn find(
    file: &str,
    offsets: &BTreeMap<u32, Vec<FileOff>>,
    finder: &SourceFinder<'_>,
) -> Result<Source, NoSource> {
    let mut found: Option<Source> = None;
    for (image, offsets) in offsets {
        let new = finder.find(file, *image, offsets)?;
        found = Some(match found {
            Some(known) => Source {
                proof: known.proof.min(new.proof),
                is_newer: known.is_newer || new.is_newer,
                ..known
            },
            None => new,
        });
    }
    found.map_or_else(|| finder.unproven(file), Ok)
}

impl SourceRow {
    fn new(
        names: &Names,
        file: Option<&str>,
        lines: &BTreeMap<Option<u32>, Option<&LineSum>>,
        found: Option<Result<Source, NoSource>>,
    ) -> Self {
        let (source, why) = match found {
            Some(Ok(source)) => (Some(source), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let texts = source.as_ref().map(Source::lines).unwrap_or_default();
        let text = |line: u32| texts.get((line as usize).checked_sub(1)?).cloned();
        let row = |line: Option<u32>, sum: Option<&LineSum>| LineRow {
            line,
            text: line.and_then(text),
            weights: sum.map(|sum| sum.sum.into()).unwrap_or_default(),
            inlined: sum.into_iter().flat_map(|sum| &sum.inlined).map(|it| inlined(names, it)).collect(),
        };
        let known: Vec<u32> = lines.keys().flatten().copied().collect();
        let span = known.first().zip(known.last()).map(|(first, last)| *first..=*last);
        let nowhere = lines.get(&None).map(|sum| row(None, *sum));
        let shown: Vec<LineRow> = match (&source, span) {
            // Lines beyond the end of the text are those of another version.
            (Some(_), Some(span)) => {
                let is_shown = |line: &u32| *line as usize <= texts.len() || lines.contains_key(&Some(*line));
                span.filter(is_shown)
                    .map(|line| row(Some(line), lines.get(&Some(line)).copied().flatten()))
                    .collect()
            }
            _ => {
                let hit = lines.iter().filter(|(line, sum)| line.is_some() && sum.is_some());
                hit.map(|(line, sum)| row(*line, *sum)).collect()
            }
        };
        Self {
            file: file.map(str::to_owned),
            path: source.as_ref().and_then(|source| match &source.origin {
                Origin::Here { path, .. } => Some(path.display().to_string()),
                Origin::Recording => None,
            }),
            origin: source.as_ref().map(|source| source.origin.code()),
            proof: source.as_ref().map(|source| source.proof.code()),
            newer: source.as_ref().is_some_and(|source| source.is_newer),
            why: why.as_ref().map(NoSource::code),
            why_text: why.map(|why| why.to_string()).unwrap_or_default(),
            is_private: false,
            lines: nowhere.into_iter().chain(shown).collect(),
        }
    }
}

fn inlined(names: &Names, inlined: &InlinedSum) -> InlinedRow {
    let frame = |frame: &u32| {
        let frame = &names.frames[*frame as usize];
        FrameRow {
            name: names.functions[frame.function as usize].name.to_string(),
            file: frame.file.map(|file| names.files[file as usize].to_string()),
            line: frame.line,
        }
    };
    InlinedRow { functions: inlined.frames.iter().map(frame).collect(), weights: inlined.sum.into() }
}

/// An image of which instructions are missing.
#[derive(Debug, Serialize)]
pub struct NoCodeRow {
    /// Its path.
    pub image: String,
    /// The code of the reason.
    pub why: &'static str,
    /// The reason for people, and how to get the instructions.
    #[serde(skip)]
    pub text: String,
}

/// Says why instructions are missing, and how to get them.
pub fn missing(code: &CodeParts, images: &[Identity], loaded: &Loaded<'_>) -> Vec<NoCodeRow> {
    let file = if loaded.is_of_several() { loaded.words() } else { word(&loaded.path.display().to_string()) };
    let row = |(image, why): &(u32, NoCode)| {
        let image = clean(images[*image as usize].path.as_bytes()).into_string();
        let remedy = match why {
            NoCode::Image(_) => {
                format!(
                    "; `icecore-report missing {file}` says how to get it. Where it is, `icecore-report pack --code` stores the \
                     instructions, as record --embed all does"
                )
            }
            NoCode::Sections => {
                "; give the image itself (--symbols DIR), or run `icecore-report pack --code` where it is"
                    .to_owned()
            }
            NoCode::Unreadable | NoCode::Processor | NoCode::NoBounds | NoCode::TooLong => String::new(),
        };
        NoCodeRow { text: format!("no instructions of {image}: {why}{remedy}"), image, why: why.code() }
    };
    code.missing.iter().map(row).collect()
}
