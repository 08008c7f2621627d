//! Writes the rows as tables.

use super::By;
use super::{Ranked, Top};
use crate::base::term::quantity::{count, percent, things, weight};
use crate::base::term::{Align, Page, Style, Table};
use crate::profile::Amount;
use crate::profile::names::short;
use crate::profile::pipeline::Report;

impl Top {
    /// Writes the table.
    pub fn text(&self, report: &Report<'_>, page: &mut Page) {
        let whole = Amount { samples: self.total_samples, weight: self.total_weight };
        super::super::preface(report, whole, page);
        page.gap();
        if self.rows.is_empty() {
            page.line("no samples");
            return;
        }
        match self.by_what {
            By::Function | By::Inlined | By::Line | By::Address | By::Image => page.table(&self.code_table()),
            By::Process | By::Thread => page.table(&self.task_table("NAME")),
            By::Waker | By::WakerThread => page.table(&self.task_table("WOKEN BY")),
            By::Cgroup => page.table(&self.name_table("CGROUP")),
            By::Host => page.table(&self.name_table("HOST")),
            By::Wait => page.table(&self.name_table("WAIT")),
        }
        let own: u64 = self.rows.iter().map(|row| row.own).fold(0, u64::saturating_add);
        let share = Amount { samples: 0, weight: own }.share_of(whole);
        let shown = format!("{} of {}", count(self.rows.len() as u64), things(self.row_count, "row"));
        page.gap();
        let what = if self.is_time() { "time" } else { "weight" };
        page.styled(Style::Dim, &format!("{shown} shown: {} of all self {what}", percent(share)));
    }

    fn samples(&self, row: &Ranked) -> String {
        count(if self.sort == "self" { row.self_samples } else { row.total_samples })
    }

    fn is_time(&self) -> bool {
        self.unit == "ns"
    }

    /// Returns the columns of numbers: shares, the time if weights are times, and the number of samples.
    fn numbers(&self, shares: &[&'static str]) -> Vec<(&'static str, Align)> {
        let time = self.is_time().then_some("TIME");
        shares.iter().copied().chain(time).chain(["SAMPLES"]).map(|head| (head, Align::Right)).collect()
    }

    /// Returns the numbers of a row, after its shares.
    fn figures(&self, row: &Ranked) -> impl Iterator<Item = String> {
        let of = if self.sort == "self" { row.own } else { row.total };
        self.is_time().then(|| weight(of, &self.unit)).into_iter().chain([self.samples(row)])
    }

    fn code_table(&self) -> Table {
        let numbers = self.numbers(&["SELF", "TOTAL"]);
        let words: &[_] = match self.by_what {
            By::Line => &[("FUNCTION", Align::Left), ("FILE:LINE", Align::Left)],
            By::Image => &[("IMAGE", Align::Left)],
            By::Address => &[
                ("IMAGE", Align::Left),
                ("ADDRESS", Align::Right),
                ("FUNCTION", Align::Left),
                ("FILE:LINE", Align::Left),
            ],
            _ => &[("IMAGE", Align::Left), ("FUNCTION", Align::Left)],
        };
        let mut table = Table::new(0, &[&numbers[..], words].concat());
        for row in &self.rows {
            let [own, total, image, name] = row.cells();
            let mut cells: Vec<String> = [own, total].into_iter().chain(self.figures(row)).collect();
            cells.extend(match self.by_what {
                By::Line => vec![clip(&name, 48), row.place()],
                By::Image => vec![name],
                By::Address => {
                    let (address, inside) = row.place.as_ref().map(|it| it.cells()).unwrap_or_default();
                    vec![image, address, format!("{}{inside}", clip(&name, 48)), row.place()]
                }
                _ => vec![image, name],
            });
            table.row(cells);
        }
        table
    }

    fn task_table(&self, name: &'static str) -> Table {
        let is_of_processes = matches!(self.by_what, By::Process | By::Waker);
        let id = if is_of_processes { "PID" } else { "PID/TID" };
        self.table(&[(id, Align::Right), (name, Align::Left)], |row| {
            // An interrupt has no number.
            let tgid = row.tgid.map_or_else(String::new, |tgid| tgid.to_string());
            let id = match row.tid.filter(|_| !is_of_processes) {
                Some(tid) => format!("{tgid}/{tid}"),
                None => tgid,
            };
            vec![id, row.name.clone()]
        })
    }

    fn name_table(&self, name: &'static str) -> Table {
        self.table(&[(name, Align::Left)], |row| vec![row.name.clone()])
    }

    /// Makes a table of shares, figures, hosts if there are several, and `words`.
    fn table(&self, words: &[(&'static str, Align)], cells: impl Fn(&Ranked) -> Vec<String>) -> Table {
        let names_hosts = self.by_what != By::Host && self.rows.iter().any(|row| row.host.is_some());
        let host = names_hosts.then_some(("HOST", Align::Left));
        let columns: Vec<_> =
            self.numbers(&["SHARE"]).into_iter().chain(host).chain(words.to_vec()).collect();
        let mut table = Table::new(0, &columns);
        for row in &self.rows {
            let host = names_hosts.then(|| row.host.clone().unwrap_or_default());
            let share = [percent(row.self_share)].into_iter();
            table.row(share.chain(self.figures(row)).chain(host).chain(cells(row)).collect());
        }
        table
    }
}

impl Ranked {
    /// Returns self, total, image and name as text.
    pub(in crate::views) fn cells(&self) -> [String; 4] {
        let image = clip(short(self.image.as_deref().unwrap_or("-")), 24);
        [percent(self.self_share), percent(self.total_share), image, self.name.clone()]
    }

    fn place(&self) -> String {
        match (self.file.as_ref().and_then(Option::as_ref), self.line.flatten()) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => format!("{file}:?"),
            (None, _) => format!("? ({})", short(self.image.as_deref().unwrap_or("no image"))),
        }
    }
}

/// Cuts a text to a number of characters.
pub(in crate::views) fn clip(text: &str, len: usize) -> String {
    if text.chars().count() <= len {
        return text.to_owned();
    }
    text.chars().take(len.saturating_sub(1)).chain(['…']).collect()
}
