//! Questions that only an archive answers, by its tables: which hosts differ from the others, since when functions cost more or less,
//! and since when stacks and names are worse. One file for each.

mod baseline;
mod command;
mod follow;
mod functions;
mod kinds;
mod nights;
mod outliers;
mod quality;
mod regressions;
mod sums;

pub(super) use baseline::baseline;
pub(super) use command::{moment, term};
pub(super) use functions::trend_by_night;
pub(super) use outliers::outliers;
pub(super) use quality::trend;
pub(super) use regressions::regressions;

use icecore_text::quantity::percent;

/// The interval of a difference of shares, in points.
fn interval(low: f64, high: f64) -> String {
    let points = |points: f64| format!("{}{}", if points < 0.0 { "-" } else { "+" }, percent(points.abs()));
    format!("{} .. {}", points(low).trim_end_matches('%'), points(high).trim_end_matches('%'))
}
