//! Finds out which file a mapping belongs to: its build-id, device, inode and size.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use icecore_elf::Avma;
use icecore_format::records::{Image, ImageKind};
use object::read::ReadCache;
use rustc_hash::FxHashMap;

use super::build_id;
use crate::foreign::{Door, ForeignFile, Mapped, Meta};
use crate::kernel::wire::{Inode, NewMapping};
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
#[derive(Debug)]
pub(crate) struct Identities {
    door: Arc<Door>,
    seen: FxHashMap<(u64, u64, Vec<u8>), Identity>,
}

/// Where a process has a file mapped, which leads to the file while the process lives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MapFile {
    pub(crate) tgid: u32,
    pub(crate) start: Avma,
    pub(crate) end: Avma,
}

impl Identities {
    pub(crate) fn new(door: Arc<Door>) -> Self {
        Self { door, seen: FxHashMap::default() }
    }

    /// Returns the identity of a mapping that the kernel reported.
    pub(crate) fn of_report(&mut self, mapping: &NewMapping<'_>) -> Identity {
        let NewMapping { tgid, start, len, file: Inode { major, minor, inode }, path, .. } = *mapping;
        let place = MapFile { tgid, start, end: Avma(start.0.saturating_add(len)) };
        self.of_inode(place, path, libc::makedev(major, minor), inode)
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
        let nothing = Identity { dev, inode, ..without_file(path) };
        let found = place.found(&self.door, &nothing);
        // A file that was overwritten in place counts as another file.
        let is_same = |known: &&Identity| found.as_ref().is_none_or(|found| known.is_as(found.meta()));
        if let Some(known) = self.seen.get(&key).filter(is_same) {
            return known.clone();
        }
        if self.seen.len() >= REMEMBERED {
            self.seen.clear();
        }
        let identity = found.map_or(nothing, |found| read(path, &found, &self.door));
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

    /// Returns true if the file was read, so that more than its inode is known.
    fn is_read(&self) -> bool {
        self.modified_unix_ns != 0
    }

    /// Returns true if a file is the one that was mapped and has not been overwritten. A build-id alone proves nothing: anybody can write a file
    /// with the build-id of another one.
    pub(crate) fn is_of(&self, file: &ForeignFile, door: &Door) -> bool {
        let Ok(meta) = file.meta_now(door) else { return false };
        let is_inode = self.inode != 0 && (meta.dev, meta.inode) == (self.dev, self.inode);
        let build_id = || build_id::of_elf(&ReadCache::new(file.read_to(meta.size_bytes, door)));
        is_inode
            && (!self.is_read() || self.is_as(&meta))
            && (self.build_id.is_empty() || build_id().as_ref() == Some(&self.build_id))
    }

    /// Returns true if a file with the same inode has size and time from here.
    fn is_as(&self, meta: &Meta) -> bool {
        (meta.size_bytes, meta.modified_unix_ns) == (self.size_bytes, self.modified_unix_ns)
    }
}

impl MapFile {
    /// The location of a file whose processes may have ended: only its path leads to it.
    pub(crate) const NOWHERE: Self = Self { tgid: u32::MAX, start: Avma(0), end: Avma(0) };

    /// Opens the file if it is still the one that was mapped.
    pub(crate) fn open(self, identity: &Identity, door: &Door) -> Option<ForeignFile> {
        self.found(door, identity).filter(|file| identity.is_of(file, door))
    }

    /// Returns true if the process has the file mapped there.
    pub(crate) fn is_mapped(self, identity: &Identity, door: &Door) -> bool {
        let is_it =
            |found: ForeignFile| (found.meta().dev, found.meta().inode) == (identity.dev, identity.inode);
        self.linked(identity, door).is_ok_and(is_it)
    }

    /// Returns true if the file is there, and the kernel does not let the recorder open it.
    pub(crate) fn is_denied(self, identity: &Identity, door: &Door) -> bool {
        let is_denied = |error: std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
        let read = |file: ForeignFile| file.read(door).read(&mut [0]).map(drop);
        self.linked(identity, door).and_then(read).is_err_and(is_denied)
            || self.on_path(identity, door).is_some_and(|file| read(file).is_err_and(is_denied))
    }

    /// Finds the file, whatever was done to it since it was mapped.
    fn found(self, door: &Door, identity: &Identity) -> Option<ForeignFile> {
        self.linked(identity, door).ok().or_else(|| self.on_path(identity, door))
    }

