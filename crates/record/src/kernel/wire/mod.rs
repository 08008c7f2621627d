//! Decodes the records of the BPF ring (`bpf/wire.h`) and the mapping reports of perf events.
//!
//! Offsets and numbers come from the types of the skeleton, which is generated from the header.

mod process;
mod reports;

use std::mem::offset_of;

use icecore_elf::Avma;

use crate::foreign::Meta;
use crate::skeleton::types::{
    account_moment, cgroup_record, cpu_time_record, file_key, interpreted_flags, interpreted_frame,
    interpreted_record, limits, no_table_record, page_record, record_head, record_type, registers_record,
    sample_record, stack_record, task_record, wait_flags, wait_record, walk_end,
};
pub(crate) use process::Process;
#[cfg(test)]
pub(crate) use process::{Bytes, Sums};
pub use reports::{Inode, NewMapping, Report, reports};

/// The number of registers in a snapshot, which are in DWARF's order up to the program counter.
pub(crate) const REGISTER_COUNT: usize =
    (offset_of!(registers_record, top) - offset_of!(registers_record, registers)) / 8;
/// The position of the stack pointer among them; the program counter is the last one.
pub(crate) const STACK_POINTER: usize = limits::STACK_POINTER.0 as usize;
/// The size of a stack page, bytes.
pub(crate) const PAGE_BYTES: u64 = limits::STACK_PAGE_LEN.0 as u64;

/// A stack page of a thread, as the key of the sampler's list of sent pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PageKey(pub(crate) u64);

impl PageKey {
    pub(crate) fn new(tid: u32, address: Avma) -> Self {
        const BITS: u32 = limits::PAGE_NUMBER_BITS.0;
        Self(u64::from(tid) << BITS | (address.0 / PAGE_BYTES) & ((1 << BITS) - 1))
    }
}

