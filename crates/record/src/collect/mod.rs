//! Collects from this machine what a report on another machine needs: the names of the functions that were hit, and their files,
//! or the sections of these files that matter.
//!
//! The recorder opens a file when it first sees a mapping of it, because the file may be deleted or replaced before the recording
//! ends. It reads the file when the recording has ended. A file that no process has mapped any more is read and closed within
//! 10 s, so that its file system can be unmounted. For `--embed sections` and `all` it is opened again at the end, or copied
//! if no path leads to it.

pub(crate) mod files;
pub mod functions;
mod go;
pub mod jit;
mod room;
pub(crate) mod rules;
pub mod sections;
mod unlisted;

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use icecore_elf::FileOff;
use icecore_format::records::{ImageKind, ImagePartsV1, Omission, Symbol, UnwindRule};
use object::read::{ReadCache, ReadRef};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::foreign::memory::Memory;
use crate::foreign::{Door, ForeignFile};
use crate::machine::build_id;
use crate::machine::identity::{Identity, MapFile};
use crate::machine::memory_image::{self, MemoryImage};
use crate::proc::maps;
use crate::sys::rest;
use crate::track::jit::{Interpreter, Made};
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
/// The most bytes of all such files, and of copies of files, that are kept.
const MAX_MEMORY_BYTES: u64 = 64 << 20;
/// How long a file is held before it is seen whether a process has it mapped.
const MAX_HELD_FOR: Duration = Duration::from_secs(5);
/// The largest vDSO that is read; real ones have a few pages.
const MAX_VDSO_BYTES: u64 = 1 << 20;

/// The images of a recording, and where they were hit.
#[derive(Debug)]
pub(crate) struct Collector {
    door: Arc<Door>,
    /// By image id.
    sources: FxHashMap<u32, SymbolSource>,
    /// Offsets in the files of images, and whether their functions were searched.
    hits: FxHashMap<u32, FxHashMap<FileOff, bool>>,
    /// What was found so far.
    found: Collected,
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
    Held(Held),
    /// The file could not be opened, or too many others are open.
    Path(Identity),
    /// The bytes of a file to which no path leads.
    Copied(Vec<u8>, Identity),
    /// The kernel does not let the recorder open it.
    Denied(Denied),
    Vdso,
    Nowhere,
}

/// An open file.
#[derive(Debug)]
struct Held {
    file: Arc<HeldFile>,
    identity: Identity,
    /// Where a process had it mapped last.
    place: MapFile,
    /// When a process had it mapped for certain; `None`: it stays open until the recording's file ends, because to find its functions takes longer
    /// than a budget allows.
    since: Option<Instant>,
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
    pub(crate) fn new(door: Arc<Door>) -> Self {
        let (sources, hits, counts, found) = Default::default();
        let room = Room::new();
        Self {
            sources,
            hits,
            found,
            hit_count: 0,
            counts,
            left_out: 0,
            jit: Jit::new(room.clone(), Arc::clone(&door)),
            room,
            memory_left: MAX_MEMORY_BYTES,
            door,
        }
    }

    /// Begins what another file of the same run needs: the sources of these images are known, and none of them was hit.
    pub(crate) fn successor(&self, live: &FxHashSet<u32>) -> Self {
        let known = |source: &SymbolSource| match source {
            SymbolSource::Held(held) => SymbolSource::Held(Held {
                file: Arc::clone(&held.file),
                identity: held.identity.clone(),
                ..*held
            }),
            SymbolSource::Path(identity) | SymbolSource::Copied(_, identity) => {
                SymbolSource::Path(identity.clone())
            }
            SymbolSource::Denied(denied) => {
                let (identity, tgid, looks, found) = (denied.identity.clone(), denied.tgid, 0, None);
                SymbolSource::Denied(Denied { identity, tgid, looks, found })
            }
            SymbolSource::Vdso => SymbolSource::Vdso,
            SymbolSource::Nowhere => SymbolSource::Nowhere,
        };
        let sources = self.sources.iter().filter(|(image, _)| live.contains(image));
        let sources = sources.map(|(image, source)| (*image, known(source))).collect();
        let (room, door) = (self.room.clone(), Arc::clone(&self.door));
        Self { sources, jit: self.jit.successor(), room, ..Self::new(door) }
    }

