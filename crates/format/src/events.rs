//! The events that the kernel counts: their names as perf writes them, their numbers, the units of their weights. So one event has
//! one name and one unit, whether icecore or perf recorded it.

use std::borrow::Cow;

/// The kinds of events: `type` of `perf_event_open(2)`.
pub mod kind {
    /// Counters that every processor has.
    pub const HARDWARE: u32 = 0;
    /// Counters of the kernel.
    pub const SOFTWARE: u32 = 1;
    /// Tracepoints of the kernel.
    pub const TRACEPOINT: u32 = 2;
    /// Counters of caches.
    pub const CACHE: u32 = 3;
    /// Counters by the processor's own numbers.
    pub const RAW: u32 = 4;
}

/// The unit of events that are counted by their number.
pub const UNIT: &str = "events";

/// Names by number.
const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];
const SOFTWARE: [&str; 9] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
];
/// Other names that perf knows, and the names that stand for them here.
const ALIASES: [(&str, &str); 7] = [
    ("cpu-cycles", "cycles"),
    ("branch-instructions", "branches"),
    ("idle-cycles-frontend", "stalled-cycles-frontend"),
    ("idle-cycles-backend", "stalled-cycles-backend"),
    ("faults", "page-faults"),
    ("cs", "context-switches"),
    ("migrations", "cpu-migrations"),
];
/// Caches by number, with the number of operations that they count.
const CACHES: [(&str, usize); 7] =
    [("L1-dcache", 3), ("L1-icache", 3), ("LLC", 3), ("dTLB", 3), ("iTLB", 1), ("branch", 1), ("node", 3)];
/// Operations by number: in a name with a result, and in one without.
const OPERATIONS: [(&str, &str); 3] = [("load", "loads"), ("store", "stores"), ("prefetch", "prefetches")];
/// Instructions are only written to elsewhere.
const L1_ICACHE_STORE: (usize, usize) = (1, 1);

/// Lists the names of all events that have one, with their kinds and numbers.
///
/// # Source
/// uapi/linux/perf_event.h `perf_hw_id`, `perf_sw_ids`, `perf_hw_cache_id`; perf-list(1)
pub fn all() -> impl Iterator<Item = (Cow<'static, str>, (u32, u64))> {
    let listed = |kind, names: &'static [&'static str]| {
        (0..).zip(names).map(move |(config, name)| (Cow::Borrowed(*name), (kind, config)))
    };
    listed(kind::HARDWARE, &HARDWARE).chain(listed(kind::SOFTWARE, &SOFTWARE)).chain(caches())
}

/// Lists the names of the counters of caches. Their numbers are `cache | operation << 8 | missed << 16`.
fn caches() -> impl Iterator<Item = (Cow<'static, str>, (u32, u64))> {
    let counted = CACHES.iter().enumerate().flat_map(|(cache, (name, operations))| {
        OPERATIONS.iter().take(*operations).enumerate().map(move |(op, words)| (cache, op, name, words))
    });
    counted.filter(|(cache, op, ..)| (*cache, *op) != L1_ICACHE_STORE).flat_map(
        |(cache, op, name, (one, many))| {
            let config = cache as u64 | (op as u64) << 8;
            [(format!("{name}-{many}"), config), (format!("{name}-{one}-misses"), config | 1 << 16)]
                .map(|(name, config)| (Cow::Owned(name), (kind::CACHE, config)))
        },
    )
}

/// Finds the kind and the number of an event by its name or one of its aliases, without modifiers.
pub fn find(name: &str) -> Option<(u32, u64)> {
    let name = usual(name);
    all().find_map(|(known, event)| (known == name).then_some(event))
}

/// Finds the name of an event; `None` if only its processor or its kernel knows one.
pub fn name(kind: u32, config: u64) -> Option<Cow<'static, str>> {
    all().find_map(|(name, event)| (event == (kind, config)).then_some(name))
}

/// Returns the name that stands for all names of an event, and another name as it is.
pub fn usual(name: &str) -> &str {
    ALIASES.iter().find_map(|(alias, usual)| (*alias == name).then_some(*usual)).unwrap_or(name)
}

