//! Writes the walks by unwind tables that differ from unwound copies of their stacks.

use icecore_analysis::audit::{Audit, DisagreementRow};
use icecore_text::name::short;
use icecore_text::quantity::ratio;
use icecore_text::quantity::{count, percent, things};
use icecore_text::{Align, Page, Style, Table};

/// How many of the common frames are shown, up to the last one.
const COMMON: usize = 3;
/// How many frames are shown of each stack after them.
const APART: usize = 6;
/// The most characters of a frame.
const FRAME_LEN: usize = 100;

/// Writes a table of the images with differences, and the stacks.
pub(super) fn text(audit: &Audit, page: &mut Page) {
    if audit.differ == 0 {
        return;
    }
    page.gap();
    page.styled(
        Style::Bold,
        "walks by unwind tables that differ from the copy, by the image where the first wrong step starts",
    );
    let columns = [
        ("SHARE", Align::Right),
        ("DIFFER", Align::Right),
        ("CHECKED", Align::Right),
        ("IMAGE", Align::Left),
    ];
    let mut table = Table::new(0, &columns);
    for row in audit.by_image.iter().filter(|row| row.differ > 0) {
        let share = percent(ratio(row.differ as f64, row.checked as f64));
        table.row(vec![share, count(row.differ), count(row.checked), named(row.image.as_deref())]);
    }
    page.table(&table);
    audit.disagreements.iter().for_each(|row| stacks(row, page));
}

fn named(image: Option<&str>) -> String {
    image.unwrap_or("[none]").to_owned()
}

/// Writes the two stacks below each other, leaf first.
///
/// ```text
/// both      … 4 frames
///           inner
/// walked    a
/// unwound   b
/// ```
fn stacks(row: &DisagreementRow, page: &mut Page) {
    let common = (row.common as usize).min(row.walked.len()).min(row.unwound.len());
    page.gap();
    page.line(&format!("{} from {}", things(row.count, "sample"), named(row.image.as_deref())));
    let skipped = common.saturating_sub(COMMON);
    let inner = (skipped > 0).then(|| format!("… {}", things(skipped as u64, "frame")));
    frames("both", inner.into_iter().chain(row.walked[skipped..common].iter().cloned()), page);
    for (label, stack) in [("walked", &row.walked), ("unwound", &row.unwound)] {
        let apart = &stack[common..];
        let more = apart.len().saturating_sub(APART);
        let end = if more > 0 {
            format!("… {}", things(more as u64, "frame"))
        } else {
            "(the stack ends)".to_owned()
        };
        frames(label, apart.iter().take(APART).cloned().chain([end]), page);
    }
}

fn frames(label: &str, lines: impl Iterator<Item = String>, page: &mut Page) {
    for (position, line) in lines.enumerate() {
        page.item(if position == 0 { label } else { "" }, &short(&line, FRAME_LEN));
    }
}
