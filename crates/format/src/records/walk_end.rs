//! How stack walks end.

/// How a stack walk ended; the numbers are on disk and in `bpf/wire.h`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WalkEnd(pub u8);

impl WalkEnd {
    /// No walk: the side was filtered out, or there is none (a kernel thread, user mode).
    pub const NONE: Self = Self(0);
    /// The frame pointer was 0, as at the outermost frame. Programs without frame pointers end so by
    /// accident, too.
    pub const ROOT: Self = Self(1);
    /// `max_depth` frames were taken, and there are more: the outermost are missing.
    pub const DEPTH: Self = Self(2);
    /// The frame pointer pointed to memory that could not be read.
    pub const UNREADABLE: Self = Self(3);
    /// The next frame pointer did not point towards the outermost frame.
    pub const NOT_MONOTONIC: Self = Self(4);
    /// The frame pointer was no multiple of the word size.
    pub const MISALIGNED: Self = Self(5);
    /// The frame held the return address 0.
    pub const ZERO_RETURN: Self = Self(6);
    /// The kernel walked the stack itself, and does not say how its walks end.
    pub const UNSAID: Self = Self(7);
    /// The frame held a return address that lies in no executable mapping: what the frame pointer points to
    /// is no frame. It and all that follows it is left out.
    pub const NOT_CODE: Self = Self(8);
    /// The addresses are as they were found, whether they are code or not: reports of mappings were lost, and it is not known
    /// what the process had mapped.
    pub const MAPPINGS_LOST: Self = Self(9);
    /// The sampler walked the stack by unwind tables, to the outermost frame.
    pub const BY_TABLES: Self = Self(10);
    /// The stack was unwound by unwind tables, to the outermost frame.
    pub const UNWOUND: Self = Self(16);
    /// Unwinding came to a part of the stack that was not copied.
    pub const NOT_COPIED: Self = Self(17);
    /// Unwinding found no address of code where the return address should be.
    pub const NO_RETURN_ADDRESS: Self = Self(18);
    /// Unwinding came to code without a frame pointer whose unwind tables are missing, or whose file is.
    pub const NO_RULES: Self = Self(19);
    /// Unwinding came to code whose unwind tables are broken, or do not fit the stack.
    pub const BAD_RULES: Self = Self(20);

    /// Nobody has unwound or checked the stack: that would have been more work than the size of the recording is worth.
    pub const NOT_EXAMINED: Self = Self(21);

    /// Name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::NONE => "none",
            Self::ROOT => "root",
            Self::DEPTH => "depth",
            Self::UNREADABLE => "unreadable",
            Self::NOT_MONOTONIC => "not_monotonic",
            Self::MISALIGNED => "misaligned",
            Self::ZERO_RETURN => "zero_return",
            Self::UNSAID => "unsaid",
            Self::NOT_CODE => "not_code",
            Self::MAPPINGS_LOST => "mappings_lost",
            Self::BY_TABLES => "by_tables",
            Self::UNWOUND => "unwound",
            Self::NOT_COPIED => "not_copied",
            Self::NO_RETURN_ADDRESS => "no_return_address",
            Self::NO_RULES => "no_rules",
            Self::BAD_RULES => "bad_rules",
            Self::NOT_EXAMINED => "not_examined",
            _ => "unknown",
        }
    }
}
