//! The unwind tables of files in the sampler (bpf/tables.h).

use std::os::fd::{AsFd as _, AsRawFd as _};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};

use crate::kernel::wire::FileKey;
use crate::skeleton::IcecoreSkel;
use crate::skeleton::types::{known_row, limits};

/// The most files that have unwind tables in the sampler at one time.
pub(crate) const MAX_TABLES: u32 = limits::MAX_TABLES.0;
const SEGMENT_CHUNKS: u32 = limits::SEGMENT_CHUNKS.0;
/// The most chunks of all tables: 64 MiB.
pub(crate) const MAX_CHUNKS: u32 = limits::MAX_SEGMENTS.0 * SEGMENT_CHUNKS;
const CHUNK_BYTES: u32 = size_of::<Chunk>() as u32;

/// A part of the unwind tables: `union table_chunk` of bpf/tables.h.
pub(crate) type Chunk = [u64; limits::CHUNK_ROWS.0 as usize];

/// The bytes of a chunk.
pub(crate) fn bytes_of(chunk: &Chunk) -> [u8; size_of::<Chunk>()] {
    let mut bytes = [0; _];
    bytes.as_chunks_mut().0.iter_mut().zip(chunk).for_each(|(to, word)| *to = word.to_ne_bytes());
    bytes
}

/// The table of a file: `struct table` of bpf/wire.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Table {
    /// By which its hits are counted; below [`MAX_TABLES`].
    pub(crate) number: u32,
    /// The offset in the file from which places count, bytes.
    pub(crate) begin: u64,
    /// How much of the file it covers, bytes; 0 if there are no rows.
    pub(crate) len: u32,
    /// Counts from the first chunk of all on.
    pub(crate) first_position: u32,
}

/// The unwind tables of files in the sampler.
#[derive(Debug)]
pub(crate) struct Tables {
    of_files: MapHandle,
    all: MapHandle,
    hits: MapHandle,
    /// Hits by the number of a table, as they were counted when somebody last asked.
    counted: Vec<u64>,
    epoch: MapHandle,
    /// How often tables were withdrawn.
    withdrawn: u64,
    known_rows: MapHandle,
    /// Made when they are needed.
    segments: Vec<MapHandle>,
    /// How many of them the sampler can see.
    shown: usize,
}

impl Tables {
    /// Opens those of a sampler.
    ///
    /// # Errors
    /// As the kernel says.
    pub(super) fn of(skel: &IcecoreSkel<'_>) -> libbpf_rs::Result<Self> {
        let maps = &skel.maps;
        Ok(Self {
            of_files: (&maps.tables_of_files).try_into()?,
            all: (&maps.segments).try_into()?,
            hits: (&maps.table_hits).try_into()?,
            counted: vec![0; MAX_TABLES as usize],
            epoch: (&maps.tables_epoch).try_into()?,
            withdrawn: 0,
            known_rows: (&maps.known_rows).try_into()?,
            segments: Vec::new(),
            shown: 0,
        })
    }

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

    /// Lets the sampler use the tables of a file.
    ///
    /// # Errors
    /// If there are too many files.
    pub(crate) fn publish(&mut self, file: &FileKey, table: Table) -> anyhow::Result<()> {
        let Table { number, begin, len, first_position } = table;
        self.new_hits(number);
        let words = [len, first_position, number, 0].map(u32::to_ne_bytes);
        let table = [begin.to_ne_bytes().as_slice(), words.as_flattened()].concat();
        Ok(self.of_files.update(&file.0, &table, MapFlags::ANY)?)
    }

    /// Returns how often walks came to code since the last question, by the number of its table.
    pub(crate) fn new_hits(&mut self, number: u32) -> u64 {
        let of_cpus = self.hits.lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let word = |bytes: Vec<u8>| bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let now = of_cpus.unwrap_or_default().into_iter().map(word).sum();
        let counted = &mut self.counted[number as usize];
        now - std::mem::replace(counted, now)
    }

    /// Takes the tables of files away from the sampler; then it uses their chunks no more.
    ///
    /// # Errors
    /// As the kernel says. Then their chunks must not be used for other files.
    pub(crate) fn withdraw(&mut self, files: &[FileKey]) -> anyhow::Result<()> {
        files.iter().for_each(|file| _ = self.of_files.delete(&file.0));
        self.withdrawn += 1;
        self.epoch.update(&[0; 4], &self.withdrawn.to_ne_bytes(), MapFlags::ANY)?;
        // After a change the kernel waits until no program uses the old map: then no walk goes on that knows the tables.
        if let Some(first) = self.segments.first().filter(|_| self.shown > 0) {
            self.all.update(&[0; 4], &first.as_fd().as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
        }
        self.forget_rows()
    }

    /// Makes the CPUs forget the rows that they remember.
    fn forget_rows(&self) -> anyhow::Result<()> {
        let count = self.known_rows.info()?.info.max_entries;
        let keys: Vec<u8> = (0..count).flat_map(u32::to_ne_bytes).collect();
        let nothing = vec![0; count as usize * size_of::<known_row>()];
        if self.known_rows.update_batch(&keys, &nothing, count, MapFlags::ANY, MapFlags::ANY).is_err() {
            // Kernels before 5.6 have no batches.
            for key in keys.chunks(4) {
                self.known_rows.update(key, &nothing[..size_of::<known_row>()], MapFlags::ANY)?;
            }
        }
        Ok(())
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
