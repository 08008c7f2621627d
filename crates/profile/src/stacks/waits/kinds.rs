//! Classifies waits by the functions of the kernel in which threads waited. A kind is what such a function says, and no guess: a
//! wait in a function that is not in the table is called by that function.

use icecore_format::records::{EventMeaning, WaitState};

use super::WaitFacts;
use crate::recording::load::Tables;
use crate::stacks::idle::{Depth, may_be_idle};
use crate::stacks::kernel::KernelSymbols;
use crate::stacks::locate::{CodeLocation, kernel_place, steps};

/// For what a thread waited.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitKind {
    /// For a moment.
    Sleep,
    /// For a lock or a condition of user space.
    Futex,
    /// For a pipe.
    Pipe,
    /// For a socket.
    Socket,
    /// For one of several files.
    Poll,
    /// For a disk, or whatever else moves the data of files.
    Disk,
    /// For a page of its memory.
    PageFault,
    /// For a lock of the kernel.
    KernelLock,
    /// For a child process.
    Child,
    /// For whoever had stopped it: a signal or a debugger.
    Stopped,
    /// For a CPU.
    RunDelay,
    /// For a page of its stack that the recorder reads.
    Recorder,
    /// For an event that a program counts in a file: eventfd.
    Event,
    /// For a timer that is a file: timerfd.
    Timer,
    /// For a signal, or for one that is read from a file: signalfd.
    Signal,
    /// For a change of files: inotify, fanotify.
    Notify,
    /// For the end of a request to io_uring, or for one.
    Uring,
    /// For a terminal, also a pseudo-terminal.
    Terminal,
    /// For a lock on a file.
    FileLock,
    /// For a message or a semaphore of System V or POSIX.
    Ipc,
    /// For a file system in user space (FUSE), or, as one, for a request.
    Fuse,
    /// For a fault that another thread has (userfaultfd).
    FaultReport,
    /// For work, as a thread of the kernel.
    IdleKernelThread,
    /// In a function of the kernel of which the table says nothing.
    Other(Box<str>),
    /// The kernel stack is missing, or none of its functions has a name.
    Unknown,
}

impl WaitKind {
    /// Returns the name for people and for JSON.
    pub fn name(&self) -> String {
        let name = match self {
            Self::Sleep => "sleep",
            Self::Futex => "futex",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Poll => "poll",
            Self::Disk => "disk",
            Self::PageFault => "page fault",
            Self::KernelLock => "kernel lock",
            Self::Child => "child",
            Self::Stopped => "stopped",
            Self::RunDelay => "run-delay",
            Self::Recorder => "recorder",
            Self::Event => "eventfd",
            Self::Timer => "timerfd",
            Self::Signal => "signal",
            Self::Notify => "file change",
            Self::Uring => "io_uring",
            Self::Terminal => "terminal",
            Self::FileLock => "file lock",
            Self::Ipc => "ipc",
            Self::Fuse => "fuse",
            Self::FaultReport => "userfaultfd",
            Self::IdleKernelThread => "idle kernel thread",
            Self::Other(function) => return format!("other ({function})"),
            Self::Unknown => "unknown",
        };
        name.to_owned()
    }
}

/// A page fault leads to a disk or to locks, for which the thread waits because of the fault.
const PAGE_FAULT: [&str; 2] = ["handle_mm_fault", "handle_userfault"];

/// How the name of the recorder's program ends that reads the stack of a thread which has waited (bpf/waits.h).
const RECORDER: &str = "_take_wait_stack";

/// How functions begin in which threads wait for anything: the scheduler's own, and those that wait for a completion.
const ANYTHING: [&str; 9] = [
    "__schedule",
    // The waits of wait_event_interruptible_locked_irq, whichever function they are in.
    "do_wait_intr",
    "schedule",
    "preempt_schedule",
    "__cond_resched",
    "__traceiter_",
    "wait_for_co",
    "__wait_for_common",
    "do_wait_for_common",
];
/// Functions that wait for a child when it is they who wait, and that do much else.
const PARENT: [&str; 2] = ["kernel_clone", "_do_fork"];

