//! `merge`: writes several recordings into one file, each as a session of its own.
//!
//! Blocks are copied as they are stored. Nothing is decoded, so nothing is lost, not even kinds that this version does not know.
//! Only block headers are new, because they hold the sequence number and the file's own seed.

use std::collections::HashMap;

use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{Cause, Loss, LossesV1};
use icecore_format::write::Writer;
use serde::Serialize;

use crate::Error;
use crate::blocks::unknown_session;
use icecore_profile::recording::damage::DamageRow;
use icecore_profile::recording::load::damage;
use icecore_profile::recording::load::parts::MAX_PARTS;

/// What was copied of one recording.
#[derive(Debug, Serialize)]
pub struct Merged {
    /// The recorder finished the file.
    pub closed: bool,
    /// Its sessions.
    pub sessions: u64,
    /// Blocks that were copied.
    pub blocks: u64,
    /// Samples in them.
    pub samples: u64,
    /// Samples in damaged parts, as far as known.
    pub lost: u64,
    /// What could not be copied.
    pub damage: Vec<DamageRow>,
}

/// Writes several recordings into one; returns what was copied of each.
///
/// # Errors
/// The position of a recording, and why it cannot be merged: [`Error::Same`] if its samples would count twice; if there are too many
/// sessions, or the output cannot be written.
pub fn merge(recordings: &[Recording], writer: &mut Writer) -> Result<Vec<Merged>, (usize, Error)> {
    let mut seen = HashMap::new();
    for (number, recording) in recordings.iter().enumerate() {
        if let Some(first) = seen.insert(recording.header().uuid, number) {
            return Err((number, Error::Same(first)));
        }
    }
    let mut room = MAX_PARTS as u64;
    let copy = |(number, recording)| {
        let merged: Merged = Copier::new(recording, writer, room).run().map_err(|error| (number, error))?;
        room -= merged.sessions;
        Ok(merged)
    };
    recordings.iter().enumerate().map(copy).collect()
}

/// Copies the blocks of one file.
struct Copier<'a> {
    recording: &'a Recording,
    writer: &'a mut Writer,
    /// How many sessions fit into the output.
    room: u64,
    merged: Merged,
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
    fn new(recording: &'a Recording, writer: &'a mut Writer, room: u64) -> Self {
        let merged = Merged {
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
            merged,
            damage,
            state: Position::Outside,
            lost: 0,
            lost_blocks: 0,
            last_ns: 0,
        }
    }

    fn run(mut self) -> Result<Merged, Error> {
        let whole = self.recording.entries().iter().map(|entry| (entry, true));
        let lost = self.recording.lost().iter().filter(|entry| entry.header.kind != Kind::INDEX);
        let lost = lost.map(|entry| (entry, false));
        let mut blocks: Vec<(&Entry, bool)> = whole.chain(lost).collect();
        blocks.sort_by_key(|(entry, is_whole)| (entry.header.sequence, !is_whole));
        for (entry, is_whole) in blocks {
            self.block(entry, is_whole)?;
        }
        self.end_session()?;
        self.merged.damage = DamageRow::list(&self.damage);
        Ok(self.merged)
    }

    fn block(&mut self, entry: &Entry, is_whole: bool) -> Result<(), Error> {
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
                self.writer.append(&unknown_session(note))?;
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
        self.merged.blocks += 1;
        if kind == Kind::SAMPLES {
            self.merged.samples += u64::from(entry.header.items);
        }
        Ok(())
    }

    fn begin_session(&mut self) -> Result<(), Error> {
        if self.merged.sessions == self.room {
            return Err(Error::input(format!("a file has at most {MAX_PARTS} sessions")));
        }
        self.merged.sessions += 1;
        self.state = Position::Inside;
        self.last_ns = 0;
        Ok(())
    }

    fn end_session(&mut self) -> Result<(), Error> {
        self.write_losses()?;
        self.state = Position::Outside;
        Ok(())
    }

    fn write_losses(&mut self) -> Result<(), Error> {
        let samples = std::mem::take(&mut self.lost);
        self.merged.lost = self.merged.lost.saturating_add(samples);
        let lost =
            [(Cause::DAMAGED, samples), (Cause::BLOCKS_DAMAGED, std::mem::take(&mut self.lost_blocks))];
        let lost = lost.into_iter().filter(|(_, count)| *count > 0);
        let loss = |(cause, count)| Loss { time_ns: self.last_ns, ..Loss::of(cause, count) };
        let losses: Vec<Loss> = lost.map(loss).collect();
        if !losses.is_empty() {
            self.writer.append(&LossesV1::from_rows(&losses))?;
        }
        Ok(())
    }
}
