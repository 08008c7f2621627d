//! Finds out which file a mapping belongs to: its build-id, device, inode and size.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use icecore_elf::Avma;
use icecore_format::records::{Image, ImageKind};
use object::read::ReadCache;
use rustc_hash::FxHashMap;

use super::build_id;
use crate::kernel::wire::{FileRef, NewMapping};
use crate::proc::maps::MapsLine;
use crate::proc::scan;

/// The number of identities that are remembered before all are forgotten.
const REMEMBERED: usize = 16 << 10;

/// The identity of a mapped file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) kind: ImageKind,
    pub(crate) path: Vec<u8>,
    pub(crate) build_id: Vec<u8>,
    pub(crate) dev: u64,
    pub(crate) inode: u64,
    pub(crate) size_bytes: u64,
    pub(crate) modified_unix_ns: u64,
}

/// Finds identities, and reads each file once.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    seen: FxHashMap<(u64, u64, Vec<u8>), Identity>,
}

/// Where a process has a file mapped, which leads to the file while the process lives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MapFile {
    pub(crate) tgid: u32,
    pub(crate) start: Avma,
    pub(crate) end: Avma,
}

/// How certain it is that a path leads to the mapped file.
#[derive(Debug, Clone, Copy)]
enum Certainty {
    /// The kernel's own link to it.
    Certain,
    /// The path as the process sees it.
    SameNamespace,
    /// The path as the recorder sees it.
    OwnNamespace,
}

impl Identities {
    /// Returns the identity of a mapping that the kernel reported.
    pub(crate) fn of_report(&mut self, mapping: &NewMapping<'_>) -> Identity {
        let NewMapping { tgid, start, len, file, path, .. } = *mapping;
        match file {
            // A build-id is enough, also if the process has ended or the file was deleted.
            FileRef::BuildId(build_id) => {
                Identity { kind: kind_of_path(path), build_id: build_id.to_vec(), ..without_file(path) }
            }
            FileRef::Inode { major, minor, inode } => {
                let place = MapFile { tgid, start, end: Avma(start.0.saturating_add(len)) };
                self.of_inode(place, path, libc::makedev(major, minor), inode)
            }
        }
    }

    /// Returns the identity of a mapping that existed before the recording, from a line of `/proc/PID/maps`.
    pub(crate) fn of_maps_line(&mut self, tgid: u32, line: &MapsLine<'_>) -> Identity {
        let place = MapFile { tgid, start: Avma(line.start), end: Avma(line.end) };
        self.of_inode(place, &line.path, libc::makedev(line.major, line.minor), line.inode)
    }

    fn of_inode(&mut self, place: MapFile, path: &[u8], dev: u64, inode: u64) -> Identity {
        if inode == 0 {
            return without_file(path);
        }
        let key = (dev, inode, path.to_vec());
        // A file that was overwritten in place counts as another file.
        if let Some(known) = self.seen.get(&key).filter(|known| !place.was_rewritten(path, known)) {
            return known.clone();
        }
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        let identity = place.read(path, dev, inode);
        self.seen.insert(key, identity.clone());
        identity
    }
}

impl Identity {
    /// Returns the row of the image, without the id of its path.
    pub(crate) fn image(&self) -> Image {
        Image {
            kind: self.kind,
            path: 0,
            build_id: self.build_id.clone(),
            dev: self.dev,
            inode: self.inode,
            size_bytes: self.size_bytes,
            modified_unix_ns: self.modified_unix_ns,
        }
    }

    /// Returns true if an open file is the one that was mapped and has not been overwritten. Compares build-ids if there is one, else inode,
    /// size and modification time.
    pub(crate) fn is_of(&self, file: &File) -> bool {
        if !self.build_id.is_empty() {
            return build_id::of_elf(&ReadCache::new(file)).as_ref() == Some(&self.build_id);
        }
        let is_it = |meta: Metadata| {
            let is_inode = self.inode != 0 && (meta.dev(), meta.ino()) == (self.dev, self.inode);
            is_inode && (self.modified_unix_ns == 0 || self.has_stamp(&meta))
        };
        file.metadata().is_ok_and(is_it)
    }

    fn has_stamp(&self, meta: &Metadata) -> bool {
        (meta.size(), modified_unix_ns(meta)) == (self.size_bytes, self.modified_unix_ns)
    }
}

