/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Counters of processes: CPU time, memory, faults, switches, bytes, threads. */
#ifndef ICECORE_COUNTERS_H
#define ICECORE_COUNTERS_H

#include "kernel.h"
#include "maps.h"
#include "sample.h"
#include "wire.h"

/* The most threads of a process whose counters are added up by bpf_loop, and without it or at the end of a process. */
#define MAX_THREADS (1 << 16)
#define FEW_THREADS 64

/* Set before load. */
const volatile __u64 page_bytes = 4096;

enum { FILE_PAGES = 0, ANON_PAGES = 1, SHMEM_PAGES = 3, PAGE_COUNTERS = 4 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

/* include/linux/task_io_accounting.h. The fields depend on CONFIG_TASK_XACCT and CONFIG_TASK_IO_ACCOUNTING. */
struct task_io_accounting {
	__u64 rchar;
	__u64 wchar;
	__u64 read_bytes;
	__u64 write_bytes;
};

struct task_struct___counted {
	struct list_head thread_node;
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct task_io_accounting ioac;
	struct sched_entity se;
};

struct signal_struct___counted {
	int nr_threads;
	struct list_head thread_head;
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	unsigned long maxrss;
	struct task_io_accounting ioac;
	unsigned long long sum_sched_runtime;
};

struct percpu_counter {
	__s64 count;
};

/* Linux 6.2. */
struct mm_struct___percpu {
	unsigned long hiwater_rss;
	struct percpu_counter rss_stat[PAGE_COUNTERS];
};

typedef struct {
	__s64 counter;
} counted_pages;

struct mm_rss_stat {
	counted_pages count[PAGE_COUNTERS];
};

struct mm_struct___before_6_2 {
	unsigned long hiwater_rss;
	struct mm_rss_stat rss_stat;
};

#pragma clang attribute pop

/* Adds up the threads of a process. */
struct thread_walk {
	struct process_record record;
	__u64 next;
	__u64 head;
};

/* Adds the counters of threads that have ended, or those of one thread; `from` has the same names in both. */
#define ADD_COUNTERS(record, from)                                               \
	do {                                                                     \
		(record)->user_ns += BPF_CORE_READ(from, utime);                 \
		(record)->system_ns += BPF_CORE_READ(from, stime);               \
		(record)->minor_faults += BPF_CORE_READ(from, min_flt);          \
		(record)->major_faults += BPF_CORE_READ(from, maj_flt);          \
		(record)->voluntary_switches += BPF_CORE_READ(from, nvcsw);      \
		(record)->involuntary_switches += BPF_CORE_READ(from, nivcsw);   \
		if (bpf_core_field_exists((from)->ioac.rchar)) {                 \
			(record)->calls_read += BPF_CORE_READ(from, ioac.rchar); \
			(record)->calls_written += BPF_CORE_READ(from, ioac.wchar); \
		}                                                                \
		if (bpf_core_field_exists((from)->ioac.read_bytes)) {            \
			(record)->disk_read += BPF_CORE_READ(from, ioac.read_bytes); \
			(record)->disk_written += BPF_CORE_READ(from, ioac.write_bytes); \
		}                                                                \
	} while (0)

/* Returns 1 after the last thread. */
static long add_thread(__u32 number, struct thread_walk *walk)
{
	struct task_struct___counted *thread;

	if (!walk->next || walk->next == walk->head)
		return 1;
	thread = (void *)(walk->next - bpf_core_field_offset(struct task_struct___counted, thread_node));
	walk->record.cpu_ns += BPF_CORE_READ(thread, se.sum_exec_runtime);
	ADD_COUNTERS(&walk->record, thread);
	walk->next = (__u64)BPF_CORE_READ(thread, thread_node.next);
	return 0;
}

static __always_inline __u64 not_negative(__s64 pages)
{
	return pages > 0 ? pages : 0;
}

/* Reads the resident pages, and the most that there were. An ending process has no memory any more before Linux 6.16; its mark is then
 * that of all programs that the process has run. */
static __always_inline void read_memory(struct process_record *record, struct task_struct *task,
					struct signal_struct___counted *signal)
{
	struct mm_struct *mm = task->mm;
	__u64 pages, mark;

