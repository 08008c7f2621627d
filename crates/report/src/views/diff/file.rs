//! Writes the files of `diff -o`.

use std::collections::{BTreeSet, HashSet};
use std::convert::Infallible;
use std::path::Path;

use super::Diff;
use super::flame::{Picture, draw};
use crate::views::Result;
use crate::views::export::{self, Export};
use crate::views::flame::fit::{MIN_SHARE, drawn};
use icecore_analysis::compare::{ComparedRow, Comparison, Metric, Sided, Status};
use icecore_analysis::matching;
use icecore_profile::named::merged::{Labels, MergedStacks};
use icecore_profile::named::tree::Root;
use icecore_text::path::shown;
use icecore_text::quantity::bytes;
use icecore_text::shorten::line;

/// A comparison, and the recordings that were compared.
struct Compared<'a> {
    view: &'a Diff,
    compared: &'a Comparison,
    reports: &'a [Sided<'a>],
}

/// The formats of comparisons.
fn exports<'a>() -> [&'a dyn Export<Compared<'a>>; 2] {
    [&Svg, &Markdown]
}

struct Svg;

impl Export<Compared<'_>> for Svg {
    fn extension(&self) -> &'static str {
        "svg"
    }

    fn bytes(&self, of: &Compared<'_>) -> Result<Vec<u8>> {
        graph(of.view, of.compared, of.reports)
    }
}

struct Markdown;

impl Export<Compared<'_>> for Markdown {
    fn extension(&self) -> &'static str {
        "md"
    }

    fn bytes(&self, of: &Compared<'_>) -> Result<Vec<u8>> {
        Ok(of.view.markdown().into_bytes())
    }
}

/// Writes a file in the format of its extension; returns a line that says so.
///
/// # Errors
/// If there is no such format, or the file cannot be written.
pub fn write(
    (path, force): (&Path, bool),
    view: &Diff,
    compared: &Comparison,
    reports: &[Sided<'_>],
) -> Result<String> {
    let inputs: Vec<&Path> = reports.iter().map(|(report, _)| report.loaded.path).collect();
    let len = export::write(&exports(), &Compared { view, compared, reports }, (path, force), &inputs)?;
    Ok(format!("wrote {} ({})", shown(path), bytes(len)))
}

/// Draws the flame graph of both sides.
fn graph(view: &Diff, compared: &Comparison, reports: &[Sided<'_>]) -> Result<Vec<u8>> {
    // If each recording has a single process, its name does not matter: the command may have another name now.
    let is_alone = |(report, _): &Sided<'_>| {
        report.profile.threads.windows(2).all(|pair| pair[0].process == pair[1].process)
    };
    let root = if reports.iter().all(is_alone) { Root::None } else { Root::Process };
    let [before, after] = [0, 1].map(|side| stacks(view, compared, reports, side, root));
    let title = format!("{} → {}", view.files(0), view.files(1));
    let changed = (view.by == "function").then(|| changed(compared));
    let filtered = filters(view);
    let as_shares = view.unit == "share";
    let filtered = filtered.as_deref();
    draw(&before, &after, Picture { title: &title, filtered, changed: changed.as_ref(), as_shares })
}

/// Describes the filters of both sides; with two stretches of one recording, each side has its own.
fn filters(view: &Diff) -> Option<String> {
    let [before, after] = [&view.before, &view.after]
        .map(|side| side.first().and_then(|recording| recording.filter.as_deref()));
    match (before, after) {
        (Some(before), Some(after)) if before != after => Some(format!("before: {before}; after: {after}")),
        (before, after) => before.or(after).map(str::to_owned),
    }
}

/// Finds a process that was renamed: one name that only the side before has, and one that only the side after has.
fn renamed_process(reports: &[Sided<'_>]) -> Option<[String; 2]> {
    let [before, after] = [0, 1].map(|side| -> BTreeSet<&str> {
        let of_side = reports.iter().filter(|(_, of)| *of == side);
        of_side.flat_map(|(report, _)| &report.profile.threads).map(|thread| &*thread.process).collect()
    });
    let lone = |a: &BTreeSet<&str>, b: &BTreeSet<&str>| match a.difference(b).collect::<Vec<_>>()[..] {
        [name] => Some(name.replace(';', ":")),
        _ => None,
    };
    Some([lone(&before, &after)?, lone(&after, &before)?])
}

/// Returns the keys of the functions whose own time changed, by more than chance and not only because others changed.
fn changed(compared: &Comparison) -> HashSet<String> {
    let is_change = |row: &&ComparedRow| {
        row.own.judged.significant && compared.status(row, Metric::Own) != Status::Diluted
    };
    let keys = compared.rows.iter().filter(is_change).flat_map(|row| row.keys.iter().flatten());
    keys.map(|key| matching::function(&key.name).into_owned()).collect()
}

/// Returns the stacks of all recordings of a side, in the unit of the comparison. A function that was renamed has one name.
fn stacks(
    view: &Diff,
    compared: &Comparison,
    reports: &[Sided<'_>],
    side: usize,
    root: Root,
) -> Vec<(String, f64)> {
    let of_side: Vec<_> = reports.iter().enumerate().filter(|(_, (_, of))| *of == side).collect();
    let of_report = |(number, (report, _)): &(usize, &Sided<'_>)| {
        let profile = &report.profile;
        let whole = profile.whole().weight as f64;
        // All recordings of a side count equally.
        let scale = view.everything[side] / whole / of_side.len() as f64;
        let labels = Labels::new(&profile.names, true, |function| compared.called(*number, function));
        let drawn = drawn(MergedStacks::new(profile, root, &labels), MIN_SHARE).stacks;
        let mut stacks = Vec::with_capacity(drawn.lines());
        let handed = drawn.each(|frames, amount| {
            let mut text = String::new();
            line(frames, &mut text);
            stacks.push((text, amount.weight as f64 * scale));
            Ok::<(), Infallible>(())
        });
        match handed {
            Ok(()) => stacks,
            Err(never) => match never {},
        }
    };
    let mut stacks: Vec<(String, f64)> = of_side.iter().flat_map(of_report).collect();
    if let Some([gone, new]) = renamed_process(reports).filter(|_| root == Root::Process) {
        for (stack, _) in &mut stacks {
            if let Some(callees) =
                stack.strip_prefix(&gone).filter(|rest| rest.is_empty() || rest.starts_with(';'))
            {
                *stack = format!("{new}{callees}");
            }
        }
    }
    stacks
}
