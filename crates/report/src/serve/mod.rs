//! Serves a page on loopback, and answers what it and the Firefox Profiler ask about its recordings.
//!
//! | module | what lives there |
//! |---|---|
//! | [`http`] | who may ask: the socket, the token, hosts, origins, limits |
//! | [`answer`] | what lies at which path |
//! | `symbolicate`, `source`, `asm` | the three questions of the Firefox Profiler to a symbol server |
//!
//! Only images of the recordings are looked up, and only source files that their debug information names for code that was asked
//! about: no request names a path that is opened.

pub mod answer;
mod asm;
pub mod http;
mod source;
mod symbolicate;

use std::path::PathBuf;

use icecore_listing::code::CodeFinder;
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::source::SourceFinder;
use icecore_profile::recording::EmbeddedFiles;
use icecore_profile::recording::code::StoredCode;
use icecore_profile::recording::sources::StoredSources;
use icecore_profile::stacks::locate::{Located, Locator};
use icecore_symbolize::image::Finder;

/// A recording that is served.
struct Served<'a> {
    report: &'a Report<'a>,
    located: &'a Located,
    locator: Locator<'a>,
    embedded: EmbeddedFiles<'a>,
    stored: StoredSources<'a>,
    stored_code: StoredCode<'a>,
    source_dirs: &'a [PathBuf],
}

impl<'a> Served<'a> {
    /// Prepares a recording; `None` if its stacks were not located.
    fn new(report: &'a Report<'a>, source_dirs: &'a [PathBuf]) -> Option<Self> {
        let loaded = report.loaded;
        let locator = Locator::new(&loaded.tables, &loaded.spaces);
        let embedded = locator.embedded(loaded.recording);
        let stored = StoredSources::new(loaded.recording, &loaded.tables, |id| locator.image(id));
        let stored_code = StoredCode::new(loaded.recording, &loaded.tables, |id| locator.image(id));
        Some(Self { report, located: report.located?, locator, embedded, stored, stored_code, source_dirs })
    }

    fn finder(&self) -> Finder<'_> {
        Finder { search: self.report.loaded.search, embedded: Some(&self.embedded) }
    }

    fn code<'s>(&'s self, finder: &'s Finder<'_>) -> CodeFinder<'s> {
        CodeFinder { images: &self.locator.images, finder, stored: &self.stored_code }
    }

    fn sources<'s>(&'s self, finder: &'s Finder<'_>) -> SourceFinder<'s> {
        SourceFinder { images: &self.locator.images, finder, stored: &self.stored, dirs: self.source_dirs }
    }
}