    /// Asks by another way from now on: it is used by another thread.
    pub(crate) fn ask_by(&mut self, door: Door) {
        self.door = Arc::new(door);
        self.jit.ask_by(Arc::clone(&self.door));
    }

    /// Opens the file of an image when it is mapped. Only the first mapping counts, except for code that no file backs.
    pub(crate) fn see(&mut self, time_ns: u64, image: u32, identity: &Identity, place: MapFile) {
        self.jit.see(time_ns, identity, place);
        if let Some(SymbolSource::Held(held)) = self.sources.get_mut(&image) {
            held.place = place;
        }
        if self.sources.contains_key(&image) || self.sources.len() >= MAX_IMAGES {
            return;
        }
        let source = match identity.kind {
            ImageKind::VDSO => SymbolSource::Vdso,
            ImageKind::FILE => match self.room.hold(|| place.open(identity, &self.door)) {
                Some(file) => {
                    let file = Arc::new(file);
                    let (identity, since) = (identity.clone(), Some(Instant::now()));
                    SymbolSource::Held(Held { file, identity, place, since })
                }
                None if place.is_denied(identity, &self.door) => {
                    let (identity, tgid, looks, found) = (identity.clone(), place.tgid, 0, None);
                    SymbolSource::Denied(Denied { identity, tgid, looks, found })
                }
                None => SymbolSource::Path(identity.clone()),
            },
            _ => SymbolSource::Nowhere,
        };
        self.sources.insert(image, source);
    }

    /// Finds the file of an image as it was when it was mapped.
    pub(crate) fn file(&self, image: u32) -> Option<ForeignFile> {
        match self.sources.get(&image)? {
            SymbolSource::Held(held) => held.file.file.try_clone(),
            SymbolSource::Path(identity) => MapFile::NOWHERE.open(identity, &self.door),
            SymbolSource::Copied(..)
            | SymbolSource::Denied(_)
            | SymbolSource::Vdso
            | SymbolSource::Nowhere => None,
        }
    }

    /// Closes the files that no process has mapped any more, after their functions that were hit were found.
    pub(crate) fn release(&mut self) {
        if rest::is_needed() {
            return;
        }
        let now = Instant::now();
        let mut ended = Vec::new();
        for (image, source) in &mut self.sources {
            let SymbolSource::Held(held) = source else { continue };
            if held.since.is_some_and(|since| now.saturating_duration_since(since) >= MAX_HELD_FOR) {
                held.since = Some(now);
                ended.extend((!held.place.is_mapped(&held.identity, &self.door)).then_some(*image));
            }
        }
        for image in ended {
            // What is left waits for the next call.
            if rest::is_needed() {
                return;
            }
            if rest::unless_needed(|| self.find_in(image)).is_none() {
                if let Some(SymbolSource::Held(held)) = self.sources.get_mut(&image) {
                    held.since = None;
                }
                continue;
            }
            let Some(SymbolSource::Held(Held { file, identity, .. })) = self.sources.remove(&image) else {
                continue;
            };
            let is_on_path = MapFile::NOWHERE.open(&identity, &self.door).is_some();
            let copy = (!is_on_path).then(|| file.file.bytes(self.memory_left, &self.door)).flatten();
            let source = match copy.filter(|_| identity.is_of(&file.file, &self.door)) {
                Some(bytes) => {
                    self.memory_left -= bytes.len() as u64;
                    SymbolSource::Copied(bytes, identity)
                }
                None => SymbolSource::Path(identity),
            };
            self.sources.insert(image, source);
        }
    }

