//! Writes lines and changes as text.

use std::path::Path;

use super::{History, RecordingRow, Trend};
use icecore_profile::named::names::short;
use icecore_text::chart::chart;
use icecore_text::fit::cut;
use icecore_text::name;
use icecore_text::path::quoted;
use icecore_text::quantity::{count, percent, things, utc};
use icecore_text::{Align, Page, Style, Table};

/// The characters of a line.
const WIDTH: usize = 48;
/// The number of recordings on each side of the command that explains a change.
const EXPLAINED_BY: usize = 3;

impl Trend {
    /// Writes the page.
    pub fn text(&self, page: &mut Page) {
        let what = if self.sort == "self" { "itself" } else { "and all that it calls" };
        let of = things(self.recordings.len() as u64, "recording");
        page.styled(Style::Dim, &format!("{of}: share of all that was sampled, of each {} {what}", self.by));
        if let [first, .., last] = &self.recordings[..] {
            page.styled(Style::Dim, &format!("from {} to {}", first.called(), last.called()));
        }
        let unlabelled = self.recordings.iter().filter(|recording| recording.label.is_none()).count();
        if self.recordings.iter().any(|recording| recording.label.is_some()) && unlabelled > 0 {
            let without = things(unlabelled as u64, "recording");
            page.styled(Style::Warn, &format!("{without} without the label, in front of all others"));
        }
        page.gap();
        if self.rows.is_empty() {
            page.line("no row matches");
            return;
        }
        page.table(&self.table());
        page.gap();
        page.styled(
            Style::Dim,
            "each line is drawn up to its own highest share; ± is half of a 95% interval;",
        );
        page.styled(
            Style::Dim,
            "STEP: a step in the middle is found in 8 of 10 cases if it is as large, in points",
        );
        self.changes(page);
        if (self.rows.len() as u64) < self.row_count {
            page.gap();
            let shown = count(self.rows.len() as u64);
            page.styled(Style::Dim, &format!("{shown} of {}: -n 0 shows all", things(self.row_count, "row")));
        }
    }

    fn table(&self) -> Table {
        let mut columns = vec![
            ("FIRST", Align::Right),
            ("LAST", Align::Right),
            ("±", Align::Right),
            ("LOWEST", Align::Right),
            ("HIGHEST", Align::Right),
            ("STEP", Align::Right),
            ("TREND", Align::Left),
        ];
        let has_images = self.by == "function";
        columns.extend(has_images.then_some(("IMAGE", Align::Left)));
        columns.push(("NAME", Align::Left));
        let mut table = Table::new(0, &columns);
        for row in &self.rows {
            let shares: Vec<f64> = row.points.iter().map(|point| point.share).collect();
            let highest = shares.iter().copied().fold(0.0, f64::max);
            let lowest = shares.iter().copied().fold(f64::INFINITY, f64::min);
            let (Some(first), Some(last)) = (row.points.first(), row.points.last()) else { continue };
            let mut cells = vec![
                percent(first.share),
                percent(last.share),
                percent((last.high - last.low) / 2.0),
                percent(lowest),
                percent(highest),
                row.detectable.map_or_else(|| "-".to_owned(), |it| percent(it.middle)),
                line(&shares, highest),
            ];
            cells
                .extend(has_images.then(|| cut(short(row.image.as_deref().unwrap_or("-")), 20).into_owned()));
            cells.push(row.name.clone());
            table.row(cells);
        }
        table
    }

    fn changes(&self, page: &mut Page) {
        let changes = self.rows.iter().flat_map(|row| row.changes.iter().map(move |change| (row, change)));
        let mut changes: Vec<(&History, &super::TrendChange)> = changes.collect();
        changes.sort_by_key(|(_, change)| change.at);
        page.gap();
        if changes.is_empty() {
            self.nothing(page);
            return;
        }
        page.styled(Style::Bold, "changes");
        for (row, change) in changes {
            let verb = if change.after > change.before { "grew" } else { "shrank" };
            let first = &self.recordings[change.at];
            page.line(&format!(
                "  from {} on, {} {verb} from {} to {}",
                first.called(),
                row.called(),
                percent(change.before),
                percent(change.after)
            ));
            page.styled(Style::Dim, &format!("    {}", self.explained(change.at)));
        }
        page.gap();
        self.limits(page);
    }

