//! The paths that were tried for the files of an image, and the outcome of each.

use std::fmt;
use std::path::PathBuf;

use crate::Reason;

/// Where a file was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileSource {
    /// In the recording itself.
    Embedded,
    /// Below a folder of `--symbols`, by build-id.
    Symbols,
    /// In a `.build-id` folder, or under the image's own path in a debug directory, or in `.debug` beside it.
    DebugDir,
    /// Where the image says that its debug file is, by `.gnu_debuglink`.
    Debuglink,
    /// At the recorded path, perhaps mapped.
    Path,
    /// At the recorded path below `--sysroot`.
    Sysroot,
    /// Among what was downloaded from debuginfod servers.
    Debuginfod,
}

impl FileSource {
    /// Names the source in JSON; these texts never change.
    pub fn code(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Symbols => "symbols",
            Self::DebugDir => "debug-dir",
            Self::Debuglink => "debuglink",
            Self::Path => "path",
            Self::Sysroot => "sysroot",
            Self::Debuginfod => "debuginfod",
        }
    }
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It is used.
    Taken,
    /// It is the right one, and what it has is there already.
    NotNeeded,
    /// It is the debug file, but only the image, which is missing, says at which file offsets the code is.
    NoOffsets,
    /// There is nothing.
    Absent,
    /// Something that is no regular file.
    NotAFile,
    /// It cannot be read, or is broken, or is no ELF file.
    Unreadable,
    /// It has another build-id, or none.
    OtherBuild,
    /// There is no build-id, and size or modification time differ, or were not recorded.
    Changed,
    /// It has not the checksum that `.gnu_debuglink` tells.
    OtherChecksum,
    /// The debuginfod servers said, not long ago, that they do not have it.
    NotServed,
}

impl Outcome {
    /// Names the outcome in JSON; these texts never change.
    pub fn code(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::NotNeeded => "not_needed",
            Self::NoOffsets => "no_offsets",
            Self::Absent => "absent",
            Self::NotAFile => "not_a_file",
            Self::Unreadable => "unreadable",
            Self::OtherBuild => "other_build",
            Self::Changed => "changed",
            Self::OtherChecksum => "other_checksum",
            Self::NotServed => "not_served",
        }
    }

    /// Why frames stay unnamed if this came of the recorded path.
    pub(super) fn reason(self) -> Option<Reason> {
        Some(match self {
            Self::Absent => Reason::ImageMissing,
            Self::NotAFile => Reason::NotAFile,
            Self::Unreadable => Reason::ImageUnreadable,
            Self::OtherBuild => Reason::BuildIdMismatch,
            Self::Changed => Reason::ImageChanged,
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
            Self::OtherBuild => "another build",
            Self::Changed => "changed since the recording",
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
            _ => Self::Unreadable,
        }
    }
}

/// One path that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Where this is.
    pub source: FileSource,
    /// On this machine.
    pub path: PathBuf,
    /// What came of it.
    pub outcome: Outcome,
}
