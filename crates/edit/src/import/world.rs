//! Converts tasks, images and mappings to rows, and replays their address spaces.

use std::path::Path;

use icecore_elf::Avma;
use icecore_format::records::{
    Cause, Change, Image, ImageKind, KernelSymbol, Lifecycle, Loss, Mapping, Origin,
};

use super::here::path_of;
use super::perf_data::{Event, Features, Kernel, Mapped, PerfData};
use icecore_profile::map::{Interned, Map};
use icecore_profile::recording::spaces::Spaces;

/// Everything that samples refer to.
#[derive(Debug)]
pub(super) struct World {
    /// Earliest and latest time of any event, ns.
    pub(super) span_ns: (u64, u64),
    /// Strings by id, from 1 on.
    pub(super) strings: Vec<Vec<u8>>,
    pub(super) images: Vec<Image>,
    pub(super) lifecycle: Vec<Lifecycle>,
    pub(super) mappings: Vec<Mapping>,
    pub(super) kernel_symbols: Vec<KernelSymbol>,
    pub(super) losses: Vec<Loss>,
    pub(super) spaces: Spaces,
    /// The name of the idle task, a string id.
    pub(super) idle: u32,
    /// The recorded kernel, if known.
    pub(super) kernel: Option<Kernel>,
}

impl World {
    /// Returns the path of an image.
    pub(super) fn path(&self, image: &Image) -> Option<&Path> {
        path_of(image, &self.strings)
    }

    /// Collects the contents of the records.
    pub(super) fn of(data: &PerfData) -> Self {
        let mut draft = WorldDraft::new(data);
        for (time_ns, event) in &data.events {
            draft.event(*time_ns, event);
        }
        let WorldDraft {
            span_ns,
            strings,
            images,
            lifecycle,
            mappings,
            mut kernel_symbols,
            losses,
            idle,
            kernel,
            ..
        } = draft;
        kernel_symbols.sort_by_key(|symbol| symbol.start);
        // If code replaced other code, the first is kept: an address has one name in a recording.
        kernel_symbols.dedup_by(|later, first| later.start < first.end);
        Self {
            span_ns,
            strings: strings.into_items(),
            images: images.into_items(),
            spaces: Spaces::replay(&lifecycle, &mappings),
            lifecycle,
            mappings,
            kernel_symbols,
            losses,
            idle,
            kernel,
        }
    }
}

struct WorldDraft<'a> {
    span_ns: (u64, u64),
    strings: Interned<Vec<u8>>,
    images: Interned<Image>,
    /// Build-ids of files, by path.
    build_ids: Map<&'a [u8], &'a [u8]>,
    /// Names of threads, string ids.
    comms: Map<u32, u32>,
    lifecycle: Vec<Lifecycle>,
    mappings: Vec<Mapping>,
    kernel_symbols: Vec<KernelSymbol>,
    losses: Vec<Loss>,
    idle: u32,
    kernel: Option<Kernel>,
}

impl<'a> WorldDraft<'a> {
    fn new(data: &'a PerfData) -> Self {
        let times = data.events.iter().map(|(time_ns, _)| *time_ns);
        let times =
            times.chain(data.samples.iter().map(|sample| sample.time_ns)).filter(|time_ns| *time_ns > 0);
        let (first, last) = times.fold((u64::MAX, 0), |(first, last), ns| (first.min(ns), last.max(ns)));
        let Features { build_ids, .. } = &data.features;
        let mut strings = Interned::new();
        let idle = strings.intern(b"swapper".to_vec()) + 1;
        Self {
            span_ns: (first.min(last), last),
            strings,
            images: Interned::new(),
            build_ids: build_ids.iter().map(|(path, id)| (&path[..], &id[..])).collect(),
            comms: Map::default(),
            lifecycle: Vec::new(),
            mappings: Vec::new(),
            kernel_symbols: Vec::new(),
            losses: Vec::new(),
            idle,
            kernel: None,
        }
    }

    fn string(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() { 0 } else { self.strings.intern(text.to_vec()) + 1 }
    }

