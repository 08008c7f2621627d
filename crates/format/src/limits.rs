//! The largest values that a reader accepts, all in one place.
//!
//! Every length that comes from a file is compared with one of these before anything is allocated.

/// Every header, block and index starts at a multiple of this many bytes, so that payloads can be used in place.
pub const ALIGN: u64 = 8;

/// Length of the file header in bytes.
pub(crate) const HEADER_LEN: usize = 64;
/// The version of the envelope that this build reads.
pub(crate) const ENVELOPE_VERSION: u32 = 1;

/// The largest stored (compressed) payload of one block, in bytes.
pub const MAX_STORED_LEN: u32 = 64 << 20;

/// The largest payload of one block after decompression, in bytes.
pub const MAX_RAW_LEN: u32 = 256 << 20;

/// The largest ratio of raw to stored bytes that a reader accepts for raw lengths over [`RATIO_FREE_LEN`].
///
/// zstd reaches about 30,000 on constant input; real columns stay below 1,000. Together with the file
/// size this bounds the memory that a small hostile file can ask for.
pub const MAX_RATIO: u64 = 4096;

/// Raw lengths up to this many bytes are accepted at any ratio.
pub const RATIO_FREE_LEN: u64 = 1 << 20;

/// The most items per stored byte that a reader accepts for counts over [`FREE_ITEMS`].
///
/// In memory an item takes up to 80 bytes. Real blocks have one or two items for each byte; what a machine that does
/// the same thing all the time compresses better than this is stored raw.
pub const MAX_ITEMS_PER_BYTE: u64 = 32;

/// This many items are accepted in any block.
pub const FREE_ITEMS: u64 = 1024;

/// Returns true if this many stored bytes may hold this many raw bytes and this many items.
pub(crate) fn is_believed(stored: u64, raw: u64, items: u64) -> bool {
    (raw <= RATIO_FREE_LEN || raw <= stored.saturating_mul(MAX_RATIO))
        && (items <= FREE_ITEMS || items <= stored.saturating_mul(MAX_ITEMS_PER_BYTE))
}

/// The most blocks in one file, not counting the index.
pub const MAX_BLOCKS: u32 = 1 << 24;

/// The most frames in one stack, user or kernel.
pub const MAX_FRAMES: u32 = 4096;

/// The largest index, in bytes: a row of 64 for each block. A reader believes no more rows than blocks fit into the
/// file, so an index never asks for more memory than the file is long.
pub const MAX_INDEX_LEN: u32 = MAX_BLOCKS * 64;

/// The longest single string, in bytes (a path is at most 4,096).
pub const MAX_STRING_LEN: u32 = 64 << 10;

/// The most bytes of pieces of files in one block: what a reader that puts a file together holds of it at one time.
pub const MAX_PIECES_LEN: usize = 1 << 20;

/// The longest text of a source file, in bytes.
pub const MAX_SOURCE_LEN: usize = 16 << 20;

/// The longest stretch of code, in bytes.
pub const MAX_CODE_LEN: usize = 1 << 20;

/// The longest span of one block of samples, in nanoseconds: the longest `--flush` and room to spare.
///
/// Times in a block are differences between samples, so no width on disk depends on it; it bounds what the loss of one
/// block can cost.
pub const MAX_BLOCK_SPAN_NS: u64 = 64_000_000_000;

/// The most places of damage that a reader lists one by one; it only counts the others.
pub const MAX_DAMAGE: usize = 100;
