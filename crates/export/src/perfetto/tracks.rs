//! Tracks: those of processes, threads and counters.

use std::collections::{BTreeMap, BTreeSet};

use icecore_analysis::counters::{Counted, Of};
use icecore_format::records::{Counter, Growth};
use icecore_profile::map::Map;

use super::messages::{CounterDescriptor, ProcessDescriptor, ThreadDescriptor, TrackDescriptor};
use crate::exported::Exported;

/// What a track is of. Machines are positions among the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Track {
    /// The recording.
    Recording,
    /// A process of a machine.
    Process(u32, u32),
    /// A thread of a process of a machine.
    Thread(u32, u32, u32),
    /// The counters of an owner, a position among these.
    Owner(u32),
    /// A counter of an owner.
    Counter(u32, u8),
}

/// The numbers of all tracks.
pub(super) struct Tracks {
    uuids: Map<Track, u64>,
    /// Processes by machine and id.
    processes: BTreeMap<(u32, u32), Process>,
}

/// A process, and what it was called.
#[derive(Debug, Default)]
struct Process {
    name: Name,
    cgroups: BTreeSet<String>,
    threads: BTreeMap<u32, Name>,
}

/// When a name was seen, and the name: the latest one stays.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Name(u64, String);

impl Name {
    fn see(&mut self, time_ns: u64, name: &str) {
        if (time_ns, name) > (self.0, &self.1) {
            *self = Self(time_ns, name.to_owned());
        }
    }
}

impl Tracks {
    /// Numbers the tracks of all threads with samples, and of the owners of counters.
    pub(super) fn new(of: &Exported<'_>, owners: &[Counted]) -> Self {
        let loaded = of.report.loaded;
        let mut processes: BTreeMap<(u32, u32), Process> = BTreeMap::new();
        for row in &of.report.profile.rows {
            let thread = of.thread(row);
            let process = processes.entry((of.part(thread).host as u32, thread.tgid)).or_default();
            process.name.see(row.span_ns.1, &thread.process);
            process.threads.entry(thread.tid).or_default().see(row.span_ns.1, &thread.comm);
            process.cgroups.extend(loaded.cgroups.path(thread.cgroup).map(str::to_owned));
        }
        for owner in owners {
            if let Of::Process { tgid, comm } = &owner.of {
                let machine = loaded.tables.parts.part(owner.part).host as u32;
                processes.entry((machine, *tgid)).or_default().name.see(0, comm);
            }
        }
        let mut tracks = Self { uuids: Map::default(), processes };
        tracks.number(owners);
        tracks
    }

    fn number(&mut self, owners: &[Counted]) {
        let mut all = vec![Track::Recording];
        for ((machine, tgid), process) in &self.processes {
            all.push(Track::Process(*machine, *tgid));
            all.extend(process.threads.keys().map(|tid| Track::Thread(*machine, *tgid, *tid)));
        }
        for (number, owner) in (0u32..).zip(owners) {
            all.push(Track::Owner(number));
            all.extend(owner.values.keys().map(|counter| Track::Counter(number, counter.0)));
        }
        self.uuids = all.into_iter().zip(1..).collect();
    }

    /// Returns the number of a track; 0, which is no track, if nothing describes it.
    pub(super) fn uuid(&self, track: Track) -> u64 {
        self.uuids.get(&track).copied().unwrap_or(0)
    }

    /// Lists the counters of an owner whose meaning is known, and their tracks.
    pub(super) fn counters(&self, number: u32, owner: &Counted) -> Vec<(Counter, u64)> {
        let known = owner.values.keys().copied().filter(|counter| counter.growth().is_some());
        known.map(|counter| (counter, self.uuid(Track::Counter(number, counter.0)))).collect()
    }

    /// Describes all tracks, each with its machine; a parent comes before its children.
    pub(super) fn descriptors(&self, of: &Exported<'_>, owners: &[Counted]) -> Vec<(u32, TrackDescriptor)> {
        let mut all = vec![(0, self.recording(of))];
        for ((machine, tgid), process) in &self.processes {
            all.push((*machine, self.process((*machine, *tgid), process)));
            for (tid, name) in &process.threads {
                all.push((*machine, self.thread((*machine, *tgid, *tid), name)));
            }
        }
        let parts = &of.report.loaded.tables.parts;
        for (number, owner) in (0u32..).zip(owners) {
            let part = parts.part(owner.part);
            let machine = part.host as u32;
            let group = |name: &str| TrackDescriptor {
                uuid: self.uuid(Track::Owner(number)),
                name: name.to_owned(),
                ..TrackDescriptor::default()
            };
            let parent = match &owner.of {
                Of::Process { tgid, .. } => self.uuid(Track::Process(machine, *tgid)),
                Of::Machine => {
                    all.push((machine, group(&format!("counters of {}", part.session.host))));
                    self.uuid(Track::Owner(number))
                }
                Of::Cgroup { path } => {
                    all.push((machine, group(&format!("counters of {path}"))));
                    self.uuid(Track::Owner(number))
                }
            };
            let counters = self.counters(number, owner).into_iter();
            all.extend(counters.map(|(counter, uuid)| (machine, described(counter, uuid, parent))));
        }
        all
    }

    fn recording(&self, of: &Exported<'_>) -> TrackDescriptor {
        TrackDescriptor {
            uuid: self.uuid(Track::Recording),
            name: "icecore".to_owned(),
            description: of.remarks().join("\n"),
            ..TrackDescriptor::default()
        }
    }

    fn process(&self, (machine, tgid): (u32, u32), process: &Process) -> TrackDescriptor {
        let labels = process.cgroups.iter().map(|path| format!("cgroup {path}")).collect();
        let descriptor = ProcessDescriptor { pid: Some(pid(tgid)), name: process.name.1.clone(), labels };
        TrackDescriptor {
            uuid: self.uuid(Track::Process(machine, tgid)),
            process: Some(descriptor),
            ..TrackDescriptor::default()
        }
    }

    fn thread(&self, (machine, tgid, tid): (u32, u32, u32), name: &Name) -> TrackDescriptor {
        let descriptor =
            ThreadDescriptor { pid: Some(pid(tgid)), tid: Some(tid.into()), name: name.1.clone() };
        TrackDescriptor {
            uuid: self.uuid(Track::Thread(machine, tgid, tid)),
            parent: self.uuid(Track::Process(machine, tgid)),
            thread: Some(descriptor),
            ..TrackDescriptor::default()
        }
    }
}

/// Describes the track of a counter. Sums stay sums, because only they say what was read; viewers show their rate, too.
fn described(counter: Counter, uuid: u64, parent: u64) -> TrackDescriptor {
    // As the format numbers them.
    let unit = match counter.unit() {
        Some("ns") => 1,
        Some("count") => 2,
        Some("bytes") => 3,
        _ => 0,
    };
    let description = match counter.growth() {
        Some(Growth::Sum) => "everything since its owner began: the rate is what it grows by",
        _ => "what there was at the moment of each reading",
    };
    TrackDescriptor {
        uuid,
        name: counter.name(),
        parent,
        counter: Some(CounterDescriptor { unit }),
        description: description.to_owned(),
        ..TrackDescriptor::default()
    }
}

/// A number of a process as the format has it.
fn pid(tgid: u32) -> i32 {
    i32::try_from(tgid).unwrap_or(i32::MAX)
}
