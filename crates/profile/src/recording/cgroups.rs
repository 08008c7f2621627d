//! Replays the changes of cgroups, to find the cgroup of a thread at any moment.

use std::ops::Range;

use icecore_format::records::{Cgroup, Change, Lifecycle};

use crate::map::{Interned, Map};
use crate::recording::load::Tables;

/// Number of a cgroup in [`Cgroups`]; 0 if it is unknown. The numbers of more cgroups would cost memory for each stack.
pub type CgroupId = u16;

/// Where every process and thread was.
#[derive(Debug, Default)]
pub struct Cgroups {
    /// By number, from 1 on.
    paths: Vec<Box<str>>,
    /// By process id; each list is ordered by time.
    processes: Map<u32, Vec<Stay>>,
    /// Threads that were elsewhere than their process, by process and thread id.
    threads: Map<(u32, u32), Vec<Stay<Option<CgroupId>>>>,
}

/// Somewhere from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stay<C = CgroupId> {
    from_ns: u64,
    /// Of threads, `None`: where the process is.
    cgroup: C,
}

impl Cgroups {
    /// Replays rows and the forks between them, which a child begins where its creator is.
    pub fn replay(tables: &Tables) -> Self {
        if tables.cgroups.is_empty() {
            return Self::default();
        }
        let mut rows: Vec<&Cgroup> = tables.cgroups.iter().collect();
        let is_fork = |row: &&Lifecycle| row.change == Change::FORK && row.parent_tgid != row.tgid;
        let mut forks: Vec<&Lifecycle> = tables.lifecycle.iter().filter(is_fork).collect();
        rows.sort_by_key(|row| row.time_ns);
        forks.sort_by_key(|fork| fork.time_ns);
        let mut replay = Replay { paths: Interned::new(), all: Self::default(), apart: Map::default() };
        let mut forks = forks.into_iter().peekable();
        for row in rows {
            while let Some(fork) = forks.next_if(|fork| fork.time_ns <= row.time_ns) {
                replay.fork(fork);
            }
            replay.row(row, tables);
        }
        forks.for_each(|fork| replay.fork(fork));
        Self { paths: replay.paths.into_items(), ..replay.all }
    }

    /// Finds the cgroup of a thread at a moment, and how long it has been and will be in it.
    pub fn stay(&self, tgid: u32, tid: u32, time_ns: u64) -> (CgroupId, Range<u64>) {
        let (own, during_ns) = match self.threads.get(&(tgid, tid)) {
            Some(stays) => at(stays, time_ns),
            None => (None, 0..u64::MAX),
        };
        let own = own.and_then(|stay| stay.cgroup);
        if let Some(own) = own {
            return (own, during_ns);
        }
        let Some(stays) = self.processes.get(&tgid) else { return (0, during_ns) };
        let (stay, of_process_ns) = at(stays, time_ns);
        let both_ns = during_ns.start.max(of_process_ns.start)..during_ns.end.min(of_process_ns.end);
        (stay.map_or(0, |stay| stay.cgroup), both_ns)
    }

    /// The path of a cgroup; `None` if it is unknown.
    pub fn path(&self, id: CgroupId) -> Option<&str> {
        self.paths.get(usize::from(id).checked_sub(1)?).map(|path| &**path)
    }

    /// Lists the paths of all cgroups.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(|path| &**path)
    }

    /// Tells whether a cgroup is one of these, or below one: a path without `/` in front means the same as with it.
    pub fn is_below(&self, id: CgroupId, wanted: &[String]) -> bool {
        self.path(id).is_some_and(|path| is_below(path, wanted))
    }
}

