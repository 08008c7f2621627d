//! A thread that reads unwind tables. Nobody waits for its answers: until they arrive the sampler copies whole stacks, which
//! costs more.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;

use icecore_elf::Layout;
use icecore_elf::frame_pointers::frames;
use object::read::ReadCache;

use super::ENOUGH;
use super::go::{GoPlaces, go};
use crate::foreign::{Door, ForeignFile};
use crate::interpreters::Interpreter;
use crate::machine::identity::{Identity, MapFile};
use crate::sys::rights::{self, Part};
use icecore_format::records::Omission;

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
    answers: Receiver<(u32, Option<Judged>)>,
}

/// The verdict on an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    /// Its code keeps frame pointers.
    pub(super) keeps: bool,
    /// The places in which the runtime of a Go program keeps the notes about its stacks.
    pub(super) places: Option<GoPlaces>,
    /// The interpreter that the image holds, or why nothing is known of its frames.
    pub(super) interpreter: Result<Option<Interpreter>, Omission>,
}

/// An image that is to be judged, and where one of its processes has mapped it.
pub(super) struct Request {
    pub(super) image: u32,
    pub(super) identity: Identity,
    pub(super) place: MapFile,
}

impl Judge {
    pub(super) fn start(door: Door) -> std::io::Result<Self> {
        let (requests, received) = sync_channel::<Request>(MAX_WAITING);
        let (answer, answers) = channel();
        Builder::new().name("icecore-judge".to_owned()).spawn(move || {
            rights::keep(Part::Judge);
            for request in received {
                let judged = request.place.open(&request.identity, &door).map(|file| judged(&file, &door));
                if answer.send((request.image, judged)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { requests, answers })
    }

    /// Requests that an image is judged; returns false if too many wait.
    pub(super) fn ask(&self, request: Request) -> bool {
        self.requests.try_send(request).is_ok()
    }

    /// Returns the answers since the last call; `None` for an image whose file could not be found.
    pub(super) fn answers(&self) -> impl Iterator<Item = (u32, Option<Judged>)> + '_ {
        self.answers.try_iter()
    }
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
    let interpreter = layout.as_ref().map_or(Ok(None), |layout| Interpreter::find(&file, layout));
    Judged { keeps, places: go.and_then(|go| go.places), interpreter }
}
