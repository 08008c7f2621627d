//! Reads registers and memory of a stopped process, as a debugger does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use icecore_elf::Avma;
use icecore_unwind::{Miss, Registers, StackMemory};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

const PAGE: u64 = 4096;

/// Memory of a process, read page by page and kept until it runs on.
pub(crate) struct Memory {
    pub(crate) file: File,
    pages: RefCell<HashMap<u64, Option<Box<[u8; PAGE as usize]>>>>,
}

impl Memory {
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let file = File::open(format!("/proc/{pid}/mem")).ok()?;
        Some(Self { file, pages: RefCell::default() })
    }

    /// Forgets what was read: the process has run.
    pub(crate) fn refresh(&self) {
        self.pages.borrow_mut().clear();
    }

    /// Eight bytes of it.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let (number, off) = (address / PAGE, (address % PAGE) as usize);
        let mut word = [0; 8];
        let len = word.len().min(PAGE as usize - off);
        self.copy(number, off, &mut word[..len])?;
        self.copy(number + 1, 0, &mut word[len..])?;
        Some(u64::from_le_bytes(word))
    }

    fn copy(&self, number: u64, off: usize, to: &mut [u8]) -> Option<()> {
        if to.is_empty() {
            return Some(());
        }
        let mut pages = self.pages.borrow_mut();
        let page = pages.entry(number).or_insert_with(|| {
            let mut page = Box::new([0; PAGE as usize]);
            self.file.read_exact_at(&mut *page, number * PAGE).ok().map(|()| page)
        });
        to.copy_from_slice(&page.as_ref()?[off..off + to.len()]);
        Some(())
    }
}

impl StackMemory for Memory {
    fn read_u64(&self, address: Avma) -> Result<u64, Miss> {
        self.word(address.0).ok_or(Miss::Elsewhere)
    }
}

/// Registers by their DWARF numbers.
pub(crate) fn registers(pid: Pid) -> Option<Registers> {
    let r = ptrace::getregs(pid).ok()?;
    Some(Registers::x86_64(&[
        r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
        r.r14, r.r15, r.rip,
    ]))
}

/// A process of ours, which dies with this.
pub(crate) struct Victim(pub(crate) std::process::Child);

impl Victim {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().cast_signed())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.0.kill());
        // It has not ended before we have seen the end of each of its threads that we trace.
        let ours = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        while waitpid(None, Some(ours)) != Err(Errno::ECHILD) {}
    }
}
