//! Instructions as rows.

use serde::Serialize;

use icecore_listing::code::{Instruction, Referred};
use icecore_listing::parts::CodePart;
use icecore_listing::rows::{FrameRow, Weights};
use icecore_profile::named::Sum;
use icecore_profile::recording::load::clean;
use icecore_symbolize::image::{Identity, hex};

/// A stretch of code.
#[derive(Debug, Serialize)]
pub(super) struct CodeRow {
    pub(super) name: Option<String>,
    pub(super) image: String,
    /// The first address, and the number of bytes.
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// Where the code was found.
    pub(super) source: &'static str,
    pub(super) instructions: Vec<InstructionRow>,
}

/// An instruction.
#[derive(Debug, Serialize)]
pub(super) struct InstructionRow {
    pub(super) address: u64,
    pub(super) offset: u64,
    pub(super) bytes: String,
    pub(super) text: String,
    /// The text, with the name of what it refers to.
    #[serde(skip)]
    pub(super) shown: String,
    pub(super) call: bool,
    pub(super) refers: Option<ReferredRow>,
    #[serde(flatten)]
    pub(super) weights: Weights,
    /// Innermost first.
    pub(super) functions: Vec<FrameRow>,
    /// It belongs to the function that is shown, which may be inlined here.
    pub(super) own: bool,
}

/// What an instruction refers to.
#[derive(Debug, Serialize)]
pub(super) struct ReferredRow {
    pub(super) address: u64,
    /// Control goes there; else it is data.
    pub(super) code: bool,
    pub(super) name: Option<String>,
    pub(super) offset: u64,
}

impl CodeRow {
    /// Makes the rows of a stretch with the samples of its instructions; `function` is shown.
    pub(super) fn new(part: &CodePart, sums: &[Sum], images: &[Identity], function: &str) -> Self {
        let code = &part.code;
        let name = code.name.as_ref().map(|name| clean(name.as_bytes()).into_string());
        // Without names of inlined functions everything is the function itself.
        let is_whole = name.as_deref().is_none_or(|name| name == function);
        let rows = code.instructions.iter().zip(sums);
        let rows = rows.map(|(it, sum)| InstructionRow::new(it, (*sum).into(), function, is_whole));
        Self {
            image: clean(images[part.image as usize].path.as_bytes()).into(),
            address: code.range.start.0,
            bytes: code.range.end.0 - code.range.start.0,
            source: code.source.code(),
            instructions: rows.collect(),
            name,
        }
    }
}

impl InstructionRow {
    fn new(it: &Instruction, weights: Weights, function: &str, is_whole: bool) -> Self {
        let functions: Vec<FrameRow> = it.functions.iter().map(FrameRow::of).collect();
        let refers = |refers: &Referred| ReferredRow {
            address: refers.at.0,
            code: refers.is_code,
            name: refers.name.as_ref().map(|name| clean(name.as_bytes()).into()),
            offset: refers.offset,
        };
        Self {
            address: it.at.0,
            offset: it.off.0,
            bytes: hex(&it.bytes),
            text: it.text.clone(),
            shown: it.shown(),
            call: it.is_call,
            refers: it.refers.as_ref().map(refers),
            weights,
            own: is_whole || functions.iter().any(|it| it.name == function),
            functions,
        }
    }
}
