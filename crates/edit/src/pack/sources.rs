//! Collects the source files of the lines that samples hit.

use std::collections::{BTreeMap, BTreeSet};

use icecore_format::records::{SourceFile, SourceProof, SourceTable, SourcesV1};
use icecore_format::write::Writer;
use serde::Serialize;

use crate::Error;
use icecore_profile::map::Interned;
use icecore_profile::named::source::{Source, SourceFinder};
use icecore_profile::recording::load::clean;
use icecore_profile::stacks::locate::CodeLocation;
use icecore_symbolize::Answer;
use icecore_symbolize::image::FileOff;
use icecore_symbolize::source::Proof;

/// The most bytes of texts in one recording.
pub(super) const MAX_BYTES: u64 = 128 << 20;
/// The size at which a block is full, bytes.
const BLOCK_BYTES: usize = 4 << 20;

/// The code of the reason that a text [may not be given away](SourceFinder::may_give_away).
pub const UNPROVEN: &str = "unproven";

/// Source files by image, a position, and path.
#[derive(Debug, Default)]
pub(super) struct FoundSources {
    found: BTreeMap<(u32, String), Source>,
    pub(super) told: PackedSources,
}

/// What became of source files.
#[derive(Debug, Default, Serialize)]
pub struct PackedSources {
    /// Distinct files of the lines that samples hit, each once for each image.
    pub files: u64,
    /// How many of them are stored with a proof.
    pub proven: u64,
    /// Those that are stored without a proof.
    pub unchecked: Vec<String>,
    /// Their bytes before compression.
    pub bytes: u64,
    /// Those that are not stored.
    pub missing: Vec<MissingSource>,
}

/// A file that is not stored.
#[derive(Debug, Serialize)]
pub struct MissingSource {
    /// Its path.
    pub file: String,
    /// The code of the reason.
    pub why: &'static str,
}

impl FoundSources {
    /// Finds the files of all named places.
    pub(super) fn find(
        places: &[CodeLocation],
        answers: &[Option<Answer>],
        finder: &SourceFinder<'_>,
    ) -> Self {
        let mut wanted: BTreeMap<(u32, &str), BTreeSet<FileOff>> = BTreeMap::new();
        for (place, answer) in places.iter().zip(answers) {
            let (CodeLocation::Image(image, off), Some(Answer::Named(functions))) = (place, answer) else {
                continue;
            };
            for file in functions.iter().filter_map(|function| function.file.as_deref()) {
                wanted.entry((*image, file)).or_default().insert(*off);
            }
        }
        let mut all = Self::default();
        let mut known: BTreeMap<Vec<u8>, ()> = BTreeMap::new();
        for ((image, path), offsets) in wanted {
            let offsets: Vec<FileOff> = offsets.into_iter().collect();
            all.told.files += 1;
            let shown = || clean(path.as_bytes()).into_string();
            let source = match finder.find(path, image, &offsets) {
                Ok(source) => source,
                Err(why) => {
                    all.told.missing.push(MissingSource { file: shown(), why: why.code() });
                    continue;
                }
            };
            if !finder.may_give_away(&source) {
                all.told.missing.push(MissingSource { file: shown(), why: UNPROVEN });
                continue;
            }
            let is_new = !known.contains_key(&source.text);
            if is_new && all.told.bytes + source.text.len() as u64 > MAX_BYTES {
                all.told.missing.push(MissingSource { file: shown(), why: "too_much" });
                continue;
            }
            if is_new {
                all.told.bytes += source.text.len() as u64;
                known.insert(source.text.clone(), ());
            }
            match source.proof {
                Proof::Md5 => all.told.proven += 1,
                Proof::Unchecked => all.told.unchecked.push(shown()),
            }
            all.found.insert((image, path.to_owned()), source);
        }
        all
    }

    /// Writes the files of the images of one session: `ids` are pairs of a position and an image id.
    pub(super) fn append(&self, ids: &[(u32, u32)], writer: &mut Writer) -> Result<(), Error> {
        let mut draft = SourceDraft::default();
        for (image, id) in ids {
            let first = (*image, String::new());
            for ((_, path), source) in self.found.range(first..).take_while(|((of, _), _)| of == image) {
                draft.add(*id, path, source);
                if draft.bytes >= BLOCK_BYTES {
                    draft.write(writer)?;
                }
            }
        }
        draft.write(writer)
    }
}

/// A block under construction.
#[derive(Default)]
struct SourceDraft {
    files: Vec<SourceFile>,
    texts: Interned<Box<[u8]>>,
    bytes: usize,
}

impl SourceDraft {
    fn add(&mut self, image: u32, path: &str, source: &Source) {
        let proof = match source.proof {
            Proof::Md5 => SourceProof::MD5,
            Proof::Unchecked => SourceProof::UNCHECKED,
        };
        let before = self.texts.len();
        let (path, text) =
            (self.texts.intern(path.as_bytes().into()), self.texts.intern(source.text[..].into()));
        self.bytes += if self.texts.len() > before { source.text.len() } else { 0 };
        let modified_unix_ns = source.modified_unix_ns;
        self.files.push(SourceFile { image, path, text, proof, modified_unix_ns });
    }

    fn write(&mut self, writer: &mut Writer) -> Result<(), Error> {
        let Self { files, texts, .. } = std::mem::take(self);
        if !files.is_empty() {
            writer.append(&SourcesV1::from_table(&SourceTable { files, texts: texts.into_items() }))?;
        }
        Ok(())
    }
}
