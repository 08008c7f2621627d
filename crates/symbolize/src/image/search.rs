//! Knows where files are searched: the user's options, and how a recorded path becomes one of this machine.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::door::Door;
use super::tree::Symbols;
use super::{ElfFile, FileSource};
use crate::{Known, Reason};

/// The places where files are searched, besides the recorded path.
#[derive(Debug)]
pub struct Search {
    /// Folders with any layout, searched by build-id.
    pub symbols: Symbols,
    /// Directories that contain `.build-id/xx/rest.debug`, or the image itself without `.debug`; tried in this order.
    pub debug_dirs: Vec<PathBuf>,
    /// The directory below which recorded paths are looked up, and never outside of it; absolute and real.
    pub sysroot: Option<PathBuf>,
    /// Replacements of the beginnings of recorded paths; the first that fits counts.
    pub maps: Vec<PathMap>,
    /// Recorded paths, of files or of folders, of which the user says that the files there ran, though nothing proves it.
    pub trusted: Vec<PathBuf>,
    /// The folder of downloads: `<build-id>/executable` and `<build-id>/debuginfo`.
    pub downloads: Option<PathBuf>,
    /// The cached answers of earlier reports.
    pub known: Option<Arc<dyn Known>>,
    /// The way to files at recorded paths.
    pub door: Door,
}

impl Default for Search {
    fn default() -> Self {
        Self { debug_dirs: vec![PathBuf::from("/usr/lib/debug")], ..Self::nowhere() }
    }
}

/// The beginning of recorded paths, and what replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathMap {
    /// As the recording has it, or as the compiler wrote it.
    pub from: PathBuf,
    /// On this machine; absolute.
    pub to: PathBuf,
}

impl std::str::FromStr for PathMap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once('=').ok_or("must be FROM=TO")?;
        if from.is_empty() || to.is_empty() {
            return Err("must be FROM=TO, both not empty".to_owned());
        }
        let to = std::path::absolute(to).map_err(|error| error.to_string())?;
        Ok(Self { from: PathBuf::from(from), to })
    }
}

/// A path, and the directory that is its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot<'s> {
    /// The directory that is `/` to the path and to every symbolic link on the way.
    root: Option<&'s Path>,
    path: PathBuf,
    /// The user typed where it begins.
    is_typed: bool,
}

impl Spot<'_> {
    /// Returns a path of this machine that the user typed.
    pub(crate) fn typed(path: PathBuf) -> Self {
        Self { root: None, path, is_typed: true }
    }

    /// Returns a path of this machine to which a recording led.
    fn recorded(path: PathBuf) -> Self {
        Self { root: None, path, is_typed: false }
    }

    /// Returns the path on this machine, for messages.
    pub(crate) fn shown(&self) -> PathBuf {
        match self.root {
            Some(root) => root.join(self.path.strip_prefix("/").unwrap_or(&self.path)),
            None => self.path.clone(),
        }
    }
}

impl Search {
    /// Searches recorded paths only.
    pub fn nowhere() -> Self {
        Self {
            symbols: Symbols::default(),
            debug_dirs: Vec::new(),
            sysroot: None,
            maps: Vec::new(),
            trusted: Vec::new(),
            downloads: None,
            known: None,
            door: Door::default(),
        }
    }

    /// Returns true if the user says that the file at a recorded path is the one that ran.
    pub fn trusts(&self, path: &Path) -> bool {
        self.trusted.iter().any(|trusted| path.starts_with(trusted))
    }

    /// Opens the file at a spot, if it is a regular file.
    pub(crate) fn open(&self, spot: &Spot<'_>) -> Result<ElfFile, Reason> {
        if spot.is_typed { ElfFile::open(&spot.path) } else { self.door.open(spot.root, &spot.path) }
    }

    /// Finds the spot of a path from a recording, or from a file to which the recording led.
    ///
    /// A mapped path is one of this machine, because the user gave it. `..` is resolved first, so that no path can leave the
    /// mapped folder.
    pub(crate) fn spot(&self, path: &Path) -> (FileSource, Spot<'_>) {
        let clean = lexical(path);
        let mapped = self.maps.iter().find_map(|map| Some(map.to.join(clean.strip_prefix(&map.from).ok()?)));
        match (mapped, &self.sysroot) {
            // Joining nothing adds a slash.
            (Some(path), _) => (FileSource::Path, Spot::recorded(path.components().collect())),
            (None, Some(root)) => {
                (FileSource::Sysroot, Spot { root: Some(root), ..Spot::recorded(path.to_owned()) })
            }
            (None, None) => (FileSource::Path, Spot::recorded(path.to_owned())),
        }
    }

