//! The lists in the BPF programs that the recorder changes while it samples.

use anyhow::Context as _;
use std::os::fd::{AsFd as _, AsRawFd as _};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};

use super::Sampler;
use crate::kernel::names::KernelNames;
use crate::kernel::wire::{FileKey, PageKey};
use crate::skeleton::types::limits;

/// The most files that have unwind tables in the sampler at one time.
pub(crate) const MAX_TABLES: usize = limits::MAX_TABLES.0 as usize;
const SEGMENT_CHUNKS: u32 = limits::SEGMENT_CHUNKS.0;
/// The most chunks of all tables: 64 MiB.
pub(crate) const MAX_CHUNKS: u32 = limits::MAX_SEGMENTS.0 * SEGMENT_CHUNKS;
const CHUNK_BYTES: u32 = size_of::<Chunk>() as u32;

/// The number of processes that can be trusted at one time.
pub(crate) const MAX_TRUSTED: usize = 16 << 10;

impl Sampler<'_> {
    /// Opens the list of processes whose walks are believed.
    pub(crate) fn trusted(&self) -> anyhow::Result<Trusted> {
        let map = MapHandle::try_from(&self.skel.maps.trusted_tgids);
        Ok(Trusted(map.context("cannot open the list of trusted processes")?))
    }

    /// Opens the list of pages that need not be sent again.
    pub fn sent_pages(&self) -> anyhow::Result<SentPages> {
        let map = MapHandle::try_from(&self.skel.maps.sent_pages);
        Ok(SentPages(map.context("cannot open the list of pages that were sent")?))
    }

    /// Opens the unwind tables of files; `None` if stacks are not walked by them.
    pub(crate) fn tables(&self) -> anyhow::Result<Option<Tables>> {
        let maps = &self.skel.maps;
        let open = || -> libbpf_rs::Result<_> {
            let (of_files, all) = ((&maps.tables_of_files).try_into()?, (&maps.segments).try_into()?);
            Ok(Tables { of_files, all, segments: Vec::new(), shown: 0 })
        };
        self.walks_tables.then(open).transpose().context("cannot open the unwind tables of the sampler")
    }

    /// Opens the names of kernel functions; `None` if the kernel does not tell single ones.
    pub fn kernel_names(&self) -> Option<KernelNames> {
        let program = Some(&self.skel.progs.name_address).filter(|program| program.autoload())?;
        let asked = MapHandle::try_from(&self.skel.maps.asked_addresses).ok()?;
        let link = program.attach_iter(asked.as_fd()).ok()?;
        Some(KernelNames::new(asked, link))
    }

    /// Opens the list of Go processes.
    pub(crate) fn of_go(&self) -> anyhow::Result<OfGo> {
        let map = MapHandle::try_from(&self.skel.maps.go_tgids);
        Ok(OfGo(map.context("cannot open the list of Go processes")?))
    }
}

/// Processes whose walks are believed because their code keeps frame pointers. The sampler copies the stacks of all others, so a
/// failed write to the list costs bytes and no stack.
pub(crate) struct Trusted(MapHandle);

impl Trusted {
    /// Trusts a process while it has this number of pages of code.
    pub(crate) fn put(&self, tgid: u32, pages: u64) {
        let _ = self.0.update(&tgid.to_ne_bytes(), &pages.to_ne_bytes(), MapFlags::ANY);
    }

    /// Takes a process off the list; most processes are not on it.
    pub(crate) fn withdraw(&self, tgid: u32) {
        let _ = self.0.delete(&tgid.to_ne_bytes());
    }
}

/// Pages of stacks that the sampler does not send again while their contents stay the same.
#[derive(Debug)]
pub struct SentPages(MapHandle);

impl SentPages {
    /// Makes the sampler send a page with the next sample of its thread, whatever the page holds.
    pub(crate) fn forget(&self, page: PageKey) {
        // The sampler sends a page that is not on the list anyway.
        let _ = self.0.delete(&page.0.to_ne_bytes());
    }
}

