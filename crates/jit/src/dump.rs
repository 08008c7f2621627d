//! Reads jitdump files: records with times, in which a process reports its JIT code.

use icecore_elf::{Avma, cfi};
use rustc_hash::FxHashMap;

use super::Piece;
use super::lines::{self, CodeRange, Debug};
use super::read_at::{ReadAt, u32_at, u64_at};
use super::scale::{DumpClock, Scale};
use super::{MAX_NAME_BYTES, Requested, perf_map};

/// At most this many records of a file are read, which takes a few seconds. The code itself, most of the file, is not read.
const MAX_RECORDS: usize = 4 << 20;
/// The number of pieces of code that are remembered because they may move: 64 MiB of memory.
const MAX_PIECES: usize = 1 << 20;
const MAGIC: u32 = 0x4a69_5444;
/// The flag of a file whose times come from a processor counter. Where they cannot be compared with the times of samples, nobody knows
/// which of several pieces at an address a sample hit.
const ARCH_TIMESTAMPS: u64 = 1;
const HEADER_LEN: u64 = 40;
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const DEBUG: u32 = 2;
const CLOSE: u32 = 3;
const UNWINDING: u32 = 4;
/// The bytes of a record's head: kind, length, time.
const PREFIX_LEN: u64 = 16;
/// The bytes of a LOAD record up to its name, and of a MOVE record.
const LOAD_LEN: u64 = 56;
const MOVE_LEN: u64 = 64;
/// The bytes of a debug record up to the address of its first entry.
const DEBUG_LEN: u64 = 40;
/// The bytes of a record of unwind tables up to these, which begin with the entries and end with their index.
const UNWINDING_LEN: u64 = 40;
/// The longest unwind tables of a piece that are read, and the most bytes of all of them.
const MAX_RULES_BYTES: u64 = 64 << 10;
const MAX_ALL_RULES_BYTES: u64 = 64 << 20;
/// The number of debug records that wait for their code; each comes before it.
const MAX_DEBUGS: usize = 4 << 10;
/// The bytes that are read of each record.
const HEAD_LEN: usize = MOVE_LEN as usize;

/// Finds the pieces of code that contain addresses, in the order of the file; returns true as well if records were skipped because of a
/// limit. An incomplete record at the end of the file is skipped, too: it was being written.
///
/// # Source
/// Linux `tools/perf/Documentation/jitdump-specification.txt`, version 1, in the byte order of this machine
pub fn find<S: ReadAt + ?Sized>(file: &S, asked: &Requested<'_>) -> (Vec<Piece>, bool) {
    find_by(file, asked, &DumpClock::SHARED)
}

/// Does the same for a process with clocks of its own.
pub fn find_by<S: ReadAt + ?Sized>(file: &S, asked: &Requested<'_>, clock: &DumpClock) -> (Vec<Piece>, bool) {
    let mut dump = Dump {
        file,
        asked,
        clock,
        scale: None,
        rules: None,
        codes: FxHashMap::default(),
        debugs: FxHashMap::default(),
        lines: lines::LineReader::new(),
        pieces: Vec::new(),
    };
    let is_cut = dump.read().unwrap_or(false);
    let (has_times, mut lines, mut left_bytes) = (dump.scale.is_some(), dump.lines, MAX_ALL_RULES_BYTES);
    let piece = |(piece, Texts { name, debug, rules }): (Piece, Texts)| {
        let wanted = CodeRange { start: piece.start, end: piece.end, asked };
        let lines = debug.map_or_else(Vec::new, |debug| lines.lines(file, debug, wanted));
        let rules = rules.map_or_else(Vec::new, |rules| rules.of(file, &mut left_bytes));
        Some(Piece { name: name.of(file)?, rules, lines, ..piece })
    };
    let pieces: Vec<Piece> = dump.pieces.into_iter().filter_map(piece).collect();
    (if has_times { pieces } else { perf_map::without_times(pieces, asked) }, is_cut)
}

struct Dump<'a, S: ?Sized> {
    file: &'a S,
    asked: &'a Requested<'a>,
    clock: &'a DumpClock,
    /// Converts times; `None` if that is not possible.
    scale: Option<Scale>,
    /// The unwind tables of the code whose record follows.
    rules: Option<Rules>,
    /// The pieces of code that may move, by the number that the process gave them.
    codes: FxHashMap<u64, Code>,
    /// Debug records whose code has not come yet, by its address.
    debugs: FxHashMap<Avma, Debug>,
    lines: lines::LineReader,
    /// The pieces that contain a requested address, and where their texts are.
    pieces: Vec<(Piece, Texts)>,
}

/// The locations of a piece's texts in the file.
#[derive(Debug, Clone, Copy)]
struct Texts {
    name: Name,
    debug: Option<Debug>,
    rules: Option<Rules>,
}

