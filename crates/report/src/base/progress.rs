//! Shows a progress bar on stderr, for work that takes more than a moment.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use icecore_profile::watch::{Unwatched, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// No bar is shown before so much time has passed.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// Returns what watches long work: a bar, or nobody.
pub(crate) fn watch(shown: bool) -> Box<dyn Watch> {
    if shown { Box::new(Progress::default()) } else { Box::new(Unwatched) }
}

/// The progress of some work.
#[derive(Debug, Default)]
struct Progress {
    bar: Mutex<Option<(ProgressBar, Instant)>>,
}

impl Watch for Progress {
    fn begin(&self, work: &str, steps: u64) {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(&format!("{work} {{bar:40}} {{pos}}/{{len}}")) {
            bar.set_style(style);
        }
        *self.bar.lock().expect("bug: no thread panics here") = Some((bar, Instant::now()));
    }

    fn tick(&self, steps: u64) {
        if let Some((bar, begun)) = &*self.bar.lock().expect("bug: no thread panics here") {
            bar.inc(steps);
            if bar.is_hidden() && begun.elapsed() > SHOWN_AFTER {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
    }

    fn end(&self) {
        if let Some((bar, _)) = self.bar.lock().expect("bug: no thread panics here").take() {
            bar.finish_and_clear();
        }
    }
}
