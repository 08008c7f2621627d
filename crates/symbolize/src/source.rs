//! Finds the texts of source files. A file on this machine is not proven to be what was compiled, unless the debug information has
//! its MD5.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use md5::Digest as _;

use crate::Reason;
use crate::image::{ElfFile, FileOff, Search};

/// The longest source file that is read, bytes.
pub const MAX_SOURCE_BYTES: u64 = 16 << 20;

/// An MD5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Md5(pub [u8; 16]);

impl Md5 {
    /// Computes the MD5 of a text.
    pub fn of(text: &[u8]) -> Self {
        Self(md5::Md5::digest(text).into())
    }
}

/// What line tables say of one source file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checksums {
    /// The MD5s that the units have for it: several if they were compiled from several versions.
    known: BTreeSet<Md5>,
    /// A unit names the file without an MD5.
    has_none: bool,
}

impl Checksums {
    /// Adds what one unit says.
    pub(crate) fn note(&mut self, md5: Option<Md5>) {
        match md5 {
            Some(md5) => drop(self.known.insert(md5)),
            None => self.has_none = true,
        }
    }

    /// Compares a text with what was compiled; `None` if it is another text.
    pub fn judge(&self, text: &[u8]) -> Option<Proof> {
        let is_known = self.known.is_empty() || self.known.contains(&Md5::of(text));
        let is_proven = self.known.len() == 1 && !self.has_none;
        is_known.then_some(if is_proven { Proof::Md5 } else { Proof::Unchecked })
    }
}

/// How far a text is proven to be what was compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proof {
    /// Nothing proves it: the debug information has no MD5, or those of several versions.
    Unchecked,
    /// It has the MD5 that the debug information states.
    Md5,
}

impl Proof {
    /// Returns the name in JSON; these names never change.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unchecked => "unchecked",
            Self::Md5 => "md5",
        }
    }
}

/// The text of a source file on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    /// The bytes of the file.
    pub text: Vec<u8>,
    /// Its path on this machine.
    pub path: PathBuf,
    /// Its path with symbolic links resolved.
    pub real_path: PathBuf,
    /// Whether it is what was compiled.
    pub proof: Proof,
    /// Last modification, ns since 1970-01-01 UTC; 0 if unknown.
    pub modified_unix_ns: u64,
}

/// Why there is no text of a source file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoSource {
    /// There is no such file.
    Missing,
    /// The file here is another version than what was compiled.
    Differs(PathBuf),
    /// The file is longer than [`MAX_SOURCE_BYTES`].
    TooLong(PathBuf),
    /// The file is no regular file, cannot be read, or has a NUL byte.
    NotText(PathBuf),
}

impl NoSource {
    /// Returns the name in JSON; these names never change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Differs(_) => "differs",
            Self::TooLong(_) => "too_long",
            Self::NotText(_) => "not_text",
        }
    }
}

impl fmt::Display for NoSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("not found here"),
            Self::Differs(path) => {
                write!(f, "`{}` is another version than was compiled: its MD5 differs", path.display())
            }
            Self::TooLong(path) => {
                write!(f, "`{}` is longer than {} MiB", path.display(), MAX_SOURCE_BYTES >> 20)
            }
            Self::NotText(path) => write!(f, "`{}` is no readable text", path.display()),
        }
    }
}

/// Finds the text of a source file, given its path as the compiler wrote it: below the folders `dirs`, with ever fewer of its
/// leading folders, then at the path itself as [`Search`] maps it. A file with the right MD5 wins over all others; a file with a wrong
/// one is never taken.
///
/// # Errors  why there is no text: of the file that came closest
/// # Cost    opens a file for each folder and each part of the path; reads those that exist
pub fn find(
    path: &str,
    checksums: &Checksums,
    dirs: &[PathBuf],
    search: &Search,
) -> Result<SourceText, NoSource> {
    let mut why = NoSource::Missing;
    let own = Path::new(path);
    let below = dirs.iter().flat_map(|dir| suffixes(own).into_iter().map(move |suffix| dir.join(suffix)));
    let below = below.map(|path| (ElfFile::open(&path), path));
    let as_compiled = std::iter::once_with(|| {
        let (_, spot) = search.spot(own);
        (search.open(&spot), spot.shown())
    });
    for (file, path) in below.chain(as_compiled) {
        match read(file, path, checksums) {
            Ok(found) => return Ok(found),
            Err(new) => why = why.max(new),
        }
    }
    Err(why)
}

fn read(file: Result<ElfFile, Reason>, path: PathBuf, checksums: &Checksums) -> Result<SourceText, NoSource> {
    let file = match file {
        Ok(file) => file,
        Err(Reason::ImageMissing) => return Err(NoSource::Missing),
        Err(_) => return Err(NoSource::NotText(path)),
    };
    if file.len > MAX_SOURCE_BYTES {
        return Err(NoSource::TooLong(path));
    }
    let text = file.bytes(FileOff(0), file.len).filter(|text| !text.contains(&0));
    let Some(text) = text else { return Err(NoSource::NotText(path)) };
    match checksums.judge(&text) {
        Some(proof) => {
            let ElfFile { real_path, modified_unix_ns, .. } = file;
            Ok(SourceText { text, path, real_path, proof, modified_unix_ns })
        }
        None => Err(NoSource::Differs(path)),
    }
}

/// Lists the path without its root, then without its first folder, and so on; no `..` is left.
fn suffixes(path: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::ParentDir => drop(parts.pop()),
            _ => {}
        }
    }
    (0..parts.len()).map(|skipped| parts[skipped..].iter().collect()).collect()
}

#[cfg(test)]
mod tests;
