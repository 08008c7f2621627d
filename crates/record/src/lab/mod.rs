//! The functions that benches and fuzz targets outside of this crate may use. No other code uses them.

pub mod fuzz;
pub mod simulate;
