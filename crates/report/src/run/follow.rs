//! `tui --follow`: shows a recording while it is written, and the files of a rotation one after the other.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use icecore_format::block::Kind;
use icecore_format::read::growing::Growing;
use icecore_format::records::{Block, EndReason, SessionV1};
use icecore_profile::live::{End, Follower};
use icecore_profile::recording::load::clean;
use icecore_symbolize::image::Finder;

use super::newest::{newest_of, recordings_in};
use super::{Streams, lookup, samples, screen};
use crate::cli::{Global, Select};
use crate::views::tui::live::{self, Asked, Last, Live};
use crate::views::{Typed, tui};

/// How long a file without its first block, and the next file of a rotation, are waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked for them.
const LOOK: Duration = Duration::from_millis(100);

/// Shows `tui`; returns the exit code.
pub(super) fn tui(
    typed: &Typed<tui::Args>,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let Typed { view, source } = typed;
    if !view.follow {
        return samples::show(typed, global, streams);
    }
    refuse(&source.select)?;
    let search = lookup::search(&source.select.lookup, None, streams)?;
    let named = match &source.files[..] {
        [] => Path::new("."),
        [one] => one,
        _ => bail!("cannot follow several recordings: name one file or one folder"),
    };
    let path = newest_of(named, global, streams)?;
    let window = match view.last {
        Last::Stretch(window) => window,
        Last::All => Duration::from_secs(10),
    };
    let filter = source.select.filter();
    let begun = Instant::now();
    let growing = loop {
        match Growing::open(&path) {
            Err(icecore_format::Error::NoHeader { .. }) if begun.elapsed() < PATIENCE => sleep(LOOK),
            opened => break opened.with_context(|| format!("cannot follow `{}`", path.display()))?,
        }
    };
    let follower = Follower::new(growing, filter, window.as_nanos() as u64).unhurried();
    let finder = Finder { search: &search, embedded: None };
    let mut followed = Followed {
        follower,
        path,
        finder,
        changed: Instant::now(),
        seen: 0,
        waits: None,
        gaps_ns: 0,
        ended: None,
    };
    let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    let draws = streams.width.is_some() && !global.json && !is_dumb;
    if draws {
        let color = screen(global, streams).color;
        let mut failed = None;
        live::draw(color, view.interval, view.last, |asked| match followed.next(asked) {
            Ok(live) => followed.ended.is_none().then_some(live),
            Err(error) => {
                failed = Some(error);
                None
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        if followed.ended.is_none() {
            return Ok(0);
        }
    }
    loop {
        let is_whole = view.last == Last::All;
        let live = followed.next(Asked { is_whole, rows: view.rows, is_due: true })?;
        let mut screen = screen(global, streams);
        if screen.json {
            screen.one_line(&live)?;
        } else {
            screen.emit(&live, |page| {
                live.text(page);
                page.line("");
            })?;
        }
        if let Some(ended) = &followed.ended {
            if !screen.json {
                writeln!(screen.out, "{ended}")?;
            }
            screen.out.flush()?;
            return Ok(0);
        }
        sleep(view.interval);
    }
}

/// Refuses what needs whole stacks, or a recording that has ended.
fn refuse(select: &Select) -> anyhow::Result<()> {
    let which = &select.which;
    let patterns = select.has_patterns() || select.native || select.fold_interpreters;
    let refused = [
        (patterns, "--focus, --ignore, --hide, --show, --language, --native and --fold-interpreters"),
        (which.from.is_some() || which.to.is_some(), "--from and --to"),
        (!select.lookup.debuginfod.is_empty(), "--debuginfod"),
    ];
    match refused.into_iter().find(|(is_asked, _)| *is_asked) {
        Some((_, options)) => Err(anyhow!(
            "cannot follow with {options}: --follow shows the innermost frames of the last seconds (--last)"
        )),
        None => Ok(()),
    }
}

/// A recording that is followed.
struct Followed<'a> {
    follower: Follower,
    path: PathBuf,
    finder: Finder<'a>,
    /// When something new was last seen, and what the clock of the recording showed then.
    changed: Instant,
    seen: u64,
    /// Since when the next file of a rotation is waited for.
    waits: Option<Instant>,
    /// The time between files, because files between them were gone.
    gaps_ns: u64,
    /// How the recording ended, in words.
    ended: Option<String>,
}

impl Followed<'_> {
    /// Reads what is new, if that is asked for, and makes a table.
    fn next(&mut self, asked: Asked) -> anyhow::Result<Live> {
        if asked.is_due && self.ended.is_none() {
            self.read()?;
        }
        let now = self.follower.now(asked.is_whole, asked.rows, &self.finder);
        if std::mem::replace(&mut self.seen, now.span_ns.1) != now.span_ns.1 {
            self.changed = Instant::now();
        }
        // Its names were not collected, and nothing says what it lost.
        if self.changed.elapsed() >= live::SILENT
            && self.ended.is_none()
            && self.follower.file().is_abandoned()
        {
            self.ended = Some("the recording has not ended properly: its recorder is gone".to_owned());
        }
        let is_paused = self.follower.is_paused() && self.ended.is_none();
        let live = Live::new(&now, &self.path, self.changed.elapsed(), self.gaps_ns, self.ended.clone());
        Ok(live.paused(is_paused))
    }

    fn read(&mut self) -> anyhow::Result<()> {
        loop {
            let cannot = || format!("cannot follow `{}` any longer", self.path.display());
            let Some(end) = self.follower.read(&self.finder).with_context(cannot)? else {
                if !self.follower.file().is_at(&self.path) {
                    bail!("{}: somebody has removed, renamed or replaced it", cannot());
                }
                self.waits = None;
                return Ok(());
            };
            if end.reason != EndReason::ROTATED {
                self.ended = Some(format!("the recording has ended: {}", end.reason.name()));
                return Ok(());
            }
            let Some((path, growing, gap_ns)) = next_file(&self.path, end, self.follower.boot_id()) else {
                let since = *self.waits.get_or_insert_with(Instant::now);
                if since.elapsed() >= PATIENCE {
                    self.ended =
                        Some("the recording went on in another file, which is not in this folder".to_owned());
                }
                return Ok(());
            };
            self.follower.go_on(growing, &self.finder);
            self.gaps_ns += gap_ns;
            (self.path, self.waits) = (path, None);
        }
    }
}

/// Finds the file that follows one of a rotation, and the time between them: it begins at the very moment at which the other ends. If
/// files between them are gone, it is the earliest one of those of the same name.
fn next_file(path: &Path, end: End, boot_id: &str) -> Option<(PathBuf, Growing, u64)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut later: Vec<(u64, PathBuf)> = Vec::new();
    for other in recordings_in(folder).ok()? {
        let Some(session) = session(&other) else { continue };
        if session.boot_id == boot_id
            && session.start_ns >= end.end_ns
            && other.file_name() != path.file_name()
        {
            let is_next = session.start_ns == end.end_ns;
            if is_next || prefix(&other) == prefix(path) {
                later.push((session.start_ns, other));
            }
        }
    }
    let (start_ns, next) = later.into_iter().min()?;
    Some((next.clone(), Growing::open(&next).ok()?, start_ns - end.end_ns))
}

/// The name of a file of a rotation without its time: `PREFIX-20261130T101112.123Z.icecore`.
fn prefix(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.rsplit_once('-').map(|(prefix, _)| prefix)
}

/// Reads the first block of a recording.
fn session(path: &Path) -> Option<SessionV1> {
    let mut growing = Growing::open(path).ok()?;
    let first = growing.next_block().ok()?.filter(|entry| entry.header.kind == Kind::SESSION)?;
    match growing.block::<Vec<u8>, Box<str>>(&first, clean).ok()? {
        Some(Block::Session(session)) => Some(*session),
        _ => None,
    }
}
