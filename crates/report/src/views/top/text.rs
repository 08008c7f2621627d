//! Writes the rows as tables.

use super::By;
use super::{Ranked, Top};
use crate::base::term::quantity::{count, percent, things};
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
            By::Function | By::Inlined | By::Line | By::Image => page.table(&self.code_table()),
            By::Process | By::Thread => page.table(&self.task_table()),
            By::Cgroup => page.table(&self.name_table("CGROUP")),
            By::Host => page.table(&self.name_table("HOST")),
        }
        let own: u64 = self.rows.iter().map(|row| row.own).fold(0, u64::saturating_add);
        let share = Amount { samples: 0, weight: own }.share_of(whole);
        let shown = format!("{} of {}", count(self.rows.len() as u64), things(self.row_count, "row"));
        page.gap();
        let what = if report.profile.measure.is_time() { "time" } else { "weight" };
        page.styled(Style::Dim, &format!("{shown} shown: {} of all self {what}", percent(share)));
    }

    fn samples(&self, row: &Ranked) -> String {
        count(if self.sort == "self" { row.self_samples } else { row.total_samples })
    }

    fn code_table(&self) -> Table {
        let numbers = [("SELF", Align::Right), ("TOTAL", Align::Right), ("SAMPLES", Align::Right)];
        let words: &[_] = match self.by_what {
            By::Line => &[("FUNCTION", Align::Left), ("FILE:LINE", Align::Left)],
            By::Image => &[("IMAGE", Align::Left)],
            _ => &[("IMAGE", Align::Left), ("FUNCTION", Align::Left)],
        };
        let mut table = Table::new(0, &[&numbers, words].concat());
        for row in &self.rows {
            let [own, total, image, name] = row.cells();
            let mut cells = vec![own, total, self.samples(row)];
            cells.extend(match self.by_what {
                By::Line => vec![clip(&name, 48), row.place()],
                By::Image => vec![name],
                _ => vec![image, name],
            });
            table.row(cells);
        }
        table
    }

    fn task_table(&self) -> Table {
        let id = if self.by_what == By::Process { "PID" } else { "PID/TID" };
        let mut columns = vec![
            ("SHARE", Align::Right),
            ("SAMPLES", Align::Right),
            (id, Align::Right),
            ("NAME", Align::Left),
        ];
        let names_hosts = self.rows.iter().any(|row| row.host.is_some());
        if names_hosts {
            columns.insert(2, ("HOST", Align::Left));
        }
        let mut table = Table::new(0, &columns);
        for row in &self.rows {
            let (tgid, tid) = (row.tgid.unwrap_or_default(), row.tid.unwrap_or_default());
            let id = match self.by_what {
                By::Process => tgid.to_string(),
                _ => format!("{tgid}/{tid}"),
            };
            let mut cells = vec![percent(row.self_share), self.samples(row), id, row.name.clone()];
            if names_hosts {
                cells.insert(2, row.host.clone().unwrap_or_default());
            }
            table.row(cells);
        }
        table
    }

    fn name_table(&self, name: &'static str) -> Table {
        let mut columns = vec![("SHARE", Align::Right), ("SAMPLES", Align::Right), (name, Align::Left)];
        let names_hosts = self.by_what == By::Cgroup && self.rows.iter().any(|row| row.host.is_some());
        if names_hosts {
            columns.insert(2, ("HOST", Align::Left));
        }
        let mut table = Table::new(0, &columns);
        for row in &self.rows {
            let mut cells = vec![percent(row.self_share), self.samples(row), row.name.clone()];
            if names_hosts {
                cells.insert(2, row.host.clone().unwrap_or_default());
            }
            table.row(cells);
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
