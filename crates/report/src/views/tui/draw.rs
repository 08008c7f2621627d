//! Draws the screen. Whatever it is made of, [`draw`] lets no character through that steers a terminal.
//!
//! ```text
//! 100% is …                        what shares are shares of
//! ▂▅▇█▇▅▂                          time
//! 1functions 2tree 3callers …      panes
//! SELF  TOTAL  …                   the pane
//! the whole name under the cursor
//! filters
//! verdict, losses, keys
//! ```

mod columns;
mod popup;
mod time;

use icecore_text::clean::steers;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Widget};

use super::app::App;
use super::pane::Pane;
use super::words;
use crate::views::kind::Kind;
use columns::Columns;
use icecore_analysis::quality::Verdict;
use icecore_text::quantity::things;

/// The smallest terminal, columns and lines.
const LEAST: (u16, u16) = (80, 24);

/// How things look, with or without color.
#[derive(Debug, Clone, Copy)]
struct Look {
    color: bool,
}

impl Look {
    /// What is chosen: the line under the cursor, the pane, the range of time.
    fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A heading.
    fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Less important.
    fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// What a search matches.
    fn hit(self) -> Style {
        self.colored(Color::Yellow).add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    fn colored(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    /// The name of a function.
    fn kind(self, kind: Kind) -> Style {
        match kind {
            Kind::Unnamed => self.dim(),
            Kind::Kernel => self.colored(Color::Yellow),
            Kind::Python => self.colored(Color::LightBlue),
            Kind::Java => self.colored(Color::Green),
            Kind::Php => self.colored(Color::Magenta),
            Kind::JavaScript => self.colored(Color::Cyan),
            Kind::User => Style::new(),
        }
    }

    fn verdict(self, verdict: Verdict) -> Style {
        match verdict {
            Verdict::Good => self.colored(Color::Green),
            Verdict::Usable => self.colored(Color::Yellow).add_modifier(Modifier::BOLD),
            Verdict::Misleading => self.colored(Color::Red).add_modifier(Modifier::BOLD),
        }
    }
}

/// Draws everything.
pub(super) fn draw(app: &mut App<'_>, color: bool, frame: &mut Frame<'_>) {
    let (area, look) = (frame.area(), Look { color });
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let needs = format!(
            "this terminal has {}×{} characters; tui needs {}×{}: make it larger, or press q to quit",
            area.width, area.height, LEAST.0, LEAST.1
        );
        let wrap = ratatui::widgets::Wrap { trim: true };
        frame.render_widget(Paragraph::new(needs).wrap(wrap), area);
    } else {
        whole(app, look, area, frame.buffer_mut());
    }
    clean(frame.buffer_mut());
}

/// Draws lines of text; the first two are a heading.
pub(super) fn draw_lines(lines: &[String], frame: &mut Frame<'_>) {
    let (area, buffer) = (frame.area(), frame.buffer_mut());
    let look = Look { color: false };
    for ((y, text), at) in (area.y..area.bottom()).zip(lines).zip(0..) {
        let style = if at < 2 { look.bold() } else { Style::new() };
        line(buffer, Rect { y, height: 1, ..area }, text, style);
    }
    clean(buffer);
}

/// Replaces whatever could steer the terminal.
fn clean(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if cell.symbol().contains(steers) {
            cell.set_symbol("\u{fffd}");
        }
    }
}

fn whole(app: &mut App<'_>, look: Look, area: Rect, buffer: &mut Buffer) {
    let time = time::height(app, area);
    let rows = [1, time, 1, 0, 1, 1, 1].map(|lines| match lines {
        0 => Constraint::Min(1),
        lines => Constraint::Length(lines),
    });
    let [title, time, tabs, pane, detail, filters, status] = Layout::vertical(rows).areas(area);
    let of = format!("{} · {}", words::whole(app.facts, &app.selected), app.facts.path);
    line(buffer, title, &of, look.bold());
    time::draw(app, look, time, buffer);
    self::tabs(app, look, tabs, buffer);
    let columns = Columns::new(app);
    app.fit(usize::from(pane.height.saturating_sub(1)));
    columns.draw(app, look, pane, buffer);
    let text = columns::detail(app);
    scrolled(buffer, detail, &text, app.scrolled, look.dim());
    self::filters(app, look, filters, buffer);
    self::status(app, look, status, buffer);
    popup::draw(app, look, area, buffer);
}

/// Draws a text on one line, and marks where it does not fit.
fn line(buffer: &mut Buffer, area: Rect, text: &str, style: Style) {
    scrolled(buffer, area, text, 0, style);
}

