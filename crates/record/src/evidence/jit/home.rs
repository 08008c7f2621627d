//! Where a process keeps its perf map, as it sees it itself.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::proc::{namespace, scan};
use crate::sys::clock;
use crate::sys::rooted::Seen;

/// Ticks of a second in `/proc/PID/stat`: the same on every Linux.
const TICKS_PER_SECOND: u64 = 100;
/// How far the times of files and of processes may be apart.
const CLOCKS_APART: Duration = Duration::from_secs(2);
/// How long a process may have run before memory for code was seen in it, if nobody looked at it.
const BEGINNING: Duration = Duration::from_secs(10);

/// What must be known of a process to find its perf map, and to believe it.
#[derive(Debug)]
pub(super) struct Home {
    root: PathBuf,
    /// The same folder when the process is gone; none if its mounts are not those of the recorder.
    root_after: Option<PathBuf>,
    /// As its root folder has it, under the number by which the process knows itself.
    path: PathBuf,
    /// Who may tell its code, besides root.
    uid: u32,
    /// An older perf map is that of an older process of the same number.
    not_before: SystemTime,
}

impl Home {
    /// Looks at a process while it lives.
    pub(super) fn of(tgid: u32) -> Option<Self> {
        let status = fs::read(format!("/proc/{tgid}/status")).ok()?;
        let uid = scan::status_numbers(&status, "Uid").nth(1)?;
        let own_tgid = scan::status_numbers(&status, "NSpid").last().unwrap_or(tgid);
        let root = PathBuf::from(format!("/proc/{tgid}/root"));
        // Of a process that ended meanwhile neither is told.
        let is_shared = namespace::mount("self").is_some_and(|own| namespace::mount(tgid) == Some(own));
        let root_after = fs::read_link(&root).ok().filter(|_| is_shared);
        let not_before = SystemTime::now().checked_sub(age(tgid)? + CLOCKS_APART)?;
        Some(Self { root, root_after, path: map_path(own_tgid), uid, not_before })
    }

    /// What is tried for a process that nobody looked at while it lived: the folder of the recorder. Memory for code was
    /// seen in it at `since_ns`.
    pub(super) fn of_the_gone(tgid: u32, since_ns: u64) -> Self {
        let own_uid = fs::metadata("/proc/self").map_or(0, |meta| meta.uid());
        let age = Duration::from_nanos(clock::monotonic_ns().saturating_sub(since_ns)) + BEGINNING;
        let not_before = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
        Self { root: PathBuf::from("/"), root_after: None, path: map_path(tgid), uid: own_uid, not_before }
    }

    /// Looks at the perf map as it is now; a file of anybody else is none.
    pub(super) fn perf_map(&self) -> Option<Seen> {
        let roots = [Some(&self.root), self.root_after.as_ref()];
        let seen = roots.into_iter().flatten().find_map(|root| Seen::below(root, &self.path))?;
        let is_fresh = seen.meta.modified().is_ok_and(|time| time >= self.not_before);
        (is_fresh && self.is_trusted(seen.meta.uid())).then_some(seen)
    }

    /// Tells whether a file that the process mapped may tell its code.
    pub(super) fn trusts(&self, file: &File) -> bool {
        file.metadata().is_ok_and(|meta| self.is_trusted(meta.uid()))
    }

    fn is_trusted(&self, uid: u32) -> bool {
        uid == 0 || uid == self.uid
    }
}

/// How long a process has been running.
///
/// # Source
/// proc(5) `/proc/pid/stat`: field 22 is the start in ticks since the machine was started, which is how long ago
/// `/proc/uptime` tells; the name of the process, in brackets, may hold anything.
fn age(tgid: u32) -> Option<Duration> {
    let stat = fs::read(format!("/proc/{tgid}/stat")).ok()?;
    let behind_name = stat.rsplit(|byte| *byte == b')').next()?;
    let ticks = behind_name.split(|byte| *byte == b' ').nth(20)?;
    let ticks: u64 = std::str::from_utf8(ticks).ok()?.parse().ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(uptime).ok()?.checked_sub(Duration::from_secs(ticks / TICKS_PER_SECOND))
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
        assert!(Home::of_the_gone(u32::MAX, 0).perf_map().is_none());
    }
}
