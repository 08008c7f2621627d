//! Counters of the machine, of processes and of cgroups, version 1.

use std::collections::BTreeMap;

use rkyv::{Archive, Serialize};

use super::packed::{Packed, fold, narrow, unfold};
use super::{IdTable, Reference, References, payload, references};
use crate::kind::Kind;
use crate::numbers::numbers;

/// Resolution on disk, ns.
const UNIT_NS: u64 = 1_000;

/// How the values of a counter are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Everything since its owner began; only differences say what happened between two readings.
    Sum,
    /// What there was at the moment of the reading.
    Level,
}

/// Makes [`Counter`], and the units and kinds of counters, from one list.
macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident = $number:literal $growth:ident $unit:literal,)+) => {
        numbers! {
            /// What a counter counts; the numbers are on disk.
            #[derive(Default)]
            Counter(u8), others "counter",
            $($(#[$doc])+ $name = $number,)+
        }

        impl Counter {
            /// All counters that this build knows.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the unit of the values: `ns`, `bytes` or `count`; `None` for a counter that this build does not know.
            pub fn unit(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($unit),)+
                    Self(_) => None,
                }
            }

            /// Returns how the values are to be read; `None` for a counter that this build does not know.
            pub fn growth(self) -> Option<Growth> {
                match self {
                    $(Self::$name => Some(Growth::$growth),)+
                    Self(_) => None,
                }
            }
        }
    };
}

counters! {
    /// CPU time. Of the machine: of all CPUs together, without idle time.
    CPU = 1 Sum "ns",
    /// CPU time in user mode.
    CPU_USER = 2 Sum "ns",
    /// CPU time in kernel mode; of the machine, with interrupts.
    CPU_SYSTEM = 3 Sum "ns",
    /// CPU time without work.
    CPU_IDLE = 4 Sum "ns",
    /// CPU time without work while a thread waited for a disk.
    CPU_IO_WAIT = 5 Sum "ns",
    /// CPU time that the host of this virtual machine gave to others.
    CPU_STEAL = 6 Sum "ns",
    /// Memory: resident of a process, used of a cgroup; of the machine, what is not available to programs.
    MEMORY = 7 Level "bytes",
    /// The most memory that there was at one time, by the kernel's own mark.
    MEMORY_PEAK = 8 Level "bytes",
    /// Memory of the machine.
    MEMORY_TOTAL = 9 Level "bytes",
    /// Page faults that needed no disk. Of cgroups and the machine: the others, too, are not in it.
    MINOR_FAULTS = 10 Sum "count",
    /// Page faults that needed a disk.
    MAJOR_FAULTS = 11 Sum "count",
    /// Context switches.
    SWITCHES = 12 Sum "count",
    /// Those of them at which the thread could have run on.
    INVOLUNTARY_SWITCHES = 13 Sum "count",
    /// Bytes read from disks.
    DISK_READ = 14 Sum "bytes",
    /// Bytes that are written to disks, now or later; of cgroups and the machine: that were written.
    DISK_WRITTEN = 15 Sum "bytes",
    /// Bytes that system calls read, from whatever file.
    CALLS_READ = 16 Sum "bytes",
    /// Bytes that system calls wrote, to whatever file.
    CALLS_WRITTEN = 17 Sum "bytes",
    /// Threads.
    THREADS = 18 Level "count",
    /// Threads that run or wait for a CPU.
    RUNNABLE = 19 Level "count",
    /// Threads that wait for a disk.
    BLOCKED = 20 Level "count",
    /// Time in which a thread waited for a CPU.
    CPU_PRESSURE = 21 Sum "ns",
    /// Time in which all threads with work did.
    CPU_PRESSURE_ALL = 22 Sum "ns",
    /// Time in which a thread waited for memory.
    MEMORY_PRESSURE = 23 Sum "ns",
    /// Time in which all threads with work did.
    MEMORY_PRESSURE_ALL = 24 Sum "ns",
    /// Time in which a thread waited for a disk.
    IO_PRESSURE = 25 Sum "ns",
    /// Time in which all threads with work did.
    IO_PRESSURE_ALL = 26 Sum "ns",
    /// Processes that ran, or ended, since the reading before and that have no rows, because there are too many.
    PROCESSES_LEFT_OUT = 27 Level "count",
    /// Cgroups likewise.
    CGROUPS_LEFT_OUT = 28 Level "count",
}

