//! The table of a recording that is being written.

use std::io;
use std::path::Path;
use std::time::Duration;

use icecore_profile::live::{Now, Row};
use icecore_profile::named::names::Side;
use icecore_text::path::shown;
use icecore_text::quantity::{count, duration, percent, things, weight};
use icecore_text::{Align, Page, Style, Table};
use serde::Serialize;

pub use super::Last;
use super::terminal::{self, Picture};

/// Lines of a screen that are no rows: what 100 % is, headings, keys.
const AROUND: u16 = 4;

/// The document of one moment.
#[derive(Debug, Serialize)]
pub struct Live {
    schema: &'static str,
    /// The file that is written now.
    file: String,
    /// The stretch of time, in seconds after the start of the recording.
    from_s: f64,
    to_s: f64,
    unit: String,
    total_weight: u64,
    total_samples: u64,
    samples_without_frames: u64,
    samples_lost: u64,
    /// Time that no file has, because files of a rotation were removed before they were read.
    gaps_s: f64,
    /// For how long nothing was written, s.
    silent_s: u64,
    /// The recorder takes no samples now.
    paused: bool,
    /// The number of all rows; `rows` may have fewer.
    row_count: u64,
    rows: Vec<LiveRow>,
    /// Why the recording ended; `null` while it goes on.
    ended: Option<String>,
}

#[derive(Debug, Serialize)]
struct LiveRow {
    name: String,
    image: Option<String>,
    process: String,
    side: &'static str,
    reason: Option<&'static str>,
    #[serde(skip)]
    why: Option<String>,
    weight: u64,
    samples: u64,
    share: f64,
}

/// Nothing new for so long deserves a word. Then it is also looked whether the recorder is still there.
pub const SILENT: Duration = Duration::from_secs(10);

impl Live {
    /// Describes a moment of a recording.
    pub fn new(now: &Now, file: &Path, silent: Duration, gaps_ns: u64, ended: Option<String>) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let row = |row: &Row| LiveRow {
            name: row.function.name.clone().into(),
            image: row.function.image.clone().map(Into::into),
            process: row.process.clone().into(),
            side: if row.function.side == Side::Kernel { "kernel" } else { "user" },
            reason: row.function.reason.map(|reason| reason.code()),
            why: row.function.reason.map(|reason| reason.to_string()),
            weight: row.amount.weight,
            samples: row.amount.samples,
            share: row.amount.share_of(now.whole),
        };
        Self {
            schema: "icecore.live/1",
            file: shown(file),
            from_s: seconds(now.span_ns.0),
            to_s: seconds(now.span_ns.1),
            unit: now.unit.clone(),
            total_weight: now.whole.weight,
            total_samples: now.whole.samples,
            samples_without_frames: now.without_frames,
            samples_lost: now.lost,
            gaps_s: seconds(gaps_ns),
            silent_s: silent.as_secs(),
            paused: false,
            row_count: now.row_count as u64,
            rows: now.rows.iter().map(row).collect(),
            ended,
        }
    }

    /// Says whether the recorder takes no samples now.
    #[must_use]
    pub fn paused(self, paused: bool) -> Self {
        Self { paused, ..self }
    }

    /// Writes the table onto a page.
    pub fn text(&self, page: &mut Page) {
        page.styled(Style::Bold, &self.heading());
        let (left, right) = (Align::Left, Align::Right);
        let columns = [
            ("SELF", right),
            ("SAMPLES", right),
            ("PROCESS", left),
            ("MODE", left),
            ("IMAGE", left),
            ("FUNCTION", left),
        ];
        let mut table = Table::of_names(0, &columns);
        for row in &self.rows {
            let image = row.image.as_deref().map_or("", |path| path.rsplit('/').next().unwrap_or(path));
            let name = match &row.why {
                Some(why) => format!("{} ({why})", row.name),
                None => row.name.clone(),
            };
            let cells = [&percent(row.share), &count(row.samples), &*row.process, row.side, image, &name];
            table.styled_row(Style::of_share(row.share), cells.map(str::to_owned).to_vec());
        }
        page.table(&table);
    }

    /// Says what 100 % is, and what limits it.
    fn heading(&self) -> String {
        let samples = things(self.total_samples, "sample");
        let amount = match &*self.unit {
            "samples" => samples,
            unit => format!("{} in {samples}", weight(self.total_weight, unit)),
        };
        let stretch = duration(((self.to_s - self.from_s) * 1e9) as u64);
        let until = duration((self.to_s * 1e9) as u64);
        let mut text =
            format!("100% is {amount} of {stretch}, until {until} after the start · {}", self.file);
        if self.samples_lost > 0 {
            text.push_str(&format!(" · {} lost", things(self.samples_lost, "sample")));
        }
        if self.samples_without_frames > 0 {
            text.push_str(&format!(" · {} without a frame", things(self.samples_without_frames, "sample")));
        }
        if self.gaps_s > 0.0 {
            let gaps = duration((self.gaps_s * 1e9) as u64);
            text.push_str(&format!(" · {gaps} were in files that are gone"));
        }
        if self.paused {
            text.push_str(" · paused: no samples are taken now");
        } else if self.silent_s >= SILENT.as_secs() && self.ended.is_none() {
            text.push_str(&format!(" · nothing was written for {} s", count(self.silent_s)));
        }
        text
    }
}

/// What of a recording a table shows.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Everything, and not the last seconds.
    pub is_whole: bool,
    /// The most rows.
    pub rows: usize,
    /// Something new may have been written.
    pub is_due: bool,
}

/// Draws a table on the terminal each `interval`. `next` makes it; without one, the view is over.
///
/// # Errors
/// If the terminal cannot be read or written.
pub fn draw(
    color: bool,
    interval: Duration,
    last: Last,
    mut next: impl FnMut(Asked) -> Option<Live>,
) -> io::Result<()> {
    terminal::repeat(color, interval, |picture: Picture| {
        let is_whole = (last == Last::All) != picture.is_turned;
        let rows = usize::from(picture.lines.saturating_sub(AROUND));
        let live = next(Asked { is_whole, rows, is_due: picture.is_due })?;
        let mut page = Page::new(false).of_width(Some(u32::from(picture.width)));
        live.text(&mut page);
        let mut lines: Vec<String> = page.finish().lines().map(str::to_owned).collect();
        lines.resize(usize::from(picture.lines.saturating_sub(1)), String::new());
        let other = if is_whole { "the last seconds" } else { "the whole recording" };
        let more = live.row_count.saturating_sub(live.rows.len() as u64);
        lines.push(format!("q quit  w {other}  · {} more", things(more, "row")));
        Some(lines)
    })
}