/// Tells whether a path is one of these, or below one, as [`Cgroups::is_below`] does.
pub fn is_below(path: &str, wanted: &[String]) -> bool {
    wanted.iter().any(|wanted| {
        let wanted = wanted.trim_matches('/');
        let rest = path.trim_start_matches('/').strip_prefix(wanted);
        wanted.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Finds the stay at a moment, and its time.
fn at<C: Copy>(stays: &[Stay<C>], time_ns: u64) -> (Option<Stay<C>>, Range<u64>) {
    let after = stays.partition_point(|stay| stay.from_ns <= time_ns);
    let stay = after.checked_sub(1).map(|last| stays[last]);
    let to_ns = stays.get(after).map_or(u64::MAX, |next| next.from_ns);
    (stay, stay.map_or(0, |stay| stay.from_ns)..to_ns)
}

struct Replay {
    paths: Interned<Box<str>>,
    all: Cgroups,
    /// Threads that are elsewhere than their process, by its id.
    apart: Map<u32, Vec<u32>>,
}

impl Replay {
    fn fork(&mut self, fork: &Lifecycle) {
        let creator = self.all.processes.get(&fork.parent_tgid).and_then(|stays| stays.last());
        let cgroup = creator.map_or(0, |stay| stay.cgroup);
        self.rejoin(fork.tgid, fork.time_ns);
        self.all.processes.entry(fork.tgid).or_default().push(Stay { from_ns: fork.time_ns, cgroup });
    }

    fn row(&mut self, row: &Cgroup, tables: &Tables) {
        let &Cgroup { time_ns, tgid, tid, path } = row;
        let path = (path != 0).then(|| tables.strings.find(path)).flatten();
        let cgroup = path.map_or(0, |path| self.number(path));
        if tid != tgid {
            self.apart.entry(tgid).or_default().push(tid);
            let stays = self.all.threads.entry((tgid, tid)).or_default();
            stays.push(Stay { from_ns: time_ns, cgroup: Some(cgroup) });
            return;
        }
        self.rejoin(tgid, time_ns);
        let stays = self.all.processes.entry(tgid).or_default();
        // A process without a fork in the recording began before its first row.
        let from_ns = if stays.is_empty() { 0 } else { time_ns };
        stays.push(Stay { from_ns, cgroup });
    }

    /// Forgets what rows said of single threads of a process.
    fn rejoin(&mut self, tgid: u32, from_ns: u64) {
        for tid in self.apart.remove(&tgid).into_iter().flatten() {
            self.all.threads.entry((tgid, tid)).or_default().push(Stay { from_ns, cgroup: None });
        }
    }

    fn number(&mut self, path: &str) -> CgroupId {
        if self.paths.len() >= usize::from(CgroupId::MAX) {
            return 0;
        }
        (self.paths.intern(path.into()) + 1) as CgroupId
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::load::by_id::ById;

    /// Replays rows of (time, process, thread, path) and forks of (time, creator, child).
    fn replayed(rows: &[(u64, u32, u32, u32)], forks: &[(u64, u32, u32)]) -> Cgroups {
        let row = |&(time_ns, tgid, tid, path): &_| Cgroup { time_ns, tgid, tid, path };
        let fork = |&(time_ns, parent_tgid, tgid): &(u64, u32, u32)| Lifecycle {
            time_ns,
            change: Change::FORK,
            tgid,
            tid: tgid,
            parent_tgid,
            comm: 0,
        };
        let paths = ["/a", "/a/b", "/ab", "/a"].map(Box::from).to_vec();
        Cgroups::replay(&Tables {
            strings: ById::from_blocks(vec![(1, paths)]),
            cgroups: rows.iter().map(row).collect(),
            lifecycle: forks.iter().map(fork).collect(),
            ..Tables::default()
        })
    }

    fn paths(cgroups: &Cgroups, tgid: u32, tid: u32, times: &[u64]) -> Vec<String> {
        let path = |time: &u64| cgroups.path(cgroups.stay(tgid, tid, *time).0).unwrap_or("-").to_owned();
        times.iter().map(path).collect()
    }

    #[test]
    fn a_child_begins_where_its_creator_is_at_that_moment() {
        let rows = [(100, 7, 7, 1), (200, 7, 7, 2), (300, 8, 8, 3)];
        let cgroups = replayed(&rows, &[(150, 7, 8), (250, 7, 9), (400, 9, 8), (500, 70, 9)]);
        assert_eq!(paths(&cgroups, 7, 7, &[0, 100, 199, 200]), ["/a", "/a", "/a", "/a/b"]);
        assert_eq!(paths(&cgroups, 8, 8, &[149, 150, 299, 300, 400]), ["-", "/a", "/a", "/ab", "/a/b"]);
        assert_eq!(paths(&cgroups, 9, 5, &[250, 500]), ["/a/b", "-"]);
        assert_eq!(paths(&cgroups, 1, 1, &[250]), ["-"]);
        assert_eq!(cgroups.stay(7, 7, 150), (1, 0..200));
        assert_eq!(cgroups.stay(8, 8, 299).1, 150..300);
    }

    #[test]
    fn a_thread_is_apart_until_its_process_moves() {
        let rows = [(100, 7, 7, 1), (200, 7, 8, 2), (300, 7, 8, 0), (400, 7, 7, 3), (500, 7, 7, 99)];
        let cgroups = replayed(&rows, &[]);
        assert_eq!(paths(&cgroups, 7, 8, &[50, 150, 200, 300, 400]), ["/a", "/a", "/a/b", "-", "/ab"]);
        assert_eq!(paths(&cgroups, 7, 9, &[200, 400, 500]), ["/a", "/ab", "-"]);
        assert_eq!(cgroups.stay(7, 8, 150), (1, 0..200));
        assert_eq!(cgroups.stay(7, 8, 450).1, 400..500);
    }

    #[test]
    fn a_wanted_cgroup_holds_those_below_it_and_no_others() {
        let cgroups = replayed(&[(1, 1, 1, 1), (1, 2, 2, 2), (1, 3, 3, 3), (1, 4, 4, 4)], &[]);
        let below = |wanted: &str| {
            let ids = [1, 2, 3, 4, 5].map(|tgid| cgroups.stay(tgid, tgid, 9).0);
            ids.map(|id| cgroups.is_below(id, &[wanted.to_owned()]))
        };
        assert_eq!(below("/a"), [true, true, false, true, false]);
        assert_eq!(below("a/b/"), [false, true, false, false, false]);
        assert_eq!(below("/"), [true, true, true, true, false]);
        assert_eq!(below("/b"), [false; 5]);
    }
}
