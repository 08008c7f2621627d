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

pub use comparison::{Compared, ComparedRow, Comparison, Options, Side, Status, compare};
pub use facts::{Facts, facts};
pub use metric::{SHOWN_AT, Summary};
pub use point::{Point, point};
pub use rows::{By, Key, Rows, Sided};
pub use series::Metric;
pub use totals::{CPU_NOISE, LEAST_NOISE_S, Noise as TotalsNoise, Totals, WALL_NOISE};
pub use unit::{Unit, Work};

#[cfg(test)]
mod tests;
