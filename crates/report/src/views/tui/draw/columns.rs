//! The lines of a pane: numbers in columns, then the name.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Look, line, scrolled};
use crate::views::kind::Kind;
use crate::views::tui::app::App;
use crate::views::tui::items::{self, Branch, Item};
use crate::views::tui::pane::{Pane, Sort};
use crate::views::tui::words;
use icecore_analysis::explore::call_tree::{CallTree, Label, Node};
use icecore_profile::named::Amount;
use icecore_profile::named::names::short;
use icecore_text::name::short as shortened;
use icecore_text::quantity::{count, percent, weight};

/// The columns of a pane: a heading, and how its lines are made.
pub(super) struct Columns {
    heading: String,
    /// The width of the column between numbers and name; 0: there is none.
    middle: u16,
    middle_heading: &'static str,
}

/// One line.
struct Cells {
    numbers: String,
    middle: String,
    name: String,
    /// The columns of the name that only show where it stands in a tree.
    indent: usize,
    /// What the function of that name is; `None` if it is no function.
    kind: Option<Kind>,
}

impl Columns {
    pub(super) fn new(app: &App<'_>) -> Self {
        let weights = weight_heading(&app.selected.unit);
        let sorted = match app.sort {
            Sort::Own => ["SELF↓", "TOTAL", ""],
            Sort::Total => ["SELF", "TOTAL↓", ""],
            Sort::Name => ["SELF", "TOTAL", "↓"],
        };
        let (heading, middle, middle_heading) = match app.pane {
            Pane::Functions => (numbers(sorted[0], sorted[1], weights, "SAMPLES"), 16, "IMAGE"),
            Pane::Images => (numbers(sorted[0], sorted[1], weights, "SAMPLES"), 0, ""),
            Pane::Tree | Pane::Callers => (numbers("TOTAL", "SELF", weights, "SAMPLES"), 0, ""),
            Pane::Processes | Pane::Threads => {
                let id = if app.pane == Pane::Processes { "PID" } else { "PID/TID" };
                (numbers("SHARE", "", weights, "SAMPLES"), 16, id)
            }
            Pane::Waits => (numbers("SHARE", "", weights, "WAITS"), 0, ""),
            Pane::Events => (format!("{:>5} {:>12} {:>16}  ", "", "SAMPLES", "WEIGHT"), 0, ""),
            Pane::Filters => (String::new(), 0, ""),
        };
        let name = match app.pane {
            Pane::Functions | Pane::Tree | Pane::Callers => "FUNCTION",
            Pane::Images => "IMAGE",
            Pane::Processes => "PROCESS",
            Pane::Threads => "THREAD",
            Pane::Waits => "FOR WHAT THREADS WAITED",
            Pane::Events => "EVENT (Enter selects or not)",
            Pane::Filters => "ACTIVE FILTERS (x removes one)",
        };
        let middle_text = format!("{middle_heading:<width$}", width = usize::from(middle));
        let gap = if middle > 0 { "  " } else { "" };
        let is_list = !matches!(app.pane, Pane::Tree | Pane::Callers | Pane::Events | Pane::Filters);
        let arrow = if is_list { sorted[2] } else { "" };
        Self { heading: format!("{heading}{middle_text}{gap}{name}{arrow}"), middle, middle_heading }
    }

    pub(super) fn draw(&self, app: &App<'_>, look: Look, area: Rect, buffer: &mut Buffer) {
        let [top, rest] = [1, area.height.saturating_sub(1)];
        let head = Rect { height: top, ..area };
        line(buffer, head, &self.heading, look.dim());
        self.position(app, look, head, buffer);
        let lines = Rect { y: area.y + top, height: rest, ..area };
        if app.items.is_empty() {
            return line(buffer, Rect { height: 1, ..lines }, empty(app), Style::new());
        }
        let (place, cells) = (app.place(), |item: &Item| self.cells(app, item));
        let indent = app.items.get(place.cursor).map_or(0, |item| cells(item).indent);
        // Whoever goes deep into a tree sees the names there.
        let deep = indent.saturating_sub(usize::from(area.width) / 3).min(usize::from(u16::MAX)) as u16;
        for (row, item) in (0..rest).zip(app.items.iter().skip(place.top)) {
            let style = if app.is_hit(item) { look.hit() } else { Style::new() };
            let is_cursor = place.top + usize::from(row) == place.cursor;
            let style = if is_cursor { style.patch(look.chosen()) } else { style };
            let line = Rect { y: lines.y + row, height: 1, ..lines };
            buffer.set_style(line, style);
            let cells = cells(item);
            let name = self.row(&cells, deep.saturating_add(app.scrolled), style, line, buffer);
            if let Some(kind) = cells.kind.filter(|_| !app.is_hit(item)) {
                buffer.set_style(name, look.kind(kind));
            }
        }
    }

