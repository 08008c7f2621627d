//! Writes the view for people.

use super::code::{CodeRow, InstructionRow};
use super::{Annotate, Args};
use icecore_listing::rows::{FrameRow, InlinedRow, LineRow, SourceRow, Weights};
use icecore_profile::named::Amount;
use icecore_profile::named::names::short;
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::load::clean;
use icecore_text::fit::cut;
use icecore_text::quantity::{percent, things, weight};
use icecore_text::{Page, Style};

/// Shares of the function from which on a line or instruction is hot, and warm.
const HOT: f64 = 0.05;
const WARM: f64 = 0.005;
/// Columns of a tab.
const TAB: usize = 8;

/// What the rows are written with.
struct Writer<'a> {
    /// The weight of 100 %.
    whole: u64,
    options: &'a Args,
    /// The longest line, characters.
    most: usize,
}

impl Annotate {
    /// Writes the page, with lines of at most `most` characters.
    pub(super) fn text(&self, report: &Report<'_>, options: &Args, most: usize, page: &mut Page) {
        let whole = Amount { samples: self.total_samples, weight: self.total_weight };
        super::super::preface(report, whole, page);
        page.gap();
        let ([found], Some(function)) = (&self.matches[..], self.function) else { return self.choices(page) };
        let image = found.image.as_deref().map(|image| format!(" in {image}")).unwrap_or_default();
        page.styled(Style::Bold, &format!("{}{image}", found.name));
        let (own, total) =
            (amount(function.own, function.self_samples), amount(function.total, function.total_samples));
        page.line(&format!(
            "self {} ({}), total {} ({})",
            percent(own.share_of(whole)),
            self.figure(own),
            percent(total.share_of(whole)),
            self.figure(total)
        ));
        page.styled(Style::Dim, "below, 100% is the total of this function");
        let writer = Writer { whole: function.total, options, most };
        self.sources.iter().for_each(|source| writer.source(source, page));
        self.code.iter().for_each(|code| writer.code(code, page));
        self.remarks(&writer, page);
    }

    fn figure(&self, amount: Amount) -> String {
        match self.unit.as_str() {
            "samples" => things(amount.samples, "sample"),
            unit => format!("{}, {}", weight(amount.weight, unit), things(amount.samples, "sample")),
        }
    }

    /// Lists the functions that match.
    fn choices(&self, page: &mut Page) {
        page.styled(Style::Dim, "  SELF   TOTAL  FUNCTION");
        for found in &self.matches {
            let image = found.image.as_deref().unwrap_or("no image");
            let (own, total) = (percent(found.self_share), percent(found.total_share));
            page.line(&format!("{own:>6}  {total:>6}  {} ({image})", found.name));
        }
    }

    fn remarks(&self, writer: &Writer<'_>, page: &mut Page) {
        let elsewhere = self.elsewhere.map(|weights| {
            let share = percent(weights.total as f64 / writer.whole.max(1) as f64);
            format!("{share} in code that no file has: of the kernel, made by a JIT compiler, or run by an interpreter; it has no instructions here")
        });
        let left_out = (self.places_left_out > 0).then(|| {
            let places = things(self.places_left_out as u64, "hit place");
            format!("{places} in further functions, into which this one was inlined, left out")
        });
        let remarks = self.no_code.iter().map(|row| row.text.clone()).chain(elsewhere).chain(left_out);
        for (number, remark) in remarks.enumerate() {
            if number == 0 {
                page.gap();
            }
            page.styled(Style::Warn, &remark);
        }
    }
}

fn amount(weight: u64, samples: u64) -> Amount {
    Amount { samples, weight }
}

