//! Describes the owners of samples, processes or threads, for several views.

use serde::Serialize;

use crate::cli;
use icecore_profile::map::Interned;
use icecore_profile::named::Thread;
use icecore_profile::named::pipeline::Report;
use icecore_text::Align;

/// Processes or threads, and the one to which each thread of the profile belongs.
pub(super) struct Owners {
    /// Positions in `keys`, by the profile's threads.
    pub(super) of_thread: Vec<u32>,
    pub(super) keys: Vec<OwnerName>,
}

/// A process, or a thread, under one name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub(super) struct OwnerName {
    /// Present if there are several hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    pub(super) tgid: u32,
    /// Present for threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tid: Option<u32>,
    pub(super) comm: Box<str>,
}

impl Owners {
    pub(super) fn new(report: &Report<'_>, by: cli::Owner) -> Self {
        let parts = &report.loaded.tables.parts;
        let mut keys = Interned::new();
        let key = |thread: &Thread| OwnerName {
            host: parts.host_among(thread.part).map(str::to_owned),
            tgid: thread.tgid,
            tid: (by == cli::Owner::Thread).then_some(thread.tid),
            comm: if by == cli::Owner::Thread { thread.comm.clone() } else { thread.process.clone() },
        };
        let of_thread = report.profile.threads.iter().map(|thread| keys.intern(key(thread))).collect();
        Self { of_thread, keys: keys.into_items() }
    }
}

impl OwnerName {
    /// Returns the host, if there are several, then numbers and name.
    pub(super) fn cells(&self) -> Vec<String> {
        let id = match self.tid {
            Some(tid) => format!("{}/{tid}", self.tgid),
            None => self.tgid.to_string(),
        };
        self.host.iter().cloned().chain([id, self.comm.to_string()]).collect()
    }
}

/// The columns for [`OwnerName::cells`].
pub(super) fn columns<'a>(
    by_thread: bool,
    mut owners: impl Iterator<Item = &'a OwnerName>,
) -> Vec<(&'static str, Align)> {
    let host = owners.any(|owner| owner.host.is_some()).then_some(("HOST", Align::Left));
    let (id, name) = if by_thread { ("PID/TID", "THREAD") } else { ("PID", "PROCESS") };
    host.into_iter().chain([(id, Align::Right), (name, Align::Left)]).collect()
}
