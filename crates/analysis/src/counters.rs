//! Counters over time: the values of each owner as series, rates and levels in buckets of time.
//!
//! ```text
//! a sum     v₀ ────────── v₁ ── v₂      the difference of two readings is spread over the time between them
//! a level   v₀══════════╗ v₁══╗ v₂═     a value holds until the next reading, or the end of its owner
//! buckets   │     │     │     │     │
//! ```

use std::collections::BTreeMap;

use icecore_format::records::{Change, Counter, Growth, Owner, Task};

use icecore_profile::map::Map;
use icecore_profile::recording::load::Tables;
use icecore_profile::stacks::hits::Selection;

/// The counters of one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The number of its session; of several the first.
    pub part: u32,
    /// Whose they are.
    pub of: Of,
    /// When it was forked, if that is in the recording: its sums began at 0 then.
    pub born_ns: Option<u64>,
    /// When it ended, if that is in the recording.
    pub ended_ns: Option<u64>,
    /// The ends of those sessions after which nobody recorded the host, in the order of time. A level holds no longer than that.
    pub breaks_ns: Vec<u64>,
    /// Values by counter, each with its time, ns on the common clock, in the order of time.
    pub values: BTreeMap<Counter, Vec<(u64, u64)>>,
}

/// Whose counters they are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// The machine of a session.
    Machine,
    /// A process.
    Process {
        /// Its number on its machine.
        tgid: u32,
        /// Its last name in the recording.
        comm: String,
    },
    /// A cgroup.
    Cgroup {
        /// Its path; `?` if it is lost.
        path: String,
    },
}

/// Identifies an owner: session, kind, number, and which of the processes that had this number.
type Key = (u32, u8, u32, u64);

/// Identifies a process of several sessions that follow each other without a gap: the first of these, and its number on its machine.
type Ongoing = (u32, u32);

/// Collects the counters that a selection admits, by owner: machines, processes, cgroups. Values before and after its times are
/// there, too, because they say what happened in between.
///
/// Machines and cgroups of one boot are the same in all of its sessions. A process is the same in two sessions if there is no gap
/// between these, and neither its end nor its fork: then nobody else can have got its number.
pub fn counted(selection: &Selection<'_>) -> Vec<Counted> {
    let tables = selection.tables;
    let lives = Lives::new(tables);
    let breaks_ns = breaks_ns(tables);
    let mut by_owner: BTreeMap<Key, Counted> = BTreeMap::new();
    for (part, row) in tables.counters.iter().filter(|(part, row)| selection.wants_owner(*part, row)) {
        let (kind, id, born_ns, ended_ns) = match row.owner {
            Owner::Machine => (0, 0, None, None),
            Owner::Process(tgid) => {
                let (born_ns, ended_ns) = lives.around(tgid, row.time_ns);
                (1, tgid, born_ns, ended_ns)
            }
            Owner::Cgroup(path) => (2, path, None, None),
            Owner::Other(..) => continue,
        };
        let part = if kind == 0 { tables.parts.part(*part).boot() } else { *part };
        let counted = by_owner.entry((part, kind, id, born_ns.unwrap_or(0))).or_insert_with(|| Counted {
            part,
            of: Of::Machine,
            born_ns,
            ended_ns,
            breaks_ns: breaks_ns.get(&tables.parts.part(part).boot()).cloned().unwrap_or_default(),
            values: BTreeMap::new(),
        });
        counted.values.entry(row.counter).or_default().push((row.time_ns, row.value));
    }
    let mut all = Vec::new();
    // Blocks may overlap in time, and a path may have had several ids.
    let mut paths: BTreeMap<(u32, String), usize> = BTreeMap::new();
    let mut ongoing: BTreeMap<Ongoing, usize> = BTreeMap::new();
    for ((part, kind, id, _), mut counted) in in_time(by_owner, tables) {
        let known = match kind {
            0 => None,
            1 => {
                counted.of = process(selection, id, &counted);
                let key = (tables.parts.part(part).chain(), tables.parts.pid(id));
                let known = ongoing.insert(key, all.len()).filter(|_| counted.born_ns.is_none());
                known.filter(|known| goes_on(&all[*known], part)).inspect(|known| {
                    ongoing.insert(key, *known);
                })
            }
            _ => {
                let path = tables.text(id).to_owned();
                counted.of = Of::Cgroup { path: path.clone() };
                let key = (tables.parts.part(part).boot(), path);
                let known = paths.get(&key).copied();
                known.or_else(|| paths.insert(key, all.len()))
            }
        };
        match known {
            Some(known) => all[known].absorb(counted),
            None => all.push(counted),
        }
    }
    for counted in &mut all {
        for values in counted.values.values_mut() {
            values.sort_unstable();
            values.dedup_by_key(|(time_ns, _)| *time_ns);
        }
    }
    all.sort_by_key(|counted| (!matches!(counted.of, Of::Machine), counted.part));
    all
}