	if (!mm) {
		record->peak = BPF_CORE_READ(signal, maxrss) * page_bytes;
		if (record->peak)
			record->has |= PROCESS_HAS_PEAK;
		return;
	}
	if (bpf_core_type_exists(struct mm_rss_stat)) {
		struct mm_struct___before_6_2 *old = (void *)mm;

		pages = not_negative(BPF_CORE_READ(old, rss_stat.count[FILE_PAGES].counter)) +
			not_negative(BPF_CORE_READ(old, rss_stat.count[ANON_PAGES].counter)) +
			not_negative(BPF_CORE_READ(old, rss_stat.count[SHMEM_PAGES].counter));
		mark = BPF_CORE_READ(old, hiwater_rss);
	} else if (bpf_core_field_exists(((struct mm_struct___percpu *)mm)->rss_stat)) {
		struct mm_struct___percpu *new = (void *)mm;

		pages = not_negative(BPF_CORE_READ(new, rss_stat[FILE_PAGES].count)) +
			not_negative(BPF_CORE_READ(new, rss_stat[ANON_PAGES].count)) +
			not_negative(BPF_CORE_READ(new, rss_stat[SHMEM_PAGES].count));
		mark = BPF_CORE_READ(new, hiwater_rss);
	} else {
		return;
	}
	record->memory = pages * page_bytes;
	/* The kernel raises the mark only before it takes pages away. */
	record->peak = (mark > pages ? mark : pages) * page_bytes;
	record->has |= PROCESS_HAS_MEMORY | PROCESS_HAS_PEAK;
}

static __always_inline void begin_process(struct thread_walk *walk, struct task_struct *task)
{
	struct signal_struct___counted *signal = (void *)task->signal;
	struct process_record *record = &walk->record;

	record->type = RECORD_PROCESS;
	record->time_ns = bpf_ktime_get_ns();
	record->tgid = task->tgid;
	record->threads = BPF_CORE_READ(signal, nr_threads);
	record->cgroup_id = has_cgroups() ? BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id) : 0;
	if (bpf_core_field_exists(signal->ioac.rchar))
		record->has |= PROCESS_HAS_CALLS;
	if (bpf_core_field_exists(signal->ioac.read_bytes))
		record->has |= PROCESS_HAS_DISK;
	read_memory(record, task, signal);
	record->cpu_ns = BPF_CORE_READ(signal, sum_sched_runtime);
	ADD_COUNTERS(record, signal);
	walk->head = (__u64)signal + bpf_core_field_offset(struct signal_struct___counted, thread_head);
	walk->next = (__u64)BPF_CORE_READ(signal, thread_head.next);
}

/* Adds up some of the threads; the sums of a process with more are not known. */
static __always_inline void add_few_threads(struct thread_walk *walk)
{
	for (__u32 i = 0; i < FEW_THREADS; i++)
		if (add_thread(i, walk))
			break;
}

static __always_inline void end_process(struct thread_walk *walk)
{
	if (walk->next == walk->head)
		walk->record.has |= PROCESS_HAS_SUMS;
}

/* Writes the counters of every process to the reader of the iterator. */
static __always_inline int every_process(struct bpf_iter__task *ctx, bool with_loop)
{
	struct task_struct *task = ctx->task;
	struct thread_walk walk = {};

	if (!task || task->pid != task->tgid || !is_target_process(task->tgid))
		return 0;
	begin_process(&walk, task);
	walk.record.start_ns = task->start_time;
	if (with_loop)
		bpf_loop(MAX_THREADS, add_thread, &walk, 0);
	else
		add_few_threads(&walk);
	end_process(&walk);
	bpf_seq_write(ctx->meta->seq, &walk.record, sizeof(walk.record));
	return 0;
}

SEC("iter/task")
int on_every_process_by_loop(struct bpf_iter__task *ctx)
{
	return every_process(ctx, 1);
}

SEC("iter/task")
int on_every_process_by_helper(struct bpf_iter__task *ctx)
{
	return every_process(ctx, 0);
}

/* The last thread of a process ends. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_end_of_process, struct task_struct *task)
{
	struct thread_walk walk = {};

	if (task->signal->live.counter != 0 || !is_target_process(task->tgid))
		return 0;
	if (target_mode == TARGET_CGROUPS && !is_in_target_cgroup())
		return 0;
	begin_process(&walk, task);
	walk.record.start_ns = BPF_CORE_READ(task, group_leader, start_time);
	walk.record.has |= PROCESS_HAS_ENDED;
	add_few_threads(&walk);
	end_process(&walk);
	if (bpf_ringbuf_output(&ring, &walk.record, sizeof(walk.record), wakeup_flags()))
		count_loss(LOSS_RING_FULL_TASK);
	return 0;
}

#endif