fn modified_unix_ns(meta: &Metadata) -> u64 {
    (meta.mtime().max(0) as u64).saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec().max(0) as u64)
}

impl MapFile {
    /// The location of a file whose processes may have ended: only its path leads to it.
    pub(crate) const NOWHERE: Self = Self { tgid: u32::MAX, start: Avma(0), end: Avma(0) };

    /// Opens the file if it is still the one that was mapped.
    pub(crate) fn open(self, identity: &Identity) -> Option<File> {
        let mut files =
            self.candidates(&identity.path).into_iter().filter_map(|(path, _)| open_regular(&path));
        files.find(|file| identity.is_of(file))
    }

    /// Returns true if the file is there, and the kernel does not let the recorder open it.
    pub(crate) fn is_denied(self, identity: &Identity) -> bool {
        let is_denied = |path: &Path| {
            // Opening a pipe or a device can have effects.
            let open = |meta: Metadata| if meta.is_file() { File::open(path).map(drop) } else { Ok(()) };
            let opened = std::fs::metadata(path).and_then(open);
            opened.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
        };
        self.candidates(&identity.path).iter().any(|(path, _)| is_denied(path))
    }

    /// Returns true if the file was overwritten; false also if it cannot be read.
    fn was_rewritten(self, path: &[u8], known: &Identity) -> bool {
        let metas = self.candidates(path).into_iter().filter_map(|(path, _)| std::fs::metadata(path).ok());
        let mut metas = metas.filter(|meta| (meta.dev(), meta.ino()) == (known.dev, known.inode));
        known.modified_unix_ns != 0 && metas.next().is_some_and(|meta| !known.has_stamp(&meta))
    }

    /// Reads the identity from the file itself if a path leads to it for certain; otherwise only path and inode are known.
    fn read(self, path: &[u8], dev: u64, inode: u64) -> Identity {
        let nothing = Identity { dev, inode, ..without_file(path) };
        let found = self.candidates(path).into_iter().find_map(|(file, trust)| {
            // The type is checked before the file is opened: opening a pipe or a device can have effects.
            let meta = std::fs::metadata(&file).ok().filter(Metadata::is_file)?;
            let is_it = match trust {
                Certainty::Certain => true,
                // Some file systems show another device in stat than in the mapping (btrfs, overlayfs).
                Certainty::SameNamespace => meta.ino() == inode,
                Certainty::OwnNamespace => meta.ino() == inode && meta.dev() == dev,
            };
            is_it.then_some((file, meta))
        });
        let Some((file, meta)) = found else { return nothing };
        Identity {
            kind: if is_elf(&file) { kind_of_path(path) } else { nothing.kind },
            build_id: build_id::of_file(&file).unwrap_or_default(),
            dev: meta.dev(),
            inode: meta.ino(),
            size_bytes: meta.size(),
            modified_unix_ns: modified_unix_ns(&meta),
            ..nothing
        }
    }

    /// Paths that may lead to the file.
    fn candidates(self, path: &[u8]) -> [(PathBuf, Certainty); 3] {
        let own = Path::new(std::ffi::OsStr::from_bytes(path));
        let below = own.strip_prefix("/").unwrap_or(own);
        let folder = scan::folder(self.tgid);
        [
            (folder.join(format!("map_files/{:x}-{:x}", self.start.0, self.end.0)), Certainty::Certain),
            (folder.join("root").join(below), Certainty::SameNamespace),
            (own.to_owned(), Certainty::OwnNamespace),
        ]
    }
}

/// Opens a regular file. The type is checked first, since opening a pipe or a device can have effects; and the file is opened without
/// blocking, in case somebody has replaced it by a pipe since.
pub(crate) fn open_regular(path: &Path) -> Option<File> {
    let is_regular = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    let mut options = OpenOptions::new();
    is_regular.then(|| options.read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()).flatten()
}

/// Returns the identity that the path alone gives.
fn without_file(path: &[u8]) -> Identity {
    let kind = if is_memory(path) { ImageKind::ANONYMOUS } else { kind_of_path(path) };
    let path = match path {
        b"" | b"//anon" | b"[heap]" | b"[stack]" => b"[anon]",
        path => path,
    };
    Identity {
        kind,
        path: path.to_vec(),
        build_id: Vec::new(),
        dev: 0,
        inode: 0,
        size_bytes: 0,
        modified_unix_ns: 0,
    }
}

