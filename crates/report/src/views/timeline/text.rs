//! Writes lines, the heat map and changes as text.

use super::Timeline;
use super::drawn::{UNSAMPLED, drawn, squeezed};
use super::found::{ChangeRow, StretchRow};
use super::lines::{Line, What};
use crate::views::owners::columns;
use crate::views::preface;
use crate::views::summary::gaps;
use icecore_profile::named::names::short;
use icecore_profile::named::pipeline::Report;
use icecore_text::fit::cut;
use icecore_text::name;
use icecore_text::path::quoted;
use icecore_text::quantity::{count, mean_weight, percent, things};
use icecore_text::{Align, Page, Style, Table};

/// The height of the line of everything, in characters.
const TALL: usize = 3;
/// The most characters of a name in a sentence.
const NAME: usize = 60;
/// The most changes that are listed: the largest ones.
const CHANGES: usize = 12;

impl Timeline {
    /// Writes the page.
    pub fn text(&self, report: &Report<'_>, page: &mut Page) {
        preface(report, self.whole(), page);
        if let Some(gaps) = gaps::text(&self.gaps) {
            page.sentence(Style::Warn, 0, &gaps);
        }
        if let Some(rate) = &self.rate {
            page.sentence(Style::Dim, 0, &format!("sampling rate: {}", rate.text()));
        }
        if self.values.contains(&None) {
            page.sentence(Style::Dim, 0, &format!("{UNSAMPLED} nobody sampled then, or hardly ever"));
        }
        let per = (self.bucket_count as usize).div_ceil(self.width as usize).max(1);
        if self.total_samples == 0 {
            page.gap();
            page.line("no samples");
            super::counters::text(&self.counters, per, page);
            return;
        }
        if let Some(heat) = &self.heatmap {
            let width = self.width + super::BESIDE - 8;
            heat.text(width as usize, |value| self.value(value), page);
            return;
        }
        let each = seconds(self.bucket_s * per as f64);
        page.gap();
        page.styled(Style::Bold, &format!("all: at most {}; a character is {each}", self.value(self.peak)));
        let (values, peak) = squeezed(&self.values, &self.sampled, per);
        drawn(&values, peak, TALL).iter().for_each(|line| page.line(line));
        if !self.rates.is_empty() {
            let (rates, highest) = squeezed(&self.rates, &self.sampled, per);
            drawn(&rates, highest, 1).iter().for_each(|line| page.line(line));
        }
        page.styled(Style::Dim, &self.axis(values.len()));
        if !self.rates.is_empty() {
            let text = "the line above the axis is the sampling rate; samples weigh more while it is lower";
            page.styled(Style::Dim, text);
        }
        for rows in self.rows.chunk_by(|a, b| a.kind() == b.kind()) {
            page.gap();
            page.table(&self.table(rows, per));
        }
        page.gap();
        let unit = if self.value_unit == "cpus" { "CPUs" } else { &self.value_unit };
        page.styled(Style::Dim, &format!("each line is drawn up to its own peak, which is in {unit}"));
        super::counters::text(&self.counters, per, page);
        self.changes_text(report, page);
    }

    /// Returns a rate with its unit.
    fn value(&self, value: f64) -> String {
        match self.value_unit.as_str() {
            "cpus" => format!("{value:.2} CPUs"),
            "threads" => format!("{value:.2} threads"),
            _ => format!("{}/s", mean_weight(value, &self.unit)),
        }
    }

    fn axis(&self, width: usize) -> String {
        let (begin, end) = (seconds(self.begin_s), seconds(self.end_s));
        let gap = width.saturating_sub(begin.len() + end.len()).max(1);
        format!("{begin}{}{end}", " ".repeat(gap))
    }

    fn table(&self, rows: &[Line], per: usize) -> Table {
        let mut heads = vec![("", Align::Left), ("SHARE", Align::Right), ("PEAK", Align::Right)];
        match rows.first().map(|row| &row.what) {
            Some(What::Function { .. }) => heads.extend([("IMAGE", Align::Left), ("FUNCTION", Align::Left)]),
            Some(What::Image { .. }) => heads.push(("IMAGE", Align::Left)),
            Some(What::Field { .. }) => heads.push(("FIELD", Align::Left)),
            first => {
                let owners = rows.iter().filter_map(|row| match &row.what {
                    What::Process(owner) | What::Thread(owner) => Some(owner),
                    _ => None,
                });
                heads.extend(columns(matches!(first, Some(What::Thread(_))), owners));
            }
        }
        let mut table = Table::new(0, &heads);
        for row in rows {
            let (values, peak) = squeezed(&row.values, &self.sampled, per);
            let line = drawn(&values, peak, 1).concat();
            let peak = match (self.value_unit.as_str(), self.unit.as_str()) {
                ("cpus" | "threads", _) => format!("{:.2}", row.peak),
                (_, "bytes") => mean_weight(row.peak, "bytes"),
                _ if row.peak < 9.95 => format!("{:.1}", row.peak),
                _ => count(row.peak.round() as u64),
            };
            table.row([line, percent(row.total_share), peak].into_iter().chain(row.what.cells()).collect());
        }
        table
    }