    /// Finds the spot of a file beside an open file, or in a folder beside it.
    pub(crate) fn beside(&self, file: &Path, name: impl AsRef<Path>) -> Spot<'_> {
        let path = file.with_file_name("").join(name);
        match self.sysroot.as_deref().and_then(|root| Some((root, path.strip_prefix(root).ok()?))) {
            Some((root, inside)) => Spot { root: Some(root), ..Spot::recorded(Path::new("/").join(inside)) },
            None => Spot::recorded(path),
        }
    }

    /// Lists the debug directories; that of the sysroot comes last.
    pub(crate) fn debug_dirs(&self) -> impl Iterator<Item = Spot<'_>> {
        let typed = self.debug_dirs.iter().map(|dir| Spot::typed(dir.clone()));
        let path = || Spot::recorded(PathBuf::from("/usr/lib/debug"));
        typed.chain(self.sysroot.as_deref().map(|root| Spot { root: Some(root), ..path() }))
    }
}

impl<'s> Spot<'s> {
    /// Returns a path in the folder of this one.
    pub(crate) fn beside(&self, path: impl AsRef<Path>) -> Spot<'s> {
        Spot { path: self.path.with_file_name("").join(path), ..*self }
    }

    /// Returns a path below this one, even if it is absolute.
    pub(crate) fn below(&self, path: &Path) -> Spot<'s> {
        let inside = lexical(path);
        Spot { path: self.path.join(inside.strip_prefix("/").unwrap_or(&inside)), ..*self }
    }

    /// Appends text to the file name, and leaves the rest as it is.
    pub(crate) fn with_suffix(mut self, suffix: &str) -> Self {
        let mut name = self.path.file_name().map(OsStr::to_owned).unwrap_or_default();
        name.push(suffix);
        self.path.set_file_name(name);
        self
    }
}

/// Removes `.` and `..` from a path without looking at any file; `..` of the root is the root.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(clean.pop()),
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(search: &Search, path: &str) -> String {
        search.spot(Path::new(path)).1.shown().display().to_string()
    }

    #[test]
    fn the_first_map_that_fits_whole_components_counts() {
        let maps = ["/build=/home/me", "/build/x=/never", "/opt/app/=/srv"];
        let maps = maps.map(|map| map.parse().expect("a map")).into();
        let search = Search { maps, ..Search::nowhere() };
        assert_eq!(shown(&search, "/build/x/y"), "/home/me/x/y");
        assert_eq!(shown(&search, "/builds/x"), "/builds/x");
        assert_eq!(shown(&search, "/opt/app"), "/srv");
        assert_eq!(shown(&search, "/build/../etc/x"), "/build/../etc/x");
        assert_eq!(shown(&search, "/build/a/../../build/b"), "/home/me/b");
    }

    #[test]
    fn maps_that_say_nothing_are_refused_and_relative_ones_mean_the_current_directory() {
        for bad in ["", "x", "=x", "x="] {
            assert!(bad.parse::<PathMap>().is_err(), "{bad}");
        }
        let map: PathMap = "/x=y".parse().expect("a map");
        assert_eq!(map.to, std::env::current_dir().expect("a directory").join("y"));
    }

    #[test]
    fn a_map_wins_over_the_sysroot_and_neighbours_stay_inside() {
        let search = Search {
            maps: vec!["/a=/b".parse().expect("a map")],
            sysroot: Some("/root".into()),
            ..Search::nowhere()
        };
        assert_eq!(shown(&search, "/a/x"), "/b/x");
        assert_eq!(shown(&search, "/c/x"), "/root/c/x");
        let inside = search.beside(Path::new("/root/bin/x"), ".debug/x.debug");
        assert_eq!(
            (inside.root, &*inside.path),
            (Some(Path::new("/root")), Path::new("/bin/.debug/x.debug"))
        );
        assert_eq!(search.beside(Path::new("/rooted/x"), "y").root, None);
    }

    #[test]
    fn nothing_leaves_a_debug_directory() {
        let dir = Spot::typed("/d".into());
        assert_eq!(dir.below(Path::new("/../../etc/x")).path, Path::new("/d/etc/x"));
        assert_eq!(
            dir.below(Path::new("/usr/bin/x")).with_suffix(".debug").path,
            Path::new("/d/usr/bin/x.debug")
        );
    }
}
