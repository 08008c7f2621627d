//! How often the recorder samples, version 1.

use rkyv::{Archive, Serialize};

use super::open_sets::RateCause;
use super::packed::Packed;
use super::{payload, references};
use crate::kind::Kind;

/// From now on the recorder samples so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateChange {
    /// Since when, ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The share of the requested rate, parts in [`RateChange::WHOLE`]; 0 while the recorder pauses: it takes no samples, and follows no tasks.
    pub share: u32,
    /// Why.
    pub cause: RateCause,
    /// What was measured, in the unit of the cause: parts in a million of one CPU, or bytes a second, both over the last ten seconds; bytes of
    /// memory; the process id of who asked.
    pub measured: u64,
    /// The budget, in the same unit; 0 if there is none.
    pub limit: u64,
}

references!(RateChange { time_ns: time, share: plain, cause: plain, measured: plain, limit: plain });

impl RateChange {
    /// The share of a recorder that samples as often as was asked for.
    pub const WHOLE: u32 = 1_000_000;
}

/// Changes of the sampling rate, ordered by time. Before the first one of a session the recorder samples as often as was asked for. Samples
/// weigh what they stand for at the rate at which they were taken.
#[derive(Debug, Default, Archive, Serialize)]
pub struct RatesV1 {
    /// Times, ns, as differences from the row before; signs folded.
    pub time_ns: Packed,
    /// Shares.
    pub share: Packed,
    /// Numbers of [`RateCause`].
    pub cause: Packed,
    /// What was measured.
    pub measured: Packed,
    /// Budgets.
    pub limit: Packed,
}

payload!(RatesV1, ArchivedRatesV1, Kind::RATES, 1, count time_ns, same share, same cause, same measured, same limit);

impl RatesV1 {
    /// Builds the columns.
    pub fn from_rows(rows: &[RateChange]) -> Self {
        Self {
            time_ns: Packed::steps(rows.iter().map(|r| r.time_ns)),
            share: rows.iter().map(|r| r.share).collect(),
            cause: rows.iter().map(|r| u64::from(r.cause.0)).collect(),
            measured: rows.iter().map(|r| r.measured).collect(),
            limit: rows.iter().map(|r| r.limit).collect(),
        }
    }
}

impl ArchivedRatesV1 {
    /// Lists the changes in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = RateChange> + '_ {
        let times = self.time_ns.sums().into_iter().zip(self.share.values_u32());
        let causes = self.cause.values().into_iter().zip(self.measured.values()).zip(self.limit.values());
        times.zip(causes).map(|((time_ns, share), ((cause, measured), limit))| {
            let cause = RateCause(u16::try_from(cause).unwrap_or(RateCause::UNKNOWN.0));
            RateChange { time_ns, share, cause, measured, limit }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload;

    #[test]
    fn rows_survive_a_round_trip() {
        let row =
            |time_ns, share, cause, measured, limit| RateChange { time_ns, share, cause, measured, limit };
        let rows = [
            row(5, 0, RateCause::DUTY, 0, 0),
            row(90, RateChange::WHOLE, RateCause::CPU, 12_000, 10_000),
            row(80, 1, RateCause(9_999), u64::MAX, 7),
        ];
        let payload = RatesV1::from_rows(&rows);
        let bytes = payload.to_bytes().expect("fits");
        let view = RatesV1::view(&bytes).expect("own bytes");
        assert!(view.rows().eq(rows));
    }
}
