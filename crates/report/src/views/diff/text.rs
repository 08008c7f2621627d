//! Writes the rows as a table.

use super::totals::signed_percent;
use super::{ComparedRecording, Diff, Difference};
use icecore_analysis::compare::Status;
use icecore_analysis::compare::judge::BETWEEN_RUNS;
use icecore_profile::named::names::short;
use icecore_text::quantity::{count, duration, mean_weight, percent, things, weight};
use icecore_text::{Align, Page, Style, Table};

/// A recording is tiny if another one of its side has this many times as many samples.
const TINY: u64 = 10;
/// Marks a function with another name and other code; it may be another function.
const OTHER_CODE: &str = "renamed? other code";
/// Marks a function that changed although its code did not.
const SAME_CODE: &str = "same code";

impl Diff {
    /// Writes the page.
    pub fn text(&self, page: &mut Page) {
        self.preface(page);
        let (rows, _) = self.shown();
        page.gap();
        self.verdict(page);
        if !rows.is_empty() {
            page.gap();
            self.table(rows, page);
        }
        let remarks = self.remarks();
        if !remarks.is_empty() {
            page.gap();
            remarks.iter().for_each(|remark| page.styled(Style::Dim, remark));
        }
        self.conditions(page);
    }

    fn preface(&self, page: &mut Page) {
        for (label, side) in [("before", &self.before), ("after", &self.after)] {
            for recording in side {
                page.item(label, &recording.text(&self.weight_unit, self.is_cpu_time));
            }
        }
        self.totals().iter().for_each(|(label, text)| page.item(label, text));
        page.item("rates", &self.rates());
        page.item("noise", &self.noise());
    }

    /// Describes the numbers.
    pub(super) fn rates(&self) -> String {
        let of = match self.unit {
            "share" => "share of all that was sampled".to_owned(),
            unit => {
                let per = match unit {
                    unit if unit.ends_with("_per_s") => "second of wall time",
                    unit if unit.ends_with("_per_run") => "run",
                    _ => "unit of work",
                };
                let what = match (self.is_cpu_time, self.weight_unit.as_str()) {
                    (true, _) => "CPU time",
                    (_, "ns") => "time",
                    (_, unit) => unit,
                };
                format!("{what} per {per}")
            }
        };
        let what = if self.sort == "self" { "of the row itself" } else { "of all that went through the row" };
        format!("{of}, {what}")
    }

