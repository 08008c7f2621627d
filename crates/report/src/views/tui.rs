//! `tui`: explores a recording on the terminal.
//!
//! ```text
//! key ─► Action ─► App: filters ─► Explorer::select ─► items ─► draw ─► screen
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | `keys` | which key does what, and the help that is made of it |
//! | `app` | what is shown: filters and their history, panes, search, the range of time |
//! | `items` | the lines of a pane |
//! | `words` | filters and amounts in words |
//! | `draw` | the screen, drawn from `app` |
//! | [`live`] | the table of a recording that is being written |
//! | `terminal` | the only room that reads keys, writes to the terminal, and restores it |

mod app;
mod draw;
mod items;
mod keys;
pub mod live;
mod pane;
mod terminal;
mod words;

use std::io::{self, IsTerminal};
use std::time::Duration;

use super::owners::{OwnerName, Owners};
use super::{Error, Needs, Result, Screen, Shown, View};
use crate::cli::{Owner, Select};
use app::App;
use icecore_analysis::explore::{self, Explorer};
use icecore_analysis::quality::{Quality, Verdict};
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::events::{EventChoice, Meaning};
use icecore_profile::recording::filter::Moment;
use icecore_profile::recording::losses::other_losses;
use icecore_profile::recording::spans::Spans;
use icecore_profile::stacks::hits::{Apart, WaitsApart};
use icecore_text::path::shown;
use icecore_text::quantity::things;

/// The arguments of `tui`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "icecore-report tui [OPTIONS] [FILE]...\n       icecore-report tui --follow [OPTIONS] <FILE>"
)]
#[command(after_help = "\
Examples:
  icecore-report tui demo.icecore
  icecore-report tui demo.icecore --comm cc1 --from 10 --to 20
  icecore-report tui demo.icecore --event off-cpu         where threads waited (--off-cpu)
  ssh HOST icecore-record -a -d 10 -o - | icecore-report tui -
  icecore-report tui --follow /var/lib/icecore            the last seconds, while it is recorded
  icecore-report tui --follow demo.icecore --last 1m --comm cc1 | cat

Press ? for the keys. The recording is loaded once; the filters of this command line stay, and all others are answered \
in memory. tui draws on a terminal of at least 80 columns and 24 lines; it has no JSON (--json): use top, tree or \
timeline for it. With --color never it uses bold and reversed text only.

--follow reads only what the recorder adds, and shows every --interval which functions the samples of the last --last hit, by \
their innermost frames. Of a folder it follows the newest recording, and goes on with the next file of a rotation. Keys: w shows \
the whole recording or the last seconds, q quits. If stdout is no terminal, it prints a table each time; with --json a line. It ends when \
the recording ends. A recorder collects most names at the end of a file, so --follow takes them from files of this machine that are \
proven to be the recorded ones.")]
pub struct Args {
    /// Show a recording that is being written: a table of the last seconds, again and again
    #[arg(long)]
    pub follow: bool,
    /// With --follow: the time between two tables
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = stretch, requires = "follow")]
    pub interval: Duration,
    /// With --follow: the time that a table is about; `all`: the whole recording
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = last, requires = "follow")]
    pub last: Last,
    /// With --follow: the most rows where stdout is no terminal
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 20, requires = "follow")]
    pub rows: usize,
}

/// What a table of a recording that is being written is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// The last seconds.
    Stretch(Duration),
    /// Everything since the recording began.
    All,
}

/// The longest stretch of time that can be typed.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The shortest one.
const SHORTEST: Duration = Duration::from_millis(100);

fn stretch(text: &str) -> std::result::Result<Duration, String> {
    let moment: Moment = text.parse()?;
    let time = Duration::from_nanos(moment.ns);
    if (SHORTEST..=LONGEST).contains(&time) {
        Ok(time)
    } else {
        Err("must be between 100ms and 24h".to_owned())
    }
}

fn last(text: &str) -> std::result::Result<Last, String> {
    if text == "all" { Ok(Last::All) } else { stretch(text).map(Last::Stretch) }
}

impl View for Args {
    fn check(&self, screen: &Screen<'_>) -> Result<()> {
        let why = if screen.json {
            "cannot print JSON: tui draws on a terminal; use top, tree or timeline with --json"
        } else if !io::stdout().is_terminal() {
            "cannot draw: stdout is no terminal; use summary, top, tree or timeline for text"
        } else if std::env::var_os("TERM").is_some_and(|name| name == "dumb") {
            "cannot draw: this terminal cannot move its cursor (TERM=dumb); use summary, top, tree or timeline"
        } else {
            return Ok(());
        };
        Err(Error::Refused(why.to_owned()))
    }

