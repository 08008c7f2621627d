//! Runs `archive`: opens the folder, finds the selected recordings, does one action. One file for each kind of action.

mod add;
mod check;
mod exchange;
mod fleet;
mod listing;
mod moving;
mod prune;
mod search;
mod serve;
mod site;
mod view;

use std::collections::HashMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{anyhow, bail};
use icecore_archive::archive::{Index, Listed};
use icecore_archive::folder::Local;
use icecore_archive::{Archive, Folder, Selection};

use icecore_format::read::Recording;

use super::Streams;
use crate::cli::{Action, Archive as Options, Began, Chosen, Global};
use crate::input;
pub(super) use add::add_one;
pub(super) use view::prints_json;

/// Does what was typed; returns the exit code.
pub(super) fn archive(options: &Options, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let folder = &options.folder;
    let open = || opened(folder);
    match &options.action {
        Action::Add(add) => add::add(add, folder, global, streams),
        Action::List(chosen) => listing::list(&open()?, chosen, global, streams),
        Action::Show(chosen) => listing::show(&open()?, chosen, global, streams),
        Action::Search(search) => search::search(&open()?, search, global, streams),
        Action::Get(get) => add::get(&open()?, get, global, streams),
        Action::Verify(verify) => check::verify(&open()?, verify, global, streams),
        Action::Reindex(reindex) => check::reindex(&open()?, reindex, global, streams),
        Action::Compact => check::compact(&open()?, global, streams),
        Action::Prune(options) => prune::prune(&open()?, options, global, streams),
        Action::Push(options) => moving::push(&open()?, options, global, streams),
        Action::Pull(options) => moving::pull(folder, options, global, streams),
        Action::Send(chosen) => moving::answer_pull(&open()?, chosen),
        Action::Receive => moving::answer_push(folder),
        Action::Gc => check::gc(&open()?, global, streams),
        Action::Serve(options) => serve::serve(&open()?, options, global, streams),
        Action::Outliers(options) => fleet::outliers(&open()?, options, global, streams),
        Action::Regressions(options) => fleet::regressions(&open()?, options, global, streams),
        Action::Quality(options) => fleet::trend(&open()?, options, global, streams),
        Action::Nights(options) => fleet::trend_by_night(&open()?, options, global, streams),
        Action::Baseline(options) => fleet::baseline(&open()?, options, global, streams),
        Action::View(typed) => view::view(&open()?, typed, global, streams),
    }
}

/// Opens the archive that a user typed.
fn opened(typed: &Path) -> anyhow::Result<Archive> {
    Ok(Archive::open(Folder::of(typed)?)?)
}

/// Opens it, or makes one.
fn opened_or_created(typed: &Path) -> anyhow::Result<Archive> {
    Ok(Archive::open_or_create(Folder::of(typed)?)?)
}

/// The selected sessions of an archive.
struct Found {
    index: Index,
    listed: Vec<Listed>,
}

impl Found {
    /// Finds what was typed.
    fn new(archive: &Archive, chosen: &Chosen) -> anyhow::Result<Self> {
        let selection = selection(chosen.selection.as_deref(), &chosen.began)?;
        Self::of(archive, &selection)
    }

    fn of(archive: &Archive, selection: &Selection) -> anyhow::Result<Self> {
        let index = archive.index(|partition| selection.may_be_in(partition));
        let index = index.map_err(|error| {
            let folder = archive.folder().root().display();
            anyhow!(
                "{:#}; mend it with `icecore-report archive {folder} reindex --all`",
                anyhow::Error::new(error)
            )
        })?;
        let listed = index.listed.iter().filter(|listed| selection.has(&index, listed)).cloned().collect();
        Ok(Self { index, listed })
    }

    /// Lists the UUIDs of the recordings, each once, in the order of their first sessions.
    fn uuids(&self) -> Vec<&str> {
        let mut uuids: Vec<&str> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for listed in &self.listed {
            let uuid = self.index.text(listed.row.uuid);
            if seen.insert(uuid) {
                uuids.push(uuid);
            }
        }
        uuids
    }

    /// Returns how many sessions of each recording are selected.
    fn sessions(&self) -> HashMap<&str, usize> {
        let mut sessions = HashMap::new();
        let uuids = self.listed.iter().map(|listed| self.index.text(listed.row.uuid));
        uuids.for_each(|uuid| *sessions.entry(uuid).or_default() += 1);
        sessions
    }

    /// Fails if nothing is selected.
    fn or_none(self, archive: &Archive) -> anyhow::Result<Self> {
        if self.listed.is_empty() {
            let folder = archive.folder().root().display();
            bail!(
                "no recording in `{folder}` is selected; `icecore-report archive {folder} list` shows what is there"
            );
        }
        Ok(self)
    }
}

/// Reads a selection as it was typed.
fn selection(terms: Option<&str>, began: &Began) -> anyhow::Result<Selection> {
    let selection: Selection = terms.unwrap_or_default().parse()?;
    let (since_us, until_us) = times(began);
    Ok(selection.between(since_us, until_us))
}

/// From when on, and until when, µs since 1970-01-01 UTC.
fn times(began: &Began) -> (Option<i64>, Option<i64>) {
    let until_us = began.until.map(|until| until.0);
    let since_us = match (began.last, began.since) {
        (Some(last), _) => Some(until_us.unwrap_or_else(now_us).saturating_sub(last.us())),
        (None, since) => since.map(|since| since.0),
    };
    (since_us, until_us)
}

fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// A recording of the archive, and the file in which it lies.
struct Opened {
    local: Local,
    recording: Recording,
}

impl Opened {
    /// Opens a recording, given the name of its file in the archive.
    fn new(archive: &Archive, name: &Path) -> anyhow::Result<Self> {
        loop {
            let local = archive.local(name)?;
            match input::open(local.path()) {
                // A neighbour has just taken its names out of it.
                Err(_) if !local.path().exists() => {}
                opened => return Ok(Self { recording: opened?, local }),
            }
        }
    }
}

/// A path below the archive, as it is printed.
fn below(archive: &Archive, name: &Path) -> String {
    archive.folder().path(name).display().to_string()
}