    fn changes_text(&self, report: &Report<'_>, page: &mut Page) {
        page.gap();
        if let Some(why) = self.changes_unknown {
            page.styled(Style::Dim, &format!("no changes of levels searched: {why}"));
            return;
        }
        if self.changes.is_empty() {
            let text =
                format!("no change of levels found, in slices of {}", seconds(self.change_resolution_s));
            page.styled(Style::Dim, &text);
            return;
        }
        page.styled(Style::Bold, "changes");
        let size = |row: &&ChangeRow| {
            let whole = if row.measure == "share" { 1.0 } else { row.after.max(row.before) };
            (row.after - row.before).abs() / whole
        };
        let mut sizes: Vec<f64> = self.changes.iter().map(|row| size(&row)).collect();
        sizes.sort_by(|a, b| b.total_cmp(a));
        let least = sizes.get(CHANGES - 1).copied().unwrap_or_default();
        let shown: Vec<&ChangeRow> =
            self.changes.iter().filter(|row| size(row) >= least).take(CHANGES).collect();
        let loaded = report.loaded;
        let file = if loaded.is_of_several() {
            let merge = format!("    icecore-report merge {} -o all.icecore    then:", loaded.words());
            page.styled(Style::Dim, &merge);
            "all.icecore".to_owned()
        } else {
            quoted(loaded.path)
        };
        let explanation = |row: &ChangeRow| (row.slice, row.against, row.what.explained_by(self.sort));
        for rows in shown.chunk_by(|a, b| explanation(a) == explanation(b)) {
            for row in rows {
                page.line(&self.change(row));
            }
            let [slice, against] = [rows[0].slice, rows[0].against].map(StretchRow::text);
            let how = rows[0].what.explained_by(self.sort);
            let select = &self.select;
            let command =
                format!("    icecore-report diff {file} --slice {slice} --against {against}{how}{select}");
            page.styled(Style::Dim, &command);
        }
        let more = self.changes.len() - shown.len();
        if more > 0 {
            page.styled(
                Style::Dim,
                &format!("{} not shown: --json has all", things(more as u64, "smaller change")),
            );
        }
    }

    fn change(&self, row: &ChangeRow) -> String {
        let level = |value: f64| if row.measure == "share" { percent(value) } else { self.value(value) };
        let (before, after) = (level(row.before), level(row.after));
        let way = if row.after > row.before { "grew" } else { "fell" };
        format!("from {}: {} {way} from {before} to {after}", seconds(row.time_s), row.what.name())
    }
}

impl Line {
    fn kind(&self) -> std::mem::Discriminant<What> {
        std::mem::discriminant(&self.what)
    }
}

impl What {
    /// Returns the options of the `diff` that shows a change of it.
    fn explained_by(&self, sort: &str) -> &'static str {
        match (self, sort) {
            (Self::All, _) => " --unit cpu",
            (Self::Process(_) | Self::Processes { .. }, _) => " --by process",
            (Self::Thread(_) | Self::Threads { .. }, _) => " --by thread",
            (Self::Image { .. }, "total") => " --by image --sort total",
            (Self::Image { .. }, _) => " --by image",
            (Self::Function { .. }, "total") => " --sort total",
            (Self::Function { .. } | Self::Field { .. }, _) => "",
        }
    }

    /// Returns the cells of a table.
    fn cells(&self) -> Vec<String> {
        match self {
            Self::All | Self::Processes { .. } | Self::Threads { .. } => Vec::new(),
            Self::Process(owner) | Self::Thread(owner) => owner.cells(),
            Self::Function { name, image } => {
                vec![cut(short(image.as_deref().unwrap_or("-")), 20).into_owned(), name.clone()]
            }
            Self::Image { name } | Self::Field { name } => vec![name.clone()],
        }
    }

    /// Returns the name in a sentence.
    fn name(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Process(owner) | Self::Thread(owner) => {
                let kind = if owner.tid.is_some() { "thread" } else { "process" };
                let mut ids = owner.cells();
                let name = ids.pop().unwrap_or_default();
                format!("{kind} `{}` ({})", cut(&name, NAME), ids.join(" "))
            }
            Self::Processes { comm } => format!("process `{}`", cut(comm, NAME)),
            Self::Threads { comm } => format!("thread `{}`", cut(comm, NAME)),
            Self::Function { name, .. } | Self::Image { name } | Self::Field { name } => {
                format!("`{}`", name::short(name, NAME))
            }
        }
    }
}

impl StretchRow {
    /// Returns the stretch as `--slice` takes it.
    fn text(self) -> String {
        let plain = |seconds: f64| {
            let text = format!("{seconds:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        format!("{}..{}", plain(self.from_s), plain(self.to_s))
    }
}

/// Returns a number of seconds, with as many digits as are significant.
fn seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        ..0.0015 => format!("{:.2} ms", seconds * 1e3),
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        ..100.0 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_as_the_command_line_takes_them() {
        let text = |from_s, to_s| StretchRow { from_s, to_s }.text();
        assert_eq!((text(0.0, 12.5), text(0.1234, 100.0)), ("0..12.5".into(), "0.123..100".into()));
        assert_eq!([0.0, 0.05, 12.5, 100.0].map(seconds), ["0 s", "50 ms", "12.50 s", "100.0 s"]);
    }
}
