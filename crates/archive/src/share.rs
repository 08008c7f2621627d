//! Names that recordings share.
//!
//! ```text
//! names/BUILDID/LINEAGE-NUMBER.names             what is known of a build: all that the file of the number before has, and more
//!         │ published only if there is none of this number
//!         ▼
//! recordings/…/UUID.nameless                     refers to the lineage ──► UUID.icecore goes
//! ```
//!
//! What two recordings know of a build may differ, because one machine had its debug files and the other had not. Then it lies in several
//! lineages, so that each recording comes back with what it knew. A recording refers to names only after they are stored, and files of a
//! lineage only grow, so the newest one always serves.
//!
//! Names to which no recording refers, and that were stored more than [`GRACE`] ago, go. Whoever is about to refer to names half that old
//! stores them anew first. The id of a lineage is random, because numbers must not begin anew: who read a file that has gone since then
//! stores the next one, and that must not be the next one of somebody else's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use icecore_format::read::Recording;
use icecore_symbolize::image::hex;
use rayon::prelude::*;

use crate::archive::{Archive, GRACE, NAMELESS, TRIES};
use crate::dataset::Error;
use crate::folder::{Folder, Local, Stored};
use crate::id::Id;
use crate::nameless::{Nameless, Reference, References, Stripped, head};
use crate::names::{BuildId, Names, io_error};
use crate::store::no_temporary;

/// The folder of the names.
const NAMES: &str = "names";
/// Recordings whose names are in memory at the same time, and their bytes.
const BATCH: (usize, u64) = (128, 64 << 20);
/// The most lineages of a build, and the most places and functions in one: recordings that know something else stay as they are.
const MOST_LINEAGES: usize = 8;
const MOST_NAMES: usize = 1_000_000;
/// Places and functions that stay in memory for the next recording.
const MOST_KEPT: usize = 500_000;

/// The newest file of a lineage.
#[derive(Debug, Clone)]
struct Newest {
    number: u64,
    file: Stored,
}

fn folder_of(build: &BuildId) -> PathBuf {
    Path::new(NAMES).join(hex(build))
}

fn file_name(build: &BuildId, lineage: Id, number: u64) -> PathBuf {
    folder_of(build).join(format!("{:016x}-{number:08}.names", lineage.get()))
}

/// The lineage and the number of a file.
fn numbers(file: &Stored) -> Option<(Id, u64)> {
    let stem = file.name.file_name()?.to_str()?.strip_suffix(".names")?;
    let (lineage, number) = stem.split_once('-')?;
    let number = number.parse().ok().filter(|it| *it < u64::MAX)?;
    Some((Id::read(i64::from_str_radix(lineage, 16).ok()?), number))
}

/// Names of a build that are being extended.
struct Lineage {
    /// Of the file from which they were read; 0 if there is none.
    number: u64,
    /// `None`: the file is damaged.
    names: Option<Names>,
    /// They must be stored before a recording refers to them.
    is_new: bool,
}

/// Names of builds that are being extended.
struct Sharing<'a> {
    archive: &'a Archive,
    now: SystemTime,
    of: BTreeMap<BuildId, BTreeMap<Id, Lineage>>,
}