/// One decoded record, borrowed from its chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    Sample(Sample<'a>),
    Fork {
        head: Head<'a>,
        parent_tgid: u32,
        /// Another process that has the address space of its creator, not a copy.
        shares_memory: bool,
    },
    Exec {
        head: Head<'a>,
    },
    Comm {
        head: Head<'a>,
    },
    Exit {
        head: Head<'a>,
        whole_group: bool,
        /// How the thread ended, as wait(2) has it.
        status: u32,
    },
    /// A walk came to code without unwind tables.
    NoTable(NoTable),
    /// Registers and the top of the stack. In the same buffer its pages follow, then its hashes, then the sample.
    Registers(Registers<'a>),
    /// A page of a stack that changed since it was last sent.
    StackPage(StackPage<'a>),
    /// The hashes of all pages of a stack.
    Stack(Stack<'a>),
    /// The functions that an interpreter runs. In the same buffer the sample follows.
    Interpreted(Interpreted<'a>),
    /// A thread is on a CPU again.
    Wait(Wait<'a>),
    /// The user stack of a thread that waited: user frames alone; the weight is the number of the epoch whose waits have this stack.
    WaitStack(Sample<'a>),
    /// CPU time of a thread by the kernel's own account.
    CpuTime(Reading),
    /// Counters of a process.
    Process(Process),
    /// A cgroup was created; the head has its id.
    Cgroup {
        head: Head<'a>,
        path: &'a [u8],
    },
}

/// The head of the records in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
    pub(crate) tgid: u32,
    pub(crate) tid: u32,
    /// Name of the thread, without its padding.
    pub comm: &'a [u8],
    /// Id of the thread's cgroup in the hierarchy of cgroup2; 0 if there is none.
    pub(crate) cgroup_id: u64,
}

/// One sample. Frames are leaf first, eight bytes each in the byte order of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    pub head: Head<'a>,
    pub(crate) weight: u64,
    pub(crate) kernel_end: u8,
    pub(crate) user_end: u8,
    pub kernel: Frames<'a>,
    pub user: Frames<'a>,
    /// The number of the snapshot that came before in the same buffer; 0 if there is none.
    pub(crate) snapshot: u64,
    /// The number of the functions of an interpreter that came before in the same buffer; 0 if there are none.
    pub(crate) interpreted: u64,
    /// Position in the session's list of events.
    pub(crate) event: u8,
    /// A field of a tracepoint, as the kernel has it; empty if the sample has none.
    pub(crate) field: &'a [u8],
}

/// The most bytes of a field in a sample.
pub(crate) const MAX_FIELD_BYTES: usize = limits::MAX_FIELD_LEN.0 as usize;

/// Returns the buffer of the sampler from which a snapshot comes: what comes from one buffer is not interleaved.
pub(crate) fn buffer_of(snapshot: u64) -> u32 {
    (snapshot >> limits::SNAPSHOT_BITS.0) as u32
}

/// A file as the kernel knows it: the bytes of `struct file_key` (bpf/wire.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileKey(pub(crate) [u8; size_of::<file_key>()]);

impl FileKey {
    /// Returns true if it is the vDSO, which is in no file.
    pub(crate) fn is_vdso(&self) -> bool {
        u32_at(&self.0, offset_of!(file_key, dev)) == Some(0)
    }

    /// Returns its device, as the C library numbers it: the kernel has 12 bits for the major number, and 20 for the minor one.
    pub(crate) fn dev(&self) -> u64 {
        let dev = u32_at(&self.0, offset_of!(file_key, dev)).unwrap_or(0);
        libc::makedev(dev >> 20, dev & 0xf_ffff)
    }

    /// Returns true if it is on a disk: its device has a major number, in the upper 12 of 32 bits. Others have the numbers of devices
    /// that are gone, and the owner of a file system without a disk (FUSE) may set all else.
    pub(crate) fn is_on_disk(&self) -> bool {
        u32_at(&self.0, offset_of!(file_key, dev)).is_some_and(|dev| dev >> 20 != 0)
    }

    /// Returns true if a file has inode, size and time of the last change from here. (Some file systems show another device to users.)
    pub(crate) fn is_of(&self, file: &Meta) -> bool {
        let field = |at| u64_at(&self.0, at).unwrap_or_default();
        field(offset_of!(file_key, inode)) == file.inode
            && field(offset_of!(file_key, size)) == file.size_bytes
            && field(offset_of!(file_key, changed_ns)) == file.changed_unix_ns
    }
}

/// A file whose unwind tables a walk lacked, and where it is mapped in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTable {
    pub(crate) tgid: u32,
    pub(crate) file: FileKey,
    pub(crate) start: Avma,
    pub(crate) end: Avma,
    /// The user of the process, a user id.
    pub(crate) user: u32,
}

/// The registers of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers<'a> {
    pub(crate) snapshot: u64,
    pub(crate) values: [u64; REGISTER_COUNT],
    /// Address after the stack; 0 if it is not known.
    pub(crate) stack_end: Avma,
    /// What lies at the stack pointer; empty if it could not be read.
    pub(crate) top: &'a [u8],
    /// These are the registers of outer code: code that a signal interrupted, or C code that called Go.
    pub(crate) is_outer: bool,
}

/// A page of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackPage<'a> {
    pub(crate) snapshot: u64,
    pub(crate) tid: u32,
    pub(crate) address: Avma,
    pub(crate) hash: u64,
    pub(crate) bytes: &'a [u8],
}

/// The hashes of a stack's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack<'a> {
    pub(crate) snapshot: u64,
    pub(crate) low: Avma,
    /// The address after the last byte; at least `low`.
    pub(crate) high: Avma,
    pub(crate) tid: u32,
    /// One hash of eight bytes per page, in the byte order of the machine.
    pub(crate) hashes: &'a [u8],
}

impl Stack<'_> {
    /// Returns address and hash of each page, beginning with the page of `low`; the hash is 0 if the page could not be read.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (Avma, u64)> {
        let hashes = self.hashes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        let first = self.low.0 & !(PAGE_BYTES - 1);
        (0..).zip(hashes).map(move |(number, hash)| (Avma(first.saturating_add(number * PAGE_BYTES)), hash))
    }
}

/// The functions that an interpreter runs in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interpreted<'a> {
    pub(crate) number: u64,
    /// They come to the outermost one.
    pub(crate) is_whole: bool,
    frames: &'a [u8],
}

/// A function that an interpreter runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterpretedFrame {
    /// Address of its code object.
    pub(crate) code: u64,
    pub(crate) instruction: u64,
    /// What tells the code object from others at its address.
    pub(crate) check: u32,
    /// 1 + the position of the machine frame that runs it; 0 if it is that of the next function that has one.
    pub(crate) machine_frame: usize,
    /// It is the innermost one of its interpreter.
    pub(crate) is_innermost: bool,
    /// Native code called it, so it is the outermost one of a run of the eval loop.
    pub(crate) is_entered: bool,
    /// Its address and `instruction` are those that registers held.
    pub(crate) is_in_registers: bool,
}

