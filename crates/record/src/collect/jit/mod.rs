//! Finds the names of JIT code in the perf maps and jitdump files that its processes have written.
//!
//! ```text
//! mapping of memory for code, or the first hit in it ─► the file is opened and held, if it exists
//! hits                                               ─► addresses of the process; else the file is searched again
//! exec, exit, end of the recording                   ─► the file is read: pieces of code that contain these addresses
//! ```
//!
//! The thread of `teller` reads the files.
//!
//! Files are held open because the process, its root folder and the file may be gone when they are read. Names belong to one address
//! space of one process: two processes can have code at one address.

mod home;
mod hotspot;
mod registered;
mod teller;
mod times;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use icecore_elf::Avma;
use icecore_format::records::ImageKind;
use icecore_jit::{DumpClock, Piece, Reading, Requested};
use rustc_hash::{FxHashMap, FxHashSet};

use super::room::{HeldFile, Room};
use crate::foreign::memory::Memory;
use crate::foreign::{Door, ForeignFile, Meta};
use crate::machine::identity::{Identity, MapFile};
use crate::sys::clock;
use crate::track::jit::{Interpreter, Made};
use crate::track::tracker::Note;
use home::Home;
use hotspot::{HotSpot, Runs};
use registered::Registered;
use teller::{Answer, NamesFile, NamesRequest, Teller};

/// The number of distinct addresses of all processes that are remembered: 16 MiB of memory. Further ones stay unnamed.
const MAX_HITS: usize = 512 << 10;
/// The number of them that may come from words of stacks. Not all such words are frames, and frames must find room.
const MAX_HELD: usize = MAX_HITS / 2;
/// The number of processes that are remembered.
const MAX_LIVES: usize = 16 << 10;
/// The number of jitdump files of one process that are held open.
const MAX_DUMPS: usize = 8;
/// The number of forks through which code is followed back to the process that made it.
const MAX_ANCESTORS: usize = 8;
/// The number of times that a missing perf map is searched whenever events are settled; after that, only when a batch is written.
const EAGER_LOOKS: u32 = 20;
/// How often the memory of a process is searched for unwind tables.
const SEARCHES: u32 = 8;
/// How often new addresses are looked up in virtual machines, and for how long in one of them.
const LOOK_UP_EVERY: Duration = Duration::from_millis(50);
const LOOK_UP_AT_ONCE: Duration = Duration::from_millis(40);
/// The part of the time of a recording that this may take, and what it may take besides.
const LOOK_UP_PART: u32 = 5;
const LOOK_UP_AT_FIRST: Duration = Duration::from_secs(1);
/// How long it may take in all of them when the recording has ended.
const LOOK_UP_AT_LAST: Duration = Duration::from_secs(3);

/// All JIT code: the processes that have it, the addresses that were hit, and the names that were found.
#[derive(Debug)]
pub(crate) struct Jit {
    door: Arc<Door>,
    lives: FxHashMap<u32, Life>,
    room: Room,
    /// The number of distinct addresses of all lives.
    hit_count: usize,
    /// The named pieces that were not taken yet.
    rows: Vec<Made>,
    /// What the memory of address spaces told whose files are being read.
    told_by_memory: FxHashMap<(u32, u64), InMemory>,
    /// The thread that reads files. It is started for the first one.
    teller: Option<Teller>,
    /// When the recording began, when addresses were last looked up in virtual machines, and how long that took in total.
    started: Instant,
    looked_up: Instant,
    looked_up_for: Duration,
    /// Until when, after the end of the recording.
    look_up_until: Option<Instant>,
    /// The processor counter when the recording began.
    began: Option<Reading>,
    pub(crate) told: JitCounts,
}

/// The counts for the summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JitCounts {
    /// The number of pieces of code that have names.
    pub(crate) pieces: u64,
    /// The number of addresses beyond the limit.
    pub(crate) left_out: u64,
    /// The number of files that were not read, or not whole: too large, too many, or overwritten meanwhile.
    pub(crate) cut_files: u64,
}

