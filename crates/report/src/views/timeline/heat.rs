//! Draws the heat map: seconds from left to right, and the offset within each from bottom to top. So it shows what happens for a
//! tenth of a second, or every second.

use serde::Serialize;

use super::Buckets;
use super::drawn::{UNSAMPLED, peak};
use icecore_text::{Page, Style};

/// The length of a cell.
pub(super) const STEP_NS: u64 = 50_000_000;
/// The cells of a second.
pub(super) const STEPS: u32 = 20;

/// The rates of all cells.
#[derive(Debug, Serialize)]
pub(super) struct Heat {
    pub(super) offset_s: f64,
    peak: f64,
    pub(super) seconds: Vec<Second>,
}

/// A second.
#[derive(Debug, Serialize)]
pub(super) struct Second {
    pub(super) begin_s: f64,
    /// The rates from its begin on; the last second may have fewer. `None` where nobody sampled.
    pub(super) values: Vec<Option<f64>>,
}

impl Heat {
    /// Distributes the rates of slices of [`STEP_NS`] over seconds.
    pub(super) fn new(seconds: Buckets, values: &[Option<f64>], sampled: &[f64]) -> Self {
        let second = |(second, values): (usize, &[Option<f64>])| Second {
            begin_s: seconds.begin_s(second),
            values: values.to_vec(),
        };
        let peak = peak(values, sampled);
        let seconds = values.chunks(STEPS as usize).enumerate().map(second).collect();
        Self { offset_s: STEP_NS as f64 / 1e9, peak, seconds }
    }

    /// Draws strips that are as wide as the terminal.
    pub(super) fn text(&self, width: usize, value: impl Fn(f64) -> String, page: &mut Page) {
        for strip in self.seconds.chunks(width.max(1)) {
            page.gap();
            for step in (0..STEPS as usize).rev() {
                let cells: String =
                    strip.iter().map(|second| self.cell(second.values.get(step).copied(), page)).collect();
                page.line(&format!("{:>6}  {cells}", label(step)));
            }
            if let (Some(first), Some(last)) = (strip.first(), strip.last()) {
                let (first, last) = (format!("{:.0} s", first.begin_s), format!("{:.0} s", last.begin_s));
                let gap = strip.len().saturating_sub(first.len()).max(last.len() + 1);
                let last = if strip.len() > first.len() + last.len() { last } else { String::new() };
                page.line(&format!("{:>6}  {first}{last:>gap$}", ""));
            }
        }
        page.gap();
        let shade = |level: usize| format!("{} to {}", SHADES[level], value(self.peak * level as f64 / 4.0));
        page.styled(Style::Dim, &(1..=4).map(shade).collect::<Vec<_>>().join("   "));
    }

    fn cell(&self, value: Option<Option<f64>>, page: &Page) -> String {
        if value == Some(None) {
            return page.style(Style::Dim, UNSAMPLED);
        }
        let level = value.flatten().map_or(0, |it| (it / self.peak * 4.0).ceil().clamp(0.0, 4.0) as usize);
        let style = [Style::Plain, Style::Dim, Style::Good, Style::Warn, Style::Bad][level];
        page.style(style, SHADES[level])
    }
}

/// The shades, from nothing to the most.
const SHADES: [&str; 5] = [" ", "░", "▒", "▓", "█"];

/// The offsets that are labelled: every quarter of a second.
fn label(step: usize) -> String {
    let ms = step as u64 * STEP_NS / 1_000_000;
    if ms.is_multiple_of(250) { format!("{ms} ms") } else { String::new() }
}
