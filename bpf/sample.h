/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The steps of a sample that all events share: who is sampled, the head, the registers, the record. */
#ifndef ICECORE_SAMPLE_H
#define ICECORE_SAMPLE_H

#include "kernel.h"
#include "executing.h"
#include "maps.h"
#include "registers.h"
#include "scratch.h"
#include "wire.h"

/* Returns true if a task is sampled, except for the cgroups that are chosen. */
static __always_inline bool is_listed(__u32 tgid, __u32 tid)
{
	if (tid == 0 && !take_idle)
		return 0;
	if (target_mode == TARGET_THREADS)
		return bpf_map_lookup_elem(&target_tids, &tid) != 0;
	return is_target_process(tgid);
}

/* Returns true if a task is sampled. With cgroups it must be the current one. */
static __always_inline bool is_wanted(__u32 tgid, __u32 tid)
{
	return is_listed(tgid, tid) && (target_mode != TARGET_CGROUPS || is_in_target_cgroup());
}

/* Returns true if probes on this CPU are sampled. */
static __always_inline bool is_wanted_here(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return !some_cpus || (target_cpus[cpu / 64 & (MAX_CPUS / 64 - 1)] >> (cpu & 63) & 1);
}

/* A constant to the verifier, which then skips code that reads missing fields. */
static __always_inline bool has_cgroups(void)
{
	return bpf_core_field_exists(((struct task_struct *)0)->cgroups);
}

/* The number of the event that runs a program. */
#define EVENT_OF(ctx) (has_cookies ? (__u32)bpf_get_attach_cookie(ctx) & (MAX_EVENTS - 1) : 0)

/* Begins the sample of the current task in a buffer. */
static __always_inline void begin_sample(struct scratch *scratch, __u32 event, __u64 weight)
{
	struct sample_record *record = &scratch->record;
	__u64 tgid_tid = bpf_get_current_pid_tgid();

	record->head.type = RECORD_SAMPLE;
	record->head.cpu = bpf_get_smp_processor_id();
	record->head.time_ns = bpf_ktime_get_ns();
	record->head.tgid = tgid_tid >> 32;
	record->head.tid = (__u32)tgid_tid;
	bpf_get_current_comm(record->head.comm, COMM_LEN);
	record->head.cgroup_id = has_cgroups() ? bpf_get_current_cgroup_id() : 0;
	record->weight = weight;
	record->kernel_len = 0;
	record->user_len = 0;
	record->kernel_end = WALK_NONE;
	record->user_end = WALK_NONE;
	record->event = event;
	record->field_len = 0;
	record->snapshot = 0;
	record->interpreted = 0;
	scratch->returns.is_in_kernel = 0;
}

/* Sends a sample whose stacks are taken. Returns false if the ring is full. */
static __always_inline bool try_send_sample(struct scratch *scratch)
{
	struct sample_record *record = &scratch->record;
	__u64 frames = (record->kernel_len & 127) + (record->user_len & (2 * MAX_USER_FRAMES - 1));
	__u64 bytes = sizeof(*record) + frames * sizeof(__u64) + record->field_len;

	if (bytes > sizeof(*record) + sizeof(scratch->frames))
		bytes = sizeof(*record) + sizeof(scratch->frames);
	return bpf_ringbuf_output(&ring, scratch, bytes, wakeup_flags()) == 0;
}

static __always_inline void send_sample(struct scratch *scratch)
{
	if (!try_send_sample(scratch))
		count_lost_sample(LOSS_RING_FULL_SAMPLE, scratch->record.event, scratch->record.weight);
}

/* Stores the registers that user space had when it entered the kernel. Returns false if the current task has none: threads of the kernel,
 * its workers that share a process's memory (io_uring) and never came from there, and those whose program is gone. */
static __always_inline bool take_entry_registers(struct scratch *scratch)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *entry;

	if (!BPF_CORE_READ(task, mm) || BPF_CORE_READ(task, flags) & PF_KTHREAD || has_new_memory())
		return 0;
	entry = (void *)bpf_task_pt_regs(task);
#define FROM_ENTRY(field) (entry->field)
	COPY_REGISTERS(scratch->registers.registers, FROM_ENTRY);
	scratch->returns.is_in_kernel = 1;
	return scratch->registers.registers[REGISTER_COUNT - 1] != 0;
}

/* Returns true if the current task may have a user stack that the kernel can walk. */
static __always_inline bool has_user_stack(bool in_user)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	return in_user || (BPF_CORE_READ(task, mm) && !(BPF_CORE_READ(task, flags) & PF_KTHREAD) && !has_new_memory());
}

#endif
