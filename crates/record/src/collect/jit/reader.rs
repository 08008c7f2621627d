//! A thread that reads the memory of processes. Such a read can block for as long as the process, or whoever backs its memory, likes;
//! so no other thread of the recorder waits for it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use icecore_elf::Avma;
use rustc_hash::FxHashMap;

use crate::proc::scan;
use crate::sys::clock;

/// The number of requests that may wait.
const MAX_WAITING: usize = 16;
/// The number of processes whose memory is held open.
const MAX_OPEN: usize = 64;
/// The number of bytes that are read before an address, where a call may end, and as many after it.
pub(super) const FRONT_LEN: usize = 8;
/// How long the end of a recording waits for answers.
pub(super) const PATIENCE: Duration = Duration::from_millis(300);
/// The size of the smallest page.
const PAGE_LEN: u64 = 4096;

/// The handle of the thread, which ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct Reader {
    wanted: SyncSender<BytesRequest>,
    answers: Receiver<Fronts>,
    /// The number of requests that are not answered yet.
    open: usize,
}

/// A request: addresses of one address space.
#[derive(Debug)]
struct BytesRequest {
    life: u64,
    tgid: u32,
    addresses: Vec<Avma>,
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Fronts {
    /// The number of the address space.
    pub(super) life: u64,
    /// When the reading began and when it ended, ns `CLOCK_MONOTONIC`.
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    /// The addresses that could be read, and the bytes around them.
    pub(super) fronts: Vec<(Avma, Around)>,
}

/// The bytes before an address, and those from the address on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Around {
    pub(super) front: Bytes,
    pub(super) behind: Bytes,
}

/// Up to [`FRONT_LEN`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bytes {
    bytes: [u8; FRONT_LEN],
    len: u8,
}

impl Bytes {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut own = Self { bytes: [0; FRONT_LEN], len: bytes.len() as u8 };
        own.bytes[..bytes.len()].copy_from_slice(bytes);
        own
    }

    pub(super) fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Reader {
    /// Starts the thread; `None` if the system allows no more threads.
    pub(super) fn start() -> Option<Self> {
        let (wanted, asked) = sync_channel::<BytesRequest>(MAX_WAITING);
        let (answer, answers) = channel();
        let work = move || {
            let mut memories = Memories::default();
            for wanted in asked {
                if answer.send(memories.answer(&wanted)).is_err() {
                    break;
                }
            }
        };
        Builder::new().name("icecore-code".to_owned()).spawn(work).ok()?;
        Some(Self { wanted, answers, open: 0 })
    }

    /// Requests the bytes around addresses.
    ///
    /// # Errors
    /// Returns the addresses if too many requests wait.
    pub(super) fn ask(&mut self, life: u64, tgid: u32, addresses: Vec<Avma>) -> Result<(), Vec<Avma>> {
        match self.wanted.try_send(BytesRequest { life, tgid, addresses }) {
            Ok(()) => {
                self.open += 1;
                Ok(())
            }
            Err(error) => Err(match error {
                std::sync::mpsc::TrySendError::Full(wanted)
                | std::sync::mpsc::TrySendError::Disconnected(wanted) => wanted.addresses,
            }),
        }
    }

    /// Returns the answers that have arrived.
    pub(super) fn take_answers(&mut self) -> Vec<Fronts> {
        let answers: Vec<Fronts> = self.answers.try_iter().collect();
        self.open = self.open.saturating_sub(answers.len());
        answers
    }

    /// Waits until a moment for an answer; `None` if there is none by then, or no request is open.
    pub(super) fn wait(&mut self, until: Instant) -> Option<Fronts> {
        if self.open == 0 {
            return None;
        }
        let answer = self.answers.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?;
        self.open -= 1;
        Some(answer)
    }
}

/// Open `/proc/PID/mem` files, by the number of the address space. Such a file stays with the address space that the process had when the file
/// was opened: reads fail after that has ended.
#[derive(Debug, Default)]
struct Memories(FxHashMap<u64, File>);

impl Memories {
    fn answer(&mut self, wanted: &BytesRequest) -> Fronts {
        let BytesRequest { life, tgid, ref addresses } = *wanted;
        let began_ns = clock::monotonic_ns();
        let fronts = self.open(life, tgid).map_or_else(Vec::new, |memory| {
            addresses.iter().filter_map(|address| Some((*address, front(memory, *address)?))).collect()
        });
        if fronts.is_empty() {
            self.0.remove(&life);
        }
        Fronts { life, began_ns, ended_ns: clock::monotonic_ns(), fronts }
    }

    fn open(&mut self, life: u64, tgid: u32) -> Option<&File> {
        if !self.0.contains_key(&life) {
            if self.0.len() >= MAX_OPEN {
                self.0.clear();
            }
            self.0.insert(life, File::open(scan::folder(tgid).join("mem")).ok()?);
        }
        self.0.get(&life)
    }
}

/// Reads the bytes around an address; `None` if neither side can be read.
fn front(memory: &File, Avma(address): Avma) -> Option<Around> {
    let start = address.checked_sub(FRONT_LEN as u64)?;
    let mut bytes = [0; 2 * FRONT_LEN];
    if memory.read_exact_at(&mut bytes, start).is_ok() {
        let (front, behind) = bytes.split_at(FRONT_LEN);
        return Some(Around { front: Bytes::new(front), behind: Bytes::new(behind) });
    }
    // The memory begins or ends within these bytes.
    let in_page = (address % PAGE_LEN) as usize;
    let front = [FRONT_LEN, in_page].into_iter().filter(|len| *len <= FRONT_LEN).find_map(|len| {
        memory
            .read_exact_at(&mut bytes[..len], address - len as u64)
            .is_ok()
            .then(|| Bytes::new(&bytes[..len]))
    })?;
    let behind = [FRONT_LEN, (PAGE_LEN as usize - in_page).min(FRONT_LEN)].into_iter().find_map(|len| {
        memory.read_exact_at(&mut bytes[..len], address).is_ok().then(|| Bytes::new(&bytes[..len]))
    });
    let is_known = front.len > 0 || behind.is_some();
    is_known.then(|| Around { front, behind: behind.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    static CODE: [u8; 24] =
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23];

    #[test]
    fn what_lies_in_front_of_an_address_is_read_from_the_process() {
        let mut reader = Reader::start().expect("a thread");
        let at = Avma(CODE.as_ptr() as u64 + 9);
        // Nothing is mapped at the last address.
        reader.ask(5, std::process::id(), vec![at, Avma(16)]).expect("room");
        let answer = reader.wait(Instant::now() + Duration::from_secs(60)).expect("an answer");
        let around = Around { front: Bytes::new(&CODE[1..9]), behind: Bytes::new(&CODE[9..17]) };
        assert_eq!((answer.life, &answer.fronts[..]), (5, &[(at, around)][..]));
        assert!(answer.began_ns <= answer.ended_ns && reader.wait(Instant::now()).is_none());
    }

    #[test]
    fn of_a_process_that_is_gone_nothing_is_known() {
        let mut reader = Reader::start().expect("a thread");
        reader.ask(5, u32::MAX, vec![Avma(CODE.as_ptr() as u64 + 9)]).expect("room");
        assert_eq!(reader.wait(Instant::now() + Duration::from_secs(60)).map(|it| it.fronts.len()), Some(0));
    }
}
