//! Source files that travel with the recording.

use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{SourceProof, SourcesV1};

use super::load::Tables;
use crate::map::Map;

/// The most bytes of texts that are looked through: a small hostile recording may have blocks of blanks without end.
const MAX_BYTES: u64 = 1 << 30;

/// A source file of the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSource {
    /// Its content.
    pub text: Vec<u8>,
    /// It had the MD5 that the debug information states, when it was stored.
    pub is_proven: bool,
    /// Last modification of the file that was stored, ns since 1970-01-01 UTC; 0 if unknown.
    pub modified_unix_ns: u64,
}

/// Where the source files of a recording are. Texts stay in their blocks.
#[derive(Debug)]
pub struct StoredSources<'a> {
    recording: &'a Recording,
    places: Map<SourceName, (Entry, usize)>,
}

/// An image, a position, and a path; a source file is in a block, at a position.
type SourceName = (u32, Box<[u8]>);

impl<'a> StoredSources<'a> {
    /// Lists the files; `image_of` maps an image id to a position. Of several rows for a file the last counts. Blocks that are damaged
    /// have no files: `verify` lists them.
    ///
    /// # Cost    decompresses all blocks of source files, one at a time
    pub fn new(recording: &'a Recording, tables: &Tables, image_of: impl Fn(u32) -> Option<u32>) -> Self {
        let mut places = Map::default();
        let mut bytes = 0;
        for (part, entry) in &tables.source_blocks {
            bytes += u64::from(entry.header.raw_len);
            if bytes > MAX_BYTES {
                break;
            }
            let Ok(payload) = recording.payload(entry) else { continue };
            let Ok(table) = payload.view::<SourcesV1>().and_then(|view| view.table()) else { continue };
            for (position, file) in table.files.iter().enumerate() {
                if let Some(image) = image_of(tables.parts.part(*part).row(*file).image) {
                    places.insert((image, table.texts[file.path as usize].into()), (*entry, position));
                }
            }
        }
        Self { recording, places }
    }

    /// Finds a source file of an image, a position, by its path as the compiler wrote it.
    pub fn find(&self, image: u32, path: &str) -> Option<StoredSource> {
        let (entry, position) = self.places.get(&(image, path.as_bytes().into()))?;
        let payload = self.recording.payload(entry).ok()?;
        let table = payload.view::<SourcesV1>().ok()?.table().ok()?;
        let file = table.files.get(*position)?;
        Some(StoredSource {
            text: table.texts[file.text as usize].to_vec(),
            is_proven: file.proof == SourceProof::MD5,
            modified_unix_ns: file.modified_unix_ns,
        })
    }
}
