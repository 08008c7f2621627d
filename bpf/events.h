/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which hits of a probe become samples, and what they weigh. */
#ifndef ICECORE_EVENTS_H
#define ICECORE_EVENTS_H

#include "kernel.h"
#include "maps.h"
#include "registers.h"
#include "wire.h"

/* What user space wants of an event, by its number. */
struct choice {
	/* One of so many hits becomes a sample; at least 1. */
	__u32 every;
	/* What a hit weighs: an argument, counted from 1, or one of enum weight; 0: each weighs 1. */
	__u32 argument;
	/* Hits that weigh less are no samples. */
	__u64 min;
	/* The most samples in a window; 0: no bound. */
	__u32 most;
	/* The probe lies at the first instructions of functions. */
	__u32 at_entry;
	/* Fields of a tracepoint: what a hit weighs, and what its sample has. */
	struct field weighed;
	struct field sent;
	/* The state of the bound: the current window, the samples in it, and the current rate. */
	__u64 window;
	__u32 taken;
	__u32 current;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_EVENTS);
	__type(key, __u32);
	__type(value, struct choice);
} choices SEC(".maps");

/* Returns one of how many hits is taken now. Whenever a window has too many samples, that number doubles; after a window with less than
 * half of the most, it halves. It depends only on earlier hits, so the weights stay right. */
static __always_inline __u32 current_every(struct choice *choice)
{
	__u64 window = bpf_ktime_get_ns() >> WINDOW_BITS, before = choice->window;
	__u32 current = choice->current, least = choice->every * (rarer ? rarer : 1);

	if (!choice->most)
		return least;
	if (window != before && __sync_val_compare_and_swap(&choice->window, before, window) == before) {
		if (choice->taken < choice->most / 2)
			current /= 2;
		choice->taken = 0;
	}
	if (current < least)
		current = least;
	choice->current = current;
	return current;
}

/* Calls whose returns will be weighed. At the return the stack pointer is what it was before the call, so calls that end by longjmp or an
 * exception take no other call's return. A function that ends in a jump to another one (a tail call) leaves it its stack pointer: both
 * return at once. Kernels before 6.7 do not tell the function. */
struct call {
	__u32 tid;
	__u32 event;
	__u64 sp;
	__u64 function;
};

/* Functions that jump to each other return in the opposite order of their begins. So many of these are known; a call that longjmp has left
 * is the oldest one, and gives way to others. */
#define MAX_JUMPS 4

struct begins {
	__u32 next;
	__u32 known;
	__u64 ns[MAX_JUMPS];
};

/* When these calls began. The kernel may evict those that it was asked for least lately, when there are too many; their returns are
 * counted as losses. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct call);
	__type(value, struct begins);
} calls SEC(".maps");

/* How many calls have begun and not returned, by event: those that longjmp or an exception has left are among them for ever. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_EVENTS);
	__type(key, __u32);
	__type(value, __u64);
} unreturned SEC(".maps");

static __always_inline void count_unreturned(__u32 event, __s64 calls)
{
	__u64 *count = bpf_map_lookup_elem(&unreturned, &event);

	if (count)
		__sync_fetch_and_add(count, calls);
}

/* Helpers for attach cookies and for the function came together (5.15). */
static __always_inline struct call call_of(void *ctx, __u32 event, __u64 sp)
{
	struct call call = { .tid = (__u32)bpf_get_current_pid_tgid(), .event = event, .sp = sp };

	call.function = has_cookies ? bpf_get_func_ip(ctx) : 0;
	return call;
}

/* Notes that a function begins. */
static __always_inline void note_call(void *ctx, __u32 event, __u64 sp)
{
	struct call call = call_of(ctx, event, sp);
	struct begins *known = bpf_map_lookup_elem(&calls, &call), first = {};

	count_unreturned(event, 1);
	if (known) {
		known->ns[known->next++ & (MAX_JUMPS - 1)] = bpf_ktime_get_ns();
		if (known->known < MAX_JUMPS)
			known->known++;
		return;
	}
	first.next = first.known = 1;
	first.ns[0] = bpf_ktime_get_ns();
	bpf_map_update_elem(&calls, &call, &first, 0);
}

/* Returns how long the function ran that returns now, ns; 0 if that is not known. */
static __always_inline __u64 duration(__u32 event, const struct context_regs *ctx)
{
	struct call call = call_of((void *)ctx, event, PROBED(sp));
	struct begins *begins = bpf_map_lookup_elem(&calls, &call);
	__u64 now = bpf_ktime_get_ns(), began;

	if (!begins || !begins->known) {
		count_lost_sample(LOSS_UNPAIRED, event, 0);
		return 0;
	}
	count_unreturned(event, -1);
	began = begins->ns[--begins->next & (MAX_JUMPS - 1)];
	if (!--begins->known)
		bpf_map_delete_elem(&calls, &call);
	return now > began ? now - began : 1;
}

/* Returns what a hit of a probe weighs by the registers at its instruction; 0 if it is no sample. */
static __always_inline __u64 weight_by_registers(__u32 event, const struct context_regs *registers)
{
	struct choice *choice = bpf_map_lookup_elem(&choices, &event);
	__u64 value;

	if (!choice)
		return 0;
	if (choice->argument == WEIGHT_DURATION)
		return duration(event, registers);
	if (!choice->argument)
		return 1;
	value = argument(registers, choice->argument & ~WEIGHT_INT);
	return choice->argument & WEIGHT_INT ? as_int(value) : value;
}

/* Returns what the begin or the end of a function of the kernel weighs, by the context of a program that the function itself calls. */
static __always_inline __u64 weight_by_call(__u32 event, void *ctx)
{
	struct choice *choice = bpf_map_lookup_elem(&choices, &event);
	__u64 value = 0;

	if (!choice)
		return 0;
	if (!choice->argument)
		return 1;
	if (choice->argument < WEIGHT_RETURN_VALUE) {
		if (bpf_get_func_arg(ctx, (choice->argument & ~WEIGHT_INT) - 1, &value))
			return 0;
		return choice->argument & WEIGHT_INT ? as_int(value) : value;
	}
	if (bpf_get_func_ret(ctx, &value))
		return 0;
	return returned(value, choice->argument);
}

/* Returns the weight of a sample for a hit that weighs so much; 0 if it is no sample. */
static __always_inline __u64 weigh(__u32 event, __u64 weight)
{
	struct choice *choice = bpf_map_lookup_elem(&choices, &event);
	__u64 most;
	__u32 every;

	if (!choice || !weight || weight < choice->min || is_paused)
		return 0;
	every = current_every(choice);
	if (every > 1 && bpf_get_prandom_u32() % every) {
		if (every > choice->every)
			count_loss(LOSS_RATE_LOWERED);
		return 0;
	}
	if (choice->most && __sync_fetch_and_add(&choice->taken, 1) + 1 >= choice->most) {
		choice->taken = choice->most / 2;
		choice->current = every < 1 << 30 ? every * 2 : every;
	}
	most = ~0ULL / every;
	/* Otherwise the compiler multiplies in 128 bits, which programs cannot. */
	barrier_var(most);
	return weight > most ? ~0ULL : weight * every;
}

#endif
