//! Shows a progress bar on stderr, for work that takes more than a moment.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// No bar is shown before so much time has passed.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// The progress of some work.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
    wanted: bool,
}

impl Progress {
    /// Starts the bar for naming addresses; it stays hidden unless `wanted`.
    pub fn begin(total: u64, wanted: bool) -> Self {
        Self::of("naming addresses", total, wanted)
    }

    /// Starts a bar for any work.
    pub fn of(work: &str, total: u64, wanted: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(&format!("{work} {{bar:40}} {{pos}}/{{len}}")) {
            bar.set_style(style);
        }
        Self { bar, begun: Instant::now(), wanted }
    }

    /// Reports `count` more finished items.
    pub fn tick(&self, count: u64) {
        self.bar.inc(count);
        if self.wanted && self.bar.is_hidden() && self.begun.elapsed() > SHOWN_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
