//! A dependency that was added.

#[inline(never)]
pub fn mean<T: Copy + Into<f64>>(of: &[T]) -> f64 {
    of.iter().map(|x| (*x).into()).sum::<f64>() / of.len() as f64
}
