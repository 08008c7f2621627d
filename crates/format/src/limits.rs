//! The largest values that a reader accepts, all in one place.
//!
//! Every length that comes from a file is compared with one of these before anything is allocated.

/// Every header, block and index starts at a multiple of this many bytes.
pub const ALIGN: u64 = 64;

/// The largest stored (compressed) payload of one block, in bytes.
pub const MAX_STORED_LEN: u32 = 64 << 20;

/// The largest payload of one block after decompression, in bytes.
pub const MAX_RAW_LEN: u32 = 256 << 20;

/// The largest ratio of raw to stored bytes that is believed, beyond [`RATIO_FREE_LEN`].
///
/// zstd reaches about 30,000 on constant input; real columns stay below 1,000. Together with the file
/// size this bounds the memory that a small hostile file can ask for.
pub const MAX_RATIO: u64 = 4096;

/// Raw lengths up to this many bytes are accepted at any ratio.
pub const RATIO_FREE_LEN: u64 = 1 << 20;

/// The most blocks in one file.
pub const MAX_BLOCKS: u32 = 1 << 24;

/// The most frames in one stack, user or kernel.
pub const MAX_FRAMES: u32 = 4096;

/// The largest index, in bytes: a row of 64 for each block.
pub const MAX_INDEX_LEN: u32 = MAX_BLOCKS * 64;

/// The longest single string, in bytes (a path is at most 4,096).
pub const MAX_STRING_LEN: u32 = 64 << 10;

/// The longest span of one block of samples, in nanoseconds.
///
/// Sample times are 32-bit differences from the block's first time, so a block must end before 2³² ns.
pub const MAX_BLOCK_SPAN_NS: u64 = 4_000_000_000;
