//! Caches the repaired stacks of a recording, and which of their calls are impossible.
//!
//! There is one file for each recording, build of this program and selection of threads and times. Its name is a SHA-256 over all
//! three: a recording of which one byte changes has another one. The file is a recording itself: strings say for which files unwinding
//! searched, and what it found; nodes, marks and samples are the result. A report that judges calls adds the counts, and for which
//! files it searched: they hold as long as the stacks do, and these files.

use std::ops::Range;
use std::path::PathBuf;

use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{
    Basis, Mark, Node, Sample, SamplesV1, SessionV1, StackMarksV1, StacksV1, StringsV1,
};
use icecore_format::write::Writer;
use rayon::prelude::*;
use ring::digest::{Context, Digest, SHA256, digest};

use super::folder::Contents;
use super::{Cache, texts};
use crate::stacks::calls::Counts;
use crate::stacks::repair::{Look, New, RepairedStacks};

/// The most selections of samples of which a file has the judged calls.
const MAX_JUDGED: usize = 16;
/// The largest file that is written, bytes.
const MAX_BYTES: u64 = 64 << 20;
/// The rows of one block.
const ROWS: usize = 1 << 16;
/// The recording is hashed in pieces of this size, several at a time.
const PIECE: usize = 1 << 20;

/// What unwinding found out about a recording.
#[derive(Debug, Default)]
pub(crate) struct Unwound {
    /// The sessions of the recording.
    pub(crate) sessions: u32,
    /// The searches for files, on which all else rests.
    pub(crate) looks: Vec<Look>,
    /// Marks of nodes of the recording.
    pub(crate) marks: Vec<(u32, Mark)>,
    /// The stacks.
    pub(crate) repaired: RepairedStacks,
    /// Their nodes.
    pub(crate) new: New,
    /// The calls of selected samples.
    pub(crate) judged: Vec<Judged>,
}

/// Which calls of some samples are impossible.
#[derive(Debug)]
pub(crate) struct Judged {
    /// The selection of samples.
    pub(crate) counted: String,
    pub(crate) counts: Counts,
    /// The searches for code, on which the counts rest besides the stacks.
    pub(crate) looks: Vec<Look>,
}

/// The place of the stacks of one recording.
#[derive(Debug)]
pub(crate) struct UnwoundFile {
    cache: Cache,
    /// The name without its suffix.
    key: String,
}

impl Cache {
    /// Finds the place of the stacks of a recording; `selection` says which threads and times are unwound. `None` if the recording is
    /// damaged or still written, or it is unknown which build of this program runs.
    pub(crate) fn unwound(&self, recording: &Recording, selection: &str) -> Option<UnwoundFile> {
        if !recording.is_closed() || !recording.damage().is_empty() {
            return None;
        }
        let mut whole = Context::new(&SHA256);
        // None of the texts has a NUL.
        for text in [Contents::Stacks.maker(), &own_build()?, selection] {
            whole.update(text.as_bytes());
            whole.update(&[0]);
        }
        let pieces: Vec<Digest> =
            recording.as_bytes().par_chunks(PIECE).map(|piece| digest(&SHA256, piece)).collect();
        whole.update(&recording.len_bytes().to_le_bytes());
        pieces.iter().for_each(|piece| whole.update(piece.as_ref()));
        Some(UnwoundFile { cache: self.clone(), key: hexadecimal(&whole.finish()) })
    }
}

/// Writes the name of a file.
fn hexadecimal(digest: &Digest) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Identifies the running program: another build may unwind in another way.
fn own_build() -> Option<String> {
    let meta = std::env::current_exe().and_then(std::fs::metadata).ok()?;
    Some(format!("{} {:?}", meta.len(), meta.modified().ok()?))
}

impl UnwoundFile {
    /// Reads what an earlier report has found; `None` if there is nothing usable.
    pub(crate) fn read(&self) -> Option<Unwound> {
        self.parsed().ok().flatten()
    }

    /// Writes what was found. An error has no consequence: the next report unwinds again.
    pub(crate) fn write(&self, found: &Unwound) {
        if self.replace(found).is_ok() {
            self.cache.trim();
        }
    }

    /// Adds judged calls of the stacks that rest on these searches. An error has no consequence: the next report judges again.
    pub(crate) fn add(&self, looks: &[Look], judged: Judged) {
        // Another report may have unwound the stacks anew meanwhile.
        let Some(mut found) = self.read().filter(|found| found.looks == looks) else { return };
        found.judged.retain(|known| known.counted != judged.counted);
        found.judged.truncate(MAX_JUDGED - 1);
        found.judged.insert(0, judged);
        self.write(&found);
    }

    fn path(&self) -> PathBuf {
        self.cache.dir.join(format!("{}{}", self.key, Contents::Stacks.suffix()))
    }

