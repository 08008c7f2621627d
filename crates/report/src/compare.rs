//! Compares recordings: which rates changed, by how much, and whether that can be chance.
//!
//! ```text
//! reports ─► rows: what is the same on both sides ─► series: weights by slice ─► estimate ─► judge ─► comparison
//!            (same)                                                              (noise)
//! ```
//!
//! docs/COMPARING.md tells the method and what was measured of it.

mod comparison;
pub mod estimate;
mod functions;
pub mod judge;
pub mod noise;
mod point;
mod renames;
mod rows;
pub mod series;
mod shift;
mod unit;

pub use comparison::{
    Compared, Comparison, Facts, Options, Row, SHOWN_AT, Side, Status, Summary, compare, facts,
};
pub use point::{Point, point};
pub use rows::{Key, Rows, Sided};
pub use series::Metric;
pub use unit::{Unit, Work};

#[cfg(test)]
mod tests;
