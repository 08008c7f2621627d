//! `archive list` and `archive show`: which recordings there are.

use std::collections::{BTreeMap, BTreeSet};

use icecore_archive::Text;
use icecore_archive::archive::{Archive, Listed};
use icecore_archive::partition::NO_SERVICE;
use icecore_archive::schema::RecordingRow;
use serde::Serialize;

use super::super::{Streams, emit};
use super::{Found, below};
use crate::cli::{Chosen, Global};
use icecore_text::quantity::{bytes, count, percent, things, utc};
use icecore_text::{Align, Page, Table};

/// A session.
#[derive(Debug, Serialize)]
struct Row {
    uuid: String,
    recording_id: i64,
    host: String,
    service: String,
    kernel_release: String,
    arch: String,
    labels: BTreeMap<String, String>,
    start_unix_us: i64,
    end_unix_us: i64,
    samples: i64,
    lost: Option<i64>,
    verdict: String,
    rooted_share: Option<f64>,
    cut_share: Option<f64>,
    named_share: Option<f64>,
    lost_share: Option<f64>,
    recorder_cpu_ns: Option<i64>,
    /// The size of the recording in the archive.
    file_bytes: i64,
}

impl Row {
    fn new(found: &Found, Listed { row, .. }: &Listed) -> Self {
        let text = |text| found.index.text(text).to_owned();
        Self {
            uuid: text(row.uuid),
            recording_id: row.recording.get(),
            host: text(row.host),
            service: service(found, row).to_owned(),
            kernel_release: text(row.kernel),
            arch: text(row.arch),
            labels: row.labels.iter().map(|(key, value)| (text(*key), text(*value))).collect(),
            start_unix_us: row.span_us.0,
            end_unix_us: row.span_us.1,
            samples: row.samples,
            lost: row.lost,
            verdict: text(row.verdict),
            rooted_share: row.shares.rooted,
            cut_share: row.shares.cut,
            named_share: row.shares.named,
            lost_share: row.shares.lost,
            recorder_cpu_ns: row.recorder_cpu_ns,
            file_bytes: row.file_bytes,
        }
    }
}

/// The service of a session, as it was written.
pub(super) fn service<'f>(found: &'f Found, row: &RecordingRow) -> &'f str {
    let is_service = |label: &&(Text, Text)| found.index.text(label.0) == "service";
    let service = row.labels.iter().find(is_service).map(|label| found.index.text(label.1));
    service.filter(|name| !name.is_empty()).unwrap_or(NO_SERVICE)
}

/// The sessions that are selected.
#[derive(Debug, Serialize)]
struct List {
    schema: &'static str,
    archive: String,
    rows: Vec<Row>,
}

/// Lists sessions, the latest last.
pub(super) fn list(
    archive: &Archive,
    chosen: &Chosen,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let found = Found::new(archive, chosen)?;
    let rows = found.listed.iter().map(|listed| Row::new(&found, listed)).collect();
    let list = List { schema: "icecore.archive.list/1", archive: name(archive), rows };
    emit(global, streams, &list, |page| list.text(page))?;
    Ok(0)
}

pub(super) fn name(archive: &Archive) -> String {
    archive.folder().root().display().to_string()
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), percent)
}

pub(super) fn moment(unix_us: i64) -> String {
    utc(u64::try_from(unix_us).unwrap_or(0).saturating_mul(1000))
}

impl List {
    fn text(&self, page: &mut Page) {
        let right = |name| (name, Align::Right);
        let left = |name| (name, Align::Left);
        let columns = [
            left("UUID"),
            left("BEGAN"),
            left("HOST"),
            left("SERVICE"),
            right("SAMPLES"),
            right("ROOTED"),
            right("NAMED"),
            left("VERDICT"),
            left("LABELS"),
        ];
        let mut table = Table::of_names(0, &columns);
        for row in &self.rows {
            let others = row.labels.iter().filter(|(key, _)| *key != "service");
            let labels: Vec<String> = others.map(|(key, value)| format!("{key}={value}")).collect();
            table.row(vec![
                row.uuid.chars().take(8).collect(),
                moment(row.start_unix_us),
                row.host.clone(),
                row.service.clone(),
                count(row.samples.unsigned_abs()),
                share(row.rooted_share),
                share(row.named_share),
                row.verdict.clone(),
                labels.join(" "),
            ]);
        }
        if !self.rows.is_empty() {
            page.table(&table);
            page.gap();
        }
        let uuids: BTreeSet<&str> = self.rows.iter().map(|row| &*row.uuid).collect();
        let sessions = match self.rows.len() {
            sessions if sessions > uuids.len() => format!(", {}", things(sessions as u64, "session")),
            _ => String::new(),
        };
        page.line(&format!("{}{sessions}", things(uuids.len() as u64, "recording")));
    }
}