/// One address space with code that is in no file.
#[derive(Debug, Default)]
struct Life {
    /// When the first of this code was seen, by a mapping or a hit. It distinguishes this address space from others of the process.
    since_ns: u64,
    hits: FxHashSet<Avma>,
    home: Option<Home>,
    files: Arc<Mutex<Files>>,
    /// The files of the processes from which it was forked, the nearest first.
    inherited: Vec<Arc<Mutex<Files>>>,
    looks: u32,
    /// The unwind tables that the process has given to its unwinder, by the beginnings of their code; `None` if two contradict each other.
    registered: BTreeMap<u64, Option<Registered>>,
    /// How often they were searched, and how many addresses were known then.
    searches: u32,
    searched: usize,
    hotspot: HotSpot,
    /// The addresses that were not looked up there yet, and how long that took up to now.
    fresh: Vec<Avma>,
    looked_up: Duration,
}

/// What was found of code in the memory of its process.
#[derive(Debug, Default)]
struct InMemory {
    registered: Vec<Registered>,
    hotspot: HotSpot,
}

/// The files in which a process reports its code.
#[derive(Debug, Default)]
struct Files {
    map: Option<HeldFile>,
    /// The length of the map when the first code of the process was seen; 0 if it did not exist, or was another file.
    known_len: u64,
    /// Each with the clocks of the process that writes it.
    dumps: Vec<(HeldFile, DumpClock)>,
}