/// Returns, by boot, the ends of those sessions after which nobody recorded; nothing if there is one session.
fn breaks_ns(tables: &Tables) -> BTreeMap<u32, Vec<u64>> {
    let parts = &tables.parts;
    let mut ends: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    if parts.len() > 1 {
        for (part, run) in parts.iter().zip(parts.runs()) {
            let end_ns = ends.entry((part.boot(), part.chain())).or_default();
            *end_ns = (*end_ns).max(part.time_ns(run.end_ns));
        }
    }
    let mut breaks: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    ends.into_iter().for_each(|((boot, _), end_ns)| breaks.entry(boot).or_default().push(end_ns));
    breaks.values_mut().for_each(|of_boot| of_boot.sort_unstable());
    breaks
}

/// Puts owners into the order of their sessions' starts.
fn in_time(by_owner: BTreeMap<Key, Counted>, tables: &Tables) -> Vec<(Key, Counted)> {
    let mut owners: Vec<(Key, Counted)> = by_owner.into_iter().collect();
    let start_ns = |part: u32| {
        let part = tables.parts.part(part);
        part.time_ns(part.start_ns())
    };
    owners.sort_by_key(|((part, ..), _)| start_ns(*part));
    owners
}

/// Returns true if a process that a session does not fork may be this one of an earlier session: it has not ended.
fn goes_on(earlier: &Counted, part: u32) -> bool {
    earlier.part != part && earlier.ended_ns.is_none()
}

/// Names a process as it was called at its last value.
fn process(selection: &Selection<'_>, tgid: u32, counted: &Counted) -> Of {
    let Selection { tables, spaces, .. } = selection;
    let last_ns =
        counted.values.values().filter_map(|values| values.last()).map(|(time_ns, _)| *time_ns).max();
    let task = Task { tgid, tid: tgid, comm: 0 };
    let space = spaces.space(tgid, last_ns.unwrap_or(0));
    Of::Process { tgid: tables.parts.pid(tgid), comm: selection.process_name(&task, space).to_owned() }
}

/// When processes began and ended.
struct Lives {
    /// Times of forks and ends by process, in the order of time.
    births: Map<u32, Vec<u64>>,
    ends: Map<u32, Vec<u64>>,
}

impl Lives {
    fn new(tables: &Tables) -> Self {
        let mut lives = Self { births: Map::default(), ends: Map::default() };
        for row in &tables.lifecycle {
            if row.change == Change::FORK && row.parent_tgid != row.tgid {
                lives.births.entry(row.tgid).or_default().push(row.time_ns);
            } else if row.change == Change::EXIT {
                // Also that of each thread: the last of them is that of the process.
                lives.ends.entry(row.tgid).or_default().push(row.time_ns);
            }
        }
        for times in lives.births.values_mut().chain(lives.ends.values_mut()) {
            times.sort_unstable();
        }
        lives
    }

