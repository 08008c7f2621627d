//! `merge`: writes several recordings into one file, each as a session of its own.
//!
//! Blocks are copied as they are stored. Nothing is decoded, so nothing is lost, not even kinds that this version does not know.
//! Only block headers are new, because they hold the sequence number and the file's own seed.

use std::path::Path;

use anyhow::{Context as _, bail};
use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{Cause, Loss, LossesV1};
use icecore_format::write::Writer;
use serde::Serialize;

use crate::cli;
use crate::input;
use crate::views::DamageRow;
use icecore_profile::recording::load::damage;
use icecore_profile::recording::load::parts::MAX_PARTS;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, things};
use icecore_text::{Page, Style};

/// The result, for people and `--json`.
#[derive(Debug, Serialize)]
pub struct Merged {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    sessions: u64,
    samples: u64,
    inputs: Vec<Input>,
}

/// The result for one file.
#[derive(Debug, Serialize)]
struct Input {
    file: String,
    /// The recorder finished the file.
    closed: bool,
    sessions: u64,
    blocks: u64,
    samples: u64,
    /// Samples in damaged parts, as far as known.
    lost: u64,
    damage: Vec<DamageRow>,
}

/// Merges the files of a command line.
///
/// # Errors
/// If a file cannot be opened, two are the same recording, or the output cannot be written.
pub fn merge(options: &cli::Merge) -> anyhow::Result<Merged> {
    let recordings: Vec<(&Path, Recording)> = options
        .files
        .iter()
        .map(|path| Ok((path.as_path(), input::open(path)?)))
        .collect::<anyhow::Result<_>>()?;
    refuse_doubles(&recordings)?;
    let paths: Vec<&Path> = recordings.iter().map(|(path, _)| *path).collect();
    let (inputs, file_bytes) = super::write(&options.output, &paths, |writer| {
        let mut inputs = Vec::with_capacity(recordings.len());
        let mut room = MAX_PARTS as u64;
        for (path, recording) in &recordings {
            let input = Copier::new(path, recording, writer, room).run();
            let input = input.with_context(|| format!("cannot merge `{}`", path.display()))?;
            room -= input.sessions;
            inputs.push(input);
        }
        Ok(inputs)
    })?;
    Ok(Merged {
        schema: "icecore.merge/1",
        file: options.output.output.display().to_string(),
        file_bytes,
        sessions: inputs.iter().map(|input| input.sessions).sum(),
        samples: inputs.iter().map(|input| input.samples).sum(),
        inputs,
    })
}

/// Refuses to merge a recording with itself, which would count its samples twice.
fn refuse_doubles(recordings: &[(&Path, Recording)]) -> anyhow::Result<()> {
    let mut seen = std::collections::HashMap::new();
    for (path, recording) in recordings {
        if let Some(first) = seen.insert(recording.header().uuid, path) {
            let (first, path) = (first.display(), path.display());
            bail!("cannot merge `{path}` with `{first}`: they are the same recording, by their UUID");
        }
    }
    Ok(())
}

/// Copies the blocks of one file.
struct Copier<'a> {
    recording: &'a Recording,
    writer: &'a mut Writer,
    /// How many sessions fit into the output.
    room: u64,
    input: Input,
    damage: Vec<Damage>,
    state: Position,
    /// Lost samples of the current session that the output does not report yet.
    lost: u64,
    /// Lost blocks of other kinds of the current session that the output does not report yet.
    lost_blocks: u64,
    /// The latest time of the current session, on its own clock.
    last_ns: u64,
}

/// The position of the copy in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Before the first block, or after a receipt.
    Outside,
    /// A session has begun.
    Inside,
}

impl<'a> Copier<'a> {
    fn new(path: &Path, recording: &'a Recording, writer: &'a mut Writer, room: u64) -> Self {
        let input = Input {
            file: path.display().to_string(),
            closed: recording.is_closed(),
            sessions: 0,
            blocks: 0,
            samples: 0,
            lost: 0,
            damage: Vec::new(),
        };
        let damage = recording.damage().to_vec();
        Self {
            recording,
            writer,
            room,
            input,
            damage,
            state: Position::Outside,
            lost: 0,
            lost_blocks: 0,
            last_ns: 0,
        }
    }