fn locked(files: &Mutex<Files>) -> MutexGuard<'_, Files> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Jit {
    pub(super) fn new(room: Room, door: Arc<Door>) -> Self {
        let (lives, rows, told_by_memory, told) = Default::default();
        Self {
            door,
            lives,
            room,
            hit_count: 0,
            rows,
            told_by_memory,
            teller: None,
            started: Instant::now(),
            looked_up: Instant::now(),
            looked_up_for: Duration::ZERO,
            look_up_until: None,
            began: times::now(),
            told,
        }
    }

    /// Begins what another file of the same run needs: the processes are known, and none of their code was hit.
    pub(super) fn successor(&self) -> Self {
        let known = |life: &Life| Life {
            since_ns: life.since_ns,
            home: life.home.clone(),
            files: Arc::clone(&life.files),
            inherited: life.inherited.clone(),
            ..Life::default()
        };
        let lives = self.lives.iter().map(|(tgid, life)| (*tgid, known(life))).collect();
        Self { lives, began: self.began, ..Self::new(self.room.clone(), Arc::clone(&self.door)) }
    }

    /// Asks by another way from now on.
    pub(super) fn ask_by(&mut self, door: Arc<Door>) {
        self.door = door;
    }

    /// Looks at a mapping: it may be memory for code, or the file that reports the code.
    pub(super) fn see(&mut self, time_ns: u64, identity: &Identity, place: MapFile) {
        let is_dump = is_dump(identity);
        if identity.kind != ImageKind::ANONYMOUS && !is_dump {
            return;
        }
        match self.life(place.tgid, time_ns) {
            Some(_) if is_dump => self.hold_dump(identity, place),
            Some(life) if life.looks == 0 => self.look(place.tgid),
            _ => {}
        }
    }

    /// Takes notes, which come in the order of time, after the mappings of the same time.
    pub(super) fn note(&mut self, notes: &[Note]) {
        for note in notes {
            match *note {
                Note::Hit { time_ns, tgid, address } => self.hit(time_ns, tgid, address, MAX_HITS),
                Note::Held { time_ns, tgid, address } => self.hit(time_ns, tgid, address, MAX_HELD),
                Note::Runs { time_ns, tgid, method, instruction } => {
                    self.runs(time_ns, tgid, Runs { method, instruction });
                }
                Note::Fork { time_ns, parent_tgid, tgid } => self.fork(time_ns, parent_tgid, tgid),
                Note::Gone { time_ns, tgid, has_ended } => {
                    // Code of the next program may have been seen by now.
                    if self.lives.get(&tgid).is_some_and(|life| life.since_ns < time_ns) {
                        self.end(tgid, has_ended, None);
                    }
                }
            }
        }
        self.look_where(|life| life.looks < EAGER_LOOKS && locked(&life.files).map.is_none());
        // Code that was hit may be gone soon: while a program warms up, a virtual machine replaces it all the time.
        if self.looked_up.elapsed() > LOOK_UP_EVERY {
            self.look_up();
        }
    }

    /// Takes notes of frames of interpreters, and reads what these run.
    pub(super) fn note_early(&mut self, notes: &[Note]) {
        let mut tgids = FxHashSet::default();
        for note in notes {
            if let Note::Runs { time_ns, tgid, method, instruction } = *note {
                self.runs(time_ns, tgid, Runs { method, instruction });
                tgids.insert(tgid);
            }
        }
        let most = self.most_time();
        for tgid in tgids {
            let Some(life) = self.lives.get_mut(&tgid).filter(|_| self.looked_up_for <= most) else {
                continue;
            };
            let begun = Instant::now();
            let memory = Memory::of(tgid, &self.door);
            life.hotspot.read_interpreted(&memory, clock::monotonic_ns(), begun + LOOK_UP_AT_ONCE);
            life.looked_up += begun.elapsed();
            self.looked_up_for += begun.elapsed();
        }
    }

    /// Returns how long looking into virtual machines may have taken by now.
    fn most_time(&self) -> Duration {
        self.started.elapsed() / LOOK_UP_PART + LOOK_UP_AT_FIRST
    }

    /// Looks into virtual machines, those first that took the least time, and a part of all time in total: the ring must not fill up
    /// meanwhile.
    fn look_up(&mut self) {
        let most = self.most_time();
        let mut lives: Vec<_> = self.lives.iter_mut().filter(|(_, life)| !life.hits.is_empty()).collect();
        lives.sort_by_key(|(_, life)| life.looked_up);
        for (tgid, life) in lives {
            if self.looked_up_for > most {
                break;
            }
            let begun = Instant::now();
            let (memory, until) = (Memory::of(*tgid, &self.door), begun + LOOK_UP_AT_ONCE);
            life.check(&memory, until);
            life.look_up(&memory, until);
            life.looked_up += begun.elapsed();
            self.looked_up_for += begun.elapsed();
        }
        self.looked_up = Instant::now();
    }

    /// Searches the files that were missing or replaced, and hands over the pieces that were found since the last call.
    pub(super) fn take_rows(&mut self) -> Vec<Made> {
        self.look_where(|_| true);
        self.lives.iter_mut().for_each(|(tgid, life)| life.search_tables(&Memory::of(*tgid, &self.door)));
        self.look_up();
        let answers = self.teller.as_mut().map(Teller::take_answers);
        answers.into_iter().flatten().for_each(|answer| self.take(answer));
        std::mem::take(&mut self.rows)
    }

    /// Requests the files of all remaining processes, and waits for the answers for at most [`teller::PATIENCE`].
    pub(super) fn finish(&mut self) {
        let mut tgids: Vec<u32> = self.lives.keys().copied().collect();
        tgids.sort_unstable();
        let until = Instant::now() + teller::PATIENCE;
        self.look_up_until = Some(Instant::now() + LOOK_UP_AT_LAST);
        for tgid in tgids {
            self.end(tgid, true, Some(until));
        }
        while let Some(answer) = self.wait(until) {
            self.take(answer);
        }
        for ((tgid, since_ns), in_memory) in std::mem::take(&mut self.told_by_memory) {
            self.rows_of_memory(tgid, since_ns, &in_memory, &[]);
        }
        let left_out = self.teller.take().map_or(0, |teller| teller.waiting_files());
        self.told.cut_files += left_out as u64;
    }

    fn wait(&mut self, until: Instant) -> Option<Answer> {
        self.teller.as_mut()?.wait(until)
    }

    /// Takes the pieces of code that were found in the files of an address space.
    fn take(&mut self, answer: Answer) {
        let Answer { tgid, since_ns, pieces, cut_files, .. } = answer;
        self.told.cut_files += cut_files;
        let in_memory = self.told_by_memory.remove(&(tgid, since_ns)).unwrap_or_default();
        let rows = pieces.into_iter().filter_map(|piece| row(tgid, since_ns, in_memory.with_tables(piece)));
        let rows: Vec<Made> = rows.collect();
        self.told.pieces += rows.len() as u64;
        self.rows_of_memory(tgid, since_ns, &in_memory, &rows);
        self.rows.extend(rows);
    }

    /// Makes rows of what the memory of a process told of its code. The rows of its files are added after them, so these count where both name
    /// the same code.
    fn rows_of_memory(&mut self, tgid: u32, since_ns: u64, in_memory: &InMemory, named: &[Made]) {
        self.rows.extend(unnamed(tgid, since_ns, &in_memory.registered, named));
        let before = self.rows.len();
        self.rows
            .extend(in_memory.hotspot.pieces().into_iter().filter_map(|piece| row(tgid, since_ns, piece)));
        self.told.pieces += (self.rows.len() - before) as u64;
    }

    /// Takes the interpreters that were found since the last call, by process.
    pub(super) fn take_interpreters(&mut self) -> Vec<(u32, Interpreter)> {
        let found = |(tgid, life): (&u32, &mut Life)| Some((*tgid, life.hotspot.take_interpreter()?));
        self.lives.iter_mut().filter_map(found).collect()
    }

    fn runs(&mut self, time_ns: u64, tgid: u32, runs: Runs) {
        let is_full = self.hit_count >= MAX_HELD;
        match self.life(tgid, time_ns) {
            Some(life) if !is_full => life.hotspot.runs(runs),
            _ => self.told.left_out += 1,
        }
    }

    fn life(&mut self, tgid: u32, time_ns: u64) -> Option<&mut Life> {
        if self.lives.len() >= MAX_LIVES && !self.lives.contains_key(&tgid) {
            return None;
        }
        Some(self.lives.entry(tgid).or_insert_with(|| Life { since_ns: time_ns, ..Life::default() }))
    }

    /// Remembers an address, if there are fewer than `most`.
    fn hit(&mut self, time_ns: u64, tgid: u32, address: Avma, most: usize) {
        let is_full = self.hit_count >= most;
        match self.life(tgid, time_ns) {
            Some(life) if !is_full => {
                // Memory that was found in `/proc` may be older than the time at which it was found.
                life.since_ns = life.since_ns.min(time_ns);
                let is_new = life.hits.insert(address);
                life.fresh.extend(is_new.then_some(address));
                self.hit_count += usize::from(is_new);
            }
            _ => self.told.left_out += 1,
        }
    }

    fn fork(&mut self, time_ns: u64, parent_tgid: u32, tgid: u32) {
        let Some(parent) = self.lives.get(&parent_tgid) else { return };
        let own = std::iter::once(&parent.files).chain(&parent.inherited);
        let inherited: Vec<_> = own.take(MAX_ANCESTORS).cloned().collect();
        if let Some(life) = self.life(tgid, time_ns) {
            life.inherited = inherited;
        }
    }

    fn look_where(&mut self, is_due: impl Fn(&Life) -> bool) {
        let due = self.lives.iter().filter(|(_, life)| !life.hits.is_empty() && is_due(life));
        let due: Vec<u32> = due.map(|(tgid, _)| *tgid).collect();
        due.into_iter().for_each(|tgid| self.look(tgid));
    }

    /// Searches the perf map of a process, and holds it open if it is another file than before.
    fn look(&mut self, tgid: u32) {
        let Some(life) = self.lives.get_mut(&tgid) else { return };
        life.looks += 1;
        // The user and the root folder of a process may have changed while it had no map.
        if locked(&life.files).map.is_none() {
            life.home = Home::of(tgid).or(life.home.take());
        }
        if let Some(home) = &life.home {
            let is_first = life.looks == 1;
            locked(&life.files).look(home, is_first, &self.door, |found| self.room.hold(|| Some(found)));
        }
    }

    fn hold_dump(&mut self, identity: &Identity, place: MapFile) {
        let tgid = place.tgid;
        let Some(life) = self.lives.get_mut(&tgid) else { return };
        let home = Home::of(tgid).unwrap_or_else(|| Home::of_the_gone(tgid, life.since_ns));
        let mut files = locked(&life.files);
        if files.dumps.len() < MAX_DUMPS {
            // The process may be writing the file now, so its size and time are not compared.
            let growing = Identity { modified_unix_ns: 0, ..identity.clone() };
            let open = || home.trusted(place.open(&growing, &self.door)?);
            let is_new = |found: &ForeignFile| {
                files.dumps.iter().all(|(old, _)| inode(old.file.meta()) != inode(found.meta()))
            };
            let held = self.room.hold(|| open().filter(is_new));
            let clock = home.clock(self.began);
            files.dumps.extend(held.map(|held| (held, clock)));
        }
    }

    /// Requests the files of a process that is gone, and forgets the process. If too many requests wait, this waits until `until`, or
    /// skips the files.
    fn end(&mut self, tgid: u32, has_ended: bool, until: Option<Instant>) {
        let Some(mut life) = self.lives.remove(&tgid) else { return };
        self.hit_count -= life.hits.len();
        if life.hits.is_empty() {
            return;
        }
        let has_map = locked(&life.files).map.is_some();
        // After an exec the file may belong to the next program.
        if has_ended || !has_map {
            let gone = Home::of_the_gone(tgid, life.since_ns);
            let home = life.home.as_ref().unwrap_or(&gone);
            let hold = |found| Some(HeldFile::for_a_moment(found));
            locked(&life.files).look(home, false, &self.door, hold);
        }
        // A return address is looked up one byte earlier, in the call, which may lie in another piece.
        let before = |at: Avma| Avma(at.0.saturating_sub(1));
        let mut asked: Vec<Avma> = life.hits.iter().flat_map(|at| [before(*at), *at]).collect();
        asked.sort_unstable();
        asked.dedup();
        let own = locked(&life.files).sources(!has_ended, &self.door);
        let inherited = life.inherited.iter().map(|files| locked(files).sources(false, &self.door));
        let (sources, unheld): (Vec<_>, Vec<_>) =
            std::iter::once(own).chain(inherited).flatten().partition(Option::is_some);
        // There are too many open files.
        self.told.cut_files += unheld.len() as u64;
        let sources: Vec<NamesFile> = sources.into_iter().flatten().collect();
        let memory = Memory::of(tgid, &self.door);
        life.search_tables(&memory);
        let at_once = Instant::now() + LOOK_UP_AT_ONCE;
        let last = self.look_up_until.unwrap_or(at_once);
        life.look_up(&memory, last);
        life.hotspot.check(&memory, clock::monotonic_ns(), last);
        life.hotspot.check_interpreted(&memory, clock::monotonic_ns(), last);
        let registered = std::mem::take(&mut life.registered).into_values().flatten().collect();
        let in_memory = InMemory { registered, hotspot: std::mem::take(&mut life.hotspot) };
        if sources.is_empty() {
            self.rows_of_memory(tgid, life.since_ns, &in_memory, &[]);
        } else {
            self.told_by_memory.insert((tgid, life.since_ns), in_memory);
            self.ask(NamesRequest { tgid, since_ns: life.since_ns, asked, sources }, until);
        }
    }

    /// Requests files from the thread that reads them.
    fn ask(&mut self, mut wanted: NamesRequest, until: Option<Instant>) {
        loop {
            let left_out = wanted.sources.len() as u64;
            let Some(teller) = self.teller.take().or_else(|| Teller::start(&self.door)) else {
                self.told.cut_files += left_out;
                return;
            };
            match self.teller.insert(teller).ask(wanted) {
                Ok(()) => return,
                Err(back) => wanted = back,
            }
            match until.and_then(|until| self.wait(until)) {
                Some(answer) => self.take(answer),
                None => {
                    self.told.cut_files += left_out;
                    return;
                }
            }
        }
    }
}

