//! Caches which calls of a recording's stacks are impossible.
//!
//! There is one file for the stacks of each recording and selection of samples. Its name is a SHA-256 over that of the file with the
//! stacks, all searches on which they rest, and the selection: stacks that are unwound anew from other files have another one. It has
//! only strings: its name, the counts, and for which files the search for code looked.

use std::path::PathBuf;

use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::records::{SessionV1, StringsV1};
use ring::digest::{Context, SHA256};

use super::folder::{Limits, open};
use super::unwound::hexadecimal;
use super::{Cache, texts};
use crate::stacks::calls::Counts;
use crate::stacks::repair::Look;

/// The writer of a file.
pub(super) const MAKER: &str = concat!("icecore-report ", env!("CARGO_PKG_VERSION"), " calls 1");
/// The suffix of the names of these files.
pub(super) const SUFFIX: &str = ".calls";
/// The most that is kept of all recordings.
pub(super) const LIMITS: Limits = Limits { files: 4096, bytes: 64 << 20 };

/// The place of the counts of one recording.
#[derive(Debug)]
pub(crate) struct CallsFile {
    cache: Cache,
    /// The name without its suffix.
    key: String,
}

impl CallsFile {
    pub(super) fn new(cache: &Cache, stacks: &str, looks: &[Look], counted: &str) -> Self {
        let mut whole = Context::new(&SHA256);
        // None of the texts has a NUL.
        for text in [stacks, counted].into_iter().map(str::to_owned).chain(looks.iter().map(Look::to_text)) {
            whole.update(text.as_bytes());
            whole.update(&[0]);
        }
        Self { cache: cache.clone(), key: hexadecimal(&whole.finish()) }
    }

    /// Reads what an earlier report has counted, and for which files it searched; `None` if there is nothing usable.
    pub(crate) fn read(&self) -> Option<(Counts, Vec<Look>)> {
        let texts = self.texts().ok().flatten()?;
        let [key, counts, looks @ ..] = &texts[..] else { return None };
        let looks = looks.iter().map(|text| Look::of_text(text)).collect::<Option<_>>()?;
        Some((Counts::of_text(counts).filter(|_| *key == self.key)?, looks))
    }

    /// Writes what was counted. An error has no consequence: the next report counts again.
    pub(crate) fn write(&self, counts: &Counts, looks: &[Look]) {
        let texts = [self.key.clone(), counts.to_text()].into_iter().chain(looks.iter().map(Look::to_text));
        let texts: Vec<String> = texts.collect();
        let written = self.cache.create(&self.path(), |writer| {
            writer.append(&SessionV1 { recorder: MAKER.to_owned(), ..SessionV1::default() })?;
            writer.append(&StringsV1::from_rows(1, &texts)).map(drop)
        });
        if written.is_ok() {
            self.cache.trim();
        }
    }

    fn path(&self) -> PathBuf {
        self.cache.dir.join(format!("{}{SUFFIX}", self.key))
    }

    fn texts(&self) -> Result<Option<Vec<String>>, Error> {
        let Some(recording) = open(&self.path())? else { return Ok(None) };
        let (mut is_ours, mut strings) = (false, None);
        for entry in recording.entries() {
            let payload = recording.payload(entry)?;
            match entry.header.kind {
                Kind::SESSION => {
                    is_ours = payload.view::<SessionV1>()?.to_owned_record()?.recorder == MAKER;
                }
                Kind::STRINGS => strings = Some(texts(payload.view::<StringsV1>()?)?),
                _ => return Ok(None),
            }
        }
        Ok(strings.filter(|_| is_ours))
    }
}
