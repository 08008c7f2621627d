//! `archive push` and `archive pull`: recordings into another archive, or out of it, here or through ssh.

use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};
use icecore_archive::Selection;
use icecore_archive::archive::Archive;
use icecore_archive::folder::Stored;
use serde::Serialize;

use super::super::{Streams, emit, screen};
use super::add::listed;
use super::exchange::{Moved, receive, send};
use super::listing::name;
use super::{Found, opened, opened_or_created, selection, times};
use crate::cli::{Chosen, Global, Moving, Place};
use icecore_text::path::{quoted, shown};
use icecore_text::quantity::{bytes, things};
use icecore_text::{Page, Style};

/// What was moved.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    archive: String,
    /// The other archive, as it was typed.
    other: String,
    /// Recordings that were offered; those that are not named below were there.
    offered: u64,
    moved: Vec<String>,
    refused: Vec<Refused>,
    bytes: u64,
}

/// A recording that the other side did not take.
#[derive(Debug, Serialize)]
struct Refused {
    uuid: String,
    cause: String,
}

/// Moves recordings into another archive.
pub(super) fn push(
    archive: &Archive,
    options: &Moving,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let chosen = selection(options.chosen.selection.as_deref(), &options.chosen.began)?;
    let recordings = whole(archive, &chosen)?;
    let moved = match Place::new(&options.other)? {
        Place::Folder(folder) => {
            let to = opened_or_created(folder)?;
            within(archive, &recordings, &to)?
        }
        remote => {
            let mut child = start(&remote, options, "receive", &[])?;
            let (input, mut output) = pipes(&mut child)?;
            let sent = send(archive, &recordings, input, &mut output);
            drop(output);
            ended(child, sent)?
        }
    };
    finish("icecore.archive.push/1", archive, options, moved, global, streams)
}

/// Moves recordings from another archive into this one.
pub(super) fn pull(
    folder: &Path,
    options: &Moving,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let (archive, chosen);
    let moved = match Place::new(&options.other)? {
        Place::Folder(from) => {
            let from = opened(from)?;
            archive = opened_or_created(folder)?;
            chosen = selection(options.chosen.selection.as_deref(), &options.chosen.began)?;
            within(&from, &whole(&from, &chosen)?, &archive)?
        }
        remote => {
            archive = opened_or_created(folder)?;
            let mut child = start(&remote, options, "send", &typed(&options.chosen))?;
            let (input, mut output) = pipes(&mut child)?;
            let received = receive(&archive, input, &mut output);
            drop(output);
            ended(child, received)?
        }
    };
    finish("icecore.archive.pull/1", &archive, options, moved, global, streams)
}

/// Answers `pull` on the host of the archive. Recordings are no text, so they go to stdout as they are.
pub(super) fn answer_pull(archive: &Archive, chosen: &Chosen) -> anyhow::Result<u8> {
    let recordings = whole(archive, &selection(chosen.selection.as_deref(), &chosen.began)?)?;
    let input = BufReader::new(io::stdin());
    send(archive, &recordings, input, &mut BufWriter::new(io::stdout()))?;
    Ok(0)
}

/// Answers `push` on the host of the archive.
pub(super) fn answer_push(folder: &Path) -> anyhow::Result<u8> {
    let archive = opened_or_created(folder)?;
    receive(&archive, io::stdin().lock(), &mut BufWriter::new(io::stdout()))?;
    Ok(0)
}

/// The recordings of which all sessions are selected, and their files.
fn whole(archive: &Archive, chosen: &Selection) -> anyhow::Result<BTreeMap<String, Stored>> {
    let found = Found::of(archive, chosen)?;
    let (selected, all, mut stored) = (found.sessions(), listed(archive)?, archive.recordings()?);
    stored.retain(|uuid, _| selected.get(&**uuid).is_some_and(|selected| all.get(uuid) == Some(selected)));
    Ok(stored)
}

