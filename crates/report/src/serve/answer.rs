//! What lies at which path of the server.

use std::path::PathBuf;

use hyper::body::Bytes;
use serde_json::json;

use super::Served;
use super::asm::asm;
use super::http::{Answer, Asked};
use super::source::source;
use super::symbolicate::symbolicate;
use icecore_analysis::quality::Quality;
use icecore_export::modules::Modules;
use icecore_export::{Exported, firefox};
use icecore_page::{Page, PageCode, PageSide, zipped};
use icecore_profile::named::pipeline::Report;

/// A page and its recordings.
pub struct Answers<'a> {
    page: &'a Page,
    content: Bytes,
    sides: &'a [PageSide<'a>],
    /// The same recordings with the events that views show.
    usual: &'a [Report<'a>],
    recordings: Vec<Served<'a>>,
    modules: Modules,
    code: PageCode,
    /// Compressed profiles of the recordings that were asked for.
    profiles: Vec<Option<Bytes>>,
}

impl<'a> Answers<'a> {
    /// Prepares the answers.
    ///
    /// # Cost    opens the files of all images that were hit
    pub fn new(
        page: &'a mut Page,
        (sides, usual): (&'a [PageSide<'a>], &'a [Report<'a>]),
        source_dirs: &'a [PathBuf],
    ) -> Self {
        let content = Bytes::from(std::mem::take(&mut page.bytes));
        let recordings: Vec<Served<'_>> =
            sides.iter().filter_map(|side| Served::new(side.report, source_dirs)).collect();
        let mut modules = Modules::default();
        for (position, served) in recordings.iter().enumerate() {
            modules.add_all(position, served.located, &served.locator, &served.finder());
        }
        let code = PageCode { functions: 0, source_dirs: source_dirs.to_vec(), is_given_away: false };
        let profiles = recordings.iter().map(|_| None).collect();
        Self { page, content, sides, usual, recordings, modules, code, profiles }
    }

    /// Answers one request; `remark` receives what the user should know about the answer.
    pub fn answer(&mut self, asked: &Asked, remark: &mut dyn FnMut(String)) -> Answer {
        let Asked { path, query, body } = asked;
        let (recordings, modules) = (&self.recordings[..], &self.modules);
        match (path.as_str(), body) {
            ("/", None) => Answer::html(self.content.clone()),
            ("/code", None) => self.code(query),
            ("/profile.json", None) => self.profile(0),
            ("/profile-2.json", None) => self.profile(1),
            ("/symbolicate/v5", Some(body)) => in_json(symbolicate(recordings, modules, body)),
            ("/asm/v1", Some(body)) => in_json(asm(recordings, modules, body).map(|it| it.to_string())),
            ("/source/v1", Some(body)) => {
                in_json(source(recordings, modules, body).map(|(answer, unproven)| {
                    unproven.into_iter().for_each(remark);
                    answer.to_string()
                }))
            }
            _ => Answer::nothing(),
        }
    }

    /// Answers the page, which asks for the code of a function by its own numbers.
    fn code(&self, query: &str) -> Answer {
        let word = |name: &str| query.split('&').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let side = word("side").and_then(|word| word.parse().ok());
        let function = word("function").and_then(|word| word.parse().ok());
        let code = side.zip(function).map(|function| self.page.code(self.sides, function, &self.code));
        match code {
            Some(Ok(Some(bytes))) => Answer::bytes(bytes.into()),
            Some(Err(why)) => Answer::failed(&why.to_string()),
            _ => Answer::nothing(),
        }
    }

    fn profile(&mut self, recording: usize) -> Answer {
        let Self { recordings, usual, modules, profiles, .. } = self;
        let Some(known) = profiles.get_mut(recording) else { return Answer::nothing() };
        if let Some(known) = known {
            return Answer::json(known.clone(), true);
        }
        let (served, quality) = (&recordings[recording], Quality::new(&usual[recording]));
        let exported = Exported::new(served.report, served.located, &quality);
        let mut profile = Vec::new();
        let made = firefox::write(&exported, modules, recording, &mut profile);
        match made.and_then(|()| zipped(&profile)) {
            Ok(bytes) => Answer::json(known.insert(bytes.into()).clone(), true),
            Err(why) => Answer::failed(&why.to_string()),
        }
    }
}

/// The Profiler shows an error only if the status says that there is none.
fn in_json(answer: Result<String, String>) -> Answer {
    let answer = answer.unwrap_or_else(|why| json!({ "error": why }).to_string());
    Answer::json(answer.into(), false)
}
