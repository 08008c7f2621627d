//! Reads names of JIT code from the perf maps of its processes, if they are still on this machine.
//!
//! perf reads these maps when it reports; a recording contains the names. A map counts if it belongs to the recorded process: the
//! process last wrote it while perf recorded, or the process still runs and has run since.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use icecore_elf::Avma;
use icecore_format::records::JitCode;

use super::here::booted_unix_ns;

/// The most addresses of all processes; code at further addresses stays unnamed.
const MAX_ADDRESSES: usize = 512 << 10;
/// The largest map that is read, bytes.
const MAX_BYTES: u64 = 256 << 20;
/// The longest valid line, bytes.
const MAX_LINE: u64 = 8 << 10;
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

    /// Finds the pieces of code around the noted addresses.
    pub(super) fn rows(&self, when: RecordedAt<'_>) -> Vec<JitCode> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        if host.trim_end() != when.host {
            return Vec::new();
        }
        let rows = self.of.iter().filter_map(|(tgid, addresses)| {
            let file = open(*tgid, when)?;
            Some(pieces(BufReader::new(file), *tgid, addresses))
        });
        rows.flatten().collect()
    }
}

/// Opens the map of a process, if the recorded process wrote it.
fn open(tgid: u32, when: RecordedAt<'_>) -> Option<File> {
    let path = PathBuf::from(format!("/tmp/perf-{tgid}.map"));
    let is_good = |meta: &Metadata| {
        let own_uid = fs::metadata("/proc/self").map_or(0, |own| own.uid());
        let is_believed = [0, own_uid].contains(&meta.uid());
        meta.is_file() && meta.len() <= MAX_BYTES && is_believed && is_of(meta, tgid, when)
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

/// Reads the lines of a map that hold one of the addresses, or end right before one. Of several lines with an address the last
/// counts: a report uses the last of rows that begin at one time.
///
/// # Source
/// Linux `tools/perf/Documentation/jit-interface.txt`: `START SIZE name`, both numbers hexadecimal
fn pieces(mut map: BufReader<impl std::io::Read>, tgid: u32, addresses: &BTreeSet<Avma>) -> Vec<JitCode> {
    let (mut pieces, mut line, mut number) = (BTreeMap::new(), Vec::new(), 0_u64);
    while map.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        if let Some((start, end, name)) = parsed(&line)
            && addresses.range(start..=end).next().is_some()
        {
            pieces.insert((start, end), (number, name.to_vec()));
        }
        number += 1;
        line.clear();
    }
    let mut pieces: Vec<_> = pieces.into_iter().collect();
    pieces.sort_by_key(|(_, (number, _))| *number);
    let row =
        |((Avma(start), Avma(end)), (_, name))| JitCode { tgid, start, end, name, ..JitCode::default() };
    pieces.into_iter().map(row).collect()
}

/// Parses a line: start, end and name.
fn parsed(line: &[u8]) -> Option<(Avma, Avma, &[u8])> {
    let mut words = line.trim_ascii().splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let word = std::str::from_utf8(words.next()?).ok()?;
        u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim_ascii();
    let end = start.checked_add(size).filter(|end| *end > start)?;
    (!name.is_empty() && !name.contains(&0)).then_some((Avma(start), Avma(end), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_hold_an_address_are_taken_and_the_last_counts() {
        let text = "1000 20 py::f:/a b.py\n0x2000 0x10 g\n3000 10 other\n2000 10 h\n1000\nx 10 f\n4000 0 f\n";
        let addresses = BTreeSet::from([0x1010, 0x2010, 0x4000].map(Avma));
        let rows = pieces(BufReader::new(text.as_bytes()), 7, &addresses);
        let told: Vec<_> = rows.iter().map(|row| (row.start, row.end, &row.name[..])).collect();
        assert_eq!(told, [(0x1000, 0x1020, &b"py::f:/a b.py"[..]), (0x2000, 0x2010, &b"h"[..])]);
        assert!(rows.iter().all(|row| row.tgid == 7));
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
