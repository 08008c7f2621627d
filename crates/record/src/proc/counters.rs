//! The counters of the machine and of cgroups, as `/proc` and cgroup2 have them.

use std::fs;
use std::path::Path;

use icecore_format::records::Counter;

/// The unit of times in `/proc/stat`, ns: `USER_HZ` is 100 on all machines.
const TICK_NS: u64 = 10_000_000;
/// The unit of pressures and of times of cgroups, ns.
const MICROSECOND_NS: u64 = 1_000;
/// The unit of sizes in `/proc/meminfo` and `/proc/vmstat`, bytes.
const KIB: u64 = 1 << 10;

/// Values of counters.
pub(crate) type Values = Vec<(Counter, u64)>;

/// Resources with pressure, with the counters of the lines `some` and `full`.
const PRESSURES: [(&str, Counter, Counter); 3] = [
    ("cpu", Counter::CPU_PRESSURE, Counter::CPU_PRESSURE_ALL),
    ("memory", Counter::MEMORY_PRESSURE, Counter::MEMORY_PRESSURE_ALL),
    ("io", Counter::IO_PRESSURE, Counter::IO_PRESSURE_ALL),
];

/// Reads the counters of the machine. A file that does not exist has no values.
pub(crate) fn machine() -> Values {
    machine_from(|name| fs::read_to_string(Path::new("/proc").join(name)).ok())
}

fn machine_from(read: impl Fn(&str) -> Option<String>) -> Values {
    let text = |name: &str| read(name).unwrap_or_default();
    let mut values = stat(&text("stat"));
    values.extend(memory(&text("meminfo")));
    values.extend(events(&text("vmstat")));
    values.extend(threads(&text("loadavg")).map(|threads| (Counter::THREADS, threads)));
    for (resource, some, all) in PRESSURES {
        values.extend(pressure(&text(&format!("pressure/{resource}")), some, all));
    }
    values
}

/// Reads the counters of a cgroup of cgroup2. A file that does not exist, because its controller is not enabled, has no values.
pub(crate) fn cgroup(folder: &Path) -> Values {
    cgroup_from(|name| fs::read_to_string(folder.join(name)).ok())
}

fn cgroup_from(read: impl Fn(&str) -> Option<String>) -> Values {
    let text = |name: &str| read(name).unwrap_or_default();
    let mut values = Values::new();
    let times = text("cpu.stat");
    for (name, counter) in
        [("usage_usec", Counter::CPU), ("user_usec", Counter::CPU_USER), ("system_usec", Counter::CPU_SYSTEM)]
    {
        values.extend(field(&times, name).map(|us| (counter, us.saturating_mul(MICROSECOND_NS))));
    }
    for (name, counter) in [
        ("memory.current", Counter::MEMORY),
        ("memory.peak", Counter::MEMORY_PEAK),
        ("pids.current", Counter::THREADS),
    ] {
        values.extend(text(name).trim().parse().map(|value| (counter, value)));
    }
    values.extend(faults(&text("memory.stat")));
    let disks = text("io.stat");
    let sum = |key: &str| {
        let words = disks.split_ascii_whitespace().filter_map(|word| word.strip_prefix(key)?.parse().ok());
        words.reduce(u64::saturating_add)
    };
    values.extend(sum("rbytes=").map(|bytes| (Counter::DISK_READ, bytes)));
    values.extend(sum("wbytes=").map(|bytes| (Counter::DISK_WRITTEN, bytes)));
    for (resource, some, all) in PRESSURES {
        values.extend(pressure(&text(&format!("{resource}.pressure")), some, all));
    }
    values
}

/// Reads `/proc/stat`.
///
/// # Source
/// proc_stat(5): `cpu` user nice system idle iowait irq softirq steal; the times of guests are in user and nice
fn stat(text: &str) -> Values {
    let mut values = Values::new();
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let ticks: Vec<u64> =
        line.unwrap_or_default().split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    if let [user, nice, system, idle, io_wait, irq, soft_irq, steal, ..] = ticks[..] {
        let ns = |ticks: &[u64]| {
            ticks.iter().fold(0_u64, |sum, ticks| sum.saturating_add(ticks.saturating_mul(TICK_NS)))
        };
        values.extend([
            (Counter::CPU, ns(&[user, nice, system, irq, soft_irq])),
            (Counter::CPU_USER, ns(&[user, nice])),
            (Counter::CPU_SYSTEM, ns(&[system, irq, soft_irq])),
            (Counter::CPU_IDLE, ns(&[idle])),
            (Counter::CPU_IO_WAIT, ns(&[io_wait])),
            (Counter::CPU_STEAL, ns(&[steal])),
        ]);
    }
    for (name, counter) in [
        ("ctxt", Counter::SWITCHES),
        ("procs_running", Counter::RUNNABLE),
        ("procs_blocked", Counter::BLOCKED),
    ] {
        values.extend(field(text, name).map(|value| (counter, value)));
    }
    values
}

