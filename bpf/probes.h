/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The programs at tracepoints and probes; counters have theirs in icecore.bpf.c. */
#ifndef ICECORE_PROBES_H
#define ICECORE_PROBES_H

#include "kernel.h"
#include "events.h"
#include "fields.h"
#include "maps.h"
#include "registers.h"
#include "returns.h"
#include "sample.h"
#include "scratch.h"
#include "snapshot.h"
#include "walk.h"
#include "wire.h"

/* Takes the sample of a hit in the kernel that weighs so much. The innermost kernel frames, so many, are ours. */
static __always_inline int sample_in_kernel(void *ctx, __u32 event, __u64 hit_weighs, __u32 ours, bool with_loop, const struct field *field,
					    const struct reported *reported)
{
	__u64 weight = weigh(event, hit_weighs);
	struct scratch *scratch;
	__u32 slot;

	if (!weight)
		return 0;
	scratch = claim_scratch(&slot);
	if (!scratch) {
		count_lost_sample(LOSS_NO_SCRATCH, event, weight);
		return 0;
	}
	begin_sample(scratch, event, weight);
	if (take_kernel)
		walk_kernel(ctx, scratch, ours);
	if (take_user && !with_loop) {
		if (has_user_stack(0))
			walk_by_helper(ctx, scratch);
	} else if (with_loop && take_user && take_entry_registers(scratch)) {
		take_user_stack(slot, 0);
	}
	if (field && reported && field->kind)
		take_field(scratch, field, reported);
	send_sample(scratch);
	free_scratch(scratch);
	return 0;
}

/*
 * Since 6.13 the stack of such a program belongs to its CPU. The kernel can preempt programs of probes in user space, and lets another
 * thread run the same program on the same stack: it would read what the first one wrote, or crash. So the program itself keeps its CPU.
 */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline void keep_cpu(void)
{
	if (is_stack_of_cpu && bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_disable();
}

static __always_inline void let_cpu_go(void)
{
	if (is_stack_of_cpu && bpf_ksym_exists(bpf_preempt_enable))
		bpf_preempt_enable();
}

/* Returns true if the current task, on this CPU, may be sampled by a probe. */
static __always_inline bool is_hit_wanted(void)
{
	__u64 tgid_tid = bpf_get_current_pid_tgid();

	return is_wanted_here() && is_wanted(tgid_tid >> 32, (__u32)tgid_tid);
}

/* Returns true if a hit is nothing to us: in a pause only calls and returns are matched, for functions that are weighed by how long they take. */
static __always_inline bool rests(__u32 event)
{
	struct choice *choice = is_paused ? bpf_map_lookup_elem(&choices, &event) : 0;

	return choice && choice->argument != WEIGHT_DURATION;
}

/* A probe in a program was hit. */
static __always_inline void sample_in_user(void *ctx, bool with_loop)
{
	struct scratch *scratch;
	struct choice *choice;
	__u32 event = EVENT_OF(ctx), slot;
	__u64 weight;

	if (!take_user || rests(event) || !is_hit_wanted())
		return;
	weight = weigh(event, weight_by_registers(event, ctx));
	choice = bpf_map_lookup_elem(&choices, &event);
	if (!weight || !choice)
		return;
	scratch = claim_scratch(&slot);
	if (!scratch) {
		count_lost_sample(LOSS_NO_SCRATCH, event, weight);
		return;
	}
	begin_sample(scratch, event, weight);
	if (with_loop) {
		COPY_REGISTERS(scratch->registers.registers, PROBED);
		take_user_stack(slot, choice->at_entry);
	} else {
		walk_by_helper(ctx, scratch);
	}
	send_sample(scratch);
	free_scratch(scratch);
}

/* A function begins whose return will be weighed by the time in between. */
static __always_inline void note_call_of(void *ctx)
{
	__u64 tgid_tid = bpf_get_current_pid_tgid(), sp = PROBED(sp);
	struct uprobe_task *utask = uprobe_task((void *)bpf_get_current_task());

	if (!is_wanted(tgid_tid >> 32, (__u32)tgid_tid))
		return;
	/* The kernel will not tell of the return. */
	if (utask && BPF_CORE_READ(utask, depth) >= MAX_RETURNS) {
		count_lost_sample(LOSS_UNPAIRED, EVENT_OF(ctx), 0);
		return;
	}
	note_call(ctx, EVENT_OF(ctx), sp + RETURN_ADDRESS_BYTES);
}

/* A function of the kernel begins, or returns to where the registers lead. */
static __always_inline int sample_at_kprobe(void *ctx, bool with_loop)
{
	__u32 event = EVENT_OF(ctx);

	if (rests(event) || !is_hit_wanted())
		return 0;
	return sample_in_kernel(ctx, event, weight_by_registers(event, ctx), 0, with_loop, 0, 0);
}

static __always_inline int sample_at_tracepoint(void *ctx, bool with_loop)
{
	__u32 event = EVENT_OF(ctx);
	struct choice *choice = bpf_map_lookup_elem(&choices, &event);
	struct reported *reported;
	__u64 weight = 1;

	if (!choice || !is_hit_wanted())
		return 0;
	reported = report_of(choice, ctx);
	if (choice->weighed.kind)
		weight = reported ? weight_by_field(&choice->weighed, reported) : 0;
	return sample_in_kernel(ctx, event, weight, 0, with_loop, &choice->sent, reported);
}

/* A function of the kernel that calls one of our programs itself begins or ends. */
static __always_inline void sample_at_call(void *ctx, __u32 number)
{
	__u32 event = events_of_calls[number];

	if (is_hit_wanted())
		sample_in_kernel(ctx, event, weight_by_call(event, ctx), frames_before_call(ctx), 1, 0, 0);
}

SEC("uprobe")
int uprobe_of_call(void *ctx)
{
	keep_cpu();
	note_call_of(ctx);
	let_cpu_go();
	return 0;
}

SEC("tracepoint")
int tracepoint_by_loop(void *ctx)
{
	return sample_at_tracepoint(ctx, 1);
}

SEC("tracepoint")
int tracepoint_by_helper(void *ctx)
{
	return sample_at_tracepoint(ctx, 0);
}

SEC("kprobe")
int kprobe_by_loop(void *ctx)
{
	return sample_at_kprobe(ctx, 1);
}

SEC("kprobe")
int kprobe_by_helper(void *ctx)
{
	return sample_at_kprobe(ctx, 0);
}

/* A function of the kernel begins whose return will be weighed by the time in between. */
SEC("kprobe")
int kprobe_of_call(void *ctx)
{
	__u64 sp = PROBED(sp);

	if (is_hit_wanted())
		note_call(ctx, EVENT_OF(ctx), sp + RETURN_ADDRESS_BYTES);
	return 0;
}

/* The kernel binds such a program to one function when it loads it (MAX_CALLING). */
#define CALLED_PROGRAM(number)                 \
	SEC("fentry")                          \
	int called_##number(void *ctx)         \
	{                                      \
		keep_cpu();                    \
		sample_at_call(ctx, number);   \
		let_cpu_go();                  \
		return 0;                      \
	}
CALLED_PROGRAM(0)
CALLED_PROGRAM(1)
CALLED_PROGRAM(2)
CALLED_PROGRAM(3)

SEC("uprobe")
int uprobe_by_loop(void *ctx)
{
	keep_cpu();
	sample_in_user(ctx, 1);
	let_cpu_go();
	return 0;
}

SEC("uprobe")
int uprobe_by_helper(void *ctx)
{
	keep_cpu();
	sample_in_user(ctx, 0);
	let_cpu_go();
	return 0;
}

#endif
