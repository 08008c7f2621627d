//! Writes the rows as tables.

use icecore_format::records::Cause;

use super::Depth;
use super::rows::{Figures, GroupRow, LinkRow, Range};
use crate::views::owners::columns as owner_columns;
use crate::views::preface_of_samples;
use crate::views::rates::no_samples;
use icecore_analysis::quality::count as count_lost;
use icecore_analysis::settings::Settings;
use icecore_profile::named::Taken;
use icecore_profile::named::names::short;
use icecore_profile::named::pipeline::Report;
use icecore_text::quantity::{count, percent, things};
use icecore_text::{Align, Page, Style, Table};

/// The number of groups whose histogram and deepest stack are shown.
const DRAWN: usize = 3;
/// The width of the bar of the fullest bucket.
const BAR: u64 = 40;
/// How many of the outermost and of the innermost links of a long stack are shown.
const ENDS: usize = 8;
/// Separates caller and callee.
const ARROW: &str = " → ";

impl Depth {
    /// Writes the tables.
    pub fn text(&self, report: &Report<'_>, page: &mut Page) {
        preface_of_samples(report, self.samples, page);
        page.gap();
        if self.groups.is_empty() {
            let why = if self.samples == 0 { &no_samples(report) } else { "no frames" };
            page.line(why);
            return;
        }
        page.table(&self.group_table());
        if self.group_count > self.groups.len() as u64 {
            let shown = count(self.groups.len() as u64);
            page.styled(Style::Dim, &format!("{shown} of {} shown", things(self.group_count, "row")));
        }
        for group in self.groups.iter().take(DRAWN) {
            page.gap();
            group.draw(page);
        }
        self.recursion_text(page);
        self.interpreter_text(page);
        let has = |share: fn(&GroupRow) -> f64| self.groups.iter().any(|group| share(group) > 0.0);
        let is_walked_only = report.profile.taken(Taken::is_unwound).samples == 0;
        let settings = Settings::of(&report.loaded.tables.session);
        if has(|group| group.cut_share - group.not_copied_share) {
            page.gap();
            let text = format!(
                "(cut): stacks were cut there, so it is a least value; {}",
                settings.deeper(is_walked_only)
            );
            page.styled(Style::Warn, &text);
        }
        if has(|group| group.not_copied_share) {
            page.gap();
            let text = format!(
                "(cut): stacks go on behind what was copied of them, so it is a least value; {}",
                settings.copy_more(count_lost(report, Cause::STACK_SHORTENED) > 0)
            );
            page.styled(Style::Warn, &text);
        }
    }

    fn group_table(&self) -> Table {
        let numbers = ["SAMPLES", "MIN", "MEAN", "P50", "P90", "P99", "MAX", "CUT", "INCOMPLETE"];
        let mut columns: Vec<_> = numbers.iter().map(|name| (*name, Align::Right)).collect();
        columns.push(("SIDE", Align::Left));
        let has_events = self.groups.iter().any(|group| group.event != self.groups[0].event);
        if has_events {
            columns.push(("EVENT", Align::Left));
        }
        columns.extend(owner_columns(self.by == "thread", self.groups.iter().map(|group| &group.owner)));
        let mut table = Table::of_names(0, &columns);
        for group in &self.groups {
            let mut cells = vec![count(group.count)];
            cells.extend(group.figures.cells());
            cells.push(percent(group.cut_share));
            cells.push(group.incomplete_share.map_or_else(|| "?".to_owned(), percent));
            cells.push(group.side.to_owned());
            if has_events {
                cells.push(group.event.clone());
            }
            cells.extend(group.owner.cells());
            table.row(cells);
        }
        table
    }

    fn recursion_text(&self, page: &mut Page) {
        if self.recursion.is_empty() {
            return;
        }
        page.gap();
        page.styled(Style::Bold, "recursion: how often a function occurs in a stack");
        let numbers = ["SAMPLES", "SHARE", "P50", "P90", "P99", "MAX"];
        let mut columns: Vec<_> = numbers.iter().map(|name| (*name, Align::Right)).collect();
        let has_events = self.recursion.iter().any(|row| row.event != self.recursion[0].event);
        columns.extend(has_events.then_some(("EVENT", Align::Left)));
        columns.extend([("IMAGE", Align::Left), ("CYCLE", Align::Left)]);
        let mut table = Table::of_names(0, &columns);
        for row in &self.recursion {
            let [_, _, figures @ ..] = row.repeats.cells();
            let mut cells = vec![count(row.samples), percent(row.samples_share)];
            cells.extend(figures);
            cells.extend(has_events.then(|| row.event.clone()));
            cells.push(short(row.image.as_deref().unwrap_or("-")).to_owned());
            // A direct cycle has one function, and both ends of any other are one.
            let others = row.function_count as usize + 1 - row.cycle.len();
            let more = if others > 0 {
                format!("  (and {})", things(others as u64, "more function"))
            } else {
                String::new()
            };
            cells.push(format!("{}{more}", cycle(&row.cycle).join(ARROW)));
            table.styled_row(Style::of_share(row.samples_share), cells);
        }
        page.table(&table);
        if self.recursion_count > self.recursion.len() as u64 {
            let shown = count(self.recursion.len() as u64);
            page.styled(Style::Dim, &format!("{shown} of {} shown", things(self.recursion_count, "row")));
        }
    }