    /// Returns when the process that had a number at a moment began and ended.
    fn around(&self, tgid: u32, time_ns: u64) -> (Option<u64>, Option<u64>) {
        let births = self.births.get(&tgid).map_or(&[][..], Vec::as_slice);
        let after = births.partition_point(|birth| *birth <= time_ns);
        let born_ns = after.checked_sub(1).map(|last| births[last]);
        let until_ns = births.get(after).copied().unwrap_or(u64::MAX);
        let from_ns = born_ns.unwrap_or(0);
        let ends = self.ends.get(&tgid).into_iter().flatten();
        (born_ns, ends.copied().filter(|end| (from_ns..until_ns).contains(end)).max())
    }
}

impl Counted {
    /// Adds what a later session says of the same owner.
    fn absorb(&mut self, later: Self) {
        (self.of, self.ended_ns) = (later.of, later.ended_ns);
        for (counter, values) in later.values {
            self.values.entry(counter).or_default().extend(values);
        }
    }

    /// The largest value of a counter.
    pub fn most(&self, counter: Counter) -> Option<u64> {
        self.values.get(&counter)?.iter().map(|(_, value)| *value).max()
    }

    /// What a sum grew by from a moment to another, as far as readings say.
    pub fn grew(&self, counter: Counter, from_ns: u64, to_ns: u64) -> Option<f64> {
        let [grew] = self.sums(counter, &[from_ns, to_ns])[..] else { return None };
        grew
    }

    /// Returns the value of a counter in each bucket of time between two edges: of a sum its growth per second, of a level its mean.
    /// `None` where nothing is known.
    pub fn in_buckets(&self, counter: Counter, edges: &[u64]) -> Vec<Option<f64>> {
        match counter.growth() {
            Some(Growth::Sum) => {
                let seconds = |edges: &[u64]| edges[1].saturating_sub(edges[0]).max(1) as f64 / 1e9;
                let sums = self.sums(counter, edges).into_iter().zip(edges.windows(2));
                sums.map(|(sum, edges)| Some(sum? / seconds(edges))).collect()
            }
            Some(Growth::Level) => self.levels(counter, edges),
            None => vec![None; edges.len().saturating_sub(1)],
        }
    }

    fn sums(&self, counter: Counter, edges: &[u64]) -> Vec<Option<f64>> {
        let mut buckets = Buckets::new(edges);
        let values = self.values.get(&counter).map_or(&[][..], Vec::as_slice);
        let first = self.born_ns.zip(values.first()).map(|(born_ns, first)| [(born_ns, 0), *first]);
        let born = first.iter().map(|pair| &pair[..]);
        for pair in born.chain(values.windows(2)) {
            let [(from_ns, before), (to_ns, after)] = *pair else { continue };
            // A reading at the end of a process may lack a little that a reading before had.
            let grew = after.saturating_sub(before) as f64;
            let len_ns = to_ns.saturating_sub(from_ns).max(1) as f64;
            buckets.add(from_ns, to_ns.max(from_ns + 1), |overlap_ns| grew * overlap_ns / len_ns);
        }
        buckets.sums()
    }

    fn levels(&self, counter: Counter, edges: &[u64]) -> Vec<Option<f64>> {
        let mut buckets = Buckets::new(edges);
        let values = self.values.get(&counter).map_or(&[][..], Vec::as_slice);
        for (position, (from_ns, value)) in values.iter().enumerate() {
            let next_ns = values.get(position + 1).map(|(next_ns, _)| *next_ns);
            let to_ns = next_ns.or(self.ended_ns).unwrap_or(u64::MAX);
            let broken = self.breaks_ns.partition_point(|end_ns| end_ns < from_ns);
            let to_ns = self.breaks_ns.get(broken).map_or(to_ns, |end_ns| to_ns.min(*end_ns));
            buckets.add(*from_ns, to_ns, |overlap_ns| *value as f64 * overlap_ns);
        }
        buckets.means()
    }
}

