//! `archive serve`: answers a browser with the documents of the other commands, as pages.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;

use anyhow::Context as _;
use hyper::body::Bytes;
use icecore_archive::Archive;
use icecore_text::door::{Door, Kind};
use serde::Serialize;
use serde_json::Value;

use super::super::{Streams, again, emit};
use super::listing::name;
use super::site::{Asking, Query, Site};
use crate::cli::{Global, ServeArchive};
use crate::serve::http::{Answer, Asked, Socket};
use icecore_text::path::shown;

/// Where the archive is served.
#[derive(Debug, Serialize)]
struct Serving {
    schema: &'static str,
    archive: String,
    /// The address of the first page, with the token.
    page: String,
}

/// Runs commands of the report on the archive that is served.
struct Commands<'a, 's> {
    archive: &'a Archive,
    global: &'a Global,
    streams: &'a mut Streams<'s>,
}

/// Serves the archive; returns the exit code.
pub(super) fn serve(
    archive: &Archive,
    options: &ServeArchive,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    // What is typed is wrong now, and not on the first page.
    super::selection(options.chosen.selection.as_deref(), &options.chosen.began)?;
    let socket = Socket::open(options.port, "").with_context(|| match options.port {
        0 => "cannot open a socket on 127.0.0.1".to_owned(),
        port => format!("cannot open port {port} of 127.0.0.1: give another --port"),
    })?;
    let site = Site { archive: name(archive), first: Query::of_chosen(&options.chosen) };
    let page = format!("{}{}", socket.url, site.first.address("list"));
    let serving = Serving { schema: "icecore.archive.serve/1", archive: name(archive), page };
    emit(global, streams, &serving, |page| {
        page.line(&format!("serving {}; Ctrl-C ends it", shown(archive.folder().root())));
        page.line(&format!("  page  {}", serving.page));
    })?;
    let mut commands = Commands { archive, global, streams };
    socket.serve(|asked| answer(&site, asked, &mut commands))?;
    Ok(0)
}

fn answer(site: &Site, Asked { path, query, body }: &Asked, commands: &mut Commands<'_, '_>) -> Answer {
    if body.is_some() {
        return Answer::nothing();
    }
    match site.page(path, &Query::of_address(query), commands) {
        Some(page) => Answer::html(Bytes::from(page)),
        None => Answer::nothing(),
    }
}

impl Commands<'_, '_> {
    /// Runs a command on the archive; returns what it printed.
    fn run(&mut self, words: &[String]) -> Result<Vec<u8>, String> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let folder = self.archive.folder().root().as_os_str().to_owned();
        let arguments = ["icecore-report".into(), "archive".into(), folder].into_iter();
        let arguments: Vec<OsString> = arguments.chain(words.iter().map(OsString::from)).collect();
        let global = Global { json: true, quiet: true, ..self.global.clone() };
        let (cache, reader) = (self.streams.cache.clone(), self.streams.reader.clone());
        let mut door = Door::new(&mut out, Kind::Json);
        let mut streams = Streams { cache, reader, ..Streams::plain(&mut door, &mut err) };
        // The exit code says that a check failed: the document says it, too.
        let done = again(arguments, &global, &mut streams)?.map_err(|error| format!("{error:#}"));
        let _code = done?;
        door.flush().map_err(|error| error.to_string())?;
        drop(door);
        Ok(out)
    }
}

impl Asking for Commands<'_, '_> {
    fn document(&mut self, words: &[String]) -> Result<Value, String> {
        let out = self.run(words)?;
        serde_json::from_slice(&out).map_err(|error| format!("bug: no document: {error}"))
    }

    fn page(&mut self, words: &[String]) -> Result<Vec<u8>, String> {
        let folder = tempfile::tempdir().map_err(|error| {
            let folder = std::env::temp_dir();
            format!(
                "cannot write into the folder for temporary files `{}`: {error}: set TMPDIR",
                folder.display()
            )
        })?;
        let file = folder.path().join("page.html");
        let output = ["-o".to_owned(), file.display().to_string()];
        self.run(&[words, &output].concat())?;
        fs::read(&file).map_err(|error| error.to_string())
    }
}