/// What is known of a selection.
#[derive(Debug, Serialize)]
struct Show {
    schema: &'static str,
    archive: String,
    recordings: u64,
    sessions: u64,
    samples: i64,
    lost: i64,
    first_unix_us: i64,
    last_unix_us: i64,
    /// Sessions by host, service, kernel release, verdict.
    hosts: BTreeMap<String, u64>,
    services: BTreeMap<String, u64>,
    kernels: BTreeMap<String, u64>,
    verdicts: BTreeMap<String, u64>,
    /// Sessions by label and value.
    labels: BTreeMap<String, BTreeMap<String, u64>>,
    /// Bytes of the recordings in the archive.
    file_bytes: u64,
    /// Their files.
    files: Vec<String>,
}

/// Shows what is known of a selection.
pub(super) fn show(
    archive: &Archive,
    chosen: &Chosen,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let found = Found::new(archive, chosen)?.or_none(archive)?;
    let rows: Vec<Row> = found.listed.iter().map(|listed| Row::new(&found, listed)).collect();
    let stored = archive.recordings()?;
    let files: Vec<_> = found.uuids().into_iter().filter_map(|uuid| stored.get(uuid)).collect();
    let counted = |key: fn(&Row) -> &String| {
        let mut counts = BTreeMap::new();
        rows.iter().for_each(|row| *counts.entry(key(row).clone()).or_insert(0) += 1);
        counts
    };
    let mut labels: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (key, value) in rows.iter().flat_map(|row| &row.labels) {
        *labels.entry(key.clone()).or_default().entry(value.clone()).or_default() += 1;
    }
    let show = Show {
        schema: "icecore.archive.show/1",
        archive: name(archive),
        recordings: found.uuids().len() as u64,
        sessions: rows.len() as u64,
        samples: rows.iter().map(|row| row.samples).sum(),
        lost: rows.iter().filter_map(|row| row.lost).sum(),
        first_unix_us: rows.iter().map(|row| row.start_unix_us).min().unwrap_or(0),
        last_unix_us: rows.iter().map(|row| row.end_unix_us).max().unwrap_or(0),
        hosts: counted(|row| &row.host),
        services: counted(|row| &row.service),
        kernels: counted(|row| &row.kernel_release),
        verdicts: counted(|row| &row.verdict),
        labels,
        file_bytes: files.iter().map(|file| file.bytes).sum(),
        files: files.iter().map(|file| below(archive, &file.name)).collect(),
    };
    emit(global, streams, &show, |page| show.text(page))?;
    Ok(0)
}

/// Lists values and how many sessions have each, as far as they fit on a line.
fn listed(counts: &BTreeMap<String, u64>) -> String {
    const SHOWN: usize = 8;
    let mut all: Vec<(&String, &u64)> = counts.iter().collect();
    all.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let shown: Vec<String> = all.iter().take(SHOWN).map(|(value, n)| format!("{value} ×{n}")).collect();
    let more = all.len().saturating_sub(SHOWN);
    shown.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

impl Show {
    fn text(&self, page: &mut Page) {
        let mut line = |name: &str, text: &str| page.line(&format!("{name:<11} {text}"));
        let sessions = if self.sessions == self.recordings {
            String::new()
        } else {
            format!(", {}", things(self.sessions, "session"))
        };
        let recordings = things(self.recordings, "recording");
        line("selected", &format!("{recordings}{sessions}, {}", bytes(self.file_bytes)));
        line("time", &format!("{} to {}", moment(self.first_unix_us), moment(self.last_unix_us)));
        let lost = if self.lost > 0 { count(self.lost.unsigned_abs()) } else { "none".to_owned() };
        line("samples", &format!("{}, {lost} lost", count(self.samples.unsigned_abs())));
        line("quality", &listed(&self.verdicts));
        line("hosts", &listed(&self.hosts));
        line("services", &listed(&self.services));
        line("kernels", &listed(&self.kernels));
        for (label, values) in self.labels.iter().filter(|(label, _)| *label != "service") {
            line(label, &listed(values));
        }
        if let [file] = &self.files[..] {
            line("file", file);
        }
    }
}