impl<'a> Interpreted<'a> {
    #[cfg(test)]
    pub(crate) fn of(number: u64, frames: &'a [u8]) -> Self {
        Self { number, is_whole: true, frames }
    }

    /// Returns the functions, the innermost first.
    pub(crate) fn frames(&self) -> impl Iterator<Item = InterpretedFrame> {
        self.frames.chunks_exact(size_of::<interpreted_frame>()).filter_map(|bytes| {
            let flags = u32::from(u16_at(bytes, offset_of!(interpreted_frame, flags))?);
            let has = |flag: interpreted_flags| flags & flag.0 != 0;
            Some(InterpretedFrame {
                code: u64_at(bytes, offset_of!(interpreted_frame, code))?,
                instruction: u64_at(bytes, offset_of!(interpreted_frame, instruction))?,
                check: u32_at(bytes, offset_of!(interpreted_frame, check))?,
                machine_frame: u16_at(bytes, offset_of!(interpreted_frame, machine_frame))?.into(),
                is_innermost: has(interpreted_flags::INTERPRETED_INNERMOST),
                is_entered: has(interpreted_flags::INTERPRETED_ENTERED),
                is_in_registers: has(interpreted_flags::INTERPRETED_IN_REGISTERS),
            })
        })
    }
}

/// What a thread has waited for, and how long: until `ready_ns` for somebody, and then for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait<'a> {
    /// The thread; its time is the end of the wait.
    pub(crate) head: Head<'a>,
    pub(crate) began_ns: u64,
    pub(crate) ready_ns: u64,
    /// Weight of the first part, ns; 0 if it is no sample.
    pub(crate) blocked_weight: u64,
    /// Weight of the second part, ns; 0 if it is no sample.
    pub(crate) delay_weight: u64,
    /// The user stack is that of [`Event::WaitStack`] with this number.
    pub(crate) epoch: u64,
    /// Time of the waker's sample; 0 if there is none.
    pub(crate) waker_ns: u64,
    pub(crate) waker_tgid: u32,
    /// 0 if no thread is known to have ended the wait.
    pub(crate) waker_tid: u32,
    pub(crate) waker_comm: &'a [u8],
    /// The kernel's state of the task; 0: runnable, all ones: unknown.
    pub(crate) state: u32,
    /// Who ended it: the numbers of docs/FORMAT.md.
    pub(crate) woken_by: u8,
    pub(crate) began_before: bool,
    pub(crate) has_not_ended: bool,
    /// [`Event::WaitStack`] follows.
    pub(crate) has_stack: bool,
    pub(crate) kernel_end: u8,
    /// The innermost frames when the thread left its CPU, without the scheduler's own; empty if they were not taken.
    pub(crate) inner: Frames<'a>,
    /// The kernel stack, from which the kernel leaves out the functions of its scheduler and of its locks.
    pub(crate) kernel: Frames<'a>,
}

/// The moment at which the CPU time of a thread was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Running,
    /// The thread is ending: it will run a little longer, and its time since the last tick is missing.
    Ending,
    /// The thread will not run again.
    Freed,
}

/// The CPU time of a thread since it began, by the kernel's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub(crate) moment: Moment,
    pub(crate) time_ns: u64,
    /// Identifies the thread. A thread id does not: it is reused, and moves to another thread at exec.
    pub(crate) task: u64,
    pub(crate) start_ns: u64,
    pub(crate) tgid: u32,
    pub(crate) tid: u32,
    pub(crate) ran: Ran,
}

/// CPU time, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) all_ns: u64,
    pub(crate) user_ns: u64,
    pub(crate) kernel_ns: u64,
}

/// The address of an instruction that a signal interrupted, if a user frame of a walk is one .
pub(crate) fn interrupted(frame: Avma) -> Option<Avma> {
    (frame.0 & INTERRUPTED != 0).then_some(Avma(frame.0 & !INTERRUPTED))
}

/// The bit of such an address.
pub(crate) const INTERRUPTED: u64 = 1 << limits::FRAME_INTERRUPTED_BIT.0;

/// The addresses of one side of a stack, kernel or user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frames<'a>(&'a [u8]);

impl<'a> Frames<'a> {
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the addresses, leaf first.
    pub fn leaf_first(self) -> impl DoubleEndedIterator<Item = Avma> + 'a {
        self.0.as_chunks().0.iter().map(|bytes| Avma(u64::from_ne_bytes(*bytes)))
    }
}