/// Returns true if an event of this name is a tracepoint: `CATEGORY:NAME`. The names of probes begin with what they are, and a counter
/// has its modifiers behind the colon.
pub fn is_tracepoint(name: &str) -> bool {
    const PROBES: [&str; 7] = ["uprobe", "uretprobe", "usdt", "kprobe", "kretprobe", "fentry", "fexit"];
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let is_raw = |part: &str| {
        part.strip_prefix('r').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    name.split_once(':').is_some_and(|(category, name)| {
        is_word(category)
            && is_word(name)
            && !PROBES.contains(&category)
            && find(category).is_none()
            && !is_raw(category)
    })
}

/// Lists the aliases.
pub fn aliases() -> impl Iterator<Item = &'static str> {
    ALIASES.iter().map(|(alias, _)| *alias)
}

/// Returns the unit of the weights of an event; `called` is its name with modifiers, as its recorder wrote it.
pub fn unit(kind: u32, config: u64, called: &str) -> Cow<'static, str> {
    match name(kind, config) {
        Some(Cow::Borrowed("cpu-clock" | "task-clock")) => "ns".into(),
        Some(name) => name,
        None if kind == kind::TRACEPOINT => UNIT.into(),
        None => called.split([':', '/']).find(|part| !part.is_empty()).unwrap_or(UNIT).to_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracepoints_are_told_from_counters_and_probes_by_name() {
        for name in ["sched:sched_switch", "syscalls:sys_enter_write", "irq_vectors:local_timer_entry", "u:u"]
        {
            assert!(is_tracepoint(name), "{name}");
        }
        for name in [
            "cycles",
            "cycles:u",
            "cs:k",
            "r01c2:u",
            "uprobe:/bin/x:f",
            "kprobe:vfs_read",
            "fexit:f",
            "usdt:a:b:c",
            ":a",
            "a:",
        ] {
            assert!(!is_tracepoint(name), "{name}");
        }
    }

    #[test]
    fn names_and_numbers_lead_to_each_other() {
        let mut names: Vec<_> = all().collect();
        assert_eq!(names.len(), 10 + 9 + 2 * (3 + 2 + 3 + 3 + 1 + 1 + 3));
        for (known, event) in &names {
            assert_eq!((find(known), name(event.0, event.1).as_ref()), (Some(*event), Some(known)));
        }
        names.sort_unstable();
        names.dedup_by(|a, b| a.0 == b.0 || a.1 == b.1);
        assert_eq!(names.len(), all().count(), "each once");
        for alias in aliases() {
            assert!(find(alias).is_some() && all().all(|(name, _)| name != alias), "{alias}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_kernel() {
        for (name, event) in [
            ("cycles", (0, 0)),
            ("cpu-cycles", (0, 0)),
            ("ref-cycles", (0, 9)),
            ("cs", (1, 3)),
            ("emulation-faults", (1, 8)),
            ("L1-dcache-loads", (3, 0)),
            ("L1-dcache-load-misses", (3, 0x10000)),
            ("LLC-store-misses", (3, 0x10102)),
            ("iTLB-load-misses", (3, 0x10004)),
            ("branch-loads", (3, 5)),
            ("node-prefetches", (3, 0x206)),
        ] {
            assert_eq!(find(name), Some(event), "{name}");
        }
        for wrong in ["", "Cycles", "L1-icache-stores", "iTLB-stores", "bpf-output", "dummy"] {
            assert_eq!(find(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn units_are_times_or_names() {
        for (kind, config, called, named) in [
            (kind::SOFTWARE, 1, "task-clock:u", "ns"),
            (kind::HARDWARE, 0, "cycles:P", "cycles"),
            (kind::CACHE, 0x10000, "L1-dcache-load-misses:u", "L1-dcache-load-misses"),
            (kind::TRACEPOINT, 77, "sched:sched_switch", "events"),
            (kind::RAW, 0x1c2, "r1c2:pp", "r1c2"),
            (9, 5, "", "events"),
        ] {
            assert_eq!(unit(kind, config, called), named);
        }
    }
}
