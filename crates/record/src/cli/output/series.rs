//! The files of a recording that rotates: their names, and which of them are removed.
//!
//! A file is removed only if its name is that of a file of this series, it is a recording of this user, and no recorder is writing it. So a
//! folder may hold other files, and the series of several recorders; and files that a stranger puts there do not count.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use icecore_format::header::{self, FileHeader};

use super::{OwnFile, explain, is_being_written, owner};
use crate::settings::{Destination, Keep, Options};

/// How names of files show the time, as `strftime` has it: names sort in the order of time.
const TIME: &str = "%Y%m%dT%H%M%S.%3fZ";
/// How the letters of such a time look.
const LIKE: &str = "00000000T000000.000Z";
const EXTENSION: &str = ".icecore";
/// How often a name is tried: another recorder may have taken that of this millisecond.
const ATTEMPTS: u32 = 100;

/// All files `FOLDER/PREFIX-TIME.icecore`.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    folder: PathBuf,
    prefix: String,
}

/// A finished file of a series.
#[derive(Debug)]
struct Old {
    path: PathBuf,
    bytes: u64,
    written: SystemTime,
}

impl Series {
    /// Returns the series to which the options lead.
    pub(crate) fn of(options: &Options) -> Self {
        let path = match &options.output {
            Destination::File(path) => path.clone(),
            Destination::NewFile | Destination::Stdout => {
                PathBuf::from(format!("icecore-{}", crate::cli::session::host()))
            }
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let prefix = name.strip_suffix(EXTENSION).unwrap_or(&name).to_owned();
        Self { folder, prefix }
    }

    /// Creates the next file.
    pub(crate) fn create(&self) -> anyhow::Result<OwnFile> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let time = jiff::Timestamp::now().strftime(TIME);
            let path = self.folder.join(format!("{}-{time}{EXTENSION}", self.prefix));
            match OwnFile::at(&path, false) {
                Ok(file) => return Ok(file),
                Err(error) if path.exists() => last = Some(error),
                Err(error) => return Err(error),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(last.unwrap_or_else(|| explain(&std::io::ErrorKind::AlreadyExists.into(), &self.folder)))
    }

    /// Removes the files that are not to be kept, the oldest first; returns their paths.
    ///
    /// # Cost
    /// Looks at each file of the folder, and opens those of the series.
    pub(crate) fn prune(&self, keep: &Keep, now: SystemTime) -> Vec<PathBuf> {
        if *keep == Keep::default() {
            return Vec::new();
        }
        let all = self.files();
        let too_many = keep.files.map_or(0, |files| all.len().saturating_sub(files));
        let mut bytes: u64 = all.iter().map(|old| old.bytes).sum();
        let mut removed = Vec::new();
        for (number, old) in all.iter().enumerate() {
            let age = now.duration_since(old.written).unwrap_or_default();
            let is_old = keep.age.is_some_and(|most| age > most);
            let is_too_much = keep.bytes.is_some_and(|most| bytes > most);
            let goes = number < too_many || is_old || is_too_much;
            if goes && !is_being_written(&old.path) && fs::remove_file(&old.path).is_ok() {
                bytes -= old.bytes;
                removed.push(old.path.clone());
            }
        }
        removed
    }

    /// Lists those that no recorder is writing, and their sizes.
    pub(crate) fn finished(&self) -> Vec<(PathBuf, u64)> {
        let all = self.files().into_iter().filter(|old| !is_being_written(&old.path));
        all.map(|Old { path, bytes, .. }| (path, bytes)).collect()
    }

    /// Returns true if a path of the series is more than a line.
    pub(crate) fn has_line_end(&self) -> bool {
        self.prefix.contains('\n') || self.folder.as_os_str().as_encoded_bytes().contains(&b'\n')
    }

    /// Returns the user who called sudo if new files are given to this user.
    pub(crate) fn owner_by_sudo(&self) -> Option<u32> {
        let (uid, _) = owner::of_sudo()?;
        fs::metadata(self.folder()).is_ok_and(|folder| folder.uid() == uid).then_some(uid)
    }

    fn folder(&self) -> &Path {
        if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder }
    }

    /// Lists the recordings of the series in the order of their names, which is that of time.
    fn files(&self) -> Vec<Old> {
        let entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let mut files: Vec<Old> = entries
            .filter(|entry| entry.file_name().to_str().is_some_and(|name| self.has(name)))
            .filter_map(|entry| {
                let is_one = |meta: &fs::Metadata| meta.is_file() && owner::is_own(meta);
                let meta = entry.metadata().ok().filter(is_one).filter(|_| is_recording(&entry.path()))?;
                Some(Old { path: entry.path(), bytes: meta.len(), written: meta.modified().ok()? })
            })
            .collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files
    }

