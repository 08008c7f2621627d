//! How two archives exchange recordings, over a pair of pipes: within a process, or through ssh.
//!
//! ```text
//! sender                                receiver
//! icecore exchange 1 UUID UUID… ──►                                what is offered
//!                               ◄──     want UUID UUID…            what is not there
//! UUID LENGTH, and so many bytes ──►                               one recording after the other
//!                               ◄──     ok UUID, or no UUID CAUSE  it is stored, checked and listed; or it is not
//! end                           ──►
//!                               ◄──     done
//! ```
//!
//! Each line ends with a line feed. The sender does not wait for an answer before it sends the next recording. If the connection ends, what
//! was confirmed stays, and is not sent again the next time.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, Read as _, Write};

use anyhow::{Context as _, bail};
use icecore_archive::archive::Archive;
use icecore_archive::folder::Stored;
use icecore_archive::merge::is_uuid;
use icecore_archive::rows;

use super::Opened;
use super::add::{list, listed};
use crate::input;
use icecore_profile::recording::load::outline::outline;
use icecore_profile::recording::verify::verify;
use icecore_symbolize::image::hex;

/// How the first line begins.
const OFFER: &str = "icecore exchange 1";
/// The longest line, bytes: two million UUIDs.
const MAX_LINE: u64 = 64 << 20;

/// What was moved.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// Recordings that were offered.
    pub(super) offered: u64,
    /// UUIDs of those that the receiver has stored.
    pub(super) moved: Vec<String>,
    /// UUIDs of those that it has not, and why.
    pub(super) refused: Vec<(String, String)>,
    pub(super) bytes: u64,
}

const ENDED: &str = "the connection has ended: run it again, what was moved stays";

fn line(input: &mut impl BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    input.take(MAX_LINE).read_line(&mut line).context(ENDED)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.to_owned()),
        None => bail!(ENDED),
    }
}

fn uuids(text: &str) -> anyhow::Result<Vec<String>> {
    let uuids = text.split_whitespace().map(str::to_owned);
    let uuids: Vec<String> = uuids.collect();
    anyhow::ensure!(uuids.iter().all(|uuid| is_uuid(uuid)), "the other side does not speak as it should");
    Ok(uuids)
}

/// Offers recordings, and sends those that the other side wants.
pub(super) fn send(
    archive: &Archive,
    recordings: &BTreeMap<String, Stored>,
    mut input: impl BufRead + Send + 'static,
    output: &mut impl Write,
) -> anyhow::Result<Moved> {
    let offer: String = recordings.keys().map(|uuid| format!(" {uuid}")).collect();
    output.write_all(format!("{OFFER}{offer}\n").as_bytes()).and_then(|()| output.flush()).context(ENDED)?;
    let wanted = line(&mut input)?;
    let wanted = uuids(wanted.strip_prefix("want").context("the other side does not speak as it should")?)?;
    // The other side answers while this one sends.
    let answers = std::thread::spawn(move || answers(&mut input));
    // If nobody takes what is sent, nobody answers: that thread is left alone then.
    let bytes = send_each(archive, recordings, &wanted, output)?;
    let (moved, refused) = answers.join().expect("bug: reading answers failed")?;
    Ok(Moved { offered: recordings.len() as u64, moved, refused, bytes })
}

fn send_each(
    archive: &Archive,
    recordings: &BTreeMap<String, Stored>,
    wanted: &[String],
    output: &mut impl Write,
) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for uuid in wanted {
        let Some(stored) = recordings.get(uuid) else { bail!("the other side wants what was not offered") };
        let recording = Opened::new(archive, &stored.name)?.recording;
        writeln!(output, "{uuid} {}", recording.len_bytes()).context(ENDED)?;
        output.write_all(recording.as_bytes()).context(ENDED)?;
        bytes += recording.len_bytes();
    }
    output.write_all(b"end\n").and_then(|()| output.flush()).context(ENDED)?;
    Ok(bytes)
}

