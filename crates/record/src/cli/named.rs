//! The processes that `--name` means.

use anyhow::bail;
use icecore_text::clean::clean;
use icecore_text::near::nearest;

use crate::proc::named::{self, Named};

/// The most similar names that an error suggests.
const OFFERED: usize = 3;
/// The most processes that a note names.
const TOLD: usize = 5;

/// Returns the processes whose names match one of the patterns.
///
/// # Errors
/// If no process matches one of them; the message suggests similar names.
pub(super) fn find(patterns: &[String]) -> anyhow::Result<Vec<u32>> {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let others = named::others();
    if let Some(pattern) = patterns.iter().find(|pattern| !others.iter().any(|other| other.is_like(pattern)))
    {
        bail!(
            "cannot record processes named `{pattern}`: no process has such a name; {}",
            suggestion(pattern, &others)
        );
    }
    Ok(matching(&others, patterns).map(|process| process.tgid).collect())
}

/// Returns those of the processes whose names match one of the patterns.
pub(crate) fn matching<'a>(
    processes: &'a [Named],
    patterns: &'a [String],
) -> impl Iterator<Item = &'a Named> + 'a {
    processes.iter().filter(|process| patterns.iter().any(|pattern| process.is_like(pattern)))
}

/// Says which processes are recorded because of their names.
pub(crate) fn note(chosen: &[&Named]) -> String {
    let told = chosen.iter().take(TOLD);
    let told: Vec<String> =
        told.map(|process| format!("{} (`{}`)", process.tgid, clean(process.name.as_bytes()))).collect();
    let more = match chosen.len().saturating_sub(TOLD) {
        0 => String::new(),
        1 => " and 1 other".to_owned(),
        more => format!(" and {more} others"),
    };
    let what = if chosen.len() == 1 { "the process" } else { "the processes" };
    format!("--name means {what} {}{more}", told.join(", "))
}

fn suggestion(pattern: &str, others: &[Named]) -> String {
    let mut names: Vec<&str> = others.iter().map(|process| &*process.name).collect();
    names.sort_unstable();
    names.dedup();
    let mut near = Vec::new();
    while near.len() < OFFERED
        && let Some(found) = nearest(pattern, names.iter().copied())
    {
        names.retain(|name| *name != found);
        near.push(format!("`{found}`"));
    }
    if near.is_empty() {
        "`ps -e` lists all names".to_owned()
    } else {
        format!("there is {}", near.join(", "))
    }
}