/// Draws a text on one line, moved to the left; marks where it goes on.
fn scrolled(buffer: &mut Buffer, area: Rect, text: &str, by: u16, style: Style) {
    if area.width == 0 || area.height == 0 {
        return;
    }
    let text = Line::raw(text);
    let (width, seen) = (text.width(), usize::from(by) + usize::from(area.width));
    Paragraph::new(text).style(style).scroll((0, by)).render(area, buffer);
    if by > 0 && width > 0 {
        buffer.set_string(area.x, area.y, "‹", style);
    }
    if width > seen {
        buffer.set_string(area.right() - 1, area.y, "›", style);
    }
}

fn tabs(app: &App<'_>, look: Look, area: Rect, buffer: &mut Buffer) {
    let mut x = area.x;
    for (number, pane) in (1..).zip(Pane::ALL) {
        let chosen = if pane == app.pane { look.chosen() } else { Style::new() };
        let key: String = i32::to_string(&number);
        let text = format!("{key}{}", pane.name());
        buffer.set_stringn(x, area.y, &text, usize::from(area.right().saturating_sub(x)), chosen);
        buffer.set_stringn(x, area.y, &key, 1, chosen.add_modifier(Modifier::BOLD));
        x = x.saturating_add(text.len() as u16 + 1).min(area.right());
    }
}

fn filters(app: &App<'_>, look: Look, area: Rect, buffer: &mut Buffer) {
    if let Some(typed) = &app.typed {
        let text = format!("/{typed}");
        // The end of a long line is what is typed.
        let by = Line::raw(&*text).width().saturating_sub(usize::from(area.width) - 1) as u16;
        scrolled(buffer, area, &text, by, look.bold());
        let cursor = area.x + (Line::raw(&*text).width() as u16).saturating_sub(by);
        buffer.set_style(Rect::new(cursor.min(area.right() - 1), area.y, 1, 1), look.chosen());
        return;
    }
    let active = words::filters(app.facts, app.explorer, &app.selected.filters);
    let mut text = match &active[..] {
        [] => "filters: none".to_owned(),
        [one] => format!("filters: {one}"),
        several => format!("filters ({}, 9 lists them): {}", several.len(), several.join(" · ")),
    };
    if let Some(typed) = &app.facts.filtered {
        text.push_str(&format!(" · command line: {typed}"));
    }
    if app.selected.emptied > 0 {
        let emptied = things(app.selected.emptied, "sample");
        text.push_str(&format!(" · {emptied} of which nothing is left, left out"));
    }
    if app.selected.filters.inlined_apart {
        text.push_str(" · inlined functions apart");
    }
    line(buffer, area, &text, if active.is_empty() { look.dim() } else { look.bold() });
}

fn status(app: &App<'_>, look: Look, area: Rect, buffer: &mut Buffer) {
    const KEYS: &str = " ? help  q quit";
    let keys = Rect { x: area.right() - KEYS.len() as u16, width: KEYS.len() as u16, ..area };
    line(buffer, keys, KEYS, Style::new());
    let area = Rect { width: area.width - keys.width, ..area };
    if let Some(message) = &app.message {
        return line(buffer, area, message, look.bold());
    }
    let facts = app.facts;
    let lost = if facts.lost > 0 { things(facts.lost, "sample") + " lost" } else { "none lost".to_owned() };
    let (verdict, style) = facts
        .verdict
        .as_ref()
        .map_or(("unknown", Style::new()), |(verdict, said)| (&**said, look.verdict(*verdict)));
    if let Some(found) = &app.found {
        let lost = if facts.lost > 0 { format!(", {lost}") } else { String::new() };
        let text = format!("{} · data {verdict}{lost}", self::found(app, found));
        return line(buffer, area, &text, style.patch(look.bold()));
    }
    let remarks = match facts.remarks.len() {
        0 => String::new(),
        number => format!(" ({}: v)", things(number as u64, "remark")),
    };
    let text = format!("data {verdict}{remarks} · {} in the file, {lost}", things(facts.in_file, "sample"));
    line(buffer, area, &text, style);
}

/// Says what a search has found.
fn found(app: &App<'_>, found: &icecore_analysis::explore::found::Found) -> String {
    let functions = things(found.functions, "function");
    let share = icecore_text::quantity::percent(found.amount.share_of(app.selected.whole));
    let text = format!("/{}/: {functions}, {share} of the selection", found.matching.pattern);
    let is_of_names = matches!(
        app.pane,
        Pane::Processes | Pane::Threads | Pane::Images | Pane::Events | Pane::Waits | Pane::Filters
    );
    if !is_of_names {
        return text;
    }
    let rows = app.items.iter().filter(|item| app.is_hit(item)).count() as u64;
    format!("{text}; {} here", things(rows, "match").replace("matchs", "matches"))
}
