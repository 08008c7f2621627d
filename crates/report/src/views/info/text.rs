//! Writes the contents of a file as text.

use std::path::Path;

use super::{EachSession, Info, ReceiptRow, SessionRow};
use crate::views::left_out;
use icecore_profile::recording::load::parts::recorder;
use icecore_text::path::{command, shown};
use icecore_text::quantity::ratio;
use icecore_text::quantity::{bytes, count, duration, percent, things, utc};
use icecore_text::{Align, Page, Style, Table};

/// How many changes of the rate, and how many parts of one recording, are listed.
const SHOWN: usize = 10;

impl Info {
    /// Writes the text; `each` lists every block.
    pub fn text(&self, each: bool, page: &mut Page) {
        let state =
            if self.closed { "closed" } else { "not closed: the recorder was stopped, or still runs" };
        page.item(
            "recording",
            &format!("{} · {} · {state}", shown(Path::new(&self.file)), bytes(self.file_bytes)),
        );
        page.item("uuid", &self.uuid);
        self.triggers.iter().for_each(|trigger| page.item("trigger", &trigger.text()));
        self.rates.iter().take(SHOWN).for_each(|row| page.item("rate", row.text()));
        more(self.rates.len(), "change", page);
        if self.sessions.is_empty() {
            self.session.text(page);
            self.receipt.iter().for_each(|receipt| receipt.text(page));
        }
        let mut position = 0;
        for sessions in self.sessions.chunk_by(|_, next| next.goes_on) {
            self.recording(position, sessions, page);
            position += sessions.len();
        }
        let lost: Vec<String> =
            self.lost_by_cause.iter().map(|(cause, n)| format!("{cause} {}", count(*n))).collect();
        page.item("lost", &if lost.is_empty() { "nothing".to_owned() } else { lost.join(", ") });
        if let Some(left_out) = left_out::told(self.left_out.iter()) {
            page.item("left out", &left_out);
        }
        page.gap();
        match (&self.sizes, &self.symbol_sources) {
            (Some(sizes), _) => super::sizes::text(sizes, self.samples, page),
            (_, Some(sources)) => super::sources::text(sources, page),
            (None, None) => page.table(&if each { self.each_block() } else { self.block_kinds() }),
        }
        for row in &self.unknown {
            let known = format!("{} version {}: {} left out", row.kind, row.version, count(row.blocks));
            page.styled(Style::Warn, &format!("unknown blocks, {known}; a newer icecore-report reads them"));
        }
        for row in &self.damage {
            page.styled(
                Style::Bad,
                &format!("damaged: {} at byte {}: {}", things(row.len, "byte"), count(row.offset), row.cause),
            );
        }
    }

    /// Writes the sessions of one recording: the first, what the others differ in, and how the last one ended.
    fn recording(&self, position: usize, sessions: &[EachSession], page: &mut Page) {
        let number = |at: usize| format!("{} of {}", position + at + 1, self.sessions.len());
        let [first, others @ ..] = sessions else { return };
        page.item("session", &number(0));
        first.session.text(page);
        first.receipt.iter().for_each(|receipt| receipt.text(page));
        for (at, EachSession { session, receipt, .. }) in (1..).zip(others).take(SHOWN) {
            let ended = receipt.as_ref().map(|it| {
                let ns = it.end_ns.saturating_sub(session.start_ns);
                format!(" · {} · ended by {}", duration(ns), it.ended_by.join(", "))
            });
            let ended = ended.unwrap_or_default();
            page.item(
                "session",
                &format!("{} · goes on · {}{ended}", number(at), utc(session.start_unix_ns)),
            );
        }
        more(others.len(), "session", page);
        if let Some(EachSession { receipt: Some(receipt), .. }) = others.last() {
            receipt.text(page);
        }
    }

