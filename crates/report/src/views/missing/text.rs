//! Writes the page.

use super::{LackingImage, Missing, Silent, Tried};
use crate::views::rates::no_samples;
use icecore_analysis::quality::runtimes::{self, Runtime};
use icecore_format::records::EmbedMode;
use icecore_profile::named::Amount;
use icecore_profile::named::pipeline::Report;
use icecore_symbolize::Reason;
use icecore_text::quantity::{percent, things};
use icecore_text::{Align, Page, Style, Table};

impl Missing {
    /// Writes the page: files that would give names, files that would give lines, frames that no file would name.
    pub fn text(&self, report: &Report<'_>, page: &mut Page) {
        let whole = report.profile.whole();
        super::super::preface(report, Amount { samples: whole.samples, weight: whole.weight }, page);
        page.gap();
        let Some(named_share) = self.named_share else {
            page.line(&no_samples(report));
            return;
        };
        page.item("named", &format!("{} of all frames", percent(named_share)));
        if self.names.is_empty() && self.lines.is_empty() {
            page.item("missing", "nothing: no file could name more, or add lines");
        }
        self.names_text(page);
        self.lines_text(page);
        let others: Vec<String> =
            self.others.iter().map(|(reason, share)| format!("{} {reason}", percent(*share))).collect();
        if !others.is_empty() {
            page.gap();
            page.item("in no file", &format!("of all frames: {}", others.join(", ")));
            let embeds_none = report.loaded.tables.session.embed == EmbedMode::NONE;
            let runtime =
                self.others.contains_key(Reason::Jit.code()).then(|| runtimes::nameless(report)).flatten();
            if let Some(remedy) = runtime.filter(|_| !embeds_none).and_then(Runtime::remedy) {
                page.item("", &format!("JIT code has names if its process tells them: {remedy}"));
            }
        }
        self.interpreters_text(page);
        if self.names.iter().chain(&self.lines).any(|row| row.build_id.is_some()) {
            page.gap();
            let file = report.loaded.words();
            page.line(&format!(
                "next: icecore-report {file} --debuginfod URL fetches by build-id; --symbols DIR finds what you bring"
            ));
        }
    }

    fn names_text(&self, page: &mut Page) {
        if self.names.is_empty() {
            return;
        }
        page.gap();
        page.styled(
            Style::Bold,
            &format!(
                "no names: {}{}",
                things(self.names_count, "image"),
                of(self.names.len(), self.names_count)
            ),
        );
        for row in &self.names {
            page.gap();
            let share =
                format!("{} of samples, {} of frames", percent(row.samples_share), percent(row.frames_share));
            page.line(&format!("  {}  {share}", page.style(Style::Bold, &row.image)));
            let detail = |page: &mut Page, label: &str, text: &str| {
                let label = page.style(Style::Dim, &format!("{label:<8}"));
                page.line(&format!("    {label}  {text}"));
            };
            detail(page, "why", &row.why);
            detail(page, "build-id", row.build_id.as_deref().unwrap_or("none"));
            for line in self.tried(row) {
                detail(page, "tried", &line);
            }
            if row.other_mounts && row.source.is_none() {
                detail(
                    page,
                    "path",
                    "of another mount namespace, such as a container's: --sysroot DIR with a copy of its root",
                );
            }
            if let Some(left_out) = &row.left_out {
                detail(page, "embedded", &left_out.text);
            }
            for line in &row.get {
                detail(page, "get", line);
            }
        }
    }

    fn interpreters_text(&self, page: &mut Page) {
        if !self.interpreters.is_empty() {
            page.gap();
        }
        for Silent { name, samples_share, advice, .. } in &self.interpreters {
            let advice = advice.map(|advice| format!(": {advice}")).unwrap_or_default();
            let share = percent(*samples_share);
            page.item("not shown", &format!("functions of {name}, in {share} of samples{advice}"));
        }
    }

    /// Lists the attempts: every path if the user wants that, otherwise the paths that had a file, and the number of the others.
    fn tried(&self, row: &LackingImage) -> Vec<String> {
        let (absent, there): (Vec<_>, Vec<_>) =
            row.tried.iter().partition(|tried| tried.outcome == "absent" && !self.shows_paths);
        let line = |tried: &&Tried| match (tried.source, &tried.evidence) {
            ("embedded", _) => format!("{} in the recording: {}", tried.path, tried.came_of_it),
            (_, Some(evidence)) => format!("{}: {}: {}", tried.path, tried.came_of_it, evidence.text()),
            (_, None) => format!("{}: {}", tried.path, tried.came_of_it),
        };
        let mut lines: Vec<String> = there.iter().map(line).collect();
        match absent[..] {
            [] => {}
            [only] => lines.push(format!("{}: {}", only.path, only.came_of_it)),
            [first, ..] => lines.push(format!(
                "{} and {} (--paths): not there",
                first.path,
                things(absent.len() as u64 - 1, "other path")
            )),
        }
        lines
    }

    fn lines_text(&self, page: &mut Page) {
        if self.lines.is_empty() {
            return;
        }
        page.gap();
        let title = format!(
            "names, but no lines and inlined functions: {}{}",
            things(self.lines_count, "image"),
            of(self.lines.len(), self.lines_count)
        );
        page.styled(Style::Bold, &title);
        page.gap();
        let columns = [
            ("SAMPLES", Align::Right),
            ("FRAMES", Align::Right),
            ("BUILD-ID", Align::Left),
            ("IMAGE", Align::Left),
        ];
        let mut table = Table::new(2, &columns);
        for row in &self.lines {
            let build_id = row.build_id.clone().unwrap_or_else(|| "none".to_owned());
            table.row(vec![
                percent(row.samples_share),
                percent(row.frames_share),
                build_id,
                row.image.clone(),
            ]);
            if self.shows_paths {
                for line in self.tried(row) {
                    table.row(vec![String::new(), String::new(), String::new(), format!("  {line}")]);
                }
            }
        }
        page.table(&table);
    }
}

/// Returns how many rows are shown, if not all.
fn of(shown: usize, all: u64) -> String {
    if shown as u64 == all { String::new() } else { format!(", of which {shown} are shown (-n 0: all)") }
}