/// Returns the kind of image that a path of a mapping denotes.
fn kind_of_path(path: &[u8]) -> ImageKind {
    match path {
        b"" | b"//anon" | b"[heap]" | b"[stack]" => ImageKind::ANONYMOUS,
        b"[vdso]" => ImageKind::VDSO,
        _ if path.starts_with(b"[anon") => ImageKind::ANONYMOUS,
        _ if path.starts_with(b"/") => ImageKind::FILE,
        _ => ImageKind::SPECIAL,
    }
}

/// Returns true if a path denotes memory rather than a file. Runtimes map such memory twice to write code into it, but a program
/// can lie there as well.
fn is_memory(path: &[u8]) -> bool {
    [&b"/memfd:"[..], b"/dev/zero", b"/anon_hugepage", b"/SYSV"].iter().any(|name| path.starts_with(name))
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = open_regular(path).and_then(|mut file| file.read_exact(&mut magic).ok());
    read.is_some() && magic == object::elf::ELFMAG
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_mapping() -> (Vec<u8>, u32) {
        let process = crate::proc::scan::one(std::process::id()).expect("we are running");
        (process.maps, process.tgid)
    }

    #[test]
    fn a_mapped_program_is_identified_as_the_file_that_it_is() {
        let (maps, tgid) = own_mapping();
        let line = crate::proc::maps::executable(&maps).find(|line| line.inode != 0).expect("a program");
        let identity = Identities::default().of_maps_line(tgid, &line);
        let exe = std::fs::metadata("/proc/self/exe").expect("our program");
        assert_eq!(
            (identity.kind, identity.inode, identity.size_bytes),
            (ImageKind::FILE, exe.ino(), exe.size())
        );
        assert_eq!(Some(identity.build_id), build_id::of_file(Path::new("/proc/self/exe")));
    }

    #[test]
    fn another_file_under_the_same_path_is_not_believed() {
        let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        let path = file.path().as_os_str().as_bytes();
        assert_eq!(MapFile::NOWHERE.read(path, 1, 5), Identity { dev: 1, inode: 5, ..without_file(path) });
        let meta = file.as_file().metadata().expect("just made");
        assert_ne!(MapFile::NOWHERE.read(path, meta.dev(), meta.ino()).modified_unix_ns, 0);
        assert_eq!(MapFile::NOWHERE.read(path, meta.dev() + 1, meta.ino()).modified_unix_ns, 0);
    }

    #[test]
    fn a_file_that_was_overwritten_in_its_place_is_another_one() {
        let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        std::fs::write(file.path(), "one").expect("writable");
        let path = file.path().as_os_str().as_bytes();
        let meta = file.as_file().metadata().expect("just made");
        let mut identities = Identities::default();
        let mut identity = || identities.of_inode(MapFile::NOWHERE, path, meta.dev(), meta.ino());
        let first = identity();
        let held = MapFile::NOWHERE.open(&first).expect("it is there");
        assert!(identity() == first && first.is_of(&held));
        std::fs::write(file.path(), "another").expect("writable");
        assert!(!first.is_of(&held) && MapFile::NOWHERE.open(&first).is_none());
        let second = identity();
        assert!(second != first && second.is_of(&held));
        // The same with a build-id: the recorder's own program has one.
        let program = std::fs::read("/proc/self/exe").expect("our program");
        std::fs::write(file.path(), &program).expect("writable");
        let build_id = build_id::of_file(file.path()).expect("it has one");
        let with_id = Identity { build_id, ..without_file(path) };
        assert!(with_id.is_of(&held));
        std::fs::write(file.path(), "another").expect("writable");
        assert!(!with_id.is_of(&held));
    }

    #[test]
    fn mappings_without_a_file_are_told_apart() {
        assert_eq!(without_file(b"//anon").kind, ImageKind::ANONYMOUS);
        assert_eq!(without_file(b"").path, b"[anon]");
        assert_eq!(without_file(b"[vdso]").kind, ImageKind::VDSO);
        assert_eq!(without_file(b"[uprobes]").kind, ImageKind::SPECIAL);
        assert_eq!(without_file(b"/usr/bin/a").kind, ImageKind::FILE);
        assert_eq!(without_file(b"/memfd:doublemapper (deleted)").kind, ImageKind::ANONYMOUS);
        assert_eq!(without_file(b"/dev/zero (deleted)").kind, ImageKind::ANONYMOUS);
    }
}
