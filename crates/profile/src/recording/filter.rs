//! Which samples and frames a view is made of.

use std::fmt;
use std::str::FromStr;

use icecore_format::block::Processes;
use icecore_format::records::{Sample, Task};

use super::events::EventChoice;
use icecore_text::glob::is_like;

/// Which samples are kept, decided before anything is named.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Processes; empty: all.
    pub pids: Vec<u32>,
    /// Threads; empty: all.
    pub tids: Vec<u32>,
    /// Names of a thread or of its process, in which `*` and `?` are wildcards; empty: all.
    pub comms: Vec<String>,
    /// Paths of cgroups, which hold those below them; empty: all.
    pub cgroups: Vec<String>,
    /// Exact names of hosts; empty: all.
    pub hosts: Vec<String>,
    /// Events.
    pub events: EventChoice,
    /// CPUs; empty: all.
    pub cpus: Vec<Cpus>,
    /// First moment, after the start of the session (the earliest of several).
    pub from: Option<Moment>,
    /// Moment behind the last.
    pub to: Option<Moment>,
    /// Which frames are kept.
    pub sides: Sides,
    /// Waits of kernel threads without work are left out.
    pub skips_idle: bool,
    /// Stacks of tracepoints are shown without the kernel's functions of tracing.
    pub skips_tracing: bool,
}

/// Which frames of a stack are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sides {
    /// User and kernel.
    #[default]
    Both,
    /// User frames only.
    User,
    /// Kernel frames only.
    Kernel,
}

/// One item of a list of CPUs: `3` or `0-7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpus {
    first: u16,
    last: u16,
}

/// A moment after the start of the session: `1.5`, `500ms`, `2s`, `1m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds after the start.
    pub ns: u64,
}

impl Filter {
    /// Tells whether nothing is asked for but processes, threads, times and events: all that these ran is wanted then, if the
    /// events tell it.
    pub fn is_of_threads_and_times(&self) -> bool {
        let Self { comms, cgroups, hosts, cpus, sides, .. } = self;
        [comms, cgroups, hosts].into_iter().all(Vec::is_empty) && cpus.is_empty() && *sides == Sides::Both
    }

    /// Tells whether a thread is wanted by its numbers.
    pub fn wants_ids(&self, task: &Task) -> bool {
        let among = |list: &[u32], id: u32| list.is_empty() || list.contains(&id);
        among(&self.pids, task.tgid) && among(&self.tids, task.tid)
    }

    /// Tells whether a thread is wanted by its name or that of its process.
    pub fn wants_name(&self, comm: &str, process: &str) -> bool {
        self.comms.is_empty() || self.comms.iter().any(|name| is_like(name, comm) || is_like(name, process))
    }

