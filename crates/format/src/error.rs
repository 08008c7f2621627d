//! What can be wrong with a recording. Every error says what is wrong, and where.

use crate::kind::Kind;

/// A broken file, or a file that this version must not interpret.
///
/// A *missing* thing (a torn last block, an unknown kind) is not an error; the reader counts it as
/// [`crate::read::Damage`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file does not begin with the magic number.
    #[error("not an icecore recording: the first bytes are {found:02x?}")]
    NotARecording {
        /// The first bytes of the file, at most eight.
        found: Vec<u8>,
    },
    /// The file is shorter than its header.
    #[error(
        "the file has {len} bytes, shorter than the header of {} bytes: the recorder was stopped before it wrote anything",
        crate::limits::HEADER_LEN
    )]
    NoHeader {
        /// Length of the file in bytes.
        len: u64,
    },
    /// The envelope has a version that this build does not know.
    #[error(
        "envelope version {found} at byte 8: this build reads version {}; a newer icecore-report is needed",
        crate::limits::ENVELOPE_VERSION
    )]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// The file uses features without which it would be misread.
    #[error(
        "the file needs features {bits:#018x} (bits {}, at byte 16) that this build does not have; a newer icecore-report is needed",
        numbers(*bits)
    )]
    Features {
        /// The unknown bits.
        bits: u64,
    },
    /// Stored checksum and computed checksum differ.
    #[error("checksum of the {what} at byte {off} is {found:#010x}, computed {computed:#010x}")]
    Checksum {
        /// Which part of the file.
        what: &'static str,
        /// Where the part begins, bytes from the start of the file.
        off: u64,
        /// The stored checksum.
        found: u32,
        /// The checksum of the bytes as they are.
        computed: u32,
    },
    /// A field has a value that cannot be.
    #[error("{what} at byte {off}: {cause}")]
    Malformed {
        /// Which part of the file.
        what: &'static str,
        /// Where the part begins, bytes from the start of the file.
        off: u64,
        /// What is wrong with it.
        cause: String,
    },
    /// A payload does not hold what its header says.
    #[error("{} payload: {cause}", kind.name())]
    Payload {
        /// The block kind.
        kind: Kind,
        /// What is wrong with it.
        cause: String,
    },
    /// A record to be written is larger than a reader would accept.
    #[error("cannot write a block of {len} bytes ({}): the limit is {limit}", kind.name())]
    TooLarge {
        /// The block kind.
        kind: Kind,
        /// Its length in bytes.
        len: u64,
        /// The limit in bytes.
        limit: u64,
    },
}

/// Lists the numbers of the set bits.
fn numbers(bits: u64) -> String {
    let set: Vec<String> =
        (0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit: u32| bit.to_string()).collect();
    set.join(", ")
}
