//! Compares recordings.
pub mod estimate;
pub mod judge;
pub mod noise;
pub mod series;
#[cfg(test)]
mod tests;
