/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The snapshot of one sample: registers and stack of user space, for unwinding later. */
#ifndef ICECORE_SNAPSHOT_H
#define ICECORE_SNAPSHOT_H

#include "kernel.h"
#include "complete.h"
#include "executing.h"
#include "go.h"
#include "interpreted.h"
#include "interrupted.h"
#include "maps.h"
#include "pages.h"
#include "registers.h"
#include "returns.h"
#include "scratch.h"
#include "table_walk.h"
#include "walk.h"
#include "wire.h"

/* The most bytes that are sent of the stack of a leaf whose callers keep frame pointers. */
#define LEAF_BYTES (64 << 10)
/* The largest thread stack that Go makes. C made the larger ones, and they may extend beyond the bounds that Go has noted. */
#define MAX_OWN_STACK_BYTES (32 << 10)

/* Returns the address after the stack that a sample hit. Go has its stacks in its heap, so the mapping does not show where one ends; the
 * notes of the runtime do. */
static __always_inline __u64 sampled_stack_end(struct scratch *scratch, __u64 sp)
{
	struct go_stacks *go = &scratch->go;

	if (go->low <= sp && sp < go->high)
		return go->high;
	if (go->thread_low <= sp && sp < go->thread_high && go->thread_high - go->thread_low <= MAX_OWN_STACK_BYTES)
		return go->thread_high;
	return stack_end(scratch->record.head.tid, sp);
}

/* Sends the stack up to the frame to which the frame pointer leads, if the top was not enough. A leaf without a frame has its return address
 * there, and the frame pointer belongs to its caller. */
static __always_inline void send_leaf(__u32 slot, __u64 sp, __u64 fp, __u64 end)
{
	__u64 len = fp + 16 - sp;

	if (len > TOP_LEN && len <= LEAF_BYTES && fp + 16 <= end)
		send_stack(slot, sp, fp + 16);
}

/* Sends registers and stack of C code that called Go. */
static long send_callback(__u32 i, __u32 *slot)
{
	struct scratch *scratch = scratch_of(*slot);
	__u64 snapshot, at, pair[2], end;
	struct registers_record *taken;

	if (!scratch)
		return 1;
	snapshot = scratch->record.snapshot;
	at = scratch->go.backs[i & (GO_MAX_BACKS - 1)];
	if (bpf_probe_read_user(pair, sizeof(pair), (void *)at))
		return 1;
	taken = begin_snapshot(*slot, scratch, 1);
	__builtin_memset(taken->registers, 0, sizeof(taken->registers));
	taken->registers[FRAME_POINTER] = pair[0];
	taken->registers[STACK_POINTER] = at + sizeof(pair);
	taken->registers[REGISTER_COUNT - 1] = true_return(&scratch->returns, at + sizeof(pair[0]), pair[1]);
	end = stack_end(scratch->record.head.tid, at);
	if (send_registers(scratch, taken, end, 0))
		send_whole_stack(*slot, at + sizeof(pair), end);
	scratch->record.snapshot = snapshot;
	return 0;
}

/* Sends the registers in the buffer and the stack of a sample whose walk is done. */
static __always_inline void take_snapshot(__u32 slot, struct scratch *scratch, bool is_audited)
{
	struct registers_record *taken = begin_snapshot(slot, scratch, 0);
	__u64 sp = taken->registers[STACK_POINTER], fp = taken->registers[FRAME_POINTER];
	bool has_signal = is_on_signal_stack(sp);
	__u64 end = sampled_stack_end(scratch, sp);

	if (!send_registers(scratch, taken, end, scratch->go.places.code_len))
		return;
	if (has_signal || is_audited || !is_complete(slot)) {
		send_whole_stack(slot, sp, end);
		if (has_signal)
			send_interrupted(slot);
	} else if (!scratch->go.places.code_len) {
		send_leaf(slot, sp, fp, end);
	}
	bpf_loop(scratch->go.back_count, send_callback, &slot, 0);
}

/* Stores the frame of the leaf alone. */
static __always_inline int take_leaf(struct scratch *scratch, enum walk_end end)
{
	scratch->frames[scratch->record.kernel_len & 127] = scratch->registers.registers[REGISTER_COUNT - 1];
	scratch->record.user_len = 1;
	scratch->record.user_end = end;
	return 0;
}

/* Takes the user stack at the registers in the buffer. `at_entry`: they are those at the first instruction of a function. */
VERIFIED_ALONE int take_user_stack(__u32 slot, bool at_entry)
{
	struct scratch *scratch = scratch_of(slot);
	__u64 caller = 0;
	int left;

	if (!scratch)
		return 0;
	left = leave_probes(&scratch->returns, &scratch->registers);
	if (left == LEFT_BY_KERNEL) {
		scratch->record.user_end = WALK_UNREADABLE;
		return 0;
	}
	if (left == LEFT_BEFORE_RETURN)
		return take_leaf(scratch, WALK_ZERO_RETURN);
	if (has_given_stack_back())
		return take_leaf(scratch, WALK_UNREADABLE);
	/* The report finds the caller in the copy. */
	if (at_entry && copy_mode == COPY_NOTHING)
		caller = return_address(&scratch->returns, scratch->registers.registers);
	find_go_stacks(scratch->record.head.tgid, &scratch->go);
	if (walks_tables)
		find_interpreted(slot);
	if (walks_tables && walk_by_tables(slot)) {
		send_interpreted(slot, scratch);
		if (audited_of && bpf_get_prandom_u32() % audited_of == 0)
			take_snapshot(slot, scratch, 1);
		return 0;
	}
	walk_by_loop(slot, caller);
	if (copy_mode != COPY_NOTHING)
		take_snapshot(slot, scratch, 0);
	return 0;
}

#endif
