//! `repair`: writes the intact blocks of a damaged recording, and reports what was lost.

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::read::Recording;
use serde::Serialize;

use super::refuse;
use crate::base::output;
use crate::cli;
use icecore_profile::recording::repair::{Lost, Plan};
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, count, things};
use icecore_text::{Page, Style};

/// The result, for people and `--json`.
#[derive(Debug, Serialize)]
pub struct Repair {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    /// The recording was intact: the new file is a copy.
    copied: bool,
    blocks: u64,
    samples: u64,
    lost_blocks: u64,
    lost_samples: u64,
    /// Lost blocks by kind; `unknown` if the kind is unknown.
    lost: std::collections::BTreeMap<String, u64>,
}

impl Repair {
    /// Writes the repaired recording.
    ///
    /// # Errors
    /// If the output exists, is the recording itself, or cannot be written.
    pub fn write(options: &cli::Repair, recording: &Recording) -> anyhow::Result<Self> {
        let path = &options.output.output;
        refuse(&options.output, &[&options.file])
            .with_context(|| format!("cannot create `{}`", path.display()))?;
        let plan = Plan::new(recording);
        let written = output::replace(path, &options.file, Some(Permissions::from_mode(0o600)), |file| {
            if plan.is_needed() { plan.write(file.try_clone()?) } else { copy(recording, file) }
        });
        let file_bytes = written.with_context(|| format!("cannot write `{}`", path.display()))?;
        let lost = plan.lost();
        Ok(Self {
            schema: "icecore.repair/1",
            file: path.display().to_string(),
            file_bytes,
            copied: !plan.is_needed(),
            blocks: plan.kept().count() as u64,
            samples: plan
                .kept()
                .filter(|entry| entry.header.kind == Kind::SAMPLES)
                .map(|e| u64::from(e.header.items))
                .sum(),
            lost_blocks: lost.count(),
            lost_samples: lost.samples,
            lost: by_name(&lost),
        })
    }

    /// Describes the result for people.
    pub fn text(&self, page: &mut Page) {
        let file = format!("{} ({})", shown(Path::new(&self.file)), bytes(self.file_bytes));
        if self.copied {
            return page.line(&format!("nothing to repair: wrote {file}, a copy"));
        }
        let kept =
            format!("wrote {file}: {}, {}", things(self.blocks, "block"), things(self.samples, "sample"));
        if self.lost_blocks == 0 {
            return page.line(&format!("{kept}; no block was lost"));
        }
        let kinds: Vec<String> =
            self.lost.iter().map(|(kind, blocks)| format!("{} of {kind}", count(*blocks))).collect();
        let lost = format!("{} ({})", things(self.lost_blocks, "block"), kinds.join(", "));
        page.styled(
            Style::Warn,
            &format!("{kept}; lost: {lost} with {}", things(self.lost_samples, "sample")),
        );
    }
}

fn by_name(lost: &Lost) -> std::collections::BTreeMap<String, u64> {
    let known = lost.blocks.iter().map(|(kind, blocks)| (kind.name(), *blocks));
    known.chain((lost.unnamed > 0).then(|| ("unknown kind".to_owned(), lost.unnamed))).collect()
}

fn copy(recording: &Recording, file: &mut File) -> Result<u64, Error> {
    file.write_all(recording.as_bytes())?;
    file.sync_data()?;
    Ok(recording.len_bytes())
}