    /// Says that no change was found, and whether one could have been.
    fn nothing(&self, page: &mut Page) {
        let least = 2 * self.shortest_level;
        if self.recordings.len() < least {
            let shortest = count(self.shortest_level as u64);
            page.styled(
                Style::Warn,
                &format!("No change can be found: a level needs {shortest} recordings, so two take {least}."),
            );
        } else if self.tested == 0 {
            page.styled(Style::Warn, "No change can be found: each row has too few samples.");
        } else {
            let of = things(self.tested, "row");
            page.line(&format!("No change was found in {of}. That does not prove that none changed:"));
            self.limits(page);
        }
    }

    /// Says which changes are found, and which are not.
    fn limits(&self, page: &mut Page) {
        let shown = || self.detectable.iter().filter_map(|it| Some((it.share, it.detectable?)));
        let middle =
            shown().map(|(share, it)| format!("{} in a row of {}", points(it.middle), percent(share)));
        let (middle, end): (Vec<String>, Vec<String>) =
            middle.zip(shown().map(|(_, it)| it.end.map_or_else(|| "-".to_owned(), points))).unzip();
        if !middle.is_empty() {
            let (middle, end, last) = (middle.join(", "), end.join(", "), self.shortest_level);
            page.styled(
                Style::Dim,
                &format!("a step is found in 8 of 10 cases if it has at least so many points: {middle};"),
            );
            page.styled(Style::Dim, &format!("if only the last {last} recordings show it: {end}"));
        }
        let untested = self.searched.saturating_sub(self.tested);
        if untested > 0 {
            let rows = things(untested, "row");
            page.styled(Style::Dim, &format!("too few samples to test: {rows}"));
        }
        if self.searched < self.row_count {
            let rows = things(self.row_count - self.searched, "lighter row");
            page.styled(Style::Dim, &format!("not searched: {rows}"));
        }
    }

    /// Returns the command that compares the recordings before a change with those after it.
    fn explained(&self, at: usize) -> String {
        let files = |recordings: &[RecordingRow]| {
            let files: Vec<String> = recordings.iter().map(|it| quoted(Path::new(&it.file))).collect();
            files.join(" ")
        };
        let before = &self.recordings[at.saturating_sub(EXPLAINED_BY)..at];
        let after = &self.recordings[at..(at + EXPLAINED_BY).min(self.recordings.len())];
        let how = &self.compared_by;
        format!("icecore-report diff --before {} --after {}{how}", files(before), files(after))
    }
}

impl History {
    /// Returns its name, and the image if that is something else.
    fn called(&self) -> String {
        let name = name::short(&self.name, 60);
        match self.image.as_deref().map(short) {
            Some(image) if image != short(&self.name) => format!("{name} ({image})"),
            _ => name.into_owned(),
        }
    }
}

impl RecordingRow {
    fn called(&self) -> String {
        match &self.label {
            Some(label) => format!("{} ({label})", self.file),
            None => format!("{} ({})", self.file, utc(self.start_unix_ns)),
        }
    }
}

/// Returns a difference of shares in points.
fn points(step: f64) -> String {
    percent(step).trim_end_matches('%').to_owned()
}

/// Returns a line of characters; if there are more recordings than characters, each is the mean of neighbours.
fn line(shares: &[f64], highest: f64) -> String {
    let each = shares.len().div_ceil(WIDTH).max(1);
    let means: Vec<f64> =
        shares.chunks(each).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
    chart(&means, highest, 1).concat()
}
