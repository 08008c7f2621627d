//! What may be used up: files, memory, disk.

use icecore_text::quantity::{bytes, count};

use crate::doctor::check::Check;
use crate::doctor::facts::{Capability, Facts};
use crate::doctor::remedy;
use crate::sys::usage::FILES_NEEDED;

/// How many files a recording may need on a machine of many CPUs: two for each CPU and each event.
const FILES_PLENTY: u64 = 4_096;
/// A recording opens about as many files after its events, when it attaches the programs; and one for each CPU. (Measured: with 24 left on
/// two CPUs none begins, with 34 one does.)
const LINKS: usize = 32;
/// With less room, the disk may be full before a recording of some minutes ends: a busy machine writes some MiB a minute.
const LEAST_FREE_BYTES: u64 = 256 << 20;
/// The ring, and the maps of the programs.
const LOCKED_BYTES: u64 = 256 << 20;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    vec![files(facts), memory(facts), disk(facts)]
}

/// Returns true if the number of open files may be the cause of what the kernel refused.
pub(super) fn has_few_files(facts: &Facts) -> bool {
    facts.has_privileges()
        && facts.is_refused()
        && facts.limits.most_files.is_some_and(|most| most < FILES_PLENTY)
}

fn files(facts: &Facts) -> Check {
    const NAME: &str = "open files";
    let most =
        facts.limits.most_files.map_or("any number".to_owned(), |most| format!("{} at most", count(most)));
    let remedy = || remedy::as_root(facts, &format!("prlimit --pid $$ --nofile={FILES_PLENTY}"));
    let told = |spare: usize| format!("{most}; {} are left beside those of a recording", count(spare as u64));
    match facts.limits.spare_files {
        _ if has_few_files(facts) => {
            Check::degraded(NAME, most, "these may be too few for a recording on this machine")
                .mended_by(remedy())
        }
        Some(spare) if spare < LINKS + facts.limits.cpus => Check::missing(
            NAME,
            told(spare),
            "these are too few to attach the programs: there is no recording",
        )
        .mended_by(remedy())
        .preventing(),
        Some(spare) if spare < FILES_NEEDED => {
            Check::degraded(NAME, told(spare), "files with names of functions may not be opened")
                .mended_by(remedy())
        }
        _ => Check::ok(NAME, most),
    }
}

fn memory(facts: &Facts) -> Check {
    const NAME: &str = "locked memory";
    let limits = &facts.limits;
    if !limits.counts_locked {
        return Check::ok(NAME, "the kernel does not count the memory of programs as locked");
    }
    match limits.max_locked_bytes {
        Some(most) if most < LOCKED_BYTES && !facts.rights.has(Capability::SYS_RESOURCE) => Check::degraded(
            NAME,
            format!("{} at most, and this kernel counts the memory of programs (before 5.11)", bytes(most)),
            "the kernel may refuse the sampling programs",
        )
        .mended_by(remedy::as_root(facts, "prlimit --pid $$ --memlock=unlimited")),
        Some(most) => Check::ok(NAME, format!("{} at most", bytes(most))),
        None => Check::ok(NAME, "any amount"),
    }
}

fn disk(facts: &Facts) -> Check {
    const NAME: &str = "this folder";
    const REMEDY: &str = "name a file in another folder with -o";
    let limits = &facts.limits;
    if !limits.may_write {
        return Check::degraded(
            NAME,
            "this user may not write here",
            "without -o a recording cannot be written",
        )
        .mended_by(REMEDY.to_owned());
    }
    match limits.free_bytes {
        Some(free) if free < LEAST_FREE_BYTES => {
            let found = format!("{} are free", bytes(free));
            Check::degraded(NAME, found, "the disk may be full before a recording ends")
                .mended_by(REMEDY.to_owned())
        }
        Some(free) => Check::ok(NAME, format!("{} are free", bytes(free))),
        None => Check::ok(NAME, "the file system does not tell how much room there is"),
    }
}
