//! Finds the files of images: in a recording, and on this machine.

use std::fmt;
use std::path::Path;

use super::debug_search::DebugSearch;
use super::identify::without_file;
use super::{ElfFile, FileSource, FoundFile, Identity, Looked, Search};

/// Files of images that another source provides, such as a recording.
pub trait Carried: fmt::Debug + Sync {
    /// Opens the file of an image; `None` if this source does not have it.
    fn open(&self, image: &Identity) -> Option<ElfFile>;

    /// Learns what a search for the files of an image has found; `is_carried` is true if one of them came from this source.
    fn note(&self, _image: &Identity, _is_carried: bool, _found: &Looked) {}
}

/// Finds the files of images.
#[derive(Debug, Clone, Copy)]
pub struct Finder<'a> {
    /// The places on this machine.
    pub search: &'a Search,
    /// The files that the recording contains.
    pub embedded: Option<&'a dyn Carried>,
}

impl Finder<'_> {
    /// Returns true if the search finds a file for an image that nothing but the user's word proves.
    pub fn is_trusted(&self, wanted: &Identity) -> bool {
        // A build-id needs no trust.
        wanted.build_id.is_empty()
            && self.search.trusts(Path::new(&wanted.path))
            && self.look(wanted).files.is_ok_and(|files| files.is_trusted())
    }

    /// Searches the files of an image: in the recording, by build-id below `--symbols` and in debug directories, at the recorded
    /// path, as a debug file beside it, by its debuglink, and among downloads. Stops as soon as it has the image and its DWARF.
    ///
    /// # Cost   a few system calls for each path; a debuglink reads the whole debug file for its checksum
    pub fn look(&self, wanted: &Identity) -> Looked {
        let embedded = self.embedded.and_then(|embedded| {
            let file = embedded.open(wanted)?;
            let layout = file.layout().ok()?;
            Some(FoundFile { file, layout, source: FileSource::Embedded })
        });
        let is_carried = embedded.is_some();
        let search = DebugSearch::new(wanted, self.search, embedded);
        let looked = match without_file(wanted.kind) {
            Some(reason) => search.nowhere(reason),
            None => search.run(),
        };
        if let Some(embedded) = self.embedded {
            embedded.note(wanted, is_carried, &looked);
        }
        looked
    }
}
