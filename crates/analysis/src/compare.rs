//! Compares recordings: which rates changed, by how much, and whether that can be chance.
//!
//! ```text
//! reports ─► rows: matched between both sides ─► series: weights by slice ─► estimate ─► judge ─► comparison
//!            (matching)                                                          (noise)
//! ```
//!
//! docs/COMPARING.md describes the method and the measurements.

mod compared;
mod comparison;
pub mod estimate;
mod facts;
pub(crate) mod few;
mod functions;
pub mod judge;
mod metric;
pub mod noise;
mod pieces;
mod point;
mod renames;
mod row;
mod rows;
pub mod series;
mod shift;
mod totals;
mod unit;

pub use compared::{Compared, ComparedSide, Options};
pub use comparison::{ComparedRow, Comparison, Status, compare};
pub use facts::{RecordingFacts, facts};
pub use metric::{MetricSummary, SHOWN_AT};
pub use point::{Point, point};
pub use row::{By, RowKey, Sided};
pub use rows::Rows;
pub use series::Metric;
pub use totals::{CPU_NOISE, LEAST_NOISE_S, NoiseOrigin as TotalsNoise, Totals, WALL_NOISE};
pub use unit::{Unit, Work};

#[cfg(test)]
mod tests;
