/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a task that executes a program still has of the old one. It has the registers until it runs the new one, but not the memory. */
#ifndef ICECORE_EXECUTING_H
#define ICECORE_EXECUTING_H

#include "kernel.h"

/* Returns true if the current task executes a program and has left the memory of the old one. The kernel notes where the new code begins when
 * all of the new program is mapped, a few steps before it sets the registers: nothing tells these steps from what comes before. */
static __always_inline bool has_new_memory(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ_BITFIELD_PROBED(task, in_execve) && !BPF_CORE_READ(task, mm, start_code);
}

/* Returns true if the stack of the current task is its parent's again: a child of `vfork` that executes a program lets its parent go on
 * before it leaves the memory that both share. */
static __always_inline bool has_given_stack_back(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ_BITFIELD_PROBED(task, in_execve) && !BPF_CORE_READ(task, vfork_done) &&
	       BPF_CORE_READ(task, real_parent, mm) == BPF_CORE_READ(task, mm);
}

#endif