/// Why bytes are not a valid record. The recorder counts them and goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    #[error("a record of {len} bytes is too short")]
    Short { len: usize },
    #[error("record type {0} is unknown")]
    Type(u32),
    #[error("a sample of {len} bytes cannot hold {frames} frames")]
    Frames { len: usize, frames: usize },
}

/// Decodes one record of the ring.
pub fn decode(bytes: &[u8]) -> Result<Event<'_>, Undecodable> {
    let short = Undecodable::Short { len: bytes.len() };
    let kind = u32_at(bytes, offset_of!(record_head, r#type)).ok_or(short)?;
    match record_type(kind) {
        record_type::RECORD_NO_TABLE => return no_table(bytes).ok_or(short).map(Event::NoTable),
        record_type::RECORD_REGISTERS => return registers(bytes).ok_or(short).map(Event::Registers),
        record_type::RECORD_STACK_PAGE => return stack_page(bytes).ok_or(short).map(Event::StackPage),
        record_type::RECORD_STACK => return stack(bytes).ok_or(short).map(Event::Stack),
        record_type::RECORD_INTERPRETED => return interpreted(bytes).ok_or(short).map(Event::Interpreted),
        record_type::RECORD_PROCESS => return process::process(bytes).ok_or(short).map(Event::Process),
        record_type::RECORD_CPU_TIME => return cpu_time(bytes).ok_or(short).map(Event::CpuTime),
        _ => {}
    }
    let head = head(bytes).ok_or(short)?;
    Ok(match record_type(kind) {
        record_type::RECORD_SAMPLE => Event::Sample(sample(bytes, head)?),
        record_type::RECORD_WAIT_STACK => Event::WaitStack(sample(bytes, head)?),
        record_type::RECORD_WAIT => Event::Wait(wait(bytes, head).ok_or(short)?),
        record_type::RECORD_FORK => {
            let parent_tgid = u32_at(bytes, offset_of!(task_record, parent_tgid)).ok_or(short)?;
            let shares_memory = u16_at(bytes, offset_of!(task_record, shares_memory)).ok_or(short)? != 0;
            Event::Fork { head, parent_tgid, shares_memory }
        }
        record_type::RECORD_EXEC => Event::Exec { head },
        record_type::RECORD_COMM => Event::Comm { head },
        record_type::RECORD_EXIT => {
            let whole_group = u16_at(bytes, offset_of!(task_record, whole_group)).ok_or(short)? != 0;
            let status = u32_at(bytes, offset_of!(task_record, parent_tgid)).ok_or(short)?;
            Event::Exit { head, whole_group, status }
        }
        record_type::RECORD_CGROUP => {
            let path = bytes.get(offset_of!(cgroup_record, path)..size_of::<cgroup_record>()).ok_or(short)?;
            Event::Cgroup { head, path: until_nul(path) }
        }
        record_type(other) => return Err(Undecodable::Type(other)),
    })
}

fn interpreted(bytes: &[u8]) -> Option<Interpreted<'_>> {
    let len = usize::from(u16_at(bytes, offset_of!(interpreted_record, len))?);
    let frames = bytes.get(offset_of!(interpreted_record, frames)..)?;
    let frames = frames.get(..len * size_of::<interpreted_frame>())?;
    let is_whole = u16_at(bytes, offset_of!(interpreted_record, end))? == walk_end::WALK_ROOT.0 as u16;
    Some(Interpreted { number: u64_at(bytes, offset_of!(interpreted_record, number))?, is_whole, frames })
}

fn head(bytes: &[u8]) -> Option<Head<'_>> {
    const COMM: usize = offset_of!(record_head, comm);
    let comm = bytes.get(COMM..offset_of!(record_head, cgroup_id))?;
    Some(Head {
        time_ns: u64_at(bytes, offset_of!(record_head, time_ns))?,
        cpu: u32_at(bytes, offset_of!(record_head, cpu))?,
        tgid: u32_at(bytes, offset_of!(record_head, tgid))?,
        tid: u32_at(bytes, offset_of!(record_head, tid))?,
        comm: until_nul(comm),
        cgroup_id: u64_at(bytes, offset_of!(record_head, cgroup_id))?,
    })
}

