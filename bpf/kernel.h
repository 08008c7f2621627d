/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The few kernel types that the programs read. Fields are found by name in the running kernel's BTF
 * when the programs are loaded, so only names and types matter here, not offsets.
 *
 * Source: include/linux/sched.h, include/linux/fs.h, include/linux/mm_types.h, include/linux/sched/signal.h, include/linux/cgroup-defs.h, include/linux/kernfs.h, arch/<arch>/include/asm/ptrace.h; the context of
 * perf_event programs is uapi (linux/bpf_perf_event.h, asm/bpf_perf_event.h) and is not relocated.
 */
#ifndef ICECORE_KERNEL_H
#define ICECORE_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_CGROUP_ARRAY = 8 };
enum { BPF_MAP_TYPE_ARRAY_OF_MAPS = 12, BPF_F_INNER_MAP = 1 << 12 };
enum { BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_F_NO_PREALLOC = 1, BPF_NOEXIST = 1, BPF_F_USER_STACK = 1 << 8 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2, BPF_RB_AVAIL_DATA = 0 };

#if defined(__TARGET_ARCH_x86)
/* asm/ptrace.h as user space sees it. */
struct context_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax;
	unsigned long ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
/* struct user_pt_regs. */
struct context_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
#else
#error "unsupported architecture: add its registers here and in walk.h"
#endif

struct bpf_perf_event_data {
	struct context_regs regs;
	__u64 sample_period;
	__u64 addr;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long ip, sp;
};
#else
struct pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
#endif

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigaction {
	void *sa_handler;
	unsigned long sa_flags;
	void *sa_restorer;
	sigset_t sa_mask;
};

struct k_sigaction {
	struct sigaction sa;
};

struct sighand_struct {
	struct k_sigaction action[64];
};

struct super_block {
	__u32 s_dev;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	__u32 i_generation;
};

struct file {
	struct inode *f_inode;
};

struct mm_struct {
	struct file *exe_file;
	unsigned long start_code;
	unsigned long start_stack;
	unsigned long exec_vm;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct rq {
	__u64 clock;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct thread_struct {
	unsigned long fsbase; /* x86-64 */
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_queued;
};

/* Kernels before 5.14. */
struct task_struct___before_5_14 {
	long state;
};

struct completion;

struct task_struct {
	struct thread_struct thread;
	struct mm_struct *mm;
	int pid;
	int tgid;
	int exit_code;
	unsigned int flags;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	unsigned long sas_ss_sp;
	unsigned long sas_ss_size;
	sigset_t blocked;
	struct css_set *cgroups;
	char comm[16];
	struct sched_entity se;
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_time;
	__u64 self_exec_id;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct completion *vfork_done;
	unsigned in_execve : 1;
	unsigned int __state;
	int on_cpu;
	struct sched_info sched_info;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *value;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* What the kernel runs when a task returns to user space; the map value that holds it must name the type so (6.18). */
struct bpf_task_work {
	__u64 __opaque;
} __attribute__((aligned(8)));

#define PF_KTHREAD 0x00200000

/* These need the types above. */
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* The verifier checks a function that is not static once and by itself. It follows a static function again for every path that leads
 * there: with our loops that took 382,000 instructions on 6.1, and more than the million that 7.2 allows. A function that is verified
 * alone takes numbers and pointers to structures, which it must compare with 0, and returns a number. */
#define VERIFIED_ALONE __noinline

/* Reads memory of the current process; not 0 if it cannot be read. */
#define READ_USER(to, from) bpf_probe_read_user(&(to), sizeof(to), (void *)(from))

#endif
