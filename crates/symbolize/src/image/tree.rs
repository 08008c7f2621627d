//! Finds binaries and debug files by build-id in folders of any layout.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{ElfFile, gsym, pointers};
use crate::map::Map;

/// The most files and folders that are examined; the symbols of a whole distribution release are fewer.
const MAX_ENTRIES: usize = 1 << 18;
/// The deepest nesting of folders.
const MAX_DEPTH: usize = 32;

/// Folders that are scanned once, when the first image is searched.
#[derive(Debug, Default)]
pub struct Symbols {
    dirs: Vec<PathBuf>,
    tree: OnceLock<Tree>,
}

/// The files in the folders.
#[derive(Debug, Default)]
struct Tree {
    by_build_id: Map<Vec<u8>, Vec<PathBuf>>,
    /// ELF files without a build-id, such as `.dwo` and `.dwp`.
    by_name: Map<OsString, Vec<PathBuf>>,
    /// GSYM files, by the build-id of their image.
    gsym: Map<Vec<u8>, Vec<PathBuf>>,
    entries: usize,
    is_cut: bool,
}

impl Symbols {
    /// Takes these folders, which are absolute, and scans them later.
    pub fn below(dirs: Vec<PathBuf>) -> Self {
        Self { dirs, tree: OnceLock::new() }
    }

    /// Lists the files with a build-id, or the id of a supplement, in the order of their paths below each folder.
    pub(crate) fn of_build_id(&self, build_id: &[u8]) -> &[PathBuf] {
        self.tree().by_build_id.get(build_id).map_or(&[], Vec::as_slice)
    }

    /// Lists the ELF files with this name that have no build-id.
    pub(crate) fn of_name(&self, name: &OsStr) -> &[PathBuf] {
        self.tree().by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Lists the GSYM files that were made for a build.
    pub(crate) fn gsym_of_build_id(&self, build_id: &[u8]) -> &[PathBuf] {
        self.tree().gsym.get(build_id).map_or(&[], Vec::as_slice)
    }

    /// Returns true if the folders contain more than was examined.
    pub fn is_cut(&self) -> bool {
        self.tree.get().is_some_and(|tree| tree.is_cut)
    }

    fn tree(&self) -> &Tree {
        self.tree.get_or_init(|| {
            let mut tree = Tree::default();
            let mut seen = HashSet::new();
            for dir in &self.dirs {
                if std::fs::metadata(dir).is_ok_and(|meta| seen.insert(id(&meta))) {
                    tree.scan(dir, 0, &mut seen);
                }
            }
            tree
        })
    }
}

impl Tree {
    /// Adds the files of a folder, in the order of their names. It follows symbolic links, and enters no folder twice.
    fn scan(&mut self, dir: &Path, depth: usize, seen: &mut HashSet<(u64, u64)>) {
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        let room = MAX_ENTRIES - self.entries;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).take(room + 1).collect();
        self.is_cut |= paths.len() > room;
        paths.truncate(room);
        self.entries += paths.len();
        paths.sort_unstable();
        for path in paths {
            match std::fs::metadata(&path) {
                Ok(meta) if meta.is_dir() && seen.insert(id(&meta)) => {
                    if depth < MAX_DEPTH {
                        self.scan(&path, depth + 1, seen)
                    } else {
                        self.is_cut = true
                    }
                }
                Ok(meta) if meta.is_file() => self.add(path),
                _ => {}
            }
        }
    }

    fn add(&mut self, path: PathBuf) {
        let Ok(file) = ElfFile::open(&path) else { return };
        let Ok(layout) = file.layout() else {
            if let Some(build_id) = gsym::build_id(&file) {
                self.gsym.entry(build_id).or_default().push(path);
            }
            return;
        };
        let id = if layout.build_id.is_empty() {
            pointers::supplement_id(&file, &layout).unwrap_or_default()
        } else {
            layout.build_id
        };
        match (id.is_empty(), path.file_name()) {
            (false, _) => self.by_build_id.entry(id).or_default().push(path),
            (true, Some(name)) => self.by_name.entry(name.to_owned()).or_default().push(path),
            (true, None) => {}
        }
    }
}

fn id(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::fixture::{Fixture, identity, run};
    use super::*;

    #[test]
    fn files_are_found_by_build_id_wherever_they_lie_and_whatever_they_are_called() {
        let fixture = Fixture::shared();
        let dir = tempfile::tempdir().expect("a directory");
        let deep = dir.path().join("a/b/c");
        std::fs::create_dir_all(&deep).expect("made");
        std::fs::copy(&fixture.with_symbols, deep.join("anything")).expect("copied");
        std::fs::copy(&fixture.without_build_id, dir.path().join("x.dwo")).expect("copied");
        std::fs::write(dir.path().join("text"), "no ELF").expect("written");
        run(dir.path(), "mkfifo", &["fifo"]);
        let symbols = Symbols::below(vec![dir.path().to_owned()]);
        let build_id = identity(&fixture.with_symbols).build_id;
        assert_eq!(symbols.of_build_id(&build_id), [deep.join("anything")]);
        assert_eq!(symbols.of_name("x.dwo".as_ref()), [dir.path().join("x.dwo")]);
        assert!(symbols.of_build_id(&[]).is_empty() && symbols.of_name("text".as_ref()).is_empty());
        assert!(!symbols.is_cut());
    }

    #[test]
    fn loops_of_links_end_and_deep_folders_are_cut() {
        let fixture = Fixture::shared();
        let dir = tempfile::tempdir().expect("a directory");
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).expect("made");
        symlink(dir.path(), inner.join("up")).expect("linked");
        symlink(&inner, inner.join("self")).expect("linked");
        symlink(&fixture.with_symbols, inner.join("file")).expect("linked");
        let build_id = identity(&fixture.with_symbols).build_id;
        let symbols = Symbols::below(vec![dir.path().to_owned()]);
        assert_eq!(symbols.of_build_id(&build_id).len(), 1, "no folder is entered twice");
        assert!(!symbols.is_cut());

        let deep = tempfile::tempdir().expect("a directory");
        let bottom = (0..MAX_DEPTH + 2).fold(deep.path().to_owned(), |dir, _| dir.join("d"));
        std::fs::create_dir_all(&bottom).expect("made");
        std::fs::copy(&fixture.with_symbols, bottom.join("file")).expect("copied");
        let symbols = Symbols::below(vec![deep.path().to_owned()]);
        assert!(symbols.of_build_id(&build_id).is_empty() && symbols.is_cut());
    }
}