/// Whose counter it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The machine.
    #[default]
    Machine,
    /// A process, by its id.
    Process(u32),
    /// A cgroup with those below it, by the string of its path.
    Cgroup(u32),
    /// An owner of a kind that this build does not know: the number of the kind, and the id.
    Other(u8, u32),
}

impl Owner {
    /// Returns the number of the kind and the id, as they are on disk.
    fn numbers(self) -> (u8, u32) {
        match self {
            Self::Machine => (0, 0),
            Self::Process(tgid) => (1, tgid),
            Self::Cgroup(path) => (2, path),
            Self::Other(kind, id) => (kind, id),
        }
    }

    fn of_numbers(kind: u8, id: u32) -> Self {
        match kind {
            0 => Self::Machine,
            1 => Self::Process(id),
            2 => Self::Cgroup(id),
            _ => Self::Other(kind, id),
        }
    }
}

impl References for Owner {
    fn visit(&mut self, see: &mut impl FnMut(Reference<'_>)) {
        match self {
            Self::Process(tgid) => see(Reference::Process(tgid)),
            Self::Cgroup(path) if *path >= IdTable::Strings.first_id() => {
                see(Reference::Id(IdTable::Strings, path));
            }
            Self::Machine | Self::Cgroup(_) | Self::Other(..) => {}
        }
    }
}

/// The value of a counter at one moment.
///
/// # Units   time ns `CLOCK_MONOTONIC`, on disk rounded down to a microsecond; values as [`Counter::unit`] says
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// When it was read.
    pub time_ns: u64,
    /// Whose it is.
    pub owner: Owner,
    /// What it counts.
    pub counter: Counter,
    /// How much.
    pub value: u64,
}

references!(CounterValue { time_ns: time, owner: within, counter: plain, value: plain });

/// Values of counters, ordered by time.
#[derive(Debug, Default, Archive, Serialize)]
pub struct CountersV1 {
    /// Earliest time of a reading, ns.
    pub first_ns: u64,
    /// Latest time of a reading, ns.
    pub last_ns: u64,
    /// Resolution of the column of times, ns.
    pub unit_ns: u32,
    /// Times, as differences from the row before (the first: from `first_ns`), in units.
    pub after: Packed,
    /// Kinds of owners.
    pub owner: Packed,
    /// Ids of owners, as differences from the row before; signs folded.
    pub id: Packed,
    /// Numbers of counters, as differences from the row before; signs folded.
    pub counter: Packed,
    /// Values minus those before of the same owner and counter in this block, or minus 0; signs folded.
    pub value: Packed,
}

payload!(
    CountersV1, ArchivedCountersV1, Kind::COUNTERS, 1,
    count after, same owner, same id, same counter, same value,
    span first_ns last_ns
);

impl CountersV1 {
    /// Builds the columns; `rows` are ordered by time. Times are rounded down to a microsecond.
    pub fn from_rows(rows: &[CounterValue]) -> Self {
        let units = |ns: u64| ns / UNIT_NS;
        let first = rows.first().map_or(0, |row| units(row.time_ns));
        let mut before = first;
        let after = |row: &CounterValue| {
            let now = units(row.time_ns);
            now.saturating_sub(std::mem::replace(&mut before, now))
        };
        let mut known = BTreeMap::new();
        let value = |row: &CounterValue| {
            let before = known.insert((row.owner, row.counter), row.value).unwrap_or(0);
            fold(row.value.wrapping_sub(before))
        };
        Self {
            first_ns: first * UNIT_NS,
            last_ns: rows.last().map_or(0, |row| units(row.time_ns) * UNIT_NS),
            unit_ns: UNIT_NS as u32,
            after: rows.iter().map(after).collect(),
            owner: rows.iter().map(|row| u64::from(row.owner.numbers().0)).collect(),
            id: Packed::steps(rows.iter().map(|row| u64::from(row.owner.numbers().1))),
            counter: Packed::steps(rows.iter().map(|row| u64::from(row.counter.0))),
            value: rows.iter().map(value).collect(),
        }
    }
}

