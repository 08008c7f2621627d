//! Collects from this machine what a report on another machine needs: the names of the functions that were hit, and their files,
//! or the sections of these files that matter.
//!
//! The recorder opens a file when it first sees a mapping of it, because the file may be deleted or replaced before the recording
//! ends. It reads the file when the recording has ended.

pub(crate) mod files;
pub mod functions;
mod go;
pub mod jit;
mod room;
pub(crate) mod rules;
pub mod sections;
mod unlisted;

use std::cmp::Reverse;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use icecore_elf::FileOff;
use icecore_format::records::{ImageKind, ImagePartsV1, Omission, Symbol, UnwindRule};
use object::read::{ReadCache, ReadRef};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::machine::build_id;
use crate::machine::identity::{Identity, MapFile, open_regular};
use crate::machine::memory_image::{self, MemoryImage};
use crate::proc::maps;
use crate::track::jit::Made;
use crate::track::tracker::Note;
use files::{Carried, Carrier, Content, Extent, Omitted};
use functions::{Function, functions};
use jit::{Jit, JitCounts};
use room::{HeldFile, Room};
use rules::{Rule, rules};

/// The number of images that are remembered. Code that is hit in further images stays unnamed.
const MAX_IMAGES: usize = 64 << 10;
/// The number of distinct code locations that are remembered: 16 MiB of memory and more. Further ones stay unnamed.
const MAX_HITS: usize = 1 << 20;
/// The folder in which systems install debug files, by build-id.
const DEBUG_FILES: &str = "/usr/lib/debug/.build-id";
/// How often the memory of a process is asked for a file that may not be opened.
const LOOKS_INTO_MEMORY: u32 = 16;
/// The most bytes of all such files that are kept.
const MAX_MEMORY_BYTES: u64 = 64 << 20;
/// The largest vDSO that is read; real ones have a few pages.
const MAX_VDSO_BYTES: u64 = 1 << 20;

/// The images of a recording, and where they were hit.
#[derive(Debug)]
pub(crate) struct Collector {
    /// By image id.
    sources: FxHashMap<u32, SymbolSource>,
    /// Offsets in the files of images.
    hits: FxHashMap<u32, FxHashSet<FileOff>>,
    hit_count: usize,
    /// The number of hits, by image.
    counts: FxHashMap<u32, u64>,
    left_out: u64,
    /// The number of files that may be held open. Further files are searched again at the end.
    room: Room,
    /// How many bytes of images may still be kept that were read from memory.
    memory_left: u64,
    jit: Jit,
}

/// Where the symbols of an image can be read.
#[derive(Debug)]
enum SymbolSource {
    /// An open file. Somebody may overwrite it in place before it is read.
    Held(HeldFile, Identity),
    /// The file could not be opened, or too many others are open.
    Path(Identity),
    /// The kernel does not let the recorder open it.
    Denied(Denied),
    Vdso,
    Nowhere,
}

/// A file that may not be opened, and what the memory of a process has of it.
#[derive(Debug)]
struct Denied {
    identity: Identity,
    tgid: u32,
    looks: u32,
    found: Option<MemoryImage>,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Ordered by image and start.
    pub(crate) symbols: Vec<Symbol>,
    /// Ordered by image and address; empty if nothing is to be unwound.
    pub(crate) rules: Vec<UnwindRule>,
    /// Images that gave at least one symbol.
    pub(crate) images: u64,
    /// The number of code locations that were not remembered.
    pub(crate) left_out: u64,
    /// The names of JIT code that were not taken before.
    pub(crate) jit: Vec<Made>,
    /// The counts of all JIT code.
    pub(crate) jit_told: JitCounts,
}

impl Collector {
    pub(crate) fn new() -> Self {
        let (sources, hits, counts) = Default::default();
        let room = Room::new();
        Self {
            sources,
            hits,
            hit_count: 0,
            counts,
            left_out: 0,
            jit: Jit::new(room.clone()),
            room,
            memory_left: MAX_MEMORY_BYTES,
        }
    }

    /// Opens the file of an image when it is mapped. Only the first mapping counts, except for code that no file backs.
    pub(crate) fn see(&mut self, time_ns: u64, image: u32, identity: &Identity, place: MapFile) {
        self.jit.see(time_ns, identity, place);
        if self.sources.contains_key(&image) || self.sources.len() >= MAX_IMAGES {
            return;
        }
        let source = match identity.kind {
            ImageKind::VDSO => SymbolSource::Vdso,
            ImageKind::FILE => match self.room.hold(|| place.open(identity)) {
                Some(held) => SymbolSource::Held(held, identity.clone()),
                None if place.is_denied(identity) => {
                    let (identity, tgid, looks, found) = (identity.clone(), place.tgid, 0, None);
                    SymbolSource::Denied(Denied { identity, tgid, looks, found })
                }
                None => SymbolSource::Path(identity.clone()),
            },
            _ => SymbolSource::Nowhere,
        };
        self.sources.insert(image, source);
    }

