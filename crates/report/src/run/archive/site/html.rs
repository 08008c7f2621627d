//! Texts, tables and plots as HTML.

use icecore_page::escaped;
use icecore_text::quantity::percent;
use serde_json::Value;

/// The size of a plot in pixels.
const PLOT: (f64, f64) = (420.0, 44.0);

/// A table that is being written.
pub(super) struct Table(String);

impl Table {
    /// Begins a table; columns whose names begin with `#` are numbers.
    pub(super) fn new(columns: &[&str]) -> Self {
        let head = columns.iter().map(|column| match column.strip_prefix('#') {
            Some(name) => format!("<th class=\"number\">{name}</th>"),
            None => format!("<th>{column}</th>"),
        });
        Self(format!("<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n", head.collect::<String>()))
    }

    /// Adds a row of cells that are HTML.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.0.push_str("<tr>");
        for Cell { class, html } in cells {
            self.0.push_str(&format!("<td class=\"{class}\">{html}</td>"));
        }
        self.0.push_str("</tr>\n");
    }

    pub(super) fn done(self) -> String {
        self.0 + "</tbody>\n</table>\n"
    }
}

/// A cell of a table.
pub(super) struct Cell {
    class: &'static str,
    html: String,
}

impl Cell {
    /// A text.
    pub(super) fn text(text: &str) -> Self {
        Self { class: "", html: escaped(text) }
    }

    /// A name of the program; a long one is shown whole if it is pointed at.
    pub(super) fn name(text: &str) -> Self {
        let text = escaped(text);
        Self { class: "name", html: format!("<span title=\"{text}\">{text}</span>") }
    }

    /// A number.
    pub(super) fn number(text: &str) -> Self {
        Self { class: "number", html: escaped(text) }
    }

    /// A share; `-` if it is unknown.
    pub(super) fn share(share: &Value) -> Self {
        Self::number(&share.as_f64().map_or_else(|| "-".to_owned(), percent))
    }

    /// A text that leads to another page.
    pub(super) fn link(address: &str, text: &str) -> Self {
        Self { class: "", html: link(address, text) }
    }

    pub(super) fn html(html: String) -> Self {
        Self { class: "", html }
    }
}

/// A text that leads to another page.
pub(super) fn link(address: &str, text: &str) -> String {
    format!("<a href=\"{}\">{}</a>", escaped(address), escaped(text))
}

/// Plots shares over nights, and marks where they changed: at which night, and whether that is worse.
pub(super) fn plot(shares: &[Option<f64>], changes: &[(usize, bool)]) -> String {
    let (width, height) = PLOT;
    let most = shares.iter().flatten().copied().fold(0.0, f64::max);
    let step = width / shares.len().max(2).saturating_sub(1) as f64;
    let y = |share: f64| height - 2.0 - if most > 0.0 { share / most * (height - 4.0) } else { 0.0 };
    let mut lines = String::new();
    for &(at, is_worse) in changes {
        let (x, class) = ((at as f64 - 0.5) * step, if is_worse { "worse" } else { "better" });
        lines += &format!("<line class=\"{class}\" x1=\"{x:.1}\" y1=\"0\" x2=\"{x:.1}\" y2=\"{height}\"/>");
    }
    // A line ends where nothing is known.
    let mut run: Vec<String> = Vec::new();
    let mut runs = Vec::new();
    for (night, share) in shares.iter().enumerate() {
        match share {
            Some(share) => run.push(format!("{:.1},{:.1}", night as f64 * step, y(*share))),
            None => runs.push(std::mem::take(&mut run)),
        }
    }
    runs.push(run);
    for run in runs.iter().filter(|run| !run.is_empty()) {
        // A single point is as wide as the line.
        let last = run.last().map_or("", |point| point);
        lines += &format!("<polyline points=\"{} {last}\" stroke-linecap=\"round\"/>", run.join(" "));
    }
    let title = format!("0 to {} in {} nights", percent(most), shares.len());
    format!(
        "<svg role=\"img\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\"><title>{title}</title>{lines}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_text() {
        let mut table = Table::new(&["NAME", "#SHARE"]);
        table.row([Cell::name("<b>\"x\"&"), Cell::share(&Value::Null)]);
        let html = table.done();
        assert!(html.contains("&lt;b&gt;&quot;x&quot;&amp;") && !html.contains("<b>"), "{html}");
        assert!(
            html.contains("<th class=\"number\">SHARE</th>") && html.contains("<td class=\"number\">-</td>")
        );
        assert_eq!(link("p?a=\"b\"", "<"), "<a href=\"p?a=&quot;b&quot;\">&lt;</a>");
    }

    #[test]
    fn a_plot_has_every_known_night_and_every_change() {
        let drawn = plot(&[Some(0.1), Some(0.2), None, Some(0.4)], &[(3, true)]);
        assert_eq!((drawn.matches("<polyline").count(), drawn.matches("<line").count()), (2, 1));
        assert!(
            drawn.contains("points=\"0.0,32.0 140.0,22.0 140.0,22.0\"") && drawn.contains("420.0,2.0"),
            "{drawn}"
        );
        assert!(drawn.contains("class=\"worse\" x1=\"350.0\""));
        assert!(plot(&[], &[]).contains("0 to 0") && plot(&[Some(0.0)], &[]).contains("<polyline"));
    }
}
