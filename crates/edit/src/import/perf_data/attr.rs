//! Decodes events and the layout of their records: `struct perf_event_attr`.

use icecore_format::events;
use icecore_format::records::EventMeaning;

use super::bytes::Bytes;

/// Bits of `sample_type`: which fields a sample has. Fields are in the order of their bits, except for `IDENTIFIER`, which comes
/// first.
pub(super) mod field {
    pub(in super::super) const IP: u64 = 1 << 0;
    pub(in super::super) const TID: u64 = 1 << 1;
    pub(in super::super) const TIME: u64 = 1 << 2;
    pub(in super::super) const ADDR: u64 = 1 << 3;
    pub(in super::super) const READ: u64 = 1 << 4;
    pub(in super::super) const CALLCHAIN: u64 = 1 << 5;
    pub(in super::super) const ID: u64 = 1 << 6;
    pub(in super::super) const CPU: u64 = 1 << 7;
    pub(in super::super) const PERIOD: u64 = 1 << 8;
    pub(in super::super) const STREAM_ID: u64 = 1 << 9;
    pub(in super::super) const RAW: u64 = 1 << 10;
    pub(in super::super) const BRANCH_STACK: u64 = 1 << 11;
    pub(in super::super) const REGS_USER: u64 = 1 << 12;
    pub(in super::super) const STACK_USER: u64 = 1 << 13;
    pub(in super::super) const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `read_format`.
pub(super) mod read {
    pub(in super::super) const TIME_ENABLED: u64 = 1 << 0;
    pub(in super::super) const TIME_RUNNING: u64 = 1 << 1;
    pub(in super::super) const ID: u64 = 1 << 2;
    pub(in super::super) const GROUP: u64 = 1 << 3;
    pub(in super::super) const LOST: u64 = 1 << 4;
}

const FREQUENCY: u64 = 1 << 10;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
const EXCLUDE_USER: u64 = 1 << 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;

/// The software event that counts nothing.
const DUMMY: u64 = 9;

/// The number of `CLOCK_MONOTONIC`.
const CLOCK_MONOTONIC: u32 = 1;

/// The most frames if an event does not say: `kernel.perf_event_max_stack`.
const USUAL_MAX_STACK: u32 = 127;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Attr {
    pub(super) kind: u32,
    pub(super) config: u64,
    /// The frequency or the period: see `flags`.
    pub(super) rate: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) branch_sample_type: u64,
    /// Registers of user space in a sample, as a mask of the kernel's numbers.
    pub(in super::super) user_registers: u64,
    /// Requested bytes of the stack.
    pub(in super::super) stack_bytes: u32,
    /// The clock of its times, if the flags say that one was chosen.
    pub(super) clock: u32,
    /// Most frames of a call chain; 0 if not given.
    pub(super) max_stack: u16,
    /// The ids of the event in records.
    pub(super) ids: Vec<u64>,
    /// The event's name in perf; empty if the file has none.
    pub(super) name: String,
}

impl Attr {
    /// The length of the first version, bytes; later fields are 0 if missing.
    const LEAST_LEN: usize = 64;