/// Functions of the kernel, and for what threads wait in them. A name that ends with `*` stands for all that begin so.
const TABLE: [(WaitKind, &[&str]); 19] = [
    (WaitKind::Sleep, &["hrtimer_nanosleep*", "do_nanosleep", "common_nsleep*", "__x64_sys_clock_nanosleep"]),
    (WaitKind::Futex, &["futex_*", "__futex_*", "do_futex", "rt_mutex_wait_proxy_lock"]),
    (
        WaitKind::Pipe,
        &["pipe_*", "anon_pipe_*", "fifo_pipe_*", "fifo_open", "wait_for_partner", "splice_from_pipe_next"],
    ),
    (
        WaitKind::Socket,
        &[
            "unix_*",
            "tcp_*",
            "udp_*",
            "udpv6_*",
            "inet_*",
            "netlink_*",
            "packet_*",
            "vsock_*",
            "sk_*",
            "__sk_*",
            "sock_*",
            "__sock_*",
            "lock_sock*",
            "__lock_sock*",
            "__skb_recv_*",
            "__skb_wait_*",
            "skb_recv_*",
        ],
    ),
    (
        WaitKind::Poll,
        &["poll_schedule_timeout*", "do_poll", "do_sys_poll", "do_select", "ep_poll", "do_epoll_wait"],
    ),
    (
        WaitKind::Disk,
        &[
            "io_schedule*",
            "folio_wait_*",
            "__folio_lock*",
            "wait_on_page_*",
            "__lock_page*",
            "bit_wait_io*",
            "__wait_on_buffer",
            "submit_bio_wait",
            "blk_mq_get_tag",
            "rq_qos_wait",
            "wbt_wait",
            "balance_dirty_pages*",
            "jbd2_log_wait_commit",
        ],
    ),
    (
        WaitKind::KernelLock,
        &[
            "__mutex_lock*",
            "mutex_lock*",
            "rwsem_down_*",
            "down_read*",
            "down_write*",
            "__down*",
            "percpu_down_*",
            "__percpu_down_*",
            "percpu_rwsem_wait",
            "rt_mutex_*",
            "__rt_mutex_*",
            "rt_spin_lock*",
            "rwbase_*",
        ],
    ),
    (WaitKind::Child, &["do_wait", "__do_wait", "kernel_wait*", "wait_for_vfork_done"]),
    (WaitKind::Event, &["eventfd_read", "eventfd_write"]),
    (WaitKind::Timer, &["timerfd_read*"]),
    (
        WaitKind::Signal,
        &[
            "signalfd_dequeue",
            "signalfd_read*",
            "do_sigtimedwait",
            "__do_sys_rt_sigtimedwait",
            "sigsuspend",
            "__x64_sys_pause",
            "__arm64_sys_pause",
            "__do_sys_pause",
        ],
    ),
    (WaitKind::Notify, &["inotify_read", "fanotify_read", "fanotify_get_response", "fanotify_handle_event"]),
    (WaitKind::Uring, &["io_cqring_*", "io_wq_worker", "io_sq_thread", "io_sqpoll_wait_sq"]),
    (
        WaitKind::Terminal,
        &["n_tty_read", "n_tty_write", "tty_wait_until_sent", "tty_ldisc_*", "tty_port_block_til_ready"],
    ),
    (
        WaitKind::FileLock,
        &["flock_lock_*", "locks_lock_*", "posix_lock_*", "fcntl_setlk*", "do_lock_file_wait"],
    ),
    (WaitKind::Ipc, &["do_msgrcv", "do_msgsnd", "do_semtimedop", "__do_semtimedop", "wq_sleep", "do_mq_*"]),
    (
        WaitKind::Fuse,
        &[
            "request_wait_answer",
            "fuse_dev_do_read",
            "fuse_wait_on_page_writeback",
            "fuse_get_req",
            "fuse_block_alloc",
        ],
    ),
    (WaitKind::FaultReport, &["userfaultfd_read*", "userfaultfd_ctx_read"]),
    (
        WaitKind::Stopped,
        &["do_signal_stop", "ptrace_*", "do_jobctl_trap", "do_freezer_trap", "jobctl_trap_*"],
    ),
];

/// Classifies kernel stacks, given as names of functions, innermost first.
fn of_names<'n>(names: impl Iterator<Item = &'n str>) -> WaitKind {
    // The compiler makes `f.constprop.0` of `f`.
    let names: Vec<&str> = names.map(|name| name.split('.').next().unwrap_or(name)).collect();
    if names.iter().any(|name| name.ends_with(RECORDER)) {
        return WaitKind::Recorder;
    }
    if names.iter().any(|name| PAGE_FAULT.contains(name)) {
        return WaitKind::PageFault;
    }
    let is = |name: &str, known: &&str| match known.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == *known,
    };
    let kind = |name: &&str| TABLE.iter().find(|(_, known)| known.iter().any(|known| is(name, known)));
    if let Some((kind, _)) = names.iter().find_map(kind) {
        return kind.clone();
    }
    let waits_for_anything = |name: &&&str| ANYTHING.iter().any(|begin| name.starts_with(begin));
    match names.iter().find(|name| !waits_for_anything(name)).or(names.first()) {
        Some(name) if PARENT.contains(name) => WaitKind::Child,
        Some(name) => WaitKind::Other((*name).into()),
        None => WaitKind::Unknown,
    }
}

/// Classifies the waits of a recording.
#[derive(Debug)]
pub struct Kinds<'a> {
    tables: &'a Tables,
    symbols: KernelSymbols,
}

impl<'a> Kinds<'a> {
    /// Sorts the symbols of the kernel.
    pub fn new(tables: &'a Tables) -> Self {
        Self { tables, symbols: KernelSymbols::new(&tables.kernel_symbols) }
    }

