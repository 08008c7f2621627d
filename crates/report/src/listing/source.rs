//! Finds the source texts of a recording, with their proof: in the recording, below folders of the user, or where the compiler read
//! them.

use std::path::PathBuf;

use icecore_symbolize::image::{FileOff, Finder, Identity};
use icecore_symbolize::source::{self, Checksums, NoSource, Proof};
use icecore_symbolize::{Wanted, source_checksums};

/// Where source texts are searched.
#[derive(Debug, Clone, Copy)]
pub struct SourceFinder<'a> {
    /// Where images are searched: they say which text was compiled.
    pub finder: &'a Finder<'a>,
    /// Folders of the user.
    pub dirs: &'a [PathBuf],
}

/// The text of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The lines, without their ends; bytes that are not UTF-8 are replaced.
    pub lines: Vec<String>,
    /// Where it is.
    pub origin: Origin,
    /// Whether it is what was compiled.
    pub proof: Proof,
    /// The file was modified after the image was linked, so it may be another version.
    pub is_newer: bool,
}

/// Where a source text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// On this machine.
    Here(PathBuf),
}

impl Origin {
    /// Returns the name in JSON; these names never change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Here(_) => "here",
        }
    }
}

impl SourceFinder<'_> {
    /// Finds the text of a source file of code that is in no image.
    ///
    /// # Errors  why there is no text
    pub fn unproven(&self, path: &str) -> Result<Source, NoSource> {
        let found = source::find(path, &Checksums::default(), self.dirs, self.finder.search)?;
        Ok(Source {
            lines: split(&found.text),
            origin: Origin::Here(found.path),
            proof: found.proof,
            is_newer: false,
        })
    }

    /// Finds the text of a source file, given its path as the compiler wrote it, an image that was compiled from it, and offsets of
    /// its code, which ascend.
    ///
    /// # Errors  why there is no text
    /// # Cost    reads the first entries of all units of the image
    pub fn find(&self, path: &str, image: &Identity, offsets: &[FileOff]) -> Result<Source, NoSource> {
        let sums = source_checksums(&Wanted { image, offsets }, &[path], self.finder);
        let found = source::find(path, &sums[0], self.dirs, self.finder.search)?;
        let is_newer = image.modified_unix_ns > 0 && found.modified_unix_ns > image.modified_unix_ns;
        Ok(Source {
            lines: split(&found.text),
            origin: Origin::Here(found.path),
            proof: found.proof,
            is_newer: is_newer && found.proof == Proof::Unchecked,
        })
    }
}

fn split(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().map(str::to_owned).collect()
}
