//! Says which filters match nothing in the recording, and what they could match.

use std::collections::BTreeSet;

use icecore_text::glob::is_like;

use crate::profile::pipeline::Loaded;

/// The most names that are listed.
const NAMED: usize = 16;

/// Describes each filter value that nothing in the recording has.
pub(crate) fn unmatched(loaded: &Loaded<'_>) -> Vec<String> {
    let (filter, tables) = (&loaded.filter, &loaded.tables);
    let parts = &tables.parts;
    let mut said = Vec::new();
    if !filter.comms.is_empty() {
        let tasks = tables.tasks.iter().map(|(_, task)| task.comm);
        let comms = tasks.chain(tables.lifecycle.iter().map(|row| row.comm));
        let comms: BTreeSet<u32> = comms.filter(|comm| *comm != 0).collect();
        let names: BTreeSet<&str> = comms.into_iter().map(|comm| tables.text(comm)).collect();
        let is_there = |wanted: &str| names.iter().any(|name| is_like(wanted, name));
        let missing = filter.comms.iter().filter(|wanted| !is_there(wanted));
        said.extend(
            missing.map(|name| format!("no thread or process is called `{name}`: {}", among(&names))),
        );
    }
    if !filter.hosts.is_empty() {
        let names: BTreeSet<&str> = parts.hosts().iter().map(String::as_str).collect();
        let missing = filter.hosts.iter().filter(|wanted| !names.contains(wanted.as_str()));
        said.extend(missing.map(|name| format!("no host is called `{name}`: {}", among(&names))));
    }
    if !filter.cgroups.is_empty() {
        let names: BTreeSet<&str> = loaded.cgroups.paths().collect();
        let missing = filter.cgroups.iter().filter(|wanted| !loaded.cgroups.are_below(wanted));
        said.extend(missing.map(|name| format!("no cgroup is called `{name}`: {}", among(&names))));
    }
    for (wanted, what, of) in [
        (&filter.pids, "process", tables.tasks.iter().map(|(_, task)| task.tgid).collect::<BTreeSet<u32>>()),
        (&filter.tids, "thread", tables.tasks.iter().map(|(_, task)| task.tid).collect()),
    ] {
        let numbers: BTreeSet<u32> = if wanted.is_empty() {
            BTreeSet::new()
        } else {
            of.into_iter().map(|id| parts.pid(id)).collect()
        };
        let missing = wanted.iter().filter(|wanted| !numbers.contains(wanted));
        said.extend(missing.map(|number| format!("no {what} has the number {number}: {}", among(&numbers))));
    }
    said
}

/// Lists what there is.
fn among(all: &BTreeSet<impl ToString>) -> String {
    let named: Vec<String> = all.iter().take(NAMED).map(ToString::to_string).collect();
    match all.len().saturating_sub(NAMED) {
        0 if named.is_empty() => "the recording has none".to_owned(),
        0 => format!("the recording has {}", named.join(", ")),
        more => format!("the recording has {} and {more} more", named.join(", ")),
    }
}
