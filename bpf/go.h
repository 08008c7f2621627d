/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the recorder knows of Go code in a process, and the stacks that a thread of Go runs on. */
#ifndef ICECORE_GO_H
#define ICECORE_GO_H

#include "kernel.h"
#include "wire.h"

/* The most C stacks between two Go stacks that are sent. */
#define GO_MAX_BACKS 4

/* A range of code, as distances from the beginning of the Go code: `low` is inside, `high` is the first byte after it. */
struct go_range {
	__u32 low;
	__u32 high;
};

/* Where the Go code of a process lies, and where its runtime keeps the notes about its goroutines. User space has read all of it from
 * the file. */
struct go_places {
	/* Offsets in `g` and `m`, and the one of `g` from the thread's own memory. */
	__s32 g;
	__u32 m_of_g;
	__u32 curg_of_m;
	__u32 sp_of_g;
	__u32 pc_of_g;
	__u32 bp_of_g;
	/* The depth of the stack in `cgocallback` where it calls Go, and in `cgocall` where it calls C. */
	__u32 back_depth;
	__u32 call_depth;
	__u64 code;
	__u32 code_len;
	/* Stacks begin with the functions that these call: the first functions of threads, and those that have given up their goroutine. */
	struct go_range tops[GO_TOPS];
	/* Functions without a frame that call others. */
	struct go_range bare;
	/* The function in which C calls Go, and the one in which Go calls C. */
	struct go_range back;
	struct go_range call;
	/* An address in the function that marks where a stack was left. */
	__u32 mark;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct go_places);
} go_tgids SEC(".maps");

/*
 * Go runs parts of its runtime, and C code, on a stack of the thread (g0), and notes in `g.sched` where it has left the stack of the
 * goroutine. The first frame pointer there belongs to the function that was left, so that a plain walk would skip that function.
 *
 *   g0's stack              goroutine's stack
 *   ...                     g.sched.sp  return address   into the function that was left
 *   return address          ...
 *   caller's fp  ─────────► g.sched.bp  caller's fp
 */
struct go_stacks {
	/* All zero if the process has no Go code. */
	struct go_places places;
	/* The stack of g0. */
	__u64 thread_low;
	__u64 thread_high;
	/* The same with a margin; 0 if the thread does not run on it. */
	__u64 own_low;
	__u64 own_high;
	/* The goroutine, and its stack. */
	__u64 goroutine;
	__u64 low;
	__u64 high;
	/* Where the goroutine's stack was left. */
	__u64 sp;
	__u64 bp;
	__u64 pc;
	/* The return address on top of that stack; 0 if the frame there is complete. */
	__u64 top;
	/* Frames that the walk takes before it continues. */
	__u64 next[3];
	/* Frame pointers of `cgocallback` on g0's stack: C has called Go there. The innermost comes first. */
	__u64 backs[GO_MAX_BACKS];
	__u32 back_count;
	/* The walk is on the goroutine's stack. */
	__u32 is_over;
	/* How often the walk went back on that stack. */
	__u32 moves;
	/* The goroutine's stack was left, and the walk is not there yet. */
	__u32 is_left;
	/* The walk contains code that is not Go's. */
	__u32 is_foreign;
};

#define GO_STACK_OF_G 0
#define GO_G0_OF_M 0
/* The bounds of a stack that Go did not make are not exact. */
#define GO_SLACK_BYTES 256

/* Returns true if a return address follows a call in a function. */
static __always_inline bool has_called(const struct go_stacks *go, const struct go_range *function, __u64 return_address)
{
	return return_address - go->places.code - function->low - 1 < function->high - function->low;
}

/* Notes whether an address of a walk is outside of the Go code. */
static __always_inline void note_code(struct go_stacks *go, __u64 address)
{
	go->is_foreign |= address - go->places.code >= go->places.code_len;
}

/* Finds the stacks of a Go thread; all zero if it has none. Each word is checked against another. */
static __always_inline void find_go_stacks(__u32 tgid, struct go_stacks *go)
{
	__builtin_memset(go, 0, sizeof(*go));
#if defined(__TARGET_ARCH_x86)
	struct go_places *places = bpf_map_lookup_elem(&go_tgids, &tgid);
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 g, m, g0, curg, sp, bp, bounds[2];

	if (!places)
		return;
	go->places = *places;
	if (READ_USER(g, BPF_CORE_READ(task, thread.fsbase) + (__s64)places->g) || !g || READ_USER(m, g + places->m_of_g) ||
	    READ_USER(g0, m + GO_G0_OF_M) || READ_USER(curg, m + places->curg_of_m))
		return;
	if (READ_USER(bounds, g0 + GO_STACK_OF_G))
		return;
	go->thread_low = bounds[0];
	go->thread_high = bounds[1];
	if (g == g0) {
		go->own_low = bounds[0];
		go->own_high = bounds[1] + GO_SLACK_BYTES;
	} else if (g != curg) {
		return;
	}
	if (!curg || READ_USER(bounds, curg + GO_STACK_OF_G))
		return;
	go->goroutine = curg;
	go->low = bounds[0];
	go->high = bounds[1];
	if (g != g0 || READ_USER(sp, curg + places->sp_of_g) || READ_USER(bp, curg + places->bp_of_g))
		return;
	/* A running goroutine has no left stack. */
	if (sp < go->low || sp >= go->high || READ_USER(go->pc, curg + places->pc_of_g) || !go->pc)
		return;
	/* Since Go 1.21 the frame there is that of systemstack itself. */
	if (sp != bp && READ_USER(go->top, sp))
		return;
	/* After a callback from C the noted frame pointer belongs to another function. */
	if (has_called(go, &places->call, go->top))
		bp = sp + places->call_depth;
	if (bp && (bp < sp || bp >= go->high))
		return;
	go->sp = sp;
	go->bp = bp;
	go->is_left = 1;
#endif
}

#endif