/// Reads which recordings were stored, and which were not.
#[expect(clippy::type_complexity, reason = "both lists are named where they are used")]
fn answers(input: &mut impl BufRead) -> anyhow::Result<(Vec<String>, Vec<(String, String)>)> {
    let (mut stored, mut refused) = (Vec::new(), Vec::new());
    loop {
        let line = line(input)?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["done"] => return Ok((stored, refused)),
            ["ok", uuid] => stored.push(uuid.to_owned()),
            ["no", uuid, ..] => {
                let cause = line.get(4 + uuid.len()..).unwrap_or_default();
                refused.push((uuid.to_owned(), cause.to_owned()));
            }
            _ => bail!("the other side does not speak as it should"),
        }
    }
}

/// Takes what is not there of what is offered.
pub(super) fn receive(
    archive: &Archive,
    mut input: impl BufRead,
    output: &mut impl Write,
) -> anyhow::Result<Moved> {
    let offer = line(&mut input)?;
    let Some(offered) = offer.strip_prefix(OFFER) else {
        bail!(
            "the other side does not offer recordings; it says: {:?}",
            offer.chars().take(80).collect::<String>()
        )
    };
    let offered = uuids(offered)?;
    let (stored, listed, pruned) = (archive.recordings()?, listed(archive)?, archive.pruned()?);
    let is_there = |uuid: &String| stored.contains_key(uuid) && listed.contains_key(uuid);
    let wanted = offered.iter().filter(|uuid| !is_there(uuid) && !pruned.contains(*uuid));
    let mut wanted: HashSet<&String> = wanted.collect();
    let list: String = wanted.iter().map(|uuid| format!(" {uuid}")).collect();
    output.write_all(format!("want{list}\n").as_bytes()).and_then(|()| output.flush()).context(ENDED)?;
    let mut moved = Moved { offered: offered.len() as u64, ..Moved::default() };
    loop {
        let header = line(&mut input)?;
        if header == "end" {
            break;
        }
        let (uuid, length) = header.split_once(' ').unwrap_or_default();
        let (uuid, length) = (uuid.to_owned(), length.parse::<u64>());
        let Some(length) = length.ok().filter(|_| wanted.remove(&uuid)) else {
            bail!("the other side does not speak as it should")
        };
        match take(archive, &uuid, (&mut input).take(length))? {
            Ok(()) => {
                moved.bytes += length;
                writeln!(output, "ok {uuid}").context(ENDED)?;
                moved.moved.push(uuid);
            }
            Err(cause) => {
                let cause = format!("{cause:#}").replace('\n', " ");
                writeln!(output, "no {uuid} {cause}").context(ENDED)?;
                moved.refused.push((uuid, cause));
            }
        }
        output.flush().context(ENDED)?;
    }
    output.write_all(b"done\n").and_then(|()| output.flush()).context(ENDED)?;
    Ok(moved)
}

/// Stores a recording after it was checked. The outer error is one after which nothing more can be read.
fn take(
    archive: &Archive,
    uuid: &str,
    mut bytes: io::Take<impl BufRead>,
) -> anyhow::Result<anyhow::Result<()>> {
    let mut file = archive.folder().temporary()?;
    io::copy(&mut bytes, file.as_file_mut()).context(ENDED)?;
    anyhow::ensure!(bytes.limit() == 0, ENDED);
    let check = || {
        let recording = input::open(file.path())?;
        if let Some(problem) = verify(&recording).problems.first() {
            bail!("it is damaged: {}", problem.cause);
        }
        anyhow::ensure!(hex(&recording.header().uuid) == uuid, "it is another recording than was offered");
        let parts = &outline(&recording).parts;
        let partition = rows::partition(parts, parts.part(0));
        let mut from = File::open(file.path())?;
        let stored = archive.store(&partition, uuid, |to| io::copy(&mut from, to).map(drop))?;
        list(archive, &Opened::new(archive, &stored)?, uuid).map(drop)
    };
    Ok(check())
}
