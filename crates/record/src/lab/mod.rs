//! What benches and fuzz targets outside of this crate may reach. No other code uses it.

pub mod fuzz;
pub mod simulate;