/// Sums and covered time of buckets of time.
struct Buckets<'a> {
    edges: &'a [u64],
    sums: Vec<(f64, f64)>,
}

impl<'a> Buckets<'a> {
    fn new(edges: &'a [u64]) -> Self {
        Self { edges, sums: vec![(0.0, 0.0); edges.len().saturating_sub(1)] }
    }

    /// Adds to each bucket what `amount` says of the time, ns, that it shares with a stretch.
    fn add(&mut self, from_ns: u64, to_ns: u64, amount: impl Fn(f64) -> f64) {
        let first = self.edges.partition_point(|edge| *edge <= from_ns).saturating_sub(1);
        for (position, sum) in self.sums.iter_mut().enumerate().skip(first) {
            let (begin_ns, end_ns) = (self.edges[position].max(from_ns), self.edges[position + 1].min(to_ns));
            if self.edges[position] >= to_ns {
                break;
            }
            let overlap_ns = end_ns.saturating_sub(begin_ns) as f64;
            if overlap_ns > 0.0 {
                sum.0 += amount(overlap_ns);
                sum.1 += overlap_ns;
            }
        }
    }

    fn sums(self) -> Vec<Option<f64>> {
        self.sums.into_iter().map(|(sum, covered)| (covered > 0.0).then_some(sum)).collect()
    }

    fn means(self) -> Vec<Option<f64>> {
        self.sums.into_iter().map(|(sum, covered)| (covered > 0.0).then_some(sum / covered)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counter: Counter, values: &[(u64, u64)]) -> Counted {
        Counted {
            part: 0,
            of: Of::Machine,
            born_ns: None,
            ended_ns: None,
            breaks_ns: Vec::new(),
            values: [(counter, values.to_vec())].into(),
        }
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_sum_is_spread_over_the_time_between_two_readings() {
        let edges = [0, S, 2 * S, 3 * S, 4 * S];
        let one = counted(Counter::SWITCHES, &[(S / 2, 100), (5 * S / 2, 300)]);
        let rates = one.in_buckets(Counter::SWITCHES, &edges);
        assert_eq!(rates, [Some(50.0), Some(100.0), Some(50.0), None]);
        assert_eq!(one.grew(Counter::SWITCHES, 0, 4 * S), Some(200.0));
        assert_eq!(one.grew(Counter::CPU, 0, 4 * S), None);
        let forked = Counted { born_ns: Some(0), ..one };
        assert_eq!(forked.in_buckets(Counter::SWITCHES, &edges)[0], Some(150.0), "all since its fork");
    }

    #[test]
    fn a_sum_that_shrinks_grew_by_nothing() {
        let one = counted(Counter::CPU, &[(0, 10), (S, 8), (2 * S, 9)]);
        assert_eq!(one.grew(Counter::CPU, 0, 2 * S), Some(1.0));
    }

    #[test]
    fn a_level_holds_until_the_next_reading_or_the_end() {
        let edges = [0, S, 2 * S, 3 * S, 4 * S];
        let one = counted(Counter::MEMORY, &[(S / 2, 100), (3 * S / 2, 300)]);
        let means = one.in_buckets(Counter::MEMORY, &edges);
        assert_eq!(means, [Some(100.0), Some(200.0), Some(300.0), Some(300.0)]);
        let ended = Counted { ended_ns: Some(5 * S / 2), ..one.clone() };
        assert_eq!(ended.in_buckets(Counter::MEMORY, &edges)[2..], [Some(300.0), None]);
        assert_eq!(one.most(Counter::MEMORY), Some(300));
        let broken = Counted { breaks_ns: vec![S, 2 * S], ..one };
        assert_eq!(broken.in_buckets(Counter::MEMORY, &edges), [Some(100.0), Some(300.0), None, None]);
    }

    #[test]
    fn an_unknown_counter_has_no_values_in_buckets() {
        assert_eq!(counted(Counter(200), &[(0, 1), (1, 2)]).in_buckets(Counter(200), &[0, 5]), [None]);
    }
}
