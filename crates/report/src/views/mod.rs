//! Prints the results. Every view builds its rows once and shows them as text or as JSON; docs/JSON.md describes the latter.

pub mod annotate;
mod buckets;
pub mod cache;
pub mod depth;
pub mod diff;
mod drawn;
mod error;
pub(crate) mod events;
pub mod export;
pub mod flame;
pub mod folded;
pub mod health;
pub mod info;
mod kind;
mod left_out;
mod lost;
pub mod missing;
mod owners;
pub(crate) mod rates;
pub mod samples;
pub mod summary;
pub mod timeline;
pub mod top;
pub mod tree;
pub mod trend;
mod triggers;
pub mod tui;
pub(crate) mod unmatched;
pub mod verify;
mod view;

pub use error::{Error, Result};
pub use view::{Needs, Screen, Shown, Typed, View};

use icecore_profile::named::Amount;
use icecore_profile::named::pipeline::Report;
use icecore_text::path::shown;
use icecore_text::quantity::{count, duration, percent, things, weight};
use icecore_text::{Page, Style};

/// Writes what the shares of a view are shares of, and what limits their accuracy.
fn preface(report: &Report<'_>, whole: Amount, page: &mut Page) {
    let unit = &report.profile.measure.unit;
    let all = things(whole.samples, "sample");
    let of = match unit.as_str() {
        "samples" => format!("100% is {all}"),
        _ => format!("100% is {} in {all}", weight(whole.weight, unit)),
    };
    let filtered = report.filtered.as_ref().map(|filter| format!(" · {filter}")).unwrap_or_default();
    page.styled(Style::Dim, &format!("{}: {of}{filtered}", shown(report.loaded.path)));
    caveats(report, page);
}

/// Writes how many samples a view has that does not add up weights, and what limits its accuracy.
fn preface_of_samples(report: &Report<'_>, samples: u64, page: &mut Page) {
    let filtered = report.filtered.as_ref().map(|filter| format!(" · {filter}")).unwrap_or_default();
    let text = format!("{}: {}{filtered}", shown(report.loaded.path), things(samples, "sample"));
    page.styled(Style::Dim, &text);
    omissions(report, page);
    damage(report, page);
}

fn caveats(report: &Report<'_>, page: &mut Page) {
    selection(report, page);
    guesses(report, page);
    damage(report, page);
}

/// Says how much rests on guesses.
fn guesses(report: &Report<'_>, page: &mut Page) {
    if let Some(text) = guessed(report) {
        page.sentence(Style::Dim, 0, &text);
    }
}

/// Says which share of the weight is in stacks with a guessed frame.
fn guessed(report: &Report<'_>) -> Option<String> {
    let share = guessed_share(report);
    let share = (share > 0.0).then(|| percent(share))?;
    Some(format!("{share} in stacks with a guessed caller (marked ?): it and what called it may be wrong"))
}

/// Returns the share of the weight that is in stacks with a guessed frame.
fn guessed_share(report: &Report<'_>) -> f64 {
    report.profile.guessed().share_of(report.profile.whole())
}

/// Says what of the recording is not shown, or shown together although it is not alike.
fn selection(report: &Report<'_>, page: &mut Page) {
    omissions(report, page);
    if let Some(mixed) = events::mixed(report) {
        page.sentence(Style::Warn, 0, &mixed);
    }
}

fn omissions(report: &Report<'_>, page: &mut Page) {
    if let Some(unshown) = events::unshown(report) {
        page.sentence(Style::Dim, 0, &unshown);
    }
    let (idle, idle_ns) = report.loaded.hits.seen.idle;
    if idle > 0 {
        let are = if idle == 1 { "wait of a kernel thread" } else { "waits of kernel threads" };
        let lasted = match report.loaded.hits.seen.shift {
            0 => format!(", {}", duration(idle_ns)),
            _ => String::new(),
        };
        let text = format!("{} {are} without work left out{lasted} (--idle shows them)", count(idle));
        page.sentence(Style::Dim, 0, &text);
    }
    let shortened = report.loaded.hits.seen.shortened;
    if shortened > 0 {
        let text = format!(
            "the stacks of {} begin with the function that has the tracepoint (--tracing shows what it calls)",
            things(shortened, "sample")
        );
        page.sentence(Style::Dim, 0, &text);
    }
    let without = report.loaded.hits.seen.without_frames;
    if without > 0 {
        page.styled(
            Style::Dim,
            &format!("{} without a frame on the wanted side left out", things(without, "sample")),
        );
    }
    if report.profile.emptied > 0 {
        let text = format!(
            "{} of which nothing but hidden frames was left, left out",
            things(report.profile.emptied, "sample")
        );
        page.styled(Style::Dim, &text);
    }
}

fn damage(report: &Report<'_>, page: &mut Page) {
    let damage = &report.loaded.tables.damage;
    if let Some(first) = damage.first() {
        let more = if damage.len() > 1 {
            format!(", and {} more", count(damage.len() as u64 - 1))
        } else {
            String::new()
        };
        page.sentence(Style::Bad, 0, &format!("damaged: {first}{more}; see icecore-report verify"));
    }
}
