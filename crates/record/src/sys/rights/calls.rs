//! The system calls that a part of the recorder may make.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::Part;

/// A system call, and what one of its arguments is.
struct Call {
    number: libc::c_long,
    argument: Option<Argument>,
}

/// Some bits of an argument, and the values one of which they have.
struct Argument {
    position: u8,
    bits: u64,
    values: &'static [u64],
}

/// A system call, whatever its arguments are.
const fn any(number: libc::c_long) -> Call {
    Call { number, argument: None }
}

/// A system call with an argument in which none of these bits is set.
const fn without(number: libc::c_long, position: u8, bits: libc::c_int) -> Call {
    Call { number, argument: Some(Argument { position, bits: bits as u32 as u64, values: &[0] }) }
}

/// A system call with an argument that is one of these.
const fn one_of(number: libc::c_long, position: u8, values: &'static [u64]) -> Call {
    Call { number, argument: Some(Argument { position, bits: u32::MAX as u64, values }) }
}

/// The flags with which a file is opened for writing, or made.
const WRITES: libc::c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
/// uapi/linux/bpf.h `BPF_PROG_LOAD`
const PROGRAMS: &[u64] = &[5];
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// Memory that is not executable, the time, and the end. With debug assertions, the library asks whether a descriptor is open that it closes.
const MEMORY: &[Call] = &[
    any(libc::SYS_brk),
    without(libc::SYS_mmap, 2, libc::PROT_EXEC),
    without(libc::SYS_mprotect, 2, libc::PROT_EXEC),
    any(libc::SYS_mremap),
    any(libc::SYS_munmap),
    any(libc::SYS_madvise),
    any(libc::SYS_close),
    one_of(libc::SYS_fcntl, 1, &[libc::F_GETFD as u64]),
    any(libc::SYS_clock_gettime),
    any(libc::SYS_exit),
    any(libc::SYS_exit_group),
];

/// What finds the folder of a process in `/proc`. Nothing is opened for writing, or made.
const PROC: &[Call] = &[
    without(libc::SYS_openat, 2, WRITES),
    #[cfg(target_arch = "x86_64")]
    without(libc::SYS_open, 1, WRITES),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_readlink),
    any(libc::SYS_readlinkat),
    any(libc::SYS_newfstatat),
    any(libc::SYS_fstat),
    any(libc::SYS_getdents64),
];

/// What opens and reads files and memory of others, and answers. What `openat2` is to do lies in memory, at which the kernel does not look
/// here.
const READER: &[Call] = &[
    any(libc::SYS_recvmsg),
    any(libc::SYS_sendmsg),
    any(libc::SYS_openat2),
    any(libc::SYS_fstatfs),
    any(libc::SYS_pread64),
    any(libc::SYS_setfsuid),
    any(libc::SYS_setfsgid),
];

/// What starts readers, and what these do before they have less.
const KEEPER: &[Call] = &[
    without(libc::SYS_clone, 0, NAMESPACES),
    any(libc::SYS_set_robust_list),
    any(libc::SYS_rt_sigprocmask),
    any(libc::SYS_rt_sigaction),
    any(libc::SYS_setsid),
    any(libc::SYS_dup3),
    any(libc::SYS_close_range),
    one_of(
        libc::SYS_prctl,
        0,
        &[
            libc::PR_SET_NAME as u64,
            libc::PR_SET_DUMPABLE as u64,
            libc::PR_SET_NO_NEW_PRIVS as u64,
            libc::PR_CAPBSET_DROP as u64,
        ],
    ),
    any(libc::SYS_capget),
    any(libc::SYS_capset),
    any(libc::SYS_seccomp),
    any(libc::SYS_pidfd_open),
    any(libc::SYS_pidfd_send_signal),
    any(libc::SYS_wait4),
    any(libc::SYS_clock_nanosleep),
    any(libc::SYS_restart_syscall),
];