impl Writer<'_> {
    fn source(&self, source: &SourceRow, page: &mut Page) {
        page.gap();
        let (style, title) = title(source);
        page.styled(style, &cut(&title, self.most));
        page.styled(Style::Dim, "  SELF   TOTAL   LINE");
        let has_samples = |line: &LineRow| line.weights.total_samples > 0;
        let shown = self.near(&source.lines, has_samples);
        self.with_gaps(&source.lines, &shown, "line", page, |line, page| self.line(line, page));
    }

    fn line(&self, line: &LineRow, page: &mut Page) {
        let number = line.line.map_or_else(|| "?".to_owned(), |line| line.to_string());
        let text = match (&line.text, line.line) {
            (Some(text), _) => expanded(text),
            (None, Some(_)) => String::new(),
            (None, None) => "no line is known".to_owned(),
        };
        self.row(line.weights, &format!("{number:>6}  {text}"), page);
        line.inlined.iter().for_each(|inlined| self.inlined(inlined, page));
    }

    fn inlined(&self, inlined: &InlinedRow, page: &mut Page) {
        let chain: Vec<String> = inlined.functions.iter().map(in_words).collect();
        self.row(inlined.weights, &format!("        └ inlined {}", chain.join(" < ")), page);
    }

    fn code(&self, code: &CodeRow, page: &mut Page) {
        page.gap();
        let name = code.name.as_deref().unwrap_or("[no name]");
        let end = code.address.saturating_add(code.bytes);
        let title = format!(
            "{name} in {}, {:#x} to {end:#x}, code from: {}",
            short(&code.image),
            code.address,
            code.source
        );
        page.styled(Style::Bold, &cut(&title, self.most));
        page.styled(Style::Dim, "  SELF   TOTAL   ADDRESS");
        let is_shown = |it: &InstructionRow| it.weights.total_samples > 0 && it.own;
        let mut shown = self.near(&code.instructions, is_shown);
        let whole = |(shown, it): (&mut bool, &InstructionRow)| *shown |= self.options.whole && it.own;
        shown.iter_mut().zip(&code.instructions).for_each(whole);
        let mut place: Option<Vec<FrameRow>> = None;
        self.with_gaps(&code.instructions, &shown, "instruction", page, |it, page| {
            if place.as_ref() != Some(&it.functions) {
                place = Some(it.functions.clone());
                let chain: Vec<String> = it.functions.iter().map(in_words).collect();
                if !chain.is_empty() {
                    let line = format!("{:16} {}", "", chain.join(" < "));
                    page.styled(Style::Dim, &cut(&line, self.most));
                }
            }
            self.row(it.weights, &format!("{:>8x}  {}", it.address, it.shown), page);
        });
    }

    /// Marks the rows that are shown: all, or those with samples and the context around them.
    fn near<T>(&self, rows: &[T], has_samples: impl Fn(&T) -> bool) -> Vec<bool> {
        let mut shown = vec![self.options.whole; rows.len()];
        for (position, _) in rows.iter().enumerate().filter(|(_, row)| has_samples(row)) {
            let first = position.saturating_sub(self.options.context);
            let last = position.saturating_add(self.options.context).min(rows.len() - 1);
            shown[first..=last].fill(true);
        }
        shown
    }

    /// Writes rows, and says how many are left out between them.
    fn with_gaps<T>(
        &self,
        rows: &[T],
        shown: &[bool],
        what: &str,
        page: &mut Page,
        mut write: impl FnMut(&T, &mut Page),
    ) {
        let mut left_out = 0;
        let gap = |left_out: &mut u64, page: &mut Page| {
            if *left_out > 0 {
                page.styled(Style::Dim, &format!("{:16} … {} left out", "", things(*left_out, what)));
                *left_out = 0;
            }
        };
        for (row, is_shown) in rows.iter().zip(shown) {
            if *is_shown {
                gap(&mut left_out, page);
                write(row, page);
            } else {
                left_out += 1;
            }
        }
        gap(&mut left_out, page);
    }

    /// Writes the shares of a row, and its text.
    fn row(&self, weights: Weights, text: &str, page: &mut Page) {
        let share = |weight: u64| weight as f64 / self.whole.max(1) as f64;
        let cell = |weight: u64| if weight > 0 { percent(share(weight)) } else { String::new() };
        let line = format!("{:>6}  {:>6}  {text}", cell(weights.own), cell(weights.total));
        let style = match share(weights.own) {
            hot if hot >= HOT => Style::Bad,
            warm if warm >= WARM => Style::Warn,
            _ => Style::Plain,
        };
        page.styled(style, &cut(line.trim_end(), self.most));
    }
}

/// Says where the text is from, and whether it is what was compiled.
fn title(source: &SourceRow) -> (Style, String) {
    let Some(file) = &source.file else {
        return (
            Style::Warn,
            "no source file: no debug information of this code was found; see missing".to_owned(),
        );
    };
    let Some(origin) = source.origin else {
        return (
            Style::Warn,
            format!(
                "{file}: no source text, {}; see --source-dir and --map",
                clean(source.why_text.as_bytes())
            ),
        );
    };
    let path = source.path.as_ref().map(|path| clean(path.as_bytes()));
    let place = match path {
        Some(path) if *path == **file => origin.to_owned(),
        Some(path) => path.into_string(),
        None => format!("in the {origin}"),
    };
    match (source.proof, source.newer) {
        (Some("md5"), _) => (Style::Bold, format!("{file} ({place}, proven by its MD5)")),
        (_, true) => {
            let why = "unchecked: it was modified after the program was linked, and may be another version";
            (Style::Warn, format!("{file} ({place}, {why})"))
        }
        _ => {
            let why = "unchecked: nothing proves that this version was compiled";
            (Style::Bold, format!("{file} ({place}, {why})"))
        }
    }
}

fn in_words(frame: &FrameRow) -> String {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{} {}:{line}", frame.name, short(file)),
        (Some(file), None) => format!("{} {}:?", frame.name, short(file)),
        (None, _) => frame.name.clone(),
    }
}

/// Replaces tabs by blanks, and characters that steer a terminal by marks.
fn expanded(text: &str) -> String {
    let mut line = String::new();
    let mut column = 0;
    for c in text.trim_end().chars() {
        if c == '\t' {
            let blanks = TAB - column % TAB;
            line.push_str(&" ".repeat(blanks));
            column += blanks;
        } else {
            line.push(c);
            column += 1;
        }
    }
    clean(line.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_go_to_the_next_stop_and_nothing_steers_the_terminal() {
        assert_eq!(expanded("\ta\tb  "), "        a       b");
        assert_eq!(expanded("a\x1b[31mb"), "a\u{fffd}[31mb");
    }
}
