//! `folded`: one line per distinct stack, root first, for flame graph tools.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::{self, Root, Weight};
use crate::names::{Frame, Names, Side};
use crate::profile::{Amount, Profile};
use crate::term::Page;
use crate::tree::roots;

/// The document.
#[derive(Debug, Serialize)]
pub struct Folded {
    schema: &'static str,
    unit: String,
    total_weight: u64,
    total_samples: u64,
    stacks: Vec<Line>,
    #[serde(skip)]
    weight: Weight,
}

/// One distinct stack.
#[derive(Debug, Serialize)]
struct Line {
    frames: Vec<String>,
    weight: u64,
    samples: u64,
}

impl Folded {
    /// Merges the stacks of a profile.
    pub fn new(profile: &Profile, options: &cli::Folded) -> Self {
        let whole = profile.whole();
        let labels = own_labels(&profile.names, !options.no_annotations);
        let stacks = merged(profile, options.root, &labels).into_iter();
        let line = |(stack, amount): (String, Amount)| Line {
            frames: stack.split(';').map(str::to_owned).collect(),
            weight: amount.weight,
            samples: amount.samples,
        };
        Self {
            schema: "icecore.folded/1",
            unit: profile.unit.clone(),
            total_weight: whole.weight,
            total_samples: whole.samples,
            stacks: stacks.map(line).collect(),
            weight: options.weight,
        }
    }

    /// The lines.
    pub fn text(&self, page: &mut Page) {
        for line in &self.stacks {
            let number = match self.weight {
                Weight::Samples => line.samples,
                Weight::Period => line.weight,
            };
            page.line(&format!("{} {number}", line.frames.join(";")));
        }
    }
}

/// What each frame of the names is called in a folded line.
pub(crate) fn own_labels(names: &Names, annotate: bool) -> Vec<String> {
    labels(names, annotate, |function| &names.functions[function as usize].name)
}

/// The same where functions are called otherwise.
pub(crate) fn labels<'n>(names: &'n Names, annotate: bool, called: impl Fn(u32) -> &'n str) -> Vec<String> {
    let label = |frame: &Frame| {
        let function = &names.functions[frame.function as usize];
        let annotation = match (annotate, function.side, frame.inlined) {
            (true, Side::Kernel, _) => "_[k]",
            (true, _, true) => "_[i]",
            _ => "",
        };
        format!("{}{annotation}", called(frame.function).replace(';', ":"))
    };
    names.frames.iter().map(label).collect()
}

/// Merges stacks into lines without numbers, in their order as text. `labels` are those of the frames.
pub(crate) fn merged(profile: &Profile, root: Root, labels: &[String]) -> BTreeMap<String, Amount> {
    let (mut names, of_thread) = roots(profile, root);
    names.iter_mut().for_each(|name| *name = name.replace(';', ":").into());
    let mut merged: BTreeMap<String, Amount> = BTreeMap::new();
    let mut path = Vec::new();
    for row in &profile.rows {
        path.clear();
        path.extend(profile.walk(row.stack).map(|stack| labels[stack.frame as usize].as_str()));
        path.extend(names.get(of_thread[row.thread as usize] as usize).map(|name| &**name));
        path.reverse();
        if path.is_empty() {
            path.push("[no stack]");
        }
        merged.entry(path.join(";")).or_default().add(row.amount());
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixture;

    #[test]
    fn a_separator_in_a_name_separates_nothing() {
        let mut profile = fixture::profile(&[("main;a", 2)]);
        profile.names.functions[1].name = "a;b".into();
        profile.threads[0].process = "x;y".into();
        let lines: Vec<String> =
            merged(&profile, Root::Process, &own_labels(&profile.names, true)).into_keys().collect();
        assert_eq!(lines, ["x:y;main;a:b"]);
    }

    #[test]
    fn kernel_and_inlined_frames_are_marked() {
        let mut profile = fixture::profile(&[("main;inl;sys", 2)]);
        profile.names.frames[1].inlined = true;
        profile.names.functions[2].side = Side::Kernel;
        let lines: Vec<String> =
            merged(&profile, Root::None, &own_labels(&profile.names, true)).into_keys().collect();
        assert_eq!(lines, ["main;inl_[i];sys_[k]"]);
        let lines: Vec<String> =
            merged(&profile, Root::None, &own_labels(&profile.names, false)).into_keys().collect();
        assert_eq!(lines, ["main;inl;sys"]);
    }
}
