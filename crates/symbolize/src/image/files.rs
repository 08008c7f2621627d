//! The files of an image that were found, and how much each of them can name.

use super::pointers::Altlink;
use super::{Attempt, ElfFile, FileOff, FileSource, Layout, Stamp};
use crate::Reason;

/// The files of an image that were found.
#[derive(Debug)]
pub struct Files {
    /// The image itself, or a debug file that shows where the image's code is: file offsets are those of this file.
    pub image: FoundFile,
    /// Another file of the same build, with DWARF or at least a symbol table that the image lacks.
    pub debug: Option<FoundFile>,
    /// The supplement to which dwz moved DWARF of several files.
    pub(crate) alt: Option<FoundFile>,
    /// The symbol table that was packed into the image, if no file has another.
    pub mini: Option<(ElfFile, Layout)>,
    /// The package of split DWARF.
    pub(crate) dwp: Option<(ElfFile, Layout)>,
    /// The GSYM that was made from the DWARF, if no file has DWARF.
    pub(crate) gsym: Option<Gsym>,
}

/// The GSYM of an image.
#[derive(Debug)]
pub(crate) enum Gsym {
    /// A section of the image: its offset and length.
    Section(FileOff, u64),
    /// A file of its own, which is not ELF.
    Alone(ElfFile),
}

/// A file, and its source.
#[derive(Debug)]
pub struct FoundFile {
    /// The file.
    pub file: ElfFile,
    /// Its headers.
    pub layout: Layout,
    /// Its source.
    pub source: FileSource,
}

/// How much of its code a file can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knowledge {
    /// At most the exported functions.
    Exports,
    /// The functions of a symbol table.
    Symbols,
    /// Lines and inlined functions, too: the file has DWARF, or GSYM that was made from it.
    Dwarf,
}

impl FoundFile {
    /// Returns this file as the only one of its image.
    pub fn alone(self) -> Files {
        Files { image: self, debug: None, alt: None, mini: None, dwp: None, gsym: None }
    }

    /// Returns how much of the code this file can name.
    pub fn knowledge(&self) -> Knowledge {
        match (self.layout.has_dwarf(), self.layout.has(".symtab")) {
            (true, _) => Knowledge::Dwarf,
            (false, true) => Knowledge::Symbols,
            (false, false) => Knowledge::Exports,
        }
    }
}

impl Files {
    /// Returns the file with DWARF.
    pub(crate) fn dwarf(&self) -> Option<&FoundFile> {
        [Some(&self.image), self.debug.as_ref()]
            .into_iter()
            .flatten()
            .find(|found| found.knowledge() == Knowledge::Dwarf)
    }

    /// Returns the identity of all files: as long as it stays the same, their answers do. `None` if a recording has brought one of them.
    pub(crate) fn stamps(&self) -> Option<Vec<Stamp>> {
        let found = [Some(&self.image), self.debug.as_ref(), self.alt.as_ref()];
        let files = found.into_iter().flatten().map(|found| &found.file);
        let files = files.chain(self.dwp.as_ref().map(|(file, _)| file));
        let alone = match &self.gsym {
            Some(Gsym::Alone(file)) => Some(file),
            _ => None,
        };
        let files = files.chain(alone);
        let stamp = |file: &ElfFile| {
            Some(Stamp {
                path: file.real_path.to_string_lossy().into_owned(),
                len: file.len,
                inode: Some(file.inode?),
                changed_unix_ns: file.changed_unix_ns,
            })
        };
        files.map(stamp).collect()
    }

    /// Returns how much of the code all files together can name.
    pub fn knowledge(&self) -> Knowledge {
        let debug = self.debug.as_ref().map_or(Knowledge::Exports, FoundFile::knowledge);
        let mini = if self.mini.is_some() { Knowledge::Symbols } else { Knowledge::Exports };
        let gsym = if self.gsym.is_some() { Knowledge::Dwarf } else { Knowledge::Exports };
        self.image.knowledge().max(debug).max(mini).max(gsym)
    }

    /// Returns true if nothing but the user's word says that the image is the one that ran.
    pub fn is_trusted(&self) -> bool {
        self.image.source == FileSource::Trusted
    }

    /// Returns the source of the file that names most: the one with DWARF, otherwise with a symbol table, otherwise the image. What
    /// was found by means of a trusted image is trusted, too.
    pub fn source(&self) -> FileSource {
        if self.is_trusted() {
            return FileSource::Trusted;
        }
        self.debug.as_ref().unwrap_or(&self.image).source
    }
}

/// The result of a search.
#[derive(Debug)]
pub struct Looked {
    /// The files, or why the frames of the image stay unnamed.
    pub files: Result<Files, Reason>,
    /// Every path that was tried, in order.
    pub attempts: Vec<Attempt>,
    /// The supplement of dwz that was not found.
    pub(crate) missing_alt: Option<Altlink>,
}

/// The files that a search found, and the state of each. As long as it stays the same, the files say the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundState {
    /// One line for each file: its role and source, device and inode, length, times, path. Or why there is none.
    pub text: String,
    /// When the file that changed last did so, ns since 1970-01-01 UTC; 0 without a file on a file system.
    pub changed_unix_ns: u64,
}

impl Looked {
    /// Describes the files that were found.
    pub fn state(&self) -> FoundState {
        let files = match &self.files {
            Ok(files) => files,
            Err(reason) => return FoundState { text: format!("{reason:?}"), changed_unix_ns: 0 },
        };
        let own = |found: &FoundFile| Some(found.source);
        let alone = match &files.gsym {
            Some(Gsym::Alone(file)) => Some(file),
            _ => None,
        };
        let roles = [
            ("image", Some((&files.image.file, own(&files.image)))),
            ("debug", files.debug.as_ref().map(|found| (&found.file, own(found)))),
            ("supplement", files.alt.as_ref().map(|found| (&found.file, own(found)))),
            ("package", files.dwp.as_ref().map(|(file, _)| (file, None))),
            ("gsym", alone.map(|file| (file, None))),
        ];
        let mut state = FoundState { text: String::new(), changed_unix_ns: 0 };
        for (role, found) in roles {
            let Some((file, source)) = found else { continue };
            let source = source.map_or("", FileSource::code);
            let ElfFile { len, modified_unix_ns, real_path, inode, changed_unix_ns, .. } = file;
            let (device, number) = inode.map_or((0, 0), |inode| (inode.device, inode.number));
            state.changed_unix_ns = state.changed_unix_ns.max(*changed_unix_ns);
            let numbers = [device, number, *len, *modified_unix_ns, *changed_unix_ns];
            // A debug format of paths is exact, also if they are no text.
            state.text += &format!("{role} {source} {numbers:?} {real_path:?}\n");
        }
        state
    }
}
