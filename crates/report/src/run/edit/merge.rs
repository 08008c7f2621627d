//! `merge`: joins recordings.

use std::path::Path;

use anyhow::anyhow;
use icecore_edit::Error;
use icecore_edit::merge::{Merged, merge};
use serde::Serialize;

use super::super::{Streams, emit};
use super::{Written, cannot, write};
use crate::cli::{self, Global};
use crate::input;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, things};
use icecore_text::{Page, Style};

/// What was merged.
#[derive(Debug, Serialize)]
struct All {
    sessions: u64,
    samples: u64,
    inputs: Vec<Input>,
}

/// What was copied of one file.
#[derive(Debug, Serialize)]
struct Input {
    file: String,
    #[serde(flatten)]
    merged: Merged,
}

/// Merges recordings.
pub(in crate::run) fn run(
    options: &cli::Merge,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let files = &options.files;
    let recordings = files.iter().map(|path| input::open(path)).collect::<Result<Vec<_>, _>>()?;
    let paths: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
    let written = write("icecore.merge/1", &options.output, &paths, |writer| {
        let merged = merge(&recordings, writer).map_err(|(number, error)| match error {
            Error::Same(first) => anyhow!(
                "cannot merge `{}` with `{}`: they are the same recording, by their UUID",
                files[number].display(),
                files[first].display()
            ),
            error => cannot("merge", &files[number], error),
        })?;
        Ok(All {
            sessions: merged.iter().map(|input| input.sessions).sum(),
            samples: merged.iter().map(|input| input.samples).sum(),
            inputs: files
                .iter()
                .zip(merged)
                .map(|(file, merged)| Input { file: file.display().to_string(), merged })
                .collect(),
        })
    })?;
    emit(global, streams, &written, |page| written.text(page))?;
    Ok(0)
}

impl Written<All> {
    /// Describes the result for people.
    fn text(&self, page: &mut Page) {
        let All { sessions, samples, inputs } = &self.made;
        let (sessions, samples) = (things(*sessions, "session"), things(*samples, "sample"));
        page.line(&format!("wrote {} ({}): {sessions}, {samples}", self.shown(), bytes(self.file_bytes)));
        for Input { file, merged } in inputs {
            let file = shown(Path::new(file));
            if !merged.closed {
                let text = format!("{file} was not closed: its recorder was stopped, or still runs");
                page.styled(Style::Warn, &text);
            }
            if let Some(first) = merged.damage.first() {
                let parts = things(merged.damage.len() as u64, "part");
                let lost = match merged.lost {
                    0 => String::new(),
                    lost => format!(" with {}", things(lost, "sample")),
                };
                let text = format!(
                    "{file} is damaged: {parts}{lost} skipped; at byte {}: {}",
                    first.offset, first.cause
                );
                page.styled(Style::Bad, &text);
            }
        }
    }
}
