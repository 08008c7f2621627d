//! Draws windows over the view: the list of keys, and what limits the data.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Widget, Wrap};

use super::Look;
use crate::views::kind::Kind;
use crate::views::tui::app::{App, Popup};
use crate::views::tui::keys::HELP;

/// Draws the popup that is open.
pub(super) fn draw(app: &mut App<'_>, look: Look, area: Rect, buffer: &mut Buffer) {
    let Some((popup, top)) = app.popup else { return };
    let (title, lines) = match popup {
        Popup::Help => ("keys", help(look)),
        Popup::Remarks => ("what limits the data", remarks(app)),
    };
    let area = Rect { x: area.x + 1, y: area.y + 1, width: area.width - 2, height: area.height - 2 };
    let block = Block::bordered().title(format!(" {title} · ↑ ↓ move, any other key closes "));
    let inner = block.inner(area);
    Clear.render(area, buffer);
    block.render(area, buffer);
    let most: usize = lines.iter().map(|line| 1 + 2 * line.width() / usize::from(inner.width)).sum();
    let text = Paragraph::new(lines).wrap(Wrap { trim: false });
    let len = wrapped(&text, Rect { height: most.min(usize::from(u16::MAX)) as u16, ..inner });
    let top = top.min(len.saturating_sub(usize::from(inner.height)));
    text.scroll((top as u16, 0)).render(inner, buffer);
    (app.popup, app.height) = (Some((popup, top)), usize::from(inner.height));
}

/// Returns how many lines a text takes.
fn wrapped(text: &Paragraph<'_>, area: Rect) -> usize {
    let mut buffer = Buffer::empty(area);
    text.render(area, &mut buffer);
    let lines = buffer.content.chunks(usize::from(area.width).max(1));
    lines
        .map(|line| line.iter().any(|cell| cell.symbol() != " "))
        .rposition(|is_used| is_used)
        .map_or(0, |at| at + 1)
}

fn help(look: Look) -> Vec<Line<'static>> {
    let line = |(keys, text): &(&'static str, &'static str)| match *text {
        "" => Line::styled(*keys, look.bold()),
        text => Line::raw(format!("  {keys:<15} {text}")),
    };
    let legend = look.color.then(|| legend(look));
    HELP.iter().map(line).chain(legend.into_iter().flatten()).collect()
}

/// Says what the colors of names mean.
fn legend(look: Look) -> [Line<'static>; 8] {
    let line = |color: &'static str, kind: Kind, text: &'static str| {
        let color = Span::styled(format!("  {color:<15} "), look.kind(kind));
        Line::from(vec![color, Span::raw(text)])
    };
    [
        Line::raw(""),
        Line::styled("colors of functions", look.bold()),
        line("blue", Kind::Python, "Python"),
        line("green", Kind::Java, "Java"),
        line("magenta", Kind::Php, "PHP"),
        line("cyan", Kind::JavaScript, "JavaScript"),
        line("yellow", Kind::Kernel, "the kernel"),
        line("dim", Kind::Unnamed, "without a name"),
    ]
}

fn remarks(app: &App<'_>) -> Vec<Line<'static>> {
    let facts = app.facts;
    let file = format!("recording: {}", facts.path);
    let filtered = facts.filtered.iter().map(|filter| format!("filters of the command line: {filter}"));
    let remarks = match &facts.remarks[..] {
        [] => vec!["nothing limits the data".to_owned()],
        remarks => remarks.iter().map(|remark| format!("- {remark}")).collect(),
    };
    let lines = [file].into_iter().chain(filtered).chain([String::new()]).chain(remarks);
    lines.map(Line::raw).collect()
}
