//! Finds processes with which probes in programs do not go well: those that no probe will hit, because their file was replaced after they had
//! begun, so that the probes lie in the new file; and those for which a probe would wait.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use icecore_text::clean::clean;

use crate::foreign::{Door, Scan};
use crate::proc::maps;
use crate::settings::{Event, Place, Source};

/// The most processes that a note names.
const NAMED: usize = 5;

/// Returns a note on each file with probes of which processes run an older version.
pub(super) fn notes(events: &[Event], processes: Scan) -> Vec<String> {
    let places = events.iter().filter_map(|event| match &event.source {
        Source::Probe { place: Place::User { at, .. }, .. } => Some(at),
        _ => None,
    });
    // Mappings show no symbolic links.
    let real = |file: &Path| std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut older: BTreeMap<PathBuf, Vec<u32>> =
        places.flatten().map(|at| (real(&at.file), Vec::new())).collect();
    if older.is_empty() {
        return Vec::new();
    }
    for process in processes.flatten() {
        for (file, processes) in &mut older {
            if runs_older(&process.maps, file) {
                processes.push(process.tgid);
            }
        }
    }
    older.retain(|_, processes| !processes.is_empty());
    older.into_iter().map(|(file, processes)| note(&file, &processes)).collect()
}

/// Returns true if a process has mapped code of a file that has no name any more, and had this one.
fn runs_older(maps: &[u8], file: &Path) -> bool {
    let file = file.as_os_str().as_bytes();
    maps::executable(maps).any(|line| line.path.strip_suffix(b" (deleted)") == Some(file))
}

/// Looks for a process that lets nobody read or change its memory. To put a probe into a file, the kernel waits for each process that has mapped
/// the file, and not even SIGKILL ends that.
///
/// # Errors
/// If there is one, and probes in programs.
pub(super) fn check(events: &[Event], door: Door) -> anyhow::Result<()> {
    let is_in_program =
        |event: &&Event| matches!(event.source, Source::Probe { place: Place::User { .. }, .. });
    let Some(event) = events.iter().find(is_in_program) else { return Ok(()) };
    if let Some(process) = Scan::all(door).flatten().find(|process| process.is_silent) {
        bail!(
            "cannot record `{}`: process {} (`{}`) lets nobody read or change its memory, and the kernel may wait for it for ever to set a \
             probe; end it, or record without probes in programs",
            event.name,
            process.tgid,
            clean(&process.comm)
        );
    }
    Ok(())
}

fn note(file: &Path, processes: &[u32]) -> String {
    let named: Vec<String> = processes.iter().take(NAMED).map(u32::to_string).collect();
    let more = processes.len() - named.len();
    format!(
        "`{}` was replaced while processes ran it: no probe is hit in {}{} until they are restarted",
        file.display(),
        named.join(", "),
        if more > 0 { format!(" and {more} more") } else { String::new() }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_an_older_file_if_the_one_that_it_mapped_has_no_name() {
        let maps = |path: &str| format!("1000-2000 r-xp 00000000 08:01 77 {path}\n").into_bytes();
        assert!(runs_older(&maps("/bin/a (deleted)"), Path::new("/bin/a")));
        assert!(!runs_older(&maps("/bin/a"), Path::new("/bin/a")));
        assert!(!runs_older(&maps("/bin/ab (deleted)"), Path::new("/bin/a")));
    }

    #[test]
    fn a_note_names_a_few_processes() {
        let said = note(Path::new("/bin/a"), &[1, 2, 3, 4, 5, 6, 7]);
        assert!(said.contains("in 1, 2, 3, 4, 5 and 2 more until"), "{said}");
        assert!(note(Path::new("/bin/a"), &[1]).contains("in 1 until"));
    }
}
