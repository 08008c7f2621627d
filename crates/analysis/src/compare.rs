//! Compares recordings: which rates changed, by how much, and whether that can be chance.
//!
//! ```text
//! reports ─► rows: matched between both sides ─► series: weights by slice ─► estimate ─► judge ─► comparison
//!            (matching)                                                          (noise)
//! ```
//!
//! docs/COMPARING.md describes the method and the measurements.

mod comparison;
pub mod estimate;
mod facts;
mod few;
mod functions;
pub mod judge;
mod metric;
pub mod noise;
mod pieces;
mod point;
mod renames;
mod rows;
pub mod series;
mod shift;
mod totals;
mod unit;

pub use comparison::{Compared, ComparedRow, ComparedSide, Comparison, Options, Status, compare};
pub use facts::{RecordingFacts, facts};
pub use metric::{MetricSummary, SHOWN_AT};
pub use point::{Point, point};
pub use rows::{By, RowKey, Rows, Sided};
pub use series::Metric;
pub use totals::{CPU_NOISE, LEAST_NOISE_S, NoiseOrigin as TotalsNoise, Totals, WALL_NOISE};
pub use unit::{Unit, Work};

#[cfg(test)]
mod tests;
