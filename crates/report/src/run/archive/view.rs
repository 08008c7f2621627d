//! Views of selected recordings: the command line of the view, with the files of the selection.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context as _, bail};
use icecore_archive::Archive;
use icecore_archive::folder::Local;

use super::super::merged::Merged;
use super::super::{Streams, again};
use super::add::listed;
use super::{Found, now_us, selection};
use crate::cli::{Action, Began, Global};

/// Views that take one recording.
const OF_ONE: [&str; 13] = [
    "summary", "top", "annotate", "tree", "tui", "flame", "html", "folded", "samples", "depth", "timeline",
    "health", "missing",
];

/// Of these, those that have a title.
const TITLED: [&str; 2] = ["flame", "html"];

fn is_title(option: &OsString) -> bool {
    option.as_encoded_bytes().starts_with(b"--title")
}

/// Returns true if a view of an archive was told to print JSON.
pub(in crate::run) fn prints_json(action: &Action) -> bool {
    matches!(action, Action::View(typed) if typed.iter().any(|word| word == "--json"))
}

/// What was typed behind the name of a view.
struct TypedView {
    selections: Vec<String>,
    began: Began,
    /// The options of the view.
    options: Vec<OsString>,
}

impl TypedView {
    fn new(words: &[OsString]) -> anyhow::Result<Self> {
        let (mut selections, mut began, mut options) = (Vec::new(), Began::default(), Vec::new());
        let mut words = words.iter().peekable();
        while let Some(word) = words.next_if(|word| !word.as_encoded_bytes().starts_with(b"-")) {
            selections.push(word.to_str().context("a selection must be UTF-8")?.to_owned());
        }
        while let Some(word) = words.next() {
            let text = word.to_str().unwrap_or_default();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            if !matches!(name, "--last" | "--since" | "--until") {
                options.push(word.clone());
                continue;
            }
            let value = value.or_else(|| words.next()?.to_str());
            let value = value.with_context(|| format!("{name} needs a value"))?;
            let wrong = |cause: String| anyhow::anyhow!("{name} {value}: {cause}");
            match name {
                "--last" => began.last = Some(value.parse().map_err(wrong)?),
                "--since" => began.since = Some(value.parse().map_err(wrong)?),
                _ => began.until = Some(value.parse().map_err(wrong)?),
            }
        }
        if began.last.is_some() && began.since.is_some() {
            bail!("--last and --since say the same: use one of them");
        }
        Ok(Self { selections, began, options })
    }
}

/// Shows a view; returns the exit code.
pub(super) fn view(
    archive: &Archive,
    typed: &[OsString],
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    loop {
        let mut are_there = true;
        let shown = once(archive, typed, &mut are_there, global, streams);
        // A neighbour has taken the names out of a recording after it was found.
        if shown.is_ok() || are_there {
            return shown;
        }
    }
}

/// As above; also says whether the files of the selection are still there.
fn once(
    archive: &Archive,
    typed: &[OsString],
    are_there: &mut bool,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let Some((name, words)) = typed.split_first() else { bail!("name an action or a view") };
    if let Some(action) = of_tables(name, words) {
        let folder = archive.folder().root().as_os_str();
        let arguments = ["icecore-report".as_ref(), "archive".as_ref(), folder, action.0.as_ref()];
        let arguments = arguments.map(OsString::from).into_iter().chain(action.1).collect();
        return again(arguments, global, streams).map_err(anyhow::Error::msg)?;
    }
    let mut typed = TypedView::new(words)?;
    // The function that `annotate` shows comes last, as it does behind a file.
    let function = if name == "annotate" { typed.selections.pop() } else { None };
    let mut arguments: Vec<OsString> = vec!["icecore-report".into(), name.clone()];
    arguments.extend(typed.options.iter().cloned());
    // These live until the view is shown.
    let (mut both, mut files, mut merged) = <(_, Vec<Local>, Option<Merged>)>::default();
    let path = |file: &Local| file.path().as_os_str().to_owned();
    match name.to_str() {
        Some("diff") => {
            both = sides(archive, &typed)?;
            for (option, files) in ["--before", "--after"].into_iter().zip(&both) {
                arguments.push(option.into());
                arguments.extend(files.iter().map(path));
            }
        }
        Some("trend") => {
            files = one(archive, &typed)?;
            arguments.extend(files.iter().map(path));
        }
        Some(view) if OF_ONE.contains(&view) => {
            files = one(archive, &typed)?;
            let paths: Vec<&Path> = files.iter().map(Local::path).collect();
            let file = Merged::new(&paths).inspect_err(|_| *are_there = all_there(&files))?;
            let merged = merged.insert(file);
            // Else it would be the name of a temporary file.
            if paths.len() > 1 && TITLED.contains(&view) && !typed.options.iter().any(is_title) {
                let title = typed.selections.first().map_or("all recordings", |selection| selection);
                arguments.push(format!("--title={title}").into());
            }
            arguments.push(merged.path().as_os_str().to_owned());
            let most = 1 + usize::from(function.is_some());
            arguments.extend(function.map(OsString::from));
            // It would be shown as one more file.
            if super::super::words(&arguments).is_some_and(|words| words > most) {
                bail!(
                    "the selection comes before the options; write `archive DIR {view} [SELECTION] [OPTIONS]`"
                );
            }
        }
        _ => bail!(
            "`{}` is no action on an archive, and no view: see icecore-report archive --help",
            name.display()
        ),
    }
    let shown = again(arguments, global, streams);
    *are_there = both.iter().chain([&files]).all(|files| all_there(files));
    shown.map_err(|cause| {
        // It would name a file that nobody typed.
        let is_late = cause.starts_with("unexpected argument");
        let cause = if is_late { "the selection comes before the options".to_owned() } else { cause };
        anyhow::anyhow!("{cause}; write `archive DIR {} [SELECTION] [OPTIONS]`", name.display())
    })?
}

