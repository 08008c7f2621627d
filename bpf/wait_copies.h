/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * User stacks of waiting threads where a thread cannot take its stack itself: a walk by unwind tables, or else a copy of the innermost
 * MAX_TOP_LEN bytes, made when the thread leaves its CPU, which is the last moment at which its memory can be read. It is sent if the
 * wait is kept.
 */
#ifndef ICECORE_WAIT_COPIES_H
#define ICECORE_WAIT_COPIES_H

#include "kernel.h"
#include "go.h"
#include "maps.h"
#include "pages.h"
#include "registers.h"
#include "returns.h"
#include "sample.h"
#include "scratch.h"
#include "table_walk.h"
#include "wire.h"

struct wait_copy {
	/* The record that is sent. Of a walk, `top` holds the frames instead. */
	struct registers_record taken;
	/* The number of frames; 0 if there was no whole walk. */
	__u32 walked;
};

/* By the address of the task, like `waits`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct wait_copy);
} wait_copies SEC(".maps");

/* The first content of a value. */
struct wait_copy no_copy = {};

/* 1: copies are made. User space sets it where no thread can take its stack; the program of switches sets it when the kernel refuses that. */
__u32 makes_wait_copies = 0;
/* How often the kernel had no memory for a thread that was to take its stack. */
__u64 refused_task_work = 0;

static __always_inline bool has_user_memory(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm) && !(BPF_CORE_READ(task, flags) & PF_KTHREAD);
}

static __always_inline struct wait_copy *wait_copy_of(struct task_struct *task)
{
	__u64 key = (__u64)task;

	return bpf_map_lookup_elem(&wait_copies, &key);
}

/* Walks the stack of the registers in the buffer; returns the number of frames, 0 if it was not walked whole. */
VERIFIED_ALONE __u32 walk_for_wait(__u32 slot)
{
	struct scratch *scratch = scratch_of(slot);

	if (!scratch)
		return 0;
	scratch->record.kernel_len = 0;
	scratch->returns.trampoline = 0;
	find_go_stacks(scratch->record.head.tgid, &scratch->go);
	return walk_by_tables(slot) ? scratch->record.user_len : 0;
}

/* Walks the stack of the current thread, whose registers were taken, and keeps the frames. */
static __always_inline void keep_walk(struct task_struct *prev, struct wait_copy *copy)
{
	struct scratch *scratch;
	__u32 slot, len;

	if (!walks_tables)
		return;
	scratch = claim_scratch(&slot);
	if (!scratch)
		return;
	scratch->record.head.tgid = prev->tgid;
	__builtin_memcpy(scratch->registers.registers, copy->taken.registers, sizeof(copy->taken.registers));
	len = walk_for_wait(slot);
	/* The verifier of 6.1 understands the mask. */
	if (len < MAX_TOP_LEN / sizeof(__u64) &&
	    !bpf_probe_read_kernel(copy->taken.top, (len & (MAX_TOP_LEN / sizeof(__u64) - 1)) * sizeof(__u64), scratch->frames))
		copy->walked = len;
	free_scratch(scratch);
}

/* Takes registers and stack of the current thread, which leaves its CPU. */
static __always_inline void copy_for_wait(struct task_struct *prev)
{
	__u64 key = (__u64)prev, sp, len = MAX_TOP_LEN;
	struct registers_record *taken;
	struct scratch *probed = 0;
	struct wait_copy *copy;
	struct pt_regs *entry;
	__u32 slot;

	if (!makes_wait_copies || !take_user || !has_user_memory(prev))
		return;
	copy = wait_copy_of(prev);
	if (!copy) {
		/* If there are too many threads, each wait that is kept without a copy counts as a loss. */
		bpf_map_update_elem(&wait_copies, &key, &no_copy, BPF_NOEXIST);
		copy = wait_copy_of(prev);
		if (!copy)
			return;
	}
	taken = &copy->taken;
	copy->walked = 0;
	entry = (void *)bpf_task_pt_regs(prev);
	COPY_REGISTERS(taken->registers, FROM_ENTRY);
	if (uprobe_task(prev)) {
		probed = claim_scratch(&slot);
		if (probed)
			probed->returns.is_in_kernel = 1;
		if (!probed || leave_probes(&probed->returns, taken) != LEFT)
			len = 0;
	} else {
		keep_walk(prev, copy);
		if (copy->walked)
			return;
	}
	sp = taken->registers[STACK_POINTER];
	if (len && bpf_probe_read_user(taken->top, MAX_TOP_LEN, (void *)sp)) {
		/* The stack may end before. */
		len = STACK_PAGE_LEN - (sp & (STACK_PAGE_LEN - 1));
		if (len >= MAX_TOP_LEN || bpf_probe_read_user(taken->top, len, (void *)sp))
			len = 0;
	}
	taken->top_len = len;
	if (probed) {
		put_into_top(&probed->returns, taken, sp);
		free_scratch(probed);
	}
}

/* Begins the sample of a thread's user stack that has only the place at which the thread entered the kernel; the copy shows its callers.
 * `head` is that of the wait. */
static __always_inline void begin_wait_stack(struct sample_record *record, const struct record_head *head, __u64 epoch)
{
	record->head = *head;
	record->head.type = RECORD_WAIT_STACK;
	record->weight = epoch;
	record->kernel_len = 0;
	record->kernel_end = WALK_NONE;
	record->event = 0;
	record->field_len = 0;
	record->user_len = 1;
	record->user_end = WALK_UNSAID;
	record->snapshot = 0;
	record->interpreted = 0;
}

/* Sends what was taken of a thread whose wait was sent: its user stack, and before that the copy. */
static __always_inline void send_wait_copy(__u32 slot, struct scratch *scratch, struct wait_copy *copy, struct task_struct *task,
					   __u64 epoch)
{
	struct sample_record *record = &scratch->record;
	struct registers_record *taken = &copy->taken;
	__u64 len = taken->top_len & (2 * MAX_TOP_LEN - 1);

	begin_wait_stack(record, &scratch->wait.head, epoch);
	scratch->frames[0] = taken->registers[REGISTER_COUNT - 1];
	if (copy->walked) {
		len = (copy->walked & (MAX_TOP_LEN / sizeof(__u64) - 1)) * sizeof(__u64);
		bpf_probe_read_kernel(scratch->frames, len, taken->top);
		record->user_len = len / sizeof(__u64);
		record->user_end = WALK_BY_TABLES;
		if (bpf_ringbuf_output(&ring, scratch, sizeof(*record) + len, wakeup_flags()))
			count_loss(LOSS_STACK_SHORTENED);
		return;
	}
	taken->type = RECORD_REGISTERS;
	taken->snapshot = next_snapshot(slot, scratch);
	taken->stack_end = known_stack_end(task, record->head.tid, taken->registers[STACK_POINTER]);
	if (len > MAX_TOP_LEN)
		len = 0;
	if (bpf_ringbuf_output(&ring, taken, offsetof(struct registers_record, top) + len, BPF_RB_NO_WAKEUP))
		count_loss(LOSS_STACK_SHORTENED);
	else
		record->snapshot = taken->snapshot;
	if (bpf_ringbuf_output(&ring, scratch, sizeof(*record) + sizeof(__u64), wakeup_flags()))
		count_loss(LOSS_STACK_SHORTENED);
}

static __always_inline void forget_wait_copy(struct task_struct *task)
{
	__u64 key = (__u64)task;

	if (makes_wait_copies)
		bpf_map_delete_elem(&wait_copies, &key);
}

#endif
