//! Rows of cells under headings.

use crate::fit::{columns, cut, share};
use crate::name::short;
use crate::page::{Page, Style};

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
    rows: Vec<(Style, Vec<String>)>,
    has_names: bool,
}

/// The space between two columns.
const GAP: usize = 2;
/// No column of names is made narrower than this.
const LEAST: usize = 8;
/// Where nothing limits the width, a longer name shifts the rest of its own row only: one name may be a thousand times as long as
/// the others.
const MOST_PADDED: usize = 48;

impl Table {
    /// Creates a table, indented by `indent` blanks. The last column is not padded.
    pub fn new(indent: usize, columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), indent, rows: Vec::new(), has_names: false }
    }

    /// Creates a table whose columns of words are names: they are cut if the table is wider than the page.
    pub fn of_names(indent: usize, columns: &[(&'static str, Align)]) -> Self {
        Self { has_names: true, ..Self::new(indent, columns) }
    }

    /// Adds a row; extra cells are dropped, missing ones are empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.styled_row(Style::Plain, cells);
    }

    /// Adds a row in one style.
    pub fn styled_row(&mut self, style: Style, mut cells: Vec<String>) {
        cells.resize(self.columns.len(), String::new());
        self.rows.push((style, cells));
    }

    /// Returns how wide each column is on a page of this width, and the most columns that a cell may take.
    fn widths(&self, page: Option<usize>) -> Vec<(usize, usize)> {
        let natural = |column: usize| {
            let cells = self.rows.iter().map(|(_, row)| columns(&row[column]));
            cells.chain([columns(self.columns[column].0)]).max().unwrap_or(0)
        };
        let natural: Vec<usize> = (0..self.columns.len()).map(natural).collect();
        let is_name = |column: &usize| self.has_names && self.columns[*column].1 == Align::Left;
        let names: Vec<usize> = (0..natural.len()).filter(is_name).collect();
        let Some(page) = page.filter(|_| self.has_names) else {
            let padded = |(column, width): (usize, &usize)| {
                if is_name(&column) { (*width).min(MOST_PADDED) } else { *width }
            };
            return natural.iter().enumerate().map(padded).map(|width| (width, usize::MAX)).collect();
        };
        let numbers = (0..natural.len()).filter(|column| !is_name(column)).map(|column| natural[column]);
        let taken = self.indent + GAP * (natural.len() - 1) + numbers.sum::<usize>();
        let of_names: Vec<usize> = names.iter().map(|column| natural[*column]).collect();
        let least: Vec<usize> =
            names.iter().map(|column| columns(self.columns[*column].0).max(LEAST)).collect();
        let mut widths = natural;
        let shared = share(&of_names, &least, page.saturating_sub(taken));
        names.iter().zip(shared).for_each(|(column, width)| widths[*column] = width);
        widths.into_iter().map(|width| (width, width)).collect()
    }

    fn layout<'c>(&self, cells: impl Iterator<Item = &'c str>, widths: &[(usize, usize)]) -> String {
        let mut line = " ".repeat(self.indent);
        let last = self.columns.len() - 1;
        for (position, ((cell, (width, most)), (_, align))) in
            cells.zip(widths).zip(&self.columns).enumerate()
        {
            let cell = if self.has_names { short(cell, *most) } else { cut(cell, *most) };
            let blanks = " ".repeat(width.saturating_sub(columns(&cell)));
            match align {
                // Nothing follows the last column.
                Align::Left if position == last => line.push_str(&cell),
                Align::Left => line.extend([&*cell, &blanks, "  "]),
                Align::Right => line.extend([&*blanks, &cell, "  "]),
            }
        }
        line
    }
}

impl Page {
    /// Adds a table.
    pub fn table(&mut self, table: &Table) {
        let widths = table.widths(self.width);
        if table.columns.iter().any(|(head, _)| !head.is_empty()) {
            let line = table.layout(table.columns.iter().map(|(head, _)| *head), &widths);
            self.styled(Style::Dim, &line);
        }
        for (style, row) in &table.rows {
            let line = table.layout(row.iter().map(String::as_str), &widths);
            self.styled(*style, &line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(table: &Table, width: Option<u32>) -> String {
        let mut page = Page::new(false).of_width(width);
        page.table(table);
        page.finish()
    }

    #[test]
    fn tables_align_numbers_right_and_never_end_in_blanks() {
        let mut table = Table::new(1, &[("N", Align::Right), ("NAME", Align::Left)]);
        table.row(vec!["1".into(), "a".into()]);
        table.row(vec!["200".into(), "ä b".into()]);
        assert_eq!(printed(&table, None), "   N  NAME\n   1  a\n 200  ä b\n");
    }

    #[test]
    fn names_are_cut_to_the_page_and_numbers_never() {
        let columns = [("N", Align::Right), ("IMAGE", Align::Left), ("NAME", Align::Left)];
        let mut table = Table::of_names(0, &columns);
        table.row(vec!["1234".into(), "libc.so.6".into(), "a_long_name_of_a_function".into()]);
        table.row(vec!["1".into(), "漢字".into(), "f".into()]);
        let whole = "   N  IMAGE      NAME\n1234  libc.so.6  a_long_name_of_a_function\n   1  漢字       f\n";
        assert_eq!(printed(&table, None), whole);
        assert_eq!(printed(&table, Some(42)), whole);
        let narrow = "   N  IMAGE      NAME\n1234  libc.so.6  a_long…nction\n   1  漢字       f\n";
        assert_eq!(printed(&table, Some(30)), narrow);
        // There is no use in names of no characters.
        assert_eq!(printed(&table, Some(1)).lines().nth(1), Some("1234  libc…o.6  a_lo…ion"));
    }

    #[test]
    fn a_name_of_endless_length_pads_no_other_row() {
        let mut table = Table::of_names(0, &[("A", Align::Left), ("B", Align::Left)]);
        table.row(vec!["x".repeat(1000), "b".into()]);
        table.row(vec!["a".into(), "b".into()]);
        let text = printed(&table, None);
        let lens: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(lens, [MOST_PADDED + 3, 1003, MOST_PADDED + 3]);
    }
}