impl Life {
    /// Looks up new addresses in a virtual machine, if the process has one.
    fn look_up(&mut self, memory: &Memory<'_>, until: Instant) {
        let mut fresh = std::mem::take(&mut self.fresh);
        if !fresh.is_empty() || self.hotspot.has_unread() {
            fresh.sort_unstable();
            self.fresh = self.hotspot.look_up(memory, clock::monotonic_ns(), Requested::new(&fresh), until);
        }
    }

    /// Looks up anew what was replaced.
    fn check(&mut self, memory: &Memory<'_>, until: Instant) {
        for gone in self.hotspot.check(memory, clock::monotonic_ns(), until) {
            self.fresh.extend(self.hits.iter().filter(|at| gone.contains(&at.0)));
        }
    }

    /// Searches unwind tables of code whose addresses are new.
    fn search_tables(&mut self, memory: &Memory<'_>) {
        if self.searches >= SEARCHES || self.hits.len() == self.searched {
            return;
        }
        self.searches += 1;
        self.searched = self.hits.len();
        let mut hits: Vec<Avma> = self.hits.iter().copied().collect();
        hits.sort_unstable();
        for found in registered::find(memory, Requested::new(&hits)) {
            let known = self.registered.entry(found.code.start).or_insert_with(|| Some(found.clone()));
            if known.as_ref() != Some(&found) {
                *known = None;
            }
        }
    }
}

