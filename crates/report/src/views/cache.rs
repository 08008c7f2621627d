//! `cache`: the cached answers of earlier reports.

use serde::Serialize;

use icecore_profile::named::cache::{Cache, Stats};
use icecore_text::Page;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, things};

/// The contents of the cache, or what was removed from it.
#[derive(Debug, Serialize)]
pub struct CacheView {
    schema: &'static str,
    dir: String,
    images: u64,
    recordings: u64,
    unusable: u64,
    bytes: u64,
    cleared: bool,
}

impl CacheView {
    /// Describes a cache; with `cleared` all of it was just removed.
    pub fn new(cache: &Cache, stats: &Stats, cleared: bool) -> Self {
        let dir = cache.dir().display().to_string();
        let Stats { images, recordings, unusable, bytes } = *stats;
        Self { schema: "icecore.cache/1", dir, images, recordings, unusable, bytes, cleared }
    }

    /// Writes the text.
    pub fn text(&self, page: &mut Page) {
        let (images, recordings) = (things(self.images, "image"), things(self.recordings, "recording"));
        let what = format!("names of {images}, stacks of {recordings}, {}", bytes(self.bytes));
        let unusable = match self.unusable {
            0 => String::new(),
            unusable => format!("; {} damaged or of another version, not used", things(unusable, "file")),
        };
        let dir = shown(std::path::Path::new(&self.dir));
        page.line(&if self.cleared {
            format!("removed from {dir}: {what}{unusable}")
        } else {
            format!("{dir}: {what}{unusable}")
        });
    }
}