    /// Opens the file of an image as it was when it was mapped.
    pub(crate) fn file(&self, image: u32) -> Option<File> {
        match self.sources.get(&image)? {
            SymbolSource::Held(held, _) => held.file.try_clone().ok(),
            SymbolSource::Path(identity) => MapFile::NOWHERE.open(identity),
            SymbolSource::Denied(_) | SymbolSource::Vdso | SymbolSource::Nowhere => None,
        }
    }

    /// Remembers code that was hit, by its offset in the file of an image.
    pub(crate) fn hit(&mut self, image: u32, file_off: FileOff) {
        if self.hit_count >= MAX_HITS {
            self.left_out += 1;
            return;
        }
        self.hit_count += usize::from(self.hits.entry(image).or_default().insert(file_off));
        self.look_into_memory(image);
    }

    /// Reads what a process has in memory of a file that may not be opened. It has only what was used, so a later look finds more.
    fn look_into_memory(&mut self, image: u32) {
        let Some(SymbolSource::Denied(denied)) = self.sources.get_mut(&image) else { return };
        if denied.looks < LOOKS_INTO_MEMORY && !denied.found.as_ref().is_some_and(|found| found.is_whole) {
            denied.looks += 1;
            let bytes =
                |found: &Option<MemoryImage>| found.as_ref().map_or(0, |found| found.bytes.len() as u64);
            self.memory_left += bytes(&denied.found);
            let found = memory_image::image(denied.tgid, &denied.identity, self.memory_left);
            denied.found = found.or(denied.found.take());
            self.memory_left = self.memory_left.saturating_sub(bytes(&denied.found));
        }
    }

    /// Counts hits of an image.
    pub(crate) fn count(&mut self, image: u32, hits: u64) {
        if self.sources.contains_key(&image) {
            *self.counts.entry(image).or_default() += hits;
        }
    }

    /// Takes the tracker's notes about processes.
    pub(crate) fn note(&mut self, notes: &[Note]) {
        self.jit.note(notes);
    }

    /// Searches again for files that name JIT code, and returns the names from those of ended processes.
    pub(crate) fn take_jit(&mut self) -> Vec<Made> {
        self.jit.take_rows()
    }

    /// Reads the symbol tables and the unwind tables of the images that were hit. By the latter a report unwinds stacks, and
    /// judges walks along frame pointers.
    pub(crate) fn find(&mut self) -> Collected {
        self.jit.finish();
        let hit: Vec<u32> = self.hits.keys().copied().collect();
        hit.into_iter().for_each(|image| self.look_into_memory(image));
        let (jit, jit_told) = (self.jit.take_rows(), self.jit.told);
        let mut found = Collected { left_out: self.left_out, jit, jit_told, ..Collected::default() };
        let mut images: Vec<(u32, &FxHashSet<FileOff>)> =
            self.hits.iter().map(|(id, offs)| (*id, offs)).collect();
        images.sort_unstable_by_key(|(image, _)| *image);
        for (image, offsets) in images {
            // A return address is looked up one byte earlier, in the call, which may belong to another function.
            let offsets = offsets.iter().flat_map(|off| [off.0.saturating_sub(1), off.0]);
            let read = |file: &File| {
                let file = ReadCache::new(file);
                let debug = debug_file(&file).map(ReadCache::new);
                (functions(&file, debug.as_ref(), offsets.clone()), rules_for(&file, offsets.clone()))
            };
            let (functions, rules) = match self.sources.get(&image) {
                Some(SymbolSource::Held(held, identity)) if identity.is_of(&held.file) => read(&held.file),
                Some(SymbolSource::Held(..)) => Default::default(),
                Some(SymbolSource::Path(identity)) => {
                    let file = MapFile::NOWHERE.open(identity);
                    file.map(|file| read(&file)).unwrap_or_default()
                }
                Some(SymbolSource::Vdso) => {
                    let vdso = &vdso()[..];
                    let functions = functions(vdso, None::<&[u8]>, offsets.clone());
                    (functions, rules_for(vdso, offsets.clone()))
                }
                Some(SymbolSource::Denied(Denied { found: Some(MemoryImage { bytes, .. }), .. })) => {
                    let functions = functions(&bytes[..], None::<&[u8]>, offsets.clone());
                    (functions, rules_for(&bytes[..], offsets.clone()))
                }
                Some(SymbolSource::Denied(_) | SymbolSource::Nowhere) => Default::default(),
                None => {
                    found.left_out += offsets.count() as u64 / 2;
                    Default::default()
                }
            };
            let rule = |Rule { at, start, bias, bytes }| UnwindRule { image, at, start, bias, bytes };
            found.rules.extend(rules.into_iter().map(rule));
            found.images += u64::from(!functions.is_empty());
            let symbol = |Function { start, end, address, whole, names, file }| Symbol {
                image,
                start,
                end,
                address: address.0,
                whole: whole.0,
                names,
                file,
            };
            found.symbols.extend(functions.into_iter().map(symbol));
        }
        found
    }

