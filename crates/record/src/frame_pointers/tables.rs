//! Gives the sampler the unwind tables of files whose code is often on stacks, so that it can walk there.
//!
//! ```text
//! sampler: no table ─► requested: the file with most hits first ─► thread: unwind tables ─► rows ─► room ─► sampler
//!                                                                   kept from before ─┘
//! ```
//!
//! Nobody waits for the tables: until they are there, the sampler copies stacks. Whose files have cost the thread less time goes first, so that
//! nobody keeps it busy for himself.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use icecore_elf::Layout;
use icecore_elf::walk_rows::WalkRows;
use icecore_format::records::Omission;
use object::read::{ReadCache, ReadRef};
use rustc_hash::{FxHashMap, FxHashSet};

use super::filled::{Answer, Filled};
use super::kept::{self, Kept};
use super::packed::Packed;
use super::room::Wanted;
use super::source::{Noted, Notes, Source};
use crate::foreign::memory::Memory;
use crate::foreign::{Door, ForeignFile, Mapped};
use crate::kernel::sampler;
use crate::kernel::wire::{FileKey, NoTable};
use crate::sys::rights::{self, Part};
use crate::sys::{clock, rest, usage};

/// How often a file must be hit before its tables are compiled.
const ENOUGH_HITS: u32 = 2;
/// The number of files that are requested of the thread at a time, so that it has more to do while the recorder sleeps, for 100 ms at most.
const MAX_OPEN: usize = 4;
/// The number of files that may wait.
const MAX_REQUESTS: usize = 4096;
/// The number of those that are kept open.
const MAX_HELD: usize = 64;
/// The largest vDSO that is read.
const MAX_VDSO_BYTES: usize = 64 << 10;
/// The most CPU time for the tables of a file. The largest of some hundred programs and libraries, rustc's, take 0.3 s.
const MAX_CPU_NS: u64 = 2_000_000_000;
/// After so much CPU time the thread has a low priority. On a busy machine it then compiles late, and until then stacks are copied; the tables
/// of rustc and of all else that runs on most machines take less.
const URGENT_CPU_NS: u64 = 1_000_000_000;
/// The longest that the tables of a file are read, where their disk is slow or CPUs are busy.
const MAX_TIME: Duration = Duration::from_secs(20);
/// How often files without room are planned anew.
const PERIOD: Duration = Duration::from_secs(10);
/// The number of files of which is remembered where they are mapped.
const MAX_PLACES: usize = 16 << 10;

/// The files whose tables are requested, and the thread that compiles them.
pub(super) struct Tables {
    requests: FxHashMap<FileKey, Request>,
    /// Files that are being compiled, were compiled, or have no tables.
    done: FxHashSet<FileKey>,
    /// How many files the thread has not looked at yet.
    open: usize,
    sender: SyncSender<Request>,
    answers: Receiver<Answer>,
    /// What the files of each user have cost, CPU time.
    spent_ns: FxHashMap<u32, u64>,
    /// Where files are mapped whose tables were requested, and which image each is, if the recorder knows that by now.
    places: FxHashMap<FileKey, (NoTable, Option<u32>)>,
    /// Files without tables in the sampler, and why.
    untabled: FxHashMap<FileKey, Omission>,
}

/// A file whose tables are requested.
struct Request {
    hits: u32,
    missed: NoTable,
    /// The file, if it was held open since it was mapped.
    held: Option<ForeignFile>,
}

/// The tables of a file, if they were found out.
enum Found {
    Rows(Option<Packed>),
    /// They take too long.
    Slow,
    /// The file cannot be read.
    Gone,
}

/// The end of the time for a file.
#[derive(Clone, Copy)]
struct Limit {
    cpu_ns: u64,
    at: Instant,
}

impl Tables {
    /// Starts the thread. What it compiles goes to `kept`, and what is there it does not compile.
    ///
    /// # Errors
    /// If the kernel makes no thread.
    pub(super) fn start(sampler: sampler::Tables, kept: Option<Kept>, door: Door) -> std::io::Result<Self> {
        let (sender, received) = sync_channel(MAX_OPEN);
        let (answer, answers) = channel();
        Builder::new().name("icecore-tables".to_owned()).spawn(move || {
            rights::keep(Part::Tables);
            rest::may();
            // An error has no consequence: whoever keeps tables next removes what is too much.
            kept.iter().for_each(|kept| drop(kept.trim()));
            let _ = serve(&received, &answer, Filled::new(sampler), kept.as_ref(), &door);
        })?;
        let (requests, done, spent_ns) = Default::default();
        let (places, untabled) = Default::default();
        Ok(Self { requests, done, open: 0, sender, answers, spent_ns, places, untabled })
    }

