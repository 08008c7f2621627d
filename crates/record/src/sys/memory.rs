//! The memory of processes.
#![allow(unsafe_code)]

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
