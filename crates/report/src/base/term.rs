//! Text for people: pages, tables, quantities, progress.

pub mod chart;
pub mod csv;
pub mod progress;

pub use icecore_text::{path, quantity};

/// Text under construction, with or without color.
#[derive(Debug)]
pub struct Page {
    text: String,
    color: bool,
    /// The number of lines beyond [`MAX_PAGE_BYTES`].
    left_out: u64,
}

/// The longest page; a longer one is truncated, and says how to narrow the report.
const MAX_PAGE_BYTES: usize = 256 << 20;

/// The look of a piece of text on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Unstyled.
    Plain,
    /// A heading.
    Bold,
    /// Less important.
    Dim,
    /// All is well.
    Good,
    /// Deserves attention.
    Warn,
    /// Unreliable.
    Bad,
}

impl Page {
    /// Begins an empty page.
    pub fn new(color: bool) -> Self {
        Self { text: String::new(), color, left_out: 0 }
    }

    /// Styles a piece of text; returns it unchanged if there is no color.
    pub fn style(&self, style: Style, text: &str) -> String {
        let code = match style {
            Style::Plain => return text.to_owned(),
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Warn => "33",
            Style::Bad => "31;1",
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Adds a line. Blanks at its end are removed, and line breaks in the text never make two lines.
    pub fn line(&mut self, text: &str) {
        if self.text.len() + text.len() > MAX_PAGE_BYTES {
            self.left_out += 1;
            return;
        }
        let text = text.trim_end();
        if text.contains('\n') {
            self.text.push_str(&text.replace('\n', "\u{fffd}"))
        } else {
            self.text.push_str(text)
        }
        self.text.push('\n');
    }

    /// Adds a line in one style.
    pub fn styled(&mut self, style: Style, text: &str) {
        let text = self.style(style, text.trim_end());
        self.line(&text);
    }

    /// Adds a labelled line; the text begins in column 12.
    pub fn item(&mut self, label: &str, text: &str) {
        let label = self.style(Style::Bold, &format!("{label:<11}"));
        self.line(&format!("{label} {text}"));
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) {
        let widths: Vec<usize> = (0..table.columns.len())
            .map(|column| {
                let cells = table.rows.iter().map(|row| row[column].chars().count());
                cells.chain([table.columns[column].0.chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let heads: Vec<String> = table.columns.iter().map(|(head, _)| (*head).to_owned()).collect();
        if heads.iter().any(|head| !head.is_empty()) {
            let line = table.layout(&heads, &widths);
            self.styled(Style::Dim, &line);
        }
        for row in &table.rows {
            let line = table.layout(row, &widths);
            self.line(&line);
        }
    }

    /// Returns the text.
    pub fn finish(mut self) -> String {
        if self.left_out > 0 {
            let lines = quantity::things(self.left_out, "line");
            self.text.push_str(&format!(
                "{lines} skipped: a page has at most 256 MiB; narrow the report, or use --json\n"
            ));
        }
        self.text
    }
}

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under headings.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    indent: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table, indented by `indent` blanks. The last column is not padded.
    pub fn new(indent: usize, columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), indent, rows: Vec::new() }
    }

    /// Adds a row; extra cells are dropped, missing ones are empty.
    pub fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    fn layout(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = " ".repeat(self.indent);
        let last = self.columns.len() - 1;
        for (position, ((cell, width), (_, align))) in cells.iter().zip(widths).zip(&self.columns).enumerate()
        {
            match align {
                // Nothing follows the last column, and one name may be a thousand times as long as the others.
                Align::Left if position == last => line.push_str(cell),
                Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                Align::Right => line.push_str(&format!("{cell:>width$}  ")),
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_numbers_right_and_never_end_in_blanks() {
        let mut table = Table::new(1, &[("N", Align::Right), ("NAME", Align::Left)]);
        table.row(vec!["1".into(), "a".into()]);
        table.row(vec!["200".into(), "ä b".into()]);
        let mut page = Page::new(false);
        page.table(&table);
        assert_eq!(page.finish(), "   N  NAME\n   1  a\n 200  ä b\n");
    }

    #[test]
    fn without_color_there_are_no_escapes() {
        assert_eq!(Page::new(false).style(Style::Bad, "x"), "x");
        assert_eq!(Page::new(true).style(Style::Bad, "x"), "\x1b[31;1mx\x1b[0m");
    }
}
