/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Decides whether a frame-pointer walk shows the whole stack, so that the stack need not be copied. */
#ifndef ICECORE_COMPLETE_H
#define ICECORE_COMPLETE_H

#include "kernel.h"
#include "maps.h"
#include "scratch.h"
#include "signals.h"
#include "wire.h"

/* Returns true if a thread runs on its alternate signal stack. */
static __always_inline bool is_on_signal_stack(__u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 into = sp - BPF_CORE_READ(task, sas_ss_sp);

	return into < BPF_CORE_READ(task, sas_ss_size);
}

#if defined(__TARGET_ARCH_x86)
/* The addresses to which signal handlers return: the trampoline of the C library, and perhaps one of the program. */
struct trampolines {
	const __u64 *frames;
	__u64 one;
	__u64 other;
	bool is_passed;
};

static long pass_frame(__u32 i, struct trampolines *trampolines)
{
	__u64 address = trampolines->frames[i & (MAX_USER_FRAMES - 1)];

	trampolines->is_passed = address == trampolines->one || address == trampolines->other;
	return trampolines->is_passed;
}

/* Returns true if a walk passes through a signal handler. The interrupted function is not on the chain of frame pointers. */
static __always_inline bool passes_signal(struct scratch *scratch)
{
	struct trampolines found = { .frames = &scratch->frames[scratch->record.kernel_len & 127] };
	const struct k_sigaction *actions = actions_of(scratch);

	if (!read_actions(scratch))
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 64; i++) {
		__u64 to = (__u64)actions[i].sa.sa_restorer;

		if (to && to != found.one) {
			found.other = found.one;
			found.one = to;
		}
	}
	if (found.one)
		bpf_loop(scratch->record.user_len, pass_frame, &found, 0);
	return found.is_passed;
}
#else
static __always_inline bool passes_signal(struct scratch *scratch)
{
	return 0;
}
#endif

/* Returns true if the walk shows the whole stack: it reached the root, and either all of it is Go code, or user space has found that
 * all code of the process keeps frame pointers, no code was mapped since, and the walk passes through no signal handler. A walk of one
 * frame may lack callers: it ends wherever the frame pointer is not used. */
VERIFIED_ALONE int is_complete(__u32 slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct scratch *scratch = scratch_of(slot);
	bool is_of_go;
	__u64 *pages;
	__u32 tgid;

	if (copy_mode != COPY_UNTRUSTED || !scratch || scratch->record.user_len < 2)
		return 0;
	is_of_go = scratch->go.places.code_len && !scratch->go.is_foreign;
	/* A walk of Go has no smaller depth limit than unwinding, so that it may also end there. */
	if (scratch->record.user_end != WALK_ROOT && (!is_of_go || scratch->record.user_end != WALK_DEPTH))
		return 0;
	if (is_of_go)
		return 1;
	tgid = scratch->record.head.tgid;
	pages = bpf_map_lookup_elem(&trusted_tgids, &tgid);
	return pages && *pages == BPF_CORE_READ(task, mm, exec_vm) && !passes_signal(scratch);
}

#endif
