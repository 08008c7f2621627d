//! The memory of processes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// uapi/linux/kcmp.h `KCMP_VM`
const KCMP_VM: libc::c_long = 1;

/// Returns true if two processes have one address space; false also if the kernel does not tell.
pub(crate) fn is_shared(tgid: u32, other: u32) -> bool {
    let [tgid, other] = [tgid, other].map(libc::c_long::from);
    // SAFETY: kcmp(2) takes numbers alone, and changes nothing.
    let order =
        unsafe { libc::syscall(libc::SYS_kcmp, tgid, other, KCMP_VM, 0 as libc::c_long, 0 as libc::c_long) };
    order == 0
}

/// A file in the memory of this process, which never reads it there.
#[derive(Debug)]
pub(crate) struct Mapped {
    at: *mut libc::c_void,
    len: usize,
}

impl Mapped {
    /// Maps the whole file, privately.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        // SAFETY: a new mapping, placed by the kernel; checked below. Nothing reads it.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { at, len }) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and nothing refers to it.
        unsafe {
            libc::munmap(self.at, self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_shares_memory_with_itself_and_not_with_its_parent() {
        let own = std::process::id();
        assert!(is_shared(own, own));
        assert!(!is_shared(own, std::os::unix::process::parent_id()));
        assert!(!is_shared(own, u32::MAX));
    }
}