    /// Says which line the cursor is on, of how many.
    fn position(&self, app: &App<'_>, look: Look, area: Rect, buffer: &mut Buffer) {
        if app.items.is_empty() {
            return;
        }
        let text = format!(" {}/{}", count(app.place().cursor as u64 + 1), count(app.items.len() as u64));
        let width = text.len() as u16;
        let area = Rect { x: area.right().saturating_sub(width), width, ..area };
        line(buffer, area, &text, look.dim());
    }

    /// Draws a line, and returns where its name is.
    fn row(&self, cells: &Cells, by: u16, style: Style, area: Rect, buffer: &mut Buffer) -> Rect {
        let (mut x, y) = (area.x, area.y);
        let left = |x: u16| usize::from(area.right().saturating_sub(x));
        (x, _) = buffer.set_stringn(x, y, &cells.numbers, left(x), style);
        if self.middle > 0 {
            line(
                buffer,
                Rect { x, y, width: self.middle.min(area.right() - x), height: 1 },
                &cells.middle,
                style,
            );
            x = (x + self.middle + 2).min(area.right());
        }
        let name = Rect { x, y, width: area.right() - x, height: 1 };
        let indented = (cells.indent as u16).saturating_sub(by).min(name.width);
        let own = Rect { x: x + indented, width: name.width - indented, ..name };
        if by > 0 {
            scrolled(buffer, name, &cells.name, by, style);
            return own;
        }
        let indent = cells.name.char_indices().nth(cells.indent).map_or(0, |(at, _)| at);
        let (indent, text) = cells.name.split_at(indent);
        let text = format!("{indent}{}", shortened(text, left(x).saturating_sub(cells.indent)));
        scrolled(buffer, name, &text, 0, style);
        own
    }

    fn cells(&self, app: &App<'_>, item: &Item) -> Cells {
        let (whole, unit) = (app.selected.whole, &*app.selected.unit);
        let figures = |of: Amount| (weight_cell(of, unit), count(of.samples));
        match *item {
            Item::Row(row) => {
                let sum = row.sum;
                let of = if app.sort == Sort::Total { sum.total } else { sum.own };
                let (weight, samples) = figures(of);
                let (own, total) = (percent(sum.own.share_of(whole)), percent(sum.total.share_of(whole)));
                let has_stack = matches!(app.pane, Pane::Functions | Pane::Images);
                let total = if has_stack { &*total } else { "" };
                let name = items::name(app.facts, app.explorer, app.pane, row.number);
                let middle = self.middle_text(app, row.number);
                let kind = (app.pane == Pane::Functions).then(|| kind(app, row.number));
                Cells { numbers: numbers(&own, total, &weight, &samples), middle, name, indent: 0, kind }
            }
            Item::Event(event) => self.event(app, event),
            Item::Filter(position) => {
                let name = words::filters(app.facts, app.explorer, &app.selected.filters);
                let name = name.into_iter().nth(position).unwrap_or_default();
                Cells { numbers: String::new(), middle: String::new(), name, indent: 0, kind: None }
            }
            Item::Center => self.center(app),
            Item::Node(branch, position) => {
                let Some(tree) = app.trees.get(branch, app.pane) else { return self.center(app) };
                let node = &tree.nodes[position as usize];
                let (weight, samples) = figures(node.total);
                let has_own = branch == Branch::Callees && node.own.samples > 0;
                let own = if has_own { percent(node.own.share_of(whole)) } else { String::new() };
                let numbers = numbers(&percent(node.total.share_of(whole)), &own, &weight, &samples);
                let guides = guides(tree, position);
                let indent = guides.chars().count();
                let guess = if node.is_guessed { " ?" } else { "" };
                let name =
                    format!("{guides}{} {}{guess}", turned(node), items::label(app.explorer, node.label));
                let kind = match node.label {
                    Label::Function(function) => Some(kind(app, function)),
                    Label::Root | Label::Outermost | Label::NoFrames => None,
                };
                Cells { numbers, middle: String::new(), name, indent, kind }
            }
        }
    }

    /// Returns what stands between numbers and name.
    fn middle_text(&self, app: &App<'_>, number: u32) -> String {
        let at = number as usize;
        match app.pane {
            Pane::Functions => {
                let function = &app.explorer.profile.names.functions[at];
                let image = app.explorer.profile.names.image(function);
                image.map_or_else(|| "-".to_owned(), |image| short(&image.path).to_owned())
            }
            Pane::Processes => app.facts.processes[at].id.to_string(),
            Pane::Threads => app.facts.threads[at].id.to_string(),
            _ => self.middle_heading.to_owned(),
        }
    }