    /// Remembers code that was hit, by its offset in the file of an image.
    pub(crate) fn hit(&mut self, image: u32, file_off: FileOff) {
        if self.hit_count >= MAX_HITS {
            self.left_out += 1;
            return;
        }
        let known = self.hits.entry(image).or_default();
        self.hit_count += usize::from(!known.contains_key(&file_off));
        known.entry(file_off).or_insert(false);
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
            let found = memory_image::image(denied.tgid, &denied.identity, self.memory_left, &self.door);
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

    /// Takes notes about samples that are not settled yet: those of frames of interpreters.
    pub(crate) fn note_early(&mut self, notes: &[Note]) {
        self.jit.note_early(notes);
    }

    /// Takes the interpreters that were found, by process.
    pub(crate) fn take_interpreters(&mut self) -> Vec<(u32, Interpreter)> {
        self.jit.take_interpreters()
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
        hit.iter().for_each(|image| self.look_into_memory(*image));
        hit.into_iter().for_each(|image| self.find_in(image));
        let mut found = std::mem::take(&mut self.found);
        (found.left_out, found.jit, found.jit_told) = (self.left_out, self.jit.take_rows(), self.jit.told);
        // What was found early may be found again.
        found.symbols.sort_unstable_by_key(|symbol| (symbol.image, symbol.start, symbol.end));
        found.symbols.dedup_by_key(|symbol| (symbol.image, symbol.start, symbol.end));
        found.rules.sort_unstable();
        found.rules.dedup();
        found.images = found.symbols.chunk_by(|one, next| one.image == next.image).count() as u64;
        found
    }

    /// Reads the tables of one image for the offsets that were hit since this was called for it last.
    fn find_in(&mut self, image: u32) {
        let Some(hits) = self.hits.get(&image) else { return };
        let new: Vec<FileOff> =
            hits.iter().filter(|(_, is_found)| !**is_found).map(|(off, _)| *off).collect();
        // A return address is looked up one byte earlier, in the call, which may belong to another function.
        let offsets = new.iter().flat_map(|off| [off.0.saturating_sub(1), off.0]);
        let debug_file = |identity: &Identity| debug_file(&identity.build_id, &self.door);
        let read = |file: &ForeignFile, identity: &Identity| {
            let (file, debug) = (ReadCache::new(file.read(&self.door)), debug_file(identity));
            let debug = debug.as_ref().map(|debug| ReadCache::new(debug.read(&self.door)));
            (functions(&file, debug.as_ref(), offsets.clone()), rules_for(&file, offsets.clone()))
        };
        let read_bytes = |bytes: &[u8], debug: Option<&ForeignFile>| {
            let debug = debug.map(|debug| ReadCache::new(debug.read(&self.door)));
            (functions(bytes, debug.as_ref(), offsets.clone()), rules_for(bytes, offsets.clone()))
        };
        let (functions, rules) = match self.sources.get(&image) {
            Some(SymbolSource::Held(Held { file, identity, .. })) => {
                let is_it = identity.is_of(&file.file, &self.door);
                if is_it { read(&file.file, identity) } else { Default::default() }
            }
            Some(SymbolSource::Path(identity)) => {
                let file = MapFile::NOWHERE.open(identity, &self.door);
                file.map(|file| read(&file, identity)).unwrap_or_default()
            }
            Some(SymbolSource::Copied(bytes, identity)) => read_bytes(bytes, debug_file(identity).as_ref()),
            Some(SymbolSource::Vdso) => read_bytes(&vdso(&self.door), None),
            Some(SymbolSource::Denied(Denied { found: Some(found), .. })) => read_bytes(&found.bytes, None),
            Some(SymbolSource::Denied(_) | SymbolSource::Nowhere) => Default::default(),
            None => {
                self.left_out += new.len() as u64;
                Default::default()
            }
        };
        if rest::must_end() {
            return;
        }
        let rule = |Rule { at, start, bias, bytes }| UnwindRule { image, at, start, bias, bytes };
        self.found.rules.extend(rules.into_iter().map(rule));
        let symbol = |Function { start, end, address, whole, names, file }| Symbol {
            image,
            start,
            end,
            address: address.0,
            whole: whole.0,
            names,
            file,
        };
        self.found.symbols.extend(functions.into_iter().map(symbol));
        let hits = self.hits.entry(image).or_default();
        new.into_iter().for_each(|off| _ = hits.insert(off, true));
    }

    /// Returns the path of an image.
    pub(crate) fn path(&self, image: u32) -> Option<&[u8]> {
        Some(self.sources.get(&image)?.path())
    }

    /// Returns true if samples hit an image.
    pub(crate) fn is_hit(&self, image: u32) -> bool {
        self.counts.contains_key(&image) || self.hits.contains_key(&image)
    }

    /// Lists the images that were hit and whose file systems did not answer.
    pub(crate) fn unanswered(&self) -> Vec<Omitted> {
        let hit = self
            .sources
            .iter()
            .filter(|(image, source)| self.is_hit(**image) && source.is_silent(&self.door));
        let mut images: Vec<_> =
            hit.map(|(image, source)| Omitted::of(*image, source.path(), Omission::NO_ANSWER)).collect();
        images.sort_unstable_by_key(|omitted| omitted.row.image);
        images
    }

    /// Hands over the files of the images that were hit, those with the most hits first, in blocks of `max_bytes` together at
    /// most. Ends when `put` takes no more.
    pub(crate) fn carry(
        self,
        extent: Extent,
        max_bytes: u64,
        put: &mut dyn FnMut(ImagePartsV1) -> bool,
    ) -> Carried {
        let mut left = self.unanswered();
        let mut images: Vec<(u32, SymbolSource)> = self.sources.into_iter().collect();
        // Code that only copied stacks contain is on no walk: its image comes last.
        let is_hit = |image: &u32| self.counts.contains_key(image) || self.hits.contains_key(image);
        let is_there = |source: &SymbolSource| !matches!(source, SymbolSource::Nowhere);
        images.retain(|(image, source)| is_there(source) && is_hit(image) && !source.is_silent(&self.door));
        images.sort_unstable_by_key(|(image, _)| (Reverse(self.counts.get(image)), *image));
        let mut carrier = Carrier::new(extent, max_bytes, &self.door, put);
        let mut images = images.into_iter();
        for (image, source) in images.by_ref() {
            let (path, content) = source.open(&self.door);
            if !carrier.carry(image, &path, content) {
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
            Self::Held(Held { identity, .. }) | Self::Path(identity) | Self::Copied(_, identity) => {
                &identity.path
            }
            Self::Denied(denied) => &denied.identity.path,
            Self::Vdso => b"[vdso]",
            Self::Nowhere => b"",
        }
    }

    /// Returns true if the file system of the image did not answer.
    fn is_silent(&self, door: &Door) -> bool {
        match self {
            Self::Held(Held { identity, .. }) | Self::Path(identity) => door.is_silent(identity.dev),
            Self::Denied(denied) => door.is_silent(denied.identity.dev),
            Self::Copied(..) | Self::Vdso | Self::Nowhere => false,
        }
    }

    /// Returns the path of an image, and its content if that is available.
    fn open(self, door: &Door) -> (Vec<u8>, Option<Content>) {
        match self {
            Self::Copied(bytes, identity) => (identity.path, Some(Content::Memory(bytes))),
            Self::Held(Held { file, identity, .. }) => {
                let file = identity.is_of(&file.file, door).then(|| file.file.try_clone()).flatten();
                (identity.path, file.map(Content::File))
            }
            Self::Path(identity) => {
                let file = MapFile::NOWHERE.open(&identity, door);
                (identity.path, file.map(Content::File))
            }
            // The parts that the recording has must be those of the file.
            Self::Denied(denied) => (denied.identity.path, None),
            Self::Vdso => {
                let bytes = Some(vdso(door)).filter(|bytes| !bytes.is_empty());
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

/// Returns where the debug file of a build-id is, if it is installed.
pub(crate) fn debug_path(id: &[u8]) -> Option<String> {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    Some(format!("{DEBUG_FILES}/{first}/{rest}.debug"))
}

/// Finds the installed debug file of a build-id.
fn debug_file(id: &[u8], door: &Door) -> Option<ForeignFile> {
    let path = debug_path(id)?;
    let debug = door.below(Path::new("/"), path.as_bytes(), true).ok()?;
    let own_id = build_id::of_elf(&ReadCache::new(debug.read(door)));
    (own_id.as_deref() == Some(id)).then_some(debug)
}

/// Reads the vDSO of the recorder: the kernel gives the same one to all programs of one word size.
fn vdso(door: &Door) -> Vec<u8> {
    let read = || {
        let own_maps = std::fs::read("/proc/self/maps").ok()?;
        let line = maps::executable(&own_maps).find(|line| *line.path == *b"[vdso]")?;
        let len = line.end.checked_sub(line.start).filter(|len| *len <= MAX_VDSO_BYTES)?;
        Memory::of(std::process::id(), door).bring(line.start, len as usize)
    };
    read().unwrap_or_default()
}
