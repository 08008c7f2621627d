/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The ring, the target tables, the loss counters, and the settings that user space fixes before load. */
#ifndef ICECORE_MAPS_H
#define ICECORE_MAPS_H

#include "kernel.h"
#include "wire.h"

/* Settings; constants to the verifier. */
const volatile __u32 target_mode = TARGET_SYSTEM;
const volatile __u32 max_user_frames = 1024;
const volatile bool take_user = 1;
const volatile bool take_kernel = 1;
const volatile bool take_idle = 0;
/* CPU time is reported. That needs samples of everything that a recorded thread runs. */
const volatile bool take_accounts = 1;
/* The sampler wakes user space when this many bytes wait. With fewer, user space takes them at its own interval. */
const volatile __u64 wakeup_bytes = 1 << 20;

/* The number of buffers of a CPU: 1 if no programs interrupt each other, else LANES. */
const volatile __u32 lanes = 1;
/* The kernel tells a program the cookie of its attachment. Without cookies (before 5.15) a recording has one event. */
const volatile bool has_cookies = 0;
/* The events of the functions of the kernel that call programs themselves. */
const volatile __u32 events_of_calls[MAX_CALLING] = {};
/* The stack of a program may belong to its CPU, and a program may keep others from running there. */
const volatile bool is_stack_of_cpu = 0;
/* Probes are sampled on some CPUs only: a bit for each. */
const volatile bool some_cpus = 0;
const volatile __u64 target_cpus[MAX_CPUS / 64] = {};

/* Settings of waits: a wait of this length, ns, is always kept; the events of waits, and of wakers; and when the recording began. */
const volatile __u64 wait_ns = 0;
/* The most parts of waits that are kept in a window (WINDOW_BITS); 0: no bound. */
const volatile __u32 most_waits = 0;
const volatile __u32 off_cpu_event = 0;
const volatile __u32 run_delay_event = 0;
const volatile __u32 waker_event = 0;
/* The recorder pauses: it gets no samples and no events of tasks. Programs at switches and tracepoints are detached meanwhile, and those that
 * follow tasks as well, unless the processes that are recorded are on a list. */
bool is_paused = 0;
/* Waits count from here on: since the recording began, or went on after a pause; and how often it did. */
__u64 waits_since_ns = 0;
__u32 stretch = 0;
/* Since when tasks are followed. */
__u64 tasks_since_ns = 0;
/* While the recorder samples less often than was asked for: one of so many of the hits that would be samples is one (0: each), and so long a part of a wait
 * must be to be kept for certain, ns. */
__u32 rarer = 0;
/* The mean periods of timers since they have changed, by event, ns; 0: as the kernel tells them. */
__u64 timer_periods[MAX_EVENTS] = {};
__u64 rare_wait_ns = 0;
/* Code of the kernel that interrupts run through; zero if it is unknown. */
const volatile __u64 hard_interrupts[2] = {};
const volatile __u64 soft_interrupts[2] = {};
/* All processes are followed, whatever the targets: any of them may wake a target. */
const volatile bool follows_all = 0;
/* The function that threads call to leave their CPU. */
const volatile __u64 scheduler[2] = {};
/* The function that calls the programs at wake-ups, if there are several: it is on the stack of each. */
const volatile __u64 caller_at_waking[2] = {};

/* Settings of snapshots: the enum copy_mode, the most bytes that are copied, and the levels of the ring at which copies are
 * shortened. */
const volatile __u32 copy_mode = COPY_NOTHING;
/* Stacks are walked by unwind tables where these are at hand; one of so many of these walks is checked: its stack is copied as well. */
const volatile bool walks_tables = 0;
const volatile __u32 audited_of = 64;
const volatile __u32 max_stack_bytes = 1 << 20;
const volatile __u64 ring_half = 2 << 20;
const volatile __u64 ring_three_quarters = 3 << 20;
/* The seed of page hashes: a random number, so that no program can make two pages with the same hash. */
const volatile __u64 hash_seed = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring SEC(".maps");

/* The most frames that bpf_get_stack returns on this machine: kernel.perf_event_max_stack, at most MAX_KERNEL_FRAMES. */
const volatile __u32 max_kernel_frames = MAX_KERNEL_FRAMES;