fn all_there(files: &[Local]) -> bool {
    files.iter().all(|file| file.path().exists())
}

/// Views that the tables answer have actions of their own: returns the action, and its arguments.
fn of_tables(view: &OsStr, words: &[OsString]) -> Option<(&'static str, Vec<OsString>)> {
    let is =
        |word: &OsString, name: &str| word == name || word.to_string_lossy().starts_with(&format!("{name}="));
    if view == "health" && words.iter().any(|word| is(word, "--baseline")) {
        return Some(("baseline", words.to_vec()));
    }
    let by = words.iter().position(|word| is(word, "--by")).filter(|_| view == "trend")?;
    let mut words = words.to_vec();
    let value = match words.remove(by).to_string_lossy().split_once('=') {
        Some((_, value)) => value.to_owned(),
        None if by < words.len() => words.remove(by).to_string_lossy().into_owned(),
        None => return None,
    };
    match &*value {
        "quality" => Some(("quality", words)),
        "night" => Some(("nights", words)),
        _ => None,
    }
}

/// The files of the one selection that was typed.
fn one(archive: &Archive, typed: &TypedView) -> anyhow::Result<Vec<Local>> {
    let terms = match &typed.selections[..] {
        [] => None,
        [terms] => Some(&**terms),
        _ => bail!("write the terms of a selection as one argument: 'host=web* release=1.4.*'"),
    };
    files(archive, terms, &typed.began)
}

/// The files before and after: of two selections, or of one in the last stretch of time and in the one before.
fn sides(archive: &Archive, typed: &TypedView) -> anyhow::Result<[Vec<Local>; 2]> {
    match (&typed.selections[..], typed.began.last) {
        ([before, after], _) => {
            let side = |terms: &String| files(archive, Some(terms), &typed.began);
            Ok([side(before)?, side(after)?])
        }
        ([] | [_], Some(last)) => {
            let terms = typed.selections.first().map(|terms| &**terms);
            let until_us = typed.began.until.map_or_else(now_us, |until| until.0);
            let side = |from: i64, to: i64| {
                let at = |stretches: i64| until_us.saturating_sub(last.us().saturating_mul(stretches));
                let chosen = selection(terms, &Began::default())?;
                let chosen = chosen.between(Some(at(from)), Some(at(to)));
                found_files(archive, Found::of(archive, &chosen)?)
            };
            Ok([side(2, 1)?, side(1, 0)?])
        }
        _ => bail!(
            "diff compares two selections, or with --last one with what it was before: see icecore-report archive --help"
        ),
    }
}

fn files(archive: &Archive, terms: Option<&str>, began: &Began) -> anyhow::Result<Vec<Local>> {
    found_files(archive, Found::of(archive, &selection(terms, began)?)?)
}

fn found_files(archive: &Archive, found: Found) -> anyhow::Result<Vec<Local>> {
    let found = found.or_none(archive)?;
    let stored = archive.recordings()?;
    let sessions = listed(archive)?;
    for (uuid, selected) in found.sessions() {
        if sessions.get(uuid).is_some_and(|sessions| *sessions > selected) {
            bail!(
                "the recording {uuid} has sessions that are not selected, and views show whole recordings: get it, and select with --host, \
                 --from and --to"
            );
        }
    }
    let file = |uuid: &str| {
        let file = stored
            .get(uuid)
            .with_context(|| format!("the archive has lost the recording {uuid}: run verify"));
        Ok(archive.file(&file?.name)?)
    };
    found.uuids().into_iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_come_first_and_times_may_be_anywhere() {
        let words = ["host=a x=b", "--by", "image", "--last=7d", "--until", "2026-09-01", "--json"];
        let typed = TypedView::new(&words.map(OsString::from)).expect("it is right");
        assert_eq!(typed.selections, ["host=a x=b"]);
        assert_eq!(typed.options, ["--by", "image", "--json"].map(OsStr::new));
        assert!(typed.began.last.is_some() && typed.began.until.is_some());
        for wrong in [vec!["--last"], vec!["--last", "soon"], vec!["--last", "1d", "--since", "2026-09-01"]] {
            let words: Vec<OsString> = wrong.into_iter().map(OsString::from).collect();
            assert!(TypedView::new(&words).is_err());
        }
    }
}
