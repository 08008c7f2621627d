//! `verify`: whether everything in a file is as it was written, and what to do if it is not.

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use serde::Serialize;

use super::info::UnknownRow;
use crate::input::is_nameless;
use icecore_profile::recording::verify::{Findings, Problem};
use icecore_text::path::{quoted, shown};
use icecore_text::quantity::{bytes, count, things};
use icecore_text::{Align, Page, Style, Table};

/// The document.
#[derive(Debug, Serialize)]
pub struct Verify {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    ok: bool,
    closed: bool,
    blocks: u64,
    samples: u64,
    /// The number of samples by the receipts; `None` without one.
    samples_expected: Option<u64>,
    problems: Vec<ProblemRow>,
    more: u64,
    mendable: bool,
    lost_blocks: u64,
    unknown: Vec<UnknownRow>,
}

/// A problem of the file.
#[derive(Debug, Serialize)]
struct ProblemRow {
    block: Option<u64>,
    kind: Option<String>,
    offset: u64,
    cause: String,
}

impl ProblemRow {
    fn new(problem: &Problem) -> Self {
        Self {
            block: problem.block.map(|(number, _)| number),
            kind: problem.block.map(|(_, kind)| kind.name()),
            offset: problem.off,
            cause: problem.cause.clone(),
        }
    }
}

impl Verify {
    /// Describes the problems.
    pub fn new(path: &Path, recording: &Recording, found: &Findings) -> Self {
        let samples = recording.entries().iter().filter(|entry| entry.header.kind == Kind::SAMPLES);
        Self {
            schema: "icecore.verify/1",
            file: path.display().to_string(),
            file_bytes: recording.len_bytes(),
            ok: found.is_ok(),
            closed: recording.is_closed(),
            blocks: recording.entries().len() as u64,
            samples: samples.map(|entry| u64::from(entry.header.items)).sum(),
            samples_expected: found.samples_expected,
            problems: found.problems.iter().map(ProblemRow::new).collect(),
            more: found.more,
            mendable: found.is_repairable,
            lost_blocks: found.lost_blocks,
            unknown: found.skipped.iter().map(UnknownRow::new).collect(),
        }
    }

    /// Writes the text.
    pub fn text(&self, page: &mut Page) {
        if !self.ok {
            page.table(&self.table());
        }
        if self.more > 0 {
            page.line(&format!("and {} more", count(self.more)));
        }
        for row in &self.unknown {
            let blocks = things(row.blocks, "block");
            let text = format!(
                "{blocks} of kind {}, version {}: only checksums were checked",
                row.kind, row.version
            );
            page.styled(Style::Warn, &format!("{text}; a newer icecore-report knows them"));
        }
        if self.lost_blocks > 0 {
            let blocks = things(self.lost_blocks, "block");
            let text = format!("lost before this file was written: {blocks}; names or stacks may be missing");
            page.styled(Style::Warn, &text);
        }
        let path = Path::new(&self.file);
        let blocks = things(self.blocks, "block");
        if self.ok {
            let what = format!("{blocks}, {}, {}", things(self.samples, "sample"), bytes(self.file_bytes));
            page.styled(Style::Good, &format!("{}: all is well: {what}", shown(path)));
            return;
        }
        let problems = things(self.problems.len() as u64 + self.more, "problem");
        page.styled(Style::Bad, &format!("{}: {problems} in {blocks}; {}", shown(path), self.remedy(path)));
    }

    fn table(&self) -> Table {
        let columns = [
            ("BLOCK", Align::Right),
            ("KIND", Align::Left),
            ("OFFSET", Align::Right),
            ("CAUSE", Align::Left),
        ];
        let mut table = Table::new(0, &columns);
        for problem in &self.problems {
            let block = problem.block.map_or_else(|| "-".to_owned(), |number| number.to_string());
            let kind = problem.kind.clone().unwrap_or_else(|| "-".to_owned());
            table.row(vec![block, kind, problem.offset.to_string(), problem.cause.clone()]);
        }
        table
    }

    fn remedy(&self, path: &Path) -> String {
        if !self.mendable {
            return "it is written so, and no repair makes it better".to_owned();
        }
        let words = match path.file_stem() {
            Some(stem) if !is_nameless(path) => {
                let mut name = stem.to_owned();
                name.push(".repaired.icecore");
                format!("{} -o {}", quoted(path), quoted(&path.with_file_name(name)))
            }
            _ => "FILE -o OUT".to_owned(),
        };
        format!("keep what is whole: icecore-report repair {words}")
    }
}
