/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The stacks of one sample, and how each walk ended. */
#ifndef ICECORE_WALK_H
#define ICECORE_WALK_H

#include "kernel.h"
#include "go.h"
#include "maps.h"
#include "returns.h"
#include "scratch.h"
#include "wire.h"

#if defined(__TARGET_ARCH_x86)
#define CONTEXT_IN_USER(ctx) ((*(volatile unsigned long *)&(ctx)->regs.cs & 3) != 0)
#else
#define CONTEXT_IN_USER(ctx) ((*(volatile __u64 *)&(ctx)->regs.pstate & 0xf) == 0)
#endif

struct walk {
	struct scratch *scratch;
	__u64 fp;
	__u32 base; /* index of the leaf frame: after the kernel frames */
	__u32 len;
	__u32 end;
	/* The last address is the root of the stack. */
	__u32 has_begun;
};

/* How often a walk may go back on a goroutine's stack: it must not walk in a circle. */
#define GO_MAX_MOVES 2

/* Continues the walk where the goroutine's stack was left. The address that Go notes there marks the location. */
static __always_inline void go_over(struct walk *walk)
{
	struct go_stacks *go = &walk->scratch->go;

	go->next[0] = go->pc;
	go->next[1] = go->top;
	walk->fp = go->bp;
	go->is_left = 0;
	go->is_over = 1;
}

/*
 * Continues the walk after `cgocallback`, through which C has called Go. That function stores on the goroutine's stack what Go had
 * noted when it left this stack for C.
 *
 *   goroutine's stack                                               g0's stack
 *   fp       cgocallback's fp  ───────────────────────────────────► caller's fp
 *   fp + 8   return address, into cgocallback                       return address, into crosscall2
 *   fp + 16  cgocallback's frame: back_depth                        C
 *   left-8   mark
 *   left     return address, into cgocall
 *            cgocall's frame: call_depth
 *
 * The stack gets the address in cgocallback twice, like that of a function without a frame. This marks that the next frame was read
 * from its expected location, and not found by a frame pointer.
 */
static __always_inline void go_behind_callback(struct walk *walk, __u64 fp, __u64 caller_fp, __u64 address)
{
	struct go_stacks *go = &walk->scratch->go;
	__u64 left = fp + 24 + go->places.back_depth, words[2] = {};

	if (go->back_count < GO_MAX_BACKS)
		go->backs[go->back_count++ & (GO_MAX_BACKS - 1)] = caller_fp;
	walk->fp = left - 8;
	if (left > go->high || READ_USER(words[0], left - 8))
		return;
	go->next[0] = address;
	go->next[1] = go->places.code + go->places.mark;
	/* A thread that C made has not left a goroutine: its stack begins there. */
	go->next[2] = words[0];
	walk->fp = 0;
	if (left < go->high && !READ_USER(words[1], left) && has_called(go, &go->places.call, words[1])) {
		go->next[2] = words[1];
		walk->fp = left + go->places.call_depth;
	}
}

static __always_inline bool is_on_goroutine(struct go_stacks *go, __u64 fp)
{
	return go->low <= fp && fp < go->high;
}

static __always_inline long end_walk(struct walk *walk, __u32 end)
{
	/* C code on the thread's stack may not keep frame pointers, and while a stack is being moved, the frame pointer leads to its old
	 * location. The frames of the goroutine can be walked all the same. */
	if (walk->scratch->go.is_left) {
		go_over(walk);
		return 0;
	}
	walk->end = end;
	return 1;
}

/*
 * One step outwards.
 *
 *        higher addresses
 *   fp + 8   return address  -> the caller's frame
 *   fp + 0   caller's fp     -> the next step
 *        lower addresses
 *
 * The index comes from the loop's own counter: a counter kept in memory makes the verifier follow
 * every value of it. So each iteration gives one frame, or ends the walk.
 */
static long walk_step(__u32 i, struct walk *walk)
{
	struct go_stacks *go = &walk->scratch->go;
	/* Verifiers of older kernels (6.1) refuse to read what may not have been written. */
	__u64 pair[2] = {}, address;
	__u64 fp = walk->fp;

	if (go->is_left && fp == go->bp)
		go_over(walk);
	if (!go->next[0]) {
		__u32 end = 0;

		if (walk->has_begun || fp == 0) {
			end = WALK_ROOT;
		} else if (go->own_high && !go->is_over && (fp < go->own_low || fp >= go->own_high)) {
			end = WALK_NOT_MONOTONIC;
		} else if (fp & (sizeof(long) - 1)) {
			end = WALK_MISALIGNED;
		} else if (bpf_probe_read_user(pair, sizeof(pair), (void *)fp)) {
			end = WALK_UNREADABLE;
		} else {
			pair[1] = true_return(&walk->scratch->returns, fp + sizeof(long), pair[1]);
			if (pair[1] == 0)
				end = WALK_ZERO_RETURN;
		}
		if (end && end_walk(walk, end))
			return 1;
	}
	__u32 at = walk->base + 1 + (i & (MAX_USER_FRAMES - 1));
	if (at >= 128 + MAX_USER_FRAMES)
		return 1;
	walk->len = i + 2;
	if (go->next[0]) {
		walk->scratch->frames[at] = go->next[0];
		note_code(go, go->next[0]);
		go->next[0] = go->next[1];
		go->next[1] = go->next[2];
		go->next[2] = 0;
		return 0;
	}
	address = pair[1];
	walk->scratch->frames[at] = address;
	walk->fp = pair[0];
	if (!go->places.code_len)
		return pair[0] == 0 || pair[0] > fp ? 0 : end_walk(walk, WALK_NOT_MONOTONIC);
	note_code(go, address);
	for (int top = 0; top < GO_TOPS; top++)
		walk->has_begun |= has_called(go, &go->places.tops[top], address);
	if (walk->has_begun)
		return 0;
	if (is_on_goroutine(go, fp) && has_called(go, &go->places.back, address)) {
		go_behind_callback(walk, fp, pair[0], address);
		return 0;
	}
	/* The return address of its caller follows, without a frame in between. */
	if (has_called(go, &go->places.bare, address) && !READ_USER(go->next[1], fp + 16))
		go->next[0] = address;
	if (pair[0] == 0 || (pair[0] > fp && go->own_high))
		return 0;
	/* The next iteration checks where the frame pointer leads from g0's stack. */
	if (go->own_high && !go->is_over && (pair[0] == go->bp || pair[0] < go->own_low))
		return 0;
	if (!go->is_over && is_on_goroutine(go, pair[0]) && !is_on_goroutine(go, fp)) {
		/* A function read a clock, for which the runtime switched to a larger stack. The frame of that function is on this one. */
		go->is_over = 1;
		return 0;
	}
	if (pair[0] > fp)
		return 0;
	/* While Go moves a stack, frame pointers lead from the new location to the old one. */
	if (go->is_over && go->moves++ < GO_MAX_MOVES)
		return 0;
	return end_walk(walk, WALK_NOT_MONOTONIC);
}

