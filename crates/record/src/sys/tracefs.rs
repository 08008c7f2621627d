//! Finds tracepoints in tracefs: their names and numbers.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Where systems mount tracefs; the second is below debugfs.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The folder of tracepoints.
#[derive(Debug)]
pub(crate) struct Tracefs {
    events: PathBuf,
    /// A mount that only this process sees, and that ends with the handle.
    _own: Option<OwnedFd>,
}

/// A tracepoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tracepoint {
    pub(crate) category: String,
    pub(crate) name: String,
}

impl Tracefs {
    /// Finds tracefs. If it is not mounted, mounts it where nobody else sees it.
    ///
    /// # Errors
    /// If it is not mounted, and this process may not mount it.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let mounted = MOUNTS.iter().map(|mount| Path::new(mount).join("events"));
        let is_there = |events: &PathBuf| !matches!(fs::metadata(events), Err(e) if is_missing(&e));
        if let Some(events) = mounted.into_iter().find(is_there) {
            return Ok(Self { events, _own: None });
        }
        let own = mount().with_context(|| {
            format!(
                "tracefs is not mounted: run `mount -t tracefs tracefs {}`, or the recorder as root",
                MOUNTS[0]
            )
        })?;
        let events = PathBuf::from(format!("/proc/self/fd/{}/events", own.as_raw_fd()));
        Ok(Self { events, _own: Some(own) })
    }

    /// Reads the number of a tracepoint, which `perf_event_open` takes; `None` if the kernel has no such tracepoint.
    ///
    /// # Errors
    /// If its file cannot be read.
    pub(crate) fn id(&self, tracepoint: &Tracepoint) -> anyhow::Result<Option<u64>> {
        let Tracepoint { category, name } = tracepoint;
        if [category, name].iter().any(|part| part.contains('/') || part.starts_with('.')) {
            return Ok(None);
        }
        let path = self.events.join(category).join(name).join("id");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().parse().ok()),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(explained(error, &path)),
        }
    }

    /// Lists all tracepoints, in the order of their names.
    ///
    /// # Errors
    /// If the folders cannot be read.
    pub(crate) fn all(&self) -> anyhow::Result<Vec<Tracepoint>> {
        let mut all = Vec::new();
        for category in folders(&self.events)? {
            for name in folders(&self.events.join(&category))? {
                all.push(Tracepoint { category: category.clone(), name });
            }
        }
        all.sort_unstable();
        Ok(all)
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn explained(error: io::Error, path: &Path) -> anyhow::Error {
    let remedy = if error.kind() == io::ErrorKind::PermissionDenied { "; run as root (sudo)" } else { "" };
    anyhow::Error::new(error).context(format!("cannot read `{}`{remedy}", path.display()))
}

/// Lists the folders in a folder.
fn folders(path: &Path) -> anyhow::Result<Vec<String>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| explained(error, path))? {
        let entry = entry.map_err(|error| explained(error, path))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.extend(entry.file_name().into_string());
        }
    }
    Ok(folders)
}

/// Mounts tracefs without attaching it to a folder.
fn mount() -> io::Result<OwnedFd> {
    /// uapi/linux/mount.h
    const FSOPEN_CLOEXEC: u32 = 1;
    const FSCONFIG_CMD_CREATE: u32 = 6;
    const FSMOUNT_CLOEXEC: u32 = 1;

    let owned = |fd: libc::c_long| {
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: the name ends with a zero and outlives the call; the other pointers are null, as this command demands; the
    // descriptors are open.
    unsafe {
        let context = owned(libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), FSOPEN_CLOEXEC))?;
        let context = context.as_raw_fd();
        if libc::syscall(libc::SYS_fsconfig, context, FSCONFIG_CMD_CREATE, none, none, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        owned(libc::syscall(libc::SYS_fsmount, context, FSMOUNT_CLOEXEC, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_tracepoints_have_numbers_also_where_tracefs_is_not_mounted() {
        let of = |category: &str, name: &str| Tracepoint { category: category.into(), name: name.into() };
        let own = mount().expect("root may mount");
        let events = PathBuf::from(format!("/proc/self/fd/{}/events", own.as_raw_fd()));
        for tracefs in [Tracefs { events, _own: Some(own) }, Tracefs::open().expect("root may look")] {
            let id =
                tracefs.id(&of("sched", "sched_switch")).expect("readable").expect("every kernel has it");
            assert!(id > 0);
            for (category, name) in [("sched", "sched_witch"), ("sched", ".."), ("sched/x", "x"), ("", "")] {
                assert_eq!(tracefs.id(&of(category, name)).expect("readable"), None);
            }
            let all = tracefs.all().expect("readable");
            assert!(all.is_sorted() && all.contains(&of("sched", "sched_switch")), "{}", all.len());
        }
    }
}