    fn needs(&self, _: &Select, _: u32) -> Needs {
        let (threads, events, moments) = (true, true, true);
        Needs {
            apart: Apart { threads, events, moments, waits: WaitsApart::Rows, ..Apart::default() },
            tells_quality: true,
            is_no_page: true,
            lists_samples: true,
            events: Some(EventChoice::All),
        }
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        let report = shown.report;
        let facts = Facts::new(report);
        let owners = [Owner::Process, Owner::Thread].map(|by| Owners::new(report, by));
        let [processes, threads] = owners;
        let explorer = Explorer::new(
            &report.profile,
            explore::Owners {
                processes: processes.keys.len(),
                threads: threads.keys.len(),
                process_of_thread: processes.of_thread,
                thread_of_thread: threads.of_thread,
                units: facts.events.iter().map(|event| event.unit.clone()).collect(),
            },
        );
        let facts = Facts { processes: named(&processes.keys), threads: named(&threads.keys), ..facts };
        terminal::run(&mut App::new(&facts, &explorer), screen.color)?;
        Ok(true)
    }
}

/// What is known of a recording besides its samples.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The path of the recording.
    path: String,
    /// The events, by position.
    events: Vec<Event>,
    /// The processes: number and name.
    processes: Vec<Owned>,
    /// The threads: numbers and name.
    threads: Vec<Owned>,
    /// When the recording began, ns on the common clock.
    zero_ns: u64,
    /// From when to when it was recorded, ns on the common clock.
    span_ns: (u64, u64),
    /// The stretches in which it was sampled, in the order of time; empty if that is all the time.
    ran_ns: Vec<(u64, u64)>,
    /// How good the data is.
    verdict: Option<(Verdict, String)>,
    /// Samples in the file.
    in_file: u64,
    /// Samples that were lost.
    lost: u64,
    /// What limits the data: problems, losses, damage, filters of the command line.
    remarks: Vec<String>,
    /// The filters of the command line.
    filtered: Option<String>,
}

/// An event of the recording.
#[derive(Debug, Default)]
struct Event {
    name: Box<str>,
    unit: Box<str>,
    is_cpu_time: bool,
    is_wait: bool,
    /// The event is selected until the user selects others.
    is_usual: bool,
}

/// A process or a thread.
#[derive(Debug, Default)]
struct Owned {
    /// The host if there are several, then the numbers.
    id: Box<str>,
    name: Box<str>,
}

fn named(keys: &[OwnerName]) -> Vec<Owned> {
    let owned = |key: &OwnerName| {
        let mut cells = key.cells();
        let name = cells.pop().unwrap_or_default().into();
        Owned { id: cells.join(" ").into(), name }
    };
    keys.iter().map(owned).collect()
}

impl Facts {
    fn new(report: &Report<'_>) -> Self {
        let (loaded, tables) = (report.loaded, &report.loaded.tables);
        let in_file = tables.sample_blocks.iter().map(|block| u64::from(block.header.items)).sum();
        let described = tables.parts.events();
        // Events that the command line names are all selected.
        let chosen = match loaded.filter.events {
            EventChoice::All => EventChoice::Usual.among(described),
            _ => loaded.events.clone(),
        };
        let events = (0..=u8::MAX).zip(described).map(|(position, event)| Event {
            name: event.name.as_str().into(),
            unit: event.unit.as_str().into(),
            is_cpu_time: Meaning::of(event) == Meaning::CpuTime,
            is_wait: Meaning::of(event) == Meaning::Wait,
            is_usual: chosen.has(position),
        });
        let spans = Spans::new(tables, &loaded.filter);
        let quality = Quality::new(report);
        let verdict = (quality.verdict, quality.said());
        let lost = quality.lost.samples;
        let mut remarks = quality.problems;
        let losses = other_losses(tables);
        remarks
            .extend(losses.iter().map(|(cause, number)| format!("lost besides samples: {cause} {number}")));
        let without = loaded.hits.seen.without_frames;
        if without > 0 {
            remarks
                .push(format!("{} without a frame on the wanted side left out", things(without, "sample")));
        }
        if report.profile.emptied > 0 {
            let emptied = things(report.profile.emptied, "sample");
            remarks.push(format!("{emptied} of which --hide left no frame, left out"));
        }
        remarks.extend(tables.damage.iter().map(|damage| format!("damaged: {damage}")));
        Self {
            path: shown(loaded.path),
            events: events.collect(),
            zero_ns: tables.parts.zero_ns(),
            span_ns: spans.hull_ns(),
            ran_ns: spans.ran_apart_ns(),
            verdict: Some(verdict),
            in_file,
            lost,
            remarks,
            filtered: report.filtered.clone(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
