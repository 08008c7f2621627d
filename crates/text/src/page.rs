//! Text for people, under construction: lines, styles, names that are cut to a width.

use crate::{fit, name, quantity};

/// Text under construction, with or without color.
#[derive(Debug, Clone)]
pub struct Page {
    text: String,
    color: bool,
    /// Names are cut so that a line has at most so many columns; `None`: never.
    pub(crate) width: Option<usize>,
    /// The number of lines beyond [`MAX_PAGE_BYTES`].
    left_out: u64,
}

/// The longest page; a longer one is truncated, and says how to narrow the report.
const MAX_PAGE_BYTES: usize = 256 << 20;

/// By how many blanks a line is indented further that continues another one.
const CONTINUED: usize = 4;
/// The column in which the text of an item begins.
const ITEM: usize = 12;
/// The lines of the smallest terminal.
const TERMINAL: usize = 24;
/// No name is cut to fewer columns, so that it tells something.
const LEAST_NAME: usize = 16;

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
    /// Takes much of the whole.
    Hot,
    /// Takes a notable part of the whole.
    Warm,
}

impl Style {
    /// Returns the look of a row that takes this share of the whole. Both colors can be read on dark and on light ground.
    pub fn of_share(share: f64) -> Self {
        match share {
            0.05.. => Self::Hot,
            0.01.. => Self::Warm,
            _ => Self::Plain,
        }
    }
}

impl Page {
    /// Begins an empty page.
    pub fn new(color: bool) -> Self {
        Self { text: String::new(), color, width: None, left_out: 0 }
    }

