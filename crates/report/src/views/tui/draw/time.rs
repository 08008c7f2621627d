//! The time line: what is selected, then a lane for each event.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Look, line};
use crate::views::buckets::Buckets;
use crate::views::drawn::{UNSAMPLED, drawn as bars, peak as peak_of};
use crate::views::tui::app::App;
use crate::views::tui::words;
use icecore_analysis::explore::lanes::Lanes;

/// The columns left of the time line.
const GUTTER: u16 = 22;

/// Returns how many lines the time line takes.
pub(super) fn height(app: &mut App<'_>, area: Rect) -> u16 {
    app.lanes(columns(area));
    1 + tall(area) + drawn(app, area).len() as u16 + 1
}

fn columns(area: Rect) -> u32 {
    u32::from(area.width.saturating_sub(GUTTER).max(1))
}

/// Returns the height of the chart of what is selected.
fn tall(area: Rect) -> u16 {
    match area.height {
        0..30 => 3,
        30..45 => 5,
        _ => 8,
    }
}

/// Returns which of the events with samples have a lane of their own: not the only selected one, which is the chart.
fn drawn(app: &mut App<'_>, area: Rect) -> Vec<usize> {
    let chosen = app.selected.filters.events.iter().filter(|is_chosen| **is_chosen).count();
    let filters = app.selected.filters.clone();
    let lanes = app.lanes(columns(area));
    let others = lanes.events.iter().enumerate();
    let others = others.filter(|(_, (event, _))| chosen != 1 || !filters.has_event(*event));
    others.map(|(position, _)| position).take(usize::from(area.height / 10)).collect()
}

/// Which columns are marked.
struct Marks {
    range: Option<(u16, u16)>,
    cursor: Option<u16>,
}

pub(super) fn draw(app: &mut App<'_>, look: Look, area: Rect, buffer: &mut Buffer) {
    let screen = Rect { height: buffer.area.height, ..area };
    let (drawn, tall) = (drawn(app, screen), usize::from(tall(screen)));
    let marked = app.marked();
    let range_ns = app.selected.filters.range_ns;
    let (active, cursor, facts) = (app.time.is_active, app.time.cursor, app.facts);
    let units = (words::rate_unit(facts, &app.selected, None), app.selected.unit.to_string());
    let rate_units: Vec<String> = (0..=u8::MAX)
        .zip(&facts.events)
        .map(|(event, _)| words::rate_unit(facts, &app.selected, Some(event)))
        .collect();
    let lanes = app.lanes(columns(screen));
    let buckets = Buckets { slices: lanes.slices, each: 1, end_ns: lanes.end_ns, zero_ns: facts.zero_ns };
    let sampled = if facts.ran_ns.is_empty() { Vec::new() } else { buckets.shares(&facts.ran_ns) };
    let rates = buckets.rates(&lanes.shown, &units.1, &sampled);
    let peak = peak_of(&rates, &sampled);
    let window_ns = (lanes.begin_ns(0), lanes.end_ns);
    let range = marked.or_else(|| range_ns.and_then(|range_ns| within(lanes, range_ns)));
    let marks = Marks {
        range: range.map(|(first, end)| (first as u16, end as u16)),
        cursor: active.then_some(cursor as u16),
    };
    let mut text = format!("time {}", words::range(facts, window_ns));
    if active {
        let at = rates.get(cursor as usize).copied().flatten();
        let at = at.map_or_else(|| format!("{UNSAMPLED} nobody sampled"), |at| rate(at, &units.0));
        text.push_str(&format!(" · at {} s: {at}", words::seconds(facts, lanes.begin_ns(cursor))));
    } else {
        text.push_str(&format!(" · {} at most", rate(peak, &units.0)));
    }
    if let Some((first, end)) = marked {
        let range_ns = (lanes.begin_ns(first), lanes.begin_ns(end));
        text.push_str(&format!(" · Enter selects {}", words::range(facts, range_ns)));
    } else if active {
        text.push_str(" · Space begins a range");
    }
    let others = lanes.events.len() - drawn.len();
    if others > 1 {
        text.push_str(&format!(" · {others} of {} events have no lane: 7 lists all", lanes.events.len()));
    }
    let mut rows = (area.y..area.bottom()).map(|y| Rect { y, height: 1, ..area });
    let mut next = || rows.next().unwrap_or(Rect { height: 0, ..area });
    line(buffer, next(), &text, if active { look.chosen() } else { look.dim() });
    for (number, bars) in bars(&rates, peak, tall).iter().enumerate() {
        let label = if number == 0 { rate(peak, &units.0) } else { String::new() };
        lane(buffer, next(), (&label, bars), &marks, look);
    }
    for (event, weights) in drawn.iter().map(|position| &lanes.events[*position]) {
        let known = &facts.events[usize::from(*event)];
        let rates = buckets.rates(weights, &known.unit, &sampled);
        let peak = peak_of(&rates, &sampled);
        let bars = bars(&rates, peak, 1).concat();
        let label = format!("{} {}", known.name, rate(peak, &rate_units[usize::from(*event)]));
        lane(buffer, next(), (&label, &bars), &marks, look);
    }
    axis(buffer, next(), &[window_ns.0, window_ns.1].map(|ns| words::seconds(facts, ns)), &marks, look);
}

/// Returns the columns that a range of time touches; `None` if it is not drawn.
fn within(lanes: &Lanes, (from_ns, to_ns): (u64, u64)) -> Option<(u32, u32)> {
    let drawn_ns = (lanes.begin_ns(0), lanes.end_ns);
    let is_drawn = from_ns < drawn_ns.1 && to_ns > drawn_ns.0 && from_ns < to_ns;
    is_drawn.then(|| (lanes.slices.of(from_ns), lanes.slices.of(to_ns - 1) + 1))
}

fn rate(value: f64, unit: &str) -> String {
    match unit {
        "CPUs" | "threads" => format!("{value:.2} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Draws one line of bars behind its label.
fn lane(buffer: &mut Buffer, area: Rect, (label, bars): (&str, &str), marks: &Marks, look: Look) {
    if area.height == 0 {
        return;
    }
    line(buffer, Rect { width: GUTTER - 1, ..area }, label, Style::new());
    let x = area.x + GUTTER;
    buffer.set_stringn(x, area.y, bars, usize::from(area.width.saturating_sub(GUTTER)), Style::new());
    if let Some((first, end)) = marks.range {
        let columns = Rect { x: x + first, width: end - first, ..area };
        buffer.set_style(columns.intersection(area), look.chosen());
    }
}

/// Draws the moments at both ends, and the cursor.
fn axis(buffer: &mut Buffer, area: Rect, ends: &[String; 2], marks: &Marks, look: Look) {
    if area.height == 0 {
        return;
    }
    let x = area.x + GUTTER;
    let end = format!("{} s", ends[1]);
    buffer.set_stringn(x, area.y, &ends[0], 20, look.dim());
    buffer.set_stringn(area.right().saturating_sub(end.len() as u16), area.y, &end, 20, look.dim());
    if let Some((first, end)) = marks.range {
        for column in (x + first..x + end).filter(|column| *column < area.right()) {
            buffer.set_stringn(column, area.y, "▀", 1, Style::new());
        }
    }
    if let Some(cursor) = marks.cursor {
        buffer.set_stringn((x + cursor).min(area.right() - 1), area.y, "▲", 1, look.bold());
    }
}