    /// Names the kind of the rows.
    fn kind(&self) -> &'static str {
        match self.by {
            "process" => "process name",
            "thread" => "thread name",
            by => by,
        }
    }

    /// Describes how noise was estimated.
    pub(super) fn noise(&self) -> String {
        let noise = &self.noise;
        let blocks = duration((noise.block_s * 1e9) as u64);
        let from = match noise.from {
            "blocks" => {
                format!("blocks of {blocks}, {} resamples, seed {}", count(noise.resamples), noise.seed)
            }
            "steps" => "what varies from moment to moment in whole runs".to_owned(),
            _ => "what varies inside recordings, and between those of one side".to_owned(),
        };
        let why = match noise.widened {
            1.0 => return format!("{from}; 95% intervals"),
            usual if usual <= BETWEEN_RUNS => "for how runs differ, which several on a side would show",
            _ => "because rows in general differ by more",
        };
        format!("{from}; 95% intervals, ×{:.2} {why}", noise.widened)
    }

    /// Describes what was found, and what could have been.
    pub(super) fn found(&self) -> (bool, String) {
        let rows = things(self.tested, self.kind());
        match self.changed {
            0 if self.tested == 0 => {
                (false, format!("No {} has enough samples to tell a change.", self.kind()))
            }
            0 if self.whole.significant && self.whole.before > 0.0 => {
                let change = signed_percent(self.whole.delta / self.whole.before);
                (true, format!("No significant change in {rows}, but in the whole: {change}."))
            }
            0 => (false, format!("No significant change in {rows}.")),
            changed => {
                let chance = percent(self.noise.false_discovery_rate);
                (
                    true,
                    format!(
                        "{} of {rows} changed; at most {chance} of such finds are chance.",
                        count(changed)
                    ),
                )
            }
        }
    }

    /// Lists the smallest changes that would have been found.
    pub(super) fn detectable(&self) -> String {
        let whole = ((self.everything[0] + self.everything[1]) / 2.0).max(f64::MIN_POSITIVE);
        let points = |change: f64| format!("{:.2}", change / whole * 100.0);
        if self.detectable_at.first().is_some_and(|it| it.change >= whole) {
            return "There are too few samples to show anything.".to_owned();
        }
        let each =
            self.detectable_at.iter().map(|it| format!("{} ± {}", percent(it.share), points(it.change)));
        let each = each.collect::<Vec<_>>().join(", ");
        format!("Large enough to be found 8 times of 10, in percent of everything: {each}.")
    }

    fn verdict(&self, page: &mut Page) {
        let (is_change, found) = self.found();
        page.styled(if is_change { Style::Bold } else { Style::Good }, &found);
        page.styled(Style::Dim, &self.detectable());
    }

    fn table(&self, rows: &[Difference], page: &mut Page) {
        let numbers = [
            ("BEFORE", Align::Right),
            ("AFTER", Align::Right),
            ("CHANGE", Align::Right),
            ("95% INTERVAL", Align::Right),
            ("", Align::Left),
        ];
        let words: &[_] = match self.by {
            "line" => &[("FUNCTION", Align::Left), ("FILE:LINE", Align::Left)],
            "function" | "stack" => &[("IMAGE", Align::Left), ("NAME", Align::Left)],
            _ => &[("NAME", Align::Left)],
        };
        let mut table = Table::of_names(0, &[&numbers, words].concat());
        for row in rows {
            let mut cells = self.cells(row).to_vec();
            cells.push(row.mark().to_owned());
            let image = short(row.image.as_deref().unwrap_or("-")).to_owned();
            cells.extend(match self.by {
                "line" => vec![row.called(), row.place()],
                "function" | "stack" => vec![image, row.called()],
                _ => vec![row.called()],
            });
            table.styled_row(row.style(), cells);
        }
        page.table(&table);
    }

    /// Returns before, after, change and interval as text.
    pub(super) fn cells(&self, row: &Difference) -> [String; 4] {
        let rates = &row.rates;
        let amount = |value: f64| self.amount(value);
        let signed = |value: f64| format!("{}{}", if value < 0.0 { "-" } else { "+" }, amount(value.abs()));
        let interval = format!("{} … {}", signed(rates.low), signed(rates.high));
        [amount(rates.before), amount(rates.after), signed(rates.delta), interval]
    }

    pub(super) fn amount(&self, value: f64) -> String {
        match self.unit {
            "share" => format!("{:.2}%", value * 100.0),
            "cpu_s_per_s" | "time_s_per_s" => format!("{:.2} ms/s", value * 1e3),
            unit if unit.starts_with("weight") => mean_weight(value, &self.weight_unit),
            _ => duration((value * 1e9).round() as u64),
        }
    }

    /// Explains which rows are not shown, and what the marks mean.
    pub(super) fn remarks(&self) -> Vec<String> {
        let (rows, all) = self.shown();
        let mut remarks = Vec::new();
        if rows.len() < all {
            let shown = count(rows.len() as u64);
            remarks.push(format!("{shown} of {} shown: -n 0 shows all", things(all as u64, "row")));
        }
        if rows.iter().any(|row| row.mark() == SAME_CODE) {
            let so = "the machine code is the same in both builds, so the change is not in this function";
            remarks.push(format!("{SAME_CODE}: {so}"));
        }
        if rows.iter().any(|row| row.mark() == OTHER_CODE) {
            let so = "it has the callers of the one that is gone, and callees like it, and may be another function";
            remarks.push(format!("{OTHER_CODE}: {so}"));
        }
        if self.with_noise {
            return remarks;
        }
        let diluted = self.diluted() as u64;
        if let (Some(factor), 1..) = (self.common_factor, diluted) {
            let taken = if factor < 1.0 { "others took more" } else { "others took less" };
            remarks.push(format!(
                "{} changed only as all shares did, ×{factor:.2}, because {taken}: --all shows them",
                things(diluted, self.kind())
            ));
        }
        if self.by == "function" && self.told_apart > 0 {
            let apart = things(self.told_apart, "function");
            remarks.push(format!(
                "{apart} of a name that others have, too: told apart by source file or version"
            ));
        }
        if self.by == "function" && self.summed > 0 {
            let names = things(self.summed, "name");
            remarks.push(format!(
                "{names} of several functions that nothing tells apart on both sides: one row each"
            ));
        }
        for image in &self.images_without_names {
            remarks.push(format!(
                "all of {image} is one row, for one side has no names for it: `icecore-report missing` tells what would name it"
            ));
        }
        let folded = self.row_count - all as u64 - diluted;
        if folded > 0 {
            let rows = things(folded, "row");
            remarks.push(format!("{rows} of which the change may be chance are left out: --all shows them"));
        }
        remarks.extend(self.elsewhere());
        remarks.extend(self.undecided(rows));
        remarks.extend(self.tiny());
        remarks
    }

    /// Says that shares do not show which rows changed and which only followed: shares add up to a whole, and if hardly any row
    /// stayed as it was, nothing serves as a reference.
    fn undecided(&self, rows: &[Difference]) -> Option<String> {
        let changed = rows.iter().filter(|row| row.what.is_shown());
        let share: f64 = changed.clone().map(|row| row.own.before.max(row.own.after)).sum();
        let both_ways = changed.clone().any(|row| row.rates.delta > 0.0)
            && changed.clone().any(|row| row.rates.delta < 0.0);
        let is_one = self.unit == "share" && self.common_factor.is_none() && both_ways && share > 0.5;
        is_one.then(|| {
            "these rows are most of the time: shares do not tell which of them changed and which only followed. --work-before and \
             --work-after do; --unit cpu does if both sides did as much work per second"
                .to_owned()
        })
    }

    /// Names recordings that have few samples, but count as much as the others of their side.
    fn tiny(&self) -> Vec<String> {
        let sides = [&self.before, &self.after].into_iter().filter(|side| side.len() > 1);
        let tiny = sides.flat_map(|side| {
            let most = side.iter().map(|recording| recording.samples).max().unwrap_or_default();
            side.iter().filter(move |recording| recording.samples.saturating_mul(TINY) < most)
        });
        tiny.map(|recording| {
            let samples = things(recording.samples, "sample");
            format!(
                "{} has {samples} and counts as much as each recording of its side: without it more may be found",
                recording.file
            )
        })
        .collect()
    }

    /// Says where to look for a change of the whole, if no row shows it.
    fn elsewhere(&self) -> Option<String> {
        let is_share_of_cpu = self.unit == "share" && self.is_cpu_time;
        let is_of_runs = self.whole_unit == "cpu_s_per_run";
        let is_fine = matches!(self.by, "function" | "line" | "stack");
        let ways: Vec<&str> = [
            (is_share_of_cpu && !is_of_runs, "--unit cpu compares CPU time, not shares"),
            (is_share_of_cpu && is_of_runs, "--unit work compares CPU time per run, not shares"),
            (is_fine, "--by image and --by process have larger rows"),
        ]
        .into_iter()
        .filter_map(|(is_one, way)| is_one.then_some(way))
        .collect();
        let is_wanted = self.changed == 0 && self.whole.significant && !ways.is_empty();
        is_wanted.then(|| format!("the whole changed, though: {}", ways.join("; ")))
    }

    fn conditions(&self, page: &mut Page) {
        for check in self.fail_on.iter().filter(|check| check.holds()) {
            let causes: Vec<&str> = check.rows.iter().take(3).map(|cause| &*cause.name).collect();
            let more = check.rows.len().saturating_sub(causes.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            page.gap();
            page.styled(
                Style::Bad,
                &format!("failed: {} holds for {}{more}", check.condition, causes.join(", ")),
            );
        }
    }
}