/// Reads `/proc/meminfo`.
fn memory(text: &str) -> Values {
    let bytes = |name| field(text, name).map(|kib| kib.saturating_mul(KIB));
    let total = bytes("MemTotal:");
    let used = total.zip(bytes("MemAvailable:")).map(|(total, free)| total.saturating_sub(free));
    let used = used.map(|used| (Counter::MEMORY, used));
    used.into_iter().chain(total.map(|total| (Counter::MEMORY_TOTAL, total))).collect()
}

/// Reads `/proc/vmstat`.
fn events(text: &str) -> Values {
    let mut values = faults(text);
    for (name, counter) in [("pgpgin", Counter::DISK_READ), ("pgpgout", Counter::DISK_WRITTEN)] {
        values.extend(field(text, name).map(|kib| (counter, kib.saturating_mul(KIB))));
    }
    values
}

/// Reads the page faults in `/proc/vmstat` or `memory.stat`.
fn faults(text: &str) -> Values {
    let Some((all, major)) = field(text, "pgfault").zip(field(text, "pgmajfault")) else { return vec![] };
    vec![(Counter::MINOR_FAULTS, all.saturating_sub(major)), (Counter::MAJOR_FAULTS, major)]
}

/// Reads the number of threads in `/proc/loadavg`: that after the `/`.
fn threads(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Reads the totals of a file of pressures.
fn pressure(text: &str, some: Counter, all: Counter) -> Values {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        let total: u64 = line.split_once("total=")?.1.trim().parse().ok()?;
        Some(total.saturating_mul(MICROSECOND_NS))
    };
    let some = total("some").map(|ns| (some, ns));
    some.into_iter().chain(total("full").map(|ns| (all, ns))).collect()
}

/// Finds the number after a name at the begin of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        if words.next() == Some(name) { words.next()?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_its_files_say() {
        let values = machine_from(|name| {
            let text = match name {
                "stat" => {
                    "cpu  100 10 50 1000 7 1 2 3 0 0\ncpu0 1 1 1\nctxt 77\nprocs_running 4\nprocs_blocked 1\n"
                }
                "meminfo" => "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable:  600 kB\n",
                "vmstat" => "pgpgin 5\npgpgout 6\npgfault 90\npgmajfault 20\n",
                "loadavg" => "0.1 0.2 0.3 4/345 999\n",
                "pressure/io" => "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 total=5\n",
                _ => return None,
            };
            Some(text.to_owned())
        });
        let expected = [
            (Counter::CPU, 1_630_000_000),
            (Counter::CPU_USER, 1_100_000_000),
            (Counter::CPU_SYSTEM, 530_000_000),
            (Counter::CPU_IDLE, 10_000_000_000),
            (Counter::CPU_IO_WAIT, 70_000_000),
            (Counter::CPU_STEAL, 30_000_000),
            (Counter::SWITCHES, 77),
            (Counter::RUNNABLE, 4),
            (Counter::BLOCKED, 1),
            (Counter::MEMORY, 400 << 10),
            (Counter::MEMORY_TOTAL, 1000 << 10),
            (Counter::MINOR_FAULTS, 70),
            (Counter::MAJOR_FAULTS, 20),
            (Counter::DISK_READ, 5 << 10),
            (Counter::DISK_WRITTEN, 6 << 10),
            (Counter::THREADS, 345),
            (Counter::IO_PRESSURE, 12_000),
            (Counter::IO_PRESSURE_ALL, 5_000),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn a_cgroup_says_what_its_controllers_say() {
        let values = cgroup_from(|name| {
            let text = match name {
                "cpu.stat" => "usage_usec 9\nuser_usec 5\nsystem_usec 4\n",
                "memory.current" => "4096\n",
                "memory.peak" => "8192\n",
                "memory.stat" => "anon 1\npgfault 3\npgmajfault 1\n",
                "io.stat" => "8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=1 wbytes=2\n",
                "pids.current" => "7\n",
                "cpu.pressure" => "some avg10=0.00 total=1\n",
                _ => return None,
            };
            Some(text.to_owned())
        });
        let expected = [
            (Counter::CPU, 9_000),
            (Counter::CPU_USER, 5_000),
            (Counter::CPU_SYSTEM, 4_000),
            (Counter::MEMORY, 4096),
            (Counter::MEMORY_PEAK, 8192),
            (Counter::THREADS, 7),
            (Counter::MINOR_FAULTS, 2),
            (Counter::MAJOR_FAULTS, 1),
            (Counter::DISK_READ, 11),
            (Counter::DISK_WRITTEN, 22),
            (Counter::CPU_PRESSURE, 1_000),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn files_that_say_something_else_have_no_values() {
        let odd =
            |text: &'static str| (machine_from(|_| Some(text.into())), cgroup_from(|_| Some(text.into())));
        for text in
            ["", "cpu \n", "cpu  1 2 x\nctxt -1\nMemTotal: kB\nsome total=\nfull total=x", "max\n/\n1/2 3"]
        {
            assert_eq!(odd(text), (vec![], vec![]), "{text}");
        }
        assert!(machine().len() > 10, "this machine");
    }
}