/// What a thread does that has nothing but a way to readers: it waits for other threads, asks, says what is wrong, and handles signals.
const PARSER: &[Call] = &[
    any(libc::SYS_futex),
    any(libc::SYS_sched_yield),
    any(libc::SYS_clock_nanosleep),
    any(libc::SYS_restart_syscall),
    any(libc::SYS_socketpair),
    any(libc::SYS_setsockopt),
    any(libc::SYS_sendmsg),
    any(libc::SYS_recvmsg),
    any(libc::SYS_pidfd_send_signal),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_readlink),
    any(libc::SYS_readlinkat),
    one_of(libc::SYS_fcntl, 1, &[libc::F_GETFD as u64, libc::F_DUPFD_CLOEXEC as u64]),
    any(libc::SYS_write),
    any(libc::SYS_getrandom),
    any(libc::SYS_setpriority),
    any(libc::SYS_sigaltstack),
    any(libc::SYS_rt_sigprocmask),
    any(libc::SYS_rt_sigreturn),
    any(libc::SYS_gettid),
];

/// What no thread does once it has begun its work: it runs no program, looks into no process by force, connects to nobody, and changes neither
/// mounts, namespaces, users nor modules of the kernel.
const NEVER: &[Call] = &[
    any(libc::SYS_execve),
    any(libc::SYS_execveat),
    any(libc::SYS_ptrace),
    any(libc::SYS_process_vm_readv),
    any(libc::SYS_process_vm_writev),
    any(libc::SYS_socket),
    any(libc::SYS_connect),
    any(libc::SYS_bind),
    any(libc::SYS_mount),
    any(libc::SYS_umount2),
    any(libc::SYS_pivot_root),
    any(libc::SYS_chroot),
    any(libc::SYS_setns),
    any(libc::SYS_unshare),
    any(libc::SYS_setuid),
    any(libc::SYS_setresuid),
    any(libc::SYS_setgid),
    any(libc::SYS_setresgid),
    any(libc::SYS_init_module),
    any(libc::SYS_finit_module),
    any(libc::SYS_delete_module),
    one_of(libc::SYS_bpf, 0, PROGRAMS),
];

/// Limits the system calls of this thread, and of what it starts, as SECURITY.md says.
pub(super) fn limit(part: Part) -> Result<(), seccompiler::Error> {
    let fails = SeccompAction::Errno(libc::EPERM as u32);
    let only = |lists: &[&[Call]], otherwise| compiled(lists, SeccompAction::Allow, otherwise);
    apply_filter(&match part {
        Part::Keeper => only(&[MEMORY, PROC, READER, KEEPER], SeccompAction::KillProcess),
        Part::Reader => only(&[MEMORY, PROC, READER], SeccompAction::KillProcess),
        Part::Judge => only(&[MEMORY, PROC, PARSER], fails),
        Part::Jit => only(&[MEMORY, PARSER], fails),
        Part::Main
        | Part::Tracker
        | Part::Writer
        | Part::Files
        | Part::Closer
        | Part::Saver
        | Part::Shipper
        | Part::Tables
        | Part::Helper => compiled(&[NEVER], fails, SeccompAction::Allow),
    }?)
}

/// Returns a filter that does one thing at the listed system calls, and another one at all others.
fn compiled(
    lists: &[&[Call]],
    listed: SeccompAction,
    otherwise: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let mut rules = BTreeMap::new();
    for call in lists.iter().copied().flatten() {
        let any_of: Result<Vec<SeccompRule>, _> = call
            .argument
            .iter()
            .flat_map(|argument| argument.values.iter().map(|value| rule(argument, *value)))
            .collect();
        rules.insert(call.number, any_of?);
    }
    let machine = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, otherwise, listed, machine)?.try_into()
}

fn rule(argument: &Argument, value: u64) -> Result<SeccompRule, BackendError> {
    let has = SeccompCmpOp::MaskedEq(argument.bits);
    let condition = SeccompCondition::new(argument.position, SeccompCmpArgLen::Qword, has, value)?;
    SeccompRule::new(vec![condition])
}
