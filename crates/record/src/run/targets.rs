//! The processes and threads that are recorded from the beginning.

use anyhow::bail;
use icecore_text::quantity::things;
use rustc_hash::FxHashSet;

use crate::cli::named as cli_named;
use crate::kernel::feed::Feed;
use crate::proc::named::{self, Named};
use crate::proc::scan;
use crate::settings::Target;
use crate::sys::child::Paused;

/// Puts the targets on the lists of the BPF programs; returns the recorded processes, or `None` for all.
pub(super) fn add(
    sampler: &Feed<'_>,
    target: &Target,
    paused: Option<&Paused>,
) -> anyhow::Result<Option<FxHashSet<u32>>> {
    let tgids: FxHashSet<u32> = match (target, paused) {
        (Target::System, _) => return Ok(None),
        (Target::Cgroups(cgroups), _) => {
            sampler.add_cgroups(cgroups)?;
            return Ok(None);
        }
        (Target::Processes(tgids), _) => tgids.iter().copied().collect(),
        (Target::Threads(tids), _) => {
            tids.iter().try_for_each(|tid| sampler.add_thread(*tid))?;
            tids.iter().filter_map(|tid| scan::tgid_of(*tid)).collect()
        }
        (Target::Command, Some(paused)) => std::iter::once(paused.pid()).collect(),
        (Target::Command, None) => bail!("bug: a command is the target, and there is none"),
    };
    tgids.iter().try_for_each(|tgid| sampler.add_process(*tgid))?;
    Ok(Some(tgids))
}

/// Removes targets from the lists that ended before the programs could report their end; if none is left, the recording ends at once.
pub(super) fn forget_the_dead(sampler: &Feed<'_>, target: &Target) {
    if let Target::Processes(ids) | Target::Threads(ids) = target {
        ids.iter().filter(|id| !scan::is_alive(**id)).for_each(|id| sampler.forget(*id));
    }
}

/// Adds the processes to the targets that have got one of the names since the command line was checked. Returns the target with all that are
/// there now, and a note on those that have the names; `None` if no names were typed.
pub(super) fn add_named(
    sampler: &Feed<'_>,
    names: &[String],
    tgids: &mut FxHashSet<u32>,
) -> anyhow::Result<Option<(Target, String)>> {
    if names.is_empty() {
        return Ok(None);
    }
    let others = named::others();
    let chosen: Vec<&Named> = cli_named::matching(&others, names).collect();
    for process in &chosen {
        if tgids.insert(process.tgid) {
            sampler.add_process(process.tgid)?;
        }
    }
    let mut all: Vec<u32> = tgids.iter().copied().collect();
    all.sort_unstable();
    Ok(Some((Target::Processes(all), cli_named::note(&chosen))))
}

/// Adds the processes to the targets that descend from them, and returns how many. The programs that report forks run already: children
/// that are born from now on are added by them.
pub(super) fn add_children(sampler: &Feed<'_>, tgids: &mut FxHashSet<u32>) -> anyhow::Result<usize> {
    let mut added = 0;
    loop {
        // A child that is not a target yet may fork while its parent is looked at.
        let found = scan::descendants(tgids);
        if found.is_empty() {
            return Ok(added);
        }
        for tgid in found {
            sampler.add_process(tgid)?;
            if !scan::is_alive(tgid) {
                sampler.forget(tgid);
            }
            added += usize::from(tgids.insert(tgid));
        }
    }
}

/// Says what happens to children that exist already.
pub(super) fn note_on_children(children: usize, are_recorded: bool) -> String {
    let children = things(children as u64, "descendant");
    if are_recorded {
        format!("{children} of the targets existed already and are recorded, too (--children)")
    } else {
        format!("{children} of the targets existed already and are not recorded: --children records them")
    }
}