/* Process ids that are recorded, if target_mode is not TARGET_SYSTEM. Children are added at fork. The value
 * is TARGET_LIVE, or TARGET_ENDING from the end of the last thread until the kernel has removed the process:
 * that takes time, too, and is sampled. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8);
} target_tgids SEC(".maps");

/* Thread ids that are sampled, if target_mode is TARGET_THREADS. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8);
} target_tids SEC(".maps");

/* The cgroups whose tasks are sampled, with the cgroups below them, if target_mode is TARGET_CGROUPS. */
const volatile __u32 target_cgroup_count = 0;
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, MAX_TARGET_CGROUPS);
	__type(key, __u32);
	__type(value, __u32);
} target_cgroups SEC(".maps");

/* When a thread was last renamed, by thread id. The kernel renames a thread while it executes a new program:
 * after the old address space is gone and before the first mapping of the new one, so this is the moment at
 * which an exec counts. The exec tracepoint itself comes after the mappings of program and linker. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} renamed_ns SEC(".maps");

/* Programs that were executed before, by the inode of their file. */
struct program_key {
	__u64 inode;
	__u32 dev;
	__u32 generation;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct program_key);
	__type(value, __u8);
} programs SEC(".maps");

/* The bounds of a thread's stack, by thread id. The first stack of a process has no entry. */
struct stack_range {
	__u64 start;
	__u64 end;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct stack_range);
} stack_ranges SEC(".maps");

/* The hashes of stack pages when they were last sent, by thread id and page number. A page with the same hash is not sent again: user
 * space has its content. The kernel may evict an entry at any time; the page is then sent again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u64);
} sent_pages SEC(".maps");

/* Processes whose code keeps frame pointers, by process id. The value is the number of pages of read-only code that the process had when user
 * space checked all of it. If the number has changed since, the process has mapped code that was not checked. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} trusted_tgids SEC(".maps");

/* Items lost, by cause and event, and what lost samples would have weighed (0 if that is unknown); one counter per CPU. */
struct lost {
	__u64 count;
	__u64 weight;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSS_CAUSES * LOSS_EVENTS);
	__type(key, __u32);
	__type(value, struct lost);
} losses SEC(".maps");

static __always_inline struct lost *count_lost(__u32 cause, __u32 event)
{
	__u32 key = cause * LOSS_EVENTS + event;
	struct lost *lost = bpf_map_lookup_elem(&losses, &key);

	if (lost)
		__sync_fetch_and_add(&lost->count, 1);
	return lost;
}

static __always_inline void count_lost_sample(__u32 cause, __u32 event, __u64 weight)
{
	struct lost *lost = count_lost(cause, event);

	if (lost)
		__sync_fetch_and_add(&lost->weight, weight);
}

/* Adds no weight: of an addition of 0 the compiler makes another atomic operation, which kernels before 5.12 do not have. */
static __always_inline void count_loss(__u32 cause)
{
	count_lost(cause, NO_EVENT);
}

/* Returns true if the recorded processes are on a list. With cgroups there is no list: any process may be moved into a cgroup, so all are
 * reported. */
static __always_inline bool has_target_lists(void)
{
	return target_mode == TARGET_PROCESSES || target_mode == TARGET_THREADS;
}

static __always_inline bool is_target_process(__u32 tgid)
{
	return !has_target_lists() || bpf_map_lookup_elem(&target_tgids, &tgid);
}

/* Returns true if user space knows the mappings of a process, and learns what becomes of it. */
static __always_inline bool is_followed(__u32 tgid)
{
	return follows_all || is_target_process(tgid);
}

static __always_inline bool is_in_target_cgroup(void)
{
	for (__u32 i = 0; i < target_cgroup_count && i < MAX_TARGET_CGROUPS; i++)
		if (bpf_current_task_under_cgroup(&target_cgroups, i) == 1)
			return 1;
	return 0;
}

/* Trusts a new process if its parent is trusted: it has the same code. */
static __always_inline void inherit_trust(__u32 parent_tgid, __u32 tgid)
{
	__u64 *pages = bpf_map_lookup_elem(&trusted_tgids, &parent_tgid);

	/* The id may have belonged to another process. */
	if (pages)
		bpf_map_update_elem(&trusted_tgids, &tgid, pages, 0);
	else
		bpf_map_delete_elem(&trusted_tgids, &tgid);
}

/* Wakes user space only if enough bytes wait. */
static __always_inline __u64 wakeup_flags(void)
{
	return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= wakeup_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

#endif