    /// Tells whether a host is wanted; its name is looked up only if it matters.
    pub fn wants_host<'a>(&self, name: impl Fn() -> &'a str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|host| host == name())
    }

    /// Tells whether a sample is wanted for where and when it was taken.
    pub fn wants_sample(&self, sample: &Sample, start_ns: u64) -> bool {
        let after_ns = sample.time_ns.saturating_sub(start_ns);
        self.from.is_none_or(|from| after_ns >= from.ns && sample.time_ns >= start_ns)
            && self.to.is_none_or(|to| after_ns < to.ns)
            && (self.cpus.is_empty() || self.cpus.iter().any(|cpus| cpus.has(sample.cpu)))
    }

    /// Tells whether a block may hold a wanted sample, by its times and processes.
    pub fn wants_block(&self, span_ns: (u64, u64), processes: Processes, start_ns: u64) -> bool {
        let ends_before = self.from.is_some_and(|from| span_ns.1 < start_ns.saturating_add(from.ns));
        let begins_behind = self.to.is_some_and(|to| span_ns.0 >= start_ns.saturating_add(to.ns));
        let may_hold = |pid: &u32| processes.may_hold(*pid);
        !ends_before && !begins_behind && (self.pids.is_empty() || self.pids.iter().any(may_hold))
    }

    /// Tells whether blocks can be skipped by [`Filter::wants_block`].
    pub fn skips_blocks(&self) -> bool {
        self.from.is_some() || self.to.is_some() || !self.pids.is_empty()
    }

    /// Says what is kept, for people; `None` if everything is.
    pub fn describe(&self) -> Option<String> {
        fn list(name: &str, items: &[impl fmt::Display]) -> Option<String> {
            let items: Vec<String> = items.iter().map(ToString::to_string).collect();
            (!items.is_empty()).then(|| format!("{name} {}", items.join(",")))
        }
        let side = match self.sides {
            Sides::Both => None,
            Sides::User => Some("user frames only".to_owned()),
            Sides::Kernel => Some("kernel frames only".to_owned()),
        };
        let parts = [
            list("pid", &self.pids),
            list("tid", &self.tids),
            list("comm", &self.comms),
            list("cgroup", &self.cgroups),
            list("host", &self.hosts),
            list("event", self.events.names()),
            list("cpu", &self.cpus),
            self.from.map(|from| format!("from {from}")),
            self.to.map(|to| format!("to {to}")),
            side,
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl Cpus {
    /// Returns true if a CPU is among these.
    pub fn has(self, cpu: u16) -> bool {
        (self.first..=self.last).contains(&cpu)
    }
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u16>().map_err(|e| e.to_string());
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(text)?, number(text)?),
        };
        if first > last {
            return Err(format!("{first} is behind {last}"));
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9)];
        let unit = UNITS.iter().find_map(|(name, ns)| Some((text.strip_suffix(name)?, *ns)));
        let (number, ns) = unit.unwrap_or((text, 1e9));
        let value: f64 = number.trim().parse().map_err(|_| "use seconds, or 500ms, 2s, 1m".to_owned())?;
        let ns = value * ns;
        if !(0.0..1e18).contains(&ns) {
            return Err("must lie between 0 and 30 years".to_owned());
        }
        Ok(Self { ns: ns.round() as u64 })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.ns as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use icecore_format::records::{StackRepair, WalkEnd};

    use super::*;

    #[test]
    fn moments_are_seconds_or_carry_their_unit() {
        let ns = |text: &str| text.parse::<Moment>().map(|m| m.ns);
        assert_eq!(ns("1.5"), Ok(1_500_000_000));
        assert_eq!(ns("500ms"), Ok(500_000_000));
        assert_eq!(ns("2s"), Ok(2_000_000_000));
        assert_eq!(ns("1m"), Ok(60_000_000_000));
        assert_eq!(ns("7us"), Ok(7_000));
        for bad in ["", "x", "-1", "nan", "inf", "1e300"] {
            assert!(ns(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!("2-3".parse(), Ok(Cpus { first: 2, last: 3 }));
        assert_eq!("7".parse(), Ok(Cpus { first: 7, last: 7 }));
        for bad in ["3-2", "", "-", "70000", "a"] {
            assert!(bad.parse::<Cpus>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_may_be_the_threads_or_its_processes() {
        let filter = Filter { comms: vec!["rustc".into()], pids: vec![4], ..Filter::default() };
        assert!(filter.wants_name("opt cgu.0", "rustc"));
        assert!(filter.wants_name("rustc", "x"));
        assert!(!filter.wants_name("rust", "rustc2"));
        assert!(Filter::default().wants_name("any", "name"));
        let task = Task { tgid: 4, tid: 5, comm: 0 };
        assert!(filter.wants_ids(&task) && !filter.wants_ids(&Task { tgid: 5, ..task }));
    }

    #[test]
    fn blocks_are_skipped_by_time_and_process() {
        let processes = Processes::NONE.with(4);
        let times =
            Filter { from: Some(Moment { ns: 10 }), to: Some(Moment { ns: 20 }), ..Filter::default() };
        let kept = [(100, 109), (100, 110), (119, 130), (120, 130)]
            .map(|span_ns| times.wants_block(span_ns, processes, 100));
        assert_eq!(kept, [false, true, true, false]);
        let pids = |pids| Filter { pids, ..Filter::default() }.wants_block((0, 0), processes, 0);
        assert_eq!([pids(vec![]), pids(vec![5, 4]), pids(vec![5])], [true, true, false]);
    }

    #[test]
    fn the_first_moment_is_kept_and_the_last_is_not() {
        let sample = |time_ns, cpu| Sample {
            time_ns,
            cpu,
            event: 0,
            user_end: WalkEnd::NONE,
            kernel_end: WalkEnd::NONE,
            task: 0,
            user_stack: 0,
            kernel_stack: 0,
            weight: 1,
            snapshot: 0,
            repair: StackRepair::NONE,
        };
        let filter = Filter {
            from: Some(Moment { ns: 10 }),
            to: Some(Moment { ns: 20 }),
            cpus: vec![Cpus { first: 1, last: 2 }],
            ..Filter::default()
        };
        let kept: Vec<u64> = [99, 109, 110, 119, 120]
            .into_iter()
            .filter(|t| filter.wants_sample(&sample(*t, 2), 100))
            .collect();
        assert_eq!(kept, [110, 119]);
        assert!(!filter.wants_sample(&sample(115, 3), 100));
    }
}
