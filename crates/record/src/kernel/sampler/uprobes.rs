//! Attaches programs to instructions of files in every process, and leaves out those that the kernel refuses.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use anyhow::bail;
use libbpf_rs::{Link, ProgramMut, UprobeMultiOpts, UprobeOpts};

use super::is_kernel_since;
use crate::settings::InFile;
use crate::sys::memory::Mapped;

/// The kernel cannot execute an instruction away from its place (`ENOTSUPP`, for which user space has no name), or cannot decode it.
const REFUSALS: [i32; 2] = [524, libc::ENOEXEC];

/// Programs attached to a file.
#[derive(Default)]
pub(super) struct Attached {
    pub(super) links: Vec<Link>,
    /// Events of threads, which keep probes in their processes as long as they are open.
    pub(super) opened: Vec<OwnedFd>,
    /// The offsets of instructions that the kernel refuses, ascending.
    pub(super) refused: Vec<u64>,
}

impl Attached {
    /// # Errors
    /// If the kernel refuses all instructions.
    pub(super) fn check(self, at: &InFile) -> anyhow::Result<Self> {
        if self.refused.len() < at.offsets.len() {
            return Ok(self);
        }
        bail!(
            "the kernel cannot execute the instruction at {:#x} of `{}` away from its place; probe another instruction (objdump -dF shows \
             their offsets), or a caller",
            at.offsets.first().copied().unwrap_or_default(),
            at.file.display()
        )
    }
}

/// Attaches a program to instructions of a file, or to the returns of the functions that begin there: to all at once where the kernel
/// can, else one after the other. What the kernel refuses is left out.
///
/// # Errors
/// If the kernel refuses them for a reason that is none of the instructions.
pub(super) fn attach(
    program: &ProgramMut<'_>,
    at: &InFile,
    retprobe: bool,
    cookie: u64,
) -> anyhow::Result<Attached> {
    // In a file that no process has mapped, the kernel looks at instructions later, and reports no refusal.
    let _mapped = File::open(&at.file).ok().and_then(|file| Mapped::new(&file).ok());
    let mut attached = Attached::default();
    let all: Vec<usize> = (0..at.offsets.len()).collect();
    let at_once = if has_uprobe_multi() { all.len().max(1) } else { 1 };
    for some in all.chunks(at_once) {
        attach_some(program, at, some, (retprobe, cookie), &mut attached)?;
    }
    Ok(attached)
}

/// Attaches a program to some of the instructions, and halves them as long as the kernel refuses one.
fn attach_some(
    program: &ProgramMut<'_>,
    at: &InFile,
    some: &[usize],
    (retprobe, cookie): (bool, u64),
    attached: &mut Attached,
) -> anyhow::Result<()> {
    let any_process = -1;
    let offset_of = |n: &usize| at.offsets[*n] as usize;
    let counter_of = |n: &usize| at.counters.get(*n).map_or(0, |counter| *counter as usize);
    let made = if has_uprobe_multi() {
        let ref_ctr_offsets =
            if at.counters.is_empty() { Vec::new() } else { some.iter().map(counter_of).collect() };
        let opts = UprobeMultiOpts {
            offsets: some.iter().map(offset_of).collect(),
            ref_ctr_offsets,
            cookies: vec![cookie; some.len()],
            retprobe,
            ..UprobeMultiOpts::default()
        };
        program.attach_uprobe_multi_with_opts(any_process, &at.file, "", opts)
    } else {
        let opts =
            UprobeOpts { cookie, ref_ctr_offset: counter_of(&some[0]), retprobe, ..UprobeOpts::default() };
        program.attach_uprobe_with_opts(any_process, &at.file, offset_of(&some[0]), opts)
    };
    match made {
        Ok(link) => attached.links.push(link),
        Err(error) if !is_refusal(&error) => return Err(error.into()),
        Err(_) if some.len() > 1 => {
            let (before, after) = some.split_at(some.len() / 2);
            attach_some(program, at, before, (retprobe, cookie), attached)?;
            attach_some(program, at, after, (retprobe, cookie), attached)?;
        }
        Err(_) => attached.refused.extend(some.iter().map(|n| at.offsets[*n])),
    }
    Ok(())
}

/// Returns true if the kernel refuses an instruction.
fn is_refusal(error: &libbpf_rs::Error) -> bool {
    // libbpf-rs keeps the number of an error to itself, and writes it as the standard library does.
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    REFUSALS.into_iter().any(|code| text == io::Error::from_raw_os_error(code).to_string())
}

/// Returns true if a system call failed for that reason.
pub(super) fn is_refusal_of(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| REFUSALS.contains(&code))
}

/// Returns true if the kernel makes many probes at once.
pub(super) fn has_uprobe_multi() -> bool {
    is_kernel_since((6, 6))
}