/// The location of the entries of unwind tables in the file.
#[derive(Debug, Clone, Copy)]
struct Rules {
    off: u64,
    len: u64,
}

impl Rules {
    /// Finds the entries in a record by its first bytes: they come before their index.
    fn in_record(head: &[u8], off: u64, len: u64) -> Option<Self> {
        let [all, index] = [16, 24].map(|at| u64_at(head, at));
        let entries = all.checked_sub(index).filter(|entries| (1..=MAX_RULES_BYTES).contains(entries))?;
        (UNWINDING_LEN.checked_add(all)? <= len).then_some(Self { off: off + UNWINDING_LEN, len: entries })
    }

    /// Reads the entries, if they are all there.
    fn of<S: ReadAt + ?Sized>(self, file: &S, left_bytes: &mut u64) -> Vec<u8> {
        let Some(left) = left_bytes.checked_sub(self.len) else { return Vec::new() };
        *left_bytes = left;
        let mut bytes = vec![0; self.len as usize];
        if file.read(self.off, &mut bytes) < bytes.len() {
            return Vec::new();
        }
        cfi::drop_omitted(&mut bytes);
        bytes
    }
}

/// A piece of code that may move.
#[derive(Debug, Clone, Copy)]
struct Code {
    start: Avma,
    texts: Texts,
    /// The position in [`Dump::pieces`].
    piece: Option<usize>,
}

/// The location of a name in the file.
#[derive(Debug, Clone, Copy)]
struct Name {
    off: u64,
    /// The number of bytes that follow in its record.
    room: u64,
}

impl Name {
    /// Reads the name, up to its terminating zero.
    fn of<S: ReadAt + ?Sized>(self, file: &S) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.room.min(MAX_NAME_BYTES as u64) as usize];
        let read = file.read(self.off, &mut bytes);
        bytes.truncate(read);
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        bytes.truncate(len);
        (!bytes.is_empty()).then_some(bytes)
    }
}

impl<S: ReadAt + ?Sized> Dump<'_, S> {
    /// Reads records until the end of the file or a limit; `None` when no further record can be read.
    fn read(&mut self) -> Option<bool> {
        let mut header = [0; HEADER_LEN as usize];
        let is_whole = self.file.read(0, &mut header) == header.len();
        let header_len = u64::from(u32_at(&header, 8));
        if !is_whole || u32_at(&header, 0) != MAGIC || u32_at(&header, 4) != 1 || header_len < HEADER_LEN {
            return None;
        }
        let began = u64_at(&header, 24);
        let is_counter = u64_at(&header, 32) & ARCH_TIMESTAMPS != 0;
        self.scale = self.clock.scale(is_counter, began);
        let mut off = header_len;
        for _ in 0..MAX_RECORDS {
            let mut head = [0; HEAD_LEN];
            let read = self.file.read(off, &mut head) as u64;
            let (len, time) = (u64::from(u32_at(&head, 4)), u64_at(&head, 8));
            if read < PREFIX_LEN || len < PREFIX_LEN {
                return None;
            }
            let time_ns = self.scale.map_or(0, |scale| scale.ns(time));
            match u32_at(&head, 0) {
                LOAD if read.min(len) >= LOAD_LEN && !self.load(&head, off, len, time_ns) => {
                    return Some(true);
                }
                MOVE if read.min(len) >= MOVE_LEN => self.moved(&head, time_ns),
                UNWINDING if read.min(len) >= UNWINDING_LEN => {
                    self.rules = Rules::in_record(&head, off, len);
                }
                DEBUG if read.min(len) >= DEBUG_LEN => self.debug(&head, off, len),
                CLOSE => {
                    self.close(time_ns);
                    return Some(false);
                }
                _ => {}
            }
            off = off.checked_add(len)?;
        }
        Some(true)
    }

    /// Notes the debug record of code whose LOAD record follows.
    fn debug(&mut self, head: &[u8], off: u64, len: u64) {
        if self.debugs.len() >= MAX_DEBUGS {
            self.debugs.clear();
        }
        self.debugs.insert(Avma(u64_at(head, 16)), self.lines.note(head, off, len));
    }

    /// Notes new code; returns false if there is no room for it.
    fn load(&mut self, head: &[u8], off: u64, len: u64, time_ns: u64) -> bool {
        let [start, size, number] = [32, 40, 48].map(|at| u64_at(head, at));
        let start = Avma(start);
        let name = Name { off: off + LOAD_LEN, room: len - LOAD_LEN };
        let texts = Texts { name, debug: self.debugs.remove(&start), rules: self.rules.take() };
        let piece = self.place(start, size, time_ns, texts);
        if self.codes.len() >= MAX_PIECES && !self.codes.contains_key(&number) {
            return false;
        }
        self.codes.insert(number, Code { start, texts, piece });
        true
    }

    /// Notes that code was moved: the piece at its old address ends.
    fn moved(&mut self, head: &[u8], time_ns: u64) {
        let [old, new, size, number] = [32, 40, 48, 56].map(|at| u64_at(head, at));
        let (old, new) = (Avma(old), Avma(new));
        let Some(code) = self.codes.get(&number).copied().filter(|code| code.start == old) else { return };
        self.end(code.piece, time_ns);
        let piece = self.place(new, size, time_ns, code.texts);
        self.codes.insert(number, Code { start: new, piece, ..code });
    }

    /// Notes that the process makes no more code, and that all its code is gone.
    fn close(&mut self, time_ns: u64) {
        let last: Vec<Option<usize>> = self.codes.values().map(|code| code.piece).collect();
        last.into_iter().for_each(|piece| self.end(piece, time_ns));
    }

    fn end(&mut self, piece: Option<usize>, time_ns: u64) {
        if let Some((piece, _)) = piece.and_then(|piece| self.pieces.get_mut(piece)) {
            piece.until_ns = time_ns;
        }
    }

    /// Stores a piece if it contains a requested address.
    fn place(&mut self, start: Avma, size: u64, since_ns: u64, texts: Texts) -> Option<usize> {
        let end = Avma(start.0.checked_add(size)?);
        if self.asked.within(start, end).is_empty() || self.pieces.len() >= MAX_PIECES {
            return None;
        }
        self.pieces.push((Piece { start, end, since_ns, ..Piece::default() }, texts));
        Some(self.pieces.len() - 1)
    }
}