    /// Returns for what a thread waited, by the event and the state of the wait, and by its kernel stack.
    pub fn kind(&self, event: u8, state: WaitState, kernel_stack: u32) -> WaitKind {
        let event = self.tables.parts.events().get(usize::from(event));
        match event {
            Some(event) if event.meaning == EventMeaning::RUN_DELAY => WaitKind::RunDelay,
            _ if state == WaitState::STOPPED => WaitKind::Stopped,
            _ => {
                let meaning = event.map_or(EventMeaning::UNKNOWN, |event| event.meaning);
                of_stack(self.tables, &self.symbols, kernel_stack, may_be_idle(meaning, state))
            }
        }
    }

    /// Returns for what the threads of a group waited whose kernel stack is this one.
    pub fn of(&self, facts: &WaitFacts, kernel_stack: u32) -> WaitKind {
        self.kind(facts.event, facts.state, kernel_stack)
    }
}

fn of_stack(tables: &Tables, symbols: &KernelSymbols, stack: u32, may_be_idle: bool) -> WaitKind {
    let name = |step| match kernel_place(tables, step) {
        CodeLocation::Kernel(part, address) => symbols.find(part, address).map(|row| tables.text(row.name)),
        _ => None,
    };
    let names: Vec<Option<&str>> = steps(tables, stack).map(name).collect();
    let depth = names.iter().rev().try_fold(Depth::Root, |depth, name| depth.call((*name)?));
    if may_be_idle && depth.is_some_and(Depth::is_idle) {
        return WaitKind::IdleKernelThread;
    }
    of_names(names.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_of_the_table_says_what_a_thread_waits_for() {
        for (stack, kind) in [
            ("__schedule schedule do_nanosleep hrtimer_nanosleep entry", WaitKind::Sleep),
            ("schedule futex_wait_queue __futex_wait futex_wait do_futex", WaitKind::Futex),
            ("schedule anon_pipe_read vfs_read", WaitKind::Pipe),
            ("schedule __mutex_lock.constprop.0 pipe_write vfs_write", WaitKind::KernelLock),
            (
                "schedule_timeout unix_stream_data_wait unix_stream_read_generic sock_recvmsg",
                WaitKind::Socket,
            ),
            ("schedule_hrtimeout_range_clock poll_schedule_timeout.constprop.0 do_poll", WaitKind::Poll),
            ("schedule_hrtimeout_range ep_poll do_epoll_wait", WaitKind::Poll),
            ("schedule io_schedule folio_wait_bit_common filemap_read vfs_read", WaitKind::Disk),
            (
                "io_schedule folio_wait_bit_common filemap_fault __do_fault handle_mm_fault",
                WaitKind::PageFault,
            ),
            (
                "schedule handle_mm_fault exc_page_fault bpf_prog_16caa7750a621f03_take_wait_stack task_work_run",
                WaitKind::Recorder,
            ),
            ("schedule handle_userfault do_anonymous_page __handle_mm_fault", WaitKind::PageFault),
            ("schedule schedule_preempt_disabled rwsem_down_read_slowpath down_read", WaitKind::KernelLock),
            ("schedule do_wait kernel_wait4", WaitKind::Child),
            ("schedule do_wait_intr_irq eventfd_read vfs_read", WaitKind::Event),
            ("schedule do_wait_intr_irq timerfd_read_iter vfs_read", WaitKind::Timer),
            ("schedule signalfd_read_iter vfs_read", WaitKind::Signal),
            ("schedule do_sigtimedwait __x64_sys_rt_sigtimedwait", WaitKind::Signal),
            ("schedule inotify_read vfs_read", WaitKind::Notify),
            ("schedule io_cqring_wait __do_sys_io_uring_enter", WaitKind::Uring),
            ("schedule do_wait_intr_irq ffs_epfile_io vfs_read", WaitKind::Other("ffs_epfile_io".into())),
            ("schedule n_tty_read tty_read vfs_read", WaitKind::Terminal),
            ("schedule flock_lock_inode_wait __x64_sys_flock", WaitKind::FileLock),
            ("schedule wq_sleep.constprop.0 do_mq_timedreceive", WaitKind::Ipc),
            ("schedule request_wait_answer __fuse_simple_request fuse_lookup", WaitKind::Fuse),
            ("schedule userfaultfd_ctx_read userfaultfd_read_iter", WaitKind::FaultReport),
            ("schedule ptrace_stop ptrace_do_notify", WaitKind::Stopped),
            ("schedule worker_thread kthread", WaitKind::Other("worker_thread".into())),
            ("schedule_timeout __wait_for_common synchronize_rcu", WaitKind::Other("synchronize_rcu".into())),
            ("__wait_for_common wait_for_completion_state kernel_clone", WaitKind::Child),
            ("schedule mutex_lock copy_process kernel_clone", WaitKind::KernelLock),
            ("schedule copy_process kernel_clone", WaitKind::Other("copy_process".into())),
            ("__schedule schedule", WaitKind::Other("__schedule".into())),
            ("", WaitKind::Unknown),
        ] {
            assert_eq!(of_names(stack.split_whitespace()), kind, "{stack}");
        }
    }

    #[test]
    fn a_function_that_is_not_in_the_table_is_named() {
        assert_eq!(WaitKind::Other("worker_thread".into()).name(), "other (worker_thread)");
    }
}