    /// Finds the file by the kernel's own link to it. The process may have mapped another file there meanwhile.
    fn linked(self, identity: &Identity, door: &Door) -> std::io::Result<ForeignFile> {
        if self.tgid == Self::NOWHERE.tgid {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        let Self { tgid, start: Avma(start), end: Avma(end) } = self;
        let found = door.mapped(Mapped { tgid, start, end, dev: identity.dev })?;
        let Meta { dev, inode, .. } = *found.meta();
        // Some file systems show another device, and another inode, in stat than in the mapping (btrfs, overlayfs).
        let is_it =
            inode == identity.inode || dev != identity.dev && found.path().as_ref() == Some(&identity.path);
        if is_it { Ok(found) } else { Err(std::io::ErrorKind::NotFound.into()) }
    }

    /// Finds the file by its path: as the process sees it, or as the recorder does. The kernel writes paths without links. No path is followed to a
    /// file of a device that has not answered.
    fn on_path(self, identity: &Identity, door: &Door) -> Option<ForeignFile> {
        let below = |root: &Path| door.below(root, &identity.path, false).ok();
        if !identity.path.starts_with(b"/") || door.is_silent(identity.dev) {
            return None;
        }
        // Some file systems show another device in stat than in the mapping (btrfs, overlayfs).
        let of_process = || {
            let root = (self.tgid != Self::NOWHERE.tgid).then(|| scan::folder(self.tgid).join("root"))?;
            below(&root).filter(|found| found.meta().inode == identity.inode)
        };
        let own = || {
            below(&PathBuf::from("/"))
                .filter(|found| (found.meta().inode, found.meta().dev) == (identity.inode, identity.dev))
        };
        of_process().or_else(own)
    }
}

/// Reads the identity from the file itself.
fn read(path: &[u8], file: &ForeignFile, door: &Door) -> Identity {
    let Meta { dev, inode, size_bytes, modified_unix_ns, .. } = *file.meta();
    let nothing = without_file(path);
    let mut magic = [0; 4];
    let is_elf = file.read(door).read_exact(&mut magic).is_ok() && magic == object::elf::ELFMAG;
    Identity {
        kind: if is_elf { kind_of_path(path) } else { nothing.kind },
        build_id: build_id::of_elf(&ReadCache::new(file.read(door))).unwrap_or_default(),
        dev,
        inode,
        size_bytes,
        modified_unix_ns,
        ..nothing
    }
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn build_id_of(path: &Path) -> Option<Vec<u8>> {
        build_id::of_elf(&ReadCache::new(std::fs::File::open(path).expect("it is there")))
    }

    fn own_mapping() -> (Vec<u8>, u32) {
        let maps = std::fs::read("/proc/self/maps").expect("we are running");
        (maps, std::process::id())
    }

    #[test]
    fn a_mapped_program_is_identified_as_the_file_that_it_is() {
        let (maps, tgid) = own_mapping();
        let line = crate::proc::maps::executable(&maps).find(|line| line.inode != 0).expect("a program");
        let identity = Identities::new(Door::of_test()).of_maps_line(tgid, &line);
        let exe = std::fs::metadata("/proc/self/exe").expect("our program");
        assert_eq!(
            (identity.kind, identity.inode, identity.size_bytes),
            (ImageKind::FILE, exe.ino(), exe.size())
        );
        assert_eq!(Some(identity.build_id), build_id_of(Path::new("/proc/self/exe")));
    }

    #[test]
    fn another_file_under_the_same_path_is_not_believed() {
        let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        let path = file.path().as_os_str().as_bytes();
        let mut identities = Identities::new(Door::of_test());
        let mut read = |dev, inode| identities.of_inode(MapFile::NOWHERE, path, dev, inode);
        assert_eq!(read(1, 5), Identity { dev: 1, inode: 5, ..without_file(path) });
        let meta = file.as_file().metadata().expect("just made");
        assert!(read(meta.dev(), meta.ino()).is_read());
        assert!(!read(meta.dev() + 1, meta.ino()).is_read());
    }

    #[test]
    fn a_file_that_took_the_place_of_the_mapped_one_is_not_believed() {
        let (maps, tgid) = own_mapping();
        let line = crate::proc::maps::executable(&maps).find(|line| line.inode != 0).expect("a program");
        let place = MapFile { tgid, start: Avma(line.start), end: Avma(line.end) };
        let dev = libc::makedev(line.major, line.minor);
        let mut identities = Identities::new(Door::of_test());
        let mut is_read = |path: &[u8], dev, inode| identities.of_inode(place, path, dev, inode).is_read();
        assert!(is_read(&line.path, dev, line.inode));
        assert!(!is_read(&line.path, dev, line.inode + 1), "another file of the same path");
        assert!(!is_read(b"/another", dev + 1, line.inode + 1));
        assert!(is_read(&line.path, dev + 1, line.inode + 1), "a file system that shows other numbers");
    }

    #[test]
    fn a_file_that_was_overwritten_in_its_place_is_another_one() {
        let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        std::fs::write(file.path(), "one").expect("writable");
        let path = file.path().as_os_str().as_bytes();
        let meta = file.as_file().metadata().expect("just made");
        let door = Door::of_test();
        let mut identities = Identities::new(Arc::clone(&door));
        let mut identity = || identities.of_inode(MapFile::NOWHERE, path, meta.dev(), meta.ino());
        let first = identity();
        let held = MapFile::NOWHERE.open(&first, &door).expect("it is there");
        assert!(identity() == first && first.is_of(&held, &door));
        std::fs::write(file.path(), "another").expect("writable");
        assert!(!first.is_of(&held, &door) && MapFile::NOWHERE.open(&first, &door).is_none());
        let second = identity();
        assert!(second != first && second.is_of(&held, &door));
        // The same with a build-id: the recorder's own program has one. A copy of it has the same one, and is another file.
        let program = std::fs::read("/proc/self/exe").expect("our program");
        std::fs::write(file.path(), &program).expect("writable");
        let with_id = identity();
        assert_eq!(Some(&with_id.build_id), build_id_of(file.path()).as_ref());
        assert!(with_id.is_of(&held, &door));
        let other = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        std::fs::write(other.path(), &program).expect("writable");
        let copy =
            door.below(Path::new("/"), other.path().as_os_str().as_bytes(), true).expect("it is there");
        assert!(!with_id.is_of(&copy, &door));
        // Whoever writes it anew may set its time, and nothing else is left but the build-id.
        let modified = file.as_file().metadata().and_then(|meta| meta.modified()).expect("just made");
        std::fs::write(file.path(), vec![0; program.len()]).expect("writable");
        file.as_file().set_modified(modified).expect("ours");
        assert!(!with_id.is_of(&held, &door));
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