    /// Hands over the files of the images that were hit, those with the most hits first, in blocks of `max_bytes` together at
    /// most. Ends when `put` takes no more.
    pub(crate) fn carry(
        self,
        extent: Extent,
        max_bytes: u64,
        put: &mut dyn FnMut(ImagePartsV1) -> bool,
    ) -> Carried {
        let mut images: Vec<(u32, SymbolSource)> = self.sources.into_iter().collect();
        // Code that only copied stacks contain is on no walk: its image comes last.
        let is_hit = |image: &u32| self.counts.contains_key(image) || self.hits.contains_key(image);
        images.retain(|(image, source)| !matches!(source, SymbolSource::Nowhere) && is_hit(image));
        images.sort_unstable_by_key(|(image, _)| (Reverse(self.counts.get(image)), *image));
        let mut carrier = Carrier::new(extent, max_bytes, put);
        let mut images = images.into_iter();
        let mut left: Vec<Omitted> = Vec::new();
        for (image, source) in images.by_ref() {
            let (path, content) = source.open();
            if !carrier.carry(image, &path, content.as_ref()) {
                left.push(Omitted::of(image, &path, Omission::INTERRUPTED));
                break;
            }
        }
        left.extend(images.map(|(image, source)| Omitted::of(image, source.path(), Omission::INTERRUPTED)));
        carrier.end(left)
    }
}

impl SymbolSource {
    fn path(&self) -> &[u8] {
        match self {
            Self::Held(_, identity) | Self::Path(identity) => &identity.path,
            Self::Denied(denied) => &denied.identity.path,
            Self::Vdso => b"[vdso]",
            Self::Nowhere => b"",
        }
    }

    /// Returns the path of an image, and its content if that is available.
    fn open(self) -> (Vec<u8>, Option<Content>) {
        match self {
            Self::Held(held, identity) => {
                let file = identity.is_of(&held.file).then_some(held.file);
                (identity.path, file.map(Content::File))
            }
            Self::Path(identity) => {
                let file = MapFile::NOWHERE.open(&identity);
                (identity.path, file.map(Content::File))
            }
            // The parts that the recording has must be those of the file.
            Self::Denied(denied) => (denied.identity.path, None),
            Self::Vdso => {
                let bytes = Some(vdso()).filter(|bytes| !bytes.is_empty());
                (self.path().to_vec(), bytes.map(Content::Memory))
            }
            Self::Nowhere => (Vec::new(), None),
        }
    }
}

/// Finds the unwind tables for offsets of a file.
pub fn rules_for<'d>(file: impl ReadRef<'d>, offsets: impl Iterator<Item = u64>) -> Vec<Rule> {
    let Some(layout) = functions::layout(file) else { return Vec::new() };
    let requested = functions::addresses(&layout, offsets);
    let of_go = go::rules(functions::capped(file), &layout, &requested).unwrap_or_default();
    [rules(file, &layout, &requested), unlisted::rules(file, &layout, requested).unwrap_or_default(), of_go]
        .concat()
}

/// Opens the debug file of a stripped file, if it is installed.
pub(crate) fn debug_file(file: &ReadCache<&File>) -> Option<File> {
    let id = build_id::of_elf(file)?;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    let debug = open_regular(Path::new(&format!("{DEBUG_FILES}/{first}/{rest}.debug")))?;
    (build_id::of_elf(&ReadCache::new(&debug)) == Some(id)).then_some(debug)
}

/// Reads the vDSO of the recorder: the kernel gives the same one to all programs of one word size.
fn vdso() -> Vec<u8> {
    let read = || {
        let own_maps = std::fs::read("/proc/self/maps").ok()?;
        let line = maps::executable(&own_maps).find(|line| *line.path == *b"[vdso]")?;
        let len = line.end.checked_sub(line.start).filter(|len| *len <= MAX_VDSO_BYTES)?;
        let mut bytes = vec![0; len as usize];
        File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, line.start).ok()?;
        Some(bytes)
    };
    read().unwrap_or_default()
}
