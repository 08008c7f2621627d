//! Finds the function that the user means.

use regex::Regex;
use serde::Serialize;

use super::Args;
use crate::views::{Error, Result};
use icecore_listing::rows::Weights;
use icecore_profile::named::names::{Side, short};
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{Sum, groups, sums};

/// A function that matches.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Match {
    pub(super) name: String,
    pub(super) image: Option<String>,
    side: &'static str,
    #[serde(flatten)]
    weights: Weights,
    pub(super) self_share: f64,
    pub(super) total_share: f64,
}

/// Lists the functions that match, positions among those of the names, heaviest first. A function of exactly that name hides those that
/// match as a pattern.
///
/// # Errors
/// If none matches, or the pattern is none.
pub(super) fn matches(report: &Report<'_>, options: &Args) -> Result<Vec<(u32, Match)>> {
    let Some(wanted) = &options.function else {
        let why = "cannot annotate without a function: write its name after the file; icecore-report top lists functions";
        return Err(Error::Refused(why.to_owned()));
    };
    let profile = &report.profile;
    let names = &profile.names;
    let of_frame: Vec<u32> = names.frames.iter().map(|frame| frame.function).collect();
    // An inlined function is one of its own: its lines are asked for.
    let inner = sums(profile, &groups(profile, &of_frame, |_| true), names.functions.len());
    let outer = sums(profile, &groups(profile, &of_frame, |_| false), names.functions.len());
    let image = |at: usize| names.image(&names.functions[at]).map(|image| &*image.path);
    let is_of_image = |at: &usize| {
        let is = |wanted: &str| image(*at).is_some_and(|path| path == wanted || short(path) == wanted);
        options.image.as_deref().is_none_or(is)
    };
    let has_samples = |at: &usize| inner[*at].total.samples > 0 || outer[*at].total.samples > 0;
    let candidates = || (0..names.functions.len()).filter(has_samples).filter(is_of_image);
    let mut found: Vec<usize> = candidates().filter(|at| *names.functions[*at].name == **wanted).collect();
    if found.is_empty() {
        let pattern = Regex::new(wanted).map_err(|_| nothing(options, wanted))?;
        found = candidates().filter(|at| pattern.is_match(&names.functions[*at].name)).collect();
    }
    if found.is_empty() {
        return Err(nothing(options, wanted));
    }
    let whole = profile.whole();
    let row = |at: usize| {
        let function = &names.functions[at];
        // Inlined code belongs to the function around it, as in `top`, and to itself.
        let sum = Sum {
            own: if outer[at].own.weight > inner[at].own.weight { outer[at].own } else { inner[at].own },
            total: inner[at].total,
        };
        let found = Match {
            name: function.name.to_string(),
            image: image(at).map(str::to_owned),
            side: if function.side == Side::User { "user" } else { "kernel" },
            weights: sum.into(),
            self_share: sum.own.share_of(whole),
            total_share: sum.total.share_of(whole),
        };
        (at as u32, found)
    };
    let mut rows: Vec<(u32, Match)> = found.into_iter().map(row).collect();
    let weights = |row: &Match| (row.weights.own, row.weights.total);
    rows.sort_by(|(_, a), (_, b)| {
        weights(b).cmp(&weights(a)).then_with(|| (&a.name, &a.image).cmp(&(&b.name, &b.image)))
    });
    Ok(rows)
}

fn nothing(options: &Args, wanted: &str) -> Error {
    let of_image = options.image.as_ref().map(|image| format!(" in the image `{image}`")).unwrap_or_default();
    let why = format!("no function with samples is named or matches `{wanted}`{of_image}: `top` lists them");
    Error::Refused(why)
}
