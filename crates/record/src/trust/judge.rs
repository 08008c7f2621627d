//! A thread that reads unwind tables. It does not wait for others: until it has answered, stacks are copied, which costs more.

use std::fs::File;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;

use icecore_elf::Layout;
use icecore_elf::frame_pointers::frames;
use object::read::ReadCache;

use super::ENOUGH;
use super::go::{GoPlaces, go};
use crate::machine::identity::{Identity, Place};

/// The most functions of an image that are looked at: their share is within a percent of that of all.
const MAX_FUNCTIONS: usize = 2048;
/// Functions that are looked at first, and the share below which these will do.
const GLANCE: usize = 64;
const ENOUGH_AT_A_GLANCE: f64 = 0.5;
/// Images that may wait.
const MAX_WAITING: usize = 4096;

/// The thread. It ends when this is dropped.
pub(super) struct Judge {
    wanted: SyncSender<Wanted>,
    answers: Receiver<(u32, Option<Judged>)>,
}

/// What is known of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judged {
    /// Its code keeps frame pointers.
    pub(super) keeps: bool,
    /// It is a program of Go, and keeps there what it notes of its stacks.
    pub(super) places: Option<GoPlaces>,
}

/// An image that is to be judged, and where one of its processes has it mapped.
pub(super) struct Wanted {
    pub(super) image: u32,
    pub(super) identity: Identity,
    pub(super) place: Place,
}

impl Judge {
    pub(super) fn start() -> std::io::Result<Self> {
        let (wanted, asked) = sync_channel::<Wanted>(MAX_WAITING);
        let (answer, answers) = channel();
        Builder::new().name("icecore-trust".to_owned()).spawn(move || {
            for wanted in asked {
                let judged = wanted.place.open(&wanted.identity).map(|file| judged(&file));
                if answer.send((wanted.image, judged)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { wanted, answers })
    }

    /// Has an image judged; false if too many wait.
    pub(super) fn ask(&self, wanted: Wanted) -> bool {
        self.wanted.try_send(wanted).is_ok()
    }

    /// The images that were judged since the last call; `None` of those whose file could not be found.
    pub(super) fn answers(&self) -> impl Iterator<Item = (u32, Option<Judged>)> + '_ {
        self.answers.try_iter()
    }
}

/// Most images can be told at a glance: all that do not keep frame pointers on purpose.
fn judged(file: &File) -> Judged {
    let file = ReadCache::new(file);
    let layout = Layout::read(&file);
    let go = layout.as_ref().and_then(|layout| go(&file, layout));
    let code = go.as_ref().map_or(0..0, |go| go.code.clone());
    // A program of Go without C has no rules.
    let own = go.as_ref().map_or(0.0, |go| go.share);
    let share = |most| {
        let frames = layout.as_ref().and_then(|layout| frames(&file, layout, most, &code));
        frames.map_or(own, |frames| frames.share())
    };
    let keeps = share(GLANCE) >= ENOUGH_AT_A_GLANCE && share(MAX_FUNCTIONS) >= ENOUGH;
    Judged { keeps, places: go.and_then(|go| go.places) }
}
