/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Who ends a wait: the program at wake-ups. */
#ifndef ICECORE_WAKERS_H
#define ICECORE_WAKERS_H

#include "kernel.h"
#include "maps.h"
#include "sample.h"
#include "scratch.h"
#include "snapshot.h"
#include "waits.h"
#include "walk.h"
#include "wire.h"

/* Finds the innermost interrupt in a kernel stack, and where the code that it interrupted begins. */
struct finding {
	const struct scratch *scratch;
	__u32 found;
	__u32 len;
};

static long find_interrupt(__u32 i, struct finding *finding)
{
	__u64 address = finding->scratch->frames[i & 127];

	if (address - hard_interrupts[0] < hard_interrupts[1] - hard_interrupts[0]) {
		if (finding->found == WAKER_THREAD)
			finding->found = WAKER_HARD_INTERRUPT;
		finding->len = i + 1;
		return 1;
	}
	/* A soft interrupt runs at the end of a hard one, or in a thread of its own. */
	if (address - soft_interrupts[0] < soft_interrupts[1] - soft_interrupts[0])
		finding->found = WAKER_SOFT_INTERRUPT;
	return 0;
}

/* Returns what runs now, by the kernel stack of a sample: a thread, or an interrupt above it. The innermost counts, and the frames of what
 * it interrupted are cut off. */
static __always_inline __u8 who_runs(struct scratch *scratch, bool with_loop)
{
	struct finding finding = { .scratch = scratch, .found = WAKER_THREAD };

	if (!hard_interrupts[0] || !soft_interrupts[0])
		return WAKER_UNKNOWN;
	if (with_loop) {
		bpf_loop(scratch->record.kernel_len & 127, find_interrupt, &finding, 0);
	} else {
#pragma clang loop unroll(disable)
		for (__u32 i = 0; i < 127; i++)
			if (i >= scratch->record.kernel_len || find_interrupt(i, &finding))
				break;
	}
	if (finding.len)
		scratch->record.kernel_len = finding.len;
	return finding.found;
}

/* Makes an interrupt the owner of a sample: as the kernel's own, thread 0. */
static __always_inline void set_interrupt(struct record_head *head, __u8 woken_by)
{
	head->tgid = 0;
	head->tid = 0;
	head->cgroup_id = 0;
	__builtin_memcpy(head->comm, "hard interrupt\0", COMM_LEN);
	if (woken_by == WAKER_SOFT_INTERRUPT)
		__builtin_memcpy(head->comm, "soft", 4);
	if (woken_by == WAKER_UNKNOWN)
		__builtin_memcpy(head->comm, "unknown\0\0\0\0\0\0\0\0", COMM_LEN);
}

/* Returns how many of the innermost kernel frames are of programs at wake-ups. */
static __always_inline __u32 frames_before_waking(void *ctx)
{
	__u64 frame;

	if (bpf_get_stack(ctx, &frame, sizeof(frame), TRACING_FRAMES) == sizeof(frame) &&
	    frame - caller_at_waking[0] < caller_at_waking[1] - caller_at_waking[0])
		return TRACING_FRAMES + 1;
	return TRACING_FRAMES;
}

/* Somebody wakes a thread: the first part of its wait is over. */
static __always_inline int wake(void *ctx, struct task_struct *woken, bool with_loop)
{
	__u64 now = bpf_ktime_get_ns(), weight;
	struct waiting *waiting = waiting_of(woken);
	struct scratch *scratch;
	__u32 slot;

	if (!waiting || !waiting->began_ns || !waiting->state || waiting->is_decided || !is_known_still(waiting, woken))
		return 0;
	weight = weight_of_wait(passed(began_since(waiting), now));
	waiting->blocked_weight = weight;
	waiting->ready_ns = now;
	waiting->is_decided = 1;
	if (!weight)
		return 0;
	scratch = claim_scratch(&slot);
	if (!scratch) {
		count_lost_sample(LOSS_NO_SCRATCH, waker_event, weight);
		return 0;
	}
	begin_sample(scratch, waker_event, weight);
	walk_kernel(ctx, scratch, frames_before_waking(ctx));
	waiting->woken_by = who_runs(scratch, with_loop);
	/* The thread that was interrupted has nothing to do with it. */
	if (waiting->woken_by != WAKER_THREAD)
		set_interrupt(&scratch->record.head, waiting->woken_by);
	waiting->waker_tgid = scratch->record.head.tgid;
	waiting->waker_tid = scratch->record.head.tid;
	__builtin_memcpy(waiting->waker_comm, scratch->record.head.comm, COMM_LEN);
	if (!take_kernel) {
		scratch->record.kernel_len = 0;
		scratch->record.kernel_end = WALK_NONE;
	}
	waiting->waker_ns = scratch->record.head.time_ns;
	if (take_user && waiting->woken_by == WAKER_THREAD && take_entry_registers(scratch)) {
		if (with_loop)
			take_user_stack(slot, 0);
		else
			walk_by_helper(ctx, scratch);
	}
	send_sample(scratch);
	free_scratch(scratch);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *woken)
{
	return wake(ctx, woken, 1);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking_by_helper, struct task_struct *woken)
{
	return wake(ctx, woken, 0);
}

#endif
