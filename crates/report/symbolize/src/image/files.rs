//! The files of an image, and what is to be learned from each.

use std::fmt;

use super::debug_search::DebugSearch;
use super::identify::without_file;
use super::pointers::Altlink;
use super::{Attempt, ElfFile, FileSource, Gsym, Identity, Layout, Search};
use crate::Reason;

/// The files of an image that were found.
#[derive(Debug)]
pub struct Files {
    /// The image itself, or a file that tells the same of its code: file offsets are those of this one.
    pub image: FoundFile,
    /// Another file of the same build that has DWARF, or at least a symbol table, where the image has none.
    pub debug: Option<FoundFile>,
    /// What dwz took out of the DWARF of several files.
    pub(crate) alt: Option<FoundFile>,
    /// The symbol table that was packed into the image, if there is no other.
    pub mini: Option<(ElfFile, Layout)>,
    /// The package of split DWARF.
    pub(crate) dwp: Option<(ElfFile, Layout)>,
    /// The GSYM that was made of the DWARF, if there is no DWARF.
    pub(crate) gsym: Option<Gsym>,
}

/// A file, and where it was found.
#[derive(Debug)]
pub struct FoundFile {
    /// The file.
    pub file: ElfFile,
    /// What its headers say.
    pub layout: Layout,
    /// Where it was found.
    pub source: FileSource,
}

/// How much a file tells about functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knowledge {
    /// At most the symbols that it exports.
    Exports,
    /// A symbol table.
    Symbols,
    /// DWARF, or GSYM that was made of it: lines and inlined functions.
    Dwarf,
}

impl FoundFile {
    /// This file, and no other one.
    pub fn alone(self) -> Files {
        Files { image: self, debug: None, alt: None, mini: None, dwp: None, gsym: None }
    }

    /// Tells how much is to be learned from it.
    pub fn knowledge(&self) -> Knowledge {
        match (self.layout.has_dwarf(), self.layout.has(".symtab")) {
            (true, _) => Knowledge::Dwarf,
            (false, true) => Knowledge::Symbols,
            (false, false) => Knowledge::Exports,
        }
    }
}

impl Files {
    /// The file that has DWARF.
    pub(crate) fn dwarf(&self) -> Option<&FoundFile> {
        [Some(&self.image), self.debug.as_ref()]
            .into_iter()
            .flatten()
            .find(|found| found.knowledge() == Knowledge::Dwarf)
    }

    /// What the files are: as long as they are that, they tell the same.
    pub(crate) fn stamps(&self) -> Vec<Stamp> {
        let found = [Some(&self.image), self.debug.as_ref(), self.alt.as_ref()];
        let files = found.into_iter().flatten().map(|found| &found.file);
        let files = files.chain(self.dwp.as_ref().map(|(file, _)| file));
        let alone = match &self.gsym {
            Some(Gsym::Alone(file)) => Some(file),
            _ => None,
        };
        let files = files.chain(alone);
        let stamp = |file: &ElfFile| Stamp {
            path: file.real_path.to_string_lossy().into_owned(),
            len: file.len,
            modified_unix_ns: file.modified_unix_ns,
        };
        files.map(stamp).collect()
    }

    /// Tells how much is to be learned from all of them.
    pub fn knowledge(&self) -> Knowledge {
        let debug = self.debug.as_ref().map_or(Knowledge::Exports, FoundFile::knowledge);
        let mini = if self.mini.is_some() { Knowledge::Symbols } else { Knowledge::Exports };
        let gsym = if self.gsym.is_some() { Knowledge::Dwarf } else { Knowledge::Exports };
        self.image.knowledge().max(debug).max(mini).max(gsym)
    }

    /// Where the file was found that names most: the one with DWARF, else with a symbol table, else the image.
    pub fn source(&self) -> FileSource {
        self.debug.as_ref().unwrap_or(&self.image).source
    }
}

/// What a file was when names were taken from it: if one of these changes, it may tell others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Its path on this machine.
    pub path: String,
    /// Length, bytes.
    pub len: u64,
    /// Last modification, ns since 1970-01-01 UTC.
    pub modified_unix_ns: u64,
}

/// What a search came to.
#[derive(Debug)]
pub struct Looked {
    /// The files, or why the frames of the image stay unnamed.
    pub files: Result<Files, Reason>,
    /// Every path that was tried, in order.
    pub attempts: Vec<Attempt>,
    /// The supplement of dwz that is not there.
    pub(crate) missing_alt: Option<Altlink>,
}

/// Files of images that something else brings along, such as a recording.
pub trait Carried: fmt::Debug + Sync {
    /// Opens the file of an image; `None` if it is not among them.
    fn open(&self, image: &Identity) -> Option<ElfFile>;
}

/// Finds the files of images.
#[derive(Debug, Clone, Copy)]
pub struct Finder<'a> {
    /// Where on this machine.
    pub search: &'a Search,
    /// Those that were brought along.
    pub embedded: Option<&'a dyn Carried>,
}

impl Finder<'_> {
    /// Looks for the files of an image: in the recording, by build-id below `--symbols` and in debug directories, at the
    /// recorded path, as debug file beside it, by its debuglink, and among downloads; until there is the image and its DWARF.
    ///
    /// # Cost   a few system calls for each path; a debuglink reads the whole debug file for its checksum
    pub fn look(&self, wanted: &Identity) -> Looked {
        let embedded = self.embedded.and_then(|embedded| {
            let file = embedded.open(wanted)?;
            let layout = file.layout().ok()?;
            Some(FoundFile { file, layout, source: FileSource::Embedded })
        });
        let search = DebugSearch::new(wanted, self.search, embedded);
        match without_file(wanted.kind) {
            Some(reason) => search.nowhere(reason),
            None => search.run(),
        }
    }
}
