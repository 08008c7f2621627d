/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Registers of user space at a sample, and the top of its stack. */
#ifndef ICECORE_REGISTERS_H
#define ICECORE_REGISTERS_H

/* The number of the last snapshot, by CPU. Perf-event programs do not nest on a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} snapshot_numbers SEC(".maps");

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
#define STACK_POINTER 7
#define FRAME_POINTER 6
#else
#define COPY_REGISTERS(to, from)                                                                                      \
	do {                                                                                                          \
		_Pragma("unroll") for (int i = 0; i < 31; i++)(to)[i] = from(regs[i]);                                \
		(to)[31] = from(sp), (to)[32] = from(pc);                                                             \
	} while (0)
#define STACK_POINTER 31
#define FRAME_POINTER 29
#endif

/* Begins a snapshot, whose registers the caller fills in. */
static __always_inline struct registers_record *begin_snapshot(struct sample_record *record, bool is_outer)
{
	__u32 zero = 0;
	__u64 *number = bpf_map_lookup_elem(&snapshot_numbers, &zero);
	struct looking *looking = bpf_map_lookup_elem(&lookings, &zero);
	struct registers_record *taken;

	if (!looking || !number)
		return 0;
	taken = &looking->registers;
	taken->type = RECORD_REGISTERS;
	taken->cpu = record->head.cpu;
	taken->snapshot = ++*number;
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
static __always_inline bool send_registers(struct sample_record *record, struct registers_record *taken, __u64 end,
					   bool is_of_go)
{
	__u64 sp = taken->registers[STACK_POINTER];
	__u64 len = is_of_go ? top_len(taken) : TOP_LEN;

	taken->stack_end = end;
	if (bpf_probe_read_user(taken->top, len, (void *)sp))
		len = 0;
	taken->top_len = len;
	if (bpf_ringbuf_output(&ring, taken, offsetof(struct registers_record, top) + len, BPF_RB_NO_WAKEUP)) {
		count_loss(LOSS_STACK_SHORTENED);
		return 0;
	}
	record->snapshot = taken->snapshot;
	return 1;
}

#endif