    /// Cuts names that do not fit into lines of `width` columns.
    #[must_use]
    pub fn of_width(self, width: Option<u32>) -> Self {
        Self { width: width.map(|width| width as usize), ..self }
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
            Style::Hot => "31",
            Style::Warm => "35",
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

    /// Adds a line of figures, indentation and a name. If it does not fit, the indentation takes at most a third of the page, and
    /// the name is cut.
    pub fn named(&mut self, style: Style, (figures, indent): (&str, &str), name: &str, end: &str) {
        let Some(width) = self.width else {
            return self.styled(style, &format!("{figures}{indent}{name}{end}"));
        };
        let indent = fit::indented(indent, width / 3);
        let taken = [figures, &indent, end].map(fit::columns).into_iter().sum();
        let name = name::short(name, width.saturating_sub(taken).max(LEAST_NAME));
        self.styled(style, &format!("{figures}{indent}{name}{end}"));
    }

    /// Adds a chain of names as one line; on a page of a limited width, as lines that are broken behind a link. Longer names are cut.
    pub fn chain(&mut self, label: &str, names: &[String], link: &str) {
        let Some(width) = self.width else {
            return self.line(&format!("{label}{}", names.join(link)));
        };
        let indent = " ".repeat(label.chars().take_while(|c| *c == ' ').count() + CONTINUED);
        let (mut line, mut is_begun) = (label.to_owned(), false);
        for (position, name) in names.iter().enumerate() {
            let link = if position + 1 < names.len() { link } else { "" };
            let before = if is_begun { &indent } else { &line };
            let taken = fit::columns(before) + fit::columns(link.trim_end());
            let name = name::short(name, width.saturating_sub(taken).max(LEAST_NAME));
            if is_begun && fit::columns(&line) + fit::columns(&name) + fit::columns(link.trim_end()) > width {
                self.line(&line);
                line.clone_from(&indent);
            }
            line.extend([&*name, link]);
            is_begun = true;
        }
        self.line(&line);
    }

    /// Adds a labelled text, which begins in column 12. Lines are broken between words.
    pub fn item(&mut self, label: &str, text: &str) {
        let label = format!("{label:<11}");
        let mut label = self.style(Style::Bold, &label);
        for line in fit::lines(text, self.width.map(|width| width.saturating_sub(ITEM))) {
            self.line(&format!("{label} {line}"));
            label = " ".repeat(ITEM - 1);
        }
    }

    /// Adds a labelled text as one line: what does not fit is cut out of its middle.
    pub fn short_item(&mut self, label: &str, text: &str) {
        let most = self.width.map_or(usize::MAX, |width| width.saturating_sub(ITEM).max(LEAST_NAME));
        self.item(label, &fit::cut(text, most));
    }

    /// Adds a sentence, indented by some blanks. Lines are broken between words.
    pub fn sentence(&mut self, style: Style, indent: usize, text: &str) {
        for line in fit::lines(text, self.width.map(|width| width.saturating_sub(indent))) {
            self.styled(style, &format!("{:indent$}{line}", ""));
        }
    }

    /// Returns how many more lines the smallest terminal shows, above a prompt; `None` if the page is for none.
    pub fn rows_left(&self) -> Option<usize> {
        self.width.map(|_| TERMINAL.saturating_sub(1 + self.text.lines().count()))
    }

    /// Returns false if the page is for a terminal, and the smallest one does not show all of it above a prompt.
    pub fn fits_terminal(&self) -> bool {
        self.width.is_none() || self.text.lines().count() < TERMINAL
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.text.push('\n');
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_color_there_are_no_escapes() {
        assert_eq!(Page::new(false).style(Style::Bad, "x"), "x");
        assert_eq!(Page::new(true).style(Style::Bad, "x"), "\x1b[31;1mx\x1b[0m");
    }

    #[test]
    fn only_what_takes_much_is_colored() {
        let styles = [0.5, 0.05, 0.049, 0.01, 0.0, f64::NAN].map(Style::of_share);
        assert_eq!(styles, [Style::Hot, Style::Hot, Style::Warm, Style::Warm, Style::Plain, Style::Plain]);
    }

    #[test]
    fn items_and_sentences_are_broken_between_words() {
        let page = |width| {
            let mut page = Page::new(false).of_width(width);
            page.item("quality", "good, as far as we know");
            page.sentence(Style::Plain, 2, "a_word_of_this_length and two");
            page.short_item("command", "a command of many words");
            page.finish()
        };
        let whole = "quality     good, as far as we know\n  a_word_of_this_length and two\ncommand     a command of many words\n";
        assert_eq!(page(None), whole);
        assert_eq!(page(Some(80)), whole);
        let broken = "quality     good, as far\n            as we know\n  a_word_of_this_length\n  and two\n";
        assert!(page(Some(24)).starts_with(broken));
        let line = |width| {
            let mut page = Page::new(false).of_width(Some(width));
            page.short_item("command", "a command of many words");
            page.finish()
        };
        assert_eq!(line(30), "command     a command…ny words\n");
        assert_eq!(line(35), "command     a command of many words\n");
    }

    #[test]
    fn chains_are_broken_behind_links() {
        let chain = |width| {
            let mut page = Page::new(false).of_width(width);
            let names = ["main", "a_function_of_this_length", "[walk ×812]", "f"].map(String::from);
            page.chain("  deepest, 9: ", &names, " → ");
            page.finish()
        };
        let whole = "  deepest, 9: main → a_function_of_this_length → [walk ×812] → f\n";
        assert_eq!((&*chain(None), &*chain(Some(80))), (whole, whole));
        let broken = "  deepest, 9: main →\n      a_function_…his_length →\n      [walk ×812] → f\n";
        assert_eq!(chain(Some(30)), broken);
        let mut page = Page::new(false).of_width(Some(40));
        page.chain("  deepest, 9: ", &["a_long_name_of_a_function".into(), "f".into()], " → ");
        assert_eq!(page.finish(), "  deepest, 9: a_long_name_…_a_function →\n      f\n");
    }

    #[test]
    fn only_the_name_of_a_line_is_cut() {
        let line = |width, indent: &str| {
            let mut page = Page::new(false).of_width(width);
            page.named(Style::Plain, ("12.3%  ", indent), "a_very_long_name_of_a_function", " …");
            page.finish()
        };
        assert_eq!(line(None, "├─ "), "12.3%  ├─ a_very_long_name_of_a_function …\n");
        assert_eq!(line(Some(42), "├─ "), line(None, "├─ "));
        assert_eq!(line(Some(32), "├─ "), "12.3%  ├─ a_very_lon…_function …\n");
        let deep = "│  ".repeat(19) + "├─ ";
        assert_eq!(line(Some(32), &deep), "12.3%  …18 │  ├─ a_very_l…unction …\n");
    }
}