    fn event(&mut self, time_ns: u64, event: &Event) {
        // perf synthesizes records of tasks and mappings that existed when it began.
        let was_there = time_ns == 0;
        let time_ns = time_ns.max(self.span_ns.0);
        match event {
            Event::Mapped(mapped) => {
                let image = self.image(mapped);
                let origin = if was_there { Origin::SCAN } else { Origin::EVENT };
                let Mapped { tgid, start, len, file_off, .. } = *mapped;
                self.mappings.push(Mapping {
                    time_ns,
                    tgid,
                    start: start.0,
                    len,
                    file_off: file_off.0,
                    image,
                    origin,
                    mount_ns: 0,
                });
            }
            Event::Kernel(kernel) => {
                self.kernel.get_or_insert_with(|| kernel.clone());
            }
            Event::Named { tgid, tid, comm, is_exec } => {
                let comm = self.string(comm);
                self.comms.insert(*tid, comm);
                let change = match (was_there, is_exec) {
                    (true, _) => Change::FOUND,
                    (_, true) => Change::EXEC,
                    _ => Change::COMM,
                };
                self.change(time_ns, change, (*tgid, *tid), 0, comm);
            }
            // A thread that existed before has a record with its name, too.
            Event::Forked { .. } if was_there => {}
            Event::Forked { tgid, tid, creator, creator_tid } => {
                let comm = self.comms.get(creator_tid).copied().unwrap_or(0);
                self.comms.insert(*tid, comm);
                self.change(time_ns, Change::FORK, (*tgid, *tid), *creator, comm);
            }
            Event::Exited { tgid, tid } => {
                let comm = self.comms.get(tid).copied().unwrap_or(0);
                self.change(time_ns, Change::EXIT, (*tgid, *tid), 0, comm);
            }
            Event::Lost { count, cpu, .. } => {
                let cpu = cpu.unwrap_or(u32::MAX);
                self.losses.push(Loss { time_ns, cpu, ..Loss::of(Cause::RING_FULL_SAMPLE, *count) });
            }
            Event::KernelCode { start, len, name } => {
                let name = self.string(name);
                let Avma(start) = *start;
                let end = start.saturating_add(u64::from(*len));
                self.kernel_symbols.push(KernelSymbol { start, end, name, module: 0 });
            }
        }
    }

    fn change(&mut self, time_ns: u64, change: Change, (tgid, tid): (u32, u32), parent_tgid: u32, comm: u32) {
        self.lifecycle.push(Lifecycle { time_ns, change, tgid, tid, parent_tgid, comm });
    }

    /// Returns the image of a mapping.
    fn image(&mut self, mapped: &Mapped) -> u32 {
        let kind = kind_of(&mapped.path);
        let path = match kind {
            ImageKind::ANONYMOUS if !mapped.path.starts_with(b"/memfd:") => &b"[anon]"[..],
            _ => &mapped.path,
        };
        let build_id = match &mapped.build_id[..] {
            [] => self.build_ids.get(path).copied().unwrap_or_default(),
            told => told,
        };
        let path = self.string(path);
        let (size_bytes, modified_unix_ns) = (0, 0);
        let Mapped { dev, inode, .. } = *mapped;
        let build_id = build_id.to_vec();
        self.images.intern(Image { kind, path, build_id, dev, inode, size_bytes, modified_unix_ns })
    }
}

/// Returns the kind of a path in perf's notation.
fn kind_of(path: &[u8]) -> ImageKind {
    let is_memory = [&b"//anon"[..], b"/memfd:", b"/dev/zero", b"/anon_hugepage", b"/SYSV", b"[anon"];
    match path {
        b"" | b"[heap]" | b"[stack]" => ImageKind::ANONYMOUS,
        b"[vdso]" => ImageKind::VDSO,
        _ if is_memory.iter().any(|name| path.starts_with(name)) => ImageKind::ANONYMOUS,
        [b'/', ..] => ImageKind::FILE,
        _ => ImageKind::SPECIAL,
    }
}

/// Replays the names of threads.
#[derive(Debug)]
pub(super) struct ThreadNames<'a> {
    changes: std::iter::Peekable<std::slice::Iter<'a, Lifecycle>>,
    comms: Map<u32, u32>,
    idle: u32,
}

impl<'a> ThreadNames<'a> {
    pub(super) fn new(world: &'a World) -> Self {
        Self { changes: world.lifecycle.iter().peekable(), comms: Map::default(), idle: world.idle }
    }

    /// Returns the name of a thread, a string id; 0 if unknown. Times must not decrease.
    pub(super) fn at(&mut self, tid: u32, time_ns: u64) -> u32 {
        while let Some(change) = self.changes.next_if(|change| change.time_ns <= time_ns) {
            self.comms.insert(change.tid, change.comm);
        }
        match self.comms.get(&tid) {
            Some(comm) => *comm,
            None if tid == 0 => self.idle,
            None => 0,
        }
    }
}