/* Walks frame pointers with bpf_loop (kernel 5.17 and later) up to the requested depth, and stores how the walk ended. `caller` is the
 * return address if no frame of the leaf exists yet; else 0. */
VERIFIED_ALONE int walk_by_loop(__u32 slot, __u64 caller)
{
	struct scratch *scratch = scratch_of(slot);
	struct walk walk = { .scratch = scratch, .len = 1, .end = WALK_DEPTH };
	__u32 frames = max_user_frames;
	__u64 ip;

	if (!scratch)
		return 0;
	ip = scratch->registers.registers[REGISTER_COUNT - 1];
	walk.fp = scratch->registers.registers[FRAME_POINTER];
	walk.base = scratch->record.kernel_len & 127;
	scratch->frames[walk.base] = ip;
	note_code(&scratch->go, ip);
	scratch->go.next[0] = caller;
	/* Unwound stacks have no such limit, and for Go the walk replaces unwinding. */
	if (copy_mode != COPY_NOTHING && scratch->go.places.code_len)
		frames = MAX_USER_FRAMES;
	if (frames > 1)
		bpf_loop(frames - 1, walk_step, &walk, 0);
	if (walk.end == WALK_DEPTH && (walk.fp == 0 || walk.has_begun) && !scratch->go.next[0])
		walk.end = WALK_ROOT;
	scratch->record.user_len = walk.len;
	scratch->record.user_end = walk.end;
	return 0;
}

/* Lets the kernel walk, at most 127 frames. The kernel does not report why it stopped earlier. */
static __always_inline void walk_by_helper(void *ctx, struct scratch *scratch)
{
	__u32 base = scratch->record.kernel_len & 127;
	__u32 want = max_user_frames < max_kernel_frames ? max_user_frames : max_kernel_frames;

	if (want > MAX_KERNEL_FRAMES)
		want = MAX_KERNEL_FRAMES;
	long bytes = bpf_get_stack(ctx, &scratch->frames[base], want * sizeof(__u64), BPF_F_USER_STACK);

	if (bytes <= 0) {
		scratch->record.user_end = WALK_UNREADABLE;
		return;
	}
	scratch->record.user_len = bytes / sizeof(__u64);
	scratch->record.user_end = scratch->record.user_len == want ? WALK_DEPTH : WALK_UNSAID;
}

/* The innermost kernel frames in a program that the kernel calls through a trampoline: the program itself, and the trampoline. */
#define TRACING_FRAMES 2

/* The code up to the call of the trampoline at the begin of a function: `endbr64` and the call. */
#define CALL_OF_TRAMPOLINE 16

/* Returns how many of the innermost kernel frames are not of the stack at a function that calls our program itself. When it ends, the
 * stack is that of its caller; whether its own frame is still there depends on the kernel: on 6.1 it is, and on 7.2 it is not. */
static __always_inline __u32 frames_before_call(void *ctx)
{
	__u64 function = bpf_get_func_ip(ctx), frame = 0, returned;
	bool has_ended = !bpf_get_func_ret(ctx, &returned);

	if (has_ended && bpf_get_stack(ctx, &frame, sizeof(frame), TRACING_FRAMES) == sizeof(frame) &&
	    frame - function <= CALL_OF_TRAMPOLINE)
		return TRACING_FRAMES + 1;
	return TRACING_FRAMES;
}

/* Stores the kernel stack, without the innermost frames that are ours. */
static __always_inline void walk_kernel(void *ctx, struct scratch *scratch, __u32 ours)
{
	long bytes = bpf_get_stack(ctx, scratch->frames, MAX_KERNEL_FRAMES * sizeof(__u64), ours);

	if (bytes <= 0) {
		scratch->record.kernel_end = WALK_UNREADABLE;
		return;
	}
	scratch->record.kernel_len = bytes / sizeof(__u64);
	scratch->record.kernel_end = scratch->record.kernel_len >= max_kernel_frames ? WALK_DEPTH : WALK_ROOT;
}

#endif
