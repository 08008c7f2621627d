//! Limits the files that are held open because they may be gone when they are needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::foreign::ForeignFile;
use crate::sys::usage;

/// The most files that are held open, and their part of the files that the recorder may open besides those that are open when it
/// begins: it still has to attach the sampler.
const MAX_HELD: usize = 512;
const HELD_PART: usize = 3;
/// What the recorder opens later: links and the ring of the sampler, and two descriptors for each thread that asks readers, and the files that
/// these bring for a moment.
const OTHERS_NEED: usize = 24;

/// Room for open files, shared by all who hold some.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<AtomicUsize>);

/// An open file; its room is free again when it is dropped.
#[derive(Debug)]
pub(super) struct HeldFile {
    pub(super) file: ForeignFile,
    _taken: Option<Reserved>,
}

/// Room for one file.
#[derive(Debug)]
struct Reserved(Room);

impl Room {
    pub(super) fn new() -> Self {
        let spare = usage::spare_files().saturating_sub(OTHERS_NEED);
        Self(Arc::new(MAX_HELD.min(spare / HELD_PART).into()))
    }

    /// Opens a file if there is room for it.
    pub(super) fn hold(&self, open: impl FnOnce() -> Option<ForeignFile>) -> Option<HeldFile> {
        let less = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        let taken = Some(Reserved(self.clone()));
        Some(HeldFile { file: open()?, _taken: taken })
    }
}

impl HeldFile {
    /// Holds a file for a moment, even if there is no room.
    pub(super) fn for_a_moment(file: ForeignFile) -> Self {
        Self { file, _taken: None }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let Self(Room(left)) = self;
        left.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::foreign::Door;

    #[test]
    fn room_is_shared_and_given_back() {
        let room = Room(Arc::new(2.into()));
        let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        let door = Door::of_test();
        let open = || door.below(Path::new("/"), file.path().as_os_str().as_encoded_bytes(), true).ok();
        assert!(room.hold(|| None).is_none());
        let held = [room.hold(open), room.clone().hold(open)];
        assert!(held.iter().all(Option::is_some) && room.hold(open).is_none());
        drop(held);
        assert!(room.hold(open).is_some());
    }
}