/// Moves recordings between two archives of this machine.
fn within(from: &Archive, recordings: &BTreeMap<String, Stored>, to: &Archive) -> anyhow::Result<Moved> {
    let ((answers, mut answer), (offers, mut offer)) = (io::pipe()?, io::pipe()?);
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let sent = send(from, recordings, BufReader::new(answers), &mut offer);
            drop(offer);
            sent
        });
        let received = receive(to, BufReader::new(offers), &mut answer);
        drop(answer);
        let sent = sending.join().expect("bug: sending failed");
        // What this side could not store is the cause of what the other one says.
        received.and(sent)
    })
}

/// The selection as the other host reads it.
fn typed(chosen: &Chosen) -> Vec<String> {
    let (since, until) = times(&chosen.began);
    let terms = chosen.selection.iter().cloned();
    let moment = |us: i64| super::fleet::moment(us);
    let since = since.map(|us| format!("began>={}", moment(us)));
    let until = until.map(|us| format!("began<{}", moment(us)));
    let all: Vec<String> = terms.chain(since).chain(until).collect();
    if all.is_empty() { Vec::new() } else { vec![all.join(" ")] }
}

/// Starts the report on another host.
fn start(other: &Place<'_>, options: &Moving, action: &str, words: &[String]) -> anyhow::Result<Child> {
    let Place::Remote { host, port, path } = other else { bail!("bug: a folder is no host") };
    let mut shell = options.rsh.split_whitespace();
    let Some(program) = shell.next() else { bail!("--rsh names no program") };
    let mut command = Command::new(program);
    command.args(shell);
    if let Some(port) = port {
        command.args(["-p", port]);
    }
    let mut remote = format!("{} archive {} {action}", options.remote_program, quoted(Path::new(path)));
    for word in words {
        remote += &format!(" {}", quoted(Path::new(word)));
    }
    command.arg(host).arg(remote).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
        .spawn()
        .with_context(|| format!("cannot start `{program}`: install it, or name another program with --rsh"))
}

type Pipes = (BufReader<std::process::ChildStdout>, BufWriter<std::process::ChildStdin>);

fn pipes(child: &mut Child) -> anyhow::Result<Pipes> {
    let output = child.stdin.take().context("bug: it has no stdin")?;
    let input = child.stdout.take().context("bug: it has no stdout")?;
    Ok((BufReader::new(input), BufWriter::new(output)))
}

/// Waits for the other host; its error says more than what became of the connection.
fn ended(mut child: Child, moved: anyhow::Result<Moved>) -> anyhow::Result<Moved> {
    let status = child.wait()?;
    let moved = moved.with_context(|| format!("the other host has ended with {status}"))?;
    anyhow::ensure!(status.success(), "the other host has ended with {status}");
    Ok(moved)
}

fn finish(
    schema: &'static str,
    archive: &Archive,
    options: &Moving,
    moved: Moved,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let refused = moved.refused.into_iter().map(|(uuid, cause)| Refused { uuid, cause });
    let document = Document {
        schema,
        archive: name(archive),
        other: options.other.clone(),
        offered: moved.offered,
        moved: moved.moved,
        refused: refused.collect(),
        bytes: moved.bytes,
    };
    emit(global, streams, &document, |page| document.text(page))?;
    let errors = document.refused.iter().map(|it| format!("error: {}: {}", it.uuid, it.cause));
    screen(global, streams).remark(errors.collect::<Vec<_>>());
    if !document.refused.is_empty() {
        bail!("cannot move {}", things(document.refused.len() as u64, "recording"));
    }
    Ok(0)
}

impl Document {
    fn text(&self, page: &mut Page) {
        let moved = things(self.moved.len() as u64, "recording");
        let there = self.offered - (self.moved.len() + self.refused.len()) as u64;
        let there =
            if there > 0 { format!("; {} there already", things(there, "recording")) } else { String::new() };
        let other = shown(Path::new(&self.other));
        let (from, to) = match self.schema {
            "icecore.archive.push/1" => (shown(Path::new(&self.archive)), other),
            _ => (other, shown(Path::new(&self.archive))),
        };
        page.styled(
            Style::Good,
            &format!("moved {moved} ({}) from {from} to {to}{there}", bytes(self.bytes)),
        );
    }
}
