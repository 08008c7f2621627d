//! Profiles of other tools that have names, but no files from which a report could take them.
//!
//! ```text
//! bytes ─► unpacked ─► folded | pprof | firefox | simpleperf ─► Profile ─► write
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `unpacked` | the bytes of a file, decompressed within limits |
//! | `profile` | one plain model that every parser fills |
//! | `folded`, `pprof`, `firefox`, `simpleperf` | one format each |
//! | `write` | the model as rows |
//!
//! The names of the profile are the facts: they become rows of names, which a report believes without a look at any file.

mod firefox;
mod folded;
mod pprof;
mod profile;
mod simpleperf;
mod unpacked;
mod write;

use std::fs::File;

use icecore_format::header;
use icecore_format::write::Writer;

use super::{Imported, NotImported};
use crate::Error;
use icecore_profile::watch::Watch;
use profile::Profile;

/// What import reads, for people.
const READ: &str = "import reads perf.data, pprof, folded stacks, processed profiles of the Firefox Profiler as JSON, and \
                    `simpleperf report-sample --protobuf`; each but perf.data also compressed with gzip";

/// The formats of profiles with names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Folded,
    Pprof,
    Firefox,
    Simpleperf,
}

impl Format {
    /// Recognizes a format by its first bytes.
    fn of(head: &[u8]) -> Option<Self> {
        let head = &head[..head.len().min(header::LEN)];
        let is_text = |byte: &u8| matches!(byte, b'\t' | b'\r' | b'\n' | 0x20..=0x7e | 0x80..);
        match head {
            _ if head.starts_with(simpleperf::MAGIC) => Some(Self::Simpleperf),
            _ if !head.iter().all(is_text) => pprof::begins(head).then_some(Self::Pprof),
            _ if begins_like_json(head) => Some(Self::Firefox),
            _ if folded::begins(head) => Some(Self::Folded),
            _ => None,
        }
    }

    fn parse(self, bytes: &[u8]) -> Result<Profile, Error> {
        match self {
            Self::Folded => folded::parse(bytes),
            Self::Pprof => pprof::parse(bytes),
            Self::Firefox => firefox::parse(bytes),
            Self::Simpleperf => simpleperf::parse(bytes),
        }
    }
}

/// Returns true if a text is an object of JSON: frames of PHP begin with a brace, too.
fn begins_like_json(head: &[u8]) -> bool {
    let behind = head.trim_ascii_start().strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    behind.is_some_and(|behind| behind.is_empty() || matches!(behind[0], b'"' | b'}'))
}

/// Returns true if a file with these first bytes may be a profile with names, so that it is worth reading on.
pub(super) fn begins(head: &[u8]) -> bool {
    unpacked::is_packed(head) || Format::of(head).is_some()
}

/// Writes the samples of a file. `changed_unix_ns` is when it was last changed, 0 if that is unknown.
pub(super) fn import(
    file: &File,
    writer: &mut Writer,
    changed_unix_ns: u64,
    watch: &dyn Watch,
) -> Result<Imported, Error> {
    let bytes = unpacked::read(file)?;
    if bytes.starts_with(b"PERFILE2") {
        return Err(Error::input("it is a compressed perf.data file: decompress it with gunzip first"));
    }
    let nothing = if bytes.is_empty() { "it is empty" } else { "it is none of these" };
    let format = Format::of(&bytes).ok_or_else(|| Error::input(format!("{nothing}: {READ}")))?;
    let profile = format.parse(&bytes)?;
    drop(bytes);
    watch.begin("importing samples", profile.samples.len() as u64);
    let written = write::write(&profile, writer, changed_unix_ns, &|done| watch.tick(done));
    watch.end();
    written?;
    let not_imported = profile.not_imported.iter().map(|(what, count)| NotImported { what, count: *count });
    Ok(Imported {
        format: profile.format,
        events: profile.events.iter().map(|event| event.name.clone()).collect(),
        samples: profile.samples.len() as u64,
        lost: profile.lost,
        not_imported: not_imported.collect(),
        damage: profile.damage,
        ..Imported::default()
    })
}

#[cfg(test)]
mod tests;
