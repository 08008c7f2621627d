//! Finds the perf map of a process at the path that the process itself sees.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::foreign::{Door, ForeignFile};
use crate::proc::{namespace, scan};
use crate::sys::clock;

use super::times;
use icecore_jit::{DumpClock, Reading};

/// The number of ticks per second in `/proc/PID/stat`, which is the same on every Linux.
const TICKS_PER_SECOND: u64 = 100;
/// The largest difference between the clocks of files and of processes.
const CLOCKS_APART: Duration = Duration::from_secs(2);
/// The assumed age of a process when memory for code was first seen in it, if the process was not looked at.
const BEGINNING: Duration = Duration::from_secs(10);

/// The facts about a process that are needed to find its perf map and to trust it.
#[derive(Debug, Clone)]
pub(super) struct Home {
    root: PathBuf,
    /// The root folder when the process is gone; `None` if the process is in another mount namespace than the recorder.
    root_after: Option<PathBuf>,
    /// The path of the map below the root folder; its name has the process id in the process's own PID namespace.
    path: PathBuf,
    /// The user and the group of the process. Only a file of this user names its code.
    uid: u32,
    gid: u32,
    /// The start of the process. An older perf map belongs to an earlier process with the same id.
    not_before: SystemTime,
    /// The same as ns of `CLOCK_MONOTONIC`.
    began_ns: u64,
    /// What its time namespace adds to that clock, ns.
    ahead_ns: Option<i64>,
}

impl Home {
    /// Looks at a process that is alive.
    pub(super) fn of(tgid: u32) -> Option<Self> {
        let status = fs::read(format!("/proc/{tgid}/status")).ok()?;
        let [uid, gid] = ["Uid", "Gid"].map(|field| scan::status_numbers(&status, field).nth(1));
        let (uid, gid) = (uid?, gid?);
        let own_tgid = scan::status_numbers(&status, "NSpid").last().unwrap_or(tgid);
        let root = scan::folder(tgid).join("root");
        // Both namespaces are unknown if the process has ended meanwhile.
        let is_shared = namespace::mount("self").is_some_and(|own| namespace::mount(tgid) == Some(own));
        let root_after = fs::read_link(&root).ok().filter(|_| is_shared);
        let age = age(tgid)? + CLOCKS_APART;
        let not_before = SystemTime::now().checked_sub(age)?;
        let (began_ns, ahead_ns) = (ago_ns(age), times::ahead_ns(tgid));
        Some(Self { root, root_after, path: map_path(own_tgid), uid, gid, not_before, began_ns, ahead_ns })
    }

    /// Returns the default for a process that ended before it was looked at: the root folder of the recorder. Memory for code
    /// was first seen in the process at `since_ns`.
    pub(super) fn of_the_gone(tgid: u32, since_ns: u64) -> Self {
        let (uid, gid) = fs::metadata("/proc/self").map_or((0, 0), |meta| (meta.uid(), meta.gid()));
        let age = Duration::from_nanos(clock::monotonic_ns().saturating_sub(since_ns)) + BEGINNING;
        let not_before = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
        let (root, root_after, path) = (PathBuf::from("/"), None, map_path(tgid));
        Self { root, root_after, path, uid, gid, not_before, began_ns: ago_ns(age), ahead_ns: Some(0) }
    }

    /// Returns the clocks of the process; `begin` is a reading from when the recording began.
    pub(super) fn clock(&self, begin: Option<Reading>) -> DumpClock {
        let readings = begin.map(|begin| [begin, begin]);
        DumpClock { ahead_ns: self.ahead_ns, began_ns: self.began_ns, readings }
    }

    /// Finds the current perf map; `None` also if the file belongs to another user.
    pub(super) fn perf_map(&self, door: &Door) -> Option<ForeignFile> {
        let roots = [Some(&self.root), self.root_after.as_ref()];
        let path = self.path.as_os_str().as_encoded_bytes();
        let seen = roots.into_iter().flatten().find_map(|root| door.below(root, path, true).ok())?;
        let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(seen.meta().modified_unix_ns);
        self.trusted(seen).filter(|_| modified >= self.not_before)
    }

    /// Returns a file if it is trusted to name the code of the process. It is read as the user of the process.
    pub(super) fn trusted(&self, file: ForeignFile) -> Option<ForeignFile> {
        (file.meta().uid == self.uid).then(|| file.opened_as(self.uid, self.gid))
    }
}

/// Returns how long a process has been running.
///
/// # Source
/// proc(5) `/proc/pid/stat`: field 22 is the start in ticks since the machine was booted; `/proc/uptime` has the time since
/// then. The name of the process, in brackets, may hold anything.
fn age(tgid: u32) -> Option<Duration> {
    let stat = fs::read(format!("/proc/{tgid}/stat")).ok()?;
    let behind_name = stat.rsplit(|byte| *byte == b')').next()?;
    let ticks = behind_name.split(|byte| *byte == b' ').nth(20)?;
    let ticks: u64 = std::str::from_utf8(ticks).ok()?.parse().ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(uptime).ok()?.checked_sub(Duration::from_secs(ticks / TICKS_PER_SECOND))
}

/// Returns the moment that was so long ago, ns `CLOCK_MONOTONIC`.
fn ago_ns(age: Duration) -> u64 {
    clock::monotonic_ns().saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
}

fn map_path(tgid: u32) -> PathBuf {
    Path::new("/tmp").join(format!("perf-{tgid}.map"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_its_map_where_it_sees_it() {
        let own = std::process::id();
        let home = Home::of(own).expect("we are running");
        assert_eq!((home.path, home.root_after), (format!("/tmp/perf-{own}.map").into(), Some("/".into())));
        assert!(Home::of(u32::MAX).is_none());
        assert!(Home::of_the_gone(u32::MAX, 0).perf_map(&Door::of_test()).is_none());
    }
}
