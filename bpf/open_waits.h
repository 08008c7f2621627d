/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Waits that have not ended when the recording does: the programs that look at every thread. */
#ifndef ICECORE_OPEN_WAITS_H
#define ICECORE_OPEN_WAITS_H

#include "kernel.h"
#include "maps.h"
#include "pages.h"
#include "registers.h"
#include "returns.h"
#include "sample.h"
#include "scratch.h"
#include "wait_copies.h"
#include "waits.h"
#include "wire.h"

/* Reads registers and stack of a thread that waits into the buffer for a snapshot. This may sleep. Returns false if it came from no code of
 * user space. */
static __always_inline bool take_waiting_stack(__u32 slot, struct scratch *scratch, struct task_struct *task)
{
	struct registers_record *taken = begin_snapshot(slot, scratch, 0);
	struct pt_regs *entry;
	__u64 sp, len;

	if (!take_user || !has_user_memory(task))
		return 0;
	entry = (void *)bpf_task_pt_regs(task);
	COPY_REGISTERS(taken->registers, FROM_ENTRY);
	leave_slot(taken->registers, task);
	find_returns(&scratch->returns, task);
	leave_early_trampoline(&scratch->returns, taken->registers);
	if (is_in_trampoline(&scratch->returns, taken->registers))
		return 0;
	sp = taken->registers[STACK_POINTER];
	taken->stack_end = known_stack_end(task, task->pid, sp);
	len = MAX_TOP_LEN;
	if (bpf_copy_from_user_task(taken->top, MAX_TOP_LEN, (void *)sp, task, 0)) {
		len = STACK_PAGE_LEN - (sp & (STACK_PAGE_LEN - 1));
		if (len >= MAX_TOP_LEN || bpf_copy_from_user_task(taken->top, len, (void *)sp, task, 0))
			len = 0;
	}
	taken->top_len = len;
	put_into_top(&scratch->returns, taken, sp);
	return taken->registers[REGISTER_COUNT - 1] != 0;
}

/* Writes the wait of a thread to the reader of the iterator if it has not ended: the recording ends or pauses, and the thread still waits. */
static __always_inline int write_waiting(struct bpf_iter__task *ctx, bool with_stack)
{
	struct task_struct *task = ctx->task;
	struct seq_file *to = ctx->meta->seq;
	struct wait_record *record;
	struct wait_begin begin;
	struct waiting *waiting;
	struct scratch *scratch;
	bool is_known;
	__u64 now, len, delay_before = DELAY_UNKNOWN;
	__u32 slot;

	if (!task || task->pid == 0 || is_on_cpu(task) || state_of(task) & TASK_DEAD)
		return 0;
	waiting = waiting_of(task);
	is_known = waiting && is_known_still(waiting, task);
	if (is_known ? !waiting->began_ns : !waiting && (target_mode == TARGET_CGROUPS || !is_listed(task->tgid, task->pid)))
		return 0;
	scratch = claim_scratch(&slot);
	if (!scratch) {
		count_loss(LOSS_NO_SCRATCH);
		return 0;
	}
	record = &scratch->wait;
	now = bpf_ktime_get_ns();
	begin_wait(record, task, now);
	if (waiting)
		record->epoch = waiting->epoch;
	if (is_known) {
		record->began_ns = began_since(waiting);
		record->flags = record->began_ns == waits_since_ns ? WAIT_BEGAN_BEFORE : 0;
		record->state = waiting->state;
		record->woken_by = waiting->woken_by;
		delay_before = waiting->delay_before;
	} else {
		begin = first_wait(task);
		fill_begin(record, &begin);
		record->state = state_of(task);
	}
	record->flags |= WAIT_NOT_ENDED;
	record->ready_ns = now;
	if (!record->state && is_known)
		record->ready_ns = record->began_ns;
	else if (!state_of(task))
		record->ready_ns = ready_since(task, record->began_ns, delay_before, now);
	record->blocked_weight = weight_of_wait(passed(record->began_ns, record->ready_ns));
	if (is_known && waiting->is_decided) {
		note_waker(record, waiting);
		record->ready_ns = waiting->ready_ns;
		record->blocked_weight = waiting->blocked_weight;
		if (record->ready_ns < record->began_ns) {
			record->ready_ns = record->began_ns;
			record->blocked_weight = 0;
		}
	}
	record->delay_weight = weight_of_wait(passed(record->ready_ns, now));
	if (take_kernel)
		walk_waiting(task, is_known ? waiting : 0, scratch);
	if (record->blocked_weight || record->delay_weight) {
		if (with_stack && take_waiting_stack(slot, scratch, task))
			record->flags |= WAIT_HAS_STACK;
		bpf_seq_write(to, record, wait_bytes(record));
		if (record->flags & WAIT_HAS_STACK) {
			begin_wait_stack(&scratch->record, &record->head, record->epoch);
			scratch->record.snapshot = scratch->registers.snapshot;
			scratch->frames[0] = scratch->registers.registers[REGISTER_COUNT - 1];
			len = scratch->registers.top_len & (2 * MAX_TOP_LEN - 1);
			if (len > MAX_TOP_LEN)
				len = 0;
			bpf_seq_write(to, &scratch->registers, offsetof(struct registers_record, top) + len);
			bpf_seq_write(to, scratch, sizeof(scratch->record) + sizeof(__u64));
		}
	}
	free_scratch(scratch);
	return 0;
}

/* A program that may sleep can read the memory of another thread (5.18). */
SEC("iter.s/task")
int on_every_waiting(struct bpf_iter__task *ctx)
{
	return write_waiting(ctx, 1);
}

SEC("iter/task")
int on_every_waiting_without_stacks(struct bpf_iter__task *ctx)
{
	return write_waiting(ctx, 0);
}

#endif