    fn interpreter_text(&self, page: &mut Page) {
        if self.interpreters.iter().all(|row| row.reentered_samples == 0) {
            return;
        }
        page.gap();
        page.styled(Style::Bold, "interpreters: how often code that they had called entered them again");
        let numbers = ["SAMPLES", "REENTERED", "P50", "P90", "P99", "MAX"];
        let mut columns: Vec<_> = numbers.iter().map(|name| (*name, Align::Right)).collect();
        columns.push(("LANGUAGE", Align::Left));
        columns.extend(owner_columns(self.by == "thread", self.interpreters.iter().map(|row| &row.owner)));
        let mut table = Table::of_names(0, &columns);
        for row in &self.interpreters {
            let [_, _, figures @ ..] = row.reentries.cells();
            let mut cells = vec![count(row.samples), count(row.reentered_samples)];
            cells.extend(figures);
            cells.push(row.language.to_owned());
            cells.extend(row.owner.cells());
            table.row(cells);
        }
        page.table(&table);
    }
}

impl Figures {
    /// Returns minimum, mean, percentiles and maximum.
    fn cells(&self) -> [String; 6] {
        let figure = |name, value| self.marked(name, count(u64::from(value)));
        [
            figure("min", self.min),
            self.marked("mean", format!("{:.1}", self.mean)),
            figure("p50", self.p50),
            figure("p90", self.p90),
            figure("p99", self.p99),
            figure("max", self.max),
        ]
    }

    /// Returns a figure, and marks it if it is a least value.
    fn marked(&self, name: &str, value: String) -> String {
        if self.at_least.contains(&name) { format!("{value} (cut)") } else { value }
    }
}

impl GroupRow {
    /// Draws the histogram and the deepest stack.
    fn draw(&self, page: &mut Page) {
        let Self { owner, side, event, .. } = self;
        let heading = format!("{}: {side} frames, {event}", owner.cells().join(" "));
        page.named(Style::Bold, ("", ""), &heading, "");
        let fullest = self.histogram.iter().map(|range| range.count).max().unwrap_or(0).max(1);
        let columns = [("", Align::Right), ("", Align::Right), ("", Align::Left)];
        let mut table = Table::new(2, &columns);
        for range in &self.histogram {
            let share = range.count as f64 / self.count.max(1) as f64;
            let percent = if range.count == 0 { String::new() } else { percent(share) };
            table.row(vec![range.label(), percent, bar(range.count, fullest)]);
        }
        page.table(&table);
        let depth = self.figures.marked("max", count(u64::from(self.deepest.depth)));
        page.chain(&format!("  deepest, {depth}: "), &folded(&self.deepest.stack), ARROW);
    }
}

impl Range {
    fn label(&self) -> String {
        let [from, to] = [self.from, self.to].map(|value| count(u64::from(value)));
        if from == to { from } else { format!("{from}–{to}") }
    }
}

/// Returns a bar; a part that is not 0 has at least the thinnest bar.
fn bar(part: u64, whole: u64) -> String {
    let eighths = (u128::from(part) * u128::from(BAR) * 8).div_ceil(u128::from(whole)) as usize;
    let tip = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{tip}", "█".repeat(eighths / 8))
}

/// Returns the links of a folded stack: `main`, `[walk ×812]`, `leaf`.
fn folded(stack: &[LinkRow]) -> Vec<String> {
    let link = |link: &LinkRow| {
        let names = link.functions.join(ARROW);
        if link.times > 1 { format!("[{names} ×{}]", count(u64::from(link.times))) } else { names }
    };
    let frames = |link: &LinkRow| link.functions.len() as u64 * u64::from(link.times);
    shortened(stack, link, |hidden| hidden.iter().map(frames).sum())
}

/// Returns the links of a cycle: `f`, `g`, `f`.
fn cycle(names: &[String]) -> Vec<String> {
    shortened(names, String::clone, |hidden| hidden.len() as u64)
}

/// Lists the outermost and the innermost items, and the number of frames between them.
fn shortened<T>(list: &[T], text: impl Fn(&T) -> String, frames: impl Fn(&[T]) -> u64) -> Vec<String> {
    if list.len() <= 2 * ENDS + 1 {
        return list.iter().map(text).collect();
    }
    let (outer, rest) = list.split_at(ENDS);
    let (hidden, inner) = rest.split_at(rest.len() - ENDS);
    let hidden = format!("… {} …", things(frames(hidden), "frame"));
    outer.iter().map(&text).chain([hidden]).chain(inner.iter().map(&text)).collect()
}