    fn block_kinds(&self) -> Table {
        let columns = [
            ("BLOCKS", Align::Right),
            ("ITEMS", Align::Right),
            ("STORED", Align::Right),
            ("RAW", Align::Right),
            ("OF FILE", Align::Right),
            ("PER SAMPLE", Align::Right),
            ("KIND", Align::Left),
        ];
        let mut table = Table::new(0, &columns);
        let mut kinds: Vec<(&str, u64, u64, u64, u64)> = Vec::new();
        for block in &self.blocks {
            let row = match kinds.iter().position(|(kind, ..)| *kind == block.kind) {
                Some(row) => row,
                None => {
                    kinds.push((&block.kind, 0, 0, 0, 0));
                    kinds.len() - 1
                }
            };
            let (_, blocks, items, stored, raw) = &mut kinds[row];
            *blocks += 1;
            *items += u64::from(block.count);
            *stored += u64::from(block.stored_len);
            *raw += u64::from(block.raw_len);
        }
        kinds.sort_by_key(|(kind, _, _, stored, _)| (std::cmp::Reverse(*stored), *kind));
        for (kind, blocks, items, stored, raw) in kinds {
            let share = percent(ratio(stored as f64, self.file_bytes as f64));
            let each = format!("{:.2} B", ratio(stored as f64, self.samples as f64));
            table.row(vec![
                count(blocks),
                count(items),
                bytes(stored),
                bytes(raw),
                share,
                each,
                kind.to_owned(),
            ]);
        }
        table
    }

    fn each_block(&self) -> Table {
        let columns = [
            ("OFFSET", Align::Right),
            ("STORED", Align::Right),
            ("RAW", Align::Right),
            ("ITEMS", Align::Right),
            ("CODEC", Align::Left),
            ("VERSION", Align::Right),
            ("KIND", Align::Left),
        ];
        let mut table = Table::new(0, &columns);
        for block in &self.blocks {
            table.row(vec![
                block.offset.to_string(),
                block.stored_len.to_string(),
                block.raw_len.to_string(),
                block.count.to_string(),
                block.codec.to_owned(),
                block.version.to_string(),
                block.kind.clone(),
            ]);
        }
        table
    }
}

/// Says how many of a list are not shown.
fn more(all: usize, thing: &str, page: &mut Page) {
    if all > SHOWN {
        page.item(
            "",
            &format!("and {}: --json has all", things((all - SHOWN) as u64, &format!("more {thing}"))),
        );
    }
}

impl SessionRow {
    fn text(&self, page: &mut Page) {
        page.item(
            "recorder",
            &format!("{}: {}", recorder(self.by, &self.recorder), command(&self.command_line)),
        );
        let kernel = format!("Linux {} {} {}", self.kernel_release, self.kernel_version, self.arch);
        page.item(
            "machine",
            &format!("{} · {kernel} · {}", self.host, things(self.cpus.len() as u64, "CPU")),
        );
        page.item("began", &utc(self.start_unix_ns));
        let sides = match (self.user, self.kernel) {
            (true, true) => "user and kernel",
            (true, false) => "user only",
            (false, true) => "kernel only",
            (false, false) => "sides unknown",
        };
        let idle = if self.idle { ", with idle" } else { "" };
        let depth = format!("at most {} user frames", count(u64::from(self.max_depth)));
        let ring = format!("ring {}", bytes(self.ring_bytes));
        let target = if self.target.is_empty() { "unknown target" } else { &self.target };
        page.item("sampled", &format!("{target} · {sides}{idle} · {depth} · {ring}"));
        for event in &self.events {
            let rate = match event.frequency_hz {
                0 if event.period == 0 && event.meaning == "unknown" => "how often is unknown".to_owned(),
                0 if event.period <= 1 => "each one".to_owned(),
                0 if event.is_wait => format!("each of {} or more", duration(event.period)),
                0 => format!("every {} {}", count(event.period), event.unit),
                hz => format!("{hz} Hz per CPU"),
            };
            page.item("event", &format!("{} · {rate} · weighs {}", event.name, event.unit));
        }
        for (key, value) in &self.labels {
            page.item("label", &format!("{key}={value}"));
        }
        for note in &self.notes {
            page.item("note", note);
        }
    }
}

impl ReceiptRow {
    fn text(&self, page: &mut Page) {
        let code =
            if self.exit_code >= 0 { format!(", exit code {}", self.exit_code) } else { String::new() };
        page.item("ended by", &format!("{}{code}", self.ended_by.join(", ")));
        if !self.is_known() {
            return;
        }
        let cpu =
            format!("{} user + {} kernel CPU", duration(self.user_cpu_ns), duration(self.kernel_cpu_ns));
        let memory = format!("{} peak memory", bytes(self.peak_rss_bytes));
        let ring = format!("{} ring high water", bytes(self.ring_high_water_bytes));
        page.item("cost", &format!("{cpu} · {memory} · {ring}"));
        if let Some(ns) = self.bpf_ns_per_run {
            let runs = format!("{}, {ns:.0} ns each", things(self.bpf_runs, "run"));
            page.item("bpf", &format!("{runs}, {} in all", duration(self.bpf_ns)));
        }
    }
}