fn sample<'a>(bytes: &'a [u8], head: Head<'a>) -> Result<Sample<'a>, Undecodable> {
    let short = Undecodable::Short { len: bytes.len() };
    let kernel_len = u16_at(bytes, offset_of!(sample_record, kernel_len)).ok_or(short)?;
    let user_len = u16_at(bytes, offset_of!(sample_record, user_len)).ok_or(short)?;
    let (kernel_len, user_len) = (usize::from(kernel_len), usize::from(user_len));
    let frames = bytes.get(size_of::<sample_record>()..).ok_or(short)?;
    let too_few = Undecodable::Frames { len: bytes.len(), frames: kernel_len + user_len };
    let (kernel, rest) = frames.split_at_checked(kernel_len * 8).ok_or(too_few)?;
    let (user, rest) = rest.split_at_checked(user_len * 8).ok_or(too_few)?;
    let field_len = usize::from(*bytes.get(offset_of!(sample_record, field_len)).ok_or(short)?);
    Ok(Sample {
        head,
        weight: u64_at(bytes, offset_of!(sample_record, weight)).ok_or(short)?,
        kernel_end: *bytes.get(offset_of!(sample_record, kernel_end)).ok_or(short)?,
        user_end: *bytes.get(offset_of!(sample_record, user_end)).ok_or(short)?,
        kernel: Frames(kernel),
        user: Frames(user),
        snapshot: u64_at(bytes, offset_of!(sample_record, snapshot)).ok_or(short)?,
        interpreted: u64_at(bytes, offset_of!(sample_record, interpreted)).ok_or(short)?,
        event: *bytes.get(offset_of!(sample_record, event)).ok_or(short)?,
        field: rest.get(..field_len).ok_or(short)?,
    })
}

fn wait<'a>(bytes: &'a [u8], head: Head<'a>) -> Option<Wait<'a>> {
    let flags = u32_at(bytes, offset_of!(wait_record, flags))?;
    let has = |flag: wait_flags| flags & flag.0 != 0;
    let (inner, kernel) =
        bytes.get(size_of::<wait_record>()..wait_bytes(bytes)?)?.split_at_checked(inner_bytes(bytes)?)?;
    let from = usize::from(u16_at(bytes, offset_of!(wait_record, inner_from))?) * 8;
    Some(Wait {
        head,
        began_ns: u64_at(bytes, offset_of!(wait_record, began_ns))?,
        ready_ns: u64_at(bytes, offset_of!(wait_record, ready_ns))?,
        blocked_weight: u64_at(bytes, offset_of!(wait_record, blocked_weight))?,
        delay_weight: u64_at(bytes, offset_of!(wait_record, delay_weight))?,
        epoch: u64_at(bytes, offset_of!(wait_record, epoch))?,
        waker_ns: u64_at(bytes, offset_of!(wait_record, waker_ns))?,
        waker_tgid: u32_at(bytes, offset_of!(wait_record, waker_tgid))?,
        waker_tid: u32_at(bytes, offset_of!(wait_record, waker_tid))?,
        waker_comm: until_nul(
            bytes.get(offset_of!(wait_record, waker_comm)..offset_of!(wait_record, state))?,
        ),
        state: u32_at(bytes, offset_of!(wait_record, state))?,
        woken_by: *bytes.get(offset_of!(wait_record, woken_by))?,
        began_before: has(wait_flags::WAIT_BEGAN_BEFORE),
        has_not_ended: has(wait_flags::WAIT_NOT_ENDED),
        has_stack: has(wait_flags::WAIT_HAS_STACK),
        kernel_end: *bytes.get(offset_of!(wait_record, kernel_end))?,
        inner: Frames(inner.get(from..).unwrap_or_default()),
        kernel: Frames(kernel),
    })
}

/// Returns the length of the record of a wait, or of the user stack of a wait, at the beginning of some bytes; the iterator over all threads
/// gives one after the other.
pub(crate) fn record_bytes(bytes: &[u8]) -> Option<usize> {
    let len = |at: usize| u16_at(bytes, at).map(usize::from);
    match record_type(u32_at(bytes, 0)?) {
        record_type::RECORD_WAIT => wait_bytes(bytes),
        record_type::RECORD_REGISTERS => {
            let top = u32_at(bytes, offset_of!(registers_record, top_len))?;
            Some(offset_of!(registers_record, top) + top as usize)
        }
        record_type::RECORD_WAIT_STACK => {
            let (kernel, user) = (offset_of!(sample_record, kernel_len), offset_of!(sample_record, user_len));
            Some(size_of::<sample_record>() + (len(kernel)? + len(user)?) * 8)
        }
        _ => None,
    }
}

/// Returns the length of a `wait_record`.
fn wait_bytes(bytes: &[u8]) -> Option<usize> {
    let frames = u16_at(bytes, offset_of!(wait_record, kernel_len))?;
    Some(size_of::<wait_record>() + inner_bytes(bytes)? + usize::from(frames) * 8)
}

