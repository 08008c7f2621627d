//! Caches on this machine's disk what reports found out about images, so that the next report need not search again. `unwound` does
//! the same for the stacks of recordings.
//!
//! There is one file for each build-id or, for an image that has none (rustc), for each path, inode, size and time. The file is a
//! recording without samples: the files from which the names came, and the names. So it has checksums, a version and a reader
//! already. A file that is damaged, was written by another version of this program, or was made from other files than are found now
//! counts as absent and is written anew. Files appear whole, by renaming: reports that run at the same time see the old one or the
//! new one.

mod folder;
pub(crate) mod unwound;

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use icecore_files::private;
use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::records::{
    Image, ImageKind, ImagesV1, NameTable, NamesV1, Payload, SessionV1, StringsV1,
};
use icecore_format::write::Writer;

use super::found::{Draft, StoredPlace};
use crate::random_uuid;
use crate::recording::load::clean;
use folder::Contents;
pub use folder::Stats;
use icecore_symbolize::image::{FileOff, Inode, Stamp};
use icecore_symbolize::{Answer, Answers, Known};

/// The lengths of build-ids that can name a file, bytes.
const BUILD_ID_LENS: std::ops::RangeInclusive<usize> = 4..=64;

/// A folder of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    dir: PathBuf,
}

/// The cached answers for one image.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// All tables together ascend by offset.
    tables: Vec<NameTable<Arc<str>>>,
}

impl Earlier {
    /// Finds the cached answer for an offset.
    fn find(&self, off: FileOff) -> Option<Answer> {
        let after =
            |table: &NameTable<Arc<str>>| table.places.last().is_some_and(|last| last.file_off < off.0);
        let table = self.tables.get(self.tables.partition_point(after))?;
        let position = table.places.binary_search_by_key(&off.0, |place| place.file_off).ok()?;
        Some(StoredPlace { number: 0, table, place: &table.places[position] }.to_answer())
    }

    fn is_sorted(&self) -> bool {
        let offsets = self.tables.iter().flat_map(|table| &table.places).map(|place| place.file_off);
        offsets.is_sorted_by(|a, b| a < b)
    }
}

/// An image that is looked up.
struct Request<'a> {
    cache: &'a Cache,
    build_id: &'a [u8],
    files: &'a [Stamp],
    earlier: Earlier,
}

impl Known for Cache {
    fn of_image<'a>(
        &'a self,
        build_id: &'a [u8],
        path: &'a str,
        files: &'a [Stamp],
    ) -> Box<dyn Answers + 'a> {
        Box::new(Request { cache: self, build_id, files, earlier: self.read(build_id, path, files) })
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.dir)
    }

    /// Removes the oldest files if there are too many.
    fn finish(&self) {
        self.trim();
    }
}

impl Answers for Request<'_> {
    fn find(&self, off: FileOff) -> Option<Answer> {
        self.earlier.find(off)
    }

    fn keep(&self, new: &[(FileOff, &Answer)]) {
        self.cache.write(self.build_id, self.files, &self.earlier, new);
    }
}

