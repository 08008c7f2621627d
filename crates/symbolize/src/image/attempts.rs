//! The paths that were tried for the files of an image, and the outcome of each.

use std::fmt;
use std::path::PathBuf;

use super::{ElfFile, Identity};
use crate::Reason;

/// The place where a file was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileSource {
    /// The recording itself.
    Embedded,
    /// A folder of `--symbols`, by build-id.
    Symbols,
    /// A `.build-id` folder, the image's own path in a debug directory, or `.debug` beside the image.
    DebugDir,
    /// The name that the image gives its debug file in `.gnu_debuglink`.
    Debuglink,
    /// The recorded path, perhaps mapped.
    Path,
    /// The recorded path below `--sysroot`.
    Sysroot,
    /// The recorded path, and nothing but the user's word (`--trust`) says that the file there ran.
    Trusted,
    /// The downloads from debuginfod servers.
    Debuginfod,
}

impl FileSource {
    /// Returns the name of the source in JSON; these names never change.
    pub fn code(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Symbols => "symbols",
            Self::DebugDir => "debug-dir",
            Self::Debuglink => "debuglink",
            Self::Path => "path",
            Self::Sysroot => "sysroot",
            Self::Trusted => "trusted",
            Self::Debuginfod => "debuginfod",
        }
    }
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The file is used.
    Taken,
    /// The file is the right one, but adds nothing.
    NotNeeded,
    /// The file is the debug file, but only the image, which is missing, shows at which file offsets the code is.
    NoOffsets,
    /// No file is there.
    Absent,
    /// What is there is no regular file.
    NotAFile,
    /// The file cannot be read, is broken, or is not ELF.
    Unreadable,
    /// The file may not be opened.
    Denied,
    /// The file system of the file did not answer in time.
    NoAnswer,
    /// The file has another build-id, or none.
    OtherBuild,
    /// There is no build-id, and size or modification time differ.
    Changed,
    /// There is no build-id, and another file, of the same size and time, lies there than was recorded: another inode.
    Unproven,
    /// The recording has neither build-id nor size: nothing tells whether this file ran.
    Unknown,
    /// The file does not have the checksum that `.gnu_debuglink` states.
    OtherChecksum,
    /// The debuginfod servers have said, not long ago, that they do not have the file.
    NotServed,
}

impl Outcome {
    /// Returns the name of the outcome in JSON; these names never change.
    pub fn code(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::NotNeeded => "not_needed",
            Self::NoOffsets => "no_offsets",
            Self::Absent => "absent",
            Self::NotAFile => "not_a_file",
            Self::Unreadable => "unreadable",
            Self::Denied => "denied",
            Self::NoAnswer => "no_answer",
            Self::OtherBuild => "other_build",
            Self::Changed => "changed",
            Self::Unproven => "unproven",
            Self::Unknown => "unknown",
            Self::OtherChecksum => "other_checksum",
            Self::NotServed => "not_served",
        }
    }

    /// Returns why frames stay unnamed if this is the outcome for the recorded path.
    pub(super) fn reason(self) -> Option<Reason> {
        Some(match self {
            Self::Absent => Reason::ImageMissing,
            Self::NotAFile => Reason::NotAFile,
            Self::Unreadable => Reason::ImageUnreadable,
            Self::Denied => Reason::ImageDenied,
            Self::NoAnswer => Reason::NoAnswer,
            Self::OtherBuild => Reason::BuildIdMismatch,
            Self::Changed => Reason::ImageChanged,
            Self::Unproven => Reason::ImageUnproven,
            Self::Unknown => Reason::ImageUnknown,
            Self::Taken | Self::NotNeeded | Self::NoOffsets | Self::OtherChecksum | Self::NotServed => {
                return None;
            }
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taken => "used",
            Self::NotNeeded => "the right one, but it has nothing more",
            Self::NoOffsets => {
                "a debug file that does not say where the code was: the image itself is needed"
            }
            Self::Absent => "not there",
            Self::NotAFile => "no regular file",
            Self::Unreadable => "cannot be read as ELF",
            Self::Denied => "permission denied",
            Self::NoAnswer => "no answer in time",
            Self::OtherBuild => "another build",
            Self::Changed => "changed since the recording",
            Self::Unproven => {
                "another file of the same size and time: nothing proves that it is the one that ran"
            }
            Self::Unknown => "nobody knows whether it is the one that ran",
            Self::OtherChecksum => "another checksum than the image says",
            Self::NotServed => "no server had it",
        })
    }
}

impl From<Reason> for Outcome {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::ImageMissing => Self::Absent,
            Reason::NotAFile => Self::NotAFile,
            Reason::ImageDenied => Self::Denied,
            Reason::NoAnswer => Self::NoAnswer,
            _ => Self::Unreadable,
        }
    }
}

/// One path that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The place of the path.
    pub source: FileSource,
    /// The path on this machine.
    pub path: PathBuf,
    /// The outcome.
    pub outcome: Outcome,
    /// What the file was, if nothing proves that it ran.
    pub evidence: Option<Evidence>,
}

impl Attempt {
    pub(super) fn new(source: FileSource, path: PathBuf, outcome: Outcome) -> Self {
        Self { source, path, outcome, evidence: None }
    }
}

/// What speaks for and against a file of which nothing proves that it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// Its inode has the recorded number. Devices are not compared: the kernel and stat(2) number those of overlayfs and btrfs
    /// differently. `None` if no inode was recorded.
    pub is_same_inode: Option<bool>,
    /// Its length, bytes.
    pub len: u64,
    /// When it was last written, ns since 1970-01-01 UTC.
    pub modified_unix_ns: u64,
    /// When it, its names or its permissions were last changed, ns since 1970-01-01 UTC.
    pub changed_unix_ns: u64,
}

impl Evidence {
    pub(super) fn of(file: &ElfFile, wanted: &Identity) -> Self {
        let number = |identity: &Identity| Some(identity.inode?.number);
        Self {
            is_same_inode: number(wanted)
                .map(|number| file.inode.is_some_and(|inode| inode.number == number)),
            len: file.len,
            modified_unix_ns: file.modified_unix_ns,
            changed_unix_ns: file.changed_unix_ns,
        }
    }
}