impl ComparedRecording {
    fn text(&self, weight_unit: &str, is_cpu_time: bool) -> String {
        let lost = if self.lost_share > 0.001 {
            format!(", {} lost", percent(self.lost_share))
        } else {
            String::new()
        };
        let sum = if is_cpu_time {
            let rate = if self.weight > 0 { self.samples as f64 * 1e9 / self.weight as f64 } else { 0.0 };
            format!("{rate:.0} per CPU second")
        } else {
            weight(self.weight, weight_unit)
        };
        let filter = self.filter.as_ref().map_or_else(String::new, |filter| format!(" · {filter}"));
        let damaged = match self.damaged {
            0 => String::new(),
            parts => format!(", damaged: {} left out", things(parts, "part")),
        };
        format!(
            "{} · {} · {} · {sum}{lost}{damaged} · {}{filter}",
            self.file,
            duration((self.duration_s * 1e9) as u64),
            things(self.samples, "sample"),
            self.hosts.join(", ")
        )
    }
}

impl Difference {
    /// Returns its name, and its name before if that was another one.
    pub(super) fn called(&self) -> String {
        match &self.before_name {
            Some(before) if self.what == Status::Renamed => format!("{before} → {}", self.name),
            _ => self.name.clone(),
        }
    }

    /// Rows that grew are red, rows that shrank green.
    fn style(&self) -> Style {
        match self.what {
            Status::Same | Status::Diluted => Style::Plain,
            _ if self.rates.delta > 0.0 => Style::Hot,
            _ if self.rates.delta < 0.0 => Style::Good,
            _ => Style::Plain,
        }
    }

    pub(super) fn mark(&self) -> &'static str {
        match self.what {
            Status::Added => "new",
            Status::Removed => "gone",
            Status::Renamed if self.code == Some("different") => OTHER_CODE,
            Status::Renamed if matches!(self.code, Some("identical" | "same_build")) => "renamed",
            Status::Renamed => "renamed?",
            Status::Diluted => "diluted",
            Status::Same => "chance?",
            Status::Grew | Status::Shrank if self.code == Some("identical") => SAME_CODE,
            Status::Grew | Status::Shrank => "",
        }
    }

    fn place(&self) -> String {
        match (&self.file, self.line, self.before_line) {
            (Some(file), Some(line), Some(before)) => format!("{file}:{line} (was {before})"),
            (Some(file), Some(line), None) => format!("{file}:{line}"),
            (Some(file), None, _) => format!("{file}:?"),
            (None, ..) => format!("? ({})", short(self.image.as_deref().unwrap_or("no image"))),
        }
    }
}