/// A part of the unwind tables: `union table_chunk` of bpf/tables.h.
pub(crate) type Chunk = [u64; limits::CHUNK_ROWS.0 as usize];

/// The bytes of a chunk.
pub(crate) fn bytes_of(chunk: &Chunk) -> [u8; size_of::<Chunk>()] {
    let mut bytes = [0; _];
    bytes.as_chunks_mut().0.iter_mut().zip(chunk).for_each(|(to, word)| *to = word.to_ne_bytes());
    bytes
}

/// The unwind tables of files in the sampler.
#[derive(Debug)]
pub(crate) struct Tables {
    of_files: MapHandle,
    all: MapHandle,
    /// Made when they are needed.
    segments: Vec<MapHandle>,
    /// How many of them the sampler can see.
    shown: usize,
}

impl Tables {
    /// Puts chunks into the sampler, from a number on.
    ///
    /// # Errors
    /// If the kernel has no memory for them, or the numbers are beyond [`MAX_CHUNKS`].
    pub(crate) fn put(&mut self, first: u32, chunks: &[Chunk]) -> anyhow::Result<()> {
        for (number, chunk) in (first..).zip(chunks) {
            let segment = self.segment(number / SEGMENT_CHUNKS)?;
            segment.update(&(number % SEGMENT_CHUNKS).to_ne_bytes(), &bytes_of(chunk), MapFlags::ANY)?;
        }
        self.show()
    }

    /// Lets the sampler use the tables of a file. They cover so many bytes of it from `begin` on; `first_position` counts from the first
    /// chunk of all on.
    ///
    /// # Errors
    /// If there are too many files.
    pub(crate) fn publish(
        &self,
        file: &FileKey,
        begin: u64,
        len: u32,
        first_position: u32,
    ) -> anyhow::Result<()> {
        let table =
            [begin.to_ne_bytes().as_slice(), &len.to_ne_bytes(), &first_position.to_ne_bytes()].concat();
        Ok(self.of_files.update(&file.0, &table, MapFlags::ANY)?)
    }

    fn segment(&mut self, number: u32) -> anyhow::Result<&MapHandle> {
        let at = number as usize;
        while self.segments.len() <= at {
            let opts = libbpf_sys::bpf_map_create_opts {
                sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
                ..Default::default()
            };
            let (name, most) = (Some("icecore_rows"), SEGMENT_CHUNKS);
            self.segments.push(MapHandle::create(MapType::Array, name, 4, CHUNK_BYTES, most, &opts)?);
        }
        Ok(&self.segments[at])
    }

    /// Lets the sampler see the segments that are new. After a change of a map of maps the kernel waits until no program uses the old
    /// one, 10 ms measured on 6.18; for all changes of a batch it waits once. One by one, the tables of rustc took 300 ms.
    fn show(&mut self) -> anyhow::Result<()> {
        let new = &self.segments[self.shown..];
        let count = u32::try_from(new.len())?;
        let keys: Vec<u8> = (self.shown as u32..).take(new.len()).flat_map(u32::to_ne_bytes).collect();
        let fds: Vec<u8> = new.iter().flat_map(|segment| segment.as_fd().as_raw_fd().to_ne_bytes()).collect();
        if count > 0 && self.all.update_batch(&keys, &fds, count, MapFlags::ANY, MapFlags::ANY).is_err() {
            // Older kernels have no batches for maps of maps.
            for (key, fd) in keys.chunks(4).zip(fds.chunks(4)) {
                self.all.update(key, fd, MapFlags::ANY)?;
            }
        }
        self.shown = self.segments.len();
        Ok(())
    }
}

/// Go processes, and where their runtime notes the stacks that it has left. In a Go process that is not on the list, walks end or skip
/// callers where the runtime switches stacks; the report shows that.
pub(crate) struct OfGo(MapHandle);

impl OfGo {
    /// Puts a process on the list; `places` holds the bytes of a `struct go_places` (bpf/go.h).
    pub(crate) fn put(&self, tgid: u32, places: &[u8]) {
        let _ = self.0.update(&tgid.to_ne_bytes(), places, MapFlags::ANY);
    }
}