    fn replace(&self, found: &Unwound) -> Result<(), Error> {
        let Unwound { sessions, looks, marks, repaired, new, judged } = found;
        let numbers = [*sessions, new.first_id].into_iter();
        let ends = repaired.ids_of_parts().iter().map(|ids| ids.end);
        let numbers: Vec<String> = numbers.chain(ends).map(|number| number.to_string()).collect();
        let mut texts = vec![self.key.clone(), numbers.join(" ")];
        put_looks(&mut texts, looks);
        for Judged { counted, counts, looks } in judged {
            texts.extend([counted.clone(), counts.to_text()]);
            put_looks(&mut texts, looks);
        }
        let mut marks = [&marks[..], &new.marks].concat();
        marks.sort_unstable();
        let rows = repaired.to_rows();
        self.cache.create(&self.path(), |writer| {
            writer.append(&SessionV1 {
                recorder: Contents::Stacks.maker().to_owned(),
                ..SessionV1::default()
            })?;
            writer.append(&StringsV1::from_rows(1, &texts))?;
            for (nodes, first) in new.nodes.chunks(ROWS).zip((new.first_id..).step_by(ROWS)) {
                put(writer, &StacksV1::from_rows(first, nodes)?)?;
            }
            for marks in marks.chunks(ROWS) {
                put(writer, &StackMarksV1::from_rows(marks))?;
            }
            // Times ascend within a block.
            let ascending = rows.chunk_by(|a, b| a.time_ns <= b.time_ns);
            for rows in ascending.flat_map(|rows| rows.chunks(ROWS)) {
                put(writer, &SamplesV1::from_rows(rows, &Basis::default())?)?;
            }
            Ok(())
        })
    }

    fn parsed(&self) -> Result<Option<Unwound>, Error> {
        let Some(recording) = self.cache.open(&self.path())? else { return Ok(None) };
        let (mut session, mut strings) = (None, None);
        let (mut nodes, mut marks, mut rows): (Vec<Node>, Vec<(u32, Mark)>, Vec<Sample>) = Default::default();
        for entry in recording.entries() {
            let payload = recording.payload(entry)?;
            match entry.header.kind {
                Kind::SESSION => session = Some(payload.view::<SessionV1>()?.to_owned_record()?),
                Kind::STRINGS => strings = Some(texts(payload.view::<StringsV1>()?)?),
                Kind::STACKS => nodes.extend(payload.view::<StacksV1>()?.rows()?),
                Kind::STACK_MARKS => marks.extend(payload.view::<StackMarksV1>()?.rows()),
                Kind::SAMPLES => rows.extend(payload.view::<SamplesV1>()?.rows()?),
                _ => return Ok(None),
            }
        }
        let is_ours = session.is_some_and(|session| session.recorder == Contents::Stacks.maker());
        Ok(strings.filter(|_| is_ours).and_then(|texts| self.assembled(&texts, nodes, marks, rows)))
    }

    /// Puts the parts together; `None` if they do not fit each other.
    fn assembled(
        &self,
        texts: &[String],
        nodes: Vec<Node>,
        marks: Vec<(u32, Mark)>,
        rows: Vec<Sample>,
    ) -> Option<Unwound> {
        let mut texts = texts.iter();
        if *texts.next()? != self.key {
            return None;
        }
        let numbers = texts.next()?.split(' ').map(|number| number.parse().ok());
        let numbers: Vec<u32> = numbers.collect::<Option<_>>()?;
        let [sessions, first_id, ends @ ..] = &numbers[..] else { return None };
        let begins = std::iter::once(first_id).chain(ends);
        let ids: Vec<Range<u32>> = begins.zip(ends).map(|(begin, end)| *begin..*end).collect();
        let end = ends.last().unwrap_or(first_id);
        if !ids.iter().all(|ids| ids.start <= ids.end) || (end - first_id) as usize != nodes.len() {
            return None;
        }
        let (looks, mut judged) = (take_looks(&mut texts)?, Vec::new());
        while let Some(counted) = texts.next() {
            let (counted, counts) = (counted.clone(), Counts::of_text(texts.next()?)?);
            judged.push(Judged { counted, counts, looks: take_looks(&mut texts)? });
        }
        Some(Unwound {
            sessions: *sessions,
            looks,
            marks,
            repaired: RepairedStacks::of_rows(rows, ids)?,
            new: New { first_id: *first_id, nodes, marks: Vec::new() },
            judged,
        })
    }
}

/// Adds the number of searches, and these.
fn put_looks(texts: &mut Vec<String>, looks: &[Look]) {
    texts.push(looks.len().to_string());
    texts.extend(looks.iter().map(Look::to_text));
}

/// Takes what `put_looks` adds; `None` if that is not there.
fn take_looks(texts: &mut std::slice::Iter<'_, String>) -> Option<Vec<Look>> {
    let number: usize = texts.next()?.parse().ok()?;
    (0..number).map(|_| Look::of_text(texts.next()?)).collect()
}

/// Appends a block, unless the file would become too large.
fn put<P: icecore_format::records::Payload>(writer: &mut Writer, payload: &P) -> Result<(), Error> {
    let len = writer.len_bytes() + writer.append(payload)?;
    if len > MAX_BYTES {
        return Err(Error::TooLarge { kind: P::KIND, len, limit: MAX_BYTES });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
