//! CPU time of threads by the kernel's own account, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, fold, narrow, unfold};
use super::{payload, references};
use crate::kind::Kind;

/// Resolution on disk, ns: the kernel's account of a thread that runs is older than that by itself.
const UNIT_NS: u64 = 1_000;

/// What one thread has run since it was looked at before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    /// When the account was read, ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// From when on: the reading before it, the start of the thread, or that of the recording.
    pub since_ns: u64,
    /// Process id.
    pub tgid: u32,
    /// Thread id.
    pub tid: u32,
    /// CPU time in between, ns (`sum_exec_runtime`).
    pub ran_ns: u64,
    /// User time in between as the kernel counts it, ns (`utime`): whole ticks on most kernels.
    pub user_ns: u64,
    /// Kernel time in between, likewise (`stime`).
    pub kernel_ns: u64,
}

references!(CpuTime {
    time_ns: time,
    since_ns: time,
    tgid: process,
    tid: process,
    ran_ns: plain,
    user_ns: plain,
    kernel_ns: plain,
});

/// CPU times, ordered by time.
#[derive(Debug, Default, Archive, Serialize)]
pub struct CpuTimesV1 {
    /// Earliest time of a reading, ns.
    pub first_ns: u64,
    /// Latest time of a reading, ns.
    pub last_ns: u64,
    /// Resolution of the columns of times, ns.
    pub unit_ns: u32,
    /// Times, as differences from the row before (the first: from `first_ns`), in units.
    pub after: Packed,
    /// Times minus those from when on, in units.
    pub over: Packed,
    /// Process ids, as differences from the row before; signs folded.
    pub tgid: Packed,
    /// Process ids minus thread ids; signs folded.
    pub tid: Packed,
    /// CPU times, in units.
    pub ran: Packed,
    /// User times, in units.
    pub user: Packed,
    /// Kernel times, in units.
    pub kernel: Packed,
}

payload!(
    CpuTimesV1, ArchivedCpuTimesV1, Kind::CPU_TIMES, 1,
    count after, same over, same tgid, same tid, same ran, same user, same kernel,
    span first_ns last_ns
);

impl CpuTimesV1 {
    /// Builds the columns; `rows` are ordered by time. Times are rounded down to a microsecond.
    pub fn from_rows(rows: &[CpuTime]) -> Self {
        let units = |ns: u64| ns / UNIT_NS;
        let first = rows.first().map_or(0, |row| units(row.time_ns));
        let mut before = first;
        let after = |row: &CpuTime| {
            let now = units(row.time_ns);
            now.saturating_sub(std::mem::replace(&mut before, now))
        };
        Self {
            first_ns: first * UNIT_NS,
            last_ns: rows.last().map_or(0, |row| units(row.time_ns) * UNIT_NS),
            unit_ns: UNIT_NS as u32,
            after: rows.iter().map(after).collect(),
            over: rows.iter().map(|r| units(r.time_ns).saturating_sub(units(r.since_ns))).collect(),
            tgid: Packed::steps(rows.iter().map(|r| u64::from(r.tgid))),
            tid: rows.iter().map(|r| fold(u64::from(r.tgid).wrapping_sub(u64::from(r.tid)))).collect(),
            ran: rows.iter().map(|r| units(r.ran_ns)).collect(),
            user: rows.iter().map(|r| units(r.user_ns)).collect(),
            kernel: rows.iter().map(|r| units(r.kernel_ns)).collect(),
        }
    }
}

impl ArchivedCpuTimesV1 {
    /// Lists the rows in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = CpuTime> + '_ {
        let unit_ns = u64::from(self.unit_ns.to_native());
        let ns = move |units: u64| units.saturating_mul(unit_ns);
        let mut time_ns = self.first_ns.to_native();
        let [after, over, tid] = [&self.after, &self.over, &self.tid].map(|column| column.values());
        let [ran, user, kernel] = [&self.ran, &self.user, &self.kernel].map(|column| column.values());
        self.tgid.sums().into_iter().enumerate().map(move |(i, tgid)| {
            time_ns = time_ns.saturating_add(ns(after[i]));
            CpuTime {
                time_ns,
                since_ns: time_ns.saturating_sub(ns(over[i])),
                tgid: narrow(tgid),
                tid: narrow(tgid.wrapping_sub(unfold(tid[i]))),
                ran_ns: ns(ran[i]),
                user_ns: ns(user[i]),
                kernel_ns: ns(kernel[i]),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    #[test]
    fn rows_read_back_to_the_microsecond() {
        let row = |time_ns, tid, ran_ns| CpuTime {
            time_ns,
            since_ns: time_ns - 1_000_000,
            tgid: 70,
            tid,
            ran_ns,
            user_ns: 4_000_000,
            kernel_ns: 0,
        };
        let rows = [row(5_000_000, 70, 999_000), row(5_000_000, 69, 7_000), row(9_000_000, 75, 1_000)];
        let bytes = CpuTimesV1::from_rows(&rows).to_bytes().expect("fits");
        assert_eq!(CpuTimesV1::view(&bytes).expect("own bytes").rows().collect::<Vec<_>>(), rows);
        let fine = CpuTimesV1::from_rows(&[row(5_000_999, 70, 1_999)]);
        assert_eq!((fine.span_ns(), fine.items()), ((5_000_000, 5_000_000), 1));
    }
}
