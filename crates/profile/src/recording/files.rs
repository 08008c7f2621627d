//! Images that travel with the recording: puts their files together again.
//!
//! A block is opened when its image is asked for, and its pieces go straight into a sparse file without a name below
//! `TMPDIR`: memory holds one block. Pieces come from a recording and may be anything: they are written once, inside
//! the length that the file is said to have, and no more of them than [`MAX_UNPACKED_BYTES`] in all.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::ImagePartsV1;

use super::load::{Tables, damage};
use crate::map::Map;
use icecore_symbolize::image::{Carried, DELETED, ElfFile, Identity, Present};

/// The longest file that is put together, bytes: sparse, so this costs nothing by itself.
const MAX_FILE_BYTES: u64 = 64 << 30;
/// The most bytes of pieces that one report unpacks: a small hostile recording may have a block of zeros for each of
/// many images, or many images that are the same.
const MAX_UNPACKED_BYTES: u64 = 16 << 30;

/// The files of images, as far as the recording has them. Nothing is read before an image is asked for.
#[derive(Debug)]
pub struct EmbeddedFiles<'a> {
    recording: &'a Recording,
    tables: &'a Tables,
    /// Image ids of one file.
    ids: Map<Identity, Vec<u32>>,
    /// Image ids of files with one build-id.
    alike: Map<Vec<u8>, Vec<u32>>,
    /// Images whose files the recorder has left out.
    left_out: BTreeSet<u32>,
    unpacked_bytes: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl<'a> EmbeddedFiles<'a> {
    /// Prepares; `identity_of` tells what is known of an image by its id.
    pub fn new<'i>(
        recording: &'a Recording,
        tables: &'a Tables,
        identity_of: impl Fn(u32) -> Option<&'i Identity>,
    ) -> Self {
        let mut ids: Map<Identity, Vec<u32>> = Map::default();
        let mut alike: Map<Vec<u8>, Vec<u32>> = Map::default();
        if !tables.image_parts.is_empty() {
            for (id, _) in tables.images.iter() {
                if let Some(identity) = identity_of(id) {
                    ids.entry(identity.clone()).or_default().push(id);
                    if !identity.build_id.is_empty() {
                        alike.entry(identity.build_id.clone()).or_default().push(id);
                    }
                }
            }
        }
        let left_out = tables.left_out.iter().map(|row| row.image).collect();
        Self {
            recording,
            tables,
            ids,
            alike,
            left_out,
            unpacked_bytes: AtomicU64::new(0),
            trouble: Mutex::new(None),
        }
    }

    /// What went wrong first; the report is made without it.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, error: &Unpack) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble
            .get_or_insert_with(|| format!("cannot unpack a file that the recording brings along: {error}"));
    }

    /// The blocks that may have pieces of an image, and the id that it has in them.
    fn blocks(&self, id: u32) -> Vec<(u32, Entry)> {
        let (part, own) = self.tables.parts.of_image(id);
        let may_have =
            |(of_part, entry): &&(u32, Entry)| *of_part == part && entry.header.processes.may_hold(own);
        self.tables.image_parts.iter().filter(may_have).map(|(_, entry)| (own, *entry)).collect()
    }

    /// Writes the pieces into a file; `None` if there are none.
    fn unpack(&self, blocks: &[(u32, Entry)], path: &str) -> Result<Option<ElfFile>, Unpack> {
        let mut sparse: Option<Sparse> = None;
        for (image, entry) in blocks {
            match self.take(*image, entry, &mut sparse) {
                Ok(()) => {}
                // What the other blocks have is good for something; sections that miss a byte count as absent.
                Err(Unpack::Damaged(error)) => {
                    let damage = damage(entry, &error);
                    self.note(&Unpack::Refused(format!("{damage}; see `icecore-report verify`")));
                }
                Err(error) => return Err(error),
            }
        }
        let path = Path::new(path.strip_suffix(DELETED).unwrap_or(path));
        let path = if path.is_absolute() { path.to_owned() } else { PathBuf::new() };
        Ok(sparse.map(|sparse| ElfFile::of_pieces(sparse.file, sparse.len, path, sparse.present)))
    }

    fn take(&self, image: u32, entry: &Entry, sparse: &mut Option<Sparse>) -> Result<(), Unpack> {
        let payload = self.recording.payload(entry)?;
        let view = payload.view::<ImagePartsV1>()?;
        if view.image.to_native() != image {
            return Ok(());
        }
        let (len, rows) = (view.file_bytes.to_native(), view.rows()?);
        let unpacked = self.unpacked_bytes.fetch_add(view.bytes.len() as u64, Ordering::Relaxed);
        require(unpacked <= MAX_UNPACKED_BYTES, || {
            format!("more than {} GiB in all", MAX_UNPACKED_BYTES >> 30)
        })?;
        let sparse = match sparse {
            Some(sparse) => sparse,
            None => sparse.insert(Sparse::new(len)?),
        };
        require(len == sparse.len, || format!("it is said to have {len} and {} bytes", sparse.len))?;
        rows.iter().try_for_each(|piece| sparse.put(piece.off, piece.bytes))
    }
}

