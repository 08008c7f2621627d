//! Files that `diff -o` writes.

use std::io::Write as _;
use std::path::Path;

use super::Diff;
use super::flame::{Picture, draw};
use crate::cli::Root;
use crate::compare::Sided;
use crate::output;
use crate::term::path::shown;
use crate::term::quantity::bytes;
use crate::views::folded::{labels, merged};

/// Writes what the name of the file asks for, and says so.
///
/// # Errors
/// If it asks for nothing that is known, or the file cannot be written.
pub fn write(path: &Path, view: &Diff, reports: &[Sided<'_>]) -> anyhow::Result<String> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let content = match extension {
        "md" => view.markdown().into_bytes(),
        "svg" => graph(view, reports)?,
        _ => anyhow::bail!("nothing is known that ends so: name a .svg or a .md file"),
    };
    for (report, _) in reports {
        let there = output::metadata(path)?;
        output::refuse_recording(there.as_ref(), report.loaded.path)?;
    }
    output::refuse_any_recording(path)?;
    output::replace(path, reports[0].0.loaded.path, None, |file| file.write_all(&content))?;
    Ok(format!("wrote {} ({})", shown(path), bytes(content.len() as u64)))
}

/// Draws the flame graph of both sides.
fn graph(view: &Diff, reports: &[Sided<'_>]) -> anyhow::Result<Vec<u8>> {
    // A program that is called otherwise now is still the same, where it is alone.
    let is_alone = |(report, _): &Sided<'_>| {
        report.profile.threads.windows(2).all(|pair| pair[0].process == pair[1].process)
    };
    let root = if reports.iter().all(is_alone) { Root::None } else { Root::Process };
    let [before, after] = [0, 1].map(|side| stacks(view, reports, side, root));
    let title = format!("{} → {}: red grew, blue shrank", view.files(0), view.files(1));
    let filtered = view.before.first().and_then(|recording| recording.filter.as_deref());
    draw(&before, &after, Picture { title: &title, filtered, as_shares: view.unit == "share" })
}

/// The stacks of a side, in the unit of the comparison; of several recordings all.
fn stacks(view: &Diff, reports: &[Sided<'_>], side: usize, root: Root) -> Vec<(String, f64)> {
    let of_side: Vec<_> = reports.iter().filter(|(_, of)| *of == side).collect();
    let of_report = |(report, _): &&Sided<'_>| {
        let profile = &report.profile;
        let whole = profile.whole().weight as f64;
        // Each recording of a side counts as much as the others.
        let scale = view.everything[side] / whole / of_side.len() as f64;
        let stacks = merged(profile, root, &labels(&profile.names, true));
        stacks.into_iter().map(|(stack, amount)| (stack, amount.weight as f64 * scale)).collect::<Vec<_>>()
    };
    of_side.iter().flat_map(of_report).collect()
}
