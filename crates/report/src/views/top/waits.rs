//! Ranks waits by their kind, and by what ended them.

use super::{By, Ranked};
use crate::base::map::Interned;
use crate::profile::pipeline::Report;
use crate::profile::waits::Waker;
use crate::profile::{Amount, Sum, Thread};

/// What a row of waits stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Waiting {
    /// The kind of the waits, or what ended them if that is no thread.
    Of(String),
    /// A process or thread that ended them: part, process, thread, name.
    EndedBy(u32, u32, u32, Box<str>),
}

/// The samples that are no waits.
const NO_WAIT: &str = "no wait";

/// Sums up waits.
pub(super) fn sums(report: &Report<'_>, by: By) -> (Vec<Waiting>, Vec<Sum>) {
    let profile = &report.profile;
    let mut keys: Interned<Waiting> = Interned::new();
    let ended_by = |waker: &Waker| match waker {
        Waker::Thread(Thread { part, tgid, process, .. }) if by == By::Waker => {
            Waiting::EndedBy(*part, *tgid, *tgid, process.clone())
        }
        Waker::Thread(Thread { part, tgid, tid, comm, .. }) => {
            Waiting::EndedBy(*part, *tgid, *tid, comm.clone())
        }
        other => Waiting::Of(other.words().unwrap_or_default().to_owned()),
    };
    let of_wait: Vec<u32> = profile
        .waits
        .iter()
        .map(|wait| {
            keys.intern(match by {
                By::Wait => Waiting::Of(wait.kind.name()),
                _ => ended_by(&wait.waker),
            })
        })
        .collect();
    let no_wait = keys.intern(Waiting::Of(NO_WAIT.to_owned()));
    let mut sums = vec![Sum::default(); keys.len()];
    for row in &profile.rows {
        let key = row.wait.map_or(no_wait, |wait| of_wait[wait as usize]);
        let sum = &mut sums[key as usize];
        sum.own.add(row.amount());
        sum.total = sum.own;
    }
    (keys.into_items(), sums)
}

/// Makes a row. It names hosts if there are several sessions.
pub(super) fn row(report: &Report<'_>, by: By, key: &Waiting, sum: Amount, whole: Amount) -> Ranked {
    match key {
        Waiting::Of(name) => Ranked::new(name, None, sum, sum, whole),
        Waiting::EndedBy(part, tgid, tid, name) => {
            let parts = &report.loaded.tables.parts;
            let mut row = Ranked::new(name, None, sum, sum, whole);
            row.host = (parts.len() > 1).then(|| parts.part(*part).session.host.clone());
            row.tgid = Some(*tgid);
            row.tid = (by == By::WakerThread).then_some(*tid);
            row.comm = Some(name.to_string());
            row
        }
    }
}