impl ArchivedCountersV1 {
    /// Lists the rows in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = CounterValue> + '_ {
        let unit_ns = u64::from(self.unit_ns.to_native());
        let mut time_ns = self.first_ns.to_native();
        let mut known = BTreeMap::<(Owner, Counter), u64>::new();
        let [after, owner, value] = [&self.after, &self.owner, &self.value].map(|column| column.values());
        let [id, counter] = [&self.id, &self.counter].map(|column| column.sums());
        (0..after.len()).map(move |i| {
            time_ns = time_ns.saturating_add(after[i].saturating_mul(unit_ns));
            let owner = Owner::of_numbers(byte(owner[i]), narrow(id[i]));
            let counter = Counter(byte(counter[i]));
            let value_now = known.entry((owner, counter)).or_default();
            *value_now = value_now.wrapping_add(unfold(value[i]));
            CounterValue { time_ns, owner, counter, value: *value_now }
        })
    }
}

/// Makes the largest number of what does not fit.
fn byte(value: u64) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    fn row(time_ns: u64, owner: Owner, counter: Counter, value: u64) -> CounterValue {
        CounterValue { time_ns, owner, counter, value }
    }

    fn back(rows: &[CounterValue]) -> Vec<CounterValue> {
        let bytes = CountersV1::from_rows(rows).to_bytes().expect("fits");
        CountersV1::view(&bytes).expect("own bytes").rows().collect()
    }

    #[test]
    fn rows_read_back_to_the_microsecond() {
        let rows = [
            row(5_000_000, Owner::Machine, Counter::CPU, 7_000_000_000),
            row(5_000_000, Owner::Process(70), Counter::MEMORY, u64::MAX),
            row(5_000_000, Owner::Process(70), Counter::SWITCHES, 3),
            row(6_000_000, Owner::Cgroup(2), Counter::MEMORY, 1 << 40),
            row(6_000_000, Owner::Process(70), Counter::MEMORY, 0),
            row(6_000_000, Owner::Machine, Counter::CPU, 7_900_000_000),
            row(7_000_000, Owner::Other(9, u32::MAX), Counter(200), 1),
        ];
        assert_eq!(back(&rows), rows);
        let fine = CountersV1::from_rows(&[row(5_000_999, Owner::Machine, Counter::CPU, 1)]);
        assert_eq!((fine.span_ns(), fine.items()), ((5_000_000, 5_000_000), 1));
        assert!(back(&[]).is_empty());
    }

    #[test]
    fn every_counter_has_a_number_a_name_and_a_unit() {
        let numbers: Vec<u8> = Counter::ALL.iter().map(|counter| counter.0).collect();
        assert_eq!(numbers, (1..=Counter::ALL.len() as u8).collect::<Vec<_>>());
        assert_eq!(
            (Counter::MEMORY_PEAK.name(), Counter::MEMORY_PEAK.unit(), Counter::MEMORY_PEAK.growth()),
            ("memory_peak".to_owned(), Some("bytes"), Some(Growth::Level))
        );
        let unknown = Counter(200);
        assert_eq!((&*unknown.name(), unknown.unit(), unknown.growth()), ("counter_200", None, None));
    }

    #[test]
    fn owners_refer_to_processes_and_paths_alone() {
        let seen = |owner| {
            let mut seen = Vec::new();
            let mut row = row(1, owner, Counter::CPU, 0);
            row.visit(&mut |reference| seen.push(format!("{reference:?}")));
            seen
        };
        assert_eq!(seen(Owner::Machine), ["Time(1)"]);
        assert_eq!(seen(Owner::Process(3)), ["Time(1)", "Process(3)"]);
        assert_eq!(seen(Owner::Cgroup(3)), ["Time(1)", "Id(Strings, 3)"]);
        assert_eq!(seen(Owner::Cgroup(0)), ["Time(1)"], "an unknown path");
    }

    proptest::proptest! {
        #[test]
        fn no_column_of_another_program_overflows(
            first_ns: u64, unit_ns: u32, after: u64, owner: u64, id: u64, counter: u64, value: u64
        ) {
            let two = |value: u64| [value, value].into_iter().collect::<Packed>();
            let payload = CountersV1 {
                first_ns, last_ns: first_ns, unit_ns, after: two(after), owner: two(owner), id: two(id),
                counter: two(counter), value: two(value),
            };
            let bytes = payload.to_bytes().expect("fits");
            let rows: Vec<CounterValue> = CountersV1::view(&bytes).expect("own bytes").rows().collect();
            proptest::prop_assert!(rows.len() == 2 && rows[0].time_ns <= rows[1].time_ns);
        }
    }
}
