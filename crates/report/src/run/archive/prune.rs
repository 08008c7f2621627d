//! `archive prune`: removes recordings by age, size or selection.

use std::collections::HashMap;

use anyhow::bail;
use icecore_archive::Selection;
use icecore_archive::archive::{Archive, Listed};
use serde::Serialize;

use super::super::{Streams, emit};
use super::listing::{moment, name};
use super::{Found, now_us, selection};
use crate::cli::{Global, Prune};
use icecore_text::quantity::{bytes, things};
use icecore_text::{Page, Style};

/// What was removed.
#[derive(Debug, Serialize)]
struct Pruned {
    schema: &'static str,
    archive: String,
    dry_run: bool,
    /// What the recordings of the archive took, and what those take that are left.
    bytes_before: u64,
    bytes_after: u64,
    rows: Vec<Row>,
    /// Recordings that stay because some of their sessions are not selected.
    split: Vec<String>,
}

/// A recording that was removed.
#[derive(Debug, Serialize)]
struct Row {
    uuid: String,
    host: String,
    start_unix_us: i64,
    file_bytes: u64,
}

/// Removes recordings; returns the exit code.
pub(super) fn prune(
    archive: &Archive,
    options: &Prune,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let began = &options.chosen.began;
    let is_said = options.chosen.selection.is_some()
        || options.older_than.is_some()
        || options.max_size.is_some()
        || began.until.is_some()
        || began.since.is_some()
        || began.last.is_some();
    if !is_said {
        bail!("what shall go? Name a selection, --older-than or --max-size; `host=*` selects all");
    }
    let chosen = selection(options.chosen.selection.as_deref(), began)?;
    if !options.dry_run {
        // What was interrupted is not listed any more, and nothing would select it.
        archive.complete_pruning()?;
    }
    let found = Found::of(archive, &Selection::default())?;
    let stored = archive.recordings()?;
    let size = |uuid: &str| stored.get(uuid).map_or(0, |file| file.bytes);
    let (whole, split) = selected(&found, &chosen);
    let mut left_bytes: u64 = whole.iter().map(|(uuid, _)| size(uuid)).sum();
    let before_us = options.older_than.map(|age| now_us().saturating_sub(age.us()));
    let is_limited = before_us.is_some() || options.max_size.is_some();
    let mut rows = Vec::new();
    for (uuid, it) in whole {
        let is_old = before_us.is_some_and(|before| it.row.span_us.0 < before);
        let is_much = options.max_size.is_some_and(|most| left_bytes > most);
        if is_limited && !is_old && !is_much {
            continue;
        }
        left_bytes -= size(uuid);
        let host = found.index.text(it.row.host).to_owned();
        let (uuid, file_bytes) = (uuid.to_owned(), size(uuid));
        rows.push(Row { uuid, host, start_unix_us: it.row.span_us.0, file_bytes });
    }
    let bytes_before: u64 = stored.values().map(|file| file.bytes).sum();
    let removed: u64 = rows.iter().map(|row| row.file_bytes).sum();
    let done = Pruned {
        schema: "icecore.archive.prune/1",
        archive: name(archive),
        dry_run: options.dry_run,
        bytes_before,
        bytes_after: bytes_before.saturating_sub(removed),
        rows,
        split,
    };
    if !options.dry_run {
        let uuids = done.rows.iter().map(|row| row.uuid.clone()).collect();
        archive.prune(&found.index, &uuids, !options.without_sums)?;
    }
    emit(global, streams, &done, |page| done.text(page, options.without_sums))?;
    Ok(0)
}

/// Returns the recordings of which all sessions are selected, the oldest first, by their first sessions; and those of which only some are.
fn selected<'f>(found: &'f Found, chosen: &Selection) -> (Vec<(&'f str, &'f Listed)>, Vec<String>) {
    let mut of_recording: HashMap<&str, (&Listed, usize)> = HashMap::new();
    for it in found.listed.iter().filter(|it| chosen.has(&found.index, it)) {
        of_recording.entry(found.index.text(it.row.uuid)).or_insert((it, 0)).1 += 1;
    }
    let sessions = found.sessions();
    let is_whole = |(uuid, (_, selected)): &(&str, (&Listed, usize))| sessions[uuid] == *selected;
    let (whole, split): (Vec<_>, Vec<_>) = of_recording.into_iter().partition(is_whole);
    let mut whole: Vec<(&str, &Listed)> = whole.into_iter().map(|(uuid, (first, _))| (uuid, first)).collect();
    whole.sort_by_key(|(uuid, first)| (first.row.span_us.0, *uuid));
    let mut split: Vec<String> = split.into_iter().map(|(uuid, _)| uuid.to_owned()).collect();
    split.sort_unstable();
    (whole, split)
}

impl Pruned {
    fn text(&self, page: &mut Page, is_without_sums: bool) {
        let recordings = things(self.rows.len() as u64, "recording");
        let verb = if self.dry_run { "would remove" } else { "removed" };
        let sums = match (self.rows.len(), is_without_sums) {
            (0, _) => "",
            (_, true) => "; nothing of them stays",
            (_, false) => "; their daily sums stay",
        };
        let times = match &self.rows[..] {
            [] => String::new(),
            [only] => format!(" of {}", moment(only.start_unix_us)),
            [first, .., last] => {
                format!(", from {} to {}", moment(first.start_unix_us), moment(last.start_unix_us))
            }
        };
        page.line(&format!("{verb} {recordings}{times}{sums}"));
        let (before, after) = (bytes(self.bytes_before), bytes(self.bytes_after));
        page.line(&format!("recordings: {before} before, {after} after"));
        if !self.split.is_empty() {
            let split = things(self.split.len() as u64, "recording");
            page.styled(Style::Warn, &format!("{split} stay: some of their sessions are not selected"));
        }
    }
}