/// Returns the length of the innermost frames of a `wait_record`.
fn inner_bytes(bytes: &[u8]) -> Option<usize> {
    Some(usize::from(u16_at(bytes, offset_of!(wait_record, inner_len))?) * 8)
}

fn no_table(bytes: &[u8]) -> Option<NoTable> {
    let bytes = bytes.get(..size_of::<no_table_record>())?;
    Some(NoTable {
        tgid: u32_at(bytes, offset_of!(no_table_record, tgid))?,
        file: FileKey(*bytes.get(offset_of!(no_table_record, file)..)?.first_chunk()?),
        start: Avma(u64_at(bytes, offset_of!(no_table_record, start))?),
        end: Avma(u64_at(bytes, offset_of!(no_table_record, end))?),
        user: u32_at(bytes, offset_of!(no_table_record, uid))?,
    })
}

fn registers(bytes: &[u8]) -> Option<Registers<'_>> {
    const TOP: usize = offset_of!(registers_record, top);
    let top_len = u32_at(bytes, offset_of!(registers_record, top_len))? as usize;
    let values = bytes.get(offset_of!(registers_record, registers)..TOP)?;
    let mut values = values.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
    Some(Registers {
        snapshot: u64_at(bytes, offset_of!(registers_record, snapshot))?,
        values: std::array::from_fn(|_| values.next().unwrap_or_default()),
        stack_end: Avma(u64_at(bytes, offset_of!(registers_record, stack_end))?),
        top: bytes.get(TOP..)?.get(..top_len)?,
        is_outer: u32_at(bytes, offset_of!(registers_record, is_outer))? != 0,
    })
}

fn stack_page(bytes: &[u8]) -> Option<StackPage<'_>> {
    Some(StackPage {
        tid: u32_at(bytes, offset_of!(page_record, tid))?,
        hash: u64_at(bytes, offset_of!(page_record, hash))?,
        snapshot: u64_at(bytes, offset_of!(page_record, snapshot))?,
        address: Avma(u64_at(bytes, offset_of!(page_record, address))?),
        bytes: bytes.get(offset_of!(page_record, bytes)..size_of::<page_record>())?,
    })
}

fn stack(bytes: &[u8]) -> Option<Stack<'_>> {
    let (low, len) =
        (u64_at(bytes, offset_of!(stack_record, low))?, u32_at(bytes, offset_of!(stack_record, len))?);
    let hashes = bytes.get(size_of::<stack_record>()..)?;
    Some(Stack {
        snapshot: u64_at(bytes, offset_of!(stack_record, snapshot))?,
        low: Avma(low),
        high: Avma(u64_at(bytes, offset_of!(stack_record, high))?.max(low)),
        tid: u32_at(bytes, offset_of!(stack_record, tid))?,
        hashes: hashes.get(..len as usize * 8)?,
    })
}

fn cpu_time(bytes: &[u8]) -> Option<Reading> {
    Some(Reading {
        moment: match account_moment(u32_at(bytes, offset_of!(cpu_time_record, moment))?) {
            account_moment::ACCOUNT_ENDING => Moment::Ending,
            account_moment::ACCOUNT_FREED => Moment::Freed,
            _ => Moment::Running,
        },
        time_ns: u64_at(bytes, offset_of!(cpu_time_record, time_ns))?,
        task: u64_at(bytes, offset_of!(cpu_time_record, task))?,
        start_ns: u64_at(bytes, offset_of!(cpu_time_record, start_ns))?,
        tgid: u32_at(bytes, offset_of!(cpu_time_record, tgid))?,
        tid: u32_at(bytes, offset_of!(cpu_time_record, tid))?,
        ran: Ran {
            all_ns: u64_at(bytes, offset_of!(cpu_time_record, ran_ns))?,
            user_ns: u64_at(bytes, offset_of!(cpu_time_record, user_ns))?,
            kernel_ns: u64_at(bytes, offset_of!(cpu_time_record, kernel_ns))?,
        },
    })
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

pub(super) fn u16_at(bytes: &[u8], off: usize) -> Option<u16> {
    bytes.get(off..)?.first_chunk().map(|b| u16::from_ne_bytes(*b))
}

pub(super) fn u32_at(bytes: &[u8], off: usize) -> Option<u32> {
    bytes.get(off..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

pub(super) fn u64_at(bytes: &[u8], off: usize) -> Option<u64> {
    bytes.get(off..)?.first_chunk().map(|b| u64::from_ne_bytes(*b))
}

#[cfg(test)]
mod tests;
