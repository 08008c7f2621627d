//! Finds the source texts of a recording, with their proof: in the recording, below folders of the user, or where the compiler read
//! them.

use std::path::{Path, PathBuf};

use crate::recording::sources::{StoredSource, StoredSources};
use icecore_symbolize::image::{FileOff, Finder, Identity};
use icecore_symbolize::source::{self, Checksums, NoSource, Proof, SourceText};
use icecore_symbolize::{Wanted, source_checksums};

/// Where source texts are searched.
#[derive(Debug, Clone, Copy)]
pub struct SourceFinder<'a> {
    /// The images, by position.
    pub images: &'a [Identity],
    /// Where images are searched: they say which text was compiled.
    pub finder: &'a Finder<'a>,
    /// The source files of the recording.
    pub stored: &'a StoredSources<'a>,
    /// Folders of the user.
    pub dirs: &'a [PathBuf],
}

/// The text of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its bytes.
    pub text: Vec<u8>,
    /// Where it is.
    pub origin: Origin,
    /// Whether it is what was compiled.
    pub proof: Proof,
    /// Last modification, ns since 1970-01-01 UTC; 0 if unknown.
    pub modified_unix_ns: u64,
    /// It is unchecked, and was modified after the image was linked.
    pub is_newer: bool,
}

/// Where a source text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the recording; `pack` has judged it.
    Recording,
    /// On this machine.
    Here {
        /// As the user and the compiler name it.
        path: PathBuf,
        /// With symbolic links resolved.
        real_path: PathBuf,
    },
}

impl Origin {
    /// Returns the name in JSON; these names never change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Here { .. } => "here",
        }
    }
}

impl Source {
    /// Splits the text into lines, without their ends; bytes that are not UTF-8 are replaced.
    pub fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.text).lines().map(str::to_owned).collect()
    }
}

/// What helps if a text is found that [may not be given away](SourceFinder::may_give_away).
pub const GIVE_ITS_FOLDER: &str = "nothing proves that the file here is what was compiled, and a program can name any file as its source: give its folder with \
     --source-dir";

/// Returns true if a file, given without links and `..`, lies below one of the folders, wherever their links lead.
fn is_below(file: &Path, dirs: &[PathBuf]) -> bool {
    dirs.iter().any(|dir| std::fs::canonicalize(dir).is_ok_and(|dir| file.starts_with(dir)))
}

impl SourceFinder<'_> {
    /// Finds the text of a source file, given its path as the compiler wrote it, an image that was compiled from it, a position, and
    /// offsets of its code, which ascend. A proven text wins; then the recording has the best one.
    ///
    /// # Errors  why there is no text
    /// # Cost    reads the first entries of all units of the image, unless the recording has a proven text
    pub fn find(&self, path: &str, image: u32, offsets: &[FileOff]) -> Result<Source, NoSource> {
        let identity = &self.images[image as usize];
        let of_recording = self.stored.find(image, path).map(|stored| Source::stored(stored, identity));
        match of_recording {
            Some(source) if source.proof == Proof::Md5 => return Ok(source),
            _ => {}
        }
        let sums = source_checksums(&Wanted { image: identity, offsets }, &[path], self.finder);
        // The debug information may be here, though it was not when the text was stored.
        let of_recording = of_recording.filter(|source| sums[0].judge(&source.text).is_some());
        let found = source::find(path, &sums[0], self.dirs, self.finder.search);
        match (of_recording, found) {
            (Some(source), Ok(found)) if found.proof == Proof::Unchecked => Ok(source),
            (Some(source), Err(_)) => Ok(source),
            (_, found) => found.map(|found| Source::here(found, identity.modified_unix_ns)),
        }
    }

    /// Returns true if a text may leave this machine, in a page, a recording or an answer to a site: it is proven, the recording has it,
    /// or it lies below a folder of the user. The debug information of a program that others wrote could name a key as its source.
    pub fn may_give_away(&self, source: &Source) -> bool {
        match &source.origin {
            _ if source.proof == Proof::Md5 => true,
            Origin::Recording => true,
            Origin::Here { real_path, .. } => is_below(real_path, self.dirs),
        }
    }

    /// Finds the text of a source file of code that is in no image.
    ///
    /// # Errors  why there is no text
    pub fn unproven(&self, path: &str) -> Result<Source, NoSource> {
        let found = source::find(path, &Checksums::default(), self.dirs, self.finder.search)?;
        Ok(Source::here(found, 0))
    }
}

impl Source {
    fn stored(stored: StoredSource, image: &Identity) -> Self {
        let proof = if stored.is_proven { Proof::Md5 } else { Proof::Unchecked };
        Self::of(stored.text, Origin::Recording, proof, (stored.modified_unix_ns, image.modified_unix_ns))
    }

    fn here(found: SourceText, linked_unix_ns: u64) -> Self {
        let times = (found.modified_unix_ns, linked_unix_ns);
        Self::of(
            found.text,
            Origin::Here { path: found.path, real_path: found.real_path },
            found.proof,
            times,
        )
    }

    fn of(
        text: Vec<u8>,
        origin: Origin,
        proof: Proof,
        (modified_unix_ns, linked_unix_ns): (u64, u64),
    ) -> Self {
        let is_newer = proof == Proof::Unchecked && linked_unix_ns > 0 && modified_unix_ns > linked_unix_ns;
        Self { text, origin, proof, modified_unix_ns, is_newer }
    }
}
