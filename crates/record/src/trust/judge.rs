//! A thread that reads unwind rules, behind everything else that the recorder does.

use std::fs::File;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::Builder;

use object::read::ReadCache;

use super::ENOUGH;
use super::frames::frames;
use crate::sys::usage;

/// The most functions of an image that are looked at: their share is within a percent of that of all.
const MAX_FUNCTIONS: usize = 2048;
/// Functions that are looked at first, and the share below which these will do.
const GLANCE: usize = 64;
const ENOUGH_AT_A_GLANCE: f64 = 0.5;
/// Open files that may wait; more are not judged.
const MAX_WAITING: usize = 256;

/// The thread. It ends when this is dropped.
pub(super) struct Judge {
    files: SyncSender<(u32, File)>,
    answers: Receiver<(u32, bool)>,
}

impl Judge {
    pub(super) fn start() -> std::io::Result<Self> {
        let (files, asked) = sync_channel::<(u32, File)>(MAX_WAITING);
        let (answer, answers) = channel();
        Builder::new().spawn(move || {
            usage::background_priority();
            for (image, file) in asked {
                if answer.send((image, keeps_frame_pointers(&file))).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { files, answers })
    }

    /// Has the file of an image judged; false if too many wait.
    pub(super) fn ask(&self, image: u32, file: File) -> bool {
        self.files.try_send((image, file)).is_ok()
    }

    /// The images that were judged since the last call.
    pub(super) fn answers(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        self.answers.try_iter()
    }
}

/// Most images can be told at a glance, and all of those that do not keep frame pointers on purpose.
fn keeps_frame_pointers(file: &File) -> bool {
    let file = ReadCache::new(file);
    let share = |most| frames(&file, most).map_or(0.0, |frames| frames.share());
    share(GLANCE) >= ENOUGH_AT_A_GLANCE && share(MAX_FUNCTIONS) >= ENOUGH
}
