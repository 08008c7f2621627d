//! Finds the function that the user means.

use serde::Serialize;

use super::Args;
use crate::views::unmatched::nearest_function;
use crate::views::{Error, Result};
use icecore_listing::rows::Weights;
use icecore_profile::named::names::{Names, Side, short};
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{NamePattern, Sum, groups, sums};

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
    let pattern = NamePattern::new(wanted, false);
    let hit: Vec<usize> = candidates().collect();
    let is_meant = pattern.among(hit.iter().map(|at| &names.functions[*at]));
    let found: Vec<usize> = hit.into_iter().zip(is_meant).filter_map(|(at, is)| is.then_some(at)).collect();
    if found.is_empty() {
        return Err(nothing(options, &pattern, names));
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

fn nothing(options: &Args, wanted: &NamePattern, names: &Names) -> Error {
    let of_image = options.image.as_ref().map(|image| format!(" in the image `{image}`")).unwrap_or_default();
    let near = nearest_function(wanted, names);
    let so = near.map_or_else(|| ": `top` lists them".to_owned(), |near| format!("; did you mean `{near}`?"));
    Error::Refused(format!("no function with samples is named or matches `{wanted}`{of_image}{so}"))
}
