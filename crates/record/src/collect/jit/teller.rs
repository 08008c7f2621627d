//! A thread that reads perf maps and jitdump files. Each may have hundreds of megabytes, and the tracker, for which samples
//! wait, must not read them.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use icecore_elf::Avma;
use icecore_jit::{DumpClock, Piece, ReadAt, Requested, dump, perf_map};

use super::times;
use crate::foreign::{Door, ForeignFile, Reading};
use crate::sys::rights::{self, Part};
use crate::sys::{rest, usage};

/// The number of requests that may wait.
const MAX_WAITING: usize = 1024;
/// The number of files that wait, each of which is held open.
const MAX_FILES: usize = 128;
/// The number of addresses that wait: 8 MiB of memory.
const MAX_ADDRESSES: usize = 1 << 20;
/// The number of bytes that are read of all perf maps together.
const MAX_ALL_BYTES: u64 = 8 << 30;
/// How long the end of a recording waits for answers.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A perf map or jitdump file, as it was at the end of its address space.
#[derive(Debug)]
pub(super) struct NamesFile {
    file: ForeignFile,
    /// The clocks of the writer of a dump; `None` for a perf map.
    clock: Option<DumpClock>,
    /// The length of a perf map when the first code of the process was seen, bytes.
    known_len: u64,
    /// The length of the file, bytes.
    len: u64,
    /// The modification time of the file, ns since 1970, if the next program of the process may overwrite it.
    unchanged_since: Option<u64>,
}

/// A request: the addresses of one address space.
#[derive(Debug)]
pub(super) struct NamesRequest {
    pub(super) tgid: u32,
    /// When the first code of the address space was seen.
    pub(super) since_ns: u64,
    /// The requested addresses: ascending, each once.
    pub(super) asked: Vec<Avma>,
    /// The files, in the order in which they are read: an earlier one wins.
    pub(super) sources: Vec<NamesFile>,
}

/// The answer to a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) tgid: u32,
    pub(super) since_ns: u64,
    /// The pieces that were found, in the order of their times.
    pub(super) pieces: Vec<Piece>,
    /// The number of files that were not read whole.
    pub(super) cut_files: u64,
    /// The numbers of files and addresses of the request.
    files: usize,
    addresses: usize,
}

/// The handle of the thread, which ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct Teller {
    wanted: SyncSender<NamesRequest>,
    answers: Receiver<Answer>,
    /// The numbers of files and addresses in the requests that are not answered yet.
    files: usize,
    addresses: usize,
}

impl NamesFile {
    /// Takes a perf map in its current state. If it `may_be_reused`, the next program of the process may overwrite it later, and then
    /// the file is not read.
    pub(super) fn map(file: &ForeignFile, known_len: u64, may_be_reused: bool, door: &Door) -> Option<Self> {
        let file = file.try_clone()?;
        let meta = file.meta_now(door).ok()?;
        let unchanged_since = may_be_reused.then_some(meta.modified_unix_ns);
        Some(Self { file, clock: None, known_len, len: meta.size_bytes, unchanged_since })
    }

    /// Takes a dump in its current state; all its times have passed.
    pub(super) fn dump(file: &ForeignFile, clock: DumpClock, door: &Door) -> Option<Self> {
        let file = file.try_clone()?;
        let len = file.meta_now(door).ok()?.size_bytes;
        let readings = clock.readings.and_then(|[begin, _]| Some([begin, times::now()?]));
        Some(Self {
            file,
            clock: Some(DumpClock { readings, ..clock }),
            known_len: 0,
            len,
            unchanged_since: None,
        })
    }

    /// Returns true if the file was not modified since.
    fn is_same(&self, door: &Door) -> bool {
        self.file.meta_now(door).is_ok_and(|meta| {
            meta.size_bytes >= self.len
                && self.unchanged_since.is_none_or(|since| since == meta.modified_unix_ns)
        })
    }
}