impl Carried for EmbeddedFiles<'_> {
    /// Puts the file of an image together; `None` if the recording has none of it, or another build. A recorder writes equal files once, and
    /// compares them. So the file of an image with the same build-id serves if there is no own one, and none was left out.
    fn open(&self, image: &Identity) -> Option<ElfFile> {
        let own = self.ids.get(image)?;
        let has_own = own.iter().any(|id| !self.blocks(*id).is_empty());
        let is_left_out = own.iter().any(|id| self.left_out.contains(id));
        let alike = self.alike.get(&image.build_id).filter(|_| !has_own && !is_left_out);
        let ids = alike.unwrap_or(own);
        let mut blocks: Vec<Vec<(u32, Entry)>> = ids.iter().map(|id| self.blocks(*id)).collect();
        // That of which there is more: one session may have all of a file, another its symbols.
        blocks.sort_by_key(|blocks| {
            std::cmp::Reverse(blocks.iter().map(|(_, entry)| u64::from(entry.header.raw_len)).sum::<u64>())
        });
        blocks.iter().filter(|blocks| !blocks.is_empty()).find_map(|blocks| {
            let file = self.unpack(blocks, &image.path).unwrap_or_else(|error| {
                self.note(&error);
                None
            })?;
            let layout = file.layout().ok()?;
            (image.build_id.is_empty() || image.build_id == layout.build_id).then_some(file)
        })
    }
}

/// A file of which some stretches are there.
struct Sparse {
    file: File,
    len: u64,
    present: Present,
}

impl Sparse {
    fn new(len: u64) -> Result<Self, Unpack> {
        require(len <= MAX_FILE_BYTES, || format!("a file of {len} bytes"))?;
        let file =
            tempfile::tempfile().and_then(|file| file.set_len(len).map(|()| file)).map_err(Unpack::NoRoom)?;
        Ok(Self { file, len, present: Present::default() })
    }

    fn put(&mut self, off: u64, bytes: &[u8]) -> Result<(), Unpack> {
        require(self.present.add(off, bytes.len() as u64), || {
            format!("two pieces for byte {off} or behind it")
        })?;
        self.file.write_all_at(bytes, off).map_err(Unpack::NoRoom)
    }
}

/// Why the file of an image cannot be put together.
#[derive(Debug, thiserror::Error)]
enum Unpack {
    /// A block of its pieces is damaged.
    #[error(transparent)]
    Damaged(#[from] icecore_format::Error),
    /// The pieces contradict each other, or exceed a limit.
    #[error("{0}")]
    Refused(String),
    /// The folder for temporary files is full.
    #[error(
        "the folder for temporary files `{folder}` takes nothing (set TMPDIR to another): {0}",
        folder = std::env::temp_dir().display()
    )]
    NoRoom(io::Error),
}

fn require(is_so: bool, otherwise: impl FnOnce() -> String) -> Result<(), Unpack> {
    if is_so { Ok(()) } else { Err(Unpack::Refused(otherwise())) }
}

#[cfg(test)]
mod tests;
