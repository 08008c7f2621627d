//! Keeps downloads in a folder with the layout of elfutils, whose tools find them there and clean the folder up:
//!
//! ```text
//! <folder>/<build-id>/debuginfo      0400   a download
//!                     executable     0000   empty: no server had it at its modification time
//!          cache_miss_s                     for how many seconds that is believed; 600 if it is not there
//!          icecore-silent-<hash>    0000    empty: the server of this address was silent at its modification time
//! ```

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use icecore_files::private;
use tempfile::NamedTempFile;

use super::Artifact;
use crate::image;

/// How long the report believes a server's "not found".
const MISS_AGE: Duration = Duration::from_secs(600);
/// The longest `cache_miss_s` that is read, bytes.
const MAX_AGE_LEN: u64 = 32;

/// The folder of downloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

/// What the folder has of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The file.
    Present,
    /// The note that a short time ago no server had it.
    Missed,
    /// Nothing, or an old note.
    Unknown,
}

impl Cache {
    /// Takes the folder; creates nothing before the first download.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Looks a download up in the folder.
    pub(super) fn state(&self, build_id: &[u8], what: Artifact) -> State {
        let Some(meta) = self.place(build_id, what).and_then(|path| fs::metadata(path).ok()) else {
            return State::Unknown;
        };
        if meta.len() > 0 {
            return State::Present;
        }
        // A time in the future does not count.
        let age = meta.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if age.is_some_and(|age| age < self.miss_age()) { State::Missed } else { State::Unknown }
    }

    /// Finds the note that a short time ago a server was silent, and how long it is believed still.
    pub(super) fn silence(&self, server: &str) -> Option<(PathBuf, Duration)> {
        let path = self.silence_note(server);
        let age = SystemTime::now().duration_since(fs::metadata(&path).ok()?.modified().ok()?).ok()?;
        Some((path, self.miss_age().checked_sub(age).filter(|left| !left.is_zero())?))
    }

    /// Notes that a server is silent.
    pub(super) fn note_silence(&self, server: &str) -> io::Result<()> {
        private::create(&self.folder)?;
        let empty = tempfile::Builder::new().prefix("icecore-silent.").tempfile_in(&self.folder)?;
        empty.as_file().set_permissions(Permissions::from_mode(0o0))?;
        empty.persist(self.silence_note(server))?;
        Ok(())
    }

    fn silence_note(&self, server: &str) -> PathBuf {
        self.folder.join(format!("icecore-silent-{:08x}", crc32fast::hash(server.as_bytes())))
    }

    /// Begins a download, in a temporary file beside its place.
    pub(super) fn begin(&self, build_id: &[u8], what: Artifact) -> io::Result<NamedTempFile> {
        let path = self.place(build_id, what).ok_or(io::ErrorKind::InvalidInput)?;
        let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        private::create(dir)?;
        tempfile::Builder::new().prefix(&format!("{}.", what.name())).tempfile_in(dir)
    }

    /// Puts a checked download into its place.
    pub(super) fn finish(&self, file: NamedTempFile, build_id: &[u8], what: Artifact) -> io::Result<()> {
        self.place_with_mode(file, build_id, what, 0o400)
    }

    /// Notes that no server has it.
    pub(super) fn note_miss(&self, build_id: &[u8], what: Artifact) -> io::Result<()> {
        let empty = self.begin(build_id, what)?;
        self.place_with_mode(empty, build_id, what, 0)
    }

    fn place_with_mode(
        &self,
        file: NamedTempFile,
        build_id: &[u8],
        what: Artifact,
        mode: u32,
    ) -> io::Result<()> {
        let path = self.place(build_id, what).ok_or(io::ErrorKind::InvalidInput)?;
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.persist(path)?;
        Ok(())
    }

    /// Returns the path of a download; `None` if the build-id is invalid.
    pub(super) fn place(&self, build_id: &[u8], what: Artifact) -> Option<PathBuf> {
        image::download(&self.folder, build_id, what.name())
    }

    fn miss_age(&self) -> Duration {
        let path = self.folder.join("cache_miss_s");
        let is_short = fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_AGE_LEN);
        let text = if is_short { fs::read_to_string(path).ok() } else { None };
        text.and_then(|text| text.trim().parse().ok()).map_or(MISS_AGE, Duration::from_secs)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ID: [u8; 3] = [0xab, 0xcd, 0xef];

    fn cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = Cache::new(dir.path().join("not/yet/there"));
        (dir, cache)
    }

    #[test]
    fn downloads_lie_where_elfutils_has_them_and_cannot_be_written() {
        let (_dir, cache) = cache();
        assert_eq!(cache.state(&ID, Artifact::Debuginfo), State::Unknown);
        let mut file = cache.begin(&ID, Artifact::Debuginfo).expect("begun");
        file.write_all(b"bytes").expect("written");
        cache.finish(file, &ID, Artifact::Debuginfo).expect("placed");
        let path = cache.folder().join("abcdef/debuginfo");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o400);
        assert_eq!(cache.state(&ID, Artifact::Debuginfo), State::Present);
        assert_eq!(cache.state(&ID, Artifact::Executable), State::Unknown);
        let others = fs::read_dir(path.parent().expect("a folder")).expect("there").count();
        assert_eq!(others, 1, "nothing is left beside it");
    }

    #[test]
    fn a_miss_is_an_empty_file_that_is_believed_for_a_while() {
        let (_dir, cache) = cache();
        cache.note_miss(&ID, Artifact::Executable).expect("noted");
        let path = cache.folder().join("abcdef/executable");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0);
        assert_eq!(cache.state(&ID, Artifact::Executable), State::Missed);
        fs::write(cache.folder().join("cache_miss_s"), "0\n").expect("written");
        assert_eq!(cache.state(&ID, Artifact::Executable), State::Unknown);
        fs::write(cache.folder().join("cache_miss_s"), "nonsense").expect("written");
        assert_eq!(cache.state(&ID, Artifact::Executable), State::Missed);
        let old = SystemTime::now() - Duration::from_secs(601);
        let file = fs::OpenOptions::new().write(true).open(&path);
        if let Ok(file) = file {
            file.set_modified(old).expect("set");
            assert_eq!(cache.state(&ID, Artifact::Executable), State::Unknown);
        }
    }

    #[test]
    fn a_build_id_of_no_sound_length_has_no_place() {
        let (_dir, cache) = cache();
        assert_eq!(cache.state(&[], Artifact::Debuginfo), State::Unknown);
        assert!(cache.begin(&[1; 65], Artifact::Debuginfo).is_err());
        assert!(!cache.folder().exists());
    }
}
