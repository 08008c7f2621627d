//! Wall time: what threads ran, and for what they waited.

use std::collections::BTreeMap;

use icecore_profile::named::Amount;
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::events::Meaning;
use icecore_profile::stacks::waits::kinds::{Kinds, WaitKind};

/// The time that threads lived, by what they did. Threads without any sample are not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WallTime {
    /// What they ran; `None` if CPU time was not sampled.
    pub cpu: Option<Amount>,
    /// What they waited, by kind.
    pub waits: BTreeMap<WaitKind, Amount>,
    /// What kernel threads without work waited, if that is not among `waits`.
    pub idle: Amount,
}

impl WallTime {
    /// Adds up the wall time of all threads that filters select, whatever events are requested. Returns `None` if a session has no
    /// waits, so that shares would be wrong, with filters by function, which choose parts of it, and if 64 bits do not hold the sum in ns.
    pub fn new(report: &Report<'_>) -> Option<Self> {
        let loaded = report.loaded;
        let sessions = loaded.tables.parts.iter();
        let waits = |meaning| move |event| Meaning::of(event) == meaning;
        let mut sessions = sessions.map(|part| &part.session.events);
        let all_wait = sessions.all(|events| events.iter().any(waits(Meaning::Wait)));
        if !all_wait || !loaded.patterns.are_none() || loaded.hits.seen.shift > 0 {
            return None;
        }
        let has_cpu_time = loaded.tables.parts.events().iter().any(waits(Meaning::CpuTime));
        let kinds = Kinds::new(&loaded.tables);
        let mut wall =
            Self { cpu: has_cpu_time.then(Amount::default), waits: BTreeMap::new(), idle: Amount::default() };
        for sum in &loaded.hits.wall {
            let amount = Amount { samples: sum.samples, weight: sum.weight };
            match (loaded.waits.facts(sum.wait), &mut wall.cpu) {
                (Some(facts), _) => match kinds.of(facts, sum.kernel) {
                    WaitKind::IdleKernelThread if loaded.filter.skips_idle => wall.idle.add(amount),
                    kind => wall.waits.entry(kind).or_default().add(amount),
                },
                (None, Some(cpu)) => cpu.add(amount),
                (None, None) => {}
            }
        }
        Some(wall)
    }

    /// Adds up everything but [`idle`](Self::idle).
    pub fn whole(&self) -> Amount {
        let mut whole = self.cpu.unwrap_or_default();
        self.waits.values().for_each(|amount| whole.add(*amount));
        whole
    }
}