impl InMemory {
    /// Gives a piece of code without unwind tables those that its process has registered for it, of descriptions that lie apart, ascending, or
    /// that its virtual machine knows.
    fn with_tables(&self, piece: Piece) -> Piece {
        if !piece.rules.is_empty() {
            return piece;
        }
        let code = piece.start.0..piece.end.0;
        let until = self.registered.partition_point(|it| it.code.start <= code.start);
        let before = self.registered[..until].last().filter(|it| it.covers(&code));
        let rules = before.map(|it| it.entries(&code)).or_else(|| self.hotspot.tables(&code));
        Piece { rules: rules.unwrap_or_default(), ..piece }
    }
}

/// Makes rows without names of the registered code that no row with a name touches.
fn unnamed(tgid: u32, since_ns: u64, registered: &[Registered], named: &[Made]) -> Vec<Made> {
    let mut named: Vec<(u64, u64)> = named.iter().map(|row| (row.piece.start.0, row.piece.end.0)).collect();
    named.sort_unstable();
    let mut last_end = 0;
    named.iter_mut().for_each(|(_, end)| {
        last_end = last_end.max(*end);
        *end = last_end;
    });
    let is_named = |it: &&Registered| {
        let before = &named[..named.partition_point(|(start, _)| *start < it.code.end)];
        before.last().is_some_and(|(_, end)| it.code.start < *end)
    };
    let row_of = |it: &Registered| {
        let (start, end) = (Avma(it.code.start), Avma(it.code.end));
        row(tgid, since_ns, Piece { start, end, rules: it.entries(&it.code), ..Piece::default() })
    };
    registered.iter().filter(|it| !is_named(it)).filter_map(row_of).collect()
}

