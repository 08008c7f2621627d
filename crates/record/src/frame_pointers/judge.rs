//! A thread that reads unwind tables. Nobody waits for its answers: until they arrive the sampler copies whole stacks, which
//! costs more.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;

use icecore_elf::Layout;
use icecore_elf::frame_pointers::frames;
use icecore_format::records::Omission;
use object::read::ReadCache;

use super::ENOUGH;
use super::go::{GoPlaces, go};
use crate::foreign::{Door, ForeignFile};
use crate::interpreters::Interpreter;
use crate::machine::identity::{Identity, MapFile};
use crate::sys::rest;
use crate::sys::rights::{self, Part};

/// The most functions of an image that are examined: their share is within a percent of the share of all.
const MAX_FUNCTIONS: usize = 2048;
/// The number of functions that are examined first, and the share below which they suffice.
const GLANCE: usize = 64;
const ENOUGH_AT_A_GLANCE: f64 = 0.5;
/// The number of images that may wait.
const MAX_WAITING: usize = 4096;

/// The handle of the thread, which ends when the handle is dropped.
pub(super) struct Judge {
    requests: SyncSender<Request>,
    answers: Receiver<(u32, Answer)>,
}

/// What the thread has found out about an image.
#[derive(Debug)]
pub(super) enum Answer {
    /// It holds an interpreter, or one of whose frames nothing is known. This answer comes first.
    Interpreter(Result<Interpreter, Omission>),
    Judged(Judged),
    /// Its file could not be found.
    Unread,
}

/// The verdict on an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judged {
    /// Its code keeps frame pointers.
    pub(super) keeps: bool,
    /// The places in which the runtime of a Go program keeps the notes about its stacks.
    pub(super) places: Option<GoPlaces>,
}

/// An image that is to be judged, and where one of its processes has mapped it.
pub(super) struct Request {
    pub(super) image: u32,
    pub(super) identity: Identity,
    pub(super) place: MapFile,
}

impl Judge {
    pub(super) fn start(door: Door) -> std::io::Result<Self> {
        let (requests, received) = sync_channel(MAX_WAITING);
        let (answer, answers) = channel();
        Builder::new().name("icecore-judge".to_owned()).spawn(move || {
            rights::keep(Part::Judge);
            rest::may();
            answer_all(&received, &door, |image, about| answer.send((image, about)).is_ok());
        })?;
        Ok(Self { requests, answers })
    }

    /// Requests that an image is judged; returns false if too many wait.
    pub(super) fn ask(&self, request: Request) -> bool {
        self.requests.try_send(request).is_ok()
    }

    /// Returns the answers since the last call.
    pub(super) fn answers(&self) -> impl Iterator<Item = (u32, Answer)> + '_ {
        self.answers.try_iter()
    }
}

/// Looks for interpreters in all images that wait before it judges one, which takes longer: stacks lack their functions until they are known.
fn answer_all(requests: &Receiver<Request>, door: &Door, answer: impl Fn(u32, Answer) -> bool) {
    let mut looked_at: VecDeque<Request> = VecDeque::new();
    loop {
        // Judged images make room, so that no more of them wait than there may.
        let next = if looked_at.is_empty() {
            requests.recv().ok()
        } else if looked_at.len() < MAX_WAITING {
            requests.try_recv().ok()
        } else {
            None
        };
        let goes_on = match (next, &mut looked_at) {
            (Some(request), _) => {
                let found =
                    request.place.open(&request.identity, door).and_then(|file| interpreter(&file, door));
                let goes_on = found.is_none_or(|found| answer(request.image, Answer::Interpreter(found)));
                looked_at.push_back(request);
                goes_on
            }
            (None, waiting) => waiting.pop_front().is_some_and(|request| {
                let file = request.place.open(&request.identity, door);
                let judged = file.map(|file| Answer::Judged(judged(&file, door)));
                answer(request.image, judged.unwrap_or(Answer::Unread))
            }),
        };
        if !goes_on {
            return;
        }
    }
}

fn interpreter(file: &ForeignFile, door: &Door) -> Option<Result<Interpreter, Omission>> {
    let file = ReadCache::new(file.read(door));
    Interpreter::find(&file, &Layout::read(&file)?).transpose()
}

/// Judges a file. The first few functions suffice for most images: for all that do not keep frame pointers on purpose.
fn judged(file: &ForeignFile, door: &Door) -> Judged {
    let file = ReadCache::new(file.read(door));
    let layout = Layout::read(&file);
    let go = layout.as_ref().and_then(|layout| go(&file, layout));
    let code = go.as_ref().map_or(0..0, |go| go.code.clone());
    // A Go program without C has no unwind tables.
    let own = go.as_ref().map_or(0.0, |go| go.share);
    let share = |most| {
        let frames = layout.as_ref().and_then(|layout| frames(&file, layout, most, &code));
        frames.map_or(own, |frames| frames.share())
    };
    let keeps = share(GLANCE) >= ENOUGH_AT_A_GLANCE && share(MAX_FUNCTIONS) >= ENOUGH;
    Judged { keeps, places: go.and_then(|go| go.places) }
}