    /// Returns true if a file of this name is one of the series.
    fn has(&self, name: &str) -> bool {
        let time = name.strip_prefix(&self.prefix).and_then(|rest| rest.strip_prefix('-'));
        let Some(time) = time.and_then(|rest| rest.strip_suffix(EXTENSION)) else { return false };
        let is_like =
            |(byte, like): (u8, u8)| if like == b'0' { byte.is_ascii_digit() } else { byte == like };
        time.len() == LIKE.len() && time.bytes().zip(LIKE.bytes()).all(is_like)
    }
}

/// Returns true if a file begins as a recording does.
fn is_recording(path: &Path) -> bool {
    let mut begin = Vec::new();
    // Somebody may have put something else there meanwhile.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path);
    let read = file.and_then(|file| file.take(header::LEN as u64).read_to_end(&mut begin));
    read.is_ok() && FileHeader::decode(&begin).is_ok()
}

#[cfg(test)]
mod tests {
    use icecore_format::write::Writer;

    use super::*;

    fn series(folder: &Path, prefix: &str) -> Series {
        Series { folder: folder.to_owned(), prefix: prefix.to_owned() }
    }

    /// Makes finished recordings of a series, an hour apart, the last one now.
    fn recorded(series: &Series, count: u32) -> Vec<PathBuf> {
        let one = |hour| {
            let path =
                series.folder.join(format!("{}-20260101T{hour:02}0000.000Z{EXTENSION}", series.prefix));
            let file = File::create_new(&path).expect("room");
            Writer::create(file.try_clone().expect("a descriptor"), [hour as u8; 16]).expect("room");
            let age = Duration::from_secs(u64::from(count - 1 - hour) * 3_600);
            file.set_modified(SystemTime::now() - age).expect("ours");
            path
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn the_oldest_files_go_first_and_only_files_of_the_series_go() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let (own, others) = (series(dir.path(), "a"), series(dir.path(), "a-b"));
        let (files, _) = (recorded(&own, 6), recorded(&others, 3));
        let strangers =
            ["a-20260101T000000.000Z.txt", "a-x.icecore", "a-20250101T000000.000Z.icecore", "a.icecore"];
        for name in strangers {
            fs::write(dir.path().join(name), "no recording").expect("room");
        }
        let keep = Keep { files: Some(5), ..Keep::default() };
        assert_eq!(own.prune(&keep, SystemTime::now()), files[..1]);
        let age = Some(Duration::from_secs(7_000));
        assert_eq!(own.prune(&Keep { age, ..Keep::default() }, SystemTime::now()), files[1..4]);
        let bytes = fs::metadata(&files[5]).expect("there").len();
        let keep = Keep { bytes: Some(bytes), ..Keep::default() };
        assert_eq!(own.prune(&keep, SystemTime::now()), files[4..5]);
        assert_eq!(own.prune(&Keep::default(), SystemTime::now()), Vec::<PathBuf>::new());
        assert!(files[5].exists() && strangers.iter().all(|name| dir.path().join(name).exists()));
        assert_eq!(others.files().len(), 3);
    }

    /// Only root can give files away.
    #[test]
    fn root_files_of_a_stranger_remove_none_of_this_user() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let series = series(dir.path(), "a");
        let own = recorded(&series, 2);
        for year in 2030..2040 {
            let path = dir.path().join(format!("a-{year}0101T000000.000Z{EXTENSION}"));
            fs::copy(&own[0], &path).expect("room");
            std::os::unix::fs::chown(&path, Some(54_321), None).expect("root may");
        }
        let keep = Keep { files: Some(2), bytes: Some(1 << 20), ..Keep::default() };
        assert_eq!(series.prune(&keep, SystemTime::now()), Vec::<PathBuf>::new());
        assert_eq!(series.prune(&Keep { files: Some(1), ..keep }, SystemTime::now()), own[..1]);
        assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 11);
    }

    #[test]
    fn a_file_that_is_being_written_stays() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let series = series(dir.path(), "a");
        let old = recorded(&series, 1);
        let now = series.create().expect("room");
        Writer::create(now.file.try_clone().expect("a descriptor"), [9; 16]).expect("room");
        now.keep().expect("its own name");
        let finished = |path: &PathBuf| (path.clone(), fs::metadata(path).expect("there").len());
        assert_eq!(series.finished(), old.iter().map(finished).collect::<Vec<_>>());
        let keep = Keep { files: Some(1), bytes: Some(1), age: Some(Duration::ZERO) };
        assert_eq!(series.prune(&keep, SystemTime::now() + Duration::from_secs(9)), old);
        assert!(now.path.exists());
    }

    #[test]
    fn each_file_has_a_name_of_its_own_that_is_later() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let series = series(dir.path(), "a");
        let files: Vec<OwnFile> = (0..3).map(|_| series.create().expect("room")).collect();
        for (number, file) in (1..).zip(&files) {
            Writer::create(file.file.try_clone().expect("a descriptor"), [number; 16]).expect("room");
        }
        files.iter().for_each(|file| file.keep().expect("its own name"));
        assert!(files.is_sorted_by(|one, next| one.path < next.path));
        assert!(series.files().iter().map(|old| &old.path).eq(files.iter().map(|file| &file.path)));
    }
}
