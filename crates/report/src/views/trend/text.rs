//! Writes lines and changes as text.

use std::path::Path;

use super::{History, RecordingRow, Trend};
use icecore_profile::named::names::short;
use icecore_text::chart::chart;
use icecore_text::fit::cut;
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
            "each line is drawn up to its own highest share; ± is half of a 95% interval",
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
            let searched = if self.searched < self.row_count {
                format!("None of the heaviest {} changes its level.", things(self.searched, "row"))
            } else {
                "No row changes its level.".to_owned()
            };
            page.styled(Style::Good, &searched);
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
        let name = cut(&self.name, 60);
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

/// Returns a line of characters; if there are more recordings than characters, each is the mean of neighbours.
fn line(shares: &[f64], highest: f64) -> String {
    let each = shares.len().div_ceil(WIDTH).max(1);
    let means: Vec<f64> =
        shares.chunks(each).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
    chart(&means, highest, 1).concat()
}
