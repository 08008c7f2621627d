//! What blocks hold.

use crate::limits;
use crate::numbers::numbers;

numbers! {
    /// What a block holds. A number that was given to a kind is never given to another.
    Kind(u16), others "kind",
    /// Host, clock, events, options of the recorder.
    SESSION = 1,
    /// Interned text.
    STRINGS = 2,
    /// Interned (process, thread, name) triples, to which samples refer.
    TASKS = 3,
    /// Fork, exec, exit and renaming of tasks.
    LIFECYCLE = 4,
    /// Identities of executable files.
    IMAGES = 5,
    /// Executable mappings and when they appeared.
    MAPPINGS = 6,
    /// The trie of stacks.
    STACKS = 7,
    /// Samples, as columns.
    SAMPLES = 8,
    /// Kernel symbols that samples need.
    KERNEL_SYMBOLS = 9,
    /// What was lost, by cause and CPU.
    LOSSES = 10,
    /// What the recording cost, written when the recorder ends.
    RECEIPT = 11,
    /// The table of all blocks.
    INDEX = 12,
    /// Symbols of images that samples need.
    SYMBOLS = 13,
    /// Pieces of the files of images.
    IMAGE_PARTS = 14,
    /// JIT code that samples need.
    JIT = 15,
    /// Cgroups of processes.
    CGROUPS = 16,
    /// What a report found out about code: functions, inlined ones too, and source lines.
    NAMES = 17,
    /// Files of images that were requested and are missing from the recording, or are incomplete.
    LEFT_OUT = 18,
    /// Addresses of code that stacks held.
    STACK_CODE = 19,
    /// Pieces of stacks.
    STACK_PIECES = 20,
    /// How pieces of stacks are nested.
    STACK_NODES = 21,
    /// What registers and stacks held at samples.
    SNAPSHOTS = 22,
    /// Unwind tables of code that stacks hold.
    UNWIND_RULES = 23,
    /// What a reader should know of frames besides their locations.
    STACK_MARKS = 24,
    /// CPU time of threads by the kernel's own account.
    CPU_TIMES = 25,
    /// What is known of waits besides their stacks.
    WAITS = 26,
    /// Counters of the machine, of processes and of cgroups.
    COUNTERS = 27,
    /// Source files of code that samples hit.
    SOURCES = 28,
    /// Code of functions that samples hit, and what is known of its instructions.
    CODE = 29,
    /// Fields of tracepoints that samples have.
    FIELDS = 30,
    /// What asked for a history that the recorder held in memory.
    TRIGGER = 31,
    /// How often the recorder samples.
    RATES = 32,
}

impl Kind {
    /// The largest stored and the largest raw payload of this kind, bytes.
    pub(crate) fn max_lens(self) -> (u32, u32) {
        match self {
            Self::INDEX => (limits::MAX_INDEX_LEN, limits::MAX_INDEX_LEN),
            _ => (limits::MAX_STORED_LEN, limits::MAX_RAW_LEN),
        }
    }
}