impl Teller {
    /// Starts the thread; `None` if the system allows no more threads.
    pub(super) fn start(door: &Door) -> Option<Self> {
        let door = door.clone();
        let (wanted, asked) = sync_channel::<NamesRequest>(MAX_WAITING);
        let (answer, answers) = channel();
        let work = move || {
            usage::background_priority();
            rights::keep(Part::Jit);
            rest::may();
            let mut budget = MAX_ALL_BYTES;
            for wanted in asked {
                if answer.send(tell(wanted, &mut budget, &door)).is_err() {
                    break;
                }
            }
        };
        Builder::new().name("icecore-jit".to_owned()).spawn(work).ok()?;
        Some(Self { wanted, answers, files: 0, addresses: 0 })
    }

    /// Requests that files are read.
    ///
    /// # Errors
    /// Returns the request if too much waits.
    pub(super) fn ask(&mut self, wanted: NamesRequest) -> Result<(), NamesRequest> {
        let (files, addresses) = (wanted.sources.len(), wanted.asked.len());
        if self.files + files > MAX_FILES || self.addresses + addresses > MAX_ADDRESSES {
            return Err(wanted);
        }
        self.wanted.try_send(wanted).map_err(|error| match error {
            std::sync::mpsc::TrySendError::Full(wanted)
            | std::sync::mpsc::TrySendError::Disconnected(wanted) => wanted,
        })?;
        self.files += files;
        self.addresses += addresses;
        Ok(())
    }

    /// Returns the answers that have arrived.
    pub(super) fn take_answers(&mut self) -> Vec<Answer> {
        let answers: Vec<Answer> = self.answers.try_iter().collect();
        answers.iter().for_each(|answer| self.count(answer));
        answers
    }

    /// Waits until a moment for an answer; `None` if there is none by then, or no request is open.
    pub(super) fn wait(&mut self, until: Instant) -> Option<Answer> {
        if self.files == 0 {
            return None;
        }
        let answer = self.answers.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?;
        self.count(&answer);
        Some(answer)
    }

    /// Returns the number of files that were not read yet.
    pub(super) fn waiting_files(&self) -> usize {
        self.files
    }

    fn count(&mut self, answer: &Answer) {
        self.files = self.files.saturating_sub(answer.files);
        self.addresses = self.addresses.saturating_sub(answer.addresses);
    }
}

/// A file of another, read in answers.
struct Held<'a>(RefCell<Reading<'a>>);

impl ReadAt for Held<'_> {
    fn read(&self, off: u64, bytes: &mut [u8]) -> usize {
        self.0.borrow_mut().read_at(bytes, off).unwrap_or(0)
    }
}