    /// Notes that a walk lacked the tables of a file, which is an image; `held` opens it, if it can.
    pub(super) fn miss(
        &mut self,
        missed: &NoTable,
        image: Option<u32>,
        held: impl FnOnce() -> Option<ForeignFile>,
    ) {
        if self.done.contains(&missed.file) {
            return;
        }
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.clear();
        }
        let may_hold = self.requests.values().filter(|request| request.held.is_some()).count() < MAX_HELD;
        let new = || Request { hits: 0, missed: *missed, held: None };
        let request = self.requests.entry(missed.file).or_insert_with(new);
        request.hits += 1;
        request.missed = *missed;
        if request.hits == ENOUGH_HITS && may_hold {
            request.held = held();
        }
        if self.places.len() >= MAX_PLACES {
            self.places.clear();
        }
        let place = self.places.entry(missed.file).or_insert((*missed, image));
        *place = (*missed, image.or(place.1));
        self.ask();
    }

    /// Has the tables of files compiled, if the thread has room for them: first of the users whose files have cost the least, in seconds,
    /// then those that were hit most.
    fn ask(&mut self) {
        self.take_answers();
        while self.open < MAX_OPEN {
            let spent_s = |request: &Request| {
                self.spent_ns.get(&request.missed.user).map_or(0, |spent_ns| spent_ns / 1_000_000_000)
            };
            let ready = self.requests.values().filter(|request| request.hits >= ENOUGH_HITS);
            let next = ready.min_by_key(|request| (spent_s(request), std::cmp::Reverse(request.hits)));
            let next = next.map(|request| request.missed.file);
            let Some(request) = next.and_then(|file| self.requests.remove(&file)) else { break };
            self.done.insert(request.missed.file);
            self.open += usize::from(self.sender.try_send(request).is_ok());
        }
    }

    /// Takes the thread's answers, and sends it what waits. `image` tells which image is mapped where a walk lacked tables.
    pub(super) fn settle(&mut self, image: impl Fn(&NoTable) -> Option<u32>) {
        self.ask();
        for file in self.untabled.keys() {
            if let Some((missed, known @ None)) = self.places.get_mut(file) {
                *known = image(missed);
            }
        }
    }

    /// Lists the images that had no tables in the sampler for a while, and why.
    pub(super) fn untabled(&mut self, image: impl Fn(&NoTable) -> Option<u32>) -> Vec<(u32, Omission)> {
        self.settle(image);
        let known = |(file, why): (&FileKey, &Omission)| Some((self.places.get(file)?.1?, *why));
        let mut images: Vec<_> = self.untabled.iter().filter_map(known).collect();
        images.sort_unstable_by_key(|(image, _)| *image);
        images
    }

    fn take_answers(&mut self) {
        for answer in self.answers.try_iter() {
            match answer {
                Answer::Seen { file, user, cpu_ns, is_done } => {
                    self.open -= 1;
                    *self.spent_ns.entry(user).or_default() += cpu_ns;
                    if !is_done {
                        self.done.remove(&file);
                    }
                }
                Answer::Again(file) => _ = self.done.remove(&file),
                Answer::Untabled(file, why) => {
                    if self.untabled.len() < MAX_PLACES {
                        self.untabled.insert(file, why);
                    }
                }
            }
        }
    }
}

/// Answers requests until there are no more; `None` if nobody takes the answers.
fn serve(
    received: &Receiver<Request>,
    answer: &Sender<Answer>,
    mut filled: Filled,
    kept: Option<&Kept>,
    door: &Door,
) -> Option<()> {
    let mut planned = Instant::now();
    loop {
        if planned.elapsed() >= PERIOD {
            filled.plan_anew().into_iter().try_for_each(|told| answer.send(told).ok())?;
            planned = Instant::now();
        }
        let request = match received.recv_timeout(PERIOD) {
            Ok(request) => request,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Some(()),
        };
        rest::rest();
        let begun_ns = clock::thread_cpu_ns();
        let NoTable { file, user, .. } = request.missed;
        let hits = request.hits.into();
        let kept = kept.filter(|_| file.is_on_disk());
        let found = request.found(kept, door);
        let wanted = Wanted { file, needs: 0, user, hits };
        let is_done = !matches!(found, Found::Gone);
        let told = match found {
            Found::Rows(rows) => filled.add(wanted, rows),
            Found::Slow => {
                let told = Answer::Untabled(file, Omission::TABLES_SLOW);
                filled.add(wanted, None).into_iter().chain([told]).collect()
            }
            Found::Gone => Vec::new(),
        };
        let cpu_ns = clock::thread_cpu_ns() - begun_ns;
        if begun_ns + cpu_ns > URGENT_CPU_NS {
            usage::background_priority();
        }
        told.into_iter().try_for_each(|told| answer.send(told).ok())?;
        answer.send(Answer::Seen { file, user, cpu_ns, is_done }).ok()?;
    }
}

