//! Reads names of JIT code from the jitdumps and perf maps of its processes, if they are still on this machine.
//!
//! perf reads these files when it reports, or with `perf inject --jit`; a recording contains the names. A jitdump counts if it is the
//! file that the process had mapped, as V8 and others do so that `perf record` notes its path; its times count if perf had the clock of
//! jitdumps (`-k mono`). A map counts if it belongs to the recorded process: the process last wrote it while perf recorded, or the
//! process still runs and has run since.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use icecore_elf::{Avma, FileOff};
use icecore_format::records::Image;
use icecore_jit::{DumpClock, Piece, ReadAt, Requested, dump, perf_map};
use icecore_symbolize::image::{Door, ElfFile};

use super::here::{self, booted_unix_ns};
use super::world::World;

/// The most addresses of all processes; code at further addresses stays unnamed.
const MAX_ADDRESSES: usize = 512 << 10;
/// The most jitdumps of a process.
const MAX_DUMPS: usize = 8;
/// The largest difference between the times of files and of samples.
const CLOCKS_APART_NS: u64 = 2_000_000_000;
/// Ticks per second in `/proc/PID/stat`: the same on every Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Addresses of code that is in no file, by process.
#[derive(Debug, Default)]
pub(super) struct Made {
    of: BTreeMap<u32, BTreeSet<Avma>>,
    count: usize,
}

/// When and where perf recorded; a map must match it. Times in ns since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordedAt<'a> {
    pub(super) host: &'a str,
    pub(super) began: u64,
    /// The last change of the perf.data file.
    pub(super) ended: u64,
}

impl Made {
    /// Notes addresses of code on a stack, or in its words.
    pub(super) fn note(&mut self, tgid: u32, addresses: impl Iterator<Item = Avma>) {
        for address in addresses {
            if self.count < MAX_ADDRESSES {
                self.count += usize::from(self.of.entry(tgid).or_default().insert(address));
            }
        }
    }

    /// Finds the pieces of code around the noted addresses, with their processes. Dumps come before maps, because they have times.
    pub(super) fn pieces(&self, when: RecordedAt<'_>, dumps: &Dumps<'_>) -> Vec<(u32, Piece)> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        if host.trim_end() != when.host {
            return Vec::new();
        }
        let mut all = Vec::new();
        for (tgid, addresses) in &self.of {
            let mut left: Vec<Avma> = addresses.iter().copied().collect();
            let mut keep = |found: Vec<Piece>, left: &mut Vec<Avma>| {
                drop_within(&found, left);
                all.extend(found.into_iter().map(|piece| (*tgid, piece)));
            };
            for file in dumps.of(*tgid) {
                let (found, _) = dump::find_by(&Whole(&file), &Requested::new(&left), &dumps.clock);
                keep(found, &mut left);
            }
            if let Some(file) = open(*tgid, when).filter(|_| !left.is_empty()) {
                let len = file.metadata().map_or(0, |meta| meta.len());
                let found = perf_map::find(file, len, 0, &Requested::new(&left));
                keep(found.map_or_else(|_| Vec::new(), |(found, _)| found), &mut left);
            }
        }
        all
    }
}

/// Drops the addresses that lie in pieces. Addresses ascend.
fn drop_within(pieces: &[Piece], addresses: &mut Vec<Avma>) {
    let mut parts: Vec<(Avma, Avma)> = pieces.iter().map(|piece| (piece.start, piece.end)).collect();
    parts.sort_unstable();
    let (mut parts, mut end) = (parts.into_iter().peekable(), Avma(0));
    addresses.retain(|address| {
        while let Some((_, further)) = parts.next_if(|(start, _)| start <= address) {
            end = end.max(further);
        }
        *address >= end
    });
}

/// The jitdumps that processes had mapped.
#[derive(Debug)]
pub(super) struct Dumps<'a> {
    world: &'a World,
    door: &'a Door,
    /// The clock of the dumps, as far as samples have the same one.
    clock: DumpClock,
    /// Processes and their dumps, image ids.
    mapped: BTreeSet<(u32, u32)>,
}

impl<'a> Dumps<'a> {
    pub(super) fn new(world: &'a World, door: &'a Door, clock: DumpClock) -> Self {
        let is_dump = |image: &Image| world.path(image).is_some_and(is_dump);
        let dumps: Vec<bool> = world.images.iter().map(is_dump).collect();
        let of_dumps =
            world.mappings.iter().filter(|mapping| dumps.get(mapping.image as usize) == Some(&true));
        let mapped = of_dumps.map(|mapping| (mapping.tgid, mapping.image)).collect();
        Self { world, door, clock, mapped }
    }