impl Archive {
    /// Returns a file of this machine that is a recording as it was stored, given the name of its file in the archive: that one, or one that is
    /// gone when this is dropped.
    ///
    /// # Errors
    /// If it cannot be read, or its names cannot.
    pub fn local(&self, name: &Path) -> Result<Local, Error> {
        let nameless = name.with_extension(NAMELESS);
        if name != nameless {
            match self.folder().local(name) {
                // Its names may have been taken out of it since it was listed.
                Ok(local) if local.path().exists() => return Ok(local),
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.read_error(name, error));
                }
                _ => {}
            }
        }
        // If it is gone, it is the one that was listed.
        let at = |error: &io::Error| if error.kind() == io::ErrorKind::NotFound { name } else { &nameless };
        self.restored(&nameless).map_err(|source| self.read_error(at(&source), source))
    }

    /// As above, but a file of the archive is returned as it is, whatever is in it: [`with_names`] opens it.
    ///
    /// # Errors
    /// As above.
    pub fn file(&self, name: &Path) -> Result<Local, Error> {
        for name in [name, &name.with_extension(NAMELESS)] {
            match self.folder().local(name) {
                Ok(Local::Itself(path)) if path.exists() => return Ok(Local::Itself(path)),
                _ => {}
            }
        }
        self.local(name)
    }

    fn restored(&self, name: &Path) -> io::Result<Local> {
        let nameless = Nameless::open(self.folder().local(name)?.open()?)?;
        let folder = tempfile::Builder::new().prefix("icecore-").tempdir().map_err(no_temporary)?;
        let path = folder.path().join(name.with_extension("icecore").file_name().unwrap_or_default());
        let mut made = OpenOptions::new();
        made.read(true).write(true).create(true).truncate(true);
        let restore = || {
            let names = self.names_of(&nameless.references)?;
            nameless.restore(&names, &made.open(&path)?)
        };
        if restore().is_err() {
            // A neighbour may have stored more since they were read.
            self.kept.0.lock().unwrap_or_else(|it| it.into_inner()).clear();
            restore()?;
        }
        Ok(Local::Restored(folder, path))
    }

    /// Reads the names to which a recording refers.
    fn names_of(&self, references: &References) -> io::Result<BTreeMap<BuildId, Arc<Names>>> {
        let mut kept = self.kept.0.lock().unwrap_or_else(|it| it.into_inner());
        let mut all = BTreeMap::new();
        for (build, Reference { lineage, .. }) in references {
            let key = (build.clone(), *lineage);
            if !kept.contains_key(&key) {
                if kept.values().map(|names| names.len()).sum::<usize>() > MOST_KEPT {
                    kept.clear();
                }
                let read = self.read_names(build, |of| of == *lineage)?.remove(lineage);
                let (newest, names) = read.ok_or_else(|| {
                    let folder = self.folder().path(&folder_of(build));
                    io::Error::other(format!("its names are not in `{}` any more", folder.display()))
                })?;
                let names = names.map_err(|cause| {
                    let path = self.folder().path(&newest.file.name);
                    io::Error::other(format!("`{}` is damaged: {cause}", path.display()))
                })?;
                kept.insert(key.clone(), names.into());
            }
            all.insert(build.clone(), kept[&key].clone());
        }
        Ok(all)
    }

    /// Lists the newest files of the lineages of a build.
    fn newest_names(&self, build: &BuildId) -> io::Result<BTreeMap<Id, Newest>> {
        let mut newest: BTreeMap<Id, Newest> = BTreeMap::new();
        for file in self.folder().list(&folder_of(build))? {
            let Some((lineage, number)) = numbers(&file) else { continue };
            if newest.get(&lineage).is_none_or(|it| it.number < number) {
                newest.insert(lineage, Newest { number, file });
            }
        }
        Ok(newest)
    }

    /// Reads what lineages of a build have.
    fn read_names(
        &self,
        build: &BuildId,
        is_wanted: impl Fn(Id) -> bool,
    ) -> io::Result<BTreeMap<Id, (Newest, io::Result<Names>)>> {
        let mut read = BTreeMap::new();
        let mut tries = 0;
        let mut newest = self.newest_names(build)?;
        while let Some((lineage, it)) = newest.pop_first() {
            if !is_wanted(lineage) {
                continue;
            }
            match self.folder().read(&it.file.name) {
                Ok(bytes) => drop(read.insert(lineage, (it, Names::read(&bytes)))),
                // A neighbour has stored the next one meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    tries += 1;
                    newest = self.newest_names(build)?;
                    newest.retain(|lineage, _| !read.contains_key(lineage));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    /// Takes names out of recordings that have them still, and stores them once for all; returns how many recordings these were.
    pub(crate) fn share_names(&self, now: SystemTime) -> Result<u64, Error> {
        let mut whole: Vec<Stored> = self.recordings()?.into_values().filter(|it| !is_nameless(it)).collect();
        let mut shared = 0;
        while !whole.is_empty() {
            let mut bytes = 0;
            let fits = |file: &&Stored| {
                bytes += file.bytes;
                bytes <= BATCH.1
            };
            let count = whole.iter().take(BATCH.0).take_while(fits).count().max(1);
            let batch: Vec<Stored> = whole.drain(..count).collect();
            let mut tries = 0;
            shared += loop {
                match self.share_batch(&batch, now)? {
                    Some(shared) => break shared,
                    None if tries < TRIES => tries += 1,
                    None => {
                        return Err(
                            self.read_error(Path::new(NAMES), io::Error::other("it changes all the time"))
                        );
                    }
                }
            };
        }
        Ok(shared)
    }

    /// `None`: a neighbour has stored other names meanwhile.
    fn share_batch(&self, batch: &[Stored], now: SystemTime) -> Result<Option<u64>, Error> {
        let strip =
            |file| Ok((file, self.stripped(file).map_err(|source| self.read_error(&file.name, source))?));
        let stripped: Vec<(&Stored, Option<Stripped>)> =
            batch.par_iter().map(strip).collect::<Result<_, Error>>()?;
        let mut sharing = Sharing { archive: self, now, of: BTreeMap::new() };
        let mut made = Vec::new();
        for (file, stripped) in stripped.iter().filter_map(|(file, it)| Some((file, it.as_ref()?))) {
            let found = |(build, names): (&BuildId, &Arc<Names>)| {
                Ok(sharing.lineage(build, names)?.map(|lineage| (build.clone(), lineage)))
            };
            let lineages = stripped.names.iter().map(found).collect::<io::Result<Option<BTreeMap<_, _>>>>();
            let lineages = lineages.map_err(|source| self.read_error(&file.name, source))?;
            made.extend(lineages.map(|lineages| (file, stripped, lineages)));
        }
        if !sharing.store()? {
            return Ok(None);
        }
        made.par_iter().try_for_each(|(file, stripped, lineages)| {
            let name = file.name.with_extension(NAMELESS);
            let stored = self.folder().publish(&name, false, |to| stripped.write(lineages, to));
            stored.map(drop).map_err(|source| Error::Write { path: self.folder().path(&name), source })
        })?;
        Ok(Some(made.len() as u64))
    }

    /// Takes the names out of a recording, unless it has none or is gone. What is damaged stays as it is: `verify` tells.
    fn stripped(&self, file: &Stored) -> io::Result<Option<Stripped>> {
        let local = match self.folder().local(&file.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            local => local?,
        };
        let strip = |recording: Recording| match recording.damage().is_empty() {
            true => Stripped::new(&recording),
            false => Ok(None),
        };
        match Recording::open(local.path()).map_err(io_error).and_then(strip) {
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound) => {
                Ok(None)
            }
            stripped => stripped,
        }
    }

    /// Removes a recording, with its names and without: a neighbour may take them out of it just now.
    pub(crate) fn remove_recording(&self, stored: &Stored) -> Result<(), Error> {
        self.remove(&stored.name.with_extension(NAMELESS))?;
        self.remove(&stored.name.with_extension("icecore"))
    }

    /// Removes recordings whose names were taken out of them, as far as they are stored without these.
    pub(crate) fn remove_named(&self) -> Result<(), Error> {
        let files = self.recording_files()?;
        let nameless: BTreeSet<&Path> =
            files.iter().filter(|it| is_nameless(it)).map(|it| &*it.name).collect();
        let named = files.iter().filter(|it| !is_nameless(it));
        let named = named.filter(|it| nameless.contains(&*it.name.with_extension(NAMELESS)));
        named.into_iter().try_for_each(|file| self.remove(&file.name))
    }

    /// Removes names that nobody needs; returns the files.
    pub(crate) fn collect_names(&self, now: SystemTime) -> Result<Vec<Stored>, Error> {
        let mut newest: BTreeMap<(PathBuf, Id), (u64, Stored)> = BTreeMap::new();
        let mut unused = Vec::new();
        for file in self.listed_files(Path::new(NAMES))? {
            let Some((lineage, number)) = numbers(&file) else { continue };
            let key = (file.name.parent().unwrap_or(Path::new("")).to_owned(), lineage);
            let mut both = vec![(number, file)];
            both.extend(newest.remove(&key));
            both.sort_by_key(|it| it.0);
            newest.extend(both.pop().map(|it| (key, it)));
            unused.extend(both.into_iter().map(|it| it.1));
        }
        newest.retain(|_, (_, file)| is_older(file, now, GRACE));
        if !newest.is_empty() {
            let used = self.used_names()?;
            newest.retain(|key, _| !used.contains(key));
        }
        unused.extend(newest.into_values().map(|it| it.1));
        unused.iter().try_for_each(|file| self.remove(&file.name))?;
        Ok(unused)
    }

    /// Lists the lineages to which recordings refer.
    fn used_names(&self) -> Result<BTreeSet<(PathBuf, Id)>, Error> {
        let mut used = BTreeSet::new();
        for file in self.recording_files()?.iter().filter(|it| is_nameless(it)) {
            let read = || head(&mut BufReader::new(self.folder().local(&file.name)?.open()?));
            match read() {
                Ok((references, _)) => {
                    used.extend(references.iter().map(|(build, it)| (folder_of(build), it.lineage)))
                }
                // It was pruned meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.read_error(&file.name, error)),
            }
        }
        Ok(used)
    }

    /// Stores names; `None` if there is a file of this name.
    fn store_names(&self, name: &Path, names: &Names) -> Result<Option<()>, Error> {
        let id = Id::of(&[name.as_os_str().as_encoded_bytes()]).bytes();
        let uuid = [id, id].concat().try_into().expect("bug: twice eight bytes");
        let write = |file: &mut File| names.write(file.try_clone()?, uuid).map_err(io_error);
        let stored = self.folder().publish(name, false, write);
        stored.map_err(|source| Error::Write { path: self.folder().path(name), source })
    }
}

/// Returns a recording with its names, given the path of its file in the folder of an archive, and that archive; `None` if it has them, or lies
/// elsewhere.
pub fn with_names(path: &Path, last: &mut Option<Archive>) -> Option<Result<Local, Error>> {
    if path.extension()? != NAMELESS {
        return None;
    }
    // `recordings`, the day, the service, the file.
    let root = path.ancestors().nth(4)?;
    if last.as_ref().is_none_or(|archive| archive.folder().root() != root) {
        *last = Some(Archive::open(Folder::new(root)).ok()?);
    }
    Some(last.as_ref()?.local(path.strip_prefix(root).ok()?))
}

/// Returns true if a recording is stored without the names that it shares.
pub(crate) fn is_nameless(stored: &Stored) -> bool {
    stored.name.extension().is_some_and(|extension| extension == NAMELESS)
}

fn is_older(file: &Stored, now: SystemTime, age: std::time::Duration) -> bool {
    now.duration_since(file.modified).is_ok_and(|it| it > age)
}

impl Sharing<'_> {
    /// Finds the lineage that has these names, or takes them without contradiction; `None` if none does.
    fn lineage(&mut self, build: &BuildId, names: &Names) -> io::Result<Option<Id>> {
        if !self.of.contains_key(build) {
            let lineage = |(newest, names): (Newest, io::Result<Names>)| Lineage {
                number: newest.number,
                names: names.ok(),
                is_new: is_older(&newest.file, self.now, GRACE / 2),
            };
            let read = self.archive.read_names(build, |_| true)?;
            self.of.insert(build.clone(), read.into_iter().map(|(id, it)| (id, lineage(it))).collect());
        }
        let lineages = self.of.get_mut(build).expect("bug: it was inserted");
        for (id, it) in &mut *lineages {
            let there = it.names.as_mut().filter(|there| there.len() + names.len() <= MOST_NAMES);
            if let Some(has_grown) = there.and_then(|there| there.absorb(names)) {
                it.is_new |= has_grown;
                return Ok(Some(*id));
            }
        }
        if lineages.len() >= MOST_LINEAGES || names.len() > MOST_NAMES {
            return Ok(None);
        }
        let id = Id::random()?;
        lineages.insert(id, Lineage { number: 0, names: Some(names.clone()), is_new: true });
        Ok(Some(id))
    }

    /// Stores what is new; false if a neighbour was faster.
    fn store(&self) -> Result<bool, Error> {
        for (build, lineages) in &self.of {
            for (id, it) in lineages.iter().filter(|(_, it)| it.is_new) {
                if !self.store_lineage(build, *id, it)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn store_lineage(&self, build: &BuildId, lineage: Id, it: &Lineage) -> Result<bool, Error> {
        let (archive, number) = (self.archive, it.number + 1);
        let name = file_name(build, lineage, number);
        let Some(names) = &it.names else { return Ok(true) };
        let stored = archive.store_names(&name, names)?;
        // A neighbour may have stored later ones, and removed the one of this number before.
        let files = archive.listed_files(&folder_of(build))?;
        let of_lineage = files.iter().filter_map(|file| Some((numbers(file)?, file)));
        let of_lineage: Vec<(u64, &Stored)> = of_lineage
            .filter(|(numbers, _)| numbers.0 == lineage)
            .map(|(numbers, file)| (numbers.1, file))
            .collect();
        if stored.is_none() || of_lineage.iter().any(|(other, _)| *other > number) {
            return Ok(false);
        }
        let older = of_lineage.into_iter().filter(|(other, _)| *other < number);
        older.into_iter().try_for_each(|(_, file)| archive.remove(&file.name))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