impl Cache {
    /// Opens the cache of this user; `None` if the environment names no folder.
    pub fn of_user() -> Option<Self> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(Self::in_dir(base.join("icecore")))
    }

    /// Opens a folder; it is created with the first file.
    pub fn in_dir(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Returns the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads the answers that were found from the same files; returns none if there are none. If this machine has no file of the image
    /// (`files` is empty), it reads the answers whose image was at `path`. A build-id alone proves nothing, because any file can have it.
    fn read(&self, build_id: &[u8], path: &str, files: &[Stamp]) -> Earlier {
        let place = self.place(build_id, files);
        let earlier = place.and_then(|place| self.parsed(&place, build_id, path, files).ok().flatten());
        earlier.unwrap_or_default()
    }

    /// Writes the new answers, which ascend by offset, together with the cached ones. An error has no consequence: the next report
    /// searches again.
    fn write(&self, build_id: &[u8], files: &[Stamp], earlier: &Earlier, new: &[(FileOff, &Answer)]) {
        if let Some(path) = self.place(build_id, files).filter(|_| !new.is_empty()) {
            drop(self.replace(&path, build_id, files, merged(earlier, new)));
        }
    }

    /// Reads a file; `None` if it is unusable in any way.
    fn parsed(
        &self,
        place: &Path,
        build_id: &[u8],
        path: &str,
        files: &[Stamp],
    ) -> Result<Option<Earlier>, Error> {
        let Some(recording) = self.open(place)? else { return Ok(None) };
        let (mut session, mut strings, mut images, mut tables) = (None, None, None, Vec::new());
        for entry in recording.entries() {
            let payload = recording.payload(entry)?;
            match entry.header.kind {
                Kind::SESSION => session = Some(payload.view::<SessionV1>()?.to_owned_record()?),
                Kind::STRINGS => strings = Some(texts(payload.view::<StringsV1>()?)?),
                Kind::IMAGES => images = Some(payload.view::<ImagesV1>()?.rows()?),
                NamesV1::KIND => {
                    let NameTable { places, frames, functions, texts } =
                        payload.view::<NamesV1>()?.table()?;
                    tables.push(NameTable {
                        places,
                        frames,
                        functions,
                        texts: texts.into_iter().map(|text| clean(text).into()).collect(),
                    });
                }
                _ => return Ok(None),
            }
        }
        let (Some(session), Some(strings), Some(images)) = (session, strings, images) else {
            return Ok(None);
        };
        let source = |image: &Image| Stamp {
            path: strings.get(image.path as usize - 1).cloned().unwrap_or_default(),
            len: image.size_bytes,
            inode: (image.inode != 0).then_some(Inode { device: image.dev, number: image.inode }),
            changed_unix_ns: image.modified_unix_ns,
        };
        let is_ours = session.recorder == Contents::Names.maker()
            && images.iter().all(|image| image.build_id == build_id && image.path > 0);
        let is_same = match files {
            [] => images.first().is_some_and(|image| source(image).path == path),
            files => images.iter().map(source).eq(files.iter().cloned()),
        };
        if !is_ours || !is_same {
            return Ok(None);
        }
        Ok(Some(Earlier { tables }).filter(Earlier::is_sorted))
    }

    fn place(&self, build_id: &[u8], files: &[Stamp]) -> Option<PathBuf> {
        let name = match build_id {
            // Two files may have the same checksum; then they replace each other, because a reader compares the whole stamp.
            [] => {
                let text = format!("{:?}", files.first()?);
                format!("file-{:08x}", crc32fast::hash(text.as_bytes()))
            }
            id if BUILD_ID_LENS.contains(&id.len()) => id.iter().map(|byte| format!("{byte:02x}")).collect(),
            _ => return None,
        };
        Some(self.dir.join(name + Contents::Names.suffix()))
    }

    fn replace(
        &self,
        path: &Path,
        build_id: &[u8],
        files: &[Stamp],
        tables: impl Iterator<Item = NameTable>,
    ) -> Result<(), Error> {
        let paths: Vec<&[u8]> = files.iter().map(|file| file.path.as_bytes()).collect();
        let image = |(source, path): (&Stamp, u32)| Image {
            kind: ImageKind::FILE,
            path,
            build_id: build_id.to_vec(),
            dev: source.inode.map_or(0, |inode| inode.device),
            inode: source.inode.map_or(0, |inode| inode.number),
            size_bytes: source.len,
            modified_unix_ns: source.changed_unix_ns,
        };
        let images: Vec<Image> = files.iter().zip(1..).map(image).collect();
        self.create(path, |writer| {
            writer.append(&SessionV1 {
                recorder: Contents::Names.maker().to_owned(),
                ..SessionV1::default()
            })?;
            writer.append(&StringsV1::from_rows(1, &paths))?;
            writer.append(&ImagesV1::from_rows(0, &images))?;
            for table in tables {
                writer.append(&NamesV1::from_table(&table))?;
            }
            Ok(())
        })
    }

    /// Creates a file, or replaces it as a whole.
    fn create(&self, path: &Path, fill: impl FnOnce(&mut Writer) -> Result<(), Error>) -> Result<(), Error> {
        private::create(&self.dir).map_err(std::io::Error::from)?;
        let file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.dir)?;
        // Writes as a stream: answers that a power failure destroys can be found again, so nothing waits for the disk.
        let mut writer = Writer::stream(BufWriter::new(file.reopen()?), random_uuid()?)?;
        fill(&mut writer)?;
        writer.finish()?;
        file.persist(path).map(drop).map_err(|error| error.error.into())
    }
}

/// Merges cached places and new answers by offset, table by table.
fn merged(earlier: &Earlier, new: &[(FileOff, &Answer)]) -> impl Iterator<Item = NameTable> {
    let old = earlier.tables.iter();
    let mut old = old.flat_map(|table| table.places.iter().map(move |place| (table, place))).peekable();
    let mut new = new.iter().peekable();
    std::iter::from_fn(move || {
        let mut draft = Draft::default();
        while !draft.is_full() {
            let is_new_next = match (old.peek(), new.peek()) {
                (Some((_, place)), Some((off, _))) => off.0 < place.file_off,
                (None, None) => break,
                (old, _) => old.is_none(),
            };
            if is_new_next {
                new.next().into_iter().for_each(|(off, answer)| draft.answer(0, *off, answer))
            } else {
                old.next().into_iter().for_each(|(table, place)| draft.copy(0, place, table))
            }
        }
        draft.take()
    })
}

fn texts(view: &<StringsV1 as Payload>::View) -> Result<Vec<String>, Error> {
    Ok(view.rows()?.into_iter().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect())
}

#[cfg(test)]
mod tests;