/// Reads files, and finds the pieces that contain the addresses. An address that one file explains is not searched in the next. Dumps should
/// come before maps, because they have times. The bytes of maps are subtracted from the budget; a file larger than the rest is not read.
fn tell(wanted: NamesRequest, budget: &mut u64, door: &Door) -> Answer {
    let NamesRequest { tgid, since_ns, mut asked, sources } = wanted;
    let (files, addresses) = (sources.len(), asked.len());
    let mut answer = Answer { tgid, since_ns, files, addresses, ..Answer::default() };
    for source in &sources {
        let addresses = Requested::new(&asked);
        let (found, is_cut) = if let Some(clock) = &source.clock {
            dump::find_by(&Held(RefCell::new(source.file.read(door))), &addresses, clock)
        } else if let Some(left) = budget.checked_sub(source.len.min(perf_map::MAX_BYTES)) {
            *budget = left;
            perf_map::find(source.file.read(door), source.len, source.known_len, &addresses)
                .unwrap_or_default()
        } else {
            (Vec::new(), true)
        };
        // If a file is overwritten while it is read, the bytes may form lines that nobody wrote.
        let is_same = source.is_same(door);
        answer.cut_files += u64::from(is_cut || !is_same);
        let found = if is_same { found } else { Vec::new() };
        let mut is_told = vec![false; asked.len()];
        found.iter().for_each(|piece| is_told[addresses.within(piece.start, piece.end)].fill(true));
        let mut is_told = is_told.into_iter();
        asked.retain(|_| !is_told.next().unwrap_or(false));
        answer.pieces.extend(found);
    }
    answer.pieces.sort_by_key(|piece| piece.since_ns);
    answer
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use tempfile::NamedTempFile;

    use super::*;

    fn map(text: &str) -> NamedTempFile {
        let mut file = NamedTempFile::new().expect("a folder for temporary files");
        file.write_all(text.as_bytes()).expect("room");
        file
    }

    fn wanted(file: &NamedTempFile, may_be_reused: bool, door: &Door) -> NamesRequest {
        let path = file.path().as_os_str().as_encoded_bytes();
        let file = door.below(Path::new("/"), path, true).expect("a file");
        let sources = vec![NamesFile::map(&file, 1 << 20, may_be_reused, door).expect("a file")];
        NamesRequest { tgid: 7, since_ns: 5, asked: vec![Avma(0x1000)], sources }
    }

    fn names(answer: &Answer) -> Vec<String> {
        answer.pieces.iter().map(|piece| String::from_utf8_lossy(&piece.name).into_owned()).collect()
    }

    #[test]
    fn another_thread_reads_and_answers() {
        let door = Door::of_test();
        let mut teller = Teller::start(&door).expect("a thread");
        assert!(teller.wait(Instant::now() + PATIENCE).is_none(), "nothing was asked");
        teller.ask(wanted(&map("1000 10 f\n"), false, &door)).expect("room");
        assert_eq!(teller.waiting_files(), 1);
        let answer = teller.wait(Instant::now() + PATIENCE).expect("an answer");
        assert_eq!((answer.tgid, answer.since_ns, names(&answer)), (7, 5, vec!["f".to_owned()]));
        assert_eq!((teller.waiting_files(), teller.addresses), (0, 0));
    }

    #[test]
    fn no_more_waits_than_there_is_room_for() {
        // No thread answers.
        let (wanted_by, _asked) = sync_channel(MAX_WAITING);
        let (_answer, answers) = channel();
        let mut teller = Teller { wanted: wanted_by, answers, files: 0, addresses: 0 };
        let (file, door) = (map("1000 10 f\n"), Door::of_test());
        (0..MAX_FILES).for_each(|_| teller.ask(wanted(&file, false, &door)).expect("room"));
        assert!(teller.ask(wanted(&file, false, &door)).is_err());
        assert_eq!(teller.waiting_files(), MAX_FILES);
        assert!(teller.wait(Instant::now()).is_none());
    }

    #[test]
    fn all_maps_together_have_a_budget() {
        let (file, door) = (map("1000 10 f\n"), Door::of_test());
        let mut budget = 15;
        assert_eq!(names(&tell(wanted(&file, false, &door), &mut budget, &door)), ["f"]);
        let second = tell(wanted(&file, false, &door), &mut budget, &door);
        assert_eq!((names(&second).len(), second.cut_files, budget), (0, 1, 5));
    }

    #[test]
    fn what_the_next_program_wrote_is_not_told_of_the_last() {
        let (mut budget, door) = (MAX_ALL_BYTES, Door::of_test());
        let mut file = map("1000 10 f\n");
        let grown = wanted(&file, false, &door);
        let cut = wanted(&file, false, &door);
        let reused = wanted(&file, true, &door);
        file.write_all(b"1000 10 g\n").expect("room");
        // The time of a file has the resolution of a tick.
        file.as_file().set_modified(std::time::SystemTime::now() + Duration::from_secs(1)).expect("ours");
        assert_eq!(names(&tell(grown, &mut budget, &door)), ["f"], "what was there is told, and no more");
        let told = tell(reused, &mut budget, &door);
        assert_eq!((names(&told).len(), told.cut_files), (0, 1));
        file.as_file().set_len(3).expect("ours");
        let told = tell(cut, &mut budget, &door);
        assert_eq!((names(&told).len(), told.cut_files), (0, 1));
    }
}
