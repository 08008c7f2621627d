//! Who has sent a signal.
#![allow(unsafe_code)]

/// Returns the id of the process that sent a signal; `None` if the kernel did.
///
/// # Source
/// sigaction(2)
pub(crate) fn sender(info: &libc::siginfo_t) -> Option<u32> {
    let is_of_process = [libc::SI_USER, libc::SI_QUEUE, libc::SI_TKILL].contains(&info.si_code);
    // SAFETY: with these codes the kernel has filled in the sender.
    is_of_process.then(|| unsafe { info.si_pid() } as u32)
}
