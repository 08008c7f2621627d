//! Fields of the envelope.

/// Reads `N` bytes at a fixed offset of a fixed-size envelope part.
pub(crate) fn field<const N: usize>(bytes: &[u8], off: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[off..off + N]);
    out
}