impl Limit {
    fn new() -> Self {
        Self { cpu_ns: clock::thread_cpu_ns() + MAX_CPU_NS, at: rest::now() + MAX_TIME }
    }

    fn is_over(&self) -> bool {
        clock::thread_cpu_ns() > self.cpu_ns || rest::now() > self.at
    }
}

impl Request {
    /// Finds the tables: those that were kept, or compiles them, and keeps them if that takes long.
    fn found(self, kept: Option<&Kept>, door: &Door) -> Found {
        if self.missed.file.is_vdso() {
            let rows = |code: Vec<u8>| Found::Rows(compiled(&code[..], &mut || true));
            return self.memory(door).map_or(Found::Gone, rows);
        }
        self.of_file(kept, door).unwrap_or(Found::Gone)
    }

    fn of_file(self, kept: Option<&Kept>, door: &Door) -> Option<Found> {
        let key = self.missed.file;
        // Another file may be mapped there meanwhile, or somebody may overwrite this one.
        let is_it = |file: &ForeignFile| file.meta_now(door).is_ok_and(|meta| key.is_of(&meta));
        let file = self.open(is_it, door)?;
        // It may have been held since it was shorter.
        let len = file.meta_now(door).ok()?.size_bytes;
        let (begun, limit) = (Instant::now(), Limit::new());
        let reading = || file.read_to(len, door).until(limit.at);
        if let Some((rows, source)) = kept.and_then(|kept| kept.find(&key))
            && Source::of(&source.parts, &mut reading()).is_ok_and(|own| own == source)
        {
            return is_it(&file).then_some(Found::Rows(Some(rows)));
        }
        let (bytes, notes) = (ReadCache::new(reading()), Notes::new());
        // Reading two clocks may cost as much as a function.
        let mut functions = 0_u32;
        let mut goes_on = || {
            functions = functions.wrapping_add(1);
            rest::rest();
            !functions.is_multiple_of(64) || !limit.is_over()
        };
        let rows = compiled(Noted { file: &bytes, notes: &notes }, &mut goes_on);
        if limit.is_over() {
            return Some(Found::Slow);
        }
        if !is_it(&file) {
            return None;
        }
        let is_long = begun.elapsed() >= kept::LONG;
        if let (Some(kept), Some(rows), Some(source)) = (kept.filter(|_| is_long), &rows, notes.end()) {
            kept.keep(&key, rows, &source);
        }
        Some(Found::Rows(rows))
    }

    /// Opens the file: that which was held, or by the kernel's own link to what a process has mapped, while the process lives.
    fn open(self, is_it: impl Fn(&ForeignFile) -> bool, door: &Door) -> Option<ForeignFile> {
        let NoTable { tgid, start, end, file, .. } = self.missed;
        let at = Mapped { tgid, start: start.0, end: end.0, dev: file.dev() };
        self.held.filter(&is_it).or_else(|| door.mapped(at).ok().filter(is_it))
    }

    /// Reads the code from the memory of the process, while it lives.
    fn memory(&self, door: &Door) -> Option<Vec<u8>> {
        let NoTable { tgid, start, end, .. } = self.missed;
        let len = usize::try_from(end.0.checked_sub(start.0)?).ok().filter(|len| *len <= MAX_VDSO_BYTES)?;
        Memory::of(tgid, door).bring(start.0, len)
    }
}

fn compiled<'d>(file: impl ReadRef<'d>, goes_on: &mut dyn FnMut() -> bool) -> Option<Packed> {
    Packed::of(&WalkRows::of_file(file, &Layout::read(file)?, goes_on)?)
}
