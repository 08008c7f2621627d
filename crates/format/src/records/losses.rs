//! What was lost, version 1.

use rkyv::{Archive, Serialize};

use super::packed::Packed;
use super::{payload, references};
use crate::kind::Kind;
use crate::numbers::numbers;

numbers! {
    /// Why something is missing; the numbers are on disk and, up to 15, in `bpf/wire.h`.
    Cause(u8), others "cause",
    /// A sample found the ring full.
    RING_FULL_SAMPLE = 0,
    /// A fork, exec, exit or comm event found the ring full.
    RING_FULL_TASK = 1,
    /// A sample could not get its scratch memory.
    NO_SCRATCH = 2,
    /// The table of followed processes was full: a child was not followed.
    TARGETS_FULL = 3,
    /// The ring was so full that less of a stack was copied than was to be, or none.
    STACK_SHORTENED = 4,
    /// An event happened more often than the recorder takes samples of it: other samples stand for these hits, and weigh as much more.
    RATE_LOWERED = 5,
    /// A function returned, and the recorder did not know since when it ran; or it began, and the kernel will not tell of its return.
    UNPAIRED = 6,
    /// The kernel did not run a program because another one ran on the CPU. Some of these runs would have made a sample.
    MISSED_RUNS = 7,
    /// The kernel's queue of mapping events was full.
    MAPPING_QUEUE_FULL = 16,
    /// A record in the ring could not be decoded.
    UNDECODABLE = 17,
    /// The disk refused a block of samples.
    WRITE_FAILED = 18,
    /// There were no more ids for the frames of a sample: the recording has 2³² of them.
    STACKS_EXHAUSTED = 19,
    /// A block of samples in a damaged file could not be read when the file was repaired.
    DAMAGED = 20,
    /// Blocks of another kind could not be read then: what they define is referred to, and not there.
    BLOCKS_DAMAGED = 21,
    /// Distinct pieces of code were too many to look up their names.
    CODE_UNNAMED = 22,
    /// A perf map or jitdump file was not, or not all, read: too large, too many, or written over meanwhile.
    JIT_FILE_CUT = 23,
    /// The disk refused names of functions.
    NAMES_REFUSED = 24,
    /// A process mapped code faster than is followed, or more of it: a report of a mapping was not taken.
    MAPPINGS_REFUSED = 25,
    /// Threads ran and had no sample: in the kernel, where a recorder without privileges takes none, or for less than the interval between
    /// samples. The count is that of the samples which would have been taken in that time, and the weight is the time.
    NOT_SAMPLED = 26,
}

impl Cause {
    /// Tells whether samples are missing; other causes lose names or callers, not time.
    pub fn is_sample(self) -> bool {
        matches!(
            self,
            Self::RING_FULL_SAMPLE
                | Self::NO_SCRATCH
                | Self::UNPAIRED
                | Self::UNDECODABLE
                | Self::WRITE_FAILED
                | Self::STACKS_EXHAUSTED
                | Self::DAMAGED
        )
    }
}

/// A number of items of one event lost for one cause since the row before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// When it was noticed, ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// On which CPU; `u32::MAX` if the cause knows none.
    pub cpu: u32,
    /// Why.
    pub cause: Cause,
    /// Which event, a position in the session's events; [`Loss::NO_EVENT`] if it is of none, or of an unknown one.
    pub event: u8,
    /// How many items.
    pub count: u64,
    /// What these samples would have weighed, in the unit of the event; 0 if that is unknown.
    pub weight: u64,
}

references!(Loss {
    time_ns: time,
    cpu: plain,
    cause: plain,
    event: event_if_any,
    count: plain,
    weight: plain
});

impl Loss {
    /// The event of a loss that is of none, or of an unknown one.
    pub const NO_EVENT: u8 = u8::MAX;

    /// So many items of no known event, CPU and time.
    pub fn of(cause: Cause, count: u64) -> Self {
        Self { time_ns: 0, cpu: u32::MAX, cause, event: Self::NO_EVENT, count, weight: 0 }
    }
}

/// Losses, ordered by time; a reader adds up the counts.
#[derive(Debug, Default, Archive, Serialize)]
pub struct LossesV1 {
    /// Times, ns, as differences from the row before; signs folded.
    pub time_ns: Packed,
    /// CPUs.
    pub cpu: Packed,
    /// Numbers of [`Cause`].
    pub cause: Packed,
    /// Counts.
    pub count: Packed,
    /// Events.
    pub event: Packed,
    /// Weights.
    pub weight: Packed,
}

payload!(LossesV1, ArchivedLossesV1, Kind::LOSSES, 1, count time_ns, same cpu, same cause, same count, same event, same weight);

impl LossesV1 {
    /// Builds the columns.
    pub fn from_rows(rows: &[Loss]) -> Self {
        Self {
            time_ns: Packed::steps(rows.iter().map(|r| r.time_ns)),
            cpu: rows.iter().map(|r| r.cpu).collect(),
            cause: rows.iter().map(|r| u64::from(r.cause.0)).collect(),
            count: rows.iter().map(|r| r.count).collect(),
            event: rows.iter().map(|r| u64::from(r.event)).collect(),
            weight: rows.iter().map(|r| r.weight).collect(),
        }
    }
}

impl ArchivedLossesV1 {
    /// Lists the losses in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = Loss> + '_ {
        let columns = self.time_ns.sums().into_iter().zip(self.cpu.values_u32());
        let counts = self.cause.values().into_iter().zip(self.count.values());
        let events = self.event.values().into_iter().zip(self.weight.values());
        columns.zip(counts).zip(events).map(|(((time_ns, cpu), (cause, count)), (event, weight))| {
            let (cause, event) = (Cause(cause as u8), u8::try_from(event).unwrap_or(Loss::NO_EVENT));
            Loss { time_ns, cpu, cause, event, count, weight }
        })
    }
}
