/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Registers of user space at a sample, and the top of its stack. */
#ifndef ICECORE_REGISTERS_H
#define ICECORE_REGISTERS_H

#include "kernel.h"
#include "maps.h"
#include "returns.h"
#include "scratch.h"
#include "wire.h"

#if defined(__TARGET_ARCH_x86)
/* `from(field)` reads a register. */
#define COPY_REGISTERS(to, from)                                                                                      \
	do {                                                                                                          \
		(to)[0] = from(ax), (to)[1] = from(dx), (to)[2] = from(cx), (to)[3] = from(bx);                       \
		(to)[4] = from(si), (to)[5] = from(di), (to)[6] = from(bp), (to)[7] = from(sp);                       \
		(to)[8] = from(r8), (to)[9] = from(r9), (to)[10] = from(r10), (to)[11] = from(r11);                   \
		(to)[12] = from(r12), (to)[13] = from(r13), (to)[14] = from(r14), (to)[15] = from(r15);               \
		(to)[16] = from(ip);                                                                                  \
	} while (0)
#else
#define COPY_REGISTERS(to, from)                                                                                      \
	do {                                                                                                          \
		_Pragma("unroll") for (int i = 0; i < 31; i++)(to)[i] = from(regs[i]);                                \
		(to)[31] = from(sp), (to)[32] = from(pc);                                                             \
	} while (0)
#endif

/* Reads a register of the code that a probe hit. */
#define PROBED(field) (*(volatile unsigned long *)&((struct context_regs *)ctx)->field)

/* Returns the return address at the first instruction of a function; 0 if it cannot be read. */
static __always_inline __u64 return_address(const struct returns *returns, const __u64 *registers)
{
#if defined(__TARGET_ARCH_x86)
	__u64 at = registers[STACK_POINTER], address;

	return READ_USER(address, at) ? 0 : true_return(returns, at, address);
#else
	return registers[30];
#endif
}

/* Returns the lower half of a register that holds an `int`; 0 if that is negative. */
static __always_inline __u64 as_int(__u64 value)
{
	return (__s32)value < 0 ? 0 : (__u32)value;
}

/* Returns what a function returned, WEIGHT_RETURN_VALUE or WEIGHT_RETURN_INT; 0 if that is negative. */
static __always_inline __u64 returned(__u64 value, __u32 weight)
{
	if (weight == WEIGHT_RETURN_INT)
		return as_int(value);
	return (__s64)value < 0 ? 0 : value;
}

/* Returns an argument of a function at its first instruction, counted from 1; 0 if it is not in a register. WEIGHT_RETURN_VALUE and
 * WEIGHT_RETURN_INT: what it returned, at its return. The context is read at fixed offsets alone: verifiers refuse others. */
static __always_inline __u64 argument(const struct context_regs *ctx, __u32 number)
{
#if defined(__TARGET_ARCH_x86)
	__u64 result = PROBED(ax);
	__u64 first = PROBED(di), second = PROBED(si), third = PROBED(dx), fourth = PROBED(cx), fifth = PROBED(r8), sixth = PROBED(r9);

	if (number >= WEIGHT_RETURN_VALUE)
		return returned(result, number);
	return number == 1 ? first :
	       number == 2 ? second :
	       number == 3 ? third :
	       number == 4 ? fourth :
	       number == 5 ? fifth :
	       number == 6 ? sixth :
			     0;
#else
	__u64 found = number >= WEIGHT_RETURN_VALUE ? returned(PROBED(regs[0]), number) : 0;

	_Pragma("unroll") for (__u32 i = 0; i < 8; i++)
	{
		__u64 value = PROBED(regs[i]);

		if (number == i + 1)
			found = value;
	}
	return found;
#endif
}

/* Returns the number of the next snapshot of a buffer. */
static __always_inline __u64 next_snapshot(__u32 slot, struct scratch *scratch)
{
	return (__u64)slot << SNAPSHOT_BITS | (++scratch->snapshots & ((1ULL << SNAPSHOT_BITS) - 1));
}

/* Begins a snapshot of the registers in the buffer. */
static __always_inline struct registers_record *begin_snapshot(__u32 slot, struct scratch *scratch, bool is_outer)
{
	struct registers_record *taken = &scratch->registers;

	taken->type = RECORD_REGISTERS;
	taken->snapshot = next_snapshot(slot, scratch);
	taken->is_outer = is_outer;
	return taken;
}

/* Returns how many bytes to copy of the stack of a Go leaf: from the stack pointer to the return address of the frame to which the
 * frame pointer leads, and one word more. In prologue and epilogue the function's own return address lies below that. */
static __always_inline __u64 top_len(const struct registers_record *taken)
{
	__u64 sp = taken->registers[STACK_POINTER], fp = taken->registers[FRAME_POINTER], len;

	/* Go calls the functions that clear and copy memory with a frame pointer below the stack pointer, which leads to the real one. */
	if (sp - fp <= 2 * sizeof(fp) && bpf_probe_read_user(&fp, sizeof(fp), (void *)fp))
		fp = 0;
	len = fp + 3 * sizeof(fp) - sp;
	if (len <= TOP_LEN || len >= MAX_TOP_LEN)
		len = TOP_LEN;
	/* The verifier forgets the comparison above. */
	asm volatile("" : "+r"(len));
	return len & (MAX_TOP_LEN - 8);
}

/* Sends registers and the top of the stack; returns false if the ring has no room. */
static __always_inline bool send_registers(struct scratch *scratch, struct registers_record *taken, __u64 end, bool is_of_go)
{
	__u64 sp = taken->registers[STACK_POINTER];
	__u64 len = is_of_go ? top_len(taken) : TOP_LEN;

	taken->stack_end = end;
	if (bpf_probe_read_user(taken->top, len, (void *)sp))
		len = 0;
	else if (scratch->returns.count)
		put_into_top(&scratch->returns, taken, sp);
	taken->top_len = len;
	if (bpf_ringbuf_output(&ring, taken, offsetof(struct registers_record, top) + len, BPF_RB_NO_WAKEUP)) {
		count_loss(LOSS_STACK_SHORTENED);
		return 0;
	}
	scratch->record.snapshot = taken->snapshot;
	return 1;
}

#endif
