//! The line on a terminal that shows how the recording goes. It is rewritten in place.

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use icecore_text::quantity::{bytes, count, things};

use crate::settings::Options;
use crate::sys::terminal;
use crate::threads::counts::{Counted, Counts};
use crate::threads::pump::Phase;

/// The shortest time between two versions of the line.
const EVERY: Duration = Duration::from_millis(250);
/// Moves to the beginning of the line and empties it.
const ERASE: &str = "\r\x1b[K";

/// Whether the line is on the terminal. Several threads print messages, each of which first removes the line.
static IS_SHOWN: Mutex<bool> = Mutex::new(false);

/// The line, and when it is due.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    counts: &'a Counts,
    is_wanted: bool,
    next: Cell<Instant>,
}

impl<'a> Line<'a> {
    /// Makes a line that appears if stderr is a terminal that can erase a line, and no command runs, whose output it would disturb.
    pub(crate) fn new(options: &Options, counts: &'a Counts) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_wanted = !options.quiet
            && !options.live
            && options.command.is_empty()
            && !is_dumb
            && std::io::stderr().is_terminal();
        Self { counts, is_wanted, next: Cell::new(Instant::now()) }
    }

    /// Returns what the line says now.
    pub(crate) fn text(&self, phase: Phase) -> String {
        text(phase, Instant::now(), self.counts.now())
    }

    /// Writes the line if it is due.
    ///
    /// # Cost
    /// A look at the time; a few system calls four times a second at most.
    pub(crate) fn show(&self, phase: Phase) {
        if !self.is_wanted {
            return;
        }
        let now = Instant::now();
        if now < self.next.get() {
            return;
        }
        self.next.set(now + EVERY);
        if let Some(width) = terminal::width() {
            // A full line would make the terminal begin another one.
            let room = usize::from(width).saturating_sub(1);
            let end = match phase {
                Phase::Until(_) => "Ctrl-C ends the recording",
                Phase::Since(_) => "Ctrl-C ends it",
            };
            let text: String = format!("{}; {end}", self.text(phase)).chars().take(room).collect();
            put(&text, true);
        }
    }
}

/// Writes a text to stderr, in place of the line if that is shown.
pub(super) fn put(text: &str, is_line: bool) {
    let mut is_shown = IS_SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let erase = if *is_shown { ERASE } else { "" };
    // Nobody may be there to read it.
    let _ = std::io::stderr().write_all(format!("{erase}{text}").as_bytes());
    *is_shown = is_line;
}

/// Removes the line if it is shown.
pub(crate) fn remove() {
    put("", false);
}

fn text(phase: Phase, now: Instant, counted: Counted) -> String {
    let since = match phase {
        Phase::Until(begin) => {
            let left = begin.saturating_duration_since(now).as_secs_f64();
            return format!("sampling begins in {left:.1} s");
        }
        Phase::Since(begin) => now.saturating_duration_since(begin).as_secs_f64(),
    };
    let others: Vec<String> = counted
        .other_losses
        .iter()
        .map(|(cause, lost)| format!("{} {}", count(*lost), cause.name()))
        .collect();
    let lost = match (counted.lost_samples, &others[..]) {
        (0, []) => "nothing lost".to_owned(),
        (0, others) => format!("no sample lost (but {})", others.join(", ")),
        (samples, _) => format!("{} lost", things(samples, "sample")),
    };
    let (samples, file) = (things(counted.samples, "sample"), bytes(counted.file_bytes));
    format!("recording {since:.1} s, {samples}, {lost}, {file}")
}

#[cfg(test)]
mod tests {
    use icecore_format::records::Cause;

    use super::*;

    #[test]
    fn the_line_says_how_long_how_many_and_what_is_lost() {
        let begun = Instant::now();
        let at = |counted: &Counted| {
            text(Phase::Since(begun), begun + Duration::from_millis(12_340), counted.clone())
        };
        let counted = Counted { samples: 45_678, file_bytes: 3_565_158, ..Counted::default() };
        assert_eq!(at(&counted), "recording 12.3 s, 45,678 samples, nothing lost, 3.4 MiB");
        let other_losses = vec![(Cause::STACK_SHORTENED, 26), (Cause::RING_FULL_TASK, 5)];
        let others = Counted { other_losses, ..counted.clone() };
        let line = at(&others);
        assert!(line.contains(", no sample lost (but 26 stack_shortened, 5 ring_full_task), "), "{line}");
        assert!(at(&Counted { lost_samples: 1, ..others }).contains(", 1 sample lost, "));
        let waits = text(Phase::Until(begun + Duration::from_secs(3)), begun, counted);
        assert_eq!(waits, "sampling begins in 3.0 s");
    }
}
