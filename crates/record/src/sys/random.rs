//! Random bytes from a system call, since `/dev` may be empty.
#![allow(unsafe_code)]

use std::io;

/// Returns sixteen random bytes.
///
/// # Errors
/// The error of getrandom(2).
pub(crate) fn bytes() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // SAFETY: the pointer is valid for writing so many bytes.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match count {
        16 => Ok(bytes),
        -1 => Err(io::Error::last_os_error()),
        // Up to 256 bytes are never interrupted.
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_are_alike() {
        assert_ne!(super::bytes().expect("Linux 3.17"), super::bytes().expect("Linux 3.17"));
    }
}
