/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The stacks of one sample, and how each walk ended. */
#ifndef ICECORE_WALK_H
#define ICECORE_WALK_H

/* One record under construction. Kernel frames are written first and user frames behind them, so the
 * record that goes into the ring has no gap. */
struct scratch {
	struct sample_record record;
	/* 128, not 127: a power of two lets the verifier bound an index with a mask. */
	__u64 frames[128 + MAX_USER_FRAMES];
};

/* Indexed by CPU. Perf-event programs do not nest on a CPU. (Values of per-CPU arrays end at 32 KiB.) */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

struct user_regs {
	__u64 ip;
	__u64 fp;
};

#if defined(__TARGET_ARCH_x86)
#define CONTEXT_IP(ctx) (*(volatile unsigned long *)&(ctx)->regs.ip)
#define CONTEXT_FP(ctx) (*(volatile unsigned long *)&(ctx)->regs.bp)
#define CONTEXT_IN_USER(ctx) ((*(volatile unsigned long *)&(ctx)->regs.cs & 3) != 0)
#define TASK_IP(saved) ((saved)->ip)
#define TASK_FP(saved) ((saved)->bp)
#else
#define CONTEXT_IP(ctx) (*(volatile __u64 *)&(ctx)->regs.pc)
#define CONTEXT_FP(ctx) (*(volatile __u64 *)&(ctx)->regs.regs[29])
#define CONTEXT_IN_USER(ctx) ((*(volatile __u64 *)&(ctx)->regs.pstate & 0xf) == 0)
#define TASK_IP(saved) ((saved)->pc)
#define TASK_FP(saved) ((saved)->regs[29])
#endif

struct walk {
	struct scratch *scratch;
	__u64 fp;
	__u32 base; /* index of the leaf frame: behind the kernel frames */
	__u32 len;
	__u32 end;
};

/*
 * One step outwards.
 *
 *        higher addresses
 *   fp + 8   return address  -> the caller's frame
 *   fp + 0   caller's fp     -> the next step
 *        lower addresses
 *
 * The index comes from the loop's own counter: a counter kept in memory makes the verifier follow
 * every value of it.
 */
static long walk_step(__u32 i, struct walk *walk)
{
	__u64 pair[2];
	__u64 fp = walk->fp;

	if (fp == 0) {
		walk->end = WALK_ROOT;
		return 1;
	}
	if (fp & (sizeof(long) - 1)) {
		walk->end = WALK_MISALIGNED;
		return 1;
	}
	if (bpf_probe_read_user(pair, sizeof(pair), (void *)fp)) {
		walk->end = WALK_UNREADABLE;
		return 1;
	}
	if (pair[1] == 0) {
		walk->end = WALK_ZERO_RETURN;
		return 1;
	}
	__u32 at = walk->base + 1 + (i & (MAX_USER_FRAMES - 1));
	if (at >= 128 + MAX_USER_FRAMES)
		return 1;
	walk->scratch->frames[at] = pair[1];
	walk->len = i + 2;
	walk->fp = pair[0];
	if (pair[0] != 0 && pair[0] <= fp) {
		walk->end = WALK_NOT_MONOTONIC;
		return 1;
	}
	return 0;
}

/* Walks frame pointers with bpf_loop (kernel 5.17 and later): as deep as asked, and says how it ended. */
static __always_inline void walk_by_loop(struct scratch *scratch, struct user_regs *regs)
{
	struct walk walk = {
		.scratch = scratch,
		.fp = regs->fp,
		.base = scratch->record.kernel_len & 127,
		.len = 1,
		.end = WALK_DEPTH,
	};

	scratch->frames[walk.base] = regs->ip;
	if (max_user_frames > 1)
		bpf_loop(max_user_frames - 1, walk_step, &walk, 0);
	if (walk.end == WALK_DEPTH && walk.fp == 0)
		walk.end = WALK_ROOT;
	scratch->record.user_len = walk.len;
	scratch->record.user_end = walk.end;
}

/* Lets the kernel walk: at most 127 frames, and it does not say why it stopped earlier. */
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

static __always_inline void walk_kernel(void *ctx, struct scratch *scratch)
{
	long bytes = bpf_get_stack(ctx, scratch->frames, MAX_KERNEL_FRAMES * sizeof(__u64), 0);

	if (bytes <= 0) {
		scratch->record.kernel_end = WALK_UNREADABLE;
		return;
	}
	scratch->record.kernel_len = bytes / sizeof(__u64);
	scratch->record.kernel_end = scratch->record.kernel_len >= max_kernel_frames ? WALK_DEPTH : WALK_ROOT;
}

#endif