/// Returns a piece of code as a row of the address space that began at `since_ns`; `None` if the piece had ended before.
fn row(tgid: u32, since_ns: u64, piece: Piece) -> Option<Made> {
    let was_there = piece.until_ns == 0 || piece.until_ns > since_ns;
    let since_ns = piece.since_ns.max(since_ns);
    was_there.then_some(Made { tgid, piece: Piece { since_ns, ..piece } })
}

impl Files {
    /// Finds the current perf map, and holds it open.
    fn look(
        &mut self,
        home: &Home,
        is_first: bool,
        door: &Door,
        hold: impl FnOnce(ForeignFile) -> Option<HeldFile>,
    ) {
        let Some(seen) = home.perf_map(door) else { return };
        if self.map.as_ref().is_none_or(|held| inode(held.file.meta()) != inode(seen.meta())) {
            // The old file is closed first, so that it does not count against the limit.
            self.map = None;
            self.known_len = if is_first { seen.meta().size_bytes } else { 0 };
            self.map = hold(seen);
        }
    }

    /// Returns the files as they are now. Dumps come first, because they have times; `None` stands for a file that cannot be held open.
    fn sources(&self, map_may_be_reused: bool, door: &Door) -> Vec<Option<NamesFile>> {
        let dumps = self.dumps.iter().map(|(held, clock)| NamesFile::dump(&held.file, *clock, door));
        let map = self.map.iter();
        let map = map.map(|held| NamesFile::map(&held.file, self.known_len, map_may_be_reused, door));
        dumps.chain(map).collect()
    }
}

/// Returns device and inode of a file.
fn inode(meta: &Meta) -> (u64, u64) {
    (meta.dev, meta.inode)
}

/// Returns true if a mapping is that of a file `jit-NUMBER.dump`, by which a process shows where its jitdump is.
fn is_dump(identity: &Identity) -> bool {
    let name = identity.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
    let number = name.strip_prefix(b"jit-").and_then(|rest| rest.strip_suffix(b".dump"));
    identity.kind == ImageKind::FILE
        && number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}