    fn event(&self, app: &App<'_>, event: u8) -> Cells {
        let at = usize::from(event);
        let (known, amount) = (&app.facts.events[at], app.selected.events[at]);
        let chosen = if app.selected.filters.has_event(event) { "[x]" } else { "[ ]" };
        let weight = if known.unit.is_empty() { String::new() } else { weight(amount.weight, &known.unit) };
        let numbers = format!("{chosen:>5} {:>12} {weight:>16}  ", count(amount.samples));
        let kind = match (known.is_cpu_time, known.is_wait) {
            (true, _) => "  CPU time",
            (_, true) => "  threads waited",
            _ => "",
        };
        Cells { numbers, middle: String::new(), name: format!("{}{kind}", known.name), indent: 0, kind: None }
    }

    /// The function between its callers and its callees.
    fn center(&self, app: &App<'_>) -> Cells {
        let root = app.trees.get(Branch::Callees, Pane::Callers).map(|tree| &tree.nodes[0]);
        let (own, total) = root.map_or_else(Default::default, |root| (root.own, root.total));
        let (whole, unit) = (app.selected.whole, &*app.selected.unit);
        let share = |of: Amount| percent(of.share_of(whole));
        let numbers = numbers(&share(total), &share(own), &weight_cell(total, unit), &count(total.samples));
        let name = app.trees.center().map_or("", |function| app.explorer.name(function));
        Cells {
            numbers,
            middle: String::new(),
            name: format!("══ {name} ══ callers above, callees below"),
            indent: 0,
            kind: app.trees.center().map(|function| kind(app, function)),
        }
    }
}

fn kind(app: &App<'_>, function: u32) -> Kind {
    Kind::of(&app.explorer.profile.names.functions[function as usize])
}

/// Lays out numbers.
fn numbers(first: &str, second: &str, weight: &str, samples: &str) -> String {
    format!("{first:>7} {second:>7} {weight:>13} {samples:>10}  ")
}

fn weight_heading(unit: &str) -> &str {
    match unit {
        "ns" => "TIME",
        "samples" => "",
        unit => unit,
    }
}

fn weight_cell(amount: Amount, unit: &str) -> String {
    match unit {
        "samples" => String::new(),
        "ns" | "bytes" => weight(amount.weight, unit),
        // The heading has the unit.
        _ => count(amount.weight),
    }
}

/// Shows whether a node has children, and whether they are shown.
fn turned(node: &Node) -> &'static str {
    match (node.has_children, node.is_open) {
        (false, _) => "·",
        (true, true) => "▾",
        (true, false) => "▸",
    }
}

/// Draws the branches that lead to a node. A chain of only children stays in its column.
fn guides(tree: &CallTree, position: u32) -> String {
    let mut guides = Vec::new();
    let mut at = position;
    let mut is_own = true;
    while at != 0 {
        let parent = tree.nodes[at as usize].parent;
        let siblings = &tree.nodes[parent as usize].children;
        if siblings.len() > 1 && parent != 0 {
            let is_last = siblings.last() == Some(&at);
            guides.push(match (is_own, is_last) {
                (true, true) => "└─",
                (true, false) => "├─",
                (false, true) => "  ",
                (false, false) => "│ ",
            });
        }
        (at, is_own) = (parent, false);
    }
    guides.reverse();
    guides.concat()
}

/// Says why a pane is empty.
fn empty(app: &App<'_>) -> &'static str {
    let has_waits = app.facts.events.iter().any(|event| event.is_wait);
    match app.pane {
        Pane::Callers if app.trees.center().is_none() => {
            "choose a function in functions or tree, and press c: who calls it, and what it calls"
        }
        Pane::Filters => "no filters: f, x and h in other panes make them, t selects a range of time",
        Pane::Events => "the recording names no event",
        Pane::Waits if !has_waits => "no waits were recorded: icecore-record --off-cpu does that",
        Pane::Waits => "no waits are selected: pane 7 selects their events",
        _ if app.selected.whole.samples > 0 => "no sample has a frame",
        _ => "no samples are selected: u takes the last filter back, r all of them",
    }
}

/// Says everything about what is under the cursor that its line may have no room for.
pub(super) fn detail(app: &App<'_>) -> String {
    let named = |function: u32| {
        let names = &app.explorer.profile.names;
        let function = &names.functions[function as usize];
        let image = names.image(function).map_or("no image", |image| &*image.path);
        let reason = function.reason.map(|reason| format!(" · no name: {}", reason.code()));
        format!("{} · {image}{}", function.name, reason.unwrap_or_default())
    };
    match (app.item(), app.function()) {
        (_, Some(function)) => named(function),
        (Some(Item::Row(row)), _) => {
            let subject = items::subject(app.pane, row.number);
            subject.map(|subject| words::subject(app.facts, app.explorer, &subject)).unwrap_or_default()
        }
        (Some(Item::Node(branch, node)), _) => {
            let label =
                app.trees.get(branch, app.pane).map_or(Label::Root, |tree| tree.nodes[node as usize].label);
            items::label(app.explorer, label).to_owned()
        }
        _ => String::new(),
    }
}
