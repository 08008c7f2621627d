/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The innermost kernel frames of threads that leave their CPU.
 *
 * From the stack of a thread that waits the kernel leaves out all functions of `.sched.text`: those of its scheduler, and those that wait for
 * its locks. A thread that is on its CPU still is shown whole. So the frames are taken there; user space joins them with the rest.
 * Threads wait for locks and for disks in the uninterruptible state, so the other switches do not pay for it.
 *
 * Source: `stack_trace_save_tsk` in kernel/stacktrace.c
 */
#ifndef ICECORE_INNER_FRAMES_H
#define ICECORE_INNER_FRAMES_H

#include "kernel.h"
#include "maps.h"
#include "wire.h"

/* include/linux/sched.h */
#define TASK_UNINTERRUPTIBLE 2
#define TASK_NOLOAD 0x400

struct inner_frames {
	__u64 frames[INNER_FRAMES];
	__u16 len;
	/* The first that is not the scheduler's own. */
	__u16 from;
};

/* Takes the frames of the current thread, which leaves its CPU in a state. */
static __always_inline void take_inner_frames(void *ctx, struct inner_frames *inner, __u32 state)
{
	__u16 len, from = 0;
	long bytes;

	inner->len = 0;
	if (!take_kernel || !scheduler[0] || !(state & TASK_UNINTERRUPTIBLE) || state & TASK_NOLOAD)
		return;
	bytes = bpf_get_stack(ctx, inner->frames, sizeof(inner->frames), 0);
	if (bytes <= 0 || bytes > sizeof(inner->frames))
		return;
	len = bytes / sizeof(__u64);
#pragma clang loop unroll(full)
	for (__u16 i = 0; i < INNER_FRAMES; i++)
		if (!from && i < len && inner->frames[i] - scheduler[0] < scheduler[1] - scheduler[0])
			from = i + 1;
	inner->from = from;
	/* If the scheduler's function is not among the frames, nothing shows where those of this program end. */
	if (from)
		inner->len = len;
}

#endif