    /// Decodes an event; `None` if it is too short. Fields of newer kernels are skipped.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let len = Bytes(bytes.get(4..8)?).u32()? as usize;
        if len < Self::LEAST_LEN {
            return None;
        }
        let bytes = bytes.get(..len).unwrap_or(bytes);
        let at = |off: usize| bytes.get(off..).and_then(|bytes| Bytes(bytes).u64()).unwrap_or(0);
        Some(Self {
            kind: at(0) as u32,
            config: at(8),
            rate: at(16),
            sample_type: at(24),
            read_format: at(32),
            flags: at(40),
            branch_sample_type: at(72),
            user_registers: at(80),
            stack_bytes: at(88) as u32,
            clock: (at(88) >> 32) as u32,
            max_stack: (at(104) >> 32) as u16,
            ids: Vec::new(),
            name: String::new(),
        })
    }

    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn has_field(&self, field: u64) -> bool {
        self.sample_type & field != 0
    }

    /// Returns true if its other records end with a time and a CPU.
    pub(super) fn tells_all(&self) -> bool {
        self.has(SAMPLE_ID_ALL)
    }

    /// Returns true if its times are those of `CLOCK_MONOTONIC`.
    pub(in super::super) fn is_monotonic(&self) -> bool {
        self.has(USE_CLOCKID) && self.clock == CLOCK_MONOTONIC
    }

    /// Returns true if it counts nothing, and only reports tasks and mappings.
    pub(super) fn is_dummy(&self) -> bool {
        (self.kind, self.config) == (events::kind::SOFTWARE, DUMMY)
    }

    /// Returns true if it was enabled with the command of `perf record`.
    pub(in super::super) fn is_of_command(&self) -> bool {
        self.has(ENABLE_ON_EXEC)
    }

    /// Returns whether user space and whether the kernel were sampled.
    pub(in super::super) fn sides(&self) -> (bool, bool) {
        (!self.has(EXCLUDE_USER), !self.has(EXCLUDE_KERNEL))
    }

    /// Returns true if samples have call chains.
    pub(in super::super) fn has_chains(&self) -> bool {
        self.has_field(field::CALLCHAIN)
    }

    /// Returns the most frames of a call chain, both sides together.
    pub(in super::super) fn most_frames(&self) -> u32 {
        match self.max_stack {
            0 => USUAL_MAX_STACK,
            max_stack => u32::from(max_stack),
        }
    }

    /// Returns the requested frequency and period; one of them is 0.
    pub(in super::super) fn rate(&self) -> (u64, u64) {
        if self.has(FREQUENCY) { (self.rate, 0) } else { (0, self.rate) }
    }

    /// Returns its name: the one that perf gave it, by its usual name if it has several; else that of its number.
    pub(in super::super) fn name(&self) -> String {
        let (name, modifiers) = self.name.split_at(self.name.find(':').unwrap_or(self.name.len()));
        match events::name(self.kind, self.config) {
            Some(usual) if name.is_empty() || events::usual(name) == usual => format!("{usual}{modifiers}"),
            None if self.name.is_empty() => format!("event {}:{:#x}", self.kind, self.config),
            _ => self.name.clone(),
        }
    }

    /// Returns true if it samples switches of threads.
    pub(super) fn is_switch(&self) -> bool {
        self.kind == events::kind::TRACEPOINT && self.name == "sched:sched_switch"
    }

    /// Returns true if perf measured how long threads did not run (`perf record --off-cpu`).
    fn is_off_cpu(&self) -> bool {
        self.kind == events::kind::SOFTWARE && self.name() == "offcpu-time"
    }

    /// Returns the unit of its weights.
    pub(in super::super) fn unit(&self) -> String {
        if self.is_off_cpu() {
            return "ns".to_owned();
        }
        events::unit(self.kind, self.config, &self.name()).into_owned()
    }

    /// Returns what a sample stands for. Counters of one kind of CPU have numbers of their own: perf's name tells which they are.
    pub(in super::super) fn meaning(&self) -> EventMeaning {
        let (name, unit) = (self.name(), self.unit());
        // perf names modifiers and the device: `cpu-clock:u`, `cpu_core/cycles/P`.
        let has_word = |word: &str| name.split([':', '/']).any(|found| found == word);
        match &*unit {
            _ if self.is_off_cpu() => EventMeaning::OFF_CPU,
            "ns" if has_word("cpu-clock") || has_word("task-clock") => EventMeaning::CPU_TIME,
            "ns" => EventMeaning::DURATION,
            "cycles" | "cpu-cycles" | "cpu_core" | "cpu_atom"
                if has_word("cycles") || has_word("cpu-cycles") =>
            {
                EventMeaning::CYCLES
            }
            _ => EventMeaning::OCCURRENCE,
        }
    }

    /// Returns the weight of a sample that has no period of its own.
    pub(in super::super) fn usual_weight(&self) -> u64 {
        match self.rate() {
            (hz @ 1.., _) if self.unit() == "ns" => 1_000_000_000 / hz,
            (_, period) => period.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_units_and_weights_are_those_of_the_event() {
        let of = |kind, config, name: &str| {
            let attr =
                Attr { kind, config, rate: 500, flags: FREQUENCY, name: name.into(), ..Attr::default() };
            (attr.name(), attr.unit(), attr.usual_weight())
        };
        let told = |name: &str, unit: &str, weight| (name.to_owned(), unit.to_owned(), weight);
        assert_eq!(of(1, 0, ""), told("cpu-clock", "ns", 2_000_000));
        assert_eq!(of(0, 0, "cycles:P"), told("cycles:P", "cycles", 1));
        assert_eq!(of(1, 2, ""), told("page-faults", "page-faults", 1));
        assert_eq!(of(1, 3, "cs:u"), told("context-switches:u", "context-switches", 1));
        assert_eq!(of(3, 0x10000, ""), told("L1-dcache-load-misses", "L1-dcache-load-misses", 1));
        assert_eq!(of(2, 77, "sched:sched_switch"), told("sched:sched_switch", "events", 1));
        assert_eq!(of(4, 0x1c2, "cpu/event=0xc2/"), told("cpu/event=0xc2/", "cpu", 1));
        assert_eq!(of(9, 5, ""), told("event 9:0x5", "event 9", 1));
        let meaning =
            |kind, config, name: &str| Attr { kind, config, name: name.into(), ..Attr::default() }.meaning();
        assert_eq!(meaning(1, 1, "task-clock:u"), EventMeaning::CPU_TIME);
        assert_eq!([meaning(0, 0, ""), meaning(4, 0x3c, "cpu_core/cycles/P")], [EventMeaning::CYCLES; 2]);
        assert_eq!(
            [meaning(1, 2, ""), meaning(2, 77, "my:cpu-clock"), meaning(4, 1, "cpu/event=1/")],
            [EventMeaning::OCCURRENCE; 3]
        );
        let period = Attr { rate: 7, ..Attr::default() };
        assert_eq!((period.rate(), period.usual_weight()), ((0, 7), 7));
    }

    #[test]
    fn an_event_of_any_kernel_is_read() {
        let mut bytes = vec![0; 200];
        bytes[4] = 200;
        bytes[24] = 0x87;
        bytes[108] = 127;
        let attr = Attr::decode(&bytes).expect("long enough");
        assert_eq!((attr.sample_type, attr.max_stack), (0x87, 127));
        bytes[4] = 64;
        assert_eq!(Attr::decode(&bytes[..64]).expect("the oldest").max_stack, 0);
        bytes[4] = 63;
        assert_eq!(Attr::decode(&bytes), None);
        assert_eq!(Attr::decode(&bytes[..6]), None);
    }
}
