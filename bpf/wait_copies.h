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
	/* How many functions of an interpreter `wait_functions` has of them. */
	__u32 functions;
};

/* By the address of the task, like `waits`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct wait_copy);
} wait_copies SEC(".maps");

/* The most functions that are kept of a thread, the innermost ones, and one more; a power of two. */
#define MAX_WAIT_FUNCTIONS 512

/* The functions that an interpreter runs in a thread. */
struct wait_functions {
	__u32 end; /* enum walk_end */
	__u32 zero;
	struct interpreted_frame frames[MAX_WAIT_FUNCTIONS];
};

/* By the address of the task. Apart, because few threads have some. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct wait_functions);
} wait_functions SEC(".maps");

/* The first contents of values. */
struct wait_copy no_copy = {};
struct wait_functions no_functions = {};

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
	find_interpreted(slot);
	return walk_by_tables(slot) ? scratch->record.user_len : 0;
}

/* Keeps the functions of an interpreter that a walk has found in a thread; if there is no room for them, the stack has none. */
static __always_inline void keep_functions(__u64 task, const struct interpreted *into, struct wait_copy *copy)
{
	__u32 len = into->record.len;
	struct wait_functions *kept;

	if (!len)
		return;
	kept = bpf_map_lookup_elem(&wait_functions, &task);
	if (!kept) {
		bpf_map_update_elem(&wait_functions, &task, &no_functions, BPF_NOEXIST);
		kept = bpf_map_lookup_elem(&wait_functions, &task);
		if (!kept)
			return;
	}
	kept->end = into->record.end;
	if (len >= MAX_WAIT_FUNCTIONS) {
		len = MAX_WAIT_FUNCTIONS - 1;
		kept->end = WALK_DEPTH;
	}
	if (!bpf_probe_read_kernel(kept->frames, (len & (MAX_WAIT_FUNCTIONS - 1)) * sizeof(kept->frames[0]), into->record.frames))
		copy->functions = len;
}

/* Sends the functions that were kept of a thread, before its stack. */
static __always_inline void send_functions(__u32 slot, struct scratch *scratch, struct task_struct *task, const struct wait_copy *copy)
{
	__u32 len = copy->functions & (MAX_WAIT_FUNCTIONS - 1);
	struct interpreted *into = &scratch->interpreted;
	__u64 key = (__u64)task;
	struct wait_functions *kept = bpf_map_lookup_elem(&wait_functions, &key);

	if (!kept || bpf_probe_read_kernel(into->record.frames, len * sizeof(kept->frames[0]), kept->frames))
		return;
	into->record.len = len;
	into->record.end = kept->end;
	send_interpreted(slot, scratch);
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
	scratch->record.head.tid = prev->pid;
	__builtin_memcpy(scratch->registers.registers, copy->taken.registers, sizeof(copy->taken.registers));
	len = walk_for_wait(slot);
	/* The verifier of 6.1 understands the mask. */
	if (len < MAX_TOP_LEN / sizeof(__u64) &&
	    !bpf_probe_read_kernel(copy->taken.top, (len & (MAX_TOP_LEN / sizeof(__u64) - 1)) * sizeof(__u64), scratch->frames))
		copy->walked = len;
	if (copy->walked)
		keep_functions((__u64)prev, &scratch->interpreted, copy);
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
	copy->walked = copy->functions = 0;
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
		if (copy->functions)
			send_functions(slot, scratch, task, copy);
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

	if (!makes_wait_copies)
		return;
	bpf_map_delete_elem(&wait_copies, &key);
	bpf_map_delete_elem(&wait_functions, &key);
}

#endif
