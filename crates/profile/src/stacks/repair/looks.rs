//! Remembers for which files of images unwinding has searched, and what it found: as long as searches find the same files in the same
//! state, the stacks of a recording are the same.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rayon::prelude::*;

use crate::map::Map;
use icecore_symbolize::image::{Carried, ElfFile, Finder, FoundState, Identity, Looked, refusals};

/// A file that changed so shortly before it was read may change again without another time of its change: clocks of file systems
/// have steps of up to two seconds.
const SETTLED: Duration = Duration::from_secs(2);

/// A search for the files of an image, and its result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Look {
    /// A position in [`Locator::images`](crate::stacks::locate::Locator::images).
    pub(crate) image: u32,
    /// The recording has a file of the image, and it was used.
    pub(crate) is_carried: bool,
    /// The state of what was found.
    pub(crate) found: String,
}

impl Look {
    /// Writes it as text without NUL.
    pub(crate) fn to_text(&self) -> String {
        format!("{} {}\n{}", self.image, self.is_carried, self.found)
    }

    /// Reads such a text.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let (image, rest) = text.split_once(' ')?;
        let (is_carried, found) = rest.split_once('\n')?;
        let (image, is_carried) = (image.parse().ok()?, is_carried.parse().ok()?);
        Some(Self { image, is_carried, found: found.to_owned() })
    }
}

/// All searches for files so far.
#[derive(Debug)]
pub(crate) struct Looks {
    seen: Mutex<Seen>,
    begun: SystemTime,
    refusals: u64,
}

#[derive(Debug, Default)]
struct Seen {
    found: Map<(Identity, bool), FoundState>,
    /// Two searches had different results, or a file in the recording could not be unpacked.
    is_doubtful: bool,
}

/// A recording's own files, and who remembers what else is found.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    pub(crate) files: &'a dyn Carried,
    pub(crate) looks: &'a Looks,
}

impl Carried for Watched<'_> {
    fn open(&self, image: &Identity) -> Option<ElfFile> {
        self.files.open(image)
    }

    fn note(&self, image: &Identity, is_carried: bool, found: &Looked) {
        let (state, mut seen) = (found.state(), self.looks.seen());
        let known = seen.found.entry((image.clone(), is_carried)).or_insert_with(|| state.clone());
        let is_other = *known != state;
        seen.is_doubtful |= is_other;
    }
}

impl Looks {
    /// Begins to remember.
    pub(crate) fn begin() -> Self {
        Self { seen: Mutex::default(), begun: SystemTime::now(), refusals: refusals() }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that what was found may be found otherwise next time, although all files stay the same.
    pub(crate) fn doubt(&self) {
        self.seen().is_doubtful = true;
    }

    /// Lists all searches, by image; `None` if the same searches could lead to other stacks: a file was just changing, or the
    /// process lacked memory.
    pub(crate) fn proven(&self, images: &[Identity]) -> Option<Vec<Look>> {
        let seen = self.seen();
        let settled = self.begun.checked_sub(SETTLED)?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let settled_ns = u64::try_from(settled.as_nanos()).ok()?;
        let is_settled = seen.found.values().all(|state| state.changed_unix_ns < settled_ns);
        if seen.is_doubtful || !is_settled || refusals() != self.refusals {
            return None;
        }
        let positions: Map<&Identity, u32> = images.iter().zip(0..).collect();
        let look = |((image, is_carried), state): (&(Identity, bool), &FoundState)| {
            let image = *positions.get(image)?;
            Some(Look { image, is_carried: *is_carried, found: state.text.clone() })
        };
        let mut looks: Vec<Look> = seen.found.iter().map(look).collect::<Option<_>>()?;
        looks.sort_unstable();
        Some(looks)
    }
}

/// Returns true if each search, made once more, still has the same result.
pub(crate) fn are_valid(looks: &[Look], images: &[Identity], finder: &Finder<'_>) -> bool {
    looks.par_iter().all(|look| {
        let embedded = finder.embedded.filter(|_| look.is_carried);
        let Some(image) = images.get(look.image as usize) else { return false };
        Finder { embedded, ..*finder }.look(image).state().text == look.found
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use icecore_symbolize::image::{Kind, Search};

    /// A source that has no files.
    #[derive(Debug)]
    struct Nothing;

    impl Carried for Nothing {
        fn open(&self, _image: &Identity) -> Option<ElfFile> {
            None
        }
    }

    /// Describes a program, and perhaps another path for it.
    fn image(of: &Path, path: &Path) -> Identity {
        let file = ElfFile::open(of).expect("it is there");
        let build_id = file.layout().expect("it is ELF").build_id;
        let path = path.display().to_string();
        Identity {
            kind: Kind::File,
            path,
            build_id,
            size_bytes: file.len,
            modified_unix_ns: file.modified_unix_ns,
            inode: file.inode,
            has_double: false,
        }
    }

    fn looked(images: &[Identity]) -> Looks {
        let (search, looks) = (Search::nowhere(), Looks::begin());
        let watched = Watched { files: &Nothing, looks: &looks };
        let finder = Finder { search: &search, embedded: Some(&watched) };
        images.iter().for_each(|image| drop(finder.look(image)));
        looks
    }

    fn is_valid(looks: &[Look], images: &[Identity]) -> bool {
        are_valid(looks, images, &Finder { search: &Search::nowhere(), embedded: None })
    }

    /// A program of the system: its file changed long ago.
    fn system() -> &'static Path {
        Path::new("/bin/true")
    }

    #[test]
    fn a_file_that_stays_is_proven_and_one_that_appears_or_changes_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let later = dir.path().canonicalize().expect("a real path").join("later");
        let images = [image(system(), system()), image(system(), &later)];
        let looks = looked(&images).proven(&images).expect("neither has just changed");
        assert_eq!(looks.len(), 2);
        assert!(is_valid(&looks, &images));
        std::fs::copy(system(), &later).expect("room");
        assert!(!is_valid(&looks, &images), "it has appeared");
        assert!(is_valid(&looks[..1], &images));
        assert!(looked(&images).proven(&images).is_none(), "it has just changed");
        let mut changed = looks.clone();
        changed[0].found = changed[0].found.replace("/true", "/trui");
        assert!(!is_valid(&changed, &images));
        changed[0].image = 2;
        assert!(!is_valid(&changed, &images), "an image that is not there");
    }

    #[test]
    fn what_is_doubtful_is_not_proven() {
        let dir = tempfile::tempdir().expect("a directory");
        let gone = dir.path().canonicalize().expect("a real path").join("gone");
        let images = [image(system(), &gone)];
        let looks = looked(&images);
        looks.doubt();
        assert!(looks.proven(&images).is_none());
        let looks = looked(&images);
        std::fs::copy(system(), &gone).expect("room");
        let (search, watched) = (Search::nowhere(), Watched { files: &Nothing, looks: &looks });
        drop(Finder { search: &search, embedded: Some(&watched) }.look(&images[0]));
        assert!(looks.seen().is_doubtful, "two searches, two results");
        assert!(looked(&[]).proven(&images).is_some_and(|looks| looks.is_empty()));
    }
}