    fn run(mut self) -> anyhow::Result<Input> {
        let whole = self.recording.entries().iter().map(|entry| (entry, true));
        let lost = self.recording.lost().iter().filter(|entry| entry.header.kind != Kind::INDEX);
        let lost = lost.map(|entry| (entry, false));
        let mut blocks: Vec<(&Entry, bool)> = whole.chain(lost).collect();
        blocks.sort_by_key(|(entry, is_whole)| (entry.header.sequence, !is_whole));
        for (entry, is_whole) in blocks {
            self.block(entry, is_whole)?;
        }
        self.end_session()?;
        self.input.damage = DamageRow::list(&self.damage);
        Ok(self.input)
    }

    fn block(&mut self, entry: &Entry, is_whole: bool) -> anyhow::Result<()> {
        let kind = entry.header.kind;
        let stored = match is_whole.then(|| self.recording.stored(entry)) {
            Some(Ok(stored)) => Some(stored),
            Some(Err(error)) => {
                self.damage.push(damage(entry, &error));
                None
            }
            // The damage of the file includes it.
            None => None,
        };
        if kind == Kind::SESSION {
            self.end_session()?;
        }
        if self.state == Position::Outside {
            self.begin_session()?;
            if kind != Kind::SESSION || stored.is_none() {
                let note = "merged from a damaged file: who recorded this, where and when is lost";
                self.writer.append(&super::unknown_session(note))?;
            }
        }
        if kind == Kind::RECEIPT {
            self.write_losses()?;
            self.state = Position::Outside;
        }
        let Some(stored) = stored else {
            match kind {
                Kind::SAMPLES => self.lost = self.lost.saturating_add(u64::from(entry.header.items)),
                _ => self.lost_blocks += 1,
            }
            return Ok(());
        };
        self.last_ns = self.last_ns.max(entry.header.last_ns);
        self.writer.append_stored(&entry.header, stored)?;
        self.input.blocks += 1;
        if kind == Kind::SAMPLES {
            self.input.samples += u64::from(entry.header.items);
        }
        Ok(())
    }

    fn begin_session(&mut self) -> anyhow::Result<()> {
        if self.input.sessions == self.room {
            bail!("a file has at most {MAX_PARTS} sessions");
        }
        self.input.sessions += 1;
        self.state = Position::Inside;
        self.last_ns = 0;
        Ok(())
    }

    fn end_session(&mut self) -> anyhow::Result<()> {
        self.write_losses()?;
        self.state = Position::Outside;
        Ok(())
    }

    fn write_losses(&mut self) -> anyhow::Result<()> {
        let samples = std::mem::take(&mut self.lost);
        self.input.lost = self.input.lost.saturating_add(samples);
        let lost =
            [(Cause::DAMAGED, samples), (Cause::BLOCKS_DAMAGED, std::mem::take(&mut self.lost_blocks))];
        let lost = lost.into_iter().filter(|(_, count)| *count > 0);
        let loss = |(cause, count)| Loss { time_ns: self.last_ns, cpu: u32::MAX, cause, count };
        let losses: Vec<Loss> = lost.map(loss).collect();
        if !losses.is_empty() {
            self.writer.append(&LossesV1::from_rows(&losses))?;
        }
        Ok(())
    }
}

impl Merged {
    /// Describes the result for people.
    pub fn text(&self, page: &mut Page) {
        let (sessions, samples) = (things(self.sessions, "session"), things(self.samples, "sample"));
        let file = shown(Path::new(&self.file));
        page.line(&format!("wrote {file} ({}): {sessions}, {samples}", bytes(self.file_bytes)));
        for input in &self.inputs {
            let file = shown(Path::new(&input.file));
            if !input.closed {
                let text = format!("{file} was not closed: its recorder was stopped, or still runs");
                page.styled(Style::Warn, &text);
            }
            if let Some(first) = input.damage.first() {
                let parts = things(input.damage.len() as u64, "part");
                let lost = match input.lost {
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
