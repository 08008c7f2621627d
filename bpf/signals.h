/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The signal handlers of a process, and whether one of them is running. */
#ifndef ICECORE_SIGNALS_H
#define ICECORE_SIGNALS_H

#include "kernel.h"
#include "scratch.h"

#if defined(__TARGET_ARCH_x86)
/* Where the frame of a signal has the signals that were blocked before (struct rt_sigframe). */
#define SIGNAL_FRAME_MASK 304
/* Flag: the handler runs on the alternate stack. */
#define SA_ONSTACK 0x08000000

/* Reads the signal handlers of a process into the buffer for a page; returns false if it cannot. (It returns no pointer: the compiler
 * would test the result of the read instead of the pointer, and the verifier of 6.1 does not see that both are the same.) */
static __always_inline bool read_actions(struct scratch *scratch)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sighand_struct *handlers = BPF_CORE_READ(task, sighand);

	return !bpf_probe_read_kernel(scratch->page.bytes, sizeof(handlers->action), &handlers->action);
}

static __always_inline const struct k_sigaction *actions_of(const struct scratch *scratch)
{
	return (const void *)scratch->page.bytes;
}

/* Returns true if the handler of a signal is still running: until it returns, its signal is blocked, which it was not before, and so are
 * the signals of its mask. After a handler has returned, its frame stays in memory, and a program may use this stack for something else
 * (coroutines). A handler that does not block its own signal is not recognized. */
VERIFIED_ALONE int is_handled(__u32 slot, __u64 signal_frame)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 blocked = BPF_CORE_READ(task, blocked.sig[0]), before;
	struct scratch *scratch = scratch_of(slot);
	const struct k_sigaction *actions;

	if (!scratch)
		return 0;
	actions = actions_of(scratch);
	if (!read_actions(scratch) ||
	    bpf_probe_read_user(&before, sizeof(before), (void *)(signal_frame + SIGNAL_FRAME_MASK)) || before & ~blocked)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 64; i++)
		if ((blocked & ~before) >> i & 1 && actions[i].sa.sa_flags & SA_ONSTACK && !(actions[i].sa.sa_mask.sig[0] & ~blocked))
			return 1;
	return 0;
}
#else
static __always_inline bool is_handled(__u32 slot, __u64 signal_frame)
{
	return 0;
}
#endif

#endif
