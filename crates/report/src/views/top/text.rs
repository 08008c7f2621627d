//! Writes the rows as a table.

use super::address::AddressOf;
use super::by::{By, finest};
use super::durations::{self, Durations};
use super::subject::Value;
use super::{Ranked, Top};
use crate::cli::Sort;
use crate::views::rates::no_samples;
use icecore_profile::named::Amount;
use icecore_profile::named::names::short;
use icecore_profile::named::pipeline::Report;
use icecore_text::quantity::{count, duration, percent, things, weight};
use icecore_text::{Align, Page, Style, Table};

/// A heading, and the alignment of its column.
type Column = (&'static str, Align);

impl Top {
    /// Writes the table.
    pub fn text(&self, report: &Report<'_>, page: &mut Page) {
        let whole = Amount { samples: self.total_samples, weight: self.total_weight };
        super::super::preface(report, whole, page);
        page.gap();
        if self.rows.is_empty() {
            let is_light = self.row_count > 0;
            let why =
                if is_light { "no row is that heavy: lower --min-percent" } else { &no_samples(report) };
            page.line(why);
            return;
        }
        page.table(&self.table());
        let own: u64 = self.rows.iter().map(|row| row.own).fold(0, u64::saturating_add);
        let share = Amount { samples: 0, weight: own }.share_of(whole);
        let drawn = durations::drawn(&self.rows);
        let shown = format!("{} of {}", count(self.rows.len() as u64), things(self.row_count, "row"));
        page.gap();
        let what = if self.is_time() { "time" } else { "weight" };
        page.styled(Style::Dim, &format!("{shown} shown: {} of all self {what}", percent(share)));
        if let (Some((_, says)), Some(all)) = (drawn, &self.durations) {
            page.styled(Style::Dim, &says);
            page.gap();
            page.line(&all.text());
        }
    }

    fn is_time(&self) -> bool {
        self.unit == "ns"
    }

    fn order(&self) -> Sort {
        if self.sort == "self" { Sort::Own } else { Sort::Total }
    }

    /// Makes a table of shares, figures, hosts if there are several, and the columns of each key.
    fn table(&self) -> Table {
        let shares: &[&str] = if finest(&self.keys).is_some() { &["SELF", "TOTAL"] } else { &["SHARE"] };
        let numbers = shares.iter().copied().chain(self.is_time().then_some("TIME")).chain(["SAMPLES"]);
        let has_hosts = self.rows.iter().any(|row| row.facts.host.is_some());
        let names_hosts = has_hosts && !self.keys.contains(&By::Host);
        let histograms = durations::drawn(&self.rows).map(|(drawn, _)| drawn);
        let times: &[&str] = if histograms.is_some() { &["P50", "P99", "MAX"] } else { &[] };
        let columns: Vec<Column> = numbers
            .chain(times.iter().copied())
            .map(|head| (head, Align::Right))
            .chain(histograms.is_some().then_some(("HISTOGRAM", Align::Left)))
            .chain(names_hosts.then_some(("HOST", Align::Left)))
            .chain(self.keys.iter().flat_map(|by| self.columns(*by)))
            .collect();
        let mut table = Table::of_names(0, &columns);
        for (at, row) in self.rows.iter().enumerate() {
            let host = names_hosts.then(|| row.facts.host.clone().unwrap_or_default());
            let values = self.keys.iter().zip(&row.values);
            let cells = values.flat_map(|(by, value)| match &row.place {
                Some(place) => address_cells(place, value),
                None => self.cells(*by, value),
            });
            let times = histograms.iter().flat_map(|drawn| distribution(row, &drawn[at]));
            let cells = self.figures(row).chain(times).chain(host).chain(cells);
            table.styled_row(Style::of_share(row.share(self.order())), cells.collect());
        }
        table
    }

    /// Returns the numbers of a row: shares, the time if weights are times, and the number of samples.
    fn figures(&self, row: &Ranked) -> impl Iterator<Item = String> {
        let [own, total, ..] = row.cells();
        let total = finest(&self.keys).map(|_| total);
        let (weight_of, samples) = match self.order() {
            Sort::Own => (row.own, row.self_samples),
            Sort::Total => (row.total, row.total_samples),
        };
        let time = self.is_time().then(|| weight(weight_of, &self.unit));
        [own].into_iter().chain(total).chain(time).chain([count(samples)])
    }

    /// Returns the columns of a key.
    fn columns(&self, by: By) -> Vec<Column> {
        let is_alone = self.keys.len() == 1;
        let (left, right) = (Align::Left, Align::Right);
        match by {
            By::Process => vec![("PID", right), (if is_alone { "NAME" } else { "PROCESS" }, left)],
            By::Thread => vec![("PID/TID", right), (if is_alone { "NAME" } else { "THREAD" }, left)],
            By::Waker => vec![("PID", right), ("WOKEN BY", left)],
            By::WakerThread => vec![("PID/TID", right), ("WOKEN BY", left)],
            By::Comm => vec![("COMM", left)],
            By::Cpu => vec![("CPU", right)],
            By::Cgroup => vec![("CGROUP", left)],
            By::Host => vec![("HOST", left)],
            By::Field => vec![("FIELD", left)],
            By::Wait => vec![("WAIT", left)],
            By::Image => vec![("IMAGE", left)],
            By::Function | By::Inlined if self.keys.contains(&By::Image) => vec![("FUNCTION", left)],
            By::Function | By::Inlined => vec![("IMAGE", left), ("FUNCTION", left)],
            By::Address => vec![("IMAGE", left), ("ADDRESS", right), ("FUNCTION", left), ("FILE:LINE", left)],
            By::Line if self.names_functions() => vec![("FILE:LINE", left)],
            By::Line => vec![("FUNCTION", left), ("FILE:LINE", left)],
        }
    }

    fn names_functions(&self) -> bool {
        self.keys.contains(&By::Function) || self.keys.contains(&By::Inlined)
    }

    /// Returns the cells of a key's columns.
    fn cells(&self, by: By, value: &Value) -> Vec<String> {
        let name = value.name.clone();
        let number = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
        match by {
            // An interrupt has no number.
            By::Process | By::Waker => vec![number(value.facts.tgid), name],
            By::Thread | By::WakerThread => {
                let tgid = number(value.facts.tgid);
                let id = match value.facts.tid {
                    Some(tid) => format!("{tgid}/{tid}"),
                    None => tgid,
                };
                vec![id, name]
            }
            By::Function | By::Inlined if self.keys.contains(&By::Image) => vec![value.with_aliases()],
            By::Function | By::Inlined => vec![image(value.image.as_deref()), value.with_aliases()],
            By::Line if self.names_functions() => vec![value.place()],
            By::Line => vec![name, value.place()],
            By::Image if self.keys.len() > 1 => vec![image(value.image.as_deref())],
            By::Comm | By::Cpu | By::Cgroup | By::Host | By::Field | By::Wait | By::Image | By::Address => {
                vec![name]
            }
        }
    }
}

/// Returns the cells of a row's times: percentiles, the longest, the histogram.
fn distribution(row: &Ranked, histogram: &str) -> [String; 4] {
    let figure =
        |of: fn(&Durations) -> u64| row.durations.as_ref().map_or_else(String::new, |it| duration(of(it)));
    [figure(|it| it.p50), figure(|it| it.p99), figure(|it| it.max), histogram.to_owned()]
}

/// Returns the cells of an address: image, address, function with the offset in it, line.
fn address_cells(place: &AddressOf, value: &Value) -> Vec<String> {
    let (address, inside) = place.cells();
    vec![image(value.image.as_deref()), address, format!("{}{inside}", value.name), value.place()]
}

/// Returns the last part of an image's path.
fn image(path: Option<&str>) -> String {
    short(path.unwrap_or("-")).to_owned()
}

impl Ranked {
    /// Returns self, total, image and name as text.
    pub(in crate::views) fn cells(&self) -> [String; 4] {
        [percent(self.self_share), percent(self.total_share), image(self.image.as_deref()), self.name.clone()]
    }
}

impl Value {
    fn place(&self) -> String {
        match (self.facts.file.as_ref().and_then(Option::as_ref), self.facts.line.flatten()) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => format!("{file}:?"),
            (None, _) => format!("? ({})", short(self.image.as_deref().unwrap_or("no image"))),
        }
    }
}

impl Value {
    /// Returns the name of a function, and how many others its code has that are not shown.
    fn with_aliases(&self) -> String {
        let is_shown = |alias: &str| self.name.contains(&format!(" or {alias}"));
        match self.facts.aliases.iter().filter(|alias| !is_shown(alias)).count() as u64 {
            0 => self.name.clone(),
            others => format!("{} (+{})", self.name, things(others, "name")),
        }
    }
}
