/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* CPU time by the kernel's own account: the time that the scheduler has charged to a thread, whether a sample hit it or not. */
#ifndef ICECORE_ACCOUNT_H
#define ICECORE_ACCOUNT_H

#include "kernel.h"
#include "maps.h"
#include "wire.h"

/* The number of threads that have ended and are not freed. */
__s64 unfreed = 0;

/* Returns true if the CPU time of a thread is reported. */
static __always_inline bool is_accounted(struct task_struct *task)
{
	__u32 tgid = task->tgid, tid = task->pid;

	if (!take_accounts)
		return 0;
	if (target_mode == TARGET_THREADS)
		return bpf_map_lookup_elem(&target_tids, &tid) != 0;
	return is_target_process(tgid);
}

static __always_inline void read_account(struct cpu_time_record *record, struct task_struct *task, __u32 moment)
{
	record->type = RECORD_CPU_TIME;
	record->moment = moment;
	record->time_ns = bpf_ktime_get_ns();
	record->task = (__u64)task;
	record->start_ns = task->start_time;
	record->tgid = task->tgid;
	record->tid = task->pid;
	record->ran_ns = task->se.sum_exec_runtime;
	record->user_ns = task->utime;
	record->kernel_ns = task->stime;
}

/* The account at the end of a thread lacks a part of a tick. The account of a freed thread is complete, but it comes later, or never
 * while nobody waits for the process. */
static __always_inline void send_account(struct task_struct *task, __u32 moment)
{
	struct cpu_time_record *record;

	if (!is_accounted(task))
		return;
	__sync_fetch_and_add(&unfreed, moment == ACCOUNT_ENDING ? 1 : -1);
	if (is_paused)
		return;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_loss(LOSS_RING_FULL_TASK);
		return;
	}
	read_account(record, task, moment);
	bpf_ringbuf_submit(record, wakeup_flags());
}

/* A thread that is not the first one executes a program, and takes over the id of the first: what it ran until now it ran under its own.
 * The caller is that thread, so nothing is missing but the current tick. */
static __always_inline void send_account_until_exec(struct task_struct *task, __u32 old_tid)
{
	struct cpu_time_record *record;

	if (is_paused || !is_accounted(task))
		return;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_loss(LOSS_RING_FULL_TASK);
		return;
	}
	read_account(record, task, ACCOUNT_RUNNING);
	record->tid = old_tid;
	bpf_ringbuf_submit(record, wakeup_flags());
}

/* Writes the account of every thread to the reader of the iterator. */
SEC("iter/task")
int on_every_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct cpu_time_record record = {};

	if (!task || !is_accounted(task))
		return 0;
	read_account(&record, task, ACCOUNT_RUNNING);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

#endif