    /// Opens the dumps of a process, if they are the files that it had mapped.
    fn of(&self, tgid: u32) -> Vec<ElfFile> {
        let open = |(_, image): &(u32, u32)| {
            let image = &self.world.images[*image as usize];
            let file = self.door.open(None, self.world.path(image)?).ok()?;
            here::is_inode(&file, image).then_some(file)
        };
        self.mapped.range((tgid, 0)..=(tgid, u32::MAX)).filter_map(open).take(MAX_DUMPS).collect()
    }
}

/// Returns true if a process writes its dump there.
///
/// # Source   Linux `tools/perf/Documentation/jitdump-specification.txt`: `jit-PID.dump`
fn is_dump(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let number = name.and_then(|name| name.strip_prefix("jit-")?.strip_suffix(".dump"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A file that is read in pieces.
struct Whole<'a>(&'a ElfFile);

impl ReadAt for Whole<'_> {
    fn read(&self, off: u64, bytes: &mut [u8]) -> usize {
        let len = self.0.len.saturating_sub(off).min(bytes.len() as u64);
        let read = self.0.bytes(FileOff(off), len).unwrap_or_default();
        bytes[..read.len()].copy_from_slice(&read);
        read.len()
    }
}

/// Opens the map of a process, if the recorded process wrote it.
fn open(tgid: u32, when: RecordedAt<'_>) -> Option<File> {
    let path = PathBuf::from(format!("/tmp/perf-{tgid}.map"));
    let is_good = |meta: &Metadata| {
        let own_uid = fs::metadata("/proc/self").map_or(0, |own| own.uid());
        let is_believed = [0, own_uid].contains(&meta.uid());
        meta.is_file() && is_believed && is_of(meta, tgid, when)
    };
    // A link may lead anywhere, and opening a pipe has side effects.
    let seen = fs::symlink_metadata(&path).ok().filter(is_good)?;
    let file = File::open(&path).ok()?;
    let meta = file.metadata().ok()?;
    ((meta.dev(), meta.ino()) == (seen.dev(), seen.ino())).then_some(file)
}

fn is_of(meta: &Metadata, tgid: u32, when: RecordedAt<'_>) -> bool {
    let seconds = u64::try_from(meta.mtime()).unwrap_or(0);
    let written = seconds.saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec() as u64);
    let meanwhile = when.began.saturating_sub(CLOCKS_APART_NS)..=when.ended.saturating_add(CLOCKS_APART_NS);
    let runs_since = || began(tgid).is_some_and(|began| began <= written.min(when.ended));
    meanwhile.contains(&written) || runs_since()
}

/// Returns when a running process started, ns since 1970.
///
/// # Source
/// proc(5) `/proc/pid/stat`: field 22 is the start in ticks since the machine started; the name of the process, in brackets, may
/// hold anything.
fn began(tgid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{tgid}/stat")).ok()?;
    let behind_name = stat.rsplit(|byte| *byte == b')').next()?;
    let ticks = behind_name.split(|byte| *byte == b' ').nth(20)?;
    let ticks: u64 = std::str::from_utf8(ticks).ok()?.parse().ok()?;
    booted_unix_ns()?.checked_add((ticks / TICKS_PER_SECOND).checked_mul(1_000_000_000)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_have_a_name_are_not_asked_for_again() {
        let piece = |start, end| Piece { start: Avma(start), end: Avma(end), ..Piece::default() };
        let mut addresses: Vec<Avma> = (0..10).map(Avma).collect();
        drop_within(&[piece(7, 8), piece(1, 5), piece(2, 3)], &mut addresses);
        assert_eq!(addresses, [0, 5, 6, 8, 9].map(Avma));
    }

    #[test]
    fn a_dump_has_the_number_of_a_process_in_its_name() {
        assert!(is_dump(Path::new("/tmp/.debug/jit/x/jit-12.dump")));
        for other in ["/tmp/jit-.dump", "/tmp/jit-1x.dump", "/tmp/jit-1.dump.1", "/tmp/a-jit-1.dump", "/"] {
            assert!(!is_dump(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn a_map_counts_if_it_was_written_meanwhile_or_by_whoever_still_runs() {
        let file = tempfile::NamedTempFile::new().expect("room");
        let meta = fs::metadata(file.path()).expect("there");
        let written = meta.mtime() as u64 * 1_000_000_000;
        let hour = 3_600_000_000_000;
        let is_of = |tgid, began, ended| is_of(&meta, tgid, RecordedAt { host: "", began, ended });
        assert!(is_of(u32::MAX, written - hour, written + hour));
        assert!(!is_of(u32::MAX, written - 2 * hour, written - hour));
        assert!(!is_of(u32::MAX, written + hour, written + 2 * hour));
        assert!(
            is_of(1, written + hour, written + 2 * hour),
            "the first process runs since the machine does"
        );
        assert!(!is_of(1, 1, 2), "the machine was started later");
    }
}