/// Returns a small dump for tests and fuzzing: two pieces, one of which moves, and a third one at its old address.
pub fn example(flags: u64) -> Vec<u8> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let pair = |low: u32, high: u32| [low.to_ne_bytes(), high.to_ne_bytes()].concat();
    let record = |kind: u32, time_ns: u64, body: Vec<u8>| {
        let len = PREFIX_LEN + body.len() as u64;
        [pair(kind, len as u32), words(&[time_ns]), body].concat()
    };
    let load = |time_ns, start, number, name: &str| {
        let body = [pair(7, 7), words(&[start, start, 0x40, number]), name.into(), b"\0code".to_vec()];
        record(LOAD, time_ns, body.concat())
    };
    let moved = [pair(7, 7), words(&[0, 0x1000, 0x9000, 0x40, 1])].concat();
    let entry =
        |address: u64, line: u32, file: &[u8]| [words(&[address]), pair(line, 0), file.into()].concat();
    let entries = [entry(0x1000, 7, b"/a.x\0"), entry(0x1010, 8, b"\xff\0")].concat();
    let tables = [words(&[24, 12, 0]), b"the entries.the index...".to_vec()].concat();
    let debug = |start: u64| record(DEBUG, 8, [words(&[start, 2]), entries.clone()].concat());
    [
        [pair(MAGIC, 1), pair(HEADER_LEN as u32, 62), pair(0, 7), words(&[5, flags])].concat(),
        debug(0x1000),
        load(10, 0x1000, 1, "first"),
        record(UNWINDING, 20, tables),
        load(20, 0x2000, 2, "second"),
        record(MOVE, 30, moved),
        load(40, 0x1000, 3, "third"),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8], addresses: &[u64]) -> Vec<(u64, u64, u64, String)> {
        let addresses: Vec<Avma> = addresses.iter().copied().map(Avma).collect();
        let (pieces, is_cut) = find(bytes, &Requested::new(&addresses));
        assert!(!is_cut);
        let row =
            |p: Piece| (p.start.0, p.since_ns, p.until_ns, String::from_utf8_lossy(&p.name).into_owned());
        pieces.into_iter().map(row).collect()
    }

    fn row(start: u64, since_ns: u64, until_ns: u64, name: &str) -> (u64, u64, u64, String) {
        (start, since_ns, until_ns, name.to_owned())
    }

    #[test]
    fn code_that_moves_ends_where_it_was_and_others_are_made_there() {
        let all = [row(0x1000, 10, 30, "first"), row(0x9000, 30, 0, "first"), row(0x1000, 40, 0, "third")];
        assert_eq!(found(&example(0), &[0x1010, 0x903f]), all);
        assert_eq!(found(&example(0), &[0x2000, 0x2040]), [row(0x2000, 20, 0, "second")]);
        assert_eq!(found(&example(0), &[0x1040]), []);
    }

    #[test]
    fn lines_go_with_their_code_wherever_it_moves() {
        let (pieces, _) = find(&example(0)[..], &Requested::new(&[0x1004, 0x1010, 0x9011].map(Avma)));
        let lines = |piece: &Piece| piece.lines.iter().map(|line| (line.off, line.line)).collect::<Vec<_>>();
        let told: Vec<_> = pieces.iter().map(|piece| (piece.start.0, lines(piece))).collect();
        let at_first = vec![(0, 7), (0x10, 8)];
        assert_eq!(told, [(0x1000, at_first), (0x9000, vec![(0x10, 8)]), (0x1000, vec![])]);
        assert!(pieces.iter().flat_map(|piece| &piece.lines).all(|line| *line.file == *b"/a.x"));
    }

    #[test]
    fn unwind_tables_belong_to_the_code_that_follows_them() {
        let rules = |bytes: &[u8]| {
            let (pieces, _) = find(bytes, &Requested::new(&[0x1000, 0x2000].map(Avma)));
            pieces.into_iter().map(|piece| (piece.start.0, piece.rules)).collect::<Vec<_>>()
        };
        let expected = |second: &[u8]| vec![(0x1000, vec![]), (0x2000, second.to_vec()), (0x1000, vec![])];
        assert_eq!(rules(&example(0)), expected(b"the entries."));
        // A record that is not as long as it says, or has an index longer than all.
        let at = example(0).windows(8).position(|word| word == 24_u64.to_ne_bytes()).expect("it is there");
        for wrong in [0, 11, 25, u64::MAX] {
            let mut bytes = example(0);
            bytes[at..at + 8].copy_from_slice(&wrong.to_ne_bytes());
            assert_eq!(rules(&bytes), expected(&[]), "{wrong}");
        }
    }

    #[test]
    fn times_of_another_namespace_are_converted() {
        let clock = DumpClock { ahead_ns: Some(4), ..DumpClock::SHARED };
        let (pieces, _) = find_by(&example(0)[..], &Requested::new(&[Avma(0x1010)]), &clock);
        let times: Vec<_> = pieces.iter().map(|piece| (piece.since_ns, piece.until_ns)).collect();
        assert_eq!(times, [(6, 26), (36, 0)]);
        let unknown = DumpClock { ahead_ns: None, ..clock };
        let (pieces, _) = find_by(&example(0)[..], &Requested::new(&[Avma(0x1010)]), &unknown);
        assert_eq!(pieces.iter().map(|piece| &piece.name[..]).collect::<Vec<_>>(), [b"first or third"]);
    }

    #[test]
    fn when_a_process_closes_its_dump_all_its_code_ends() {
        let close = [CLOSE.to_ne_bytes(), 16_u32.to_ne_bytes()].concat();
        let bytes = [example(0), close, 90_u64.to_ne_bytes().to_vec(), example(0)[40..].to_vec()].concat();
        let all = [row(0x1000, 10, 30, "first"), row(0x9000, 30, 90, "first"), row(0x1000, 40, 90, "third")];
        assert_eq!(found(&bytes, &[0x1010, 0x903f]), all);
    }

    #[test]
    fn times_of_another_clock_are_left_out() {
        assert_eq!(found(&example(ARCH_TIMESTAMPS), &[0x2000]), [row(0x2000, 0, 0, "second")]);
    }

    #[test]
    fn code_at_one_address_without_times_is_one_or_the_other() {
        let asked = [0x1004, 0x2004, 0x9004].map(Avma);
        let (pieces, _) = find(&example(ARCH_TIMESTAMPS)[..], &Requested::new(&asked));
        let told: Vec<(u64, &[u8], usize)> =
            pieces.iter().map(|piece| (piece.start.0, &piece.name[..], piece.lines.len())).collect();
        let expected: [(u64, &[u8], usize); 3] =
            [(0x2000, b"second", 0), (0x9000, b"first", 1), (0x1000, b"first or third", 0)];
        assert_eq!(told, expected, "of code that is one or the other no lines are known");
    }

    #[test]
    fn a_torn_or_foreign_dump_gives_what_is_whole_of_it() {
        let bytes = example(0);
        let cut = |len: usize| found(&bytes[..len], &[0x1000, 0x2000]).len();
        assert_eq!([0, 39, 40, bytes.len() - 12, bytes.len()].map(cut), [0, 0, 0, 2, 3]);
        (0..bytes.len()).for_each(|len| assert!(cut(len) <= 3));
        for (at, byte) in [(0, 0), (4, 2), (8, 39), (44, 15)] {
            let mut other = bytes.clone();
            other[at] = byte;
            assert_eq!(found(&other, &[0x1000]), [], "{at}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_flip_makes_it_panic(at in 0..example(0).len(), byte: u8) {
            let mut bytes = example(0);
            bytes[at] = byte;
            find(&bytes[..], &Requested::new(&[0x1000, 0x2000, 0x9000].map(Avma)));
        }
    }
}
